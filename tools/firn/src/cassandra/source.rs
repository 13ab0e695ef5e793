//! A file of a node's table, and what is told of one that can't be read.

use firn_cassandra::{NodeFault, NodeFolder, NodeTable};
use firn_tools::output::Failure;

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
