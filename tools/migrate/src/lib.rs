//! Tables of CQL between a Firn store and a cluster of Apache Cassandra or ScyllaDB: definitions
//! first, then data by ranges of tokens, with every timestamp, time to live and deletion that CQL can
//! say.
//!
//! Invariant: what can't be carried is counted ([`report`]), and told before and after.

#![warn(missing_debug_implementations)]

pub mod definitions;
pub mod report;

use firn_tools::output::Failure;

/// An error of CQL, with what to do.
pub fn failed(e: &firn_cql::Error) -> Failure {
    Failure::Failed { what: e.text().into_owned(), next: e.help().map(str::to_owned) }
}
