//! Snapshot of a tree's structure for readers: memtables, runs and options. It is immutable and
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
use crate::db::versions::live_blobs::LiveBlobs;

/// Runs of a tree, newest first, in three representations.
#[derive(Default)]
pub struct TreeVersion {
    /// For readers.
    pub runs: Vec<Arc<TableRun>>,
    /// For compaction pickers; no table is marked busy.
    pub shapes: Vec<Arc<RunShape>>,
    /// For the manifest.
    pub states: Vec<Arc<RunState>>,
    /// Contents of its blob files.
    pub values: LiveBlobs,
}

/// Immutable structure of a tree at one time.
#[derive(Clone)]
pub struct TreeView {
    /// Active memtable.
    pub active: Arc<MemHandle>,
    /// Immutable memtables, newest first.
    pub sealed: Vec<Arc<MemHandle>>,
    /// Tables.
    pub version: Arc<TreeVersion>,
    /// Options of the tree, with hooks.
    pub options: Arc<TreeOptions>,
    /// Name of the tree.
    pub name: Arc<str>,
    /// Meters of its operations.
    pub meters: Arc<Meters>,
    /// Counters of its readers.
    pub reads: Arc<ReadCounters>,
    /// Read cost that may trigger a compaction.
    pub read_debt: Arc<ReadDebt>,
    /// Ranges known to have no visible keys.
    pub empty_ranges: Arc<EmptyRangeCache>,
}

impl TreeVersion {
    /// Returns its tables: newest run first, by key within a run.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        tables_of(&self.runs)
    }

    /// Returns the number of runs, and the bytes of their tables and blob files.
    pub fn extent(&self) -> (usize, u64) {
        (self.runs.len(), self.shapes.iter().map(|r| r.size()).sum::<u64>() + self.values.size)
    }
}

impl TreeView {
    /// Returns the immutable memtables without `but`.
    pub fn without(&self, gone: Option<&MemHandle>) -> Vec<Arc<MemHandle>> {
        let is_gone = |m: &MemHandle| gone.is_some_and(|gone| std::ptr::eq(m, gone));
        self.sealed.iter().filter(|m| !is_gone(m)).cloned().collect()
    }

    /// Returns the hash of the prefix that all keys of a range share, if filters hold prefixes.
    #[inline]
    pub fn prefix_hash(&self, range: &VisibleRange) -> Option<u64> {
        let (f, until) = self.options.filter_prefix.as_deref().zip(range.until.as_deref())?;
        f.shared_len(&range.from, until).map(|n| key_hash(&range.from[..n]))
    }

    /// Returns the memtables, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<MemHandle>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }
}
