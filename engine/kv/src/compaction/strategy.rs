//! The decisions of a policy, beside its description ([`describe`](super::describe)): which work it
//! wants, where the outputs of a job end, how much room it may take, and when its runs are too
//! many.

use super::describe::PolicyError;
use super::shape::{CompactionJob, LsmShape, OutputSplits};
use super::view::PickContext;

/// A declared bound of space: `live` × (`steady` + `peak`) + `flushed`, and not more than `most`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpaceBound {
    /// Bytes of tables over live bytes when the policy is content; infinite when there is no such
    /// bound.
    pub steady: f64,
    /// What a compaction may add while it runs, over live bytes.
    pub peak: f64,
    /// Bytes that may be flushed before writes are slowed down most; 0 when the number of runs is
    /// not bounded.
    pub flushed: u64,
    /// A bound in bytes that holds whatever the data; `u64::MAX` for none.
    pub most: u64,
}

impl SpaceBound {
    /// That of a policy whose merges write one copy at most.
    pub(super) fn of_merges(steady: f64, flushed: u64) -> SpaceBound {
        SpaceBound { steady, peak: 1.0, flushed, most: u64::MAX }
    }

    /// The largest number of bytes that tables may take with this many live; `u64::MAX` when there
    /// is no bound.
    pub fn bytes(&self, live: u64) -> u64 {
        let relative = live as f64 * (self.steady + self.peak) + self.flushed as f64;
        // The cast saturates; of no live data times infinity it makes 0, which the bound on runs
        // does not allow.
        let relative = if self.steady.is_infinite() { u64::MAX } else { relative as u64 };
        relative.min(self.most)
    }
}

/// A policy. What has a body is as most have it.
pub(super) trait Strategy {
    /// What else must hold of the parameters together.
    fn check(&self) -> Result<(), PolicyError> {
        Ok(())
    }

    /// All that it wants done, in no order.
    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob>;

    /// The number of runs at which writers are slowed; `None` where runs may be as many as they
    /// are.
    fn slowdown_run_count(&self, view: &PickContext<'_>) -> Option<usize>;

    /// How much room it may take, `memtable` the size of a memtable, `flushed` what may be flushed
    /// while a merge is running.
    fn space(&self, memtable: u64, flushed: u64) -> SpaceBound;

    /// Where the outputs of a job end, if not by their size alone.
    fn cuts(&self, _: &LsmShape, _: &CompactionJob) -> Option<OutputSplits> {
        None
    }

    /// Bytes to rewrite, where what the present wishes lead to can be foreseen and is the larger
    /// part. What is marked busy is the most urgent job of this policy.
    fn pending_bytes(&self, _: &PickContext<'_>) -> Option<u64> {
        None
    }

    /// Says of two runs whether data may not pass from one to the other.
    fn is_barrier(&self, _: &PickContext<'_>) -> Box<dyn Fn(usize, usize) -> bool> {
        Box::new(|_, _| false)
    }

    /// The share of the allowed age of deletes after which those of a run have to go down.
    fn age_share(&self, _: &PickContext<'_>, _run: usize) -> f64 {
        1.0
    }

    /// Whether it merges at all, also for the sake of a delete or where somebody asks.
    fn merges(&self) -> bool {
        true
    }

    /// Whether no level but 0 has several runs when it is content.
    fn one_run_levels(&self) -> bool {
        false
    }

    /// Whether its merges are made in [`steps`](super::steps), each of which frees its inputs.
    fn is_incremental(&self) -> bool {
        false
    }

    /// Whether it may want something only because time has passed.
    fn ages(&self) -> bool {
        false
    }

    /// Whether tables wait to be dropped as a whole when they expire.
    fn expires(&self) -> bool {
        false
    }

    /// Whether it drops what nobody has deleted.
    fn drops_live_data(&self) -> bool {
        false
    }
}
