//! Comparison of two alternatives in turns: [`DuelMeter`] times, [`DuelReport`] prints. The benches
//! of the models above the engine use it.

mod meter;
mod report;

pub use meter::DuelMeter;
pub use report::DuelReport;

/// Default number of operations of a round.
pub const EACH: u64 = 500;
/// Default number of rounds.
pub const ROUNDS: u64 = 41;
/// Ratio up to which two results of the same type count as equal.
pub const NOISE: f64 = 1.05;

/// Returns a pseudo-random number for `n` (splitmix64).
pub fn scattered(n: u64) -> u64 {
    let x = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
