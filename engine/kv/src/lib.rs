//! `firn-kv`: an embedded, ordered, durable key-value store.
//!
//! Floors, lower ones know nothing of higher ones:
//! 0 [`base`], 1 [`env`], 2 [`wal`] [`memtable`] [`sstable`] [`manifest`], 3 [`merge`] [`compaction`] [`cache`], 4 [`db`].

pub mod base;
pub mod cache;
pub mod compaction;
pub mod db;
pub mod env;
pub mod manifest;
pub mod memtable;
pub mod merge;
pub mod sstable;
pub mod wal;

pub use base::error::{Error, ErrorKind, Result};
pub use base::options::{Compression, DbOptions, Durability, FilterKind, Policy, ReadMode, TreeOptions};
