//! A memtable of a tree with its place in the log, its writers and its fate.
//!
//! Invariants:
//! - Every record of the tree at or after `start` is in this memtable or a newer one; once it is
//!   sealed, every one before `end` is in this memtable or an older one.
//! - A writer enters under the write lock, before it is sealed, and leaves when it has inserted.

use std::sync::{Arc, OnceLock};

use crate::memtable::{Memtable, SharedMemtable};
use crate::util::stripe::CachePadded;
use crate::util::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, yield_now};
use crate::wal::Lsn;

use crate::db::commit::probe_schedule::ProbeSchedule;

/// A memtable with its place in the log.
pub struct MemHandle {
    /// The memtable.
    pub mem: SharedMemtable,
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
    pub probes: ProbeSchedule,
    /// Every write counts up and down here, and every reader comes by the memtable's pointer.
    writers: CachePadded<AtomicU32>,
    touched: AtomicBool,
    flushed: AtomicBool,
}

impl MemHandle {
    /// A fresh memtable for records from `start` on.
    pub fn new(mem: Arc<Memtable>, start: Lsn) -> Arc<MemHandle> {
        let (writers, touched, flushed) =
            (CachePadded(AtomicU32::new(0)), AtomicBool::new(false), AtomicBool::new(false));
        let (end, sealed_at) = (OnceLock::new(), OnceLock::new());
        let (start, counted) = (AtomicU64::new(start), AtomicU64::new(0));
        let probes = ProbeSchedule::default();
        let mem = SharedMemtable::new(mem);
        Arc::new(MemHandle {
            mem,
            start,
            counted,
            end,
            sealed_at,
            probes,
            writers,
            touched,
            flushed,
        })
    }

    /// The handle of `mem`, which takes the place of this one's memtable.
    pub fn grown(&self, mem: Arc<Memtable>) -> Arc<MemHandle> {
        let grown = MemHandle::new(mem, self.start());
        grown.touched.store(self.is_touched(), Ordering::Relaxed);
        grown.probes.go_on_from(&self.probes);
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
