//! The Cassandra data model over the engine `firn-kv`: keyspaces, column families of columns and super columns, client timestamps,
//! tombstones, time to live, counters, secondary indexes.
//!
//! # The rooms
//! Data flows downwards, and a module imports only lower floors: [`base`], [`types`], [`ring`] (0) < [`key`], [`cell`] (1, where
//! cells know keys) < [`store`] (2).

pub mod base;
pub mod cell;
pub mod key;
pub mod ring;
pub mod store;
pub mod types;

pub use base::error::{Error, Result};
