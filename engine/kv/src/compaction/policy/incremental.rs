//! Incremental compaction, after ScyllaDB's strategy of that name. It is size-tiered, but a run
//! consists of fragments, tables of about equal size. A merge of runs frees the fragments whose
//! keys it has passed.
//!
//! - *Trigger*: as size-tiered: `min_runs` neighbouring runs of similar size, or more runs than
//!   `slowdown_run_count`. Also a total size above `goal` times that of the oldest run.
//! - *Layout*: every level has several runs. The level of a run shows how often its data was
//!   merged.
//! - *Granularity*: whole runs, merged in steps. A step takes the fragments of all runs in one key
//!   range.
//! - *Movement*: as size-tiered, within a narrower bucket. Flushed runs are tables over all keys
//!   and should be merged among themselves. For `goal` it takes the oldest runs, as few as reduce
//!   the bytes newer than the oldest run to half of their bound. Flushed runs would turn such a
//!   merge into one step, because their tables span all keys.
//! - *Space*: `goal`, because otherwise the oldest runs are merged. A merge writes at most one
//!   copy. It does so if tables of another policy overlap each other throughout, or if runs have
//!   one fragment. If fragments line up, it writes a few of them before their inputs are freed.
//!
//! A step needs keys at which no run of the merge has a table that spans the boundary. So runs are
//! split at common bounds, those of the run with the most fragments (the *grid*):
//!
//! - A new run as large as the grid run is split at all of its bounds, a smaller one at some.
//!   Preferred are bounds at which most other runs are split, and among equals those with the
//!   highest rank, a hash of the key. A piece that is too large for a fragment is split there,
//!   recursively. So two runs share most of their bounds, and a merge may always be split where the
//!   larger pieces of either run end.
//! - Small runs are split into several tables too. A small run between large ones is merged with
//!   them, and a table over all keys would make one step of the whole merge.
//! - Two runs split at one key begin at different keys, each at its next existing key. The bound is
//!   the lowest of those: at a higher one, a table of one run would span the beginning of another.
//!
//! Flushed runs are not split. One that remains between large runs makes their merge a single step.
//! This can happen if writers produce more than merges can process.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::tiered::{check_runs, similar, slowdown_jobs, slowdown_run_count};
use crate::compaction::describe::{PolicyError, policy};
use crate::compaction::job::{CompactionJob, CompactionReason, OutputSplits};
use crate::compaction::shape::{LsmShape, RunShape, TableShape};
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::{PickContext, cheapest};
use crate::util::sort::sort;

policy! {
    /// Size-tiered, but that runs are made of tables with common bounds, and are merged piece by
    /// piece: a merge takes room for a few tables, not for a second copy. ScyllaDB's incremental
    /// strategy.
    Incremental = "ics" {
        /// Fewest runs merged at once.
        min_runs: u32 = 4, number(2, 64);
        /// Most runs merged at once, at least `min_runs`.
        max_runs: u32 = 32, number(2, 64);
        /// Largest size over average size of one bucket.
        bucket: f64 = 2.0, factor(1.1, 10.0);
        /// Space-amplification goal: bytes of all runs over those of the oldest, at most.
        goal: f64 = 5.0, factor(1.1, 65.0);
    }
}

impl Strategy for Incremental {
    fn check(&self) -> Result<(), PolicyError> {
        check_runs("ics", self.min_runs, self.max_runs)
    }

    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob> {
        let (all, min) = (0..view.len(), self.min_runs as usize);
        let alike = similar(view, all.clone(), min, self.max_runs as usize, self.bucket);
        let mut jobs = Vec::from_iter(alike);
        jobs.extend(slowdown_jobs(view, all, min));
        jobs.extend(self.for_space(view));
        jobs
    }

    fn slowdown_run_count(&self, view: &PickContext<'_>) -> Option<usize> {
        Some(slowdown_run_count(view, 0..view.len(), self.min_runs as usize))
    }

    fn space(&self, _: u64, flushed: u64) -> SpaceBound {
        SpaceBound::of_merges(self.goal, flushed)
    }

    fn cuts(&self, shape: &LsmShape, job: &CompactionJob) -> Option<OutputSplits> {
        cuts(shape, job)
    }

    fn is_incremental(&self) -> bool {
        true
    }
}

impl Incremental {
    /// Returns the merge for space: the newer runs are too large relative to the oldest one.
    fn for_space(&self, view: &PickContext<'_>) -> Option<CompactionJob> {
        let n = view.len();
        // Small jobs on new runs may run at any time, so exclude them instead of waiting for them.
        let start = (0..n).rev().find(|&r| view.is_busy(r)).map_or(0, |r| r + 1);
        if n - start < 2 {
            return None;
        }
        let most = (self.goal - 1.0) * view.oldest_weight();
        let mut newer = view.size_of(start..n - 1);
        let score = newer as f64 / most;
        if score <= 1.0 {
            return None;
        }
        let mut newest = n - 1;
        while newest > start && newer as f64 > most / 2.0 {
            newest -= 1;
            newer -= view.sizes[newest];
        }
        let fan = self.max_runs as usize;
        let runs = if n - newest > fan { cheapest(view, newest..n, fan)? } else { newest..=n - 1 };
        let output = view.below(*runs.end());
        Some(view.whole(runs, output, CompactionReason::Space, score))
    }
}

