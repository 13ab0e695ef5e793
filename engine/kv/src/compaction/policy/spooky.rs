//! Spooky (VLDB 2022): merges whole levels while they are small. Merges the two last levels one
//! group of perfectly overlapping tables at a time.
//!
//! - *Trigger*: `level0_runs` runs at level 0. A level larger than its capacity, which is that of
//!   the level below / `ratio`, starting from the size of the last level. A last level larger than
//!   `base` × `ratio`^(level − 1).
//! - *Layout*: level 0 has several runs, every other level one. When the last but one is full, it
//!   becomes a second run of the last level until all of it is merged into the first. So the merged
//!   data does not change, while the level above fills again.
//! - *Granularity*: all runs down to the first level that has room for them, at most to the last
//!   but one. From there: the tables that overlap one table of the last level, or the few that a
//!   table overlaps.
//! - *Movement*: in key order. Outputs above the last level end where tables of the last level do.
//! - *Space*: 1 + 2 / (r − 1), r the ratio. The levels above the last hold 1 / (r − 1) of it, and
//!   once more while one is merged into it. Add level 1 (`base`), which is merged whole while it is
//!   the last.

use std::ops::Range;

use crate::compaction::adopt::Picked;
use crate::compaction::describe::policy;
use crate::compaction::job::{CompactionJob, CompactionReason, OutputSplits};
use crate::compaction::shape::{LsmShape, MAX_LEVEL, ShapePlace};
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::{MAX_FAN, PickContext};

policy! {
    /// Whole levels are merged at the top, groups of tables with the same keys at the bottom: few
    /// bytes written, and little room for a merge.
    Spooky = "spooky" {
        /// Size of a level over the one above.
        ratio: u32 = 10, number(2, 64);
        /// Flushed runs that start a compaction.
        level0_runs: u32 = 4, number(1, 64);
        /// Largest size of level 1 when it is the last, of table files.
        base: u64 = 256 << 20, bytes(64 << 10, 1 << 50);
    }
}

/// Levels of a tree as this policy needs them.
struct SpookyLevels {
    /// Runs of each level from 0 to the last, as ranges of run indexes; empty if the level has
    /// none.
    runs: Vec<Range<usize>>,
    sizes: Vec<u64>,
}

impl SpookyLevels {
    fn of(view: &PickContext<'_>) -> SpookyLevels {
        let last = view.shape.runs.last().map_or(0, |run| usize::from(run.level));
        let at =
            |level: usize| view.shape.runs.partition_point(|run| usize::from(run.level) < level);
        let runs: Vec<Range<usize>> = (0..=last).map(|l| at(l)..at(l + 1)).collect();
        let sizes = runs.iter().map(|runs| view.size_of(runs.clone())).collect();
        SpookyLevels { runs, sizes }
    }

    fn last(&self) -> usize {
        self.runs.len() - 1
    }
}

impl Spooky {
    /// Returns the capacity of a level above the last, derived from the size of the last one.
    fn capacity(&self, levels: &SpookyLevels, level: usize) -> u64 {
        let steps = u32::try_from(levels.last() - level).unwrap_or(u32::MAX);
        levels.sizes[levels.last()] / u64::from(self.ratio.max(2)).saturating_pow(steps)
    }

    /// Returns the merge of whole levels.
    fn down(&self, view: &PickContext<'_>, levels: &SpookyLevels) -> Option<CompactionJob> {
        let last = levels.last();
        let over = (1..last.saturating_sub(1))
            .rev()
            .find(|&l| levels.runs[l].len() > 1 || levels.sizes[l] > self.capacity(levels, l));
        let full = levels.runs[0].len() >= self.level0_runs as usize;
        let from = over.or(full.then_some(0))?;
        let mut held: u64 = levels.sizes[..=from].iter().sum();
        let mut target = from + 1;
        while target + 1 < last {
            held += levels.sizes[target];
            if held <= self.capacity(levels, target) {
                break;
            }
            target += 1;
        }
        // With one level below 0 the tree is merged whole. Otherwise this merge stops above the
        // last level.
        let target = if last < 2 { 1 } else { target.min(last - 1) };
        let end = levels.runs.get(target).map_or(levels.runs[last].end, |runs| runs.end);
        let runs = end - end.min(MAX_FAN)..end;
        if runs.is_empty() || view.any_busy(runs.clone()) {
            return None;
        }
        let number = view.run(end - 1).number;
        let place = ShapePlace { level: u8::try_from(target).unwrap_or(MAX_LEVEL), number };
        let score = (levels.runs[0].len() as f64 / f64::from(self.level0_runs.max(1))).max(1.0)
            * (1.0 + view.density(runs.clone()));
        let reason = if full { CompactionReason::LevelRuns } else { CompactionReason::LevelSize };
        Some(view.whole(runs.start..=runs.end - 1, place, reason, score))
    }

