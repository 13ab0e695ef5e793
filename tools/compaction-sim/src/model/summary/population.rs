//! Expected numbers of distinct keys.

use firn_workload::dist::Zipfian;
use firn_workload::keys::Permutation;
use firn_workload::{Distribution, KeyRanges};

use crate::workload::SimPhase;

/// Relation between draws and distinct keys.
pub(super) enum Population {
    /// No key twice.
    Unique,
    /// No key twice, and no key of an earlier phase.
    New,
    /// Uniform over this many keys.
    Uniform(f64),
    /// Popular keys: pairs of draws and distinct keys over the whole domain, at equal steps of the
    /// logarithm of draws.
    Popular(Vec<f64>),
}

/// Maximum share of keys that a part is assumed to have when its draws are calculated: all keys
/// would need infinitely many draws.
const MOST_FULL: f64 = 1.0 - 1e-15;

/// Steps of the table of [`Population::Popular`] per factor of e, and the largest logarithm.
const STEPS: f64 = 12.0;
const LARGEST: f64 = 46.0;

impl Population {
    pub(super) fn of(phase: &SimPhase, keys: f64) -> Population {
        let keys = if phase.items > 0 { phase.items as f64 } else { keys };
        match phase.order {
            _ if phase.inserts > 0.0 => Population::New,
            Distribution::Zipfian { theta } => Population::Popular(popular(keys as u64, theta)),
            Distribution::Ranges(ranges) if ranges.key_a > 0.0 && ranges.key_b > 0.0 => {
                Population::Popular(table(&power_law(&ranges, keys)))
            }
            Distribution::Latest { theta } if phase.hashed => {
                Population::Popular(popular(keys as u64, theta))
            }
            // Each of their zones is even.
            Distribution::Uniform
            | Distribution::Hotspot { .. }
            | Distribution::Exponential { .. }
            | Distribution::Latest { .. }
            | Distribution::Ranges(_) => Population::Uniform(keys),
            Distribution::Sequential
            | Distribution::Unique
            | Distribution::Series(_)
            | Distribution::Queue { .. } => Population::Unique,
        }
    }

    /// Returns the distinct keys of `draws` in a part of the key space with this width.
    pub(super) fn distinct(&self, draws: f64, width: f64) -> f64 {
        match self {
            Population::Unique | Population::New => draws,
            Population::Uniform(keys) => {
                let n = keys * width;
                -n * (-draws / n).exp_m1()
            }
            Population::Popular(table) => {
                let all = draws / width;
                if all <= 1.0 {
                    return draws;
                }
                let at = all.ln() * STEPS;
                let i = (at as usize).min(table.len() - 2);
                let share = (at - i as f64).min(1.0);
                (table[i] * (1.0 - share) + table[i + 1] * share) * width
            }
        }
    }
}

impl Population {
    /// Returns the draws that make this many distinct keys in a part of this width: the inverse of
    /// [`distinct`](Population::distinct).
    pub(super) fn draws(&self, distinct: f64, width: f64) -> f64 {
        match self {
            Population::Unique | Population::New => distinct,
            Population::Uniform(keys) => {
                let n = keys * width;
                -n * (-(distinct / n).min(MOST_FULL)).ln_1p()
            }
            Population::Popular(table) => {
                let all = distinct / width;
                let i = table.partition_point(|&d| d <= all);
                if all <= 1.0 || i == 0 {
                    return distinct;
                }
                let (lo, hi) = (table[i - 1], table.get(i).copied().unwrap_or(table[i - 1]));
                let share = if hi > lo { (all - lo) / (hi - lo) } else { 0.0 };
                (((i - 1) as f64 + share) / STEPS).exp() * width
            }
        }
    }
}

/// Number of zones in which a gradual change of popularity along the keys is divided.
const ZONES: u64 = 12;

/// Returns the ranges of keys (shares of the key space) that are chosen evenly, with their shares
/// of the choices.
pub(super) fn zones(phase: &SimPhase, keys: f64) -> Vec<(f64, f64, f64)> {
    let by_share = |cumulated: &dyn Fn(f64) -> f64| {
        // The last key is the most recent one. Zones are narrower towards it.
        let edge = |i: u64| 1.0 - 2f64.powi(-(i as i32));
        let zone = |i: u64| {
            let (lo, hi) = (edge(i), if i + 1 == ZONES { 1.0 } else { edge(i + 1) });
            (lo, hi, cumulated(1.0 - lo) - cumulated(1.0 - hi))
        };
        (0..ZONES).map(zone).collect()
    };
    match phase.order {
        _ if phase.hashed => vec![(0.0, 1.0, 1.0)],
        Distribution::Hotspot { items, operations } => {
            vec![(0.0, items, operations), (items, 1.0, 1.0 - operations)]
        }
        Distribution::Exponential { percentile, share } => {
            let mean = -share / (1.0 - percentile / 100.0).ln();
            let all = 1.0 - (-1.0 / mean).exp();
            by_share(&|age| (1.0 - (-age / mean).exp()) / all)
        }
        Distribution::Latest { theta } => {
            let z = Zipfian::new(keys as u64, theta);
            let all = keys.powf(1.0 - theta) - 1.0;
            let first = z.chance(0);
            by_share(&|age| match (age * keys).max(0.0) {
                ranks if ranks < 1.0 => ranks * first,
                ranks => first + (1.0 - first) * (ranks.powf(1.0 - theta) - 1.0) / all,
            })
        }
        Distribution::Ranges(ranges) => {
            let n = ranges.ranges.clamp(1, keys as u64);
            let places = Permutation::new(n, 0);
            let width = 1.0 / n as f64;
            let zone = |(share, rank): (f64, u64)| {
                let lo = places.at(rank) as f64 * width;
                (lo, lo + width, share)
            };
            ranges.shares(n).into_iter().zip(0..).map(zone).collect()
        }
        _ => vec![(0.0, 1.0, 1.0)],
    }
}

