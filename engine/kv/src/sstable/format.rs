//! The table file as a sequence of physical blocks, and its footer. All integers little-endian.
//!
//! A file is: data blocks in key order, then an optional filter block, an optional tombstone block,
//! the index block, the properties block, then the footer. Blocks follow each other without gaps
//! from offset 0, so a file whose index is lost can be walked by the blocks' headers alone.
//!
//! A physical block is a header of 24 bytes and then `stored_len` bytes:
//! ```text
//! 0   4 bytes  "FnB1"
//! 4   u8       kind: 1 data, 2 index, 3 filter, 4 tombstones, 5 properties, 6 a value (in value files only)
//! 5   u8       codec: 0 stored as it is, 1 LZ4 block format, 2 a Zstandard frame
//! 6   u16      0
//! 8   u32      stored_len
//! 12  u32      raw_len: length after decompression; equals stored_len with codec 0
//! 16  u32      0
//! 20  u32      CRC-32 over: file id u64, offset of the block in the file u64, bytes 0..20 of the header, the stored bytes
//! ```
//! The footer is the last 72 bytes:
//! ```text
//! 0   u64      file id
//! 8   u64      length of all data blocks together, which is the offset of the first block behind them
//! 16  u32      length of the filter block with its header, 0 when there is none
//! 20  u32      length of the tombstone block, 0 when there is none
//! 24  u32      length of the index block
//! 28  u32      length of the properties block
//! 32  u64      length of the file, footer included
//! 40  u64      id of the store that wrote the table, 0 when no store did
//! 48  u64      a random number of the table's own, 0 when no store wrote it
//! 56  u32      CRC-32 over: file id u64, offset of the footer u64, bytes 0..56, bytes 60..72
//! 60  u32      format version, now 1
//! 64  8 bytes  "FirnSST\n"
//! ```
//! Invariants:
//! - F1: every byte of a file is covered by a checksum that knows its file and offset.
//! - F2: nothing is allocated for a declared length before it is known to be within the file,
//!   within the kind's cap, and (LZ4 cannot shrink more than 255-fold, and what Zstandard shrinks more
//!   is stored as LZ4) within 255 times the stored bytes. Of a block that is read whole the stored
//!   bytes themselves must say the same length first.
//! - F3: the version and the magic stay the last 12 bytes in every later version, so that a newer
//!   file is refused as newer.

use std::path::Path;

use crate::base::checksum::checksum;
use crate::base::coding::{u32_at, u64_at};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::identity::TableIdentity;
use crate::base::key::{MAX_KEY_LEN, MAX_VALUE_LEN};
use crate::base::options::{Compression, NO_MEMORY, NO_ZSTD};

use super::{lz4, zstd};

/// The version that this code writes, and the newest that it reads.
pub const VERSION: u32 = 1;
/// Length of a block's header.
pub const BLOCK_HEADER: usize = 24;
/// Length of the footer.
pub const FOOTER: usize = 72;
/// The largest decoded data block: one entry of the largest key and value, and what surrounds it.
pub const MAX_DATA_BLOCK: usize = MAX_VALUE_LEN + 2 * MAX_KEY_LEN + 4096;

/// The largest properties block: bounds of keys, a summary, and 600,000 value files.
pub const MAX_PROPERTIES: usize = 16 << 20;
/// The largest index, filter and tombstone block: its length with the header has 32 bits.
pub const MAX_BLOCK: usize = u32::MAX as usize - BLOCK_HEADER;
/// Shorter blocks are allocated by their header's word.
const LARGE_BLOCK: usize = 64 << 10;

const BLOCK_MAGIC: [u8; 4] = *b"FnB1";
const FILE_MAGIC: [u8; 8] = *b"FirnSST\n";

/// What a physical block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockKind {
    /// Entries.
    Data = 1,
    /// Where the data blocks are.
    Index = 2,
    /// The filter.
    Filter = 3,
    /// Range tombstones.
    Tombstones = 4,
    /// Facts about the table.
    Properties = 5,
    /// A value that lies apart from its entry: in value files only.
    Value = 6,
}

