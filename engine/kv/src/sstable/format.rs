//! Physical layout of a table file: a sequence of blocks and a footer. All integers are
//! little-endian.
//!
//! A file has, in this order: data blocks in key order, an optional filter block, an optional range
//! tombstone block, the index block, the properties block, the footer. Blocks are contiguous from
//! offset 0. So a file whose index is lost can be scanned by the block headers alone.
//!
//! A physical block is a 24-byte header followed by `stored_len` bytes:
//! ```text
//! 0   4 bytes  "FnB1"
//! 4   u8       kind: 1 data, 2 index, 3 filter, 4 tombstones, 5 properties,
//!              6 blob (in blob files only)
//! 5   u8       codec: 0 uncompressed, 1 LZ4 block format, 2 a Zstandard frame
//! 6   u16      0
//! 8   u32      stored_len
//! 12  u32      raw_len: length after decompression; equals stored_len with codec 0
//! 16  u32      0
//! 20  u32      CRC-32 over: file id u64, offset of the block in the file u64,
//!              bytes 0..20 of the header, the stored bytes
//! ```
//! The footer is the last 72 bytes:
//! ```text
//! 0   u64      file id
//! 8   u64      length of all data blocks together, which is the offset of the block after them
//! 16  u32      length of the filter block with its header, 0 when there is none
//! 20  u32      length of the tombstone block, 0 when there is none
//! 24  u32      length of the index block
//! 28  u32      length of the properties block
//! 32  u64      length of the file, footer included
//! 40  u64      id of the store that wrote the table, 0 when no store did
//! 48  u64      a random number of the table's own, 0 when no store wrote it
//! 56  u32      CRC-32 over: file id u64, offset of the footer u64, bytes 0..56,
//!              bytes 60..72
//! 60  u32      format version, now 1
//! 64  8 bytes  "FirnSST\n"
//! ```
//! Invariants:
//! - F1: a checksum covers every byte of a file; it includes the file id and the offset.
//! - F2: the reader allocates memory for a declared length only after checking it. The length must
//!   be within the file, within the kind's cap, and within 255 times the stored bytes. LZ4 cannot
//!   shrink more than 255-fold; blocks that Zstandard shrinks more are stored as LZ4. For a block
//!   that is read whole, the stored bytes must also declare the same length.
//! - F3: the version and the magic number stay the last 12 bytes in every later version. So an
//!   older reader refuses a newer file as newer.

use std::path::Path;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::format_version::FormatVersion;
use crate::base::identity::TableIdentity;
use crate::base::key::{MAX_KEY_LEN, MAX_VALUE_LEN};
use crate::base::options::{Compression, NO_MEMORY, NO_ZSTD};
use crate::util::checksum::checksum;
use crate::util::coding::{u32_at, u64_at};

use super::{lz4, zstd};

/// Length of a block header in bytes.
pub const BLOCK_HEADER: usize = 24;
/// Length of the footer in bytes.
pub const FOOTER: usize = 72;
/// Maximum decoded data block in bytes: one entry of maximum key and value, plus overhead.
pub const MAX_DATA_BLOCK: usize = MAX_VALUE_LEN + 2 * MAX_KEY_LEN + 4096;

/// Maximum properties block in bytes: key bounds, a summary, and 600,000 blob files.
pub const MAX_PROPERTIES: usize = 16 << 20;
/// Maximum index, filter and tombstone block in bytes. Its length with the header has 32 bits.
pub const MAX_BLOCK: usize = u32::MAX as usize - BLOCK_HEADER;
/// Blocks up to this many bytes are allocated from the header's length alone.
const LARGE_BLOCK: usize = 64 << 10;

const BLOCK_MAGIC: [u8; 4] = *b"FnB1";
const FILE_MAGIC: [u8; 8] = *b"FirnSST\n";

/// Kind of a physical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockKind {
    /// Entries.
    Data = 1,
    /// Locations of the data blocks.
    Index = 2,
    /// The table's filter.
    Filter = 3,
    /// Range tombstones.
    Tombstones = 4,
    /// Properties of the table.
    Properties = 5,
    /// A blob: a value stored separately from its entry, in blob files only.
    Blob = 6,
}

