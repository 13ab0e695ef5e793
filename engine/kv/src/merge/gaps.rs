//! Gaps, which readers have found in a tree: stretches of keys in which no key is visible, so
//! that nobody walks through them again.
//!
//! A queue deletes at its head what it once put there, and each look for the first key would pass
//! all those deletes. A reader that has passed many notes the stretch as a *gap*, and later readers
//! leap over it. It does not matter why nothing is there.
//!
//! Invariants:
//! - G1: a sure gap holds for every reader at its `since` or later. A writer that has inserted an
//!   entry other than a deletion cuts the gaps at its key before the entry can be seen; deletions
//!   of any kind take nothing away from a gap.
//! - G2: a writer that took its sequence number before a gap was noted may miss it. So a gap is
//!   noted with the last number that was given out, while no other could be: all later writers cut
//!   it. It is only *tried* until a reader at that number or later has found it empty; where nobody
//!   was writing, that is the reader that notes it.
//! - G3: what a reader finds at its read point is so whatever the state of memtables and tables:
//!   its view has all that may be read there.
//! - G4: sure gaps are in order and apart. A tree has as much memory for them as it and the other
//!   trees leave of what is there for all ([`EmptyRangeBudget`]), and `FLOOR` in any case; who needs more
//!   forgets a quarter, what spares readers least. Tried ones are at most `MOST_TRIED`, and no
//!   bound is longer than `LONGEST`.
//!
//! A queue has one gap, so thousands of queues in one tree have thousands. A change copies no more
//! than the way to it (`base/version_map.rs`), and readers keep the version that they hold.

use std::sync::atomic::AtomicU64 as Number;
use std::sync::{Arc, OnceLock, Weak};

use crate::base::key::Seq;
use crate::base::shared::Shared;
use crate::base::sync::modelled::Mutex;
use crate::base::sync::{AtomicU64, Ordering, epoch, rank};
use crate::base::version_map::{MapKey, VersionMap};

/// The most tried ones: whoever writes while there are any looks at all of them.
const MOST_TRIED: usize = 64;
/// The longest key that a gap begins or ends with, in bytes.
pub const LONGEST: usize = 1 << 10;
/// How many entries a reader passes before that is worth noting. Debug builds note at once, so that
/// the short histories of tests meet gaps.
pub const WORTH: u64 = if cfg!(debug_assertions) { 1 } else { 64 };

/// What a sure gap takes beside the bytes of its bounds: a node, two counted slices, and what an
/// allocator rounds up.
const NODE: u64 = 160;
/// What there is for all trees at least: a few hundred gaps.
const LEAST: u64 = 128 << 10;

/// What a tree may have in any case, however much others have that are not read or written any
/// more: some eighty gaps.
const FLOOR: u64 = 16 << 10;

/// Memory that the gaps of many trees share.
pub struct EmptyRangeBudget {
    bytes: u64,
    used: Number,
}

debug_by!(EmptyRangeBudget, "Room", bytes);

impl EmptyRangeBudget {
    /// Of so many bytes, or of some that are needed in any case.
    pub fn new(bytes: u64) -> Arc<EmptyRangeBudget> {
        Arc::new(EmptyRangeBudget { bytes: bytes.max(LEAST), used: Number::new(0) })
    }

    /// What a tree may use that uses so much now: half of what others leave, or a little. So `n`
    /// trees that want more come to one part of `n + 1` each.
    fn part(&self, own: u64) -> u64 {
        let others = self.used.load(Ordering::Relaxed).saturating_sub(own);
        (self.bytes.saturating_sub(others) / 2).max(FLOOR)
    }

    fn resized(&self, before: u64, now: u64) {
        self.used.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }
}

/// The writers of a Db.
pub trait Writers: Send + Sync {
    /// Calls `f` with the last sequence number that was given out, while no other is. Does nothing
    /// when somebody is just at it.
    fn hold(&self, f: &mut dyn FnMut(Seq));
}

