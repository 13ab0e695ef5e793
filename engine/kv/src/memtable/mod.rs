//! The memtable: the newest writes of a tree, sorted, in memory that grows up to a bound.
//!
//! A concurrent blocked skiplist (`skiplist`) stores the entries in an arena (`arena`) that is
//! recycled ([`pool`]). A separate list with layers (`deletes`) stores range deletions.
//!
//! A memtable begins [empty](Memtable::empty), with half a KiB. Its owner makes
//! [room](Memtable::room_for) as it is written:
//! - First in place, one piece at a time, up to the capacity.
//! - Then by a [copy](Memtable::grown) of eight times the capacity, up to 2 MiB, and then of its
//!   maximum size.
//!
//! A long value ([`LONG_VALUE`]) stays in the memory of the log, if that can be read. It counts as if
//! it were in the arena, so the memory of the log bounds what the memtable refers to.
//!
//! So little is copied, a memtable that is never written costs almost nothing, and only large ones
//! take much address space. Memory beyond the room is not touched, and only pieces of large
//! memtables get huge pages.
//!
//! Invariants:
//! - T1: adds run concurrently with each other and with readers. Readers take no lock, never wait
//!   and never retry.
//! - T2: once an `add` has returned, every read that starts later sees its entry.
//! - T3: an add within its reservation never runs out of room. [`Memtable::cost`] covers all splits
//!   that the add will ever cause, including the old bodies that splits leave unused. A split takes
//!   at most `SPLIT` bytes and leaves two leaves of half the entries. So half a leaf of
//!   adds pays for the next split. The adds of a leaf that a sequential load began pay for it.
//! - T4: no two entries have the same key and trailer, because each sequence number is assigned
//!   once.

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

use crate::base::error::{Error, Result};
use crate::base::hooks::FilterPrefix;
use crate::base::key::{Kind, Seq, Trailer};
use crate::base::ops::Op;
use crate::env::LogSlice;
use crate::range_del::deletions::Deletions;
use crate::range_del::tombstone::{Fragments, RangeTombstone};
use crate::util::hash::key_hash;
use crate::util::stripe::CachePadded;
use crate::util::sync::epoch::Guard;
use arena::{Arena, ArenaRecord, LEAF, Ref};
use combined::{CombinedOperand, CombinedOperands};
use deletes::RangeDeletes;
use filter::KeyFilter;
use pool::Lease;
use skiplist::SkipList;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Upper bound of the arena bytes of an empty memtable.
const EMPTY: usize = 64 + arena::SPLIT;
/// First capacity, in bytes, that an empty memtable grows to.
const FIRST: usize = 4 << 10;
/// Factor by which the capacity grows at each copy.
const TIMES: usize = 8;
/// Upper bound, in bytes, of the smallest memtable with an entry: a page and its filter.
pub const LEAST: usize = FIRST + 64;
/// Smallest capacity, in bytes.
pub const MIN_CAPACITY: usize = 64 << 10;
/// Largest capacity, in bytes: references have 32 bits.
pub const MAX_CAPACITY: usize = (u32::MAX as usize) & !0xffff;
/// Smallest value, in bytes, that stays in the memory of the log. Shorter ones cost little to copy,
/// and are next to their keys in the arena.
pub const LONG_VALUE: usize = 4096;

/// An ordered map from (key, trailer) to values in a bounded amount of memory. All methods take
/// `&self`.
pub struct Memtable {
    list: SkipList,
    filter: KeyFilter,
    /// The key prefixes that the filter also contains, if the tree has a prefix hook.
    prefixes: OnceLock<Prefixes>,
    capacity: usize,
    /// Bytes of the capacity that may be used now.
    room: AtomicUsize,
    /// Bytes reserved for adds: an upper bound of their final arena usage.
    reserved: CachePadded<AtomicUsize>,
    /// Bytes by which the arena would be larger if it contained the values that are in the log.
    in_log: AtomicUsize,
    deletes: AtomicU64,
    range_deletes: RangeDeletes,
    combined: CombinedOperands,
}

debug_by!(Memtable, "Memtable", capacity);

struct Prefixes {
    hook: Arc<dyn FilterPrefix>,
    /// A separate filter for the prefixes. `None`: the key filter is large enough and contains
    /// them.
    filter: Option<KeyFilter>,
}

/// The way to make room for adds that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemtableRoom {
    /// Room in place, to this many bytes in total, by [`extend`](Memtable::extend).
    Extend(usize),
    /// A copy of this capacity, by [`grown`](Memtable::grown).
    Grow(usize),
    /// No way: the memtable is full.
    Full,
}

/// The result of a lookup.
#[derive(Clone, Copy)]
pub struct FoundEntry<'a> {
    key: &'a [u8],
    /// Sequence number and kind.
    pub trailer: Trailer,
    /// The value; empty for deletes.
    pub value: &'a [u8],
    entry: Ref<ArenaRecord>,
}

