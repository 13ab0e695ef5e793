//! Queries on a shape that several policies share, and constructors for common jobs.

use crate::util::sort::sort_by;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use super::adopt::{Picked, adopt};
use super::job::{Action, CompactionInput, CompactionJob, CompactionReason, OutputSplits};
use super::shape::{self, LsmShape, MAX_LEVEL, RunShape, ShapePlace, TableShape, tables_of};

/// Maximum number of whole runs that one job merges.
pub(super) const MAX_FAN: usize = 64;

/// A shape with cached values that policies need repeatedly. It has its own busy marks, so
/// [`debt`](super::choose::debt) can look past running jobs.
pub(super) struct PickContext<'a> {
    pub shape: &'a LsmShape,
    pub sizes: Vec<u64>,
    /// Whether some table has fully expired.
    pub has_expired: bool,
    /// Whether the busy flags of the shape count.
    respect_busy: bool,
    /// For each run: which tables are marked busy here. Empty for a run without marks, the usual
    /// case.
    marked: Vec<Vec<bool>>,
}

impl<'a> PickContext<'a> {
    pub fn new(shape: &'a LsmShape, respect_busy: bool) -> PickContext<'a> {
        let gone = |r: &Arc<RunShape>| r.tables.sums().expires_micros <= shape.now_micros;
        PickContext {
            shape,
            sizes: shape.runs.iter().map(|r| r.size()).collect(),
            has_expired: shape.runs.iter().any(gone),
            respect_busy,
            marked: vec![Vec::new(); shape.runs.len()],
        }
    }

    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    pub fn run(&self, r: usize) -> &'a RunShape {
        &self.shape.runs[r]
    }

