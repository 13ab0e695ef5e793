//! The memtable's atomics: the standard library's; loom's when the interleavings are being
//! enumerated (`--cfg loom`); the scheduler's when they are searched (`--cfg interleave`).

#[cfg(interleave)]
pub(super) use firn_interleave::{atomic, yield_now, yield_now as spin_loop};
#[cfg(loom)]
pub(super) use loom::{hint::spin_loop, sync::atomic, thread::yield_now};
#[cfg(not(any(loom, interleave)))]
pub(super) use std::{hint::spin_loop, sync::atomic, thread::yield_now};
