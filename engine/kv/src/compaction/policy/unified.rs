//! Unified compaction: one scaling parameter `w` per level, tiered above 0, leveled below.
//!
//! - *Trigger*: on level `i`, fan-out `f` = 2 + |w|; `t` = `f` runs when `w` > 0, 2 when `w` ≤ 0.
//!   Also: more runs than `slowdown_run_count`; newer runs together larger than `t` times the
//!   oldest.
//! - *Layout*: the level of a run follows from its size alone: level 0 up to a memtable × `f0`,
//!   each next one `f` times as much. (The level stored with the run only orders it.) So one policy
//!   is tiered at the top and leveled at the bottom, by `scaling`.
//! - *Granularity*: whole runs, split into shards. Their number is `base_shards`, doubled until a
//!   table has about `target_table` bytes, between that / √2 and that × √2. Splits are nested and
//!   do not depend on the run, so tables of different runs line up.
//! - *Movement*: neighbouring runs of one level, with the smaller ones between them.
//! - *Space*: 1 + `t` of the widest level, as tiered.
//!
//! Keys have no tokens here. Shards split the tree's key range evenly by the 8 bytes after the
//! common prefix. A table also ends at twice the target, whatever the distribution of the keys.

use crate::compaction::describe::policy;
use crate::compaction::job::{CompactionJob, CompactionReason, OutputSplits};
use crate::compaction::shape::{self, LsmShape, MAX_LEVEL};
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::{MAX_FAN, PickContext, bucket, most_urgent, slowdown_job, space_job};

policy! {
    /// Cassandra's unified strategy: one scaling parameter w per level (the last one repeats).
    /// Below 0 a level is leveled with fan-out 2 − w, above 0 tiered with 2 + w.
    Unified = "unified" {
        /// Scaling parameters, one per level.
        scaling: Vec<i32> = vec![2], list(-62, 62, 32);
        /// Aim for the size of a table.
        target_table: u64 = 64 << 20, bytes(64 << 10, 1 << 40);
        /// Shards to begin with.
        base_shards: u32 = 4, number(1, 1024);
    }
}

impl Strategy for Unified {
    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob> {
        candidate_jobs(view, &self.scaling)
    }

    fn slowdown_run_count(&self, view: &PickContext<'_>) -> Option<usize> {
        Some(slowdown_run_count(view, &self.scaling))
    }

    fn space(&self, _: u64, flushed: u64) -> SpaceBound {
        let widest = self.scaling.iter().map(|&w| w.max(0).saturating_add(2)).max().unwrap_or(2);
        SpaceBound::of_merges(1.0 + f64::from(widest), flushed)
    }

    fn cuts(&self, shape: &LsmShape, job: &CompactionJob) -> Option<OutputSplits> {
        Some(cuts(shape, job, self.target_table, self.base_shards))
    }
}

/// Returns the fan-out and the trigger of a level.
fn parameters(scaling: &[i32], level: usize) -> (u64, usize) {
    let w = scaling.get(level).or(scaling.last()).copied().unwrap_or(0);
    let fan = u64::from(w.unsigned_abs()) + 2;
    (fan, if w > 0 { fan as usize } else { 2 })
}

/// Returns the level of a run of this size.
fn level_of(size: u64, memtable: u64, scaling: &[i32]) -> usize {
    let mut limit = memtable.max(1);
    for level in 0..usize::from(MAX_LEVEL) {
        limit = limit.saturating_mul(parameters(scaling, level).0);
        if size < limit {
            return level;
        }
    }
    usize::from(MAX_LEVEL)
}

