//! Finds the inputs of a merge that need not be rewritten: the output run adopts them unchanged.
//!
//! A table may be adopted if it overlaps no other input and rewriting it would bring no benefit. A
//! rewrite is of benefit if the table has mostly tombstones and no older table overlaps it. A small
//! table (less than a quarter of a table or memtable) is joined with its neighbours if one of those
//! is rewritten too. A lone small table stays, because joining it would rewrite a large neighbour.
//!
//! If entries may affect keys in other tables ([`LsmShape::has_compaction_filter`]), either all
//! tables are adopted or none. Otherwise, the versions that such an entry hides would stay forever
//! in a table that is always adopted.

use crate::util::sort::sort_by;
use std::ops::Range;
use std::sync::Arc;

use super::job::{Action, CompactionJob};
use super::shape::{LsmShape, TableShape};

/// Treatment of an input table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Merged,
    /// Small: adopted, or merged with a neighbour.
    Joins,
    Adopted,
}

/// Tables of a run: run index and range of table indexes. Lists are ordered newest run first.
pub(super) type Picked = (usize, Range<usize>);

/// Adds the tables to adopt to `job`, which merges the `picked` tables. If all can be adopted,
/// returns a move of those that are not in the output run yet. `is_up_to_date` reports whether a
/// merge of one table alone would change nothing.
pub(super) fn adopt(
    shape: &LsmShape,
    job: CompactionJob,
    picked: &[Picked],
    is_up_to_date: &dyn Fn(&TableShape) -> bool,
) -> CompactionJob {
    let adopted = adopted(shape, &job.cuts.at, picked, is_up_to_date);
    if adopted.len() < picked.iter().map(|(_, tables)| tables.len()).sum() {
        return CompactionJob { adopted, ..job };
    }
    let inputs: Vec<_> = job
        .inputs
        .iter()
        .filter(|i| (i.level, i.run) != (job.output_level, job.output_run))
        .cloned()
        .collect();
    if inputs.is_empty() { job } else { CompactionJob { action: Action::Move, inputs, ..job } }
}

/// Returns the ids of the `picked` tables that may be adopted, in key order. `at` holds keys at
/// which outputs are split, so tables are not joined across them.
pub(super) fn adopted(
    shape: &LsmShape,
    at: &[Arc<[u8]>],
    picked: &[Picked],
    is_up_to_date: &dyn Fn(&TableShape) -> bool,
) -> Vec<u64> {
    let mut tables: Vec<&TableShape> =
        picked.iter().flat_map(|(r, range)| &shape.runs[*r].tables[range.clone()]).collect();
    // Stable: this sort detects runs that are already sorted.
    sort_by(&mut tables, |a, b| a.first.cmp(&b.first));
    let older_runs = &shape.runs[picked.last().map_or(0, |(oldest, _)| oldest + 1)..];
    let vanishes = |t: &TableShape| {
        t.is_dense() && older_runs.iter().all(|run| run.overlapping(&t.first, &t.last).is_empty())
    };
    let large = shape.table_size.min(shape.memtable_size) / 4;
    let mut reach: Option<&[u8]> = None;
    let mut fates: Vec<Fate> = Vec::with_capacity(tables.len());
    for (i, t) in tables.iter().enumerate() {
        let apart = reach.is_none_or(|reach| reach < &*t.first)
            && tables.get(i + 1).is_none_or(|next| t.last < next.first);
        reach = reach.max(Some(&t.last));
        fates.push(match apart && !vanishes(t) && is_up_to_date(t) {
            true if t.size < large => Fate::Joins,
            true => Fate::Adopted,
            false => Fate::Merged,
        });
    }
    // Whether the `i`th and the next table can be joined, if one of them is small.
    let meets = |i: usize| {
        let (Some(a), Some(b)) = (tables.get(i), tables.get(i + 1)) else { return false };
        let cut = at.partition_point(|key| *key <= a.last);
        fates[i] != Fate::Adopted
            && fates[i + 1] != Fate::Adopted
            && at.get(cut).is_none_or(|key| *key > b.first)
    };
    let stays = |i: usize| match fates[i] {
        Fate::Merged => false,
        Fate::Joins => !meets(i) && !i.checked_sub(1).is_some_and(meets),
        Fate::Adopted => true,
    };
    let ids: Vec<u64> = (0..tables.len()).filter(|&i| stays(i)).map(|i| tables[i].id).collect();
    if shape.has_compaction_filter && ids.len() < tables.len() { Vec::new() } else { ids }
}
