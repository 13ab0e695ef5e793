//! What is wrong with a file, and where.

use std::path::{Path, PathBuf};
use std::{error, fmt, io};

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFaultKind {
    /// The system could not read or write the file.
    Io,
    /// A part of the table that reading needs is not there.
    Missing,
    /// The bytes are not what the format allows, or not those of their checksum.
    Damaged,
    /// A version, codec or type that this crate does not read.
    Unsupported,
    /// What the format has no place for, or what is in no order, and so is not written.
    Unwritable,
}

/// Why a file can't be read or written: what is wrong, in which file, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFault {
    kind: NodeFaultKind,
    why: String,
    file: PathBuf,
    offset: Option<u64>,
    /// Whether the offset counts the bytes that the file has when they are decompressed.
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

    /// Its kind.
    pub fn kind(&self) -> NodeFaultKind {
        self.kind
    }

    /// What its reader can do about it; `None` where the system knows better.
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

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Where, in bytes from the beginning of the file, or of what it has when it is decompressed.
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

/// What is wrong at a place of some bytes whose file the caller knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BytesFault {
    /// From the beginning of the bytes.
    pub at: u64,
    pub why: String,
}

impl BytesFault {
    pub(crate) fn new(at: u64, why: impl Into<String>) -> BytesFault {
        BytesFault { at, why: why.into() }
    }
}
