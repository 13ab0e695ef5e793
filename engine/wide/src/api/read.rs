//! Reads of rows by key: `get`, `get_slice`, `get_count` and their variants for several keys (model
//! 2.4).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::state::ApiTable;
use super::{
    Column, ColumnOrSuperColumn, ColumnParent, ColumnPath, CounterColumn, CounterSuperColumn,
    Keyspace, SlicePredicate, SliceRange, SuperColumn, check,
};
use crate::base::error::Result;
use crate::cell::Cell;
use crate::key::Layout;
use crate::store::{CellStore, SliceReader, StoreSlice, StoreView};
use crate::types::Type;

/// Initial capacity of a position.
const USUAL_PLACE: usize = 64;

/// Part of each row to read, in the store's terms.
pub enum ReadSelection {
    /// The first `count` columns of a slice.
    Slice { slice: StoreSlice, count: usize },
    /// The cells at these positions.
    Cells(Vec<Vec<u8>>),
    /// The super columns in these slices.
    SuperColumns(Vec<StoreSlice>),
}

impl ReadSelection {
    /// Checks and translates a predicate.
    pub fn new(
        table: &ApiTable,
        parent: &ColumnParent,
        predicate: &SlicePredicate,
    ) -> Result<ReadSelection> {
        check::parent(table, parent)?;
        check::predicate(table, parent, predicate)?;
        let super_column = parent.super_column.as_deref();
        let names = match predicate {
            SlicePredicate::Names(names) => names,
            SlicePredicate::Range(range) => {
                let slice = range_slice(table, super_column, range)?;
                return Ok(ReadSelection::Slice {
                    slice,
                    count: usize::try_from(range.count).unwrap_or(0),
                });
            }
        };
        let layout = table.layout();
        if ReadSelection::of_super_columns(table, parent) {
            let slices = names.iter().map(|name| super_column_slice(layout, name));
            let mut slices = slices.collect::<Result<Vec<_>>>()?;
            slices.sort_unstable_by(|a, b| a.from.cmp(&b.from));
            slices.dedup_by(|a, b| a.from == b.from);
            return Ok(ReadSelection::SuperColumns(slices));
        }
        let mut places = Vec::with_capacity(names.len());
        for name in names {
            let mut place = vec![];
            layout.put_cell(super_column.as_slice(), name, &mut place)?;
            places.push(place);
        }
        places.sort_unstable();
        places.dedup();
        Ok(ReadSelection::Cells(places))
    }

    /// Reports whether super columns are read.
    fn of_super_columns(table: &ApiTable, parent: &ColumnParent) -> bool {
        table.def.is_super() && parent.super_column.is_none()
    }
}

/// Returns the slice of a whole super column.
fn super_column_slice(layout: &Layout, name: &[u8]) -> Result<StoreSlice> {
    let (mut from, mut until) = (vec![], vec![]);
    layout.put_row(&[name], &mut from)?;
    layout.put_bound(&[name], true, &mut until)?;
    Ok(StoreSlice::between(from, until))
}

/// Returns the slice of a range of names of columns or super columns.
fn range_slice(
    table: &ApiTable,
    super_column: Option<&[u8]>,
    range: &SliceRange,
) -> Result<StoreSlice> {
    let layout = table.layout();
    let mut slice = match super_column {
        Some(s) => super_column_slice(layout, s)?,
        // Families have no static cells. The slice begins at the start, so that it includes a
        // deletion of the row.
        None => StoreSlice::all(),
    };
    slice.reverse = range.reversed;
    let bounds = [&mut slice.from, &mut slice.until];
    for ((name, after), bound) in range.ascending().into_iter().zip(bounds) {
        if !name.is_empty() {
            bound.clear();
            match (table.def.is_super(), super_column) {
                (true, None) => layout.put_bound(&[name], after, bound)?,
                (_, Some(s)) => layout.put_name_bound(&[s], name, after, bound)?,
                (false, None) => layout.put_name_bound(&[], name, after, bound)?,
            }
        }
    }
    Ok(slice)
}

