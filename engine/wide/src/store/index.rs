//! Indexes on parts of columns (model 2.5, 3): written with the data, built from existing data, and
//! read.
//!
//! The key of an entry is described in [`indexed`](super::indexed). Its value is the cell without
//! its value bytes, so that it expires with the cell.
//!
//! Invariants: entries are written in the batch of their cell, under the stripe's lock. Every live
//! cell has its entry. There may be stale entries, whose cell has another value or is dead: readers
//! check each entry.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_kv::{Batch, Cursor, MAX_KEY_LEN, Snapshot, Tree};

use crate::base::error::{Error, Result, invalid};
use crate::cell::{Cell, CellState, StoredCell};
use crate::key::{BEYOND, END, is_inside};

use super::CellStore;
use super::family::{Indexes, StoreFamily};
use super::indexed::{IndexPart, IndexSpec, IndexedEnds, StoredIndex};
use super::moment::StoreMoment;
use super::row_item::Body;
use super::slice::{Partitions, StoreSlice};
use super::trees::TreeName;

/// Number of entries of a row already found that are skipped before a seek to the next row.
const PATIENCE: u32 = 8;

/// Returns the key of the record that an index is built.
pub(super) fn built_record(id: u32) -> Vec<u8> {
    [&b"\0built"[..], &id.to_be_bytes()].concat()
}

/// Returns the cell in a stored value, if it has a value, even an expired one.
fn valued(stored: &[u8]) -> Result<Option<Cell<'_>>> {
    match StoredCell::decode(stored)? {
        StoredCell::Cell(
            cell @ Cell { state: CellState::Live(_) | CellState::Expiring { .. }, .. },
        ) => Ok(Some(cell)),
        _ => Ok(None),
    }
}

fn find<'a>(indexes: &'a Indexes, spec: &IndexSpec) -> Option<&'a Arc<StoredIndex>> {
    indexes.iter().find(|i| i.spec == *spec)
}

/// Returns the new ones of `specs`, whose trees [`take_indexes`](CellStore::take_indexes) needs.
pub(super) fn new_indexes<'a>(
    there: &Indexes,
    specs: &'a [IndexSpec],
) -> impl Iterator<Item = &'a IndexSpec> {
    specs.iter().filter(|spec| find(there, spec).is_none())
}

impl CellStore {
    /// Changes a family's indexes from `before` to `specs`: drops old ones and builds new ones,
    /// whose trees are given in their order.
    pub(super) fn take_indexes(
        &self,
        family: &StoreFamily,
        before: &Indexes,
        specs: &[IndexSpec],
        trees: Vec<Tree>,
    ) -> Result<()> {
        let mut trees = trees.into_iter();
        let mut after = vec![];
        for spec in specs {
            let there = find(before, spec);
            let Some(tree) = there.map_or_else(|| trees.next(), |_| None) else {
                after.extend(there.cloned());
                continue;
            };
            let mut name = vec![];
            if !matches!(spec.part, IndexPart::Clustering(_) | IndexPart::Partition(_)) {
                family.layout().put_name(&spec.name, &mut name)?;
            }
            let built = AtomicBool::new(self.0.schema.contains(&built_record(spec.id))?);
            after.push(Arc::new(StoredIndex { spec: spec.clone(), tree, name, built }));
        }
        let dropped = before.iter().filter(|b| !after.iter().any(|a| a.spec.id == b.spec.id));
        family.set_indexes(after.clone());
        // Wait for writers that have read the old indexes.
        self.0.stripes.pass_through();
        for index in dropped {
            self.0.schema.delete(&built_record(index.spec.id))?;
            self.0.db.drop_tree(&TreeName::Index(index.spec.id).to_string())?;
        }
        // A read-only store cannot build: its queries report that the index is not built yet.
        let unbuilt =
            |i: &&Arc<StoredIndex>| !self.db().is_read_only() && !i.built.load(Ordering::Acquire);
        for index in after.iter().filter(unbuilt) {
            self.build(family, index)?;
        }
        Ok(())
    }

