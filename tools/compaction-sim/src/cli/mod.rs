//! The command line options.

#[doc(hidden)]
pub mod batch;
pub mod commands;

use std::path::PathBuf;
use std::sync::OnceLock;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand};
use firn_kv::{FilterKind, Policy, TreeOptions};
use firn_tools::install;
use firn_tools::options::{size, size_per_second};
use firn_tools::output::{Color, Done, Failure, Style};
use firn_tools::workload::{self, WorkloadArgs, standard_phases, standard_workloads};
use firn_workload::{StoreSettings, ValueSize, WorkloadDescription, WorkloadStep};

use crate::model::machine::{Load, Machine, MergeCost};
use crate::model::sim::Setup;
use crate::model::size::check_entry;
use crate::model::ssd::SsdShape;
use crate::policy::{self, NamedPolicy, number};
use crate::workload::sketch::TraceSketch;
use crate::workload::trace;
use crate::workload::{SimWorkload, WorkloadName};

/// Bytes that named workloads write by default.
const USUAL_DATA: u64 = 10 << 30;

const EXAMPLES: &str = "\
Exit codes: 0 success, 1 findings (a wrong prediction), 2 the command could not run.
Policies: those of the engine (below), and strategies of the VLDB'21 design space, each with [:RATIO]: full lo+1 cold old tsd rr
lo+2 tsa tier 1-lvl. For your own policy use script:FILE, a script in rhai with a function `compactions(runs, tree)` (docs/simulate.md).

Examples:
  compaction-sim run --policy lazy-leveled:4 --workload uniform --data 100G --html lazy.html
  compaction-sim run --policy leveled --live 2T --workload zipfian --ingest 20M    2 TB of live data, 8 TB written
  compaction-sim run --policy tiered --data 1P --keys 1e12 --value-size 1000 --memtable-size 2G --table-size 64G
  compaction-sim sweep --data 1T --workload deletes:0.1
  compaction-sim sweep --policies tiered:3,tiered:6,lazy-leveled --table-sizes 16M,64M --csv sweep.csv --svg plots
  compaction-sim advise --ingest 50M/s --ttl 30d     recommend a policy, with its cost
  compaction-sim reproduce spooky              compare the claims of a paper with the simulator
  compaction-sim compare firn-data             compare the events of a real store with the prediction
  compaction-sim replay firn-data --policy leveled:8";

const TRACE_EXAMPLES: &str = "\
Examples:
  compaction-sim trace writes.csv
  compaction-sim trace rocksdb.trace
  compaction-sim sweep --trace rocksdb.trace --policies tiered,leveled,lazy-leveled";

fn help() -> String {
    let policies = "Policies of the engine, with their parameters, given after colons in order or by name, as in tiered:4:max_runs=8:";
    let (workloads, phases) = (standard_workloads(), standard_phases());
    format!(
        "{EXAMPLES}\n\nWorkloads:\n{workloads}\nPhases for --steps:\n{phases}\n{policies}\n{}",
        Policy::help()
    )
}

/// Predict the cost of a compaction policy: bytes written, space, time and stalls, with the
/// engine's own policies on simulated tables
#[derive(Parser, Debug)]
#[command(name = "compaction-sim", version, after_help = help(), max_term_width = 120)]
pub struct SimCli {
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Choose when to use colours
    #[arg(long, global = true, value_enum, default_value = "auto")]
    pub color: Color,
    /// Command to run
    #[command(subcommand)]
    pub command: SimCommand,
}

impl SimCli {
    /// Returns the style with the chosen colours.
    pub fn style(&self) -> Style {
        Style::new(self.color)
    }
}

