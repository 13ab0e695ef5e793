//! Runs the steps and records results and costs.

use std::io::Write;
use std::time::Duration;

use firn_kv::ErrorKind;

use firn_kv::stats::Stats;
use firn_workload::firn::FirnStore;
use firn_workload::process::{Usage, disk_bytes};
use firn_workload::{Outcome, Phase, Runner, WorkloadDescription, WorkloadStep};

use crate::Setting;
use crate::picture::Picture;
use crate::plan::BenchPlan;
use crate::timed::TimedStore;
use crate::{BenchArgs, directory};
use firn_tools::io::{self, Stopwatch};
use firn_tools::output::{self, Done, Failure, Progress};

/// The measured tree.
pub const TREE: &str = "bench";
/// Interval of progress and of the series.
const INTERVAL: Duration = Duration::from_millis(250);

/// Result of one step, with the state of the store afterwards.
pub struct MeasuredRun {
    /// Its name.
    pub step: String,
    /// Duration in seconds.
    pub seconds: f64,
    /// Result of the workload; `None` for other steps.
    pub outcome: Option<Outcome>,
    /// The store's counters before it.
    pub before: Stats,
    /// The store's counters after it.
    pub after: Stats,
    /// Bytes on disk afterwards, including the log.
    pub disk_bytes: u64,
    /// Memory of the process afterwards.
    pub usage: Option<Usage>,
}

impl MeasuredRun {
    /// Returns the bytes that the user wrote during the step.
    pub fn user_bytes(&self) -> u64 {
        self.after.user_bytes - self.before.user_bytes
    }

    /// Returns the bytes of tables that the engine wrote during the step.
    pub fn table_bytes_written(&self) -> u64 {
        let written = |s: &Stats| s.flush_bytes + s.compaction_written;
        written(&self.after) - written(&self.before)
    }

    /// Returns the seconds of slowdown and stall during the step.
    pub fn held_seconds(&self) -> f64 {
        let held = |s: &Stats| s.slowdown_nanos + s.stalled_nanos;
        (held(&self.after) - held(&self.before)) as f64 / 1e9
    }
}

/// Result of a bench.
pub struct Bench {
    /// The steps.
    pub steps: Vec<MeasuredRun>,
    /// Live keys at the end.
    pub live_keys: u64,
    /// Bytes of live keys and their values.
    pub live_bytes: u64,
    /// Seconds from the first step's start to the last one's end.
    pub seconds: f64,
    /// The workload and the store.
    pub description: WorkloadDescription,
}

/// Runs the plan.
pub fn measure(setting: &Setting<'_>, args: &BenchArgs, plan: &BenchPlan) -> Done<Bench> {
    let dir = &setting.store.db;
    setting.prepare(dir, args.keep)?;
    // Detect unwritable output files before the measurement.
    let mut series = args.series.as_ref().map(|path| Series::create(path)).transpose()?;
    if let Some(path) = &args.html {
        drop(io::create(path).map_err(|e| Failure::file("create", path, &e))?);
    }
    let ttl = plan.description.store.ttl_secs;
    let store = FirnStore::open_with_ttl(dir, plan.db.clone(), TREE, plan.tree.clone(), ttl)
        .map_err(failure)?;
    directory::mark(dir)?;
    let mut config = plan.config.clone();
    config.interval = INTERVAL;
    let runner = Runner::new(config).map_err(|e| Failure::new(e.to_string()))?;
    let mut picture = args.html.as_ref().map(|_| Picture::new(&store.db, &store.tree));
    let watch = Stopwatch::start();
    let mut steps = vec![];
    for (i, step) in plan.steps.iter().enumerate() {
        let before = store.db.stats();
        let started = Stopwatch::start();
        let outcome = take(&store, &runner, step, i, series.as_mut(), picture.as_mut())?;
        if let Some(picture) = &mut picture {
            picture.end_step(&step.to_string())?;
        }
        let seconds = outcome.as_ref().map_or_else(|| started.seconds(), |o| o.seconds);
        steps.push(MeasuredRun {
            step: step.to_string(),
            seconds,
            outcome,
            before,
            after: store.db.stats(),
            disk_bytes: disk_bytes(dir).unwrap_or(0),
            usage: Usage::now(),
        });
    }
    let seconds = watch.seconds();
    let (live_keys, live_bytes) = live(&store)?;
    if let Some(s) = series {
        s.end()?;
    }
    let description = plan.description.clone();
    let bench = Bench { steps, live_keys, live_bytes, seconds, description };
    if let (Some(path), Some(picture)) = (&args.html, picture) {
        picture.write(path, &bench)?;
    }
    Ok(bench)
}

