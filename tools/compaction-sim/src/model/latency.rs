//! Latencies of writes and reads, as percentiles.
//!
//! *Writes* are simulated: each has its work, the engine's slowdown, and the writers' share of the
//! processor at its time. A writer stalls while every memtable is full. If writes come at the
//! maximum rate, one write waits for each stall. If they come at a fixed rate, all writes that were
//! due during the stall wait, each from its due time. So no latency is omitted because a measuring
//! client waited.
//!
//! *Reads* are calculated ([`CountOdds`]), at each point of the course. A lookup reads the block of
//! its key, and one more in each newer run whose filter gives a false positive. A lookup of a
//! missing key reads only the latter. A scan begins with one block of each run. The assumptions
//! are:
//! - All keys are read equally often, so the cache has its share of all blocks.
//! - A read searches the runs one after the other.
//! - The time of the device per block is random (exponential, as in a queue). Each running job that
//!   shares the device makes it longer ([`Machine`](crate::model::machine::Machine)).
//! - The reads are too few to load the device.

use serde::Serialize;

/// Buckets per factor of e: times are distinguished to within three percent.
const FINENESS: f64 = 32.0;
/// Maximum number of blocks of one read that is distinguished.
const MOST_BLOCKS: usize = 64;

/// Shares of the percentiles; the last is all but one in a million.
const SHARES: [f64; 4] = [0.5, 0.99, 0.999, 0.999_999];

/// Seconds within which these shares finish: half, 99 of 100, 999 of 1000, and all but one in a
/// million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1000.
    pub p999: f64,
    /// Maximum of times that are simulated one by one; for reads all but one in a million.
    pub most: f64,
}

/// Weighted times, to within three percent.
#[derive(Clone, Debug, Default)]
pub struct WeightedTimes {
    buckets: std::collections::BTreeMap<i32, f64>,
    most: f64,
}

impl WeightedTimes {
    /// Adds a time in seconds with a weight.
    pub fn add(&mut self, weight: f64, seconds: f64) {
        if weight > 0.0 {
            let bucket = (seconds.max(1e-12).ln() * FINENESS).floor() as i32;
            *self.buckets.entry(bucket).or_default() += weight;
            self.most = self.most.max(seconds);
        }
    }

    /// Returns the seconds within which this share finishes; 0 if empty.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut left = self.buckets.values().sum::<f64>() * share;
        for (bucket, n) in &self.buckets {
            left -= n;
            if left <= 0.0 {
                return ((f64::from(*bucket) + 0.5) / FINENESS).exp().min(self.most);
            }
        }
        self.most
    }

    /// Returns the percentiles, and the maximum.
    pub fn percentiles(&self) -> Percentiles {
        let [p50, p99, p999] = [SHARES[0], SHARES[1], SHARES[2]].map(|s| self.quantile(s));
        Percentiles { p50, p99, p999, most: self.most }
    }
}

/// Probabilities of the counts 0, 1, 2, …: of blocks that a read takes from the device, or of jobs
/// that use it.
#[derive(Clone, Debug, PartialEq)]
pub struct CountOdds(Vec<f64>);

impl Default for CountOdds {
    fn default() -> Self {
        CountOdds(vec![1.0])
    }
}

impl CountOdds {
    /// Creates it without observations.
    pub fn none() -> CountOdds {
        CountOdds(vec![])
    }

    /// Adds one more with this probability.
    pub fn and(&mut self, chance: f64) {
        let chance = chance.clamp(0.0, 1.0);
        if chance == 0.0 {
            return;
        }
        if self.0.len() < MOST_BLOCKS {
            self.0.push(0.0);
        }
        for i in (0..self.0.len()).rev() {
            let before = if i > 0 { self.0[i - 1] } else { 0.0 };
            // Larger counts than are distinguished count as the maximum.
            let stays = if i + 1 == MOST_BLOCKS { self.0[i] } else { self.0[i] * (1.0 - chance) };
            self.0[i] = stays + before * chance;
        }
    }

    /// Adds another distribution with a weight.
    pub fn mix(&mut self, weight: f64, other: &CountOdds) {
        self.0.resize(self.0.len().max(other.0.len()), 0.0);
        self.0.iter_mut().zip(&other.0).for_each(|(sum, share)| *sum += weight * share);
    }

    /// Returns the mean.
    pub fn mean(&self) -> f64 {
        let total: f64 = self.0.iter().sum();
        let sum: f64 = self.0.iter().enumerate().map(|(n, share)| n as f64 * share).sum();
        if total > 0.0 { sum / total } else { 0.0 }
    }

    /// Returns percentiles of reads of this many blocks. `busy` is the number of jobs that use the
    /// device, `block` the seconds of a block alone, and `cpu` the seconds of everything else.
    pub fn percentiles(&self, busy: &CountOdds, block: f64, cpu: f64) -> Percentiles {
        let (blocks, time): (f64, f64) = (self.0.iter().sum(), busy.0.iter().sum());
        let total = blocks * time;
        if total <= 0.0 {
            return Percentiles { p50: cpu, p99: cpu, p999: cpu, most: cpu };
        }
        // Share of reads that take longer than this on the device.
        let longer = |seconds: f64| {
            let of = |(jobs, part): (usize, &f64)| {
                let mean = block * (1.0 + jobs as f64);
                part * self.longer_than(seconds / mean)
            };
            busy.0.iter().enumerate().map(of).sum::<f64>() / total
        };
        let within = |share: f64| {
            let mut high = block.max(1e-12);
            while longer(high) > 1.0 - share && high < 1e9 {
                high *= 2.0;
            }
            let mut low = 0.0;
            for _ in 0..48 {
                let middle = (low + high) / 2.0;
                if longer(middle) > 1.0 - share { low = middle } else { high = middle }
            }
            cpu + if longer(0.0) > 1.0 - share { high } else { 0.0 }
        };
        let [p50, p99, p999, most] = SHARES.map(within);
        Percentiles { p50, p99, p999, most }
    }

