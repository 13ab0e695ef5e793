//! Assembles rows from the cells that the store returns (model 3.2, 3.3).
//!
//! - [`RowShape`]: the selected columns; each has a slot. Built once per statement.
//! - [`ShapeReader`]: reads a [`SliceReader`] row by row.
//! - [`Row`]: one row, or the static cells of a partition.
//!
//! Invariants:
//! - A row exists if it has its marker or a live cell of any current column of the table. In some
//!   views it exists only if it has its marker. Cells of dropped columns are skipped.
//! - A collection without elements is null.
//! - In column families where each cell is a row, the cell is the row's only column, or its marker.
//! - Buffers are reused from row to row: memory does not grow with the number of rows read.

use std::ops::Range;

use firn_wide::internals::cell::{Cell, CellState};
use firn_wide::internals::key::{END, KeyPlace, Layout};
use firn_wide::internals::store::{RowItem, SliceReader};
use firn_wide::{Partitioner, Type};

use crate::catalog::{ColumnKind, FamilyForm, TableColumn, TableSchema};
use crate::error::{Result, corrupt};

/// How the cells of a column form its value.
#[derive(Clone, Debug)]
enum Form {
    /// One cell.
    Single,
    /// List of the values of the cells.
    List,
    /// Set of the paths.
    Set(Type),
    /// Map from paths to values.
    Map(Type),
    /// Values by the field number in the path; has the number of fields.
    User(usize),
}

/// Use of a column id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowEntry {
    /// A name that belongs to no column of the table.
    Unknown,
    /// Its cells only show that the row exists.
    Unwanted,
    /// Its value goes into this slot.
    Slot(usize),
}

/// The selected columns. The slot of a column is its position in the list from which the shape was
/// built.
#[derive(Clone, Debug)]
pub struct RowShape {
    entries: Vec<RowEntry>,
    /// By column id: cells of this timestamp or an older one are dropped. Empty if there are none.
    dropped: Vec<Option<i64>>,
    forms: Vec<Form>,
    layout: Layout,
    /// Maps cell names to columns, if the names do not contain column ids.
    form: Option<FamilyForm>,
    /// Only column of rows that are cells.
    only: Option<u16>,
    /// Largest id of a selected column that is not static.
    last: Option<u16>,
    /// Whether static columns are selected, or the existence of static cells matters.
    statics: bool,
    /// Whether times of cells are selected.
    times: bool,
    /// Whether a row exists only if it has its marker.
    by_marker: bool,
}

