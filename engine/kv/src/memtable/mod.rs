//! The memtable: the newest writes of a tree, sorted, in memory that grows up to a bound.
//!
//! Entries are kept in a concurrent blocked skiplist (`skiplist`) over an arena (`arena`) that is
//! recycled ([`pool`]); range deletions in layers beside it (`deletes`).
//!
//! A memtable begins [empty](Memtable::empty), with half a KiB, and its owner makes
//! [room](Memtable::room_for) as it is written: in place, up to the capacity, a piece at a time;
//! then by a [copy](Memtable::grown) of eight times the capacity, up to 2 MiB, and then of all that
//! it may ever have. So little is copied, one that is never written costs next to nothing, and only
//! large ones take much address space. What has not been made room for is not touched, and only
//! pieces of large ones get huge pages.
//!
//! Invariants:
//! - T1: adds run concurrently with each other and with readers. Readers take no lock, wait for
//!   nobody and retry nothing.
//! - T2: what an `add` that has returned put in is seen by every read that starts afterwards.
//! - T3: an add within what was reserved never runs out of room: [`Memtable::cost`] covers the
//!   splits that the add will ever cause, the bodies that splits leave behind included. (A split
//!   takes `SPLIT` bytes at most and leaves two leaves of half the entries, so half a leaf of adds
//!   pays for the next; a leaf begun by a sequential load is paid for by its own adds.)
//! - T4: no two entries have the same key and trailer, for sequence numbers are given out once.

mod arena;
pub mod combined;
mod cursor;
mod deletes;
mod filter;
pub mod pool;
mod shared;
mod skiplist;
mod sync;

#[cfg(all(test, loom))]
mod loom;
#[cfg(all(test, not(loom)))]
mod tests;

pub use cursor::MemCursor;
pub use pool::ArenaPool;
pub use shared::{HeldMemtable, MemValue, SharedMemtable};

use crate::base::deletions::Deletions;
use crate::base::error::{Error, Result};
use crate::base::hash::key_hash;
use crate::base::hooks::FilterPrefix;
use crate::base::key::{Kind, Seq, Trailer};
use crate::base::ops::Op;
use crate::base::stripe::CachePadded;
use crate::base::sync::epoch::Guard;
use crate::base::tombstone::{Fragments, RangeTombstone};
use arena::{Arena, ArenaRecord, LEAF, Ref};
use combined::{CombinedOperand, CombinedOperands};
use deletes::RangeDeletes;
use filter::KeyFilter;
use pool::Lease;
use skiplist::SkipList;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Arena bytes of an empty memtable, rounded up generously.
const EMPTY: usize = 64 + arena::SPLIT;
/// The capacity that an empty memtable grows to first, in bytes.
const FIRST: usize = 4 << 10;
/// How many times as large it becomes each time.
const TIMES: usize = 8;
/// What the smallest memtable that holds anything takes, in bytes, at most: a page, and its filter.
pub const LEAST: usize = FIRST + 64;
/// The smallest capacity, in bytes.
pub const MIN_CAPACITY: usize = 64 << 10;
/// The largest capacity, in bytes: references have 32 bits.
pub const MAX_CAPACITY: usize = (u32::MAX as usize) & !0xffff;

/// An ordered map from (key, trailer) to values in a bounded amount of memory. Everything takes
/// `&self`.
pub struct Memtable {
    list: SkipList,
    filter: KeyFilter,
    /// What tells the parts of keys that are in a filter too, if anything does.
    prefixes: OnceLock<Prefixes>,
    capacity: usize,
    /// Bytes of the capacity that may be used by now.
    room: AtomicUsize,
    /// Bytes promised to adds: an upper bound of what they will have taken in the end.
    reserved: CachePadded<AtomicUsize>,
    deletes: AtomicU64,
    range_deletes: RangeDeletes,
    combined: CombinedOperands,
}

debug_by!(Memtable, "Memtable", capacity);

struct Prefixes {
    hook: Arc<dyn FilterPrefix>,
    /// Where they are; `None`: beside the keys, in a filter that was made large enough.
    filter: Option<KeyFilter>,
}

/// What makes room for adds that found none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemtableRoom {
    /// So many bytes of room in place, which [`extend`](Memtable::extend) makes.
    Extend(usize),
    /// A copy of this capacity, which [`grown`](Memtable::grown) makes.
    Grow(usize),
    /// Nothing: it is full.
    Full,
}

