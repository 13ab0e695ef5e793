//! Output file of a table or blob file: buffers blocks and appends them to the file in batches.
//!
//! Invariant: the file contains the blocks in the order in which they were added, without gaps,
//! from its start.

use super::format::{BlockKind, Footer, Packer, StoredBlock};
use crate::base::error::Result;
use crate::base::options::Compression;
use crate::env::WriteFile;

/// Bytes buffered before they are appended to the file.
const BUFFER: usize = 256 << 10;

/// Writer of a file that consists of blocks.
pub(super) struct BlockOutput {
    file: Box<dyn WriteFile>,
    packer: Packer,
    gathered: Vec<u8>,
    /// Bytes appended to the file.
    written: u64,
}

impl BlockOutput {
    /// Starts writing file `id`, which must be empty.
    pub fn new(file: Box<dyn WriteFile>, id: u64) -> BlockOutput {
        let gathered = Vec::with_capacity(BUFFER + (64 << 10));
        BlockOutput { file, packer: Packer::new(id), gathered, written: 0 }
    }

    /// Returns the offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.written + self.gathered.len() as u64
    }

    /// Adds a block. Returns its length, header included, and whether it is uncompressed.
    ///
    /// # Errors
    /// `InvalidArgument` if the block is too large for the format. I/O errors of the file.
    pub fn put(&mut self, kind: BlockKind, codec: Compression, raw: &[u8]) -> Result<(u32, bool)> {
        let offset = self.offset();
        let put = self.packer.pack(&mut self.gathered, offset, kind, codec, raw)?;
        self.hand_over(BUFFER)?;
        Ok(put)
    }

    /// Adds a data block of another table with its stored bytes. Returns the same as
    /// [`put`](Self::put).
    ///
    /// # Errors
    /// I/O errors of the file.
    pub fn copy(&mut self, block: &StoredBlock<'_>) -> Result<(u32, bool)> {
        let offset = self.offset();
        let len = self.packer.seal(&mut self.gathered, offset, BlockKind::Data, block);
        self.hand_over(BUFFER)?;
        Ok((len, block.codec == Compression::None))
    }

    fn hand_over(&mut self, from: usize) -> Result<()> {
        if self.gathered.len() >= from && !self.gathered.is_empty() {
            self.file.append(&self.gathered)?;
            self.written += self.gathered.len() as u64;
            self.gathered.clear();
        }
        Ok(())
    }

    /// Writes the footer and syncs the file. Returns the file's length.
    ///
    /// # Errors
    /// I/O errors of the file.
    pub fn finish(mut self, footer: &Footer) -> Result<u64> {
        self.gathered.extend_from_slice(&footer.encode());
        self.hand_over(0)?;
        self.file.sync()?;
        Ok(self.written)
    }
}