fn candidate_jobs(view: &PickContext<'_>, scaling: &[i32]) -> Vec<CompactionJob> {
    let levels: Vec<usize> =
        view.sizes.iter().map(|&s| level_of(s, view.shape.memtable_size, scaling)).collect();
    let mut buckets = Vec::new();
    for oldest in (0..view.len()).filter(|&r| !view.is_busy(r)) {
        let (_, trigger) = parameters(scaling, levels[oldest]);
        let (newest, members) =
            bucket(view, 0, oldest, MAX_FAN, |r, _| levels[r].cmp(&levels[oldest]));
        if members >= trigger {
            let score = members as f64 / trigger as f64 * (1.0 + view.density(newest..oldest + 1));
            buckets.push((newest..=oldest, score));
        }
    }
    let mut jobs = most_urgent(view, buckets, CompactionReason::LevelRuns);
    let most = widest(view, scaling);
    jobs.extend(slowdown_job(view, 0..view.len(), slowdown_run_count(view, scaling), most));
    jobs.extend(space_job(view, most as f64 * view.oldest_weight(), MAX_FAN, |oldest| {
        view.below(oldest)
    }));
    jobs
}

/// Returns the largest trigger of the levels in use.
fn widest(view: &PickContext<'_>, scaling: &[i32]) -> usize {
    let deepest = level_of(view.size_of(0..view.len()), view.shape.memtable_size, scaling);
    (0..=deepest).map(|level| parameters(scaling, level).1).max().unwrap_or(2)
}

/// Returns the sum of the triggers of all levels in use, plus the largest of them.
fn slowdown_run_count(view: &PickContext<'_>, scaling: &[i32]) -> usize {
    let deepest = level_of(view.size_of(0..view.len()), view.shape.memtable_size, scaling);
    (0..=deepest).map(|level| parameters(scaling, level).1).sum::<usize>() + widest(view, scaling)
}

/// Returns the number of shards of a run of `size` bytes.
fn shards(size: u64, target: u64, base: u32) -> usize {
    let base = base.max(1) as usize;
    let density = size as f64 / (target.max(1) as f64 * base as f64);
    let doublings = density.max(1.0).log2().round() as u32;
    base << doublings.min(16)
}

/// Returns the output splits of a job.
fn cuts(shape: &LsmShape, job: &CompactionJob, target: u64, base: u32) -> OutputSplits {
    let limit = target.saturating_mul(2);
    let at = match (shape::key_span(shape.tables()), job.range(shape)) {
        (Some((lo, hi)), Some((from, to))) => {
            // A job on a part of the tree must split at the same keys as a job on the whole tree.
            // So the size of the run that it writes into counts too.
            let size = shape
                .runs
                .iter()
                .filter(|r| r.place() == job.output())
                .map(|r| r.size())
                .sum::<u64>()
                .max(job.bytes(shape));
            let mut keys = shape::split(lo, hi, shards(size, target, base));
            keys.retain(|k| *k > from && *k <= to);
            keys
        }
        _ => Vec::new(),
    };
    OutputSplits { size: limit, at }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::SQRT_2;

    use super::*;

    #[test]
    fn shards_keep_tables_near_the_target() {
        let target = 1u64 << 30;
        for size in (1..4000u64).map(|i| i << 25) {
            let n = shards(size, target, 4) as u64;
            assert!(n.is_multiple_of(4) && (n / 4).is_power_of_two());
            let table = size as f64 / n as f64;
            assert!(table <= target as f64 * 1.001 * SQRT_2, "{size} in {n}");
            assert!(n == 4 || table >= target as f64 * 0.999 / SQRT_2, "{size} in {n}");
        }
    }

    #[test]
    fn levels_follow_the_fan_out() {
        // w = 2: f = 4; w = -8: f = 10.
        let level = |size| level_of(size, 100, &[2, -8]);
        assert_eq!(
            [level(1), level(399), level(400), level(3999), level(4000), level(39_999)],
            [0, 0, 1, 1, 2, 2]
        );
        assert_eq!(
            (parameters(&[2, -8, 0], 0), parameters(&[2, -8, 0], 1), parameters(&[2, -8, 0], 9)),
            ((4, 4), (10, 2), (2, 2))
        );
    }
}