/// What a lookup found.
#[derive(Clone, Copy)]
pub struct FoundEntry<'a> {
    /// Sequence number and kind.
    pub trailer: Trailer,
    /// The value; empty for deletes.
    pub value: &'a [u8],
    entry: Ref<ArenaRecord>,
}

debug_by!(FoundEntry<'_>, "Found", trailer);

impl Prefixes {
    #[inline]
    fn add(&self, key: &[u8], beside: &KeyFilter) {
        let len = self.hook.prefix_len(key).min(key.len());
        self.filter.as_ref().unwrap_or(beside).add(key_hash(&key[..len]));
    }
}

impl Memtable {
    /// A memtable of `capacity` bytes, [`MIN_CAPACITY`] to [`MAX_CAPACITY`], that may use all of
    /// them; its memory from the pool.
    ///
    /// # Errors
    /// `InvalidArgument` for a capacity out of bounds, `Exhausted` when the operating system gives
    /// no memory.
    pub fn new(pool: &Arc<ArenaPool>, capacity: usize) -> Result<Arc<Memtable>> {
        if !(MIN_CAPACITY..=MAX_CAPACITY).contains(&capacity) {
            return Err(Error::invalid(format!(
                "a memtable holds {MIN_CAPACITY} to {MAX_CAPACITY} bytes, not {capacity}"
            )));
        }
        let (lease, filter) = Self::parts(pool.lease(capacity)?, capacity, false);
        let t = Self::of(SkipList::new(Arena::new(lease)), filter, None, capacity);
        t.extend(capacity);
        Ok(Arc::new(t))
    }

    /// An empty memtable that takes nothing before it has grown, with a filter that can tell which
    /// prefixes of keys are there.
    ///
    /// # Errors
    /// `Exhausted` when there is no memory.
    pub fn empty(
        pool: &Arc<ArenaPool>,
        prefix: Option<Arc<dyn FilterPrefix>>,
    ) -> Result<Arc<Memtable>> {
        let (lease, filter) =
            Self::parts(pool.lease_exact(arena::FIRST_NODES)?, 0, prefix.is_some());
        Ok(Arc::new(Self::of(SkipList::new(Arena::new(lease)), filter, prefix, 0)))
    }

    /// The filter for a memtable of this capacity, and the memory that counts it. A filter takes at
    /// most as many prefixes as keys.
    fn parts(lease: Lease, capacity: usize, with_prefixes: bool) -> (Lease, KeyFilter) {
        let filter = KeyFilter::new(if with_prefixes { 2 * capacity } else { capacity });
        (lease.with(filter.memory()), filter)
    }

    fn of(
        list: SkipList,
        filter: KeyFilter,
        prefix: Option<Arc<dyn FilterPrefix>>,
        capacity: usize,
    ) -> Memtable {
        Memtable {
            list,
            filter,
            prefixes: prefix
                .map_or_else(OnceLock::new, |hook| Prefixes { hook, filter: None }.into()),
            capacity,
            room: AtomicUsize::new(0),
            reserved: CachePadded(AtomicUsize::new(EMPTY)),
            deletes: AtomicU64::new(0),
            range_deletes: RangeDeletes::new(),
            combined: CombinedOperands::default(),
        }
    }

    /// What makes room for adds of this cost, for which [`reserve`](Self::reserve) found none, in a
    /// tree whose memtables may have `memtable_size` bytes and where the one before held `before`.
    /// An empty one may become as large as the adds demand.
    pub fn room_for(&self, cost: usize, memtable_size: usize, before: usize) -> MemtableRoom {
        let need = self.list.arena().used().saturating_add(cost);
        let reserved = self.reserved.load(Relaxed).saturating_add(cost);
        let fits = |capacity: usize| need <= capacity && reserved <= pool::mapped(capacity);
        if fits(self.capacity) {
            let piece = arena::Mapping::piece(pool::mapped(self.capacity)).max(1);
            return MemtableRoom::Extend(need.next_multiple_of(piece).min(self.capacity));
        }
        let is_empty = self.is_empty();
        let most = if is_empty { Self::capacity_for(memtable_size, cost) } else { memtable_size };
        if self.capacity >= most || (!is_empty && !fits(most)) {
            return MemtableRoom::Full;
        }
        let mut next = FIRST;
        while next < most && (next <= self.capacity || next < before || !fits(next)) {
            next = next.saturating_mul(TIMES);
        }
        // Not two copies where one will do.
        MemtableRoom::Grow(if next >= most / 4 { most } else { next })
    }

    /// Gives room in place, to so many bytes. The caller keeps others from reserving.
    pub fn extend(&self, room: usize) {
        let room = room.min(self.capacity);
        self.list.arena().lease().touch(room);
        self.room.fetch_max(room, Relaxed);
    }

    /// The room of a copy.
    fn room_of(&self, capacity: usize, cost: usize, whole: bool) -> usize {
        if whole {
            return capacity;
        }
        let piece = arena::Mapping::piece(pool::mapped(capacity)).max(1);
        let need = self.list.arena().used().saturating_add(cost).min(capacity);
        need.next_multiple_of(piece).min(capacity)
    }

    /// By how much [`taken`](Self::taken) rises when such room is made, at most; what an empty one
    /// takes is not counted by anybody.
    pub fn price(&self, room: MemtableRoom, cost: usize, whole: bool) -> usize {
        match room {
            MemtableRoom::Full => 0,
            MemtableRoom::Extend(bytes) => bytes.saturating_sub(self.room.load(Relaxed)),
            MemtableRoom::Grow(capacity) => {
                let filter = KeyFilter::memory_for(if self.prefixes.get().is_some() {
                    2 * capacity
                } else {
                    capacity
                });
                let room = self.room_of(capacity, cost, whole);
                let arena = if arena::Mapping::is_small(pool::mapped(capacity)) {
                    pool::mapped(capacity)
                } else {
                    room
                };
                (arena + filter).saturating_sub(if self.capacity == 0 { 0 } else { self.taken() })
            }
        }
    }

    /// A memtable with the same entries, of this capacity, with room for adds of this cost; or with
    /// all the room that it may ever have (`whole`), and then in memory that is resident already,
    /// if the pool has some. Nobody may add to this one meanwhile or later, and who has added must
    /// have said so to the caller (Release, Acquire).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn grown(&self, capacity: usize, cost: usize, whole: bool) -> Result<Arc<Memtable>> {
        if capacity > MAX_CAPACITY {
            return Err(Error::invalid(format!(
                "a memtable holds {MAX_CAPACITY} bytes at most, not {capacity}"
            )));
        }
        let arena = self.list.arena();
        let prefix = self.prefixes.get().map(|p| p.hook.clone());
        let pool = arena.lease().pool();
        let lease = if whole { pool.lease(capacity)? } else { pool.lease_fresh(capacity)? };
        let (lease, filter) = Self::parts(lease, capacity, prefix.is_some());
        let room = self.room_of(capacity, cost, whole);
        lease.touch(room);
        let t = Memtable {
            room: AtomicUsize::new(room),
            reserved: CachePadded(AtomicUsize::new(self.reserved.load(Relaxed))),
            deletes: AtomicU64::new(self.deletes()),
            range_deletes: self.range_deletes.copied(),
            ..Self::of(self.list.copied(lease)?, filter, prefix, capacity)
        };
        t.list.for_each(|e| t.note(e.key()));
        Ok(Arc::new(t))
    }

    /// The capacity of a memtable of `memtable_size` bytes that is made because the one before has
    /// no room for adds of this cost: they must fit, however large they are.
    pub fn capacity_for(memtable_size: usize, cost: usize) -> usize {
        memtable_size.max(cost + cost / 8 + MIN_CAPACITY)
    }

    /// Upper bound of the arena bytes that adding such an entry can take, its share of splits and
    /// of what they leave behind included. For a range tombstone: the lengths of its two keys.
    #[inline]
    pub fn cost(key_len: usize, value_len: usize) -> usize {
        const SHARE: usize = arena::SPLIT.div_ceil(LEAF / 2);
        const { assert!(SHARE >= arena::TOMBSTONE || cfg!(miri)) };
        arena::record_size(key_len, value_len) + SHARE
    }

    /// The same for an operation.
    pub fn cost_of(op: &Op<'_>) -> usize {
        match op {
            Op::Point { key, value, .. } => Memtable::cost(key.len(), value.len()),
            Op::DeleteRange { start, end } => Memtable::cost(start.len(), end.len()),
        }
    }

    /// Reserves room for adds whose costs sum up to `bytes`; `false`, and nothing reserved, when
    /// there is none: when the room is in use, or the capacity could be exceeded without bound.
    /// After a success those adds cannot fail.
    pub fn reserve(&self, bytes: usize) -> bool {
        let limit = pool::mapped(self.capacity);
        self.list.arena().used().saturating_add(bytes) <= self.room.load(Relaxed)
            && self
                .reserved
                .fetch_update(Relaxed, Relaxed, |r| {
                    r.checked_add(bytes).filter(|&sum| sum <= limit)
                })
                .is_ok()
    }

    /// Takes back a reservation of which nothing was added.
    pub fn unreserve(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Relaxed);
    }

    /// Adds a point entry, for which room has been reserved. Concurrent. Panics when more is added
    /// than the memory holds.
    #[inline]
    pub fn add(&self, key: &[u8], trailer: Trailer, value: &[u8]) {
        if trailer.0 as u8 == Kind::Delete as u8 {
            self.deletes.fetch_add(1, Relaxed);
        }
        self.note(key);
        self.list.insert(key, trailer, value);
    }

    /// Takes a key into the filters.
    #[inline]
    fn note(&self, key: &[u8]) {
        self.filter.add(key_hash(key));
        if let Some(p) = self.prefixes.get() {
            p.add(key, &self.filter);
        }
    }

    /// Adds a range tombstone, for which room has been reserved. Concurrent.
    pub fn add_tombstone(&self, t: &RangeTombstone) {
        self.range_deletes.add(self.list.arena(), t);
    }

    /// The [combined](combined) operands of a key, if a read has stored them.
    pub fn combined(&self, key: &[u8]) -> Option<Arc<CombinedOperand>> {
        self.combined.get(key)
    }

    /// Stores the [combined](combined) operands of a key, where there is room and none newer.
    pub fn store_combined(&self, key: &[u8], combined: CombinedOperand) {
        self.combined.store(key, combined, self.capacity);
    }

    /// The newest range deletion of `key` that a reader at `read` sees; for the price of one load
    /// where there are none.
    #[inline]
    pub fn newest_covering(&self, key: &[u8], read: Seq, guard: &Guard) -> Option<Seq> {
        self.range_deletes.newest_covering(self.list.arena(), key, read, guard)
    }

    /// The range deletions added so far, in a few sets: about as many as the logarithm of their
    /// number.
    pub fn deletions(&self) -> Vec<Arc<Deletions>> {
        self.range_deletes.sets(self.list.arena())
    }

    /// The range deletions added so far, as readers at these snapshots (ascending) and of the
    /// newest state need them.
    pub fn fragments(&self, snapshots: &[Seq]) -> Fragments {
        self.range_deletes.fragments(self.list.arena(), snapshots)
    }

    /// Whether there may be an entry of a key with this [hash](key_hash). `false` is right for
    /// every key whose add was published to the caller.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filter.may_contain(hash)
    }

    /// Whether there may be an entry of a key whose prefix has this [hash](key_hash). `false` is as
    /// right as that of [`may_contain`](Self::may_contain).
    #[inline]
    pub fn may_contain_prefix(&self, hash: u64) -> bool {
        self.prefixes
            .get()
            .is_none_or(|p| p.filter.as_ref().unwrap_or(&self.filter).may_contain(hash))
    }

    /// The newest version of `key` with a sequence number of at most `read`.
    #[inline]
    pub fn get(&self, key: &[u8], read: Seq) -> Option<FoundEntry<'_>> {
        let (entry, e) = self.list.get(key, Trailer::at(read))?;
        Some(FoundEntry { trailer: e.trailer(), value: e.value(), entry })
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

    /// Some keys, ascending, about `spacing` bytes of entries from each other, and with each how many
    /// there are since the one before, of which it may be one.
    pub fn landmarks(&self, spacing: u64) -> Vec<(Vec<u8>, u64)> {
        self.list.landmarks(spacing)
    }

    /// Bytes of memory in use.
    pub fn used(&self) -> usize {
        let prefixes =
            self.prefixes.get().and_then(|p| p.filter.as_ref()).map_or(0, KeyFilter::memory);
        self.list.arena().used() + self.filter.memory() + prefixes + self.range_deletes.memory()
    }

    /// Bytes of memory that it takes from what memtables may have: the room that it was given, and
    /// its filter.
    pub fn taken(&self) -> usize {
        self.list.arena().lease().bytes()
    }

    /// Bytes of memory that this memtable was made for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}
