//! A blocked, concurrent skiplist: leaves of a few dozen entries, with skip links over the leaves.
//!
//! Invariants:
//! - S1: leaves are never removed and a leaf's low bound never changes. A leaf contains, once each,
//!   the entries from its bound to the bound of its successor (the authoritative `next` of the
//!   body). A bound is a (key, trailer) pair, so the versions of one key may span leaves.
//! - S2: a body is a consistent snapshot: its slots are all entries of `[low, next.low)` that were
//!   added before it was loaded. A split publishes the upper half's leaf and the lower half's body
//!   with **one** store, so a reader sees both or neither.
//! - S3: skip links (also of level 0) are hints and may be stale. A search ends by following `next`
//!   to the right leaf. A leaf is linked at a level only after the levels below.
//! - S4: every key of a body's range shares its `prefix` bytes, because ranges only narrow.
//! - S5: if one thread does all inserts, the shape depends only on their order.
//!
//! Readers take no lock and never retry: they load a body once. Writers lock only the leaf that
//! they change.

use super::arena::{
    Arena, ArenaEntry, ArenaRecord, EntryBody, LEAF, Leaf, Locked, MAX_HEIGHT, Ref, Tower, before,
    word,
};
use super::pool::Lease;
use super::sync::atomic::AtomicU32;
use super::sync::atomic::Ordering::Relaxed;
use crate::base::error::Result;
use crate::base::key::{Trailer, common_prefix, compare, head};

/// A position in the order of entries.
#[derive(Clone, Copy)]
pub(super) struct InsertTarget<'k> {
    pub key: &'k [u8],
    pub at: Trailer,
    word: u64,
}

impl<'k> InsertTarget<'k> {
    pub fn new(key: &'k [u8], at: Trailer) -> Self {
        InsertTarget { key, at, word: head(key) }
    }
}

/// The result of a search: the leaf, its body and its successor, all three consistent.
pub(super) struct Spot<'a> {
    pub leaf: &'a Leaf,
    pub body: &'a EntryBody,
    pub right: Option<Ref<Leaf>>,
}

/// One entry of a leaf: the 8 key bytes after the common prefix, and its reference.
#[derive(Clone, Copy)]
pub(super) struct SortSlot {
    pub head: u64,
    pub entry: Ref<ArenaRecord>,
}

pub(super) struct SkipList {
    arena: Arena,
    first: Ref<Leaf>,
    height: AtomicU32,
}

impl SkipList {
    pub fn new(arena: Arena) -> SkipList {
        let body = arena.alloc(EntryBody::new(0, None, [].into_iter()));
        let tower = arena.alloc(Tower::new());
        let first = arena.alloc(Leaf::new(None, 0, body, None, Some(tower)));
        SkipList { arena, first, height: AtomicU32::new(1) }
    }

    /// Returns a list with the same entries in the same shape, in other memory. No thread may add
    /// to this list meanwhile ([`Arena::copied`]).
    ///
    /// # Errors
    /// Errors of the arena.
    pub fn copied(&self, lease: Lease) -> Result<SkipList> {
        let height = AtomicU32::new(self.height.load(Relaxed));
        Ok(SkipList { arena: self.arena.copied(lease)?, first: self.first, height })
    }