/// Minimum number of tables of a run, if the grid has as many bounds and no table gets smaller than
/// a quarter of a memtable. A run from four flushes has that many.
const LEAST_PIECES: u64 = 16;

/// Returns the output splits of a job: at bounds of the grid, and where a fragment exceeds its
/// target size by half.
fn cuts(shape: &LsmShape, job: &CompactionJob) -> Option<OutputSplits> {
    let fragment = shape.table_size.max(1);
    let (from, to) = job.range(shape)?;
    let mut grid = vec![];
    grid_between(shape, None, None, &mut grid);
    let start = grid.partition_point(|t| t.last < from);
    let end = grid.partition_point(|t| t.first <= to);
    let pieces = &grid[start..end.max(start)];
    // Total size of the pieces before each piece.
    let mut before = vec![0];
    before.extend(pieces.iter().scan(0, |sum: &mut u64, t| {
        *sum = sum.saturating_add(t.size);
        Some(*sum)
    }));
    let bytes = job.bytes(shape);
    let written = bytes as f64 / before[pieces.len()].max(1) as f64;
    let most = (bytes / LEAST_PIECES).max(shape.memtable_size / 4).min(fragment) as f64;
    let is_small = |a: usize, b: usize| (before[b] - before[a]) as f64 * written <= most;

    let is_input =
        |run: &RunShape| job.inputs.iter().any(|i| (i.level, i.run) == (run.level, run.number));
    let others: Vec<&RunShape> = shape.runs.iter().map(|r| &**r).filter(|r| !is_input(r)).collect();
    let bounds = bounds(&others, pieces);
    let at = chosen(&ranks(&others, &bounds), is_small);
    let size = fragment.saturating_add(fragment / 2);
    Some(OutputSplits { size, at: at.into_iter().map(|i| bounds[i].clone()).collect() })
}

/// Collects the tables whose bounds split new runs, in key order, between two keys. These are the
/// tables of the run that has the most of them. Running merges may have removed or not yet written
/// part of that run. There, the run with the most tables in that range is used.
fn grid_between<'a>(
    shape: &'a LsmShape,
    after: Option<&[u8]>,
    before: Option<&[u8]>,
    grid: &mut Vec<&'a TableShape>,
) {
    let between = |run: &'a Arc<RunShape>| {
        let start = run.tables.partition_point(|t| after.is_some_and(|key| &*t.first <= key));
        let end = run.tables.partition_point(|t| before.is_none_or(|key| &*t.last < key));
        &run.tables[start..end.max(start)]
    };
    let most = shape.runs.iter().map(between).max_by_key(|tables| tables.len());
    let Some(tables) = most else { return };
    if let (Some(first), Some(last)) = (tables.first(), tables.last()) {
        grid_between(shape, after, Some(&first.first), grid);
        grid.extend(tables);
        grid_between(shape, Some(&last.last), before, grid);
    }
}

/// Returns the start of each piece of the grid: the lowest key after the previous piece at which a
/// table of the runs, or the piece itself, begins.
fn bounds<'a>(runs: &[&'a RunShape], pieces: &[&'a TableShape]) -> Vec<&'a Arc<[u8]>> {
    let mut bounds: Vec<&Arc<[u8]>> = pieces.iter().map(|t| &t.first).collect();
    for table in runs.iter().flat_map(|run| &run.tables) {
        let at = pieces.partition_point(|t| t.first < table.first);
        let is_after = at > 0 && pieces[at - 1].last < table.first;
        if let Some(bound) = bounds.get_mut(at).filter(|bound| is_after && table.first < ***bound) {
            *bound = &table.first;
        }
    }
    bounds
}

/// Returns the rank of each bound: the number of runs that have a table boundary there, and a hash
/// of the key.
fn ranks(runs: &[&RunShape], bounds: &[&Arc<[u8]>]) -> Vec<(usize, u64)> {
    let mut ranks: Vec<(usize, u64)> = bounds.iter().map(|key| (0, xxh3_64(key))).collect();
    for pair in runs.iter().flat_map(|run| run.tables.windows(2)) {
        let start = bounds.partition_point(|key| **key <= pair[0].last);
        let end = bounds.partition_point(|key| **key <= pair[1].first);
        ranks[start..end.max(start)].iter_mut().for_each(|rank| rank.0 += 1);
    }
    ranks
}

/// Returns the bounds to split at, ascending, so that no range between two of them is too large. A
/// range that is too large is split at its highest rank.
fn chosen(ranks: &[(usize, u64)], is_small: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let (mut at, mut stretches) = (vec![], vec![(0, ranks.len())]);
    while let Some((start, end)) = stretches.pop() {
        if end - start < 2 || is_small(start, end) {
            continue;
        }
        let Some(cut) = (start + 1..end).max_by_key(|&i| ranks[i]) else { continue };
        at.push(cut);
        stretches.extend([(start, cut), (cut, end)]);
    }
    sort(&mut at);
    at
}
