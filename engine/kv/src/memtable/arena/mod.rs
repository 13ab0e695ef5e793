//! The memtable's memory: typed, append-only nodes behind 32-bit references. The only memtable
//! module with `unsafe` code.
//!
//! Invariants, which form the safety argument:
//! - A1: only the arena creates a [`Ref`], after its node or entry has been written in full. Nodes
//!   and entries are never moved or freed before the arena is. An arena is dropped only when nobody
//!   borrows from it.
//! - A2: a [`Ref`] reaches another thread in only two ways. One is an [`AtomicRef`], which loads
//!   with Acquire and stores with Release. The other is a body's slots, published by a Release
//!   store of the count (A4). So every holder of a `Ref` sees its target.
//! - A3: fields that change after publication are atomics. Everything else is written before
//!   publication and never again.
//! - A4: slot `i` of an [`EntryBody`] is written once: before publication, or by the holder of its
//!   leaf's lock while `count == i`; the Release store `count = i + 1` follows. A reader touches
//!   only slots below a count that it loaded with Acquire.
//! - A5: a `Ref` is used with the arena that made it. Each skiplist owns one arena and passes no
//!   `Ref` to another.
//! - A8: an entry refers to a value in the log only if the arena holds the view of those bytes. They
//!   neither move nor change while the view lives ([`LogView`](crate::env::LogView)).
//! - A6: no code relies on the content of unused memory: mappings are recycled without being
//!   cleared.

#![allow(unsafe_code)]

#[cfg(not(loom))]
mod mapping;
#[cfg(loom)]
#[path = "mapping_model.rs"]
mod mapping;
#[cfg(not(loom))]
mod memory;
#[cfg(loom)]
mod model;
mod reference;

pub(super) use mapping::Mapping;
#[cfg(not(loom))]
pub(super) use memory::{Arena, ArenaEntry};
#[cfg(loom)]
pub(super) use model::{Arena, ArenaEntry};
use reference::sealed;
pub(super) use reference::{ArenaRecord, AtomicRef, Ref, record_size, reference_size};

use super::sync::atomic::AtomicU32;
use super::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use super::sync::{spin_loop, yield_now};
use crate::base::key::{common_prefix, head};
use std::cell::Cell;
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// Entries in a leaf. Loom gets the smallest leaf that splits.
pub(super) const LEAF: usize = if cfg!(loom) {
    2
} else if cfg!(miri) {
    4
} else {
    24
};
/// Skip links in the leaf's own cache line, including level 0; higher ones are in a [`Tower`].
const LINKS: usize = if cfg!(loom) { 1 } else { 5 };
/// Levels of skip links: enough for 3^16 leaves.
pub(super) const MAX_HEIGHT: usize = if cfg!(loom) { 2 } else { 16 };

impl sealed::Sealed for Leaf {
    #[cfg(loom)]
    fn copied(&self) -> Self {
        let links = std::array::from_fn(|i| AtomicRef::new(self.links[i].load()));
        Leaf { body: AtomicRef::new(self.body.load()), lock: AtomicU32::new(0), links, ..*self }
    }
}

impl sealed::Sealed for EntryBody {
    #[cfg(loom)]
    fn copied(&self) -> Self {
        let slots = self.slots();
        let slots: Vec<_> =
            slots.heads.iter().copied().zip(slots.entries.iter().copied()).collect();
        EntryBody::new(self.prefix as usize, self.next(), slots.into_iter())
    }
}

impl sealed::Sealed for Tower {
    #[cfg(loom)]
    fn copied(&self) -> Self {
        Tower(std::array::from_fn(|i| AtomicRef::new(self.0[i].load())))
    }
}

impl sealed::Sealed for Tombstone {
    #[cfg(loom)]
    fn copied(&self) -> Self {
        Tombstone { ..*self }
    }
}

