//! Blob handles, and the facts that tables and the manifest record about blob files.
//!
//! The value of an entry of kind [`Blob`](crate::base::key::Kind::Blob) is a handle of five
//! varints:
//!
//! number of the blob file ‖ number of the blob in it ‖ offset of its block ‖ length of the block,
//! header included ‖ length of the value.
//!
//! A table's total references are written as three varints for each blob file: number ‖ blobs ‖
//! bytes of their blocks.
//!
//! Invariants:
//! - A decoded handle encodes to the same bytes.
//! - No length in a handle exceeds the limits of the format, so a corrupt length causes no large
//!   allocation.

use crate::base::identity::TableIdentity;
use crate::base::key::{MAX_KEY_LEN, MAX_VALUE_LEN};
use crate::util::coding::{ByteReader, put_varint, varint_len};
use crate::util::sorted_map::SortedMap;

/// Maximum length of the block of a blob, in bytes.
const MAX_BLOCK: u64 = (MAX_VALUE_LEN + MAX_KEY_LEN + 4096) as u64;

/// Handle of a blob: its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlobHandle {
    /// Number of the blob file.
    pub file: u64,
    /// Number of the blob in the file, counted from 0.
    pub number: u32,
    /// Offset of its block in the file, in bytes.
    pub offset: u64,
    /// Length of the block in bytes, header included.
    pub stored: u32,
    /// Length of the value in bytes.
    pub len: u32,
}

impl BlobHandle {
    /// Appends the encoded handle.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for v in [self.file, self.number.into(), self.offset, self.stored.into(), self.len.into()] {
            put_varint(out, v);
        }
    }

    /// Decodes a handle that fills `bytes`; returns `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<BlobHandle> {
        let mut r = ByteReader::new(bytes);
        let [file, number, offset, stored, len] =
            [r.varint()?, r.varint()?, r.varint()?, r.varint()?, r.varint()?];
        let is_short = varint_len(file)
            + varint_len(number)
            + varint_len(offset)
            + varint_len(stored)
            + varint_len(len)
            == bytes.len();
        let is_bounded = stored <= MAX_BLOCK && len <= MAX_VALUE_LEN as u64;
        if !r.is_empty() || !is_short || !is_bounded || offset.checked_add(stored).is_none() {
            return None;
        }
        Some(BlobHandle {
            file,
            number: u32::try_from(number).ok()?,
            offset,
            stored: u32::try_from(stored).ok()?,
            len: u32::try_from(len).ok()?,
        })
    }
}

/// References of a table to one blob file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobUse {
    /// Number of the blob file.
    pub file: u64,
    /// Number of referenced blobs.
    pub values: u64,
    /// Bytes of their blocks in the file.
    pub bytes: u64,
}

/// Adds a reference to the counts, which are indexed by number of the blob file.
pub fn count_use(uses: &mut SortedMap<u64, BlobUse>, r: &BlobHandle) {
    let u = uses.get_or_default(r.file);
    (u.file, u.values, u.bytes) = (r.file, u.values + 1, u.bytes + u64::from(r.stored));
}

/// Encodes the references of entries to blob files.
pub fn encode_uses(uses: &[BlobUse]) -> Vec<u8> {
    let mut out = vec![];
    for v in uses.iter().flat_map(|u| [u.file, u.values, u.bytes]) {
        put_varint(&mut out, v);
    }
    out
}

/// Decodes the output of [`encode_uses`]. Files must ascend, and each must have values. Returns
/// `None` for anything else.
pub fn decode_uses(bytes: &[u8]) -> Option<Vec<BlobUse>> {
    let (mut r, mut uses) = (ByteReader::new(bytes), Vec::<BlobUse>::new());
    while !r.is_empty() {
        let u = BlobUse { file: r.varint()?, values: r.varint()?, bytes: r.varint()? };
        if u.values == 0 || uses.last().is_some_and(|last| last.file >= u.file) {
            return None;
        }
        uses.push(u);
    }
    Some(uses)
}

/// Metadata of a blob file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobFileMeta {
    /// Number of the file.
    pub id: u64,
    /// Identity stored in the file, wherever the file is.
    pub identity: TableIdentity,
    /// Length of the file in bytes.
    pub size: u64,
    /// Number of blobs in the file.
    pub values: u64,
    /// Bytes of their blocks in the file.
    pub bytes: u64,
    /// Bytes of the values as the user wrote them, before compression.
    pub raw_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_reference_is_its_bytes(file: u64, number: u32, offset in 0..1u64 << 62, stored in 0..1u32 << 28, len in 0..1u32 << 28) {
            let r = BlobHandle { file, number, offset, stored, len };
            let mut bytes = vec![];
            r.encode(&mut bytes);
            prop_assert_eq!(BlobHandle::decode(&bytes), Some(r));
            prop_assert_eq!(BlobHandle::decode(&bytes[..bytes.len() - 1]), None);
            bytes.push(0);
            prop_assert_eq!(BlobHandle::decode(&bytes), None);
        }

        #[test]
        fn any_bytes_are_a_reference_or_none(bytes: Vec<u8>) {
            if let Some(r) = BlobHandle::decode(&bytes) {
                let mut again = vec![];
                r.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
