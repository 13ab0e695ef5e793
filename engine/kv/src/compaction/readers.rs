//! Read-triggered compaction, common to all policies that merge.
//!
//! With no compaction due there may still be several runs, and every range read has to merge them.
//! The *paid cost* is what readers have paid since the last such compaction. When it is worth
//! the cost of a merge, the merge runs. So reads and merges together never cost much more than the
//! better of both alternatives, which cannot be known in advance (the rent-or-buy problem of online
//! algorithms).
//!
//! *Trigger* the paid cost. *Granularity* the newest runs as a whole, as many as it and the budget
//! pay for. *Movement* into the position of the oldest of them. It is picked only if the policy has
//! no job and there was no flush for as long as the merge will take. A tree under write load has
//! more urgent work.

use super::job::{CompactionJob, CompactionReason};
use super::shape::tables_of;
use super::strategy::Strategy;
use super::view::{MAX_FAN, PickContext};

/// Factor by which a merge is cheaper per entry than the cost to readers. An otherwise idle core
/// does the merge, and nobody waits for it.
const CHEAPER: u64 = 4;

/// Minimum read cost, in entries, that triggers a compaction.
pub const MIN_READ_DEBT: u64 = 128 << 10;

/// Approximate input rate of a merge in bytes per second. Measured: 250 MiB of 116-byte entries
/// take 1.3 s.
const SPEED: u64 = 192 << 20;

/// Reports whether the paid read cost is worth writing `entries` entries.
pub fn is_paid(read_debt: u64, entries: u64) -> bool {
    read_debt.saturating_mul(CHEAPER) >= entries
}

/// Returns the read-triggered compaction that is due under this policy, if any.
pub(super) fn pick_compaction(
    policy: &dyn Strategy,
    view: &PickContext<'_>,
) -> Option<CompactionJob> {
    let shape = view.shape;
    if view.len() < 2 || shape.read_debt < MIN_READ_DEBT || !policy.merges() {
        return None;
    }
    let (is_barrier, single_run_levels) = (policy.is_barrier(view), policy.single_run_levels());
    let newest = view.run(0).tables.iter().map(|t| t.created_micros).max().unwrap_or(0);
    let quiet = shape.now_micros.saturating_sub(newest) as u128 * u128::from(SPEED) / 1_000_000;
    let most = (1..view.len().min(MAX_FAN)).take_while(|&r| !is_barrier(r - 1, r)).count() + 1;
    (2..=most).rev().find_map(|n| {
        let (oldest, all) = (n - 1, n == view.len());
        if single_run_levels && !all && view.run(oldest).level > 0 || view.any_busy(0..n) {
            return None;
        }
        let is_new = all && view.run(oldest).level == 0;
        let output = if is_new { view.below(oldest) } else { view.run(oldest).place() };
        let job = view.whole(0..=oldest, output, CompactionReason::ReadTriggered, 1.0);
        let (bytes, size) = (job.rewritten(shape), view.size_of(0..n));
        let tables = || tables_of(&shape.runs[..n]);
        let entries = u128::from(tables().map(|t| t.entries).sum::<u64>()) * u128::from(bytes)
            / u128::from(size.max(1));
        // Readers pay for all runs but one in each read, so the saving is proportional.
        let saved = u128::from(shape.read_debt) * oldest as u128 / (view.len() - 1) as u128;
        let to_u64 = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
        (is_paid(to_u64(saved), to_u64(entries))
            && bytes <= shape.read_compaction_bytes
            && u128::from(bytes) <= quiet)
            .then_some(job)
    })
}
