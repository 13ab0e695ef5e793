//! Coalesces concurrent triggers into one run of a task.
//!
//! Invariant: when every [`Coalescer::after_change`] has returned, the task has run completely at
//! least once after each change. Two runs never overlap. So its last run has seen the last change.
//! A thread that arrives during a run does not wait.

#[cfg(all(test, loom))]
mod loom_tests;

use scopeguard::ScopeGuard;

use crate::util::sync::{AtomicU64, Ordering};

/// Counter of the changes that the task has not seen.
#[derive(Default)]
pub(crate) struct Coalescer {
    unseen: AtomicU64,
}

impl Coalescer {
    /// Runs `work` after a change by the caller, so that it sees that change. If another thread is
    /// running the task, that thread runs it again instead.
    pub(crate) fn after_change(&self, work: impl Fn()) {
        if self.unseen.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let mut seen = 1;
        loop {
            // After a panic of the task, the next change starts from zero.
            let panicked = scopeguard::guard((), |()| self.unseen.store(0, Ordering::Release));
            work();
            ScopeGuard::into_inner(panicked);
            let unseen = self.unseen.fetch_sub(seen, Ordering::AcqRel) - seen;
            if unseen == 0 {
                return;
            }
            seen = unseen;
        }
    }
}
