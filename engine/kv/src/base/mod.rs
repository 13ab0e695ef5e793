//! Floor 0: the vocabulary of the engine. No I/O, no threads, no clocks.
//!
//! Everything here may be used by every other floor; nothing here knows about files or trees.

pub mod checksum;
pub mod coding;
pub mod cursor;
pub mod error;
pub mod hash;
pub mod hooks;
pub mod horizon;
pub mod key;
pub mod ops;
pub mod options;
pub mod prefetch;
pub mod shared;
pub(crate) mod sync;
pub mod tombstone;
