//! Tables whose whole content has expired: a rule common to all policies.
//!
//! A table of which the `Purge` hook says that nothing in it is wanted any more
//! ([`Purge::gone_at`](crate::Purge::gone_at)) is dropped without being read, as soon as nothing
//! older lies beneath it: what it hides would come back. So data with a time to live return their
//! space window by window, though no policy merges across windows.
//!
//! *Trigger* time; *granularity* one table; *movement* dropped, from the oldest run on.

use std::collections::HashSet;
use std::ops::ControlFlow::{self, Break, Continue};

use super::shape::{
    Action, CompactionInput, CompactionJob, CompactionReason, RunShape, TableShape,
};
use super::view::PickContext;

pub(super) fn candidate_jobs(view: &PickContext<'_>) -> Option<CompactionJob> {
    if !view.has_gone {
        return None;
    }
    // Before any merge, which would read and write what is dropped for nothing.
    let gone = oldest_first(view, |t| Continue(t.is_gone(view.shape.now_micros)));
    drop_job(view, &gone, CompactionReason::Expired, f64::from(u16::MAX))
}

/// Ids of the tables that may go and that `wanted` asks for, oldest first, until it breaks off. None
/// has anything beneath it that stays.
pub(super) fn oldest_first(
    view: &PickContext<'_>,
    mut wanted: impl FnMut(&TableShape) -> ControlFlow<(), bool>,
) -> HashSet<u64> {
    let mut gone = HashSet::new();
    for r in (0..view.len()).rev() {
        let mut order: Vec<usize> = (0..view.run(r).tables.len()).collect();
        order.sort_by_key(|&t| (view.table(r, t).newest_micros, view.table(r, t).id));
        for t in order {
            let table = view.table(r, t);
            let beneath = |run: &RunShape| {
                run.tables[run.overlapping(&table.first, &table.last)]
                    .iter()
                    .any(|o| !gone.contains(&o.id))
            };
            let free = !view.is_table_busy(r, t)
                && !view.shape.runs[r + 1..].iter().any(|run| beneath(run));
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

/// The job that drops them.
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
