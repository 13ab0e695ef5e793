//! Windows of time.
//!
//! - *Trigger*: in the open window as size-tiered; a window that has closed is merged once.
//! - *Layout*: several runs in the open window, one in each closed one.
//! - *Granularity*: whole runs of one window.
//! - *Movement*: never across windows, not even for the sake of an old delete. A closed window of
//!   one flushed run moves to level 1. What has expired is for the `Purge` hook, and goes by whole
//!   tables.
//! - *Space*: no bound. A key that is written again in a later window keeps both copies; written
//!   once it is 1.
//!
//! A run belongs to the window in which the newest of its data were flushed, or to that of an older
//! run if that is later, so that windows follow the order of the runs even when a clock was set
//! back.

use std::ops::Range;

use super::tiered;
use crate::compaction::describe::policy;
use crate::compaction::shape::{CompactionJob, CompactionReason};
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

    /// Whether two runs lie in different windows.
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

/// Largest size over average size of what is merged in the open window.
const BUCKET: f64 = 2.0;

/// The windows, newest first: whether it is open, and its runs.
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
            jobs.extend(tiered::crowded(view, runs, min));
        } else if runs.len() == 1
            && view.run(runs.start).level == 0
            && view.below(runs.start).level > 0
        {
            // Out of the way first, as it costs nothing: what is above it can then be written as
            // merged data are.
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

/// One run for each closed window, and for each open one as many as are too many in it.
fn slowdown_run_count(view: &PickContext<'_>, secs: u64, min: usize) -> usize {
    windows(view, secs)
        .into_iter()
        .map(|(open, runs)| if open { tiered::slowdown_run_count(view, runs, min) } else { 1 })
        .sum::<usize>()
        + 1
}
