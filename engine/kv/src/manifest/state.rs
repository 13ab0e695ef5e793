//! Defines the state of a Db as plain data, and the version edits that change it.
//!
//! Encoded as messages of tagged fields (see `fields`):
//!
//! | message | fields |
//! |---|---|
//! | frame | any number of edits: 2 snapshot (state), 4 create tree, 6 drop tree, 8 set options, 10 tables, 12 counters, 14 log writers |
//! | state | 2 store id, 4 created, 6 next file, 8 last seq, 10 WAL floor, 12 next tree, 14 tree (repeated), 16 log writer (repeated), 18 parent (of a copy) |
//! | log writer | 2 first segment, 4 base, 6 id (8 bytes) |
//! | tree | 2 id, 4 name, 6 options, 8 flushed, 10 run (repeated, newest first), 12 blob file (repeated, by id) |
//! | run | 2 level, 4 number, 6 table (repeated, by first key) |
//! | table | 2 id, 4 size, 6 entries, 8 deletes, 10 merges, 12 range deletes, 14 raw bytes, 16 first key, 18 last key, 20 min seq, 22 max seq, 24 created, 26 newest, 28 oldest tombstone (if any), 30 ingested seq (if ingested), 32 identity (16 bytes), 34 blob references (if any; encoded as in properties) |
//! | blob file | 2 id, 4 size, 6 values, 8 bytes of their blocks, 10 raw bytes, 12 identity (16 bytes) |
//! | create tree | 2 id, 4 name, 6 options, 8 flushed |
//! | drop tree | 2 id |
//! | set options | 2 id, 4 options |
//! | tables | 2 tree id, 4 removed table id (repeated), 6 added (repeated), 8 flushed (where it changes), 10 blob file (repeated) |
//! | added | 2 level, 4 run number, 6 table |
//! | counters | 2 next file, 4 last seq, 6 WAL floor |
//! | log writers | 2 log writer (repeated) |
//!
//! Invariants of [`ManifestState`]:
//! - Tree ids and names are unique, and ids are below `next_tree`.
//! - Runs are ordered by level ascending, then number descending, and are not empty.
//! - The tables of a run are sorted by first key and disjoint in user keys.
//! - Table ids are unique over the whole Db and below `next_file`.
//! - No table has a sequence number above `last_seq`, which has at most 56 bits.
//! - File numbers and log positions are at most 2⁶². No counter ever decreases.
//! - The blob files of a tree are those that its tables refer to. The references to a blob file
//!   are to no more values and bytes than it has. It is removed with the last table that refers to
//!   it.
//!
//! [`ManifestState::apply`] refuses an edit that would violate one, and then leaves the state
//! unchanged.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::base::blob_ref::{BlobFileMeta, BlobUse, decode_uses, encode_uses};
use crate::base::error::{Error, Result};
use crate::base::facts::TableFacts;
use crate::base::identity::{IDENTITY, LogWriter, TableIdentity};
use crate::base::key::{MAX_SEQ, Seq, ShownKey};
use crate::base::ops::{NO_TREE, TreeId};
use crate::compaction::TableShape;
use crate::manifest::fields::{FieldWriter, fields, need};
use crate::manifest::format::MAX_NUMBER;
use crate::manifest::options::PersistedOptions;
use crate::util::sort::{sort_by, sort_by_key};
use crate::util::sorted_map::{SortedMap, SortedSet};

/// State of a Db, except for data that is only in its log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManifestState {
    /// Id of the Db, drawn at random when it was created, also when it was created as a copy.
    pub id: u64,
    /// Id of the Db from which it was created as a checkpoint.
    pub parent: Option<u64>,
    /// Time of creation, in microseconds since 1970.
    pub created_micros: u64,
    /// Least number of all files created from now on.
    pub next_file: u64,
    /// Upper bound of all sequence numbers that may have been used.
    pub last_seq: Seq,
    /// Log position below which every tree's records are in tables.
    pub wal_floor: u64,
    /// Id of the next new tree.
    pub next_tree: TreeId,
    /// Writers of the remaining log segments, ordered by their first segments. A segment with
    /// records of any other writer is not part of this Db's log.
    pub writers: Vec<LogWriter>,
    /// Trees by id.
    pub trees: SortedMap<TreeId, TreeState>,
}

