//! What a bench does, from its command line: steps, and the options of store and workloads.

use std::fmt;

use firn_kv::{DbOptions, Movement, Policy, TreeOptions};
use firn_workload::{Config, Phase, Workload};

use super::BenchArgs;
use firn_tools::output::{Done, Failure};

/// The run of a bench without arguments: writes, reads of what they left, then the same reads of the compacted store.
const STANDARD: &str = "fillrandom,overwrite,wait,readrandom,readmissing,readseq,readreverse,seekrandom,\
    compact,readrandom,readmissing,readseq,readreverse,seekrandom,readwhilewriting";
/// `ycsb` stands for these.
const YCSB: &str = "ycsb-load,ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f";

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A workload.
    Run(Phase),
    /// Merge everything into one run.
    Compact,
    /// Write the memtable to a table.
    Flush,
    /// Wait until background work is done.
    Wait,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Run(phase) => phase.fmt(f),
            Step::Compact => f.write_str("compact"),
            Step::Flush => f.write_str("flush"),
            Step::Wait => f.write_str("wait"),
        }
    }
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Step>,
    /// What was added to what the user asked for.
    pub notes: Vec<String>,
    /// For the workloads.
    pub config: Config,
    /// For the store.
    pub db: DbOptions,
    /// For its tree.
    pub tree: TreeOptions,
}

fn is_ycsb(w: Workload) -> bool {
    use Workload::*;
    matches!(w, YcsbA | YcsbB | YcsbC | YcsbD | YcsbE | YcsbF)
}

/// Whether a workload needs keys to be there.
fn reads(w: Workload) -> bool {
    use Workload::*;
    matches!(w, ReadRandom | ReadMissing | ReadSeq | ReadReverse | SeekRandom | ReadWhileWriting | Mixgraph)
}

impl Plan {
    /// From the command line.
    pub fn new(args: &BenchArgs) -> Done<Plan> {
        let mut steps = vec![];
        let asked: Vec<String> = match args.workloads.is_empty() {
            true => STANDARD.split(',').map(str::to_owned).collect(),
            false => args.workloads.iter().map(|w| w.trim().to_ascii_lowercase()).filter(|w| !w.is_empty()).collect(),
        };
        for name in &asked {
            for one in if name == "ycsb" { YCSB.split(',').collect() } else { vec![name.as_str()] } {
                steps.push(step(one, args)?);
            }
        }
        let mut notes = vec![];
        if !args.keep {
            fill_first(&mut steps, &mut notes, args);
        }
        Ok(Plan { steps, notes, ..Plan::of_options(args)? })
    }

    /// The options of workloads and store, without steps.
    pub fn of_options(args: &BenchArgs) -> Done<Plan> {
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
            ..DbOptions::default()
        };
        db.check()?;
        let tree = TreeOptions {
            compression: vec![args.compression.into()],
            memtable_size: usize::try_from(args.memtable).unwrap_or(usize::MAX),
            policy: args.policy.clone(),
            ..TreeOptions::default()
        };
        tree.check()?;
        Ok(Plan { steps: vec![], notes: vec![], config, db, tree })
    }
}

fn step(name: &str, args: &BenchArgs) -> Done<Step> {
    match name {
        "compact" => return Ok(Step::Compact),
        "flush" => return Ok(Step::Flush),
        "wait" => return Ok(Step::Wait),
        _ => {}
    }
    let mut phase: Phase = name.parse().map_err(|why: String| {
        Failure::with_next(why, "the steps compact, flush and wait, and ycsb for all of YCSB; see firn bench --help")
    })?;
    if !name.contains(':') {
        phase.threads = usize::from(args.threads);
    }
    if phase.ops.is_none() && reads(phase.workload) {
        phase.ops = args.reads;
    }
    Ok(Step::Run(phase))
}

