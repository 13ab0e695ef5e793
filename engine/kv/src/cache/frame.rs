//! Frames: reference-counted byte buffers in recycled memory. A room of `unsafe`.
//!
//! A frame is a 64-byte header followed by its bytes, in one piece: a block of up to 4,032 bytes
//! and its header fill exactly one aligned 4 KiB. Frames of one size class share a chunk of up to 2
//! MiB; chunks lie in regions of 32, on huge pages when a chunk is one (first touch measured: 0.25
//! us per 4 KiB against 2 us). Frames too large for a chunk have an allocation of their own.
//!
//! The safety argument:
//! 1. The slab hands out a place once until it is given back, so two live frames never overlap. A
//!    place is given back, under the pool's lock, only by whoever took the reference count to zero,
//!    after an acquire fence: no one can reach the frame any more.
//! 2. A frame's header holds a counted reference to its pool, so the memory outlives every frame.
//! 3. Header fields other than atomics are written before the frame is shared and never again. The
//!    header has no padding, and chunk memory starts zeroed, so bytes of recycled memory are stale
//!    but always initialised.
//! 4. Contents are written only through [`FrameMut`], which is not `Clone`, and whose count is one;
//!    afterwards they are only read.
//! 5. A frame's bytes lie behind its header, outside what a `&Frame` spans; they are reached
//!    through the pointer's exposed provenance, which is that of the whole frame.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::clock::ClockRing;
use super::probation::ProbationQueue;
use super::slab::{HEADER, LOOSE, Slab, SlabPlace, class_size};
use super::sync::{AtomicU32, Mutex, MutexGuard, Ordering, fence};

/// A cached block: dereferences to its bytes. Seen as `&Frame` for as long as an epoch is pinned;
/// [`CacheFrame::to_ref`] keeps it longer.
#[repr(C, align(64))]
pub struct CacheFrame {
    refs: AtomicU32,
    /// CLOCK's bit: read since the hand went by.
    hot: AtomicU32,
    len: u32,
    /// Bytes of memory that the frame takes, header included.
    size: u32,
    chunk: u32,
    index: u32,
    /// A counted reference, from `Arc::into_raw`.
    pool: *const Pool,
    _reserved: [u64; 4],
    /// Stands for the contents, so that the model checker sees who reads and writes them.
    #[cfg(loom)]
    contents: loom::cell::UnsafeCell<()>,
}

debug_by!(CacheFrame, "Frame", len, size);

#[cfg(not(loom))]
const _: () = assert!(size_of::<CacheFrame>() == HEADER && align_of::<CacheFrame>() == 64);
/// Where the contents begin; loom's atomics are larger.
const DATA: usize = if cfg!(loom) { size_of::<CacheFrame>() } else { HEADER };

// SAFETY: `pool` points to a `Pool`, which is `Send` and `Sync`; all else is atomic or never
// changes while shared (argument 3).
unsafe impl Send for CacheFrame {}
// SAFETY: as above.
unsafe impl Sync for CacheFrame {}

impl CacheFrame {
    /// A counted reference that outlives the epoch.
    #[inline]
    pub fn to_ref(&self) -> FrameRef {
        let before = self.refs.fetch_add(1, Ordering::Relaxed);
        if before > u32::MAX / 2 {
            std::process::abort(); // leaked references only: the count would wrap and free what is in use
        }
        FrameRef(NonNull::from(self))
    }

    /// Remembers that the frame has been read.
    #[inline]
    pub(super) fn touch(&self) {
        if self.hot.load(Ordering::Relaxed) == 0 {
            self.hot.store(1, Ordering::Relaxed);
        }
    }

    /// Forgets that it has been read; whether it had been.
    pub(super) fn cool(&self) -> bool {
        let hot = self.hot.load(Ordering::Relaxed) != 0;
        if hot {
            self.hot.store(0, Ordering::Relaxed);
        }
        hot
    }

    /// Whether counted references exist besides the one of its slot.
    pub(super) fn is_held(&self) -> bool {
        self.refs.load(Ordering::Relaxed) > 1
    }