impl BlockKind {
    /// The kind's name, as printed.
    pub fn name(self) -> &'static str {
        match self {
            BlockKind::Data => "data",
            BlockKind::Index => "index",
            BlockKind::Filter => "filter",
            BlockKind::Tombstones => "tombstones",
            BlockKind::Properties => "properties",
            BlockKind::Value => "value",
        }
    }

    /// The kind with this number.
    pub fn from_u8(b: u8) -> Option<BlockKind> {
        [
            BlockKind::Data,
            BlockKind::Index,
            BlockKind::Filter,
            BlockKind::Tombstones,
            BlockKind::Properties,
            BlockKind::Value,
        ]
        .into_iter()
        .find(|&k| k as u8 == b)
    }

    fn cap(self) -> usize {
        match self {
            BlockKind::Data | BlockKind::Value => MAX_DATA_BLOCK,
            BlockKind::Properties => MAX_PROPERTIES,
            BlockKind::Index | BlockKind::Filter | BlockKind::Tombstones => MAX_BLOCK,
        }
    }
}

/// A physical block's header, checked for form but not for its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// What it holds.
    pub kind: BlockKind,
    /// How it is stored.
    pub codec: Compression,
    /// Bytes that follow the header.
    pub stored_len: usize,
    /// Bytes after decompression.
    pub raw_len: usize,
    /// What the checksum must be.
    pub checksum: u32,
}

impl BlockHeader {
    /// Reads a header from the first 24 bytes of `bytes`. What is wrong, if it is none.
    pub fn read(bytes: &[u8]) -> Result<BlockHeader, &'static str> {
        let h = bytes.get(..BLOCK_HEADER).ok_or("a block header that is cut off")?;
        if h[..4] != BLOCK_MAGIC {
            return Err("no block begins here");
        }
        let kind = BlockKind::from_u8(h[4]).ok_or("a block of unknown kind")?;
        let codec = Compression::from_u8(h[5]).ok_or("a block of unknown compression")?;
        let (stored_len, raw_len) = (u32_at(h, 8) as usize, u32_at(h, 12) as usize);
        let sound = match codec {
            Compression::None => raw_len == stored_len,
            // Fingerprints are random bits.
            _ if kind == BlockKind::Filter => false,
            _ => raw_len <= stored_len.saturating_mul(MOST_SHRUNK),
        };
        if !sound || raw_len > kind.cap() || h[6..8] != [0; 2] || h[16..20] != [0; 4] {
            return Err("a block header that does not fit together");
        }
        Ok(BlockHeader { kind, codec, stored_len, raw_len, checksum: u32_at(h, 20) })
    }
}

/// A physical block whose checksum has been checked.
#[derive(Clone, Copy)]
pub struct StoredBlock<'a> {
    /// How long it is when decompressed.
    pub raw_len: usize,
    /// How it is stored.
    pub codec: Compression,
    /// The stored bytes.
    pub bytes: &'a [u8],
}

debug_by!(StoredBlock<'_>, "Stored", raw_len, codec);

impl<'a> StoredBlock<'a> {
    /// Checks the block of `kind` that fills `block` and lies at `offset` of file `id`. What is
    /// wrong, if it is not sound.
    pub fn check(
        block: &'a [u8],
        kind: BlockKind,
        id: u64,
        offset: u64,
    ) -> Result<StoredBlock<'a>, &'static str> {
        let h = BlockHeader::read(block)?;
        let bytes = &block[BLOCK_HEADER..];
        if bytes.len() != h.stored_len {
            return Err("a block of another length than the index says");
        }
        if checksum(id, offset, &[&block[..20], bytes]) != h.checksum {
            return Err("checksum mismatch");
        }
        if h.kind != kind {
            return Err("a block of another kind");
        }
        Ok(StoredBlock { raw_len: h.raw_len, codec: h.codec, bytes })
    }

    /// Decompresses into `out`, which must be `raw_len` long.
    pub fn unpack(&self, out: &mut [u8]) -> Result<(), &'static str> {
        match self.codec {
            _ if out.len() != self.raw_len => Err("a buffer of another length than the block"),
            Compression::None if out.len() == self.bytes.len() => {
                out.copy_from_slice(self.bytes);
                Ok(())
            }
            Compression::Zstd => zstd::unpack(self.bytes, out),
            Compression::Lz4
                if lz4_flex::block::decompress_into(self.bytes, out)
                    .is_ok_and(|n| n == self.raw_len) =>
            {
                Ok(())
            }
            _ => Err("a block that does not decompress"),
        }
    }

    /// The decompressed bytes. Nothing large is allocated for a length that the stored bytes do not
    /// have.
    pub fn to_vec(&self) -> Result<Vec<u8>, &'static str> {
        if self.raw_len > LARGE_BLOCK && self.own_len()? != Some(self.raw_len as u64) {
            return Err("a block that decompresses to another length than its header says");
        }
        let mut out = vec![];
        out.try_reserve_exact(self.raw_len).map_err(|_| NO_MEMORY)?;
        out.resize(self.raw_len, 0);
        self.unpack(&mut out)?;
        Ok(out)
    }
}

