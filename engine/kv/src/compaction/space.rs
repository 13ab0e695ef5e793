//! Space bound that each policy declares, including the peak during a compaction.
//!
//! Unit: `live` is the size of one copy of every key that has a value, or a tombstone that cannot
//! be dropped yet (snapshot, compaction filter), in tables as the tree writes them. A run holds at
//! most `live` bytes. `m` is the size of a memtable.
//!
//! Each policy's file states its bound with the reason: *steady* when no compaction is due, and
//! *peak* for the bytes that a compaction may add.
//!
//! The bound also includes the runs that are flushed while a merge runs. Their number is at most
//! the hard limit of [`run_limits`], with one memtable each.
//!
//! Three parts enforce the bound. Policies choose suitable jobs. [`fits`] delays a second merge
//! until the first is done. Write delays slow writers as runs accumulate.
//!
//! Four cases can exceed it:
//!
//! - Tables that have left the manifest but are still in use by a reader.
//! - A device on which compaction cannot keep up even at the maximum write delay. Writers are then
//!   slow but never stopped.
//! - A manual compaction, which does not wait.
//! - Old versions retained for snapshots, which do not count as live.

use super::choose::run_limits;
use super::custom::ActivePolicy;
use super::job::{Action, CompactionJob};
use super::shape::LsmShape;
pub use super::strategy::SpaceBound;

/// Estimates the size of one copy of every key: the size of the largest run. This never exceeds the
/// live bytes, except for tombstones and the versions they hide.
pub fn one_copy(shape: &LsmShape) -> u64 {
    shape.runs.iter().map(|r| r.size()).max().unwrap_or(0)
}

/// Reports whether `job` may start while other compactions run that write at most `merging` bytes
/// each. If not, it has to wait for one of them, because it would exceed the bound that `policy`
/// declares for one job at a time. A running compaction adds at most those bytes, and at most one
/// copy of every key. A job that runs alone may always start, because without it the tree would
/// only grow.
pub fn fits<'a>(
    policy: impl Into<ActivePolicy<'a>>,
    shape: &LsmShape,
    merging: &[u64],
    job: &CompactionJob,
) -> bool {
    if merging.is_empty() || job.action != Action::Merge {
        return true;
    }
    let copy = one_copy(shape);
    let added: u64 = merging.iter().map(|&bytes| bytes.min(copy)).sum();
    shape.size() + added + job.rewritten(shape).min(copy) <= space_bound(policy, shape).bytes(copy)
}

/// Returns the bound that `policy` declares for a tree of the sizes in `shape`.
pub fn space_bound<'a>(policy: impl Into<ActivePolicy<'a>>, shape: &LsmShape) -> SpaceBound {
    let policy = policy.into();
    let memtable = shape.memtable_size;
    let flushed = (run_limits(policy, shape).1 as u64).saturating_mul(memtable);
    policy.decide(|policy| policy.space(memtable, flushed))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::compaction::choose::pick;
    use crate::compaction::policy::{Policy, Tiered};
    use crate::compaction::shape::{RunShape, TableShape};

    const MB: u64 = 1 << 20;

    /// Builds one run for each list of table sizes in MiB, newest first; tables are adjacent.
    fn shape(runs: &[&[u64]]) -> LsmShape {
        let mut id = 0;
        let run = |(r, sizes): (usize, &&[u64])| {
            let table = |(t, size): (usize, &u64)| {
                id += 1;
                let (first, last) = ([t as u8, 0][..].into(), [t as u8, 9][..].into());
                TableShape {
                    id,
                    size: size * MB,
                    entries: size * 1000,
                    first,
                    last,
                    ..TableShape::default()
                }
            };
            let tables = sizes.iter().enumerate().map(table).collect();
            Arc::new(RunShape { level: 0, number: (runs.len() - r) as u64, tables })
        };
        let runs: Vec<_> = runs.iter().enumerate().map(run).collect();
        LsmShape {
            memtable_size: MB,
            table_size: 100 * MB,
            next_run: runs.len() as u64 + 1,
            runs,
            ..LsmShape::default()
        }
    }

    #[test]
    fn a_second_merge_waits_for_room() {
        let policy =
            Policy::from(Tiered { min_runs: 2, max_runs: 4, bucket: 1.5, ..Tiered::default() });
        let shape = shape(&[&[400], &[400], &[400]]);
        let job = pick(&policy, &shape).unwrap();
        let bound = space_bound(&policy, &shape).bytes(one_copy(&shape));
        assert_eq!(one_copy(&shape), 400 * MB);
        assert!(shape.size() + 400 * MB <= bound && shape.size() + 800 * MB > bound, "{bound}");
        assert!(fits(&policy, &shape, &[], &job));
        assert!(
            !fits(&policy, &shape, &[400 * MB], &job),
            "two copies at once are more than was declared"
        );
        assert!(!fits(&policy, &shape, &[900 * MB], &job), "a merge writes at most one copy");
        assert!(fits(
            &policy,
            &shape,
            &[MB],
            &CompactionJob { action: Action::Move, ..job.clone() }
        ));
    }

    #[test]
    fn small_merges_go_on_beside_a_large_one() {
        let policy = Policy::default();
        let shape = shape(&[&[1], &[1], &[1], &[300], &[300], &[300]]);
        let job = pick(&policy, &shape).unwrap();
        let small = CompactionJob { inputs: job.inputs.iter().take(1).cloned().collect(), ..job };
        assert!(fits(&policy, &shape, &[900 * MB], &small));
    }
}