impl BlockKind {
    /// Returns the kind's name, as printed.
    pub fn name(self) -> &'static str {
        match self {
            BlockKind::Data => "data",
            BlockKind::Index => "index",
            BlockKind::Filter => "filter",
            BlockKind::Tombstones => "tombstones",
            BlockKind::Properties => "properties",
            BlockKind::Blob => "blob",
        }
    }

    /// Returns the kind with this number.
    pub fn from_u8(b: u8) -> Option<BlockKind> {
        [
            BlockKind::Data,
            BlockKind::Index,
            BlockKind::Filter,
            BlockKind::Tombstones,
            BlockKind::Properties,
            BlockKind::Blob,
        ]
        .into_iter()
        .find(|&k| k as u8 == b)
    }

    fn cap(self) -> usize {
        match self {
            BlockKind::Data | BlockKind::Blob => MAX_DATA_BLOCK,
            BlockKind::Properties => MAX_PROPERTIES,
            BlockKind::Index | BlockKind::Filter | BlockKind::Tombstones => MAX_BLOCK,
        }
    }
}

/// A physical block's header. Its form is checked, its checksum is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// Kind of the block.
    pub kind: BlockKind,
    /// Codec of the stored bytes.
    pub codec: Compression,
    /// Number of bytes that follow the header.
    pub stored_len: usize,
    /// Number of bytes after decompression.
    pub raw_len: usize,
    /// Expected checksum.
    pub checksum: u32,
}

impl BlockHeader {
    /// Reads a header from the first 24 bytes of `bytes`. Returns a description of the fault if
    /// they are not a header.
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
            // Fingerprints are random bits, so filters are never compressed.
            _ if kind == BlockKind::Filter => false,
            _ => raw_len <= stored_len.saturating_mul(MAX_COMPRESSION_RATIO),
        };
        if !sound || raw_len > kind.cap() || h[6..8] != [0; 2] || h[16..20] != [0; 4] {
            return Err("a block header that does not fit together");
        }
        Ok(BlockHeader { kind, codec, stored_len, raw_len, checksum: u32_at(h, 20) })
    }
}

/// A physical block whose checksum has been verified.
#[derive(Clone, Copy)]
pub struct StoredBlock<'a> {
    /// Decompressed length in bytes.
    pub raw_len: usize,
    /// Codec of the stored bytes.
    pub codec: Compression,
    /// The stored bytes.
    pub bytes: &'a [u8],
}

