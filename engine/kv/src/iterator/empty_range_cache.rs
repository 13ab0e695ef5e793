//! Empty-range cache: key ranges of a tree without visible keys; iterators seek past them.
//!
//! A queue deletes at its head the entries that it inserted earlier. Each search for the first key
//! would pass all those tombstones. A reader that has passed many records the range as an *empty
//! range*, and later readers skip it. The reason why a range is empty does not matter.
//!
//! Invariants:
//! - G1: A confirmed range holds for every reader at its `since` or later. A writer that inserts an
//!   entry other than a deletion first removes its key from all empty ranges, before the entry
//!   becomes visible. Deletions of any kind leave empty ranges valid.
//! - G2: A writer that took its sequence number before an empty range was recorded may miss the
//!   range. So a range is recorded with the last assigned sequence number, while no other can be
//!   assigned: all later writers see it. The range is only a *candidate* until a reader at that
//!   number or later has found the range empty. If no write was in progress, the reader that
//!   records the range is such a reader.
//! - G3: A reader's view contains everything visible at its read point. So a range that it finds
//!   empty is empty there, regardless of the state of memtables and tables.
//! - G4: Confirmed ranges are sorted and disjoint. Trees share the memory of an
//!   [`EmptyRangeBudget`]. A tree may use half of the part that other trees leave, and always at
//!   least `MIN_TREE_BUDGET`. A tree that needs more drops a quarter of its empty ranges, those
//!   that save readers least. There are at most `MAX_CANDIDATES` candidates, and no bound is longer
//!   than `MAX_BOUND_LEN`.
//!
//! A queue has one empty range, so thousands of queues in one tree have thousands. A change copies
//! only the path to the changed range (`util/version_map.rs`), and readers retain the version that
//! they hold.

use std::sync::atomic::AtomicU64 as Number;
use std::sync::{Arc, OnceLock, Weak};

use crate::base::key::Seq;
use crate::util::shared::Shared;
use crate::util::sort::sort_by_key;
use crate::util::sync::modelled::Mutex;
use crate::util::sync::{AtomicU64, Ordering, epoch, rank};
use crate::util::version_map::{MapKey, VersionMap};

/// Maximum number of candidates. A writer examines all of them.
const MAX_CANDIDATES: usize = 64;
/// Maximum length of an empty range's bound in bytes.
pub const MAX_BOUND_LEN: usize = 1 << 10;
/// Minimum number of passed entries for which an empty range is recorded. Debug builds record every
/// range, so the short histories of tests produce some.
pub const MIN_STEPS: u64 = if cfg!(debug_assertions) { 1 } else { 64 };

/// Memory of a confirmed range besides its bounds, in bytes: a node, two reference-counted slices,
/// and allocator rounding.
const NODE: u64 = 160;
/// Minimum budget for all trees in bytes: a few hundred empty ranges.
const MIN_BUDGET: u64 = 128 << 10;

/// Minimum budget of one tree in bytes, even if idle trees use the rest: about eighty empty ranges.
const MIN_TREE_BUDGET: u64 = 16 << 10;

/// Memory budget that the empty ranges of many trees share.
pub struct EmptyRangeBudget {
    bytes: u64,
    used: Number,
}

debug_by!(EmptyRangeBudget, "EmptyRangeBudget", bytes);

impl EmptyRangeBudget {
    /// Creates a budget of `bytes` bytes, or of the required minimum if that is larger.
    pub fn new(bytes: u64) -> Arc<EmptyRangeBudget> {
        Arc::new(EmptyRangeBudget { bytes: bytes.max(MIN_BUDGET), used: Number::new(0) })
    }

    /// Returns the bytes that a tree may use if it uses `own` now: half of the part that other
    /// trees leave, but at least `MIN_TREE_BUDGET`. So `n` trees that want more converge to one
    /// part of `n + 1` each.
    fn part(&self, own: u64) -> u64 {
        let others = self.used.load(Ordering::Relaxed).saturating_sub(own);
        (self.bytes.saturating_sub(others) / 2).max(MIN_TREE_BUDGET)
    }

