//! Tables as policies see them, and the table list of a run with cached totals. A shape with a
//! hundred thousand tables is examined after every flush, so totals are computed only once per
//! change.
//!
//! Invariant: mutable access to the tables clears the cached totals.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

/// One table. Releases may add fields.
#[derive(Clone, Debug, PartialEq)]
pub struct TableShape {
    /// Id, unique in the tree.
    pub id: u64,
    /// File size in bytes.
    pub size: u64,
    /// Bytes of blobs that the table refers to.
    pub blob_bytes: u64,
    /// Number of entries, including tombstones.
    pub entries: u64,
    /// Number of point tombstones.
    pub deletes: u64,
    /// Number of range tombstones.
    pub range_deletes: u64,
    /// Lower bound of the user keys, including range tombstones.
    pub first: Arc<[u8]>,
    /// Upper bound, inclusive, of the user keys, including range tombstones.
    pub last: Arc<[u8]>,
    /// Smallest sequence number.
    pub min_seq: u64,
    /// Largest sequence number.
    pub max_seq: u64,
    /// Time at which the file was written, in microseconds.
    pub created_micros: u64,
    /// Time at which its newest entry was flushed, in microseconds. For a flushed table this is
    /// `created_micros`; for a merged one it is the maximum over its inputs. Time windows and ages
    /// use this value.
    pub newest_micros: u64,
    /// Time at which its oldest tombstone was flushed, in microseconds; `None` if it has no
    /// tombstone.
    pub oldest_tombstone_micros: Option<u64>,
    /// Time from which all its entries are expired, in microseconds, as the compaction filter
    /// reports. `None` for never or unknown.
    pub expires_micros: Option<u64>,
    /// Bytes of its blobs in blob files selected for collection. A merge of the table rewrites
    /// them.
    pub blob_relocation_bytes: u64,
    /// Whether a live snapshot made the writer of this table retain tombstones.
    pub held_back: bool,
    /// Whether a running job has it as an input.
    pub busy: bool,
    #[doc(hidden)]
    pub _non_exhaustive: (),
}

impl Default for TableShape {
    fn default() -> Self {
        let none: Arc<[u8]> = Arc::from(&b""[..]);
        TableShape {
            id: 0,
            size: 0,
            blob_bytes: 0,
            entries: 0,
            deletes: 0,
            range_deletes: 0,
            first: none.clone(),
            last: none,
            min_seq: 0,
            max_seq: 0,
            created_micros: 0,
            newest_micros: 0,
            oldest_tombstone_micros: None,
            expires_micros: None,
            blob_relocation_bytes: 0,
            held_back: false,
            busy: false,
            _non_exhaustive: (),
        }
    }
}

impl TableShape {
    /// Reports whether any of its keys may be in `lo..=hi`.
    #[inline]
    pub fn overlaps(&self, lo: &[u8], hi: &[u8]) -> bool {
        &*self.first <= hi && lo <= &*self.last
    }

    /// Reports whether all its entries are expired.
    pub fn is_expired(&self, now_micros: u64) -> bool {
        self.expires_micros.is_some_and(|gone| gone <= now_micros)
    }

    /// Reports whether more than half of its entries are tombstones.
    #[inline]
    pub fn is_dense(&self) -> bool {
        self.deletes.saturating_mul(2) > self.entries
    }
}

/// Tables of a run, sorted and disjoint in user keys: a `Vec` with cached totals.
///
/// ```
/// use firn_kv::internals::compaction::{RunTables, TableShape};
/// let table = |id, size| TableShape { id, size, ..TableShape::default() };
/// let mut tables = RunTables::from(vec![table(1, 10), table(2, 20)]);
/// assert_eq!(tables.size(), 30);
/// tables.pop();
/// assert_eq!(tables.size(), 10);
/// ```
#[derive(Clone, Debug, Default)]
pub struct RunTables {
    tables: Vec<TableShape>,
    sums: OnceLock<RunSums>,
}

