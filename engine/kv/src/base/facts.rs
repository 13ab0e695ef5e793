//! What is known of a table file: the facts that its writer counts and the manifest keeps.
//!
//! A new fact is a field here. Who writes it down names it once more: the table's properties
//! (`sstable/properties.rs`) and the manifest's table (`manifest/state.rs`).

use super::blob_ref::BlobUse;
use super::identity::TableIdentity;
use super::key::Seq;

/// What a finished table holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFacts {
    /// Number of the file.
    pub id: u64,
    /// What the file says of whose it is, wherever it lies: a file that says otherwise is another
    /// table.
    pub identity: TableIdentity,
    /// Length of the file in bytes.
    pub size: u64,
    /// Point entries, all kinds.
    pub entries: u64,
    /// Deletes among the entries.
    pub deletes: u64,
    /// Merge operands among the entries.
    pub merges: u64,
    /// Range tombstones, counted per fragment and sequence number.
    pub range_deletes: u64,
    /// Bytes of keys and values as the user gave them.
    pub raw_bytes: u64,
    /// The smallest user key that it says something about, by an entry or a range tombstone.
    pub first_key: Vec<u8>,
    /// A bound of what it says something about: no user key in it is larger. The end of the last
    /// range tombstone when that is larger than every key.
    pub last_key: Vec<u8>,
    /// The smallest sequence number.
    pub min_seq: Seq,
    /// The largest sequence number.
    pub max_seq: Seq,
    /// When the oldest delete in it was written, at the earliest, in microseconds since 1970.
    pub oldest_tombstone_micros: Option<u64>,
    /// What its entries refer to in value files, by number of the file.
    pub values: Vec<BlobUse>,
}

impl TableFacts {
    /// Bytes of value files that its entries refer to.
    pub fn blob_bytes(&self) -> u64 {
        self.values.iter().map(|u| u.bytes).sum()
    }
}