/// Subcommands of `compaction-sim`.
#[derive(Subcommand, Debug)]
pub enum SimCommand {
    /// Simulate one policy
    #[command(
        after_help = "Examples:\n  compaction-sim run --policy leveled:10 --data 1T\n  compaction-sim run --policy leveled:10 --data 100G --ingest 50M --seeds 9\n  compaction-sim run --policy tiered --workload zipfian --exact --data 1G --svg plots --html levels.html"
    )]
    Run(RunArgs),
    /// Simulate a grid of policies and sizes on all cores
    #[command(
        after_help = "Examples:\n  compaction-sim sweep --data 1T                                 the ten strategies of the VLDB'21 design space\n  compaction-sim sweep --policies full,tier,lo+1 --ratios 4,8,10 --csv grid.csv\n  compaction-sim sweep --policies tiered,lazy-leveled --memtable-sizes 16M,64M --filters none,fuse8,fuse16\n  compaction-sim sweep --policies tiered,leveled --ratios 3,4,6,8,10 --seeds 5 --pdf figures"
    )]
    Sweep(SweepArgs),
    /// Simulate other policies for the recorded flushes of a real store
    #[command(
        after_help = "The first line is the record, the second its simulation on the machine that the log shows. Their difference is the prediction error for this store. Compare the other lines with the second.\n\nExamples:\n  compaction-sim replay firn-data --policy lazy-leveled:4\n  compaction-sim replay firn-data/EVENTS.jsonl --policies tiered:3,leveled:10"
    )]
    Replay(ReplayArgs),
    /// Compare the record of a real store, or a workload on the engine, with its simulation
    #[command(
        after_help = "Examples:\n  compaction-sim compare firn-data\n  compaction-sim compare firn-data/EVENTS.jsonl --tolerance 10\n  compaction-sim compare --workload churn.toml                  three runs of the engine beside nine simulations\n  compaction-sim compare --workload zipfian:0.9 --data 100m --memtable-size 1m --policy leveled:8:base=4m"
    )]
    Compare(CompareArgs),
    /// Print the write workload in a trace of another store, and the closest options
    #[command(
        after_help = format!("Forms: {}.\n\n{TRACE_EXAMPLES}", trace::FORMS)
    )]
    Trace(TraceArgs),
    /// Measure the simulator against the engine, and against itself
    #[command(
        after_help = "Examples:\n  compaction-sim validate\n  compaction-sim validate compressed --sample README.md\n  compaction-sim validate drawn --seed 1 --draws 20"
    )]
    Validate(ValidateArgs),
    /// Recommend a policy for a store, with its cost and the first limit that breaks
    #[command(
        after_help = "Exit code 1: no policy fits the requirements.\n\nExamples:\n  compaction-sim advise --ingest 50M/s --ttl 30d --reads 2k/s --scans 100/s          30 days of time series\n  compaction-sim advise --live 2T --ingest 20M/s --workload zipfian:0.9 --reads 20k/s --disk 4T --p99 10ms\n  compaction-sim advise firn-data --reads 5k/s                                       with the workload of its log, and reads"
    )]
    Advise(AdviseArgs),
    /// Compare the claims of papers with the simulator under their set-ups
    #[command(
        after_help = "Exit code 1: the agreement with a claim differs from the known one.\n\nExamples:\n  compaction-sim reproduce                       all of them\n  compaction-sim reproduce dostoevsky monkey --json\n  compaction-sim reproduce --csv papers.csv --markdown papers.md --html papers.html"
    )]
    Reproduce(ReproduceArgs),
    /// Print the metrics of simulations: names in JSON and CSV, units, meanings
    #[command(after_help = "Examples:\n  compaction-sim metrics\n  compaction-sim metrics --json")]
    Metrics,
    /// Print completions for a shell
    #[command(after_help = install::completions_examples("compaction-sim"))]
    Completions(install::CompletionsArgs),
    /// Print or write manual pages
    #[command(after_help = install::man_examples("compaction-sim", "sweep"))]
    Man(install::ManArgs),
}

