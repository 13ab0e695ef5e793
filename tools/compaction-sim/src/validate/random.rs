//! Tests the simulator on random configurations: the engine runs each on files with its threads,
//! and the simulator predicts the result.
//!
//! The prediction knows the configuration, the kind of workload and a [`Machine`], but nothing
//! about the policy's actions. It is made twice:
//! - With the speeds of that very run (average times of a write, a flushed entry and a merged
//!   entry). This measures the error of the model.
//! - With the speeds of two earlier runs, under a policy and workload outside the sample
//!   ([`calibrate`]). This measures a prediction on a machine that does other work too.

use std::path::{Path, PathBuf};
use std::time::Duration;

use firn_kv::{Compression, Db, DbOptions, OsEnv, Policy, TreeOptions};
use firn_tools::io::Stopwatch;
use firn_tools::output::{Done, Failure, Progress, Style, bytes, print_table, row, table};
use firn_workload::ValueSize;
use firn_workload::rng::Rng;
use serde::Serialize;

use crate::cli::read;
use crate::history::course;
use crate::history::{self, RecordedHistory};
use crate::model::machine::{Machine, MergeCost};
use crate::model::meter::SimOutcome;
use crate::model::sim::{self, Setup};
use crate::model::size::ContentSize;
use crate::policy;
use crate::report::text::seconds;
use crate::validate::engine;
use crate::workload::{SimOpKind, SimWorkload};

/// Bytes of keys and values that each configuration writes.
const DATA: u64 = 160 << 20;

/// Memory budget of the stores.
const MEMORY: usize = 64 << 20;

/// Number of simulations per configuration; their job times vary randomly.
const SEEDS: usize = 15;

/// Maximum delay of writers, in nanoseconds, that they still catch up.
const CATCH_UP: u64 = 20_000_000;

/// Allowed errors of a prediction, in percent: written bytes, runs, stall seconds, peak.
const AIMS: [f64; 4] = [5.0, 5.0, 15.0, 5.0];

/// Smaller shares of stalled time count as none: they are noise of the clock and of sleeps.
const HELD_UP: f64 = 0.02;

/// A configuration.
#[derive(Clone, Debug)]
pub struct RandomCase {
    /// Description.
    pub name: String,
    /// Options of the tree.
    pub options: TreeOptions,
    /// The workload.
    pub workload: SimWorkload,
    /// Background threads.
    pub threads: usize,
    /// Write rate in bytes per second; 0 for the maximum rate.
    pub ingest: u64,
}

/// Result of a configuration: the engine's figures, and median, minimum and maximum of the
/// simulations.
#[derive(Clone, Debug, Serialize)]
pub struct RandomResult {
    /// Description of the configuration.
    pub case: String,
    /// Bytes written to tables, average runs after a flush, seconds that writers were held up, peak
    /// bytes of tables.
    pub measured: [f64; 4],
    /// The same as predicted with the speeds of that run's machine: the median of the simulations.
    pub predicted: [f64; 4],
    /// Minimum and maximum of the simulations.
    pub interval: [[f64; 2]; 4],
    /// The same as `predicted`, with the speeds that were measured before.
    pub foretold: [f64; 4],
    /// Seconds that the writes took.
    pub took: f64,
}

impl RandomResult {
    /// Returns the error of a prediction in percent; stalls below the noise count as none.
    fn off(&self, ours: [f64; 4], i: usize) -> f64 {
        let (real, ours) = (self.measured[i], ours[i]);
        if i == 2 && real.max(ours) < HELD_UP * self.took {
            0.0
        } else {
            (ours / real.max(1e-3) - 1.0) * 100.0
        }
    }

    fn is_within(&self, i: usize) -> bool {
        self.off(self.predicted, i).abs() <= AIMS[i]
    }
}

