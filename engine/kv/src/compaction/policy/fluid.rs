//! Fluid compaction: configurable maximum numbers of runs on the last level and on the levels above
//! it. They range from leveling (1 and 1) over lazy leveling (`ratio` − 1 and 1) to tiering
//! (`ratio` − 1 and `ratio` − 1). After Dostoevsky (SIGMOD 2018, section 4.2), which calls these
//! two numbers K and Z.
//!
//! - *Trigger*: more than `inner_runs` runs on a level, or more than `last_runs` on the last. A
//!   last run that exceeds its level (a memtable × `ratio`^(level + 1)). Newer runs that together
//!   are larger than the last level allows, and larger than the memtables that level 0 may hold
//!   anyway.
//! - *Layout*: several runs on each level. The last level is the deepest one with a run, and at
//!   least 1.
//! - *Granularity*: all runs of a level.
//! - *Movement*: into the newest run of the next level if that has room, which is its share of the
//!   level; otherwise into a new run there. A run that exceeds its level moves down without being
//!   rewritten. Nothing else makes a last level of one run deeper. If the last run moved down with
//!   each merge, more and more levels of several runs would accumulate above it.
//! - *Space*: 1 + 2 / `ratio` if the last level is one run, because newer runs are at most 2 /
//!   `ratio` of it. Otherwise 1 + `last_runs`, as tiered.

use crate::compaction::describe::{PolicyError, policy};
use crate::compaction::job::{CompactionJob, CompactionReason};
use crate::compaction::shape::{MAX_LEVEL, ShapePlace};
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::{MAX_FAN, PickContext, space_job};

policy! {
    /// As many runs on the last level as is said, and on each level above it: from leveling over
    /// lazy leveling to tiering.
    Fluid = "fluid" {
        /// The size of a level over the one above.
        ratio: u32 = 4, number(2, 64);
        /// Most runs of a level above the last, less than `ratio`.
        inner_runs: u32 = 3, number(1, 63);
        /// Most runs of the last level, less than `ratio`.
        last_runs: u32 = 1, number(1, 63);
    }
}

impl Strategy for Fluid {
    fn check(&self) -> Result<(), PolicyError> {
        let most = self.inner_runs.max(self.last_runs);
        if most < self.ratio {
            return Ok(());
        }
        Err(PolicyError(format!(
            "the policy fluid: a level has {most} runs; they must be less than the ratio, {}",
            self.ratio
        )))
    }

    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob> {
        let mut jobs = Vec::new();
        let last = last_level(view);
        for (level, runs) in view.levels() {
            if view.any_busy(runs.clone()) {
                continue;
            }
            if runs.len() > self.most(level == last) {
                jobs.extend(self.full(view, level, runs, last));
            } else if level == last && last < MAX_LEVEL && runs.len() == 1 {
                let (size, room) = (view.size_of(runs.clone()), self.capacity(view, last));
                if size > room {
                    jobs.push(grow(view, runs.start, size as f64 / room.max(1) as f64));
                }
            }
        }
        let stays = |oldest: usize| {
            let place = view.run(oldest).place();
            if oldest + 1 == view.len() && place.level > 0 { place } else { view.below(oldest) }
        };
        jobs.extend(space_job(view, self.allowed(view), MAX_FAN, stays));
        jobs
    }

    /// Returns the sum of the maximum runs of all levels, plus the number of runs that start a
    /// merge. A tree with more runs has a full level.
    fn slowdown_run_count(&self, view: &PickContext<'_>) -> Option<usize> {
        let (inner, last) = (self.most(false), self.most(true));
        Some(inner * usize::from(last_level(view)) + last + inner.max(last) + 1)
    }

    fn space(&self, _: u64, flushed: u64) -> SpaceBound {
        SpaceBound::of_merges(1.0 + self.newer(), flushed)
    }
}

impl Fluid {
    /// Returns the maximum number of runs of a level.
    fn most(&self, is_last: bool) -> usize {
        if is_last { self.last_runs as usize } else { self.inner_runs as usize }
    }

    /// Returns the capacity of a level in bytes.
    fn capacity(&self, view: &PickContext<'_>, level: u8) -> u64 {
        view.shape
            .memtable_size
            .max(1)
            .saturating_mul(u64::from(self.ratio).saturating_pow(u32::from(level) + 1))
    }

    /// Returns the maximum size of newer runs divided by the size of the oldest run.
    fn newer(&self) -> f64 {
        if self.last_runs > 1 {
            f64::from(self.last_runs)
        } else {
            2.0 / f64::from(self.ratio.max(2))
        }
    }

    /// Returns the maximum total bytes of the runs newer than the oldest.
    fn allowed(&self, view: &PickContext<'_>) -> f64 {
        let flushed = view.shape.memtable_size.saturating_mul(u64::from(self.ratio)) as f64;
        (self.newer() * view.oldest_weight()).max(flushed)
    }

    /// Returns the merge of a level that has too many runs.
    fn full(
        &self,
        view: &PickContext<'_>,
        level: u8,
        runs: std::ops::Range<usize>,
        last: u8,
    ) -> Option<CompactionJob> {
        let (most, reason) = if level == last {
            (self.most(true), CompactionReason::OneRun)
        } else {
            (self.most(false), CompactionReason::LevelRuns)
        };
        let score = runs.len() as f64 / (most + 1) as f64 * (1.0 + view.density(runs.clone()));
        let end = if level + 1 == last && self.last_runs == 1 {
            view.len()
        } else if level < last && self.has_room(view, runs.clone(), level + 1, last) {
            runs.end + 1
        } else {
            runs.end
        };
        let start = runs.start.max(end.saturating_sub(MAX_FAN));
        if view.any_busy(start..end) {
            return None;
        }
        let oldest = view.run(end - 1);
        // The last level stays in place until it exceeds its capacity; a single run then moves
        // down.
        let stays = oldest.level == last
            && level + 1 >= last
            && (end > runs.end
                || self.last_runs == 1
                || view.size_of(start..end) <= self.capacity(view, last) / 2);
        let joins = oldest.level > level;
        let output = if stays || joins { oldest.place() } else { view.below(end - 1) };
        Some(view.whole(start..=end - 1, output, reason, score))
    }

    /// Reports whether the newest run of the next level has room for these runs: together they are
    /// at most its share of the level. If a level has as many runs as the ratio allows, each run is
    /// one merge.
    fn has_room(
        &self,
        view: &PickContext<'_>,
        runs: std::ops::Range<usize>,
        next: u8,
        last: u8,
    ) -> bool {
        let most = self.most(next == last);
        let is_there = view.shape.runs.get(runs.end).is_some_and(|run| run.level == next);
        is_there
            && most + 1 < self.ratio as usize
            && view.size_of(runs.start..runs.end + 1) <= self.capacity(view, next) / most as u64
    }
}

fn last_level(view: &PickContext<'_>) -> u8 {
    view.shape.runs.last().map_or(1, |r| r.level.max(1))
}

fn grow(view: &PickContext<'_>, r: usize, score: f64) -> CompactionJob {
    let ShapePlace { level, number } = view.run(r).place();
    view.moved(r, ShapePlace { level: level + 1, number }, CompactionReason::LevelSize, score)
}
