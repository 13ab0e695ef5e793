//! Leveled compaction below a size-tiered level 0, for flushes that are small relative to level 1.
//!
//! - *Trigger*: on level 0 `min_runs` runs of similar size, or more runs than tiered allows. When
//!   level 0 has grown to `base`, the target of level 1, all of it moves down. Further down as
//!   leveled.
//! - *Layout*: level 0 has several runs, every other level one.
//! - *Granularity*: whole runs within level 0, and all of level 0 when it moves down. Further down
//!   one table with its overlap.
//! - *Movement*: within level 0 into the position of the oldest input run, so no data leaves level
//!   0. Then as leveled, by least overlap.
//! - *Space*: that of leveled, and `base` bytes for level 0, for any data.
//!
//! Under leveled, every few flushes are merged with all of level 1. If a flush is a sixteenth of
//! level 1, each byte is written there five times. Here a flush is merged a few times with runs of
//! its size. It then meets level 1 only together with as many bytes. The price is more runs for a
//! read. Similar: Cassandra's leveled strategy when level 0 falls behind, and RocksDB's intra-L0
//! compaction.

use std::ops::Range;

use super::leveled::Leveled;
use super::tiered;
use crate::compaction::describe::policy;
use crate::compaction::job::CompactionJob;
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::{MAX_FAN, PickContext};

/// Maximum size divided by average size of the runs merged within level 0.
const BUCKET: f64 = 3.0;

policy! {
    /// Leveled below a size-tiered level 0, which goes down when it is as large as level 1: for
    /// flushes that are small beside that.
    TieredLeveled = "tiered-leveled" {
        /// Size of a level over the one above.
        ratio: u32 = 10, number(2, 64);
        /// Fewest runs merged at once on level 0.
        min_runs: u32 = 3, number(2, 64);
        /// Size of level 1, and of level 0 when it goes down, of table files.
        base: u64 = 256 << 20, bytes(64 << 10, 1 << 50);
    }
}

impl TieredLeveled {
    /// Returns the policy for the levels below 0, which also moves all of level 0 down if it is
    /// full.
    fn below(&self, is_full: bool) -> Leveled {
        let level0_runs = if is_full { 1 } else { u32::MAX };
        Leveled { ratio: self.ratio, level0_runs, base: self.base, ..Leveled::default() }
    }

    fn is_full(&self, view: &PickContext<'_>) -> bool {
        view.size_of(level0(view)) >= self.base
    }
}

fn level0(view: &PickContext<'_>) -> Range<usize> {
    0..view.shape.runs.partition_point(|run| run.level == 0)
}

/// Changes the job so that its output stays in level 0.
fn within(mut job: CompactionJob) -> CompactionJob {
    job.output_level = 0;
    job.output_run = job.inputs.last().map_or(job.output_run, |oldest| oldest.run);
    job
}

impl Strategy for TieredLeveled {
    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob> {
        let (is_full, runs, min) = (self.is_full(view), level0(view), self.min_runs as usize);
        let mut jobs = self.below(is_full).candidate_jobs(view);
        // When level 0 is full, no merge starts within it: it could not move down while one runs.
        if !is_full {
            jobs.extend(
                tiered::similar(view, runs.clone(), min, MAX_FAN, BUCKET).into_iter().map(within),
            );
            jobs.extend(tiered::slowdown_jobs(view, runs, min).map(within));
        }
        jobs
    }

    /// Returns the tiered limit for level 0, plus one run for each further level.
    fn slowdown_run_count(&self, view: &PickContext<'_>) -> Option<usize> {
        let further = view.levels().iter().filter(|(level, _)| *level > 0).count();
        Some(tiered::slowdown_run_count(view, level0(view), self.min_runs as usize) + further)
    }

    fn single_run_levels(&self) -> bool {
        true
    }

    fn space(&self, memtable: u64, flushed: u64) -> SpaceBound {
        self.below(false).space(memtable, flushed.saturating_add(self.base))
    }

    fn pending_bytes(&self, view: &PickContext<'_>) -> Option<u64> {
        self.below(self.is_full(view)).pending_bytes(view)
    }
}
