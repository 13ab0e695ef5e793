//! `peers` runs the same workloads on several engines under the same conditions, for comparison.
//!
//! Repetitions are interleaved (A B C, then B C A, ...), so that variations of the machine affect
//! all engines equally. Each engine runs each stage in its own process and directory, after the
//! previous data was deleted and written back.
//!
//! It is a separate workspace, so that building Firn never builds RocksDB, which takes long and
//! needs a C++ compiler and libclang: `cargo build --release` here, then `target/release/peers run
//! --help`.
// A benchmark reads clocks, starts processes and accesses files itself; none of it is engine code.
#![allow(clippy::disallowed_methods)]

mod child;
mod cliffs;
mod embedding;
mod engines;
mod kept;
mod plan;
mod queue;
mod table;

use clap::{Args, Parser, Subcommand};
use firn_workload::phase::{parse_count, standard};
use firn_workload::{Config, Distribution, Error, Result, ValueSize, WorkloadDescription};
use memmap2::MmapMut;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use child::{Order, StepReport};
use engines::{Engine, Settings, Terms};
use plan::{Stage, Step};
use table::Repetition;

#[derive(Parser)]
#[command(version, about = "The same workloads through several key-value engines, side by side")]
struct Cli {
    #[command(subcommand)]
    command: Cmd,
}

#[derive(Subcommand)]
enum Cmd {
    /// Run workloads and print tables of medians
    #[command(after_help = EXAMPLES)]
    Run(Box<Run>),
    /// Measure operations after histories that could make them slow: Firn and RocksDB
    Cliffs(cliffs::Cliffs),
    /// Scan among deletions by RocksDB's published recipe: Firn, and RocksDB with and without its
    /// remedy
    Queue(queue::Queue),
    /// Measure the cost of each of many small stores open in one process
    Small(embedding::SmallArgs),
    /// Measure many trees under one memory budget: creating, opening, at rest, and while written
    Trees(embedding::TreeArgs),
    /// Print one table of several stored runs of `run --json`
    Table(kept::KeptTable),
    /// Print rates by the number of keys, of stored runs of `run --json`
    Growth(kept::Growth),
    /// List workloads, steps and presets
    List,
    /// Run one engine and one stage; started by `run`
    #[command(hide = true)]
    Child,
}

const EXAMPLES: &str = "\
Examples:
  peers run --workloads core --keys 5m --reps 3 --json out.json
  peers run --engines firn,lmdb --workloads fillrandom,overwrite,wait,readrandom,compact,readrandom:2
  peers run --engines firn,fjall --workloads ycsb --keys 1m --max-time 60
  peers run --engines firn,rocksdb --workloads filluniquerandom,mixgraph@1m:2 --distribution all-dist
  peers run --engines firn,rocksdb --workload churn.toml
  peers run --workloads race --reps 1 --ratios race.tsv
  peers run --engines firn,redb,sled --workloads core --max-time 30
  peers run --engines firn,bftree,bftree-log --workloads core,open --keys 1m --max-time 30
  peers run --workloads fillrandom,crash,readseq,fresh,keys=10%,values=1k,fillrandom,reopen
  peers run --workloads core --keys 1m --json 1m.json
  peers table core=core.json ycsb=ycsb.json --ratios race.tsv
  peers growth 1m.json 10m.json --tsv growth.tsv
  peers cliffs --history 10k
  peers small --stores 1000
  peers trees --trees 60,1k

A phase is `name[@extent][:threads]`; `peers list` says which there are, and what else is a step. With several repetitions a figure is `median (least..greatest)`.";

