//! The memtable's atomics: from the standard library, from loom when it enumerates interleavings
//! (`--cfg loom`), or from the scheduler when it searches them (`--cfg interleave`).

#[cfg(interleave)]
pub(super) use firn_interleave::{atomic, yield_now, yield_now as spin_loop};
#[cfg(loom)]
pub(super) use loom::{hint::spin_loop, sync::atomic, thread::yield_now};
#[cfg(not(any(loom, interleave)))]
pub(super) use std::{hint::spin_loop, sync::atomic, thread::yield_now};