/// Classes of keys: their number, and the probability of each.
type Classes = Vec<(f64, f64)>;

/// Returns the classes of the keys of hot ranges, as if there were one range with all keys. Ranks
/// beyond the keys of a range are spread evenly over its keys.
fn power_law(ranges: &KeyRanges, keys: f64) -> Classes {
    let n = ranges.ranges.max(1) as f64;
    let width = (keys / n).max(1.0);
    let up_to = |rank: f64| (ranges.key_a * rank.powf(ranges.key_b)).min(1.0);
    let rest = (1.0 - up_to(width)) / width;
    let (mut classes, mut rank) = (vec![], 0.0);
    while rank < width {
        let end = (rank + 1.0 + (rank / 16.0).floor()).min(width);
        let each = (up_to(end) - up_to(rank)) / (end - rank) + rest;
        classes.push(((end - rank) * n, each / n));
        rank = end;
    }
    classes
}

/// Returns the expected distinct keys for e^(i / STEPS) draws.
fn popular(keys: u64, skew: f64) -> Vec<f64> {
    let zipf = Zipfian::new(keys, skew);
    // Ranks in classes that widen with the rank.
    let mut classes: Classes = vec![];
    let mut rank = 0u64;
    while rank < keys {
        let end = (rank + 1 + rank / 16).min(keys);
        classes.push(((end - rank) as f64, zipf.chance(rank + (end - rank) / 2)));
        rank = end;
    }
    table(&classes)
}

/// Returns the expected distinct keys for e^(i / STEPS) draws.
fn table(classes: &Classes) -> Vec<f64> {
    let sum: f64 = classes.iter().map(|(n, p)| n * p).sum();
    let expected = |draws: f64| classes.iter().map(|(n, p)| -n * (-draws * p / sum).exp_m1()).sum();
    (0..=(LARGEST * STEPS) as usize).map(|i| expected((i as f64 / STEPS).exp())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_cover_all_keys_and_all_choices() {
        for text in
            ["uniform", "hotspot:0.1:0.7", "exponential", "latest:0.9", "prefix-dist", "zipfian"]
        {
            let order: Distribution = text.parse().unwrap();
            let mut all = zones(&SimPhase::of(order, 1, 0.0), 10_000.0);
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!((all.iter().map(|z| z.2).sum::<f64>() - 1.0).abs() < 1e-6, "{text}: {all:?}");
            assert!(all.iter().all(|z| z.2 >= 0.0 && z.1 > z.0), "{text}: {all:?}");
            assert!(all.windows(2).all(|w| (w[0].1 - w[1].0).abs() < 1e-9), "{text}: {all:?}");
            assert!((all[0].0, (all[all.len() - 1].1 * 1e9).round()) == (0.0, 1e9), "{text}");
        }
    }

    #[test]
    fn distinct_keys_are_those_of_the_bench() {
        use firn_workload::dist::Chooser;
        use firn_workload::rng::Draws;
        let keys = 20_000u64;
        for text in [
            "uniform",
            "zipfian:0.9",
            "hotspot:0.1:0.7",
            "exponential",
            "latest:0.9",
            "prefix-dist",
        ] {
            let order: Distribution = text.parse().unwrap();
            let phase = SimPhase::of(order, 1, 0.0);
            let population = Population::of(&phase, keys as f64);
            for draws in [2_000u64, 20_000, 100_000] {
                let mut chooser = Chooser::new(&order, keys, 3);
                let mut seen = vec![false; keys as usize];
                (0..draws)
                    .for_each(|i| seen[chooser.at(i, &mut Draws::new(3, i), keys) as usize] = true);
                let seen = seen.iter().filter(|s| **s).count() as f64;
                let expected: f64 = zones(&phase, keys as f64)
                    .into_iter()
                    .map(|(lo, hi, share)| population.distinct(draws as f64 * share, hi - lo))
                    .sum();
                assert!((expected / seen - 1.0).abs() < 0.05, "{text} {draws}: {expected} {seen}");
            }
        }
    }
}
