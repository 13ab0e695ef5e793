//! Floor 0: utilities without knowledge of the store: locks and their order, lock-free sharing,
//! coding of integers, checksums, hashes.

pub mod checksum;
pub(crate) mod coalescer;
pub mod coding;
#[macro_use]
mod debug;
pub mod hash;
pub(crate) mod lock;
pub(crate) mod nested;
pub(crate) mod panics;
pub mod prefetch;
pub(crate) mod rank;
pub mod shared;
pub(crate) mod sort;
pub mod sorted_map;
pub mod stripe;
pub(crate) mod sync;
pub(crate) mod version_map;

pub use lock::elsewhere;

/// Epoch pinning. Callers of internal modules that lend out shared memory ([`shared`], the block
/// cache) must pin the epoch first.
pub mod epoch {
    pub use super::sync::epoch::{Guard, pin};
}
