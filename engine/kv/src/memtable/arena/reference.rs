//! References into an arena, and the sizes of what they name.
//!
//! Invariants: A1, A2 and A5 of [`arena`](super).

use std::marker::PhantomData;
use std::num::NonZeroU32;

use super::super::sync::atomic::AtomicU32;
use super::super::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::base::key::Trailer;

/// Names a `T` in an arena.
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

    /// A number that depends on nothing but the history of allocations.
    pub fn ordinal(self) -> u32 {
        self.0.get()
    }
}

/// A reference that changes: loads acquire, stores release, so it can never name what its reader
/// does not see (A2).
pub(in super::super) struct AtomicRef<T>(AtomicU32, PhantomData<fn() -> T>);

impl<T> AtomicRef<T> {
    pub fn new(to: Option<Ref<T>>) -> Self {
        AtomicRef(AtomicU32::new(raw(to)), PhantomData)
    }

    #[inline]
    pub fn load(&self) -> Option<Ref<T>> {
        NonZeroU32::new(self.0.load(Acquire)).map(Ref::new)
    }

    /// The reference as a number, for who may look at it without a load that acquires.
    pub(super) fn word(&self) -> &AtomicU32 {
        &self.0
    }

    pub fn publish(&self, to: Option<Ref<T>>) {
        self.0.store(raw(to), Release);
    }

    /// Publishes `to` if the reference still is `from`.
    pub fn swap_if(&self, from: Option<Ref<T>>, to: Ref<T>) -> bool {
        self.0.compare_exchange(raw(from), to.0.get(), Release, Relaxed).is_ok()
    }
}

pub(super) fn raw<T>(r: Option<Ref<T>>) -> u32 {
    r.map_or(0, |r| r.0.get())
}

/// What an entry's [`Ref`] names: trailer, key and value, seen through
/// [`ArenaEntry`](super::ArenaEntry).
pub(in super::super) struct ArenaRecord;

/// What may live in an arena: no destructor, shareable, aligned to a cache line at most.
pub(in super::super) trait SkipNode: sealed::Sealed + Sync + 'static {}

impl<T: sealed::Sealed + Sync + 'static> SkipNode for T {}

pub(super) mod sealed {
    pub trait Sealed: Sized {
        /// What a copy of the memory holds, where memory is modelled.
        #[cfg(loom)]
        fn copied(&self) -> Self;
    }
}

/// Bytes of arena that one entry takes by itself.
pub(in super::super) fn record_size(key_len: usize, value_len: usize) -> usize {
    (RECORD_HEADER
        + if is_long(key_len, value_len) { LONG_LENGTHS } else { 0 }
        + key_len
        + value_len)
        .next_multiple_of(4)
}

/// Trailer, key length, value length.
pub(super) const RECORD_HEADER: usize = size_of::<Trailer>() + 2 + 2;

/// Where a value or a key has this many bytes or more, both lengths follow the header in four bytes
/// each. A reader asks the value's length alone, which then is this.
pub(super) const LONG: usize = u16::MAX as usize;

#[cfg_attr(loom, allow(dead_code))] // lengths are not kept in bytes there
pub(super) const LONG_LENGTHS: usize = 4 + 4;

/// Whether the lengths of such an entry follow its header.
#[inline]
pub(super) fn is_long(key_len: usize, value_len: usize) -> bool {
    key_len.max(value_len) >= LONG
}
