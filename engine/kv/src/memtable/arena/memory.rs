//! The arena over raw memory: one contiguous piece, a bump pointer, and offsets as references.
//!
//! Format of an entry, aligned to 4 bytes: `trailer u64 ‖ key length u16 ‖ value length u16 ‖
//! [value length u32 ‖ key length u32] ‖ key ‖ value`. If the short value length is 0xffff, the
//! long lengths are present and apply. If the highest bit of the long value length is set, the value
//! is in the memory of the log, and its address follows the key. (In memory only: native byte order.)
//!
//! Invariant (in addition to those of the module above): A7: the bump pointer only grows, every
//! allocation has bytes of its own, and none exceeds the mapping. If a caller adds more than it
//! reserved, the arena panics and never writes out of bounds.

use super::super::pool::Lease;
use super::super::sync::atomic::AtomicU64;
use super::super::sync::atomic::Ordering::Relaxed;
use super::reference::{
    ArenaRecord, IN_LOG, LONG, LONG_LENGTHS, RECORD_HEADER, Ref, SkipNode, is_long, record_size,
    reference_size,
};
use crate::base::error::{Error, Result};
use crate::base::key::{MAX_KEY_LEN, Trailer};
use crate::env::{LogSlice, LogView};
use crate::util::prefetch::fetch_line;
use crate::util::stripe::CachePadded;
use crate::util::sync::Mutex;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Offset of the first allocation; the first bytes stay unused, because offset 0 means none.
const START: u64 = 64;

/// The memory of one memtable.
pub(in super::super) struct Arena {
    base: NonNull<u8>,
    limit: u32,
    /// Low 32 bits: bytes in use. High 32 bits: point entries. One atomic makes counting free.
    /// Padded, because every add writes it and every reader needs the fields next to it.
    top: CachePadded<AtomicU64>,
    lease: Lease,
    /// The views with the values that are not in the arena (A8), one for each segment of the log.
    views: Mutex<Vec<Arc<dyn LogView>>>,
}

// SAFETY: the memory belongs to the arena alone and is used by the rules of the module.
unsafe impl Send for Arena {}
// SAFETY: as above: the rules are written for shared use.
unsafe impl Sync for Arena {}

impl Arena {
    /// Creates an empty arena in the leased memory, of which it can use at most 4 GiB - 1.
    pub fn new(lease: Lease) -> Arena {
        let (base, len) = (lease.mapping().base(), lease.mapping().len());
        Arena {
            base,
            limit: u32::try_from(len).unwrap_or(u32::MAX),
            top: CachePadded(AtomicU64::new(START)),
            lease,
            views: Mutex::new(vec![]),
        }
    }

