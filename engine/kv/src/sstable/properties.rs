//! Table properties: statistics of the content, and how the table was written.
//!
//! Properties block: pairs of `varint length, name, varint length, value`, names ascending. Values
//! are varints unless stated otherwise. Readers skip unknown names; a missing name has its default
//! (zero, empty, none). Names:
//! ```text
//! block.size           target decoded size of blocks
//! compression          0 none, 1 LZ4
//! created.micros       wall clock at writing
//! data.blocks          number of data blocks
//! deletes              entries that are deletes
//! entries              all point entries
//! entry.largest        largest key + value in bytes
//! filter               0 none, 1 or 2: bytes a fingerprint
//! filter.keys          hashes in the filter
//! hook.filter_prefix, hook.merge, hook.purge, hook.summary
//!                      names (UTF-8)
//! keys.first, keys.last
//!                      bytes: bounds of all keys, range tombstones included
//!                      (their end counts as a key)
//! level                level the table was written for
//! log.end              8 bytes: end of the log records that the table covers
//! log.writer           8 bytes: number of the log's writer
//! merges               entries that are merge operands
//! oldest.tombstone     wall clock in micros; missing when none
//! range.deletes        range tombstones, per fragment and number
//! raw.keys, raw.values bytes of all keys and values
//! seq.max, seq.min     sequence numbers, tombstones included
//! summary              bytes of the Summary hook
//! tree                 tree id
//! tree.name            name of the tree (UTF-8)
//! values.apart         bytes: for each blob file that entries refer to, by number:
//!                      varints number ‖ blobs ‖ bytes of their blocks
//! writer               name and version of the writing program
//! ```
//! Invariant: [`Properties::decode`] inverts [`Properties::encode`].

use crate::base::blob_ref::{BlobUse, decode_uses, encode_uses};
use crate::base::facts::TableFacts;
use crate::base::identity::TableIdentity;
use crate::base::key::Seq;
use crate::base::options::{Compression, FilterKind};
use crate::util::coding::{ByteReader, put_bytes, put_varint};
use crate::util::sort::sort;

/// Value of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property<'a> {
    /// A number.
    Number(u64),
    /// A text.
    Text(&'a str),
    /// Bytes: a key, a summary, or the value of an unknown name.
    Bytes(&'a [u8]),
}

/// Properties of a table. The module docs list the stored names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// Target decoded size of blocks, in bytes.
    pub block_size: u64,
    /// Codec of data blocks; a block stays uncompressed if compression saves too little.
    pub compression: Compression,
    /// Wall clock at the start of writing, in microseconds.
    pub created_micros: u64,
    /// Number of data blocks.
    pub data_blocks: u64,
    /// Number of point entries that are deletes.
    pub deletes: u64,
    /// Number of point entries.
    pub entries: u64,
    /// Size of the largest key + value, in bytes.
    pub largest_entry: u64,
    /// Kind of filter; also `None` if it could not be built.
    pub filter: FilterKind,
    /// Number of the highest bits dropped from each fingerprint, 0 to 7.
    pub filter_dropped: u8,
    /// Number of hashes in the filter.
    pub filter_keys: u64,
    /// Name of the filter prefix; empty if the filter contains whole keys.
    pub filter_prefix: String,
    /// Name of the merge operator; empty for none.
    pub merge: String,
    /// Name of the compaction filter; empty for none.
    pub purge: String,
    /// Name of the summary hook; empty for none.
    pub summary: String,
    /// Output of the summary hook.
    pub summary_bytes: Vec<u8>,
    /// Lower bound of all keys.
    pub first_key: Vec<u8>,
    /// Upper bound of all keys. It is the end of the last range tombstone if that is larger than
    /// every key.
    pub last_key: Vec<u8>,
    /// Level the table was written for.
    pub level: u64,
    /// Log position. All log records of the tree below it are in this table, in the tables from
    /// which it was compacted, or in older tables. 0 if unknown.
    pub log_end: u64,
    /// Random number of the log writer to whose log `log_end` refers. Each opening of the store has
    /// its own log writer. It is the opening that wrote the table, or the previous one if the
    /// opening had logged nothing yet. 0 in tables that no store has written.
    pub log_writer: u64,
    /// Number of point entries that are merge operands.
    pub merges: u64,
    /// Wall clock of the table's oldest deletion, in microseconds.
    pub oldest_tombstone_micros: Option<u64>,
    /// Number of range tombstones, counted per fragment and sequence number.
    pub range_deletes: u64,
    /// Bytes of all user keys.
    pub raw_key_bytes: u64,
    /// Bytes of all values.
    pub raw_value_bytes: u64,
    /// Largest sequence number.
    pub max_seq: Seq,
    /// Smallest sequence number.
    pub min_seq: Seq,
    /// Id of the tree that the table belongs to.
    pub tree: u32,
    /// Name of the tree; empty if unknown.
    pub tree_name: String,
    /// Name and version of the program that wrote the table.
    pub writer: String,
    /// Blobs that entries refer to, one element per blob file, by file number.
    pub values: Vec<BlobUse>,
}

