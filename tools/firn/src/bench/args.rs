//! Options of `firn bench`.

use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use compaction_sim::cli::ReproduceArgs;
use compaction_sim::policy_bench::{self, PolicyBenchArgs};
use firn_bench::BenchArgs;
use firn_kv::DbOptions;
use firn_tools::output::{Done, Failure};
use firn_wide::{Options, StoreOptions, Wide};
use firn_workload::phase::parse_count;

use crate::shell::connect::ConnectArgs;

/// Arguments of `firn bench`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchCommandArgs {
    #[command(flatten)]
    pub model: ModelBenchArgs,
    #[command(subcommand)]
    pub research: Option<ResearchBench>,
}

/// Benches of compaction policies, with options of their own.
#[derive(Subcommand, Clone, Debug)]
pub enum ResearchBench {
    /// Compare compaction policies, also your own, in the simulator and on the engine
    #[command(after_help = policy_bench::EXAMPLES)]
    Policy(PolicyBenchArgs),
    /// Compare the claims of papers about compaction with the simulator, as one table
    #[command(after_help = PAPERS_EXAMPLES)]
    Papers(ReproduceArgs),
}

const PAPERS_EXAMPLES: &str = "\
Exit code 1: the agreement with a claim differs from the known one.

Examples:
  firn bench papers
  firn bench papers dostoevsky monkey --json
  firn bench papers --csv papers.csv --markdown papers.md --html papers.html";

/// Arguments of a bench of the engine or of a model.
#[derive(Args, Clone, Debug)]
pub struct ModelBenchArgs {
    #[command(flatten)]
    pub engine: BenchArgs,
    /// Measure this layer: the engine, the data model of rows and columns, or CQL
    #[arg(long, value_enum, default_value = "kv", value_name = "MODEL")]
    pub model: BenchModel,
    /// Write this many rows: of 10 columns of 100 bytes (--model wide), of 4 columns (--model cql)
    #[arg(long, value_name = "ROWS", default_value = "100k", value_parser = parse_count)]
    pub rows: u64,
    /// Write this many columns to the widest row of --model wide
    #[arg(long, value_name = "COLUMNS", default_value = "1m", value_parser = parse_count)]
    pub columns: u64,
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Set the replication factor of each data centre, for --model cql with --connect
    #[arg(long, value_name = "NODES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100), requires = "connect")]
    pub replication: u32,
}

impl ModelBenchArgs {
    /// Opens the store of a model's bench, with this memory budget.
    pub fn open_wide(&self, dir: &Path, budget: u64) -> Done<Wide> {
        let db = DbOptions {
            memory_budget: usize::try_from(budget).unwrap_or(usize::MAX),
            durability: self.engine.durability(),
            ..DbOptions::default()
        };
        db.check()?;
        let options = Options {
            store: StoreOptions { db, clock: None, ..StoreOptions::default() },
            ..Options::default()
        };
        Wide::open_with(dir, options).map_err(|e| Failure::new(e.to_string()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchModel {
    /// Keys and values
    Kv,
    /// Rows of columns
    Wide,
    /// Statements about tables
    Cql,
}
