//! Options of a Db and of a tree, with their bounds.
//!
//! The number of options is small on purpose. Options of a tree and its files ([`TreeOptions`]) are
//! persisted in the manifest and checked when the tree is opened. Options of a process
//! ([`DbOptions`]) are not persisted.

mod db;
mod tree;

pub(crate) use db::check_rate;
pub use db::{DbOptions, Durability, MemoryBudget, ReadMode};
pub use tree::{Compression, DEFAULT_BLOCK_SIZE, FilterAllocation, FilterKind, TreeOptions};
pub(crate) use tree::{NO_MEMORY, NO_ZSTD};
