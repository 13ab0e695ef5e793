//! Picks the most urgent [`CompactionJob`] for a [`LsmShape`] and its policy. Also estimates the
//! pending bytes and returns the limits on the number of runs.
//!
//! `deletes`, `readers` and `values` are rules of all policies that merge; `expired` is a rule of
//! all policies.
//!
//! Invariants:
//!
//! 1. Every returned job has passed [`CompactionJob::check`] on the shape that it was made from.
//! 2. From any legal shape, finitely many jobs lead to a shape with no compaction due, while
//!    nothing is flushed. A read-triggered compaction uses up the cost that readers have paid. So a
//!    tree may be opened with a policy other than the one that shaped it.
//! 3. A shape with no compaction due has no debt, and fewer runs than the soft limit of
//!    [`run_limits`]. So delayed writers never wait for work that no thread will do.
//! 4. A merge does not rewrite a table that overlaps no other input. Exceptions: a small table that
//!    should be joined with its neighbours, and one with mostly tombstones that the merge would
//!    drop. A merge that would rewrite no table becomes a
//!    [`Action::Move`](super::job::Action::Move).

use crate::util::sort::sort_by;
use std::collections::HashSet;

use super::adopt::{Picked, adopt, adopted};
use super::custom::ActivePolicy;
use super::job::{CompactionJob, CompactionReason};
use super::shape::{self, LsmShape, ShapePlace, TableKeys, TableShape};
use super::strategy::Strategy;
use super::view::{MAX_FAN, PickContext};
use super::{deletes, expired, readers, values};

/// Returns all jobs that the policy and the common rules want, in no order.
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

/// Returns the most urgent job that can start, without the output splits of the policy.
fn pick_in(policy: &dyn Strategy, view: &PickContext<'_>) -> Option<CompactionJob> {
    let mut jobs = candidate_jobs(policy, view);
    // Stable: of equally urgent jobs the first one wins.
    sort_by(&mut jobs, |a, b| b.score.total_cmp(&a.score));
    jobs.into_iter().find(|job| view.admits(job))
}

/// Sets the policy's output splits for the job.
fn cut(policy: &dyn Strategy, shape: &LsmShape, job: &mut CompactionJob) {
    if let Some(cuts) = policy.cuts(shape, job) {
        job.cuts = cuts;
    }
}

/// Returns the most urgent job that can start now, or `None`. Jobs whose inputs are busy are
/// skipped. To start jobs in parallel, mark the inputs ([`LsmShape::set_busy`]) and call again.
///
/// If the policy has no job, this may return a read-triggered compaction. It is not part of any
/// [`debt`] and does not slow writers.
pub fn pick<'a>(policy: impl Into<ActivePolicy<'a>>, shape: &LsmShape) -> Option<CompactionJob> {
    policy.into().decide(|policy| pick_by(policy, shape))
}

fn pick_by(policy: &dyn Strategy, shape: &LsmShape) -> Option<CompactionJob> {
    let view = PickContext::new(shape, true);
    let read_triggered = || readers::pick_compaction(policy, &view).filter(|job| view.admits(job));
    let mut job = pick_in(policy, &view).or_else(read_triggered)?;
    cut(policy, shape, &mut job);
    Some(job)
}

/// Estimates the bytes of input that must be rewritten until no compaction is due, including
/// running jobs. Moves and drops cost nothing. Returns 0 when no compaction is due.
pub fn debt<'a>(policy: impl Into<ActivePolicy<'a>>, shape: &LsmShape) -> u64 {
    policy.into().decide(|policy| debt_in(policy, shape))
}

fn debt_in(policy: &dyn Strategy, shape: &LsmShape) -> u64 {
    let mut view = PickContext::new(shape, false);
    let mut bytes = 0;
    // Sum the jobs that are due now. Only some policies can predict the jobs that follow from them.
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

/// Returns the numbers of runs at which writes are slowed and stopped, to compare with
/// `shape.runs.len()`. A tree that has reached the first number has a job that is running or can be
/// picked.
pub fn run_limits<'a>(policy: impl Into<ActivePolicy<'a>>, shape: &LsmShape) -> (usize, usize) {
    let view = PickContext::new(shape, false);
    let slowdown_run_count = policy.into().decide(|policy| policy.slowdown_run_count(&view));
    let limits = |soft: usize| (soft, soft.saturating_mul(2).saturating_add(4));
    slowdown_run_count.map_or((usize::MAX, usize::MAX), limits)
}

/// Error: a running job blocks [`manual`]. Call again when that job is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked;

/// Returns the full compaction of the keys in `range` (bounds inclusive; `None` for all keys). The
/// job merges every table with keys of the range into the oldest of their runs. It also takes the
/// tables that are needed to preserve the order of versions.
///
/// The merge adopts a table unchanged if the table overlaps no other and `is_up_to_date` holds.
/// `is_up_to_date` reports whether rewriting the table alone into the given level would change
/// nothing.
///
/// Returns `None` if the tables are in one run and all of them satisfy `is_up_to_date`. Ignores the
/// policy except for output splits, and returns `None` for a policy that never merges.
///
/// # Errors
/// [`Blocked`] if an input or a table in its range is busy.
pub fn manual<'a>(
    policy: impl Into<ActivePolicy<'a>>,
    shape: &LsmShape,
    range: Option<(&[u8], &[u8])>,
    is_up_to_date: &dyn Fn(&TableShape, u8) -> bool,
) -> Result<Option<CompactionJob>, Blocked> {
    policy.into().decide(|policy| manual_in(policy, shape, range, is_up_to_date))
}

fn manual_in(
    policy: &dyn Strategy,
    shape: &LsmShape,
    range: Option<(&[u8], &[u8])>,
    is_up_to_date: &dyn Fn(&TableShape, u8) -> bool,
) -> Result<Option<CompactionJob>, Blocked> {
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
        let up_to_date = |t: &TableShape| is_up_to_date(t, run.level);
        let stay: HashSet<u64> = adopted(shape, &job.cuts.at, &[(*r, tables.clone())], &up_to_date)
            .into_iter()
            .collect();
        let is_new = |t: &TableShape| !stay.contains(&t.id);
        let all = &run.tables[tables.clone()];
        let Some(first) = all.iter().position(is_new) else { return Ok(None) };
        let last = all.iter().rposition(is_new).unwrap_or(first);
        *tables = tables.start + first..tables.start + last + 1;
    }
    let whole = picked.last().is_some_and(|(_, tables)| tables.len() == run.tables.len());
    let output = if whole && run.level == 0 { view.below(oldest) } else { run.place() };
    let up_to_date = |t: &TableShape| is_up_to_date(t, output.level);
    let job = adopt(shape, merge(&picked, output), &picked, &up_to_date);
    if view.admits(&job) { Ok(Some(job)) } else { Err(Blocked) }
}