/// Totals over all tables of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunSums {
    size: u64,
    /// Bytes of blobs that the tables refer to.
    pub blob_bytes: u64,
    pub is_busy: bool,
    /// Earliest time at which a table is fully expired, in microseconds; `u64::MAX` for never.
    pub expires_micros: u64,
    /// Time at which the oldest tombstone was flushed, in microseconds; `None` if there are none.
    pub oldest_tombstone_micros: Option<u64>,
    /// Whether a table refers to blob files selected for collection.
    pub has_blob_garbage: bool,
}

impl RunTables {
    /// Returns the total size of the tables in bytes.
    pub fn size(&self) -> u64 {
        self.sums().size
    }

    pub(super) fn sums(&self) -> &RunSums {
        self.sums.get_or_init(|| {
            let none = RunSums {
                size: 0,
                blob_bytes: 0,
                is_busy: false,
                expires_micros: u64::MAX,
                oldest_tombstone_micros: None,
                has_blob_garbage: false,
            };
            self.tables.iter().fold(none, |sums, t| RunSums {
                size: sums.size + t.size,
                blob_bytes: sums.blob_bytes + t.blob_bytes,
                is_busy: sums.is_busy | t.busy,
                expires_micros: sums.expires_micros.min(t.expires_micros.unwrap_or(u64::MAX)),
                oldest_tombstone_micros: sums
                    .oldest_tombstone_micros
                    .into_iter()
                    .chain(t.oldest_tombstone_micros)
                    .min(),
                has_blob_garbage: sums.has_blob_garbage | (t.blob_relocation_bytes > 0),
            })
        })
    }
}

impl Deref for RunTables {
    type Target = Vec<TableShape>;

    fn deref(&self) -> &Vec<TableShape> {
        &self.tables
    }
}

impl DerefMut for RunTables {
    fn deref_mut(&mut self) -> &mut Vec<TableShape> {
        self.sums.take();
        &mut self.tables
    }
}

impl From<Vec<TableShape>> for RunTables {
    fn from(tables: Vec<TableShape>) -> RunTables {
        RunTables { tables, sums: OnceLock::new() }
    }
}

impl FromIterator<TableShape> for RunTables {
    fn from_iter<I: IntoIterator<Item = TableShape>>(tables: I) -> RunTables {
        RunTables::from(Vec::from_iter(tables))
    }
}

impl<'a> IntoIterator for &'a RunTables {
    type Item = &'a TableShape;
    type IntoIter = std::slice::Iter<'a, TableShape>;

    fn into_iter(self) -> Self::IntoIter {
        self.tables.iter()
    }
}

impl<'a> IntoIterator for &'a mut RunTables {
    type Item = &'a mut TableShape;
    type IntoIter = std::slice::IterMut<'a, TableShape>;

    fn into_iter(self) -> Self::IntoIter {
        self.deref_mut().iter_mut()
    }
}

impl PartialEq for RunTables {
    fn eq(&self, other: &RunTables) -> bool {
        self.tables == other.tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_follow_every_change() {
        let table = |size| TableShape { size, ..TableShape::default() };
        let mut tables: RunTables = (1..=4).map(table).collect();
        let none = tables.sums();
        assert_eq!((none.size, none.is_busy, none.has_blob_garbage), (10, false, false));
        assert_eq!((none.expires_micros, none.oldest_tombstone_micros), (u64::MAX, None));
        tables[1].busy = true;
        assert!(tables.sums().is_busy);
        for t in &mut tables {
            t.busy = false;
            t.blob_relocation_bytes = 1;
        }
        assert!(!tables.sums().is_busy && tables.sums().has_blob_garbage);
        tables[2].expires_micros = Some(7);
        tables[3].expires_micros = Some(9);
        tables[0].oldest_tombstone_micros = Some(5);
        let sums = tables.sums();
        assert_eq!((sums.expires_micros, sums.oldest_tombstone_micros), (7, Some(5)));
        let copy = tables.clone();
        tables.retain(|t| t.size < 3);
        assert_eq!((tables.size(), copy.size()), (3, 10));
        assert!(tables != copy && copy == copy.clone());
    }
}
