//! Slots: one word per block of a table, which points directly to the cached frame. This module
//! uses `unsafe`.
//!
//! The safety argument:
//! 1. A word is null or holds one counted reference to a frame. Words change from null to a frame
//!    (`fill`) and from a frame to null (`empty`, drop), never from frame to frame. Each change is
//!    one atomic operation.
//! 2. Linking releases and reading acquires, so a thread that finds a frame sees its contents.
//! 3. The reference of an unlinked word is dropped only after the epoch. It moves into another word
//!    (`pass_on`), for which the same holds, or into [`Garbage`], which it cannot leave in any
//!    other way. So a frame found while pinned stays alive, with a count of at least one, until
//!    unpinned. That makes both `&'g Frame` and
//!    [`CacheFrame::to_ref`](crate::block_cache::CacheFrame::to_ref) on it sound.
//! 4. This requires that every guard belongs to the default collector; this crate has no other.
#![allow(unsafe_code)]

use std::ptr;
use std::ptr::NonNull;

use crate::block_cache::frame::{CacheFrame, FrameRef, drop_all};
use crate::block_cache::slab::SlabPlace;
use crate::block_cache::sync::epoch::{self, Guard};
use crate::block_cache::sync::{AtomicPtr, Ordering};
use crate::util::prefetch::fetch_line;

/// Cached blocks of one table: `n` words, each empty or pointing to a frame. Dropping it releases
/// its frames.
pub struct CacheSlots {
    words: Box<[AtomicPtr<CacheFrame>]>,
    file: u64,
}

/// Result of a clock hand's visit to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swept {
    /// The word does not point to the frame.
    Gone,
    /// The frame was read since the last visit, or a caller references it.
    Kept,
    /// The frame was unlinked.
    Evicted,
}

impl CacheSlots {
    /// Creates `n` empty slots, at most 2^32, not associated with a file.
    pub fn new(n: usize) -> CacheSlots {
        Self::of_file(0, n)
    }

    /// Like [`new`](Self::new), for a file. The cache uses the file's number to remember recently
    /// evicted blocks, so no file of another store should have it.
    pub fn of_file(file: u64, n: usize) -> CacheSlots {
        CacheSlots { words: (0..n).map(|_| AtomicPtr::new(ptr::null_mut())).collect(), file }
    }

