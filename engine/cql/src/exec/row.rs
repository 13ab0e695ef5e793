//! Rows put together from the cells that the store streams (model 3.2, 3.3).
//!
//! - [`RowShape`]: which columns are wanted; each has a slot. Made once for a statement.
//! - [`ShapeReader`]: goes over a [`SliceReader`] row by row.
//! - [`Row`]: one row, or the static cells of a partition.
//!
//! Invariants: a row is there when it has its marker or a live cell of any column that the table
//! has now, and one of some views only while it has its marker; what dropped columns left is passed
//! over. A collection without elements is null. Where each cell of a column family is a row, it is
//! the row's only column, or its marker.
//! Buffers are used again from row to row: memory does not grow with what is read.

use std::ops::Range;

use firn_wide::internals::cell::{Cell, CellState};
use firn_wide::internals::key::{END, KeyPlace, Layout};
use firn_wide::internals::store::{RowItem, SliceReader};
use firn_wide::{Partitioner, Type};

use crate::catalog::{ColumnKind, FamilyForm, TableColumn, TableSchema};
use crate::error::{Result, corrupt};

/// How the cells of a column make its value.
#[derive(Clone, Debug)]
enum Form {
    /// One cell.
    Single,
    /// The values of the cells.
    List,
    /// The paths.
    Set(Type),
    /// Paths and values.
    Map(Type),
    /// Values by the number in the path; so many fields.
    User(usize),
}

/// The facts known of a column's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowEntry {
    /// No column of the table has it.
    Unknown,
    /// Its cells only tell that the row is there.
    Unwanted,
    /// Its value goes into this slot.
    Slot(usize),
}

/// The columns whose values are wanted, each with a slot: its place in the list that the shape was
/// made of.
#[derive(Clone, Debug)]
pub struct RowShape {
    entries: Vec<RowEntry>,
    /// By the number of a column: cells of this timestamp or an older one are no more. Empty when
    /// there are none such.
    dropped: Vec<Option<i64>>,
    forms: Vec<Form>,
    layout: Layout,
    /// What tells the columns of cells, where that isn't the numbers in their names.
    form: Option<FamilyForm>,
    /// The only column of rows that are cells.
    only: Option<u16>,
    /// The largest number of a wanted column that is not static.
    last: Option<u16>,
    /// Whether static columns are among them, or it matters whether there are static cells at all.
    statics: bool,
    /// Whether times of cells are asked for.
    times: bool,
    /// Whether only its marker tells that a row is there.
    by_marker: bool,
}

impl RowShape {
    /// For these static and regular columns of the table. `times`: whether [`Row::times`] will be
    /// asked.
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
            forms.push(match (&column.of.of, column.of.path_type()) {
                (Type::List(_), Some(_)) => Form::List,
                (Type::Set(_), Some(path)) => Form::Set(path),
                (Type::Map(_), Some(path)) => Form::Map(path),
                (Type::Udt(udt), Some(_)) => Form::User(udt.fields.len()),
                _ => Form::Single,
            });
        }
        if table.form().is_some() {
            // The cells of a row are in the order of their names.
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

    /// The same, where a partition without rows is shown for its static cells, whichever they are.
    pub fn with_statics(self) -> RowShape {
        RowShape { statics: true, ..self }
    }

    /// The same, where only its marker tells that a row is there.
    pub fn by_markers(self) -> RowShape {
        RowShape { by_marker: true, ..self }
    }

    /// Whether static cells are wanted.
    pub fn wants_statics(&self) -> bool {
        self.statics
    }

    /// Where the rows lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether each cell is a row.
    fn rows_are_cells(&self) -> bool {
        self.form.as_ref().is_some_and(FamilyForm::rows_are_cells)
    }

    /// The number of the column whose cell lies here; `None`: the row's marker.
    fn column_of(&self, place: &KeyPlace<'_>) -> Result<Option<u16>> {
        match &self.form {
            None => column_of(place.name),
            Some(form) if form.rows_are_cells() => Ok(self.only),
            // No column has the number 0.
            Some(form) => Ok(Some(form.column_of(place.name).unwrap_or_default())),
        }
    }

    /// What a cell of the column with this number is that was written then.
    fn entry(&self, id: u16, timestamp: i64) -> RowEntry {
        let id = usize::from(id);
        match self.dropped.get(id) {
            Some(Some(until)) if timestamp <= *until => RowEntry::Unknown,
            _ => self.entries.get(id).copied().unwrap_or(RowEntry::Unknown),
        }
    }
}

/// The value of a column as it grows, in the bytes of its row.
#[derive(Clone, Debug, Default)]
struct CellSlot {
    there: bool,
    /// Where the value lies: it is the last one there as long as it grows, for the cells of a
    /// column follow each other.
    range: Range<usize>,
    /// Of each element: the number of the field (else 0) and where it begins.
    elements: Vec<(u16, usize)>,
    /// Where they are asked for: those of its cells, of a user type by their fields.
    times: Vec<Option<CellTimes>>,
}

/// What is known of when a cell was written and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellTimes {
    /// When it was written.
    pub written: i64,
    /// The seconds that are left to it.
    pub left: Option<i64>,
}

