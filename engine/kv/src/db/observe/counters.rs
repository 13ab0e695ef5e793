//! Counters since a store was opened. Whole flushes and jobs update them, so the lock costs little.

use crate::compaction::Action;
use crate::counters::reads::{ReadCounters, ReadStats};
use crate::rewrite::retain::DroppedVersions;
use crate::util::sync::Mutex;

/// Counters since a store was opened.
#[derive(Default)]
pub struct Counters {
    sums: Mutex<CounterSums>,
    /// Reads of trees that have been dropped.
    reads: ReadCounters,
}

/// Sums of flushes and compactions.
#[derive(Clone, Copy, Default)]
pub struct CounterSums {
    /// Number of flushes.
    pub flushes: u64,
    /// Bytes of tables that flushes wrote.
    pub flush_out: u64,
    /// Nanoseconds that flushes took.
    pub flush_nanos: u64,
    /// Number of compactions that merged tables.
    pub compactions: u64,
    /// Number of compactions that moved tables without rewriting them.
    pub moves: u64,
    /// Number of compactions that dropped whole tables.
    pub drops: u64,
    /// Bytes of tables that compactions read.
    pub compact_in: u64,
    /// Bytes of tables that compactions wrote.
    pub compact_out: u64,
    /// Nanoseconds that compactions took.
    pub compact_nanos: u64,
    /// Versions that compactions and flushes dropped.
    pub dropped: DroppedVersions,
}

impl Counters {
    /// Returns the present sums.
    pub fn sums(&self) -> CounterSums {
        *self.sums.lock()
    }

    /// Adds a flush that wrote `bytes` of tables in `nanos` nanoseconds.
    pub fn flushed(&self, bytes: u64, nanos: u64) {
        let mut sums = self.sums.lock();
        sums.flushes += 1;
        sums.flush_out += bytes;
        sums.flush_nanos += nanos;
    }

    /// Adds a compaction that read and wrote these bytes of tables in `nanos` nanoseconds.
    pub fn compacted(&self, action: Action, read: u64, written: u64, nanos: u64) {
        let mut sums = self.sums.lock();
        match action {
            Action::Merge => sums.compactions += 1,
            Action::Move => sums.moves += 1,
            Action::Drop => sums.drops += 1,
        }
        sums.compact_in += read;
        sums.compact_out += written;
        sums.compact_nanos += nanos;
    }

    /// Adds versions that a job dropped.
    pub fn dropped(&self, d: &DroppedVersions) {
        let all = &mut self.sums.lock().dropped;
        all.shadowed += d.shadowed;
        all.deletes += d.deletes;
        all.covered += d.covered;
        all.filtered += d.filtered;
    }

    /// Adds the reads of a tree that has been dropped.
    pub fn dropped_tree(&self, reads: &ReadStats) {
        self.reads.add(reads);
    }

    /// Returns the reads of all trees that have been dropped.
    pub fn reads_of_dropped(&self) -> ReadStats {
        self.reads.report()
    }
}