/// The tree, the workload and the machine.
#[derive(Args, Debug, Clone)]
pub struct CostModel {
    /// The workload and the store, as in `firn bench`. The default workload is uniform
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Use a trace of another store instead (`compaction-sim trace --help`): its keys, skew, sizes,
    /// deletes, and its rate if it has one and --ingest is not given
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "steps", "data", "live", "keys", "key_size", "value_size"])]
    pub trace: Option<PathBuf>,
    /// Content of the trace, once it was read.
    #[arg(skip)]
    pub sketch: OnceLock<TraceSketch>,
    /// Bytes of keys and values to write, including overwrites [default: 10g, or as a description
    /// file says]
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub data: Option<u64>,
    /// Bytes of live keys and values: one copy of every key
    #[arg(long, value_parser = size, value_name = "SIZE", conflicts_with = "keys")]
    pub live: Option<u64>,
    /// Take the bytes of values from this file
    #[arg(long, value_name = "FILE")]
    pub sample: Option<PathBuf>,
    /// Simulate every key: byte for byte the engine's writes, for small runs
    #[arg(long)]
    pub exact: bool,
    /// The machine
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// The machine.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Machine")]
pub struct MachineArgs {
    /// Processor cores
    #[arg(long, default_value_t = 2.0, value_name = "N", value_parser = within(0.1, 1e6))]
    pub cores: f64,
    /// Read bandwidth of the device per second
    #[arg(long, value_parser = size_per_second, default_value = "763m", value_name = "SIZE")]
    pub read_bandwidth: u64,
    /// Write bandwidth of the device per second
    #[arg(long, value_parser = size_per_second, default_value = "334m", value_name = "SIZE")]
    pub write_bandwidth: u64,
    /// Size of the block cache
    #[arg(long, value_parser = size, default_value = "1g", value_name = "SIZE")]
    pub cache: u64,
    /// Time of the idle device per block
    #[arg(long, value_parser = span_of_time, default_value = "100us", value_name = "TIME")]
    pub block_time: f64,
    /// Write rate in bytes per second; 0 for the maximum rate. At 0 an overloaded policy writes
    /// less and stalls the writers instead. By default a rate that the machine sustains easily
    /// (half of its rate at a write amplification of 20)
    #[arg(long, value_parser = size_per_second, value_name = "SIZE")]
    pub ingest: Option<u64>,
    /// Simulate an SSD of this size, with its own garbage collection
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub ssd: Option<u64>,
    /// Over-provisioning of the SSD, as a share of its size
    #[arg(long, default_value_t = 0.07, value_name = "SHARE")]
    pub over_provisioning: f64,
    /// Size of an erase block of the SSD: some hundred MiB to some GiB if it stripes over its dies
    #[arg(long, value_parser = size, default_value = "256m", value_name = "SIZE")]
    pub erase_block: u64,
    /// Endurance of the SSD in bytes written, as its vendor states it
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub endurance: Option<u64>,
    /// Maximum number of immutable memtables, 1 to 3
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = count_within(1, 3))]
    pub max_sealed: usize,
    /// Nanoseconds of processor time per write
    #[arg(long, default_value_t = Machine::default().write_op, value_name = "NS", value_parser = within(1.0, 1e9))]
    pub write_cpu: f64,
    /// Nanoseconds of processor time per byte that a compaction writes
    #[arg(long, default_value_t = Machine::default().merge.byte, value_name = "NS", value_parser = within(0.0, 1e9))]
    pub merge_cpu: f64,
}

