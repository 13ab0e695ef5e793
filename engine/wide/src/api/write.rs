//! Writes: `insert`, `add`, `remove`, `remove_counter`, `batch_mutate`, `truncate` (model 2.3, 2.7,
//! 2.8).

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use firn_kv::{Durability, ErrorKind};

use super::read::{ReadSelection, read_row};
use super::state::ApiTable;
use super::{
    Column, ColumnOrSuperColumn, ColumnParent, ColumnPath, CounterColumn, Deletion, Keyspace,
    Mutation, RowMutation, SlicePredicate, SliceRange, check,
};
use crate::base::error::{Error, Result, invalid};
use crate::key::ROWS;
use crate::store;

thread_local! {
    /// Buffer of this thread for the position of an insert, reused for its memory.
    static PLACE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Builds the store's mutation of a row. The positions of all operations are built in one buffer.
struct CallWriter<'a> {
    mutation: &'a mut store::StoreMutation,
    table: &'a ApiTable,
    place: &'a mut Vec<u8>,
}

impl CallWriter<'_> {
    fn at_cell(&mut self, super_column: Option<&[u8]>, name: &[u8]) -> Result<()> {
        self.place.clear();
        self.table.layout().put_cell(super_column.as_slice(), name, self.place)
    }

    fn column(&mut self, super_column: Option<&[u8]>, c: &Column) -> Result<()> {
        self.at_cell(super_column, &c.name)?;
        let cells = &self.table.cells;
        match self.table.ttl_of(c) {
            Some(ttl) => self.mutation.put_ttl(cells, self.place, c.timestamp, &c.value, ttl),
            None => self.mutation.put(cells, self.place, c.timestamp, &c.value),
        };
        Ok(())
    }

    fn counter(&mut self, super_column: Option<&[u8]>, c: &CounterColumn) -> Result<()> {
        self.at_cell(super_column, &c.name)?;
        self.mutation.add(&self.table.cells, self.place, c.value);
        Ok(())
    }

    fn write(&mut self, write: &ColumnOrSuperColumn) -> Result<()> {
        match write {
            ColumnOrSuperColumn::Column(c) => self.column(None, c),
            ColumnOrSuperColumn::SuperColumn(s) => {
                s.columns.iter().try_for_each(|c| self.column(Some(&s.name), c))
            }
            ColumnOrSuperColumn::CounterColumn(c) => self.counter(None, c),
            ColumnOrSuperColumn::CounterSuperColumn(s) => {
                s.columns.iter().try_for_each(|c| self.counter(Some(&s.name), c))
            }
        }
    }

    /// Deletes a column, a super column or the row.
    fn delete(
        &mut self,
        super_column: Option<&[u8]>,
        name: Option<&[u8]>,
        timestamp: i64,
    ) -> Result<()> {
        let cells = &self.table.cells;
        match (super_column, name) {
            (_, Some(name)) => {
                self.at_cell(super_column, name)?;
                self.mutation.delete(cells, self.place, timestamp);
            }
            (Some(s), None) => {
                self.place.clear();
                self.table.layout().put_row(&[s], self.place)?;
                self.mutation.delete_row(cells, self.place, timestamp);
            }
            (None, None) => {
                self.mutation.delete_partition(cells, timestamp);
            }
        }
        Ok(())
    }

    fn deletion(&mut self, d: &Deletion, timestamp: i64) -> Result<()> {
        let super_column = d.super_column.as_deref();
        match &d.predicate {
            Some(SlicePredicate::Names(names)) => {
                names.iter().try_for_each(|name| match super_column {
                    None if self.table.def.is_super() => self.delete(Some(name), None, timestamp),
                    _ => self.delete(super_column, Some(name), timestamp),
                })
            }
            Some(SlicePredicate::Range(range)) => self.delete_range(super_column, range, timestamp),
            None => self.delete(super_column, None, timestamp),
        }
    }

    /// Deletes the columns, or the super columns, in a range of names.
    fn delete_range(
        &mut self,
        super_column: Option<&[u8]>,
        range: &SliceRange,
        timestamp: i64,
    ) -> Result<()> {
        let layout = self.table.layout();
        let mut bounds = [vec![], vec![]];
        for ((name, after), bound) in range.ascending().into_iter().zip(&mut bounds) {
            match (self.table.def.is_super(), super_column, name.is_empty()) {
                (_, Some(s), true) => layout.put_bound(&[s], after, bound)?,
                (_, None, true) => bound.push(if after { ROWS + 1 } else { ROWS }),
                (true, None, false) => layout.put_bound(&[name], after, bound)?,
                _ => layout.put_deletion_bound(super_column.as_slice(), name, after, bound)?,
            }
        }
        let [start, end] = &bounds;
        self.mutation.delete_range(&self.table.cells, start, end, timestamp);
        Ok(())
    }
}