    /// Returns the merges of table groups from the second run of a level into its first, in key
    /// order.
    fn groups(view: &PickContext<'_>, runs: Range<usize>) -> Vec<CompactionJob> {
        let (upper, lower) = (runs.end - 2, runs.end - 1);
        let tables = &view.run(upper).tables;
        let overlap: Vec<Range<usize>> =
            tables.iter().map(|t| view.run(lower).overlapping(&t.first, &t.last)).collect();
        let score = runs.len() as f64;
        let mut jobs = Vec::new();
        let mut start = 0;
        while start < tables.len() {
            let mut end = start + 1;
            while end < tables.len() && overlap[end] == overlap[start] && end - start < MAX_FAN {
                end += 1;
            }
            let picked: [Picked; 2] = [(upper, start..end), (lower, overlap[start].clone())];
            let is_busy =
                picked.iter().any(|(r, tables)| tables.clone().any(|t| view.is_table_busy(*r, t)));
            if !is_busy {
                let picked: Vec<Picked> =
                    picked.into_iter().filter(|(_, tables)| !tables.is_empty()).collect();
                let place = view.run(lower).place();
                jobs.push(view.joined(&picked, place, CompactionReason::OneRun, score));
            }
            start = end;
        }
        jobs
    }

    /// Moves a whole run one level down unchanged.
    fn sink(view: &PickContext<'_>, r: usize, score: f64) -> Option<CompactionJob> {
        let ShapePlace { level, number } = view.run(r).place();
        let place = ShapePlace { level: level + 1, number };
        let fits = view.shape.runs.get(r + 1).is_none_or(|next| place < next.place());
        (fits && level < MAX_LEVEL && !view.is_busy(r))
            .then(|| view.moved(r, place, CompactionReason::LevelSize, score))
    }
}

impl Strategy for Spooky {
    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob> {
        let levels = SpookyLevels::of(view);
        let last = levels.last();
        let mut jobs = Vec::new();
        if view.len() == 0 {
            return jobs;
        }
        jobs.extend(self.down(view, &levels));
        if last == 0 {
            return jobs;
        }
        let bottom = levels.runs[last].clone();
        if bottom.len() > 1 {
            jobs.extend(Self::groups(view, bottom.clone()));
        } else {
            let times = u64::from(self.ratio.max(2))
                .saturating_pow(u32::try_from(last - 1).unwrap_or(u32::MAX));
            if levels.sizes[last] > self.base.saturating_mul(times) {
                jobs.extend(Self::sink(view, bottom.start, 1.0));
            }
        }
        if last >= 2 {
            let upper = levels.runs[last - 1].clone();
            let room = self.capacity(&levels, last - 1);
            if upper.len() > 1 {
                jobs.extend(Self::groups(view, upper));
            } else if upper.len() == 1
                && bottom.len() == 1
                && levels.sizes[last - 1] > room.max(view.shape.memtable_size)
            {
                // Another policy may have left run numbers whose order forbids the move. Then
                // groups move down from the current level.
                match Self::sink(view, upper.start, 1.0) {
                    Some(job) => jobs.push(job),
                    None => jobs.extend(Self::groups(view, upper.start..bottom.end)),
                }
            }
        }
        jobs
    }

    /// Returns twice the trigger of level 0, plus two runs for each further level.
    fn slowdown_run_count(&self, view: &PickContext<'_>) -> Option<usize> {
        let further = view.levels().iter().filter(|(level, _)| *level > 0).count();
        Some((self.level0_runs as usize).max(4) * 2 + 2 * further)
    }

    fn single_run_levels(&self) -> bool {
        true
    }

    fn space(&self, memtable: u64, flushed: u64) -> SpaceBound {
        let ratio = f64::from(self.ratio.max(2));
        let absolute = self.base.saturating_add(memtable).saturating_add(flushed);
        SpaceBound::of_merges(1.0 + 2.0 / (ratio - 1.0), absolute)
    }

    /// Above the last level, outputs end where tables of the last level do. The output of a group
    /// merged into the last level is split into tables of equal size.
    fn cuts(&self, shape: &LsmShape, job: &CompactionJob) -> Option<OutputSplits> {
        let last = shape.runs.last()?;
        let (from, to) = job.range(shape)?;
        if job.output() == last.place() {
            let bytes = job.bytes(shape);
            let parts = (bytes as f64 / shape.table_size.max(1) as f64).round().max(1.0);
            let size = (bytes as f64 / parts * 1.1) as u64;
            return Some(OutputSplits { size: size.max(shape.table_size), at: Vec::new() });
        }
        let at = last.tables.iter().map(|t| t.first.clone());
        let at = at.filter(|key| *key > from && *key <= to).collect();
        (job.output_level.saturating_add(1) >= last.level)
            .then_some(OutputSplits { size: shape.table_size, at })
    }
}
