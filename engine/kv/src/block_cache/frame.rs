//! Frames: reference-counted byte buffers in recycled memory. This module uses `unsafe`.
//!
//! A frame is a 64-byte header followed by its bytes, in one piece. A block of up to 4,032 bytes
//! and its header fill exactly one aligned 4 KiB. Frames of one size class share a chunk of up to 2
//! MiB. Chunks are in regions of 32. Regions use huge pages if a chunk is as large as one; a first
//! touch then takes 0.25 us per 4 KiB instead of 2 us (measured). Frames too large for a chunk have
//! their own allocation.
//!
//! The safety argument:
//! 1. The slab gives out a place only once until it is returned, so two live frames never overlap.
//!    A place is returned under the pool's lock, only by the thread that decremented the reference
//!    count to zero, after an acquire fence. No other thread can reach the frame then.
//! 2. A frame's header holds a counted reference to its pool, so the memory outlives every frame.
//! 3. Header fields other than atomics are written before the frame is shared and never again. The
//!    header has no padding, and chunk memory starts zeroed. So bytes of recycled memory are stale
//!    but always initialised.
//! 4. Contents are written only through [`FrameMut`], which is not `Clone`, and whose count is one.
//!    Afterwards they are only read.
//! 5. A frame's bytes follow its header, outside the memory that a `&Frame` spans. They are reached
//!    through the pointer's exposed provenance, which is that of the whole frame.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::block_cache::clock::ClockRing;
use crate::block_cache::probation::ProbationQueue;
use crate::block_cache::slab::{HEADER, LOOSE, Slab, SlabPlace, class_size};
use crate::block_cache::sync::{AtomicU32, Mutex, MutexGuard, Ordering, fence};

/// Cached block that dereferences to its bytes. A `&Frame` is valid while an epoch is pinned;
/// [`CacheFrame::to_ref`] extends its lifetime.
#[repr(C, align(64))]
pub struct CacheFrame {
    refs: AtomicU32,
    /// CLOCK bit: the frame was read since the hand passed.
    hot: AtomicU32,
    len: u32,
    /// Bytes of memory that the frame takes, header included.
    size: u32,
    chunk: u32,
    index: u32,
    /// A counted reference, from `Arc::into_raw`.
    pool: *const Pool,
    _reserved: [u64; 4],
    /// Represents the contents, so that the model checker observes their reads and writes.
    #[cfg(loom)]
    contents: loom::cell::UnsafeCell<()>,
}

debug_by!(CacheFrame, "CacheFrame", len, size);

#[cfg(not(loom))]
const _: () = assert!(size_of::<CacheFrame>() == HEADER && align_of::<CacheFrame>() == 64);
/// Offset of the contents. It depends on loom, whose atomics are larger.
const DATA: usize = if cfg!(loom) { size_of::<CacheFrame>() } else { HEADER };

// SAFETY: `pool` points to a `Pool`, which is `Send` and `Sync`. All other fields are atomic or
// never change while shared (argument 3).
unsafe impl Send for CacheFrame {}
// SAFETY: as above.
unsafe impl Sync for CacheFrame {}

impl CacheFrame {
    /// Returns a counted reference that outlives the epoch.
    #[inline]
    pub fn to_ref(&self) -> FrameRef {
        let before = self.refs.fetch_add(1, Ordering::Relaxed);
        if before > u32::MAX / 2 {
            std::process::abort(); // references leaked: the count would wrap and free live memory
        }
        FrameRef(NonNull::from(self))
    }

    /// Sets the CLOCK bit.
    #[inline]
    pub(super) fn touch(&self) {
        if self.hot.load(Ordering::Relaxed) == 0 {
            self.hot.store(1, Ordering::Relaxed);
        }
    }

    /// Clears the CLOCK bit. Returns whether it was set.
    pub(super) fn cool(&self) -> bool {
        let hot = self.hot.load(Ordering::Relaxed) != 0;
        if hot {
            self.hot.store(0, Ordering::Relaxed);
        }
        hot
    }

    /// Reports whether counted references exist besides that of its slot.
    pub(super) fn is_held(&self) -> bool {
        self.refs.load(Ordering::Relaxed) > 1
    }

    /// Returns the frame's place.
    pub(super) fn place(&self) -> SlabPlace {
        SlabPlace { chunk: self.chunk, index: self.index }
    }

    /// Returns the bytes of memory it takes.
    pub(super) fn size(&self) -> usize {
        self.size as usize
    }

    /// Reports whether the frame is from this pool.
    pub(super) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        self.pool == Arc::as_ptr(pool)
    }

    #[inline]
    fn data(&self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(ptr::from_ref(self).addr() + DATA)
    }
}

