//! Size-tiered.
//!
//! - *Trigger*: `min_runs` neighbouring runs of similar size; more runs than `slowdown_run_count`; newer runs
//!   together larger than `min_runs` times the oldest.
//! - *Layout*: every level has several runs. The level of a run says how often its data were
//!   merged, nothing more.
//! - *Granularity*: whole runs, at most `max_runs` alike.
//! - *Movement*: the fullest bucket, the newest of those. A run that is smaller than the bucket's
//!   and lies between its members goes along, because only neighbours in age may be merged.
//! - *Space*: 1 + `min_runs`, as newer runs are at most `min_runs` × the oldest, or all is merged;
//!   a full merge writes one copy.
//!
//! Sizes are alike when each lies within a factor `bucket` of the average of the older members; a
//! run smaller than a memtable counts as a memtable.

use std::cmp::Ordering;
use std::ops::{Range, RangeInclusive};

use crate::compaction::describe::{PolicyError, policy};
use crate::compaction::shape::{CompactionJob, CompactionReason};
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::{PickContext, bucket, crowd_job, magnitude, space_job};

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

/// Whether a policy of this name may merge at least so many runs at once, and at most so many.
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
    jobs.extend(crowded(view, 0..view.len(), min));
    jobs.extend(space_job(view, min as f64 * view.oldest_weight(), max, |oldest| {
        view.below(oldest)
    }));
    jobs
}

/// The most urgent bucket of similar sizes in `runs`, of equally urgent ones the newest. Nothing in
/// it is busy, so no other is asked for; where hundreds of runs wait, to make jobs of all their
/// buckets would take longer than all else.
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

/// The number of runs that is too many: `min_runs` for each power of `min_runs` between a memtable
/// and the whole, and once more.
pub(super) fn slowdown_run_count(view: &PickContext<'_>, runs: Range<usize>, min: usize) -> usize {
    min * (magnitude(view.size_of(runs) / view.shape.memtable_size.max(1), min as u64) + 1)
}

/// The merge that is made because `runs` are too many.
pub(super) fn crowded(
    view: &PickContext<'_>,
    runs: Range<usize>,
    min: usize,
) -> Option<CompactionJob> {
    let limit = slowdown_run_count(view, runs.clone(), min);
    crowd_job(view, runs, limit, min)
}
