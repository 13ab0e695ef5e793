//! Runs a workload on the real engine and in the simulator, and puts their figures side by side.
//!
//! The engine runs several times, with different seeds: its own spread is the least error that a
//! prediction can have. The prediction knows the description of the workload and of the store, and
//! the speeds of the machine: average times of a write, of a flushed and of a merged entry, from
//! the engine's first run. It knows nothing of the policy's actions.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use firn_kv::policy::CustomPolicy;
use firn_kv::{OsEnv, TreeOptions};
use firn_tools::output::{Done, Failure, Progress, bytes, print_table, row, table};
use firn_tools::workload;
use firn_workload::firn::FirnStore;
use firn_workload::{Outcome, RunProgress, Runner, WorkloadDescription, WorkloadStep};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cli::{CompareArgs, SimCli, read};
use crate::history::{self, RecordedHistory, course};
use crate::model::machine::Machine;
use crate::model::meter::SimOutcome;
use crate::model::sim::{self, Setup};
use crate::model::size::TREE;
use crate::policy;
use crate::report::text::seconds;
use crate::workload::SimWorkload;

/// Number of simulations of a prediction; their job times vary randomly.
const SEEDS: u64 = 9;

/// Smaller shares of stalled time count as none: they are noise of the clock and of sleeps.
const HELD_UP: f64 = 0.02;

/// Number of figures.
pub const FIGURES: usize = 6;

/// Names of the figures.
pub const NAMES: [&str; FIGURES] = [
    "bytes written to tables",
    "runs at the end",
    "bytes of tables at the end",
    "seconds that writers were held up",
    "mean runs after a flush",
    "peak bytes of tables",
];

/// Aims for the first figures: percent, or for runs their number.
pub const AIMS: [f64; 4] = [5.0, 1.0, 5.0, 15.0];

/// A figure of the engine and of the simulator: their least, median and greatest values.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct MeasuredFigure {
    /// The engine's runs.
    pub engine: [f64; 3],
    /// The simulations.
    pub predicted: [f64; 3],
}

/// The figures of a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Name of the workload.
    pub name: String,
    /// In the order of [`NAMES`].
    pub figures: [MeasuredFigure; FIGURES],
    /// Flushes and compactions of the engine's first run.
    pub jobs: [u64; 2],
    /// Seconds that the engine's writes took, in the first run.
    pub seconds: f64,
    /// Bytes of keys and values that the workload puts, and those of one copy of its live data, both
    /// simulated.
    pub data: [f64; 2],
    /// Phases of the engine's first run; none if its event log was stored.
    pub phases: Vec<Outcome>,
}

/// Settings of a measurement.
#[derive(Clone, Debug)]
pub struct MeasurePlan<'a> {
    /// Runs of the engine, with different seeds.
    pub runs: u64,
    /// Simulations, with different seeds.
    pub simulations: u64,
    /// Policy of the tree instead of that of the description.
    pub custom: Option<&'a CustomPolicy>,
    /// Directory of stored event logs, if they are stored.
    pub logs: Option<&'a Path>,
    /// Whether each phase has a progress bar.
    pub shows_phases: bool,
}

impl MeasurePlan<'_> {
    /// Creates the plan of a comparison: this many runs of the engine, beside nine simulations.
    pub fn new(runs: u64) -> MeasurePlan<'static> {
        MeasurePlan { runs, simulations: SEEDS, custom: None, logs: None, shows_phases: true }
    }

    /// Returns the options of the tree of a description.
    fn tree_options(&self, d: &WorkloadDescription) -> Done<TreeOptions> {
        let options = workload::tree_options(&d.store)?;
        let named = policy::parse(&d.store.policy, &options).map_err(Failure::new)?;
        let options = named.set_in(options);
        let custom_policy = self.custom.cloned().or(options.custom_policy);
        Ok(TreeOptions { custom_policy, ..options })
    }
}

/// A run of a description on the engine.
pub struct EngineRun {
    /// The store's event log.
    pub log: Vec<u8>,
    /// Outcome of each phase.
    pub phases: Vec<Outcome>,
}

impl MeasuredFigure {
    fn of(engine: &[f64], predicted: &[f64]) -> MeasuredFigure {
        let ends = |values: &[f64]| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            let at = |i: usize| sorted.get(i).copied().unwrap_or(0.0);
            [at(0), at(sorted.len() / 2), at(sorted.len().saturating_sub(1))]
        };
        MeasuredFigure { engine: ends(engine), predicted: ends(predicted) }
    }

    /// Returns the difference of the medians in percent of the engine's.
    pub fn percent(&self) -> f64 {
        let (real, ours) = (self.engine[1], self.predicted[1]);
        if real == ours { 0.0 } else { (ours / real.max(1e-3) - 1.0) * 100.0 }
    }
}

