//! Leveled compaction with level targets derived from the size of the last level, after RocksDB's
//! dynamic level sizes.
//!
//! - *Trigger*: as leveled, but the target of the last level is its size, and each level above has
//!   the target of the next one / `ratio`. When level 1 would exceed `base`, the last level moves
//!   one deeper.
//! - *Layout*, *granularity*: as leveled.
//! - *Movement*: as leveled; the last run moves to the next level without being rewritten.
//! - *Space*: 1 + 2 / (r − 1), r the ratio. The levels above the last hold 1 / (r − 1) of it
//!   together. A fixed target of level 1 does not guarantee this: a new last level may be as small
//!   as the levels above it. A level may hold as much again while work waits.

use super::leveled::Leveled;
use crate::compaction::describe::policy;
use crate::compaction::job::{CompactionJob, CompactionReason};
use crate::compaction::shape::{MAX_LEVEL, ShapePlace};
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::PickContext;

policy! {
    /// Leveled, with levels sized by what the last one holds: little space for what is obsolete.
    DynamicLeveled = "dynamic-leveled" {
        /// Size of a level over the one above.
        ratio: u32 = 10, number(2, 64);
        /// Flushed runs that start a compaction.
        level0_runs: u32 = 4, number(1, 64);
        /// Largest size of level 1, of table files.
        base: u64 = 256 << 20, bytes(64 << 10, 1 << 50);
    }
}

impl DynamicLeveled {
    /// Returns the last level below 0, and its size.
    fn last(view: &PickContext<'_>) -> Option<(u8, u64)> {
        let (level, runs) = view.levels().pop().filter(|(level, _)| *level > 0)?;
        Some((level, view.size_of(runs)))
    }

    /// Returns the target of a level divided by the target of level 1.
    fn times(&self, level: u8) -> u64 {
        u64::from(self.ratio).saturating_pow(u32::from(level).saturating_sub(1))
    }

    /// Returns the leveled policy with the current targets.
    fn leveled(&self, view: &PickContext<'_>) -> Leveled {
        let base = Self::last(view).map_or(self.base, |(level, size)| {
            size.div_ceil(self.times(level)).max(view.shape.memtable_size)
        });
        Leveled { ratio: self.ratio, level0_runs: self.level0_runs, base, ..Leveled::default() }
    }
}

impl Strategy for DynamicLeveled {
    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob> {
        let mut jobs = self.leveled(view).candidate_jobs(view);
        let last = view.len().wrapping_sub(1);
        if let Some((level, size)) = Self::last(view)
            && size > self.base.saturating_mul(self.times(level))
            && level < MAX_LEVEL
            && view.levels().last().is_some_and(|(_, runs)| runs.len() == 1)
            && !view.is_busy(last)
        {
            let place = ShapePlace { level: level + 1, number: view.run(last).number };
            jobs.push(view.moved(last, place, CompactionReason::LevelSize, 1.0));
        }
        jobs
    }

    fn slowdown_run_count(&self, view: &PickContext<'_>) -> Option<usize> {
        self.leveled(view).slowdown_run_count(view)
    }

    fn single_run_levels(&self) -> bool {
        true
    }

    fn space(&self, memtable: u64, flushed: u64) -> SpaceBound {
        // Level 1 is at least a memtable, in a tree that holds few of them.
        let smallest = memtable.saturating_mul(2);
        let ratio = f64::from(self.ratio.max(2));
        SpaceBound::of_merges(1.0 + 2.0 / (ratio - 1.0), flushed.saturating_add(smallest))
    }

    fn pending_bytes(&self, view: &PickContext<'_>) -> Option<u64> {
        self.leveled(view).pending_bytes(view)
    }
}
