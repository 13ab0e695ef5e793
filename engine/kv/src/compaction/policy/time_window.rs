//! Time-window compaction.
//!
//! - *Trigger*: in the open window as size-tiered; a window that has closed is merged once.
//! - *Layout*: several runs in the open window, one in each closed one.
//! - *Granularity*: whole runs of one window.
//! - *Movement*: never across windows, not even for an old tombstone. A closed window of one
//!   flushed run moves to level 1. Expired data is left to the compaction filter, and is dropped by
//!   whole tables.
//! - *Space*: no bound. A key that is written again in a later window retains both copies. If each
//!   key is written once, it is 1.
//!
//! A run belongs to the window in which its newest data was flushed, or to that of an older run if
//! that is later. So windows follow the order of runs even after a clock was set back.

use std::ops::Range;

use super::tiered;
use crate::compaction::describe::policy;
use crate::compaction::job::{CompactionJob, CompactionReason};
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::{MAX_FAN, PickContext};

policy! {
    /// Runs are merged only inside windows of time; whole old windows are left alone.
    TimeWindow = "time-window" {
        /// Width of a window in seconds.
        window_secs: u64 = 3600, seconds(1, 1 << 40);
        /// Runs of the newest window merged at once.
        min_runs: u32 = 4, number(2, 64);
    }
}

impl Strategy for TimeWindow {
    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob> {
        candidate_jobs(view, self.window_secs, self.min_runs as usize)
    }

    fn slowdown_run_count(&self, view: &PickContext<'_>) -> Option<usize> {
        Some(slowdown_run_count(view, self.window_secs, self.min_runs as usize))
    }

    fn space(&self, _: u64, flushed: u64) -> SpaceBound {
        SpaceBound::of_merges(f64::INFINITY, flushed)
    }

    /// Reports whether two runs are in different windows.
    fn is_barrier(&self, view: &PickContext<'_>) -> Box<dyn Fn(usize, usize) -> bool> {
        let windows = windows(view, self.window_secs);
        Box::new(move |a, b| {
            !windows.iter().any(|(_, runs)| runs.contains(&a) && runs.contains(&b))
        })
    }

    fn ages(&self) -> bool {
        true
    }

    fn expires(&self) -> bool {
        true
    }
}

/// Maximum size divided by average size of the runs merged in the open window.
const BUCKET: f64 = 2.0;

/// Returns the windows, newest first: whether each is open, and its runs.
fn windows(view: &PickContext<'_>, secs: u64) -> Vec<(bool, Range<usize>)> {
    let width = secs.saturating_mul(1_000_000).max(1);
    let now = view.shape.now_micros / width;
    let mut windows: Vec<(u64, Range<usize>)> = Vec::new();
    for (r, run) in view.shape.runs.iter().enumerate().rev() {
        let own = run.tables.iter().map(|t| t.newest_micros).max().unwrap_or(0) / width;
        match windows.last_mut() {
            Some((window, runs)) if own <= *window => runs.start = r,
            _ => windows.push((own, r..r + 1)),
        }
    }
    windows.into_iter().rev().map(|(window, runs)| (window >= now, runs)).collect()
}

fn candidate_jobs(view: &PickContext<'_>, secs: u64, min: usize) -> Vec<CompactionJob> {
    let mut jobs = Vec::new();
    for (open, runs) in windows(view, secs) {
        if open {
            jobs.extend(tiered::similar(view, runs.clone(), min, MAX_FAN, BUCKET));
            jobs.extend(tiered::slowdown_jobs(view, runs, min));
        } else if runs.len() == 1
            && view.run(runs.start).level == 0
            && view.below(runs.start).level > 0
        {
            // Move it first, because that is free. Runs above it can then be written below level 0.
            let below = view.below(runs.start);
            jobs.push(view.moved(runs.start, below, CompactionReason::WindowClosed, 2.0));
        } else if runs.len() > 1 && !view.any_busy(runs.clone()) {
            let score = 1.0 + (runs.len() - 1) as f64 / min as f64;
            let runs = runs.start.max(runs.end.saturating_sub(MAX_FAN))..runs.end;
            jobs.push(view.whole(
                runs.start..=runs.end - 1,
                view.below(runs.end - 1),
                CompactionReason::WindowClosed,
                score,
            ));
        }
    }
    jobs
}

/// Returns one run for each closed window, plus for each open one its slowdown limit.
fn slowdown_run_count(view: &PickContext<'_>, secs: u64, min: usize) -> usize {
    windows(view, secs)
        .into_iter()
        .map(|(open, runs)| if open { tiered::slowdown_run_count(view, runs, min) } else { 1 })
        .sum::<usize>()
        + 1
}
