//! Reader of `Data.db` by chunks: verifies and decompresses (`FORMAT.md`, "Compression" and
//! "Checksums").

use std::io::{Cursor, Read};

use crate::cursor::ByteCursor;
use crate::fault::{BytesFault, NodeFault, NodeFaultKind};
use crate::files::{FileVersion, NodeFiles, NodePart, open_part, read_part};
use crate::format::{CHECKSUMS, COMPRESSION, Codec, DATA, DIGEST};

/// Longest accepted chunk in bytes; a table's `chunk_length_in_kb` is usually 4 to 64.
const MOST_CHUNK: u32 = 64 << 20;
/// Largest accepted list of chunks in bytes: chunks of 4 KiB of a file of 1 TiB.
const MOST_LIST: u64 = 2 << 30;
/// Bytes of one read if no chunk length is known.
const PLAIN_CHUNK: u32 = 64 << 10;

/// Division of the file into chunks.
#[derive(Debug)]
enum Cut {
    /// Compressed: offsets of the chunks, and the stored length from which on a chunk is
    /// uncompressed.
    Compressed { codec: Codec, offsets: Vec<u64>, plain_from: u64 },
    /// Uncompressed: the checksums of the chunks, if present.
    Plain { sums: Vec<u32> },
}

/// Reads a file's chunks in order.
pub(crate) struct ChunkReader {
    data: NodePart,
    path: std::path::PathBuf,
    cut: Cut,
    chunk_length: u32,
    /// Total decompressed bytes.
    pub len: u64,
    next: usize,
    /// Offset of the next chunk in the file.
    at: u64,
    /// Decompressed bytes read so far.
    done: u64,
    stored: Vec<u8>,
    hasher: crc32fast::Hasher,
    /// Expected checksum of the whole file.
    digest: Option<u32>,
}

impl ChunkReader {
    pub(crate) fn open(
        files: &dyn NodeFiles,
        version: FileVersion,
    ) -> Result<ChunkReader, NodeFault> {
        let data = open_part(files, DATA)?;
        let digest = digest(files)?;
        let (cut, chunk_length, len) = match read_part(files, COMPRESSION, MOST_LIST)? {
            Some(bytes) => compressed(&bytes, version, data.len)
                .map_err(|e| NodeFault::damaged(&files.path(COMPRESSION), e.at, e.why))?,
            None => {
                let (sums, chunk_length) = checksums(files, data.len)?;
                (Cut::Plain { sums }, chunk_length, data.len)
            }
        };
        Ok(ChunkReader {
            path: files.path(DATA),
            data,
            cut,
            chunk_length,
            len,
            next: 0,
            at: 0,
            done: 0,
            stored: vec![],
            hasher: crc32fast::Hasher::new(),
            digest,
        })
    }

    fn fault<T>(&self, why: impl Into<String>) -> Result<T, NodeFault> {
        Err(NodeFault::damaged(&self.path, self.at, why))
    }

    /// Appends the next chunk; returns false after the last one, if the checksum of the whole file
    /// is correct.
    pub(crate) fn append(&mut self, out: &mut Vec<u8>) -> Result<bool, NodeFault> {
        let Some(stored_len) = self.stored_len() else { return self.end() };
        // A claimed length does not allocate memory by itself: only bytes that were read do.
        self.stored.clear();
        let mut source = (&mut self.data.reader).take(stored_len);
        source.read_to_end(&mut self.stored).map_err(|e| NodeFault::io(&self.path, &e))?;
        if self.stored.len() as u64 != stored_len {
            return self.fault(format!(
                "the file ends in a chunk of {stored_len} bytes, of which {} are there",
                self.stored.len()
            ));
        }
        self.hasher.update(&self.stored);
        let want = (self.len - self.done).min(u64::from(self.chunk_length)) as usize;
        let start = out.len();
        match &self.cut {
            Cut::Plain { sums } => {
                if sums.get(self.next).is_some_and(|s| *s != crc32fast::hash(&self.stored)) {
                    return self.fault("the checksum of this chunk is not the one in CRC.db");
                }
                out.extend_from_slice(&self.stored);
            }
            Cut::Compressed { codec, plain_from, .. } => {
                let Some((content, sum)) = self.stored.split_last_chunk::<4>() else {
                    return self.fault("a chunk is shorter than its checksum");
                };
                if crc32fast::hash(content) != u32::from_be_bytes(*sum) {
                    return self.fault("the checksum of this chunk is another one");
                }
                let plain = content.len() as u64 >= *plain_from;
                let codec = if plain { Codec::None } else { *codec };
                if let Err(why) = decompress(codec, content, want, out) {
                    out.truncate(start);
                    return self.fault(format!("this chunk can't be decompressed: {why}"));
                }
            }
        }
        if out.len() - start != want {
            let len = out.len() - start;
            return self.fault(format!("this chunk has {len} bytes, and {want} were promised"));
        }
        self.next += 1;
        self.at += stored_len;
        self.done += want as u64;
        Ok(true)
    }

    /// Returns the stored length of the next chunk.
    fn stored_len(&self) -> Option<u64> {
        match &self.cut {
            Cut::Compressed { offsets, .. } => {
                offsets.get(self.next)?;
                // Offsets rise (`compressed` has checked it).
                let end = offsets.get(self.next + 1).copied().unwrap_or(self.data.len);
                Some(end - self.at)
            }
            Cut::Plain { .. } => {
                let left = self.len - self.done;
                (left > 0).then_some(left.min(u64::from(self.chunk_length)))
            }
        }
    }

