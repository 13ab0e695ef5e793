//! Expected numbers of distinct keys.

use firn_workload::dist::Zipfian;

use crate::workload::{Pattern, SimPhase};

/// Relation between draws and distinct keys.
pub(super) enum Population {
    /// No key twice.
    Unique,
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
        match phase.pattern {
            Pattern::Uniform => Population::Uniform(keys),
            Pattern::Zipfian(skew) => Population::Popular(popular(keys as u64, skew)),
            Pattern::Unique | Pattern::Series(_) | Pattern::Queue(_) | Pattern::Delete => {
                Population::Unique
            }
        }
    }

    /// Returns the distinct keys of `draws` in a part of the key space with this width.
    pub(super) fn distinct(&self, draws: f64, width: f64) -> f64 {
        match self {
            Population::Unique => draws,
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
            Population::Unique => distinct,
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

/// Returns the expected distinct keys for e^(i / STEPS) draws.
fn popular(keys: u64, skew: f64) -> Vec<f64> {
    let zipf = Zipfian::new(keys, skew);
    // Ranks in classes that widen with the rank: (number, probability of each).
    let mut classes: Vec<(f64, f64)> = vec![];
    let mut rank = 0u64;
    while rank < keys {
        let end = (rank + 1 + rank / 16).min(keys);
        classes.push(((end - rank) as f64, zipf.chance(rank + (end - rank) / 2)));
        rank = end;
    }
    let sum: f64 = classes.iter().map(|(n, p)| n * p).sum();
    let expected = |draws: f64| classes.iter().map(|(n, p)| -n * (-draws * p / sum).exp_m1()).sum();
    (0..=(LARGEST * STEPS) as usize).map(|i| expected((i as f64 / STEPS).exp())).collect()
}