/// State of one tree.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Debug, PartialEq)]
pub struct RunState {
    /// Level of the run.
    pub level: u8,
    /// Number of the run; newer runs of a level have higher numbers.
    pub number: u64,
    /// Tables of the run: sorted by first key, disjoint in user keys.
    pub tables: Vec<Arc<TableMeta>>,
}

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
            gone_micros: None,
            blob_garbage_bytes: 0,
            held_back: false,
            busy: false,
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

/// Version edit: a change of the [`ManifestState`].
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Replaces the whole state. Every manifest begins with it.
    Snapshot(Box<ManifestState>),
    /// Creates an empty tree.
    CreateTree {
        /// Id of the tree: at least the state's `next_tree`.
        id: TreeId,
        /// Name of the tree, which no other tree has.
        name: String,
        /// Options of the tree.
        options: PersistedOptions,
        /// Log position below which it has no records.
        flushed: u64,
    },
    /// Drops a tree with all its tables.
    DropTree {
        /// Id of the tree.
        id: TreeId,
    },
    /// Changes the options of a tree.
    SetOptions {
        /// Id of the tree.
        id: TreeId,
        /// New options of the tree.
        options: PersistedOptions,
    },
    /// Result of a flush or a compaction. A table that is both removed and added is moved.
    Tables {
        /// Id of the tree.
        tree: TreeId,
        /// Ids of removed tables.
        removed: Vec<u64>,
        /// Added tables.
        added: Vec<AddedTable>,
        /// New log position below which the tree's records are in tables.
        flushed: Option<u64>,
        /// Blob files that were written for the added tables.
        values: Vec<Arc<BlobFileMeta>>,
    },
    /// Advances counters; lower values than the current ones have no effect.
    Counters {
        /// See [`ManifestState::next_file`].
        next_file: u64,
        /// See [`ManifestState::last_seq`].
        last_seq: Seq,
        /// See [`ManifestState::wal_floor`].
        wal_floor: u64,
    },
    /// Records that the Db has been opened for writing again.
    LogWriters {
        /// New value of [`ManifestState::writers`]; the last writer is the new one.
        writers: Vec<LogWriter>,
    },
}

/// Added table and the run that it joins.
#[derive(Clone, Debug, PartialEq)]
pub struct AddedTable {
    /// Level of the run.
    pub level: u8,
    /// Number of the run. A run that does not exist is created.
    pub run: u64,
    /// Metadata of the table.
    pub table: Arc<TableMeta>,
}

fn unfit(what: impl fmt::Display) -> Error {
    Error::corruption(format!("an edit of the manifest does not fit: {what}"))
}

impl RunState {
    fn check(&self) -> Result<()> {
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
    /// Returns all tables, newest run first.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableMeta>> {
        self.runs.iter().flat_map(|r| &r.tables)
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
    fn values_of(
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
                return Err(unfit(format_args!("value file {} is added twice", v.id)));
            }
        }
        all.retain(|id, _| uses.contains_key(id));
        check_uses(&uses, &all)?;
        Ok(all)
    }

    /// Returns the runs without `removed` and with `added`.
    fn changed(&self, removed: &[u64], added: &[AddedTable]) -> Result<Vec<Arc<RunState>>> {
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
fn check_uses(
    uses: &SortedMap<u64, BlobUse>,
    values: &SortedMap<u64, Arc<BlobFileMeta>>,
) -> Result<()> {
    for u in uses.values() {
        let Some(v) = values.get(&u.file) else {
            return Err(unfit(format_args!(
                "tables refer to value file {}, which is none",
                u.file
            )));
        };
        if v.bytes > v.size || v.size > MAX_NUMBER || v.raw_bytes > MAX_NUMBER {
            return Err(unfit(format_args!("sizes of value file {}", v.id)));
        }
        if u.values > v.values || u.bytes > v.bytes {
            return Err(unfit(format_args!("tables refer to more than value file {} has", u.file)));
        }
    }
    Ok(())
}

/// Lookups that report whether a name or a file id is in use. A new tree or table must not reuse
/// one.
pub(super) struct Used<'a> {
    pub name: &'a dyn Fn(&ManifestState, &str) -> bool,
    pub table: &'a dyn Fn(&ManifestState, u64) -> bool,
}

impl ManifestState {
    fn tree(&mut self, id: TreeId) -> Result<&mut TreeState> {
        self.trees.get_mut(&id).ok_or_else(|| unfit(format_args!("there is no tree {id}")))
    }

