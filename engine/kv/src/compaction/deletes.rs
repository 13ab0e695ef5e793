//! The bound on the age of deletes, common to all policies that merge.
//!
//! A table whose oldest delete is older than `tombstone_age_secs` is pushed into the next older run
//! that it overlaps, with what it overlaps there; and again from there, until nothing lies beneath
//! and the delete vanishes. At the bottom the table is rewritten alone, and not again before a
//! quarter of the bound has passed. What a snapshot holds back waits for it to go
//! ([`TableShape::held_back`]). A `Purge` hook may hold deletes back, too, and says not for how long:
//! each try waits as long again as the delete was overdue at the one before, so that a delete is
//! rewritten a few times only, however long that takes beside the bound.
//!
//! A policy may say of runs that nothing passes from one to the other, as `TimeWindow` does of
//! windows: there the bound holds for what lies in one window, and at the bottom.
//!
//! A policy may share the bound out over its levels, as `Fade` does: then a delete goes down from
//! each when its share has passed.
//!
//! *Trigger* age; *granularity* one table; *movement* the oldest delete first. Scores 2 and more.

use super::shape::{Action, CompactionJob, CompactionReason, LsmShape};
use super::tables::TableShape;
use super::view::PickContext;

/// How many overdue tables are offered at once; jobs that run may stand in the way of some.
const MOST: usize = 16;

/// `is_barrier` says of two runs that data may not pass from one to the other; `share` of a run, after
/// which share of the bound its deletes have to go.
pub(super) fn candidate_jobs(
    view: &PickContext<'_>,
    is_barrier: &dyn Fn(usize, usize) -> bool,
    share: &dyn Fn(usize) -> f64,
) -> Vec<CompactionJob> {
    let limit = view.shape.tombstone_age_secs.saturating_mul(1_000_000);
    if limit == 0 {
        return Vec::new();
    }
    let now = view.shape.now_micros;
    let age = |since: u64| now.saturating_sub(since);
    let mut overdue: Vec<(u64, usize, usize)> = Vec::new();
    let limits: Vec<u64> =
        (0..view.len()).map(|r| (limit as f64 * share(r).clamp(0.0, 1.0)) as u64).collect();
    for (r, run) in view.shape.runs.iter().enumerate() {
        if run.tables.sums().oldest_tombstone_micros.is_none_or(|s| age(s) <= limits[r]) {
            continue;
        }
        for (t, table) in run.tables.iter().enumerate() {
            if let Some(since) = table
                .oldest_tombstone_micros
                .filter(|&s| age(s) > limits[r] && !view.is_table_busy(r, t))
            {
                overdue.push((since, r, t));
            }
        }
    }
    // At equal age the one that lies deeper: what is above it can then follow.
    overdue.sort_by_key(|&(since, r, t)| (since, std::cmp::Reverse(r), t));
    let score = |since: u64, r: usize| 1.0 + age(since) as f64 / limits[r].max(1) as f64;
    overdue
        .into_iter()
        .filter_map(|(since, r, t)| {
            let table = view.table(r, t);
            let next = (r + 1..view.len())
                .find(|&k| !view.run(k).overlapping(&table.first, &table.last).is_empty());
            let score = score(since, r);
            match next {
                Some(k) if is_barrier(r, k) => None,
                Some(k) => push(view, r, t, Some(k), score),
                None if !may_go(view.shape, table, since.saturating_add(limits[r])) => None,
                None => {
                    let mut job = push(view, r, t, None, score)?;
                    job.action = Action::Merge;
                    Some(job)
                }
            }
        })
        .take(MOST)
        .collect()
}

/// Pushes a table into run `next`, or to where it is.
fn push(
    view: &PickContext<'_>,
    r: usize,
    t: usize,
    next: Option<usize>,
    score: f64,
) -> Option<CompactionJob> {
    let place = view.run(next.unwrap_or(r)).place();
    view.push(r, t..t + 1, next, place, CompactionReason::TombstoneAge, score)
}

/// Whether a table at the bottom may be rid of its deletes now, of which the oldest had to go at
/// `due`.
fn may_go(shape: &LsmShape, table: &TableShape, due: u64) -> bool {
    let quarter = shape.tombstone_age_secs.saturating_mul(250_000);
    let waited = shape.now_micros.saturating_sub(table.created_micros);
    if shape.tied {
        waited > quarter.max(table.created_micros.saturating_sub(due))
    } else {
        waited > quarter && !table.held_back
    }
}