/// The header of a leaf, one cache line: its low bound, its body, its links. All of its entries are
/// at or above the bound.
#[repr(C, align(64))]
pub(super) struct Leaf {
    /// First 8 bytes of the low bound's key as a big-endian number, zero-padded.
    pub word: u64,
    /// 16 bytes of the low bound's key from `skip` on, zero-padded.
    pub window: [u64; 2],
    /// Start of the window: about the length that the bound shares with its left neighbour's, so
    /// that the window distinguishes the two.
    pub skip: u32,
    /// The low bound: an entry of this leaf. `None` only for the first leaf, which has none.
    pub low: Option<Ref<ArenaRecord>>,
    body: AtomicRef<EntryBody>,
    lock: AtomicU32,
    tower: Option<Ref<Tower>>,
    links: [AtomicRef<Leaf>; LINKS],
}

/// Skip links of the levels that do not fit a leaf.
#[repr(C, align(64))]
pub(super) struct Tower([AtomicRef<Leaf>; MAX_HEIGHT - LINKS]);

impl Tower {
    pub fn new() -> Self {
        Tower(std::array::from_fn(|_| AtomicRef::new(None)))
    }

    /// Reports whether a leaf of this height needs a tower.
    pub fn needed(height: usize) -> bool {
        height > LINKS
    }
}

impl Leaf {
    /// Creates a leaf whose low bound is `low` (with that key). The bound of the leaf to its left
    /// shares `shared` bytes with it.
    pub fn new(
        low: Option<(Ref<ArenaRecord>, &[u8])>,
        shared: usize,
        body: Ref<EntryBody>,
        next: Option<Ref<Leaf>>,
        tower: Option<Ref<Tower>>,
    ) -> Self {
        let key = low.map_or(&[][..], |(_, key)| key);
        let skip = (shared & !7).max(8);
        Leaf {
            word: head(key),
            window: [word(key, skip), word(key, skip + 8)],
            skip: skip as u32,
            low: low.map(|(low, _)| low),
            body: AtomicRef::new(Some(body)),
            lock: AtomicU32::new(0),
            tower,
            links: std::array::from_fn(|level| {
                AtomicRef::new(if level == 0 { next } else { None })
            }),
        }
    }

    /// Returns the current body: a consistent snapshot of the entries and of the next leaf.
    #[inline]
    pub fn body<'a>(&self, arena: &'a Arena) -> &'a EntryBody {
        // A leaf is created with a body, and only another body ever replaces it, so the fallback is
        // unreachable.
        self.body.load().map_or_else(|| unreachable!("a leaf without a body"), |b| arena.get(b))
    }

    /// Prefetches the current body, because a search reads it next, or after one more comparison.
    #[inline]
    pub fn prefetch_body(&self, arena: &Arena) {
        if let Some(body) = self.body.load() {
            arena.prefetch_node(body);
        }
    }

    /// Returns the skip link of a level, if this leaf is high enough to have one.
    #[inline]
    pub fn link<'a>(&'a self, level: usize, arena: &'a Arena) -> Option<&'a AtomicRef<Leaf>> {
        match self.links.get(level) {
            Some(link) => Some(link),
            None => arena.get(self.tower?).0.get(level - LINKS),
        }
    }

    /// Takes the lock. Writers only; readers never wait for it.
    pub fn lock<'a>(&'a self, arena: &'a Arena) -> Locked<'a> {
        let mut spins = 0;
        while self.lock.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            spins += 1;
            // A preempted holder needs the core that spinning would waste.
            if spins % 64 == 0 || cfg!(loom) { yield_now() } else { spin_loop() }
        }
        Locked { leaf: self, arena, not_sync: PhantomData }
    }
}

/// Returns 8 bytes of `key` from `at` on; the key counts as zero-padded without end.
#[inline]
pub(super) fn word(key: &[u8], at: usize) -> u64 {
    key.get(at..).map_or(0, head)
}