    /// Returns the tree of this name. Searches all trees.
    #[must_use]
    pub fn tree_named(&self, name: &str) -> Option<&TreeState> {
        self.trees.values().find(|t| t.name == name)
    }

    /// Applies an edit. Its cost is proportional to all trees and tables; to apply many edits, use
    /// [`Live`](crate::manifest::LiveFiles).
    ///
    /// # Errors
    /// `Corruption` for an edit that does not fit this state, which stays unchanged.
    pub fn apply(&mut self, edit: &Edit) -> Result<()> {
        let used = Used {
            name: &|state, name| state.tree_named(name).is_some(),
            table: &|state, id| {
                state.trees.values().flat_map(TreeState::files).any(|file| file == id)
            },
        };
        self.apply_knowing(edit, &used)
    }

    /// Applies an edit, given the names and ids in use.
    pub(super) fn apply_knowing(&mut self, edit: &Edit, used: &Used<'_>) -> Result<()> {
        match edit {
            Edit::Snapshot(state) => {
                state.check()?;
                *self = (**state).clone();
            }
            Edit::CreateTree { id, name, options, flushed } => {
                if *id < self.next_tree || *id == NO_TREE || (used.name)(self, name) {
                    return Err(unfit(format_args!(
                        "the id or the name of the new tree {id}, {name:?}, was used before"
                    )));
                }
                self.next_tree = id + 1;
                let tree = TreeState {
                    id: *id,
                    name: name.clone(),
                    options: options.clone(),
                    flushed: *flushed,
                    runs: vec![],
                    values: SortedMap::new(),
                };
                self.trees.insert(*id, tree);
            }
            Edit::DropTree { id } => {
                self.tree(*id)?;
                self.trees.remove(id);
            }
            Edit::SetOptions { id, options } => self.tree(*id)?.options = options.clone(),
            Edit::Tables { tree, removed, added, flushed, values } => {
                self.apply_tables(*tree, (removed, added, values), *flushed, used)?
            }
            Edit::Counters { next_file, last_seq, wal_floor } => {
                self.next_file = self.next_file.max(*next_file);
                self.last_seq = self.last_seq.max(*last_seq);
                self.wal_floor = self.wal_floor.max(*wal_floor);
            }
            Edit::LogWriters { writers } => {
                check_writers(writers)?;
                self.writers = writers.clone();
            }
        }
        Ok(())
    }

    fn apply_tables(
        &mut self,
        id: TreeId,
        (removed, added, values): (&[u64], &[AddedTable], &[Arc<BlobFileMeta>]),
        flushed: Option<u64>,
        used: &Used<'_>,
    ) -> Result<()> {
        let tree = self.tree(id)?;
        if flushed.is_some_and(|f| f < tree.flushed) {
            return Err(unfit(format_args!("tree {:?} was flushed further already", tree.name)));
        }
        let runs = tree.changed(removed, added)?;
        let mut new: SortedSet<u64> = added.iter().map(|a| a.table.id).collect();
        let there = tree.values_of(&runs, values)?;
        if new.len() != added.len() || new.contains(&u64::MAX) {
            return Err(unfit("a table is added twice, or its id is out of bounds"));
        }
        removed.iter().for_each(|id| {
            new.remove(id);
        });
        if !values.iter().all(|v| v.id < u64::MAX && new.insert(v.id)) {
            return Err(unfit("a value file has the number of a table, or one out of bounds"));
        }
        if let Some(id) = new.iter().find(|&&id| (used.table)(self, id)) {
            return Err(unfit(format_args!("table {id} is added and there already")));
        }
        let (next_file, last_seq) =
            added.iter().fold((self.next_file, self.last_seq), |(n, s), a| {
                (n.max(a.table.id + 1), s.max(a.table.max_seq))
            });
        let next_file = values.iter().fold(next_file, |n, v| n.max(v.id + 1));
        (self.next_file, self.last_seq) = (next_file, last_seq);
        let tree = self.tree(id)?;
        tree.runs = runs;
        tree.values = there;
        tree.flushed = flushed.unwrap_or(tree.flushed);
        Ok(())
    }

