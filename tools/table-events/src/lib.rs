//! A table of a store as events, in the order of tokens: partitions, rows, deleted ranges, each cell
//! with its times. Files of a node are written from them, and statements for a cluster made of them.

#![warn(missing_debug_implementations)]

mod events;
mod markers;

pub use events::{ExportTotals, ExportedTable, LeastFound, counts_told};

use firn_tools::output::Failure;

/// A list whose elements expire at more times than this, counted along it, is not carried to a
/// cluster element by element.
pub const MOST_LIST_RUNS: usize = 64;

/// What a user is told of an error of the data model.
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

/// What a user is told of an error of CQL.
pub fn cql_trouble(e: &firn_cql::Error) -> Failure {
    Failure::Failed { what: e.text().into_owned(), next: e.help().map(str::to_owned) }
}