/// The gaps of a tree. Readers wait for nobody; writers for each other, where they cut a gap.
pub struct EmptyRangeCache {
    known: Shared<KnownGaps>,
    /// How many there are: all that a writer looks at while there are none.
    count: AtomicU64,
    /// Held while `known` is replaced.
    changing: Mutex<(), rank::EmptyRangeCache>,
    room: Arc<EmptyRangeBudget>,
    writers: OnceLock<Weak<dyn Writers>>,
}

debug_by!(EmptyRangeCache, "EmptyRangeCache");

#[derive(Clone, Default)]
struct KnownGaps {
    /// By their first keys.
    sure: VersionMap<Rest>,
    /// How many those are, and what they take.
    count: u64,
    bytes: u64,
    /// In the order in which they were noted.
    tried: Vec<Arc<EmptyRange>>,
}

/// What a gap is beside its first key.
#[derive(Clone)]
struct Rest {
    until: MapKey,
    since: Seq,
    /// How many entries a reader is spared, roughly: cuts halve it, and what is not worth noting
    /// any more is forgotten.
    steps: u64,
}

/// Nothing is to be seen in `[first, until)`.
#[derive(Clone)]
struct EmptyRange {
    first: MapKey,
    rest: Rest,
}

fn meets(gap: (&MapKey, &Rest), first: &[u8], until: &[u8]) -> bool {
    **gap.0 < *until && *first < *gap.1.until
}

/// What a sure gap takes.
fn bytes(first: &[u8], rest: &Rest) -> u64 {
    NODE + (first.len() + rest.until.len()) as u64
}

impl EmptyRange {
    fn new(first: &[u8], until: &[u8], since: Seq, steps: u64) -> EmptyRange {
        EmptyRange { first: first.into(), rest: Rest { until: until.into(), since, steps } }
    }

    fn of((first, rest): (&MapKey, &Rest)) -> EmptyRange {
        EmptyRange { first: first.clone(), rest: rest.clone() }
    }

    fn meets(&self, first: &[u8], until: &[u8]) -> bool {
        meets((&self.first, &self.rest), first, until)
    }

    fn has_all(&self, first: &[u8], until: &[u8]) -> bool {
        *self.first <= *first && *until <= *self.rest.until
    }

    /// What it takes among the sure ones.
    fn bytes(&self) -> u64 {
        bytes(&self.first, &self.rest)
    }

    /// What is left without `[first, until)`.
    fn without(&self, first: &[u8], until: &[u8]) -> impl Iterator<Item = EmptyRange> {
        let part = |first: &[u8], until: &[u8]| {
            EmptyRange::new(first, until, self.rest.since, self.rest.steps / 2)
        };
        let left = (*self.first < *first).then(|| part(&self.first, first));
        let right = (*until < *self.rest.until).then(|| part(until, &self.rest.until));
        left.into_iter().chain(right).filter(|g| g.rest.steps >= WORTH)
    }
}

impl KnownGaps {
    /// The last sure gap that begins at `key` or before.
    fn at_or_before(&self, key: &[u8]) -> Option<(&MapKey, &Rest)> {
        self.sure.end(false, |first| first <= key)
    }

    /// The sure gap around `key`.
    fn around(&self, key: &[u8]) -> Option<(&MapKey, &Rest)> {
        self.at_or_before(key).filter(|(_, rest)| *key < *rest.until)
    }

    /// The last sure gap that meets or touches `[first, until)`.
    fn last_near(&self, first: &[u8], until: &[u8]) -> Option<(&MapKey, &Rest)> {
        self.at_or_before(until).filter(|(_, rest)| *first <= *rest.until)
    }

    /// The last sure gap that meets `[first, until)`.
    fn last_in(&self, first: &[u8], until: &[u8]) -> Option<(&MapKey, &Rest)> {
        self.sure.end(false, |k| k < until).filter(|g| meets(*g, first, until))
    }

    fn meets(&self, first: &[u8], until: &[u8]) -> bool {
        self.last_in(first, until).is_some() || self.tried.iter().any(|g| g.meets(first, until))
    }

