//! Large jobs are done in pieces, side by side: by whoever does the job, and by hands that the Db
//! lends him for it.
//!
//! Invariants:
//! - The ranges of pieces are disjoint and cover all keys, and all versions of a key lie in one.
//! - Who does the job does pieces himself, so it ends though no hand comes. He goes on when all
//!   hands have gone: nobody works for a job that is over.
//! - All hands of a Db and one more are as many as its background threads. With one or none every
//!   job is done by one thread: one history, one directory.
//! - After an error no piece is begun, and those that have begun stop at their next step. It is the
//!   first error that is told of. A piece that panics has failed, and a caller that panics waits for
//!   his hands all the same: no job succeeds without one of its pieces.
//! - A hand of the background work gives way as its workers do, and stands still for a pause as they
//!   do ([`throttle`](super::state::throttle), T4).

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{MAX_KEY_LEN, successor};
use crate::base::sync::{Condvar, Mutex};
use crate::env::Thread;
use crate::merge::visible::VisibleRange;

use super::state::core::Core;
use super::state::tree::Holder;
use super::state::work::PendingWork;

/// How long who waits for hands sleeps at a time, so that he sees what has changed.
const LOOK: Duration = Duration::from_millis(10);

/// So many places are looked at, for each piece, where a job might be divided.
pub(super) const MARKS: usize = 64;

/// Called by a piece at each of its steps: an error stops it.
pub(super) type During<'a> = dyn FnMut() -> Result<()> + 'a;

/// Cuts all keys into at most so many ranges of about as many bytes. `marks` are keys, each with the
/// bytes since the one before of the same source.
pub(super) fn divide(mut marks: Vec<(Vec<u8>, u64)>, pieces: usize) -> Vec<VisibleRange> {
    marks.sort_unstable();
    let total: u128 = marks.iter().map(|&(_, bytes)| u128::from(bytes)).sum();
    let (mut ranges, mut from, mut passed) = (vec![], vec![], 0);
    for (key, bytes) in marks {
        passed += u128::from(bytes);
        let due = ranges.len() + 1;
        if due == pieces || passed == total || passed * (pieces as u128) < total * due as u128 {
            continue;
        }
        // Of the longest keys there is none right behind.
        let until = Some(&key).filter(|k| k.len() < MAX_KEY_LEN).and_then(|k| successor(k));
        if let Some(until) = until.filter(|u| *u > from) {
            let from = std::mem::replace(&mut from, until.clone());
            ranges.push(VisibleRange { from, until: Some(until) });
        }
    }
    ranges.push(VisibleRange { from, until: None });
    ranges
}

/// A job in pieces.
struct Pieces<T, W> {
    work: W,
    state: Mutex<PiecesState<T>>,
    /// A hand has gone.
    gone: Condvar,
}

struct PiecesState<T> {
    /// The next to be begun.
    next: usize,
    /// What came of each.
    done: Vec<Option<T>>,
    failed: Option<Error>,
    hands: usize,
}

impl<T, W: Fn(&Core, usize, &mut During<'_>) -> Result<T>> Pieces<T, W> {
    /// Does pieces as long as there are any to be begun.
    fn work(&self, core: &Core, during: &mut During<'_>) {
        while let Some(i) = self.begin() {
            let panics = FailsOnPanic(self);
            let done = (self.work)(core, i, &mut || {
                self.check()?;
                during()
            });
            std::mem::forget(panics);
            match done {
                Ok(done) => self.state.lock().done[i] = Some(done),
                Err(e) => self.fail(e),
            }
        }
    }

    fn begin(&self) -> Option<usize> {
        let mut state = self.state.lock();
        if state.failed.is_some() || state.next == state.done.len() {
            return None;
        }
        state.next += 1;
        Some(state.next - 1)
    }

    fn check(&self) -> Result<()> {
        match &self.state.lock().failed {
            Some(e) => Err(Error::new(ErrorKind::Closed, format!("another piece failed: {e}"))),
            None => Ok(()),
        }
    }
}

impl<T, W> Pieces<T, W> {
    fn fail(&self, e: Error) {
        self.state.lock().failed.get_or_insert(e);
    }
}

/// Tells of a piece that ends by a panic.
struct FailsOnPanic<'a, T, W>(&'a Pieces<T, W>);

impl<T, W> Drop for FailsOnPanic<'_, T, W> {
    fn drop(&mut self) {
        self.0.fail(Error::new(ErrorKind::Io, "a piece of the job panicked"));
    }
}

/// Lets nobody leave, also by a panic, before all hands have gone.
struct WaitsForHands<'a, T, W>(&'a Pieces<T, W>);

impl<T, W> Drop for WaitsForHands<'_, T, W> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        while state.hands > 0 {
            self.0.gone.wait_for(&mut state, LOOK);
        }
    }
}

/// Counts a hand as there until it goes, however it does.
struct Hand<T, W>(Arc<Pieces<T, W>>, Arc<PendingWork>);

