//! Windows of time.
//!
//! - *Trigger*: in the open window as size-tiered; a window that has closed is merged once.
//! - *Layout*: several runs in the open window, one in each closed one.
//! - *Granularity*: whole runs of one window.
//! - *Movement*: never across windows. What has expired is for the `Purge` hook and for whole windows to drop.
//!
//! A run belongs to the window in which the newest of its data were flushed, or to that of an older run if that is later, so that
//! windows follow the order of the runs even when a clock was set back.

use std::ops::Range;

use super::{MAX_FAN, View, tiered};
use crate::compaction::shape::{Job, Reason};

/// Largest size over average size of what is merged in the open window.
const BUCKET: f64 = 2.0;

/// The windows, newest first: whether it is open, and its runs.
fn windows(view: &View<'_>, secs: u64) -> Vec<(bool, Range<usize>)> {
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

pub(super) fn wishes(view: &View<'_>, secs: u64, min: usize) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (open, runs) in windows(view, secs) {
        if open {
            jobs.extend(tiered::similar(view, runs.clone(), min, MAX_FAN, BUCKET));
            jobs.extend(tiered::crowded(view, runs, min));
        } else if runs.len() > 1 && !view.any_busy(runs.clone()) {
            let score = 1.0 + (runs.len() - 1) as f64 / min as f64;
            let runs = runs.start.max(runs.end.saturating_sub(MAX_FAN))..runs.end;
            jobs.push(view.whole(runs.start..=runs.end - 1, view.below(runs.end - 1), Reason::WindowClosed, score));
        }
    }
    jobs
}

/// One run for each closed window, and for each open one as many as are too many in it.
pub(super) fn crowd(view: &View<'_>, secs: u64, min: usize) -> usize {
    windows(view, secs).into_iter().map(|(open, runs)| if open { tiered::crowd(view, runs, min) } else { 1 }).sum::<usize>() + 1
}
