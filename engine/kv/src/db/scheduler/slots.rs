//! Limits the helper threads of a Db that run subcompactions, and orders them.
//!
//! Invariants:
//! - H1: at most the configured number of helpers run at a time, until the store is closing. A
//!   helper that has yielded does not run.
//! - H2: while a flush wants helpers, no compaction gets one, and helpers of compactions yield at
//!   their next progress check. A flush wants helpers only while it has subcompactions left to start.
//! - H3: among compactions, helpers that have yielded come before new ones, because their
//!   unfinished subcompactions delay the end of their job.

use std::sync::Arc;
use std::time::Duration;

use crate::util::sync::{Condvar, Mutex};

/// Longest sleep of a waiting helper before it checks the conditions again.
const LOOK: Duration = Duration::from_millis(50);

/// Slots of the helper threads that run subcompactions.
pub struct SubcompactionSlots {
    most: usize,
    state: Mutex<SlotCounts>,
    changed: Condvar,
}

#[derive(Default)]
struct SlotCounts {
    at_work: usize,
    /// Number of flushes that want helpers.
    wanting: usize,
    /// Number of helpers that have yielded and wait to continue.
    waiting: usize,
}

impl SlotCounts {
    fn gives_to_compactions(&self, most: usize) -> bool {
        self.wanting == 0 && self.at_work < most
    }
}

/// Priority of a flush: it wants helpers until this value is dropped.
pub struct FlushPriority(Arc<SubcompactionSlots>);

impl Drop for FlushPriority {
    fn drop(&mut self) {
        self.0.state.lock().wanting -= 1;
        self.0.changed.notify_all();
    }
}

impl SubcompactionSlots {
    /// Creates slots for at most `most` helpers at a time.
    pub fn new(most: usize) -> SubcompactionSlots {
        SubcompactionSlots { most, state: Mutex::default(), changed: Condvar::default() }
    }

    /// Records that a flush wants helpers, until the returned value is dropped.
    pub fn want(self: &Arc<SubcompactionSlots>) -> FlushPriority {
        self.state.lock().wanting += 1;
        FlushPriority(self.clone())
    }

    /// Reports whether a flush wants helpers.
    pub fn are_wanted(&self) -> bool {
        self.state.lock().wanting > 0
    }

    /// Takes a slot for a helper of a flush. Returns false if none is free.
    pub fn take_for_flush(&self) -> bool {
        let mut state = self.state.lock();
        let takes = state.at_work < self.most;
        state.at_work += usize::from(takes);
        takes
    }

    /// Takes a slot for a helper of a compaction. Returns false if none is free or others have
    /// priority.
    pub fn take_for_compaction(&self) -> bool {
        let mut state = self.state.lock();
        let takes = state.gives_to_compactions(self.most) && state.waiting == 0;
        state.at_work += usize::from(takes);
        takes
    }

    /// Releases a slot when a helper exits or yields.
    pub fn give_back(&self) {
        let mut state = self.state.lock();
        debug_assert!(state.at_work > 0, "release without acquire");
        state.at_work -= 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until a helper of a compaction that has yielded may continue, and takes its slot
    /// again. If `is_over` returns true, it takes a slot at once, even beyond the limit. Returns
    /// false, without a slot, if `stops` returns true first.
    pub fn come_back(&self, is_over: impl Fn() -> bool, stops: impl Fn() -> bool) -> bool {
        let mut state = self.state.lock();
        state.waiting += 1;
        let comes = loop {
            if state.gives_to_compactions(self.most) || is_over() {
                break true;
            }
            if stops() {
                break false;
            }
            self.changed.wait_for(&mut state, LOOK);
        };
        state.waiting -= 1;
        state.at_work += usize::from(comes);
        comes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_go_first_then_helpers_that_yielded() {
        let helpers = Arc::new(SubcompactionSlots::new(2));
        assert!(helpers.take_for_compaction() && helpers.take_for_compaction());
        assert!(!helpers.take_for_compaction() && !helpers.take_for_flush());
        let (one, other) = (helpers.want(), helpers.want());
        helpers.give_back();
        assert!(helpers.are_wanted() && !helpers.take_for_compaction());
        // The helper waits until `stops` returns true.
        assert!(!helpers.come_back(|| false, || true));
        assert!(helpers.take_for_flush() && !helpers.take_for_flush());
        drop(one);
        assert!(helpers.are_wanted());
        drop(other);
        assert!(!helpers.are_wanted() && !helpers.come_back(|| false, || true));
        helpers.give_back();
        assert!(helpers.come_back(|| panic!("it may"), || panic!("it may")));
        helpers.give_back();
        helpers.state.lock().waiting += 1;
        assert!(!helpers.take_for_compaction() && helpers.take_for_flush());
        assert_eq!(helpers.state.lock().at_work, 2);
        assert!(helpers.come_back(|| true, || false), "a closing store delays no helper");
    }
}
