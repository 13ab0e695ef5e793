//! The hands of a Db: how many threads may help with pieces of jobs (`db/pieces.rs`) at one time, and
//! whose turn it is.
//!
//! Invariants:
//! - H1: no more hands are at work than there may be, until the store is closing. One that has
//!   stepped back is not at work.
//! - H2: while a flush wants hands no merge gets any, and those of merges step back at their next
//!   step. A flush wants hands only while a piece of it has not been begun.
//! - H3: of merges, hands that have stepped back come before new ones: what they have half done
//!   holds up the end of their job.

use std::sync::Arc;
use std::time::Duration;

use crate::base::sync::{Condvar, Mutex};

/// How long one who waits for his turn sleeps at a time, so that he sees what has changed.
const LOOK: Duration = Duration::from_millis(50);

/// Who may help at one time.
pub struct SubcompactionSlots {
    most: usize,
    state: Mutex<HandsState>,
    changed: Condvar,
}

#[derive(Default)]
struct HandsState {
    at_work: usize,
    /// Flushes that want hands.
    wanting: usize,
    /// Hands that would be at work again.
    waiting: usize,
}

impl HandsState {
    fn gives_to_merges(&self, most: usize) -> bool {
        self.wanting == 0 && self.at_work < most
    }
}

/// A flush wants hands as long as this is there.
pub struct FlushPriority(Arc<SubcompactionSlots>);

impl Drop for FlushPriority {
    fn drop(&mut self) {
        self.0.state.lock().wanting -= 1;
        self.0.changed.notify_all();
    }
}

impl SubcompactionSlots {
    /// At most so many at one time.
    pub fn new(most: usize) -> SubcompactionSlots {
        SubcompactionSlots { most, state: Mutex::default(), changed: Condvar::default() }
    }

    /// A flush wants hands, until what is given goes.
    pub fn want(self: &Arc<SubcompactionSlots>) -> FlushPriority {
        self.state.lock().wanting += 1;
        FlushPriority(self.clone())
    }

    /// Whether a flush wants hands.
    pub fn are_wanted(&self) -> bool {
        self.state.lock().wanting > 0
    }

    /// A hand for a flush begins to work, if one more may.
    pub fn take_for_flush(&self) -> bool {
        let mut state = self.state.lock();
        let takes = state.at_work < self.most;
        state.at_work += usize::from(takes);
        takes
    }

    /// A hand for a merge begins to work, if one more may, and nobody goes before it.
    pub fn take_for_merge(&self) -> bool {
        let mut state = self.state.lock();
        let takes = state.gives_to_merges(self.most) && state.waiting == 0;
        state.at_work += usize::from(takes);
        takes
    }

    /// A hand works no more, or steps back.
    pub fn give_back(&self) {
        let mut state = self.state.lock();
        debug_assert!(state.at_work > 0, "who gives back has taken");
        state.at_work -= 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until a merge's hand that has stepped back may work again, or `is_over` says that
    /// nothing is worth waiting for. False, and it does not work, where `stops` says so first.
    pub fn come_back(&self, is_over: impl Fn() -> bool, stops: impl Fn() -> bool) -> bool {
        let mut state = self.state.lock();
        state.waiting += 1;
        let comes = loop {
            if state.gives_to_merges(self.most) || is_over() {
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
    fn flushes_go_first_and_who_has_stepped_back_before_others() {
        let hands = Arc::new(SubcompactionSlots::new(2));
        assert!(hands.take_for_merge() && hands.take_for_merge());
        assert!(!hands.take_for_merge() && !hands.take_for_flush());
        let (one, other) = (hands.want(), hands.want());
        hands.give_back();
        assert!(hands.are_wanted() && !hands.take_for_merge());
        // It waits, and is told to stop.
        assert!(!hands.come_back(|| false, || true));
        assert!(hands.take_for_flush() && !hands.take_for_flush());
        drop(one);
        assert!(hands.are_wanted());
        drop(other);
        assert!(!hands.are_wanted() && !hands.come_back(|| false, || true));
        hands.give_back();
        assert!(hands.come_back(|| panic!("it may"), || panic!("it may")));
        hands.give_back();
        hands.state.lock().waiting += 1;
        assert!(!hands.take_for_merge() && hands.take_for_flush());
        assert_eq!(hands.state.lock().at_work, 2);
        assert!(hands.come_back(|| true, || false), "a store that is closed holds up nobody");
    }
}
