//! Floor 0: common types of the engine. It has no I/O, no threads and no clocks.
//!
//! All other floors may use this module. It knows nothing about files or trees.

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
pub mod read_debt;
pub mod reads;
pub(crate) mod settle;
pub mod shared;
pub mod stripe;
pub(crate) mod sync;
pub mod tombstone;
pub(crate) mod unless_done;
pub(crate) mod version_map;

/// Epoch pinning. Callers of internal modules that lend out shared memory ([`shared`], `cache`)
/// must pin the epoch first.
pub mod epoch {
    pub use super::sync::epoch::{Guard, pin};
}