    /// Checks all invariants.
    ///
    /// # Errors
    /// `Corruption`, naming the first violation.
    pub fn check(&self) -> Result<()> {
        let (mut ids, mut names) = (SortedSet::new(), SortedSet::new());
        let positions = self.trees.values().map(|t| t.flushed);
        check_writers(&self.writers)?;
        if self.last_seq > MAX_SEQ
            || positions.chain([self.wal_floor, self.next_file]).any(|n| n > MAX_NUMBER)
        {
            return Err(unfit("a counter is out of bounds"));
        }
        for (id, tree) in &self.trees {
            if *id != tree.id || *id >= self.next_tree || !names.insert(&tree.name) {
                return Err(unfit(format_args!(
                    "the id or the name of tree {id}, {:?}",
                    tree.name
                )));
            }
            tree.runs.iter().try_for_each(|r| r.check())?;
            if !tree.runs.is_sorted_by(|a, b| a.place() < b.place()) {
                return Err(unfit(format_args!("the order of the runs of tree {:?}", tree.name)));
            }
            if let Some(t) = tree.tables().find(|t| t.max_seq > self.last_seq) {
                return Err(unfit(format_args!(
                    "table {} has a sequence number not given out yet",
                    t.id
                )));
            }
            if let Some(id) = tree.files().find(|&id| id >= self.next_file || !ids.insert(id)) {
                return Err(unfit(format_args!(
                    "table {id} is there twice or has a number not given out yet"
                )));
            }
            let uses = tree.uses();
            check_uses(&uses, &tree.values)?;
            if let Some(id) = tree.values.keys().find(|&id| !uses.contains_key(id)) {
                return Err(unfit(format_args!("no table refers to value file {id}")));
            }
        }
        Ok(())
    }

    fn encode(&self, w: &mut FieldWriter) {
        w.number(2, self.id);
        w.number(4, self.created_micros);
        w.number(6, self.next_file);
        w.number(8, self.last_seq);
        w.number(10, self.wal_floor);
        w.number(12, self.next_tree as u64);
        for t in self.trees.values() {
            w.message(14, |w| t.encode(w));
        }
        for writer in &self.writers {
            w.message(16, |w| encode_writer(w, writer));
        }
        self.parent.iter().for_each(|id| w.number(18, *id));
    }

    fn decode(bytes: &[u8]) -> Result<ManifestState> {
        const OF: &str = "state";
        let (mut id, mut created, mut next_file, mut last_seq, mut floor, mut next_tree) =
            (None, None, None, None, None, None);
        let (mut trees, mut writers, mut parent) = (SortedMap::new(), vec![], None);
        for f in fields(bytes, OF) {
            let f = f?;
            match f.tag {
                2 => id = Some(f.number()?),
                4 => created = Some(f.number()?),
                6 => next_file = Some(f.number()?),
                8 => last_seq = Some(f.number()?),
                10 => floor = Some(f.number()?),
                12 => next_tree = Some(f.small()?),
                14 => {
                    let t = TreeState::decode(f.bytes)?;
                    if let Some(t) = trees.insert(t.id, t) {
                        return Err(unfit(format_args!("tree {} is there twice", t.id)));
                    }
                }
                16 => writers.push(decode_writer(f.bytes)?),
                18 => parent = Some(f.number()?),
                _ => f.unknown()?,
            }
        }
        Ok(ManifestState {
            id: need(id, OF, "id")?,
            created_micros: need(created, OF, "time of creation")?,
            next_file: need(next_file, OF, "next file")?,
            last_seq: need(last_seq, OF, "last sequence number")?,
            wal_floor: need(floor, OF, "WAL floor")?,
            next_tree: need(next_tree, OF, "next tree")?,
            parent,
            writers,
            trees,
        })
    }
}

fn check_writers(writers: &[LogWriter]) -> Result<()> {
    let starts = |w: &[LogWriter]| w[0].from < w[1].from && w[0].base <= w[1].base;
    let bounded =
        writers.iter().all(|w| w.from > 0 && w.from <= MAX_NUMBER && w.base <= MAX_NUMBER);
    if bounded && writers.windows(2).all(starts) {
        Ok(())
    } else {
        Err(unfit("the writers of the log are not in order"))
    }
}

fn encode_writer(w: &mut FieldWriter, writer: &LogWriter) {
    w.number(2, writer.from);
    w.number(4, writer.base);
    w.bytes(6, &writer.id.to_le_bytes());
}

fn decode_writer(bytes: &[u8]) -> Result<LogWriter> {
    const OF: &str = "log writer";
    let (mut from, mut base, mut id) = (None, None, None);
    for f in fields(bytes, OF) {
        let f = f?;
        match f.tag {
            2 => from = Some(f.number()?),
            4 => base = Some(f.number()?),
            6 => id = Some(u64::from_le_bytes(f.fixed()?)),
            _ => f.unknown()?,
        }
    }
    Ok(LogWriter {
        from: need(from, OF, "first segment")?,
        base: need(base, OF, "base")?,
        id: need(id, OF, "id")?,
    })
}