debug_by!(StoredBlock<'_>, "StoredBlock", raw_len, codec);

impl<'a> StoredBlock<'a> {
    /// Verifies the block of `kind` that fills `block` and is at `offset` of file `id`. Returns a
    /// description of the fault if it is invalid.
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

    /// Decompresses into `out`, whose length must be `raw_len`.
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

    /// Returns the decompressed bytes. For a large block, allocates memory only if the stored bytes
    /// declare the same length as the header.
    pub fn to_vec(self) -> Result<Vec<u8>, &'static str> {
        if self.raw_len > LARGE_BLOCK && self.declared_raw_len()? != Some(self.raw_len as u64) {
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
    /// Returns the decompressed length according to the stored bytes alone.
    fn declared_raw_len(&self) -> Result<Option<u64>, &'static str> {
        Ok(match self.codec {
            Compression::None => Some(self.bytes.len() as u64),
            Compression::Lz4 => lz4::raw_len(self.bytes),
            Compression::Zstd => zstd::raw_len(self.bytes)?,
        })
    }
}

/// Maximum ratio of decompressed to stored length; no LZ4 block exceeds it.
const MAX_COMPRESSION_RATIO: usize = 255;

/// Reports whether compression to `packed` bytes saves at least an eighth, which justifies
/// decoding.
fn pays(packed: usize, raw: &[u8]) -> bool {
    packed <= raw.len() - raw.len() / 8
}

/// Converts the description of a block fault into an error. The kind is `Corruption`, unless this
/// build lacks a codec or memory is exhausted.
pub fn block_error(what: &str) -> Error {
    let kind = match what {
        NO_ZSTD => ErrorKind::Incompatible,
        NO_MEMORY => ErrorKind::Exhausted,
        _ => ErrorKind::Corruption,
    };
    Error::new(kind, what)
}

/// Compresses blocks and prepends headers.
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
    /// the number of bytes appended, and whether the block is uncompressed.
    ///
    /// # Errors
    /// `InvalidArgument` if the block is too large for the format.
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
                    Some(n) if raw.len() > n * MAX_COMPRESSION_RATIO => {
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

    /// Appends already encoded bytes as a block with its header. Returns the number of bytes
    /// appended.
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

    /// Compresses into `packed`. Returns the length if that saves an eighth.
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

/// Table footer. Lengths are those of physical blocks with their headers, and 0 if there is no such
/// block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Format version of the file.
    pub version: FormatVersion,
    /// File id.
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
    /// Identity of the table, which does not depend on the file's path.
    pub identity: TableIdentity,
}

impl Footer {
    /// Returns the offset of the tombstone block.
    pub fn tombstones_at(&self) -> u64 {
        self.data_len + self.filter_len as u64
    }

    /// Returns the offset of the index block.
    pub fn index_at(&self) -> u64 {
        self.tombstones_at() + self.tombstones_len as u64
    }

    /// Returns the offset of the properties block.
    pub fn properties_at(&self) -> u64 {
        self.index_at() + self.index_len as u64
    }

    /// Returns the offset of the footer.
    pub fn offset(&self) -> u64 {
        self.properties_at() + self.properties_len as u64
    }

    /// Reports whether this is the footer of a blob file, which has no index.
    pub fn is_of_values(&self) -> bool {
        self.index_len == 0
    }

    /// Returns the footer's bytes.
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
        f[60..64].copy_from_slice(&self.version.number().to_le_bytes());
        f[64..].copy_from_slice(&FILE_MAGIC);
        let crc = checksum(self.id, self.offset(), &[&f[..56], &f[60..]]);
        f[56..60].copy_from_slice(&crc.to_le_bytes());
        f
    }

    /// Returns the file id in the footer `f` at `offset` if the footer is valid. The file name does
    /// not matter.
    pub fn own_id(f: &[u8; FOOTER], offset: u64) -> Option<u64> {
        let id = u64_at(f, 0);
        Footer::decode(f, Path::new(""), id, offset).is_ok().then_some(id)
    }

    /// Decodes the footer `f` of file `id` at `offset`.
    ///
    /// # Errors
    /// `Incompatible` for a newer version. `Corruption` if it is not a valid footer of this file at
    /// this offset.
    pub fn decode(f: &[u8; FOOTER], path: &Path, id: u64, offset: u64) -> Result<Footer> {
        let bad = |what: &str| Error::corruption(what).at(path, offset).block("footer");
        if f[64..] != FILE_MAGIC {
            return Err(bad("not a table file, or one that is cut off"));
        }
        let version = u32_at(f, 60);
        let newest = FormatVersion::newest().number();
        if version > newest {
            return Err(Error::newer("the table", version, newest)
                .at(path, offset)
                .block("footer"));
        }
        let own_id = u64_at(f, 0);
        if checksum(own_id, offset, &[&f[..56], &f[60..]]) != u32_at(f, 56) {
            return Err(bad("checksum mismatch"));
        }
        let known = FormatVersion::known(version);
        let footer = Footer {
            version: known.ok_or_else(|| bad("a footer that does not fit together"))?,
            id: own_id,
            data_len: u64_at(f, 8),
            filter_len: u32_at(f, 16),
            tombstones_len: u32_at(f, 20),
            index_len: u32_at(f, 24),
            properties_len: u32_at(f, 28),
            identity: TableIdentity { store: u64_at(f, 40), unique: u64_at(f, 48) },
        };
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