/// Returns a random element.
fn any<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// Returns the configuration with this number.
///
/// # Errors
/// A policy out of bounds, as text.
pub fn draw(number: u64) -> Done<RandomCase> {
    let mut rng = Rng::new(number, 16);
    let memtable = any(&mut rng, &[1u64, 2, 4, 8]) << 20;
    let table = any(&mut rng, &[1u64, 2, 4, 8]) << 20;
    let ratio = 3 + rng.below(8);
    let policy = match rng.below(6) {
        0 => format!("tiered:{}", 2 + rng.below(5)),
        1 => format!(
            "leveled:{ratio}:{}:{}m",
            1 + rng.below(4),
            (memtable >> 20) * (2 + rng.below(6))
        ),
        2 => format!("lazy-leveled:{}", 2 + rng.below(7)),
        3 => format!("tier:{}", 2 + rng.below(6)),
        4 => format!("full:{}", 2 + rng.below(6)),
        _ => format!("{}:{ratio}", any(&mut rng, &["lo+1", "rr", "cold", "old", "1-lvl"])),
    };
    let kind = match rng.below(5) {
        0 => SimOpKind::Insert,
        1 => SimOpKind::Uniform,
        2 => SimOpKind::Zipfian(any(&mut rng, &[0.6, 0.8, 0.9, 0.99])),
        3 => SimOpKind::Deletes(any(&mut rng, &[0.05, 0.1, 0.2, 0.4])),
        _ => SimOpKind::TimeSeries(any(&mut rng, &[10, 100, 1000])),
    };
    let from = any(&mut rng, &[30usize, 60, 100, 200, 400, 800]);
    let to = if rng.below(2) == 0 { from } else { from * 2 };
    let content = ContentSize { value: ValueSize::Uniform(from, to), ..ContentSize::default() };
    let ops = (DATA as f64 / (16.0 + content.mean_value())) as u64;
    let all = ops / (2 + rng.below(7));
    let workload = SimWorkload { seed: number, ..SimWorkload::of(kind, ops, all, content) };
    let keys = workload.keys;
    let threads = 1 + rng.below(4) as usize;
    let ingest = any(&mut rng, &[0u64, 0, 10, 20]) << 20;
    let options = TreeOptions {
        compression: vec![Compression::None],
        memtable_size: memtable as usize,
        table_size: table,
        ..TreeOptions::default()
    };
    let options = TreeOptions {
        policy: policy::parse(&policy, &options).map_err(Failure::new)?.policy,
        ..options
    };
    let rate = if ingest == 0 { "all it can".to_owned() } else { format!("{}/s", bytes(ingest)) };
    let values = if to > from { format!("{from}-{to}") } else { from.to_string() };
    let name = format!(
        "{number}: {policy} m={} t={} {kind} keys={keys} v={values} threads={threads} {rate}",
        memtable >> 20,
        table >> 20
    );
    Ok(RandomCase { name, options, workload, threads, ingest })
}

/// A temporary directory that is removed on drop.
struct OwnDir(PathBuf);

impl OwnDir {
    fn new() -> Done<OwnDir> {
        let name = format!("compaction-sim-{}", std::process::id());
        let own = OwnDir(std::env::temp_dir().join(name));
        own.clean()?;
        Ok(own)
    }

    fn clean(&self) -> Done {
        let env = OsEnv::new();
        let Ok(names) = env.list(&self.0) else { return Ok(()) };
        names.iter().try_for_each(|name| env.remove(&self.0.join(name)))?;
        Ok(env.remove_dir(&self.0)?)
    }
}

impl Drop for OwnDir {
    fn drop(&mut self) {
        // Files that cannot be removed stay in the directory of temporary files.
        let _ = self.clean();
    }
}

/// Returns the log of the engine's run of a case, until all work was done. `logs` is the directory
/// of stored logs that need not be made again; `name` is the log's name there.
fn measure(case: &RandomCase, logs: Option<&Path>, name: &str) -> Done<RecordedHistory> {
    let kept = logs.map(|dir| dir.join(format!("{name}.jsonl")));
    let log = match &kept {
        Some(path) if firn_tools::io::is_file(path) => read(path)?,
        _ => {
            let log = done_by_engine(case)?;
            if let Some(path) = &kept {
                firn_tools::io::write(path, &log).map_err(|e| Failure::file("write", path, &e))?;
            }
            log
        }
    };
    history::parse(&String::from_utf8_lossy(&log), None)
}

fn done_by_engine(case: &RandomCase) -> Done<Vec<u8>> {
    let dir = OwnDir::new()?;
    let db_options = DbOptions {
        memory_budget: MEMORY,
        background_threads: case.threads,
        ..DbOptions::default()
    };
    let db = Db::open_with(&dir.0, db_options)?;
    let env = OsEnv::new();
    let arrival = case.ingest_nanos();
    let watch = Stopwatch::start();
    let (mut due, mut looked) = (0.0, 0u64);
    engine::write(&db, &case.options, &case.workload, 0.0, |_| {
        due += arrival;
        looked += 1;
        if arrival == 0.0 || !looked.is_multiple_of(16) {
            return;
        }
        let now = watch.nanos() as f64;
        if due > now + 1e6 {
            env.sleep(Duration::from_nanos((due - now) as u64));
        }
        due = due.max(now - CATCH_UP as f64);
    })?;
    db.wait_idle()?;
    drop(db);
    read(&dir.0.join("EVENTS.jsonl"))
}

