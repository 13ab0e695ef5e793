//! Parameters common to all phases of a measurement.

use serde::{Deserialize, Serialize};
use std::time::Duration;

use crate::dist::Distribution;
use crate::keys::{MAX_KEY_SIZE, MIN_KEY_SIZE};
use crate::values::{MAX_VALUE_SIZE, ValueSize};

/// Parameters common to all phases of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Number of keys, at least 1. Default 1,000,000.
    pub keys: u64,
    /// Bytes of a key, 8 to 524,287. Default 16.
    pub key_size: usize,
    /// Bytes of a value in all phases; `None` (the default) for those of each phase.
    pub value_size: Option<ValueSize>,
    /// Fraction of a value's bytes that are random, 0 to 1; the rest repeats. Default 0.5, which
    /// LZ4 compresses to 0.55.
    pub random_share: f64,
    /// Random seed. Default 1.
    pub seed: u64,
    /// Times one operation in this many, at least 1. Default 16.
    pub sample_every: u64,
    /// Length of an interval of [`Outcome::series`](crate::Outcome::series). Default 1 s.
    pub interval: Duration,
    /// Maximum time of a phase; a full scan ignores it. Default none.
    pub max_time: Option<Duration>,
    /// Operations per second of all threads of a phase without a rate of its own, open-loop; `None`
    /// for the maximum.
    pub rate: Option<f64>,
    /// Operations per second of the writer beside readers; `None` for the maximum.
    pub write_rate: Option<f64>,
    /// Distribution of the keys of phases that choose them by chance, instead of their own.
    pub distribution: Option<Distribution>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            keys: 1_000_000,
            key_size: 16,
            value_size: None,
            random_share: 0.5,
            seed: 1,
            sample_every: 16,
            interval: Duration::from_secs(1),
            max_time: None,
            rate: None,
            write_rate: None,
            distribution: None,
        }
    }
}

impl Config {
    /// Checks that every value is within its bounds; the error names the value.
    pub fn check(&self) -> Result<(), String> {
        let bad = |what: &str| Err(format!("{what} is out of bounds"));
        if self.keys == 0 || self.keys > 1 << 48 {
            return bad("the number of keys");
        }
        if !(MIN_KEY_SIZE..=MAX_KEY_SIZE).contains(&self.key_size) {
            return Err(format!(
                "a key has {MIN_KEY_SIZE} to {MAX_KEY_SIZE} bytes, not {}",
                self.key_size
            ));
        }
        if self.value_size.is_some_and(|v| v.max() > MAX_VALUE_SIZE) {
            return bad("the size of a value");
        }
        if !(0.0..=1.0).contains(&self.random_share) {
            return bad("the random share of values");
        }
        if self.sample_every == 0 {
            return bad("sample_every");
        }
        if self.interval < Duration::from_millis(1) {
            return bad("interval");
        }
        if [self.rate, self.write_rate].iter().flatten().any(|r| !r.is_finite() || *r <= 0.0) {
            return bad("a rate");
        }
        self.distribution.iter().try_for_each(Distribution::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked() {
        assert_eq!(Config::default().check(), Ok(()));
        let off: [fn(&mut Config); 7] = [
            |c| c.keys = 0,
            |c| c.key_size = 7,
            |c| c.value_size = Some(ValueSize::Fixed(usize::MAX)),
            |c| c.random_share = 1.5,
            |c| c.sample_every = 0,
            |c| c.rate = Some(0.0),
            |c| c.distribution = Some(Distribution::Zipfian { theta: 1.0 }),
        ];
        for set in off {
            let mut config = Config::default();
            set(&mut config);
            assert!(config.check().is_err(), "{config:?}");
        }
    }

    #[test]
    fn settings_go_through_json() {
        let config = Config { distribution: Some(Distribution::ZIPFIAN), ..Config::default() };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
    }
}
