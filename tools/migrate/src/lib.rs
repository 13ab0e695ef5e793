//! Migrates CQL tables between a Firn store and a cluster of Apache Cassandra or ScyllaDB: the
//! schema first, then data by token ranges, with every timestamp, TTL and deletion that CQL can
//! express.
//!
//! Invariant: data that cannot be migrated is counted ([`report`]) and reported before and after.

#![warn(missing_debug_implementations)]

mod bounds;
pub mod cells;
pub mod cluster_export;
pub mod comparison;
pub mod condition;
pub mod copied;
pub mod counters;
pub mod definitions;
pub mod follow;
pub mod from;
pub mod journal;
mod journal_file;
mod list_runs;
mod ranges;
pub mod replication;
pub mod report;
pub mod row_import;
pub mod source;
pub mod statement;
pub mod target;
pub mod token_ranges;
pub mod verify;

#[cfg(test)]
extern crate self as firn_migrate;
#[cfg(test)]
#[path = "../tests/main.rs"]
mod integration;