    /// Drops remains of an index without a family. A crash came before its definition was recorded,
    /// or after it was removed.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn drop_lost_index(&self, id: u32) -> Result<()> {
        self.0.schema.delete(&built_record(id))?;
        Ok(self.0.db.drop_tree(&TreeName::Index(id).to_string())?)
    }

    pub(super) fn index_of(&self, family: &StoreFamily, id: u32) -> Result<Arc<StoredIndex>> {
        let found = family.indexes().iter().find(|i| i.spec.id == id).cloned();
        found.ok_or_else(|| invalid(format!("there is no index {id}")))
    }

    /// Rebuilds an index, which removes its stale entries. Meanwhile queries of it are refused.
    ///
    /// # Errors
    /// `InvalidRequest` if the family has no such index; errors of the engine. `Stopped` with a
    /// [`stoppable`](CellStore::stoppable) handle: then queries are refused until this is called
    /// again, or the store is reopened.
    pub fn rebuild_index(&self, family: &StoreFamily, index: u32) -> Result<()> {
        let index = self.index_of(family, index)?;
        {
            let _all = self.0.stripes.lock_all();
            index.built.store(false, Ordering::Release);
            let mut batch = Batch::new();
            batch.delete(&self.0.schema, &built_record(index.spec.id))?;
            batch.delete_range(&index.tree, ..)?;
            self.0.writer.write(batch)?;
        }
        self.build(family, &index)
    }

    /// Adds the entries of all cells that existed before the index; meanwhile writers add theirs.
    fn build(&self, family: &StoreFamily, index: &StoredIndex) -> Result<()> {
        let snapshot = self.0.db.snapshot();
        let at = StoreMoment::Then(&snapshot);
        let mut reader = self.scan_at(at, family, &Partitions::all(), &StoreSlice::all())?;
        let mut full = vec![];
        while reader.next_partition()? {
            let partition = reader.partition().to_vec();
            let key = reader.key().to_vec();
            while let Some(item) = reader.next()? {
                let Body::Cell(_) = item.body else { continue };
                full.clear();
                full.extend_from_slice(&partition);
                item.place.put(&mut full);
                if let Some(ends) = index.row_end(family.layout(), &full, partition.len()) {
                    self.build_entry(family, index, &key, &full, ends)?;
                }
            }
        }
        self.0.schema.put(&built_record(index.spec.id), &[])?;
        index.built.store(true, Ordering::Release);
        Ok(())
    }

    fn build_entry(
        &self,
        family: &StoreFamily,
        index: &StoredIndex,
        key: &[u8],
        full: &[u8],
        ends: IndexedEnds,
    ) -> Result<()> {
        let _held = self.0.stripes.lock(std::iter::once(key));
        let Some(stored) = family.tree().get(full)? else { return Ok(()) };
        let Some(cell) = valued(&stored)? else { return Ok(()) };
        let mut batch = Batch::new();
        put_entry(family, index, full, ends, cell, &mut batch)?;
        Ok(self.0.writer.write(batch)?)
    }

    /// Removes index entries of the cell at a key, if they may differ from those of the cell that
    /// will replace it.
    pub(super) fn unindex(
        &self,
        family: &StoreFamily,
        key: &[u8],
        partition: usize,
        batch: &mut Batch,
    ) -> Result<()> {
        let mut stored = None;
        for index in family.indexes().iter().filter(|i| i.is_by_value()) {
            let Some(ends) = index.row_end(family.layout(), key, partition) else { continue };
            if stored.is_none() {
                stored = family.tree().get(key)?;
            }
            let Some(there) = &stored else { return Ok(()) };
            if let Some(cell) = valued(there)? {
                delete_entry(family, index, key, ends, cell.value(), batch)?;
            }
        }
        Ok(())
    }

    /// Removes a cell from all indexes: it is deleted with its container.
    pub(super) fn unindex_stored(
        &self,
        family: &StoreFamily,
        key: &[u8],
        partition: usize,
        stored: &[u8],
        batch: &mut Batch,
    ) -> Result<()> {
        for index in family.indexes().iter() {
            if let Some(ends) = index.row_end(family.layout(), key, partition)
                && let Some(cell) = valued(stored)?
            {
                delete_entry(family, index, key, ends, cell.value(), batch)?;
            }
        }
        Ok(())
    }

    /// Adds the index entries of a written cell. For a tombstone, removes the entries that
    /// [`unindex`](CellStore::unindex) did not handle.
    pub(super) fn index_cell(
        &self,
        family: &StoreFamily,
        key: &[u8],
        partition: usize,
        stored: &[u8],
        batch: &mut Batch,
    ) -> Result<()> {
        for index in family.indexes().iter() {
            let Some(ends) = index.row_end(family.layout(), key, partition) else { continue };
            match valued(stored)? {
                Some(cell) => put_entry(family, index, key, ends, cell, batch)?,
                None if index.is_by_value() => {}
                None => delete_entry(family, index, key, ends, &[], batch)?,
            }
        }
        Ok(())
    }

    pub(super) fn index_at(
        &self,
        at: StoreMoment<'_>,
        family: &StoreFamily,
        index: u32,
        value: &[u8],
        from: Option<&[u8]>,
    ) -> Result<IndexScan> {
        let index = self.index_of(family, index)?;
        if !index.built.load(Ordering::Acquire) {
            return Err(invalid(format!("the index {} is being built", index.spec.id)));
        }
        let snapshot = if let StoreMoment::Then(s) = at { s.clone() } else { self.db().snapshot() };
        let (prefix, tail) = index.sought(value)?;
        let mut end = prefix.clone();
        // The last byte is the value's END, so the end excludes other values.
        if let Some(last) = end.last_mut() {
            *last = END + 1;
        }
        let mut start = prefix.clone();
        if let Some(key) = from {
            family.layout().put_partition(key, &mut start)?;
        }
        let mut cursor = StoreMoment::Then(&snapshot).cursor(&index.tree, start..end)?;
        cursor.first()?;
        let (store, family, hit) = (self.clone(), family.clone(), vec![]);
        Ok(IndexScan {
            store,
            family,
            snapshot,
            index,
            cursor,
            prefix,
            tail,
            looked: false,
            hit,
            key: vec![],
        })
    }
}

