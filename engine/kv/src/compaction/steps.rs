//! The steps of a merge: what of it can be put in the place of its inputs before the rest is written.
//!
//! A merge holds all of its inputs until it is done, so while it runs the tree takes their bytes
//! twice. Under an incremental policy it is made in steps instead: each takes the tables of a stretch
//! of keys from all runs of the merge, and when it is done they are gone. So what a merge takes
//! beyond its inputs is no more than a step writes.
//!
//! Why every moment between two steps is a legal shape: a table of the merge that a step leaves
//! behind overlaps none that it takes, because a step ends only where no table of the merge reaches
//! over. So of each key either all versions that the merge has go to its output, or none. What is
//! not in the merge keeps its place: newer tables stay above the output, older ones below. Of any two
//! versions of a key the newer one therefore stays in the newer run, whether all steps are done, or a
//! crash has left some of them undone. A step by itself is a merge as any other, and
//! [`CompactionJob::check`] holds for it.

use std::collections::HashSet;

use super::policy::Policy;
use super::shape::{Action, CompactionJob, LsmShape};

/// The jobs that make `job` together, one after the other, in key order: the job itself where it is
/// no merge, or where the policy does not make merges in steps. While one runs, the inputs of those
/// after it and the outputs of those before it are to stay as they are. Tables that the job adopts and
/// that lie in its output run may be in none.
///
/// Where entries may speak for keys of other tables ([`LsmShape::tied`]), the job stays whole: what
/// such an entry in one step says of the keys of another would not be heard there, so what it hides
/// would stay for ever, or come back when the entry itself is dropped.
///
/// A step has as many tables as overlap each other, and with less than the size of a table it takes
/// its neighbours along.
pub fn steps(policy: &Policy, shape: &LsmShape, job: CompactionJob) -> Vec<CompactionJob> {
    if job.action != Action::Merge || shape.tied || !policy.strategy().is_incremental() {
        return vec![job];
    }
    let Some(tables) = job.in_key_order(shape) else { return vec![job] };
    let adopted: HashSet<u64> = job.adopted.iter().copied().collect();
    let table = |&(r, t): &(usize, usize)| &shape.runs[r].tables[t];
    let (mut steps, mut start, mut bytes) = (vec![], 0, 0);
    let mut reach: Option<&[u8]> = None;
    for (i, at) in tables.iter().enumerate() {
        let is_apart = reach.is_some_and(|reach| reach < &*table(at).first);
        if is_apart && bytes >= shape.table_size {
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

/// The part of a merge on some of its tables: a move where it adopts all of them, nothing where they
/// lie in the output run already.
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
    use crate::compaction::shape::{
        CompactionInput, CompactionReason, OutputSplits, RunShape, TableShape,
    };

    /// Two runs of three tables each, which line up, and the merge of all.
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
        // A step begins with a table: its first bound is no cut in it, and no other's is either.
        assert!(steps.iter().all(|s| s.cuts.at.is_empty() && s.output_level == 2));
    }

    #[test]
    fn a_merge_whose_entries_speak_for_keys_of_other_tables_stays_whole() {
        let (shape, job) = two_runs();
        let ics: Policy = "ics".parse().unwrap();
        let tied = LsmShape { tied: true, ..shape.clone() };
        assert_eq!(steps(&ics, &tied, job.clone()), std::slice::from_ref(&job));
        let tiered: Policy = "tiered:4".parse().unwrap();
        assert_eq!(steps(&tiered, &shape, job.clone()), [job]);
    }
}