debug_by!(FoundEntry<'_>, "FoundEntry", trailer);

impl Prefixes {
    #[inline]
    fn add(&self, key: &[u8], beside: &KeyFilter) {
        let len = self.hook.prefix_len(key).min(key.len());
        self.filter.as_ref().unwrap_or(beside).add(key_hash(&key[..len]));
    }
}

impl Memtable {
    /// Creates a memtable of `capacity` bytes ([`MIN_CAPACITY`] to [`MAX_CAPACITY`]) with memory
    /// from the pool. It may use all of them at once.
    ///
    /// # Errors
    /// `InvalidArgument` for a capacity out of bounds, `Exhausted` when the operating system
    /// provides no memory.
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

    /// Creates an empty memtable that takes almost no memory before it grows. With `prefix`, its
    /// filter also contains key prefixes.
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

    /// Creates the filter for a memtable of this capacity and counts its memory in the lease. A
    /// memtable has at most as many prefixes as keys.
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
            in_log: AtomicUsize::new(0),
            deletes: AtomicU64::new(0),
            range_deletes: RangeDeletes::new(),
            combined: CombinedOperands::default(),
        }
    }

    /// Returns the way to make room for adds of this cost, after [`reserve`](Self::reserve) refused
    /// them. `memtable_size` is the tree's memtable size in bytes, `before` the size of the
    /// previous memtable. An empty memtable may become as large as the adds need.
    pub fn room_for(&self, cost: usize, memtable_size: usize, before: usize) -> MemtableRoom {
        let need = self.filled().saturating_add(cost);
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
        // Avoid two copies if one suffices.
        MemtableRoom::Grow(if next >= most / 4 { most } else { next })
    }

    /// Makes room in place, up to `room` bytes in total. The caller prevents concurrent
    /// reservations.
    pub fn extend(&self, room: usize) {
        let room = room.min(self.capacity);
        self.list.arena().lease().touch(room);
        self.room.fetch_max(room, Relaxed);
    }

    /// Returns the room, in bytes, of a copy.
    fn room_of(&self, capacity: usize, cost: usize, whole: bool) -> usize {
        if whole {
            return capacity;
        }
        let piece = arena::Mapping::piece(pool::mapped(capacity)).max(1);
        let need = self.filled().saturating_add(cost).min(capacity);
        need.next_multiple_of(piece).min(capacity)
    }

    /// Returns an upper bound of the bytes by which [`taken`](Self::taken) rises when this room is
    /// made. The memory of an empty memtable is not counted.
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

    /// Returns a memtable with the same entries, of this capacity, with room for adds of this cost.
    /// With `whole` it gets all its room at once, in memory that is already resident if the pool
    /// has some. Nobody may add to this memtable during the call or later. Earlier adds must be
    /// visible to the caller (Release, Acquire).
    ///
    /// # Errors
    /// See [`new`](Self::new).
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
            in_log: AtomicUsize::new(self.in_log.load(Relaxed)),
            deletes: AtomicU64::new(self.deletes()),
            range_deletes: self.range_deletes.copied(),
            ..Self::of(self.list.copied(lease)?, filter, prefix, capacity)
        };
        t.list.for_each(|e| t.note(e.key()));
        Ok(Arc::new(t))
    }

    /// Returns the capacity of a new memtable that replaces one without room for adds of this cost.
    /// The result has at least `memtable_size` bytes and always fits the adds.
    pub fn capacity_for(memtable_size: usize, cost: usize) -> usize {
        memtable_size.max(cost + cost / 8 + MIN_CAPACITY)
    }

    /// Returns an upper bound of the arena bytes that adding an entry can take. It includes the
    /// entry's share of splits and of the nodes that they replace. For a range tombstone, pass the
    /// lengths of its two keys.
    #[inline]
    pub fn cost(key_len: usize, value_len: usize) -> usize {
        const SHARE: usize = arena::SPLIT.div_ceil(LEAF / 2);
        const { assert!(SHARE >= arena::TOMBSTONE || cfg!(miri)) };
        arena::record_size(key_len, value_len) + SHARE
    }

    /// Returns the [`cost`](Self::cost) of an operation.
    pub fn cost_of(op: &Op<'_>) -> usize {
        match op {
            Op::Point { key, value, .. } => Memtable::cost(key.len(), value.len()),
            Op::DeleteRange { start, end } => Memtable::cost(start.len(), end.len()),
        }
    }

    /// Reserves room for adds whose costs sum up to `bytes`. Returns `false`, and reserves nothing,
    /// if the room is in use or the adds could exceed the mapped memory. After a success those adds
    /// cannot fail.
    pub fn reserve(&self, bytes: usize) -> bool {
        let limit = pool::mapped(self.capacity);
        self.filled().saturating_add(bytes) <= self.room.load(Relaxed)
            && self
                .reserved
                .fetch_update(Relaxed, Relaxed, |r| {
                    r.checked_add(bytes).filter(|&sum| sum <= limit)
                })
                .is_ok()
    }

    /// Cancels a reservation from which nothing was added.
    pub fn unreserve(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Relaxed);
    }

    /// Adds a point entry within a reservation. Concurrent. Panics if the entry exceeds the memory.
    #[inline]
    pub fn add(&self, key: &[u8], trailer: Trailer, value: &[u8]) {
        if trailer.0 as u8 == Kind::Delete as u8 {
            self.deletes.fetch_add(1, Relaxed);
        }
        self.note(key);
        let entry = self.list.arena().add(key, trailer, value, true);
        self.list.insert(key, trailer, entry);
    }

    /// Adds a put or a merge operand like [`add`](Self::add). Its value is the given part of a
    /// record's payload, and stays there.
    pub fn add_reference(
        &self,
        key: &[u8],
        trailer: Trailer,
        payload: &LogSlice,
        value: Range<usize>,
    ) {
        let (full, own) =
            (arena::record_size(key.len(), value.len()), arena::reference_size(key.len()));
        self.in_log.fetch_add(full.saturating_sub(own), Relaxed);
        self.note(key);
        let entry = self.list.arena().add_reference(key, trailer, payload, value);
        self.list.insert(key, trailer, entry);
    }

    /// Returns the bytes in use, with the values that are in the log.
    #[inline]
    fn filled(&self) -> usize {
        self.list.arena().used() + self.in_log.load(Relaxed)
    }

    /// Adds a key to the filters.
    #[inline]
    fn note(&self, key: &[u8]) {
        self.filter.add(key_hash(key));
        if let Some(p) = self.prefixes.get() {
            p.add(key, &self.filter);
        }
    }

    /// Adds a range tombstone within a reservation. Concurrent.
    pub fn add_tombstone(&self, t: &RangeTombstone) {
        self.range_deletes.add(self.list.arena(), t);
    }

    /// Stores the [combined](combined) operands of a key, unless newer ones exist or the space is
    /// used up.
    pub fn store_combined(&self, key: &[u8], combined: CombinedOperand) {
        self.combined.store(key, combined, self.capacity);
    }

    /// Returns the newest range deletion of `key` that a reader at `read` sees. Costs one load if
    /// there are no range deletions.
    #[inline]
    pub fn newest_covering(&self, key: &[u8], read: Seq, guard: &Guard) -> Option<Seq> {
        self.range_deletes.newest_covering(self.list.arena(), key, read, guard)
    }

    /// Returns the range deletions added so far, in about log(n) sets for n deletions.
    pub fn deletions(&self) -> Vec<Arc<Deletions>> {
        self.range_deletes.sets(self.list.arena())
    }

    /// Returns the fragments of the range deletions that readers need at these snapshots
    /// (ascending) and at the newest state.
    pub fn fragments(&self, snapshots: &[Seq]) -> Fragments {
        self.range_deletes.fragments(self.list.arena(), snapshots)
    }

    /// Reports whether there may be an entry of a key with this [hash](key_hash). `false` is
    /// correct for every key whose add was published to the caller.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filter.may_contain(hash)
    }

    /// Reports whether there may be an entry of a key whose prefix has this [hash](key_hash).
    /// `false` is as reliable as in [`may_contain`](Self::may_contain).
    #[inline]
    pub fn may_contain_prefix(&self, hash: u64) -> bool {
        self.prefixes
            .get()
            .is_none_or(|p| p.filter.as_ref().unwrap_or(&self.filter).may_contain(hash))
    }

    /// Returns the newest version of `key` with a sequence number of at most `read`.
    #[inline]
    pub fn get(&self, key: &[u8], read: Seq) -> Option<FoundEntry<'_>> {
        let (entry, e) = self.list.get(key, Trailer::at(read))?;
        Some(FoundEntry { key: e.key(), trailer: e.trailer(), value: e.value(), entry })
    }

    /// Returns the number of point entries.
    pub fn entries(&self) -> u64 {
        self.list.arena().entries()
    }

    /// Returns the number of point entries that are deletes.
    pub fn deletes(&self) -> u64 {
        self.deletes.load(Relaxed)
    }

    /// Returns the number of range tombstones.
    pub fn range_deletes(&self) -> u64 {
        self.range_deletes.len(self.list.arena())
    }

    /// Reports whether there are neither point entries nor range tombstones.
    pub fn is_empty(&self) -> bool {
        self.entries() == 0 && self.range_deletes.is_empty()
    }

    /// Returns sample keys, ascending, about `spacing` bytes of entries from each other. Each comes
    /// with the bytes of entries since the sample before it, including its own leaf.
    pub fn landmarks(&self, spacing: u64) -> Vec<(Vec<u8>, u64)> {
        self.list.landmarks(spacing)
    }

    /// Returns the bytes in use, with the values that are in the memory of the log.
    pub fn used(&self) -> usize {
        let prefixes =
            self.prefixes.get().and_then(|p| p.filter.as_ref()).map_or(0, KeyFilter::memory);
        self.filled() + self.filter.memory() + prefixes + self.range_deletes.memory()
    }

    /// Returns the bytes of the memtable budget that this memtable takes: its room and its filter.
    pub fn taken(&self) -> usize {
        self.list.arena().lease().bytes()
    }

    /// Returns the bytes of memory that this memtable was created for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}
