//! Merges for readers, common to all policies that merge.
//!
//! A policy that is content may leave several runs, and whoever reads ranges pays for each of them.
//! What they have paid since the last such merge, the *toll*, decides: when it is worth what a merge
//! costs, the merge is made. So readers and merges together never cost much more than the better of
//! both would have, which nobody can know beforehand (the rent-or-buy problem of online algorithms).
//!
//! *Trigger* the toll; *granularity* the newest runs as a whole, the most of them that the toll and
//! the budget pay for; *movement* into the place of the oldest of them. Chosen only where the policy
//! itself wants nothing, and where no flush has come for as long as the merge will take: a tree that
//! is written has better things to do.

use super::shape::{CompactionJob, CompactionReason};
use super::strategy::Strategy;
use super::view::{MAX_FAN, PickContext};

/// A merge writes an entry for this many times less than readers pay: it is done by a processor
/// that has nothing else to do, and after all who wait.
const CHEAPER: u64 = 4;

/// The least toll, in entries, for which anything is merged.
pub const LEAST_TOLL: u64 = 128 << 10;

/// What a merge reads in a second, in bytes, roughly: measured, 250 MiB of entries of 116 bytes take
/// 1.3 s.
const SPEED: u64 = 192 << 20;

/// Whether a toll is worth writing so many entries.
pub fn is_paid(toll: u64, entries: u64) -> bool {
    toll.saturating_mul(CHEAPER) >= entries
}

/// The merge that readers have paid for under this policy, if there is one.
pub(super) fn pick_compaction(
    policy: &dyn Strategy,
    view: &PickContext<'_>,
) -> Option<CompactionJob> {
    let shape = view.shape;
    if view.len() < 2 || shape.toll < LEAST_TOLL || !policy.merges() {
        return None;
    }
    let (is_barrier, one_run_levels) = (policy.is_barrier(view), policy.one_run_levels());
    let newest = view.run(0).tables.iter().map(|t| t.created_micros).max().unwrap_or(0);
    let quiet = shape.now_micros.saturating_sub(newest) as u128 * u128::from(SPEED) / 1_000_000;
    let most = (1..view.len().min(MAX_FAN)).take_while(|&r| !is_barrier(r - 1, r)).count() + 1;
    (2..=most).rev().find_map(|n| {
        let (oldest, all) = (n - 1, n == view.len());
        if one_run_levels && !all && view.run(oldest).level > 0 || view.any_busy(0..n) {
            return None;
        }
        let is_new = all && view.run(oldest).level == 0;
        let output = if is_new { view.below(oldest) } else { view.run(oldest).place() };
        let job = view.whole(0..=oldest, output, CompactionReason::Readers, 1.0);
        let (bytes, size) = (job.rewritten(shape), view.size_of(0..n));
        let tables = || shape.runs[..n].iter().flat_map(|r| &r.tables);
        let entries = u128::from(tables().map(|t| t.entries).sum::<u64>()) * u128::from(bytes)
            / u128::from(size.max(1));
        // Of the runs that readers have paid for, all but one in each read.
        let saved = u128::from(shape.toll) * oldest as u128 / (view.len() - 1) as u128;
        let to_u64 = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
        (is_paid(to_u64(saved), to_u64(entries))
            && bytes <= shape.for_readers
            && u128::from(bytes) <= quiet)
            .then_some(job)
    })
}
