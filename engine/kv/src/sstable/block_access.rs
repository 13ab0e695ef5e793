//! Access to a table's blocks: stored bytes, decoded blocks, and values that pin them.

use std::cell::Cell;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::format::{BlockKind, StoredBlock, block_error};
use super::search::Block;
use crate::base::error::{Error, Result};
use crate::base::key::Trailer;
use crate::base::options::Compression;
use crate::block_cache::{CacheFrame, FrameRef, InheritedBlock};
use crate::env::{FileMap, ReadFile};

/// How the file maps of a Db's tables are used. The tables share it, because it may change while
/// they are open.
#[derive(Debug)]
pub struct Maps {
    /// Uncompressed blocks are served from the map.
    serve: AtomicBool,
    /// All other blocks are decoded from the map instead of being read with a system call.
    decode: bool,
}

impl Maps {
    /// Creates the settings for tables of mapped files.
    pub fn new(decode: bool) -> Arc<Maps> {
        Arc::new(Maps { serve: AtomicBool::new(true), decode })
    }

    /// Sets whether uncompressed blocks are served from maps. References handed out before remain
    /// valid.
    pub fn serve(&self, yes: bool) {
        self.serve.store(yes, Ordering::Relaxed);
    }

    /// Reports whether uncompressed blocks are served from maps.
    #[inline]
    pub fn serves(&self) -> bool {
        self.serve.load(Ordering::Relaxed)
    }

    /// Reports whether all other blocks are decoded from maps.
    #[inline]
    pub fn decodes(&self) -> bool {
        self.decode
    }
}

/// Location of a physical block that is about to be read.
pub(super) struct BlockPlace<'a> {
    pub file: &'a dyn ReadFile,
    pub path: &'a Path,
    pub id: u64,
    pub kind: BlockKind,
    pub offset: u64,
    pub len: usize,
}

impl BlockPlace<'_> {
    /// Returns an error about this block.
    pub fn corrupt(&self, what: &str) -> Error {
        block_error(what).at(self.path, self.offset).block(self.kind.name())
    }

    /// Checks the block's bytes and passes them to `f`. Uses `loaded_bytes` if it contains the
    /// block, else reads the block into a buffer.
    pub fn stored<R>(
        &self,
        loaded_bytes: Option<LoadedBytes<'_>>,
        f: impl FnOnce(StoredBlock<'_>) -> Result<R, &'static str>,
    ) -> Result<R> {
        let mut scratch = SCRATCH.take();
        let read = self.load(loaded_bytes, &mut scratch);
        let done = read.and_then(|block| f(block).map_err(|e| self.corrupt(e)));
        if scratch.len() <= LARGEST_SCRATCH {
            SCRATCH.set(scratch);
        }
        done
    }

    /// Returns the block from `loaded_bytes`, or reads it into `scratch`.
    fn load<'a>(
        &self,
        loaded_bytes: Option<LoadedBytes<'a>>,
        scratch: &'a mut Vec<u8>,
    ) -> Result<StoredBlock<'a>> {
        let end = self.offset.saturating_add(self.len as u64);
        if end > self.file.len() {
            return Err(self.corrupt("a block beyond the end of the file"));
        }
        let block = match loaded_bytes.and_then(|bytes| bytes.get(self.offset, self.len)) {
            Some(block) => block,
            None => {
                if scratch.len() < self.len {
                    scratch.resize(self.len, 0);
                }
                let stored = &mut scratch[..self.len];
                self.file.read_at(self.offset, stored)?;
                stored
            }
        };
        StoredBlock::check(block, self.kind, self.id, self.offset).map_err(|e| self.corrupt(e))
    }

    /// Like [`stored`](Self::stored), with the decompressed bytes, read in one call.
    pub fn raw<R>(&self, f: impl FnOnce(&[u8]) -> Result<R, &'static str>) -> Result<R> {
        self.stored(
            None,
            |s| if s.codec == Compression::None { f(s.bytes) } else { f(&s.to_vec()?) },
        )
    }
}

/// Bytes of a file that are in memory: its map, or the read buffer of a scan.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadedBytes<'a> {
    begin: u64,
    bytes: &'a [u8],
}

