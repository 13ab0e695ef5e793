//! Scales the work of randomized tests.

/// Returns `count` times the number in the environment variable `FIRN_TEST_EFFORT`, by default 1.
///
/// Counts in the tests are those of an ordinary run; `.ci/nightly` multiplies them.
///
/// # Panics Panics if the variable is not a number.
#[must_use]
pub fn times_effort(count: u64) -> u64 {
    match std::env::var("FIRN_TEST_EFFORT") {
        Ok(text) => {
            let effort: u64 =
                text.parse().unwrap_or_else(|_| panic!("FIRN_TEST_EFFORT is {text:?}, no number"));
            count * effort
        }
        Err(_) => count,
    }
}
