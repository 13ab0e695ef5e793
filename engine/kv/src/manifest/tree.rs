//! State of a tree: its options, its runs of tables, and its blob files.

use std::fmt;
use std::sync::Arc;

use super::fields::{Field, FieldDef, FieldValue, FieldWriter, Message, field};
use super::format::MAX_NUMBER;
use super::options::PersistedOptions;
use super::table::TableMeta;
use crate::base::blob_ref::{BlobFileMeta, BlobUse};
use crate::base::error::{Error, Result};
use crate::base::ops::TreeId;
use crate::util::nested::nested;
use crate::util::sort::{sort_by, sort_by_key};
use crate::util::sorted_map::{SortedMap, SortedSet};

/// State of one tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeState {
    /// Id of the tree, never reused after it was dropped.
    pub id: TreeId,
    /// Name of the tree.
    pub name: String,
    /// Persisted options of the tree.
    pub options: PersistedOptions,
    /// Log position below which this tree's records are in tables.
    pub flushed: u64,
    /// Runs: by level ascending, then number descending. An edit copies only the runs that it
    /// changes.
    pub runs: Vec<Arc<RunState>>,
    /// Blob files that its tables refer to, by number.
    pub values: SortedMap<u64, Arc<BlobFileMeta>>,
}

/// Sorted run: tables that do not overlap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunState {
    /// Level of the run.
    pub level: u8,
    /// Number of the run; newer runs of a level have higher numbers.
    pub number: u64,
    /// Tables of the run: sorted by first key, disjoint in user keys.
    pub tables: Vec<Arc<TableMeta>>,
}

/// Added table and the run that it joins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddedTable {
    /// Level of the run.
    pub level: u8,
    /// Number of the run. A run that does not exist is created.
    pub run: u64,
    /// Metadata of the table.
    pub table: Arc<TableMeta>,
}

impl Message for TreeState {
    const NAME: &'static str = "tree";
    const FIELDS: &'static [FieldDef<Self>] = &[
        field!(2, id, "id"),
        field!(4, name, "name"),
        field!(6, options, "options"),
        field!(8, flushed, "flushed position"),
        field!(10, runs),
        field!(12, values),
    ];
}

impl Message for RunState {
    const NAME: &'static str = "run";
    const FIELDS: &'static [FieldDef<Self>] =
        &[field!(2, level, "level"), field!(4, number, "number"), field!(6, tables)];
}

impl Message for AddedTable {
    const NAME: &'static str = "added table";
    const FIELDS: &'static [FieldDef<Self>] =
        &[field!(2, level, "level"), field!(4, run, "run"), field!(6, table, "table")];
}

impl Message for BlobFileMeta {
    const NAME: &'static str = "blob file";
    const FIELDS: &'static [FieldDef<Self>] = &[
        field!(2, id, "id"),
        field!(4, size, "size"),
        field!(6, values, "number of values"),
        field!(8, bytes, "bytes of blocks"),
        field!(10, raw_bytes, "raw bytes"),
        field!(12, identity, "identity"),
    ];
}

impl FieldValue for SortedMap<u64, Arc<BlobFileMeta>> {
    fn write(&self, tag: u64, w: &mut FieldWriter) {
        self.values().for_each(|v| v.write(tag, w));
    }

    fn read(&mut self, f: &Field<'_>) -> Result<()> {
        let v = BlobFileMeta::decode(f.bytes)?;
        match self.insert(v.id, Arc::new(v)) {
            Some(v) => Err(unfit(format_args!("blob file {} is there twice", v.id))),
            None => Ok(()),
        }
    }
}

/// Returns the error for an edit or a state that breaks an invariant.
pub(super) fn unfit(what: impl fmt::Display) -> Error {
    Error::corruption(format!("an edit of the manifest does not fit: {what}"))
}

impl RunState {
    pub(super) fn check(&self) -> Result<()> {
        if self.tables.is_empty() {
            return Err(unfit(format_args!(
                "run {} on level {} is empty",
                self.number, self.level
            )));
        }
        let lifted = |t: &TableMeta| {
            t.ingested_seq > 0 && (t.min_seq, t.max_seq) != (t.ingested_seq, t.ingested_seq)
        };
        if let Some(t) = self
            .tables
            .iter()
            .find(|t| t.first_key > t.last_key || t.min_seq > t.max_seq || lifted(t))
        {
            return Err(unfit(format_args!("bounds of {t:?}")));
        }
        match self.tables.windows(2).find(|w| w[0].last_key >= w[1].first_key) {
            Some(w) => Err(unfit(format_args!(
                "in run {} on level {} {:?} overlaps {:?}",
                self.number, self.level, w[0], w[1]
            ))),
            None => Ok(()),
        }
    }

