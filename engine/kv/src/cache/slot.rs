//! Slots: one word per block of a table, which leads straight to the cached frame. A room of
//! `unsafe`.
//!
//! The safety argument:
//! 1. A word is null or holds one counted reference to a frame. Words change from null to a frame
//!    (`fill`) and from a frame to null (`empty`, drop), never from frame to frame, each by one
//!    atomic operation.
//! 2. Linking releases and reading acquires, so who finds a frame sees its contents.
//! 3. The reference of an unlinked word is dropped only after the epoch: it goes into another word
//!    (`pass_on`), of which the same holds, or into [`Garbage`], from which there is no other way
//!    out. So a frame found while pinned stays alive, with a count of at least one, until unpinned;
//!    that makes both `&'g Frame` and [`CacheFrame::to_ref`](super::CacheFrame::to_ref) on it sound.
//! 4. All this needs every guard to be one of the default collector; this crate has no other.
#![allow(unsafe_code)]

use std::ptr;
use std::ptr::NonNull;

use super::frame::{CacheFrame, FrameRef, drop_all};
use super::slab::SlabPlace;
use super::sync::epoch::{self, Guard};
use super::sync::{AtomicPtr, Ordering};
use crate::base::prefetch::fetch_line;

/// The cached blocks of one table: `n` words, each empty or leading to a frame. Dropping it lets
/// its frames go.
pub struct CacheSlots {
    words: Box<[AtomicPtr<CacheFrame>]>,
    file: u64,
}

/// What became of a frame that the clock's hand came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swept {
    /// The word does not lead to it.
    Gone,
    /// Read since the last time, or held by somebody.
    Kept,
    /// Unlinked.
    Evicted,
}

impl CacheSlots {
    /// `n` empty slots, at most 2^32, of no file in particular.
    pub fn new(n: usize) -> CacheSlots {
        Self::of_file(0, n)
    }

    /// The same of a file: by its number, which no file of another store should have, the cache
    /// remembers which blocks it had not long ago.
    pub fn of_file(file: u64, n: usize) -> CacheSlots {
        CacheSlots { words: (0..n).map(|_| AtomicPtr::new(ptr::null_mut())).collect(), file }
    }

    /// The number of the file.
    pub(super) fn file(&self) -> u64 {
        self.file
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The frame of block `i` when it is cached: no lock, no reference count; valid as long as
    /// `guard` is pinned.
    #[inline]
    pub fn get<'g>(&self, i: usize, guard: &'g Guard) -> Option<&'g CacheFrame> {
        let frame = self.peek(i, guard)?;
        frame.touch();
        Some(frame)
    }

    /// Like [`get`](Self::get), but the frame counts as no hotter for it: for scans and
    /// compactions, which come by once.
    #[inline]
    pub fn peek<'g>(&self, i: usize, _guard: &'g Guard) -> Option<&'g CacheFrame> {
        let raw = self.words.get(i)?.load(Ordering::Acquire);
        // SAFETY: a frame found in a word while pinned is alive until unpinned (3), and its header
        // was published (2).
        unsafe { raw.as_ref() }
    }

    /// Asks the memory for the word of block `i`, which may be out of range.
    pub fn prefetch(&self, i: usize) {
        fetch_line(self.words.as_ptr().wrapping_add(i).cast());
    }

    /// Where the frame of block `i` begins in memory, for asking for it ahead of its use; 0 when it
    /// is not cached. By the time somebody asks, the frame may be gone: this is an address and
    /// nothing more.
    #[inline]
    pub fn address(&self, i: usize) -> usize {
        self.words.get(i).map_or(0, |w| w.load(Ordering::Relaxed).addr())
    }

    /// Links `frame` as block `i`. When another one is there already, that one is the error; `None`
    /// when `i` is out of range.
    pub(super) fn link(
        &self,
        i: usize,
        frame: &FrameRef,
        guard: &Guard,
    ) -> Result<(), Option<FrameRef>> {
        self.fill(i, frame.clone()).map_err(|_| self.peek(i, guard).map(CacheFrame::to_ref))
    }

    /// Unlinks `frame` from block `i` and links it as block `to` of `other`. `None` when it was not
    /// linked here; false when the other word is not empty, or there is none: then it goes into
    /// `garbage`.
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

    /// Gives a reference to the empty word of block `i`; gives it back if there is none.
    fn fill(&self, i: usize, frame: FrameRef) -> Result<(), FrameRef> {
        let Some(word) = self.words.get(i) else { return Err(frame) };
        let raw = frame.into_raw();
        match word.compare_exchange(ptr::null_mut(), raw, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: the word did not take the reference, so it is still ours.
            Err(_) => Err(unsafe { FrameRef::from_raw(NonNull::new_unchecked(raw)) }),
        }
    }

    /// Takes the reference out of the word of block `i`, if it leads to `frame`. It must not be
    /// dropped before the epoch (3).
    fn empty(&self, i: usize, frame: &CacheFrame) -> Option<FrameRef> {
        let raw = ptr::from_ref(frame).cast_mut();
        let word = self.words.get(i)?;
        let taken = word
            .compare_exchange(raw, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed)
            .ok()?;
        // SAFETY: the word's reference is ours now (1).
        NonNull::new(taken).map(|raw| unsafe { FrameRef::from_raw(raw) })
    }

    /// The clock's hand comes to block `i`, whose frame should be the one at `place`: a frame that
    /// was read loses its bit (unless `force`), a held one stays, any other is unlinked into
    /// `garbage`.
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
                // SAFETY: the word's reference is ours now (1). Readers that found it earlier are
                // pinned, hence the garbage (3).
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

/// References that words held. They are dropped after the epoch, however the garbage itself goes;
/// `after` runs just before.
#[derive(Default)]
pub(super) struct Garbage {
    frames: Vec<FrameRef>,
    after: Option<Box<dyn FnOnce() + Send>>,
}

impl Garbage {
    fn push(&mut self, frame: FrameRef) {
        self.frames.push(frame);
    }

    /// Bytes of memory of the frames.
    pub(super) fn bytes(&self) -> usize {
        self.frames.iter().map(|f| f.size()).sum()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Lets it go after the epoch, running `then` at that time.
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
