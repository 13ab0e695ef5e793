//! Common parts of the fuzz targets: files in memory, and *sealing*: giving damaged bytes valid
//! checksums, so that the fuzzer reaches the code that reads the protected data.
//!
//! Sealing follows `format-spec/README.md` and does not use the engine's writers, so it also
//! detects a disagreement of the two.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use firn_kv::fs::{FileMap, ReadFile, WriteFile};
use firn_kv::internals::util::checksum::checksum;
use firn_kv::{Error, Result};

pub mod model;
pub mod probe;

/// Returns the path in errors.
pub fn nowhere() -> &'static Path {
    Path::new("/fuzz")
}

/// A readable file, with or without a memory map.
pub struct Bytes {
    /// The contents.
    pub content: Vec<u8>,
    /// Whether it can be mapped.
    pub mapped: bool,
}

impl ReadFile for Bytes {
    fn len(&self) -> u64 {
        self.content.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let from = usize::try_from(offset).ok();
        let part = from.and_then(|at| self.content.get(at..at.checked_add(buf.len())?));
        buf.copy_from_slice(
            part.ok_or_else(|| Error::corruption("the file ends before").at(nowhere(), offset))?,
        );
        Ok(())
    }

    fn map(&self) -> Option<Arc<dyn FileMap>> {
        if self.mapped { Some(Arc::new(self.content.clone())) } else { None }
    }
}

/// A writable file with shared contents.
#[derive(Clone, Default)]
pub struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    /// Returns the written bytes.
    pub fn content(&self) -> Vec<u8> {
        self.0.lock().map(|b| b.clone()).unwrap_or_default()
    }
}

impl WriteFile for Sink {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Ok(mut b) = self.0.lock() {
            b.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        self.content().len() as u64
    }
}

fn put32(b: &mut [u8], at: usize, v: u32) {
    b[at..at + 4].copy_from_slice(&v.to_le_bytes());
}