    /// Puts a sure gap in, in place of one with the same first key.
    fn put(&mut self, gap: EmptyRange) {
        self.count += 1;
        self.bytes += gap.bytes();
        if let Some(replaced) = self.sure.insert(&gap.first, gap.rest) {
            self.count -= 1;
            self.bytes -= bytes(&gap.first, &replaced);
        }
    }

    fn take(&mut self, gap: &EmptyRange) {
        self.count -= 1;
        self.bytes -= gap.bytes();
        self.sure.remove(&gap.first);
    }

    /// Takes a sure gap in, as one with those that it meets or touches: what holds for all of it
    /// holds since the last of them.
    fn add(&mut self, mut gap: EmptyRange) {
        while let Some(other) = self.last_near(&gap.first, &gap.rest.until).map(EmptyRange::of) {
            let is_first = other.first <= gap.first;
            if !is_first {
                self.take(&other);
            }
            gap.first = gap.first.min(other.first);
            gap.rest = Rest {
                until: gap.rest.until.max(other.rest.until),
                since: gap.rest.since.max(other.rest.since),
                steps: gap.rest.steps.saturating_add(other.rest.steps),
            };
            if is_first {
                // Those before lie apart. It is replaced below, without being taken out first: that
                // happens to a queue's again and again.
                break;
            }
        }
        self.put(gap);
    }

    /// Takes `[first, until)` out of all gaps.
    fn cut(&mut self, first: &[u8], until: &[u8]) {
        while let Some(gap) = self.last_in(first, until).map(EmptyRange::of) {
            self.take(&gap);
            gap.without(first, until).for_each(|part| self.put(part));
        }
        let part = |g: Arc<EmptyRange>| match g.meets(first, until) {
            true => g.without(first, until).map(Arc::new).collect(),
            false => vec![g],
        };
        self.tried = std::mem::take(&mut self.tried).into_iter().flat_map(part).collect();
        self.forget_tried();
    }

    /// Forgets the oldest tried ones that are too many.
    fn forget_tried(&mut self) {
        self.tried.drain(..self.tried.len().saturating_sub(MOST_TRIED));
    }

    /// Forgets what spares readers least, of equal ones the oldest, until a quarter of `most` is
    /// free.
    #[cold]
    fn forget_least(&mut self, most: u64) {
        let mut all: Vec<EmptyRange> = self.sure.iter().map(EmptyRange::of).collect();
        all.sort_unstable_by_key(|g| (g.rest.steps, g.rest.since));
        for gap in all {
            if self.bytes <= most / 4 * 3 {
                break;
            }
            self.take(&gap);
        }
    }
}

impl EmptyRangeCache {
    /// None yet.
    pub fn new(room: Arc<EmptyRangeBudget>) -> EmptyRangeCache {
        let (known, writers) = (Shared::new(Arc::default()), OnceLock::new());
        EmptyRangeCache { known, count: AtomicU64::new(0), changing: Mutex::new(()), room, writers }
    }

    /// Says who writes. Without writers nothing is learnt.
    pub fn set_writers(&self, writers: impl FnOnce() -> Weak<dyn Writers>) {
        self.writers.get_or_init(writers);
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Whoever took a number after a gap was noted sees it: numbers are taken under a lock that
        // is held while gaps are noted.
        self.count.load(Ordering::Relaxed) == 0
    }

    /// How many there are.
    #[cfg(test)]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// An entry of `key` that is no deletion is in its memtable and can't be seen yet.
    #[inline]
    pub fn cut(&self, key: &[u8]) {
        if !self.is_empty() {
            self.invalidate(key, &[key, &[0]].concat());
        }
    }

    /// Entries in `[first, until)` that are no deletions are in their place and can't be seen yet.
    pub fn invalidate(&self, first: &[u8], until: &[u8]) {
        if !self.known.load(&epoch::pin()).meets(first, until) {
            return;
        }
        let _one = self.changing.lock();
        let mut next = self.copy();
        next.cut(first, until);
        self.replace(next);
    }

    /// Puts into `to` where a reader at `read` leaves the gap around `key`: going forward at the
    /// first key behind it, backward before its first key. False when no gap is known there.
    pub fn skip_empty_range(&self, key: &[u8], forward: bool, read: Seq, to: &mut Vec<u8>) -> bool {
        self.look(read, to, forward, |known| known.around(key))
    }