impl StoredBlock<'_> {
    /// The decompressed length, by the stored bytes alone.
    fn own_len(&self) -> Result<Option<u64>, &'static str> {
        Ok(match self.codec {
            Compression::None => Some(self.bytes.len() as u64),
            Compression::Lz4 => lz4::raw_len(self.bytes),
            Compression::Zstd => zstd::raw_len(self.bytes)?,
        })
    }
}

/// How many times as long as stored a block may be: no LZ4 block is more.
const MOST_SHRUNK: usize = 255;

/// Whether to store a block in so many bytes saves enough, an eighth, to be decoded for it.
fn pays(packed: usize, raw: &[u8]) -> bool {
    packed <= raw.len() - raw.len() / 8
}

/// The error that what is wrong with a block comes to: `Corruption`, unless it is this build or this
/// moment that lacks something.
pub fn block_error(what: &str) -> Error {
    let kind = match what {
        NO_ZSTD => ErrorKind::Incompatible,
        NO_MEMORY => ErrorKind::Exhausted,
        _ => ErrorKind::Corruption,
    };
    Error::new(kind, what)
}

/// Compresses blocks and puts headers before them.
pub(crate) struct Packer {
    id: u64,
    table: lz4_flex::block::CompressTable,
    zstd: zstd::ZstdPacker,
    packed: Vec<u8>,
}

impl Packer {
    pub fn new(id: u64) -> Packer {
        Packer { id, table: Default::default(), zstd: Default::default(), packed: vec![] }
    }

    /// Appends `raw` as a physical block to `out`, whose end is at `offset` of the file. Returns
    /// how many bytes that took, and whether the block is stored as it is.
    ///
    /// # Errors
    /// `InvalidArgument` when the block is too large for the format.
    pub fn pack(
        &mut self,
        out: &mut Vec<u8>,
        offset: u64,
        kind: BlockKind,
        codec: Compression,
        raw: &[u8],
    ) -> Result<(u32, bool)> {
        if raw.len() > kind.cap() {
            return Err(Error::invalid(format!(
                "a {} block of {} bytes is too large for a table",
                kind.name(),
                raw.len()
            )));
        }
        let packed = match codec {
            Compression::None => None,
            Compression::Lz4 => self.shrink(raw).map(|n| (codec, n)),
            Compression::Zstd => {
                match self.zstd.shrink(raw, &mut self.packed)?.filter(|&n| pays(n, raw)) {
                    Some(n) if raw.len() > n * MOST_SHRUNK => {
                        self.shrink(raw).map(|n| (Compression::Lz4, n))
                    }
                    packed => packed.map(|n| (codec, n)),
                }
            }
        };
        let (codec, stored) = match packed {
            Some((codec, n)) => (codec, &self.packed[..n]),
            None => (Compression::None, raw),
        };
        let len =
            self.seal(out, offset, kind, &StoredBlock { raw_len: raw.len(), codec, bytes: stored });
        Ok((len, packed.is_none()))
    }

    /// Appends bytes that are stored as they are to be, with their header. Returns how many bytes
    /// that took.
    pub fn seal(
        &self,
        out: &mut Vec<u8>,
        offset: u64,
        kind: BlockKind,
        block: &StoredBlock<'_>,
    ) -> u32 {
        let mut h = [0; BLOCK_HEADER];
        h[..4].copy_from_slice(&BLOCK_MAGIC);
        h[4] = kind as u8;
        h[5] = block.codec as u8;
        h[8..12].copy_from_slice(&(block.bytes.len() as u32).to_le_bytes());
        h[12..16].copy_from_slice(&(block.raw_len as u32).to_le_bytes());
        let crc = checksum(self.id, offset, &[&h[..20], block.bytes]);
        h[20..].copy_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&h);
        out.extend_from_slice(block.bytes);
        (BLOCK_HEADER + block.bytes.len()) as u32
    }

    /// Compresses into `packed`; the length, when that saves an eighth.
    fn shrink(&mut self, raw: &[u8]) -> Option<usize> {
        let bound = lz4_flex::block::get_maximum_output_size(raw.len());
        if self.packed.len() < bound {
            self.packed.resize(bound, 0);
        }
        let n = lz4_flex::block::compress_into_with_table(raw, &mut self.packed, &mut self.table)
            .ok()?;
        pays(n, raw).then_some(n)
    }
}

