//! Two policies under one workload, from a program: what each writes, and how many runs a read
//! meets.
//!
//! `cargo run --release -p compaction-sim --example compare`

use compaction_sim::machine::Machine;
use compaction_sim::meter::SimOutcome;
use compaction_sim::sim::{Setup, run};
use compaction_sim::size::ContentSize;
use compaction_sim::workload::{SimOpKind, SimWorkload};
use firn_kv::{Policy, TreeOptions};

/// What a policy, by its text, does to a million inserts of 100 bytes.
fn outcome(policy: &str) -> Result<SimOutcome, Box<dyn std::error::Error>> {
    let policy: Policy = policy.parse()?;
    let (keys, phases) = SimOpKind::Insert.phases(1_000_000, 0);
    let content = ContentSize { key_len: 16, value_len: (100, 100), random: 1.0, sample: vec![] };
    let options = TreeOptions {
        policy,
        memtable_size: 1 << 20,
        table_size: 1 << 20,
        ..TreeOptions::default()
    };
    let workload =
        SimWorkload { keys, phases, content, ttl_micros: 0, seed: 1, per_memtable: None };
    let setup = Setup::new(options, workload, Machine::default());
    Ok(run(&setup, &mut |_| ())?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for policy in ["tiered:4", "leveled:8:base=8m"] {
        let of = outcome(policy)?;
        println!(
            "{policy}: {:.1} bytes written for each put, {:.1} runs on average",
            of.write_amplification, of.mean_runs
        );
    }
    Ok(())
}

#[test]
fn leveled_writes_more_and_keeps_fewer_runs() {
    let (tiered, leveled) = (outcome("tiered:4").unwrap(), outcome("leveled:8:base=8m").unwrap());
    assert!(leveled.write_amplification > tiered.write_amplification);
    assert!(leveled.mean_runs < tiered.mean_runs);
}
