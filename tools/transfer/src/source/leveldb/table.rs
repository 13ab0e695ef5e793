//! Tables of LevelDB: sorted entries in blocks, with an index of the blocks.

use std::path::Path;

use firn_tools::output::Done;

use super::super::file::SourceFile;
use super::super::rows::damaged;
use super::bytes::{ByteReader, is_sum};

/// Last bytes of a table.
const MAGIC: u64 = 0xDB47_7524_8B80_FB57;
/// Bytes of the footer.
const FOOTER: usize = 48;
/// Bytes after a block: compression and checksum.
const TRAILER: usize = 5;
/// Maximum bytes of a block; LevelDB writes blocks of a few KiB, or of one long value.
const MAX_BLOCK: u64 = 1 << 30;

/// Position of a block in a file.
#[derive(Clone, Copy, Debug)]
struct BlockHandle {
    offset: u64,
    size: u64,
}

impl BlockHandle {
    fn read(bytes: &mut ByteReader<'_>) -> Option<BlockHandle> {
        Some(BlockHandle { offset: bytes.varint()?, size: bytes.varint()? })
    }
}

/// Key and value of an entry.
pub type TableEntry = (Vec<u8>, Vec<u8>);

/// The entries of a table in order.
pub struct TableEntries {
    file: SourceFile,
    index: std::vec::IntoIter<BlockHandle>,
    block: BlockEntries,
}

impl TableEntries {
    /// Opens a table.
    ///
    /// # Errors
    /// It is unreadable or damaged.
    pub fn open(path: &Path) -> Done<TableEntries> {
        let mut file = SourceFile::open(path)?;
        let start = file.len().checked_sub(FOOTER as u64);
        let start = start.ok_or_else(|| damaged(path, "it is too short for a table"))?;
        let footer = file.read_at(start, FOOTER)?;
        let (handles, magic) = footer.split_at(FOOTER - 8);
        if magic != MAGIC.to_le_bytes() {
            return Err(damaged(path, "it does not end as a table of LevelDB"));
        }
        let mut bytes = ByteReader::new(handles);
        let index = BlockHandle::read(&mut bytes).and_then(|_| BlockHandle::read(&mut bytes));
        let index = index.ok_or_else(|| damaged(path, "its footer is malformed"))?;
        let mut entries = BlockEntries::new(block(&mut file, index)?);
        let mut handles = vec![];
        while let Some((_, value)) = entries.advance().map_err(|why| damaged(path, why))? {
            let handle = BlockHandle::read(&mut ByteReader::new(&value));
            handles
                .push(handle.ok_or_else(|| damaged(path, "an entry of its index is malformed"))?);
        }
        Ok(TableEntries { file, index: handles.into_iter(), block: BlockEntries::new(vec![]) })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the next entry.
    ///
    /// # Errors
    /// Damage.
    pub fn advance(&mut self) -> Done<Option<TableEntry>> {
        loop {
            if let Some(entry) =
                self.block.advance().map_err(|why| damaged(self.file.path(), why))?
            {
                return Ok(Some(entry));
            }
            let Some(handle) = self.index.next() else { return Ok(None) };
            self.block = BlockEntries::new(block(&mut self.file, handle)?);
        }
    }
}

/// Reads a block, without its trailer.
fn block(file: &mut SourceFile, handle: BlockHandle) -> Done<Vec<u8>> {
    let fail = |file: &SourceFile, why: &str| {
        damaged(file.path(), format!("the block at byte {}: {why}", handle.offset))
    };
    if handle.size > MAX_BLOCK {
        return Err(fail(file, "it is too long"));
    }
    let size = handle.size as usize;
    let mut bytes = file.read_at(handle.offset, size + TRAILER)?;
    let trailer = bytes.split_off(size);
    let sum = u32::from_le_bytes([trailer[1], trailer[2], trailer[3], trailer[4]]);
    if !is_sum(sum, [&bytes, &trailer[..1]]) {
        return Err(fail(file, "its checksum is wrong"));
    }
    match trailer[0] {
        0 => Ok(bytes),
        1 => {
            let length = snap::raw::decompress_len(&bytes);
            if length.is_err() || length.is_ok_and(|n| n as u64 > MAX_BLOCK) {
                return Err(fail(file, "its compression is malformed"));
            }
            let whole = snap::raw::Decoder::new().decompress_vec(&bytes);
            whole.map_err(|_| fail(file, "its compression is malformed"))
        }
        other => Err(fail(file, &format!("its compression, number {other}, is not supported"))),
    }
}

/// The entries of a block.
struct BlockEntries {
    bytes: Vec<u8>,
    at: usize,
    /// End of the entries, where restart points begin.
    end: usize,
    key: Vec<u8>,
}

impl BlockEntries {
    fn new(bytes: Vec<u8>) -> BlockEntries {
        let restarts = bytes.last_chunk::<4>().map_or(0, |n| u32::from_le_bytes(*n) as usize);
        let end = restarts.checked_mul(4).and_then(|n| bytes.len().checked_sub(n + 4));
        BlockEntries { at: 0, end: end.unwrap_or(0), bytes, key: vec![] }
    }

    fn advance(&mut self) -> Result<Option<TableEntry>, String> {
        if self.at >= self.end {
            return Ok(None);
        }
        let mut bytes = ByteReader::new(&self.bytes[self.at..self.end]);
        let mut entry = || {
            let (shared, own, value) = (bytes.length()?, bytes.length()?, bytes.length()?);
            let (own, value) = (bytes.take(own)?, bytes.take(value)?);
            (shared <= self.key.len()).then_some((shared, own, value))
        };
        let (shared, own, value) = entry().ok_or("an entry of a block is malformed")?;
        self.key.truncate(shared);
        self.key.extend_from_slice(own);
        let value = value.to_vec();
        self.at = self.end - bytes.len();
        Ok(Some((self.key.clone(), value)))
    }
}