/// The footer. Lengths are those of physical blocks, headers included, and 0 where there is no such
/// block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The file's number.
    pub id: u64,
    /// Bytes of all data blocks together.
    pub data_len: u64,
    /// Bytes of the filter block.
    pub filter_len: u32,
    /// Bytes of the tombstone block.
    pub tombstones_len: u32,
    /// Bytes of the index block.
    pub index_len: u32,
    /// Bytes of the properties block.
    pub properties_len: u32,
    /// Which table it is, wherever the file lies.
    pub identity: TableIdentity,
}

impl Footer {
    /// Where the tombstone block begins.
    pub fn tombstones_at(&self) -> u64 {
        self.data_len + self.filter_len as u64
    }

    /// Where the index block begins.
    pub fn index_at(&self) -> u64 {
        self.tombstones_at() + self.tombstones_len as u64
    }

    /// Where the properties block begins.
    pub fn properties_at(&self) -> u64 {
        self.index_at() + self.index_len as u64
    }

    /// Where the footer itself begins.
    pub fn offset(&self) -> u64 {
        self.properties_at() + self.properties_len as u64
    }

    /// Whether it is that of a value file, which has no index.
    pub fn is_of_values(&self) -> bool {
        self.index_len == 0
    }

    /// The footer's bytes.
    pub(crate) fn encode(&self) -> [u8; FOOTER] {
        let mut f = [0; FOOTER];
        f[..8].copy_from_slice(&self.id.to_le_bytes());
        f[8..16].copy_from_slice(&self.data_len.to_le_bytes());
        for (i, v) in [self.filter_len, self.tombstones_len, self.index_len, self.properties_len]
            .into_iter()
            .enumerate()
        {
            f[16 + 4 * i..20 + 4 * i].copy_from_slice(&v.to_le_bytes());
        }
        f[32..40].copy_from_slice(&(self.offset() + FOOTER as u64).to_le_bytes());
        f[40..56].copy_from_slice(&self.identity.encode());
        f[60..64].copy_from_slice(&VERSION.to_le_bytes());
        f[64..].copy_from_slice(&FILE_MAGIC);
        let crc = checksum(self.id, self.offset(), &[&f[..56], &f[60..]]);
        f[56..60].copy_from_slice(&crc.to_le_bytes());
        f
    }

    /// The number of the table that these bytes are the sound footer of, at `offset`, whatever the
    /// file is called.
    pub fn own_id(f: &[u8; FOOTER], offset: u64) -> Option<u64> {
        let id = u64_at(f, 0);
        Footer::decode(f, Path::new(""), id, offset).is_ok().then_some(id)
    }

    /// Reads the footer `f` of file `id` at `offset`.
    ///
    /// # Errors
    /// `Incompatible` for a newer version, `Corruption` for anything else that is not the footer of
    /// this file at this place.
    pub fn decode(f: &[u8; FOOTER], path: &Path, id: u64, offset: u64) -> Result<Footer> {
        let bad = |what: &str| Error::corruption(what).at(path, offset).block("footer");
        if f[64..] != FILE_MAGIC {
            return Err(bad("not a table file, or one that is cut off"));
        }
        let version = u32_at(f, 60);
        if version > VERSION {
            return Err(Error::newer("the table", version, VERSION)
                .at(path, offset)
                .block("footer"));
        }
        let footer = Footer {
            id: u64_at(f, 0),
            data_len: u64_at(f, 8),
            filter_len: u32_at(f, 16),
            tombstones_len: u32_at(f, 20),
            index_len: u32_at(f, 24),
            properties_len: u32_at(f, 28),
            identity: TableIdentity { store: u64_at(f, 40), unique: u64_at(f, 48) },
        };
        if checksum(footer.id, offset, &[&f[..56], &f[60..]]) != u32_at(f, 56) {
            return Err(bad("checksum mismatch"));
        }
        if version != VERSION {
            return Err(bad("a footer that does not fit together"));
        }
        if footer.id != id {
            return Err(bad(&format!("this is table {}, not table {id}", footer.id)));
        }
        if footer.data_len > offset
            || footer.offset() != offset
            || u64_at(f, 32) != offset + FOOTER as u64
        {
            return Err(bad("the file has another length than its footer says"));
        }
        Ok(footer)
    }
}