    fn resized(&self, before: u64, now: u64) {
        self.used.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }
}

/// The writers of a Db.
pub trait Writers: Send + Sync {
    /// Calls `f` with the last assigned sequence number, while no other can be assigned. Returns at
    /// once without a call if the write lock is taken.
    fn hold(&self, f: &mut dyn FnMut(Seq));
}

/// The empty ranges of a tree. Readers never wait; writers wait for each other only to cut an empty
/// range.
pub struct EmptyRangeCache {
    known: Shared<KnownEmptyRanges>,
    /// Number of empty ranges. A writer checks only this while it is 0.
    count: AtomicU64,
    /// Held while `known` is replaced.
    changing: Mutex<(), rank::EmptyRangeCache>,
    room: Arc<EmptyRangeBudget>,
    writers: OnceLock<Weak<dyn Writers>>,
}

debug_by!(EmptyRangeCache, "EmptyRangeCache");

#[derive(Clone, Default)]
struct KnownEmptyRanges {
    /// Confirmed ranges by their first keys.
    confirmed: VersionMap<Rest>,
    /// Number of confirmed ranges, and their memory in bytes.
    count: u64,
    bytes: u64,
    /// Candidates in the order in which they were recorded.
    candidates: Vec<Arc<EmptyRange>>,
}

/// The fields of an empty range other than its first key.
#[derive(Clone)]
struct Rest {
    until: MapKey,
    since: Seq,
    /// Approximate number of entries that a reader skips. Each cut halves it, and an empty range
    /// below `MIN_STEPS` is removed.
    steps: u64,
}

/// A range `[first, until)` without visible keys.
#[derive(Clone)]
struct EmptyRange {
    first: MapKey,
    rest: Rest,
}

fn meets(range: (&MapKey, &Rest), first: &[u8], until: &[u8]) -> bool {
    **range.0 < *until && *first < *range.1.until
}

/// Returns the memory of a confirmed range in bytes.
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

    /// Returns its memory as a confirmed range in bytes.
    fn bytes(&self) -> u64 {
        bytes(&self.first, &self.rest)
    }

    /// Returns the parts that remain without `[first, until)`.
    fn without(&self, first: &[u8], until: &[u8]) -> impl Iterator<Item = EmptyRange> {
        let part = |first: &[u8], until: &[u8]| {
            EmptyRange::new(first, until, self.rest.since, self.rest.steps / 2)
        };
        let left = (*self.first < *first).then(|| part(&self.first, first));
        let right = (*until < *self.rest.until).then(|| part(until, &self.rest.until));
        left.into_iter().chain(right).filter(|g| g.rest.steps >= MIN_STEPS)
    }
}

impl KnownEmptyRanges {
    /// Returns the last confirmed range that begins at or before `key`.
    fn at_or_before(&self, key: &[u8]) -> Option<(&MapKey, &Rest)> {
        self.confirmed.end(false, |first| first <= key)
    }

    /// Returns the confirmed range that contains `key`.
    fn around(&self, key: &[u8]) -> Option<(&MapKey, &Rest)> {
        self.at_or_before(key).filter(|(_, rest)| *key < *rest.until)
    }

    /// Returns the last confirmed range that overlaps or touches `[first, until)`.
    fn last_near(&self, first: &[u8], until: &[u8]) -> Option<(&MapKey, &Rest)> {
        self.at_or_before(until).filter(|(_, rest)| *first <= *rest.until)
    }

    /// Returns the last confirmed range that overlaps `[first, until)`.
    fn last_in(&self, first: &[u8], until: &[u8]) -> Option<(&MapKey, &Rest)> {
        self.confirmed.end(false, |k| k < until).filter(|g| meets(*g, first, until))
    }

    fn meets(&self, first: &[u8], until: &[u8]) -> bool {
        self.last_in(first, until).is_some()
            || self.candidates.iter().any(|g| g.meets(first, until))
    }

