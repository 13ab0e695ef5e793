//! Table properties: statistics of the content, and how the table was written.
//!
//! Properties block: pairs of `varint length, name, varint length, value`, names ascending. Values
//! are varints unless stated otherwise. Readers skip unknown names; a missing name has its default
//! (zero, empty, none). Names:
//! ```text
//! blob.uses            bytes: for each blob file that entries refer to, by number:
//!                      varints number ‖ blobs ‖ bytes of their blocks
//! block.size           target decoded size of blocks
//! compression          0 none, 1 LZ4, 2 Zstandard
//! created.micros       wall clock at writing
//! data.blocks          number of data blocks
//! deletes              entries that are deletes
//! entries              all point entries
//! entry.largest        largest key + value in bytes
//! filter               0 none, 1 or 2: bytes a fingerprint
//! filter.keys          hashes in the filter
//! hook.compaction_filter, hook.filter_prefix, hook.merge_operator, hook.summary
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
//! writer               name and version of the writing program
//! ```
//! Invariant: [`Properties::decode`] inverts [`Properties::encode`].

use crate::base::blob_ref::{BlobUse, decode_uses, encode_uses};
use crate::base::facts::TableFacts;
use crate::base::identity::TableIdentity;
use crate::base::key::Seq;
use crate::base::options::{Compression, FilterKind};
use crate::util::coding::{ByteReader, put_bytes, put_varint};

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
    pub merge_operator: String,
    /// Name of the compaction filter; empty for none.
    pub compaction_filter: String,
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
        for def in PROPERTIES {
            if let Some(value) = (def.get)(self) {
                put_bytes(&mut out, def.name.as_bytes());
                put_bytes(&mut out, &value);
            }
        }
        out
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
            if let Some(def) = property(name) {
                (def.set)(&mut p, value)?;
            }
        }
        Some(p)
    }

    /// Returns the pairs of a properties block in order, with the types of known names. Returns
    /// `None` if the block is invalid.
    pub(crate) fn pairs(block: &[u8]) -> Option<Vec<(&[u8], Property<'_>)>> {
        Properties::decode(block)?;
        let mut r = ByteReader::new(block);
        let mut pairs = vec![];
        while !r.is_empty() {
            let (name, value) = (r.bytes()?, r.bytes()?);
            pairs.push((
                name,
                match property(name).map(|def| def.form) {
                    Some(PropertyForm::Number) => Property::Number(number(value)?),
                    Some(PropertyForm::Text) => Property::Text(std::str::from_utf8(value).ok()?),
                    _ => Property::Bytes(value),
                },
            ));
        }
        Some(pairs)
    }

    /// Returns the bytes of heap memory held.
    pub(crate) fn memory(&self) -> usize {
        let p = self;
        let texts = [
            &p.filter_prefix,
            &p.merge_operator,
            &p.compaction_filter,
            &p.summary,
            &p.tree_name,
            &p.writer,
        ];
        texts.iter().map(|t| t.len()).sum::<usize>()
            + [&p.first_key, &p.last_key, &p.summary_bytes].iter().map(|b| b.len()).sum::<usize>()
            + p.values.len() * size_of::<BlobUse>()
    }
}

/// Stored form of a property.
#[derive(Clone, Copy)]
enum PropertyForm {
    /// A varint.
    Number,
    /// UTF-8.
    Text,
    /// Anything else.
    Bytes,
}

/// Definition of a stored property.
struct PropertyDef {
    name: &'static str,
    form: PropertyForm,
    /// Returns the stored value; `None` if it is not written.
    get: fn(&Properties) -> Option<Vec<u8>>,
    /// Sets the property; returns `None` if the value is invalid.
    set: fn(&mut Properties, &[u8]) -> Option<()>,
}