/// Returns disjoint ranges equivalent to these, in the order of traversal. All have one direction.
fn joined(of: &Type, mut ranges: Vec<SliceRange>) -> Vec<SliceRange> {
    let ordered = |a: &[u8], b: &[u8], reversed: bool| match reversed {
        true => of.compare(b, a),
        false => of.compare(a, b),
    };
    // An empty start is before all names in either direction.
    ranges.sort_by(|a, b| match (a.start.is_empty(), b.start.is_empty()) {
        (false, false) => ordered(&a.start, &b.start, a.reversed),
        (a, b) => b.cmp(&a),
    });
    let mut joined: Vec<SliceRange> = vec![];
    for range in ranges {
        let Some(last) = joined.last_mut() else {
            joined.push(range);
            continue;
        };
        let is_after = |a: &[u8], b: &[u8]| ordered(a, b, range.reversed).is_gt();
        let begins_inside = last.finish.is_empty()
            || range.start.is_empty()
            || !is_after(&range.start, &last.finish);
        if !begins_inside {
            joined.push(range);
        } else if !last.finish.is_empty()
            && (range.finish.is_empty() || is_after(&range.finish, &last.finish))
        {
            last.finish = range.finish;
        }
    }
    joined
}

fn column(name: Vec<u8>, cell: Cell<'_>) -> Column {
    let ttl = cell.ttl().map(|ttl| i32::try_from(ttl).unwrap_or(i32::MAX));
    Column { name, value: cell.value().to_vec(), timestamp: cell.timestamp, ttl }
}

/// Returns the column or counter in a cell.
fn one(layout: &Layout, name: &[u8], cell: Cell<'_>) -> Result<ColumnOrSuperColumn> {
    let mut raw = Vec::with_capacity(name.len());
    layout.name_of(name, &mut raw)?;
    Ok(match cell.counter() {
        Some(value) => CounterColumn { name: raw, value }.into(),
        None => column(raw, cell).into(),
    })
}

/// Reads up to `count` columns of the reader's partition.
fn read_columns(
    layout: &Layout,
    reader: &mut SliceReader,
    count: usize,
) -> Result<Vec<ColumnOrSuperColumn>> {
    let mut out = Vec::with_capacity(count.min(16));
    while out.len() < count
        && let Some(item) = reader.next()?
    {
        if let Some(cell) = item.cell() {
            out.push(one(layout, item.place.name, cell)?);
        }
    }
    Ok(out)
}

/// Reads up to `count` super columns of the reader's partition. Their columns are in ascending
/// order in either direction.
fn read_super_columns(
    table: &ApiTable,
    reader: &mut SliceReader,
    count: usize,
    reversed: bool,
) -> Result<Vec<ColumnOrSuperColumn>> {
    let layout = table.layout();
    let mut out: Vec<ColumnOrSuperColumn> = vec![];
    while count > 0
        && let Some(item) = reader.next()?
    {
        let Some(cell) = item.cell() else { continue };
        if item.new_row {
            if out.len() == count {
                break;
            }
            let mut names = vec![];
            layout.clustering_of(item.place.row, &mut names)?;
            let name = names.pop().unwrap_or_default();
            out.push(match cell.counter() {
                Some(_) => CounterSuperColumn { name, columns: vec![] }.into(),
                None => SuperColumn { name, columns: vec![] }.into(),
            });
        }
        match (out.last_mut(), one(layout, item.place.name, cell)?) {
            (Some(ColumnOrSuperColumn::SuperColumn(s)), ColumnOrSuperColumn::Column(c)) => {
                s.columns.push(c)
            }
            (
                Some(ColumnOrSuperColumn::CounterSuperColumn(s)),
                ColumnOrSuperColumn::CounterColumn(c),
            ) => s.columns.push(c),
            _ => {}
        }
    }
    if reversed {
        for s in &mut out {
            match s {
                ColumnOrSuperColumn::SuperColumn(s) => s.columns.reverse(),
                ColumnOrSuperColumn::CounterSuperColumn(s) => s.columns.reverse(),
                _ => {}
            }
        }
    }
    Ok(out)
}

