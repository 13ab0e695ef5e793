//! The memtable's atomics: the standard library's, or loom's when the interleavings are being enumerated (`--cfg loom`).

#[cfg(loom)]
pub(super) use loom::{hint::spin_loop, sync::atomic, thread::yield_now};
#[cfg(not(loom))]
pub(super) use std::{hint::spin_loop, sync::atomic, thread::yield_now};
