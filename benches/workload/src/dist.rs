//! Key distributions: the choice of one of `n` items, as in YCSB.
//!
//! Zipfian numbers use the method of Gray et al. ("Quickly generating billion-record synthetic
//! databases", SIGMOD'94). Its constant zeta(n) is summed term by term up to 1,000 and by the
//! Euler-Maclaurin formula above. So a billion items cost as much to set up as a thousand, and the
//! number of items may grow from draw to draw.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

use crate::keys::Permutation;
use crate::ranges::{KeyRanges, RangeChooser};
use crate::rng::{Draws, Random, mix};

/// The order in which operations choose among the items 0 to n − 1. Operation `i` chooses item
/// `i` mod n in the order of the first four.
///
/// As text: `sequential`, `unique`, `series:N`, `queue[:share]`, `uniform`, `zipfian[:theta]`,
/// `latest[:theta]`, `hotspot[:share of items:share of operations]`,
/// `exponential[:percentile:share of items]`, `prefix-dist`, `all-dist`, or `ranges` with the seven
/// parameters of [`KeyRanges`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Distribution {
    /// 0, 1, 2 and so on, then from 0 again.
    Sequential,
    /// Each item once, in random order; then again, in another order.
    Unique,
    /// This many (at least 1) interleaved series of ascending items, as of as many sensors.
    Series(u64),
    /// Ascending items. Once there are enough, each second operation takes the oldest item instead
    /// and deletes it.
    Queue {
        /// Share of all items that are in the filled queue, above 0 and below 1.
        share: f64,
    },
    /// Each item with equal chance.
    Uniform,
    /// Few items often, the rest seldom; popular items are scattered over all items.
    Zipfian {
        /// Skew, above 0 and below 1; YCSB's is 0.99.
        theta: f64,
    },
    /// Zipfian with the most recent item as the most popular one.
    Latest {
        /// Skew, as above.
        theta: f64,
    },
    /// A share of the operations goes to the first items, evenly; the rest to the others, evenly.
    Hotspot {
        /// Share of the items that are hot; YCSB's is 0.2.
        items: f64,
        /// Share of the operations that take a hot item; YCSB's is 0.8.
        operations: f64,
    },
    /// The age of the item taken, counted from the most recent one, is exponentially distributed.
    Exponential {
        /// Percentage of the operations that take one of the most recent `share` of the items;
        /// YCSB's is 95.
        percentile: f64,
        /// That share; YCSB's is 0.8571428571.
        share: f64,
    },
    /// Hot ranges of items with hot items in them, as mixgraph's.
    Ranges(KeyRanges),
}

impl TryFrom<String> for Distribution {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Distribution> for String {
    fn from(d: Distribution) -> String {
        d.to_string()
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Distribution::Sequential => f.write_str("sequential"),
            Distribution::Unique => f.write_str("unique"),
            Distribution::Series(n) => write!(f, "series:{n}"),
            Distribution::Queue { share } => write!(f, "queue:{share}"),
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::Zipfian { theta } => write!(f, "zipfian:{theta}"),
            Distribution::Latest { theta } => write!(f, "latest:{theta}"),
            Distribution::Hotspot { items, operations } => {
                write!(f, "hotspot:{items}:{operations}")
            }
            Distribution::Exponential { percentile, share } => {
                write!(f, "exponential:{percentile}:{share}")
            }
            Distribution::Ranges(ranges) => ranges.fmt(f),
        }
    }
}

impl Distribution {
    /// YCSB's skew.
    pub const THETA: f64 = 0.99;

    /// Zipfian with YCSB's skew.
    pub const ZIPFIAN: Distribution = Distribution::Zipfian { theta: Self::THETA };

    /// Latest with YCSB's skew.
    pub const LATEST: Distribution = Distribution::Latest { theta: Self::THETA };

    /// Reports whether operations choose items by chance, independently of each other.
    pub fn is_random(&self) -> bool {
        !matches!(
            self,
            Distribution::Sequential
                | Distribution::Unique
                | Distribution::Series(_)
                | Distribution::Queue { .. }
        )
    }

