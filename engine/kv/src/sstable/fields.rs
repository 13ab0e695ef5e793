//! Returns the fields of a block one by one, named as in the specification, for tools that dump
//! files.
//!
//! All functions use the decoders of normal reads, so they accept exactly what a
//! [`Table`](super::Table) accepts. Their input is a decompressed block
//! ([`Stored::to_vec`](super::format::StoredBlock::to_vec)). An error describes the fault. Spec:
//! `format-spec/README.md`, "Tables", and the `.ksy` files next to it.

use super::filter::BlockFilter;
use super::index::BlockIndex;
use super::properties::Properties;
use super::search::Block;
use super::tombstones;
use crate::base::key::Trailer;
use crate::range_del::tombstone::Fragments;

pub use super::properties::Property;

/// Decoded data block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataBlock<'a> {
    /// Flags: 1 UNIFORM, 2 PLAIN, 4 WIDE.
    pub flags: u8,
    /// Bytes of the trailer code in each entry.
    pub width: u8,
    /// The trailer of every entry, or the smallest sequence number.
    pub base: u64,
    /// Prefix that all keys share.
    pub prefix: &'a [u8],
    /// The entries.
    pub entries: Vec<DataEntry<'a>>,
    /// End of the last entry, counted from the start of the entries.
    pub end: u32,
}

/// Entry of a data block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataEntry<'a> {
    /// Offset from the start of the entries.
    pub offset: u32,
    /// First 8 bytes of its key after the prefix, as a number.
    pub head: u64,
    /// Trailer code; 0 if the block has one trailer for all entries.
    pub code: u64,
    /// Sequence number and kind.
    pub trailer: Trailer,
    /// Length of its key after the prefix, in bytes.
    pub suffix_len: u32,
    /// Key bytes after prefix and head.
    pub rest: &'a [u8],
    /// Value bytes.
    pub value: &'a [u8],
}

/// Decodes a data block. Returns a description of the fault if it is invalid.
pub fn data_block(raw: &[u8]) -> Result<DataBlock<'_>, &'static str> {
    let block = Block::new(raw).ok_or("a data block that is cut off")?;
    block.validate()?;
    let (flags, width, base) = block.coding();
    let entry = |i| {
        let (e, (offset, code)) = (block.entry(i), block.place_and_code(i));
        DataEntry {
            offset: offset as u32,
            head: block.head(i),
            code,
            trailer: e.trailer,
            suffix_len: e.suffix_len as u32,
            rest: e.rest,
            value: e.value,
        }
    };
    Ok(DataBlock {
        flags,
        width: width as u8,
        base,
        prefix: block.prefix(),
        entries: (0..block.len()).map(entry).collect(),
        end: block.place_and_code(block.len()).0 as u32,
    })
}

/// Decoded index block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexBlock {
    /// Prefix that all separators share.
    pub prefix: Vec<u8>,
    /// One row per data block.
    pub rows: Vec<IndexRow>,
}

/// Index entry of one data block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRow {
    /// Separator without the common prefix.
    pub separator: Vec<u8>,
    /// Offset of the physical block in the file.
    pub offset: u64,
    /// Length in the file, header included.
    pub len: u64,
    /// Number of entries.
    pub entries: u32,
    /// Flags: 1 PLAIN, 2 DENSE, 4 CONTINUES, 8 RAW.
    pub flags: u8,
}

/// Decodes the index block of a table with `data_len` bytes of data blocks. Returns a description
/// of the fault if it is invalid.
pub fn index_block(raw: &[u8], data_len: u64) -> Result<IndexBlock, &'static str> {
    let index = BlockIndex::decode(raw, data_len).ok_or("an index that cannot be read")?;
    let row = |i| {
        let ((offset, len), flags) = (index.place(i), index.flags(i));
        IndexRow {
            separator: index.suffix(i).to_vec(),
            offset,
            len: len as u64,
            entries: index.entries(i),
            flags,
        }
    };
    Ok(IndexBlock { prefix: index.prefix().to_vec(), rows: (0..index.len()).map(row).collect() })
}

/// Decoded filter block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterBlock {
    /// Bytes per fingerprint, before bits are dropped.
    pub kind: u8,
    /// Number of the highest bits that each fingerprint drops.
    pub dropped: u8,
    /// Length of a segment, in fingerprints.
    pub segment_len: u32,
    /// Seed of the hash function.
    pub seed: u64,
    /// Length of all segments but the last two, in fingerprints.
    pub segments_len: u32,
    /// Number of fingerprints.
    pub len: u64,
    /// Packed fingerprints.
    pub fingerprints: Vec<u8>,
}

/// Decodes a filter block. Returns a description of the fault if it is invalid.
pub fn filter_block(raw: &[u8]) -> Result<FilterBlock, &'static str> {
    let f = BlockFilter::decode(raw)?;
    Ok(FilterBlock {
        kind: f.kind() as u8,
        dropped: f.dropped(),
        segment_len: f.segment,
        seed: f.seed,
        segments_len: f.count,
        len: f.len(),
        fingerprints: f.fingerprints().to_vec(),
    })
}

/// Decodes a tombstone block. Returns a description of the fault if it is invalid.
pub fn tombstone_block(raw: &[u8]) -> Result<Fragments, &'static str> {
    tombstones::decode(raw).ok_or("tombstones that cannot be read")
}

/// Returns the pairs of a properties block, in order. Returns a description of the fault if it is
/// invalid.
pub fn properties_block(raw: &[u8]) -> Result<Vec<(&[u8], Property<'_>)>, &'static str> {
    Properties::pairs(raw).ok_or("properties that cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_fields_or_refused(raw: Vec<u8>, data_len in 0u64..300) {
            let _ = (data_block(&raw), index_block(&raw, data_len), filter_block(&raw), tombstone_block(&raw), properties_block(&raw));
        }
    }

    #[test]
    fn properties_keep_their_order_and_types() {
        let p = Properties {
            entries: 300,
            writer: "me".into(),
            last_key: vec![0xff],
            ..Properties::default()
        };
        let raw = p.encode();
        let pairs = properties_block(&raw).unwrap();
        assert!(pairs.is_sorted_by(|a, b| a.0 < b.0));
        let get = |name: &[u8]| pairs.iter().find(|p| p.0 == name).map(|p| p.1);
        assert_eq!(get(b"entries"), Some(Property::Number(300)));
        assert_eq!(
            (get(b"writer"), get(b"keys.last")),
            (Some(Property::Text("me")), Some(Property::Bytes(&[0xff])))
        );
        assert_eq!(properties_block(&raw[..raw.len() - 1]), Err("properties that cannot be read"));
    }
}
