//! The view of a tree, which a reader takes with one pointer: memtables and runs of one moment.
//!
//! Invariants:
//! - A [`TreeView`] never changes; a new one replaces it. Whoever holds one (by epoch or by count)
//!   holds its memtables and files.
//! - Sources are ordered newest first: the active memtable, the sealed ones, the runs. For one key
//!   every version in an earlier source is newer than all in later ones, so a search stops at the
//!   first version it may see.
//! - Views of one tree are replaced only under the tree's `view_lock`.

use std::sync::{Arc, OnceLock};

use crate::base::horizon::Horizon;
use crate::base::key::Seq;
use crate::base::options::TreeOptions;
use crate::base::reads::ReadCounters;
use crate::base::sync::epoch::Guard;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, yield_now};
use crate::compaction::RunShape;
use crate::manifest::RunState;
use crate::memtable::Memtable;
use crate::merge::gaps::Gaps;
use crate::merge::run::TableRun;
use crate::wal::Lsn;

use super::behind::Looks;
use super::meters::Meters;
use super::tree::TreeCore;

/// A memtable with its place in the log.
pub struct MemHandle {
    /// The memtable.
    pub mem: Arc<Memtable>,
    /// Every record of the tree at or after this position is in this memtable or a newer one: where
    /// its first record begins, or, as long as it has none, where it was made.
    start: AtomicU64,
    /// Bytes that the budget counts for it.
    pub counted: AtomicU64,
    /// Set when it is sealed: every record of the tree before this position is in this memtable or
    /// older.
    pub end: OnceLock<Lsn>,
    /// Set with it by writers: the monotonic clock in nanoseconds.
    pub sealed_at: OnceLock<u64>,
    /// When its next writer looks behind itself.
    pub looks: Looks,
    writers: AtomicU32,
    touched: AtomicBool,
    flushed: AtomicBool,
}

impl MemHandle {
    /// A fresh memtable for records from `start` on.
    pub fn new(mem: Arc<Memtable>, start: Lsn) -> Arc<MemHandle> {
        let (writers, touched, flushed) =
            (AtomicU32::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let (end, sealed_at) = (OnceLock::new(), OnceLock::new());
        let (start, counted) = (AtomicU64::new(start), AtomicU64::new(0));
        let looks = Looks::default();
        Arc::new(MemHandle {
            mem,
            start,
            counted,
            end,
            sealed_at,
            looks,
            writers,
            touched,
            flushed,
        })
    }

    /// The handle of `mem`, which takes the place of this one's memtable.
    pub fn grown(&self, mem: Arc<Memtable>) -> Arc<MemHandle> {
        let grown = MemHandle::new(mem, self.start());
        grown.touched.store(self.is_touched(), Ordering::Relaxed);
        grown.looks.go_on_from(&self.looks);
        grown
    }

    /// Says that a writer whose record begins at this place in the log will insert here. Called
    /// under the write lock, before the memtable is sealed. True when it is the first.
    #[inline]
    pub fn enter(&self, at: Lsn) -> bool {
        self.writers.fetch_add(1, Ordering::Relaxed);
        let is_first = !self.is_touched();
        if is_first {
            // What came between is of other trees: a tree that was not written for long must not
            // ask for that log.
            self.start.fetch_max(at, Ordering::Relaxed);
            self.touched.store(true, Ordering::Relaxed);
        }
        is_first
    }

    /// Every record of the tree at or after this position is in this memtable or a newer one. Of a
    /// memtable that is not sealed, under the write lock.
    pub fn start(&self) -> Lsn {
        self.start.load(Ordering::Relaxed)
    }

    /// Whether any writer has been sent here.
    pub fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    /// Says that no current view names it any more: only readers of older states hold it now.
    pub fn set_flushed(&self) {
        self.flushed.store(true, Ordering::Relaxed);
    }

    /// Whether only readers of older states hold it.
    pub fn is_flushed(&self) -> bool {
        self.flushed.load(Ordering::Relaxed)
    }

    /// Says that the writer has inserted and published.
    pub fn leave(&self) {
        self.writers.fetch_sub(1, Ordering::Release);
    }

    /// Waits for the writers of a sealed memtable to finish: they have their place in the log
    /// already, so this is short.
    pub fn wait_for_writers(&self) {
        while self.writers.load(Ordering::Acquire) != 0 {
            yield_now();
        }
    }
}

/// The runs of a tree, newest first; three pictures of each.
#[derive(Default)]
pub struct TreeVersion {
    /// For readers.
    pub runs: Vec<Arc<TableRun>>,
    /// For policies, no table marked as busy.
    pub shapes: Vec<Arc<RunShape>>,
    /// In the manifest.
    pub states: Vec<Arc<RunState>>,
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
    /// Where nothing is to be seen.
    pub gaps: Arc<Gaps>,
}

impl TreeView {
    /// The view of `tree` and a read point of one moment: the view has all that may be read at the
    /// point, and holds it as long as it lives. The view is taken first, because tables that come
    /// later may lack versions that a read point before them needs. But what enters by a change of
    /// the view, as ingested tables do, enters before its number may be read: so the view must
    /// still be the same one after the read point was taken, else a later write could be seen in
    /// its memtable without the ingestion before it.
    pub fn at_one_moment<'g>(
        tree: &TreeCore,
        visible: &Horizon,
        guard: &'g Guard,
    ) -> (&'g TreeView, Seq) {
        loop {
            let view = tree.view.load(guard);
            #[cfg(test)]
            super::tests::between();
            let read = visible.now();
            if std::ptr::eq(view, tree.view.load(guard)) {
                return (view, read);
            }
        }
    }

    /// The memtables, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<MemHandle>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }
}
