//! Latencies of writes and reads depend on stalls and rates, on the cache, on runs and their
//! filters. The wear of a device depends on how full it is.

use clap::Parser;
use compaction_sim::cli::batch::simulate;
use compaction_sim::cli::{SimCli, SimCommand};
use compaction_sim::model::meter::SimOutcome;

fn run(args: &str) -> SimOutcome {
    let words = ["compaction-sim", "run"].into_iter().chain(args.split(' '));
    let SimCommand::Run(args) = SimCli::try_parse_from(words).unwrap().command else {
        unreachable!()
    };
    let (policy, setup) = args.setup().unwrap();
    simulate(&policy, &setup).unwrap()
}

#[test]
fn writes_wait_where_memtables_do() {
    let calm = run("--policy tiered --data 300M --memtable-size 1M");
    assert_eq!(calm.stalled_seconds, 0.0);
    assert!(calm.write_latency.most < 1e-6, "{:?}", calm.write_latency);
    // A device that is too slow for the load.
    let slow = "--policy tiered --data 300M --memtable-size 1M --write-bandwidth 5M";
    let own = run(&format!("{slow} --ingest 0"));
    let at_rate = run(&format!("{slow} --ingest 20M"));
    for o in [&own, &at_rate] {
        assert!(o.stalled_seconds > 0.1, "{}", o.stalled_seconds);
        let p = o.write_latency;
        assert!(p.p50 <= p.p99 && p.p99 <= p.p999 && p.p999 <= p.most, "{p:?}");
        assert!(p.most > 1e3 * p.p50, "{p:?}");
    }
    // A caller of one write after the other waits once for each memtable. At a fixed rate more
    // writes wait.
    let beyond = |o: &SimOutcome| o.write_latency.p999 / o.write_latency.p50;
    assert!(
        beyond(&at_rate) > 10.0 * beyond(&own),
        "{:?} {:?}",
        own.write_latency,
        at_rate.write_latency
    );
}

#[test]
fn reads_take_what_the_cache_lacks() {
    let of = |cache: &str| {
        run(&format!("--policy leveled --data 500M --memtable-size 1M --cache {cache}"))
    };
    let (none, half, all) = (of("0"), of("100M"), of("10G"));
    assert!((1.0..1.05).contains(&none.hit_blocks), "{}", none.hit_blocks);
    assert!(half.hit_blocks < 0.8 * none.hit_blocks && all.hit_blocks == 0.0);
    assert!(none.scan_blocks > 2.0 && none.miss_blocks < 0.1);
    assert!(none.hit_latency.p99 > half.hit_latency.p99 && all.hit_latency.most < 1e-4);
    assert!(none.scan_latency.p50 > none.hit_latency.p50);
}

#[test]
fn shared_filters_err_less_for_the_same_memory() {
    for policy in ["tiered", "leveled:4:2:4m", "lazy-leveled:4"] {
        let of = |how: &str| {
            run(&format!(
                "--policy {policy} --data 600M --memtable-size 1M --table-size 1M \
                 --compression none --filter-allocation {how}"
            ))
        };
        let (usual, shared) = (of("by-level"), of("monkey"));
        // Filters of small runs, which are soon compacted, are longer, and weigh beside compressed
        // entries. And leveled chooses other tables if they end a little sooner.
        let more = shared.write_amplification / usual.write_amplification - 1.0;
        let least = if policy.starts_with("leveled") { -0.01 } else { 0.0 };
        assert!((least..0.03).contains(&more), "{policy} {more}");
        let memory = shared.filter_bytes / usual.filter_bytes;
        assert!((0.9..1.1).contains(&memory), "{policy} {memory}");
        let errors = shared.blocks_per_miss / usual.blocks_per_miss;
        assert!(errors < 0.8, "{policy} {errors}");
    }
}

#[test]
fn a_full_device_writes_more() {
    let of = |ssd: &str, policy: &str| {
        let o = run(&format!(
            "--policy {policy} --data 1G --memtable-size 1M --table-size 2M --erase-block 16M \
             --ssd {ssd} --endurance 100G"
        ));
        // All writes of the store reach the device.
        let (wear, written) = (o.wear.unwrap(), (o.flush_bytes + o.merge_written) as f64);
        assert!((wear.host_bytes / written - 1.0).abs() < 1e-3, "{} {written}", wear.host_bytes);
        assert!(wear.years > 0.0 && wear.drive_writes_per_day > 0.0 && wear.fullest <= 1.0);
        (o.peak_bytes, wear)
    };
    let (peak, roomy) = of("20G", "leveled:8:2:8m");
    assert!((roomy.device_write_amplification - 1.0).abs() < 0.02, "{roomy:?}");
    let (_, tight) = of(&(peak + (2 << 20)).to_string(), "leveled:8:2:8m");
    assert!(tight.device_write_amplification > 1.05, "{tight:?}");
    assert!(tight.fullest > 0.9 && tight.host_bytes == roomy.host_bytes);
}
