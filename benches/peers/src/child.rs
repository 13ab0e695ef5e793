//! One engine through one stage, in a process of its own: its memory figures and its allocator's
//! state are nobody else's. Each opening of the store in a stage begins another process.
//!
//! The order comes as a line of JSON on standard input, each step's result leaves as a line of JSON
//! on standard output, progress on standard error. A child that is to be killed keeps its store
//! open until it is, or until its standard input ends because whoever ordered it is gone.

use firn_workload::{
    Config, Outcome, Result, RunProgress, Runner, Store, StoreStats, process::Usage,
};
use serde::{Deserialize, Serialize};
use std::env;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::engines::{Engine, Settings, Visitor};
use crate::plan::{Labelled, Step};

/// What a child is to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// Through which engine.
    pub engine: Engine,
    /// In which folder: an empty one, or one whose store the first step opens again.
    pub dir: PathBuf,
    /// How it is opened.
    pub settings: Settings,
    /// The workloads' parameters.
    pub config: Config,
    /// The steps.
    pub steps: Vec<Labelled>,
    /// Whether the child is killed when the steps are done.
    pub killed: bool,
}

impl Order {
    /// Carries it out in a new process.
    ///
    /// # Errors
    /// The process ended before it had told of all its steps, or otherwise than it should.
    pub fn carry_out(&self) -> Result<Vec<StepResult>> {
        let mut child = Command::new(env::current_exe()?)
            .arg("child")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().ok_or("the child has no standard input")?;
        let output = child.stdout.take().ok_or("the child has no standard output")?;
        writeln!(input, "{}", serde_json::to_string(self)?)?;
        let mut results: Vec<StepResult> = Vec::new();
        for line in BufReader::new(output).lines() {
            results.push(serde_json::from_str(&line?)?);
            if self.killed && results.len() == self.steps.len() {
                child.kill()?;
            }
        }
        let status = child.wait()?;
        if results.len() != self.steps.len() || status.success() == self.killed {
            return Err(format!(
                "{} ended with {status} after {} of {} steps",
                self.engine,
                results.len(),
                self.steps.len()
            )
            .into());
        }
        Ok(results)
    }
}

/// What came of one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepResult {
    /// Name of the row.
    pub label: String,
    /// Wall-clock time of the step.
    pub seconds: f64,
    /// What the workload measured; `None` for other steps.
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

/// Highest memory since the last look.
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

/// Ends the watch, also when a driver panics.
struct EndOfWatch<'a>(&'a Peaks);

impl Drop for EndOfWatch<'_> {
    fn drop(&mut self) {
        self.0.end.store(true, Ordering::Relaxed);
    }
}

/// Waits until the process has used next to no time for a while: whatever an engine does in the
/// background is done.
fn wait_until_idle() {
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    const QUIET_LOOKS: u32 = 5;
    let mut quiet = 0;
    let mut before = Usage::now().map_or(0, |u| u.cpu_ticks);
    while quiet < QUIET_LOOKS {
        thread::sleep(LOOK_EVERY);
        let now = Usage::now().map_or(0, |u| u.cpu_ticks);
        // A tick is a hundredth of a second: one in a tenth of a second may be a thread that wakes
        // up to look around.
        quiet = if now.saturating_sub(before) <= 1 { quiet + 1 } else { 0 };
        before = now;
    }
}

/// What was so when a step began.
struct StepStart {
    usage: Usage,
    at: Instant,
}

/// One process's part of a stage.
struct StageLife<'a> {
    order: &'a Order,
    peaks: &'a Peaks,
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

    /// Hands out what came of a step that ends now.
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
            outcome,
            peak_rss_anon: self.peaks.anon.load(Ordering::Relaxed),
            peak_rss_file: self.peaks.file.load(Ordering::Relaxed),
            device_written: after.written.saturating_sub(start.usage.written),
            device_read: after.read.saturating_sub(start.usage.read),
            disk_bytes: stats()?.disk_bytes,
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&result)?)?;
        Ok(out.flush()?)
    }
}

/// The steps that are done while the store is open.
struct OpenStore<'a> {
    life: &'a StageLife<'a>,
    opening: StepStart,
}

impl Visitor for OpenStore<'_> {
    /// The row of the store's closing and its start, if it is a step.
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
                Step::Run(phase) => {
                    outcome = Some(runner.run(store, phase, |p| life.tell(label, p))?)
                }
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
            return Err("nobody killed this process".into());
        }
        Ok(None)
    }
}

/// Takes an order from standard input and carries it out.
pub fn main() -> Result<()> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    let peaks = Peaks::default();
    thread::scope(|scope| {
        scope.spawn(|| peaks.watch());
        let _end = EndOfWatch(&peaks);
        let life = StageLife { order: &order, peaks: &peaks };
        let visitor = OpenStore { life: &life, opening: life.begin() };
        let closing = order.engine.visit(&order.dir, &order.settings, visitor)?;
        closing.map_or(Ok(()), |(label, start)| {
            life.end(&start, &label, None, || Ok(StoreStats::default()))
        })
    })
}
