//! Work that follows from whatever has changed: of several threads that change something at once, one
//! does it for all.
//!
//! Invariant: when every [`Coalescer::after_change`] has returned, the work has been done at least once
//! from beginning to end after each of the changes, and never twice at a time. So what is left by it
//! is what the last change asks for, and who comes while another one is at work waits for nobody.

#[cfg(all(test, loom))]
mod loom_tests;

use super::sync::{AtomicU64, Ordering};
use super::unless_done::UnlessDone;

/// Counts the changes that the work has not seen.
#[derive(Default)]
pub(crate) struct Coalescer {
    unseen: AtomicU64,
}

impl Coalescer {
    /// The caller has changed something: does the `work`, which sees what the caller has changed, or
    /// leaves it to the one who is at it, who does it again then.
    pub(crate) fn after_change(&self, work: impl Fn()) {
        if self.unseen.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let mut seen = 1;
        loop {
            // After work that panics the next change begins anew.
            let panicked = UnlessDone::new(|| self.unseen.store(0, Ordering::Release));
            work();
            panicked.done();
            let unseen = self.unseen.fetch_sub(seen, Ordering::AcqRel) - seen;
            if unseen == 0 {
                return;
            }
            seen = unseen;
        }
    }
}
