//! Value files that are given up, and merges for them, common to all policies that merge.
//!
//! Where too much of a tree's value files is garbage, those with most of it are given up, and what
//! tables still refer to in them is written again: by any merge that comes by, and else by one that
//! is made for it.
//!
//! *Trigger* a table that refers to such a file; *granularity* one table, so that nothing can come to
//! lie between what is taken; *movement* none: it is written again where it is.

use std::collections::BTreeSet;

use super::policy::Policy;
use super::shape::{CompactionJob, CompactionReason, TableShape};
use super::view::PickContext;

/// A value file, as far as its garbage is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueFileShape {
    /// Its number.
    pub id: u64,
    /// Bytes of the values in it. What it has beside them is no garbage: a new one would have it too.
    pub bytes: u64,
    /// Bytes of those that tables refer to.
    pub live: u64,
}

/// The numbers of the files that are given up, so that of the others' bytes at most `percent` are
/// garbage: those with the largest share of it. Under a policy that never merges none is: nobody
/// would write again what is live in them.
pub fn given_up(policy: &Policy, percent: u8, mut files: Vec<ValueFileShape>) -> BTreeSet<u64> {
    let percent = if policy.merges() { percent } else { 100 };
    let (bytes, live) =
        files.iter().fold((0u64, 0u64), |(sum, live), f| (sum + f.bytes, live + f.live));
    // Most garbage for what has to be written first; shares are compared without division.
    files.sort_by(|a, b| {
        let share = |f: &ValueFileShape, g: &ValueFileShape| {
            u128::from(f.bytes.saturating_sub(f.live)) * u128::from(g.bytes)
        };
        share(b, a).cmp(&share(a, b)).then(a.id.cmp(&b.id))
    });
    let (mut left, mut given_up) = (bytes, BTreeSet::new());
    for f in files {
        let garbage = u128::from(left - live.min(left));
        if garbage * 100 <= u128::from(left) * u128::from(percent) {
            break;
        }
        given_up.insert(f.id);
        left -= f.bytes - f.live.min(f.bytes);
    }
    given_up
}

/// How urgent it is: more than what has just become due, less than what is long overdue.
const SCORE: f64 = 1.5;

/// The merges that are wanted: of each run the first table that can be taken.
pub(super) fn candidate_jobs(view: &PickContext<'_>) -> Vec<CompactionJob> {
    let wish = |r: usize| {
        let run = view.run(r);
        if !run.tables.sums().has_blob_garbage {
            return None;
        }
        let is_wanted = |(t, table): &(usize, &TableShape)| {
            table.blob_garbage_bytes > 0 && !view.is_table_busy(r, *t)
        };
        let (t, _) = run.tables.iter().enumerate().find(is_wanted)?;
        Some(view.merge(&[(r, t..t + 1)], run.place(), CompactionReason::Values, SCORE))
    };
    (0..view.len()).filter_map(wish).collect()
}
