//! A part of a table being written, with its name for messages.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::fault::{NodeFault, NodeFaultKind};
use crate::files::{NodePartWriter, NodeSink};

/// One part.
pub(crate) struct OpenPart {
    path: PathBuf,
    to: Box<dyn NodePartWriter>,
    /// Bytes written so far.
    pub len: u64,
}

impl OpenPart {
    pub(crate) fn create(sink: &dyn NodeSink, part: &str) -> Result<OpenPart, NodeFault> {
        let path = sink.part_path(part);
        match sink.create(part) {
            Ok(to) => Ok(OpenPart { path, to, len: 0 }),
            Err(e) => Err(NodeFault::io(&path, &e)),
        }
    }

    /// Writes a part from memory.
    pub(crate) fn whole(sink: &dyn NodeSink, part: &str, bytes: &[u8]) -> Result<(), NodeFault> {
        let mut open = OpenPart::create(sink, part)?;
        open.put(bytes)?;
        open.finish()
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), NodeFault> {
        self.len += bytes.len() as u64;
        let done = self.to.write_all(bytes);
        self.check(done)
    }

    fn check(&self, done: io::Result<()>) -> Result<(), NodeFault> {
        done.map_err(|e| NodeFault::io(&self.path, &e))
    }

    pub(crate) fn refuse(&self, why: impl Into<String>) -> NodeFault {
        NodeFault::new(NodeFaultKind::Unwritable, &self.path, why)
    }

    pub(crate) fn finish(self) -> Result<(), NodeFault> {
        self.to.finish().map_err(|e| NodeFault::io(&self.path, &e))
    }
}