    /// Checks that every parameter is within its bounds; the error names the parameter.
    pub fn check(&self) -> Result<(), String> {
        let open = |name: &str, v: f64, hi: f64| {
            if v > 0.0 && v < hi {
                Ok(())
            } else {
                Err(format!("{name} is {v}; it must be between 0 and {hi}"))
            }
        };
        match *self {
            Distribution::Sequential | Distribution::Unique | Distribution::Uniform => Ok(()),
            Distribution::Series(0) => Err("the number of series is 0".to_owned()),
            Distribution::Series(_) => Ok(()),
            Distribution::Queue { share } => open("the share of the queue", share, 1.0),
            Distribution::Ranges(ranges) => ranges.check(),
            Distribution::Zipfian { theta } | Distribution::Latest { theta } => {
                open("theta", theta, 1.0)
            }
            Distribution::Hotspot { items, operations } => {
                open("the share of hot items", items, 1.0)?;
                open("the share of hot operations", operations, 1.0)
            }
            Distribution::Exponential { percentile, share } => {
                open("the percentile", percentile, 100.0)?;
                open("the share of items", share, 1.0 + f64::EPSILON)
            }
        }
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let given: Vec<f64> = parts
            .map(|p| p.parse().map_err(|e| format!("distribution {text:?}: {p:?}: {e}")))
            .collect::<Result<_, String>>()?;
        let parsed = match (name, &given[..]) {
            ("sequential", []) => Distribution::Sequential,
            ("unique", []) => Distribution::Unique,
            ("series", &[n]) => Distribution::Series(n as u64),
            ("queue", []) => Distribution::Queue { share: 0.1 },
            ("queue", &[share]) => Distribution::Queue { share },
            ("prefix-dist", []) => Distribution::Ranges(KeyRanges::PREFIX_DIST),
            ("all-dist", []) => Distribution::Ranges(KeyRanges::ALL_DIST),
            ("ranges", &[key_a, key_b, range_a, range_b, range_c, range_d, ranges]) => {
                Distribution::Ranges(KeyRanges {
                    key_a,
                    key_b,
                    range_a,
                    range_b,
                    range_c,
                    range_d,
                    ranges: ranges as u64,
                })
            }
            ("uniform", []) => Distribution::Uniform,
            ("zipfian", []) => Distribution::ZIPFIAN,
            ("zipfian", &[theta]) => Distribution::Zipfian { theta },
            ("latest", []) => Distribution::LATEST,
            ("latest", &[theta]) => Distribution::Latest { theta },
            ("hotspot", []) => Distribution::Hotspot { items: 0.2, operations: 0.8 },
            ("hotspot", &[items, operations]) => Distribution::Hotspot { items, operations },
            ("exponential", []) => {
                Distribution::Exponential { percentile: 95.0, share: 0.857_142_857_1 }
            }
            ("exponential", &[percentile, share]) => {
                Distribution::Exponential { percentile, share }
            }
            _ => {
                return Err(format!(
                    "distribution {text:?}: expected sequential, unique, series:N, queue[:share], uniform, \
                     zipfian[:theta], latest[:theta], hotspot[:items:operations], \
                     exponential[:percentile:share], prefix-dist, all-dist, or ranges with seven numbers"
                ));
            }
        };
        parsed.check()?;
        Ok(parsed)
    }
}

/// Returns the sum of i^-theta for `after` < i <= `to`.
fn zeta(after: u64, to: u64, theta: f64) -> f64 {
    const TERMS: u64 = 1000;
    let exact_to = to.min(after.max(TERMS));
    let term = |i: u64| (i as f64).powf(-theta);
    let head: f64 = (after + 1..=exact_to).map(term).sum();
    if to <= exact_to {
        return head;
    }
    // Euler-Maclaurin for the terms above `exact_to`: integral, half the difference of the ends,
    // first derivatives.
    let (a, b) = (exact_to as f64, to as f64);
    let integral = (b.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta);
    let ends = (term(to) - term(exact_to)) / 2.0;
    let slope = theta / 12.0 * (a.powf(-theta - 1.0) - b.powf(-theta - 1.0));
    head + integral + ends + slope
}

/// Ranks 0 to n − 1 with the probability of rank r proportional to (r + 1)^-theta; rank 0 is the
/// most popular.
#[derive(Clone, Debug)]
pub struct Zipfian {
    n: u64,
    theta: f64,
    zeta_n: f64,
    zeta_2: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    /// Creates a distribution over `n` items (at least 1), with a skew above 0 and below 1.
    pub fn new(n: u64, theta: f64) -> Self {
        let mut z = Zipfian {
            n: 0,
            theta,
            zeta_n: 0.0,
            zeta_2: zeta(0, 2, theta),
            alpha: 1.0 / (1.0 - theta),
            eta: 0.0,
        };
        z.grow(n.max(1));
        z
    }