impl Deref for CacheFrame {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        #[cfg(loom)]
        self.contents.with(|_| ());
        // SAFETY: `len` initialised bytes follow the header (3, 5), and no thread writes them while
        // a `&Frame` exists (4).
        unsafe { std::slice::from_raw_parts(self.data(), self.len as usize) }
    }
}

/// Counted reference to a [`CacheFrame`], one pointer wide. It can be cloned, sent and stored. The
/// memory is recycled when the last reference is dropped.
pub struct FrameRef(NonNull<CacheFrame>);

// SAFETY: a `FrameRef` gives out `&Frame`, which is `Sync`. It may drop the frame, which is `Send`,
// on any thread.
unsafe impl Send for FrameRef {}
// SAFETY: as above.
unsafe impl Sync for FrameRef {}

impl FrameRef {
    /// Converts to a raw pointer without decrementing the count.
    pub(super) fn into_raw(self) -> *mut CacheFrame {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// Recreates the reference from the result of [`into_raw`](Self::into_raw).
    ///
    /// # Safety
    /// `raw` must come from `into_raw`, and each such pointer may be converted back only once.
    pub(super) unsafe fn from_raw(raw: NonNull<CacheFrame>) -> FrameRef {
        FrameRef(raw)
    }

    /// Decrements the count. Returns the frame if this was the last reference; the caller must then
    /// return it to its pool.
    fn count_down(self) -> Option<NonNull<CacheFrame>> {
        let raw = ManuallyDrop::new(self).0;
        // SAFETY: we own the reference that is decremented, so the header is alive.
        let last = unsafe { raw.as_ref() }.refs.fetch_sub(1, Ordering::Release) == 1;
        if last {
            fence(Ordering::Acquire);
        }
        last.then_some(raw)
    }
}

impl Deref for FrameRef {
    type Target = CacheFrame;

    #[inline]
    fn deref(&self) -> &CacheFrame {
        // SAFETY: the frame lives while counted references exist, and `self` is one.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for FrameRef {
    fn clone(&self) -> Self {
        self.to_ref()
    }
}

impl Drop for FrameRef {
    fn drop(&mut self) {
        // SAFETY: `self` is not used again, so its reference is released once.
        let last = unsafe { FrameRef::from_raw(self.0) }.count_down();
        if let Some(raw) = last {
            Pool::free([raw].into_iter());
        }
    }
}

impl AsRef<[u8]> for FrameRef {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for FrameRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameRef({} bytes)", self.len)
    }
}

/// Frame that no other thread can see yet. Its bytes are arbitrary (those of the memory's previous
/// user) until written.
#[derive(Debug)]
pub struct FrameMut(FrameRef);

impl FrameMut {
    /// Returns the written frame, ready to be shared.
    pub fn freeze(self) -> FrameRef {
        self.0
    }
}

impl Deref for FrameMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for FrameMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        let frame: &CacheFrame = &self.0;
        #[cfg(loom)]
        frame.contents.with_mut(|_| ());
        // SAFETY: as for reading; the only reference to the frame is mutably borrowed (4).
        unsafe { std::slice::from_raw_parts_mut(frame.data(), frame.len as usize) }
    }
}

/// Drops frames together: their memory is returned under one lock.
pub(super) fn drop_all(frames: Vec<FrameRef>) {
    Pool::free(frames.into_iter().filter_map(FrameRef::count_down));
}

/// A place that has been taken but has no frame yet. The caller creates the frame with
/// [`Pool::frame`].
#[must_use]
pub(super) struct TakenFrame {
    at: *mut u8,
    place: SlabPlace,
    size: usize,
    len: usize,
}

/// The memory of a cache and its allocation state.
pub(super) struct Pool {
    state: Mutex<FrameState>,
}

/// State guarded by the pool's lock.
pub(super) struct FrameState {
    pub(super) slab: Slab,
    pub(super) clock: ClockRing,
    pub(super) probation: ProbationQueue,
    memory: FrameMemory,
}

impl Pool {
    /// Creates a pool with chunks of `chunk_size` bytes, a power of two from 64 KiB to 2 MiB.
    pub(super) fn new(chunk_size: usize) -> Arc<Pool> {
        let state = FrameState {
            slab: Slab::new(chunk_size),
            clock: ClockRing::default(),
            probation: ProbationQueue::default(),
            memory: FrameMemory { chunk_size, regions: vec![] },
        };
        Arc::new(Pool { state: Mutex::new(state) })
    }

