//! Indexes over parts of columns (model 2.5, 3): written with the data, built over what is there,
//! and read.
//!
//! What an entry's key is made of is in [`indexed`](super::indexed). Its value is the cell's
//! without the bytes, so that it expires with the cell.
//!
//! Invariants: entries are written in the batch of their cell, under the stripe's lock; every live
//! cell has its entry. There may be entries whose cell has another value, or is dead: each is
//! checked when it is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_kv::{Batch, Cursor, Durability, MAX_KEY_LEN, Snapshot, Tree};

use crate::base::error::{Error, Result, invalid};
use crate::cell::{Cell, CellState, StoredCell};
use crate::key::{BEYOND, END, is_inside};

use super::CellStore;
use super::family::{Indexes, StoreFamily};
use super::indexed::{IndexPart, IndexSpec, IndexedEnds, StoredIndex};
use super::moment::StoreMoment;
use super::reader::Body;
use super::slice::{Partitions, StoreSlice};
use super::trees::TreeName;

/// How many entries of a row that was found are stepped over before a seek is made to the next.
const PATIENCE: u32 = 8;

/// The record that an index has been built.
pub(super) fn built_record(id: u32) -> Vec<u8> {
    [&b"\0built"[..], &id.to_be_bytes()].concat()
}

/// Whether a stored value is a cell with a value, of now or of before it expired.
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

/// Those of `specs` that are not there, whose trees [`take_indexes`](CellStore::take_indexes)
/// wants.
pub(super) fn new_indexes<'a>(
    there: &Indexes,
    specs: &'a [IndexSpec],
) -> impl Iterator<Item = &'a IndexSpec> {
    specs.iter().filter(|spec| find(there, spec).is_none())
}

impl CellStore {
    /// Makes a family's indexes, which were `before`, those of `specs`: drops others, builds new
    /// ones, whose trees are given in their order.
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
        // Whoever has seen the indexes of before is done after this.
        self.0.stripes.pass_through();
        for index in dropped {
            self.0.schema.delete(&built_record(index.spec.id))?;
            self.0.db.drop_tree(&TreeName::Index(index.spec.id).to_string())?;
        }
        // A reader has nothing to build with: its queries say that the index is not there yet.
        let unbuilt =
            |i: &&Arc<StoredIndex>| !self.db().is_read_only() && !i.built.load(Ordering::Acquire);
        for index in after.iter().filter(unbuilt) {
            self.build(family, index)?;
        }
        Ok(())
    }

    /// Drops what is left of an index that no family has: a crash came before its definition was
    /// recorded, or after that was gone.
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

    /// Builds an index anew, which frees it of what it holds in vain. It doesn't answer meanwhile.
    ///
    /// # Errors
    /// `InvalidRequest` when the family has no such index; errors of the engine. `Stopped`, by a
    /// [`stoppable`](CellStore::stoppable) handle: it doesn't answer then until this is called
    /// again, or the store is opened again.
    pub fn rebuild_index(&self, family: &StoreFamily, index: u32) -> Result<()> {
        let index = self.index_of(family, index)?;
        {
            let _all = self.0.stripes.lock_all();
            index.built.store(false, Ordering::Release);
            let mut batch = Batch::new();
            batch.delete(&self.0.schema, &built_record(index.spec.id))?;
            batch.delete_range(&index.tree, ..)?;
            self.0.db.with(Durability::Process).write(batch)?;
        }
        self.build(family, &index)
    }

    /// Adds the entries of all cells that were there before the index; writers add theirs
    /// meanwhile.
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
        Ok(self.0.db.with(Durability::Process).write(batch)?)
    }

    /// Takes the cell that is at a key out of the indexes where it has another entry than the one
    /// that is about to take its place may have.
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

    /// Takes a cell out of all indexes: it is deleted with its container.
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

    /// Adds the entries of a cell that is written. Of a tombstone: takes out what
    /// [`unindex`](CellStore::unindex) did not look for.
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
        // The value's END, so nothing of it comes after.
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
    // A cell that was dead before the index was built may be too long for one, and has none.
    if entry.len() > MAX_KEY_LEN {
        return Ok(());
    }
    Ok(batch.delete(&index.tree, &entry)?)
}

/// A stream of the rows whose column has what is looked for, each once. See [`CellStore::index`].
pub struct IndexScan {
    store: CellStore,
    family: StoreFamily,
    snapshot: Snapshot,
    index: Arc<StoredIndex>,
    cursor: Cursor,
    /// The prefix of the entries.
    prefix: Vec<u8>,
    /// The end of their cells' places where entries don't say it.
    tail: Vec<u8>,
    /// Whether the entry under the cursor has been looked at.
    looked: bool,
    /// Where one row may have several entries: prefix, partition and row of the last hit, while the
    /// cursor is on one of its entries.
    hit: Vec<u8>,
    key: Vec<u8>,
}

impl std::fmt::Debug for IndexScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexScan").field("family", &self.family).finish_non_exhaustive()
    }
}

/// A row that an index has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexHit<'a> {
    /// The partition's key.
    pub key: &'a [u8],
    /// Its partition part.
    pub partition: &'a [u8],
    /// The place of the row, which the places of its cells begin with. Of an index over a column of
    /// the partition key it is empty: all that the partition has is found.
    pub row: &'a [u8],
}

impl IndexScan {
    /// The next row. It has been looked at: a live cell of it has what is looked for.
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
            if !self.cursor.valid() {
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

    /// Goes on behind a row: what [`next`](IndexScan::next) shows then comes after the row with
    /// this place in the partition of `key`, or, where `row` is empty, after the whole partition.
    ///
    /// # Errors
    /// `InvalidRequest` for a key that can't be one; errors of the engine.
    pub fn go_on_after(&mut self, key: &[u8], row: &[u8]) -> Result<()> {
        let mut at = self.prefix.clone();
        self.family.layout().put_partition(key, &mut at)?;
        at.extend_from_slice(row);
        at.push(BEYOND);
        self.hit.clear();
        self.looked = false;
        Ok(self.cursor.seek(&at)?)
    }

    /// Puts the cursor on an entry that has not been looked at, of another row than the last hit.
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
            if !self.cursor.valid() || !is_inside(self.cursor.key(), &hit) {
                return Ok(());
            }
        }
        hit.push(BEYOND);
        Ok(self.cursor.seek(&hit)?)
    }

    /// The part behind the prefix in the entry under the cursor.
    fn rest(&self) -> Result<&[u8]> {
        let entry = self.cursor.key();
        let rest = entry.strip_prefix(&*self.prefix);
        rest.ok_or_else(|| {
            Error::Corrupt(format!("an index entry that can't be: \"{}\"", entry.escape_ascii()))
        })
    }
}