#[derive(Args)]
struct Run {
    /// Engines; the first one (firn, if present) is compared with each of the others. redb, sled and
    /// bftree are available, too; redb and bftree-log are so slow with single puts that they need
    /// --max-time
    #[arg(long, value_delimiter = ',', default_value = "firn,rocksdb,fjall,lmdb")]
    engines: Vec<Engine>,
    /// Workloads, steps and presets; see `peers list`
    #[arg(long, default_value = "core")]
    workloads: String,
    /// Description of the workload, as `firn bench --workload` takes it: steps, keys, values, and
    /// those settings of the store that all engines have
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workloads", "keys", "key_size", "value_size", "random_share", "distribution", "memtable", "cache", "background", "no_compression", "blob_threshold"])]
    workload: Option<PathBuf>,
    /// Number of keys (with k or m)
    #[arg(long, default_value = "5m", value_parser = parse_count)]
    keys: u64,
    /// Repetitions
    #[arg(long, default_value_t = 3)]
    reps: usize,
    /// Directory for the stores' data; each store's directory in it is deleted before and after
    #[arg(long, default_value = "peers-data")]
    dir: PathBuf,
    /// Write all results to this file as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write the ratios to this file, for `results/plot.py`
    #[arg(long)]
    ratios: Option<PathBuf>,
    /// Write the geometric means of the ratios to this file, for `results/plot.py`
    #[arg(long)]
    means: Option<PathBuf>,
    /// Bytes of a key
    #[arg(long, default_value_t = 16)]
    key_size: usize,
    /// Bytes of a value: `100`, `10k`, `100-1000`, `pareto` or `pareto:theta:k:sigma:max` [default:
    /// 100; 1000 in the phases of YCSB]
    #[arg(long)]
    value_size: Option<ValueSize>,
    /// Fraction of a value's bytes that are random
    #[arg(long, default_value_t = 0.5)]
    random_share: f64,
    /// Distribution of keys instead of the workload's: `uniform`, `zipfian[:theta]`, `latest`,
    /// `hotspot`, ...
    #[arg(long)]
    distribution: Option<Distribution>,
    /// Random seed; repetition i uses seed + i
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Time one operation in this many
    #[arg(long, default_value_t = 16)]
    sample_every: u64,
    /// Maximum time of one workload, in seconds
    #[arg(long)]
    max_time: Option<f64>,
    /// Operations per second of each workload, open-loop, instead of the maximum
    #[arg(long)]
    rate: Option<f64>,
    /// Operations per second of the writer of readwhilewriting
    #[arg(long)]
    write_rate: Option<f64>,
    /// Memtable size in MiB
    #[arg(long, default_value_t = 64)]
    memtable: usize,
    /// Block cache size in MiB
    #[arg(long, default_value_t = 512)]
    cache: usize,
    /// Background threads
    #[arg(long, default_value_t = 2)]
    background: usize,
    /// Disable LZ4
    #[arg(long)]
    no_compression: bool,
    /// Size of the smallest value in a separate file, for Firn and RocksDB (`1k`)
    #[arg(long, default_value = "0", value_parser = parse_count)]
    blob_threshold: u64,
    /// MiB of memory to use and free before each stage, at most half of the free memory; 0: none. A
    /// host lends pages to a guest for a limited time, and their first use afterwards costs
    /// microseconds
    #[arg(long, default_value_t = 2048)]
    touch: usize,
}

impl Run {
    /// Returns the description of the workload, if a file is named.
    fn description(&self) -> Result<Option<WorkloadDescription>> {
        let Some(path) = &self.workload else { return Ok(None) };
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Some(text.parse().map_err(|e| format!("{}: {e}", path.display()))?))
    }

    /// Returns the stages.
    fn stages(&self) -> Result<Vec<Stage>> {
        match self.description()? {
            Some(d) => Ok(vec![Stage::described(&d)?]),
            None => Ok(plan::parse(&self.workloads)?),
        }
    }

    fn config(&self, rep: usize) -> Result<Config> {
        let described = match self.description()? {
            Some(d) => d.config(),
            None => Config {
                keys: self.keys,
                key_size: self.key_size,
                value_size: self.value_size,
                random_share: self.random_share,
                seed: self.seed,
                distribution: self.distribution,
                ..Config::default()
            },
        };
        let config = Config {
            seed: described.seed.wrapping_add(rep as u64),
            sample_every: self.sample_every,
            max_time: self.max_time.map(Duration::try_from_secs_f64).transpose()?,
            rate: self.rate.or(described.rate),
            write_rate: self.write_rate,
            ..described
        };
        config.check()?;
        Ok(config)
    }

    fn settings(&self) -> Result<Settings> {
        if let Some(WorkloadDescription { store, .. }) = self.description()? {
            return Ok(Settings {
                memtable: usize::try_from(store.memtable_size)?,
                cache: usize::try_from(
                    store.memory_budget.saturating_sub(2 * store.memtable_size),
                )?
                .max(8 << 20),
                background: store.background_threads.max(1),
                lz4: store.compression != "none",
                apart: usize::try_from(store.blob_threshold)?,
            });
        }
        Ok(Settings {
            memtable: self.memtable << 20,
            cache: self.cache << 20,
            background: self.background,
            lz4: !self.no_compression,
            apart: usize::try_from(self.blob_threshold)?,
        })
    }
}

/// Runs one stage of one engine in a new directory, each opening of its store in a new process.
/// Ends at a step that fails and that could have written.
fn run_stage(
    args: &Run,
    engine: Engine,
    config: &Config,
    stage: &Stage,
) -> Result<Vec<StepReport>> {
    let dir = args.dir.join(format!("peers-{engine}"));
    clear(&dir)?;
    fs::create_dir_all(&dir)?;
    touch(args.touch << 20)?;
    let mut reports = Vec::new();
    let mut lives = stage.lives().peekable();
    while let Some(steps) = lives.next() {
        let order = Order {
            engine,
            dir: dir.clone(),
            settings: args.settings()?,
            config: stage.config(config),
            steps: steps.to_vec(),
            killed: lives.peek().is_some_and(|next| next[0].step == Step::Crash),
        };
        reports.extend(order.carry_out()?);
        if matches!(reports.last(), Some(Err(failure)) if failure.ends_stage) {
            break;
        }
    }
    let whole = reports.len() >= stage.steps.len();
    if let Some(Err(failure)) = reports.last_mut() {
        failure.ends_stage = !whole;
    }
    clear(&dir)?;
    // Writeback of deleted files must not slow down the next engine.
    Command::new("sync").status()?;
    Ok(reports)
}

