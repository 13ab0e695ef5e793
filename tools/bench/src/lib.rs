//! Benches of the engine for `firn bench` and `firn-bench`: runs workloads on a fresh store and
//! reports speed, cost, and advice.
//!
//! `shape` selects the bench, `plan` parses the command line into steps, `directory` prepares the
//! store, `run` measures, `timed` samples latencies, `report` prints, `picture` draws, `advice`
//! draws the conclusions. [`duel`] compares two alternatives in turns, for benches of the models
//! above the engine. `ltm` measures a store larger than memory, `cliffs` the effect of histories on
//! single operations, `queue` the first read after many deletions, `small` the cost of a small
//! store, and `trees` the cost of many trees.

mod advice;
mod cliffs;
mod directory;
pub mod duel;
mod ltm;
mod picture;
mod plan;
mod queue;
mod report;
mod run;
mod shape;
mod small;
mod timed;
mod trees;

pub use directory::{ModelCliffs, ModelStores, is_of_a_bench, mark};
pub use shape::{given, not_alone, refuse_others};

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use firn_kv::{Durability, Policy, ReadMode};
use firn_workload::phase::parse_count;
use firn_workload::{StoreSettings, WorkloadDescription};

use self::shape::BenchShape;
use firn_tools::options::{self, StoreArgs};
use firn_tools::output::{Done, Failure};
use firn_tools::workload::{WorkloadArgs, standard_phases, standard_workloads};

/// Returns the explanations and examples of the help text, for `firn bench`.
pub fn examples() -> String {
    format!(
        "{ABOUT}\nPhases:\n{}\nWorkloads for --workload:\n{}{EXAMPLES}",
        standard_phases(),
        standard_workloads()
    )
}

const ABOUT: &str = "\
Without arguments: a standard run with 1,000,000 keys of 16 bytes and values of 100 bytes that compress to about 55 %, on a fresh
store in ./firn-data, in well under a minute. An earlier bench's store there is replaced; anything else is refused.

A phase is NAME@EXTENT:THREADS, where the extent is a number of operations (500k), a share of the keys (300%) or a time (60s).
Phases and the steps compact, flush and wait (until background work is done) are separated by commas or blanks. ycsb stands for
all phases of YCSB. docs/workloads.md explains description files, which compaction-sim reads, too.

Benches that are named alone:
  ltm      a store larger than memory, with the bytes to and from the device
  cliffs   what operations cost after histories that could make them slow, as ratios; exit code 1 when one is above --bound
  queue    the first look behind --deletions many deletions, and scans among deletions by RocksDB's published recipe
  trees    what many trees under one budget cost to open, at rest and while they are written
  small    what each of many small stores costs that one process has open
";

const EXAMPLES: &str = "
Policies: as firn set-options takes them; firn set-options --help has them with their parameters

Examples:
  firn bench
  firn bench fillrandom readrandom:2 --keys 5m --memory-budget 1g
  firn bench --workload churn.toml --seed 7
  firn bench --workload zipfian:0.9 --data 1g --memtable-size 8m
  firn bench ycsb --threads 2
  firn bench fillrandom,overwrite,overwrite --policy leveled:8 --series over-time.csv --html over-time.html
  firn bench readrandom --keep --distribution zipfian      on the store that the last bench left
  firn bench fillsync@2000 --durability power --json
  firn bench mergerandom,readrandom                        counters; a store of them is gone on with as one (--keep mergerandom)
  firn bench fillseq,deleterange@1k,readseq                a thousand range deletions, and what a scan makes of them
  firn bench ltm --keys 20m --limit 512m --memory-budget 256m --json
  firn bench small --stores 1000 --records 100
  firn bench queue --deletions 1m --rounds 3
  firn bench queue --orders queues --queues 1000 --deletions 1m --recipe 0     one tree has a thousand queues
  firn bench cliffs --history 20k --bound 20               no history may make an operation 20 times slower
  firn bench trees --trees 60,10k --memory-budget 64m             memory and puts a second of many trees";

/// Environment of a bench.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// The store, and output options.
    pub store: &'a StoreArgs,
    /// Stores of benches of the data model, if the program has such benches. Without them, a store
    /// with a data model is never removed.
    pub models: Option<ModelStores>,
}

