//! mixgraph: the model of Facebook's ZippyDB from "Characterizing, Modeling, and Benchmarking
//! RocksDB Key-Value Workloads at Facebook" (FAST'20), with the parameter names of db_bench.
//!
//! The key space is divided into `keyrange_num` equal ranges. A query first chooses a range: the
//! probability of the i-th hottest is a·e^(b·i) + c·e^(d·i), scattered over the key space. Then it
//! chooses a key in it, whose popularity follows the power law a·x^b. Value sizes and scan lengths
//! are Generalized Pareto.
//!
//! One difference from db_bench: key, query type, value size and scan length come from independent
//! random numbers; db_bench derives them all from one, so that they are correlated.

use serde::{Deserialize, Serialize};

use crate::keys::Permutation;
use crate::rng::{Rng, mix};
use crate::values::Pareto;

/// Parameters of mixgraph; the default is the paper's "prefix_dist".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixParams {
    /// Popularity of keys inside a range: a of a·x^b; 0 for an even one.
    pub key_dist_a: f64,
    /// Popularity of keys inside a range: b.
    pub key_dist_b: f64,
    /// Popularity of ranges: a of a·e^(b·x) + c·e^(d·x); all 0 for an even one.
    pub keyrange_dist_a: f64,
    /// Popularity of ranges: b.
    pub keyrange_dist_b: f64,
    /// Popularity of ranges: c.
    pub keyrange_dist_c: f64,
    /// Popularity of ranges: d.
    pub keyrange_dist_d: f64,
    /// Number of ranges, at least 1.
    pub keyrange_num: u64,
    /// Sizes of values (value_theta, value_k, value_sigma; mix_max_value_size).
    pub value: Pareto,
    /// Lengths of scans (iter_theta, iter_k, iter_sigma; mix_max_scan_len).
    pub iter: Pareto,
    /// Fraction of reads; the three fractions need not add up to 1.
    pub mix_get_ratio: f64,
    /// Fraction of writes.
    pub mix_put_ratio: f64,
    /// Fraction of scans.
    pub mix_seek_ratio: f64,
    /// Rate over time, if limited.
    pub sine: Option<Sine>,
}

/// A rate of a·sin(b·t + c) + d operations a second at second t, over all threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sine {
    /// sine_a: how far the rate swings.
    pub a: f64,
    /// sine_b: 2π over the period in seconds.
    pub b: f64,
    /// sine_c: the phase.
    pub c: f64,
    /// sine_d: the mean rate.
    pub d: f64,
}

impl Sine {
    /// Returns the rate at second `t`; at least 1.
    pub fn rate(&self, t: f64) -> f64 {
        (self.a * (self.b * t + self.c).sin() + self.d).max(1.0)
    }
}

impl Default for Sine {
    fn default() -> Self {
        Sine { a: 1000.0, b: 0.000_073, c: 0.0, d: 4500.0 }
    }
}

impl Default for MixParams {
    fn default() -> Self {
        MixParams {
            key_dist_a: 0.002_312,
            key_dist_b: 0.3467,
            keyrange_dist_a: 14.18,
            keyrange_dist_b: -2.917,
            keyrange_dist_c: 0.0164,
            keyrange_dist_d: -0.080_82,
            keyrange_num: 30,
            value: Pareto { theta: 0.0, k: 0.2615, sigma: 25.45, max: 1024 },
            iter: Pareto { theta: 0.0, k: 2.517, sigma: 14.236, max: 10_000 },
            mix_get_ratio: 0.83,
            mix_put_ratio: 0.14,
            mix_seek_ratio: 0.03,
            sine: None,
        }
    }
}

impl MixParams {
    /// Returns the paper's "all_random": uniform keys.
    pub fn all_random() -> Self {
        MixParams { key_dist_a: 0.0, key_dist_b: 0.0, ..Self::all_dist() }
    }

    /// Returns the paper's "all_dist": popular keys are scattered over the whole key space.
    pub fn all_dist() -> Self {
        MixParams {
            keyrange_dist_a: 0.0,
            keyrange_dist_b: 0.0,
            keyrange_dist_c: 0.0,
            keyrange_dist_d: 0.0,
            keyrange_num: 1,
            ..Self::default()
        }
    }

    /// Returns the preset of this name: `prefix_dist`, `all_dist` or `all_random`.
    pub fn preset(name: &str) -> Result<Self, String> {
        match name {
            "prefix_dist" => Ok(Self::default()),
            "all_dist" => Ok(Self::all_dist()),
            "all_random" => Ok(Self::all_random()),
            _ => Err(format!(
                "mixgraph preset {name:?}: expected prefix_dist, all_dist or all_random"
            )),
        }
    }

    /// Checks the parameters; the error names the invalid ones.
    pub fn check(&self) -> Result<(), String> {
        let ratios = [self.mix_get_ratio, self.mix_put_ratio, self.mix_seek_ratio];
        if ratios.iter().any(|r| !(0.0..=1e9).contains(r)) || ratios.iter().sum::<f64>() <= 0.0 {
            return Err(format!("mixgraph's shares {ratios:?} must not be negative, nor all 0"));
        }
        if !(1..=1 << 20).contains(&self.keyrange_num) {
            return Err(format!("keyrange_num is {}; it must be 1 to 1048576", self.keyrange_num));
        }
        if self.value.max > crate::values::MAX_VALUE_SIZE as u64 {
            return Err(format!(
                "mix_max_value_size is {}; it must be at most {}",
                self.value.max,
                crate::values::MAX_VALUE_SIZE
            ));
        }
        Ok(())
    }
}

