//! Facts about a table file, which its writer counts and the manifest records.
//!
//! A new fact is a field here. Add it to the two encoders as well: the properties of the table
//! (`sstable/properties.rs`) and the table of the manifest (`manifest/table.rs`).

use crate::base::blob_ref::BlobUse;
use crate::base::identity::TableIdentity;
use crate::base::key::Seq;

/// Facts about a finished table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFacts {
    /// Number of the file.
    pub id: u64,
    /// Identity stored in the file, wherever the file is. A file with another identity is another
    /// table.
    pub identity: TableIdentity,
    /// Length of the file in bytes.
    pub size: u64,
    /// Point entries of all kinds.
    pub entries: u64,
    /// Tombstones among the entries.
    pub deletes: u64,
    /// Merge operands among the entries.
    pub merges: u64,
    /// Range tombstones, counted for each fragment and sequence number.
    pub range_deletes: u64,
    /// Bytes of keys and values as the user wrote them.
    pub raw_bytes: u64,
    /// Smallest user key that an entry or a range tombstone of the table covers.
    pub first_key: Vec<u8>,
    /// Upper bound of the user keys that the table covers; none of them is larger. It is the end of
    /// the last range tombstone if that is larger than every key.
    pub last_key: Vec<u8>,
    /// Smallest sequence number.
    pub min_seq: Seq,
    /// Largest sequence number.
    pub max_seq: Seq,
    /// Lower bound of the time at which its oldest tombstone was written, in microseconds since
    /// 1970.
    pub oldest_tombstone_micros: Option<u64>,
    /// References of its entries to blob files, by number of the file.
    pub values: Vec<BlobUse>,
}

impl TableFacts {
    /// Returns the bytes in blob files that its entries refer to.
    pub fn blob_bytes(&self) -> u64 {
        self.values.iter().map(|u| u.bytes).sum()
    }
}
