//! Scans a table file by its block headers alone. Used for a file whose footer or index is lost,
//! and to find all damage in one pass.
//!
//! Invariants:
//! - Every returned block has passed its checksum, which includes file and offset.
//! - The pieces are contiguous from the first byte of the file to its last.
//! - No allocation exceeds [`MAX_BLOCK`].
//! - The scan takes time linear in the file's length, even over bytes that imitate blocks (see
//!   `budget`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::format::{BLOCK_HEADER, BlockHeader, FOOTER, Footer, StoredBlock, block_error};
use crate::base::error::Result;
use crate::env::ReadFile;

/// Maximum size of a block that the scan reads, stored or decoded, in bytes. Larger ones count as
/// damage.
pub const MAX_BLOCK: usize = 1 << 30;
/// Bytes read from the file at a time while searching for a block.
const CHUNK: u64 = 256 << 10;
/// Maximum length in bytes of candidates that are checked after the budget is spent.
const CHEAP: u64 = 8 << 10;

/// A piece of a table file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TablePiece {
    /// A valid block. [`TableWalk::raw`] returns its content until the next step.
    Block {
        /// Offset in the file.
        offset: u64,
        /// Its header.
        header: BlockHeader,
    },
    /// Bytes that are not a valid block.
    Damage {
        /// Offset in the file.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Description of the fault.
        reason: &'static str,
        /// Header of the damaged block, if it is credible.
        header: Option<BlockHeader>,
    },
    /// The footer, at the very end.
    Footer {
        /// Offset in the file.
        offset: u64,
        /// Decoded footer.
        footer: Footer,
    },
}

impl TablePiece {
    /// Returns the bytes that the piece takes in the file.
    pub fn len(&self) -> u64 {
        match self {
            TablePiece::Block { header, .. } => (BLOCK_HEADER + header.stored_len) as u64,
            TablePiece::Damage { len, .. } => *len,
            TablePiece::Footer { .. } => FOOTER as u64,
        }
    }

    /// Reports false for every piece, because a piece has bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Scan over the pieces of one file.
pub struct TableWalk {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    id: u64,
    offset: u64,
    /// Stored bytes of the block returned last.
    block: Vec<u8>,
    /// The footer, if it is valid.
    footer: Option<Footer>,
    /// Remaining bytes of candidates longer than [`CHEAP`] that may fail their check.
    budget: u64,
}

debug_by!(TableWalk, "TableWalk", path, offset);

impl TableWalk {
    /// Starts a scan of `file`, which is table `id`; `path` is for error messages.
    ///
    /// # Errors
    /// I/O errors of the file.
    pub fn new(file: Arc<dyn ReadFile>, path: &Path, id: u64) -> Result<TableWalk> {
        let mut footer = None;
        if let Some(at) = file.len().checked_sub(FOOTER as u64) {
            let mut f = [0; FOOTER];
            file.read_at(at, &mut f)?;
            footer = Footer::decode(&f, path, id, at).ok();
        }
        let budget = file.len().saturating_mul(4);
        Ok(TableWalk {
            file,
            path: path.to_path_buf(),
            id,
            offset: 0,
            block: vec![],
            footer,
            budget,
        })
    }

    /// Returns the footer, if it is valid.
    pub fn footer(&self) -> Option<&Footer> {
        self.footer.as_ref()
    }

    /// Returns the end of the blocks.
    fn end(&self) -> u64 {
        self.file.len() - if self.footer.is_some() { FOOTER as u64 } else { 0 }
    }

    /// Returns the header at `offset`, if a block can begin there.
    fn header(&self, offset: u64) -> Result<Result<BlockHeader, &'static str>> {
        let left = self.end().saturating_sub(offset);
        let mut h = [0; BLOCK_HEADER];
        if left < BLOCK_HEADER as u64 {
            return Ok(Err("too few bytes for a block"));
        }
        self.file.read_at(offset, &mut h)?;
        Ok(BlockHeader::read(&h).and_then(|h| match h.stored_len.max(h.raw_len) {
            _ if h.stored_len as u64 > left - BLOCK_HEADER as u64 => {
                Err("a block that runs past the end of the file")
            }
            n if n > MAX_BLOCK => Err("a block too large to be read"),
            _ => Ok(h),
        }))
    }