    /// Locks the state. The caller must not drop a [`FrameRef`] or an `Arc` of slots meanwhile.
    pub(super) fn lock(&self) -> MutexGuard<'_, FrameState> {
        self.state.lock()
    }

    /// Takes a free place of a class for a frame of `len` bytes.
    pub(super) fn take(
        &self,
        state: &mut FrameState,
        class: usize,
        len: usize,
    ) -> Option<TakenFrame> {
        let size = class_size(class);
        if len > size - DATA {
            return None;
        }
        let place = state.slab.take(class)?;
        let at = state.memory.base(place.chunk).wrapping_add(place.index as usize * size);
        Some(TakenFrame { at, place, size, len })
    }

    /// Creates the frame in a taken place. Call it without the pool's lock. It may be the first
    /// touch of the page, which takes the system microseconds. All threads with misses would wait.
    pub(super) fn frame(self: &Arc<Self>, taken: TakenFrame) -> FrameMut {
        let TakenFrame { at, place, size, len } = taken;
        // SAFETY: we own the place exclusively (1), because only `take` creates a `TakenFrame` and
        // this call consumes it. The place is `size` bytes long, which hold `len` and the header,
        // and it is within a chunk of this pool.
        unsafe { self.make(at, place, size, len) }
    }

    /// Creates a frame with its own allocation; `len` must be below 4 GiB less the header.
    pub(super) fn take_loose(self: &Arc<Self>, len: usize) -> FrameMut {
        let layout = loose_layout(len + DATA);
        assert!(u32::try_from(layout.size()).is_ok(), "a frame is smaller than 4 GiB");
        // SAFETY: the size is not zero.
        let at = unsafe { alloc_zeroed(layout) };
        if at.is_null() {
            handle_alloc_error(layout);
        }
        at.expose_provenance();
        let place = self.lock().slab.take_loose(layout.size());
        // SAFETY: this is fresh memory of that size.
        unsafe { self.make(at, place, layout.size(), len) }
    }

    /// Creates a frame in the given memory.
    ///
    /// # Safety
    /// `at` is aligned to 64 and starts `size` initialised bytes that no other code uses. Its
    /// provenance is exposed. `len + DATA` is at most `size`.
    unsafe fn make(
        self: &Arc<Self>,
        at: *mut u8,
        place: SlabPlace,
        size: usize,
        len: usize,
    ) -> FrameMut {
        let header = CacheFrame {
            refs: AtomicU32::new(1),
            hot: AtomicU32::new(0),
            len: len as u32,
            size: size as u32,
            chunk: place.chunk,
            index: place.index,
            pool: Arc::into_raw(self.clone()),
            _reserved: [0; 4],
            #[cfg(loom)]
            contents: loom::cell::UnsafeCell::new(()),
        };
        let at = at.cast::<CacheFrame>();
        // SAFETY: by this function's contract we own the memory, and it is aligned and large
        // enough.
        unsafe {
            at.write(header);
            FrameMut(FrameRef(NonNull::new_unchecked(at)))
        }
    }

    /// Returns frames whose count reached zero to their pools.
    fn free(frames: impl Iterator<Item = NonNull<CacheFrame>>) {
        // Drop the pools only after releasing their locks: dropping the last frame may drop its
        // pool.
        let mut pools: Vec<Arc<Pool>> = vec![];
        let mut frames = frames.peekable();
        while let Some(first) = frames.peek() {
            // SAFETY: no other thread can reach a frame whose count is zero, and its header still
            // exists.
            let raw = unsafe { first.as_ref() }.pool;
            // SAFETY: the frame that holds this counted reference is not freed yet.
            let pool = unsafe { &*raw };
            let mut state = pool.lock();
            // SAFETY: as above.
            while let Some(frame) = frames.next_if(|f| unsafe { f.as_ref() }.pool == raw) {
                // SAFETY: the header's reference is recreated once, and the header is not used
                // afterwards.
                pools.push(unsafe { Arc::from_raw(raw) });
                state.give(frame);
            }
            drop(state);
        }
    }
}

impl FrameState {
    /// Takes back a frame without references.
    fn give(&mut self, frame: NonNull<CacheFrame>) {
        // SAFETY: the caller decremented the count to zero and has not returned the frame before.
        let header = unsafe { frame.as_ref() };
        #[cfg(loom)]
        header.contents.with_mut(|_| ());
        let (place, size) = (header.place(), header.size());
        self.clock.forget(place);
        if place.chunk != LOOSE {
            self.slab.give(place);
            return;
        }
        self.slab.give_loose(place, size);
        // SAFETY: the frame was allocated with this layout, whose size is stored in the header.
        unsafe { dealloc(frame.as_ptr().cast(), loose_layout(size)) };
    }