    /// Extends it to `n` items, which must not be fewer than before.
    #[inline]
    pub fn grow(&mut self, n: u64) {
        if n > self.n {
            // Each step from a small sum is exact; a step from above 1,000 has constant cost.
            self.zeta_n += zeta(self.n, n, self.theta);
            self.n = n;
            self.eta =
                (1.0 - (2.0 / n as f64).powf(1.0 - self.theta)) / (1.0 - self.zeta_2 / self.zeta_n);
        }
    }

    /// Returns the probability of `rank`.
    pub fn chance(&self, rank: u64) -> f64 {
        ((rank + 1) as f64).powf(-self.theta) / self.zeta_n
    }

    /// Draws a rank.
    #[inline]
    pub fn sample(&self, rng: &mut impl Random) -> u64 {
        let u = rng.unit();
        let uz = u * self.zeta_n;
        if uz < 1.0 {
            return 0;
        }
        if uz < self.zeta_2 {
            return 1.min(self.n - 1);
        }
        let rank = self.n as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.n - 1)
    }
}

/// Chooses the items of operations by a [`Distribution`].
#[derive(Clone, Debug)]
pub struct Chooser {
    rule: ChooserRule,
    /// The order of unique items, or of the popular ones; by the seed.
    order: Permutation,
    /// Number of items that the order has, and the seed and the round of it.
    ordered: u64,
    seed: u64,
    round: u64,
}

#[derive(Clone, Debug)]
enum ChooserRule {
    Sequential,
    Unique,
    Series(u64),
    Queue(u64),
    Uniform,
    Zipfian(Zipfian),
    Latest(Zipfian),
    Hotspot(f64, f64),
    /// The mean age over the number of items.
    Exponential(f64),
    Ranges(RangeChooser),
}

impl Chooser {
    /// Creates a chooser for `distribution` over initially `n` items. Equal seeds give equal
    /// items.
    pub fn new(distribution: &Distribution, n: u64, seed: u64) -> Self {
        let n = n.max(1);
        let rule = match *distribution {
            Distribution::Sequential => ChooserRule::Sequential,
            Distribution::Unique => ChooserRule::Unique,
            Distribution::Series(series) => ChooserRule::Series(series.clamp(1, n)),
            Distribution::Queue { share } => ChooserRule::Queue(queue_length(n, share)),
            Distribution::Uniform => ChooserRule::Uniform,
            Distribution::Zipfian { theta } => ChooserRule::Zipfian(Zipfian::new(n, theta)),
            Distribution::Latest { theta } => ChooserRule::Latest(Zipfian::new(n, theta)),
            Distribution::Hotspot { items, operations } => ChooserRule::Hotspot(items, operations),
            Distribution::Exponential { percentile, share } => {
                ChooserRule::Exponential(-share / (1.0 - percentile / 100.0).ln())
            }
            Distribution::Ranges(ranges) => ChooserRule::Ranges(RangeChooser::new(&ranges, n)),
        };
        Chooser { rule, order: Permutation::new(n, mix(seed)), ordered: n, seed, round: 0 }
    }

    /// Returns the item of operation `i` among the current `n` (at least 1) items. `draws` are the
    /// operation's own.
    #[inline]
    pub fn at(&mut self, i: u64, draws: &mut Draws, n: u64) -> u64 {
        match &mut self.rule {
            ChooserRule::Sequential => i % n,
            ChooserRule::Unique => {
                let round = i / self.ordered;
                if round != self.round {
                    self.round = round;
                    self.order = Permutation::new(
                        self.ordered,
                        mix(self.seed).wrapping_add(round.wrapping_mul(31)),
                    );
                }
                self.order.at(i % self.ordered)
            }
            ChooserRule::Series(series) => {
                let (series, length) = (*series, n / *series);
                (i % series) * length + (i / series) % length.max(1)
            }
            ChooserRule::Queue(length) => queue_item(i, *length).0,
            ChooserRule::Uniform => draws.below(n),
            ChooserRule::Zipfian(z) => {
                z.grow(n);
                let rank = z.sample(draws);
                // Items that were added later are the least popular ones.
                if rank < self.ordered { self.order.at(rank) } else { rank }
            }
            ChooserRule::Latest(z) => {
                z.grow(n);
                (n - 1).saturating_sub(z.sample(draws))
            }
            ChooserRule::Hotspot(items, operations) => {
                let hot = ((n as f64 * *items) as u64).clamp(1, n);
                if hot == n || draws.unit() < *operations {
                    draws.below(hot)
                } else {
                    hot + draws.below(n - hot)
                }
            }
            ChooserRule::Exponential(mean) => loop {
                let age = (-draws.unit_above_zero().ln() * *mean * n as f64) as u64;
                if age < n {
                    break n - 1 - age;
                }
            },
            ChooserRule::Ranges(ranges) => ranges.sample(draws),
        }
    }
}

