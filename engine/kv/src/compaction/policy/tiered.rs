//! Size-tiered compaction.
//!
//! - *Trigger*: `min_runs` neighbouring runs of similar size; more runs than `slowdown_run_count`;
//!   newer runs together larger than `min_runs` times the oldest.
//! - *Layout*: every level has several runs. The level of a run only shows how often its data was
//!   merged.
//! - *Granularity*: whole runs, at most `max_runs` of similar size.
//! - *Movement*: the fullest bucket, of equal ones the newest. A smaller run between members of the
//!   bucket is included, because only neighbours in age may be merged.
//! - *Space*: 1 + `min_runs`, because newer runs are at most `min_runs` × the oldest, or all are
//!   merged. A full merge writes one copy.
//!
//! Sizes are similar if each is within a factor `bucket` of the average of the older members. A run
//! smaller than a memtable counts as a memtable.

use std::cmp::Ordering;
use std::ops::{Range, RangeInclusive};

use crate::compaction::describe::{PolicyError, policy};
use crate::compaction::job::{CompactionJob, CompactionReason};
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::{PickContext, bucket, magnitude, slowdown_job, space_job};

policy! {
    /// Size-tiered (the default): when `min_runs` neighbouring runs are of similar size (within a
    /// factor of `bucket`), they become one.
    Tiered = "tiered" {
        /// Fewest runs merged at once.
        min_runs: u32 = 3, number(2, 64);
        /// Most runs merged at once, at least `min_runs`.
        max_runs: u32 = 32, number(2, 64);
        /// Largest size over average size of one bucket.
        bucket: f64 = 3.0, factor(1.1, 10.0);
    }
}

/// Checks that `max_runs` is at least `min_runs`, for the policy `name`.
pub(super) fn check_runs(name: &str, min_runs: u32, max_runs: u32) -> Result<(), PolicyError> {
    if max_runs >= min_runs {
        return Ok(());
    }
    Err(PolicyError(format!(
        "the policy {name}: max_runs is {max_runs}; it must be at least min_runs, {min_runs}"
    )))
}

impl Strategy for Tiered {
    fn check(&self) -> Result<(), PolicyError> {
        check_runs("tiered", self.min_runs, self.max_runs)
    }

    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob> {
        candidate_jobs(view, self.min_runs as usize, self.max_runs as usize, self.bucket)
    }

    fn slowdown_run_count(&self, view: &PickContext<'_>) -> Option<usize> {
        Some(slowdown_run_count(view, 0..view.len(), self.min_runs as usize))
    }

    fn space(&self, _: u64, flushed: u64) -> SpaceBound {
        SpaceBound::of_merges(1.0 + f64::from(self.min_runs), flushed)
    }
}

fn candidate_jobs(
    view: &PickContext<'_>,
    min: usize,
    max: usize,
    factor: f64,
) -> Vec<CompactionJob> {
    let mut jobs = Vec::from_iter(similar(view, 0..view.len(), min, max, factor));
    jobs.extend(slowdown_jobs(view, 0..view.len(), min));
    jobs.extend(space_job(view, min as f64 * view.oldest_weight(), max, |oldest| {
        view.below(oldest)
    }));
    jobs
}

/// Returns the most urgent bucket of similar sizes in `runs`; of equally urgent ones the newest.
/// Nothing in it is busy, so no other candidate is needed. With hundreds of waiting runs, building
/// jobs for all buckets would dominate the cost.
pub(super) fn similar(
    view: &PickContext<'_>,
    runs: Range<usize>,
    min: usize,
    max: usize,
    factor: f64,
) -> Option<CompactionJob> {
    let mut best: Option<(f64, RangeInclusive<usize>)> = None;
    for oldest in runs.clone().filter(|&r| !view.is_busy(r)) {
        let (newest, members) = bucket(view, runs.start, oldest, max, |r, average| {
            alike(view.weight(r) as f64, average, factor)
        });
        if members >= min {
            let score = members as f64 / min as f64 * (1.0 + view.density(newest..oldest + 1));
            if best.as_ref().is_none_or(|(most, _)| score > *most) {
                best = Some((score, newest..=oldest));
            }
        }
    }
    let (score, bucket) = best?;
    let output = view.below(*bucket.end());
    Some(view.whole(bucket, output, CompactionReason::SimilarSizes, score))
}

fn alike(size: f64, average: f64, factor: f64) -> Ordering {
    if size > average * factor {
        Ordering::Greater
    } else if size * factor < average {
        Ordering::Less
    } else {
        Ordering::Equal
    }
}

/// Returns the number of runs that slows writers: `min_runs` for each power of `min_runs` between a
/// memtable and the total size, and once more.
pub(super) fn slowdown_run_count(view: &PickContext<'_>, runs: Range<usize>, min: usize) -> usize {
    min * (magnitude(view.size_of(runs) / view.shape.memtable_size.max(1), min as u64) + 1)
}

/// Returns the merge for too many runs.
pub(super) fn slowdown_jobs(
    view: &PickContext<'_>,
    runs: Range<usize>,
    min: usize,
) -> Option<CompactionJob> {
    let limit = slowdown_run_count(view, runs.clone(), min);
    slowdown_job(view, runs, limit, min)
}