/// Output files of plots and pages.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Output")]
pub struct Pictures {
    /// Write CSV to this file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write figures as SVG into this directory, with their data as CSV
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Write figures as PDF into this directory; requires a build with the feature `pdf`
    #[arg(long, value_name = "DIR")]
    pub pdf: Option<PathBuf>,
    /// Write a page with the levels over time, complete in one file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Arguments of `run`.
#[derive(Args, Debug, Clone)]
pub struct RunArgs {
    /// Policy [default: tiered, or as a description file says]
    #[arg(long)]
    pub policy: Option<String>,
    /// Number of simulations with different random seeds, 1 to 100. With more than 1, job times
    /// vary as they do beside other work, and the minimum, the median and the maximum are printed
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub seeds: u64,
    /// Simulated tree, workload and machine
    #[command(flatten)]
    pub model: CostModel,
    /// Output
    #[command(flatten)]
    pub pictures: Pictures,
}

/// Arguments of `sweep`.
#[derive(Args, Debug, Clone)]
pub struct SweepArgs {
    /// Policies, comma-separated
    #[arg(long, value_delimiter = ',', default_values_t = policy::STRATEGIES.map(str::to_owned))]
    pub policies: Vec<String>,
    /// Size ratios, comma-separated: the first parameter of each policy. Give other parameters by
    /// name, as in leveled:base=1m
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub ratios: Vec<u32>,
    /// Memtable sizes, comma-separated, instead of --memtable-size
    #[arg(long, value_delimiter = ',', value_parser = size, value_name = "SIZE")]
    pub memtable_sizes: Vec<u64>,
    /// Table sizes, comma-separated, instead of --table-size
    #[arg(long, value_delimiter = ',', value_parser = size, value_name = "SIZE")]
    pub table_sizes: Vec<u64>,
    /// Filters, comma-separated, instead of --filter
    #[arg(long, value_delimiter = ',', value_parser = ["none", "fuse8", "fuse16"])]
    pub filters: Vec<String>,
    /// Simulate each case with this many seeds, starting at --seed: figures get bands, and the
    /// table prints minimum and maximum
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Simulated tree, workload and machine
    #[command(flatten)]
    pub model: CostModel,
    /// Output
    #[command(flatten)]
    pub pictures: Pictures,
}

/// Arguments of `replay`.
#[derive(Args, Debug, Clone)]
pub struct ReplayArgs {
    /// A store's directory, or its EVENTS.jsonl
    pub events: PathBuf,
    /// Tree; required if the log has several
    #[arg(long)]
    pub tree: Option<String>,
    /// Policies, comma-separated
    #[arg(long, visible_alias = "policy", value_delimiter = ',', required = true)]
    pub policies: Vec<String>,
    /// Processor cores of the machine that ran the store
    #[arg(long, default_value_t = 2.0, value_name = "N", value_parser = within(0.1, 1e6))]
    pub cores: f64,
    /// Background threads, at most 64 [default: as recorded]
    #[arg(long, value_name = "N", value_parser = count_within(0, 64))]
    pub background_threads: Option<usize>,
    /// Output
    #[command(flatten)]
    pub pictures: Pictures,
}

/// Arguments of `trace`.
#[derive(Args, Debug, Clone)]
pub struct TraceArgs {
    /// The trace; - for standard input
    #[arg(value_name = "FILE")]
    pub trace: PathBuf,
}

/// Arguments of `compare`.
#[derive(Args, Debug, Clone)]
pub struct CompareArgs {
    /// A store's directory, or its EVENTS.jsonl
    #[arg(required_unless_present = "workload", conflicts_with = "workload")]
    pub events: Option<PathBuf>,
    /// Policy, instead of that of the description
    #[arg(long, requires = "workload")]
    pub policy: Option<String>,
    /// Runs of the engine, with different seeds
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub runs: u64,
    /// Write about this many bytes of keys and values
    #[arg(long, value_parser = size, value_name = "SIZE", requires = "workload", conflicts_with = "keys")]
    pub data: Option<u64>,
    /// Tree; required if the log has several
    #[arg(long)]
    pub tree: Option<String>,
    /// Processor cores of the machine that ran the store
    #[arg(long, default_value_t = 2.0, value_name = "N", value_parser = within(0.1, 1e6))]
    pub cores: f64,
    /// Difference of the bytes written, in percent, above which the exit code is 1
    #[arg(long, default_value_t = 10.0, value_name = "PERCENT", value_parser = within(0.0, 1e9))]
    pub tolerance: f64,
    /// Run this workload on the engine and in the simulator, and compare both
    #[command(flatten)]
    pub workload: WorkloadArgs,
}

/// Arguments of `validate`.
#[derive(Args, Debug, Clone)]
pub struct ValidateArgs {
    /// Parts: summary, compressed, drawn (random configurations that the engine runs on files,
    /// seconds each), advice (recommendations that the engine runs on files), sweep [default: all]
    #[arg(value_parser = ["summary", "compressed", "drawn", "advice", "sweep"])]
    pub parts: Vec<String>,
    /// Number of the first random configuration
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Number of random configurations
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub draws: u64,
    /// Keep the event logs of random configurations in this directory, and use existing ones
    /// instead of running the engine again
    #[arg(long, value_name = "DIR")]
    pub logs: Option<PathBuf>,
    /// Take the bytes of values from this file of real data: a book, a log, source code
    #[arg(long, value_name = "FILE")]
    pub sample: Option<PathBuf>,
}

/// Arguments of `advise`.
#[derive(Args, Debug, Clone)]
pub struct AdviseArgs {
    /// A store's directory, or its EVENTS.jsonl, from which size and write rate are taken unless
    /// options give them
    pub events: Option<PathBuf>,
    /// Tree; required if the log has several
    #[arg(long)]
    pub tree: Option<String>,
    /// Bytes of live keys and values [default: --ingest times --ttl]
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub live: Option<u64>,
    /// Time until written data expires, as 30d [default: never]
    #[arg(long, value_parser = span_of_time, value_name = "TIME")]
    pub ttl: Option<f64>,
    /// Choice of keys: a workload in `compaction-sim --help` [default: timeseries if only --ttl
    /// gives the size, else uniform]
    #[arg(long)]
    pub workload: Option<WorkloadName>,
    /// Share of the writes that are deletes, 0 to 1
    #[arg(long, value_name = "SHARE", conflicts_with = "workload", value_parser = share)]
    pub deletes: Option<f64>,
    /// Lookups of a key per second
    #[arg(long, value_parser = per_second, default_value = "0", value_name = "N/s")]
    pub reads: f64,
    /// Scans per second
    #[arg(long, value_parser = per_second, default_value = "0", value_name = "N/s")]
    pub scans: f64,
    /// Bytes of the disk [default: those of --ssd]; a size to buy is printed in any case
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub disk: Option<u64>,
    /// Bound for the 99th percentile of read latency, as 10ms
    #[arg(long, value_parser = span_of_time, value_name = "TIME")]
    pub p99: Option<f64>,
    /// Bytes of a key, 8 to 524287
    #[arg(long, default_value_t = 16, value_name = "BYTES")]
    pub key_size: usize,
    /// Bytes of a value
    #[arg(long, default_value_t = 100, value_name = "BYTES")]
    pub value_size: usize,
    /// Size of a memtable [default: that of the log, else 64M]
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub memtable_size: Option<u64>,
    /// Background threads, at most 64
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = count_within(0, 64))]
    pub background_threads: usize,
    /// The machine
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// Arguments of `reproduce`.
#[derive(Args, Debug, Clone)]
pub struct ReproduceArgs {
    /// Papers [default: all]
    #[arg(value_parser = ["vldb21", "dostoevsky", "monkey", "spooky", "lethe", "ucs", "ics", "cidr17", "fast16"])]
    pub papers: Vec<String>,
    /// Write the table of all claims to this file as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write it as Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write it as an HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Parses a number per second, as `20k` or `20k/s`.
fn per_second(text: &str) -> Result<f64, String> {
    number(text.strip_suffix("/s").unwrap_or(text)).map(|n| n as f64)
}

/// Returns a parser of finite numbers from `least` to `most`.
fn within(least: f64, most: f64) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync {
    move |text| {
        let number = text.parse::<f64>().ok().filter(|n| (least..=most).contains(n));
        number.ok_or_else(|| format!("{text:?} is no number from {least} to {most}"))
    }
}

/// Returns a parser of counts from `least` to `most`.
fn count_within(least: u64, most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..=most)
}

