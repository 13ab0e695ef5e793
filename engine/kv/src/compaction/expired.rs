//! Drops tables whose content has fully expired: a rule common to all policies.
//!
//! The compaction filter may report a time at which all entries of a table are expired
//! ([`CompactionFilter::expires_at`](crate::CompactionFilter::expires_at)). Such a table is dropped
//! without being read, once no older table overlaps it; otherwise the versions that it hides would
//! reappear. So data with a time to live frees its space window by window, although no policy
//! merges across windows.
//!
//! *Trigger* time. *Granularity* one table. *Movement* dropped, oldest run first.

use crate::util::sort::sort_by_key;
use std::collections::HashSet;
use std::ops::ControlFlow::{self, Break, Continue};

use super::job::{Action, CompactionInput, CompactionJob, CompactionReason};
use super::shape::{RunShape, TableShape};
use super::view::PickContext;

pub(super) fn candidate_jobs(view: &PickContext<'_>) -> Option<CompactionJob> {
    if !view.has_expired {
        return None;
    }
    // Before any merge, which would read and write these tables needlessly.
    let gone = oldest_first(view, |t| Continue(t.is_expired(view.shape.now_micros)));
    drop_job(view, &gone, CompactionReason::Expired, f64::from(u16::MAX))
}

/// Returns the ids of tables that may be dropped and that `wanted` selects, oldest first, until
/// `wanted` breaks. No older table that stays overlaps any of them.
pub(super) fn oldest_first(
    view: &PickContext<'_>,
    mut wanted: impl FnMut(&TableShape) -> ControlFlow<(), bool>,
) -> HashSet<u64> {
    let mut gone = HashSet::new();
    for r in (0..view.len()).rev() {
        let mut order: Vec<usize> = (0..view.run(r).tables.len()).collect();
        sort_by_key(&mut order, |&t| (view.table(r, t).newest_micros, view.table(r, t).id));
        for t in order {
            let table = view.table(r, t);
            let overlaps = |run: &RunShape| {
                run.tables[run.overlapping(&table.first, &table.last)]
                    .iter()
                    .any(|o| !gone.contains(&o.id))
            };
            let free = !view.is_table_busy(r, t)
                && !view.shape.runs[r + 1..].iter().any(|run| overlaps(run));
            if !free {
                continue;
            }
            match wanted(table) {
                Continue(true) => gone.insert(table.id),
                Continue(false) => continue,
                Break(()) => return gone,
            };
        }
    }
    gone
}

/// Returns the job that drops these tables, or `None` if there are none.
pub(super) fn drop_job(
    view: &PickContext<'_>,
    gone: &HashSet<u64>,
    reason: CompactionReason,
    score: f64,
) -> Option<CompactionJob> {
    if gone.is_empty() {
        return None;
    }
    let mut inputs: Vec<CompactionInput> = Vec::new();
    for run in &view.shape.runs {
        let tables: Vec<u64> =
            run.tables.iter().map(|t| t.id).filter(|id| gone.contains(id)).collect();
        if !tables.is_empty() {
            inputs.push(CompactionInput { level: run.level, run: run.number, tables });
        }
    }
    let (output_level, output_run) = inputs.last().map(|i| (i.level, i.run))?;
    Some(CompactionJob {
        reason,
        action: Action::Drop,
        inputs,
        adopted: Vec::new(),
        output_level,
        output_run,
        cuts: view.cuts(),
        score,
    })
}
