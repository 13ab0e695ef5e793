//! Floor 1: the cache of decoded blocks. It knows nothing of tables.
//!
//! There is no hash table: each table has an array of [`CacheSlots`], one word per block, that
//! leads straight to the decoded block (a [`CacheFrame`]) when it is cached. A point read pins an
//! epoch, loads the word and reads the frame without a lock and without touching a reference count;
//! what lives longer takes a [`FrameRef`]. Misses take one short lock. Eviction is CLOCK
//! (`clock.rs`), before which what is read once goes (`probation.rs`); memory comes from a slab of
//! size classes (`slab.rs`, `frame.rs`) and is recycled.
//!
//! ```
//! use std::sync::Arc;
//! use firn_kv::internals::cache::{Cache, CacheSlots};
//! let cache = Cache::new(1 << 20);
//! let table = Arc::new(CacheSlots::new(10));
//! let mut block = cache.allocate(5);
//! block.copy_from_slice(b"block");
//! let kept = cache.insert(&table, 3, block.freeze());
//! let guard = firn_kv::internals::base::epoch::pin();
//! assert_eq!(table.get(3, &guard).map(|f| &f[..]), Some(&b"block"[..]));
//! assert_eq!(&kept[..], b"block");
//! ```
//!
//! Invariants:
//! 1. The bytes that a slot leads to never change.
//! 2. Memory held for linked frames (whole chunks, but for those that do not get empty after the
//!    capacity has become smaller) stays within the capacity + 1/32, however long a reader stays
//!    pinned: when frames cannot be recycled because the epoch stands still, new ones are not
//!    linked. What callers hold ([`FrameMut`], [`FrameRef`]) comes on top when it does not
//!    lie in the chunks.
//! 3. Nothing is pinned, deferred or dropped while the pool's lock is held, because each of them
//!    may run deferred work that takes it.
//! 4. No memory is touched for the first time while the pool's lock is held.
//! 5. No call does work in proportion to the cache's size, but for [`Cache::set_capacity`],
//!    [`Cache::usage`] and, once, what makes room to remember blocks in (`probation.rs`). That of
//!    [`Cache::hand_over`] is in proportion to the blocks that it is told of, with the pool's lock
//!    taken for each by itself.

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

use clock::{ClockOrder, SkippedRange};
use frame::{FrameState, Pool};
use probation::{BlockHash, GhostQueue, ProbationBounds, Probationer, is_one_in};
use slab::{HEADER, LOOSE, class_size};
use sync::epoch::{self, Guard};

/// The cache, shared by all tables of a Db.
pub struct Cache {
    pool: Arc<Pool>,
    capacity: AtomicUsize,
    /// Whether the last allocation found little room left.
    full: AtomicBool,
    /// Whether what it holds is read so often that what comes has to show first that it is, too.
    hot: AtomicBool,
    /// How many blocks of long walks it was asked about while it was full.
    passing: AtomicU64,
    /// Blocks that were read once, and went.
    departed: GhostQueue,
    /// Bytes of frames that were evicted and wait for the epoch.
    limbo: Arc<AtomicUsize>,
    inserts: AtomicU64,
    evictions: AtomicU64,
    refusals: AtomicU64,
}

/// Where a cache's memory is and what it has done. Hits are not counted here: a hit touches nothing
/// shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// What the cache may hold, in bytes.
    pub capacity: usize,
    /// Memory held, in bytes: whole chunks, and frames with an allocation of their own.
    pub resident: usize,
    /// Frames in slots, and those still held whose table is gone.
    pub frames: usize,
    /// Their memory, in bytes: contents, header and rounding to the size class.
    pub frame_bytes: usize,
    /// Memory of frames that are in no slot, in bytes: being filled, evicted and waiting for the
    /// epoch, or still referenced.
    pub unlinked_bytes: usize,
    /// Frames put into slots: one for each miss that was cached.
    pub inserts: u64,
    /// Frames evicted.
    pub evictions: u64,
    /// Frames not cached because no memory could be recycled in time.
    pub refusals: u64,
}

