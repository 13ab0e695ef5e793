//! Plan of a bench from its command line: steps, and the options of store and workloads.

use std::fmt;
use std::sync::Arc;

use firn_kv::{DbOptions, TreeOptions};
use firn_workload::{Config, Phase, Workload};

use crate::BenchArgs;
use firn_tools::output::{Done, Failure};
use firn_workload::firn::StoreSums;

/// Steps of a bench without arguments: writes, reads of the result, then the same reads of the
/// compacted store.
const STANDARD: &str = "fillrandom,overwrite,wait,readrandom,readmissing,readseq,readreverse,seekrandom,\
    compact,readrandom,readmissing,readseq,readreverse,seekrandom,readwhilewriting";
/// Steps of `ycsb`.
const YCSB: &str = "ycsb-load,ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f";

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BenchStep {
    /// A workload.
    Run(Phase),
    /// Compact everything into one run.
    Compact,
    /// Flush the memtable.
    Flush,
    /// Wait until background work is done.
    Wait,
}

impl fmt::Display for BenchStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchStep::Run(phase) => phase.fmt(f),
            BenchStep::Compact => f.write_str("compact"),
            BenchStep::Flush => f.write_str("flush"),
            BenchStep::Wait => f.write_str("wait"),
        }
    }
}

/// A parsed bench.
#[derive(Clone, Debug)]
pub struct BenchPlan {
    /// The steps in order.
    pub steps: Vec<BenchStep>,
    /// Notes about added steps.
    pub notes: Vec<String>,
    /// Options of the workloads.
    pub config: Config,
    /// Options of the store.
    pub db: DbOptions,
    /// Options of its tree.
    pub tree: TreeOptions,
}

fn is_ycsb(w: Workload) -> bool {
    use Workload::*;
    matches!(w, YcsbA | YcsbB | YcsbC | YcsbD | YcsbE | YcsbF)
}

/// Reports whether a workload requires existing keys.
fn reads(w: Workload) -> bool {
    use Workload::*;
    matches!(
        w,
        ReadRandom | ReadMissing | ReadSeq | ReadReverse | SeekRandom | ReadWhileWriting | Mixgraph
    )
}

impl BenchPlan {
    /// Parses the command line.
    pub fn new(args: &BenchArgs) -> Done<BenchPlan> {
        let mut steps = vec![];
        let asked: Vec<String> = match args.workloads.is_empty() {
            true => STANDARD.split(',').map(str::to_owned).collect(),
            false => args
                .workloads
                .iter()
                .map(|w| w.trim().to_ascii_lowercase())
                .filter(|w| !w.is_empty())
                .collect(),
        };
        if asked.is_empty() {
            return Err(Failure::with_next(
                "no workload is named",
                "`firn bench --help` lists them; without any, it is a standard run",
            ));
        }
        for name in &asked {
            for one in if name == "ycsb" { YCSB.split(',').collect() } else { vec![name.as_str()] }
            {
                steps.push(step(one, args)?);
            }
        }
        let mut notes = vec![];
        if !args.keep {
            fill_first(&mut steps, &mut notes, args);
        }
        let mut plan = BenchPlan { steps, notes, ..BenchPlan::of_options(args)? };
        if plan
            .steps
            .iter()
            .any(|s| matches!(s, BenchStep::Run(p) if p.workload == Workload::MergeRandom))
        {
            plan.tree.merge_operator = Some(Arc::new(StoreSums));
        }
        Ok(plan)
    }

    /// Parses the options of workloads and store, without steps.
    pub fn of_options(args: &BenchArgs) -> Done<BenchPlan> {
        let defaults = Config::default();
        let config = Config {
            num: args.num,
            key_size: args.key_size,
            value: args.value_size.unwrap_or(defaults.value),
            ycsb_value: args.value_size.unwrap_or(defaults.ycsb_value),
            seed: args.seed,
            distribution: args.distribution,
            ..defaults
        };
        config.check().map_err(Failure::new)?;
        let db = DbOptions {
            memory_budget: usize::try_from(args.budget).unwrap_or(usize::MAX),
            durability: args.durability.into(),
            read_mode: args.read_mode.into(),
            wal_segment: args.memtable.clamp(1 << 20, 64 << 20),
            background_rate: args.rate,
            read_compaction_percent: args.read_compaction_percent,
            ..DbOptions::default()
        };
        db.check()?;
        let usual = TreeOptions::default();
        let tree = TreeOptions {
            blob_threshold: args
                .blob_threshold
                .map_or(usual.blob_threshold, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            filter_allocation: args.filter_allocation.into(),
            compression: vec![args.compression.into()],
            memtable_size: usize::try_from(args.memtable).unwrap_or(usize::MAX),
            table_size: args.table_size.unwrap_or(usual.table_size),
            policy: args.policy.clone(),
            ..usual
        };
        tree.check()?;
        Ok(BenchPlan { steps: vec![], notes: vec![], config, db, tree })
    }
}

fn step(name: &str, args: &BenchArgs) -> Done<BenchStep> {
    match name {
        "compact" => return Ok(BenchStep::Compact),
        "flush" => return Ok(BenchStep::Flush),
        "wait" => return Ok(BenchStep::Wait),
        _ => {}
    }
    let mut phase: Phase = name.parse().map_err(|why: String| {
        Failure::with_next(
            why,
            "the steps compact, flush and wait, and ycsb for all of YCSB; see firn bench --help",
        )
    })?;
    if !name.contains(':') {
        phase.threads = usize::from(args.threads);
    }
    if phase.ops.is_none() && reads(phase.workload) {
        phase.ops = args.reads;
    }
    Ok(BenchStep::Run(phase))
}

/// On a fresh store, adds a load step before workloads that read.
fn fill_first(steps: &mut Vec<BenchStep>, notes: &mut Vec<String>, args: &BenchArgs) {
    let phases = |steps: &[BenchStep]| -> Vec<Workload> {
        steps
            .iter()
            .filter_map(|s| if let BenchStep::Run(p) = s { Some(p.workload) } else { None })
            .collect()
    };
    let order = phases(steps);
    let mut add = |before: &dyn Fn(Workload) -> bool, fill: Workload| {
        let at = steps
            .iter()
            .position(|s| matches!(s, BenchStep::Run(p) if before(p.workload)))
            .unwrap_or(0);
        steps.insert(
            at,
            BenchStep::Run(Phase { workload: fill, ops: None, threads: usize::from(args.threads) }),
        );
        notes.push(format!("the store is fresh, so {fill} comes first"));
    };
    let first_ycsb = order.iter().position(|w| is_ycsb(*w));
    if first_ycsb.is_some_and(|i| !order[..i].contains(&Workload::YcsbLoad)) {
        add(&is_ycsb, Workload::YcsbLoad);
    }
    let first_read = order.iter().position(|w| reads(*w));
    if first_read == Some(0) {
        add(&reads, Workload::FillUniqueRandom);
    }
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
        BenchPlan::new(&line.bench).unwrap().steps.iter().map(BenchStep::to_string).collect()
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
            let tree = BenchPlan::of_options(&line.bench).unwrap().tree;
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
