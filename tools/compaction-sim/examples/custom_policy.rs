//! A custom policy, compared with one of the engine: as a trait, in a program. A script can do the
//! same (`docs/simulate.md`). The engine runs the same object (`docs/research.md`).
//!
//! `cargo run --release -p compaction-sim --example custom_policy`

use compaction_sim::model::machine::Machine;
use compaction_sim::model::meter::SimOutcome;
use compaction_sim::model::sim::{Setup, run};
use compaction_sim::model::size::ContentSize;
use compaction_sim::workload::SimWorkload;
use firn_kv::policy::{CompactionPolicy, CompactionRequest, CustomPolicy, LsmShape};
use firn_kv::{Policy, TreeOptions};

/// The binomial counter: two adjacent runs of about the same size become one.
struct Binomial;

impl CompactionPolicy for Binomial {
    fn name(&self) -> &str {
        "binomial"
    }

    fn requests(&self, shape: &LsmShape) -> Vec<CompactionRequest> {
        let alike = |i: &usize| shape.runs[*i].size() * 2 > shape.runs[i + 1].size();
        let pairs = (0..shape.runs.len().saturating_sub(1)).filter(alike);
        pairs.map(|i| CompactionRequest::whole(i..=i + 1)).collect()
    }
}

/// Returns the outcome of a custom policy, or else of the policy with this text, for a million inserts of
/// 100 bytes at 5 MB per second.
fn outcome(
    policy: &str,
    custom_policy: Option<CustomPolicy>,
) -> Result<SimOutcome, Box<dyn std::error::Error>> {
    let content = ContentSize { random: 1.0, ..ContentSize::default() };
    let options = TreeOptions {
        policy: policy.parse::<Policy>()?,
        custom_policy,
        memtable_size: 1 << 20,
        table_size: 1 << 20,
        ..TreeOptions::default()
    };
    let workload = SimWorkload::of(&"insert".parse()?, 1_000_000, 0, content);
    let machine = Machine { ingest: 5e6, ..Machine::default() };
    Ok(run(&Setup::new(options, workload, machine), &mut |_| ())?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for (name, custom) in [("tiered:4", None), ("binomial", Some(CustomPolicy::new(Binomial)))] {
        let of = outcome("tiered:4", custom)?;
        println!(
            "{name}: {:.1} bytes written for each put, {:.1} runs on average",
            of.write_amplification, of.mean_runs
        );
    }
    Ok(())
}

#[test]
fn the_binomial_counter_keeps_the_logarithm_of_what_it_was_given() {
    let custom = outcome("tiered:4", Some(CustomPolicy::new(Binomial))).unwrap();
    let tiered = outcome("tiered:4", None).unwrap();
    assert!(custom.merges > 0 && custom.live_bytes == tiered.live_bytes);
    assert!(custom.max_runs <= 1 + custom.flushes.ilog2() as usize * 2, "{} runs", custom.max_runs);
    assert!(custom.mean_runs < tiered.mean_runs);
    assert!(custom.write_amplification > tiered.write_amplification);
}
