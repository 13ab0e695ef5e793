//! Merges for value files that are given up, common to all policies that merge.
//!
//! Where too much of a tree's value files is garbage, those with most of it are given up, and what
//! tables still refer to in them is written again: by any merge that comes by, and else by one that
//! is made for it.
//!
//! *Trigger* a table that refers to such a file; *granularity* neighbours of a run that do, up to a
//! table's size of them, or else one; *movement* none: they are written again where they are.

use super::shape::{CompactionJob, Reason};
use super::view::ShapeView;

/// How urgent it is: more than what has just become due, less than what is long overdue.
const SCORE: f64 = 1.5;

/// The merges that are wanted.
pub(super) fn wishes(view: &ShapeView<'_>) -> Vec<CompactionJob> {
    let mut jobs = vec![];
    for r in 0..view.len() {
        let run = view.run(r);
        let Some(first) = run.tables.iter().position(|t| t.stale && !t.busy) else { continue };
        let mut size = 0;
        let taken = run.tables[first..].iter().take_while(|t| {
            let goes = t.stale && !t.busy && (size == 0 || size < view.shape.table_size);
            size += t.size;
            goes
        });
        let tables = first..first + taken.count();
        jobs.push(view.merge(&[(r, tables)], run.place(), Reason::Values, SCORE));
    }
    jobs
}
