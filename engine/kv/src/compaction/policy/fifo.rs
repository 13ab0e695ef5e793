//! First in, first out.
//!
//! - *Trigger*: the tree is larger than `max_bytes`, or a table's newest data are older than `max_age_secs`; 0 means no bound.
//! - *Layout*: as flushed. Nothing is merged, so the number of runs is not bounded but by the size.
//! - *Granularity*: tables.
//! - *Movement*: dropped, from the oldest run on; within a run the one with the oldest data first. Never a table that has something
//!   older beneath it that stays. The Db waits with it for snapshots that may see the tables.

use super::View;
use super::expired::{drop_job, oldest_first};
use crate::compaction::shape::{Job, Reason};

pub(super) fn wishes(view: &View<'_>, max_bytes: u64, max_age_secs: u64) -> Vec<Job> {
    let total = view.size_of(0..view.len());
    let horizon = view.shape.now_micros.saturating_sub(max_age_secs.saturating_mul(1_000_000));
    let mut jobs = Vec::new();
    if max_age_secs > 0 {
        let gone = oldest_first(view, |table| table.newest_micros < horizon);
        jobs.extend(drop_job(view, &gone, Reason::TooOld, 2.0));
    }
    if max_bytes > 0 && total > max_bytes {
        let mut left = total;
        let gone = oldest_first(view, |table| {
            let more = left > max_bytes;
            left -= if more { table.size } else { 0 };
            more
        });
        jobs.extend(drop_job(view, &gone, Reason::TooLarge, total as f64 / max_bytes as f64));
    }
    jobs
}
