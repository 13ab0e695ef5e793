//! Changes of a simulated tree's shape in place, without visiting every table.

use std::collections::HashSet;
use std::sync::Arc;

use firn_kv::internals::compaction::{Action, CompactionJob, LsmShape, RunShape, TableShape};

/// Marks the inputs of a job as busy or free, and returns the bytes that it rewrites. Equals
/// [`LsmShape::set_busy`] and [`CompactionJob::rewritten`], without visiting every table.
pub(super) fn mark(shape: &mut LsmShape, job: &CompactionJob, busy: bool) -> u64 {
    let adopted: HashSet<u64> = job.adopted.iter().copied().collect();
    let mut bytes = 0;
    for input in &job.inputs {
        let Some(run) =
            shape.runs.iter_mut().find(|r| r.level == input.level && r.number == input.run)
        else {
            continue;
        };
        let mut wanted = input.tables.iter().peekable();
        for t in &mut Arc::make_mut(run).tables {
            if wanted.next_if(|id| **id == t.id).is_some() {
                t.busy = busy;
                if job.action == Action::Merge && !adopted.contains(&t.id) {
                    bytes += t.size;
                }
            }
        }
    }
    bytes
}

/// Marks the tables in `held` that a step has left in its output run as busy or free.
pub(super) fn hold(shape: &mut LsmShape, step: &CompactionJob, held: &HashSet<u64>, busy: bool) {
    if let Some(run) = shape.runs.iter_mut().find(|r| r.place() == step.output()) {
        let tables = Arc::make_mut(run).tables.iter_mut();
        tables.filter(|t| held.contains(&t.id)).for_each(|t| t.busy = busy);
    }
}

/// Applies the job to the shape in place, and returns the removed tables with their sizes. Equals
/// the engine's own [`apply`](firn_kv::internals::compaction::job::apply), which copies and checks
/// the whole shape: too slow for a hundred thousand tables.
pub(super) fn apply(
    shape: &mut LsmShape,
    job: &CompactionJob,
    outputs: Vec<TableShape>,
) -> Vec<(u64, u64)> {
    let adopted: HashSet<u64> = job.adopted.iter().copied().collect();
    let mut out = outputs;
    let mut gone = vec![];
    for input in &job.inputs {
        let Some(run) =
            shape.runs.iter_mut().find(|r| r.level == input.level && r.number == input.run)
        else {
            continue;
        };
        let taken: HashSet<u64> = input.tables.iter().copied().collect();
        let stays = |id: &u64| job.action == Action::Move || adopted.contains(id);
        let kept = |t: &&TableShape| taken.contains(&t.id) && stays(&t.id);
        out.extend(run.tables.iter().filter(kept).cloned());
        let leaves = |t: &&TableShape| taken.contains(&t.id) && !stays(&t.id);
        gone.extend(run.tables.iter().filter(leaves).map(|t| (t.id, t.size)));
        Arc::make_mut(run).tables.retain(|t| !taken.contains(&t.id));
    }
    if !out.is_empty() {
        out.iter_mut().for_each(|t| t.busy = false);
        let place = job.output();
        let at = shape.runs.partition_point(|r| r.place() < place);
        if shape.runs.get(at).is_none_or(|r| r.place() != place) {
            let run = RunShape { level: place.level, number: place.number, ..RunShape::default() };
            shape.runs.insert(at, Arc::new(run));
        }
        let tables = &mut Arc::make_mut(&mut shape.runs[at]).tables;
        tables.append(&mut out);
        tables.sort_by(|a, b| a.first.cmp(&b.first).then(a.id.cmp(&b.id)));
    }
    shape.runs.retain(|r| !r.tables.is_empty());
    gone
}
