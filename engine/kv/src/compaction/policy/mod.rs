//! The policies: pure functions from a [`Shape`] to the most urgent [`Job`].
//!
//! Each file is one policy and says in its header what it is in the four words of the VLDB'21 design space of compactions:
//! *trigger* (what makes it want work), *layout* (how many runs a level has), *granularity* (how much is taken at once) and
//! *movement* (which data are taken). `deletes` is common to all but `Fifo`, `expired` to all.
//!
//! Invariants:
//!
//! 1. Every job that leaves here has passed [`Job::check`] on the shape that it was made from.
//! 2. From any legal shape, finitely many jobs lead to a shape with which the policy is content, while nothing is flushed. So a
//!    tree may be opened with another policy than the one that shaped it.
//! 3. A content shape has no debt, and fewer runs than the soft limit of [`run_limits`]: pacing by them never ends in a
//!    tree that waits for work that nobody will do.
//! 4. A merge whose inputs do not overlap each other is a [`Action::Move`], unless the tables are small and should grow
//!    together, or are mostly deletes that the merge would get rid of.

mod deletes;
mod expired;
mod fifo;
mod lazy;
mod leveled;
mod tiered;
mod unified;
mod window;

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use super::shape::{self, Action, Cuts, Input, Job, KeyRange, MAX_LEVEL, Place, Reason, RunShape, Shape, TableShape};
use crate::base::options::Policy;

/// Most whole runs that one job merges.
const MAX_FAN: usize = 64;

/// A shape with what the policies ask of it again and again. Busy is what is marked here, so that [`debt`] can look past the jobs
/// that run.
struct View<'a> {
    shape: &'a Shape,
    sizes: Vec<u64>,
    busy: Vec<Vec<bool>>,
}

impl<'a> View<'a> {
    fn new(shape: &'a Shape, heed_busy: bool) -> View<'a> {
        let busy = shape.runs.iter().map(|r| r.tables.iter().map(|t| heed_busy && t.busy).collect()).collect();
        View { shape, sizes: shape.runs.iter().map(RunShape::size).collect(), busy }
    }

    fn len(&self) -> usize {
        self.sizes.len()
    }

    fn run(&self, r: usize) -> &'a RunShape {
        &self.shape.runs[r]
    }

