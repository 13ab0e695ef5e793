//! The Cassandra data model over the engine `firn-kv`: keyspaces, column families of columns and super columns, client timestamps,
//! tombstones, time to live, counters, secondary indexes.
//!
//! # The rooms
//! Data flows downwards, and a module imports only lower floors: [`base`], [`types`], [`ring`] (0) < [`key`], [`cell`] (where cells
//! know keys), [`schema`] (1) < [`store`] (2) < [`api`] (3), whose names are re-exported here < [`cli`] (4).

pub mod api;
pub mod base;
pub mod cell;
pub mod cli;
pub mod demo;
pub mod key;
pub mod ring;
pub mod schema;
pub mod store;
pub mod types;

pub use api::*;
pub use base::error::{Error, Result};