    /// Returns the lease of its memory.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Returns an arena with the same content at the same offsets, in other memory of at least this
    /// size. No thread may add to this arena meanwhile; others may read it. Earlier adds must be
    /// visible to the caller (Release, Acquire).
    ///
    /// # Errors
    /// `InvalidArgument` when the memory is too small.
    pub fn copied(&self, lease: Lease) -> Result<Arena> {
        let copy = Arena::new(lease);
        let top = self.top.load(Relaxed);
        let used = top as u32;
        if used > copy.limit {
            return Err(Error::invalid(format!(
                "{used} bytes of a memtable do not fit {}",
                copy.limit
            )));
        }
        // SAFETY: both have at least `used` bytes and are different memory. Unwritten bytes are
        // copied as plain bytes, and no code interprets them (A6). The copy reads atomics
        // concurrently with other readers only: there is no writer, by the caller's promise.
        unsafe { copy.base.as_ptr().copy_from_nonoverlapping(self.base.as_ptr(), used as usize) };
        copy.top.store(top, Relaxed);
        let views = self.views.lock().clone();
        *copy.views.lock() = views;
        Ok(copy)
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> usize {
        self.top.load(Relaxed) as u32 as usize
    }

    /// Returns the number of entries added by [`add`](Self::add) with `counted`.
    pub fn entries(&self) -> u64 {
        self.top.load(Relaxed) >> 32
    }

    /// Moves a node into the arena.
    pub fn alloc<T: SkipNode>(&self, value: T) -> Ref<T> {
        const { assert!(align_of::<T>() <= 64 && !std::mem::needs_drop::<T>()) };
        let (size, align) = (size_of::<T>() as u64, align_of::<T>() as u64);
        let mut top = self.top.load(Relaxed);
        let start = loop {
            let start = (top & 0xffff_ffff).next_multiple_of(align);
            self.check(start + size);
            let after = top & !0xffff_ffff | (start + size);
            match self.top.compare_exchange_weak(top, after, Relaxed, Relaxed) {
                Ok(_) => break start as u32,
                Err(now) => top = now,
            }
        };
        // SAFETY: in bounds, aligned (the base is, to 64 bytes at least), and exclusive (A7).
        unsafe { self.at(start).cast::<T>().write(value) };
        reference(start)
    }

    /// Returns the node.
    #[inline]
    pub fn get<T: SkipNode>(&self, r: Ref<T>) -> &T {
        // SAFETY: A1 and A2: written in full before the reference existed, and never moved.
        unsafe { &*self.at(r.ordinal()).cast::<T>() }
    }

    /// Copies an entry into the arena.
    #[inline]
    pub fn add(
        &self,
        key: &[u8],
        trailer: Trailer,
        value: &[u8],
        counted: bool,
    ) -> Ref<ArenaRecord> {
        assert!(
            key.len() <= MAX_KEY_LEN && value.len() < 1 << 30,
            "the key or the value is too long"
        );
        let start = self.take(record_size(key.len(), value.len()), counted);
        let long = is_long(key.len(), value.len());
        // SAFETY: in bounds and exclusive (A7). The trailer may be at an odd multiple of 4, hence
        // unaligned.
        unsafe {
            let p = self.at(start as u32);
            p.cast::<u64>().write_unaligned(trailer.0);
            p.add(8).cast::<u16>().write(key.len() as u16);
            p.add(10).cast::<u16>().write(if long { LONG as u16 } else { value.len() as u16 });
            let mut bytes = p.add(RECORD_HEADER);
            if long {
                bytes.cast::<u32>().write(value.len() as u32);
                bytes.add(4).cast::<u32>().write(key.len() as u32);
                bytes = bytes.add(LONG_LENGTHS);
            }
            bytes.copy_from_nonoverlapping(key.as_ptr(), key.len());
            bytes.add(key.len()).copy_from_nonoverlapping(value.as_ptr(), value.len());
        }
        reference(start as u32)
    }

    /// Adds an entry that refers to the part `value` of a payload as its value, without a copy.
    pub fn add_reference(
        &self,
        key: &[u8],
        trailer: Trailer,
        payload: &LogSlice,
        value: Range<usize>,
    ) -> Ref<ArenaRecord> {
        let value = &payload.bytes()[value];
        assert!(
            key.len() <= MAX_KEY_LEN && value.len() < 1 << 30,
            "the key or the value is too long"
        );
        {
            let mut views = self.views.lock();
            if !views.iter().rev().any(|view| Arc::ptr_eq(view, payload.view())) {
                views.push(payload.view().clone());
            }
        }
        let start = self.take(reference_size(key.len()), true);
        // SAFETY: in bounds and exclusive (A7).
        unsafe {
            let p = self.at(start as u32);
            p.cast::<u64>().write_unaligned(trailer.0);
            p.add(8).cast::<u16>().write(key.len() as u16);
            p.add(10).cast::<u16>().write(LONG as u16);
            let bytes = p.add(RECORD_HEADER);
            bytes.cast::<u32>().write(value.len() as u32 | IN_LOG);
            bytes.add(4).cast::<u32>().write(key.len() as u32);
            let bytes = bytes.add(LONG_LENGTHS);
            bytes.copy_from_nonoverlapping(key.as_ptr(), key.len());
            bytes.add(key.len()).cast::<*const u8>().write_unaligned(value.as_ptr());
        }
        reference(start as u32)
    }

    /// Allocates the bytes of an entry and returns their start.
    #[inline]
    fn take(&self, size: usize, counted: bool) -> u64 {
        let start = self.top.fetch_add((counted as u64) << 32 | size as u64, Relaxed) & 0xffff_ffff;
        self.check(start + size as u64);
        start
    }

    /// Returns the entry.
    #[inline]
    pub fn entry(&self, r: Ref<ArenaRecord>) -> ArenaEntry<'_> {
        // SAFETY: A1: the offset is inside the mapping.
        ArenaEntry { start: unsafe { self.at(r.ordinal()) }, life: PhantomData }
    }

