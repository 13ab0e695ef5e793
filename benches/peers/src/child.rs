//! Runs one stage of one engine in its own process, so that its memory figures and its allocator's
//! state are separate. Each opening of the store in a stage starts another process.
//!
//! The order is a JSON line on standard input, each step's report a JSON line on standard output,
//! and progress goes to standard error. A step that fails is reported as a [`Failure`]. If it could
//! have written, the stage ends with it, because later steps would read other data. A child that is
//! to be killed keeps its store open until then, or until its standard input is closed because the
//! parent has ended.

use firn_workload::{
    Config, Error, Outcome, Result, RunProgress, Runner, Store, StoreStats, process::Usage,
};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::env;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::engines::{Engine, Settings, Visitor};
use crate::plan::{Labelled, Step};

/// An order for a child.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The engine.
    pub engine: Engine,
    /// The directory: empty, or with a store that the first step reopens.
    pub dir: PathBuf,
    /// Options of the store.
    pub settings: Settings,
    /// Parameters of the workloads.
    pub config: Config,
    /// The steps.
    pub steps: Vec<Labelled>,
    /// Whether the parent kills the child after the steps.
    pub killed: bool,
}

/// A step without a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Name of the row.
    pub label: String,
    /// Reason, as the engine gives it.
    pub reason: String,
    /// Whether it ends its stage before later steps.
    pub ends_stage: bool,
}

/// Report of a step.
pub type StepReport = std::result::Result<StepResult, Failure>;

impl Order {
    /// Executes the order in a new process. A process that ends early fails the step that it ran.
    pub fn carry_out(&self) -> Result<Vec<StepReport>> {
        let mut child = Command::new(env::current_exe()?)
            .arg("child")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().ok_or("the child has no standard input")?;
        let output = child.stdout.take().ok_or("the child has no standard output")?;
        writeln!(input, "{}", serde_json::to_string(self)?)?;
        let mut reports: Vec<StepReport> = Vec::new();
        for line in BufReader::new(output).lines() {
            reports.push(serde_json::from_str(&line?)?);
            if self.killed && reports.len() == self.steps.len() {
                child.kill()?;
            }
        }
        let status = child.wait()?;
        let ended = matches!(reports.last(), Some(Err(failure)) if failure.ends_stage);
        let failed = match self.steps.get(reports.len()) {
            _ if ended => None,
            Some(unreported) => Some(unreported.label.as_str()),
            None => (status.success() == self.killed).then_some("close"),
        };
        reports.extend(failed.map(|label| {
            let reason = format!("its process ended with {status}");
            Err(Failure { label: label.to_owned(), reason, ends_stage: true })
        }));
        Ok(reports)
    }
}

/// Result of one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepResult {
    /// Name of the row.
    pub label: String,
    /// Wall-clock time of the step.
    pub seconds: f64,
    /// CPU time of all threads of the process during the step, in seconds, to 10 ms.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// Result of the workload; `None` for other steps.
    pub outcome: Option<Outcome>,
    /// Highest resident anonymous memory during the step, in bytes.
    pub peak_rss_anon: u64,
    /// Highest resident memory of mapped files during the step, in bytes.
    pub peak_rss_file: u64,
    /// Bytes that the process caused to be written to the device during the step.
    pub device_written: u64,
    /// Bytes that the process caused to be read from the device during the step.
    pub device_read: u64,
    /// Bytes that the store occupies on disk after the step.
    pub disk_bytes: Option<u64>,
}

/// Peak memory since the last reading.
#[derive(Debug, Default)]
struct Peaks {
    anon: AtomicU64,
    file: AtomicU64,
    end: AtomicBool,
}

impl Peaks {
    fn note(&self) {
        if let Some(usage) = Usage::now() {
            self.anon.fetch_max(usage.rss_anon, Ordering::Relaxed);
            self.file.fetch_max(usage.rss_file, Ordering::Relaxed);
        }
    }

    fn watch(&self) {
        while !self.end.load(Ordering::Relaxed) {
            self.note();
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Ends the monitoring, even if a driver panics.
struct EndOfWatch<'a>(&'a Peaks);

impl Drop for EndOfWatch<'_> {
    fn drop(&mut self) {
        self.0.end.store(true, Ordering::Relaxed);
    }
}

/// Waits until the process has used almost no CPU for a while, so that the engine's background work
/// is done.
fn wait_until_idle() {
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    const QUIET_LOOKS: u32 = 5;
    let mut quiet = 0;
    let mut before = Usage::now().map_or(0, |u| u.cpu_ticks);
    while quiet < QUIET_LOOKS {
        thread::sleep(LOOK_EVERY);
        let now = Usage::now().map_or(0, |u| u.cpu_ticks);
        // A tick is 10 ms: one tick in 100 ms may be a thread that wakes up to poll.
        quiet = if now.saturating_sub(before) <= 1 { quiet + 1 } else { 0 };
        before = now;
    }
}

/// Clock ticks of a second in `/proc`.
const TICKS: f64 = 100.0;

/// State at the start of a step.
struct StepStart {
    usage: Usage,
    at: Instant,
}

/// The part of a stage in one process.
struct StageLife<'a> {
    order: &'a Order,
    peaks: &'a Peaks,
    /// Number of steps that were reported.
    reported: Cell<usize>,
}

