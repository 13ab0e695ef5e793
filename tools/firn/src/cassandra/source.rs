//! A file of a node's table, what is told of one that can't be read, and of what is in one.

use firn_cassandra::{NodeFault, NodeFolder, NodeTable};
use firn_tools::output::{Failure, things};

/// A file of a table, with what it says of itself.
pub struct NodeSource {
    /// Where its parts are.
    pub folder: NodeFolder,
    /// What it says of itself.
    pub table: NodeTable,
}

/// A fault of a file, with what to do.
pub fn trouble(e: &NodeFault) -> Failure {
    Failure::Failed { what: e.to_string(), next: e.next().map(str::to_owned) }
}

/// What files have, in words.
pub fn counts_told(partitions: u64, rows: u64, cells: u64, deletions: u64) -> String {
    format!(
        "{}, {}, {} and {}",
        things(partitions, "partition", "partitions"),
        things(rows, "row", "rows"),
        things(cells, "cell", "cells"),
        things(deletions, "deletion", "deletions")
    )
}
