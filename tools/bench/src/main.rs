//! The command `firn-bench`: only `firn bench`, without the data model and the other commands. It
//! compiles in a third of the time.

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use firn_bench::{BenchArgs, Setting, examples, given, run};
use firn_kv::Error;
use firn_tools::options::StoreArgs;
use firn_tools::output;

/// Measure a fresh store under db_bench's, YCSB's and mixgraph's workloads
#[derive(Parser, Debug)]
#[command(name = "firn-bench", version, after_help = examples().replace("firn bench", "firn-bench"), max_term_width = 120)]
struct BenchCli {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    bench: BenchArgs,
}

fn main() -> ExitCode {
    firn_tools::start::prepare();
    let matches = firn_tools::help::wrapped(BenchCli::command()).get_matches();
    let cli = BenchCli::from_arg_matches(&matches)
        .unwrap_or_else(|e| e.format(&mut BenchCli::command()).exit());
    let setting = Setting { store: &cli.store, models: None };
    let done = run(&setting, &cli.bench, &given(&BenchCli::command(), &matches));
    output::finish(done, cli.store.style(), |_: &Error| None)
}