    /// Reads the block with this header into `block`, if it is valid.
    fn load(&mut self, offset: u64, h: BlockHeader) -> Result<Result<(), &'static str>> {
        let mut block = std::mem::take(&mut self.block);
        block.resize(BLOCK_HEADER + h.stored_len, 0);
        self.file.read_at(offset, &mut block)?;
        self.block = block;
        Ok(StoredBlock::check(&self.block, h.kind, self.id, offset).map(|_| ()))
    }

    /// Returns the first offset at or after `offset` with a valid block, or else the end of the
    /// blocks.
    fn find(&mut self, mut offset: u64) -> Result<u64> {
        let end = self.end();
        let mut chunk = vec![];
        while end.saturating_sub(offset) >= BLOCK_HEADER as u64 {
            chunk.resize(CHUNK.min(end - offset) as usize, 0);
            self.file.read_at(offset, &mut chunk)?;
            let places = chunk.len() - BLOCK_HEADER + 1;
            for place in 0..places {
                if !chunk[place..].starts_with(b"FnB1")
                    || BlockHeader::read(&chunk[place..]).is_err()
                {
                    continue;
                }
                let at = offset + place as u64;
                let Ok(h) = self.header(at)? else { continue };
                let cost = h.stored_len as u64;
                if cost > CHEAP && cost > self.budget {
                    continue;
                }
                if self.load(at, h)?.is_ok() {
                    return Ok(at);
                }
                if cost > CHEAP {
                    self.budget -= cost;
                }
            }
            offset += places as u64;
        }
        Ok(end)
    }

    /// Returns the next piece; `None` at the end of the file.
    ///
    /// # Errors
    /// I/O errors of the file.
    #[allow(clippy::should_implement_trait)] // it lends the block
    pub fn next(&mut self) -> Result<Option<TablePiece>> {
        let (offset, end) = (self.offset, self.end());
        if offset >= end {
            self.offset = self.file.len();
            let footer = self.footer.filter(|_| offset == end);
            return Ok(footer.map(|footer| TablePiece::Footer { offset, footer }));
        }
        let header = self.header(offset)?;
        let reason = match header {
            Ok(h) => match self.load(offset, h)? {
                Ok(()) => {
                    self.offset += (BLOCK_HEADER + h.stored_len) as u64;
                    return Ok(Some(TablePiece::Block { offset, header: h }));
                }
                Err(reason) => reason,
            },
            Err(reason) => reason,
        };
        // A header is credible if another block, or the footer, begins at the end that it declares.
        if let Ok(h) = header {
            let next = offset + (BLOCK_HEADER + h.stored_len) as u64;
            if next == end || self.header(next)?.is_ok() {
                self.offset = next;
                return Ok(Some(TablePiece::Damage {
                    offset,
                    len: next - offset,
                    reason,
                    header: Some(h),
                }));
            }
        }
        self.offset = self.find(offset + 1)?;
        Ok(Some(TablePiece::Damage { offset, len: self.offset - offset, reason, header: None }))
    }

    /// Returns the decoded content of the block that [`next`](TableWalk::next) returned last.
    ///
    /// # Errors
    /// `Corruption` for a block that does not decompress. `Incompatible` for a codec that this
    /// build lacks.
    pub fn raw(&self, offset: u64, header: BlockHeader) -> Result<Vec<u8>> {
        let bad = |what| block_error(what).at(&self.path, offset).block(header.kind.name());
        StoredBlock::check(&self.block, header.kind, self.id, offset)
            .and_then(|s| s.to_vec())
            .map_err(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::{Kind, Trailer};
    use crate::env::Env;
    use crate::env::mem::MemEnv;
    use crate::sstable::{TableWriter, WriterOptions};
    use proptest::prelude::*;

    fn table(env: &dyn Env) -> Vec<u8> {
        let path = Path::new("/00000003.sst");
        let mut w = TableWriter::new(
            env.create(path).unwrap(),
            path,
            3,
            WriterOptions { block_size: 512, ..Default::default() },
        );
        (0..200u32).for_each(|i| {
            w.add(&i.to_be_bytes(), Trailer::new(i as u64, Kind::Put), &[i as u8; 20]).unwrap()
        });
        w.finish().unwrap();
        env.read_all(path, 1 << 20).unwrap()
    }

    proptest! {
        /// After any change to a file, the pieces cover its bytes without gaps, and all unchanged
        /// blocks are found.
        #[test]
        fn pieces_are_the_whole_file(at in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..4), cut in 0usize..400) {
            let env = MemEnv::new(1);
            let sound = table(&env);
            let mut bytes = sound.clone();
            let places: Vec<usize> = at.iter().map(|(i, _)| i.index(bytes.len())).collect();
            at.iter().zip(&places).for_each(|((_, x), &i)| bytes[i] ^= x);
            bytes.truncate(sound.len() - cut.saturating_sub(200));
            let path = Path::new("/bad");
            let mut f = env.create(path).unwrap();
            f.append(&bytes).unwrap();
            drop(f);
            let walk = |path: &Path| {
                let mut w = TableWalk::new(env.open_read(path, false).unwrap(), path, 3).unwrap();
                let mut all = vec![];
                while let Some(p) = w.next().unwrap() {
                    if let TablePiece::Block { offset, header } = &p {
                        assert_eq!(w.raw(*offset, *header).unwrap().len(), header.raw_len);
                    }
                    all.push(p);
                }
                all
            };
            let found = walk(path);
            prop_assert_eq!(found.iter().map(TablePiece::len).sum::<u64>(), bytes.len() as u64);
            for p in walk(Path::new("/00000003.sst")) {
                let TablePiece::Block { offset, .. } = p else { continue };
                let whole = offset + p.len() <= bytes.len() as u64;
                let touched = places.iter().any(|&i| offset <= i as u64 && (i as u64) < offset + p.len() && bytes.get(i) != sound.get(i));
                prop_assert_eq!(found.contains(&p), whole && !touched);
            }
        }
    }
}
