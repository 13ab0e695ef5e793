//! When the deletes of a memtable are looked behind ([`look_behind`](crate::db::write::tombstone_probe)): a
//! schedule by what earlier looks have found.
//!
//! Invariants:
//! - L1: looks at a memtable pass at most [`STEPS`] entries for each delete of it, and a few for
//!   each look; one look at most one in [`SHARE`] of what its deletes were.
//! - L2: after a look that found nothing worth it the next is twice as many deletes off, up to
//!   [`FAR`]: deletes among keys that are there pay next to nothing. After one that did, it is
//!   `near` deletes off at most: that is what readers still have to pass.
//! - L3: looks of one memtable come at uneven distances, so that of queues which are served in turn
//!   each is looked at.
//! - One thread at a time looks at a memtable.

use crate::util::sync::{AtomicU64, Ordering};

/// After how many deletes a writer looks at most, where looks find something, and at least.
pub const NEAR: u64 = 64;

const NEAREST: u64 = 8;

/// The same at most, where they don't.
const FAR: u64 = 1024;

/// How many entries looks pass on average for each delete at most.
const STEPS: u64 = 4;

/// One look passes this share of the memtable's deletes at most, but [`SHORT`] entries in any case.
const SHARE: u64 = 32;

const SHORT: u64 = 2048;

/// A run of more than this share of the memtable's deletes is long: of such ones there are so few
/// that a tree remembers all.
const LONG: u64 = 192;

/// The distance of looks that find something: small where few deletes are, so that the last of them
/// are looked at too.
fn near(deletes: u64) -> u64 {
    (deletes / 512).clamp(NEAREST, NEAR)
}

/// When the next look at a memtable's deletes is due.
pub struct ProbeSchedule {
    /// At so many deletes; never while somebody looks.
    due: AtomicU64,
    /// The distance of looks in eighths of deletes: what long runs give varies much from one look
    /// to the next, so it grows slowly there.
    eighths: AtomicU64,
    /// How many entries looks have passed.
    passed: AtomicU64,
    /// At how many deletes the last look was.
    last: AtomicU64,
}

/// A look that the caller is to make.
pub struct TombstoneProbe {
    /// So many entries far.
    pub most: u64,
    /// In both directions: looks have met long runs.
    pub is_close: bool,
}

impl Default for ProbeSchedule {
    fn default() -> ProbeSchedule {
        let [due, eighths, passed, last] = [NEAREST, 8 * NEAREST, 0, 0].map(AtomicU64::new);
        ProbeSchedule { due, eighths, passed, last }
    }
}

impl ProbeSchedule {
    /// Goes on where those of another memtable were, which nobody writes to.
    pub fn go_on_from(&self, before: &ProbeSchedule) {
        let due = before.due.load(Ordering::Relaxed);
        // Somebody who looks will say so to the other one.
        self.due.store(if due == u64::MAX { NEAREST } else { due }, Ordering::Relaxed);
        self.eighths.store(before.eighths.load(Ordering::Relaxed), Ordering::Relaxed);
        self.passed.store(before.passed.load(Ordering::Relaxed), Ordering::Relaxed);
        self.last.store(before.last.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether one is due after so many deletes.
    #[inline]
    pub fn is_due(&self, deletes: u64) -> bool {
        deletes >= self.due.load(Ordering::Relaxed)
    }

    /// Whether the caller shall look; it must say what came of it.
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
            // Where deletes are few their number raises what is near by itself.
            is_close: self.eighths.load(Ordering::Relaxed) < 6 * near(deletes),
        })
    }

    /// A look at so many deletes has passed so many entries, where that was worth it.
    pub fn done(&self, deletes: u64, look: &TombstoneProbe, passed: u64) {
        let (before, near) = (self.eighths.load(Ordering::Relaxed), near(deletes));
        self.passed.fetch_add(passed, Ordering::Relaxed);
        // Deletes from one end leave runs as long as looks are apart, which no closer ones need.
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
        // Any number that is not the same each time.
        let less = deletes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.due.store(deletes + eighths / 8 - less % (eighths / 16).max(1), Ordering::Relaxed);
    }
}
