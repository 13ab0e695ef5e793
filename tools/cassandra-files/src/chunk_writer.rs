//! Writer of `Data.db` by chunks, with the related parts: `CompressionInfo.db` or `CRC.db`, and
//! `Digest.crc32` (`FORMAT.md`, "Compression" and "Checksums").

use crate::encode::put_short;
use crate::fault::NodeFault;
use crate::files::NodeSink;
use crate::format::{CHECKSUMS, COMPRESSION, Codec, DATA, DIGEST};
use crate::part_writer::OpenPart;

/// Uncompressed bytes of a compressed chunk, the nodes' default since 4.0.
const COMPRESSED_CHUNK: usize = 16 << 10;
/// Bytes per checksum without compression.
const PLAIN_CHUNK: usize = 64 << 10;

/// Writes a file's content.
pub(crate) struct ChunkWriter {
    data: OpenPart,
    codec: Codec,
    chunk: usize,
    /// Bytes that are not in a chunk yet.
    waiting: Vec<u8>,
    stored: Vec<u8>,
    /// Offsets of compressed chunks.
    offsets: Vec<u64>,
    /// Checksums of uncompressed chunks.
    sums: Vec<u32>,
    hasher: crc32fast::Hasher,
    /// Bytes of content so far.
    pub len: u64,
}

impl ChunkWriter {
    pub(crate) fn create(sink: &dyn NodeSink, compressed: bool) -> Result<ChunkWriter, NodeFault> {
        let (codec, chunk) = match compressed {
            true => (Codec::Lz4, COMPRESSED_CHUNK),
            false => (Codec::None, PLAIN_CHUNK),
        };
        Ok(ChunkWriter {
            data: OpenPart::create(sink, DATA)?,
            codec,
            chunk,
            waiting: vec![],
            stored: vec![],
            offsets: vec![],
            sums: vec![],
            hasher: crc32fast::Hasher::new(),
            len: 0,
        })
    }

    /// Returns the fault of data that cannot be written.
    pub(crate) fn refuse(&self, why: impl Into<String>) -> NodeFault {
        self.data.refuse(why)
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), NodeFault> {
        self.len += bytes.len() as u64;
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() < self.chunk {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.waiting);
        let chunks = waiting.chunks_exact(self.chunk);
        self.waiting.extend_from_slice(chunks.remainder());
        for chunk in chunks {
            self.chunk(chunk)?;
        }
        Ok(())
    }

    fn chunk(&mut self, content: &[u8]) -> Result<(), NodeFault> {
        if self.codec == Codec::None {
            self.sums.push(crc32fast::hash(content));
            self.hasher.update(content);
            return self.data.put(content);
        }
        self.stored.clear();
        // A chunk is far shorter than 4 GiB.
        self.stored.extend_from_slice(&(content.len() as u32).to_le_bytes());
        self.stored.extend_from_slice(&lz4_flex::block::compress(content));
        let sum = crc32fast::hash(&self.stored);
        self.stored.extend_from_slice(&sum.to_be_bytes());
        self.offsets.push(self.data.len);
        self.hasher.update(&self.stored);
        self.data.put(&self.stored)
    }

    /// Writes the rest and the related parts. Returns their names, and the compression ratio if
    /// compressed.
    pub(crate) fn finish(
        mut self,
        sink: &dyn NodeSink,
    ) -> Result<(Vec<&'static str>, Option<f64>), NodeFault> {
        let waiting = std::mem::take(&mut self.waiting);
        if !waiting.is_empty() {
            self.chunk(&waiting)?;
        }
        let (stored, len) = (self.data.len, self.len);
        let ratio = (self.codec != Codec::None).then(|| stored as f64 / len.max(1) as f64);
        self.data.finish()?;
        let sum = self.hasher.finalize().to_string();
        OpenPart::whole(sink, DIGEST, sum.as_bytes())?;
        let chunk = (self.chunk as u32).to_be_bytes();
        if ratio.is_none() {
            let sums: Vec<u8> = self.sums.iter().flat_map(|s| s.to_be_bytes()).collect();
            OpenPart::whole(sink, CHECKSUMS, &[&chunk[..], &sums].concat())?;
            return Ok((vec![DATA, DIGEST, CHECKSUMS], None));
        }
        let mut info = vec![];
        let named = put_short(&mut info, self.codec.class().as_bytes());
        debug_assert!(named, "the names of codecs are short");
        // No options, and a maximum length at which no chunk is stored uncompressed.
        info.extend_from_slice(&0_u32.to_be_bytes());
        info.extend_from_slice(&chunk);
        info.extend_from_slice(&i32::MAX.to_be_bytes());
        info.extend_from_slice(&len.to_be_bytes());
        info.extend_from_slice(&(self.offsets.len() as u32).to_be_bytes());
        info.extend(self.offsets.iter().flat_map(|o| o.to_be_bytes()));
        OpenPart::whole(sink, COMPRESSION, &info)?;
        Ok((vec![DATA, DIGEST, COMPRESSION], ratio))
    }
}
