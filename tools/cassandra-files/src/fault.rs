//! Faults of files, with their locations.

use std::path::{Path, PathBuf};
use std::{error, fmt, io};

/// Types of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFaultKind {
    /// The system could not read or write the file.
    Io,
    /// A required part of the table is missing.
    Missing,
    /// The bytes violate the format or do not match their checksum.
    Damaged,
    /// A version, codec or type that this crate does not read.
    Unsupported,
    /// Data that the format cannot represent, or that is out of order, and so is not written.
    Unwritable,
}

/// An error of reading or writing a file, with the file and the offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFault {
    kind: NodeFaultKind,
    why: String,
    file: PathBuf,
    offset: Option<u64>,
    /// Whether the offset counts decompressed bytes.
    in_content: bool,
}

impl NodeFault {
    pub(crate) fn new(kind: NodeFaultKind, file: &Path, why: impl Into<String>) -> NodeFault {
        NodeFault { kind, why: why.into(), file: file.into(), offset: None, in_content: false }
    }

    pub(crate) fn damaged(file: &Path, offset: u64, why: impl Into<String>) -> NodeFault {
        let fault = NodeFault::new(NodeFaultKind::Damaged, file, why);
        NodeFault { offset: Some(offset), ..fault }
    }

    pub(crate) fn in_content(file: &Path, offset: u64, why: impl Into<String>) -> NodeFault {
        NodeFault { in_content: true, ..NodeFault::damaged(file, offset, why) }
    }

    pub(crate) fn io(file: &Path, e: &io::Error) -> NodeFault {
        NodeFault::new(NodeFaultKind::Io, file, e.to_string())
    }

    /// Returns the type.
    pub fn kind(&self) -> NodeFaultKind {
        self.kind
    }

    /// Returns advice for the user; `None` if the system's error is sufficient.
    pub fn next(&self) -> Option<&'static str> {
        match self.kind {
            NodeFaultKind::Io | NodeFaultKind::Unwritable => None,
            NodeFaultKind::Missing => {
                Some("copy all files of the table whose names begin like this one's")
            }
            NodeFaultKind::Damaged => Some(
                "take the file from a snapshot or another replica; on its node `nodetool scrub` keeps what can be read",
            ),
            NodeFaultKind::Unsupported => Some(
                "name a table's Data.db; `nodetool upgradesstables` writes tables of older versions anew",
            ),
        }
    }

    /// Returns the file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the offset in bytes, in the file or in its decompressed contents.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }
}

impl fmt::Display for NodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        match (self.offset, self.in_content) {
            (Some(at), true) => write!(f, ", decompressed byte {at}")?,
            (Some(at), false) => write!(f, ", byte {at}")?,
            (None, _) => {}
        }
        write!(f, ": {}", self.why)
    }
}

impl error::Error for NodeFault {}

/// A fault in some bytes; the caller knows the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BytesFault {
    /// Offset in the bytes.
    pub at: u64,
    pub why: String,
}

impl BytesFault {
    pub(crate) fn new(at: u64, why: impl Into<String>) -> BytesFault {
        BytesFault { at, why: why.into() }
    }
}
