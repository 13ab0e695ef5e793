//! Hot ranges of keys: the choice of keys in mixgraph, the model of Facebook's ZippyDB from
//! "Characterizing, Modeling, and Benchmarking RocksDB Key-Value Workloads at Facebook" (FAST'20).
//!
//! The key space is divided into equal ranges. An operation first chooses a range: the probability
//! of the i-th hottest is a·e^(b·i) + c·e^(d·i), scattered over the key space. Then it chooses a
//! key in it, whose popularity follows the power law a·x^b.
//!
//! One difference from db_bench: key, operation, value size and scan length come from independent
//! random numbers; db_bench derives them all from one, so that they are correlated.

use std::fmt;

use crate::keys::Permutation;
use crate::rng::{Random, mix};

/// Popularity of key ranges and of the keys in them. As text `ranges:` and the fields in this
/// order, separated by colons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyRanges {
    /// Popularity of keys inside a range (db_bench's `key_dist_a`): a of a·x^b; 0 for an even one.
    pub key_a: f64,
    /// Popularity of keys inside a range (`key_dist_b`): b.
    pub key_b: f64,
    /// Popularity of ranges (`keyrange_dist_a`): a of a·e^(b·x) + c·e^(d·x); all 0 for an even one.
    pub range_a: f64,
    /// Popularity of ranges: b.
    pub range_b: f64,
    /// Popularity of ranges: c.
    pub range_c: f64,
    /// Popularity of ranges: d.
    pub range_d: f64,
    /// Number of ranges (`keyrange_num`), 1 to 1,048,576.
    pub ranges: u64,
}

impl KeyRanges {
    /// The paper's "prefix_dist".
    pub const PREFIX_DIST: KeyRanges = KeyRanges {
        key_a: 0.002_312,
        key_b: 0.3467,
        range_a: 14.18,
        range_b: -2.917,
        range_c: 0.0164,
        range_d: -0.080_82,
        ranges: 30,
    };

    /// The paper's "all_dist": popular keys are scattered over the whole key space.
    pub const ALL_DIST: KeyRanges = KeyRanges {
        range_a: 0.0,
        range_b: 0.0,
        range_c: 0.0,
        range_d: 0.0,
        ranges: 1,
        ..KeyRanges::PREFIX_DIST
    };

    /// Checks the parameters; the error names the invalid one.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=1 << 20).contains(&self.ranges) {
            return Err(format!(
                "the number of ranges is {}; it must be 1 to 1048576",
                self.ranges
            ));
        }
        Ok(())
    }

    /// Returns the share of the operations on each of `ranges` ranges, the hottest first.
    pub fn shares(&self, ranges: u64) -> Vec<f64> {
        let weight = |rank: u64| {
            let x = (rank + 1) as f64;
            self.range_a * (self.range_b * x).exp() + self.range_c * (self.range_d * x).exp()
        };
        let mut weights: Vec<f64> = (0..ranges).map(|r| weight(r).max(0.0)).collect();
        if !weights.iter().sum::<f64>().is_normal() {
            weights.fill(1.0);
        }
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|w| *w /= total);
        weights
    }
}

impl fmt::Display for KeyRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeyRanges { key_a, key_b, range_a, range_b, range_c, range_d, ranges } = self;
        write!(f, "ranges:{key_a}:{key_b}:{range_a}:{range_b}:{range_c}:{range_d}:{ranges}")
    }
}

/// Draws key numbers from [`KeyRanges`].
#[derive(Clone, Debug)]
pub struct RangeChooser {
    keys: u64,
    range_keys: u64,
    /// For each range, in key order, the probability that a query is for it or an earlier one.
    cumulated: Vec<f64>,
    power: Option<(f64, f64)>,
}