/// Reads a value that only the holder of the lock writes. Loom records one access per atomic. A
/// visible load here would hide the race between the following store and readers, so loom would not
/// try the relevant orders.
#[inline]
fn own(a: &AtomicU32) -> u32 {
    #[cfg(not(loom))]
    return a.load(Relaxed);
    #[cfg(loom)]
    // SAFETY: the lock orders all stores before this; loom checks it.
    unsafe {
        a.unsync_load()
    }
}

/// The exclusive right to write to a leaf's body. Bodies are written only through it (A4).
pub(super) struct Locked<'a> {
    leaf: &'a Leaf,
    arena: &'a Arena,
    not_sync: PhantomData<Cell<()>>,
}

impl<'a> Locked<'a> {
    pub fn leaf(&self) -> &'a Leaf {
        self.leaf
    }

    /// Returns the body that [`push`](Self::push) would write to.
    pub fn body(&self) -> &'a EntryBody {
        match NonZeroU32::new(own(self.leaf.body.word())) {
            Some(body) => self.arena.get(Ref::new(body)),
            None => unreachable!("a leaf without a body"),
        }
    }

    /// Appends and publishes a slot; returns `false` if the body is full.
    #[inline]
    pub fn push(&self, head: u64, entry: Ref<ArenaRecord>) -> bool {
        let body = self.body();
        let i = own(&body.count) as usize;
        if i == LEAF {
            return false;
        }
        // SAFETY: this is the only writer (the lock, A4), and no reader touches slot `i` before the
        // count includes it.
        unsafe {
            body.heads[i].write(head);
            body.entries[i].write(entry);
        }
        body.count.store(i as u32 + 1, Release);
        true
    }

    /// Inserts `next` between this leaf and its successor, atomically for readers. Replaces the
    /// body with `body`, or changes only the present body's successor.
    pub fn follow(&self, next: Ref<Leaf>, body: Option<Ref<EntryBody>>) {
        match body {
            Some(body) => self.leaf.body.publish(Some(body)),
            None => self.body().next.publish(Some(next)),
        }
        self.leaf.links[0].publish(Some(next));
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.leaf.lock.store(0, Release);
    }
}

/// The entries of a leaf in order of arrival, and the next leaf. Full bodies are replaced, never
/// changed. A reader of a replaced body still has a consistent, older snapshot.
#[repr(C, align(64))]
pub(super) struct EntryBody {
    count: AtomicU32,
    /// Number of bytes that all keys of this range share; heads are taken after them.
    pub prefix: u32,
    next: AtomicRef<Leaf>,
    heads: [ArenaSlot<u64>; LEAF],
    entries: [ArenaSlot<Ref<ArenaRecord>>; LEAF],
}

impl EntryBody {
    /// Creates a body with `slots` (at most [`LEAF`]).
    pub fn new(
        prefix: usize,
        next: Option<Ref<Leaf>>,
        slots: impl ExactSizeIterator<Item = (u64, Ref<ArenaRecord>)>,
    ) -> Self {
        let count = slots.len();
        let body = EntryBody {
            count: AtomicU32::new(count as u32),
            prefix: prefix as u32,
            next: AtomicRef::new(next),
            heads: std::array::from_fn(|_| ArenaSlot::new()),
            entries: std::array::from_fn(|_| ArenaSlot::new()),
        };
        let mut written = 0;
        for ((h, e), (head, entry)) in body.heads.iter().zip(&body.entries).zip(slots) {
            // SAFETY: no other thread knows of this body yet.
            unsafe {
                h.write(head);
                e.write(entry);
            }
            written += 1;
        }
        assert_eq!(written, count, "an iterator with a wrong length, or longer than a leaf");
        body
    }

    /// Returns the next leaf: keys at or above its bound are not here.
    #[inline]
    pub fn next(&self) -> Option<Ref<Leaf>> {
        self.next.load()
    }

    /// Returns the entries published so far.
    #[inline]
    pub fn slots(&self) -> ArenaSlots<'_> {
        let count = self.count.load(Acquire) as usize;
        // SAFETY: slots below the count are written and do not change (A4).
        unsafe {
            ArenaSlots {
                heads: ArenaSlot::published(&self.heads, count),
                entries: ArenaSlot::published(&self.entries, count),
            }
        }
    }
}