impl RowShape {
    /// Creates the shape of these static and regular columns of the table. `times`: whether
    /// [`Row::times`] will be called.
    pub fn new<'t>(
        table: &'t TableSchema,
        partitioner: Partitioner,
        wanted: impl IntoIterator<Item = &'t TableColumn>,
        times: bool,
    ) -> RowShape {
        let count = table.columns().iter().map(|c| usize::from(c.id) + 1).max().unwrap_or(0);
        let mut entries = vec![RowEntry::Unknown; count];
        let mut dropped = vec![];
        for column in table.columns() {
            if let Some(until) = table.dropped_until(column) {
                dropped.resize(count, None);
                dropped[usize::from(column.id)] = Some(until);
            }
        }
        for column in table.columns().iter().filter(|c| !c.is_primary_key()) {
            entries[usize::from(column.id)] = RowEntry::Unwanted;
        }
        let (mut forms, mut last, mut statics) = (vec![], None, false);
        for column in wanted {
            entries[usize::from(column.id)] = RowEntry::Slot(forms.len());
            statics |= column.is_static();
            if !column.is_static() {
                last = last.max(Some(column.id));
            }
            forms.push(match (&column.of.value_type, column.of.path_type()) {
                (Type::List(_), Some(_)) => Form::List,
                (Type::Set(_), Some(path)) => Form::Set(path),
                (Type::Map(_), Some(path)) => Form::Map(path),
                (Type::Udt(udt), Some(_)) => Form::User(udt.fields.len()),
                _ => Form::Single,
            });
        }
        if table.form().is_some() {
            // The cells of a row are sorted by name.
            last = last.map(|_| u16::MAX);
        }
        RowShape {
            entries,
            dropped,
            forms,
            layout: table.layout(partitioner),
            form: table.form().cloned(),
            only: table.regulars().next().map(|c| c.id),
            last,
            statics,
            times,
            by_marker: table.needs_markers(),
        }
    }

    /// Returns this shape for reads that show a partition without rows if it has any static cell.
    pub fn with_statics(self) -> RowShape {
        RowShape { statics: true, ..self }
    }

    /// Returns this shape for tables where a row exists only if it has its marker.
    pub fn by_markers(self) -> RowShape {
        RowShape { by_marker: true, ..self }
    }

    /// Reports whether static cells are read.
    pub fn wants_statics(&self) -> bool {
        self.statics
    }

    /// Reports whether times of cells are read.
    pub fn has_times(&self) -> bool {
        self.times
    }

    /// Returns the layout of the rows.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Reports whether each cell is a row.
    fn rows_are_cells(&self) -> bool {
        self.form.as_ref().is_some_and(FamilyForm::rows_are_cells)
    }

    /// Returns the id of the column whose cell is at this position; `None` for the row's marker.
    fn column_of(&self, place: &KeyPlace<'_>) -> Result<Option<u16>> {
        match &self.form {
            None => column_of(place.name),
            Some(form) if form.rows_are_cells() => Ok(self.only),
            // No column has the id 0.
            Some(form) => Ok(Some(form.column_of(place.name).unwrap_or_default())),
        }
    }

    /// Returns the use of a cell of this column id with this timestamp.
    fn entry(&self, id: u16, timestamp: i64) -> RowEntry {
        let id = usize::from(id);
        match self.dropped.get(id) {
            Some(Some(until)) if timestamp <= *until => RowEntry::Unknown,
            _ => self.entries.get(id).copied().unwrap_or(RowEntry::Unknown),
        }
    }
}

/// The value of a column during its assembly, in the bytes of its row.
#[derive(Clone, Debug, Default)]
struct CellSlot {
    there: bool,
    /// Range of the value. While it grows it is the last one in the bytes, because the cells of a
    /// column are adjacent.
    range: Range<usize>,
    /// For each element: the number of the field (else 0) and its start.
    elements: Vec<(u16, usize)>,
    /// Times of its cells, if selected; those of a user type by field.
    times: Vec<Option<CellTimes>>,
}

/// Write time and remaining time of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellTimes {
    /// Timestamp.
    pub written: i64,
    /// Remaining time to live in seconds.
    pub left: Option<i64>,
}

/// Initial capacity for the bytes of values.
const USUAL: usize = 256;
/// Initial capacity of a clustering value.
const SHORT: usize = 32;

/// Cells of a row, or static cells of a partition.
#[derive(Clone, Debug, Default)]
pub struct Row {
    exists: bool,
    place: Vec<u8>,
    /// Clustering values, each with whether it is set. Rows of compact tables may be written
    /// without some; these are null.
    clustering: Vec<(Vec<u8>, bool)>,
    bytes: Vec<u8>,
    slots: Vec<CellSlot>,
}

impl Row {
    /// Creates a row without cells.
    pub fn none() -> Row {
        Row::default()
    }

    /// Creates a row of a table that is not stored, with these values, one for each of its columns.
    pub fn given(
        shape: &RowShape,
        table: &TableSchema,
        place: &[u8],
        values: &[Option<Vec<u8>>],
    ) -> Row {
        let mut row = Row { exists: true, place: place.to_vec(), ..Row::default() };
        row.slots.resize_with(shape.forms.len(), CellSlot::default);
        for (column, value) in table.columns().iter().zip(values) {
            match (column.kind, value) {
                (ColumnKind::Clustering, _) => {
                    row.clustering.push((value.clone().unwrap_or_default(), value.is_some()));
                }
                (ColumnKind::Static | ColumnKind::Regular, Some(value)) => {
                    if let RowEntry::Slot(slot) = shape.entry(column.id, 0) {
                        let start = row.bytes.len();
                        row.bytes.extend_from_slice(value);
                        let slot = &mut row.slots[slot];
                        (slot.there, slot.range) = (true, start..row.bytes.len());
                    }
                }
                _ => {}
            }
        }
        row
    }