/// A workload that reads finds something on a fresh store: what it needs is loaded before it.
fn fill_first(steps: &mut Vec<Step>, notes: &mut Vec<String>, args: &BenchArgs) {
    let phases = |steps: &[Step]| -> Vec<Workload> {
        steps.iter().filter_map(|s| if let Step::Run(p) = s { Some(p.workload) } else { None }).collect()
    };
    let order = phases(steps);
    let mut add = |before: &dyn Fn(Workload) -> bool, fill: Workload| {
        let at = steps.iter().position(|s| matches!(s, Step::Run(p) if before(p.workload))).unwrap_or(0);
        steps.insert(at, Step::Run(Phase { workload: fill, ops: None, threads: usize::from(args.threads) }));
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

/// Bytes, as `64m`, `1g`, `4096` or `256MiB`: units are powers of 1,024.
pub fn size(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let plain = lower.trim_end_matches('b').trim_end_matches('i');
    let (digits, shift) = match plain.strip_suffix(['k', 'm', 'g', 't']) {
        Some(digits) => (digits, 10 * (1 + "kmgt".find(&plain[digits.len()..]).unwrap_or(0))),
        None => (plain, 0),
    };
    let n: u64 = digits.trim().parse().map_err(|_| format!("{text:?} is no size; 64m and 1g are"))?;
    n.checked_mul(1 << shift).ok_or_else(|| format!("{text:?} is too large"))
}

/// A policy with its parameters behind colons.
pub fn policy(text: &str) -> Result<Policy, String> {
    let mut parts = text.split([':', ',']);
    let name = parts.next().unwrap_or_default();
    let given: Vec<&str> = parts.collect();
    let most = |n: usize| if given.len() > n { Err(format!("{name} takes at most {n} parameters")) } else { Ok(()) };
    fn parameter<T: std::str::FromStr>(given: &[&str], i: usize, default: T) -> Result<T, String> {
        given.get(i).map_or(Ok(default), |p| p.parse().map_err(|_| format!("{p:?} is no fitting number")))
    }
    let policy = match name {
        "tiered" => {
            most(3)?;
            let min_runs = parameter(&given, 0, 3)?;
            Policy::Tiered { min_runs, max_runs: parameter(&given, 1, 32.max(min_runs))?, bucket: parameter(&given, 2, 3.0)? }
        }
        "leveled" => {
            most(2)?;
            Policy::Leveled {
                ratio: parameter(&given, 0, 10)?,
                level0_runs: parameter(&given, 1, 4)?,
                base: 256 << 20,
                movement: Movement::default(),
            }
        }
        "lazy" => {
            most(1)?;
            Policy::LazyLeveled { ratio: parameter(&given, 0, 4)? }
        }
        "unified" => {
            let scaling: Result<Vec<i32>, String> = (0..given.len()).map(|i| parameter(&given, i, 0)).collect();
            let scaling = Some(scaling?).filter(|s| !s.is_empty()).unwrap_or_else(|| vec![2]);
            Policy::Unified { scaling, target_table: 64 << 20, base_shards: 4 }
        }
        "window" => {
            most(2)?;
            Policy::TimeWindow { window_secs: parameter(&given, 0, 3600)?, min_runs: parameter(&given, 1, 4)? }
        }
        "fifo" => {
            most(2)?;
            let max_bytes = given.first().map_or(Ok(1 << 30), |t| size(t))?;
            Policy::Fifo { max_bytes, max_age_secs: parameter(&given, 1, 0)? }
        }
        _ => return Err(format!("no policy is called {name:?}; there are tiered, leveled, lazy, unified, window and fifo")),
    };
    let options = TreeOptions { policy: policy.clone(), ..TreeOptions::default() };
    options.check().map_err(|e| e.message().to_owned())?;
    Ok(policy)
}

/// A policy as [`policy`] reads it.
pub fn policy_name(policy: &Policy) -> String {
    match policy {
        Policy::Tiered { min_runs, max_runs, bucket } => format!("tiered:{min_runs}:{max_runs}:{bucket}"),
        Policy::Leveled { level0_runs, ratio, .. } => format!("leveled:{ratio}:{level0_runs}"),
        Policy::LazyLeveled { ratio } => format!("lazy:{ratio}"),
        Policy::Unified { scaling, .. } => {
            let scaling: Vec<String> = scaling.iter().map(i32::to_string).collect();
            format!("unified:{}", scaling.join(":"))
        }
        Policy::TimeWindow { window_secs, min_runs } => format!("window:{window_secs}:{min_runs}"),
        Policy::Fifo { max_bytes, max_age_secs } => format!("fifo:{max_bytes}:{max_age_secs}"),
        other => format!("{other:?}"),
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
        let line =
            Line::try_parse_from(std::iter::once("bench").chain(line.split_whitespace())).unwrap_or_else(|e| panic!("{e}"));
        Plan::new(&line.bench).unwrap().steps.iter().map(Step::to_string).collect()
    }

    #[test]
    fn steps_are_what_was_asked_for() {
        assert_eq!(steps("").join(","), STANDARD.replace(' ', ""));
        assert_eq!(steps("fillseq,compact readseq"), ["fillseq", "compact", "readseq"]);
        assert_eq!(steps("fillrandom readrandom:3 --threads 2 --reads 5k"), ["fillrandom:2", "readrandom@5000:3"]);
        assert_eq!(steps("ycsb").len(), 7);
    }

    #[test]
    fn a_fresh_store_is_filled_first() {
        assert_eq!(steps("readrandom"), ["filluniquerandom", "readrandom"]);
        assert_eq!(steps("readrandom --keep"), ["readrandom"]);
        assert_eq!(steps("ycsb-a ycsb-b"), ["ycsb-load", "ycsb-a", "ycsb-b"]);
        assert_eq!(steps("fillrandom ycsb-c"), ["fillrandom", "ycsb-load", "ycsb-c"]);
    }

    #[test]
    fn sizes_and_policies_parse_or_say_why_not() {
        assert_eq!([size("64m"), size("1GiB"), size("512"), size("4kb")], [Ok(64 << 20), Ok(1 << 30), Ok(512), Ok(4096)]);
        assert!(size("m").is_err() && size("1x").is_err() && size("99999999t").is_err());
        assert_eq!(policy("tiered"), Ok(Policy::default()));
        assert_eq!(policy("lazy:6"), Ok(Policy::LazyLeveled { ratio: 6 }));
        assert_eq!(
            policy("unified:4:-2"),
            Ok(Policy::Unified { scaling: vec![4, -2], target_table: 64 << 20, base_shards: 4 })
        );
        assert_eq!(policy("fifo:1m:60"), Ok(Policy::Fifo { max_bytes: 1 << 20, max_age_secs: 60 }));
        for text in ["tiered:3:9:1.5", "leveled:8:2", "lazy:5", "unified:4:-2", "window:60:4", "fifo:1048576:60"] {
            assert_eq!(policy_name(&policy(text).unwrap()), text);
        }
        for bad in ["", "tired", "lazy:1", "lazy:2:3", "unified:x", "window:0"] {
            assert!(policy(bad).is_err(), "{bad}");
        }
    }
}
