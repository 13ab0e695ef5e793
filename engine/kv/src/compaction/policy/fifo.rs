//! First in, first out.
//!
//! - *Trigger*: the tree is larger than `max_bytes`, or a table's newest data are older than `max_age_secs`; 0 means no bound.
//! - *Layout*: as flushed. Nothing is merged, so the number of runs is not bounded but by the size.
//! - *Granularity*: tables.
//! - *Movement*: dropped, from the oldest run on; within a run the one with the oldest data first. Never a table that has something
//!   older beneath it that stays.

use std::collections::HashSet;

use super::View;
use crate::compaction::shape::{Action, Input, Job, Reason};

pub(super) fn wishes(view: &View<'_>, max_bytes: u64, max_age_secs: u64) -> Vec<Job> {
    let total = view.size_of(0..view.len());
    let horizon = view.shape.now_micros.saturating_sub(max_age_secs.saturating_mul(1_000_000));
    let mut jobs = Vec::new();
    if max_age_secs > 0 {
        let gone = oldest_first(view, |_, newest| newest < horizon);
        jobs.extend(drop_job(view, &gone, Reason::TooOld, 2.0));
    }
    if max_bytes > 0 && total > max_bytes {
        let mut left = total;
        let gone = oldest_first(view, |size, _| {
            let more = left > max_bytes;
            left -= if more { size } else { 0 };
            more
        });
        jobs.extend(drop_job(view, &gone, Reason::TooLarge, total as f64 / max_bytes as f64));
    }
    jobs
}

/// Ids of the tables that may go and that `wanted` (size, time of the newest data) asks for, oldest first.
fn oldest_first(view: &View<'_>, mut wanted: impl FnMut(u64, u64) -> bool) -> HashSet<u64> {
    let mut gone = HashSet::new();
    for r in (0..view.len()).rev() {
        let mut order: Vec<usize> = (0..view.run(r).tables.len()).collect();
        order.sort_by_key(|&t| (view.table(r, t).newest_micros, view.table(r, t).id));
        for t in order {
            let table = view.table(r, t);
            let beneath = |run: &crate::compaction::shape::RunShape| {
                run.tables[run.overlapping(&table.first, &table.last)].iter().any(|o| !gone.contains(&o.id))
            };
            let free = !view.busy[r][t] && !view.shape.runs[r + 1..].iter().any(beneath);
            if free && wanted(table.size, table.newest_micros) {
                gone.insert(table.id);
            }
        }
    }
    gone
}

fn drop_job(view: &View<'_>, gone: &HashSet<u64>, reason: Reason, score: f64) -> Option<Job> {
    let mut inputs: Vec<Input> = Vec::new();
    for run in &view.shape.runs {
        let tables: Vec<u64> = run.tables.iter().map(|t| t.id).filter(|id| gone.contains(id)).collect();
        if !tables.is_empty() {
            inputs.push(Input { level: run.level, run: run.number, tables });
        }
    }
    let (output_level, output_run) = inputs.last().map(|i| (i.level, i.run))?;
    Some(Job { reason, action: Action::Drop, inputs, output_level, output_run, cuts: view.cuts(), score })
}
