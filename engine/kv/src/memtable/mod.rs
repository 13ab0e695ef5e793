//! The memtable: the newest writes of a tree, sorted, in memory of a fixed size.
//!
//! Entries are kept in a concurrent blocked skiplist (`skiplist`) over an arena (`arena`) that is recycled ([`pool`]); range
//! deletions in layers beside it (`deletes`).
//!
//! Invariants:
//! - T1: adds run concurrently with each other and with readers. Readers take no lock, wait for nobody and retry nothing.
//! - T2: what an `add` that has returned put in is seen by every read that starts afterwards.
//! - T3: an add within what was reserved never runs out of room: [`Memtable::cost`] covers the splits that the add will ever cause,
//!   the bodies that splits leave behind included. (A split takes `SPLIT` bytes at most and leaves two leaves of half the
//!   entries, so half a leaf of adds pays for the next; a leaf begun by a sequential load is paid for by its own adds.)
//! - T4: no two entries have the same key and trailer, for sequence numbers are given out once.

mod arena;
mod cursor;
mod deletes;
mod filter;
pub mod pool;
mod skiplist;
mod sync;

#[cfg(all(test, loom))]
mod loom;
#[cfg(all(test, not(loom)))]
mod tests;

pub use cursor::MemCursor;
pub use pool::ArenaPool;

use crate::base::cursor::Cursor;
use crate::base::deletions::Deletions;
use crate::base::error::{Error, Result};
use crate::base::hash::key_hash;
use crate::base::hooks::FilterPrefix;
use crate::base::key::{Kind, Seq, Trailer};
use crate::base::sync::epoch::Guard;
use crate::base::tombstone::{Fragments, RangeTombstone};
use arena::{Arena, LEAF, Record, Ref};
use deletes::RangeDeletes;
use filter::KeyFilter;
use skiplist::SkipList;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Arena bytes of an empty memtable, rounded up generously.
const EMPTY: usize = 64 + arena::SPLIT;
/// The smallest capacity, in bytes.
pub const MIN_CAPACITY: usize = 64 << 10;
/// The largest capacity, in bytes: references have 32 bits.
pub const MAX_CAPACITY: usize = (u32::MAX as usize) & !0xffff;

/// An ordered map from (key, trailer) to values in a fixed amount of memory. Everything takes `&self`.
pub struct Memtable {
    list: SkipList,
    filter: KeyFilter,
    /// What tells the parts of keys that are in a filter too, if anything does.
    prefixes: OnceLock<Prefixes>,
    capacity: usize,
    /// Bytes promised to adds: an upper bound of what they will have taken in the end.
    reserved: AtomicUsize,
    deletes: AtomicU64,
    range_deletes: RangeDeletes,
}

struct Prefixes {
    hook: Arc<dyn FilterPrefix>,
    /// Where they are; `None`: beside the keys, in a filter that was made large enough.
    filter: Option<KeyFilter>,
}

/// What a lookup found.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    /// Sequence number and kind.
    pub trailer: Trailer,
    /// The value; empty for deletes.
    pub value: &'a [u8],
    entry: Ref<Record>,
}

impl Prefixes {
    #[inline]
    fn add(&self, key: &[u8], beside: &KeyFilter) {
        let len = self.hook.prefix_len(key).min(key.len());
        self.filter.as_ref().unwrap_or(beside).add(key_hash(&key[..len]));
    }
}

impl Memtable {
    /// An empty memtable of `capacity` bytes, [`MIN_CAPACITY`] to [`MAX_CAPACITY`], its memory from the pool.
    ///
    /// # Errors
    /// `InvalidArgument` for a capacity out of bounds, `Exhausted` when the operating system gives no memory.
    pub fn new(pool: &Arc<ArenaPool>, capacity: usize) -> Result<Arc<Memtable>> {
        Self::with_prefixes(pool, capacity, None)
    }