/// Converts an error of the engine about lengths to one of the request. Keys and names normally
/// fit, but a custom comparator may encode them in a longer form.
pub fn refused(e: Error) -> Error {
    match e {
        Error::Store(e) if e.kind() == ErrorKind::InvalidArgument => {
            invalid(format!("the row's key and the names are too long together: {e}"))
        }
        e => e,
    }
}

impl Keyspace {
    /// Writes a column.
    ///
    /// # Errors
    /// `InvalidRequest` for an invalid column, key or path; errors of the engine.
    pub fn insert(&self, key: &[u8], parent: &ColumnParent, column: &Column) -> Result<()> {
        let table = self.table(&parent.column_family)?;
        check::kind(&table, false)?;
        check::key(&table, key)?;
        check::write(&table, parent, &column.name)?;
        check::column(&table, column, parent.super_column.is_some())?;
        let super_column = parent.super_column.as_deref();
        if table.ttl_of(column).is_some() {
            return self.write_one(&table, key, |w| w.column(super_column, column));
        }
        let mut place = PLACE.take();
        place.clear();
        table.layout().put_cell(super_column.as_slice(), &column.name, &mut place)?;
        let durability = self.wide.shared.durability;
        self.store()
            .put(&table.cells, key, &place, column.timestamp, &column.value, durability)
            .map_err(refused)?;
        PLACE.set(place);
        Ok(())
    }

    /// Adds to a counter, wrapping at 64 bits. Not idempotent: if it is repeated after an error, it
    /// may count twice.
    ///
    /// # Errors
    /// Those of [`insert`](Keyspace::insert).
    pub fn add(&self, key: &[u8], parent: &ColumnParent, column: &CounterColumn) -> Result<()> {
        let table = self.table(&parent.column_family)?;
        check::kind(&table, true)?;
        check::key(&table, key)?;
        check::write(&table, parent, &column.name)?;
        self.write_one(&table, key, |w| w.counter(parent.super_column.as_deref(), column))
    }

    /// Deletes a column, a super column or a row, by its path. It deletes everything written there
    /// with a timestamp up to this one.
    ///
    /// # Errors
    /// Those of [`insert`](Keyspace::insert).
    pub fn remove(&self, key: &[u8], path: &ColumnPath, timestamp: i64) -> Result<()> {
        self.remove_from(key, path, timestamp, false)
    }

    /// Removes a counter, a super column or a row of counters. Later increments start at 0.
    ///
    /// # Errors
    /// Those of [`insert`](Keyspace::insert).
    pub fn remove_counter(&self, key: &[u8], path: &ColumnPath) -> Result<()> {
        self.remove_from(key, path, self.wide.timestamp(), true)
    }

    fn remove_from(
        &self,
        key: &[u8],
        path: &ColumnPath,
        timestamp: i64,
        counters: bool,
    ) -> Result<()> {
        let table = self.table(&path.column_family)?;
        check::kind(&table, counters)?;
        check::key(&table, key)?;
        check::path_or_parent(&table, path)?;
        self.write_one(&table, key, |w| {
            w.delete(path.super_column.as_deref(), path.column.as_deref(), timestamp)
        })
    }

