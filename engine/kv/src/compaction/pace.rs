//! Write delay when compaction or flushes fall behind, as pure functions of a shape's numbers. The
//! engine and the simulator therefore agree.
//!
//! Invariants:
//! - The delay by runs is zero at the policy's soft limit of runs. It grows to
//!   [`MAX_NANOS_PER_KIB`] at the hard limit and no further.
//! - The delay by flushes spreads the expected wait for the running flush over the whole memtable.
//!   It has the same bound.

/// Maximum delay: nanoseconds per KiB written (4 MiB/s).
pub const MAX_NANOS_PER_KIB: u64 = 250_000;

/// Assumed flush time in nanoseconds per KiB of memtable (200 MiB/s), before the first flush.
const FIRST_GUESS: u64 = 5_000;

/// Returns the position of a tree with `runs` runs between its policy's soft and hard limits
/// ([`run_limits`](super::run_limits)): 0 up to the soft limit, 1 at the hard limit.
pub fn pressure((soft, hard): (usize, usize), runs: usize) -> f64 {
    if runs <= soft {
        0.0
    } else {
        (runs - soft) as f64 / (hard.saturating_sub(soft)).max(1) as f64
    }
}

/// Returns the delay in nanoseconds per KiB written.
pub fn delay(pressure: f64) -> u64 {
    let p = pressure.clamp(0.0, 1.0);
    // Squared: mild at first, steep near the limit.
    (p * p * MAX_NANOS_PER_KIB as f64) as u64
}

/// Returns the delay in nanoseconds per KiB for a new memtable of `memory` bytes. The memtable must
/// not fill up before the running flush ends. That flush has run for `done` nanoseconds. The
/// previous flush took `flush_per_kib` nanoseconds per KiB (0 if there was none). The previous
/// memtable filled up in `filled` nanoseconds, excluding delays and stalls of its writers.
pub fn fill_delay(memory: usize, flush_per_kib: u64, done: u64, filled: u64) -> u64 {
    let kib = (memory / 1024).max(1) as u64;
    let flush = if flush_per_kib == 0 { FIRST_GUESS } else { flush_per_kib }.saturating_mul(kib);
    (flush.saturating_sub(done).saturating_sub(filled) / kib).min(MAX_NANOS_PER_KIB)
}