/// A snapshot of a body's slots; both lists have the same length.
pub(super) struct ArenaSlots<'a> {
    pub heads: Published<'a, u64>,
    pub entries: Published<'a, Ref<ArenaRecord>>,
}

#[cfg(not(loom))]
pub(super) type Published<'a, T> = &'a [T];
#[cfg(loom)]
pub(super) type Published<'a, T> = std::borrow::Cow<'a, [T]>;

/// A cell that is written once and then read by many threads.
#[repr(transparent)]
struct ArenaSlot<T>(SlotCell<std::mem::MaybeUninit<T>>);

#[cfg(not(loom))]
type SlotCell<T> = std::cell::UnsafeCell<T>;
#[cfg(loom)]
type SlotCell<T> = loom::cell::UnsafeCell<T>;

// SAFETY: A4 orders the one write before every read.
unsafe impl<T: Copy + Send + Sync> Sync for ArenaSlot<T> {}

impl<T: Copy> ArenaSlot<T> {
    fn new() -> Self {
        ArenaSlot(SlotCell::new(std::mem::MaybeUninit::uninit()))
    }

    /// # Safety
    /// No other access to the slot may happen at the same time.
    #[inline]
    unsafe fn write(&self, value: T) {
        #[cfg(not(loom))]
        // SAFETY: exclusive by the caller's promise.
        unsafe {
            (*self.0.get()).write(value);
        }
        #[cfg(loom)]
        // SAFETY: exclusive by the caller's promise, which loom checks.
        self.0.with_mut(|p| unsafe {
            (*p).write(value);
        });
    }

    /// # Safety
    /// The first `count` slots must be written, visible to the caller, and final.
    #[inline]
    unsafe fn published(slots: &[ArenaSlot<T>; LEAF], count: usize) -> Published<'_, T> {
        #[cfg(not(loom))]
        // SAFETY: an `ArenaSlot<T>` is laid out as a `T` (transparent, twice over), and
        // `slots[..count]` checks the bound.
        unsafe {
            std::slice::from_raw_parts(slots[..count].as_ptr().cast::<T>(), count)
        }
        #[cfg(loom)]
        // SAFETY: written, by the caller's promise, which loom checks.
        slots[..count].iter().map(|s| s.0.with(|p| unsafe { (*p).assume_init() })).collect()
    }
}

/// A range deletion in a linked list, newest first. Its entry has the start as key and the end as
/// value.
#[repr(C, align(8))]
pub(super) struct Tombstone {
    pub entry: Ref<ArenaRecord>,
    /// Number of deletions in the list before it.
    pub before: u32,
    pub next: Option<Ref<Tombstone>>,
}

/// Reports whether entry `a` is before entry `b` in the order of
/// [`compare`](crate::base::key::compare).
#[inline]
pub(super) fn before(a: &ArenaEntry<'_>, b: &ArenaEntry<'_>) -> bool {
    let (ka, kb) = (a.key(), b.key());
    let shared = common_prefix(ka, kb);
    match ka.get(shared).cmp(&kb.get(shared)) {
        std::cmp::Ordering::Equal => a.trailer() > b.trailer(),
        order => order.is_lt(),
    }
}

/// Upper bound of the arena bytes for splitting a full leaf, padding included.
pub(super) const SPLIT: usize = size_of::<Leaf>()
    + 2 * size_of::<EntryBody>()
    + size_of::<Tower>()
    + 4 * (align_of::<Leaf>() - 4);
/// Exact arena bytes of a skiplist without entries.
pub(super) const FIRST_NODES: usize =
    64 + size_of::<EntryBody>() + size_of::<Tower>() + size_of::<Leaf>();
/// Upper bound of the arena bytes of one range deletion in addition to its entry.
pub(super) const TOMBSTONE: usize = size_of::<Tombstone>() + 4;