impl Properties {
    /// Counts an entry, except its kind.
    #[inline]
    pub(super) fn count(&mut self, key: &[u8], seq: Seq, value_len: usize) {
        self.entries += 1;
        self.raw_key_bytes += key.len() as u64;
        self.raw_value_bytes += value_len as u64;
        self.largest_entry = self.largest_entry.max((key.len() + value_len) as u64);
        self.min_seq = self.min_seq.min(seq);
        self.max_seq = self.max_seq.max(seq);
    }

    /// Returns the facts of the table with these properties; the arguments come from the file.
    pub fn facts(&self, id: u64, identity: TableIdentity, size: u64) -> TableFacts {
        TableFacts {
            id,
            identity,
            size,
            entries: self.entries,
            deletes: self.deletes,
            merges: self.merges,
            range_deletes: self.range_deletes,
            raw_bytes: self.raw_key_bytes + self.raw_value_bytes,
            first_key: self.first_key.clone(),
            last_key: self.last_key.clone(),
            min_seq: self.min_seq,
            max_seq: self.max_seq,
            oldest_tombstone_micros: self.oldest_tombstone_micros,
            values: self.values.clone(),
        }
    }

    /// Returns the bits of a filter fingerprint; 0 for no filter.
    pub fn filter_bits(&self) -> u8 {
        self.filter.bits().saturating_sub(self.filter_dropped)
    }