    /// Reports whether the row exists: it has its marker or a live cell. For static cells: whether
    /// there is one.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// Returns the components of the row's position ([`firn_wide::internals::key::KeyPlace::row`]).
    pub fn place(&self) -> &[u8] {
        &self.place
    }

    /// Returns the value of a clustering column. `None` is null: for static cells, and for rows of
    /// compact tables written without it.
    pub fn clustering(&self, position: usize) -> Option<&[u8]> {
        self.clustering.get(position).filter(|(_, there)| *there).map(|(value, _)| &**value)
    }

    /// Returns the value in a slot; `None` is null.
    pub fn value(&self, slot: usize) -> Option<&[u8]> {
        self.slots.get(slot).filter(|s| s.there).map(|s| &self.bytes[s.range.clone()])
    }

    /// Returns the times of the cells of the value in a slot, in the order of its parts; none for
    /// null.
    pub fn times(&self, slot: usize) -> &[Option<CellTimes>] {
        self.slots.get(slot).filter(|s| s.there).map_or(&[], |s| &s.times)
    }

    /// Clears the row, with one slot for each of the shape.
    fn clear(&mut self, shape: &RowShape) {
        self.exists = false;
        self.bytes.clear();
        self.bytes.reserve(USUAL);
        if self.slots.len() != shape.forms.len() {
            self.slots.resize_with(shape.forms.len(), CellSlot::default);
        }
        for slot in &mut self.slots {
            slot.there = false;
            slot.elements.clear();
            slot.times.clear();
        }
    }

    /// Sets the position of the row that contains, or is, a cell.
    fn begin(&mut self, shape: &RowShape, place: &KeyPlace<'_>) -> Result<()> {
        self.clear(shape);
        let clusterings = shape.layout.clustering().len();
        if self.clustering.len() != clusterings {
            let short = || (Vec::with_capacity(SHORT), false);
            self.clustering.resize_with(clusterings, short);
        }
        self.place.clear();
        self.place.reserve(place.row.len().max(SHORT));
        self.place.extend_from_slice(place.row);
        if shape.rows_are_cells() {
            self.place.push(END);
            self.place.extend_from_slice(place.name);
        }
        Ok(shape.layout.read_row(&self.place, &mut self.clustering)?)
    }

