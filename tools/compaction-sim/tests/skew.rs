//! A log without keys shows how skewed its writes were. `replay` predicts the engine's figures
//! under another policy from it, but not from a log without versions.

use compaction_sim::history::{RecordedHistory, parse};
use compaction_sim::model::sim;
use compaction_sim::model::size::ContentSize;
use compaction_sim::validate::engine::run_in_memory;
use compaction_sim::workload::{SimWorkload, WorkloadName};
use firn_kv::{Compression, Policy, TreeOptions};
use firn_workload::Distribution;

const KEYS: u64 = 8_000;
const OPS: u64 = 50_000;
/// Bytes of a key and its value.
const ENTRY: f64 = 116.0;

fn options(policy: &str) -> TreeOptions {
    TreeOptions {
        policy: policy.parse().unwrap(),
        compression: vec![Compression::None],
        memtable_size: 128 << 10,
        table_size: 128 << 10,
        ..TreeOptions::default()
    }
}

fn workload(kind: &str, has_load: bool) -> SimWorkload {
    let (keys, mut phases) = kind.parse::<WorkloadName>().unwrap().phases(OPS, KEYS);
    phases[1].ops += if has_load { 0 } else { KEYS };
    phases.drain(..usize::from(!has_load));
    let content = ContentSize::default();
    SimWorkload { keys, phases, content, ttl_micros: 0, seed: 3, per_memtable: None }
}

/// Returns the log as an older version of the engine wrote it, without the versions of memtables.
fn older(log: &str) -> String {
    let line = |line: &str| {
        let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
        event.as_object_mut().unwrap().remove("versions");
        format!("{event}\n")
    };
    log.lines().map(line).collect()
}

/// Returns the bytes written for each byte put, the average runs, and the bytes of tables at the
/// end, as replayed under a policy; and the derived workload.
fn replayed(h: &RecordedHistory, policy: &Policy) -> ([f64; 3], SimWorkload) {
    let mut setup = h.fitted(h.policy.as_ref().unwrap(), 2.0).unwrap();
    setup.options.policy = policy.clone();
    let mut o = sim::run(&setup, &mut |_| ()).unwrap();
    h.count_users_bytes(&mut o);
    ([o.write_amplification, o.mean_runs, o.bytes as f64], setup.workload)
}

#[test]
fn a_skewed_load_is_replayed_as_the_engine_does_it() {
    for (kind, skew, has_load, of) in [
        ("zipfian:0.9", 0.9, false, "tiered:4"),
        ("zipfian:0.7", 0.7, true, "lazy-leveled:3"),
        ("uniform", 0.0, true, "tiered:4"),
    ] {
        let other = "leveled:6:base=512k";
        let workload = workload(kind, has_load);
        let (_, log) = run_in_memory(&options(of), &workload, 1000).unwrap();
        let (real, real_log) = run_in_memory(&options(other), &workload, 1000).unwrap();
        let written = (real.flush_bytes + real.compaction_written) as f64;
        let real = parse(&real_log, None).unwrap().outcome();
        let real = [written / (OPS as f64 * ENTRY), real.mean_runs, real.bytes as f64];

        let (full_log, older_log) =
            (parse(&log, None).unwrap(), parse(&older(&log), None).unwrap());
        let other = other.parse().unwrap();
        let off = |found: [f64; 3]| [0, 1, 2].map(|i| 100.0 * (found[i] / real[i] - 1.0));
        let ((full_log, found), (older_log, _)) =
            (replayed(&full_log, &other), replayed(&older_log, &other));
        let (full_log, older_log) = (off(full_log), off(older_log));
        println!(
            "{kind}, {of}: {:?} of {} keys; write amplification, runs, bytes off by {full_log:.1?} %, \
             without versions by {older_log:.1?} %",
            found.phases, found.keys
        );
        assert_eq!(found.phases.len(), 1 + usize::from(has_load), "{kind}");
        let found_skew = match found.phases.last().unwrap().order {
            Distribution::Zipfian { theta } => theta,
            _ => 0.0,
        };
        assert!((found_skew - skew).abs() < 0.06, "{kind}: {found_skew}");
        assert!((found.keys as f64 / KEYS as f64 - 1.0).abs() < 0.15, "{kind}: {}", found.keys);
        let sum = |off: [f64; 3]| off.map(f64::abs).iter().sum::<f64>();
        assert!(sum(full_log) < 20.0, "{kind}: {full_log:?}");
        assert!(
            skew == 0.0 || 2.5 * sum(full_log) < sum(older_log),
            "{kind}: {full_log:?}, {older_log:?}"
        );
    }
}
