//! Splits a merge into steps, whose outputs are installed before the rest is written.
//!
//! A merge holds all its inputs until it is done, so the tree takes their space twice while it
//! runs. Under an incremental policy a merge runs in steps instead. Each step takes the tables of
//! one key range from all runs of the merge and frees them at its end. So a merge needs at most the
//! space of one step's output in addition to its inputs.
//!
//! Every state between two steps is a legal shape. A table of the merge that a step does not take
//! overlaps none that it takes, because a step ends only where no table of the merge spans the
//! boundary. So for each key, all versions in the merge move to its output, or none do. Tables
//! outside the merge stay: newer ones above the output, older ones below. So of two versions of a
//! key the newer one remains in the newer run, even if a crash leaves some steps undone. A step is
//! a merge like any other, and [`CompactionJob::check`] holds for it.

use std::collections::HashSet;

use super::custom::ActivePolicy;
use super::job::{Action, CompactionJob};
use super::shape::LsmShape;

/// Returns the jobs that together do `job`, to be run one after another in key order. Returns the
/// job itself if it is not a merge, or if the policy does not merge in steps. While a step runs,
/// the inputs of later steps and the outputs of earlier ones must stay unchanged. Adopted tables
/// that are already in the output run may be in no step.
///
/// If entries may affect keys in other tables ([`LsmShape::has_compaction_filter`]), the job stays
/// whole. Such an entry in one step would have no effect on the keys of another. So the versions it
/// hides would stay forever, or reappear when the entry itself is dropped.
///
/// A step has as many tables as overlap each other. If they have fewer bytes than a table, the step
/// includes their neighbours.
pub fn steps<'a>(
    policy: impl Into<ActivePolicy<'a>>,
    shape: &LsmShape,
    job: CompactionJob,
) -> Vec<CompactionJob> {
    if job.action != Action::Merge
        || shape.has_compaction_filter
        || !policy.into().decide(|policy| policy.is_incremental())
    {
        return vec![job];
    }
    let Some(tables) = job.in_key_order(shape) else { return vec![job] };
    let adopted: HashSet<u64> = job.adopted.iter().copied().collect();
    let table = |&(r, t): &(usize, usize)| &shape.runs[r].tables[t];
    let (mut steps, mut start, mut bytes) = (vec![], 0, 0);
    let mut reach: Option<&[u8]> = None;
    for (i, at) in tables.iter().enumerate() {
        let is_disjoint = reach.is_some_and(|reach| reach < &*table(at).first);
        if is_disjoint && bytes >= shape.table_size {
            steps.extend(step(&job, shape, &tables[start..i], &adopted));
            (start, bytes) = (i, 0);
        }
        reach = reach.max(Some(&*table(at).last));
        bytes += if adopted.contains(&table(at).id) { 0 } else { table(at).size };
    }
    if start == 0 {
        return vec![job];
    }
    steps.extend(step(&job, shape, &tables[start..], &adopted));
    steps
}

/// Returns the part of a merge on some of its tables. Returns a move if it adopts all of them, or
/// `None` if they are all in the output run already.
fn step(
    job: &CompactionJob,
    shape: &LsmShape,
    tables: &[(usize, usize)],
    adopted: &HashSet<u64>,
) -> Option<CompactionJob> {
    let mut part = job.of_tables(shape, tables, adopted);
    if part.adopted.len() < tables.len() {
        return Some(part);
    }
    part.action = Action::Move;
    part.adopted.clear();
    part.inputs.retain(|i| (i.level, i.run) != (job.output_level, job.output_run));
    (!part.inputs.is_empty()).then_some(part)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::compaction::job::{CompactionInput, CompactionReason, OutputSplits};
    use crate::compaction::policy::Policy;
    use crate::compaction::shape::{RunShape, TableShape};

    /// Returns two runs of three aligned tables each, and the merge of all.
    fn two_runs() -> (LsmShape, CompactionJob) {
        let bound = |i: u64, end: u64| Arc::from([b'a' + i as u8, b'0' + end as u8].as_slice());
        let table = |id: u64, i: u64| TableShape {
            id,
            size: 100,
            first: bound(i, 0),
            last: bound(i, 9),
            ..TableShape::default()
        };
        let runs = [2, 1].map(|number| {
            let tables: Vec<TableShape> = (0..3).map(|i| table(number * 10 + i, i)).collect();
            Arc::new(RunShape { level: 1, number, tables: tables.into() })
        });
        let shape = LsmShape { table_size: 100, runs: runs.into(), ..LsmShape::default() };
        let input = |number: u64| CompactionInput {
            level: 1,
            run: number,
            tables: (0..3).map(|i| number * 10 + i).collect(),
        };
        let job = CompactionJob {
            reason: CompactionReason::Space,
            action: Action::Merge,
            inputs: vec![input(2), input(1)],
            adopted: vec![],
            output_level: 2,
            output_run: 1,
            cuts: OutputSplits { size: 150, at: (0..3).map(|i| bound(i, 0)).collect() },
            score: 1.0,
        };
        (shape, job)
    }

    #[test]
    fn a_merge_falls_into_steps_where_no_table_reaches_over() {
        let (shape, job) = two_runs();
        let ics: Policy = "ics".parse().unwrap();
        let steps = steps(&ics, &shape, job);
        let tables: Vec<Vec<u64>> = steps
            .iter()
            .map(|s| s.inputs.iter().flat_map(|i| i.tables.iter().copied()).collect())
            .collect();
        assert_eq!(tables, [vec![20, 10], vec![21, 11], vec![22, 12]]);
        // A step begins at a table start, so its first bound is not a split within any step.
        assert!(steps.iter().all(|s| s.cuts.at.is_empty() && s.output_level == 2));
    }

    #[test]
    fn a_compaction_with_range_deletions_over_other_tables_is_not_split() {
        let (shape, job) = two_runs();
        let ics: Policy = "ics".parse().unwrap();
        let has_compaction_filter = LsmShape { has_compaction_filter: true, ..shape.clone() };
        assert_eq!(steps(&ics, &has_compaction_filter, job.clone()), std::slice::from_ref(&job));
        let tiered: Policy = "tiered:4".parse().unwrap();
        assert_eq!(steps(&tiered, &shape, job.clone()), [job]);
    }
}
