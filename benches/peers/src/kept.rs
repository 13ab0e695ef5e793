//! Reads stored results of `run --json`: several as one table, or as growth if they differ in their
//! number of keys.

use clap::Args;
use firn_workload::{Config, Result};
use serde::Deserialize;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::engines::Engine;
use crate::table::{self, Repetition, Spread};

/// The used parts of a file of `run --json`.
#[derive(Deserialize)]
struct KeptRun {
    config: Config,
    repetitions: Vec<Repetition>,
}

impl KeptRun {
    fn read(path: &Path) -> Result<KeptRun> {
        let text = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(serde_json::from_slice(&text).map_err(|e| {
            format!("{}: {e}; it should be a file of `peers run --json`", path.display())
        })?)
    }
}

/// Print one table of several runs
#[derive(Args)]
pub struct KeptTable {
    /// Files of `run --json`; with `NAME=` before one, its rows begin with that name. Files of the
    /// same name (or none) are repetitions of each other if their rows are the same
    #[arg(required = true)]
    files: Vec<String>,
    /// Write the ratios to this file, for `results/plot.py`
    #[arg(long)]
    ratios: Option<PathBuf>,
    /// Write the geometric means of the ratios to this file, for `results/plot.py`
    #[arg(long)]
    means: Option<PathBuf>,
}

/// Print rates by the number of keys
#[derive(Args)]
pub struct Growth {
    /// Files of `run --json` with the same steps and different numbers of keys
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write the rates to this file, for `results/plot.py`
    #[arg(long)]
    tsv: Option<PathBuf>,
}

/// Appends missing items to `known`, in order.
fn add<T: PartialEq>(known: &mut Vec<T>, new: impl IntoIterator<Item = T>) {
    for one in new {
        if !known.contains(&one) {
            known.push(one);
        }
    }
}

/// Returns the engines of the runs, Firn first.
fn engines(all: &[Repetition]) -> Vec<Engine> {
    let mut engines = vec![];
    add(&mut engines, all.iter().map(|r| r.engine));
    engines.sort_by_key(|e| !e.is_ours());
    engines
}

/// Returns the names of the rows, in the order of the steps.
fn labels(all: &[Repetition]) -> Vec<String> {
    let mut labels = vec![];
    add(&mut labels, all.iter().flat_map(|r| &r.steps).map(|s| s.label.clone()));
    labels
}

/// Prints one table of several runs.
///
/// # Errors
/// A file cannot be read or written, or is not from `run --json`.
pub fn print_table(args: &KeptTable) -> Result<()> {
    let mut all: Vec<Repetition> = vec![];
    for file in &args.files {
        let (name, path) = file.split_once('=').unwrap_or(("", file));
        for mut repetition in KeptRun::read(Path::new(path))?.repetitions {
            let steps = repetition.steps.iter_mut().map(|s| &mut s.label);
            let failures = repetition.failures.iter_mut().map(|f| &mut f.label);
            for label in steps.chain(failures).filter(|_| !name.is_empty()) {
                *label = format!("{name}: {label}");
            }
            all.push(repetition);
        }
    }
    let (engines, labels) = (engines(&all), labels(&all));
    if let Some(path) = &args.ratios {
        fs::write(path, table::ratios(&all, &engines, &labels))?;
    }
    if let Some(path) = &args.means {
        fs::write(path, table::means(&all, &engines, &labels))?;
    }
    println!("{}", table::render(&all, &engines, &labels));
    Ok(())
}

/// Returns a row's rate; for a step without a rate, such as a compaction, keys per second. `None`
/// if there was nothing to do.
fn rate(run: &KeptRun, engine: Engine, label: &str) -> Option<f64> {
    let keys = run.config.keys as f64;
    let steps = run.repetitions.iter().filter(|r| r.engine == engine).flat_map(|r| &r.steps);
    let rates = steps.filter(|s| s.label == label).filter_map(|step| match &step.outcome {
        Some(outcome) => Some(outcome.ops_per_second),
        None => (step.seconds > 1e-3).then(|| keys / step.seconds),
    });
    Spread::of(rates.collect()).map(|s| s.median)
}

/// Formats the rates for `results/plot.py`: a title, the columns, then a line for each step and
/// number of keys; a missing rate is empty.
fn growth_rows(runs: &mut [KeptRun]) -> String {
    runs.sort_by_key(|run| run.config.keys);
    let all: Vec<Repetition> = runs.iter().flat_map(|run| run.repetitions.clone()).collect();
    let engines = engines(&all);
    let mut out = "# operations a second by the number of keys\nstep\tkeys".to_owned();
    for engine in &engines {
        let _ = write!(out, "\t{engine}");
    }
    for label in labels(&all) {
        for run in &*runs {
            let rates: Vec<Option<f64>> = engines.iter().map(|&e| rate(run, e, &label)).collect();
            if rates.iter().all(Option::is_none) {
                continue;
            }
            let _ = write!(out, "\n{label}\t{}", run.config.keys);
            for rate in rates {
                let _ = write!(out, "\t{}", rate.map_or(String::new(), |r| format!("{r:.0}")));
            }
        }
    }
    out.push('\n');
    out
}

/// Prints rates by the number of keys.
///
/// # Errors
/// A file cannot be read or written, or is not from `run --json`.
pub fn print_growth(args: &Growth) -> Result<()> {
    let mut runs = args.files.iter().map(|f| KeptRun::read(f)).collect::<Result<Vec<_>>>()?;
    let text = growth_rows(&mut runs);
    if let Some(path) = &args.tsv {
        fs::write(path, &text)?;
    }
    for (at, line) in text.lines().skip(1).enumerate() {
        println!("| {} |", line.replace('\t', " | "));
        if at == 0 {
            println!("|---|{}", "---:|".repeat(line.matches('\t').count()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::StepResult;

    fn run(num: u64, seconds: f64) -> KeptRun {
        let step = StepResult {
            label: "compact".into(),
            seconds,
            cpu_seconds: 0.0,
            outcome: None,
            peak_rss_anon: 0,
            peak_rss_file: 0,
            device_written: 0,
            device_read: 0,
            disk_bytes: None,
        };
        let idle = StepResult { seconds: 0.0, ..step.clone() };
        let lmdb = Repetition::new(Engine::Lmdb, 0, vec![Ok(idle)]);
        let firn = Repetition::new(Engine::Firn, 0, vec![Ok(step)]);
        KeptRun { config: Config { keys: num, ..Config::default() }, repetitions: vec![lmdb, firn] }
    }

    #[test]
    fn growth_is_by_the_number_of_keys() {
        let text = growth_rows(&mut [run(10_000, 2.0), run(1000, 0.1)]);
        assert_eq!(
            text,
            "# operations a second by the number of keys\nstep\tkeys\tfirn\tlmdb\n\
             compact\t1000\t10000\t\ncompact\t10000\t5000\t\n"
        );
    }
}
