//! Floor 0: the vocabulary of the engine. No I/O, no threads, no clocks.
//!
//! Everything here may be used by every other floor; nothing here knows about files or trees.

pub mod blob_ref;
pub mod checksum;
pub mod coding;
pub mod cursor;
#[macro_use]
mod debug;
pub mod deletions;
pub mod error;
pub mod events;
pub mod facts;
pub mod hash;
pub mod hooks;
pub mod horizon;
pub mod identity;
pub mod key;
pub(crate) mod lock;
pub mod open_files;
pub mod ops;
pub mod options;
pub mod prefetch;
pub(crate) mod rank;
pub mod reads;
pub(crate) mod settle;
pub mod shared;
pub mod stripe;
pub(crate) mod sync;
pub mod tolls;
pub mod tombstone;
pub(crate) mod unless_done;
pub(crate) mod version_map;

/// Pinning the epoch: what a caller of the rooms that lend out shared memory ([`shared`], `cache`)
/// must do first.
pub mod epoch {
    pub use super::sync::epoch::{Guard, pin};
}