impl Measured {
    /// Reports whether a figure is within its aim, and whether it is within the engine's own spread.
    pub fn is_within(&self, i: usize) -> (bool, bool) {
        let f = &self.figures[i];
        let (real, ours) = (f.engine[1], f.predicted[1]);
        let aim = match i {
            1 => (real - ours).abs() <= AIMS[1],
            3 if real.max(ours) < HELD_UP * self.seconds => true,
            _ => f.percent().abs() <= AIMS.get(i).copied().unwrap_or(AIMS[0]),
        };
        (aim, (f.engine[0]..=f.engine[2]).contains(&ours))
    }
}

/// Returns a figure as text.
pub fn figure_text(i: usize, value: f64) -> String {
    match i {
        1 => format!("{value:.0}"),
        3 => seconds(value),
        4 => format!("{value:.1}"),
        _ => bytes(value as u64),
    }
}

/// A temporary directory that is removed on drop.
pub(super) struct OwnDir(pub(super) PathBuf);

impl OwnDir {
    pub(super) fn new() -> Done<OwnDir> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("compaction-sim-{}-{number}", std::process::id());
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

/// Runs a description on a new store until all work is done.
///
/// # Errors
/// Errors of the engine, and the failure of a custom policy.
pub fn run_on_engine(d: &WorkloadDescription, plan: &MeasurePlan<'_>) -> Done<EngineRun> {
    let dir = OwnDir::new()?;
    let words = |e: firn_workload::Error| Failure::new(e.to_string());
    let (db, tree) = (workload::db_options(&d.store)?, plan.tree_options(d)?);
    let custom = tree.custom_policy.clone();
    let store =
        FirnStore::open_with_ttl(&dir.0, db, TREE, tree, d.store.ttl_secs).map_err(words)?;
    let mut phases = vec![];
    let runner = Runner::new(d.config()).map_err(words)?;
    for step in d.steps().map_err(Failure::new)? {
        match step {
            WorkloadStep::Run(phase) => {
                let bar = plan.shows_phases.then(|| {
                    Progress::operations(&phase.to_string(), Some(phase.total_ops(d.keys)))
                });
                let at = |p: &RunProgress| bar.iter().for_each(|bar| bar.at(p.ops));
                phases.push(runner.run(&store, &phase, at).map_err(words)?);
            }
            WorkloadStep::Flush => store.tree.flush()?,
            WorkloadStep::Compact => store.tree.compact()?,
            WorkloadStep::Wait => store.db.wait_idle()?,
        }
    }
    store.db.wait_idle()?;
    store.db.close()?;
    if let Some((name, reason)) = custom.as_ref().and_then(|c| Some((c.name(), c.failure()?))) {
        return Err(Failure::new(format!("{name}: {reason}")));
    }
    Ok(EngineRun { log: read(&dir.0.join("EVENTS.jsonl"))?, phases })
}

/// Returns the history of a run of a description, and its phases. Stored logs need not be made
/// again; `name` is the log's name there.
fn history_of(
    d: &WorkloadDescription,
    plan: &MeasurePlan<'_>,
    name: &str,
) -> Done<(RecordedHistory, Vec<Outcome>)> {
    let stored = plan.logs.map(|dir| dir.join(format!("{name}.jsonl")));
    let run = match &stored {
        Some(path) if firn_tools::io::is_file(path) => {
            EngineRun { log: read(path)?, phases: vec![] }
        }
        _ => {
            let run = run_on_engine(d, plan)?;
            if let Some(path) = &stored {
                firn_tools::io::write(path, &run.log)
                    .map_err(|e| Failure::file("write", path, &e))?;
            }
            run
        }
    };
    Ok((history::parse(&String::from_utf8_lossy(&run.log), None)?, run.phases))
}

/// Returns the simulation of a description, with the speeds of this machine if they are known.
///
/// # Errors
/// A description that is not simulated.
pub fn setup_of(d: &WorkloadDescription, plan: &MeasurePlan<'_>, machine: Machine) -> Done<Setup> {
    let workload = SimWorkload::described(d, vec![]).map_err(Failure::new)?;
    let rate = d.rate_of_all().map_err(Failure::new)?;
    let machine = Machine {
        threads: d.store.background_threads,
        // The engine's value for a store that is opened without trees.
        max_sealed: 1,
        ingest: rate.map_or(0.0, |rate| rate * workload.put_bytes()),
        ..machine
    };
    Ok(Setup::new(plan.tree_options(d)?, workload, machine))
}

/// Runs a description on the engine with different seeds, and predicts it. `name` is the name of
/// stored event logs.
///
/// # Errors
/// Errors of the engine and of the simulator.
pub fn measure(d: &WorkloadDescription, name: &str, plan: &MeasurePlan<'_>) -> Done<Measured> {
    let cores = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    let seeded = |i: u64| WorkloadDescription { seed: d.seed.wrapping_add(i), ..d.clone() };
    let (first, phases) = history_of(&seeded(0), plan, &format!("{name}-0"))?;
    let mut histories = vec![first];
    for i in 1..plan.runs {
        histories.push(history_of(&seeded(i), plan, &format!("{name}-{i}"))?.0);
    }
    let first = &histories[0];
    let (fitted, jitter) = first.fitted_to(setup_of(d, plan, Machine::default())?, cores)?;
    let machine = Machine { jitter, stays_open: f64::INFINITY, ..fitted.machine };
    let mut predicted: [Vec<f64>; FIGURES] = Default::default();
    let mut data = [0.0; 2];
    for k in 0..plan.simulations.max(1) {
        let setup = Setup { machine, ..setup_of(&seeded(k), plan, machine)? };
        let outcome = sim::run(&setup, &mut |_| ())?;
        data = [outcome.user_bytes, outcome.live_bytes];
        let figures = of_outcome(&outcome)?;
        predicted.iter_mut().zip(figures).for_each(|(all, figure)| all.push(figure));
    }
    let mut engine: [Vec<f64>; FIGURES] = Default::default();
    for h in &histories {
        engine.iter_mut().zip(of_history(h)?).for_each(|(all, figure)| all.push(figure));
    }
    let figures = std::array::from_fn(|i| MeasuredFigure::of(&engine[i], &predicted[i]));
    Ok(Measured {
        name: name.to_owned(),
        figures,
        jobs: [first.flushes, first.jobs[0]],
        seconds: first.elapsed as f64 / 1e6,
        data,
        phases,
    })
}

/// Runs `compare --workload`.
///
/// # Errors
/// Errors of the engine and of the simulator. [`Failure::Found`] if the bytes written differ by
/// more than the tolerance, and by more than the engine's own runs.
pub fn compare(args: &CompareArgs, cli: &SimCli, out: &mut dyn Write) -> Done {
    let mut d = args.workload.description(&WorkloadDescription::default())?;
    if let Some(policy) = &args.policy {
        d.store.policy.clone_from(policy);
    }
    if let Some(bytes) = args.data {
        d.scale_to(bytes).map_err(|why| Failure::with_next(why, "give --keys instead"))?;
    }
    let name = args.workload.workload.clone().unwrap_or_default();
    let m = measure(&d, &name, &MeasurePlan::new(args.runs))?;
    if cli.json {
        let lines = NAMES.iter().zip(&m.figures).map(|(what, f)| {
            json!({
                "what": what, "engine": f.engine, "predicted": f.predicted, "percent": f.percent(),
            })
        });
        let lines: Vec<_> = lines.collect();
        writeln!(
            out,
            "{}",
            json!({"workload": d, "flushes": m.jobs[0], "compactions": m.jobs[1], "lines": lines})
        )?;
    } else {
        let mut t = table(&[&name, "engine", "its runs", "predicted", "simulations", "differs"]);
        for (i, (what, f)) in NAMES.iter().zip(&m.figures).enumerate() {
            let text = |v: f64| figure_text(i, v);
            let between = |of: [f64; 3]| format!("{} to {}", text(of[0]), text(of[2]));
            let note = if m.is_within(i).1 { ", within the engine's runs" } else { "" };
            row(
                &mut t,
                [
                    (*what).to_owned(),
                    text(f.engine[1]),
                    between(f.engine),
                    text(f.predicted[1]),
                    between(f.predicted),
                    format!("{:+.1} %{note}", f.percent()),
                ],
            );
        }
        write!(out, "{}", print_table(&t, cli.style()))?;
        writeln!(
            out,
            "{} runs of the engine with {} flushes and {} compactions (the first), and {SEEDS} simulations; medians, and \
             least to greatest",
            args.runs, m.jobs[0], m.jobs[1]
        )?;
    }
    let written = &m.figures[0];
    let is_off = written.percent().abs() > args.tolerance && !m.is_within(0).1;
    if is_off { Err(Failure::Found) } else { Ok(()) }
}

fn of_history(h: &RecordedHistory) -> Done<[f64; FIGURES]> {
    let whole = course::whole(&h.course)?;
    Ok([
        whole.written as f64,
        h.last_runs as f64,
        whole.bytes as f64,
        (h.held_up[0] + h.held_up[1]) as f64 / 1e6,
        whole.mean_runs,
        whole.peak as f64,
    ])
}

fn of_outcome(o: &SimOutcome) -> Done<[f64; FIGURES]> {
    let whole = course::whole(&course::of_outcome(o))?;
    Ok([
        (o.flush_bytes + o.merge_written) as f64,
        o.runs as f64,
        o.bytes as f64,
        o.slowdown_seconds + o.stalled_seconds,
        whole.mean_runs,
        o.peak_bytes as f64,
    ])
}