/// Parses a share, above 0 and below 1.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|x| *x > 0.0 && *x < 1.0);
    share.ok_or_else(|| format!("{text:?} is no share between 0 and 1"))
}

/// Parses a time, as `30d`, `12h`, `10ms`; returns seconds.
fn span_of_time(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 7] = [
        ("us", 1e-6),
        ("ms", 1e-3),
        ("min", 60.0),
        ("s", 1.0),
        ("h", 3600.0),
        ("d", 86_400.0),
        ("w", 604_800.0),
    ];
    let read = |(unit, secs): &(&str, f64)| {
        Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * secs)
    };
    let found = UNITS.iter().find_map(read).filter(|s| *s > 0.0 && *s < 1e10);
    found.ok_or_else(|| format!("{text:?} is no time, as 30d, 12h, 5min, 90s, 10ms or 100us"))
}

impl MachineArgs {
    /// Returns the SSD, if one is given.
    pub fn ssd(&self) -> Option<SsdShape> {
        self.ssd.map(|capacity| SsdShape {
            capacity: capacity as f64,
            over_provisioning: self.over_provisioning,
            erase_block: self.erase_block as f64,
            endurance: self.endurance.unwrap_or(0) as f64,
        })
    }

    /// Returns the machine with this many background threads.
    pub fn machine(&self, threads: usize) -> Machine {
        let d = Machine::default();
        Machine {
            read_bandwidth: self.read_bandwidth.max(1) as f64,
            write_bandwidth: self.write_bandwidth.max(1) as f64,
            block_seconds: self.block_time,
            cache: self.cache as f64,
            cores: self.cores,
            threads,
            max_sealed: self.max_sealed,
            write_op: self.write_cpu,
            merge: MergeCost { byte: self.merge_cpu, ..d.merge },
            ingest: self.ingest.unwrap_or(0) as f64,
            ..d
        }
    }
}