    /// Assigns another chunk to a class, on new memory only if `may_grow`. Reports whether it found
    /// one.
    pub(super) fn open_chunk(&mut self, class: usize, may_grow: bool) -> bool {
        if !self.memory.reserve(self.slab.chunks() + 1) {
            return false;
        }
        self.slab.assign(class, may_grow).is_some()
    }

    /// Returns empty chunks to the system while more than `limit` bytes are resident.
    pub(super) fn trim(&mut self, limit: usize) {
        while self.slab.resident() > limit
            && let Some(chunk) = self.slab.return_one()
        {
            self.memory.give_back(chunk);
        }
    }
}

fn loose_layout(size: usize) -> Layout {
    Layout::from_size_align(size.next_multiple_of(64), 64).expect("a frame's size is below 4 GiB")
}

/// Address space in regions, divided into chunks.
struct FrameMemory {
    chunk_size: usize,
    regions: Vec<Region>,
}

/// Number of chunks per region.
const CHUNKS: usize = if cfg!(any(miri, loom, target_family = "wasm")) { 1 } else { 32 };

impl FrameMemory {
    /// Ensures that `chunks` chunks have addresses. Returns false if the system has no address
    /// space.
    fn reserve(&mut self, chunks: usize) -> bool {
        while self.regions.len() * CHUNKS < chunks {
            match Region::new(self.chunk_size) {
                Some(region) => self.regions.push(region),
                None => return false,
            }
        }
        true
    }

    fn base(&self, chunk: u32) -> *mut u8 {
        let chunk = chunk as usize;
        self.regions[chunk / CHUNKS].base.wrapping_add(chunk % CHUNKS * self.chunk_size)
    }

    /// Returns the memory of a chunk without live frames to the system. It reads as zeroes on the
    /// next touch.
    #[cfg(all(unix, not(any(miri, loom))))]
    fn give_back(&self, chunk: u32) {
        let region = &self.regions[chunk as usize / CHUNKS];
        let at = region.base.addr() - region.map.as_ptr().addr()
            + chunk as usize % CHUNKS * self.chunk_size;
        // SAFETY: the range is within our own private anonymous map, and it contains no live frame.
        // On failure the memory merely stays resident.
        let _ = unsafe {
            region.map.unchecked_advise_range(
                memmap2::UncheckedAdvice::DontNeed,
                at,
                self.chunk_size,
            )
        };
    }

    #[cfg(any(not(unix), miri, loom))]
    fn give_back(&self, _chunk: u32) {}
}

#[cfg(not(any(miri, loom, target_family = "wasm")))]
struct Region {
    #[cfg_attr(not(unix), expect(dead_code, reason = "only the whole region is released"))]
    map: memmap2::MmapRaw,
    /// First chunk, aligned to the chunk size.
    base: *mut u8,
}

#[cfg(not(any(miri, loom, target_family = "wasm")))]
impl Region {
    fn new(chunk_size: usize) -> Option<Region> {
        let bytes = CHUNKS * chunk_size;
        let map: memmap2::MmapRaw =
            memmap2::MmapOptions::new().len(bytes + chunk_size).map_anon().ok()?.into();
        let start = map.as_mut_ptr();
        start.expose_provenance();
        let skip = start.align_offset(chunk_size);
        #[cfg(target_os = "linux")]
        if chunk_size == 2 << 20 {
            // This is only advice: without huge pages everything works, a little slower.
            let _ = map.advise_range(memmap2::Advice::HugePage, skip, bytes);
        }
        Some(Region { base: start.wrapping_add(skip), map })
    }
}

/// Region for targets without `mmap` (the interpreter, the model checker): one allocation.
#[cfg(any(miri, loom, target_family = "wasm"))]
struct Region {
    base: *mut u8,
    layout: Layout,
}

#[cfg(any(miri, loom, target_family = "wasm"))]
impl Region {
    fn new(chunk_size: usize) -> Option<Region> {
        let layout = Layout::from_size_align(CHUNKS * chunk_size, chunk_size).ok()?;
        // SAFETY: the size is not zero.
        let base = unsafe { alloc_zeroed(layout) };
        base.expose_provenance();
        (!base.is_null()).then_some(Region { base, layout })
    }
}

#[cfg(any(miri, loom, target_family = "wasm"))]
impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and a pool's memory is freed only when no
        // frame is left (2).
        unsafe { dealloc(self.base, self.layout) };
    }
}

// SAFETY: a region is plain memory that belongs to no thread. The slab decides which thread may
// touch which part of it (1).
unsafe impl Send for Region {}
