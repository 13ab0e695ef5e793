//! Memtable of a tree with its log positions, writers and state.
//!
//! Invariants:
//! - Every record of the tree at or after `start` is in this memtable or a newer one. After
//!   sealing, every one before `end` is in this memtable or an older one.
//! - A writer enters under the write lock, before the memtable is sealed, and leaves after
//!   inserting.

use std::sync::{Arc, OnceLock};

use crate::memtable::{Memtable, SharedMemtable};
use crate::util::stripe::CachePadded;
use crate::util::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, yield_now};
use crate::wal::Lsn;

use crate::db::commit::probe_schedule::ProbeSchedule;

/// A memtable with its log positions.
pub struct MemHandle {
    /// The memtable.
    pub mem: SharedMemtable,
    /// Every record of the tree at or after this position is in this memtable or a newer one. It is
    /// the start of the first record, or the creation position while there is none.
    start: AtomicU64,
    /// Bytes that the memory budget charges for it.
    pub counted: AtomicU64,
    /// Set at sealing: every record of the tree before this position is in this memtable or an
    /// older one.
    pub end: OnceLock<Lsn>,
    /// Time of sealing by a writer, in nanoseconds of the monotonic clock.
    pub sealed_at: OnceLock<u64>,
    /// Schedule of tombstone probes.
    pub probes: ProbeSchedule,
    /// Writers that have entered. On its own cache line: every write changes it, and every reader
    /// reads the memtable's pointer.
    writers: CachePadded<AtomicU32>,
    touched: AtomicBool,
    flushed: AtomicBool,
}

impl MemHandle {
    /// Creates the handle of a new memtable for records from `start` on.
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

    /// Returns the handle of `mem`, which replaces this handle's memtable.
    pub fn grown(&self, mem: Arc<Memtable>) -> Arc<MemHandle> {
        let grown = MemHandle::new(mem, self.start());
        grown.touched.store(self.is_touched(), Ordering::Relaxed);
        grown.probes.go_on_from(&self.probes);
        grown
    }

    /// Registers a writer whose record begins at `at`. Called under the write lock, before the
    /// memtable is sealed. Returns whether it is the first writer.
    #[inline]
    pub fn enter(&self, at: Lsn) -> bool {
        self.writers.fetch_add(1, Ordering::Relaxed);
        let is_first = !self.is_touched();
        if is_first {
            // Records in between belong to other trees: an idle tree must not hold their log back.
            self.start.fetch_max(at, Ordering::Relaxed);
            self.touched.store(true, Ordering::Relaxed);
        }
        is_first
    }

    /// Returns the position at or after which every record of the tree is in this memtable or a
    /// newer one. For an active memtable, call it under the write lock.
    pub fn start(&self) -> Lsn {
        self.start.load(Ordering::Relaxed)
    }

    /// Reports whether a writer has entered.
    pub fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    /// Notes that no current view has it: only readers of older views hold it now.
    pub fn set_flushed(&self) {
        self.flushed.store(true, Ordering::Relaxed);
    }

    /// Reports whether only readers of older views hold it.
    pub fn is_flushed(&self) -> bool {
        self.flushed.load(Ordering::Relaxed)
    }

    /// Notes that a writer has inserted and published its entries.
    pub fn leave(&self) {
        self.writers.fetch_sub(1, Ordering::Release);
    }

    /// Waits for the writers of a sealed memtable. They have their log positions already, so this
    /// is short.
    pub fn wait_for_writers(&self) {
        while self.writers.load(Ordering::Acquire) != 0 {
            yield_now();
        }
    }
}
