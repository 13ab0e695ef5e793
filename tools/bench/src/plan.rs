//! Plan of a bench from its command line: steps, and the options of store and workloads.

use std::sync::Arc;

use firn_kv::policy::PolicyError;
use firn_kv::{DbOptions, TreeOptions};
use firn_workload::{Config, Extent, OperationMix, WorkloadDescription, WorkloadStep};

use crate::BenchArgs;
use firn_tools::output::{Done, Failure};
use firn_tools::workload;
use firn_workload::firn::StoreSums;

/// Steps of a bench without arguments: writes, reads of the result, then the same reads of the
/// compacted store.
pub const STANDARD: &str = "fillrandom,overwrite,wait,readrandom,readmissing,readseq,readreverse,seekrandom,\
    compact,readrandom,readmissing,readseq,readreverse,seekrandom,readwhilewriting";
/// Steps of `ycsb`.
const YCSB: &str = "ycsb-load,ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f";

/// A parsed bench.
#[derive(Clone, Debug)]
pub struct BenchPlan {
    /// The steps in order.
    pub steps: Vec<WorkloadStep>,
    /// Notes about added steps.
    pub notes: Vec<String>,
    /// Options of the workloads.
    pub config: Config,
    /// Options of the store.
    pub db: DbOptions,
    /// Options of its tree.
    pub tree: TreeOptions,
    /// The description of all that.
    pub description: WorkloadDescription,
}

impl BenchPlan {
    /// Parses the command line.
    pub fn new(args: &BenchArgs) -> Done<BenchPlan> {
        let description = args.description()?;
        let names = description.steps.split([',', ' ', '\n']).map(str::trim);
        let asked: Vec<String> =
            names.filter(|w| !w.is_empty()).map(str::to_ascii_lowercase).collect();
        if asked.is_empty() {
            return Err(Failure::with_next(
                "no phase is named",
                "`firn bench --help` lists them; without any, it is a standard run",
            ));
        }
        let mut steps = vec![];
        for name in &asked {
            for one in if name == "ycsb" { YCSB.split(',').collect() } else { vec![name.as_str()] }
            {
                steps.push(step(one, args, &description)?);
            }
        }
        let mut notes = vec![];
        if !args.keep {
            fill_first(&mut steps, &mut notes, &description)?;
        }
        let mut plan = BenchPlan { steps, notes, ..BenchPlan::of_options(args, description)? };
        if plan.steps.iter().any(|s| matches!(s, WorkloadStep::Run(p) if p.mix.merges > 0.0)) {
            plan.tree.merge_operator = Some(Arc::new(StoreSums));
        }
        Ok(plan)
    }

    /// Parses the options of workloads and store, without steps.
    pub fn of_options(args: &BenchArgs, description: WorkloadDescription) -> Done<BenchPlan> {
        let config = description.config();
        config.check().map_err(Failure::new)?;
        let settings = &description.store;
        let db = DbOptions { read_mode: args.read_mode.into(), ..workload::db_options(settings)? };
        let policy =
            settings.policy.parse().map_err(|e: PolicyError| Failure::new(e.to_string()))?;
        let tree = TreeOptions { policy, ..workload::tree_options(settings)? };
        tree.check()?;
        Ok(BenchPlan { steps: vec![], notes: vec![], config, db, tree, description })
    }
}

fn step(name: &str, args: &BenchArgs, description: &WorkloadDescription) -> Done<WorkloadStep> {
    let mut step = description.step(name).map_err(|why| {
        Failure::with_next(
            why,
            "the steps compact, flush and wait, and ycsb for all of YCSB; see firn bench --help",
        )
    })?;
    if let WorkloadStep::Run(phase) = &mut step
        && phase.extent.is_none()
        && phase.mix.reads()
        && !phase.mix.hashed
    {
        phase.extent = args.reads.map(Extent::Operations);
    }
    Ok(step)
}

/// On a fresh store, adds a load step before phases that read.
fn fill_first(
    steps: &mut Vec<WorkloadStep>,
    notes: &mut Vec<String>,
    d: &WorkloadDescription,
) -> Done {
    let phases = steps
        .iter()
        .filter_map(|s| if let WorkloadStep::Run(p) = s { Some(&*p.mix) } else { None });
    let order: Vec<OperationMix> = phases.cloned().collect();
    let mut add = |before: fn(&OperationMix) -> bool, fill: &str| -> Done {
        let is_before = |s: &WorkloadStep| matches!(s, WorkloadStep::Run(p) if before(&p.mix));
        let at = steps.iter().position(is_before).unwrap_or(0);
        steps.insert(at, d.step(fill).map_err(Failure::new)?);
        notes.push(format!("the store is fresh, so {fill} comes first"));
        Ok(())
    };
    // Phases with hashed keys need records with such keys.
    let of_hashed = |m: &OperationMix| m.hashed && m.distribution.is_random();
    let first_hashed = order.iter().position(of_hashed);
    if first_hashed.is_some_and(|i| !order[..i].iter().any(|m| m.hashed)) {
        add(of_hashed, "ycsb-load")?;
    }
    let of_plain = |m: &OperationMix| m.reads() && !m.hashed;
    if order.first().is_some_and(of_plain) {
        add(of_plain, "filluniquerandom")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn steps(line: &str) -> Vec<String> {
        let line = Line::try_parse_from(std::iter::once("bench").chain(line.split_whitespace()))
            .unwrap_or_else(|e| panic!("{e}"));
        BenchPlan::new(&line.bench).unwrap().steps.iter().map(WorkloadStep::to_string).collect()
    }

    #[test]
    fn steps_are_what_was_asked_for() {
        assert_eq!(steps("").join(","), STANDARD.replace(' ', ""));
        assert_eq!(steps("fillseq,compact readseq"), ["fillseq", "compact", "readseq"]);
        assert_eq!(
            steps("fillrandom readrandom:3 --threads 2 --reads 5k"),
            ["fillrandom:2", "readrandom@5000:3"]
        );
        assert_eq!(steps("ycsb").len(), 7);
    }

    #[test]
    fn a_tree_has_the_sizes_that_were_given() {
        let sizes = |line: &str| {
            let line = Line::try_parse_from(line.split(' ')).unwrap_or_else(|e| panic!("{e}"));
            let tree = BenchPlan::new(&line.bench).unwrap().tree;
            (tree.memtable_size, tree.table_size)
        };
        assert_eq!(sizes("bench --memtable-size 2m --table-size 3m"), (2 << 20, 3 << 20));
        assert_eq!(sizes("bench").1, TreeOptions::default().table_size);
    }

    #[test]
    fn a_fresh_store_is_filled_first() {
        assert_eq!(steps("readrandom"), ["filluniquerandom", "readrandom"]);
        assert_eq!(steps("readrandom --keep"), ["readrandom"]);
        assert_eq!(steps("ycsb-a ycsb-b"), ["ycsb-load", "ycsb-a", "ycsb-b"]);
        assert_eq!(steps("fillrandom ycsb-c"), ["fillrandom", "ycsb-load", "ycsb-c"]);
    }
}
