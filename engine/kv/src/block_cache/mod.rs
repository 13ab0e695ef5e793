//! Floor 3: the block cache, which holds decoded blocks. It does not depend on tables.
//!
//! There is no hash table. Each table has an array of [`CacheSlots`] with one word per block. The
//! word of a cached block points directly to its decoded form, a [`CacheFrame`].
//!
//! A point read pins an epoch, loads the word and reads the frame. It takes no lock and changes no
//! reference count. A longer-lived reference is a [`FrameRef`]. A miss takes one short lock.
//!
//! Eviction is CLOCK (`clock.rs`). A probation queue before it evicts blocks that were read only
//! once (`probation.rs`). Memory comes from a slab of size classes (`slab.rs`, `frame.rs`) and is
//! recycled.
//!
//! ```
//! use std::sync::Arc;
//! use firn_kv::internals::block_cache::{Cache, CacheSlots};
//! let cache = Cache::new(1 << 20);
//! let table = Arc::new(CacheSlots::new(10));
//! let mut block = cache.allocate(5);
//! block.copy_from_slice(b"block");
//! let kept = cache.insert(&table, 3, block.freeze());
//! let guard = firn_kv::internals::util::epoch::pin();
//! assert_eq!(table.get(3, &guard).map(|f| &f[..]), Some(&b"block"[..]));
//! assert_eq!(&kept[..], b"block");
//! ```
//!
//! Invariants:
//! 1. The bytes that a slot points to never change.
//! 2. Memory held for linked frames stays within the capacity + 1/32, however long a reader stays
//!    pinned. It is counted in whole chunks, except chunks that do not become empty after the
//!    capacity was reduced. When the epoch does not advance, frames cannot be recycled and the
//!    cache links no new ones. Frames that callers hold ([`FrameMut`], [`FrameRef`]) are additional
//!    unless they are in the chunks.
//! 3. No code pins, defers or drops while it holds the pool's lock. Each of these may run deferred
//!    work that takes the lock.
//! 4. No memory is touched for the first time while the pool's lock is held.
//! 5. No call does work proportional to the cache's size. The exceptions are
//!    [`Cache::set_capacity`], [`Cache::usage`] and the one-time allocation of the ghost queue
//!    (`probation.rs`). The work of [`Cache::hand_over`] is proportional to the number of blocks it
//!    receives; it takes the pool's lock once per block.

mod clock;
mod frame;
mod probation;
mod slab;
mod slot;
mod sync;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use frame::{CacheFrame, FrameMut, FrameRef};
pub use slot::CacheSlots;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use clock::{ClockOrder, SweepResult};
use frame::{FrameState, Pool};
use probation::{BlockHash, GhostQueue, ProbationBounds, Probationer, is_one_in};
use slab::{HEADER, LOOSE, class_size};
use sync::epoch::{self, Guard};

/// Block cache, shared by all tables of a Db.
pub struct Cache {
    pool: Arc<Pool>,
    capacity: AtomicUsize,
    /// Whether the last allocation found little free memory.
    full: AtomicBool,
    /// Whether cached blocks are read often enough that new blocks must pass probation first.
    hot: AtomicBool,
    /// Number of blocks read by long scans that were offered while the cache was full.
    passing: AtomicU64,
    /// Ghost queue: blocks that were read once and then evicted.
    ghosts: GhostQueue,
    /// Bytes of evicted frames that wait for the epoch.
    limbo: Arc<AtomicUsize>,
    inserts: AtomicU64,
    evictions: AtomicU64,
    refusals: AtomicU64,
}

/// Memory use and counters of a cache. Hits are not counted, because a hit writes to no shared
/// memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Capacity in bytes.
    pub capacity: usize,
    /// Memory held, in bytes: whole chunks, and frames with their own allocation.
    pub resident: usize,
    /// Number of frames in slots, and of referenced frames whose table has been dropped.
    pub frames: usize,
    /// Memory of these frames, in bytes: contents, header and rounding to the size class.
    pub frame_bytes: usize,
    /// Memory of frames that are in no slot, in bytes. They are being filled, wait for the epoch
    /// after eviction, or are still referenced.
    pub unlinked_bytes: usize,
    /// Number of frames put into slots: one for each cached miss.
    pub inserts: u64,
    /// Number of evicted frames.
    pub evictions: u64,
    /// Number of frames not cached because no memory could be recycled in time.
    pub refusals: u64,
}

