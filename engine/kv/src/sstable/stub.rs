//! Stubs: the decoded part of a one-entry block whose value is not needed yet.
//!
//! A merging cursor is often positioned at entries of which it needs only key and trailer. These
//! are older versions, and keys that come after another source's key. For a large entry in its own
//! block, decoding the block would be nearly the whole cost.
//!
//! Invariants:
//! - The stored bytes have passed their checksum before any of them is decoded.
//! - A stub is a valid block itself, with the same key and trailer as the whole one, and an empty
//!   value. If no stub can be made, the whole block is decoded, which reports any fault.
//! - When a reader passes a block without reading its value, the stub is cached in separate slots.
//!   The next reader then need not read the block.

use super::block::{HEADER, WIDE};
use super::block_access::LARGEST_SCRATCH;
use super::format::StoredBlock;
use super::search::Block;
use crate::base::key::MAX_KEY_LEN;
use crate::base::options::Compression;
use crate::util::coding::{ByteReader, u32_at};

/// Maximum bytes decoded of a block for its stub. A longer key is decoded with its value.
const START: usize = 512;

/// Stored bytes of a block whose value is not decoded yet.
#[derive(Default)]
pub(super) struct Undecoded {
    /// Whether there is a block.
    is_there: bool,
    bytes: Vec<u8>,
    raw_len: usize,
    codec: Compression,
}

impl Undecoded {
    /// Stores `block` and writes its stub into `stub`. Returns false if the block must be decoded
    /// as a whole.
    pub fn take(&mut self, block: &StoredBlock<'_>, stub: &mut Vec<u8>) -> bool {
        let made = make(block, stub).is_some();
        if made {
            self.bytes.clear();
            self.bytes.extend_from_slice(block.bytes);
            (self.raw_len, self.codec) = (block.raw_len, block.codec);
        }
        self.is_there = made;
        made
    }

    /// Drops the block. Frees a large buffer, which would otherwise live as long as the cursor and
    /// which no cache counts.
    pub fn forget(&mut self) {
        self.is_there = false;
        if self.bytes.capacity() > LARGEST_SCRATCH {
            self.bytes = vec![];
        }
    }

    /// Returns the stored block, if it was read.
    pub fn stored(&self) -> Option<StoredBlock<'_>> {
        let Undecoded { raw_len, codec, ref bytes, .. } = *self;
        self.is_there.then_some(StoredBlock { raw_len, codec, bytes })
    }
}

fn make(block: &StoredBlock<'_>, stub: &mut Vec<u8>) -> Option<()> {
    let mut start = [0; START];
    let len = match block.codec {
        Compression::None => {
            let len = block.bytes.len().min(START);
            start[..len].copy_from_slice(&block.bytes[..len]);
            len
        }
        Compression::Lz4 => unpack_start(block.bytes, &mut start)?,
        Compression::Zstd => return None,
    };
    cut(&start[..len], block.raw_len, stub)?;
    Block::new(stub)?.validate().ok()
}

/// Writes the block into `stub` without its value. The block begins with `start` and is `raw_len`
/// long.
fn cut(start: &[u8], raw_len: usize, stub: &mut Vec<u8>) -> Option<()> {
    let header = start.get(..HEADER)?;
    let prefix_len = u16::from_le_bytes([header[4], header[5]]) as usize;
    let offset_len = if header[6] & WIDE != 0 { 4 } else { 2 };
    let end_at = HEADER + 8 + offset_len;
    let entries = end_at + offset_len + prefix_len;
    let offset = |at: usize| {
        let bytes = start.get(at..at + offset_len)?;
        Some(bytes.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b)))
    };
    if u32_at(header, 0) != 1 || entries.checked_add(offset(end_at)?)? != raw_len {
        return None;
    }
    let at = entries + usize::from(header[7]);
    let mut entry = ByteReader::new(start.get(at..)?);
    let suffix_len = entry.len(MAX_KEY_LEN)?;
    let value_at = at + entry.position() + suffix_len.saturating_sub(8);
    stub.clear();
    stub.extend_from_slice(start.get(..value_at)?);
    let end = u32::try_from(value_at - entries).ok()?.to_le_bytes();
    stub[end_at..end_at + offset_len].copy_from_slice(&end[..offset_len]);
    Some(())
}

/// Decodes the beginning of the LZ4 block `packed`, up to the length of `out`. Returns the decoded
/// length; `None` if it cannot be decoded.
fn unpack_start(mut packed: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let token = take(&mut packed)?;
        let literals = length(token >> 4, &mut packed)?;
        let (copied, rest) = packed.split_at_checked(literals)?;
        packed = rest;
        let n = copied.len().min(out.len() - at);
        out[at..at + n].copy_from_slice(&copied[..n]);
        at += n;
        // The last sequence has literals only.
        if at == out.len() || packed.is_empty() {
            return Some(at);
        }
        let back = usize::from(u16::from_le_bytes([take(&mut packed)?, take(&mut packed)?]));
        let n = length(token & 15, &mut packed)?.checked_add(4)?.min(out.len() - at);
        let from = at.checked_sub(back).filter(|_| back > 0)?;
        for i in 0..n {
            out[at + i] = out[from + i];
        }
        at += n;
        if at == out.len() {
            return Some(at);
        }
    }
}

fn take(packed: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = packed.split_first()?;
    *packed = rest;
    Some(first)
}

