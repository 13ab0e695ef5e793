//! The decisions of a compaction policy, in addition to its description
//! ([`describe`](super::describe)). They are: the jobs to run, the splits of outputs, the bound on
//! space, and the number of runs that slows writers.

use super::describe::PolicyError;
use super::job::{CompactionJob, OutputSplits};
use super::shape::LsmShape;
use super::view::PickContext;

/// Declared space bound in bytes: `live` × (`steady` + `peak`) + `flushed`, but at most `max_bytes`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SpaceBound {
    /// Bytes of tables divided by live bytes when no compaction is due; infinite if unbounded.
    pub steady: f64,
    /// Bytes that a running compaction may add, divided by live bytes.
    pub peak: f64,
    /// Bytes that may be flushed before writes are slowed to the maximum. 0 if the number of runs
    /// is unbounded.
    pub flushed: u64,
    /// Bound in bytes that holds for any data; `u64::MAX` for none.
    pub max_bytes: u64,
}

impl SpaceBound {
    /// Returns the bound of a policy whose merges write at most one copy of the live data.
    pub(super) fn of_merges(steady: f64, flushed: u64) -> SpaceBound {
        SpaceBound { steady, peak: 1.0, flushed, max_bytes: u64::MAX }
    }

    /// Returns the maximum number of bytes of tables for `live` bytes, or `u64::MAX` if unbounded.
    pub fn bytes(&self, live: u64) -> u64 {
        let relative = live as f64 * (self.steady + self.peak) + self.flushed as f64;
        // The cast saturates. Zero live bytes times infinity would give 0, which the bound on runs
        // does not allow, so infinity is handled separately.
        let relative = if self.steady.is_infinite() { u64::MAX } else { relative as u64 };
        relative.min(self.max_bytes)
    }
}

/// A compaction policy. The default methods suit most policies.
pub(super) trait Strategy {
    /// Checks constraints between parameters.
    fn check(&self) -> Result<(), PolicyError> {
        Ok(())
    }

    /// Returns all jobs that the policy wants, in no order.
    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob>;

    /// Returns the number of runs at which writers are slowed, or `None` if the number of runs is
    /// unbounded.
    fn slowdown_run_count(&self, view: &PickContext<'_>) -> Option<usize>;

    /// Returns the space bound. `memtable` is the size of a memtable; `flushed` is the number of
    /// bytes that may be flushed while a merge runs.
    fn space(&self, memtable: u64, flushed: u64) -> SpaceBound;

    /// Returns the output splits of a job, or `None` to split by size only.
    fn cuts(&self, _: &LsmShape, _: &CompactionJob) -> Option<OutputSplits> {
        None
    }

    /// Returns the bytes to rewrite, if the follow-up work of current jobs can be predicted and
    /// exceeds them. The most urgent job of this policy is already marked busy.
    fn pending_bytes(&self, _: &PickContext<'_>) -> Option<u64> {
        None
    }

    /// Returns a predicate on two runs that reports whether data must not pass from one to the
    /// other.
    fn is_barrier(&self, _: &PickContext<'_>) -> Box<dyn Fn(usize, usize) -> bool> {
        Box::new(|_, _| false)
    }

    /// Returns the share of the allowed tombstone age after which tombstones must leave a run.
    fn age_share(&self, _: &PickContext<'_>, _run: usize) -> f64 {
        1.0
    }

    /// Reports whether the policy ever merges, including for tombstone age and manual compaction.
    fn merges(&self) -> bool {
        true
    }

    /// Reports whether only level 0 has several runs when no compaction is due.
    fn single_run_levels(&self) -> bool {
        false
    }

    /// Reports whether merges run in [`steps`](super::steps), each of which frees its inputs.
    fn is_incremental(&self) -> bool {
        false
    }

    /// Reports whether the passage of time alone can make a job due.
    fn ages(&self) -> bool {
        false
    }

    /// Reports whether tables wait to be dropped as a whole when they expire.
    fn expires(&self) -> bool {
        false
    }

    /// Reports whether the policy drops data that was not deleted.
    fn drops_live_data(&self) -> bool {
        false
    }
}
