//! Counts the cache lines that move between threads in an operation of the store, and estimates the
//! rates of many threads. This works on any machine, even with one or two cores.
//!
//! `trace` runs under valgrind's `lackey`, which reports each memory access. `coherence` tracks
//! which caches hold each line, and `places` names the code that accesses it. `model` turns the
//! counts into rates.

#![allow(clippy::disallowed_methods, reason = "a benchmark uses a clock and threads")]

mod coherence;
mod count;
mod model;
mod operations;
mod places;
mod trace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use serde_json::{Value, json};

use count::OperationCount;
use operations::{LineOperation, OPERATIONS};

const EXAMPLES: &str = "\
Examples:
  micro-lines count                        the lines of every operation, with the code that accesses them
  micro-lines count --json put > put.json  those whose names contain \"put\", for `model`
  micro-lines time --json > times.json     the time of each operation here, on one thread and on two
  micro-lines model --counts put.json --times times.json

`count` needs valgrind and addr2line, and line numbers: cargo build --profile profiling -p firn-micro.
Exit codes: 0 done, 2 could not run.";

/// The cache lines that threads share.
#[derive(Parser)]
#[command(name = "micro-lines", after_help = EXAMPLES)]
struct LinesCli {
    #[command(subcommand)]
    command: LinesCommand,
}

#[derive(Subcommand)]
enum LinesCommand {
    /// Count the lines that move between threads in each operation
    Count {
        /// Operations whose names contain this
        #[arg(default_value = "")]
        filter: String,
        /// Number of threads, which take turns
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=16))]
        threads: u8,
        /// Operations per thread; only the second half counts
        #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(10..=10_000))]
        operations: u32,
        /// Count the operations of another build of this program, to compare two commits
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
        /// Print one JSON object per line instead of text
        #[arg(long)]
        json: bool,
    },
    /// Measure the time of an operation on one thread and on two
    Time {
        /// Operations whose names contain this
        #[arg(default_value = "")]
        filter: String,
        /// Milliseconds per measurement
        #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=60_000))]
        millis: u64,
        /// Print one JSON object per line instead of text
        #[arg(long)]
        json: bool,
    },
    /// Estimate the rates of 1 to 64 threads from counts and times
    Model {
        /// Output of `count --json`
        #[arg(long, value_name = "FILE")]
        counts: PathBuf,
        /// Output of `time --json`
        #[arg(long, value_name = "FILE")]
        times: PathBuf,
        /// Nanoseconds to move a line from one core of a socket to another
        #[arg(long, value_name = "N", default_value_t = 60.0)]
        near: f64,
        /// Nanoseconds to move a line between sockets, for a separate column
        #[arg(long, value_name = "N", default_value_t = 200.0)]
        far: f64,
        /// Print one JSON object per line instead of text
        #[arg(long)]
        json: bool,
    },
    /// Run the operations that `count` traces under valgrind
    #[command(hide = true)]
    Trace {
        name: String,
        #[arg(long)]
        threads: u8,
        #[arg(long)]
        operations: u32,
    },
}

fn chosen(filter: &str) -> Result<Vec<&'static LineOperation>, String> {
    let chosen: Vec<_> = OPERATIONS.iter().filter(|o| o.name.contains(filter)).collect();
    if chosen.is_empty() {
        let names = OPERATIONS.map(|o| o.name).join("; ");
        return Err(format!("no operation is named like {filter:?}; there are {names}"));
    }
    Ok(chosen)
}

fn run(command: &LinesCommand) -> Result<(), String> {
    match command {
        LinesCommand::Count { filter, threads, operations, program, json } => {
            let own = std::env::current_exe().map_err(|e| format!("the path of this program: {e}"));
            let program = program.clone().map_or(own, Ok)?;
            for o in chosen(filter)? {
                eprintln!("{} …", o.name);
                let run =
                    trace::trace(&program, o.name, usize::from(*threads), *operations as usize)?;
                let count = count::count(&program, o.name, &run, o.first_counted)?;
                match json {
                    true => println!("{}", count.json()),
                    false => println!("{}", count.text()),
                }
            }
            Ok(())
        }
        LinesCommand::Time { filter, millis, json } => {
            // The wait of readers next to a writer depends on how much the writer writes.
            for o in chosen(filter)?.iter().filter(|o| o.first_counted == 0) {
                let time = |threads| {
                    timed(o, threads, Duration::from_millis(*millis))
                        .map_err(|e| format!("{}: {e}", o.name))
                };
                let (one, two) = (time(1)?, time(2)?);
                let alone = 1e9 / one;
                match json {
                    true => println!(
                        "{}",
                        json!({ "operation": o.name, "alone_nanos": alone, "two_a_second": two })
                    ),
                    false => println!("{}\t{alone:.0} ns\t{two:.0} a second on two", o.name),
                }
            }
            Ok(())
        }
        LinesCommand::Model { counts, times, near, far, json } => {
            told(counts, times, *near, *far, *json)
        }
        LinesCommand::Trace { name, threads, operations } => {
            let operation = OPERATIONS
                .iter()
                .find(|o| o.name == name)
                .ok_or_else(|| format!("there is no operation {name:?}"))?;
            trace::be_traced(operation, usize::from(*threads), *operations as usize)
                .map_err(|e| format!("{name}: {e}"))
        }
    }
}

