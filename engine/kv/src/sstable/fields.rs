//! The fields of a block, one by one, as the specification names them: for tools that show a file
//! as it is.
//!
//! Everything here goes through the decoders that reading goes through, so what these accept is
//! what a [`Table`](super::Table) accepts. Bytes are those of a decompressed block
//! ([`Stored::to_vec`](super::format::StoredBlock::to_vec)); an error says what is wrong with them.
//! Spec: `format-spec/README.md`, "Tables", and the `.ksy` files beside it.

use super::filter::BlockFilter;
use super::index::BlockIndex;
use super::properties::Properties;
use super::search::Block;
use super::tombstones;
use crate::base::key::Trailer;
use crate::base::tombstone::Fragments;

pub use super::properties::Property;

/// A data block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataBlock<'a> {
    /// 1 UNIFORM, 2 PLAIN, 4 WIDE.
    pub flags: u8,
    /// Bytes of the trailer code in each entry.
    pub width: u8,
    /// The trailer of every entry, or the smallest sequence number.
    pub base: u64,
    /// What all keys begin with.
    pub prefix: &'a [u8],
    /// The entries.
    pub entries: Vec<DataEntry<'a>>,
    /// Where the last entry ends, counted from the start of the entries.
    pub end: u32,
}

/// An entry of a data block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataEntry<'a> {
    /// Where it begins, counted from the start of the entries.
    pub offset: u32,
    /// The first 8 bytes of its key after the prefix, as a number.
    pub head: u64,
    /// Its trailer's code; 0 where the block has one trailer for all.
    pub code: u64,
    /// Its sequence number and kind.
    pub trailer: Trailer,
    /// Length of its key after the prefix.
    pub suffix_len: u32,
    /// Its key after prefix and head.
    pub rest: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// Reads a data block. What is wrong, if it is not sound.
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

/// An index block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexBlock {
    /// What all separators begin with.
    pub prefix: Vec<u8>,
    /// A row for each data block.
    pub rows: Vec<IndexRow>,
}

/// What the index says of one data block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRow {
    /// The separator after the prefix.
    pub separator: Vec<u8>,
    /// Where the physical block begins in the file.
    pub offset: u64,
    /// Its length, header included.
    pub len: u64,
    /// Its number of entries.
    pub entries: u32,
    /// 1 PLAIN, 2 DENSE, 4 CONTINUES, 8 RAW.
    pub flags: u8,
}

/// Reads the index block of a table with `data_len` bytes of data blocks. What is wrong, if it is
/// not sound.
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

/// A filter block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterBlock {
    /// Bytes of a fingerprint, before bits are dropped.
    pub kind: u8,
    /// How many of its highest bits are dropped.
    pub dropped: u8,
    /// Length of a segment.
    pub segment_len: u32,
    /// The seed.
    pub seed: u64,
    /// Length of all segments but the last two.
    pub segments_len: u32,
    /// How many fingerprints there are.
    pub len: u64,
    /// The fingerprints, as they are packed.
    pub fingerprints: Vec<u8>,
}

/// Reads a filter block. What is wrong, if it is not sound.
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

/// Reads a tombstone block. What is wrong, if it is not sound.
pub fn tombstone_block(raw: &[u8]) -> Result<Fragments, &'static str> {
    tombstones::decode(raw).ok_or("tombstones that cannot be read")
}

/// Reads the pairs of a properties block, in order. What is wrong, if it is not sound.
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
