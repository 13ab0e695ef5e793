//! References into an arena, and the sizes of entries.
//!
//! Invariants: A1, A2 and A5 of [`arena`](super).

use std::marker::PhantomData;
use std::num::NonZeroU32;

use super::super::sync::atomic::AtomicU32;
use super::super::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::base::key::Trailer;

/// A reference to a `T` in an arena.
pub(in super::super) struct Ref<T>(NonZeroU32, PhantomData<fn() -> T>);

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<T> {}

impl<T> PartialEq for Ref<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Ref<T> {
    pub(super) fn new(at: NonZeroU32) -> Self {
        Ref(at, PhantomData)
    }

    /// Returns a number that depends only on the history of allocations.
    pub fn ordinal(self) -> u32 {
        self.0.get()
    }
}

/// A mutable reference. Loads acquire and stores release, so its reader always sees the target
/// (A2).
pub(in super::super) struct AtomicRef<T>(AtomicU32, PhantomData<fn() -> T>);

impl<T> AtomicRef<T> {
    pub fn new(to: Option<Ref<T>>) -> Self {
        AtomicRef(AtomicU32::new(raw(to)), PhantomData)
    }

    #[inline]
    pub fn load(&self) -> Option<Ref<T>> {
        NonZeroU32::new(self.0.load(Acquire)).map(Ref::new)
    }

    /// Returns the reference as a number, for reads without an acquiring load.
    pub(super) fn word(&self) -> &AtomicU32 {
        &self.0
    }

    pub fn publish(&self, to: Option<Ref<T>>) {
        self.0.store(raw(to), Release);
    }

    /// Publishes `to` if the reference is still `from`.
    pub fn swap_if(&self, from: Option<Ref<T>>, to: Ref<T>) -> bool {
        self.0.compare_exchange(raw(from), to.0.get(), Release, Relaxed).is_ok()
    }
}

pub(super) fn raw<T>(r: Option<Ref<T>>) -> u32 {
    r.map_or(0, |r| r.0.get())
}

/// The target of an entry's [`Ref`]: trailer, key and value, read through
/// [`ArenaEntry`](super::ArenaEntry).
pub(in super::super) struct ArenaRecord;

/// A type that may be stored in an arena: no destructor, shareable, aligned to a cache line at
/// most.
pub(in super::super) trait SkipNode: sealed::Sealed + Sync + 'static {}

impl<T: sealed::Sealed + Sync + 'static> SkipNode for T {}

pub(super) mod sealed {
    pub trait Sealed: Sized {
        /// Returns a copy for copied memory, under loom's memory model.
        #[cfg(loom)]
        fn copied(&self) -> Self;
    }
}

/// Returns the arena bytes of one entry by itself.
pub(in super::super) fn record_size(key_len: usize, value_len: usize) -> usize {
    (RECORD_HEADER
        + if is_long(key_len, value_len) { LONG_LENGTHS } else { 0 }
        + key_len
        + value_len)
        .next_multiple_of(4)
}

/// Returns the arena bytes of one entry that refers to a value in the log's memory.
pub(in super::super) fn reference_size(key_len: usize) -> usize {
    (RECORD_HEADER + LONG_LENGTHS + key_len + size_of::<*const u8>()).next_multiple_of(4)
}

/// Bytes of trailer, key length and value length.
pub(super) const RECORD_HEADER: usize = size_of::<Trailer>() + 2 + 2;

/// If a value or a key has at least this many bytes, both lengths follow the header in four bytes
/// each. The short value length is then this number, and a reader checks only that.
pub(super) const LONG: usize = u16::MAX as usize;

#[cfg_attr(loom, allow(dead_code))] // loom stores no encoded lengths
pub(super) const LONG_LENGTHS: usize = 4 + 4;

/// Bit of the long value length: the address of the value follows the key instead of the value.
#[cfg_attr(loom, allow(dead_code))] // as above
pub(super) const IN_LOG: u32 = 1 << 31;

/// Reports whether the lengths of such an entry follow its header.
#[inline]
pub(super) fn is_long(key_len: usize, value_len: usize) -> bool {
    key_len.max(value_len) >= LONG
}
