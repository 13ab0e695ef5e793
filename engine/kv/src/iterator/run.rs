//! Runs of tables.
//!
//! Invariant: the tables of a [`TableRun`] are sorted by key and disjoint in user keys. All
//! versions of a key are in one table.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::key::{Seq, head};
use crate::range_del::tombstone::CoveredRange;
use crate::sstable::Table;
use crate::util::nested::nested;

use crate::iterator::table_handle::TableHandle;

/// A sorted run.
pub struct TableRun {
    /// Level of the run.
    pub level: u8,
    /// Number of the run: newer runs of a level have larger ones.
    pub number: u64,
    /// Tables of the run, sorted.
    pub tables: Vec<Arc<TableHandle>>,
    last_heads: Vec<u64>,
    /// Number of tables with range deletions before each table, and after the last. Empty if there
    /// are none.
    with_range_deletes: Vec<u32>,
    newest_range_delete: Seq,
    has_deletes: bool,
}

/// Iterates over the tables of runs, in their order.
pub fn tables_of(runs: &[Arc<TableRun>]) -> impl Iterator<Item = &Arc<TableHandle>> {
    nested(runs, |r| &r.tables)
}

debug_by!(TableRun, "TableRun", level, number);

impl TableRun {
    /// Creates a run of tables that are sorted and disjoint.
    pub fn new(level: u8, number: u64, tables: Vec<Arc<TableHandle>>) -> TableRun {
        let last_heads = tables.iter().map(|t| head(&t.meta.last_key)).collect();
        let mut with_range_deletes = vec![];
        if tables.iter().any(|t| t.meta.range_deletes > 0) {
            let count = |n: &mut u32, t: &Arc<TableHandle>| {
                *n += u32::from(t.meta.range_deletes > 0);
                Some(*n)
            };
            with_range_deletes.push(0);
            with_range_deletes.extend(tables.iter().scan(0, count));
        }
        let has_deletes = tables.iter().any(|t| t.meta.deletes > 0);
        let newest_range_delete = tables
            .iter()
            .filter(|t| t.meta.range_deletes > 0)
            .map(|t| t.meta.max_seq)
            .max()
            .unwrap_or(0);
        TableRun {
            level,
            number,
            tables,
            last_heads,
            with_range_deletes,
            newest_range_delete,
            has_deletes,
        }
    }

    /// Returns an upper bound on the sequence numbers of range deletions in its tables.
    pub fn newest_range_delete(&self) -> Seq {
        self.newest_range_delete
    }

    /// Reports whether any of its tables contains a point delete.
    pub fn has_deletes(&self) -> bool {
        self.has_deletes
    }

    /// Reports whether a table of the run may contain keys in `[from, until]`; `None` is unbounded.
    /// Examines at most two tables, because each one's metadata is elsewhere in memory.
    pub fn overlaps(&self, from: &[u8], until: Option<&[u8]>) -> bool {
        let first = if from.is_empty() { 0 } else { self.lower_bound(from) };
        self.tables
            .get(first)
            .is_some_and(|t| until.is_none_or(|u| t.meta.first_key.as_slice() <= u))
    }

    /// Reports whether a table of the run may contain a key with the filter hash `hash` in `[from,
    /// until]`; `None` is unbounded.
    ///
    /// # Errors
    /// Errors of opening a table.
    pub fn may_contain(
        &self,
        hash: u64,
        from: &[u8],
        until: Option<&[u8]>,
        mut asked: impl FnMut(&Table, bool),
    ) -> Result<bool> {
        for t in
            self.tables[self.lower_bound(from)..].iter().take_while(|t| t.overlaps(None, until))
        {
            let table = t.table()?;
            let maybe = table.may_contain(hash);
            asked(table, maybe);
            if maybe {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reports whether a table that may contain keys in `[from, until]` has range deletions; `None`
    /// is unbounded.
    pub fn has_range_deletes(&self, from: &[u8], until: Option<&[u8]>) -> bool {
        let Some(all) = self.with_range_deletes.last() else { return false };
        let behind = until.map_or(*all, |u| {
            self.with_range_deletes[self.tables.len().min(self.lower_bound(u) + 1)]
        });
        behind > self.with_range_deletes[self.lower_bound(from)]
    }

    /// Returns the newest range deletion over `key` that a reader at `read` sees, and a range
    /// around `key` for which this answer holds.
    ///
    /// # Errors
    /// Errors of opening a table.
    pub fn covering<'a>(&'a self, key: &'a [u8], read: Seq) -> Result<CoveredRange<'a>> {
        let at = self.lower_bound(key);
        let first = self.tables.get(at).map(|t| t.meta.first_key.as_slice());
        let Some(t) = self.tables.get(at).filter(|t| t.meta.first_key.as_slice() <= key) else {
            // Between two tables or at an end: extend backward while the previous table has no
            // range deletion.
            let from = match at.checked_sub(1).map(|i| &self.tables[i]) {
                None => &[][..],
                Some(t) if t.meta.range_deletes == 0 => &t.meta.first_key,
                Some(t) => {
                    t.table()?.tombstones().range_around(key, read).from.max(&t.meta.first_key)
                }
            };
            return Ok(CoveredRange { from, until: first, newest: None });
        };
        let (first, behind) = (
            t.meta.first_key.as_slice(),
            self.tables.get(at + 1).map(|t| t.meta.first_key.as_slice()),
        );
        if t.meta.range_deletes == 0 {
            return Ok(CoveredRange { from: first, until: behind, newest: None });
        }
        let s = t.table()?.tombstones().range_around(key, read);
        Ok(CoveredRange {
            from: s.from.max(first),
            until: s.until.into_iter().chain(behind).min(),
            ..s
        })
    }

    /// Returns the index of the first table whose last key is at or after `key`, the only one that
    /// can contain it.
    #[inline]
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        let h = head(key);
        let i = self.last_heads.partition_point(|&l| l < h);
        if self.last_heads.get(i) == Some(&h) { self.lower_bound_among(i, h, key) } else { i }
    }

    /// Does the same among the tables from index `from` on, the first of which has a last key with
    /// head `h`. All of them may have that head, if keys share a long prefix.
    fn lower_bound_among(&self, from: usize, h: u64, key: &[u8]) -> usize {
        let same = self.last_heads[from..].partition_point(|&l| l == h);
        from + self.tables[from..from + same].partition_point(|t| t.meta.last_key.as_slice() < key)
    }

    /// Returns the table that can contain `key`.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<&Arc<TableHandle>> {
        let t = self.tables.get(self.lower_bound(key))?;
        (t.meta.first_key.as_slice() <= key).then_some(t)
    }

    /// Returns the size of the files in bytes.
    pub fn size(&self) -> u64 {
        self.tables.iter().map(|t| t.meta.size).sum()
    }

    /// Returns the largest sequence number in the run.
    pub fn max_seq(&self) -> u64 {
        self.tables.iter().map(|t| t.meta.max_seq).max().unwrap_or(0)
    }
}
