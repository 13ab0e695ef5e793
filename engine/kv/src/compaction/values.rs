//! Merges for value files that are given up, common to all policies that merge.
//!
//! Where too much of a tree's value files is garbage, those with most of it are given up, and what
//! tables still refer to in them is written again: by any merge that comes by, and else by one that
//! is made for it.
//!
//! *Trigger* a table that refers to such a file; *granularity* one table, so that nothing can come to
//! lie between what is taken; *movement* none: it is written again where it is.

use super::shape::{CompactionJob, Reason, TableShape};
use super::view::ShapeView;

/// How urgent it is: more than what has just become due, less than what is long overdue.
const SCORE: f64 = 1.5;

/// The merges that are wanted: of each run the first table that can be taken.
pub(super) fn wishes(view: &ShapeView<'_>) -> Vec<CompactionJob> {
    let wish = |r: usize| {
        let run = view.run(r);
        if !run.tables.sums().is_stale {
            return None;
        }
        let is_wanted =
            |(t, table): &(usize, &TableShape)| table.stale > 0 && !view.is_table_busy(r, *t);
        let (t, _) = run.tables.iter().enumerate().find(is_wanted)?;
        Some(view.merge(&[(r, t..t + 1)], run.place(), Reason::Values, SCORE))
    };
    (0..view.len()).filter_map(wish).collect()
}