/// A block that a table copied unchanged from another table.
#[derive(Debug)]
pub struct InheritedBlock {
    /// Cache slots of the other table.
    pub from: Arc<CacheSlots>,
    /// Block number in the other table.
    pub old: u32,
    /// Block number in this table.
    pub new: u32,
}

/// How long a block stays in a full cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStay {
    /// Until the clock hand passes it.
    Round,
    /// A shorter time, unless it is read again or was evicted recently.
    ProbationQueue,
}

/// A full cache admits 1 in this number of blocks that long scans read.
const KEPT: u64 = 16;

/// Number of epoch advances that free evicted frames when no thread is pinned.
const EPOCHS: u32 = 3;

/// Upper bound of the free memory held in reserve, in bytes.
const RESERVE: usize = 256 << 10;

impl Cache {
    /// Creates an empty cache of `capacity` bytes. It allocates memory as it fills, in chunks of
    /// 1/64 of the capacity (64 KiB to 2 MiB).
    pub fn new(capacity: usize) -> Arc<Cache> {
        Self::within(capacity, capacity)
    }

    /// Like [`new`](Self::new), for a cache whose capacity may grow to `most` bytes.
    pub fn within(most: usize, capacity: usize) -> Arc<Cache> {
        let chunk = 1 << (capacity / 64).clamp(64 << 10, 2 << 20).ilog2();
        Arc::new(Cache {
            pool: Pool::new(chunk),
            capacity: AtomicUsize::new(capacity),
            full: AtomicBool::new(false),
            hot: AtomicBool::new(false),
            passing: AtomicU64::new(0),
            ghosts: GhostQueue::new(most),
            limbo: Arc::default(),
            inserts: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        })
    }

    /// Changes the capacity.
    ///
    /// A smaller capacity takes effect at once unless readers hold frames. The rest is evicted by
    /// later allocations. Evicted frames that wait for readers count as freed, so the call evicts
    /// no more than necessary.
    pub fn set_capacity(&self, bytes: usize) {
        self.capacity.store(bytes, Ordering::Relaxed);
        let (mut before, mut in_vain) = (usize::MAX, 0);
        loop {
            let guard = epoch::pin();
            let mut state = self.pool.lock();
            state.trim(bytes);
            let resident = state.slab.resident();
            let mut evictions = SweepResult::default();
            let held = resident.saturating_sub(self.limbo.load(Ordering::Relaxed));
            // The last frames are evicted one at a time.
            let goal =
                if Self::is_over(&state, held, bytes) { 256 } else { usize::from(held > bytes) };
            if goal > 0 {
                state.sweep(ClockOrder { class: None, goal, force: true }, &guard, &mut evictions);
            }
            drop(state);
            drop(guard);
            let evicted = evictions.evicted;
            self.defer_evicted(evictions);
            in_vain = if evicted > 0 || resident < before { 0 } else { in_vain + 1 };
            if resident <= bytes || goal == 1 || in_vain > EPOCHS {
                return;
            }
            before = resident;
        }
    }

    /// Allocates a frame for `len` bytes, which must be below 4 GiB less 64. The contents are
    /// arbitrary. Evicts other frames when memory is short.
    ///
    /// # Panics
    /// If `len` is larger. Callers cap the sizes that they read from disk.
    pub fn allocate(&self, len: usize) -> FrameMut {
        let guard = epoch::pin();
        let mut state = self.pool.lock();
        let class = state.slab.class_for(len);
        let capacity = self.capacity.load(Ordering::Relaxed);
        let taken = class.and_then(|class| {
            let taken = self.pool.take(&mut state, class, len);
            taken.or_else(|| {
                let may_grow = state.slab.resident() + state.slab.chunk_size() <= capacity;
                state
                    .open_chunk(class, may_grow)
                    .then(|| self.pool.take(&mut state, class, len))
                    .flatten()
            })
        });
        let incoming = if taken.is_none() { len.saturating_add(HEADER) } else { 0 };
        let evictions = self.make_room(&mut state, capacity, class, incoming, &guard);
        drop(state);
        drop(guard);
        if let Some(evictions) = evictions {
            self.defer_evicted(evictions);
        }
        taken.map_or_else(|| self.pool.take_loose(len), |taken| self.pool.frame(taken))
    }