impl StageLife<'_> {
    fn tell(&self, label: &str, progress: &RunProgress) {
        if io::stderr().is_terminal() {
            eprint!(
                "\r{:>8} {label}: {:.0} %, {:.0} operations a second    ",
                self.order.engine,
                100.0 * progress.ops as f64 / progress.of as f64,
                progress.ops_per_second
            );
        }
    }

    fn begin(&self) -> StepStart {
        let usage = Usage::now().unwrap_or_default();
        self.peaks.anon.store(usage.rss_anon, Ordering::Relaxed);
        self.peaks.file.store(usage.rss_file, Ordering::Relaxed);
        StepStart { usage, at: Instant::now() }
    }

    /// Reports the result of a step that ends now.
    fn end(
        &self,
        start: &StepStart,
        label: &str,
        outcome: Option<Outcome>,
        stats: impl FnOnce() -> Result<StoreStats>,
    ) -> Result<()> {
        let seconds = start.at.elapsed().as_secs_f64();
        self.peaks.note();
        let after = Usage::now().unwrap_or_default();
        let clear = if io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
        let rate = outcome
            .as_ref()
            .map_or(String::new(), |o| format!(", {:.0} operations a second", o.ops_per_second));
        eprintln!("{clear}{:>8} {label}: {seconds:.3} s{rate}", self.order.engine);
        let result = StepResult {
            label: label.to_owned(),
            seconds,
            cpu_seconds: after.cpu_ticks.saturating_sub(start.usage.cpu_ticks) as f64 / TICKS,
            outcome,
            peak_rss_anon: self.peaks.anon.load(Ordering::Relaxed),
            peak_rss_file: self.peaks.file.load(Ordering::Relaxed),
            device_written: after.written.saturating_sub(start.usage.written),
            device_read: after.read.saturating_sub(start.usage.read),
            disk_bytes: stats()?.disk_bytes,
        };
        self.report(&Ok(result))
    }

    /// Reports that the next step failed.
    fn fail(&self, error: &Error, ends_stage: bool) -> Result<()> {
        let Some(step) = self.order.steps.get(self.reported.get()) else {
            return Err(error.to_string().into());
        };
        let (label, reason) = (step.label.clone(), error.to_string());
        eprintln!("{:>8} {label}: failed: {reason}", self.order.engine);
        self.report(&Err(Failure { label, reason, ends_stage }))
    }

    fn report(&self, report: &StepReport) -> Result<()> {
        self.reported.set(self.reported.get() + 1);
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(report)?)?;
        Ok(out.flush()?)
    }
}

/// Runs the steps while the store is open.
struct OpenStore<'a> {
    life: &'a StageLife<'a>,
    opening: StepStart,
}

impl Visitor for OpenStore<'_> {
    /// The row of the store's close and its start, if it is a step.
    type Out = Option<(String, StepStart)>;

    fn visit<S: Store>(self, store: &S) -> Result<Self::Out> {
        let OpenStore { life, opening } = self;
        let mut steps = life.order.steps.iter().peekable();
        if let Some(first) = steps.next_if(|first| first.step.opens()) {
            life.end(&opening, &first.label, None, || store.stats())?;
        }
        let runner = Runner::new(life.order.config.clone())?;
        for Labelled { label, step } in steps {
            let start = life.begin();
            let mut outcome = None;
            match step {
                Step::Run(phase) => match runner.run(store, phase, |p| life.tell(label, p)) {
                    Err(e) if phase.mix.only_reads() => {
                        life.fail(&e, false)?;
                        continue;
                    }
                    done => outcome = Some(done?),
                },
                Step::Flush => store.flush()?,
                Step::Compact => store.compact()?,
                Step::Wait => wait_until_idle(),
                Step::Close => return Ok(Some((label.clone(), start))),
                Step::Reopen | Step::Crash => return Err("a store is opened twice".into()),
            }
            life.end(&start, label, outcome, || store.stats())?;
        }
        if life.order.killed {
            io::stdin().read_to_end(&mut Vec::new())?;
            return Err("this process was not killed".into());
        }
        Ok(None)
    }
}

/// Reads an order from standard input and executes it.
pub fn main() -> Result<()> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    let peaks = Peaks::default();
    thread::scope(|scope| {
        scope.spawn(|| peaks.watch());
        let _end = EndOfWatch(&peaks);
        let life = StageLife { order: &order, peaks: &peaks, reported: Cell::new(0) };
        let visitor = OpenStore { life: &life, opening: life.begin() };
        match order.engine.visit(&order.dir, &order.settings, visitor) {
            Ok(None) => Ok(()),
            Ok(Some((label, start))) => {
                life.end(&start, &label, None, || Ok(StoreStats::default()))
            }
            Err(e) => life.fail(&e, true),
        }
    })
}
