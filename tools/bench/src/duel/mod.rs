//! Two ways of doing the same, measured by turns: [`DuelMeter`] times, [`DuelReport`] prints. The
//! benches of the models above the engine use it.

mod meter;
mod report;

pub use meter::DuelMeter;
pub use report::DuelReport;

/// Operations of a round, and rounds of reads, where nothing speaks for other numbers.
pub const EACH: u64 = 500;
/// See [`EACH`].
pub const ROUNDS: u64 = 41;
/// What is a little slower or faster than another of the same kind is as fast.
pub const NOISE: f64 = 1.05;

/// A number that looks random and is the same for the same `n` (splitmix64).
pub fn scattered(n: u64) -> u64 {
    let x = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
