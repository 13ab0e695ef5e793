//! Incremental, after ScyllaDB's strategy of that name: size-tiered, but that a run is made of
//! fragments, tables of about one size, and a merge of runs frees those whose keys it has passed.
//!
//! - *Trigger*: as size-tiered, `min_runs` neighbouring runs of similar size, or more runs than
//!   `crowd`; all bytes more than `goal` times those of the oldest run.
//! - *Layout*: every level has several runs. The level of a run says how often its data were merged.
//! - *Granularity*: whole runs, made in steps: the fragments of all of them in a stretch of keys.
//! - *Movement*: as size-tiered, within a narrower bucket: flushed runs, each a table over all keys,
//!   are to be merged among themselves. For the goal the oldest runs, as few as bring what is newer than the
//!   oldest to half of what it may be: the small ones, whose tables reach over all keys, would make
//!   one step of it all.
//! - *Space*: `goal`, as else the oldest runs are merged. A merge writes one copy at most: where the
//!   tables of another policy overlap each other all along, and of runs of one fragment. Where
//!   fragments line up it writes a few of them before their inputs are gone.
//!
//! A step needs keys at which no run of the merge has a table that reaches over. So runs are cut where
//! the run with the most fragments is: at all of its bounds where the new run is as large, else at
//! some. Those are not chosen by size alone, or two small runs would be cut at other keys. Each bound
//! has a rank, a hash of its key, and a piece that is too large for a fragment is cut at the bound of
//! the highest rank in it, and so on. So two runs have most of their bounds in common, and a merge
//! may always be cut where the larger pieces of either end.

use xxhash_rust::xxh3::xxh3_64;

use super::tiered::{check_runs, crowd, crowded, similar};
use crate::compaction::describe::{PolicyError, policy};
use crate::compaction::shape::{CompactionJob, Cuts, Reason, TableShape, TreeShape};
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::{ShapeView, cheapest};

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

    fn wishes(&self, view: &ShapeView<'_>) -> Vec<CompactionJob> {
        let (all, min) = (0..view.len(), self.min_runs as usize);
        let alike = similar(view, all.clone(), min, self.max_runs as usize, self.bucket);
        let mut jobs = Vec::from_iter(alike);
        jobs.extend(crowded(view, all, min));
        jobs.extend(self.for_space(view));
        jobs
    }

    fn crowd(&self, view: &ShapeView<'_>) -> Option<usize> {
        Some(crowd(view, 0..view.len(), self.min_runs as usize))
    }

    fn space(&self, _: u64, flushed: u64) -> SpaceBound {
        SpaceBound::of_merges(self.goal, flushed)
    }

    fn cuts(&self, shape: &TreeShape, job: &CompactionJob) -> Option<Cuts> {
        cuts(shape, job)
    }

    fn is_incremental(&self) -> bool {
        true
    }
}

impl Incremental {
    /// The merge that is made because the newer runs are too large for the oldest one.
    fn for_space(&self, view: &ShapeView<'_>) -> Option<CompactionJob> {
        let n = view.len();
        // Small jobs on new runs may always be running: they are left out, not waited for.
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
        Some(view.whole(runs, output, Reason::Space, score))
    }
}

/// Where a job's outputs end: at bounds of the run that has the most fragments, and where a fragment
/// is half as large again as it should be.
fn cuts(shape: &TreeShape, job: &CompactionJob) -> Option<Cuts> {
    let fragment = shape.table_size.max(1);
    let (from, to) = job.range(shape)?;
    let finest = shape.runs.iter().max_by_key(|run| run.tables.len())?;
    let pieces = &finest.tables[finest.overlapping(&from, &to)];
    // Bytes of the pieces before each.
    let mut before = vec![0];
    before.extend(pieces.iter().scan(0, |sum: &mut u64, t| {
        *sum = sum.saturating_add(t.size);
        Some(*sum)
    }));
    let written = job.bytes(shape) as f64 / before[pieces.len()].max(1) as f64;
    let is_small = |a: usize, b: usize| (before[b] - before[a]) as f64 * written <= fragment as f64;
    let rank = |t: &TableShape| (xxh3_64(&t.first), t.id);
    let (mut at, mut stretches) = (vec![], vec![(0, pieces.len())]);
    while let Some((start, end)) = stretches.pop() {
        if end - start < 2 || is_small(start, end) {
            continue;
        }
        let Some(cut) = (start + 1..end).max_by_key(|&i| rank(&pieces[i])) else { continue };
        at.push(pieces[cut].first.clone());
        stretches.extend([(start, cut), (cut, end)]);
    }
    at.sort();
    Some(Cuts { size: fragment.saturating_add(fragment / 2), at })
}
