//! Latency histogram without locks: each connection counts in one of several shards, so that
//! concurrent connections seldom write to the same cache line.
//!
//! Invariant: a shard allocates nothing before its first sample.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_kv::stats::Latency;

/// Number of shards; machines with more processors share them.
pub const SHARDS: usize = 8;

/// Latencies below 2 to this power, in nanoseconds, share the first bucket: 256 ns.
const MIN_LOG: u32 = 8;
/// Latencies of at least 2 to this power share the last bucket: 69 s.
const MAX_LOG: u32 = 36;
/// Bits after the leading one that select the bucket: each is an eighth of its power of two wide.
const BITS: u32 = 3;
const BUCKETS: usize = (((MAX_LOG - MIN_LOG) as usize) << BITS) + 2;

#[repr(align(128))]
#[derive(Debug)]
struct HistogramShard {
    sum: AtomicU64,
    max: AtomicU64,
    counts: [AtomicU64; BUCKETS],
}

/// Latency histogram with a precision of an eighth.
#[derive(Debug, Default)]
pub struct LatencyHistogram([OnceLock<Box<HistogramShard>>; SHARDS]);

fn bucket(nanos: u64) -> usize {
    let log = nanos.max(1).ilog2();
    if log < MIN_LOG {
        return 0;
    }
    if log >= MAX_LOG {
        return BUCKETS - 1;
    }
    let within = (nanos >> (log - BITS)) as usize & ((1 << BITS) - 1);
    1 + (((log - MIN_LOG) as usize) << BITS) + within
}

/// Returns the longest latency of a bucket.
fn upper_bound(bucket: usize) -> u64 {
    let Some(at) = bucket.checked_sub(1) else { return (1 << MIN_LOG) - 1 };
    if bucket == BUCKETS - 1 {
        return u64::MAX;
    }
    let (log, within) = (MIN_LOG as usize + (at >> BITS), at & ((1 << BITS) - 1));
    (((1 << BITS) + within as u64 + 1) << (log - BITS as usize)) - 1
}

impl LatencyHistogram {
    /// Counts a latency in nanoseconds. `shard`: taken modulo [`SHARDS`].
    pub fn record(&self, shard: usize, nanos: u64) {
        let empty = || {
            Box::new(HistogramShard {
                sum: AtomicU64::new(0),
                max: AtomicU64::new(0),
                counts: std::array::from_fn(|_| AtomicU64::new(0)),
            })
        };
        let shard = self.0[shard % SHARDS].get_or_init(empty);
        shard.counts[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        shard.sum.fetch_add(nanos, Ordering::Relaxed);
        if nanos > shard.max.load(Ordering::Relaxed) {
            shard.max.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    /// Returns the latencies so far. Quantiles are the upper bounds of their buckets.
    pub fn latency(&self) -> Latency {
        let (mut counts, mut sum, mut max) = ([0_u64; BUCKETS], 0_u64, 0);
        for shard in self.0.iter().filter_map(OnceLock::get) {
            let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
            counts.iter_mut().zip(&shard.counts).for_each(|(n, more)| *n += of(more));
            sum = sum.saturating_add(of(&shard.sum));
            max = of(&shard.max).max(max);
        }
        let timed: u64 = counts.iter().sum();
        let at = |thousandths: u64| {
            let wanted = (timed * thousandths).div_ceil(1000);
            let mut passed = 0;
            let found = counts.iter().position(|n| {
                passed += n;
                wanted > 0 && passed >= wanted
            });
            found.map_or(0, |bucket| upper_bound(bucket).min(max))
        };
        let within = Latency::BOUNDS.map(|bound| {
            let below = counts.iter().enumerate().take_while(|(at, _)| upper_bound(*at) <= bound);
            below.map(|(_, n)| n).sum()
        });
        let mut latency = Latency::default();
        (latency.timed, latency.max, latency.sum, latency.within) = (timed, max, sum, within);
        (latency.p50, latency.p90) = (at(500), at(900));
        (latency.p99, latency.p999) = (at(990), at(999));
        latency
    }
}

/// Histogram of numbers: exact below 16, to within an eighth above.
#[derive(Debug, Default)]
pub struct CountHistogram(LatencyHistogram);

/// Quantiles of a [`CountHistogram`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountQuantiles {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p999: u64,
    /// The maximum.
    pub max: u64,
}

impl CountHistogram {
    /// Counts a number. `shard`: as for [`LatencyHistogram::record`].
    pub fn record(&self, shard: usize, number: u64) {
        self.0.record(shard, number.min(u64::MAX >> MIN_LOG) << MIN_LOG);
    }

    /// Returns the quantiles so far.
    pub fn quantiles(&self) -> CountQuantiles {
        let Latency { p50, p99, p999, max, .. } = self.0.latency();
        let [p50, p99, p999, max] = [p50, p99, p999, max].map(|n| n >> MIN_LOG);
        CountQuantiles { p50, p99, p999, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_counted_exactly() {
        let histogram = CountHistogram::default();
        assert_eq!(histogram.quantiles(), CountQuantiles::default());
        for number in 1..=15 {
            histogram.record(number as usize, number);
            let half = number.div_ceil(2);
            let wanted = CountQuantiles { p50: half, p99: number, p999: number, max: number };
            assert_eq!(histogram.quantiles(), wanted);
        }
        (0..10_000).for_each(|_| histogram.record(0, 1_000));
        histogram.record(0, u64::MAX);
        let CountQuantiles { p50, p99, p999, max } = histogram.quantiles();
        assert!((1_000..1_125).contains(&p50) && (p50, p50) == (p99, p999), "{p50} {p99} {p999}");
        assert_eq!(max, u64::MAX >> MIN_LOG);
    }

    #[test]
    fn each_latency_is_within_the_bounds_of_its_bucket() {
        assert_eq!(upper_bound(0), 255);
        for at in 1..BUCKETS {
            let (least, most) = (upper_bound(at - 1) + 1, upper_bound(at));
            assert_eq!((bucket(least), bucket(most)), (at, at), "{least} to {most}");
            assert!(at == BUCKETS - 1 || most - least <= least / 8, "{least} to {most}");
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn shards_are_reported_as_one() {
        let histogram = LatencyHistogram::default();
        assert_eq!(histogram.latency(), Latency::default());
        (0..1000).for_each(|n| histogram.record(n, (n as u64 + 1) * 10_000));
        let all = histogram.latency();
        assert_eq!((all.timed, all.max, all.sum), (1000, 10_000_000, 5_005_000_000));
        for (quantile, exact) in [(all.p50, 5_000_000), (all.p99, 9_900_000)] {
            assert!((exact..=exact + exact / 8).contains(&quantile), "{quantile} for {exact}");
        }
        let of = |bound: u64| all.within[Latency::BOUNDS.iter().position(|b| *b == bound).unwrap()];
        assert_eq!((of(5_000), of(60_000_000_000)), (0, all.timed));
        for (bound, exact) in [(5_000_000, 500), (10_000_000, 1000)] {
            assert!((exact - exact / 8..=exact).contains(&of(bound)), "{} for {exact}", of(bound));
        }
    }
}
