//! First in, first out.
//!
//! - *Trigger*: the tree, including blobs, is larger than `max_bytes`, or a table's newest data is
//!   older than `max_age_secs`; 0 means no bound.
//! - *Layout*: as flushed. There are no merges, so only the size bounds the number of runs.
//! - *Granularity*: tables.
//! - *Movement*: dropped, oldest run first; within a run the table with the oldest data first. A
//!   table is never dropped while an older overlapping one stays. The Db delays the drop while a
//!   snapshot may see the tables.
//! - *Space*: `max_bytes` and one memtable, for any data.

use std::ops::ControlFlow::{Break, Continue};

use crate::compaction::describe::policy;
use crate::compaction::expired::{drop_job, oldest_first};
use crate::compaction::job::{CompactionJob, CompactionReason};
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::PickContext;

policy! {
    /// Nothing is merged; the oldest tables are dropped when the tree is larger than this or older
    /// than that. As long as there is a snapshot or transaction that may see something of the
    /// tables to be dropped they stay, and the tree is larger than its bounds by what has been
    /// written since they would have gone.
    Fifo = "fifo" {
        /// Largest total of table files and of blob files, in bytes; 0 for no bound.
        max_bytes: u64 = 1 << 30, bytes(0, u64::MAX);
        /// Oldest age in seconds; 0 for no bound.
        max_age_secs: u64 = 0, seconds(0, u64::MAX);
    }
}

impl Strategy for Fifo {
    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob> {
        candidate_jobs(view, self.max_bytes, self.max_age_secs)
    }

    fn slowdown_run_count(&self, _: &PickContext<'_>) -> Option<usize> {
        None
    }

    fn space(&self, memtable: u64, _: u64) -> SpaceBound {
        let most =
            if self.max_bytes == 0 { u64::MAX } else { self.max_bytes.saturating_add(memtable) };
        SpaceBound { steady: f64::INFINITY, peak: 0.0, flushed: 0, max_bytes: most }
    }

    fn merges(&self) -> bool {
        false
    }

    fn ages(&self) -> bool {
        true
    }

    fn drops_live_data(&self) -> bool {
        self.max_bytes > 0 || self.max_age_secs > 0
    }
}

fn candidate_jobs(view: &PickContext<'_>, max_bytes: u64, max_age_secs: u64) -> Vec<CompactionJob> {
    let blobs = view.shape.runs.iter().map(|r| r.tables.sums().blob_bytes);
    let total = view.size_of(0..view.len()) + blobs.sum::<u64>();
    let horizon = view.shape.now_micros.saturating_sub(max_age_secs.saturating_mul(1_000_000));
    let mut jobs = Vec::new();
    if max_age_secs > 0 {
        let gone = oldest_first(view, |table| Continue(table.newest_micros < horizon));
        jobs.extend(drop_job(view, &gone, CompactionReason::TooOld, 2.0));
    }
    if max_bytes > 0 && total > max_bytes {
        let mut left = total;
        let gone = oldest_first(view, |table| {
            if left <= max_bytes {
                return Break(());
            }
            left -= table.size + table.blob_bytes;
            Continue(true)
        });
        jobs.extend(drop_job(
            view,
            &gone,
            CompactionReason::TooLarge,
            total as f64 / max_bytes as f64,
        ));
    }
    jobs
}
