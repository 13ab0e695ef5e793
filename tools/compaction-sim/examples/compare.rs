//! Runs a custom workload under several policies from a program; prints each metric as a line of
//! CSV.
//!
//! `cargo run --release -p compaction-sim --example compare`

use compaction_sim::model::machine::Machine;
use compaction_sim::model::meter::SimOutcome;
use compaction_sim::model::sim::{Setup, run};
use compaction_sim::model::size::ContentSize;
use compaction_sim::report::metric::METRICS;
use compaction_sim::workload::{SimPhase, SimWorkload};
use firn_kv::TreeOptions;
use firn_workload::{Distribution, ValueSize};

const KEYS: u64 = 200_000;

/// A day of a shop: its catalog is loaded in key order, popular articles change all day, and in the
/// evening any article may be deleted.
fn shop() -> SimWorkload {
    let popular = Distribution::Zipfian { theta: 0.9 };
    let value = ValueSize::Uniform(50, 150);
    SimWorkload {
        keys: KEYS,
        phases: vec![
            SimPhase::of(Distribution::Series(1), KEYS, 0.0),
            SimPhase::of(popular, 3 * KEYS, 0.0),
            SimPhase::of(Distribution::Uniform, KEYS, 0.3),
        ],
        content: ContentSize { value, numbers: KEYS, ..ContentSize::default() },
        ttl_micros: 0,
        seed: 1,
        per_memtable: None,
    }
}

/// Returns the outcome of a policy, given as text, with a write rate of 5 MB per second.
fn outcome(policy: &str) -> Result<SimOutcome, Box<dyn std::error::Error>> {
    let options = TreeOptions {
        policy: policy.parse()?,
        memtable_size: 1 << 20,
        table_size: 1 << 20,
        ..TreeOptions::default()
    };
    let machine = Machine { ingest: 5e6, ..Machine::default() };
    Ok(run(&Setup::new(options, shop(), machine), &mut |_| ())?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policies = ["tiered:4", "lazy-leveled:4", "leveled:8:base=8m"];
    let outcomes = policies.into_iter().map(outcome).collect::<Result<Vec<_>, _>>()?;
    println!("metric,unit,{}", policies.join(","));
    for metric in METRICS {
        let value = |o: &SimOutcome| (metric.of)(o).map_or_else(String::new, |v| v.to_string());
        let values: Vec<String> = outcomes.iter().map(value).collect();
        println!("{},{},{}", metric.name, metric.unit.name(), values.join(","));
    }
    Ok(())
}

#[test]
fn leveled_writes_more_and_keeps_fewer_runs() {
    let (tiered, leveled) = (outcome("tiered:4").unwrap(), outcome("leveled:8:base=8m").unwrap());
    assert!(leveled.write_amplification > tiered.write_amplification);
    assert!(leveled.mean_runs < tiered.mean_runs);
    assert_eq!(leveled.ops, 5 * KEYS);
}