fn encode_tree(
    w: &mut FieldWriter,
    id: TreeId,
    name: &str,
    options: &PersistedOptions,
    flushed: u64,
) {
    w.number(2, id as u64);
    w.bytes(4, name.as_bytes());
    w.message(6, |w| options.encode(w));
    w.number(8, flushed);
}

impl TreeState {
    fn encode(&self, w: &mut FieldWriter) {
        encode_tree(w, self.id, &self.name, &self.options, self.flushed);
        for r in &self.runs {
            w.message(10, |w| {
                w.number(2, r.level as u64);
                w.number(4, r.number);
                r.tables.iter().for_each(|t| w.message(6, |w| t.encode(w)));
            });
        }
        self.values.values().for_each(|v| w.message(12, |w| encode_values(w, v)));
    }

    fn decode(bytes: &[u8]) -> Result<TreeState> {
        const OF: &str = "tree";
        let (mut id, mut name, mut options, mut flushed, mut runs) =
            (None, None, None, None, vec![]);
        let mut values = SortedMap::new();
        for f in fields(bytes, OF) {
            let f = f?;
            match f.tag {
                2 => id = Some(f.small()?),
                4 => name = Some(f.text()?),
                6 => options = Some(PersistedOptions::decode(f.bytes)?),
                8 => flushed = Some(f.number()?),
                10 => runs.push(Arc::new(RunState::decode(f.bytes)?)),
                12 => {
                    let v = decode_values(f.bytes)?;
                    if let Some(v) = values.insert(v.id, Arc::new(v)) {
                        return Err(unfit(format_args!("value file {} is there twice", v.id)));
                    }
                }
                _ => f.unknown()?,
            }
        }
        Ok(TreeState {
            id: need(id, OF, "id")?,
            name: need(name, OF, "name")?,
            options: need(options, OF, "options")?,
            flushed: need(flushed, OF, "flushed position")?,
            runs,
            values,
        })
    }
}

impl RunState {
    fn decode(bytes: &[u8]) -> Result<RunState> {
        let (mut level, mut number, mut tables) = (None, None, vec![]);
        for f in fields(bytes, "run") {
            let f = f?;
            match f.tag {
                2 => level = Some(f.small()?),
                4 => number = Some(f.number()?),
                6 => tables.push(Arc::new(TableMeta::decode(f.bytes)?)),
                _ => f.unknown()?,
            }
        }
        Ok(RunState {
            level: need(level, "run", "level")?,
            number: need(number, "run", "number")?,
            tables,
        })
    }
}

impl TableMeta {
    fn encode(&self, w: &mut FieldWriter) {
        w.number(2, self.id);
        w.number(4, self.size);
        w.number(6, self.entries);
        w.number(8, self.deletes);
        w.number(10, self.merges);
        w.number(12, self.range_deletes);
        w.number(14, self.raw_bytes);
        w.bytes(16, &self.first_key);
        w.bytes(18, &self.last_key);
        w.number(20, self.min_seq);
        w.number(22, self.max_seq);
        w.number(24, self.created_micros);
        w.number(26, self.newest_micros);
        if let Some(t) = self.oldest_tombstone_micros {
            w.number(28, t);
        }
        if self.ingested_seq > 0 {
            w.number(30, self.ingested_seq);
        }
        w.bytes(32, &self.identity.encode());
        if !self.values.is_empty() {
            w.bytes(34, &encode_uses(&self.values));
        }
    }