/// A block that a table has taken over from another one as it was.
#[derive(Debug)]
pub struct InheritedBlock {
    /// The blocks of the other table.
    pub from: Arc<CacheSlots>,
    /// Its number there.
    pub old: u32,
    /// Its number here.
    pub new: u32,
}

/// How long a block stays in a cache that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStay {
    /// Until the clock's hand has come by.
    Round,
    /// Not as long, unless it is read again, or has been here not long ago.
    ProbationQueue,
}

/// Of the blocks that long walks read, one in so many goes into a cache that is full.
const KEPT: u64 = 16;

/// How often the epoch has to move on before what was evicted is let go, where nobody is pinned.
const EPOCHS: u32 = 3;

/// Free memory kept ready, at most, in bytes.
const RESERVE: usize = 256 << 10;

impl Cache {
    /// An empty cache for `capacity` bytes. It takes memory as it fills, in chunks of a 64th of the
    /// capacity (64 KiB to 2 MiB).
    pub fn new(capacity: usize) -> Arc<Cache> {
        Self::within(capacity, capacity)
    }

    /// The same for one whose capacity may grow to `most` bytes.
    pub fn within(most: usize, capacity: usize) -> Arc<Cache> {
        let chunk = 1 << (capacity / 64).clamp(64 << 10, 2 << 20).ilog2();
        Arc::new(Cache {
            pool: Pool::new(chunk),
            capacity: AtomicUsize::new(capacity),
            full: AtomicBool::new(false),
            hot: AtomicBool::new(false),
            passing: AtomicU64::new(0),
            departed: GhostQueue::new(most),
            limbo: Arc::default(),
            inserts: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        })
    }

    /// Changes the capacity. A smaller one takes effect at once as far as no reader stands in the
    /// way, and then with every allocation. What was evicted and waits for readers counts as gone: it
    /// evicts no more than it has to.
    pub fn set_capacity(&self, bytes: usize) {
        self.capacity.store(bytes, Ordering::Relaxed);
        let (mut before, mut in_vain) = (usize::MAX, 0);
        loop {
            let guard = epoch::pin();
            let mut state = self.pool.lock();
            state.trim(bytes);
            let resident = state.slab.resident();
            let mut swath = SkippedRange::default();
            let held = resident.saturating_sub(self.limbo.load(Ordering::Relaxed));
            // One by one the rest goes in the end, too.
            let goal =
                if Self::is_over(&state, held, bytes) { 256 } else { usize::from(held > bytes) };
            if goal > 0 {
                state.sweep(ClockOrder { class: None, goal, force: true }, &guard, &mut swath);
            }
            drop(state);
            drop(guard);
            let evicted = swath.evicted;
            self.defer_evicted(swath);
            in_vain = if evicted > 0 || resident < before { 0 } else { in_vain + 1 };
            if resident <= bytes || goal == 1 || in_vain > EPOCHS {
                return;
            }
            before = resident;
        }
    }