/// Defines a property: its name, its form, and its field or how to get and set the field. `if
/// condition` says when it is written.
macro_rules! property {
    ($name:literal, Number, $field:ident) => {
        property!($name, Number, |p| varint(p.$field.into()), |p, v| {
            p.$field = number(v)?.try_into().ok()?
        })
    };
    ($name:literal, Text, $field:ident $(, if $written:expr)?) => {
        property!($name, Text, |p| p.$field.clone().into(), |p, v| {
            p.$field = String::from_utf8(v.to_vec()).ok()?
        } $(, if $written)?)
    };
    ($name:literal, Bytes, $field:ident) => {
        property!($name, Bytes, |p| p.$field.clone(), |p, v| p.$field = v.to_vec())
    };
    // A fixed length, so that the length of a table does not depend on the log.
    ($name:literal, Fixed, $field:ident) => {
        property!($name, Bytes, |p| p.$field.to_le_bytes().to_vec(), |p, v| {
            p.$field = u64::from_le_bytes(v.try_into().ok()?)
        }, if |p| p.$field > 0)
    };
    ($name:literal, $form:ident, |$p:ident| $get:expr, |$q:ident, $v:ident| $set:expr
        $(, if $written:expr)?) => {
        PropertyDef {
            name: $name,
            form: PropertyForm::$form,
            get: |$p| {
                $(let written: fn(&Properties) -> bool = $written;
                if !written($p) {
                    return None;
                })?
                Some($get)
            },
            set: |$q, $v| {
                $set;
                Some(())
            },
        }
    };
}

/// Stored properties, names ascending.
const PROPERTIES: &[PropertyDef] = &[
    property!("blob.uses", Bytes, |p| encode_uses(&p.values), |p, v| p.values = decode_uses(v)?,
        if |p| !p.values.is_empty()),
    property!("block.size", Number, block_size),
    property!("compression", Number, |p| varint(p.compression as u64), |p, v| {
        p.compression = Compression::from_u8(number(v)?.try_into().ok()?)?
    }),
    property!("created.micros", Number, created_micros),
    property!("data.blocks", Number, data_blocks),
    property!("deletes", Number, deletes),
    property!("entries", Number, entries),
    property!("entry.largest", Number, largest_entry),
    property!("filter", Number, |p| varint(p.filter as u64), |p, v| {
        let kinds = [FilterKind::None, FilterKind::Fuse8, FilterKind::Fuse16];
        p.filter = *kinds.get(usize::try_from(number(v)?).ok()?)?
    }),
    property!("filter.dropped", Number, |p| varint(p.filter_dropped.into()), |p, v| {
        p.filter_dropped = u8::try_from(number(v)?).ok().filter(|d| *d < 8)?
    }, if |p| p.filter_dropped > 0),
    property!("filter.keys", Number, filter_keys),
    property!("hook.compaction_filter", Text, compaction_filter),
    property!("hook.filter_prefix", Text, filter_prefix),
    property!("hook.merge_operator", Text, merge_operator),
    property!("hook.summary", Text, summary),
    property!("keys.first", Bytes, first_key),
    property!("keys.last", Bytes, last_key),
    property!("level", Number, level),
    property!("log.end", Fixed, log_end),
    property!("log.writer", Fixed, log_writer),
    property!("merges", Number, merges),
    property!("oldest.tombstone", Number, |p| varint(p.oldest_tombstone_micros.unwrap_or(0)), |p, v| {
        p.oldest_tombstone_micros = Some(number(v)?)
    }, if |p| p.oldest_tombstone_micros.is_some()),
    property!("range.deletes", Number, range_deletes),
    property!("raw.keys", Number, raw_key_bytes),
    property!("raw.values", Number, raw_value_bytes),
    property!("seq.max", Number, max_seq),
    property!("seq.min", Number, min_seq),
    property!("summary", Bytes, summary_bytes),
    property!("tree", Number, tree),
    property!("tree.name", Text, tree_name, if |p| !p.tree_name.is_empty()),
    property!("writer", Text, writer),
];

fn property(name: &[u8]) -> Option<&'static PropertyDef> {
    let i = PROPERTIES.binary_search_by(|def| def.name.as_bytes().cmp(name)).ok()?;
    Some(&PROPERTIES[i])
}

fn varint(v: u64) -> Vec<u8> {
    let mut out = vec![];
    put_varint(&mut out, v);
    out
}

/// Returns the varint that fills `bytes`.
fn number(bytes: &[u8]) -> Option<u64> {
    let mut r = ByteReader::new(bytes);
    r.varint().filter(|_| r.is_empty())
}