    /// Inserts a confirmed range, and replaces one with the same first key.
    fn put(&mut self, range: EmptyRange) {
        self.count += 1;
        self.bytes += range.bytes();
        if let Some(replaced) = self.confirmed.insert(&range.first, range.rest) {
            self.count -= 1;
            self.bytes -= bytes(&range.first, &replaced);
        }
    }

    fn take(&mut self, range: &EmptyRange) {
        self.count -= 1;
        self.bytes -= range.bytes();
        self.confirmed.remove(&range.first);
    }

    /// Adds a confirmed range and merges it with those that it overlaps or touches. The result is
    /// valid from the latest `since` of its parts.
    fn add(&mut self, mut range: EmptyRange) {
        while let Some(other) = self.last_near(&range.first, &range.rest.until).map(EmptyRange::of)
        {
            let is_first = other.first <= range.first;
            if !is_first {
                self.take(&other);
            }
            range.first = range.first.min(other.first);
            range.rest = Rest {
                until: range.rest.until.max(other.rest.until),
                since: range.rest.since.max(other.rest.since),
                steps: range.rest.steps.saturating_add(other.rest.steps),
            };
            if is_first {
                // Earlier empty ranges are disjoint from this one. `put` below replaces it without
                // a prior removal; a queue's range takes this path again and again.
                break;
            }
        }
        self.put(range);
    }

    /// Removes `[first, until)` from all empty ranges.
    fn cut(&mut self, first: &[u8], until: &[u8]) {
        while let Some(range) = self.last_in(first, until).map(EmptyRange::of) {
            self.take(&range);
            range.without(first, until).for_each(|part| self.put(part));
        }
        let part = |g: Arc<EmptyRange>| match g.meets(first, until) {
            true => g.without(first, until).map(Arc::new).collect(),
            false => vec![g],
        };
        self.candidates = std::mem::take(&mut self.candidates).into_iter().flat_map(part).collect();
        self.trim_candidates();
    }

    /// Removes the oldest candidates beyond the maximum.
    fn trim_candidates(&mut self) {
        self.candidates.drain(..self.candidates.len().saturating_sub(MAX_CANDIDATES));
    }

    /// Removes the empty ranges that save readers least until a quarter of `most` is free. Among
    /// equal ones the oldest is removed first.
    #[cold]
    fn forget_least(&mut self, most: u64) {
        let mut all: Vec<EmptyRange> = self.confirmed.iter().map(EmptyRange::of).collect();
        sort_by_key(&mut all, |g| (g.rest.steps, g.rest.since));
        for range in all {
            if self.bytes <= most / 4 * 3 {
                break;
            }
            self.take(&range);
        }
    }
}

impl EmptyRangeCache {
    /// Creates a cache without empty ranges.
    pub fn new(room: Arc<EmptyRangeBudget>) -> EmptyRangeCache {
        let (known, writers) = (Shared::new(Arc::default()), OnceLock::new());
        EmptyRangeCache { known, count: AtomicU64::new(0), changing: Mutex::new(()), room, writers }
    }

    /// Sets the writers. Without writers no range is recorded.
    pub fn set_writers(&self, writers: impl FnOnce() -> Weak<dyn Writers>) {
        self.writers.get_or_init(writers);
    }

    /// Reports whether there are no empty ranges.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // A writer that took a number after an empty range was recorded sees the range: numbers are
        // assigned under a lock that is held while empty ranges are recorded.
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Returns the number of empty ranges.
    #[cfg(test)]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Removes `key` from all empty ranges. The caller has put an entry of `key` other than a
    /// deletion into its memtable, and the entry is not visible yet.
    #[inline]
    pub fn cut(&self, key: &[u8]) {
        if !self.is_empty() {
            self.invalidate(key, &[key, &[0]].concat());
        }
    }