/// Arguments of a bench of the engine.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Phases and steps, run in this order, instead of those of the workload [default: a standard
    /// run]
    #[arg(value_name = "PHASE", value_delimiter = ',')]
    pub workloads: Vec<String>,
    /// Compaction policy, with its parameters after colons [default: tiered]
    #[arg(long, value_name = "POLICY")]
    policy: Option<Policy>,
    /// Write about this many bytes of keys and values, with a number of keys in proportion
    #[arg(long, value_name = "SIZE", value_parser = options::size, conflicts_with = "keys")]
    data: Option<u64>,
    /// Operations of phases that read [default: the phase's]
    #[arg(long, value_name = "OPERATIONS", value_parser = parse_count)]
    reads: Option<u64>,
    /// Method of reading table files
    #[arg(long, value_enum, default_value = "auto")]
    read_mode: Reads,
    /// Total memory of `ltm`, including page cache; 0 if limited externally
    #[arg(long, value_name = "SIZE", default_value = "512m", value_parser = options::size)]
    limit: u64,
    /// Duration of each read step of `ltm`
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Continue with the store of the last bench instead of replacing it
    #[arg(long)]
    keep: bool,
    /// Write throughput and latency over time to this file as CSV (times more operations, at a
    /// small cost)
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Write an HTML page of the results: levels, rates and latencies over time, and the numbers of
    /// each step
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    cliffs: cliffs::CliffArgs,
    #[command(flatten)]
    queue: queue::QueueArgs,
    #[command(flatten)]
    trees: trees::TreeArgs,
    #[command(flatten)]
    small: small::SmallArgs,
    /// The workload and the store.
    #[command(flatten)]
    pub workload: WorkloadArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reads {
    /// The engine's choice
    Auto,
    /// Memory-mapped
    Mmap,
    /// With pread
    Pread,
}

impl From<Reads> for ReadMode {
    fn from(r: Reads) -> ReadMode {
        match r {
            Reads::Auto => ReadMode::Auto,
            Reads::Mmap => ReadMode::Mmap,
            Reads::Pread => ReadMode::Pread,
        }
    }
}

impl BenchArgs {
    /// Returns the description of the workload and the store: that of `--workload`, with the given
    /// options.
    ///
    /// # Errors
    /// A file that cannot be read, and values that are out of bounds.
    pub fn description(&self) -> Done<WorkloadDescription> {
        let usual = WorkloadDescription {
            steps: plan::STANDARD.to_owned(),
            ..WorkloadDescription::default()
        };
        let mut d = self.workload.description(&usual)?;
        if let Some(policy) = &self.policy {
            d.store.policy = policy.to_string();
        }
        if !self.workloads.is_empty() {
            d.steps = self.workloads.join(",");
        }
        if let Some(bytes) = self.data {
            d.scale_to(bytes).map_err(|why| Failure::with_next(why, "give --keys instead"))?;
        }
        Ok(d)
    }

    /// Returns the memory budget in bytes.
    pub fn budget(&self) -> u64 {
        self.workload.memory_budget.unwrap_or(StoreSettings::default().memory_budget)
    }

    /// Returns the random seed.
    pub fn seed(&self) -> u64 {
        self.workload.seed.unwrap_or(WorkloadDescription::default().seed)
    }

    /// Returns the durability of a write.
    pub fn durability(&self) -> Durability {
        self.workload.durability.map_or_else(Durability::default, Durability::from)
    }
}

/// Runs the selected bench, given the names of the options on the command line.
pub fn run(setting: &Setting<'_>, args: &BenchArgs, given: &[String]) -> Done {
    let shape = BenchShape::of(args)?;
    shape.check(given)?;
    match shape {
        BenchShape::Workloads => {}
        BenchShape::Ltm => return ltm::run(setting, args),
        BenchShape::Cliffs => return cliffs::run(setting, &args.cliffs),
        BenchShape::Queue => return queue::run(setting, &args.queue),
        BenchShape::Trees => return trees::run(setting, args),
        BenchShape::Small => return small::run(setting, &args.small),
    }
    let plan = plan::BenchPlan::new(args)?;
    for note in &plan.notes {
        eprintln!("{note}");
    }
    let measured = run::measure(setting, args, &plan)?;
    report::print(setting, args, &measured)
}
