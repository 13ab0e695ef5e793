//! Metadata of a table file, as the manifest records it.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::fields::{FieldDef, Message, field};
use crate::base::facts::TableFacts;
use crate::base::key::{Seq, ShownKey};
use crate::compaction::TableShape;

/// Metadata of one table file: its facts, and fields that only the manifest has.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TableMeta {
    /// Facts counted by its writer. For an ingested table, the sequence numbers are
    /// [`ingested_seq`](TableMeta::ingested_seq).
    pub facts: TableFacts,
    /// Time of creation, in microseconds since 1970.
    pub created_micros: u64,
    /// Time at which its newest entry was flushed, in microseconds since 1970. A flushed table has
    /// the same as `created_micros`, a compacted table the maximum of its inputs.
    pub newest_micros: u64,
    /// Sequence number of all its entries, if it was ingested; 0 if entries have their own.
    pub ingested_seq: Seq,
}

impl Deref for TableMeta {
    type Target = TableFacts;

    fn deref(&self) -> &TableFacts {
        &self.facts
    }
}

impl DerefMut for TableMeta {
    fn deref_mut(&mut self) -> &mut TableFacts {
        &mut self.facts
    }
}

impl TableMeta {
    /// Returns the table as policies see it while no job holds it.
    pub fn shape(&self) -> TableShape {
        TableShape {
            id: self.id,
            size: self.size,
            blob_bytes: self.blob_bytes(),
            entries: self.entries,
            deletes: self.deletes,
            range_deletes: self.range_deletes,
            first: self.first_key.as_slice().into(),
            last: self.last_key.as_slice().into(),
            min_seq: self.min_seq,
            max_seq: self.max_seq,
            created_micros: self.created_micros,
            newest_micros: self.newest_micros,
            oldest_tombstone_micros: self.oldest_tombstone_micros,
            expires_micros: None,
            blob_relocation_bytes: 0,
            held_back: false,
            busy: false,
            _non_exhaustive: (),
        }
    }
}

impl fmt::Debug for TableMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "table {} [{} .. {}]",
            self.id,
            ShownKey(&self.first_key),
            ShownKey(&self.last_key)
        )?;
        write!(
            f,
            " seq {}..{} {} bytes, {} raw,",
            self.min_seq, self.max_seq, self.size, self.raw_bytes
        )?;
        write!(f, " {} entries, {} deletes, {} merges,", self.entries, self.deletes, self.merges)?;
        write!(f, " {} range deletes, created {}", self.range_deletes, self.created_micros)?;
        if let Some(t) = self.oldest_tombstone_micros {
            write!(f, ", oldest tombstone {t}")?;
        }
        Ok(())
    }
}

impl Message for TableMeta {
    const NAME: &'static str = "table";
    const FIELDS: &'static [FieldDef<Self>] = &[
        field!(2, id, "id"),
        field!(4, size, "size"),
        field!(6, entries, "entries"),
        field!(8, deletes, "deletes"),
        field!(10, merges, "merges"),
        field!(12, range_deletes, "range deletes"),
        field!(14, raw_bytes, "raw bytes"),
        field!(16, first_key, "first key"),
        field!(18, last_key, "last key"),
        field!(20, min_seq, "least sequence number"),
        field!(22, max_seq, "greatest sequence number"),
        field!(24, created_micros, "time of creation"),
        field!(26, newest_micros, "time of the newest entry"),
        field!(28, oldest_tombstone_micros),
        field!(30, ingested_seq, if |t| t.ingested_seq > 0),
        field!(32, identity, "identity"),
        field!(34, values, if |t| !t.values.is_empty()),
    ];
}