    fn decode(bytes: &[u8]) -> Result<TableMeta> {
        const OF: &str = "table";
        /// Names of the numbers with tags 2, 4, … 26; keys have none.
        const NAMES: [&str; 13] = [
            "id",
            "size",
            "entries",
            "deletes",
            "merges",
            "range deletes",
            "raw bytes",
            "",
            "",
            "least sequence number",
            "greatest sequence number",
            "time of creation",
            "time of the newest entry",
        ];
        let mut numbers = [None; 13];
        let (mut first, mut last, mut tombstone, mut ingested, mut identity) =
            (None, None, None, None, None);
        let mut values = vec![];
        for f in fields(bytes, OF) {
            let f = f?;
            match f.tag {
                16 => first = Some(f.bytes.to_vec()),
                18 => last = Some(f.bytes.to_vec()),
                28 => tombstone = Some(f.number()?),
                30 => ingested = Some(f.number()?),
                32 => identity = TableIdentity::decode(&f.fixed::<{ IDENTITY }>()?),
                34 => values = need(decode_uses(f.bytes), OF, "sound list of values apart")?,
                2..=26 if f.tag % 2 == 0 => numbers[f.tag as usize / 2 - 1] = Some(f.number()?),
                _ => f.unknown()?,
            }
        }
        let number = |tag: usize| need(numbers[tag / 2 - 1], OF, NAMES[tag / 2 - 1]);
        let facts = TableFacts {
            id: number(2)?,
            identity: need(identity, OF, "identity")?,
            size: number(4)?,
            entries: number(6)?,
            deletes: number(8)?,
            merges: number(10)?,
            range_deletes: number(12)?,
            raw_bytes: number(14)?,
            first_key: need(first, OF, "first key")?,
            last_key: need(last, OF, "last key")?,
            min_seq: number(20)?,
            max_seq: number(22)?,
            oldest_tombstone_micros: tombstone,
            values,
        };
        Ok(TableMeta {
            facts,
            created_micros: number(24)?,
            newest_micros: number(26)?,
            ingested_seq: ingested.unwrap_or(0),
        })
    }
}

fn encode_values(w: &mut FieldWriter, v: &BlobFileMeta) {
    w.number(2, v.id);
    w.number(4, v.size);
    w.number(6, v.values);
    w.number(8, v.bytes);
    w.number(10, v.raw_bytes);
    w.bytes(12, &v.identity.encode());
}

fn decode_values(bytes: &[u8]) -> Result<BlobFileMeta> {
    const OF: &str = "value file";
    let (mut id, mut size, mut values, mut stored, mut raw, mut identity) =
        (None, None, None, None, None, None);
    for f in fields(bytes, OF) {
        let f = f?;
        match f.tag {
            2 => id = Some(f.number()?),
            4 => size = Some(f.number()?),
            6 => values = Some(f.number()?),
            8 => stored = Some(f.number()?),
            10 => raw = Some(f.number()?),
            12 => identity = TableIdentity::decode(&f.fixed::<{ IDENTITY }>()?),
            _ => f.unknown()?,
        }
    }
    Ok(BlobFileMeta {
        id: need(id, OF, "id")?,
        identity: need(identity, OF, "identity")?,
        size: need(size, OF, "size")?,
        values: need(values, OF, "number of values")?,
        bytes: need(stored, OF, "bytes of blocks")?,
        raw_bytes: need(raw, OF, "raw bytes")?,
    })
}

impl AddedTable {
    fn decode(bytes: &[u8]) -> Result<AddedTable> {
        const OF: &str = "added table";
        let (mut level, mut run, mut table) = (None, None, None);
        for f in fields(bytes, OF) {
            let f = f?;
            match f.tag {
                2 => level = Some(f.small()?),
                4 => run = Some(f.number()?),
                6 => table = Some(Arc::new(TableMeta::decode(f.bytes)?)),
                _ => f.unknown()?,
            }
        }
        Ok(AddedTable {
            level: need(level, OF, "level")?,
            run: need(run, OF, "run")?,
            table: need(table, OF, "table")?,
        })
    }
}

impl Edit {
    fn encode(&self, w: &mut FieldWriter) {
        match self {
            Edit::Snapshot(state) => w.message(2, |w| state.encode(w)),
            Edit::CreateTree { id, name, options, flushed } => {
                w.message(4, |w| encode_tree(w, *id, name, options, *flushed));
            }
            Edit::DropTree { id } => w.message(6, |w| w.number(2, *id as u64)),
            Edit::SetOptions { id, options } => w.message(8, |w| {
                w.number(2, *id as u64);
                w.message(4, |w| options.encode(w));
            }),
            Edit::Tables { tree, removed, added, flushed, values } => w.message(10, |w| {
                w.number(2, *tree as u64);
                removed.iter().for_each(|id| w.number(4, *id));
                for a in added {
                    w.message(6, |w| {
                        w.number(2, a.level as u64);
                        w.number(4, a.run);
                        w.message(6, |w| a.table.encode(w));
                    });
                }
                flushed.iter().for_each(|&f| w.number(8, f));
                values.iter().for_each(|v| w.message(10, |w| encode_values(w, v)));
            }),
            Edit::Counters { next_file, last_seq, wal_floor } => w.message(12, |w| {
                w.number(2, *next_file);
                w.number(4, *last_seq);
                w.number(6, *wal_floor);
            }),
            Edit::LogWriters { writers } => {
                w.message(14, |w| {
                    writers.iter().for_each(|writer| w.message(2, |w| encode_writer(w, writer)))
                });
            }
        }
    }