    /// Where it lies.
    pub(super) fn place(&self) -> SlabPlace {
        SlabPlace { chunk: self.chunk, index: self.index }
    }

    /// Bytes of memory it takes.
    pub(super) fn size(&self) -> usize {
        self.size as usize
    }

    /// Whether it comes from this pool.
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
        // SAFETY: `len` initialised bytes follow the header (3, 5), and nobody writes them while a
        // `&Frame` is out (4).
        unsafe { std::slice::from_raw_parts(self.data(), self.len as usize) }
    }
}

/// A counted reference to a [`CacheFrame`], one pointer wide: clone it, send it, keep it. The
/// memory is recycled when the last one goes.
pub struct FrameRef(NonNull<CacheFrame>);

// SAFETY: a `FrameRef` gives `&Frame`, which is `Sync`, and may drop the frame from any thread,
// which is `Send`.
unsafe impl Send for FrameRef {}
// SAFETY: as above.
unsafe impl Sync for FrameRef {}

impl FrameRef {
    /// Gives up the reference without counting it down.
    pub(super) fn into_raw(self) -> *mut CacheFrame {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// Takes back what [`into_raw`](Self::into_raw) gave.
    ///
    /// # Safety
    /// `raw` must come from `into_raw`, and each such pointer may be taken back once.
    pub(super) unsafe fn from_raw(raw: NonNull<CacheFrame>) -> FrameRef {
        FrameRef(raw)
    }

    /// Counts down; the frame when this was the last reference, which then must be given back to
    /// its pool.
    fn count_down(self) -> Option<NonNull<CacheFrame>> {
        let raw = ManuallyDrop::new(self).0;
        // SAFETY: the reference counted down is ours, so the header is alive.
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
        // SAFETY: the frame lives as long as it is counted, and we are counted.
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
        // SAFETY: `self` is not used again, so its reference is given up once.
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

/// A frame that nobody else sees yet. Its bytes are arbitrary (those of whoever had the memory
/// before) until written.
#[derive(Debug)]
pub struct FrameMut(FrameRef);

impl FrameMut {
    /// The frame, written and ready to be shared.
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
        // SAFETY: as for reading; the only reference to the frame is borrowed mutably (4).
        unsafe { std::slice::from_raw_parts_mut(frame.data(), frame.len as usize) }
    }
}

/// Frames let go together: their memory comes back under one lock.
pub(super) fn drop_all(frames: Vec<FrameRef>) {
    Pool::free(frames.into_iter().filter_map(FrameRef::count_down));
}

/// A place that is free no more and has no frame yet. Whoever has it makes the frame
/// ([`Pool::frame`]).
#[must_use]
pub(super) struct TakenFrame {
    at: *mut u8,
    place: SlabPlace,
    size: usize,
    len: usize,
}

/// The memory of a cache and its books.
pub(super) struct Pool {
    state: Mutex<FrameState>,
}

/// What the pool's lock guards.
pub(super) struct FrameState {
    pub(super) slab: Slab,
    pub(super) clock: ClockRing,
    pub(super) probation: ProbationQueue,
    memory: FrameMemory,
}

impl Pool {
    /// A pool with chunks of `chunk_size` bytes, a power of two of 64 KiB to 2 MiB.
    pub(super) fn new(chunk_size: usize) -> Arc<Pool> {
        let state = FrameState {
            slab: Slab::new(chunk_size),
            clock: ClockRing::default(),
            probation: ProbationQueue::default(),
            memory: FrameMemory { chunk_size, regions: vec![] },
        };
        Arc::new(Pool { state: Mutex::new(state) })
    }

    /// Locks the books. No [`FrameRef`] and no `Arc` of slots may be dropped meanwhile.
    pub(super) fn lock(&self) -> MutexGuard<'_, FrameState> {
        self.state.lock()
    }

    /// A place of a class that is free now, for a frame of `len` bytes.
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

    /// The frame in a place that was taken. Without the pool's lock: it may be the first touch of
    /// the page, for which the system takes microseconds, and all who miss would wait for it.
    pub(super) fn frame(self: &Arc<Self>, taken: TakenFrame) -> FrameMut {
        let TakenFrame { at, place, size, len } = taken;
        // SAFETY: the place is ours alone (1), because only `take` makes a `TakenFrame` and it is
        // used up here; it is `size` bytes long, which hold `len` and the header, and lies within a
        // chunk of this pool.
        unsafe { self.make(at, place, size, len) }
    }

    /// A frame with an allocation of its own, `len` below 4 GiB less the header.
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
        // SAFETY: fresh memory of that size.
        unsafe { self.make(at, place, layout.size(), len) }
    }