    /// A frame for `len` bytes, below 4 GiB less 64; its contents are arbitrary. Evicts others when
    /// there is no room.
    ///
    /// # Panics
    /// When `len` is larger: callers cap the sizes they read from disk.
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
        let swath = self.make_room(&mut state, capacity, class, incoming, &guard);
        drop(state);
        drop(guard);
        if let Some(swath) = swath {
            self.defer_evicted(swath);
        }
        taken.map_or_else(|| self.pool.take_loose(len), |taken| self.pool.frame(taken))
    }

    /// A frame for `len` bytes, if there is memory that nothing else wants: for blocks that are
    /// written and may be read soon. Evicts nothing and leaves what misses need.
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

    /// Whether a block of a long walk is to be put in: all of them while there is room, and one in
    /// 16 when others have to go for it. To be asked once for each block.
    pub fn admits_passing(&self) -> bool {
        !self.full.load(Ordering::Relaxed)
            || is_one_in(KEPT, self.passing.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether frames have to go because so many bytes are held, those in limbo left out, and fewer may
    /// be. Not where as many as are too many are free, scattered over chunks: in those somebody holds
    /// frames, as a merge does all over the cache, and they do not get empty, whatever goes.
    fn is_over(state: &FrameState, held: usize, capacity: usize) -> bool {
        let over = held.saturating_sub(capacity);
        over > 0 && state.slab.scattered() < over
    }

    /// Evicts when memory is short for a class, or when more is held than may be. `None` when all
    /// is well.
    fn make_room(
        &self,
        state: &mut FrameState,
        capacity: usize,
        class: Option<usize>,
        incoming: usize,
        guard: &Guard,
    ) -> Option<SkippedRange> {
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
            usize::from(limbo < capacity / 32) // the epoch is late: one frame out for one in, within bounds
        } else {
            return None;
        };
        let mut swath = SkippedRange::default();
        let force = state.slab.chunk_bytes() > capacity;
        state.sweep(ClockOrder { class, goal, force }, guard, &mut swath);
        let hot = state.clock.is_hot();
        if self.hot.load(Ordering::Relaxed) != hot {
            self.hot.store(hot, Ordering::Relaxed);
        }
        Some(swath)
    }

    /// Hands what was evicted, or unlinked otherwise, to the epoch. Called without the pool's lock.
    fn defer_evicted(&self, swath: SkippedRange) {
        let SkippedRange { garbage, evicted, departed, .. } = swath;
        departed.into_iter().for_each(|hash| self.departed.remember(hash));
        if garbage.is_empty() {
            epoch::pin().flush(); // nothing to give, but room is wanted: let the epoch move on
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

    /// Caches `frame` as block `i` of `slots`, until the clock's hand has come by. When another thread
    /// was first, its frame is returned and this one dropped. The frame is returned uncached when `i`
    /// is out of range, when it is cached already or comes from another cache, and when memory is
    /// short because readers hold back the epoch.
    pub fn insert(&self, slots: &Arc<CacheSlots>, i: usize, frame: FrameRef) -> FrameRef {
        self.insert_for(CacheStay::Round, slots, i, frame)
    }

    /// The same for as long as `stay` says.
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
        .filter(|hash| !self.departed.take(*hash));
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
        let mut swath = SkippedRange::default();
        let linked = slots.link(i, &frame, &guard);
        if linked.is_ok() {
            state.clock.enter(place, slots, index, frame.size());
            self.inserts.fetch_add(1, Ordering::Relaxed);
            if let Some(hash) = probation {
                let slot = (Arc::as_ptr(slots).addr(), index);
                let bounds = ProbationBounds::of(capacity);
                let probationer = Probationer { place, slot, hash, size: frame.size() };
                if state.probation.begin(probationer, bounds) {
                    state.end_probations(bounds, &guard, &mut swath);
                }
            }
        }
        drop(state);
        drop(guard);
        if !swath.garbage.is_empty() {
            self.defer_evicted(swath);
        }
        match linked {
            Err(Some(first)) => first,
            Ok(()) | Err(None) => frame,
        }
    }

    /// Makes blocks of `slots` of what is cached as blocks of other tables, whose blocks have gone
    /// into this one as they are: the frames themselves, so it takes no memory. Who still reads the
    /// other tables may have to decode them again.
    pub fn hand_over(
        &self,
        slots: &Arc<CacheSlots>,
        blocks: impl IntoIterator<Item = InheritedBlock>,
    ) {
        let mut swath = SkippedRange::default();
        for InheritedBlock { from, old, new } in blocks {
            let guard = epoch::pin();
            let frame = from.peek(old as usize, &guard);
            let Some(frame) = frame.filter(|f| f.is_of(&self.pool)) else { continue };
            let mut state = self.pool.lock();
            let to = (&**slots, new as usize);
            let Some(linked) = from.pass_on(old as usize, frame, to, &mut swath.garbage) else {
                continue;
            };
            state.clock.forget(frame.place());
            if linked {
                state.clock.enter(frame.place(), slots, new, frame.size());
            }
        }
        if !swath.garbage.is_empty() {
            self.defer_evicted(swath);
        }
    }

    /// Where the memory is. Takes the lock and looks at every chunk: for statistics, not for every
    /// operation.
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