    fn table(&self, r: usize, t: usize) -> &'a TableShape {
        &self.shape.runs[r].tables[t]
    }

    fn size_of(&self, runs: Range<usize>) -> u64 {
        self.sizes[runs].iter().sum()
    }

    /// The size that counts when runs are compared: what is smaller than a memtable counts as one.
    fn weight(&self, r: usize) -> u64 {
        self.sizes[r].max(self.shape.memtable_size)
    }

    /// The weight of the oldest run; 0 when there is none.
    fn oldest_weight(&self) -> f64 {
        self.len().checked_sub(1).map_or(0, |r| self.weight(r)) as f64
    }

    /// Whether any table of the run is busy.
    fn is_busy(&self, r: usize) -> bool {
        self.busy[r].contains(&true)
    }

    fn any_busy(&self, runs: Range<usize>) -> bool {
        runs.into_iter().any(|r| self.is_busy(r))
    }

    /// The runs of each level, as ranges of run indexes, ascending.
    fn levels(&self) -> Vec<(u8, Range<usize>)> {
        let mut levels: Vec<(u8, Range<usize>)> = Vec::new();
        for (i, run) in self.shape.runs.iter().enumerate() {
            match levels.last_mut() {
                Some((level, range)) if *level == run.level => range.end = i + 1,
                _ => levels.push((run.level, i..i + 1)),
            }
        }
        levels
    }

    fn input(&self, r: usize, tables: Range<usize>) -> Input {
        let run = self.run(r);
        Input { level: run.level, run: run.number, tables: run.tables[tables].iter().map(|t| t.id).collect() }
    }

    fn cuts(&self) -> Cuts {
        Cuts { size: self.shape.table_size, at: Vec::new() }
    }

    /// Where the merge of whole runs, of which `oldest` is the last, goes: one level further down if the order allows it, else
    /// in the place of `oldest`. So the level of a run says how often its data have been merged.
    fn below(&self, oldest: usize) -> Place {
        let Place { level, number } = self.run(oldest).place();
        let down = Place { level: level.saturating_add(1), number };
        let fits = self.shape.runs.get(oldest + 1).is_none_or(|next| down < next.place());
        if level < MAX_LEVEL && fits { down } else { Place { level, number } }
    }

    /// The merge of all tables of neighbouring runs, or their move when they do not overlap.
    fn whole(&self, runs: RangeInclusive<usize>, output: Place, reason: Reason, score: f64) -> Job {
        let tables: Vec<&TableShape> = self.shape.runs[runs.clone()].iter().flat_map(|r| r.tables.iter()).collect();
        let bytes: u64 = tables.iter().map(|t| t.size).sum();
        let small = bytes / tables.len().max(1) as u64 * 4 < self.shape.table_size.min(self.shape.memtable_size);
        let dense = *runs.end() + 1 == self.len() && tables.iter().any(|t| t.is_dense());
        let apart = !small && !dense && shape::first_overlap(&tables).is_none();
        Job {
            reason,
            action: if apart { Action::Move } else { Action::Merge },
            inputs: runs.map(|r| self.input(r, 0..self.run(r).tables.len())).collect(),
            output_level: output.level,
            output_run: output.number,
            cuts: self.cuts(),
            score,
        }
    }

    /// Pushes neighbouring tables of run `from` into run `to`, or into `output` where there is no run yet.
    fn push(
        &self,
        from: usize,
        tables: Range<usize>,
        to: Option<usize>,
        output: Place,
        reason: Reason,
        score: f64,
    ) -> Option<Job> {
        let taken = &self.run(from).tables[tables.clone()];
        let (lo, hi) = shape::hull(taken.iter())?;
        let beneath = to.map_or(0..0, |k| self.run(k).overlapping(lo, hi));
        let bottom = self.shape.runs[from + 1..].iter().all(|r| r.overlapping(lo, hi).is_empty());
        let purge = bottom && taken.iter().any(TableShape::is_dense);
        let mut inputs = vec![self.input(from, tables)];
        if let (Some(k), false) = (to, beneath.is_empty()) {
            inputs.push(self.input(k, beneath));
        }
        let action = if inputs.len() == 1 && !purge { Action::Move } else { Action::Merge };
        Some(Job { reason, action, inputs, output_level: output.level, output_run: output.number, cuts: self.cuts(), score })
    }

    fn admits(&self, job: &Job) -> bool {
        job.check_with(self.shape, &|r, t| self.busy[r][t]).is_ok()
    }

    fn mark(&mut self, job: &Job) {
        for input in &job.inputs {
            let place = Place { level: input.level, number: input.run };
            let at = self.shape.runs.partition_point(|r| r.place() < place);
            let Some(run) = self.shape.runs.get(at) else { continue };
            let taken: HashSet<u64> = input.tables.iter().copied().collect();
            for (t, table) in run.tables.iter().enumerate() {
                self.busy[at][t] |= taken.contains(&table.id);
            }
        }
    }

    /// Share of the runs' entries that lie in tables which are mostly deletes.
    fn density(&self, runs: Range<usize>) -> f64 {
        let tables = || self.shape.runs[runs.clone()].iter().flat_map(|r| r.tables.iter());
        let all: u64 = tables().map(|t| t.entries).sum();
        let dense: u64 = tables().filter(|t| t.is_dense()).map(|t| t.entries).sum();
        if all == 0 { 0.0 } else { dense as f64 / all as f64 }
    }
}