    fn decode_create(bytes: &[u8]) -> Result<Edit> {
        let TreeState { id, name, options, flushed, .. } = TreeState::decode(bytes)?;
        Ok(Edit::CreateTree { id, name, options, flushed })
    }

    fn decode_drop(bytes: &[u8]) -> Result<Edit> {
        let mut id = None;
        for f in fields(bytes, "drop") {
            let f = f?;
            match f.tag {
                2 => id = Some(f.small()?),
                _ => f.unknown()?,
            }
        }
        Ok(Edit::DropTree { id: need(id, "drop", "tree")? })
    }

    fn decode_options(bytes: &[u8]) -> Result<Edit> {
        let (mut id, mut options) = (None, None);
        for f in fields(bytes, "change of options") {
            let f = f?;
            match f.tag {
                2 => id = Some(f.small()?),
                4 => options = Some(PersistedOptions::decode(f.bytes)?),
                _ => f.unknown()?,
            }
        }
        Ok(Edit::SetOptions {
            id: need(id, "change of options", "tree")?,
            options: need(options, "change of options", "options")?,
        })
    }

    fn decode_tables(bytes: &[u8]) -> Result<Edit> {
        let (mut tree, mut removed, mut added, mut flushed, mut values) =
            (None, vec![], vec![], None, vec![]);
        for f in fields(bytes, "change of tables") {
            let f = f?;
            match f.tag {
                2 => tree = Some(f.small()?),
                4 => removed.push(f.number()?),
                6 => added.push(AddedTable::decode(f.bytes)?),
                8 => flushed = Some(f.number()?),
                10 => values.push(Arc::new(decode_values(f.bytes)?)),
                _ => f.unknown()?,
            }
        }
        let tree = need(tree, "change of tables", "tree")?;
        Ok(Edit::Tables { tree, removed, added, flushed, values })
    }

    fn decode_counters(bytes: &[u8]) -> Result<Edit> {
        let (mut next_file, mut last_seq, mut floor) = (None, None, None);
        for f in fields(bytes, "counters") {
            let f = f?;
            match f.tag {
                2 => next_file = Some(f.number()?),
                4 => last_seq = Some(f.number()?),
                6 => floor = Some(f.number()?),
                _ => f.unknown()?,
            }
        }
        Ok(Edit::Counters {
            next_file: need(next_file, "counters", "next file")?,
            last_seq: need(last_seq, "counters", "last sequence number")?,
            wal_floor: need(floor, "counters", "WAL floor")?,
        })
    }
}

fn decode_writers(bytes: &[u8]) -> Result<Edit> {
    let mut writers = vec![];
    for f in fields(bytes, "list of log writers") {
        let f = f?;
        match f.tag {
            2 => writers.push(decode_writer(f.bytes)?),
            _ => f.unknown()?,
        }
    }
    Ok(Edit::LogWriters { writers })
}

/// Encodes the payload of a frame.
pub(super) fn encode_edits(edits: &[Edit]) -> Vec<u8> {
    let mut w = FieldWriter::default();
    edits.iter().for_each(|e| e.encode(&mut w));
    w.0
}

/// Decodes the edits of a frame's payload. Unknown edits that a reader may skip are left out.
pub(super) fn decode_edits(bytes: &[u8]) -> Result<Vec<Edit>> {
    let mut edits = vec![];
    for f in fields(bytes, "frame") {
        let f = f?;
        edits.push(match f.tag {
            2 => Edit::Snapshot(Box::new(ManifestState::decode(f.bytes)?)),
            4 => Edit::decode_create(f.bytes)?,
            6 => Edit::decode_drop(f.bytes)?,
            8 => Edit::decode_options(f.bytes)?,
            10 => Edit::decode_tables(f.bytes)?,
            12 => Edit::decode_counters(f.bytes)?,
            14 => decode_writers(f.bytes)?,
            _ => {
                f.unknown()?;
                continue;
            }
        });
    }
    Ok(edits)
}