/// Reads the columns of a selection's slice in the reader's current partition.
pub fn read_slice(
    table: &ApiTable,
    parent: &ColumnParent,
    reader: &mut SliceReader,
    count: usize,
    reversed: bool,
) -> Result<Vec<ColumnOrSuperColumn>> {
    if ReadSelection::of_super_columns(table, parent) {
        read_super_columns(table, reader, count, reversed)
    } else {
        read_columns(table.layout(), reader, count)
    }
}

/// Reads a part of a row, in a snapshot.
pub fn read_row(
    table: &ApiTable,
    parent: &ColumnParent,
    selection: &ReadSelection,
    view: &StoreView,
    key: &[u8],
) -> Result<Vec<ColumnOrSuperColumn>> {
    match selection {
        ReadSelection::Slice { slice, count } => read_slice(
            table,
            parent,
            &mut view.read(&table.cells, key, slice)?,
            *count,
            slice.reverse,
        ),
        ReadSelection::Cells(places) => {
            cells(table, places, view.get_many(&table.cells, key, places)?)
        }
        ReadSelection::SuperColumns(slices) => {
            let mut out = vec![];
            for slice in slices {
                out.append(&mut read_super_columns(
                    table,
                    &mut view.read(&table.cells, key, slice)?,
                    1,
                    false,
                )?);
            }
            Ok(out)
        }
    }
}

fn cells(
    table: &ApiTable,
    places: &[Vec<u8>],
    found: Vec<Option<crate::store::CellValue>>,
) -> Result<Vec<ColumnOrSuperColumn>> {
    let layout = table.layout();
    let mut out = vec![];
    for (place, cell) in places.iter().zip(&found) {
        if let Some(cell) = cell {
            // The name's component is between the row and the last byte.
            let row = layout.row_len(place)?;
            out.push(one(layout, &place[row..place.len() - 1], cell.cell())?);
        }
    }
    Ok(out)
}

/// Returns the number of columns that [`read_row`] would return.
fn count_row(
    table: &ApiTable,
    parent: &ColumnParent,
    selection: &ReadSelection,
    view: &StoreView,
    key: &[u8],
) -> Result<i32> {
    let n = match selection {
        ReadSelection::Slice { slice, count } => {
            let mut reader = view.read(&table.cells, key, slice)?;
            if ReadSelection::of_super_columns(table, parent) {
                reader.count_rows(*count)?
            } else {
                reader.count_cells(*count)?
            }
        }
        ReadSelection::Cells(places) => {
            view.get_many(&table.cells, key, places)?.iter().flatten().count()
        }
        ReadSelection::SuperColumns(slices) => {
            let mut n = 0;
            for slice in slices {
                n += view.read(&table.cells, key, slice)?.count_rows(1)?;
            }
            n
        }
    };
    Ok(i32::try_from(n).unwrap_or(i32::MAX))
}

/// Iterator over the columns of a slice.
pub struct ColumnReader {
    table: Arc<ApiTable>,
    reader: SliceReader,
    left: usize,
}

impl ColumnReader {
    pub fn new(
        store: &CellStore,
        table: Arc<ApiTable>,
        key: &[u8],
        parent: &ColumnParent,
        range: &SliceRange,
    ) -> Result<ColumnReader> {
        check::kind(&table, false)?;
        check::columns(&table, parent)?;
        check::parent(&table, parent)?;
        check::range(table.name_type(parent.super_column.is_some()), range)?;
        check::key(&table, key)?;
        let slice = range_slice(&table, parent.super_column.as_deref(), range)?;
        let reader = store.read(&table.cells, key, &slice)?;
        Ok(ColumnReader { table, reader, left: usize::try_from(range.count).unwrap_or(0) })
    }

    pub fn next(&mut self) -> Result<Option<Column>> {
        while self.left > 0
            && let Some(item) = self.reader.next()?
        {
            if let Some(cell) = item.cell() {
                self.left -= 1;
                let mut name = Vec::with_capacity(item.place.name.len());
                self.table.layout().name_of(item.place.name, &mut name)?;
                return Ok(Some(column(name, cell)));
            }
        }
        Ok(None)
    }
}