    /// # Safety
    /// `at` is aligned to 64 and starts `size` initialised bytes that are nobody else's; its
    /// provenance is exposed; `len + DATA` is at most `size`.
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
        // SAFETY: by this function's contract the memory is ours, aligned and large enough.
        unsafe {
            at.write(header);
            FrameMut(FrameRef(NonNull::new_unchecked(at)))
        }
    }

    /// Gives frames back that were counted down to zero.
    fn free(frames: impl Iterator<Item = NonNull<CacheFrame>>) {
        // The pools are let go only after their locks: dropping the last frame may drop its pool.
        let mut pools: Vec<Arc<Pool>> = vec![];
        let mut frames = frames.peekable();
        while let Some(first) = frames.peek() {
            // SAFETY: nobody else reaches a frame that was counted down to zero, and its header is
            // still there.
            let raw = unsafe { first.as_ref() }.pool;
            // SAFETY: the frame that holds this counted reference is still to be freed.
            let pool = unsafe { &*raw };
            let mut state = pool.lock();
            // SAFETY: as above.
            while let Some(frame) = frames.next_if(|f| unsafe { f.as_ref() }.pool == raw) {
                // SAFETY: the reference that the header holds is taken back once; the header is not
                // used after.
                pools.push(unsafe { Arc::from_raw(raw) });
                state.give(frame);
            }
            drop(state);
        }
    }
}

impl FrameState {
    /// Takes back a frame that nobody references.
    fn give(&mut self, frame: NonNull<CacheFrame>) {
        // SAFETY: counted down to zero by our caller, and not given back before.
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
        // SAFETY: the frame was allocated with this layout, whose size the header kept.
        unsafe { dealloc(frame.as_ptr().cast(), loose_layout(size)) };
    }

    /// Opens another chunk for a class, on new memory when `may_grow`; whether there was one.
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

/// Address space in regions, cut into chunks.
struct FrameMemory {
    chunk_size: usize,
    regions: Vec<Region>,
}

/// Chunks in a region.
const CHUNKS: usize = if cfg!(any(miri, loom, target_family = "wasm")) { 1 } else { 32 };

impl FrameMemory {
    /// Sees to it that `chunks` chunks have addresses; false when the system has none to give.
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

    /// Returns the memory of a chunk without live frames; it reads as zeroes when touched again.
    #[cfg(all(unix, not(any(miri, loom))))]
    fn give_back(&self, chunk: u32) {
        let region = &self.regions[chunk as usize / CHUNKS];
        let at = region.base.addr() - region.map.as_ptr().addr()
            + chunk as usize % CHUNKS * self.chunk_size;
        // SAFETY: the range lies within our own private anonymous map, and no live frame lies
        // within the range. Failing means that the memory stays resident, which harms nobody.
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
    #[cfg_attr(not(unix), expect(dead_code, reason = "it is given back as a whole only"))]
    map: memmap2::MmapRaw,
    /// The first chunk, aligned to the chunks' size.
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
            // Only advice: without huge pages everything works, a little slower.
            let _ = map.advise_range(memmap2::Advice::HugePage, skip, bytes);
        }
        Some(Region { base: start.wrapping_add(skip), map })
    }
}

/// Where there is no `mmap` (the interpreter, the model checker) a region is one allocation.
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
        // SAFETY: allocated with this layout; a pool's memory goes when no frame is left (2).
        unsafe { dealloc(self.base, self.layout) };
    }
}

// SAFETY: a region is plain memory that belongs to nobody's thread; who may touch which part of it
// is the slab's business (1).
unsafe impl Send for Region {}