    fn end(&self) -> Result<bool, NodeFault> {
        let found = self.hasher.clone().finalize();
        match self.digest {
            Some(digest) if digest != found => Err(NodeFault::new(
                NodeFaultKind::Damaged,
                &self.path,
                format!("the checksum of the file is {found}, and {DIGEST} says {digest}"),
            )),
            _ => Ok(false),
        }
    }
}

fn digest(files: &dyn NodeFiles) -> Result<Option<u32>, NodeFault> {
    let Some(bytes) = read_part(files, DIGEST, 1 << 10)? else { return Ok(None) };
    let text = std::str::from_utf8(&bytes).ok().and_then(|t| t.trim().parse().ok());
    match text {
        Some(sum) => Ok(Some(sum)),
        None => Err(NodeFault::damaged(&files.path(DIGEST), 0, "this is no checksum")),
    }
}

fn checksums(files: &dyn NodeFiles, len: u64) -> Result<(Vec<u32>, u32), NodeFault> {
    let Some(bytes) = read_part(files, CHECKSUMS, MOST_LIST)? else {
        return Ok((vec![], PLAIN_CHUNK));
    };
    let fault = |at, why: String| Err(NodeFault::damaged(&files.path(CHECKSUMS), at, why));
    let Some((chunk, sums)) = bytes.split_first_chunk::<4>() else {
        return fault(0, "it is shorter than the length of a chunk".to_owned());
    };
    let chunk = u32::from_be_bytes(*chunk);
    if chunk == 0 || chunk > MOST_CHUNK {
        return fault(0, format!("chunks of {chunk} bytes"));
    }
    let (sums, rest) = sums.as_chunks::<4>();
    let want = len.div_ceil(u64::from(chunk));
    if !rest.is_empty() || (sums.len() as u64) < want {
        return fault(4, format!("{} checksums for {want} chunks", sums.len()));
    }
    Ok((sums.iter().map(|s| u32::from_be_bytes(*s)).collect(), chunk))
}

fn compressed(
    bytes: &[u8],
    version: FileVersion,
    file_len: u64,
) -> Result<(Cut, u32, u64), BytesFault> {
    let mut c = ByteCursor::new(bytes, 0);
    let name = c.text("the name of the codec")?;
    let Some(codec) = Codec::named(name) else {
        return Err(BytesFault::new(0, format!("nobody knows the codec {name:?}")));
    };
    for _ in 0..c.u32("the number of options")? {
        c.text("the name of an option")?;
        c.text("the value of an option")?;
    }
    let at = c.offset();
    let chunk_length = c.u32("the length of a chunk")?;
    if chunk_length == 0 || chunk_length > MOST_CHUNK {
        return Err(BytesFault::new(at, format!("chunks of {chunk_length} bytes")));
    }
    let plain_from = match version.plain_chunks {
        true => u64::from(c.u32("the length of plain chunks")?),
        false => u64::MAX,
    };
    let at = c.offset();
    let len = c.u64("the length of the data")?;
    let count = c.u32("the number of chunks")?;
    let want = len.div_ceil(u64::from(chunk_length));
    // Compactions leave empty chunks at the end.
    if u64::from(count) < want || c.left() as u64 != u64::from(count) * 8 {
        let left = c.left();
        return Err(BytesFault::new(
            at,
            format!("{len} bytes are {want} chunks, and {count} are said, in {left} bytes"),
        ));
    }
    let mut offsets = Vec::with_capacity(count as usize);
    for i in 0..count {
        let at = c.offset();
        let offset = c.u64("the place of a chunk")?;
        let before = offsets.last().copied();
        let rises = before.map_or(offset == 0, |b| offset > b);
        if !rises || offset >= file_len {
            let why = format!("chunk {i} begins at {offset}, in a file of {file_len} bytes");
            return Err(BytesFault::new(at, why));
        }
        offsets.push(offset);
    }
    Ok((Cut::Compressed { codec, offsets, plain_from }, chunk_length, len))
}

/// Appends at most `want` bytes.
fn decompress(codec: Codec, content: &[u8], want: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let start = out.len();
    match codec {
        Codec::None => out.extend_from_slice(content),
        Codec::Lz4 => {
            let (len, block) = content.split_first_chunk::<4>().ok_or("it has no length")?;
            let len = u32::from_le_bytes(*len);
            if len as usize != want {
                return Err(format!("it says that it has {len} bytes, not {want}"));
            }
            out.resize(start + want, 0);
            let n = lz4_flex::block::decompress_into(block, &mut out[start..])
                .map_err(|e| e.to_string())?;
            out.truncate(start + n);
        }
        Codec::Snappy => {
            let len = snap::raw::decompress_len(content).map_err(|e| e.to_string())?;
            if len != want {
                return Err(format!("it says that it has {len} bytes, not {want}"));
            }
            out.resize(start + want, 0);
            let n = snap::raw::Decoder::new()
                .decompress(content, &mut out[start..])
                .map_err(|e| e.to_string())?;
            out.truncate(start + n);
        }
        Codec::Deflate => {
            let plain = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(content, want)
                .map_err(|e| e.to_string())?;
            out.extend_from_slice(&plain);
        }
        Codec::Zstd => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(Cursor::new(content))
                .map_err(|e| e.to_string())?;
            decoder.take(want as u64 + 1).read_to_end(out).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}