impl RandomCase {
    /// Returns the nanoseconds between two writes; 0 for the maximum rate.
    fn ingest_nanos(&self) -> f64 {
        if self.ingest > 0 { self.workload.put_bytes() / self.ingest as f64 * 1e9 } else { 0.0 }
    }

    fn setup(&self, machine: Machine, seed: u64) -> Setup {
        let workload = SimWorkload { seed, ..self.workload.clone() };
        let machine = Machine {
            threads: self.threads,
            // The engine's value for a store that is opened without trees.
            max_sealed: 1,
            ingest: self.ingest as f64,
            ..machine
        };
        Setup::new(self.options.clone(), workload, machine)
    }

    /// Returns the figures of the simulations on a machine, each sorted.
    fn predict(&self, machine: Machine) -> Done<[[f64; SEEDS]; 4]> {
        let mut all = [[0.0; SEEDS]; 4];
        for k in 0..SEEDS {
            let o = sim::run(&self.setup(machine, k as u64 + 1), &mut |_| ())?;
            for (of, v) in all.iter_mut().zip(figures(&o)?) {
                of[k] = v;
            }
        }
        all.iter_mut().for_each(|of| of.sort_by(f64::total_cmp));
        Ok(all)
    }
}

/// Measures the speeds of this machine with two loads outside the sample: small and large values.
/// Their difference separates costs per byte from costs per entry.
///
/// # Errors
/// Errors of the engine and the simulator.
pub fn calibrate(logs: Option<&Path>) -> Done<Machine> {
    let cores = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    let mut found: Vec<(f64, Machine, (f64, f64))> = vec![];
    for value in [50usize, 600] {
        let content = ContentSize { value: ValueSize::Fixed(value), ..ContentSize::default() };
        let ops = (DATA as f64 / (16.0 + value as f64)) as u64;
        let options = TreeOptions {
            compression: vec![Compression::None],
            memtable_size: 3 << 20,
            table_size: 3 << 20,
            ..TreeOptions::default()
        };
        let policy = Policy::default();
        let case = RandomCase {
            name: format!("values of {value}"),
            options: TreeOptions { policy: policy.clone(), ..options },
            workload: SimWorkload::of(SimOpKind::Uniform, ops, ops / 2, content),
            threads: 2,
            ingest: 0,
        };
        let h = measure(&case, logs, &case.name)?;
        let (fitted, jitter) = h.fitted_to(case.setup(Machine::default(), 1), cores)?;
        found.push((case.workload.put_bytes(), fitted.machine, jitter));
    }
    let [(small, a, spread_a), (large, b, spread_b)] = found[..] else {
        return Err(Failure::new("two loads were to be measured"));
    };
    // The line through two points; neither part is negative.
    let line = |x: f64, y: f64| {
        let slope = ((y - x) / (large - small)).max(0.0);
        ((x - slope * small).max(0.0), slope)
    };
    let (write_op, write_byte) = line(a.write_op, b.write_op);
    let flush = |m: &Machine, size: f64| m.flush.0 + m.flush.1 * size;
    let merge = |m: &Machine, size: f64| m.merge.nanos(4, 1.0, size);
    let (entry, byte) = line(merge(&a, small), merge(&b, large));
    let d = Machine::default().merge;
    let scale = entry / d.nanos(4, 1.0, 0.0);
    Ok(Machine {
        write_op,
        write_byte,
        flush: line(flush(&a, small), flush(&b, large)),
        merge: MergeCost { entry: d.entry * scale, doubling: d.doubling * scale, byte },
        flush_wait: f64::midpoint(a.flush_wait, b.flush_wait),
        before_flush: f64::midpoint(a.before_flush, b.before_flush),
        jitter: (f64::midpoint(spread_a.0, spread_b.0), f64::midpoint(spread_a.1, spread_b.1)),
        stays_open: f64::INFINITY,
        ..a
    })
}