    /// Calls `f` with each entry, in no order.
    pub fn for_each(&self, mut f: impl FnMut(ArenaEntry<'_>)) {
        let mut leaf = self.first();
        loop {
            let body = leaf.body(&self.arena);
            body.slots().entries.iter().for_each(|&r| f(self.arena.entry(r)));
            let Some(next) = body.next() else { return };
            leaf = self.arena.get(next);
        }
    }

    /// Returns sample keys, ascending, about `spacing` bytes of entries from each other. Each comes
    /// with the bytes of entries since the sample before it, including its own leaf.
    pub fn landmarks(&self, spacing: u64) -> Vec<(Vec<u8>, u64)> {
        let (mut marks, mut bytes) = (vec![], 0);
        let mut leaf = self.first();
        loop {
            let body = leaf.body(&self.arena);
            let slots = body.slots().entries;
            if let Some(&one) = slots.first() {
                // One entry represents its whole leaf: reading each would cost a cache miss each.
                let one = self.arena.entry(one);
                bytes += (slots.len() * (one.key().len() + one.value().len())) as u64;
                if bytes >= spacing {
                    marks.push((one.key().to_vec(), std::mem::take(&mut bytes)));
                }
            }
            let Some(next) = body.next() else { return marks };
            leaf = self.arena.get(next);
        }
    }

    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    pub fn first(&self) -> &Leaf {
        self.arena.get(self.first)
    }

    /// Adds an entry of the arena, which has this key and trailer. No other may have both.
    #[inline]
    pub fn insert(&self, key: &[u8], trailer: Trailer, entry: Ref<ArenaRecord>) {
        let target = InsertTarget::new(key, trailer);
        let mut spot = self.find(&target);
        loop {
            let locked = spot.leaf.lock(&self.arena);
            let body = locked.body();
            // A split may have moved the target's range since the search.
            match body.next() {
                Some(next)
                    if Some(next) != spot.right
                        && self.bound_le(self.arena.get(next), &target, 0).0 =>
                {
                    drop(locked);
                    spot = self.follow_to_leaf(self.arena.get(next), &target, None);
                }
                _ => {
                    if !locked.push(word(key, body.prefix as usize), entry) {
                        self.split(locked, entry);
                    }
                    return;
                }
            }
        }
    }

    /// Returns the newest version of `key` at or below `at`.
    #[inline]
    pub fn get(&self, key: &[u8], at: Trailer) -> Option<(Ref<ArenaRecord>, ArenaEntry<'_>)> {
        let target = InsertTarget::new(key, at);
        let spot = self.find(&target);
        let prefix = spot.body.prefix as usize;
        let head = word(key, prefix);
        let mut best: Option<(Ref<ArenaRecord>, ArenaEntry<'_>)> = None;
        let slots = spot.body.slots();
        for (&h, &r) in slots.heads.iter().zip(slots.entries.iter()) {
            if h == head {
                let e = self.arena.entry(r);
                if e.key() == key
                    && e.trailer() <= at
                    && best.is_none_or(|(_, b)| b.trailer() < e.trailer())
                {
                    best = Some((r, e));
                }
            }
        }
        if best.is_some() {
            return best;
        }
        // An older version may begin the next leaf (S1); its bound is then the newest of those.
        let right = self.arena.get(spot.right?);
        if right.word != target.word {
            return None;
        }
        right.low.map(|r| (r, self.arena.entry(r))).filter(|(_, e)| e.key() == key)
    }

    /// Returns the last leaf whose bound is at or before the target.
    #[inline]
    pub fn find(&self, target: &InsertTarget<'_>) -> Spot<'_> {
        let (leaf, right) = self.descend(target, 0, |_, _| {});
        self.follow_to_leaf(leaf, target, right)
    }

    /// Returns the last leaf whose bound is before the bound `low`.
    pub fn find_before(&self, low: Ref<ArenaRecord>) -> Spot<'_> {
        let low = self.arena.entry(low);
        // Trailers descend: the next larger one is the position just before.
        self.find(&InsertTarget::new(low.key(), Trailer(low.trailer().0.saturating_add(1))))
    }

    /// Returns the last leaf.
    pub fn find_last(&self) -> Spot<'_> {
        let mut leaf = self.first();
        for level in (0..self.height.load(Relaxed) as usize).rev() {
            while let Some(next) = leaf.link(level, &self.arena).and_then(|link| link.load()) {
                leaf = self.arena.get(next);
            }
        }
        loop {
            let body = leaf.body(&self.arena);
            match body.next() {
                Some(next) => leaf = self.arena.get(next),
                None => return Spot { leaf, body, right: None },
            }
        }
    }

    /// Follows skip links from the top down to `bottom`. Returns the last leaf on that level whose
    /// bound is at or before the target, and the next leaf if it was compared. Calls `passed` with
    /// the leaf where the search left each level.
    ///
    /// A leaf between two bounds shares with the target what both bounds share with it. `left` and
    /// `rest` are these lengths (of zero-padded keys). Comparisons start after them and seldom read
    /// a key's own bytes.
    #[inline]
    fn descend<'a>(
        &'a self,
        target: &InsertTarget<'_>,
        bottom: usize,
        mut passed: impl FnMut(usize, &'a Leaf),
    ) -> (&'a Leaf, Option<Ref<Leaf>>) {
        let mut leaf = self.first();
        let (mut left, mut rest) = (0, 0);
        let mut right = None;
        let mut level = self.height.load(Relaxed) as usize - 1;
        loop {
            if level == 0 {
                leaf.prefetch_body(&self.arena);
            } else if let Some(below) =
                leaf.link(level - 1, &self.arena).and_then(|link| link.load())
            {
                self.arena.prefetch_node(below);
            }
            if let Some(link) = leaf.link(level, &self.arena)
                && let next @ Some(n) = link.load()
                && next != right
            {
                let candidate = self.arena.get(n);
                let (le, shared) = self.bound_le(candidate, target, left.min(rest));
                if le {
                    (leaf, left) = (candidate, shared);
                    continue;
                }
                (right, rest) = (next, shared);
            }
            passed(level, leaf);
            if level <= bottom {
                return (leaf, right);
            }
            level -= 1;
        }
    }

    /// Follows the authoritative `next` from `leaf` to the leaf of the target. `right` is a leaf
    /// known to be after the target.
    #[inline]
    fn follow_to_leaf<'a>(
        &'a self,
        mut leaf: &'a Leaf,
        target: &InsertTarget<'_>,
        right: Option<Ref<Leaf>>,
    ) -> Spot<'a> {
        loop {
            let body = leaf.body(&self.arena);
            match body.next() {
                next @ Some(n) if next != right => {
                    let candidate = self.arena.get(n);
                    if !self.bound_le(candidate, target, 0).0 {
                        return Spot { leaf, body, right: next };
                    }
                    leaf = candidate;
                }
                next => return Spot { leaf, body, right: next },
            }
        }
    }

    /// Reports whether the leaf's bound is at or before the target, and a lower bound of the bytes
    /// that the two keys share. Both keys count as zero-padded. They are known to share `known`
    /// bytes.
    #[inline]
    fn bound_le(&self, leaf: &Leaf, target: &InsertTarget<'_>, known: usize) -> (bool, usize) {
        if leaf.word != target.word {
            return (leaf.word < target.word, same_bytes(leaf.word, target.word));
        }
        let mut known = known.max(8);
        let skip = leaf.skip as usize;
        if known >= skip {
            for (i, &w) in leaf.window.iter().enumerate() {
                let at = skip + 8 * i;
                let t = word(target.key, at);
                if w != t {
                    return (w < t, at + same_bytes(w, t));
                }
            }
            known = known.max(skip + 16);
        }
        self.bound_le_slow(leaf, target, known)
    }

    #[inline(never)]
    fn bound_le_slow(&self, leaf: &Leaf, target: &InsertTarget<'_>, known: usize) -> (bool, usize) {
        let Some(low) = leaf.low else { return (true, 0) };
        let low = self.arena.entry(low);
        let (a, b) = (low.key(), target.key);
        // Shared zero padding is not shared bytes, hence the lengths.
        let from = known.min(a.len()).min(b.len());
        let shared = from + common_prefix(&a[from..], &b[from..]);
        match a.get(shared).cmp(&b.get(shared)) {
            std::cmp::Ordering::Equal => (low.trailer() >= target.at, shared),
            order => (order.is_lt(), shared),
        }
    }

    /// Copies the slots of a body into `out`, sorted by their heads. [`sort_ties`](Self::sort_ties)
    /// sorts those with equal heads. That reads their entries, which are scattered in memory, and
    /// most are never needed.
    pub fn sort_heads_into(&self, out: &mut Vec<SortSlot>, body: &EntryBody) {
        let slots = body.slots();
        out.clear();
        out.extend(
            slots
                .heads
                .iter()
                .zip(slots.entries.iter())
                .map(|(&head, &entry)| SortSlot { head, entry }),
        );
        insertion_sort(out, |a, b| a.head < b.head);
    }

    /// Sorts the slots with this head; all slots must be sorted by head.
    pub fn sort_ties(&self, slots: &mut [SortSlot], head: u64) {
        let from = slots.partition_point(|s| s.head < head);
        let ties = slots[from..].iter().take_while(|s| s.head == head).count();
        if ties > 1 {
            let ties = &mut slots[from..from + ties];
            ties.iter().for_each(|s| self.arena.prefetch_entry(s.entry));
            self.sort(ties);
        }
    }

    fn sort(&self, slots: &mut [SortSlot]) {
        insertion_sort(slots, |a, b| self.slot_before(a, b));
    }

    #[inline]
    fn slot_before(&self, a: &SortSlot, b: &SortSlot) -> bool {
        a.head < b.head
            || a.head == b.head && before(&self.arena.entry(a.entry), &self.arena.entry(b.entry))
    }

    /// Returns how many of a body's sorted slots are before the target. The target must be in the
    /// body's range (so that it shares `prefix`). Slots with the target's head must be fully
    /// sorted, others by head only.
    pub fn rank(&self, slots: &[SortSlot], prefix: usize, target: &InsertTarget<'_>) -> usize {
        let head = word(target.key, prefix);
        slots.partition_point(|s| {
            if s.head != head {
                return s.head < head;
            }
            let e = self.arena.entry(s.entry);
            compare(e.key(), e.trailer(), target.key, target.at).is_lt()
        })
    }

    /// Splits a full leaf into two, with `entry` inserted.
    fn split(&self, locked: Locked<'_>, entry: Ref<ArenaRecord>) {
        let (leaf, body) = (locked.leaf(), locked.body());
        let (prefix, next) = (body.prefix as usize, body.next());
        let new = SortSlot { head: word(self.arena.entry(entry).key(), prefix), entry };
        let mut all = [new; LEAF + 1];
        let slots = body.slots();
        for (s, (&head, &entry)) in all.iter_mut().zip(slots.heads.iter().zip(slots.entries.iter()))
        {
            *s = SortSlot { head, entry };
        }
        self.sort(&mut all);
        // A sequential load leaves full leaves: no entry moves.
        let append = next.is_none() && all[LEAF].entry == entry;
        let (lower, upper) = all.split_at(if append { LEAF } else { LEAF / 2 });

        let low = upper[0].entry;
        let key = self.arena.entry(low).key();
        let shared_right = next
            .and_then(|n| self.arena.get(n).low)
            .map_or(0, |r| common_prefix(key, self.arena.entry(r).key()));
        let shared_left = leaf.low.map_or(0, |r| common_prefix(key, self.arena.entry(r).key()));
        let height = height_of(entry);
        let tower = Tower::needed(height).then(|| self.arena.alloc(Tower::new()));
        // The left neighbour's bound, or in the first leaf any entry, estimates the prefix shared
        // around this bound.
        let near = if leaf.low.is_some() {
            shared_left
        } else {
            common_prefix(key, self.arena.entry(lower[0].entry).key())
        };
        let right_body = self.make_body(prefix, shared_right, next, upper);
        let right = self.arena.alloc(Leaf::new(Some((low, key)), near, right_body, next, tower));
        let keep = append && shared_left < prefix + REHEAD;
        let left_body = (!keep).then(|| self.make_body(prefix, shared_left, Some(right), lower));
        locked.follow(right, left_body);
        drop(locked);
        if height > 1 {
            self.raise(right, InsertTarget::new(key, self.arena.entry(low).trailer()), height);
        }
    }

    /// Creates a body for sorted slots whose heads are taken after `prefix` bytes, in a range that
    /// shares `shared` bytes.
    fn make_body(
        &self,
        prefix: usize,
        shared: usize,
        next: Option<Ref<Leaf>>,
        slots: &[SortSlot],
    ) -> Ref<EntryBody> {
        // Reading all the keys pays only when the heads barely distinguish keys any more.
        let again = shared >= prefix + REHEAD;
        let prefix = if again { shared } else { prefix };
        let head = |s: &SortSlot| {
            if again { word(self.arena.entry(s.entry).key(), prefix) } else { s.head }
        };
        self.arena.alloc(EntryBody::new(prefix, next, slots.iter().map(|s| (head(s), s.entry))))
    }

    /// Links a new leaf into the levels above 0, bottom up (S3).
    fn raise(&self, new: Ref<Leaf>, bound: InsertTarget<'_>, height: usize) {
        let mut left = [self.first(); MAX_HEIGHT];
        self.descend(&bound, 1, |level, leaf| left[level] = leaf);
        let leaf = self.arena.get(new);
        for (level, mut pred) in left.into_iter().enumerate().take(height).skip(1) {
            let Some(up) = leaf.link(level, &self.arena) else { return };
            while let Some(link) = pred.link(level, &self.arena) {
                let next = link.load();
                if let Some(n) = next
                    && self.bound_le(self.arena.get(n), &bound, 0).0
                {
                    pred = self.arena.get(n);
                    continue;
                }
                up.publish(next);
                if link.swap_if(next, new) {
                    break;
                }
            }
        }
        self.height.fetch_max(height as u32, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
impl SkipList {
    /// Returns the number of leaves on each level.
    pub fn heights(&self) -> Vec<usize> {
        let count = |level| {
            let follow = |leaf: &Ref<Leaf>| self.arena.get(*leaf).link(level, &self.arena)?.load();
            std::iter::successors(Some(self.first), follow).count()
        };
        (0..self.height.load(Relaxed) as usize).map(count).collect()
    }
}

/// Sorts slots; efficient because there are few and the first half is sorted since the last split.
#[inline]
fn insertion_sort(slots: &mut [SortSlot], before: impl Fn(&SortSlot, &SortSlot) -> bool) {
    for i in 1..slots.len() {
        let s = slots[i];
        let mut j = i;
        while j > 0 && before(&s, &slots[j - 1]) {
            slots[j] = slots[j - 1];
            j -= 1;
        }
        slots[j] = s;
    }
}

/// Minimum growth, in bytes, of a body's shared prefix before its heads are recomputed.
const REHEAD: usize = 4;

/// Returns how many leading bytes of two different words are equal.
#[inline]
fn same_bytes(a: u64, b: u64) -> usize {
    ((a ^ b).leading_zeros() / 8) as usize
}

/// Returns the height of the leaf that this entry's insert creates: 1, plus 1 with probability 1/3
/// each. It is a hash of the entry's offset, so the same history gives the same heights.
fn height_of(entry: Ref<ArenaRecord>) -> usize {
    let mut x = (entry.ordinal() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let mut height = 1;
    while height < MAX_HEIGHT && x.is_multiple_of(3) {
        x /= 3;
        height += 1;
    }
    height
}
