//! The bound of space that each policy declares, the peak while it compacts included.
//!
//! Measure: `live`, the bytes of one copy of every key that has a value or a delete that cannot
//! vanish yet (a snapshot, a `Purge` hook), in tables as the tree writes them. A run holds at most
//! that much. `m` is the size of a memtable.
//!
//! Each policy's file has its bound, with the reason: *steady* when it is content, and *peak*, what
//! a compaction may add.
//!
//! To these come the runs that are flushed while a merge is running: as many as the hard limit of
//! [`run_limits`] allows, a memtable each.
//!
//! Who holds it: the policies by the jobs that they choose, [`fits`] by letting a second merge wait
//! for the first, and the Db's pacing, which slows writers down as runs pile up. What may break it:
//! tables that have left the manifest and that a reader still holds; a device on which compaction
//! cannot keep up even with the slowest pace (writers are then slow, but never stopped); a
//! compaction that somebody asks for, which does not wait; and old versions kept for snapshots,
//! which are not counted as alive.

use super::choose::run_limits;
use super::policy::Policy;
use super::shape::{Action, CompactionJob, LsmShape};
pub use super::strategy::SpaceBound;

/// One copy of every key, as far as a shape tells: its largest run. Never more than is alive, but
/// for deletes and what they hide.
pub fn one_copy(shape: &LsmShape) -> u64 {
    shape.runs.iter().map(|r| r.size()).max().unwrap_or(0)
}

/// Whether `job` may start beside merges that read so many bytes each (`merging`), or would break
/// the bound that `policy` declares for one job at a time, and has to wait for one of them. What a
/// merge adds while it runs is no more than it reads, and no more than one copy of every key. A job
/// that runs alone may always start: without it the tree would only grow.
pub fn fits(policy: &Policy, shape: &LsmShape, merging: &[u64], job: &CompactionJob) -> bool {
    if merging.is_empty() || job.action != Action::Merge {
        return true;
    }
    let copy = one_copy(shape);
    let added: u64 = merging.iter().map(|&bytes| bytes.min(copy)).sum();
    shape.size() + added + job.rewritten(shape).min(copy) <= space_bound(policy, shape).bytes(copy)
}

/// The bound that `policy` declares for a tree of the sizes in `shape`.
pub fn space_bound(policy: &Policy, shape: &LsmShape) -> SpaceBound {
    let memtable = shape.memtable_size;
    let flushed = (run_limits(policy, shape).1 as u64).saturating_mul(memtable);
    policy.strategy().space(memtable, flushed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::compaction::choose::pick;
    use crate::compaction::policy::Tiered;
    use crate::compaction::shape::{RunShape, TableShape};

    const MB: u64 = 1 << 20;

    /// One run for each list of tables' sizes in MiB, newest first; tables lie side by side.
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
        let policy = Policy::from(Tiered { min_runs: 2, max_runs: 4, bucket: 1.5 });
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
