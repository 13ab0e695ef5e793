//! Sequential reader of the decompressed bytes of `Data.db`.

use crate::chunks::ChunkReader;
use crate::cursor::{ByteCursor, vint_extra};
use crate::fault::{BytesFault, NodeFault};
use crate::files::{FileVersion, NodeFiles};
use crate::format::DATA;

/// Decompressed bytes of a [`ChunkReader`], partly buffered.
pub(crate) struct ContentReader {
    chunks: ChunkReader,
    path: std::path::PathBuf,
    buffer: Vec<u8>,
    /// Consumed bytes of the buffer.
    taken: usize,
    /// Offset of the buffer.
    base: u64,
}

impl ContentReader {
    pub(crate) fn open(
        files: &dyn NodeFiles,
        version: FileVersion,
    ) -> Result<ContentReader, NodeFault> {
        let chunks = ChunkReader::open(files, version)?;
        Ok(ContentReader { chunks, path: files.path(DATA), buffer: vec![], taken: 0, base: 0 })
    }

    pub(crate) fn offset(&self) -> u64 {
        self.base + self.taken as u64
    }

    /// Returns the total number of bytes.
    pub(crate) fn len(&self) -> u64 {
        self.chunks.len
    }

    /// Reports whether nothing is left; then the checksum of the whole file was verified.
    pub(crate) fn is_at_end(&mut self) -> Result<bool, NodeFault> {
        if self.offset() < self.len() {
            return Ok(false);
        }
        // Chunks at the end may be empty.
        while self.chunks.append(&mut self.buffer)? {}
        Ok(true)
    }

    /// Returns the next bytes; fails if they are missing.
    pub(crate) fn take(&mut self, len: u64, what: &str) -> Result<ByteCursor<'_>, NodeFault> {
        let at = self.offset();
        let left = self.len() - at;
        if len > left {
            let why = format!("{what} takes {len} bytes, and {left} are left");
            return Err(NodeFault::in_content(&self.path, at, why));
        }
        while ((self.buffer.len() - self.taken) as u64) < len {
            if self.taken > 0 {
                self.buffer.drain(..self.taken);
                self.base += self.taken as u64;
                self.taken = 0;
            }
            if !self.chunks.append(&mut self.buffer)? {
                // The lengths of the chunks add up to the total length.
                let why = format!("{what} takes {len} bytes, and the file ends");
                return Err(NodeFault::in_content(&self.path, at, why));
            }
        }
        let from = self.taken;
        // It is at most the length of the buffer.
        self.taken += len as usize;
        Ok(ByteCursor::new(&self.buffer[from..self.taken], at))
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8, NodeFault> {
        let mut c = self.take(1, what)?;
        let n = c.u8(what);
        self.placed(n)
    }

    /// Reads a variable-length number.
    pub(crate) fn vint(&mut self, what: &str) -> Result<u64, NodeFault> {
        let first = self.u8(what)?;
        let extra = vint_extra(first);
        let mut bytes = [first, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut rest = self.take(extra as u64, what)?;
        let read = rest.take(extra, what).map(|r| bytes[1..=extra].copy_from_slice(r));
        self.placed(read)?;
        let n = ByteCursor::new(&bytes[..=extra], 0).vint(what);
        self.placed(n)
    }

    /// Adds the file's name to a fault.
    pub(crate) fn placed<T>(&self, read: Result<T, BytesFault>) -> Result<T, NodeFault> {
        read.map_err(|e| NodeFault::in_content(&self.path, e.at, e.why))
    }

    pub(crate) fn fault<T>(&self, at: u64, why: impl Into<String>) -> Result<T, NodeFault> {
        Err(NodeFault::in_content(&self.path, at, why))
    }
}
