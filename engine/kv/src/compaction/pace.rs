//! How much writers are slowed when compaction is behind: pure functions of the shape, so that the engine and the simulator agree.
//!
//! Invariant: the delay grows from nothing at the policy's soft limit of runs to [`MAX_NANOS_PER_KIB`] at its hard limit and no
//! further.

use super::policy::run_limits;
use super::shape::Shape;
use crate::base::options::Policy;

/// The slowest that pacing makes a writer: 1 KiB in this many nanoseconds (4 MiB/s).
pub const MAX_NANOS_PER_KIB: u64 = 250_000;

/// How far a tree is between its policy's soft and hard limits of runs: 0 is fine, 1 is at the hard limit.
pub fn pressure(policy: &Policy, shape: &Shape) -> f64 {
    let (soft, hard) = run_limits(policy, shape);
    let runs = shape.runs.len();
    if runs <= soft { 0.0 } else { (runs - soft) as f64 / (hard.saturating_sub(soft)).max(1) as f64 }
}

/// The delay in nanoseconds for each KiB written.
pub fn delay(pressure: f64) -> u64 {
    let p = pressure.clamp(0.0, 1.0);
    // Squared: gentle at first, steep at the end.
    (p * p * MAX_NANOS_PER_KIB as f64) as u64
}
