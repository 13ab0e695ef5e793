//! Lazy leveling: tiered, but for the last level, which is one run.
//!
//! - *Trigger*: `ratio` runs on a level; two runs on the last; a last run that has outgrown its
//!   level (a memtable × `ratio`^(level
//!   + 1)); newer runs together larger than 2/`ratio` of the last one, and than the `ratio`
//!     memtables that level 0 may hold anyway.
//! - *Layout*: several runs on every level but the last. The last is the deepest that has a run,
//!   and at least 1.
//! - *Granularity*: all runs of a level.
//! - *Movement*: into a new run of the next level; into the last run where the next level is the
//!   last. A run that has outgrown its level moves down without being rewritten, and nothing else
//!   makes the last level deeper: a last run that sank with each merge would leave more and more
//!   tiered levels above it, until nothing but tiering is left.
//! - *Space*: 1 + 2 / `ratio`, as newer runs are at most 2 / `ratio` of the last one, or what level
//!   0 may hold anyway.

use crate::compaction::describe::policy;
use crate::compaction::shape::{CompactionJob, MAX_LEVEL, Reason, ShapePlace};
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::{MAX_FAN, ShapeView, space_job};

policy! {
    /// Tiered on all levels but the last, which is one run.
    LazyLeveled = "lazy-leveled" {
        /// Runs per level that start a merge, and the size of a level over the one above.
        ratio: u32 = 4, number(2, 64);
    }
}

impl Strategy for LazyLeveled {
    fn wishes(&self, view: &ShapeView<'_>) -> Vec<CompactionJob> {
        wishes(view, self.ratio as usize)
    }

    /// One less than `ratio` runs on each level but the last, one on that, and room for as many as
    /// start a merge. With one more than the first two, some level is full.
    fn crowd(&self, view: &ShapeView<'_>) -> Option<usize> {
        let ratio = self.ratio as usize;
        Some(ratio.saturating_sub(1) * usize::from(last_level(view)) + 1 + ratio)
    }

    fn space(&self, _: u64, flushed: u64) -> SpaceBound {
        SpaceBound::of_merges(1.0 + 2.0 / f64::from(self.ratio.max(2)), flushed)
    }
}

fn wishes(view: &ShapeView<'_>, ratio: usize) -> Vec<CompactionJob> {
    let mut jobs = Vec::new();
    let levels = view.levels();
    let last = last_level(view);
    for (level, runs) in &levels {
        if view.any_busy(runs.clone()) {
            continue;
        }
        let (limit, reason) =
            if *level == last { (2, Reason::OneRun) } else { (ratio, Reason::LevelRuns) };
        if runs.len() >= limit {
            let score = runs.len() as f64 / limit as f64 * (1.0 + view.density(runs.clone()));
            let end = if level + 1 == last { view.len() } else { runs.end };
            let start = runs.start.max(end.saturating_sub(MAX_FAN));
            if view.any_busy(start..end) {
                continue;
            }
            let output =
                if end == view.len() && *level + 1 >= last && view.run(end - 1).level == last {
                    view.run(end - 1).place()
                } else {
                    view.below(end - 1)
                };
            jobs.push(view.whole(start..=end - 1, output, reason, score));
        } else if *level == last
            && last < MAX_LEVEL
            && view.size_of(runs.clone()) > capacity(view, last, ratio)
        {
            jobs.push(grow(
                view,
                runs.start,
                view.size_of(runs.clone()) as f64 / capacity(view, last, ratio).max(1) as f64,
            ));
        }
    }
    let stays = |oldest: usize| {
        let place = view.run(oldest).place();
        if oldest + 1 == view.len() && place.level > 0 { place } else { view.below(oldest) }
    };
    jobs.extend(space_job(view, allowed(view, ratio), MAX_FAN, stays));
    jobs
}

/// Bytes that the runs newer than the last one may have together.
fn allowed(view: &ShapeView<'_>, ratio: usize) -> f64 {
    let flushed = view.shape.memtable_size.saturating_mul(ratio as u64) as f64;
    (2.0 / ratio as f64 * view.oldest_weight()).max(flushed)
}

fn last_level(view: &ShapeView<'_>) -> u8 {
    view.shape.runs.last().map_or(1, |r| r.level.max(1))
}

fn capacity(view: &ShapeView<'_>, level: u8, ratio: usize) -> u64 {
    view.shape
        .memtable_size
        .max(1)
        .saturating_mul((ratio as u64).saturating_pow(u32::from(level) + 1))
}

fn grow(view: &ShapeView<'_>, r: usize, score: f64) -> CompactionJob {
    let ShapePlace { level, number } = view.run(r).place();
    view.moved(r, ShapePlace { level: level + 1, number }, Reason::LevelSize, score)
}