impl RunArgs {
    /// Returns the policy of the run, as text, and its simulation.
    ///
    /// # Errors
    /// Options that do not fit together.
    pub fn setup(&self) -> Done<(String, Setup)> {
        let d = self.model.description()?;
        let policy = self.policy.clone().unwrap_or_else(|| d.store.policy.clone());
        let options = self.model.options(&d.store)?;
        let named = policy::parse(&policy, &options).map_err(Failure::new)?;
        let setup = self.model.setup(&d, &named, &options, self.pictures.html.is_some())?;
        Ok((policy, setup))
    }
}

impl CostModel {
    /// Returns the description of the workload and the store.
    ///
    /// # Errors
    /// A file that cannot be read, and options that do not fit together.
    pub fn description(&self) -> Done<WorkloadDescription> {
        let usual = WorkloadDescription::standard("uniform").map_err(Failure::new)?;
        let mut d = self.workload.description(&usual)?;
        let refuse = |why: String| Failure::with_next(why, "give --keys instead");
        if let Some(live) = self.live {
            let put = d.key_size as f64 + self.value_size(&d).mean();
            d.keys = ((live as f64 / put) as u64).max(1);
        }
        let is_sized = self.live.is_some() || self.workload.keys.is_some();
        match self.data {
            Some(bytes) if is_sized => d.stretch_to(bytes).map_err(refuse)?,
            Some(bytes) => d.scale_to(bytes).map_err(refuse)?,
            None if is_sized || self.workload.is_file() => {}
            None => d.scale_to(USUAL_DATA).map_err(refuse)?,
        }
        Ok(d)
    }

    /// Returns the size of the values that the first writing phase has.
    fn value_size(&self, d: &WorkloadDescription) -> ValueSize {
        let steps = d.steps().unwrap_or_default();
        let mix = steps.iter().find_map(|step| match step {
            WorkloadStep::Run(phase) if !phase.mix.only_reads() => Some(&phase.mix),
            _ => None,
        });
        mix.map_or(ValueSize::Fixed(100), |mix| mix.value_size(d.value_size))
    }

    /// Returns the tree's options, without the policy.
    ///
    /// # Errors
    /// Values that are out of bounds, or that are not simulated.
    pub fn options(&self, s: &StoreSettings) -> Done<TreeOptions> {
        let refuse = |what: &str| Err(Failure::new(format!("{what} is not simulated")));
        if s.background_rate.is_some() {
            return refuse("a bound on the rate of compactions (background-rate)");
        }
        if s.durability != "process" {
            return refuse("a sync of each write (durability)");
        }
        workload::db_options(s)?;
        workload::tree_options(s)
    }

    /// Returns the workload as text.
    pub fn words(&self) -> String {
        match (&self.trace, &self.workload.workload, &self.workload.steps) {
            (Some(path), ..) => format!("trace {}", path.display()),
            (_, _, Some(steps)) => steps.clone(),
            (_, name, None) => name.clone().unwrap_or_else(|| "uniform".to_owned()),
        }
    }

