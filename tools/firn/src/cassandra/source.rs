//! A file of a node's table, and what is told of one that can't be read.

use firn_cassandra::{NodeFault, NodeFaultKind, NodeFolder, NodeTable};
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
    let next = match e.kind() {
        NodeFaultKind::Damaged => {
            "take the file from a snapshot or another replica, or leave it out; `sstable-dump cassandra FILE --check` reads all of it"
        }
        NodeFaultKind::Missing => "copy all files of the table whose names begin like this one's",
        NodeFaultKind::Unsupported => {
            "name a table's folder or its Data.db; tables of older versions are written anew by `nodetool upgradesstables`"
        }
        NodeFaultKind::Io => return Failure::new(e.to_string()),
    };
    Failure::with_next(e.to_string(), next)
}
