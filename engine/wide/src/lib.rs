//! The Cassandra data model over the engine `firn-kv`: keyspaces, column families of columns and super columns, client timestamps,
//! tombstones, time to live, counters, secondary indexes.
//!
//! # The rooms
//! Data flows downwards, and a module imports only lower floors: [`base`] and [`types`] (0), [`schema`] (1), [`cli`] (4).

pub mod api;
pub mod base;
pub mod cli;
pub mod schema;
pub mod types;

pub use api::Wide;
pub use base::error::{Error, Result};