    /// Returns the properties block.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![];
        for (name, v) in self.numbers() {
            let mut value = vec![];
            put_varint(&mut value, v);
            put_bytes(&mut out, name.as_bytes());
            put_bytes(&mut out, &value);
        }
        for (name, v) in self.strings() {
            put_bytes(&mut out, name.as_bytes());
            put_bytes(&mut out, v);
        }
        // These have a fixed length, so that the length of a table does not depend on the log.
        for (name, v) in [("log.end", self.log_end), ("log.writer", self.log_writer)] {
            if v > 0 {
                put_bytes(&mut out, name.as_bytes());
                put_bytes(&mut out, &v.to_le_bytes());
            }
        }
        if !self.tree_name.is_empty() {
            put_bytes(&mut out, b"tree.name");
            put_bytes(&mut out, self.tree_name.as_bytes());
        }
        if !self.values.is_empty() {
            put_bytes(&mut out, b"values.apart");
            put_bytes(&mut out, &encode_uses(&self.values));
        }
        sort_pairs(&out)
    }

    fn numbers(&self) -> Vec<(&'static str, u64)> {
        let mut all = vec![
            ("block.size", self.block_size),
            ("compression", self.compression as u64),
            ("created.micros", self.created_micros),
            ("data.blocks", self.data_blocks),
            ("deletes", self.deletes),
            ("entries", self.entries),
            ("entry.largest", self.largest_entry),
            ("filter", self.filter as u64),
            ("filter.keys", self.filter_keys),
            ("level", self.level),
            ("merges", self.merges),
            ("range.deletes", self.range_deletes),
            ("raw.keys", self.raw_key_bytes),
            ("raw.values", self.raw_value_bytes),
            ("seq.max", self.max_seq),
            ("seq.min", self.min_seq),
            ("tree", self.tree as u64),
        ];
        all.extend(
            (self.filter_dropped > 0).then_some(("filter.dropped", self.filter_dropped.into())),
        );
        all.extend(self.oldest_tombstone_micros.map(|t| ("oldest.tombstone", t)));
        all
    }

    fn strings(&self) -> [(&'static str, &[u8]); 8] {
        [
            ("hook.filter_prefix", self.filter_prefix.as_bytes()),
            ("hook.merge", self.merge.as_bytes()),
            ("hook.purge", self.purge.as_bytes()),
            ("hook.summary", self.summary.as_bytes()),
            ("keys.first", &self.first_key),
            ("keys.last", &self.last_key),
            ("summary", &self.summary_bytes),
            ("writer", self.writer.as_bytes()),
        ]
    }

    /// Decodes a properties block; returns `None` if it is invalid.
    pub fn decode(block: &[u8]) -> Option<Properties> {
        let mut p = Properties {
            filter: FilterKind::None,
            compression: Compression::None,
            ..Properties::default()
        };
        let mut r = ByteReader::new(block);
        let mut last: &[u8] = &[];
        while !r.is_empty() {
            let (name, value) = (r.bytes()?, r.bytes()?);
            if name <= last {
                return None;
            }
            last = name;
            p.set(name, value)?;
        }
        Some(p)
    }

    fn set(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        let text = || String::from_utf8(value.to_vec()).ok();
        let number = || {
            let mut r = ByteReader::new(value);
            r.varint().filter(|_| r.is_empty())
        };
        match name {
            b"block.size" => self.block_size = number()?,
            b"compression" => {
                self.compression = Compression::from_u8(u8::try_from(number()?).ok()?)?
            }
            b"created.micros" => self.created_micros = number()?,
            b"data.blocks" => self.data_blocks = number()?,
            b"deletes" => self.deletes = number()?,
            b"entries" => self.entries = number()?,
            b"entry.largest" => self.largest_entry = number()?,
            b"filter" => {
                let kinds = [FilterKind::None, FilterKind::Fuse8, FilterKind::Fuse16];
                self.filter = kinds.get(usize::try_from(number()?).ok()?).copied()?
            }
            b"filter.dropped" => {
                self.filter_dropped = u8::try_from(number()?).ok().filter(|d| *d < 8)?
            }
            b"filter.keys" => self.filter_keys = number()?,
            b"hook.filter_prefix" => self.filter_prefix = text()?,
            b"hook.merge" => self.merge = text()?,
            b"hook.purge" => self.purge = text()?,
            b"hook.summary" => self.summary = text()?,
            b"keys.first" => self.first_key = value.to_vec(),
            b"keys.last" => self.last_key = value.to_vec(),
            b"level" => self.level = number()?,
            b"log.end" => self.log_end = u64::from_le_bytes(value.try_into().ok()?),
            b"log.writer" => self.log_writer = u64::from_le_bytes(value.try_into().ok()?),
            b"merges" => self.merges = number()?,
            b"oldest.tombstone" => self.oldest_tombstone_micros = Some(number()?),
            b"range.deletes" => self.range_deletes = number()?,
            b"raw.keys" => self.raw_key_bytes = number()?,
            b"raw.values" => self.raw_value_bytes = number()?,
            b"seq.max" => self.max_seq = number()?,
            b"seq.min" => self.min_seq = number()?,
            b"summary" => self.summary_bytes = value.to_vec(),
            b"tree" => self.tree = u32::try_from(number()?).ok()?,
            b"tree.name" => self.tree_name = text()?,
            b"values.apart" => self.values = decode_uses(value)?,
            b"writer" => self.writer = text()?,
            _ => {}
        }
        Some(())
    }

    /// Returns the pairs of a properties block in order, with the types of known names. Returns
    /// `None` if the block is invalid.
    pub(crate) fn pairs(block: &[u8]) -> Option<Vec<(&[u8], Property<'_>)>> {
        let known = Properties::decode(block)?;
        let numbers: Vec<&str> = known.numbers().iter().map(|n| n.0).collect();
        let mut r = ByteReader::new(block);
        let mut pairs = vec![];
        while !r.is_empty() {
            let (name, value) = (r.bytes()?, r.bytes()?);
            let property = match std::str::from_utf8(name) {
                Ok(n) if numbers.contains(&n) => Property::Number(ByteReader::new(value).varint()?),
                Ok(
                    "hook.filter_prefix" | "hook.merge" | "hook.purge" | "hook.summary"
                    | "tree.name" | "writer",
                ) => Property::Text(std::str::from_utf8(value).ok()?),
                _ => Property::Bytes(value),
            };
            pairs.push((name, property));
        }
        Some(pairs)
    }

    /// Returns the bytes of heap memory held.
    pub(crate) fn memory(&self) -> usize {
        self.strings().iter().map(|(_, v)| v.len()).sum::<usize>()
            + self.tree_name.len()
            + self.values.len() * size_of::<BlobUse>()
    }
}

/// Returns the same pairs, names ascending.
fn sort_pairs(block: &[u8]) -> Vec<u8> {
    let mut pairs = vec![];
    let mut r = ByteReader::new(block);
    while let (Some(name), Some(value)) = (r.bytes(), r.bytes()) {
        pairs.push((name, value));
    }
    sort(&mut pairs);
    let mut out = Vec::with_capacity(block.len());
    for (name, value) in pairs {
        put_bytes(&mut out, name);
        put_bytes(&mut out, value);
    }
    out
}
