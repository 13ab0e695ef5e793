//! What readers have learnt of a tree: stretches of keys in which there is nothing to be seen, so that nobody walks through them again.
//!
//! A queue deletes at its head what it once put there, and each look for the first key would pass all those deletes. A reader that has passed
//! many notes the stretch as a *gap*, and later readers leap over it. It does not matter why nothing is there.
//!
//! Invariants:
//! - G1: a sure gap holds for every reader at its `since` or later. A writer that has inserted an entry other than a deletion cuts the gaps
//!   at its key before the entry can be seen; deletions of any kind take nothing away from a gap.
//! - G2: a writer that took its sequence number before a gap was noted may miss it. So a gap is noted with the last number that was given
//!   out, while no other could be: all later writers cut it. It is only *tried* until a reader at that number or later has found it empty;
//!   where nobody was writing, that is the reader that notes it.
//! - G3: what a reader finds at its read point is so whatever the state of memtables and tables: its view has all that may be read there.
//! - G4: sure gaps are in order and apart. There are at most `MOST` of them, `MOST_TRIED` tried ones, and no bound of one is longer than
//!   `LONGEST`: 640 KiB a tree at worst, 20 to 40 KiB where keys are short.

use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

use crate::base::key::Seq;
use crate::base::shared::Shared;
use crate::base::sync::modelled::Mutex;
use crate::base::sync::{AtomicU64, Ordering, epoch};

/// The most gaps of a tree.
const MOST: usize = 256;
/// The most tried ones: whoever writes while there are any looks at all of them.
const MOST_TRIED: usize = 64;
/// The longest key that a gap begins or ends with, in bytes.
pub const LONGEST: usize = 1 << 10;
/// How many entries a reader passes before that is worth noting. Debug builds note at once, so that the short histories of tests meet gaps.
pub const WORTH: u64 = if cfg!(debug_assertions) { 1 } else { 64 };

/// The writers of a Db.
pub trait Writers: Send + Sync {
    /// Calls `f` with the last sequence number that was given out, while no other is. Does nothing when somebody is just at it.
    fn hold(&self, f: &mut dyn FnMut(Seq));
}

/// The gaps of a tree. Readers wait for nobody; writers for each other, where they cut a gap.
pub struct Gaps {
    known: Shared<Known>,
    /// How many there are: all that a writer looks at while there are none.
    count: AtomicU64,
    /// Held while `known` is replaced.
    changing: Mutex<()>,
    writers: OnceLock<Weak<dyn Writers>>,
}

debug_by!(Gaps, "Gaps");

#[derive(Clone, Default)]
struct Known {
    sure: Vec<Arc<Gap>>,
    /// In the order in which they were noted.
    tried: Vec<Arc<Gap>>,
}

/// Nothing is to be seen in `[first, until)`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gap {
    first: Vec<u8>,
    until: Vec<u8>,
    since: Seq,
    /// How many entries a reader is spared, roughly: cuts halve it, and what is not worth noting any more is forgotten.
    steps: u64,
}

impl Gap {
    fn meets(&self, first: &[u8], until: &[u8]) -> bool {
        self.first.as_slice() < until && first < self.until.as_slice()
    }

    fn has_all(&self, first: &[u8], until: &[u8]) -> bool {
        self.first.as_slice() <= first && until <= self.until.as_slice()
    }

    /// What is left without `[first, until)`.
    fn without(&self, first: &[u8], until: &[u8]) -> impl Iterator<Item = Arc<Gap>> {
        let part =
            |first: &[u8], until: &[u8]| Gap { first: first.to_vec(), until: until.to_vec(), steps: self.steps / 2, ..*self };
        let left = (self.first.as_slice() < first).then(|| part(&self.first, first));
        let right = (until < self.until.as_slice()).then(|| part(until, &self.until));
        left.into_iter().chain(right).filter(|g| g.steps >= WORTH).map(Arc::new)
    }
}

impl Known {
    /// The sure gap around `key`.
    fn around(&self, key: &[u8]) -> Option<&Gap> {
        let behind = self.sure.partition_point(|g| g.first.as_slice() <= key);
        self.sure[..behind].last().filter(|g| key < g.until.as_slice()).map(|g| &**g)
    }

    /// The sure gaps that meet or touch `[first, until)`.
    fn near(&self, first: &[u8], until: &[u8]) -> Range<usize> {
        let from = self.sure.partition_point(|g| g.until.as_slice() < first);
        from..self.sure.partition_point(|g| g.first.as_slice() <= until).max(from)
    }

    fn meets(&self, first: &[u8], until: &[u8]) -> bool {
        self.sure[self.near(first, until)].iter().chain(&self.tried).any(|g| g.meets(first, until))
    }

    /// Takes a sure gap in, as one with those that it meets: what holds for all of it holds since the last of them.
    fn add(&mut self, gap: Gap) {
        let near = self.near(&gap.first, &gap.until);
        let join = |a: Gap, b: &Arc<Gap>| Gap {
            first: a.first.min(b.first.clone()),
            until: a.until.max(b.until.clone()),
            since: a.since.max(b.since),
            steps: a.steps.saturating_add(b.steps),
        };
        let whole = self.sure[near.clone()].iter().fold(gap, join);
        self.sure.splice(near, [Arc::new(whole)]);
        if self.sure.len() > MOST
            && let Some(least) = self.least()
        {
            self.sure.remove(least);
        }
    }