/// Draws `draws` configurations, starting at `seed`, and measures and predicts each. Uses the logs
/// in `logs` instead of running the engine, and stores new ones there.
///
/// # Errors
/// Errors of the engine and the simulator.
pub fn results(seed: u64, draws: u64, logs: Option<&Path>) -> Done<(Machine, Vec<RandomResult>)> {
    if let Some(dir) = logs {
        OsEnv::new().create_dir_all(dir)?;
    }
    let bar = Progress::operations("drawn", Some(draws + 1));
    bar.say("the speeds of this machine".to_owned());
    let machine = calibrate(logs)?;
    let mut all = vec![];
    for i in 0..draws {
        let number = seed.wrapping_add(i);
        let case = draw(number)?;
        bar.at(i + 1);
        bar.say(case.name.clone());
        let h = measure(&case, logs, &number.to_string())?;
        let whole = course::whole(&h.course)?;
        let measured = [
            whole.written as f64,
            whole.mean_runs,
            (h.held_up[0] + h.held_up[1]) as f64 / 1e6,
            whole.peak as f64,
        ];
        let (fitted, jitter) = h.fitted_to(case.setup(machine, 1), machine.cores)?;
        let own = Machine { jitter, stays_open: f64::INFINITY, ..fitted.machine };
        let interval = case.predict(own)?;
        let middle = |of: [[f64; SEEDS]; 4]| of.map(|sorted| sorted[SEEDS / 2]);
        all.push(RandomResult {
            case: case.name.clone(),
            measured,
            predicted: middle(interval),
            interval: interval.map(|sorted| [sorted[0], sorted[SEEDS - 1]]),
            foretold: middle(case.predict(machine)?),
            took: h.elapsed as f64 / 1e6,
        });
    }
    Ok((machine, all))
}

fn figures(o: &SimOutcome) -> Done<[f64; 4]> {
    let whole = course::whole(&course::of_outcome(o))?;
    Ok([
        (o.flush_bytes + o.merge_written) as f64,
        whole.mean_runs,
        o.slowdown_seconds + o.stalled_seconds,
        o.peak_bytes as f64,
    ])
}

/// Returns the table, and whether every prediction is within its allowed error.
pub fn table_of(all: &[RandomResult], style: Style) -> (String, bool) {
    let mut t = table(&["drawn", "written", "", "runs", "", "held up", "", "peak", ""]);
    let figure = |i: usize, v: f64| match i {
        1 => format!("{v:.1}"),
        2 => seconds(v),
        _ => bytes(v as u64),
    };
    for r in all {
        let mut cells = vec![r.case.clone()];
        for i in 0..4 {
            let [least, most] = r.interval[i];
            cells.push(format!(
                "{} | {} ({}..{})",
                figure(i, r.measured[i]),
                figure(i, r.predicted[i]),
                figure(i, least),
                figure(i, most)
            ));
            let mark = if r.is_within(i) { "" } else { " !" };
            cells.push(format!("{:+.1} %{mark}", r.off(r.predicted, i)));
        }
        row(&mut t, cells);
    }
    let mut text = print_table(&t, style);
    let words = ["written bytes", "runs", "time held up", "peak"];
    for (i, word) in words.into_iter().enumerate() {
        let within = all.iter().filter(|r| r.is_within(i)).count();
        let covered =
            |r: &RandomResult| (r.interval[i][0]..=r.interval[i][1]).contains(&r.measured[i]);
        let between = |r: &&RandomResult| r.is_within(i) || covered(r);
        let offs = |ours: fn(&RandomResult) -> [f64; 4]| {
            let mut offs: Vec<f64> = all.iter().map(|r| r.off(ours(r), i).abs()).collect();
            offs.sort_by(f64::total_cmp);
            [offs.len() / 2, offs.len().saturating_sub(1)]
                .map(|i| offs.get(i).copied().unwrap_or(0.0))
        };
        let ([half, worst], [far, farthest]) = (offs(|r| r.predicted), offs(|r| r.foretold));
        text += &format!(
            "{word}: {within} of {} within {} %, {} in the interval, {} in one or the other; half \
             are off by {half:.1} % at most, the worst by {worst:.1} %; with the speeds measured \
             before by {far:.1} and {farthest:.1} %\n",
            all.len(),
            AIMS[i],
            all.iter().filter(|r| covered(r)).count(),
            all.iter().filter(between).count(),
        );
    }
    (text, all.iter().all(|r| (0..4).all(|i| r.is_within(i))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn what_is_drawn_is_sound_and_repeatable() {
        let mut names = HashSet::new();
        for number in 0..300 {
            let case = draw(number).unwrap();
            assert_eq!(case.name, draw(number).unwrap().name);
            case.options.check().unwrap();
            assert!(case.workload.ops() > 10_000 && case.workload.put_bytes() > 40.0);
            names.insert(case.name);
        }
        assert_eq!(names.len(), 300);
    }
}