/// Converts an error of the workload runner: an error of the engine, or a text.
pub fn failure(e: firn_workload::Error) -> Failure {
    match e.downcast::<firn_kv::Error>() {
        Ok(e) if e.kind() == ErrorKind::NoSpace => Failure::with_next(
            e.to_string(),
            "use fewer keys (--keys), or a directory on a larger device (--db)",
        ),
        Ok(e) => Failure::Engine(*e),
        Err(other) => Failure::new(other.to_string()),
    }
}

/// Converts a failure to an error of a driver of the workload runner.
pub fn words(f: Failure) -> firn_workload::Error {
    match f {
        Failure::Failed { what, .. } => what.into(),
        Failure::Engine(e) => e.into(),
        Failure::Found | Failure::PipeClosed | Failure::Interrupted => {
            "the directory cannot be used".into()
        }
    }
}

fn take(
    store: &FirnStore,
    runner: &Runner,
    step: &WorkloadStep,
    at: usize,
    mut series: Option<&mut Series>,
    mut picture: Option<&mut Picture>,
) -> Done<Option<Outcome>> {
    let WorkloadStep::Run(phase) = step else {
        let progress = Progress::operations(&step.to_string(), None);
        progress.say("working".into());
        match step {
            WorkloadStep::Compact => store.tree.compact()?,
            WorkloadStep::Flush => store.tree.flush()?,
            _ => store.db.wait_idle()?,
        }
        return Ok(None);
    };
    let progress = Progress::operations(&step.to_string(), Some(all_operations(phase, runner)));
    let show = |p: &firn_workload::RunProgress| {
        progress.at(p.ops);
        progress.say(format!("{}/s", output::rate(p.ops_per_second)));
    };
    if series.is_none() && picture.is_none() {
        return runner.run(store, phase, show).map(Some).map_err(failure);
    }
    let timed = TimedStore::new(store).map_err(failure)?;
    let mut drawn = Ok(());
    let outcome = runner.run(&timed, phase, |p| {
        show(p);
        let times = timed.take();
        if let Some(series) = &mut series {
            series.add(at, phase, p, times);
        }
        if let (Some(picture), Ok(())) = (&mut picture, &drawn) {
            drawn = picture.take(&phase.to_string(), p.ops, times.map(|[_, p99, _]| p99));
        }
    });
    let outcome = outcome.map_err(failure)?;
    drawn.map(|()| Some(outcome))
}

/// Returns the total operations of a phase for its progress bar: each thread of a full scan reads
/// everything.
fn all_operations(phase: &Phase, runner: &Runner) -> u64 {
    let ops = phase.total_ops(runner.config().keys);
    if phase.mix.full_scan.is_some() { ops.saturating_mul(phase.threads as u64) } else { ops }
}

/// Returns the live keys, and the raw bytes of them and their values, as the base of space
/// amplification.
fn live(store: &FirnStore) -> Done<(u64, u64)> {
    let progress = Progress::operations("count", None);
    progress.say("what is alive".into());
    let (mut keys, mut bytes) = (0, 0);
    let mut cursor = store.tree.cursor(..)?;
    cursor.first()?;
    while cursor.is_valid() {
        keys += 1;
        bytes += (cursor.key().len() + cursor.value().len()) as u64;
        cursor.next()?;
    }
    Ok((keys, bytes))
}

/// Throughput and latency over time, as CSV.
struct Series {
    path: std::path::PathBuf,
    out: Box<dyn Write>,
    /// The first failed write: reported at the end, since it does not justify aborting the
    /// measurement.
    failed: Option<std::io::Error>,
}

impl Series {
    fn create(path: &std::path::Path) -> Done<Series> {
        let out = io::create(path).map_err(|e| Failure::file("create", path, &e))?;
        let mut s = Series { path: path.to_owned(), out: Box::new(out), failed: None };
        s.line("step,workload,seconds,operations,operations_per_second,p50_ns,p99_ns,max_ns");
        Ok(s)
    }

    fn line(&mut self, text: &str) {
        if let (None, Err(e)) = (&self.failed, writeln!(self.out, "{text}")) {
            self.failed = Some(e);
        }
    }

    fn add(
        &mut self,
        step: usize,
        phase: &Phase,
        p: &firn_workload::RunProgress,
        latency: Option<[u64; 3]>,
    ) {
        let times = latency.map_or(",,".to_owned(), |[p50, p99, max]| format!("{p50},{p99},{max}"));
        self.line(&format!(
            "{},{phase},{:.3},{},{:.0},{times}",
            step + 1,
            p.seconds,
            p.ops,
            p.ops_per_second
        ));
    }

    fn end(mut self) -> Done {
        let flushed = self.out.flush();
        match self.failed.map_or(flushed, Err) {
            Ok(()) => Ok(()),
            Err(e) => Err(Failure::file("write", &self.path, &e)),
        }
    }
}
