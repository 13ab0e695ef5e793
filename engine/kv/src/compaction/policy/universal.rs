//! Universal compaction, after RocksDB's compaction of that name.
//!
//! - *Trigger*: at least `runs` runs. It merges neighbours of which each next older one is at most
//!   `slack` percent larger than the newer ones together. Without such neighbours it merges to
//!   reduce the number of runs. Also: newer runs together larger than `space` percent of the
//!   oldest.
//! - *Layout*: fewer than `runs` runs. The level of a run shows how often its data was merged.
//! - *Granularity*: whole runs.
//! - *Movement*: the neighbours by size, else the cheapest merge that brings the number of runs
//!   below its bound; for space all runs.
//! - *Space*: 1 + `space` / 100, because otherwise all runs are merged. A full merge writes one
//!   copy.

use std::ops::RangeInclusive;

use crate::compaction::describe::policy;
use crate::compaction::job::{CompactionJob, CompactionReason};
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::{MAX_FAN, PickContext, most_urgent, slowdown_job, space_job};

policy! {
    /// RocksDB's universal compaction: a bounded number of runs and of space, as few merges as
    /// that takes.
    Universal = "universal" {
        /// Runs that start a merge.
        runs: u32 = 4, number(2, 64);
        /// Percent that an older run may be larger than the newer ones that it is merged with.
        slack: u32 = 1, number(0, 100);
        /// Percent of the oldest run that the newer ones may take together.
        space: u32 = 200, number(1, 10000);
    }
}

impl Strategy for Universal {
    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob> {
        let (n, most) = (view.len(), self.runs as usize);
        let mut jobs = Vec::new();
        if n >= most {
            let similar = (0..n).filter_map(|newest| self.similar(view, newest)).collect();
            jobs = most_urgent(view, similar, CompactionReason::SimilarSizes);
            if jobs.is_empty() {
                jobs.extend(slowdown_job(view, 0..n, most, n - most + 2));
            }
        }
        let newer = f64::from(self.space) / 100.0 * view.oldest_weight();
        jobs.extend(space_job(view, newer, MAX_FAN, |oldest| view.below(oldest)));
        jobs
    }

    /// Returns twice the number of runs that starts a merge.
    fn slowdown_run_count(&self, _: &PickContext<'_>) -> Option<usize> {
        Some(self.runs as usize * 2)
    }

    fn space(&self, _: u64, flushed: u64) -> SpaceBound {
        SpaceBound::of_merges(1.0 + f64::from(self.space) / 100.0, flushed)
    }
}

impl Universal {
    /// Returns the merge that begins with run `newest` and takes each next older one that is not
    /// too large.
    fn similar(
        &self,
        view: &PickContext<'_>,
        newest: usize,
    ) -> Option<(RangeInclusive<usize>, f64)> {
        if view.is_busy(newest) {
            return None;
        }
        let (mut end, mut sum) = (newest + 1, view.weight(newest));
        while end < view.len() && end - newest < MAX_FAN && !view.is_busy(end) {
            let size = u128::from(view.weight(end)) * 100;
            if size > u128::from(sum) * u128::from(100 + self.slack) {
                break;
            }
            sum = sum.saturating_add(view.weight(end));
            end += 1;
        }
        let score =
            view.len() as f64 / f64::from(self.runs.max(1)) * (1.0 + view.density(newest..end));
        (end - newest > 1).then_some((newest..=end - 1, score))
    }
}
