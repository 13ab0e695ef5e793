//! One engine through one stage, in a process of its own: its memory figures and its allocator's
//! state are nobody else's.
//!
//! The order comes as JSON on standard input, the results leave as JSON on standard output,
//! progress on standard error.

use firn_workload::{Config, Outcome, Result, RunProgress, Runner, Store, process::Usage};
use serde::{Deserialize, Serialize};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
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
    /// In which empty folder.
    pub dir: PathBuf,
    /// How it is opened.
    pub settings: Settings,
    /// The workloads' parameters.
    pub config: Config,
    /// The steps.
    pub steps: Vec<Labelled>,
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

struct Stage<'a>(&'a Order);

impl Stage<'_> {
    fn tell(&self, label: &str, progress: &RunProgress) {
        if io::stderr().is_terminal() {
            eprint!(
                "\r{:>8} {label}: {:.0} %, {:.0} operations a second    ",
                self.0.engine,
                100.0 * progress.ops as f64 / progress.of as f64,
                progress.ops_per_second
            );
        }
    }

    fn step<S: Store>(
        &self,
        store: &S,
        runner: &Runner,
        peaks: &Peaks,
        labelled: &Labelled,
    ) -> Result<StepResult> {
        let before = Usage::now().unwrap_or_default();
        peaks.anon.store(before.rss_anon, Ordering::Relaxed);
        peaks.file.store(before.rss_file, Ordering::Relaxed);
        let start = Instant::now();
        let mut outcome = None;
        match &labelled.step {
            Step::Run(phase) => {
                outcome = Some(runner.run(store, phase, |p| self.tell(&labelled.label, p))?)
            }
            Step::Flush => store.flush()?,
            Step::Compact => store.compact()?,
            Step::Wait => wait_until_idle(),
        }
        let seconds = start.elapsed().as_secs_f64();
        peaks.note();
        let after = Usage::now().unwrap_or_default();
        let clear = if io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
        let rate = outcome
            .as_ref()
            .map_or(String::new(), |o| format!(", {:.0} operations a second", o.ops_per_second));
        eprintln!("{clear}{:>8} {}: {seconds:.2} s{rate}", self.0.engine, labelled.label);
        Ok(StepResult {
            label: labelled.label.clone(),
            seconds,
            outcome,
            peak_rss_anon: peaks.anon.load(Ordering::Relaxed),
            peak_rss_file: peaks.file.load(Ordering::Relaxed),
            device_written: after.written.saturating_sub(before.written),
            device_read: after.read.saturating_sub(before.read),
            disk_bytes: store.stats()?.disk_bytes,
        })
    }
}

impl Visitor for Stage<'_> {
    type Out = Vec<StepResult>;

    fn visit<S: Store>(self, store: &S) -> Result<Vec<StepResult>> {
        let runner = Runner::new(self.0.config.clone())?;
        let peaks = Peaks::default();
        thread::scope(|scope| {
            scope.spawn(|| peaks.watch());
            let _end = EndOfWatch(&peaks);
            self.0.steps.iter().map(|step| self.step(store, &runner, &peaks, step)).collect()
        })
    }
}

/// Takes an order from standard input and carries it out.
pub fn main() -> Result<()> {
    let order: Order = serde_json::from_reader(io::stdin().lock())?;
    let results = order.engine.visit(&order.dir, &order.settings, Stage(&order))?;
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &results)?;
    Ok(out.flush()?)
}