    /// Forgets the oldest tried ones that are too many.
    fn forget_tried(&mut self) {
        self.tried.drain(..self.tried.len().saturating_sub(MOST_TRIED));
    }

    fn least(&self) -> Option<usize> {
        (0..self.sure.len()).min_by_key(|&i| self.sure[i].steps)
    }
}

impl Default for Gaps {
    fn default() -> Self {
        Gaps {
            known: Shared::new(Arc::default()),
            count: AtomicU64::new(0),
            changing: Mutex::new(()),
            writers: OnceLock::new(),
        }
    }
}

impl Gaps {
    /// Says who writes. Without writers nothing is learnt.
    pub fn set_writers(&self, writers: impl FnOnce() -> Weak<dyn Writers>) {
        self.writers.get_or_init(writers);
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Whoever took a number after a gap was noted sees it: numbers are taken under a lock that is held while gaps are noted.
        self.count.load(Ordering::Relaxed) == 0
    }

    /// An entry of `key` that is no deletion is in its memtable and can't be seen yet.
    #[inline]
    pub fn cut(&self, key: &[u8]) {
        if !self.is_empty() {
            self.cut_range(key, &[key, &[0]].concat());
        }
    }

    /// Entries in `[first, until)` that are no deletions are in their place and can't be seen yet.
    pub fn cut_range(&self, first: &[u8], until: &[u8]) {
        if !self.known.load(&epoch::pin()).meets(first, until) {
            return;
        }
        let _one = self.changing.lock();
        let known = self.known.load_full();
        let cut = |gaps: &[Arc<Gap>]| {
            let part = |g: &Arc<Gap>| if g.meets(first, until) { g.without(first, until).collect() } else { vec![g.clone()] };
            gaps.iter().flat_map(part).collect::<Vec<_>>()
        };
        let mut next = Known { sure: cut(&known.sure), tried: cut(&known.tried) };
        next.forget_tried();
        if next.sure.len() > MOST
            && let Some(least) = next.least()
        {
            next.sure.remove(least);
        }
        self.replace(next);
    }

    /// Puts into `to` where a reader at `read` leaves the gap around `key`: going forward at the first key behind it, backward before its
    /// first key. False when no gap is known there.
    pub fn leap(&self, key: &[u8], forward: bool, read: Seq, to: &mut Vec<u8>) -> bool {
        if self.is_empty() {
            return false;
        }
        let guard = epoch::pin();
        let Some(gap) = self.known.load(&guard).around(key).filter(|g| g.since <= read) else { return false };
        to.clear();
        to.extend_from_slice(if forward { &gap.until } else { &gap.first });
        true
    }

    /// A reader at `read` has passed so many entries in `[first, until)` and found nothing.
    #[cold]
    pub fn learn(&self, first: &[u8], until: &[u8], read: Seq, steps: u64) {
        let Some(writers) = self.writers.get().and_then(Weak::upgrade) else { return };
        if first >= until || first.len().max(until.len()) > LONGEST || self.prove(first, until, read, steps) {
            return;
        }
        writers.hold(&mut |last| {
            let _one = self.changing.lock();
            let mut next = (*self.known.load_full()).clone();
            let gap = Gap { first: first.to_vec(), until: until.to_vec(), since: last, steps };
            if read >= last {
                next.add(Gap { since: read, ..gap });
            } else if next.tried.iter().all(|g| !g.has_all(first, until)) {
                next.tried.push(Arc::new(gap));
                next.forget_tried();
            }
            self.replace(next);
        });
    }

    /// There is nothing in `[first, until)` for readers at `since` or later, and passing it would take so many steps. Only while nobody writes.
    pub fn note(&self, first: &[u8], until: &[u8], since: Seq, steps: u64) {
        if first < until && first.len().max(until.len()) <= LONGEST {
            let _one = self.changing.lock();
            let mut next = (*self.known.load_full()).clone();
            next.add(Gap { first: first.to_vec(), until: until.to_vec(), since, steps });
            self.replace(next);
        }
    }

    /// Makes sure gaps of tried ones. True when there is no more to learn.
    fn prove(&self, first: &[u8], until: &[u8], read: Seq, steps: u64) -> bool {
        let _one = self.changing.lock();
        let mut next = (*self.known.load_full()).clone();
        let (proven, tried): (Vec<_>, Vec<_>) = next.tried.drain(..).partition(|g| g.since <= read && g.meets(first, until));
        next.tried = tried;
        for g in &proven {
            let (from, to) = (g.first.as_slice().max(first), g.until.as_slice().min(until));
            next.add(Gap { first: from.to_vec(), until: to.to_vec(), since: read, steps });
        }
        let mut changed = !proven.is_empty();
        let near = next.near(first, until);
        let mut done = next.sure[near.clone()].iter().any(|g| g.has_all(first, until) && g.since <= read);
        // Who comes later than others must be worth more, but those age by it.
        if near.is_empty()
            && next.sure.len() == MOST
            && let Some(least) = next.least()
            && let before = &next.sure[least]
            && before.steps >= steps
        {
            next.sure[least] = Arc::new(Gap { steps: before.steps - steps, ..(**before).clone() });
            (done, changed) = (true, true);
        }
        if changed {
            self.replace(next);
        }
        done
    }

    fn replace(&self, known: Known) {
        let count = known.sure.len() + known.tried.len();
        self.known.replace(Arc::new(known));
        self.count.store(count as u64, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