    pub fn table(&self, r: usize, t: usize) -> &'a TableShape {
        &self.shape.runs[r].tables[t]
    }

    pub fn size_of(&self, runs: Range<usize>) -> u64 {
        self.sizes[runs].iter().sum()
    }

    /// Returns the size of a run for comparisons: at least the size of a memtable.
    pub fn weight(&self, r: usize) -> u64 {
        self.sizes[r].max(self.shape.memtable_size)
    }

    /// Returns the weight of the oldest run, or 0 if there are no runs.
    pub fn oldest_weight(&self) -> f64 {
        self.len().checked_sub(1).map_or(0, |r| self.weight(r)) as f64
    }

    /// Reports whether any table of the run is busy.
    pub fn is_busy(&self, r: usize) -> bool {
        !self.marked[r].is_empty() || (self.respect_busy && self.run(r).tables.sums().is_busy)
    }

    /// Reports whether this table of the run is busy.
    pub fn is_table_busy(&self, r: usize, t: usize) -> bool {
        self.marked[r].get(t).is_some_and(|marked| *marked)
            || (self.respect_busy && self.table(r, t).busy)
    }

    pub fn any_busy(&self, runs: Range<usize>) -> bool {
        runs.into_iter().any(|r| self.is_busy(r))
    }

    /// Returns the runs of each level as ranges of run indexes, ascending.
    pub fn levels(&self) -> Vec<(u8, Range<usize>)> {
        let mut levels: Vec<(u8, Range<usize>)> = Vec::new();
        for (i, run) in self.shape.runs.iter().enumerate() {
            match levels.last_mut() {
                Some((level, range)) if *level == run.level => range.end = i + 1,
                _ => levels.push((run.level, i..i + 1)),
            }
        }
        levels
    }

    pub fn input(&self, r: usize, tables: Range<usize>) -> CompactionInput {
        let run = self.run(r);
        CompactionInput {
            level: run.level,
            run: run.number,
            tables: run.tables[tables].iter().map(|t| t.id).collect(),
        }
    }

    pub fn cuts(&self) -> OutputSplits {
        OutputSplits { size: self.shape.table_size, at: Vec::new() }
    }

    /// Returns the output position for a merge of whole runs whose oldest is `oldest`. This is one
    /// level further down if the order of runs allows it, otherwise the position of `oldest`. So
    /// the level of a run shows how often its data was merged.
    pub fn below(&self, oldest: usize) -> ShapePlace {
        let ShapePlace { level, number } = self.run(oldest).place();
        let down = ShapePlace { level: level.saturating_add(1), number };
        let fits = self.shape.runs.get(oldest + 1).is_none_or(|next| down < next.place());
        if level < MAX_LEVEL && fits { down } else { ShapePlace { level, number } }
    }

    /// Returns the merge of all tables of neighbouring runs.
    pub fn whole(
        &self,
        runs: RangeInclusive<usize>,
        output: ShapePlace,
        reason: CompactionReason,
        score: f64,
    ) -> CompactionJob {
        let picked: Vec<Picked> = runs.map(|r| (r, 0..self.run(r).tables.len())).collect();
        self.joined(&picked, output, reason, score)
    }

    /// Returns the move of a whole run.
    pub fn moved(
        &self,
        r: usize,
        output: ShapePlace,
        reason: CompactionReason,
        score: f64,
    ) -> CompactionJob {
        let all = [(r, 0..self.run(r).tables.len())];
        CompactionJob { action: Action::Move, ..self.merge(&all, output, reason, score) }
    }

    /// Returns the merge of `picked` tables, newest run first. Tables without overlap are adopted.
    pub fn joined(
        &self,
        picked: &[Picked],
        output: ShapePlace,
        reason: CompactionReason,
        score: f64,
    ) -> CompactionJob {
        let job = self.merge(picked, output, reason, score);
        adopt(self.shape, job, picked, &|_| true)
    }

    /// Returns the merge of `picked` tables, newest run first, with all of them rewritten.
    pub fn merge(
        &self,
        picked: &[Picked],
        output: ShapePlace,
        reason: CompactionReason,
        score: f64,
    ) -> CompactionJob {
        CompactionJob {
            reason,
            action: Action::Merge,
            inputs: picked.iter().map(|(r, tables)| self.input(*r, tables.clone())).collect(),
            adopted: Vec::new(),
            output_level: output.level,
            output_run: output.number,
            cuts: self.cuts(),
            score,
        }
    }

    /// Returns a job that pushes neighbouring tables of run `from` into run `to`, or into `output`
    /// if that run does not exist yet.
    pub fn push(
        &self,
        from: usize,
        tables: Range<usize>,
        to: Option<usize>,
        output: ShapePlace,
        reason: CompactionReason,
        score: f64,
    ) -> Option<CompactionJob> {
        let taken = &self.run(from).tables[tables.clone()];
        let (lo, hi) = shape::key_span(taken.iter())?;
        let overlap = to.map_or(0..0, |k| self.run(k).overlapping(lo, hi));
        let bottom = self.shape.runs[from + 1..].iter().all(|r| r.overlapping(lo, hi).is_empty());
        let purge = bottom && taken.iter().any(TableShape::is_dense);
        let mut inputs = vec![self.input(from, tables)];
        if let (Some(k), false) = (to, overlap.is_empty()) {
            inputs.push(self.input(k, overlap));
        }
        let action = if inputs.len() == 1 && !purge { Action::Move } else { Action::Merge };
        Some(CompactionJob {
            reason,
            action,
            inputs,
            adopted: Vec::new(),
            output_level: output.level,
            output_run: output.number,
            cuts: self.cuts(),
            score,
        })
    }

    pub fn admits(&self, job: &CompactionJob) -> bool {
        job.check_with(self.shape, &|r, t| self.is_table_busy(r, t)).is_ok()
    }

    pub fn mark(&mut self, job: &CompactionJob) {
        for input in &job.inputs {
            let place = ShapePlace { level: input.level, number: input.run };
            let at = self.shape.runs.partition_point(|r| r.place() < place);
            let Some(run) = self.shape.runs.get(at) else { continue };
            let taken: HashSet<u64> = input.tables.iter().copied().collect();
            let marked = &mut self.marked[at];
            marked.resize(run.tables.len(), false);
            for (marked, table) in marked.iter_mut().zip(&run.tables) {
                *marked |= taken.contains(&table.id);
            }
        }
    }

    /// Returns the share of the runs' entries that are in tables with mostly tombstones.
    pub fn density(&self, runs: Range<usize>) -> f64 {
        let tables = || tables_of(&self.shape.runs[runs.clone()]);
        let all: u64 = tables().map(|t| t.entries).sum();
        let dense: u64 = tables().filter(|t| t.is_dense()).map(|t| t.entries).sum();
        if all == 0 { 0.0 } else { dense as f64 / all as f64 }
    }
}