    /// Puts into `to` where a reader at `read` that goes on from `key` comes to a gap: forward at the
    /// first key of the next one, backward behind the last one at `key` or before. False when there
    /// is none.
    pub fn nearest(&self, key: &[u8], forward: bool, read: Seq, to: &mut Vec<u8>) -> bool {
        self.look(read, to, !forward, |known| match forward {
            true => known.sure.end(true, |first| key < first),
            false => known.at_or_before(key),
        })
    }

    /// Puts into `to` where the gap that `find` gives ends, or where it begins, for a reader at
    /// `read`. False when there is none.
    #[inline]
    fn look(
        &self,
        read: Seq,
        to: &mut Vec<u8>,
        end: bool,
        find: impl FnOnce(&KnownGaps) -> Option<(&MapKey, &Rest)>,
    ) -> bool {
        if self.is_empty() {
            return false;
        }
        let guard = epoch::pin();
        let Some((first, rest)) =
            find(self.known.load(&guard)).filter(|(_, rest)| rest.since <= read)
        else {
            return false;
        };
        to.clear();
        to.extend_from_slice(if end { &rest.until } else { first });
        true
    }

    /// A reader at `read` has passed so many entries in `[first, until)` and found nothing.
    #[cold]
    pub fn learn(&self, first: &[u8], until: &[u8], read: Seq, steps: u64) {
        let Some(writers) = self.writers.get().and_then(Weak::upgrade) else { return };
        if first >= until
            || first.len().max(until.len()) > LONGEST
            || self.prove(first, until, read, steps)
        {
            return;
        }
        writers.hold(&mut |last| {
            let _one = self.changing.lock();
            let mut next = self.copy();
            if read >= last {
                next.add(EmptyRange::new(first, until, read, steps));
            } else if next.tried.iter().all(|g| !g.has_all(first, until)) {
                next.tried.push(Arc::new(EmptyRange::new(first, until, last, steps)));
                next.forget_tried();
            }
            self.replace(next);
        });
    }

    /// There is nothing in `[first, until)` for readers at `since` or later, and passing it would
    /// take so many steps. Only while nobody writes.
    pub fn note(&self, first: &[u8], until: &[u8], since: Seq, steps: u64) {
        if first < until && first.len().max(until.len()) <= LONGEST {
            let _one = self.changing.lock();
            let mut next = self.copy();
            next.add(EmptyRange::new(first, until, since, steps));
            self.replace(next);
        }
    }

    /// Makes sure gaps of tried ones. True when there is no more to learn.
    fn prove(&self, first: &[u8], until: &[u8], read: Seq, steps: u64) -> bool {
        let _one = self.changing.lock();
        let mut next = self.copy();
        let of = |g: &Arc<EmptyRange>| g.rest.since <= read && g.meets(first, until);
        let (proven, tried): (Vec<_>, Vec<_>) = next.tried.drain(..).partition(of);
        next.tried = tried;
        for g in &proven {
            next.add(EmptyRange::new(first.max(&g.first), until.min(&g.rest.until), read, steps));
        }
        let done =
            next.around(first).is_some_and(|(_, rest)| *until <= *rest.until && rest.since <= read);
        if !proven.is_empty() {
            self.replace(next);
        }
        done
    }

    /// What is known, to be changed.
    fn copy(&self) -> KnownGaps {
        (*self.known.load_full()).clone()
    }

    fn replace(&self, mut next: KnownGaps) {
        let before = self.known.load(&epoch::pin()).bytes;
        let part = self.room.part(before);
        if next.bytes > before && next.bytes > part {
            next.forget_least(part);
        }
        self.room.resized(before, next.bytes);
        let count = next.count + next.tried.len() as u64;
        self.known.replace(Arc::new(next));
        self.count.store(count, Ordering::Relaxed);
    }
}

impl Drop for EmptyRangeCache {
    fn drop(&mut self) {
        self.room.resized(self.known.load(&epoch::pin()).bytes, 0);
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
