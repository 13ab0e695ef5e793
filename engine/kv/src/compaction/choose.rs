//! The choice: from a [`LsmShape`] and its policy to the most urgent [`CompactionJob`], what there
//! is to do in all, and how many runs are too many.
//!
//! `deletes`, `readers` and `values` are common to all policies that merge, `expired` to all.
//!
//! Invariants:
//!
//! 1. Every job that leaves here has passed [`CompactionJob::check`] on the shape that it was made
//!    from.
//! 2. From any legal shape, finitely many jobs lead to a shape with which the policy is content,
//!    while nothing is flushed (and a merge for readers uses up what they have paid). So a tree may
//!    be opened with another policy than the one that shaped it.
//! 3. A content shape has no debt, and fewer runs than the soft limit of [`run_limits`]: pacing by
//!    them never ends in a tree that waits for work that nobody will do.
//! 4. A merge writes no table again that overlaps no other, unless it is small and should grow
//!    together with its neighbours, or is mostly deletes that the merge would get rid of; one that
//!    would write none is a [`Action::Move`](super::shape::Action::Move).

use std::collections::HashSet;

use super::adopt::{Picked, adopt, adopted};
use super::policy::Policy;
use super::shape::{
    self, CompactionJob, CompactionReason, LsmShape, ShapePlace, TableKeys, TableShape,
};
use super::strategy::Strategy;
use super::view::{MAX_FAN, PickContext};
use super::{deletes, expired, readers, values};

/// All that the policy wants done, in no order.
fn candidate_jobs(policy: &dyn Strategy, view: &PickContext<'_>) -> Vec<CompactionJob> {
    let mut jobs = policy.candidate_jobs(view);
    jobs.extend(expired::candidate_jobs(view));
    if policy.merges() {
        jobs.extend(values::candidate_jobs(view));
        jobs.extend(deletes::candidate_jobs(view, &*policy.is_barrier(view), &|r| {
            policy.age_share(view, r)
        }));
    }
    jobs
}

/// The most urgent of them that can start, not yet cut as the policy has it.
fn pick_in(policy: &dyn Strategy, view: &PickContext<'_>) -> Option<CompactionJob> {
    let mut jobs = candidate_jobs(policy, view);
    // Stable: of equally urgent jobs the first wish wins.
    jobs.sort_by(|a, b| b.score.total_cmp(&a.score));
    jobs.into_iter().find(|job| view.admits(job))
}

/// Gives the job the cuts of the policy.
fn cut(policy: &dyn Strategy, shape: &LsmShape, job: &mut CompactionJob) {
    if let Some(cuts) = policy.cuts(shape, job) {
        job.cuts = cuts;
    }
}

/// The most urgent job that can start now, besides those whose inputs are busy; `None` when there
/// is none. To start jobs in parallel, mark the inputs ([`LsmShape::set_busy`]) and call again.
///
/// Where the policy wants nothing it may be one that readers have paid for: not part of any
/// [`debt`], and no reason to slow writers.
pub fn pick(policy: &Policy, shape: &LsmShape) -> Option<CompactionJob> {
    let (policy, view) = (policy.strategy(), PickContext::new(shape, true));
    let for_readers = || readers::pick_compaction(policy, &view).filter(|job| view.admits(job));
    let mut job = pick_in(policy, &view).or_else(for_readers)?;
    cut(policy, shape, &mut job);
    Some(job)
}

/// Estimate, in bytes of input, of what must be rewritten until the policy is content, jobs that
/// are running included. Moves and drops cost nothing. 0 when the policy is content.
pub fn debt(policy: &Policy, shape: &LsmShape) -> u64 {
    let policy = policy.strategy();
    let mut view = PickContext::new(shape, false);
    let mut bytes = 0;
    // What wants to run now. What that will lead to only some policies foresee.
    for _ in 0..MAX_FAN {
        let job = pick_in(policy, &view);
        if let Some(job) = &job {
            bytes += job.rewritten(shape);
            view.mark(job);
        }
        if let Some(pending_bytes) = policy.pending_bytes(&view) {
            return bytes.max(pending_bytes);
        }
        if job.is_none() {
            break;
        }
    }
    bytes
}

/// The numbers of runs, to be compared with `shape.runs.len()`, at which writes are slowed and
/// stopped. A tree with as many as the first has work that can be picked or is running.
pub fn run_limits(policy: &Policy, shape: &LsmShape) -> (usize, usize) {
    let slowdown_run_count = policy.strategy().slowdown_run_count(&PickContext::new(shape, false));
    slowdown_run_count.map_or((usize::MAX, usize::MAX), |soft| (soft, soft * 2 + 4))
}

/// A job is running where [`manual`] wants to work: call again when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked;

/// The full compaction of the keys in `range` (bounds inclusive; `None` for all): one job that
/// brings every table with keys of it, and what must come along to keep the order, into the oldest
/// of their runs. A table is adopted as it is when it overlaps no other and `is_settled` says that
/// a merge of it alone, into the given level, would change nothing. `None` when there is nothing to
/// be done: when those tables lie in one run and are settled. It does not mind the policy, except
/// for how outputs are cut; one that never merges has `None`.
///
/// # Errors
/// [`Blocked`] when a busy table is in the way.
pub fn manual(
    policy: &Policy,
    shape: &LsmShape,
    range: Option<(&[u8], &[u8])>,
    is_settled: &dyn Fn(&TableShape, u8) -> bool,
) -> Result<Option<CompactionJob>, Blocked> {
    let policy = policy.strategy();
    if !policy.merges() {
        return Ok(None);
    }
    let view = PickContext::new(shape, true);
    let Some((lo, hi)) = shape::key_span(shape.tables()) else { return Ok(None) };
    let mut covered: TableKeys =
        range.map_or((lo.clone(), hi.clone()), |(lo, hi)| (lo.into(), hi.into()));
    let mut picked: Vec<Picked> = Vec::new();
    for (r, run) in shape.runs.iter().enumerate() {
        let tables = run.overlapping(&covered.0, &covered.1);
        if let Some((lo, hi)) = shape::key_span(run.tables[tables.clone()].iter()) {
            covered = (covered.0.min(lo.clone()), covered.1.max(hi.clone()));
            picked.push((r, tables));
        }
    }
    let Some(&(oldest, _)) = picked.last() else { return Ok(None) };
    let run = view.run(oldest);
    let merge = |picked: &[Picked], output: ShapePlace| {
        let mut job = view.merge(picked, output, CompactionReason::Manual, 1.0);
        cut(policy, shape, &mut job);
        job
    };
    if let [(r, tables)] = &mut picked[..] {
        let job = merge(&[(*r, tables.clone())], run.place());
        let settled = |t: &TableShape| is_settled(t, run.level);
        let stay: HashSet<u64> =
            adopted(shape, &job.cuts.at, &[(*r, tables.clone())], &settled).into_iter().collect();
        let is_new = |t: &TableShape| !stay.contains(&t.id);
        let all = &run.tables[tables.clone()];
        let Some(first) = all.iter().position(is_new) else { return Ok(None) };
        let last = all.iter().rposition(is_new).unwrap_or(first);
        *tables = tables.start + first..tables.start + last + 1;
    }
    let whole = picked.last().is_some_and(|(_, tables)| tables.len() == run.tables.len());
    let output = if whole && run.level == 0 { view.below(oldest) } else { run.place() };
    let settled = |t: &TableShape| is_settled(t, output.level);
    let job = adopt(shape, merge(&picked, output), &picked, &settled);
    if view.admits(&job) { Ok(Some(job)) } else { Err(Blocked) }
}