fn put_entry(
    family: &StoreFamily,
    index: &StoredIndex,
    key: &[u8],
    ends: IndexedEnds,
    cell: Cell<'_>,
    batch: &mut Batch,
) -> Result<()> {
    let state = match cell.state {
        CellState::Expiring { ttl, expires, .. } => {
            CellState::Expiring { value: &[], ttl, expires }
        }
        _ => CellState::Live(&[]),
    };
    let mut stored = vec![];
    Cell { timestamp: cell.timestamp, state }.encode(&mut stored);
    let entry = index.entry(family.layout(), key, ends, cell.value())?;
    if entry.len() > MAX_KEY_LEN {
        let what = match index.is_by_value() {
            true => format!("value of size {}: with its primary key it", cell.value().len()),
            false => "this primary key: what is looked for and the key itself".to_owned(),
        };
        return Err(invalid(format!(
            "Cannot index {what} takes {} bytes (maximum allowed size={MAX_KEY_LEN})",
            entry.len()
        )));
    }
    Ok(batch.put(&index.tree, &entry, &stored)?)
}

fn delete_entry(
    family: &StoreFamily,
    index: &StoredIndex,
    key: &[u8],
    ends: IndexedEnds,
    value: &[u8],
    batch: &mut Batch,
) -> Result<()> {
    let entry = index.entry(family.layout(), key, ends, value)?;
    // A cell that was dead before the index was built may be too long for an entry, and has none.
    if entry.len() > MAX_KEY_LEN {
        return Ok(());
    }
    Ok(batch.delete(&index.tree, &entry)?)
}

