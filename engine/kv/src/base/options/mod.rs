//! The options of a Db and of a tree, with the bounds of each.
//!
//! Few on purpose. What belongs to a tree's files ([`TreeOptions`]) is persisted in the manifest
//! and checked at open; what belongs to a process ([`DbOptions`]) is not.

mod db;
mod tree;

pub(crate) use db::check_rate;
pub use db::{DbOptions, Durability, MemoryBudget, ReadMode};
pub use tree::{Compression, DEFAULT_BLOCK_SIZE, FilterAllocation, FilterKind, TreeOptions};
pub(crate) use tree::{NO_MEMORY, NO_ZSTD};