/// Bytes of values that most rows have room in.
const USUAL: usize = 256;
/// Bytes that most clustering values have room in.
const SHORT: usize = 32;

/// The cells of a row, or the static cells of a partition.
#[derive(Clone, Debug, Default)]
pub struct Row {
    exists: bool,
    place: Vec<u8>,
    /// Each with whether it is a value: null are those that a row of a compact table was written
    /// without.
    clustering: Vec<(Vec<u8>, bool)>,
    bytes: Vec<u8>,
    slots: Vec<CellSlot>,
}

impl Row {
    /// A row without any cells.
    pub fn none() -> Row {
        Row::default()
    }

    /// A row of a table with these values, one for each of its columns, that was never stored.
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

    /// Whether the row is there: it has its marker or a live cell. Of the static cells: whether
    /// there is one.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// The components of the row's place ([`firn_wide::internals::key::KeyPlace::row`]).
    pub fn place(&self) -> &[u8] {
        &self.place
    }

    /// The value of a clustering column. `None` is null, which the static cells have, and rows of
    /// compact tables that were written without it.
    pub fn clustering(&self, position: usize) -> Option<&[u8]> {
        self.clustering.get(position).filter(|(_, there)| *there).map(|(value, _)| &**value)
    }

    /// The value in a slot; `None` is null.
    pub fn value(&self, slot: usize) -> Option<&[u8]> {
        self.slots.get(slot).filter(|s| s.there).map(|s| &self.bytes[s.range.clone()])
    }

    /// The times of the cells of the value in a slot, in the order of its parts; none of null.
    pub fn times(&self, slot: usize) -> &[Option<CellTimes>] {
        self.slots.get(slot).filter(|s| s.there).map_or(&[], |s| &s.times)
    }

    /// Empties it, with a slot for each that the shape has.
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

    /// Takes over where the row lies that a cell is in, or is.
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

    /// Takes in a cell of the column with this number.
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

/// Appends what `put` makes, with its length before it.
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
    /// Takes in a cell of the column; `bytes` are those of the row, `now` is said where times are
    /// asked for.
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
            // The number of elements goes here.
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
                field = number.map_err(|_| corrupt("the path of a field is no number"))?;
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

    /// Makes the serialised form of the elements.
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

/// The number of the column whose cell lies here; `None`: the row's marker.
fn column_of(name: &[u8]) -> Result<Option<u16>> {
    match name {
        [_, high, low] => Ok(Some(u16::from_be_bytes([*high, *low]))),
        [_] => Ok(None),
        _ => Err(corrupt("the name of a cell is no number of a column")),
    }
}

/// Reads rows of a partition, or of many.
pub struct ShapeReader<'s> {
    shape: &'s RowShape,
    reader: SliceReader,
    reverse: bool,
    now: Option<i64>,
    statics: Row,
    /// The row that was given out last.
    row: Row,
    /// The row that the reader stands in; `begun` when a cell of it was taken in.
    next: Row,
    begun: bool,
    /// No row of the partition has been looked for yet.
    fresh: bool,
    scratch: Vec<u8>,
}

impl std::fmt::Debug for ShapeReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowReader").field("reader", &self.reader).finish_non_exhaustive()
    }
}

impl<'s> ShapeReader<'s> {
    /// Over a reader of one partition ([`start`](ShapeReader::start) it) or of many
    /// ([`next_partition`](ShapeReader::next_partition)). `reverse`: as its slice is.
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

    /// Reads the static cells of the partition, where the slice has them before the rows.
    ///
    /// # Errors
    /// Errors of the engine, and of cells that can't be.
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

    /// Takes in the first cell of the first row.
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

    /// To the next partition of a scan; false after the last. Its static cells are read.
    ///
    /// # Errors
    /// As [`start`](ShapeReader::start).
    pub fn next_partition(&mut self) -> Result<bool> {
        if !self.reader.next_partition()? {
            return Ok(false);
        }
        self.start()?;
        Ok(true)
    }

    /// The key of the partition.
    pub fn key(&self) -> &[u8] {
        self.reader.key()
    }

    /// How many deleted rows and cells were stepped over.
    pub fn tombstones(&self) -> u64 {
        self.reader.tombstones()
    }

    /// The static cells of the partition. With a slice that leaves them out, or a reversed one:
    /// none.
    pub fn statics(&self) -> &Row {
        &self.statics
    }

    /// The row that was given out last.
    pub fn row(&self) -> &Row {
        &self.row
    }

    /// To the next row of the partition; false after the last.
    ///
    /// # Errors
    /// As [`start`](ShapeReader::start).
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

    /// Takes in the rest of the row, and the first cell of the next.
    fn fill(&mut self) -> Result<()> {
        let are_cells = self.shape.rows_are_cells();
        let mut enough = self.row.exists && self.shape.last.is_none() && !are_cells;
        loop {
            if enough {
                self.reader.skip_row()?;
            }
            let Some(item) = self.reader.next()? else { return Ok(()) };
            if item.place.is_static {
                // The end of a reversed slice.
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