    /// As [`new`](Self::new), with a filter that can tell which prefixes of keys are there.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_prefixes(
        pool: &Arc<ArenaPool>,
        capacity: usize,
        prefix: Option<Arc<dyn FilterPrefix>>,
    ) -> Result<Arc<Memtable>> {
        if !(MIN_CAPACITY..=MAX_CAPACITY).contains(&capacity) {
            return Err(Error::invalid(format!("a memtable holds {MIN_CAPACITY} to {MAX_CAPACITY} bytes, not {capacity}")));
        }
        Ok(Arc::new(Memtable {
            list: SkipList::new(Arena::new(pool.lease(capacity)?)),
            // It takes at most as many prefixes as keys.
            filter: KeyFilter::new(if prefix.is_some() { 2 * capacity } else { capacity }),
            prefixes: prefix.map_or_else(OnceLock::new, |hook| Prefixes { hook, filter: None }.into()),
            capacity,
            reserved: AtomicUsize::new(EMPTY),
            deletes: AtomicU64::new(0),
            range_deletes: RangeDeletes::new(),
        }))
    }

    /// The capacity of a memtable of `memtable_size` bytes that is made because the one before has no room for adds of this cost: they
    /// must fit, however large they are.
    pub fn capacity_for(memtable_size: usize, cost: usize) -> usize {
        memtable_size.max(cost + cost / 8 + MIN_CAPACITY)
    }

    /// Upper bound of the arena bytes that adding such an entry can take, its share of splits and of what they leave behind
    /// included. For a range tombstone: the lengths of its two keys.
    #[inline]
    pub fn cost(key_len: usize, value_len: usize) -> usize {
        const SHARE: usize = arena::SPLIT.div_ceil(LEAF / 2);
        const { assert!(SHARE >= arena::TOMBSTONE || cfg!(miri)) };
        arena::record_size(key_len, value_len) + SHARE
    }

    /// Reserves room for adds whose costs sum up to `bytes`; `false`, and nothing reserved, when the memtable is full: when the
    /// capacity is in use, or could be exceeded without bound. After a success those adds cannot fail.
    pub fn reserve(&self, bytes: usize) -> bool {
        let limit = pool::mapped(self.capacity);
        self.list.arena().used().saturating_add(bytes) <= self.capacity
            && self.reserved.fetch_update(Relaxed, Relaxed, |r| r.checked_add(bytes).filter(|&sum| sum <= limit)).is_ok()
    }

    /// Adds a point entry, for which room has been reserved. Concurrent. Panics when more is added than the memory holds.
    #[inline]
    pub fn add(&self, key: &[u8], trailer: Trailer, value: &[u8]) {
        if trailer.0 as u8 == Kind::Delete as u8 {
            self.deletes.fetch_add(1, Relaxed);
        }
        self.filter.add(key_hash(key));
        if let Some(p) = self.prefixes.get() {
            p.add(key, &self.filter);
        }
        self.list.insert(key, trailer, value);
    }

    /// Adds a range tombstone, for which room has been reserved. Concurrent.
    pub fn add_tombstone(&self, t: &RangeTombstone) {
        self.range_deletes.add(self.list.arena(), t);
    }

    /// The newest range deletion of `key` that a reader at `read` sees; for the price of one load where there are none.
    #[inline]
    pub fn newest_covering(&self, key: &[u8], read: Seq, guard: &Guard) -> Option<Seq> {
        self.range_deletes.newest_covering(self.list.arena(), key, read, guard)
    }

    /// The range deletions added so far, in a few sets: about as many as the logarithm of their number.
    pub fn deletions(&self) -> Vec<Arc<Deletions>> {
        self.range_deletes.sets(self.list.arena())
    }

    /// The range deletions added so far, as readers at these snapshots (ascending) and of the newest state need them.
    pub fn fragments(&self, snapshots: &[Seq]) -> Fragments {
        self.range_deletes.fragments(self.list.arena(), snapshots)
    }

    /// Whether there may be an entry of a key with this [hash](key_hash). `false` is right for every key whose add was published
    /// to the caller.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filter.may_contain(hash)
    }

    /// Whether there may be an entry of a key whose prefix has this [hash](key_hash). `false` is as right as that of
    /// [`may_contain`](Self::may_contain).
    #[inline]
    pub fn may_contain_prefix(&self, hash: u64) -> bool {
        self.prefixes.get().is_none_or(|p| p.filter.as_ref().unwrap_or(&self.filter).may_contain(hash))
    }

    /// From now on it can be asked for prefixes, those of all that is in it included: for a memtable that was filled before anybody knew
    /// the hook, as that of a log that is replayed. Takes as long as a scan. No add may run meanwhile.
    ///
    /// # Errors
    /// Those of its cursor, which has none.
    pub fn learn_prefixes(self: &Arc<Self>, hook: Arc<dyn FilterPrefix>) -> Result<()> {
        if self.prefixes.get().is_some() {
            return Ok(());
        }
        let prefixes = Prefixes { hook, filter: Some(KeyFilter::new(self.capacity)) };
        let mut cursor = self.cursor();
        cursor.first()?;
        while cursor.valid() {
            prefixes.add(cursor.key(), &self.filter);
            cursor.next()?;
        }
        let _ = self.prefixes.set(prefixes);
        Ok(())
    }

    /// The newest version of `key` with a sequence number of at most `read`.
    #[inline]
    pub fn get(&self, key: &[u8], read: Seq) -> Option<Found<'_>> {
        let (entry, e) = self.list.get(key, Trailer::at(read))?;
        Some(Found { trailer: e.trailer(), value: e.value(), entry })
    }

    /// A cursor over all point entries. Those added after it was positioned may or may not be met.
    pub fn cursor(self: &Arc<Self>) -> MemCursor {
        MemCursor::new(self.clone())
    }

    /// Keeps a value that was found here, without a copy. Panics if it was found in another memtable.
    pub fn pin(self: &Arc<Self>, found: &Found<'_>) -> MemValue {
        assert!(self.list.arena().owns(found.value), "a value of another memtable");
        MemValue { table: self.clone(), entry: found.entry }
    }

    /// How many point entries there are.
    pub fn entries(&self) -> u64 {
        self.list.arena().entries()
    }

    /// How many of the point entries are deletes.
    pub fn deletes(&self) -> u64 {
        self.deletes.load(Relaxed)
    }

    /// How many range tombstones there are.
    pub fn range_deletes(&self) -> u64 {
        self.range_deletes.len(self.list.arena())
    }

    /// Whether there are neither point entries nor range tombstones.
    pub fn is_empty(&self) -> bool {
        self.entries() == 0 && self.range_deletes.is_empty()
    }

    /// Bytes of memory in use.
    pub fn used(&self) -> usize {
        let prefixes = self.prefixes.get().and_then(|p| p.filter.as_ref()).map_or(0, KeyFilter::memory);
        self.list.arena().used() + self.filter.memory() + prefixes + self.range_deletes.memory()
    }

    /// Bytes of memory that this memtable was made for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

/// A value in a memtable that it keeps alive; derefs to the bytes.
#[derive(Clone)]
pub struct MemValue {
    table: Arc<Memtable>,
    entry: Ref<Record>,
}

impl std::ops::Deref for MemValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.table.list.arena().entry(self.entry).value()
    }
}