impl Keyspace {
    /// Returns a column or super column.
    ///
    /// # Errors
    /// `NotFound` if it does not exist; `InvalidRequest` for an invalid path; errors of the engine.
    pub fn get(&self, key: &[u8], path: &ColumnPath) -> Result<ColumnOrSuperColumn> {
        let table = self.table(&path.column_family)?;
        let (super_column, name) = (path.super_column.as_deref(), path.column.as_deref());
        check::path(&table, super_column, name)?;
        check::key(&table, key)?;
        let layout = table.layout();
        let Some(name) = name else {
            let slice = super_column_slice(layout, super_column.unwrap_or_default())?;
            let mut reader = self.store().read(&table.cells, key, &slice)?;
            return check::found(read_super_columns(&table, &mut reader, 1, false)?.pop());
        };
        let mut place = Vec::with_capacity(USUAL_PLACE);
        let row = super_column.as_slice();
        layout.put_cell(row, name, &mut place)?;
        let cell = check::found(self.store().get(&table.cells, key, &place)?)?;
        one(layout, &place[layout.row_len(&place)?..place.len() - 1], cell.cell())
    }

    /// Returns columns or super columns of a row, in the order of their names or in reverse.
    /// Missing ones are omitted.
    ///
    /// # Errors
    /// `InvalidRequest` for an invalid request; errors of the engine.
    pub fn get_slice(
        &self,
        key: &[u8],
        parent: &ColumnParent,
        predicate: &SlicePredicate,
    ) -> Result<Vec<ColumnOrSuperColumn>> {
        let table = self.table(&parent.column_family)?;
        let selection = ReadSelection::new(&table, parent, predicate)?;
        check::key(&table, key)?;
        match &selection {
            // Takes no snapshot if a single lookup is sufficient.
            ReadSelection::Cells(places) => {
                cells(&table, places, self.store().get_many(&table.cells, key, places)?)
            }
            ReadSelection::Slice { slice, count } => {
                let mut reader = self.store().read(&table.cells, key, slice)?;
                read_slice(&table, parent, &mut reader, *count, slice.reverse)
            }
            ReadSelection::SuperColumns(_) => {
                read_row(&table, parent, &selection, &self.store().view(), key)
            }
        }
    }

    /// Returns the columns (or super columns) of several ranges of a row. Each is returned once, at
    /// most `count` in total, in the order of their names or, if `reversed`, in reverse. Ranges
    /// have a start and a finish in that order; they may overlap and come in any order.
    ///
    /// ```
    /// use firn_wide::{CfDef, ColumnParent, KsDef, Wide};
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-wide-multi-{}",
    /// std::process::id()));
    /// # let wide = Wide::open(&dir)?;
    /// wide.system_add_keyspace(&KsDef::new("K"))?;
    /// wide.system_add_column_family(&CfDef::new("K", "F"))?;
    /// let keyspace = wide.keyspace("K")?;
    /// for name in ["a", "b", "c", "d"] {
    ///     keyspace.family("F")?.row("r").insert(name, "v")?;
    /// }
    /// let ranges = [("c", "d"), ("a", "b")].map(|(from, to)| (from.into(), to.into()));
    /// let found = keyspace.get_multi_slice(b"r", &ColumnParent::new("F"), &ranges, false, 3)?;
    /// assert_eq!(found.iter().map(|c| c.name()).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), firn_wide::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get_slice`](Keyspace::get_slice), with the number of a range whose end is before
    /// its start.
    pub fn get_multi_slice(
        &self,
        key: &[u8],
        parent: &ColumnParent,
        ranges: &[(Vec<u8>, Vec<u8>)],
        reversed: bool,
        count: i32,
    ) -> Result<Vec<ColumnOrSuperColumn>> {
        let table = self.table(&parent.column_family)?;
        check::parent(&table, parent)?;
        check::key(&table, key)?;
        let of = table.name_type(parent.super_column.is_some());
        let mut all = vec![];
        for (number, (start, finish)) in ranges.iter().enumerate() {
            let (start, finish) = (start.clone(), finish.clone());
            let range = SliceRange { start, finish, reversed, count };
            check::range_of_several(of, &range, number)?;
            all.push(range);
        }
        let view = self.store().view();
        let mut found = vec![];
        for joined in joined(of, all) {
            let left = i32::try_from(found.len()).unwrap_or(i32::MAX);
            let range = SliceRange { count: count.saturating_sub(left), ..joined };
            if range.count > 0 {
                let selection = ReadSelection::new(&table, parent, &range.into())?;
                found.append(&mut read_row(&table, parent, &selection, &view, key)?);
            }
        }
        Ok(found)
    }

