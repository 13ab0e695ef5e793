//! What a reader sees of a tree: its memtables, its runs and its options, as one value that is
//! replaced as a whole.

use std::sync::Arc;

use crate::base::options::TreeOptions;
use crate::compaction::RunShape;
use crate::counters::read_debt::ReadDebt;
use crate::counters::reads::ReadCounters;
use crate::iterator::empty_range_cache::EmptyRangeCache;
use crate::iterator::run::{TableRun, tables_of};
use crate::iterator::table_handle::TableHandle;
use crate::iterator::visible::VisibleRange;
use crate::manifest::RunState;
use crate::util::hash::key_hash;

use crate::db::commit::mem_handle::MemHandle;
use crate::db::observe::meters::Meters;
use crate::db::versions::live_blobs::LiveValues;

/// The runs of a tree, newest first; three pictures of each.
#[derive(Default)]
pub struct TreeVersion {
    /// For readers.
    pub runs: Vec<Arc<TableRun>>,
    /// For policies, no table marked as busy.
    pub shapes: Vec<Arc<RunShape>>,
    /// In the manifest.
    pub states: Vec<Arc<RunState>>,
    /// What its blob files hold.
    pub values: LiveValues,
}

/// What a reader sees.
#[derive(Clone)]
pub struct TreeView {
    /// The memtable that takes writes.
    pub active: Arc<MemHandle>,
    /// Memtables on their way to tables, newest first.
    pub sealed: Vec<Arc<MemHandle>>,
    /// The tables.
    pub version: Arc<TreeVersion>,
    /// The tree's options, hooks included.
    pub options: Arc<TreeOptions>,
    /// The tree's name.
    pub name: Arc<str>,
    /// Where seeks are timed.
    pub meters: Arc<Meters>,
    /// What its readers did.
    pub reads: Arc<ReadCounters>,
    /// What they pay for its sources.
    pub read_debt: Arc<ReadDebt>,
    /// Where nothing is to be seen.
    pub empty_ranges: Arc<EmptyRangeCache>,
}

impl TreeVersion {
    /// Its tables, newest run first, in a run by key.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        tables_of(&self.runs)
    }

    /// How many runs there are, and the bytes of their tables and of blob files.
    pub fn extent(&self) -> (usize, u64) {
        (self.runs.len(), self.shapes.iter().map(|r| r.size()).sum::<u64>() + self.values.size)
    }
}

impl TreeView {
    /// The sealed memtables but one.
    pub fn without(&self, gone: Option<&MemHandle>) -> Vec<Arc<MemHandle>> {
        let is_gone = |m: &MemHandle| gone.is_some_and(|gone| std::ptr::eq(m, gone));
        self.sealed.iter().filter(|m| !is_gone(m)).cloned().collect()
    }

    /// Hash of the prefix that all keys of a range share, where filters hold prefixes.
    #[inline]
    pub fn prefix_hash(&self, range: &VisibleRange) -> Option<u64> {
        let (f, until) = self.options.filter_prefix.as_deref().zip(range.until.as_deref())?;
        f.shared_len(&range.from, until).map(|n| key_hash(&range.from[..n]))
    }

    /// The memtables, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<MemHandle>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }
}