/// Reads a length; `code` is its first four bits.
fn length(code: u8, packed: &mut &[u8]) -> Option<usize> {
    let mut n = usize::from(code);
    if code == 15 {
        loop {
            let more = take(packed)?;
            n = n.checked_add(usize::from(more))?;
            if more < u8::MAX {
                break;
            }
        }
    }
    Some(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::{Kind, Trailer};
    use crate::sstable::block::BlockBuilder;
    use proptest::prelude::*;

    fn packed(raw: &[u8]) -> Vec<u8> {
        lz4_flex::block::compress(raw)
    }

    proptest! {
        #[test]
        fn what_is_decoded_first_is_how_all_of_it_begins(pieces in prop::collection::vec((any::<u8>(), 1usize..400, any::<bool>()), 0..12), room in 0usize..1500) {
            let raw: Vec<u8> = pieces.iter().flat_map(|&(b, n, same)| (0..n).map(move |i| if same { b } else { b.wrapping_mul(i as u8) })).collect();
            let mut out = vec![0xee; room];
            prop_assert_eq!(unpack_start(&packed(&raw), &mut out), Some(raw.len().min(room)));
            prop_assert_eq!(&out[..raw.len().min(room)], &raw[..raw.len().min(room)]);
        }

        #[test]
        fn any_bytes_are_decoded_without_panic(bytes: Vec<u8>, raw_len in 0usize..2000, header: bool, codec in 0u8..2) {
            let mut bytes = bytes;
            if header && bytes.len() >= 8 {
                let prefix_len = bytes[4] % 32;
                bytes[..6].copy_from_slice(&[1, 0, 0, 0, prefix_len, 0]);
            }
            let codec = Compression::from_u8(codec).unwrap();
            let mut stub = vec![];
            Undecoded::default().take(&StoredBlock { raw_len, codec, bytes: &bytes }, &mut stub);
            let _ = unpack_start(&bytes, &mut [0; 300]);
        }

        #[test]
        fn a_stub_has_the_key_and_the_trailer(key in prop::collection::vec(any::<u8>(), 0..600), seq in 0u64..1 << 50, kind in 1u8..5, value in prop::collection::vec(any::<u8>(), 0..3), long in 0usize..100_000, codec in 0u8..2) {
            let value: Vec<u8> = value.iter().copied().cycle().take(if value.is_empty() { 0 } else { long }).collect();
            let trailer = Trailer::new(seq, [Kind::Put, Kind::Delete, Kind::Merge, Kind::Blob][usize::from(kind) - 1]);
            let (mut builder, mut raw) = (BlockBuilder::default(), vec![]);
            builder.add(builder.fit(&key, trailer, value.len()), &key, trailer, &value);
            builder.finish(true, &mut raw);
            let codec = Compression::from_u8(codec).unwrap();
            let bytes = if codec == Compression::Lz4 { packed(&raw) } else { raw.clone() };
            let (mut undecoded, mut stub) = (Undecoded::default(), vec![]);
            let made = undecoded.take(&StoredBlock { raw_len: raw.len(), codec, bytes: &bytes }, &mut stub);
            let offset_len = if value.len() < usize::from(u16::MAX) { 2 } else { 4 };
            prop_assert_eq!(made, HEADER + 8 + 2 * offset_len + key.len() < START);
            if made {
                let (whole, stub) = (Block::new(&raw).unwrap(), Block::new(&stub).unwrap());
                let (mut from, mut to) = (vec![], vec![]);
                whole.key_into(0, &mut from);
                stub.key_into(0, &mut to);
                prop_assert!(from == key && to == key);
                prop_assert_eq!(stub.entry(0).trailer, trailer);
                prop_assert!(stub.entry(0).value.is_empty() && stub.is_plain() == whole.is_plain());
                prop_assert_eq!(undecoded.stored().unwrap().to_vec().unwrap(), raw);
            }
        }

        #[test]
        fn what_is_not_needed_takes_little_memory(len in 1usize..4 * LARGEST_SCRATCH) {
            let (mut builder, mut raw) = (BlockBuilder::default(), vec![]);
            let (trailer, value) = (Trailer::new(1, Kind::Put), vec![7; len]);
            builder.add(builder.fit(b"k", trailer, len), b"k", trailer, &value);
            builder.finish(true, &mut raw);
            let block = StoredBlock { raw_len: raw.len(), codec: Compression::None, bytes: &raw };
            let mut undecoded = Undecoded::default();
            prop_assert!(undecoded.take(&block, &mut vec![]));
            undecoded.forget();
            prop_assert!(undecoded.stored().is_none());
            prop_assert!(undecoded.bytes.capacity() <= LARGEST_SCRATCH);
        }

        #[test]
        fn of_a_block_of_several_entries_there_is_none(n in 2u8..9) {
            let (mut builder, mut raw) = (BlockBuilder::default(), vec![]);
            for i in 0..n {
                builder.add(builder.fit(&[i], Trailer::new(1, Kind::Put), 1), &[i], Trailer::new(1, Kind::Put), &[i]);
            }
            builder.finish(true, &mut raw);
            let block = StoredBlock { raw_len: raw.len(), codec: Compression::None, bytes: &raw };
            prop_assert!(!Undecoded::default().take(&block, &mut vec![]));
        }
    }
}