fn get32(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

/// Repairs the checksums of a WAL segment's header and its records, as far as their lengths fit the
/// file. Types, sequence numbers and positions are unchanged.
pub fn seal_segment(b: &mut [u8], number: u64) {
    if b.len() < 80 {
        return;
    }
    b[..8].copy_from_slice(b"FIRNWAL\n");
    put32(b, 8, 1);
    b[16..24].copy_from_slice(&number.to_le_bytes());
    b[24] &= 0xf8;
    b[31] &= 0x3f;
    let crc = checksum(number, 0, &[&b[..76]]);
    put32(b, 76, crc);
    let mut at = 80;
    while at + 32 <= b.len() {
        let len = get32(b, at + 4) as usize;
        if len > b.len() - at - 32 || b[at + 12..at + 16] == [0; 4] {
            break;
        }
        put32(b, at + 8, get32(b, 64).wrapping_add(number as u32));
        let crc = checksum(number, at as u64, &[&b[at + 4..at + 32 + len]]);
        put32(b, at, crc);
        at += (32 + len).next_multiple_of(8);
    }
}

/// Repairs the checksums of a manifest's header and frames; truncates the first frame whose length
/// does not fit.
pub fn seal_manifest(b: &mut [u8], number: u64) {
    if b.len() < 16 {
        return;
    }
    b[..8].copy_from_slice(b"FIRNMAN\n");
    put32(b, 8, 1);
    let crc = checksum(number, 0, &[&b[..12]]);
    put32(b, 12, crc);
    let mut at = 16;
    while at + 8 <= b.len() {
        let left = b.len() - at - 8;
        let len = (get32(b, at) as usize).min(left);
        put32(b, at, len as u32);
        let crc = checksum(number, at as u64, &[&b[at..at + 4], &b[at + 8..at + 8 + len]]);
        put32(b, at + 4, crc);
        at += 8 + len;
    }
}

/// Returns a manifest file with these payloads.
pub fn manifest_of(number: u64, payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut b = vec![0; 16];
    for p in payloads {
        b.extend_from_slice(&(p.len() as u32).to_le_bytes());
        b.extend_from_slice(&[0; 4]);
        b.extend_from_slice(p);
    }
    seal_manifest(&mut b, number);
    b
}

/// Returns the text of a `CURRENT` file with these lines and a checksum.
pub fn current_of(lines: &str) -> String {
    format!("{lines}crc {:08x}\n", crc32fast::hash(lines.as_bytes()))
}

/// Returns a physical block at `offset` of table `id`.
pub fn block_of(id: u64, offset: u64, kind: u8, codec: u8, raw_len: u32, stored: &[u8]) -> Vec<u8> {
    let mut b = vec![0; 24];
    b[..4].copy_from_slice(b"FnB1");
    (b[4], b[5]) = (kind, codec);
    put32(&mut b, 8, stored.len() as u32);
    put32(&mut b, 12, raw_len);
    b.extend_from_slice(stored);
    seal_block(&mut b, id, offset);
    b
}

fn seal_block(b: &mut [u8], id: u64, offset: u64) {
    let crc = checksum(id, offset, &[&b[..20], &b[24..]]);
    put32(b, 20, crc);
}

/// Returns the footer of table `id` at `offset`, given the lengths of data, filter, tombstones,
/// index and properties, and the 16 bytes of its identity.
pub fn footer_of(id: u64, offset: u64, data_len: u64, lens: [u32; 4], identity: &[u8]) -> [u8; 72] {
    let mut f = [0; 72];
    f[..8].copy_from_slice(&id.to_le_bytes());
    f[8..16].copy_from_slice(&data_len.to_le_bytes());
    lens.iter().enumerate().for_each(|(i, &v)| put32(&mut f, 16 + 4 * i, v));
    f[32..40].copy_from_slice(&(offset + 72).to_le_bytes());
    f[40..56].copy_from_slice(identity);
    put32(&mut f, 60, 1);
    f[64..].copy_from_slice(b"FirnSST\n");
    let crc = checksum(id, offset, &[&f[..56], &f[60..]]);
    put32(&mut f, 56, crc);
    f
}

/// Repairs every block of a table file, and its footer. Finds blocks by their headers, front to
/// back; truncates a block whose length does not fit.
pub fn seal_table(b: &mut [u8], id: u64) {
    let Some(end) = b.len().checked_sub(72) else { return };
    let (mut at, mut data_len, mut lens) = (0, 0, [0u32; 4]);
    while at + 24 <= end {
        let len = (get32(b, at + 8) as usize).min(end - at - 24);
        b[at..at + 4].copy_from_slice(b"FnB1");
        put32(b, at + 8, len as u32);
        if b[at + 5] == 0 {
            put32(b, at + 12, len as u32);
        }
        (b[at + 6], b[at + 7]) = (0, 0);
        put32(b, at + 16, 0);
        let whole = 24 + len;
        match b[at + 4] {
            3 => lens[0] = whole as u32,
            4 => lens[1] = whole as u32,
            2 => lens[2] = whole as u32,
            5 => lens[3] = whole as u32,
            _ => data_len += whole as u64,
        }
        seal_block(&mut b[at..at + whole], id, at as u64);
        at += whole;
    }
    let footer = footer_of(id, end as u64, data_len, lens, &b[end + 40..end + 56]);
    b[end..].copy_from_slice(&footer);
}

/// Returns the file number in a name such as `00000007.wal`, `MANIFEST-000003` or `000012.sst`.
pub fn number_of(path: &Path) -> Option<u64> {
    let name = PathBuf::from(path.file_name()?);
    let name = name.to_str()?;
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Seals a file of a store by the type in its name.
pub fn seal_file(path: &Path, b: &mut Vec<u8>) {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
    let number = number_of(path).unwrap_or(0);
    if name.ends_with(".wal") {
        seal_segment(b, number);
    } else if name.starts_with("MANIFEST-") {
        seal_manifest(b, number);
    } else if name == "CURRENT" {
        let text = String::from_utf8_lossy(b).into_owned();
        let lines = text.rsplit_once("crc ").map_or(&*text, |(l, _)| l);
        *b = current_of(lines).into_bytes();
    } else {
        seal_table(b, number);
    }
}