impl RangeChooser {
    /// Creates a generator over `keys` (at least 1) keys. The same parameters scatter the hot
    /// ranges equally.
    pub fn new(params: &KeyRanges, keys: u64) -> Self {
        let ranges = params.ranges.clamp(1, keys);
        let weights = params.shares(ranges);
        let places = Permutation::new(ranges, 0);
        let mut at_place = vec![0.0; weights.len()];
        weights.iter().zip(0..).for_each(|(w, rank)| at_place[places.at(rank) as usize] = *w);
        let cumulated = at_place
            .iter()
            .scan(0.0, |sum, share| {
                *sum += share;
                Some(*sum)
            })
            .collect();
        let power = (params.key_a > 0.0 && params.key_b > 0.0)
            .then(|| (1.0 / params.key_a, 1.0 / params.key_b));
        RangeChooser { keys, range_keys: keys / ranges, cumulated, power }
    }

    /// Draws a key number.
    #[inline]
    pub fn sample(&self, rng: &mut impl Random) -> u64 {
        let u = rng.unit();
        let last = self.cumulated.len() - 1;
        let range = self.cumulated.partition_point(|&c| c <= u).min(last) as u64;
        // The last range has the remainder of the division.
        let width = if range as usize == last {
            self.keys - self.range_keys * range
        } else {
            self.range_keys
        };
        let offset = match self.power {
            None => rng.below(width),
            Some((inverse_a, inverse_b)) => {
                // x with a·x^b = u: a popularity rank, whose key is scattered over the range.
                let rank = (rng.unit() * inverse_a).powf(inverse_b).ceil();
                mix(rank as u64) % width
            }
        };
        range * self.range_keys + offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Draws;

    const EVEN_IN_RANGE: KeyRanges = KeyRanges { key_a: 0.0, ..KeyRanges::PREFIX_DIST };

    fn draw(params: &KeyRanges, keys: u64, draws: u64) -> Vec<u64> {
        let source = RangeChooser::new(params, keys);
        let mut seen = vec![0; keys as usize];
        (0..draws).for_each(|i| seen[source.sample(&mut Draws::new(1, i)) as usize] += 1);
        seen
    }

    #[test]
    fn ranges_have_their_chance() {
        let (keys, draws) = (30_010u64, 300_000u64);
        let seen = draw(&EVEN_IN_RANGE, keys, draws);
        let mut by_range: Vec<u64> = seen[..30_000].chunks(1000).map(|c| c.iter().sum()).collect();
        by_range.sort_unstable_by(|a, b| b.cmp(a));
        for (share, &got) in EVEN_IN_RANGE.shares(30).into_iter().zip(&by_range[..3]) {
            let expected = share * draws as f64;
            assert!((got as f64 / expected - 1.0).abs() < 0.08, "{got} for {expected}");
        }
        assert!(by_range.iter().all(|&n| n > 0));
    }

    #[test]
    fn presets_differ_in_skew_as_the_paper_says() {
        let (keys, draws) = (100_000u64, 200_000u64);
        let touched = |p: &KeyRanges| draw(p, keys, draws).iter().filter(|&&c| c > 0).count();
        let (prefix, all) = (touched(&KeyRanges::PREFIX_DIST), touched(&KeyRanges::ALL_DIST));
        // Uniform draws with replacement would leave e^-2 of the keys untouched.
        assert!(prefix < all && all < 86_000, "{prefix} {all}");
    }

    #[test]
    fn keys_stay_in_bounds_and_repeat() {
        for keys in [1, 7, 30, 31, 1000] {
            assert_eq!(
                draw(&KeyRanges::PREFIX_DIST, keys, 1000),
                draw(&KeyRanges::PREFIX_DIST, keys, 1000)
            );
        }
        let even = KeyRanges { key_a: 0.0, ranges: 4, ..KeyRanges::ALL_DIST };
        assert!(draw(&even, 10, 10_000).iter().all(|&c| c > 500));
        assert!(KeyRanges { ranges: 0, ..even }.check().is_err());
    }
}