/// Iterator over the rows whose column has the value, each once. See [`CellStore::index`].
pub struct IndexScan {
    store: CellStore,
    family: StoreFamily,
    snapshot: Snapshot,
    index: Arc<StoredIndex>,
    cursor: Cursor,
    /// Prefix of the entries.
    prefix: Vec<u8>,
    /// End of their cells' positions, if the entries do not contain it.
    tail: Vec<u8>,
    /// Whether the entry at the cursor has been examined.
    looked: bool,
    /// If a row may have several entries: prefix, partition and row of the last hit, while the
    /// cursor is at one of its entries.
    hit: Vec<u8>,
    key: Vec<u8>,
}

impl std::fmt::Debug for IndexScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexScan").field("family", &self.family).finish_non_exhaustive()
    }
}

/// A row found by an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexHit<'a> {
    /// Key of the partition.
    pub key: &'a [u8],
    /// Partition part of its keys.
    pub partition: &'a [u8],
    /// Position of the row, which is a prefix of the positions of its cells. Empty for an index on
    /// a column of the partition key, which finds the whole partition.
    pub row: &'a [u8],
}

impl IndexScan {
    /// Returns the next row. It has been checked: a live cell of it has the value.
    ///
    /// # Errors
    /// Errors of the engine, and `Corrupt`.
    #[allow(clippy::should_implement_trait)] // lends, which an Iterator cannot
    pub fn next(&mut self) -> Result<Option<IndexHit<'_>>> {
        let mut full = vec![];
        let mut prefix = vec![];
        loop {
            self.store.check_stop()?;
            self.step()?;
            if !self.cursor.is_valid() {
                return Ok(None);
            }
            let rest = self.rest()?;
            let layout = self.family.layout();
            let ends = self.index.ends_in_entry(layout, rest)?;
            full.clear();
            self.index.cell_of(rest, ends, &self.tail, &mut full)?;
            let cell = self.store.get_full(
                StoreMoment::Then(&self.snapshot),
                &self.family,
                &full,
                ends.partition,
                &OnceCell::new(),
            )?;
            let Some(cell) = cell else { continue };
            prefix.clear();
            self.index.put_prefix(layout, &full, ends, cell.value(), &mut prefix)?;
            if prefix == self.prefix {
                self.key.clear();
                layout.key_of(&full[..ends.partition], &mut self.key)?;
                let row = if let IndexPart::Partition(_) = self.index.spec.part {
                    ends.partition
                } else {
                    ends.row
                };
                if self.index.has_tails() {
                    self.hit = [&self.prefix, &full[..row]].concat();
                }
                let (partition, row) = self.rest()?[..row].split_at(ends.partition);
                return Ok(Some(IndexHit { key: &self.key, partition, row }));
            }
        }
    }

    /// Continues after a row: [`next`](IndexScan::next) then returns rows after the one with this
    /// position in the partition of `key`. If `row` is empty, it returns rows after the whole
    /// partition.
    ///
    /// # Errors
    /// `InvalidRequest` for an invalid key; errors of the engine.
    pub fn go_on_after(&mut self, key: &[u8], row: &[u8]) -> Result<()> {
        let mut at = self.prefix.clone();
        self.family.layout().put_partition(key, &mut at)?;
        at.extend_from_slice(row);
        at.push(BEYOND);
        self.hit.clear();
        self.looked = false;
        Ok(self.cursor.seek(&at)?)
    }

    /// Moves the cursor to an entry that has not been examined, of another row than the last hit.
    fn step(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.looked, true) {
            return Ok(());
        }
        if self.hit.is_empty() {
            return Ok(self.cursor.next()?);
        }
        let mut hit = std::mem::take(&mut self.hit);
        for _ in 0..PATIENCE {
            self.cursor.next()?;
            if !self.cursor.is_valid() || !is_inside(self.cursor.key(), &hit) {
                return Ok(());
            }
        }
        hit.push(BEYOND);
        Ok(self.cursor.seek(&hit)?)
    }

    /// Returns the part after the prefix of the entry at the cursor.
    fn rest(&self) -> Result<&[u8]> {
        let entry = self.cursor.key();
        let rest = entry.strip_prefix(&*self.prefix);
        rest.ok_or_else(|| {
            Error::Corrupt(format!("malformed index entry: \"{}\"", entry.escape_ascii()))
        })
    }
}