    fn write_one(
        &self,
        table: &ApiTable,
        key: &[u8],
        work: impl FnOnce(&mut CallWriter<'_>) -> Result<()>,
    ) -> Result<()> {
        let (mut mutation, mut place) = (store::StoreMutation::new(key), Vec::with_capacity(64));
        work(&mut CallWriter { mutation: &mut mutation, table, place: &mut place })?;
        self.apply(std::slice::from_ref(&mutation))
    }

    /// Changes rows of several families atomically, for readers and after a crash.
    ///
    /// # Errors
    /// Those of [`insert`](Keyspace::insert).
    pub fn batch_mutate(&self, rows: &[RowMutation]) -> Result<()> {
        let mutations = self.mutations(rows)?;
        if mutations.is_empty() { Ok(()) } else { self.apply(&mutations) }
    }

    /// Checks changes of rows and translates them for the store.
    pub(super) fn mutations(&self, rows: &[RowMutation]) -> Result<Vec<store::StoreMutation>> {
        let state = self.wide.state();
        let mut tables: Vec<&Arc<ApiTable>> = Vec::with_capacity(rows.len());
        for row in rows {
            let table = state.table(&self.name, &row.column_family)?;
            check::key(table, &row.key)?;
            for mutation in &row.mutations {
                match mutation {
                    Mutation::Write(write) => check::column_or_super_column(table, write)?,
                    Mutation::Delete(deletion) => check::deletion(table, deletion)?,
                }
            }
            tables.push(table);
        }
        // One mutation for each key, because all operations on a row are resolved together.
        let mut numbers: HashMap<&[u8], usize> = HashMap::new();
        let mut mutations: Vec<store::StoreMutation> = vec![];
        let mut place = vec![];
        let timestamp = self.wide.timestamp();
        for (row, table) in rows.iter().zip(tables) {
            let number = *numbers.entry(&row.key).or_insert_with(|| {
                mutations.push(store::StoreMutation::new(&row.key));
                mutations.len() - 1
            });
            let mut writer =
                CallWriter { mutation: &mut mutations[number], table, place: &mut place };
            for mutation in &row.mutations {
                match mutation {
                    Mutation::Write(write) => writer.write(write)?,
                    Mutation::Delete(d) if table.def.is_counter() => {
                        let named = self.of_counters(table, row, d)?;
                        writer.deletion(named.as_ref().unwrap_or(d), timestamp)?;
                    }
                    Mutation::Delete(d) => {
                        writer.deletion(d, d.timestamp.unwrap_or(timestamp))?;
                    }
                }
            }
        }
        mutations.retain(|m| !m.is_empty());
        Ok(mutations)
    }

    /// Translates a range deletion of counters to a deletion of the existing names: counter
    /// families have no range deletions. Returns `None` for other deletions.
    fn of_counters(
        &self,
        table: &ApiTable,
        row: &RowMutation,
        deletion: &Deletion,
    ) -> Result<Option<Deletion>> {
        let Some(SlicePredicate::Range(range)) = &deletion.predicate else { return Ok(None) };
        let parent = ColumnParent {
            column_family: row.column_family.clone(),
            super_column: deletion.super_column.clone(),
        };
        let all = SliceRange { count: i32::MAX, ..range.clone() };
        let selection = ReadSelection::new(table, &parent, &all.into())?;
        let found = read_row(table, &parent, &selection, &self.store().view(), &row.key)?;
        let names = found.iter().map(|counter| counter.name().to_vec()).collect();
        let predicate = Some(SlicePredicate::Names(names));
        Ok(Some(Deletion { predicate, ..deletion.clone() }))
    }

    fn apply(&self, mutations: &[store::StoreMutation]) -> Result<()> {
        self.store().apply(mutations, self.wide.shared.durability).map_err(refused)
    }

    /// Deletes all rows of a family. Later writes are visible whatever their timestamps are.
    ///
    /// # Errors
    /// `InvalidRequest` if there is no such family (Cassandra 1.1 ignored that); errors of the
    /// engine.
    pub fn truncate(&self, column_family: &str) -> Result<()> {
        let table = self.table(column_family)?;
        self.store().truncate(&table.cells)?;
        if self.wide.shared.durability == Durability::Power {
            self.store().db().sync()?;
        }
        Ok(())
    }
}