/// Number of untimed operations of each thread before the measurement.
const WARM: usize = 1000;

/// Returns the operations per second of all threads together.
fn timed(o: &LineOperation, threads: usize, time: Duration) -> firn_kv::Result<f64> {
    let store = (o.store)()?;
    let (start, ends, done) = (Barrier::new(threads), AtomicBool::new(false), AtomicU64::new(0));
    let (store, start, ends, done) = (&store, &start, &ends, &done);
    std::thread::scope(|scope| {
        let work = |thread| {
            move || {
                let mut step = (o.steps)(store, thread, threads);
                // The warm-up keeps first accesses out of the measurement.
                let warmed = (0..WARM).try_for_each(&mut step);
                start.wait();
                warmed?;
                let (begun, mut i) = (Instant::now(), WARM);
                while !ends.load(Ordering::Relaxed) {
                    step(i)?;
                    i += 1;
                    if i % 16 == 0 && begun.elapsed() >= time {
                        ends.store(true, Ordering::Relaxed);
                    }
                }
                done.fetch_add((i - WARM) as u64, Ordering::Relaxed);
                Ok::<(), firn_kv::Error>(())
            }
        };
        let running: Vec<_> = (0..threads).map(|t| scope.spawn(work(t))).collect();
        running
            .into_iter()
            .try_for_each(|r| r.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
    })?;
    Ok(done.load(Ordering::Relaxed) as f64 / time.as_secs_f64())
}

/// Reads the JSON objects of a file, one per line.
fn objects(path: &Path) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let read = |(i, l): (usize, &str)| {
        serde_json::from_str(l).map_err(|e| {
            format!("{}, line {}: {e}; give what --json has printed", path.display(), i + 1)
        })
    };
    text.lines().enumerate().map(read).collect()
}

/// Thread counts of the model's columns.
const COLUMNS: [f64; 5] = [1.0, 2.0, 4.0, 16.0, 64.0];

fn told(counts: &Path, times: &Path, near: f64, far: f64, json: bool) -> Result<(), String> {
    let counts = objects(counts)?;
    for of in objects(times)? {
        let name = &of["operation"];
        let (Some(alone), Some(two)) = (of["alone_nanos"].as_f64(), of["two_a_second"].as_f64())
        else {
            return Err(format!("{}: not of `time --json`: {of}", times.display()));
        };
        let Some(count) = counts.iter().find(|c| c["operation"] == *name) else { continue };
        let count = OperationCount::from_json(count)
            .ok_or_else(|| format!("not of `count --json`: {count}"))?;
        let rates = COLUMNS.map(|n| model::rate(&count, alone, n, near));
        let across = model::rate(&count, alone, 64.0, far);
        let bounds = [near, far].map(|t| model::bound(&count, alone, t));
        if json {
            println!(
                "{}",
                json!({
                    "operation": count.name,
                    "moves": count.moves(),
                    "threads": COLUMNS,
                    "a_second": rates,
                    "across_sockets_a_second": across,
                    "bounds_a_second": bounds.map(|v| v.is_finite().then_some(v)),
                    "measured_two_a_second": two,
                })
            );
            continue;
        }
        let millions = |v: &f64| match v.is_finite() {
            true => format!("{:.2}", v / 1e6),
            false => "none".into(),
        };
        let cells = rates.iter().chain([&across]).chain(&bounds).chain([&two]).map(millions);
        let cells: Vec<String> = cells.collect();
        println!("| {} | {:.1} | {} |", count.name, count.moves(), cells.join(" | "));
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&LinesCli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            eprintln!("micro-lines: {words}");
            ExitCode::from(2)
        }
    }
}
