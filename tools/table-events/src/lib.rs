//! A table of a store as events, in token order: partitions, rows, deleted ranges, each cell with
//! its times. SSTable files of a node, and statements for a cluster, are made from these events.

#![warn(missing_debug_implementations)]

mod events;
mod markers;
mod mirror;

pub use events::{ExportTotals, ExportedTable, LeastFound, counts_told};
pub use mirror::MirrorStore;

use firn_tools::output::Failure;

/// Maximum number of expirations, counted along a list, up to which it is sent to a cluster element
/// by element.
pub const MOST_LIST_RUNS: usize = 64;

/// Converts an error of the data model to a failure for the user.
pub fn model_trouble(e: firn_wide::Error) -> Failure {
    match e {
        firn_wide::Error::Store(e) => Failure::Engine(e),
        firn_wide::Error::Configuration(_) => Failure::with_next(
            e.to_string(),
            "open it with the program that defined those families",
        ),
        firn_wide::Error::Corrupt(_) => {
            Failure::with_next(e.to_string(), "`firn verify` lists everything that is damaged")
        }
        other => Failure::new(other.to_string()),
    }
}

/// Converts an error of CQL to a failure for the user.
pub fn cql_trouble(e: &firn_cql::Error) -> Failure {
    Failure::Failed { what: e.text().into_owned(), next: e.help().map(str::to_owned) }
}
