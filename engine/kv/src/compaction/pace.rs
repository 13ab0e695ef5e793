//! The delay of writers when compaction is behind: pure functions of numbers of a shape, so that the
//! engine and the simulator agree.
//!
//! Invariants:
//! - The delay by runs grows from nothing at the policy's soft limit of runs to
//!   [`MAX_NANOS_PER_KIB`] at its hard limit and no further.
//! - The delay by flushes spreads the time that would be missing in the end over the whole
//!   memtable, and is bounded alike.

/// The slowest that pacing makes a writer: 1 KiB in this many nanoseconds (4 MiB/s).
pub const MAX_NANOS_PER_KIB: u64 = 250_000;

/// What a KiB of memtable is taken to need for its flush, in nanoseconds, as long as nothing has
/// been flushed: 200 MiB/s.
const FIRST_GUESS: u64 = 5_000;

/// How far a tree of so many runs is between its policy's soft and hard limits
/// ([`run_limits`](super::run_limits)): 0 is fine, 1 is at the hard limit.
pub fn pressure((soft, hard): (usize, usize), runs: usize) -> f64 {
    if runs <= soft {
        0.0
    } else {
        (runs - soft) as f64 / (hard.saturating_sub(soft)).max(1) as f64
    }
}

/// The delay in nanoseconds for each KiB written.
pub fn delay(pressure: f64) -> u64 {
    let p = pressure.clamp(0.0, 1.0);
    // Squared: gentle at first, steep at the end.
    (p * p * MAX_NANOS_PER_KIB as f64) as u64
}

/// The delay in nanoseconds for each KiB of a memtable of `memory` bytes that has just been begun
/// and must not be full before the flush that runs is done. That flush has run for `done`
/// nanoseconds, and the one before took `flush_per_kib` for each KiB (0: there was none); the
/// memtable before was full after `filled`, time that its writers slept or stood still not counted.
pub fn fill_delay(memory: usize, flush_per_kib: u64, done: u64, filled: u64) -> u64 {
    let kib = (memory / 1024).max(1) as u64;
    let flush = if flush_per_kib == 0 { FIRST_GUESS } else { flush_per_kib }.saturating_mul(kib);
    (flush.saturating_sub(done).saturating_sub(filled) / kib).min(MAX_NANOS_PER_KIB)
}
