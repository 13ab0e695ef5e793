//! Tests that the policy of `examples/policy-template` is the same in Rust and as a script.

use std::path::Path;

use compaction_sim::model::machine::Machine;
use compaction_sim::model::meter::SimOutcome;
use compaction_sim::model::sim::{Setup, run};
use compaction_sim::model::size::ContentSize;
use compaction_sim::policy::script::ScriptPolicy;
use compaction_sim::workload::SimWorkload;
use firn_kv::TreeOptions;
use firn_kv::policy::CustomPolicy;

use crate::template::LazyTiers;

fn outcome(custom_policy: Option<CustomPolicy>) -> SimOutcome {
    let options = TreeOptions {
        custom_policy,
        memtable_size: 256 << 10,
        table_size: 256 << 10,
        ..TreeOptions::default()
    };
    let workload =
        SimWorkload::of(&"uniform".parse().unwrap(), 200_000, 50_000, ContentSize::default());
    let machine = Machine { ingest: 5e6, ..Machine::default() };
    run(&Setup::new(options, workload, machine), &mut |_| ()).unwrap()
}

#[test]
fn the_script_decides_as_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policy-template");
    let script = ScriptPolicy::of_file(&root.join("policy.rhai")).unwrap();
    let [ours, theirs, other] =
        [Some(CustomPolicy::new(LazyTiers)), Some(CustomPolicy::new(script)), None].map(outcome);
    let figures = |o: &SimOutcome| (o.merges, o.merge_written, o.max_runs, o.peak_bytes);
    assert_eq!(figures(&ours), figures(&theirs));
    assert!(ours.merges > 3 && figures(&ours) != figures(&other));
}