    /// Adds a cell of the column with this id.
    fn take(
        &mut self,
        shape: &RowShape,
        item: &RowItem<'_>,
        id: Option<u16>,
        now: Option<i64>,
    ) -> Result<()> {
        let Some(cell) = item.cell() else { return Ok(()) };
        let Some(id) = id else {
            self.exists = true;
            return Ok(());
        };
        match shape.entry(id, cell.timestamp) {
            RowEntry::Unknown => {}
            RowEntry::Unwanted => self.exists |= !shape.by_marker,
            RowEntry::Slot(slot) => {
                self.exists |= !shape.by_marker;
                self.slots[slot].take(
                    &shape.forms[slot],
                    item.place.path,
                    &cell,
                    now,
                    &mut self.bytes,
                )?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, shape: &RowShape, reverse: bool, scratch: &mut Vec<u8>) {
        for (slot, form) in self.slots.iter_mut().zip(&shape.forms) {
            slot.finish(form, reverse, &mut self.bytes, scratch);
        }
    }
}

fn put_value(cell: &Cell<'_>, out: &mut Vec<u8>) {
    match cell.state {
        CellState::Counter(sum) => out.extend_from_slice(&sum.to_be_bytes()),
        _ => out.extend_from_slice(cell.value()),
    }
}

/// Appends the output of `put`, prefixed by its length.
fn put_part(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out)?;
    let len = i32::try_from(out.len() - start - 4)
        .map_err(|_| corrupt("an element is longer than 2 GiB"))?;
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
    Ok(())
}

fn put_path(of: &Type, mut path: &[u8], out: &mut Vec<u8>) -> Result<()> {
    of.take_component(&mut path, out)
        .map_err(|_| corrupt("the path of an element can't be read"))?;
    Ok(())
}

impl CellSlot {
    /// Adds a cell of the column. `bytes` are those of the row; `now` is set if times are selected.
    fn take(
        &mut self,
        form: &Form,
        path: Option<&[u8]>,
        cell: &Cell<'_>,
        now: Option<i64>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let first = !self.there;
        if first {
            self.range = bytes.len()..bytes.len();
        } else if self.range.end != bytes.len() {
            return Err(corrupt("the cells of a column do not follow each other"));
        }
        self.there = true;
        if let Some(now) = now {
            let left = cell.ttl().and(cell.remaining(now));
            self.times.push(Some(CellTimes { written: cell.timestamp, left }));
        }
        if let Form::Single = form {
            put_value(cell, bytes);
            self.range.end = bytes.len();
            return Ok(());
        }
        let path = path.ok_or_else(|| corrupt("an element of a collection has no path"))?;
        if first {
            // Space for the number of elements.
            bytes.extend_from_slice(&[0; 4]);
        }
        let start = bytes.len();
        let mut field = 0;
        match form {
            Form::Single | Form::List => {}
            Form::Set(of) | Form::Map(of) => put_part(bytes, |out| put_path(of, path, out))?,
            Form::User(_) => {
                let mut raw = vec![];
                put_path(&Type::Short, path, &mut raw)?;
                let number = <[u8; 2]>::try_from(&*raw).map(u16::from_be_bytes);
                field = number.map_err(|_| corrupt("the path of a field is not a number"))?;
            }
        }
        if !matches!(form, Form::Set(_)) {
            put_part(bytes, |out| {
                put_value(cell, out);
                Ok(())
            })?;
        }
        self.elements.push((field, start));
        self.range.end = bytes.len();
        Ok(())
    }

    /// Serialises the elements.
    fn finish(&mut self, form: &Form, reverse: bool, bytes: &mut Vec<u8>, scratch: &mut Vec<u8>) {
        if matches!(form, Form::Single) || !self.there {
            return;
        }
        let part =
            |i: usize| self.elements[i].1..self.elements.get(i + 1).map_or(self.range.end, |e| e.1);
        scratch.clear();
        match form {
            Form::User(fields) => {
                for field in 0..*fields {
                    match self.elements.iter().position(|e| usize::from(e.0) == field) {
                        Some(i) => scratch.extend_from_slice(&bytes[part(i)]),
                        None => scratch.extend_from_slice(&(-1i32).to_be_bytes()),
                    }
                }
                if !self.times.is_empty() {
                    let of = |field: usize| {
                        let i = self.elements.iter().position(|e| usize::from(e.0) == field)?;
                        self.times.get(i).copied().flatten()
                    };
                    self.times = (0..*fields).map(of).collect();
                }
            }
            _ => {
                let count = i32::try_from(self.elements.len()).unwrap_or(i32::MAX).to_be_bytes();
                if !reverse {
                    bytes[self.range.start..][..4].copy_from_slice(&count);
                    return;
                }
                self.times.reverse();
                scratch.extend_from_slice(&count);
                for i in (0..self.elements.len()).rev() {
                    scratch.extend_from_slice(&bytes[part(i)]);
                }
            }
        }
        self.range = bytes.len()..bytes.len() + scratch.len();
        bytes.extend_from_slice(scratch);
    }
}

/// Returns the id of the column whose cell has this name; `None` for the row's marker.
fn column_of(name: &[u8]) -> Result<Option<u16>> {
    match name {
        [_, high, low] => Ok(Some(u16::from_be_bytes([*high, *low]))),
        [_] => Ok(None),
        _ => Err(corrupt("the name of a cell is not a column id")),
    }
}

/// Reads rows of one partition, or of many.
pub struct ShapeReader<'s> {
    shape: &'s RowShape,
    reader: SliceReader,
    reverse: bool,
    now: Option<i64>,
    statics: Row,
    /// The row returned last.
    row: Row,
    /// The row of the reader's position; `begun` is set after one of its cells was added.
    next: Row,
    begun: bool,
    /// No row of the partition has been read yet.
    fresh: bool,
    scratch: Vec<u8>,
}