    /// Prefetches the cache lines of an entry's first bytes.
    #[inline]
    pub fn prefetch_entry(&self, r: Ref<ArenaRecord>) {
        self.prefetch(r.ordinal());
        self.prefetch(r.ordinal() + 64);
    }

    /// Prefetches all of a node's cache lines.
    #[inline]
    pub fn prefetch_node<T: SkipNode>(&self, r: Ref<T>) {
        for line in 0..size_of::<T>().div_ceil(64) as u32 {
            self.prefetch(r.ordinal() + 64 * line);
        }
    }

    #[inline]
    fn prefetch(&self, at: u32) {
        fetch_line(self.base.as_ptr().wrapping_add(at as usize));
    }

    /// Reports whether the bytes are in this arena.
    pub fn owns(&self, bytes: &[u8]) -> bool {
        let (start, base) = (bytes.as_ptr().addr(), self.base.as_ptr().addr());
        start >= base && start + bytes.len() <= base + self.limit as usize
    }

    /// # Safety
    /// `offset` must be within the mapping.
    #[inline]
    unsafe fn at(&self, offset: u32) -> *mut u8 {
        // SAFETY: in bounds by the caller's promise.
        unsafe { self.base.as_ptr().add(offset as usize) }
    }

    #[inline]
    fn check(&self, end: u64) {
        if end > self.limit as u64 {
            overflow();
        }
    }
}

#[cold]
fn overflow() -> ! {
    panic!("the memtable is full: more was added than had been reserved")
}

fn reference<T>(start: u32) -> Ref<T> {
    Ref::new(
        NonZeroU32::new(start)
            .unwrap_or_else(|| unreachable!("the first bytes of an arena are never allocated")),
    )
}

/// A view of an entry: its parts live as long as the arena.
#[derive(Clone, Copy)]
pub(in super::super) struct ArenaEntry<'a> {
    start: *const u8,
    life: PhantomData<&'a [u8]>,
}

impl<'a> ArenaEntry<'a> {
    /// Returns its sequence number and kind.
    #[inline]
    pub fn trailer(&self) -> Trailer {
        // SAFETY: an entry starts with its trailer (A1).
        Trailer(unsafe { self.start.cast::<u64>().read_unaligned() })
    }

    /// Returns its key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        // SAFETY: the lengths are those of the bytes that follow them (A1), which never change
        // (A3).
        unsafe {
            let (key, _, bytes) = self.parts();
            std::slice::from_raw_parts(bytes, key)
        }
    }

    /// Returns its value.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        // SAFETY: as for the key. If the value is in the log, its address follows the key, and the
        // arena holds its memory (A8).
        unsafe {
            let (key, value, bytes) = self.parts();
            let bytes = bytes.add(key);
            if value & IN_LOG == 0 {
                return std::slice::from_raw_parts(bytes, value as usize);
            }
            let bytes = bytes.cast::<*const u8>().read_unaligned();
            std::slice::from_raw_parts(bytes, (value & !IN_LOG) as usize)
        }
    }

    /// Returns the key length, the value length with the bit [`IN_LOG`], and the start of the
    /// key.
    ///
    /// # Safety
    /// None beyond A1; the pointer is valid for the sum of the lengths, or for the key and an
    /// address.
    #[inline]
    unsafe fn parts(&self) -> (usize, u32, *const u8) {
        // SAFETY: the header is complete (A1) and 4-aligned.
        unsafe {
            let key = self.start.add(8).cast::<u16>().read() as usize;
            let value = self.start.add(10).cast::<u16>().read() as u32;
            let bytes = self.start.add(RECORD_HEADER);
            if value < LONG as u32 {
                return (key, value, bytes);
            }
            let (value, key) = (bytes.cast::<u32>().read(), bytes.add(4).cast::<u32>().read());
            (key as usize, value, bytes.add(LONG_LENGTHS))
        }
    }
}