    /// Returns the sort key of runs.
    pub fn place(&self) -> (u8, std::cmp::Reverse<u64>) {
        (self.level, std::cmp::Reverse(self.number))
    }
}

impl TreeState {
    /// Creates a tree without tables.
    pub(super) fn new(id: TreeId, name: &str, options: &PersistedOptions, flushed: u64) -> Self {
        let (name, options) = (name.to_owned(), options.clone());
        TreeState { id, name, options, flushed, ..TreeState::default() }
    }

    /// Returns all tables, newest run first.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableMeta>> {
        nested(&self.runs, |r| &r.tables)
    }

    /// Returns the numbers of all its files: tables and blob files.
    pub fn files(&self) -> impl Iterator<Item = u64> {
        self.tables().map(|t| t.id).chain(self.values.keys().copied())
    }

    /// Returns the sums of its tables' references to each blob file.
    pub fn uses(&self) -> SortedMap<u64, BlobUse> {
        uses_of(self.runs.iter())
    }

    /// Selects from the existing and the `new` blob files those that the runs refer to.
    pub(super) fn values_of(
        &self,
        runs: &[Arc<RunState>],
        new: &[Arc<BlobFileMeta>],
    ) -> Result<SortedMap<u64, Arc<BlobFileMeta>>> {
        let uses = uses_of(runs.iter());
        if uses.is_empty() && new.is_empty() {
            return Ok(SortedMap::new());
        }
        let mut all = self.values.clone();
        for v in new {
            if all.insert(v.id, v.clone()).is_some() {
                return Err(unfit(format_args!("blob file {} is added twice", v.id)));
            }
        }
        all.retain(|id, _| uses.contains_key(id));
        check_uses(&uses, &all)?;
        Ok(all)
    }

    /// Returns the runs without `removed` and with `added`.
    pub(super) fn changed(
        &self,
        removed: &[u64],
        added: &[AddedTable],
    ) -> Result<Vec<Arc<RunState>>> {
        let mut gone: SortedSet<u64> = removed.iter().copied().collect();
        if gone.len() != removed.len() {
            return Err(unfit("a table is removed twice"));
        }
        let mut runs = self.runs.clone();
        for r in &mut runs {
            if !gone.is_empty() && r.tables.iter().any(|t| gone.contains(&t.id)) {
                Arc::make_mut(r).tables.retain(|t| !gone.remove(&t.id));
            }
        }
        if let Some(id) = gone.first() {
            return Err(unfit(format_args!(
                "table {id} is removed from tree {:?}, which has no such table",
                self.name
            )));
        }
        for a in added {
            let i = runs
                .iter()
                .position(|r| r.level == a.level && r.number == a.run)
                .unwrap_or_else(|| {
                    runs.push(Arc::new(RunState { level: a.level, number: a.run, tables: vec![] }));
                    runs.len() - 1
                });
            Arc::make_mut(&mut runs[i]).tables.push(a.table.clone());
        }
        runs.retain(|r| !r.tables.is_empty());
        sort_by_key(&mut runs, |r| r.place());
        let places: SortedSet<(u8, u64)> = added.iter().map(|a| (a.level, a.run)).collect();
        for r in runs.iter_mut().filter(|r| places.contains(&(r.level, r.number))) {
            sort_by(&mut Arc::make_mut(r).tables, |a, b| a.first_key.cmp(&b.first_key));
            r.check()?;
        }
        Ok(runs)
    }
}

fn uses_of<'a>(runs: impl Iterator<Item = &'a Arc<RunState>>) -> SortedMap<u64, BlobUse> {
    let mut all = SortedMap::<u64, BlobUse>::new();
    for u in runs.flat_map(|r| &r.tables).flat_map(|t| &t.values) {
        let sum = all.get_or_default(u.file);
        let (values, bytes) =
            (sum.values.saturating_add(u.values), sum.bytes.saturating_add(u.bytes));
        *sum = BlobUse { file: u.file, values, bytes };
    }
    all
}

/// Checks that every referenced blob file exists and has at least the referenced values.
pub(super) fn check_uses(
    uses: &SortedMap<u64, BlobUse>,
    values: &SortedMap<u64, Arc<BlobFileMeta>>,
) -> Result<()> {
    for u in uses.values() {
        let Some(v) = values.get(&u.file) else {
            return Err(unfit(format_args!("tables refer to blob file {}, which is none", u.file)));
        };
        if v.bytes > v.size || v.size > MAX_NUMBER || v.raw_bytes > MAX_NUMBER {
            return Err(unfit(format_args!("sizes of blob file {}", v.id)));
        }
        if u.values > v.values || u.bytes > v.bytes {
            return Err(unfit(format_args!("tables refer to more than blob file {} has", u.file)));
        }
    }
    Ok(())
}