    /// Allocates a frame for `len` bytes if spare memory is available. Used for blocks that are
    /// being written and may be read soon. Evicts no frame and leaves the memory that misses need.
    pub fn spare(&self, len: usize) -> Option<FrameMut> {
        let mut state = self.pool.lock();
        let class = state.slab.class_for(len)?;
        let capacity = self.capacity.load(Ordering::Relaxed);
        let may_grow = state.slab.resident() + 4 * state.slab.chunk_size() <= capacity;
        let reserve = ((capacity / 64).min(RESERVE) / class_size(class)).max(2);
        if !may_grow && state.slab.free_of(class) <= 4 * reserve {
            return None;
        }
        let taken = self.pool.take(&mut state, class, len);
        let taken = taken.or_else(|| {
            state
                .open_chunk(class, may_grow)
                .then(|| self.pool.take(&mut state, class, len))
                .flatten()
        });
        drop(state);
        taken.map(|taken| self.pool.frame(taken))
    }

    /// Reports whether to cache a block that a long scan reads. Admits every block while there is
    /// room, and 1 in 16 once the cache is full. Call it once per block.
    pub fn admits_passing(&self) -> bool {
        !self.full.load(Ordering::Relaxed)
            || is_one_in(KEPT, self.passing.fetch_add(1, Ordering::Relaxed))
    }

    /// Reports whether frames must be evicted because `held` exceeds `capacity`; `held` excludes
    /// frames in limbo. Returns false if at least the excess is free but scattered over chunks.
    /// Callers hold frames in such chunks, as compactions do all over the cache. Evictions would
    /// not empty them.
    fn is_over(state: &FrameState, held: usize, capacity: usize) -> bool {
        let over = held.saturating_sub(capacity);
        over > 0 && state.slab.scattered() < over
    }

    /// Evicts frames when a class is short of memory or the cache exceeds its capacity. Returns
    /// `None` if neither is the case.
    fn make_room(
        &self,
        state: &mut FrameState,
        capacity: usize,
        class: Option<usize>,
        incoming: usize,
        guard: &Guard,
    ) -> Option<SweepResult> {
        state.trim(capacity.saturating_sub(incoming));
        let resident = state.slab.resident().saturating_add(incoming);
        let limbo = self.limbo.load(Ordering::Relaxed);
        let size = class.map_or(incoming, class_size).max(1);
        let reserve = ((capacity / 64).min(RESERVE) / size).max(2);
        let batch = (reserve / 4).max(1);
        let growing = state.slab.has_empty() || resident + state.slab.chunk_size() <= capacity;
        let free = class.map_or(0, |c| state.slab.free_of(c));
        let full = !growing && free <= 4 * reserve;
        if self.full.load(Ordering::Relaxed) != full {
            self.full.store(full, Ordering::Relaxed);
        }
        let goal = if Self::is_over(state, resident.saturating_sub(limbo), capacity)
            || (!growing && free + limbo / size < reserve)
        {
            batch
        } else if !growing && free < batch {
            usize::from(limbo < capacity / 32) // the epoch is late: evict one per insertion
        } else {
            return None;
        };
        let mut evictions = SweepResult::default();
        let force = state.slab.chunk_bytes() > capacity;
        state.sweep(ClockOrder { class, goal, force }, guard, &mut evictions);
        let hot = state.clock.is_hot();
        if self.hot.load(Ordering::Relaxed) != hot {
            self.hot.store(hot, Ordering::Relaxed);
        }
        Some(evictions)
    }

    /// Defers the drop of evicted and unlinked frames to the epoch. Call it without the pool's
    /// lock.
    fn defer_evicted(&self, evictions: SweepResult) {
        let SweepResult { garbage, evicted, ghosts, .. } = evictions;
        ghosts.into_iter().for_each(|hash| self.ghosts.remember(hash));
        if garbage.is_empty() {
            epoch::pin().flush(); // no garbage, but memory is needed: advance the epoch
            return;
        }
        let bytes = garbage.bytes();
        self.evictions.fetch_add(evicted as u64, Ordering::Relaxed);
        self.limbo.fetch_add(bytes, Ordering::Relaxed);
        let limbo = self.limbo.clone();
        garbage.drop_then(move || {
            limbo.fetch_sub(bytes, Ordering::Relaxed);
        });
    }