    /// Returns the number of the file.
    pub(super) fn file(&self) -> u64 {
        self.file
    }

    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Reports whether there are no slots.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the frame of block `i` if it is cached, without a lock or a reference count. It is
    /// valid while `guard` is pinned.
    #[inline]
    pub fn get<'g>(&self, i: usize, guard: &'g Guard) -> Option<&'g CacheFrame> {
        let frame = self.peek(i, guard)?;
        frame.touch();
        Some(frame)
    }

    /// Like [`get`](Self::get), but does not set the frame's CLOCK bit. Used by scans and
    /// compactions, which read a block once.
    #[inline]
    pub fn peek<'g>(&self, i: usize, _guard: &'g Guard) -> Option<&'g CacheFrame> {
        let raw = self.words.get(i)?.load(Ordering::Acquire);
        // SAFETY: a frame found in a word while pinned is alive until unpinned (3), and its header
        // was published (2).
        unsafe { raw.as_ref() }
    }

    /// Prefetches the word of block `i`, which may be out of range.
    pub fn prefetch(&self, i: usize) {
        fetch_line(self.words.as_ptr().wrapping_add(i).cast());
    }

    /// Returns the address of block `i`'s frame for prefetching; 0 if it is not cached. The frame
    /// may be freed before the prefetch, so never dereference the address.
    #[inline]
    pub fn address(&self, i: usize) -> usize {
        self.words.get(i).map_or(0, |w| w.load(Ordering::Relaxed).addr())
    }

    /// Links `frame` as block `i`. Returns the existing frame as the error if the slot is taken.
    /// The error is `None` if `i` is out of range.
    pub(super) fn link(
        &self,
        i: usize,
        frame: &FrameRef,
        guard: &Guard,
    ) -> Result<(), Option<FrameRef>> {
        self.fill(i, frame.clone()).map_err(|_| self.peek(i, guard).map(CacheFrame::to_ref))
    }

    /// Unlinks `frame` from block `i` and links it as block `to` of `other`. Returns `None` if it
    /// was not linked here. Returns false if the other word is taken or out of range; the frame
    /// then goes into `garbage`.
    pub(super) fn pass_on(
        &self,
        i: usize,
        frame: &CacheFrame,
        (other, to): (&CacheSlots, usize),
        garbage: &mut Garbage,
    ) -> Option<bool> {
        let own = self.empty(i, frame)?;
        let linked = other.fill(to, own);
        Some(linked.map_err(|own| garbage.push(own)).is_ok())
    }

    /// Moves a reference into the empty word of block `i`; returns it if the word is taken or out
    /// of range.
    fn fill(&self, i: usize, frame: FrameRef) -> Result<(), FrameRef> {
        let Some(word) = self.words.get(i) else { return Err(frame) };
        let raw = frame.into_raw();
        match word.compare_exchange(ptr::null_mut(), raw, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: the word did not take the reference, so we still own it.
            Err(_) => Err(unsafe { FrameRef::from_raw(NonNull::new_unchecked(raw)) }),
        }
    }

    /// Takes the reference out of the word of block `i` if it points to `frame`. The caller must
    /// not drop it before the epoch (3).
    fn empty(&self, i: usize, frame: &CacheFrame) -> Option<FrameRef> {
        let raw = ptr::from_ref(frame).cast_mut();
        let word = self.words.get(i)?;
        let taken = word
            .compare_exchange(raw, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed)
            .ok()?;
        // SAFETY: we own the word's reference now (1).
        NonNull::new(taken).map(|raw| unsafe { FrameRef::from_raw(raw) })
    }

    /// Visits block `i` with the clock hand; its frame should be the one at `place`. A frame that
    /// was read loses its bit and stays (unless `force`). A referenced frame stays. Any other frame
    /// is unlinked into `garbage`.
    pub(super) fn sweep(
        &self,
        i: usize,
        place: SlabPlace,
        force: bool,
        guard: &Guard,
        garbage: &mut Garbage,
    ) -> Swept {
        let Some(frame) = self.peek(i, guard).filter(|f| f.place() == place) else {
            return Swept::Gone;
        };
        if frame.is_held() || (frame.cool() && !force) {
            return Swept::Kept;
        }
        let Some(own) = self.empty(i, frame) else { return Swept::Gone };
        garbage.push(own);
        Swept::Evicted
    }
}

impl Drop for CacheSlots {
    fn drop(&mut self) {
        let mut garbage = Garbage::default();
        for word in &mut self.words {
            if let Some(raw) = NonNull::new(word.swap(ptr::null_mut(), Ordering::AcqRel)) {
                // SAFETY: we own the word's reference now (1). Readers that found it earlier are
                // pinned, so it goes into the garbage (3).
                garbage.push(unsafe { FrameRef::from_raw(raw) });
            }
        }
    }
}

impl std::fmt::Debug for CacheSlots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slots({})", self.words.len())
    }
}

/// References taken out of words. They are dropped after the epoch, no matter how the garbage
/// itself is dropped. `after` runs just before.
#[derive(Default)]
pub(super) struct Garbage {
    frames: Vec<FrameRef>,
    after: Option<Box<dyn FnOnce() + Send>>,
}

impl Garbage {
    fn push(&mut self, frame: FrameRef) {
        self.frames.push(frame);
    }

    /// Returns the bytes of memory of the frames.
    pub(super) fn bytes(&self) -> usize {
        self.frames.iter().map(|f| f.size()).sum()
    }

    /// Reports whether it is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Drops the frames after the epoch and runs `then` at that time.
    pub(super) fn drop_then(mut self, then: impl FnOnce() + Send + 'static) {
        self.after = Some(Box::new(then));
    }
}

impl Drop for Garbage {
    fn drop(&mut self) {
        let (frames, after) = (std::mem::take(&mut self.frames), self.after.take());
        if frames.is_empty() && after.is_none() {
            return;
        }
        let guard = epoch::pin();
        guard.defer(move || {
            if let Some(f) = after {
                f();
            }
            drop_all(frames);
        });
        guard.flush();
    }
}
