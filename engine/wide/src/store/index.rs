//! Indexes over the values of one column (KEYS indexes, model 2.5).
//!
//! An entry's key is `component(value) 0x38 partition row`: the value in its type's byte-comparable form, so that values that are equal in it
//! are one, and the place of the row. Its value is the cell's without the bytes, so that it expires with the cell.
//!
//! Invariants: entries are written in the batch of their cell, under the stripe's lock; every live cell has its entry. There may be entries
//! whose cell has another value, or is dead: each is checked when it is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_kv::{Batch, Cursor, Durability, FilterKind, Snapshot, TreeOptions};

use crate::base::error::{Error, Result, invalid};
use crate::cell::{Cell, State, Stored, StoredPurge};
use crate::key::END;

use super::Store;
use super::family::{Family, Index, IndexSpec};
use super::reader::Body;
use super::slice::{Partitions, Slice};
use super::view::At;

fn tree_name(id: u32) -> String {
    format!("ix-{id}")
}

fn built_record(id: u32) -> Vec<u8> {
    [&b"\0built"[..], &id.to_be_bytes()].concat()
}

fn options() -> TreeOptions {
    // Entries are only ever met in scans; one that has expired needs no grace.
    let purge = StoredPurge { gc_grace: 0, token_len: 0 };
    TreeOptions { filter: vec![FilterKind::None], purge: Some(Arc::new(purge)), ..TreeOptions::default() }
}

/// Whether a stored value is a cell with a value, of now or of before it expired.
fn valued(stored: &[u8]) -> Result<Option<Cell<'_>>> {
    match Stored::decode(stored)? {
        Stored::Cell(cell @ Cell { state: State::Live(_) | State::Expiring { .. }, .. }) => Ok(Some(cell)),
        _ => Ok(None),
    }
}

impl Index {
    /// Appends what all entries of a value begin with.
    fn put_value(&self, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.spec.value.put_component(value, out)?;
        out.push(END);
        Ok(())
    }

    /// The key of the entry of a cell.
    fn entry(&self, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        let mut entry = Vec::with_capacity(key.len() + value.len() + 4);
        self.put_value(value, &mut entry)?;
        entry.extend_from_slice(&key[..key.len() - self.name.len()]);
        Ok(entry)
    }
}

impl Store {
    /// Makes a family's indexes those of `specs`: drops others, builds new ones.
    pub(super) fn take_indexes(&self, family: &Family, specs: &[IndexSpec]) -> Result<()> {
        let before = family.indexes();
        let mut after = vec![];
        for spec in specs {
            if let Some(there) = before.iter().find(|i| i.spec == *spec) {
                after.push(there.clone());
                continue;
            }
            let tree = self.0.db.tree(&tree_name(spec.id), options())?;
            let mut name = vec![];
            family.layout().put_name(&spec.name, &mut name)?;
            let built = AtomicBool::new(self.0.schema.contains(&built_record(spec.id))?);
            after.push(Arc::new(Index { spec: spec.clone(), tree, name, built }));
        }
        let dropped = before.iter().filter(|b| !after.iter().any(|a| a.spec.id == b.spec.id));
        family.set_indexes(after.clone());
        // Whoever has seen the indexes of before is done after this.
        self.0.stripes.pass_through();
        for index in dropped {
            self.0.schema.delete(&built_record(index.spec.id))?;
            self.0.db.drop_tree(&tree_name(index.spec.id))?;
        }
        for index in after.iter().filter(|i| !i.built.load(Ordering::Acquire)) {
            self.build(family, index)?;
        }
        Ok(())
    }

    fn index_of(&self, family: &Family, id: u32) -> Result<Arc<Index>> {
        let found = family.indexes().iter().find(|i| i.spec.id == id).cloned();
        found.ok_or_else(|| invalid(format!("there is no index {id}")))
    }

    /// Builds an index anew, which frees it of what it holds in vain. It doesn't answer meanwhile.
    ///
    /// # Errors
    /// `InvalidRequest` when the family has no such index; errors of the engine.
    pub fn rebuild_index(&self, family: &Family, index: u32) -> Result<()> {
        let index = self.index_of(family, index)?;
        {
            let _all = self.0.stripes.lock_all();
            index.built.store(false, Ordering::Release);
            let mut batch = Batch::new();
            batch.delete(&self.0.schema, &built_record(index.spec.id))?;
            batch.delete_range(&index.tree, &[], &[0xFF; 64])?;
            self.0.db.write_with(batch, Durability::Process)?;
        }
        self.build(family, &index)
    }

    /// Adds the entries of all cells that were there before the index; writers add theirs meanwhile.
    fn build(&self, family: &Family, index: &Index) -> Result<()> {
        let view = self.view();
        let mut reader = view.scan(family, &Partitions::all(), &Slice::all())?;
        let mut full = vec![];
        while reader.next_partition()? {
            let partition = reader.partition().to_vec();
            let key = reader.key().to_vec();
            while let Some(item) = reader.next()? {
                let Body::Cell(_) = item.body else { continue };
                full.clear();
                full.extend_from_slice(&partition);
                item.place.put(&mut full);
                if index.is_about(family.layout(), &full[partition.len()..]) {
                    self.build_entry(family, index, &key, &full)?;
                }
            }
        }
        self.0.schema.put(&built_record(index.spec.id), &[])?;
        index.built.store(true, Ordering::Release);
        Ok(())
    }