    /// Removes `[first, until)` from all empty ranges. The caller has put entries other than
    /// deletions into that range, and they are not visible yet.
    pub fn invalidate(&self, first: &[u8], until: &[u8]) {
        if !self.known.load(&epoch::pin()).meets(first, until) {
            return;
        }
        let _one = self.changing.lock();
        let mut next = self.copy();
        next.cut(first, until);
        self.replace(next);
    }

    /// Finds the range around `key` for a reader at `read` and stores its far bound in `to`:
    /// forward the first key after the range, backward its first key. Returns `false` if there is
    /// no such range.
    pub fn skip_empty_range(&self, key: &[u8], forward: bool, read: Seq, to: &mut Vec<u8>) -> bool {
        self.look(read, to, forward, |known| known.around(key))
    }

    /// Finds the next range for a reader at `read` that continues from `key` and stores its near
    /// bound in `to`. Forward this is the first key of the next range. Backward it is the end of
    /// the last range that begins at or before `key`. Returns `false` if there is no such range.
    pub fn nearest(&self, key: &[u8], forward: bool, read: Seq, to: &mut Vec<u8>) -> bool {
        self.look(read, to, !forward, |known| match forward {
            true => known.confirmed.end(true, |first| key < first),
            false => known.at_or_before(key),
        })
    }

    /// Stores in `to` the end or the start of the range that `find` returns, for a reader at
    /// `read`. Returns `false` if there is none.
    #[inline]
    fn look(
        &self,
        read: Seq,
        to: &mut Vec<u8>,
        end: bool,
        find: impl FnOnce(&KnownEmptyRanges) -> Option<(&MapKey, &Rest)>,
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

    /// Records that a reader at `read` passed `steps` entries in `[first, until)` and found no
    /// visible key.
    #[cold]
    pub fn learn(&self, first: &[u8], until: &[u8], read: Seq, steps: u64) {
        let Some(writers) = self.writers.get().and_then(Weak::upgrade) else { return };
        if first >= until
            || first.len().max(until.len()) > MAX_BOUND_LEN
            || self.prove(first, until, read, steps)
        {
            return;
        }
        writers.hold(&mut |last| {
            let _one = self.changing.lock();
            let mut next = self.copy();
            if read >= last {
                next.add(EmptyRange::new(first, until, read, steps));
            } else if next.candidates.iter().all(|g| !g.has_all(first, until)) {
                next.candidates.push(Arc::new(EmptyRange::new(first, until, last, steps)));
                next.trim_candidates();
            }
            self.replace(next);
        });
    }

    /// Records that `[first, until)` has no visible key for readers at `since` or later, and that
    /// passing it would take `steps` steps. Call this only while there are no writers.
    pub fn note(&self, first: &[u8], until: &[u8], since: Seq, steps: u64) {
        if first < until && first.len().max(until.len()) <= MAX_BOUND_LEN {
            let _one = self.changing.lock();
            let mut next = self.copy();
            next.add(EmptyRange::new(first, until, since, steps));
            self.replace(next);
        }
    }

    /// Turns matching candidates into confirmed ones. Returns `true` if the whole range is now
    /// known as empty.
    fn prove(&self, first: &[u8], until: &[u8], read: Seq, steps: u64) -> bool {
        let _one = self.changing.lock();
        let mut next = self.copy();
        let of = |g: &Arc<EmptyRange>| g.rest.since <= read && g.meets(first, until);
        let (proven, candidates): (Vec<_>, Vec<_>) = next.candidates.drain(..).partition(of);
        next.candidates = candidates;
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

    /// Returns a copy of the empty ranges, to be changed.
    fn copy(&self) -> KnownEmptyRanges {
        (*self.known.load_full()).clone()
    }

    fn replace(&self, mut next: KnownEmptyRanges) {
        let before = self.known.load(&epoch::pin()).bytes;
        let part = self.room.part(before);
        if next.bytes > before && next.bytes > part {
            next.forget_least(part);
        }
        self.room.resized(before, next.bytes);
        let count = next.count + next.candidates.len() as u64;
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