    /// Returns the content of the trace, if there is one. Reads it once.
    fn sketch(&self) -> Done<Option<&TraceSketch>> {
        let Some(path) = &self.trace else { return Ok(None) };
        if self.sketch.get().is_none() {
            let read = trace::read(path)?;
            if read.writes == 0 {
                return Err(Failure::with_next(
                    format!("{} has no write: there is nothing to compact", path.display()),
                    "see its reads with `compaction-sim trace`",
                ));
            }
            return Ok(Some(self.sketch.get_or_init(|| read)));
        }
        Ok(self.sketch.get())
    }

    /// Returns the simulation of a policy for this description, with these options of the tree.
    ///
    /// # Errors
    /// Options that do not fit together, as text.
    pub fn setup(
        &self,
        d: &WorkloadDescription,
        named: &NamedPolicy,
        options: &TreeOptions,
        picture: bool,
    ) -> Done<Setup> {
        if d.store.blob_threshold > 0 && d.store.ttl_secs > 0 {
            return Err(Failure::with_next(
                "values that expire cannot be in blob files",
                "omit --blob-threshold or --ttl-secs",
            ));
        }
        let sample = self.sample.as_deref().map(read).transpose()?.unwrap_or_default();
        let mut workload = SimWorkload::described(d, sample).map_err(Failure::new)?;
        let sketch = self.sketch()?;
        if let Some(sketch) = sketch {
            workload.content = sketch.content(workload.content);
            (workload.keys, workload.phases) = sketch.phases();
        }
        let content = &workload.content;
        check_entry(content.key_len, content.value.max()).map_err(Failure::new)?;
        let ops = workload.ops();
        if self.exact && ops > 200_000_000 {
            return Err(Failure::with_next(
                format!("{ops} operations are too many to hold every key"),
                "omit --exact, or reduce --data",
            ));
        }
        if self.exact && workload.phases.iter().any(|p| p.range_deletes > 0.0) {
            return Err(Failure::with_next(
                "range deletions are not simulated key by key",
                "omit --exact",
            ));
        }
        let mut machine = self.machine.machine(d.store.background_threads);
        if self.machine.ingest.is_none() {
            let recorded = sketch.and_then(TraceSketch::ingest);
            let put_bytes = workload.put_bytes();
            let of_rate = d.rate_of_all().map_err(Failure::new)?.map(|rate| rate * put_bytes);
            machine.ingest = match recorded.or(of_rate) {
                Some(ingest) => ingest,
                // A description says everything: without a rate, writers are as fast as they can.
                None if self.workload.is_file() => 0.0,
                None => machine.calm_rate(put_bytes),
            };
        }
        let mut options = named.set_in(options.clone());
        if named.ages && options.tombstone_age_secs == 0 {
            let nanos = ops as f64
                * machine.interval(
                    workload.put_bytes(),
                    0.0,
                    Load { writers: 1.0, yielding: 1.0, threads: 1.0, ..Load::default() },
                );
            options.tombstone_age_secs = ((nanos / 1e9 / 10.0) as u64).max(1);
        }
        Ok(Setup {
            ssd: self.machine.ssd(),
            exact: self.exact,
            picture,
            ..Setup::new(options, workload, machine)
        })
    }
}

/// Returns the filter with this name.
pub fn filter_named(name: &str) -> FilterKind {
    match name {
        "none" => FilterKind::None,
        "fuse16" => FilterKind::Fuse16,
        _ => FilterKind::Fuse8,
    }
}

/// Reads a whole file that the user named.
///
/// # Errors
/// Why it cannot be read.
pub fn read(path: &std::path::Path) -> Done<Vec<u8>> {
    let mut out = vec![];
    let mut input =
        firn_tools::io::Input::open(path).map_err(|e| Failure::file("read", path, &e))?;
    std::io::Read::read_to_end(&mut input, &mut out)
        .map_err(|e| Failure::file("read", path, &e))?;
    Ok(out)
}
