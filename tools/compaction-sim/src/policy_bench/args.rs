//! Command line of a comparison of policies, for `firn bench policy` and for programs with a policy
//! in Rust ([`run_main`]).

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser};
use firn_kv::policy::CustomPolicy;
use firn_tools::io::stdout;
use firn_tools::options::size;
use firn_tools::output::{Color, Done, Failure, Style, finish};
use firn_workload::phase::parse_count;

use super::plan::{PolicyBench, scaled_policies};
use super::{compare_policies, read_script};

/// Examples of the command.
pub const EXAMPLES: &str = "\
Each policy runs each workload on a new store in the directory of temporary files (TMPDIR), one after the other. The simulator
predicts the same run. Figures differ from those of large stores: give a larger --data for final results.

Examples:
  firn bench policy idea.rhai --html report.html
  firn bench policy idea.rhai --workloads ycsb-a --policies tiered,leveled:10:base=4m
  firn bench policy idea.rhai other.rhai --workloads zipfian:0.9,deletes:0.2,churn.toml --data 256m --runs 3
  firn bench policy idea.rhai --workloads mixgraph --traces cluster052.csv.zst --json
  firn bench policy                                     the engine's policies alone";

/// Options of a comparison.
#[derive(Args, Clone, Debug)]
pub struct PolicyBenchArgs {
    /// Policies of your own as scripts in rhai, with a function `compactions(runs, tree)`
    #[arg(value_name = "FILE")]
    pub scripts: Vec<PathBuf>,
    /// Workloads: ycsb-a to ycsb-f, standard workloads, description files (*.toml); comma-separated
    /// [default: YCSB's, mixgraph]
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',')]
    workloads: Option<Vec<String>>,
    /// Run traces of other stores, too, comma-separated: `compaction-sim trace --help` lists the
    /// formats. Without --workloads, run only these
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    traces: Vec<PathBuf>,
    /// Policies of the engine, comma-separated [default: all that store all data]
    #[arg(long, value_name = "POLICY", value_delimiter = ',')]
    policies: Option<Vec<String>>,
    /// Put this many bytes of keys and values in each workload
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "32m")]
    data: u64,
    /// Size of a memtable and of a table
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1m")]
    memtable_size: u64,
    /// Compression of tables
    #[arg(long, value_parser = ["none", "lz4", "zstd"], default_value = "none")]
    compression: String,
    /// Background threads, 0 to 64
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=64))]
    background_threads: u8,
    /// Operations per second of each phase, so that other work on the machine changes little
    /// [default: as many as possible]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    rate: Option<u64>,
    /// Runs of the engine, with different seeds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    runs: u64,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the report to this file: plots and tables in one page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl PolicyBenchArgs {
    fn bench(&self) -> PolicyBench {
        let usual = PolicyBench::default();
        let only_traces = self.workloads.is_none() && !self.traces.is_empty();
        PolicyBench {
            data: self.data,
            memtable_size: self.memtable_size,
            workloads: match &self.workloads {
                Some(workloads) => workloads.clone(),
                None if only_traces => vec![],
                None => usual.workloads,
            },
            traces: self.traces.clone(),
            policies: match &self.policies {
                Some(policies) => policies.clone(),
                None => scaled_policies(self.memtable_size),
            },
            compression: self.compression.clone(),
            background_threads: self.background_threads.into(),
            rate: self.rate,
            runs: self.runs,
            seed: self.seed,
        }
    }
}

/// Runs a comparison of these custom policies, of those in scripts, and of the engine's.
///
/// # Errors
/// Those of [`compare_policies`], and files that cannot be read or written.
pub fn run(
    args: &PolicyBenchArgs,
    custom: &[CustomPolicy],
    as_json: bool,
    style: Style,
    out: &mut dyn Write,
) -> Done {
    let scripts = args.scripts.iter().map(|path| read_script(path));
    let scripts: Vec<CustomPolicy> = scripts.collect::<Done<_>>()?;
    let custom: Vec<CustomPolicy> = custom.iter().cloned().chain(scripts).collect();
    let compared = compare_policies(&args.bench(), &custom)?;
    if let Some(path) = &args.html {
        firn_tools::io::write(path, compared.html()?.as_bytes())
            .map_err(|e| Failure::file("write", path, &e))?;
    }
    if as_json {
        writeln!(out, "{}", compared.to_json())?;
    } else {
        write!(out, "{}", compared.text(style))?;
    }
    Ok(())
}

/// Compares compaction policies in the simulator and on the engine.
#[derive(Parser)]
#[command(max_term_width = 120)]
struct PolicyBenchCli {
    #[command(flatten)]
    bench: PolicyBenchArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Choose when to use colours
    #[arg(long, value_enum, default_value = "auto")]
    color: Color,
}

/// Runs a comparison as the `main` of a program that has these policies, with the options of
/// `firn bench policy`.
///
/// ```no_run
/// # use compaction_sim::policy_bench::run_main;
/// fn main() -> std::process::ExitCode {
///     run_main(&[])
/// }
/// ```
pub fn run_main(custom: &[CustomPolicy]) -> ExitCode {
    firn_tools::start::prepare();
    let matches = firn_tools::help::wrapped(PolicyBenchCli::command()).get_matches();
    let cli = PolicyBenchCli::from_arg_matches(&matches)
        .unwrap_or_else(|e| e.format(&mut PolicyBenchCli::command()).exit());
    let (mut out, style) = (stdout(), Style::new(cli.color));
    let done = run(&cli.bench, custom, cli.json, style, &mut out);
    let flushed = out.flush();
    finish(done.and_then(|()| Ok(flushed?)), style, |_| None)
}