    fn build_entry(&self, family: &Family, index: &Index, key: &[u8], full: &[u8]) -> Result<()> {
        let _held = self.0.stripes.lock(std::iter::once(key));
        let Some(stored) = family.tree().get(full)? else { return Ok(()) };
        let Some(cell) = valued(&stored)? else { return Ok(()) };
        let mut batch = Batch::new();
        put_entry(index, full, cell, &mut batch)?;
        Ok(self.0.db.write_with(batch, Durability::Process)?)
    }

    /// Takes the cell that is at a key out of the indexes: another is about to take its place.
    pub(super) fn unindex(&self, family: &Family, key: &[u8], partition: usize, batch: &mut Batch) -> Result<()> {
        if !family.indexes().iter().any(|i| i.is_about(family.layout(), &key[partition..])) {
            return Ok(());
        }
        let Some(stored) = family.tree().get(key)? else { return Ok(()) };
        self.unindex_stored(family, key, partition, &stored, batch)
    }

    pub(super) fn unindex_stored(
        &self,
        family: &Family,
        key: &[u8],
        partition: usize,
        stored: &[u8],
        batch: &mut Batch,
    ) -> Result<()> {
        let place = key.get(partition..).unwrap_or_default();
        for index in family.indexes().iter().filter(|i| i.is_about(family.layout(), place)) {
            if let Some(cell) = valued(stored)? {
                batch.delete(&index.tree, &index.entry(key, cell.value())?)?;
            }
        }
        Ok(())
    }

    /// Adds the entries of a cell that is written.
    pub(super) fn index_cell(
        &self,
        family: &Family,
        key: &[u8],
        partition: usize,
        stored: &[u8],
        batch: &mut Batch,
    ) -> Result<()> {
        for index in family.indexes().iter().filter(|i| i.is_about(family.layout(), &key[partition..])) {
            if let Some(cell) = valued(stored)? {
                put_entry(index, key, cell, batch)?;
            }
        }
        Ok(())
    }

    pub(super) fn index_at(
        &self,
        at: At<'_>,
        family: &Family,
        index: u32,
        value: &[u8],
        from: Option<&[u8]>,
    ) -> Result<IndexScan> {
        let index = self.index_of(family, index)?;
        if !index.built.load(Ordering::Acquire) {
            return Err(invalid(format!("the index {} is being built", index.spec.id)));
        }
        let snapshot = if let At::Then(s) = at { s.clone() } else { self.db().snapshot() };
        let mut prefix = vec![];
        index.put_value(value, &mut prefix)?;
        let mut end = prefix.clone();
        // The value's END, so nothing of it comes after.
        if let Some(last) = end.last_mut() {
            *last = END + 1;
        }
        let mut start = prefix.clone();
        if let Some(key) = from {
            family.layout().put_partition(key, &mut start)?;
        }
        let cursor = At::Then(&snapshot).cursor(&index.tree, start..end)?;
        let (store, family) = (self.clone(), family.clone());
        Ok(IndexScan { store, family, snapshot, index, cursor, prefix, started: false, key: vec![] })
    }
}

fn put_entry(index: &Index, key: &[u8], cell: Cell<'_>, batch: &mut Batch) -> Result<()> {
    let state = match cell.state {
        State::Expiring { ttl, expires, .. } => State::Expiring { value: &[], ttl, expires },
        _ => State::Live(&[]),
    };
    let mut stored = vec![];
    Cell { timestamp: cell.timestamp, state }.encode(&mut stored);
    Ok(batch.put(&index.tree, &index.entry(key, cell.value())?, &stored)?)
}

/// A stream of the rows whose column has a value. See [`Store::index`].
pub struct IndexScan {
    store: Store,
    family: Family,
    snapshot: Snapshot,
    index: Arc<Index>,
    cursor: Cursor,
    /// The value's component, which entries begin with.
    prefix: Vec<u8>,
    started: bool,
    key: Vec<u8>,
}

/// A row that an index has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit<'a> {
    /// The partition's key.
    pub key: &'a [u8],
    /// Its partition part.
    pub partition: &'a [u8],
    /// The place of the row, which the places of its cells begin with.
    pub row: &'a [u8],
}

impl IndexScan {
    /// The next row. Its column has been looked at: it has the value.
    ///
    /// # Errors
    /// Errors of the engine, and `Corrupt`.
    #[allow(clippy::should_implement_trait)] // lends, which an Iterator cannot
    pub fn next(&mut self) -> Result<Option<Hit<'_>>> {
        let mut full = vec![];
        loop {
            if self.started {
                self.cursor.next()?
            } else {
                self.cursor.first()?
            }
            self.started = true;
            if !self.cursor.valid() {
                return Ok(None);
            }
            let row = self.row()?;
            full.clear();
            full.extend_from_slice(row);
            full.extend_from_slice(&self.index.name);
            let partition = self.family.layout().partition_len(&full)?;
            let cell = self.store.get_full(At::Then(&self.snapshot), &self.family, &full, partition)?;
            let Some(cell) = cell else { continue };
            let mut prefix = vec![];
            self.index.put_value(cell.value(), &mut prefix)?;
            if prefix == self.prefix {
                self.key.clear();
                self.family.layout().key_of(&full[..partition], &mut self.key)?;
                let (partition, row) = self.row()?.split_at(partition);
                return Ok(Some(Hit { key: &self.key, partition, row }));
            }
        }
    }

    /// The partition and row of the entry under the cursor.
    fn row(&self) -> Result<&[u8]> {
        let entry = self.cursor.key();
        let row = entry.strip_prefix(&*self.prefix);
        row.ok_or_else(|| Error::Corrupt(format!("an index entry that can't be: \"{}\"", entry.escape_ascii())))
    }
}
