//! A sample of the statistics of a store, with rates since the one before.

use firn_kv::stats::{Latencies, Latency, Stats};
use serde_json::{Map, Value, json};

/// Returns a quantile of the operations between two reports, interpolated between the bounds of
/// the histogram. `None`: there were none.
fn quantile(before: &Latency, now: &Latency, q: f64) -> Option<u64> {
    let timed = now.timed.checked_sub(before.timed).filter(|n| *n > 0)?;
    let wanted = (timed as f64 * q).ceil().max(1.0);
    let (mut low, mut below) = (0, 0.0);
    for ((bound, now), before) in Latency::BOUNDS.iter().zip(now.within).zip(before.within) {
        let within = now.saturating_sub(before) as f64;
        if within >= wanted {
            let share = (wanted - below) / (within - below).max(1.0);
            return Some(low + ((bound - low) as f64 * share) as u64);
        }
        (low, below) = (*bound, within);
    }
    Some(now.max)
}

/// Counters at the time of a sample.
#[derive(Clone, Debug)]
pub struct SampledCounters {
    at_nanos: u64,
    counts: [u64; 15],
    latencies: Latencies,
}

/// Names of the counters.
const COUNTERS: [&str; 15] = [
    "operations",
    "user_bytes",
    "gets",
    "found",
    "filter_negatives",
    "blocks_cached",
    "blocks_read",
    "bytes_read",
    "flush_bytes",
    "compaction_read",
    "compaction_written",
    "flushes",
    "compactions",
    "slowdown_nanos",
    "stalled_nanos",
];

impl SampledCounters {
    /// Reads the counters.
    pub fn of(s: &Stats, at_nanos: u64) -> SampledCounters {
        SampledCounters {
            at_nanos,
            counts: [
                s.seq,
                s.user_bytes,
                s.reads.gets,
                s.reads.found,
                s.reads.filter_negatives,
                s.reads.blocks_cached + s.reads.blocks_mapped,
                s.reads.blocks_read,
                s.reads.bytes_read,
                s.flush_bytes,
                s.compaction_read,
                s.compaction_written,
                s.flushes,
                s.compactions,
                s.slowdown_nanos,
                s.stalled_nanos,
            ],
            latencies: s.latencies,
        }
    }
}

/// Returns a sample as JSON: gauges, and the changes of the counters per second since `before`.
/// `wall_micros` is its time.
pub fn sample_json(
    s: &Stats,
    before: &SampledCounters,
    now: &SampledCounters,
    wall_micros: u64,
) -> Value {
    let seconds = (now.at_nanos.saturating_sub(before.at_nanos) as f64 / 1e9).max(1e-3);
    let rate = |(name, (now, before)): (&str, (&u64, &u64))| {
        let change = now.saturating_sub(*before) as f64 / seconds;
        (name.to_owned(), json!((change * 100.0).round() / 100.0))
    };
    let pairs = now.counts.iter().zip(&before.counts);
    let rates: Map<String, Value> = COUNTERS.into_iter().zip(pairs).map(rate).collect();
    let both = now.latencies.named().into_iter().zip(before.latencies.named());
    let latencies: Map<String, Value> = both
        .map(|((name, now), (_, before))| {
            let q = |q| quantile(&before, &now, q);
            (name.to_owned(), json!({"p50": q(0.5), "p99": q(0.99)}))
        })
        .collect();
    let runs = |of: fn(&firn_kv::stats::TreeStats) -> u64| s.trees.iter().map(of).sum::<u64>();
    json!({
        "at": wall_micros / 1000,
        "seconds": seconds,
        "seq": s.seq,
        "rates": rates,
        "latencies": latencies,
        "memory": {
            "budget": s.memory.budget, "memtables": s.memory.memtables, "cache": s.memory.cache,
            "cache_capacity": s.memory.cache_capacity, "tables": s.memory.tables,
            "jobs": s.memory.jobs,
        },
        "disk": {
            "tables": s.space.live, "pinned": s.space.pinned, "writing": s.space.writing,
            "log": s.wal_bytes, "blobs": runs(|t| t.blobs.bytes), "free": s.disk_free,
        },
        "trees": s.trees.len(),
        "runs": runs(|t| t.runs.len() as u64),
        "max_runs": s.trees.iter().map(|t| t.runs.len()).max().unwrap_or(0),
        "debt": runs(|t| t.debt),
        "snapshots": s.snapshots.len(),
        "write_amplification": s.write_amplification(),
        "refusal": s.refusal.as_ref().map(ToString::to_string),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_that_of_the_interval() {
        let of = |counts: &[(usize, u64)]| {
            let mut l = Latency::default();
            for (bound, n) in counts {
                l.timed += n;
                l.within.iter_mut().skip(*bound).for_each(|within| *within += n);
            }
            l
        };
        let before = of(&[(0, 1_000_000)]);
        assert_eq!(quantile(&before, &before, 0.5), None);
        let now = of(&[(0, 1_000_000), (3, 98), (9, 2)]);
        let p50 = quantile(&before, &now, 0.5).unwrap();
        assert!((Latency::BOUNDS[2]..=Latency::BOUNDS[3]).contains(&p50), "{p50}");
        let p99 = quantile(&before, &now, 0.99).unwrap();
        assert!((Latency::BOUNDS[8]..=Latency::BOUNDS[9]).contains(&p99), "{p99}");
    }
}