/// Touches this much memory, so that no engine pays for memory that the previous one has not
/// returned.
fn touch(bytes: usize) -> Result<()> {
    let free = firn_workload::process::free_memory().unwrap_or(0) / 2;
    let bytes = bytes.min(usize::try_from(free).unwrap_or(usize::MAX));
    if bytes > 0 {
        let mut memory = MmapMut::map_anon(bytes)?;
        // With pages of 4 KiB it takes five times as long.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    }
    Ok(())
}

fn clear(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
        _ => Ok(()),
    }
}

fn run(args: &Run) -> Result<()> {
    let stages = args.stages()?;
    stages.iter().try_for_each(|stage| Ok::<_, Error>(stage.config(&args.config(0)?).check()?))?;
    let mut engines: Vec<Engine> = Vec::new();
    for &engine in &args.engines {
        if !engines.contains(&engine) {
            engines.push(engine);
        }
    }
    engines.sort_by_key(|e| !e.is_ours());
    let mut all = Vec::new();
    for rep in 0..args.reps.max(1) {
        let config = args.config(rep)?;
        for stage in &stages {
            // The first engine pays for fresh memory: it is a different one each time.
            for turn in 0..engines.len() {
                let engine = engines[(rep + turn) % engines.len()];
                eprintln!("repetition {} of {}, {engine}", rep + 1, args.reps);
                let reports = run_stage(args, engine, &config, stage)?;
                all.push(Repetition::new(engine, rep, reports));
                save(args, &engines, &all)?;
            }
        }
    }
    let labels: Vec<String> =
        stages.iter().flat_map(|stage| &stage.steps).map(|l| l.label.clone()).collect();
    if let Some(path) = &args.ratios {
        fs::write(path, table::ratios(&all, &engines, &labels))?;
    }
    if let Some(path) = &args.means {
        fs::write(path, table::means(&all, &engines, &labels))?;
    }
    let given = terms(args, &engines)?;
    println!("{}\n{}", table::settings(&given), table::render(&all, &engines, &labels));
    if pages_out() {
        println!(
            "\nThis system gives up the pages of files that nobody has used for a while, however much memory is free (DAMON). \
             It may spare files that are mapped, as LMDB's are: rows that read recently written data say less."
        );
    }
    Ok(())
}

/// Reports whether the system pages out memory that was unused for a while (Linux).
fn pages_out() -> bool {
    let is = |file: PathBuf, words: &str| fs::read_to_string(file).is_ok_and(|s| s.trim() == words);
    let numbered =
        |dir: PathBuf| (0..).map(move |i| dir.join(i.to_string())).take_while(|dir| dir.is_dir());
    let damon = numbered(PathBuf::from("/sys/kernel/mm/damon/admin/kdamonds"));
    let mut at_work = damon.filter(|kdamond| is(kdamond.join("state"), "on"));
    let module = PathBuf::from("/sys/module/damon_reclaim/parameters/enabled");
    is(module, "Y")
        || at_work.any(|kdamond| {
            numbered(kdamond.join("contexts"))
                .flat_map(|context| numbered(context.join("schemes")))
                .any(|scheme| is(scheme.join("action"), "pageout"))
        })
}

fn terms(args: &Run, engines: &[Engine]) -> Result<Vec<(Engine, Terms)>> {
    let settings = args.settings()?;
    engines.iter().map(|&engine| Ok((engine, engine.terms(&settings)?))).collect()
}

/// Saves the results so far, so that an interrupted measurement is not lost.
fn save(args: &Run, engines: &[Engine], all: &[Repetition]) -> Result<()> {
    let Some(path) = &args.json else { return Ok(()) };
    let whole = serde_json::json!({
        "settings": args.settings()?,
        "given": terms(args, engines)?,
        "config": args.config(0)?,
        "repetitions": all,
    });
    Ok(fs::write(path, serde_json::to_vec_pretty(&whole)?)?)
}

fn list() {
    println!("phases:");
    standard().iter().for_each(|(name, mix)| println!("  {name}: {}", mix.about));
    println!("steps:");
    plan::STEPS.iter().for_each(|(name, what)| println!("  {name}: {what}"));
    println!("presets:");
    plan::PRESETS.iter().for_each(|(name, steps)| println!("  {name}: {steps}"));
    println!("  {}: all of them, in this order", plan::RACE);
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Cmd::Run(args) => run(&args),
        Cmd::Cliffs(args) => cliffs::main(&args),
        Cmd::Queue(args) => queue::main(&args),
        Cmd::Small(args) => embedding::run_small(&args),
        Cmd::Trees(args) => embedding::run_trees(&args),
        Cmd::Table(args) => kept::print_table(&args),
        Cmd::Growth(args) => kept::print_growth(&args),
        Cmd::List => {
            list();
            Ok(())
        }
        Cmd::Child => child::main(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("peers: {e}");
            ExitCode::FAILURE
        }
    }
}