    /// Like `get_slice` for several rows; returns them by key. A missing row has no columns.
    ///
    /// # Errors
    /// Those of [`get_slice`](Keyspace::get_slice).
    pub fn multiget_slice(
        &self,
        keys: &[impl AsRef<[u8]>],
        parent: &ColumnParent,
        predicate: &SlicePredicate,
    ) -> Result<BTreeMap<Vec<u8>, Vec<ColumnOrSuperColumn>>> {
        self.for_keys(keys, parent, predicate, read_row)
    }

    /// Returns the number of columns (or super columns) that [`get_slice`](Keyspace::get_slice)
    /// would return.
    ///
    /// # Errors
    /// Those of [`get_slice`](Keyspace::get_slice).
    pub fn get_count(
        &self,
        key: &[u8],
        parent: &ColumnParent,
        predicate: &SlicePredicate,
    ) -> Result<i32> {
        let counts = self.for_keys(&[key], parent, predicate, count_row)?;
        Ok(counts.into_values().next().unwrap_or(0))
    }

    /// Like `get_count` for several rows; returns the numbers by key.
    ///
    /// # Errors
    /// Those of [`get_slice`](Keyspace::get_slice).
    pub fn multiget_count(
        &self,
        keys: &[impl AsRef<[u8]>],
        parent: &ColumnParent,
        predicate: &SlicePredicate,
    ) -> Result<BTreeMap<Vec<u8>, i32>> {
        self.for_keys(keys, parent, predicate, count_row)
    }

    fn for_keys<T>(
        &self,
        keys: &[impl AsRef<[u8]>],
        parent: &ColumnParent,
        predicate: &SlicePredicate,
        read: impl Fn(&ApiTable, &ColumnParent, &ReadSelection, &StoreView, &[u8]) -> Result<T>,
    ) -> Result<BTreeMap<Vec<u8>, T>> {
        let table = self.table(&parent.column_family)?;
        let selection = ReadSelection::new(&table, parent, predicate)?;
        keys.iter().try_for_each(|k| check::key(&table, k.as_ref()))?;
        let view = self.store().view();
        let read = |key: &[u8]| Ok((key.to_vec(), read(&table, parent, &selection, &view, key)?));
        keys.iter().map(|k| read(k.as_ref())).collect()
    }

    /// Returns one column of several rows by key, as in Cassandra 0.4. Rows without it are omitted.
    ///
    /// # Errors
    /// Those of [`get`](Keyspace::get), except `NotFound`.
    pub fn multiget(
        &self,
        keys: &[impl AsRef<[u8]>],
        path: &ColumnPath,
    ) -> Result<BTreeMap<Vec<u8>, ColumnOrSuperColumn>> {
        let table = self.table(&path.column_family)?;
        check::path(&table, path.super_column.as_deref(), path.column.as_deref())?;
        let (parent, name) = match (&path.super_column, &path.column) {
            (Some(s), Some(c)) => {
                (ColumnParent::new(&path.column_family).super_column(s.clone()), c)
            }
            (Some(n), None) | (None, Some(n)) => (ColumnParent::new(&path.column_family), n),
            (None, None) => return Ok(BTreeMap::new()),
        };
        let rows = self.multiget_slice(keys, &parent, &SlicePredicate::names([name.clone()]))?;
        Ok(rows.into_iter().filter_map(|(key, mut found)| Some((key, found.pop()?))).collect())
    }
}
