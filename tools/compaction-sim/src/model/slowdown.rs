//! The engine's slowdown of writers in a simulation.

use firn_kv::internals::compaction::{delay, fill_delay, pressure};

/// Delays of writers: by the number of runs, and by the fill and flush speeds of memtables. Times
/// in nanoseconds.
pub(super) struct SimSlowdown {
    memtable_size: usize,
    /// Bytes per operation in the engine's slowdown.
    memory_per_op: f64,
    /// Delay per KiB of memtable because of the number of runs.
    run_delay: u64,
    /// Delay per KiB of memtable because of a late flush.
    fill_delay: u64,
    /// Time per KiB of the last flush; 0 before the first.
    flush_per_kib: u64,
    /// Start time of the present memtable, and time that writers had been slowed or stalled until
    /// then.
    begun: f64,
    waited: f64,
}

impl SimSlowdown {
    pub(super) fn new(memtable_size: usize, memory_per_op: f64) -> SimSlowdown {
        SimSlowdown {
            memtable_size,
            memory_per_op,
            run_delay: 0,
            fill_delay: 0,
            flush_per_kib: 0,
            // The start of the first memtable does not count.
            begun: f64::NEG_INFINITY,
            waited: 0.0,
        }
    }

    /// Returns the delay of an operation.
    pub(super) fn nanos(&self) -> f64 {
        self.run_delay.max(self.fill_delay) as f64 * self.memory_per_op / 1024.0
    }

    /// Records that a memtable was sealed, and sets the pace at which the next one may fill.
    /// `waited` is the time that writers were slowed or stalled so far. `flushing` is the time that
    /// the running flush has taken, if the next memtable would have to wait for a flush.
    pub(super) fn sealed(&mut self, now: f64, waited: f64, flushing: Option<f64>) {
        let (elapsed, idle) = (now - self.begun, waited - self.waited);
        self.fill_delay = flushing.map_or(0, |done| {
            // The casts saturate.
            let filled = (elapsed - idle) as u64;
            fill_delay(self.memtable_size, self.flush_per_kib, done as u64, filled)
        });
        (self.begun, self.waited) = (now, waited);
    }

    /// Records the duration of a flush.
    pub(super) fn flushed(&mut self, nanos: f64) {
        let kib = (self.memtable_size / 1024).max(1) as f64;
        self.flush_per_kib = (nanos / kib) as u64;
    }

    /// Records the number of runs, given the numbers at which writers are slowed.
    pub(super) fn runs_changed(&mut self, limits: (usize, usize), runs: usize) {
        self.run_delay = delay(pressure(limits, runs));
    }
}