impl<'a> LoadedBytes<'a> {
    /// Wraps bytes that begin at this offset in the file.
    pub fn new(begin: u64, bytes: &'a [u8]) -> LoadedBytes<'a> {
        LoadedBytes { begin, bytes }
    }

    /// Wraps the map of the whole file.
    pub fn map(bytes: &'a [u8]) -> LoadedBytes<'a> {
        LoadedBytes { begin: 0, bytes }
    }

    /// Returns `len` bytes from a file offset, if all of them are available.
    pub fn get(&self, offset: u64, len: usize) -> Option<&'a [u8]> {
        let from = usize::try_from(offset.checked_sub(self.begin)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }
}

/// Maximum length in bytes of buffers for stored blocks that are reused. This applies to each
/// thread's read buffer and to the buffers of cursors.
pub(super) const LARGEST_SCRATCH: usize = 64 << 10;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(vec![]) };
}

/// Checks the structure of a decoded data block.
pub(super) fn validate(raw: &[u8]) -> Result<(), &'static str> {
    Block::new(raw).ok_or("a data block that is cut off")?.validate()
}

/// Decodes a data block into `buffer` and resizes it to the block's length.
pub(super) fn decode_into(
    block: &StoredBlock<'_>,
    buffer: &mut Vec<u8>,
) -> Result<(), &'static str> {
    buffer.resize(block.raw_len, 0);
    block.unpack(buffer)?;
    validate(buffer)
}

/// Iterates over the entries of a decoded data block. It is for tools that scan a file by its block
/// [headers](super::format::BlockHeader) alone. Returns a description of the fault if the block is
/// invalid.
pub fn block_entries(
    raw: &[u8],
) -> Result<impl Iterator<Item = (Vec<u8>, Trailer, &[u8])>, &'static str> {
    validate(raw)?;
    let block = Block::new(raw).ok_or("a data block that is cut off")?;
    Ok((0..block.len()).map(move |i| {
        let (entry, mut key) = (block.entry(i), vec![]);
        block.key_into(i, &mut key);
        (key, entry.trailer, entry.value)
    }))
}

/// Decoded blocks of a table that has just been written.
#[derive(Debug, Default)]
pub struct WarmBlocks {
    /// Blocks that fit into the cache, with their block numbers.
    pub frames: Vec<(u32, FrameRef)>,
    /// Blocks that are cached under the tables from which they were copied.
    pub inherited: Vec<InheritedBlock>,
}

/// Owner of a block's decoded bytes during an access.
pub(super) enum HeldBlock<'g> {
    Guarded(&'g CacheFrame),
    Map(&'g [u8]),
    Owned(FrameRef),
}

impl HeldBlock<'_> {
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            HeldBlock::Guarded(f) => f,
            HeldBlock::Map(b) => b,
            HeldBlock::Owned(f) => f,
        }
    }
}

/// Returns a range of validated bytes. Validation has checked that entries are inside their block.
#[inline]
pub(super) fn part(bytes: &[u8], range: Range<usize>) -> &[u8] {
    debug_assert!(
        range.start <= range.end && range.end <= bytes.len(),
        "{range:?} of {} bytes",
        bytes.len()
    );
    bytes.get(range).unwrap_or_default()
}

/// A value that holds a reference to the memory that contains it.
#[derive(Clone)]
pub struct TableValue(TableOwner);

debug_by!(TableValue, "TableValue");

#[derive(Clone)]
enum TableOwner {
    Frame(FrameRef, Range<u32>),
    Map(Arc<dyn FileMap>, Range<u64>),
    Copy(Arc<[u8]>),
}

impl TableValue {
    pub(super) fn frame(frame: FrameRef, value: Range<u32>) -> TableValue {
        TableValue(TableOwner::Frame(frame, value))
    }

    pub(super) fn map(map: Arc<dyn FileMap>, value: Range<u64>) -> TableValue {
        TableValue(TableOwner::Map(map, value))
    }

    pub(super) fn copy(value: &[u8]) -> TableValue {
        TableValue(TableOwner::Copy(value.into()))
    }
}

impl Deref for TableValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            TableOwner::Frame(f, r) => part(f, r.start as usize..r.end as usize),
            TableOwner::Map(m, r) => part(m.bytes(), r.start as usize..r.end as usize),
            TableOwner::Copy(b) => b,
        }
    }
}
