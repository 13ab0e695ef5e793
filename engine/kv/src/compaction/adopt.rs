//! Which tables of a merge need not be written again: the output run adopts them as they are.
//!
//! A table may be adopted when it overlaps no other input, and a merge would make nothing better of
//! it: it is not mostly deletes with nothing beneath. A small one (less than a quarter of a table
//! or memtable) is joined with its neighbours, if one of those is written again too; a lone one
//! stays, because joining it would write a large neighbour again.
//!
//! Where entries may speak for keys of other tables ([`LsmShape::tied`]), all are adopted or none:
//! what such an entry hides would stay for ever in a table that is always adopted.

use std::ops::Range;
use std::sync::Arc;

use super::shape::{Action, CompactionJob, LsmShape, TableShape};

/// What becomes of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Merged,
    /// Small: adopted, or merged with a neighbour.
    Joins,
    Adopted,
}

/// Tables of some runs, newest first: run index, table indexes.
pub(super) type Picked = (usize, Range<usize>);

/// `job`, which merges the `picked` tables, with those that it may adopt; a move where that is all
/// of them, of those that are not in the output run yet. `is_settled` says of a table that a merge
/// of it alone would change nothing.
pub(super) fn adopt(
    shape: &LsmShape,
    job: CompactionJob,
    picked: &[Picked],
    is_settled: &dyn Fn(&TableShape) -> bool,
) -> CompactionJob {
    let adopted = adopted(shape, &job.cuts.at, picked, is_settled);
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

/// Ids of those of the `picked` tables that may be adopted, in key order. `at` are keys at which
/// outputs are cut, so that nothing is joined over them.
pub(super) fn adopted(
    shape: &LsmShape,
    at: &[Arc<[u8]>],
    picked: &[Picked],
    is_settled: &dyn Fn(&TableShape) -> bool,
) -> Vec<u64> {
    let mut tables: Vec<&TableShape> =
        picked.iter().flat_map(|(r, range)| &shape.runs[*r].tables[range.clone()]).collect();
    // Stable: it finds the sorted runs that are there.
    tables.sort_by(|a, b| a.first.cmp(&b.first));
    let beneath = &shape.runs[picked.last().map_or(0, |(oldest, _)| oldest + 1)..];
    let vanishes = |t: &TableShape| {
        t.is_dense() && beneath.iter().all(|run| run.overlapping(&t.first, &t.last).is_empty())
    };
    let large = shape.table_size.min(shape.memtable_size) / 4;
    let mut reach: Option<&[u8]> = None;
    let mut fates: Vec<Fate> = Vec::with_capacity(tables.len());
    for (i, t) in tables.iter().enumerate() {
        let apart = reach.is_none_or(|reach| reach < &*t.first)
            && tables.get(i + 1).is_none_or(|next| t.last < next.first);
        reach = reach.max(Some(&t.last));
        fates.push(match apart && !vanishes(t) && is_settled(t) {
            true if t.size < large => Fate::Joins,
            true => Fate::Adopted,
            false => Fate::Merged,
        });
    }
    // Whether a small table finds anything to be joined with in the `i`th gap.
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
    if shape.tied && ids.len() < tables.len() { Vec::new() } else { ids }
}
