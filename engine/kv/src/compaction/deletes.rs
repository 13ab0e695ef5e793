//! Bound on the age of tombstones, common to all policies that merge.
//!
//! A table whose oldest tombstone is older than `tombstone_age_secs` is pushed into the next older
//! run that it overlaps, together with the overlapping tables there. This repeats until no older
//! run overlaps and the tombstone is dropped. At the bottom the table is rewritten alone, but not
//! again within a quarter of the bound.
//!
//! A tombstone that a snapshot holds back waits for the release of the snapshot
//! ([`TableShape::held_back`]). A compaction filter may hold tombstones back too, for an unknown
//! time. Then each retry waits as long again as the tombstone was overdue at the previous try. So a
//! tombstone is rewritten only a few times, however long the filter retains it.
//!
//! A policy may forbid data to pass between two runs, as `TimeWindow` does for windows. Then the
//! bound holds within a window and at the bottom.
//!
//! A policy may divide the bound among its levels, as `Fade` does. Then a tombstone leaves a level
//! when the level's share has passed.
//!
//! *Trigger* age. *Granularity* one table. *Movement* the oldest tombstone first. Scores are 2 or
//! more.

use super::job::{Action, CompactionJob, CompactionReason};
use super::shape::LsmShape;
use super::tables::TableShape;
use super::view::PickContext;
use crate::util::sort::sort_by_key;

/// Maximum number of overdue tables offered at once; running jobs may block some of them.
const MOST: usize = 16;

/// Returns the jobs that push overdue tombstones down. `is_barrier` reports whether data must not
/// pass from one run to another. `share` returns the share of the bound after which tombstones must
/// leave a run.
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
    // At equal age the deeper table first, so the tables above it can follow.
    sort_by_key(&mut overdue, |&(since, r, t)| (since, std::cmp::Reverse(r), t));
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

/// Pushes a table into run `next`, or rewrites it in place.
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

/// Reports whether a bottom-level table may be rewritten now to drop its tombstones. The oldest of
/// them had to be dropped at `due`.
fn may_go(shape: &LsmShape, table: &TableShape, due: u64) -> bool {
    let quarter = shape.tombstone_age_secs.saturating_mul(250_000);
    let waited = shape.now_micros.saturating_sub(table.created_micros);
    if shape.has_compaction_filter {
        waited > quarter.max(table.created_micros.saturating_sub(due))
    } else {
        waited > quarter && !table.held_back
    }
}