/// Draws key numbers.
#[derive(Clone, Debug)]
pub struct MixKeys {
    keys: u64,
    range_keys: u64,
    /// For each range, in key order, the probability that a query is for it or an earlier one.
    cumulated: Vec<f64>,
    power: Option<(f64, f64)>,
}

impl MixKeys {
    /// Creates a generator over `keys` (at least 1) keys. The same parameters scatter the hot
    /// ranges equally.
    pub fn new(params: &MixParams, keys: u64) -> Self {
        let ranges = params.keyrange_num.clamp(1, keys);
        let weight = |rank: u64| {
            let x = (rank + 1) as f64;
            params.keyrange_dist_a * (params.keyrange_dist_b * x).exp()
                + params.keyrange_dist_c * (params.keyrange_dist_d * x).exp()
        };
        let mut weights: Vec<f64> = (0..ranges).map(|r| weight(r).max(0.0)).collect();
        if !weights.iter().sum::<f64>().is_normal() {
            weights.fill(1.0);
        }
        let total: f64 = weights.iter().sum();
        let places = Permutation::new(ranges, 0);
        let mut at_place = vec![0.0; weights.len()];
        weights
            .iter()
            .zip(0..)
            .for_each(|(w, rank)| at_place[places.at(rank) as usize] = w / total);
        let cumulated = at_place
            .iter()
            .scan(0.0, |sum, share| {
                *sum += share;
                Some(*sum)
            })
            .collect();
        let power = (params.key_dist_a > 0.0 && params.key_dist_b > 0.0)
            .then(|| (1.0 / params.key_dist_a, 1.0 / params.key_dist_b));
        MixKeys { keys, range_keys: keys / ranges, cumulated, power }
    }

    /// Draws a key number.
    #[inline]
    pub fn sample(&self, rng: &mut Rng) -> u64 {
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

    fn draw(params: &MixParams, keys: u64, draws: u64) -> Vec<u64> {
        let (mut rng, source) = (Rng::new(1, 0), MixKeys::new(params, keys));
        let mut seen = vec![0; keys as usize];
        (0..draws).for_each(|_| seen[source.sample(&mut rng) as usize] += 1);
        seen
    }

    #[test]
    fn ranges_have_their_chance() {
        let params = MixParams { key_dist_a: 0.0, ..MixParams::default() };
        let (keys, draws) = (30_010u64, 300_000u64);
        let seen = draw(&params, keys, draws);
        let mut by_range: Vec<u64> = seen[..30_000].chunks(1000).map(|c| c.iter().sum()).collect();
        by_range.sort_unstable_by(|a, b| b.cmp(a));
        let weight = |x: f64| 14.18 * (-2.917 * x).exp() + 0.0164 * (-0.080_82 * x).exp();
        let total: f64 = (1..=30).map(|x| weight(f64::from(x))).sum();
        for (x, &got) in (1..).zip(&by_range[..3]) {
            let expected = weight(f64::from(x)) / total * draws as f64;
            assert!((got as f64 / expected - 1.0).abs() < 0.08, "rank {x}: {got} for {expected}");
        }
        assert!(by_range.iter().all(|&n| n > 0));
    }

    #[test]
    fn presets_differ_in_skew_as_the_paper_says() {
        let (keys, draws) = (100_000u64, 200_000u64);
        let touched = |p: &MixParams| draw(p, keys, draws).iter().filter(|&&c| c > 0).count();
        let (prefix, all_dist, random) = (
            touched(&MixParams::default()),
            touched(&MixParams::all_dist()),
            touched(&MixParams::all_random()),
        );
        assert!(prefix < all_dist && all_dist < random, "{prefix} {all_dist} {random}");
        // Uniform draws with replacement leave e^-2 of the keys untouched.
        assert!((86_000..87_000).contains(&random), "{random}");
    }

    #[test]
    fn keys_stay_in_bounds_and_repeat() {
        for keys in [1, 7, 30, 31, 1000] {
            assert_eq!(
                draw(&MixParams::default(), keys, 1000),
                draw(&MixParams::default(), keys, 1000)
            );
        }
        let even = MixParams { keyrange_num: 4, ..MixParams::all_random() };
        assert!(draw(&even, 10, 1000).iter().all(|&c| c > 50));
    }

    #[test]
    fn parameters_are_checked() {
        assert!(
            ["prefix_dist", "all_dist", "all_random"]
                .iter()
                .all(|p| MixParams::preset(p).is_ok_and(|p| p.check().is_ok()))
        );
        assert!(MixParams::preset("x").is_err());
        let none = MixParams {
            mix_get_ratio: 0.0,
            mix_put_ratio: 0.0,
            mix_seek_ratio: 0.0,
            ..MixParams::default()
        };
        assert!(none.check().is_err());
        assert!(MixParams { keyrange_num: 0, ..MixParams::default() }.check().is_err());
        let sine = Sine::default();
        assert!((sine.rate(0.0) - 4500.0).abs() < 1e-9 && sine.rate(21_517.0) > 5499.0);
        assert!(Sine { d: -1e6, ..sine }.rate(0.0) >= 1.0);
    }
}
