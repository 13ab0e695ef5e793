//! Size-tiered.
//!
//! - *Trigger*: `min_runs` neighbouring runs of similar size; more runs than `crowd`; newer runs together larger than
//!   `min_runs` times the oldest.
//! - *Layout*: every level has several runs. The level of a run says how often its data were merged, nothing more.
//! - *Granularity*: whole runs, at most `max_runs` alike.
//! - *Movement*: the fullest bucket, the newest of those. A run that is smaller than the bucket's and lies between its members
//!   goes along, because only neighbours in age may be merged.
//!
//! Sizes are alike when each lies within a factor `bucket` of the average of the older members; a run smaller than a memtable
//! counts as a memtable.

use std::cmp::Ordering;
use std::ops::Range;

use super::{View, bucket, crowd_job, magnitude, space_job};
use crate::compaction::shape::{Job, Reason};

pub(super) fn wishes(view: &View<'_>, min: usize, max: usize, factor: f64) -> Vec<Job> {
    let mut jobs = similar(view, 0..view.len(), min, max, factor);
    jobs.extend(crowded(view, 0..view.len(), min));
    jobs.extend(space_job(view, min as f64 * view.oldest_weight(), max, |oldest| view.below(oldest)));
    jobs
}

/// The buckets of similar size in `runs`, newest first.
pub(super) fn similar(view: &View<'_>, runs: Range<usize>, min: usize, max: usize, factor: f64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for oldest in runs.clone().filter(|&r| !view.is_busy(r)) {
        let (newest, members) =
            bucket(view, runs.start, oldest, max, |r, average| alike(view.weight(r) as f64, average, factor));
        if members >= min {
            let score = members as f64 / min as f64 * (1.0 + view.density(newest..oldest + 1));
            jobs.push(view.whole(newest..=oldest, view.below(oldest), Reason::SimilarSizes, score));
        }
    }
    jobs
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

/// The number of runs that is too many: `min_runs` for each power of `min_runs` between a memtable and the whole, and once more.
pub(super) fn crowd(view: &View<'_>, runs: Range<usize>, min: usize) -> usize {
    min * (magnitude(view.size_of(runs) / view.shape.memtable_size.max(1), min as u64) + 1)
}

/// The merge that is made because `runs` are too many.
pub(super) fn crowded(view: &View<'_>, runs: Range<usize>, min: usize) -> Option<Job> {
    let limit = crowd(view, runs.clone(), min);
    crowd_job(view, runs, limit, min)
}
