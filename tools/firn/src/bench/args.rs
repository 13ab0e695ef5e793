//! The options of `firn bench`.

use clap::{Args, ValueEnum};
use firn_bench::BenchArgs;
use firn_workload::spec::parse_count;

/// What `firn bench` takes.
#[derive(Args, Clone, Debug)]
pub struct ModelBenchArgs {
    #[command(flatten)]
    pub engine: BenchArgs,
    /// What is measured: the engine itself, columns and rows on it, or CQL on those
    #[arg(long, value_enum, default_value = "kv", value_name = "MODEL")]
    pub model: BenchModel,
    /// Rows: of 10 columns of 100 bytes (--model wide), of 4 columns (--model cql)
    #[arg(long, value_name = "ROWS", default_value = "100k", value_parser = parse_count)]
    pub rows: u64,
    /// Columns of the widest row, of --model wide
    #[arg(long, value_name = "COLUMNS", default_value = "1m", value_parser = parse_count)]
    pub columns: u64,
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
