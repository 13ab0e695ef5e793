//! The file of a table or of a value file in the making: blocks one behind the other, gathered and
//! handed to the file piece by piece.
//!
//! Invariant: what was handed in lies in the file in that order, without gaps, from its start.

use super::format::{BlockKind, Footer, Packer, StoredBlock};
use crate::base::error::Result;
use crate::base::options::Compression;
use crate::env::WriteFile;

/// Bytes gathered before they are handed to the file.
const BUFFER: usize = 256 << 10;

/// A file that is written block by block.
pub(super) struct BlockOutput {
    file: Box<dyn WriteFile>,
    packer: Packer,
    gathered: Vec<u8>,
    /// Bytes handed to the file.
    written: u64,
}

impl BlockOutput {
    /// File `id`, which is empty.
    pub fn new(file: Box<dyn WriteFile>, id: u64) -> BlockOutput {
        let gathered = Vec::with_capacity(BUFFER + (64 << 10));
        BlockOutput { file, packer: Packer::new(id), gathered, written: 0 }
    }

    /// Where the next byte goes.
    pub fn offset(&self) -> u64 {
        self.written + self.gathered.len() as u64
    }

    /// Adds a block. Gives its length, header included, and whether it is stored as it is.
    ///
    /// # Errors
    /// `InvalidArgument` when the block is too large for the format; whatever the file says.
    pub fn put(&mut self, kind: BlockKind, codec: Compression, raw: &[u8]) -> Result<(u32, bool)> {
        let offset = self.offset();
        let put = self.packer.pack(&mut self.gathered, offset, kind, codec, raw)?;
        self.hand_over(BUFFER)?;
        Ok(put)
    }

    /// Adds a data block of another table as it is stored there; gives the same.
    ///
    /// # Errors
    /// Whatever the file says.
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

    /// Ends the file with its footer, and syncs it. Gives its length.
    ///
    /// # Errors
    /// Whatever the file says.
    pub fn finish(mut self, footer: &Footer) -> Result<u64> {
        self.gathered.extend_from_slice(&footer.encode());
        self.hand_over(0)?;
        self.file.sync()?;
        Ok(self.written)
    }
}
