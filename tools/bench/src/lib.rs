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
use firn_kv::{Compression, Policy, ReadMode};
use firn_workload::spec::parse_count;
use firn_workload::{Distribution, ValueSize};

use self::shape::BenchShape;
use firn_tools::options::{self, Durable, StoreArgs};
use firn_tools::output::Done;

/// Examples of the help text, for `firn bench`.
pub const EXAMPLES: &str = "\
Without arguments: a standard run with 1,000,000 keys of 16 bytes and values of 100 bytes that compress to about 55 %, on a fresh
store in ./firn-data, in well under a minute. An earlier bench's store there is replaced; anything else is refused.

Workloads, by db_bench's and YCSB's names, separated by commas or blanks; NAME@OPERATIONS:THREADS sets both for one of them:
  fillseq fillrandom filluniquerandom fillbatch fillsync overwrite mergerandom deleterandom
  deleteseq deleterange (of 100 keys each)
  readrandom readmissing readseq readreverse seekrandom readwhilewriting mixgraph
  ycsb-load ycsb-a … ycsb-f, or ycsb for all of them (records of 1,000 bytes; loaded first if need be)
  and the steps compact, flush, wait (until background work is done)
  or, alone, ltm: a store larger than memory. It takes --limit, --seconds and what workloads take but --reads, --series
  and --html. 2,000,000 keys in 48 MiB are a small run of it. Bytes to and from the device stand beside the rates
  or, alone, cliffs: what operations cost after histories that could make them slow, as ratios to what they cost normally;
  exit code 1 when one is above --bound
  or, alone, queue: the first look behind --deletions many deletions, in memory and in tables, beside one where nothing was
  deleted, and scans among deletions by RocksDB's published recipe (--recipe keys)
  or, alone, trees: what many trees under one budget cost to open, at rest and while they are written. It takes --num, --memory-budget,
  --memtable-size and --durability
  or, alone, small: what each of many small stores costs that one process has open. It takes --stores and --records

Policies: as firn set-options takes them; firn set-options --help has them with their parameters

Examples:
  firn bench
  firn bench fillrandom readrandom:2 --num 5m --memory-budget 1g
  firn bench ycsb --threads 2
  firn bench fillrandom,overwrite,overwrite --policy leveled:8 --series over-time.csv --html over-time.html
  firn bench readrandom --keep --distribution zipfian      on the store that the last bench left
  firn bench fillsync@2000 --durability power --json
  firn bench mergerandom,readrandom                        counters; a store of them is gone on with as one (--keep mergerandom)
  firn bench fillseq,deleterange@1k,readseq                a thousand range deletions, and what a scan makes of them
  firn bench ltm --num 20m --limit 512m --memory-budget 256m --json
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
    /// Workloads, run in this order [default: a standard run]
    #[arg(value_name = "WORKLOAD", value_delimiter = ',')]
    pub workloads: Vec<String>,
    /// Number of keys, such as 500k or 5m
    #[arg(long, value_name = "KEYS", default_value = "1m", value_parser = parse_count)]
    num: u64,
    /// Operations of read workloads [default: the number of keys, a tenth for seeks]
    #[arg(long, value_name = "OPERATIONS", value_parser = parse_count)]
    reads: Option<u64>,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    key_size: usize,
    /// Bytes of a value: 100, 50-200, or pareto [default: 100; 1000 for YCSB]
    #[arg(long, value_name = "BYTES", value_parser = parse_value)]
    value_size: Option<ValueSize>,
    /// Threads of workloads without their own number
    #[arg(long, value_name = "THREADS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Key distribution: uniform, zipfian, zipfian:THETA, latest, hotspot, exponential, sequential
    /// [default: the workload's]
    #[arg(long, value_name = "NAME", value_parser = parse_distribution)]
    distribution: Option<Distribution>,
    /// Durability of a write when its call returns
    #[arg(long, value_enum, default_value = "process")]
    pub durability: Durable,
    /// Compaction policy, with its parameters after colons
    #[arg(long, value_name = "POLICY", default_value = "tiered")]
    policy: Policy,
    /// Memory budget for memtables, cache, indexes and filters
    #[arg(long = "memory-budget", alias = "budget", value_name = "SIZE", default_value = "256m", value_parser = options::size)]
    pub budget: u64,
    /// Maximum compaction I/O per second, reads and writes together [default: unlimited]
    #[arg(long = "background-rate", alias = "rate", value_name = "SIZE", value_parser = options::size_per_second)]
    rate: Option<u64>,
    /// Maximum bytes of read-triggered compactions, in percent of flushed bytes; 0: none
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    read_compaction_percent: u32,
    /// Memory of one memtable
    #[arg(long = "memtable-size", alias = "memtable", value_name = "SIZE", default_value = "64m", value_parser = options::size)]
    memtable: u64,
    /// Target size of tables [default: the engine's]
    #[arg(long, value_name = "SIZE", value_parser = options::size)]
    table_size: Option<u64>,
    /// Size of the smallest value that goes to a blob file [default: the engine's]
    #[arg(long, value_name = "SIZE", value_parser = options::size)]
    blob_threshold: Option<u64>,
    /// Distribution of filter memory between runs
    #[arg(long, value_enum, default_value = "by-level")]
    filter_allocation: options::Allocation,
    /// Compression of blocks
    #[arg(long, value_enum, default_value = "lz4")]
    compression: Codec,
    /// Method of reading table files
    #[arg(long, value_enum, default_value = "auto")]
    read_mode: Reads,
    /// Total memory of `ltm`, including page cache; 0 if limited externally
    #[arg(long, value_name = "SIZE", default_value = "512m", value_parser = options::size)]
    limit: u64,
    /// Duration of each read step of `ltm`
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Codec {
    /// No compression
    None,
    /// LZ4
    Lz4,
    /// Zstandard
    Zstd,
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

impl From<Codec> for Compression {
    fn from(c: Codec) -> Compression {
        match c {
            Codec::None => Compression::None,
            Codec::Lz4 => Compression::Lz4,
            Codec::Zstd => Compression::Zstd,
        }
    }
}

fn parse_value(text: &str) -> Result<ValueSize, String> {
    text.parse()
}

fn parse_distribution(text: &str) -> Result<Distribution, String> {
    text.parse()
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