impl std::fmt::Debug for ShapeReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowReader").field("reader", &self.reader).finish_non_exhaustive()
    }
}

impl<'s> ShapeReader<'s> {
    /// Creates a reader of one partition (call [`start`](ShapeReader::start)) or of many (call
    /// [`next_partition`](ShapeReader::next_partition)). `reverse` is that of its slice.
    pub fn new(shape: &'s RowShape, reader: SliceReader, reverse: bool) -> ShapeReader<'s> {
        let now = shape.times.then(|| reader.now());
        let (statics, row, next) = (Row::none(), Row::none(), Row::none());
        ShapeReader {
            shape,
            reader,
            reverse,
            now,
            statics,
            row,
            next,
            begun: false,
            fresh: false,
            scratch: vec![],
        }
    }

    /// Reads the static cells of the partition, if the slice has them before the rows.
    ///
    /// # Errors
    /// Errors of the engine, and errors for invalid cells.
    pub fn start(&mut self) -> Result<()> {
        if self.shape.statics {
            self.statics.clear(self.shape);
            while let Some(item) = self.reader.next_static()? {
                let id = self.shape.column_of(&item.place)?;
                self.statics.take(self.shape, &item, id, self.now)?;
            }
        }
        (self.begun, self.fresh) = (false, true);
        self.statics.finish(self.shape, self.reverse, &mut self.scratch);
        Ok(())
    }

    /// Reads the first cell of the first row.
    fn start_rows(&mut self) -> Result<()> {
        while let Some(item) = self.reader.next()? {
            if !item.place.is_static {
                let id = self.shape.column_of(&item.place)?;
                self.next.begin(self.shape, &item.place)?;
                self.next.take(self.shape, &item, id, self.now)?;
                self.begun = true;
                break;
            }
        }
        Ok(())
    }

    /// Moves to the next partition of a scan and reads its static cells; returns false after the
    /// last.
    ///
    /// # Errors
    /// Those of [`start`](ShapeReader::start).
    pub fn next_partition(&mut self) -> Result<bool> {
        if !self.reader.next_partition()? {
            return Ok(false);
        }
        self.start()?;
        Ok(true)
    }

    /// Returns the key of the partition.
    pub fn key(&self) -> &[u8] {
        self.reader.key()
    }

    /// Returns the number of deleted rows and cells that were skipped.
    pub fn tombstones(&self) -> u64 {
        self.reader.tombstones()
    }

    /// Returns the static cells of the partition. None if the slice excludes them or is reversed.
    pub fn statics(&self) -> &Row {
        &self.statics
    }

    /// Returns the row read last.
    pub fn row(&self) -> &Row {
        &self.row
    }

    /// Moves to the next row of the partition; returns false after the last.
    ///
    /// # Errors
    /// Those of [`start`](ShapeReader::start).
    pub fn advance(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.fresh) {
            self.start_rows()?;
        }
        while self.begun {
            self.begun = false;
            std::mem::swap(&mut self.row, &mut self.next);
            self.fill()?;
            if self.row.exists {
                self.row.finish(self.shape, self.reverse, &mut self.scratch);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the rest of the row, and the first cell of the next.
    fn fill(&mut self) -> Result<()> {
        let are_cells = self.shape.rows_are_cells();
        let mut enough = self.row.exists && self.shape.last.is_none() && !are_cells;
        loop {
            if enough {
                self.reader.skip_row()?;
            }
            let Some(item) = self.reader.next()? else { return Ok(()) };
            if item.place.is_static {
                // End of a reversed slice.
                return Ok(());
            }
            let id = self.shape.column_of(&item.place)?;
            if item.new_row || are_cells {
                self.next.begin(self.shape, &item.place)?;
                self.next.take(self.shape, &item, id, self.now)?;
                self.begun = true;
                return Ok(());
            }
            self.row.take(self.shape, &item, id, self.now)?;
            enough = !self.reverse && self.row.exists && id > self.shape.last;
        }
    }
}
