//! A file of a node's table, and the error of an unreadable one.

use firn_cassandra::{NodeFault, NodeFolder, NodeTable};
use firn_tools::output::Failure;

/// A file of a table, with its metadata.
pub struct NodeSource {
    /// Folder of its components.
    pub folder: NodeFolder,
    /// Metadata of the file.
    pub table: NodeTable,
}

/// Converts a fault of a file to a failure with advice.
pub fn trouble(e: &NodeFault) -> Failure {
    Failure::Failed { what: e.to_string(), next: e.next().map(str::to_owned) }
}