    /// Caches `frame` as block `i` of `slots` until the clock hand passes it.
    ///
    /// If another thread was first, returns its frame and drops this one. Returns the frame
    /// uncached in these cases:
    /// - `i` is out of range;
    /// - the frame is already cached, or is from another cache;
    /// - memory is short because readers hold back the epoch.
    pub fn insert(&self, slots: &Arc<CacheSlots>, i: usize, frame: FrameRef) -> FrameRef {
        self.insert_for(CacheStay::Round, slots, i, frame)
    }

    /// Like [`insert`](Self::insert), for as long as `stay` says.
    pub fn insert_for(
        &self,
        stay: CacheStay,
        slots: &Arc<CacheSlots>,
        i: usize,
        frame: FrameRef,
    ) -> FrameRef {
        let Ok(index) = u32::try_from(i) else { return frame };
        if !frame.is_of(&self.pool) {
            return frame;
        }
        let probation = (stay == CacheStay::ProbationQueue
            && self.full.load(Ordering::Relaxed)
            && self.hot.load(Ordering::Relaxed))
        .then(|| BlockHash::of(slots.file(), index))
        .filter(|hash| !self.ghosts.take(*hash));
        let guard = epoch::pin();
        let mut state = self.pool.lock();
        let place = frame.place();
        if state.clock.knows(place) {
            return frame;
        }
        let capacity = self.capacity.load(Ordering::Relaxed);
        if place.chunk == LOOSE && state.slab.resident() > capacity.saturating_add(capacity / 32) {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            return frame;
        }
        let mut evictions = SweepResult::default();
        let linked = slots.link(i, &frame, &guard);
        if linked.is_ok() {
            state.clock.enter(place, slots, index, frame.size());
            self.inserts.fetch_add(1, Ordering::Relaxed);
            if let Some(hash) = probation {
                let slot = (Arc::as_ptr(slots).addr(), index);
                let bounds = ProbationBounds::of(capacity);
                let probationer = Probationer { place, slot, hash, size: frame.size() };
                if state.probation.begin(probationer, bounds) {
                    state.end_probations(bounds, &guard, &mut evictions);
                }
            }
        }
        drop(state);
        drop(guard);
        if !evictions.garbage.is_empty() {
            self.defer_evicted(evictions);
        }
        match linked {
            Err(Some(first)) => first,
            Ok(()) | Err(None) => frame,
        }
    }

    /// Moves cached frames of other tables to `slots`, for blocks copied unchanged into this table.
    /// The frames themselves move, so this takes no memory. Readers of the other tables may have to
    /// decode these blocks again.
    pub fn hand_over(
        &self,
        slots: &Arc<CacheSlots>,
        blocks: impl IntoIterator<Item = InheritedBlock>,
    ) {
        let mut evictions = SweepResult::default();
        for InheritedBlock { from, old, new } in blocks {
            let guard = epoch::pin();
            let frame = from.peek(old as usize, &guard);
            let Some(frame) = frame.filter(|f| f.is_of(&self.pool)) else { continue };
            let mut state = self.pool.lock();
            let to = (&**slots, new as usize);
            let Some(linked) = from.pass_on(old as usize, frame, to, &mut evictions.garbage) else {
                continue;
            };
            state.clock.forget(frame.place());
            if linked {
                state.clock.enter(frame.place(), slots, new, frame.size());
            }
        }
        if !evictions.garbage.is_empty() {
            self.defer_evicted(evictions);
        }
    }

    /// Returns the memory use and counters. Takes the lock and visits every chunk, so use it for
    /// statistics only.
    pub fn usage(&self) -> CacheStats {
        let state = self.pool.lock();
        let (frames, frame_bytes) = state.clock.linked();
        CacheStats {
            capacity: self.capacity.load(Ordering::Relaxed),
            resident: state.slab.resident(),
            frames,
            frame_bytes,
            unlinked_bytes: state.slab.live_bytes() - frame_bytes,
            inserts: self.inserts.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            refusals: self.refusals.load(Ordering::Relaxed),
        }
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({:?})", self.usage())
    }
}
