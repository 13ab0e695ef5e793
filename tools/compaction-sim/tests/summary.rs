//! The summary model against the exact one: writes and space of both on one workload, and no key is lost.

use compaction_sim::meter::Outcome;
use compaction_sim::sim::run;
use compaction_sim::validate::{mean_space, small_tree};

const OPS: u64 = 60_000;

fn simulate(policy: &str, workload: &str, ops: u64, exact: bool) -> Outcome {
    run(&small_tree(policy, workload, ops, 64 << 10, exact).unwrap(), &mut |_| ()).unwrap()
}

/// Each of a few layouts, with written bytes within `tolerance` and mean space within a half of it.
fn compare(policies: &[&str], workloads: &[&str], writes: f64, space: f64) {
    for policy in policies {
        for workload in workloads {
            let (e, s) = (simulate(policy, workload, OPS, true), simulate(policy, workload, OPS, false));
            let off = |of: fn(&Outcome) -> f64| of(&s) / of(&e) - 1.0;
            let (w, m) = (off(|o| o.write_amplification), off(mean_space));
            assert!(w.abs() < writes && m.abs() < space, "{policy}, {workload}: writes {w:+.3}, space {m:+.3}");
        }
    }
}

#[test]
fn writes_and_space_are_those_of_the_exact_model() {
    let policies = ["lo+1:4", "lo+2:4", "rr:4", "cold:4", "old:4", "leveled:4:4", "tiered:3", "lazy:3", "unified:2", "full:4"];
    compare(&policies, &["uniform", "zipfian:0.9", "massdelete:0.5"], 0.05, 0.05);
}

/// What is in tables and the memtable is never less than what lives: one copy of it, at the bottom's size.
#[test]
fn no_key_is_lost() {
    let movements = ["lo+1", "lo+2", "rr", "cold", "old", "tsd"];
    let policies: Vec<String> = movements.iter().flat_map(|m| [6, 10].map(|r| format!("{m}:{r}"))).collect();
    for policy in policies.iter().map(String::as_str).chain(["leveled:4:4", "1-lvl:4", "tiered:3", "lazy:4", "unified:2", "full:4"]) {
        for workload in ["uniform", "zipfian:0.9", "deletes:0.2"] {
            let o = simulate(policy, workload, 1_000_000, false);
            let memtable = 64 << 10;
            for p in o.points.iter().filter(|p| p.ops * 10 > o.ops) {
                let space = (p.bytes + memtable) as f64 / p.live_bytes;
                assert!(space > 0.98, "{policy}, {workload}: {space:.3} after {} operations", p.ops);
            }
        }
    }
}
