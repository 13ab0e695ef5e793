//! Schedules the [tombstone probes](crate::db::write::tombstone_probe) of a memtable by the results
//! of earlier ones.
//!
//! Invariants:
//! - L1: on average, the probes of a memtable pass at most [`STEPS`] entries for each of its
//!   deletes. One probe passes at most one [`SHARE`]th of its deletes, or [`SHORT`] entries.
//! - L2: a probe that finds no run of tombstones doubles the distance to the next one, up to
//!   [`FAR`] deletes. So deletes among live keys cost next to nothing. A probe that finds one sets
//!   the distance to at most `near` deletes, which is what readers may still have to pass.
//! - L3: the distances are uneven, so that queues that are consumed in turn are all probed.
//! - One thread at a time probes a memtable.

use crate::util::sync::{AtomicU64, Ordering};

/// Maximum distance in deletes between two probes that find runs of tombstones.
pub const NEAR: u64 = 64;

const NEAREST: u64 = 8;

/// Maximum distance in deletes between two probes that find none.
const FAR: u64 = 1024;

/// Maximum number of entries that the probes pass on average for each delete.
const STEPS: u64 = 4;

/// A probe passes at most one `SHARE`th of the memtable's deletes, but at least [`SHORT`] entries.
const SHARE: u64 = 32;

const SHORT: u64 = 2048;

/// A run of more than one `LONG`th of the memtable's deletes is long. There are so few of them that
/// the empty-range cache holds them all.
const LONG: u64 = 192;

/// Returns the distance between probes that find runs of tombstones. It is small while there are
/// few deletes, so that the last ones are probed too.
fn near(deletes: u64) -> u64 {
    (deletes / 512).clamp(NEAREST, NEAR)
}

/// Decides when a writer probes the deletes of a memtable.
pub struct ProbeSchedule {
    /// Number of deletes at which the next probe is due; the maximum while a probe runs.
    due: AtomicU64,
    /// Distance between probes, in eighths of a delete. The lengths of long runs vary, so it grows
    /// slowly after them.
    eighths: AtomicU64,
    /// Number of entries that all probes have passed.
    passed: AtomicU64,
    /// Number of deletes at the last probe.
    last: AtomicU64,
}

/// A probe to be made by the caller.
pub struct TombstoneProbe {
    /// Maximum number of entries to pass.
    pub most: u64,
    /// Whether to scan in both directions: earlier probes have found long runs.
    pub is_close: bool,
}

impl Default for ProbeSchedule {
    fn default() -> ProbeSchedule {
        let [due, eighths, passed, last] = [NEAREST, 8 * NEAREST, 0, 0].map(AtomicU64::new);
        ProbeSchedule { due, eighths, passed, last }
    }
}

impl ProbeSchedule {
    /// Continues the schedule of another memtable, which takes no more writes.
    pub fn go_on_from(&self, before: &ProbeSchedule) {
        let due = before.due.load(Ordering::Relaxed);
        // A running probe will report to the other schedule.
        self.due.store(if due == u64::MAX { NEAREST } else { due }, Ordering::Relaxed);
        self.eighths.store(before.eighths.load(Ordering::Relaxed), Ordering::Relaxed);
        self.passed.store(before.passed.load(Ordering::Relaxed), Ordering::Relaxed);
        self.last.store(before.last.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Reports whether a probe is due after this number of deletes.
    #[inline]
    pub fn is_due(&self, deletes: u64) -> bool {
        deletes >= self.due.load(Ordering::Relaxed)
    }

    /// Claims the due probe for the caller. The caller must report its result with
    /// [`done`](Self::done).
    pub fn claim(&self, deletes: u64) -> Option<TombstoneProbe> {
        let due = self.due.load(Ordering::Relaxed);
        let is_mine = deletes >= due
            && self
                .due
                .compare_exchange(due, u64::MAX, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        let left = (STEPS * deletes).saturating_sub(self.passed.load(Ordering::Relaxed));
        is_mine.then(|| TombstoneProbe {
            most: left.min(SHORT.max(deletes / SHARE)),
            // With few deletes, `near` grows by itself.
            is_close: self.eighths.load(Ordering::Relaxed) < 6 * near(deletes),
        })
    }

    /// Reports the result of a probe at this number of deletes: the number of entries in the runs
    /// of tombstones that it passed.
    pub fn done(&self, deletes: u64, look: &TombstoneProbe, passed: u64) {
        let (before, near) = (self.eighths.load(Ordering::Relaxed), near(deletes));
        self.passed.fetch_add(passed, Ordering::Relaxed);
        // Deleting from one end leaves runs as long as the distance between probes. Shorter
        // distances would not find more.
        let since = deletes.saturating_sub(self.last.swap(deletes, Ordering::Relaxed));
        let eighths = if passed >= (4 * near.max(since)).max(deletes / LONG) {
            8
        } else if look.is_close {
            before + 1
        } else if passed > 0 {
            8 * near
        } else {
            (2 * before).min(8 * FAR).min(deletes / 2).max(8 * near)
        };
        self.eighths.store(eighths, Ordering::Relaxed);
        // Pseudo-random, so that the distance varies.
        let less = deletes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.due.store(deletes + eighths / 8 - less % (eighths / 16).max(1), Ordering::Relaxed);
    }
}