    /// Returns the share that takes longer than this many mean times of a block.
    fn longer_than(&self, means: f64) -> f64 {
        // With n blocks: fewer than n events of a Poisson process in that time.
        let (mut term, mut fewer, mut sum) = ((-means).exp(), 0.0, 0.0);
        for (n, share) in self.0.iter().enumerate() {
            if n > 0 {
                fewer += term;
                term *= means / n as f64;
            }
            sum += share * fewer.min(1.0);
        }
        sum
    }
}

/// Properties of a run that matter for reads.
#[derive(Clone, Copy, Debug)]
pub struct ReadRun {
    /// Number of entries.
    pub entries: f64,
    /// Probability that the range of one of its tables contains a key.
    pub covers: f64,
    /// Probability of that together with a false positive of the filter.
    pub errs: f64,
}

/// Blocks that each kind of read takes.
#[derive(Clone, Debug, Default)]
pub struct ReadCosts {
    /// A lookup of an existing key.
    pub hit: CountOdds,
    /// A lookup of a missing key.
    pub miss: CountOdds,
    /// The beginning of a scan.
    pub scan: CountOdds,
}

impl ReadCosts {
    /// Creates it without reads.
    pub fn none() -> ReadCosts {
        ReadCosts { hit: CountOdds::none(), miss: CountOdds::none(), scan: CountOdds::none() }
    }

    /// Calculates it for a tree with these runs, newest first; `missed` is the probability of a
    /// cache miss.
    ///
    /// ```
    /// use compaction_sim::model::latency::{ReadCosts, ReadRun};
    /// let run = |entries| ReadRun { entries, covers: 1.0, errs: 1.0 / 256.0 };
    /// let costs = ReadCosts::of(&[run(1e4), run(1e6)], 0.5);
    /// assert!((costs.hit.mean() - 0.5).abs() < 0.01 && costs.miss.mean() < 0.01);
    /// assert_eq!(costs.scan.mean(), 1.0);
    /// ```
    pub fn of(runs: &[ReadRun], missed: f64) -> ReadCosts {
        let mut costs = ReadCosts { hit: CountOdds::none(), ..ReadCosts::default() };
        let entries: f64 = runs.iter().map(|r| r.entries).sum();
        for r in runs {
            // If the key is in this run, the newer ones have been searched.
            let mut here = costs.miss.clone();
            here.and(missed);
            costs.hit.mix(r.entries / entries.max(1.0), &here);
            costs.miss.and(missed * r.errs);
            costs.scan.and(missed * r.covers);
        }
        costs
    }

    /// Adds another point of the course with a weight.
    pub fn mix(&mut self, weight: f64, other: &ReadCosts) {
        self.hit.mix(weight, &other.hit);
        self.miss.mix(weight, &other.miss);
        self.scan.mix(weight, &other.scan);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_percentiles() {
        let mut times = WeightedTimes::default();
        (1..=10_000).for_each(|n| times.add(1.0, f64::from(n) * 1e-6));
        let p = times.percentiles();
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.04;
        assert!(near(p.p50, 5e-3) && near(p.p99, 9.9e-3) && near(p.p999, 9.99e-3), "{p:?}");
        assert_eq!(
            (p.most, WeightedTimes::default().percentiles()),
            (0.01, Percentiles::default())
        );
    }

    #[test]
    fn blocks_are_a_distribution() {
        let mut b = CountOdds::default();
        for chance in [0.5, 0.25, 1.0] {
            b.and(chance);
        }
        assert_eq!(b.0, [0.0, 0.375, 0.5, 0.125]);
        assert_eq!(b.mean(), 1.75);
        (0..200).for_each(|_| b.and(0.9));
        assert!((b.0.iter().sum::<f64>() - 1.0).abs() < 1e-9 && b.0.len() == MOST_BLOCKS);
    }

    #[test]
    fn a_block_of_an_idle_device_is_exponential() {
        let mut one = CountOdds::default();
        one.and(1.0);
        let p = one.percentiles(&CountOdds::default(), 1e-4, 0.0);
        for (found, share) in [(p.p50, 0.5), (p.p99, 0.99), (p.p999, 0.999), (p.most, 0.999_999)] {
            let expected = -(1.0f64 - share).ln() * 1e-4;
            assert!((found / expected - 1.0).abs() < 1e-3, "{found} {expected}");
        }
        // Beside a job it takes twice as long; from the cache no time.
        assert!((one.percentiles(&one, 1e-4, 0.0).p50 / p.p50 - 2.0).abs() < 1e-3);
        let mut seldom = CountOdds::default();
        seldom.and(0.1);
        let p = seldom.percentiles(&CountOdds::default(), 1e-4, 1e-6);
        assert!(p.p50 == 1e-6 && p.p99 > 2e-4, "{p:?}");
    }
}