/// Finds the longest bucket of runs whose oldest run is `oldest`. Walks towards newer runs, as far
/// as `newest`. `compare` classifies each run against the members' average. `Equal` makes it a
/// member. `Less` includes it if a member follows. `Greater` ends the bucket. Returns the newest
/// run of the bucket and the number of members.
pub(super) fn bucket(
    view: &PickContext<'_>,
    newest: usize,
    oldest: usize,
    max: usize,
    mut compare: impl FnMut(usize, f64) -> Ordering,
) -> (usize, usize) {
    let (mut start, mut members, mut sum) = (oldest, 1, view.weight(oldest) as f64);
    for i in (newest..oldest).rev() {
        if members == max || oldest - i + 1 > MAX_FAN || view.is_busy(i) {
            break;
        }
        match compare(i, sum / members as f64) {
            Ordering::Less => {}
            Ordering::Equal => {
                members += 1;
                sum += view.weight(i) as f64;
                start = i;
            }
            Ordering::Greater => break,
        }
    }
    (start, members)
}

/// Returns merges of whole runs, most urgent first, up to and including the first that can start.
/// Each output is placed below its oldest input. Stopping early matters because many runs yield
/// many candidates, and callers need none after the first that can start.
pub(super) fn most_urgent(
    view: &PickContext<'_>,
    mut merges: Vec<(RangeInclusive<usize>, f64)>,
    reason: CompactionReason,
) -> Vec<CompactionJob> {
    // Stable: of equally urgent merges the first one wins.
    sort_by(&mut merges, |a, b| b.1.total_cmp(&a.1));
    let mut jobs = Vec::new();
    for (runs, score) in merges {
        let output = view.below(*runs.end());
        let job = view.whole(runs, output, reason, score);
        let starts = view.admits(&job);
        jobs.push(job);
        if starts {
            break;
        }
    }
    jobs
}

/// Returns the cheapest merge of `want` neighbouring runs of `runs`. Returns a merge of fewer runs
/// if no `want` neighbours are idle.
pub(super) fn cheapest(
    view: &PickContext<'_>,
    runs: Range<usize>,
    want: usize,
) -> Option<RangeInclusive<usize>> {
    (2..=want.min(runs.len())).rev().find_map(|n| {
        (runs.start..=runs.end - n)
            .filter(|&i| !view.any_busy(i..i + n))
            .min_by_key(|&i| view.size_of(i..i + n))
            .map(|i| i..=i + n - 1)
    })
}

/// Returns the merge that enforces the space bound of policies that merge whole runs. If the runs
/// newer than the oldest hold more than `most` bytes, much of the tree may be garbage. Then all
/// runs are merged. If there are more than `fan` runs, the cheapest `fan` of them are merged first.
/// `output` maps the oldest input run to the output position.
pub(super) fn space_job(
    view: &PickContext<'_>,
    most: f64,
    fan: usize,
    output: impl Fn(usize) -> ShapePlace,
) -> Option<CompactionJob> {
    let n = view.len();
    // Small jobs on new runs may run at any time, so exclude them instead of waiting for them.
    let start = (0..n).rev().find(|&r| view.is_busy(r)).map_or(0, |r| r + 1);
    if n - start < 2 {
        return None;
    }
    let score = view.size_of(start..n - 1) as f64 / most;
    if score <= 1.0 {
        return None;
    }
    let runs = if n - start > fan { cheapest(view, start..n, fan)? } else { start..=n - 1 };
    let output = output(*runs.end());
    Some(view.whole(runs, output, CompactionReason::Space, score))
}

/// Returns the merge for too many runs: there are at least `limit`, whatever their sizes.
pub(super) fn slowdown_job(
    view: &PickContext<'_>,
    runs: Range<usize>,
    limit: usize,
    want: usize,
) -> Option<CompactionJob> {
    if runs.len() < limit.max(2) {
        return None;
    }
    let score = runs.len() as f64 / limit as f64;
    let chosen = cheapest(view, runs, want.clamp(2, MAX_FAN))?;
    let output = view.below(*chosen.end());
    Some(view.whole(chosen, output, CompactionReason::RunCount, score))
}

/// Returns how often `n` can be divided by `by` before it is 0; 0 for 0.
pub(super) fn magnitude(n: u64, by: u64) -> usize {
    n.checked_ilog(by.max(2)).map_or(0, |log| log as usize + 1)
}
