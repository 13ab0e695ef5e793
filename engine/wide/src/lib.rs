//! The Cassandra data model over the engine `firn-kv`: keyspaces, column families of columns and super columns, client timestamps,
//! tombstones, time to live, counters, secondary indexes.
//!
//! # The rooms
//! Data flows downwards, and a module imports only lower floors: [`base`], [`types`] (0)
//! < [`key`], [`cell`] (1) < [`store`] (2).

pub mod base;
pub mod cell;
pub mod key;
pub mod store;
pub mod types;

pub use base::error::{Error, Result};