/// The longest bucket of runs that ends, on its old side, at `oldest`: walking towards newer runs down to `newest`, `compare`
/// says of each whether it is alike (a member), smaller than the members (taken along if a member follows) or larger (the end).
/// Returns the newest run of the bucket and the number of its members.
fn bucket(
    view: &View<'_>,
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

/// The cheapest merge of `want` neighbouring runs of `runs` (fewer, if there are not so many together that are not busy).
fn cheapest(view: &View<'_>, runs: Range<usize>, want: usize) -> Option<RangeInclusive<usize>> {
    (2..=want.min(runs.len())).rev().find_map(|n| {
        (runs.start..=runs.end - n)
            .filter(|&i| !view.any_busy(i..i + n))
            .min_by_key(|&i| view.size_of(i..i + n))
            .map(|i| i..=i + n - 1)
    })
}

/// The bound of space of the policies that merge whole runs: when the runs newer than the oldest hold more than `most` bytes
/// together, much of the tree may be dead, and all of it is merged; first in parts, if it has more than `fan` runs. `output` says
/// where a merge goes by the oldest of its runs.
fn space_job(view: &View<'_>, most: f64, fan: usize, output: impl Fn(usize) -> Place) -> Option<Job> {
    let n = view.len();
    // Small jobs on new runs may always be running: they are left out, not waited for.
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
    Some(view.whole(runs, output, Reason::Space, score))
}

/// The merge that is made because there are `limit` runs or more, whatever their sizes.
fn crowd_job(view: &View<'_>, runs: Range<usize>, limit: usize, want: usize) -> Option<Job> {
    if runs.len() < limit.max(2) {
        return None;
    }
    let score = runs.len() as f64 / limit as f64;
    let chosen = cheapest(view, runs, want.clamp(2, MAX_FAN))?;
    let output = view.below(*chosen.end());
    Some(view.whole(chosen, output, Reason::RunCount, score))
}

/// The number of times that `n` can be divided by `by` before it is 0; 0 for 0.
fn magnitude(n: u64, by: u64) -> usize {
    n.checked_ilog(by.max(2)).map_or(0, |log| log as usize + 1)
}

/// All that the policy wants done, in no order.
fn wishes(policy: &Policy, view: &View<'_>) -> Vec<Job> {
    let mut jobs = match policy {
        Policy::Tiered { min_runs, max_runs, bucket } => tiered::wishes(view, *min_runs as usize, *max_runs as usize, *bucket),
        Policy::Leveled { level0_runs, ratio, base, movement } => {
            leveled::wishes(view, *level0_runs as usize, *ratio, *base, *movement)
        }
        Policy::LazyLeveled { ratio } => lazy::wishes(view, *ratio as usize),
        Policy::Unified { scaling, .. } => unified::wishes(view, scaling),
        Policy::TimeWindow { window_secs, min_runs } => window::wishes(view, *window_secs, *min_runs as usize),
        Policy::Fifo { max_bytes, max_age_secs } => fifo::wishes(view, *max_bytes, *max_age_secs),
    };
    jobs.extend(expired::wishes(view));
    jobs.extend(match policy {
        Policy::TimeWindow { window_secs, .. } => deletes::wishes(view, &window::apart(view, *window_secs)),
        Policy::Fifo { .. } => vec![],
        _ => deletes::wishes(view, &|_, _| false),
    });
    jobs
}

fn pick_in(policy: &Policy, view: &View<'_>) -> Option<Job> {
    let mut jobs = wishes(policy, view);
    // Stable: of equally urgent jobs the first wish wins.
    jobs.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut job = jobs.into_iter().find(|job| view.admits(job))?;
    cut(policy, view.shape, &mut job);
    Some(job)
}

/// Gives the job the cuts of the policy.
fn cut(policy: &Policy, shape: &Shape, job: &mut Job) {
    if let Policy::Unified { target_table, base_shards, .. } = policy {
        job.cuts = unified::cuts(shape, job, *target_table, *base_shards);
    }
}

/// The most urgent job that can start now, besides those whose inputs are busy; `None` when there is none. To start jobs in
/// parallel, mark the inputs ([`Shape::set_busy`]) and call again.
pub fn pick(policy: &Policy, shape: &Shape) -> Option<Job> {
    pick_in(policy, &View::new(shape, true))
}

/// Estimate, in bytes of input, of what must be rewritten until the policy is content, jobs that are running included. Moves and
/// drops cost nothing. 0 when the policy is content.
pub fn debt(policy: &Policy, shape: &Shape) -> u64 {
    let mut view = View::new(shape, false);
    let mut bytes = 0;
    // What wants to run now. What that will lead to is not foreseen, except by the leveled policy, where it is the larger part.
    let jobs = if matches!(policy, Policy::Leveled { .. }) { 1 } else { MAX_FAN };
    for _ in 0..jobs {
        let Some(job) = pick_in(policy, &view) else { break };
        bytes += job.rewritten(shape);
        view.mark(&job);
    }
    match policy {
        Policy::Leveled { level0_runs, ratio, base, .. } => {
            bytes.max(leveled::debt(&view, *level0_runs as usize, *ratio, *base))
        }
        _ => bytes,
    }
}

/// The numbers of runs, to be compared with `shape.runs.len()`, at which writes are slowed and stopped. A tree with as many as
/// the first has work that can be picked or is running.
pub fn run_limits(policy: &Policy, shape: &Shape) -> (usize, usize) {
    let view = View::new(shape, false);
    let soft = match policy {
        Policy::Tiered { min_runs, .. } => tiered::crowd(&view, 0..view.len(), *min_runs as usize),
        Policy::Leveled { level0_runs, .. } => leveled::crowd(&view, *level0_runs as usize),
        Policy::LazyLeveled { ratio } => lazy::crowd(&view, *ratio as usize),
        Policy::Unified { scaling, .. } => unified::crowd(&view, scaling),
        Policy::TimeWindow { window_secs, min_runs } => window::crowd(&view, *window_secs, *min_runs as usize),
        Policy::Fifo { .. } => return (usize::MAX, usize::MAX),
    };
    (soft, soft * 2 + 4)
}

/// A job is running where [`manual`] wants to work: call again when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked;

/// The full compaction of the keys in `range` (bounds inclusive; `None` for all): one job that merges every table with keys of
/// it, and what must come along to keep the order, into the oldest of their runs. `None` when that would change nothing: when
/// those tables lie in one run already and have no deletes. With `force` they are rewritten even so (another compression, a
/// changed `Purge`). It does not mind the policy, except for how outputs are cut; `Fifo` never merges, so it has `None`.
///
/// # Errors
/// [`Blocked`] when a busy table is in the way.
pub fn manual(policy: &Policy, shape: &Shape, range: Option<(&[u8], &[u8])>, force: bool) -> Result<Option<Job>, Blocked> {
    if matches!(policy, Policy::Fifo { .. }) {
        return Ok(None);
    }
    let view = View::new(shape, true);
    let Some((lo, hi)) = shape::hull(shape.tables()) else { return Ok(None) };
    let mut covered: KeyRange = range.map_or((lo.clone(), hi.clone()), |(lo, hi)| (lo.into(), hi.into()));
    let mut picked: Vec<(usize, Range<usize>)> = Vec::new();
    for (r, run) in shape.runs.iter().enumerate() {
        let tables = run.overlapping(&covered.0, &covered.1);
        if let Some((lo, hi)) = shape::hull(run.tables[tables.clone()].iter()) {
            covered = (covered.0.min(lo.clone()), covered.1.max(hi.clone()));
            picked.push((r, tables));
        }
    }
    let Some(&(oldest, _)) = picked.last() else { return Ok(None) };
    if let ([(r, tables)], false) = (&mut picked[..], force) {
        let dirty = |t: &TableShape| t.deletes > 0 || t.range_deletes > 0;
        let all = &view.run(*r).tables[tables.clone()];
        let Some(first) = all.iter().position(dirty) else { return Ok(None) };
        let last = all.iter().rposition(dirty).unwrap_or(first);
        *tables = tables.start + first..tables.start + last + 1;
    }
    let run = view.run(oldest);
    let whole = picked.last().is_some_and(|(_, tables)| tables.len() == run.tables.len());
    let output = if whole && run.level == 0 { view.below(oldest) } else { run.place() };
    let mut job = Job {
        reason: Reason::Manual,
        action: Action::Merge,
        inputs: picked.into_iter().map(|(r, tables)| view.input(r, tables)).collect(),
        output_level: output.level,
        output_run: output.number,
        cuts: view.cuts(),
        score: 1.0,
    };
    cut(policy, shape, &mut job);
    if view.admits(&job) { Ok(Some(job)) } else { Err(Blocked) }
}