/// Returns the length of the filled queue that has this share of `n` items.
pub fn queue_length(n: u64, share: f64) -> u64 {
    ((n as f64 * share).round() as u64).max(1)
}

/// Returns the item of operation `i` on a queue of this length, and whether it deletes it.
#[inline]
pub fn queue_item(i: u64, length: u64) -> (u64, bool) {
    let turn = match i.checked_sub(length) {
        None => return (i, false),
        Some(turn) => turn,
    };
    if turn.is_multiple_of(2) { (length + turn / 2, false) } else { (turn / 2, true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(distribution: Distribution, n: u64, draws: u64, seed: u64) -> Vec<u64> {
        let mut chooser = Chooser::new(&distribution, n, seed);
        let mut seen = vec![0; n as usize];
        (0..draws).for_each(|i| seen[chooser.at(i, &mut Draws::new(seed, i), n) as usize] += 1);
        seen
    }

    #[test]
    fn zeta_by_formula_is_zeta_by_sum() {
        for theta in [0.2, 0.5, 0.99] {
            for (after, to) in [(0, 10), (0, 1000), (0, 200_000), (1500, 1501), (1500, 90_000)] {
                let sum: f64 = (after + 1..=to).map(|i: u64| (i as f64).powf(-theta)).sum();
                let got = zeta(after, to, theta);
                assert!(
                    (got - sum).abs() < 1e-9 * sum.max(1.0),
                    "theta {theta}, {after}..{to}: {got} for {sum}"
                );
            }
        }
        let (mut grown, at_once) = (Zipfian::new(1, 0.99), Zipfian::new(50_000, 0.99));
        (2..=50_000).for_each(|n| grown.grow(n));
        assert!(
            (grown.zeta_n - at_once.zeta_n).abs() < 1e-8 && (grown.eta - at_once.eta).abs() < 1e-8
        );
    }

    #[test]
    fn zipfian_ranks_have_their_mass() {
        let (n, draws) = (10_000u64, 400_000u64);
        let z = Zipfian::new(n, 0.99);
        assert!(((0..n).map(|r| z.chance(r)).sum::<f64>() - 1.0).abs() < 1e-9);
        let mut seen = vec![0u64; n as usize];
        (0..draws).for_each(|i| seen[z.sample(&mut Draws::new(5, i)) as usize] += 1);
        // Ranks 0 and 1 are exact; the rest is Gray's approximation, within a few percent in sums
        // over ranges.
        for (ranks, slack) in [
            (0..1, 0.02),
            (1..2, 0.03),
            (2..10, 0.12),
            (10..100, 0.06),
            (100..1000, 0.05),
            (1000..n, 0.05),
        ] {
            let expected = ranks.clone().map(|r| z.chance(r)).sum::<f64>() * draws as f64;
            let got: u64 = seen[ranks.start as usize..ranks.end as usize].iter().sum();
            assert!(
                (got as f64 / expected - 1.0).abs() < slack,
                "ranks {ranks:?}: {got} for {expected}"
            );
        }
    }

    #[test]
    fn scattered_zipfian_keeps_its_head() {
        let (n, draws) = (1_000u64, 200_000u64);
        let mut seen = counts(Distribution::ZIPFIAN, n, draws, 9);
        let hottest = seen.iter().enumerate().max_by_key(|&(_, c)| c).map(|(i, _)| i as u64);
        assert_eq!(hottest, Some(Permutation::new(n, mix(9)).at(0)));
        seen.sort_unstable_by(|a, b| b.cmp(a));
        let z = Zipfian::new(n, 0.99);
        assert!(seen[0] as f64 >= z.chance(0) * draws as f64 * 0.98, "head {}", seen[0]);
        let tenth: u64 = seen[..100].iter().sum();
        assert!(tenth as f64 > 0.6 * draws as f64, "the hottest tenth has {tenth} of {draws}");
    }

    #[test]
    fn uniform_and_sequential_cover_evenly() {
        let seen = counts(Distribution::Uniform, 100, 1_000_000, 3);
        let chi: f64 = seen.iter().map(|&c| (c as f64 - 1e4).powi(2) / 1e4).sum();
        // 99 degrees of freedom: 99.9 % of samples are below 149.
        assert!(chi < 149.0, "chi-square {chi}");
        assert!(
            counts(Distribution::Sequential, 10, 25, 0)
                .iter()
                .enumerate()
                .all(|(i, &c)| c == if i < 5 { 3 } else { 2 })
        );
    }

    #[test]
    fn latest_follows_growth() {
        let mut chooser = Chooser::new(&Distribution::LATEST, 10, 2);
        let mut newest = 0;
        for n in 10..20_000u64 {
            let item = chooser.at(n, &mut Draws::new(2, n), n);
            assert!(item < n);
            newest += u64::from(item == n - 1);
        }
        let expected: f64 =
            (10..20_000u64).map(|n| 1.0 / zeta(0, n.min(1000), 0.99).max(1.0)).sum();
        // zeta grows beyond n = 1,000 by a third up to 20,000: the newest item's share is between
        // two thirds of that and it.
        assert!(
            (newest as f64) < expected && newest as f64 > 0.6 * expected,
            "{newest} of at most {expected}"
        );
    }

    #[test]
    fn hotspot_and_exponential_have_their_shares() {
        let seen = counts(Distribution::Hotspot { items: 0.2, operations: 0.8 }, 1000, 100_000, 1);
        let hot: u64 = seen[..200].iter().sum();
        assert!((79_000..81_000).contains(&hot), "{hot}");
        let seen =
            counts(Distribution::Exponential { percentile: 95.0, share: 0.5 }, 1000, 100_000, 1);
        let recent: u64 = seen[500..].iter().sum();
        // Draws older than the oldest item (5 % of 5 %) are repeated.
        assert!((94_800..95_700).contains(&recent), "{recent}");
    }

    #[test]
    fn a_seed_repeats() {
        for text in [
            "sequential",
            "unique",
            "series:7",
            "uniform",
            "zipfian",
            "latest:0.5",
            "hotspot",
            "exponential",
            "prefix-dist",
            "all-dist",
        ] {
            let d: Distribution = text.parse().unwrap();
            assert_eq!(d.to_string().parse(), Ok(d));
            assert_eq!(counts(d, 50, 1000, 4), counts(d, 50, 1000, 4));
            if d.is_random() {
                assert_ne!(counts(d, 50, 1000, 4), counts(d, 50, 1000, 5), "{text}");
            }
        }
    }

    #[test]
    fn unique_items_come_once_a_round_and_series_ascend() {
        let mut unique = Chooser::new(&Distribution::Unique, 100, 1);
        let mut of = |i: u64| unique.at(i, &mut Draws::new(1, i), 100);
        let rounds: Vec<Vec<u64>> =
            [0, 100].map(|from| (from..from + 100).map(&mut of).collect()).into();
        assert_ne!(rounds[0], rounds[1]);
        for round in rounds {
            let mut sorted = round;
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..100));
        }
        let mut series = Chooser::new(&Distribution::Series(4), 100, 1);
        let items: Vec<u64> = (0..8).map(|i| series.at(i, &mut Draws::new(1, i), 100)).collect();
        assert_eq!(items, [0, 25, 50, 75, 1, 26, 51, 76]);
        assert!((0..50).map(|i| queue_item(i, 10)).eq(
            (0..10).map(|i| (i, false)).chain((0..20).flat_map(|i| [(10 + i, false), (i, true)]))
        ));
    }

    #[test]
    fn few_items_are_no_trouble() {
        for n in 1..4 {
            for text in ["sequential", "unique", "uniform", "zipfian", "latest", "hotspot"] {
                let seen = counts(text.parse().unwrap(), n, 1000, 4);
                assert!(n < 2 || seen.iter().all(|&c| c > 0), "{text} over {n}: {seen:?}");
            }
        }
    }

    #[test]
    fn bad_text_is_refused() {
        for bad in [
            "",
            "zipf",
            "zipfian:1",
            "zipfian:0",
            "zipfian:x",
            "hotspot:0.5",
            "hotspot:0:1",
            "exponential:100:1",
            "uniform:1",
        ] {
            assert!(bad.parse::<Distribution>().is_err(), "{bad}");
        }
    }
}