impl<T, W> Drop for Hand<T, W> {
    fn drop(&mut self) {
        self.1.give_hand_back();
        self.0.state.lock().hands -= 1;
        self.0.gone.notify_all();
    }
}

impl Core {
    /// In how many pieces a job over so many bytes is done, of which each has at least `least`.
    pub(super) fn pieces_of(&self, bytes: u64, least: u64) -> usize {
        (bytes / least).clamp(1, self.options.background_threads.max(1) as u64) as usize
    }

    /// Does `number` pieces of a job: `work` does the one that it is told. `during` is called at
    /// each step of those that the caller does, and while he waits for hands. Gives what came of
    /// each, in order.
    ///
    /// # Errors
    /// The first that came of a piece, or of `during`.
    pub(super) fn in_pieces<T, W>(
        &self,
        number: usize,
        holder: Holder,
        during: &mut During<'_>,
        work: W,
    ) -> Result<Vec<T>>
    where
        T: Send + 'static,
        W: Fn(&Core, usize, &mut During<'_>) -> Result<T> + Send + Sync + 'static,
    {
        let done = (0..number).map(|_| None).collect();
        let state = PiecesState { next: 0, done, failed: None, hands: 0 };
        let pieces = Arc::new(Pieces { work, state: Mutex::new(state), gone: Condvar::default() });
        let mut hands = vec![];
        let waits = WaitsForHands(&pieces);
        while hands.len() + 1 < number
            && let Some(hand) = self.lend_hand(&pieces, holder)
        {
            hands.push(hand);
        }
        pieces.work(self, during);
        loop {
            let mut state = pieces.state.lock();
            if state.hands > 0 {
                pieces.gone.wait_for(&mut state, LOOK);
            }
            if state.hands == 0 {
                break;
            }
            drop(state);
            if let Err(e) = during() {
                pieces.fail(e);
            }
        }
        drop(waits);
        hands.into_iter().for_each(|thread| thread.join());
        let mut state = pieces.state.lock();
        match state.failed.take() {
            Some(e) => Err(e),
            None => {
                let done: Option<Vec<T>> = state.done.drain(..).collect();
                done.ok_or_else(|| Error::new(ErrorKind::Io, "a piece of the job was not done"))
            }
        }
    }

    /// A thread that does pieces of a job, if the Db has one to lend.
    fn lend_hand<T, W>(&self, pieces: &Arc<Pieces<T, W>>, holder: Holder) -> Option<Box<dyn Thread>>
    where
        T: Send + 'static,
        W: Fn(&Core, usize, &mut During<'_>) -> Result<T> + Send + Sync + 'static,
    {
        let core = self.me.get()?.upgrade()?;
        let most = self.options.background_threads.saturating_sub(1);
        if !self.work.lend_hand(most) {
            return None;
        }
        pieces.state.lock().hands += 1;
        let hand = Hand(pieces.clone(), self.work.clone());
        let work = move || match holder {
            Holder::Caller => hand.0.work(&core, &mut || Ok(())),
            Holder::Background => {
                core.env.give_way();
                if let Some(_running) = core.throttle.begin() {
                    hand.0.work(&core, &mut || core.stand_still(&mut || Ok(())));
                }
            }
        };
        // What is wrong makes the job slower, not impossible.
        self.env.spawn("firn-hand", Box::new(work)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(marks: &[(&str, u64)]) -> Vec<(Vec<u8>, u64)> {
        marks.iter().map(|&(k, bytes)| (k.as_bytes().to_vec(), bytes)).collect()
    }

    fn bounds(ranges: &[VisibleRange]) -> Vec<Option<&[u8]>> {
        let mut from: &[u8] = &[];
        for r in ranges {
            assert_eq!(r.from, from);
            from = r.until.as_deref().unwrap_or_default();
            assert!(from > r.from.as_slice() || r.until.is_none());
        }
        ranges.iter().map(|r| r.until.as_deref()).collect()
    }

    #[test]
    fn ranges_have_as_many_bytes() {
        let sources = marks(&[("b", 10), ("d", 10), ("a", 10), ("c", 10), ("e", 5)]);
        assert_eq!(bounds(&divide(sources.clone(), 1)), [None]);
        assert_eq!(bounds(&divide(sources.clone(), 2)), [Some(&b"c\0"[..]), None]);
        assert_eq!(bounds(&divide(sources, 3)), [Some(&b"b\0"[..]), Some(b"c\0"), None]);
        assert_eq!(bounds(&divide(vec![], 3)), [None]);
    }

    #[test]
    fn one_key_is_not_divided() {
        assert_eq!(bounds(&divide(marks(&[("a", 10), ("a", 10)]), 4)), [Some(&b"a\0"[..]), None]);
        assert_eq!(bounds(&divide(marks(&[("", 10), ("", 0)]), 2)), [None]);
        let longest = vec![(vec![b'x'; MAX_KEY_LEN], 10), (b"y".to_vec(), 10)];
        assert_eq!(bounds(&divide(longest, 2)), [None]);
    }
}
