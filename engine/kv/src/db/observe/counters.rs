//! Counters kept since a store was opened: of whole flushes and jobs, so a lock costs nothing.

use crate::base::reads::{ReadCounters, ReadStats};
use crate::base::sync::Mutex;
use crate::compaction::Action;
use crate::merge::retain::DroppedVersions;

/// Counters kept since a store was opened.
#[derive(Default)]
pub struct Counters {
    sums: Mutex<CounterSums>,
    /// What reads did of trees that were dropped.
    reads: ReadCounters,
}

/// What was counted.
#[derive(Clone, Copy, Default)]
pub struct CounterSums {
    /// Flushes.
    pub flushes: u64,
    /// Bytes of tables that they wrote.
    pub flush_out: u64,
    /// Nanoseconds that they took.
    pub flush_nanos: u64,
    /// Merging compactions.
    pub compactions: u64,
    /// Jobs that moved tables.
    pub moves: u64,
    /// Jobs that dropped tables.
    pub drops: u64,
    /// Bytes of tables that jobs read.
    pub compact_in: u64,
    /// Bytes of tables that jobs wrote.
    pub compact_out: u64,
    /// Nanoseconds that jobs took.
    pub compact_nanos: u64,
    /// Versions that jobs and flushes dropped.
    pub dropped: DroppedVersions,
}

impl Counters {
    /// What was counted until now.
    pub fn sums(&self) -> CounterSums {
        *self.sums.lock()
    }

    /// A flush has written so many bytes of tables.
    pub fn flushed(&self, bytes: u64, nanos: u64) {
        let mut sums = self.sums.lock();
        sums.flushes += 1;
        sums.flush_out += bytes;
        sums.flush_nanos += nanos;
    }

    /// A job has read and written so many bytes of tables.
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

    /// A job has dropped versions.
    pub fn dropped(&self, d: &DroppedVersions) {
        let all = &mut self.sums.lock().dropped;
        all.shadowed += d.shadowed;
        all.deletes += d.deletes;
        all.covered += d.covered;
        all.purged += d.purged;
    }

    /// A tree has been dropped, of which reads did this.
    pub fn dropped_tree(&self, reads: &ReadStats) {
        self.reads.add(reads);
    }

    /// What reads did of trees that were dropped.
    pub fn reads_of_dropped(&self) -> ReadStats {
        self.reads.told()
    }
}
