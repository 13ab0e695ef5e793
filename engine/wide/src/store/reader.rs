//! Iterator over the cells in a slice of one partition, or of many.
//!
//! Invariants:
//! - In forward order, deletions are read before the data that they cover; if a slice begins after
//!   them, they are fetched first. In reverse order, a partition's deletion is fetched before its
//!   first cell, that of a row or a complex column when one of its cells is read. Range deletions
//!   are looked up for each row, except in raw readers, which return them.
//! - `row` and `column` are the prefixes of the last position read, `row_deleted` and
//!   `column_deleted` the deletions that cover them.
//! - Memory does not grow with the amount of data read.

use std::cell::{Cell as Counter, OnceCell};
use std::ops::Bound;

use firn_kv::{Cursor, Snapshot};

use crate::base::error::Result;
use crate::cell::{CellState, StoredCell};
use crate::key::{BEYOND, DELETION, RANGES as RANGES_SECTION, ROWS as ROWS_SECTION, STATIC};

use super::CellStore;
use super::family::{COMPLEX, PARTITIONS, RANGES, ROWS, StoreFamily};
use super::moment::StoreMoment;
use super::point::with_key;
use super::ranges::{RangeLookup, section};
use super::row_item::{FoundCell, RowItem, misplaced};
use super::slice::{Partitions, StoreSlice};

/// Number of cells that are skipped before a seek.
const PATIENCE: u32 = 8;

/// Initial capacity of a position.
const USUAL: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReaderState {
    /// Before the first partition of a scan.
    Start,
    /// The cursor is at the next entry of the partition to be examined.
    Fresh,
    /// The cursor is at the entry that was returned last.
    Shown,
    /// The partition is finished.
    Done,
}

/// Reads a slice of one partition, or of many: [`next_partition`](SliceReader::next_partition)
/// moves to the next partition, [`next`](SliceReader::next) to the next cell. Items borrow from the
/// reader.
///
/// After an error it returns nothing more.
pub struct SliceReader {
    store: CellStore,
    family: StoreFamily,
    cursor: Cursor,
    snapshot: Option<Snapshot>,
    /// For a reader of one partition, without bounds that the cursor's range already enforces.
    slice: StoreSlice,
    kinds: u8,
    now: OnceCell<i64>,
    scans: bool,
    state: ReaderState,
    partition: Vec<u8>,
    key: Vec<u8>,
    deleted: Option<i64>,
    /// Created at first use, on `snapshot`.
    ranges: Option<Box<RangeLookup>>,
    /// Whether the partition may have range deletions.
    has_ranges: bool,
    row: Vec<u8>,
    row_deleted: Option<i64>,
    column: Vec<u8>,
    column_deleted: Option<i64>,
    /// Whether an item of `row` was returned.
    row_shown: bool,
    seek: Vec<u8>,
    tombstones: Counter<u64>,
}

impl std::fmt::Debug for SliceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("family", &self.family).finish_non_exhaustive()
    }
}

impl CellStore {
    pub(super) fn read_at(
        &self,
        at: StoreMoment<'_>,
        family: &StoreFamily,
        key: &[u8],
        slice: &StoreSlice,
    ) -> Result<SliceReader> {
        let mut partition = Vec::with_capacity(key.len() + 32);
        family.layout().put_partition(key, &mut partition)?;
        let len = partition.len();
        // If nothing was ever deleted, nothing before the slice needs to be read.
        let is_whole = slice.is_from_start() || family.kinds() != 0;
        let mut reader = with_key(|until| {
            until.extend_from_slice(&partition);
            until.extend_from_slice(if slice.until.is_empty() { &[BEYOND] } else { &slice.until });
            partition.extend_from_slice(if is_whole { &[DELETION] } else { &slice.from });
            let reader = self.reader(
                at,
                family,
                (Bound::Included(&*partition), Bound::Excluded(&**until)),
                slice.of_one_partition(),
            )?;
            if is_whole || reader.kinds == 0 {
                return Ok(reader);
            }
            partition.truncate(len);
            partition.push(DELETION);
            self.reader(
                at,
                family,
                (Bound::Included(&*partition), Bound::Excluded(&**until)),
                slice.of_one_partition(),
            )
        })?;
        partition.truncate(len);
        reader.seek.reserve(len + USUAL);
        reader.partition = partition;
        reader.key.extend_from_slice(key);
        reader.enter(slice, false)?;
        Ok(reader)
    }

    pub(super) fn scan_at(
        &self,
        at: StoreMoment<'_>,
        family: &StoreFamily,
        range: &Partitions,
        slice: &StoreSlice,
    ) -> Result<SliceReader> {
        // A bound is a partition part or a token: its keys continue with a byte below BEYOND.
        let after = |b: &Vec<u8>| [b, &[BEYOND][..]].concat();
        let from = match &range.from {
            Bound::Included(b) => Bound::Included(b.clone()),
            Bound::Excluded(b) => Bound::Included(after(b)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let until = match &range.until {
            Bound::Included(b) => Bound::Excluded(after(b)),
            Bound::Excluded(b) => Bound::Excluded(b.clone()),
            Bound::Unbounded => Bound::Unbounded,
        };
        let mut reader = self.reader(
            at,
            family,
            (from.as_ref().map(|b| &**b), until.as_ref().map(|b| &**b)),
            slice.clone(),
        )?;
        reader.scans = true;
        Ok(reader)
    }

    fn reader(
        &self,
        at: StoreMoment<'_>,
        family: &StoreFamily,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        slice: StoreSlice,
    ) -> Result<SliceReader> {
        let fetched = if slice.reverse { ROWS | COMPLEX | RANGES } else { RANGES };
        let fetches = |kinds: u8| !slice.raw && kinds & fetched != 0;
        let mut snapshot = if let StoreMoment::Then(s) = at { Some(s.clone()) } else { None };
        if snapshot.is_none() && fetches(family.kinds()) {
            snapshot = Some(self.db().snapshot());
        }
        let mut cursor = match &snapshot {
            Some(s) => StoreMoment::Then(s).cursor(family.tree(), range)?,
            None => at.cursor(family.tree(), range)?,
        };
        // Take the snapshot first, then the kinds: they include those of everything in it.
        let mut kinds = family.kinds();
        if snapshot.is_none() && fetches(kinds) {
            let s = self.db().snapshot();
            cursor = StoreMoment::Then(&s).cursor(family.tree(), range)?;
            kinds = family.kinds();
            snapshot = Some(s);
        }
        Ok(SliceReader {
            store: self.clone(),
            family: family.clone(),
            cursor,
            snapshot,
            slice,
            kinds,
            now: OnceCell::new(),
            scans: false,
            state: ReaderState::Start,
            partition: vec![],
            key: vec![],
            deleted: None,
            ranges: None,
            has_ranges: false,
            row: vec![],
            row_deleted: None,
            column: vec![],
            column_deleted: None,
            row_shown: false,
            seek: vec![],
            tombstones: Counter::new(0),
        })
    }
}

impl SliceReader {
    /// Moves to the next partition of a scan. Returns false after the last one. A partition counts
    /// if anything of it is stored, even if it is deleted or outside of the slice.
    ///
    /// # Errors
    /// Errors of the engine, and `Corrupt`.
    pub fn next_partition(&mut self) -> Result<bool> {
        if !self.scans {
            return Ok(false);
        }
        self.store.check_stop()?;
        if self.partition.is_empty() {
            self.cursor.first()?;
        } else {
            self.leave()?;
        }
        self.state = ReaderState::Done;
        if !self.cursor.is_valid() {
            return Ok(false);
        }
        let len = self.family.layout().partition_len(self.cursor.key())?;
        self.partition.clear();
        self.partition.extend_from_slice(&self.cursor.key()[..len]);
        self.key.clear();
        self.family.layout().key_of(&self.partition, &mut self.key)?;
        let slice = std::mem::take(&mut self.slice);
        let entered = self.enter(&slice, true);
        self.slice = slice;
        entered?;
        Ok(true)
    }

    /// Moves the cursor after the partition.
    fn leave(&mut self) -> Result<()> {
        if !self.slice.reverse {
            for _ in 0..PATIENCE {
                if !self.cursor.is_valid()
                    || !crate::key::is_inside(self.cursor.key(), &self.partition)
                {
                    return Ok(());
                }
                self.cursor.next()?;
            }
        }
        self.seek_to(&[BEYOND])
    }

    fn seek_to(&mut self, place: &[u8]) -> Result<()> {
        self.seek.clear();
        self.seek.extend_from_slice(&self.partition);
        self.seek.extend_from_slice(place);
        Ok(self.cursor.seek(&self.seek)?)
    }

    /// Moves to the begin of the slice in the partition. `at_first`: the cursor is at the
    /// partition's first entry.
    fn enter(&mut self, slice: &StoreSlice, at_first: bool) -> Result<()> {
        (self.deleted, self.row_deleted, self.column_deleted) = (None, None, None);
        if let Some(ranges) = &mut self.ranges {
            ranges.leave();
        }
        // A reader that begins at the partition's start reads the first range deletion on its way.
        let meets_head = !slice.reverse && slice.is_from_start();
        self.has_ranges = !slice.raw && !meets_head && self.kinds & RANGES != 0;
        self.row.clear();
        self.column.clear();
        self.row_shown = false;
        let has_head = self.kinds & (PARTITIONS | RANGES) != 0;
        self.go_to(slice, at_first, has_head)?;
        self.state = ReaderState::Fresh;
        Ok(())
    }

    fn go_to(&mut self, slice: &StoreSlice, at_first: bool, has_head: bool) -> Result<()> {
        if !slice.reverse && slice.is_from_start() {
            return match (at_first, slice.from.is_empty()) {
                (true, _) => Ok(()),
                // The range of a reader of one partition begins there.
                (false, true) => Ok(self.cursor.first()?),
                (false, false) => self.seek_to(&slice.from),
            };
        }
        if has_head {
            if !at_first {
                self.seek_to(&[DELETION])?;
            }
            self.load_head()?;
        }
        if slice.reverse {
            self.seek.clear();
            self.seek.extend_from_slice(&self.partition);
            self.seek.extend_from_slice(if slice.until.is_empty() {
                &[BEYOND]
            } else {
                &slice.until
            });
            return Ok(self.cursor.seek_before(&self.seek)?);
        }
        self.load_containers(&slice.from)?;
        self.seek.clear();
        self.seek.extend_from_slice(&self.partition);
        self.seek.extend_from_slice(&slice.from);
        // At the partition's start, the cursor may already be here.
        let there = at_first && self.cursor.is_valid() && self.cursor.key() >= &*self.seek;
        if there { Ok(()) } else { Ok(self.cursor.seek(&self.seek)?) }
    }

    /// Reads the deletion of the partition, if the cursor is at it.
    fn load_head(&mut self) -> Result<()> {
        if self.cursor.is_valid()
            && let Some([DELETION]) = self.cursor.key().strip_prefix(&*self.partition)
        {
            let stored = StoredCell::decode(self.cursor.value())?;
            self.deleted = self.deleted.max(Some(stored.timestamp()));
        }
        Ok(())
    }

    /// Fetches the deletions of the row and the complex column in which a slice begins.
    fn load_containers(&mut self, from: &[u8]) -> Result<()> {
        let layout = self.family.layout();
        // Only deletions before the slice: others are read on the way.
        let within = |container: Option<usize>| container.filter(|&n| from.len() > n);
        let row = within(layout.find_row(from));
        let column =
            if self.kinds & COMPLEX == 0 { None } else { within(layout.find_column(from)) };
        if self.kinds & (ROWS | RANGES) != 0
            && let Some(n) = row
        {
            self.row.extend_from_slice(&from[..n]);
            let range = self.row_covered_by_range()?;
            self.row_deleted = range.max(self.marker_by_seek(&from[..n])?);
        }
        if let Some(n) = column {
            self.column.extend_from_slice(&from[..n]);
            self.column_deleted = self.marker_by_seek(&from[..n])?;
        }
        Ok(())
    }

    /// Returns the deletion of a container; moves the cursor to it.
    fn marker_by_seek(&mut self, container: &[u8]) -> Result<Option<i64>> {
        self.seek.clear();
        self.seek.extend_from_slice(&self.partition);
        self.seek.extend_from_slice(container);
        self.seek.push(DELETION);
        self.cursor.seek(&self.seek)?;
        if self.cursor.key() != &*self.seek {
            return Ok(None);
        }
        Ok(Some(StoredCell::decode(self.cursor.value())?.timestamp()))
    }

    /// Returns the deletion of a container without moving the cursor.
    fn marker_by_get(&mut self, container: &[u8]) -> Result<Option<i64>> {
        let Some(snapshot) = &self.snapshot else { return Ok(None) };
        self.seek.clear();
        self.seek.extend_from_slice(&self.partition);
        self.seek.extend_from_slice(container);
        self.seek.push(DELETION);
        let Some(v) = snapshot.get(self.family.tree(), &self.seek)? else { return Ok(None) };
        Ok(Some(StoredCell::decode(&v)?.timestamp()))
    }

    /// Returns the range deletion that covers the whole current row. Returns `None` for families
    /// whose cells are seen as rows: there, range deletions may begin and end between the cells of
    /// a row, so a range that covers the row's position may end before most of its cells.
    fn row_covered_by_range(&mut self) -> Result<Option<i64>> {
        if !self.has_ranges || self.family.layout().has_typed_names() {
            return Ok(None);
        }
        let row = std::mem::take(&mut self.row);
        let covered = self.covered_by_range(&row);
        self.row = row;
        covered
    }

    /// Returns the range deletion that covers the cell at the cursor, in families whose cells are
    /// seen as rows.
    fn cell_covered_by_range(&mut self) -> Result<Option<i64>> {
        if !self.has_ranges || !self.family.layout().has_typed_names() {
            return Ok(None);
        }
        let mut place = std::mem::take(&mut self.seek);
        place.clear();
        place.extend_from_slice(&self.cursor.key()[self.partition.len()..]);
        let covered = self.covered_by_range(&place);
        self.seek = place;
        covered
    }

    fn covered_by_range(&mut self, place: &[u8]) -> Result<Option<i64>> {
        let ranges = match &mut self.ranges {
            Some(ranges) => ranges,
            none => {
                let Some(snapshot) = &self.snapshot else { return Ok(None) };
                let at = StoreMoment::Then(snapshot);
                let cursor = match self.scans {
                    true => at.cursor(self.family.tree(), ..)?,
                    false => section(at, &self.family, &self.partition)?,
                };
                none.insert(Box::new(RangeLookup::new(cursor)))
            }
        };
        let passed = ranges.passed();
        let covering = ranges.covering(&self.partition, place)?;
        self.tombstones.set(self.tombstones.get() + ranges.passed() - passed);
        Ok(covering.map(|d| d.timestamp))
    }

    /// Returns the partition part of the current partition.
    pub fn partition(&self) -> &[u8] {
        &self.partition
    }

    /// Returns the key of the current partition.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the number of deleted rows, and of deleted or expired cells, that it has skipped.
    /// Data that the engine itself skips is not counted.
    pub fn tombstones(&self) -> u64 {
        self.tombstones.get()
    }

    /// Returns the time for expiration, in seconds since 1970.
    pub fn now(&self) -> i64 {
        *self.now.get_or_init(|| self.store.now())
    }

    /// Returns the next cell of the partition.
    ///
    /// # Errors
    /// Errors of the engine, and `Corrupt`.
    #[allow(clippy::should_implement_trait)] // lends, which an Iterator cannot
    #[inline]
    pub fn next(&mut self) -> Result<Option<RowItem<'_>>> {
        let Some((found, new_row)) = self.find(false)? else { return Ok(None) };
        self.item(found, new_row).map(Some)
    }

    /// Returns the next static cell of the partition; `None` at the first entry after them, where
    /// [`next`](SliceReader::next) continues. So deleted rows after the static cells are not read.
    ///
    /// # Errors
    /// Those of [`next`](SliceReader::next).
    pub fn next_static(&mut self) -> Result<Option<RowItem<'_>>> {
        let Some((found, new_row)) = self.find(true)? else { return Ok(None) };
        self.item(found, new_row).map(Some)
    }

    fn item(&self, found: FoundCell, new_row: bool) -> Result<RowItem<'_>> {
        let (key, value) = (self.cursor.key(), self.cursor.value());
        RowItem::decode(key, value, self.partition.len(), found, new_row)
    }

    /// Moves to the next entry to be returned; with `statics`, not beyond the static cells.
    fn find(&mut self, statics: bool) -> Result<Option<(FoundCell, bool)>> {
        match std::mem::replace(&mut self.state, ReaderState::Done) {
            ReaderState::Start | ReaderState::Done => return Ok(None),
            ReaderState::Fresh => {}
            ReaderState::Shown => self.step()?,
        }
        while self.cursor.is_valid() {
            self.store.check_stop()?;
            let key = self.cursor.key();
            if self.scans && !crate::key::is_inside(key, &self.partition) {
                return Ok(None);
            }
            let Some(place) = key.get(self.partition.len()..) else { return Err(misplaced(key)) };
            // The end of the cursor's range ends the slice, except if it spans many partitions.
            let beyond = if self.slice.reverse {
                place < &*self.slice.from
            } else {
                self.scans && !self.slice.is_before_end(place)
            };
            if beyond {
                return Ok(None);
            }
            if statics && place.first() > Some(&STATIC) {
                self.state = ReaderState::Fresh;
                return Ok(None);
            }
            if place.first() == Some(&RANGES_SECTION) && !self.slice.raw {
                if self.slice.reverse {
                    return Ok(None);
                }
                self.has_ranges = true;
                self.seek_to(&[RANGES_SECTION + 1])?;
                continue;
            }
            let usual = self.kinds == 0
                && !self.slice.raw
                && !self.row.is_empty()
                && place.starts_with(&self.row);
            let found =
                if usual { self.look_at_cell(key, place, self.row.len())? } else { self.look()? };
            if let Some(found) = found {
                let new_row = !std::mem::replace(&mut self.row_shown, true);
                self.state = ReaderState::Shown;
                return Ok(Some((found, new_row)));
            }
            self.step()?;
        }
        Ok(None)
    }

    /// Examines the cell at the cursor, in a row of this length, which no deletion covers.
    #[inline]
    fn look_at_cell(&self, key: &[u8], place: &[u8], row: usize) -> Result<Option<FoundCell>> {
        let name = self.family.layout().name_len(&place[row..])?;
        let StoredCell::Cell(cell) = StoredCell::decode(self.cursor.value())? else {
            return Err(misplaced(key));
        };
        let is_live = match cell.state {
            // Only expiring cells need the clock.
            CellState::Expiring { expires, .. } => expires > self.now(),
            _ => cell.is_live(i64::MIN),
        };
        if !is_live {
            self.tombstones.set(self.tombstones.get() + 1);
        }
        Ok(is_live.then_some(FoundCell::Cell(row, name)))
    }

    #[inline]
    fn step(&mut self) -> Result<()> {
        if self.slice.reverse {
            self.cursor.prev()?
        } else {
            self.cursor.next()?
        }
        Ok(())
    }

    /// Examines the entry at the cursor; returns it if it is to be returned.
    fn look(&mut self) -> Result<Option<FoundCell>> {
        let (key, raw, forward) = (self.cursor.key(), self.slice.raw, !self.slice.reverse);
        let place = &key[self.partition.len()..];
        match place.first() {
            Some(&(STATIC | ROWS_SECTION)) => self.look_into_row(),
            Some(&DELETION) => {
                if forward {
                    self.deleted = self
                        .deleted
                        .max(Some(StoredCell::decode(self.cursor.value())?.timestamp()));
                }
                Ok(raw.then_some(FoundCell::Partition))
            }
            Some(&RANGES_SECTION) => Ok(raw.then_some(FoundCell::Range)),
            _ => Err(misplaced(key)),
        }
    }

    fn look_into_row(&mut self) -> Result<Option<FoundCell>> {
        let at = self.partition.len();
        let row = self.enter_row()?;
        let place = &self.cursor.key()[at..];
        let stored = StoredCell::decode(self.cursor.value())?;
        let rest = &place[row..];
        if *rest == [DELETION] {
            if !self.slice.reverse {
                self.row_deleted = self.row_deleted.max(Some(stored.timestamp()));
            }
            self.tombstones.set(self.tombstones.get() + 1);
            return Ok(self.slice.raw.then_some(FoundCell::Row(row)));
        }
        let name = self.family.layout().name_len(rest)?;
        let mut covered = self.deleted.max(self.row_deleted);
        if self.has_ranges {
            covered = covered.max(self.cell_covered_by_range()?);
        }
        let place = &self.cursor.key()[at..];
        let column = row + name + 1;
        if self.kinds & COMPLEX != 0 && place.len() > column {
            let is_marker = place[column..] == [DELETION];
            self.enter_column(column)?;
            if is_marker {
                if !self.slice.reverse {
                    self.column_deleted =
                        Some(StoredCell::decode(self.cursor.value())?.timestamp());
                }
                return Ok(self.slice.raw.then_some(FoundCell::Complex(row, name)));
            }
            covered = covered.max(self.column_deleted);
        }
        if self.slice.raw {
            return Ok(Some(FoundCell::Cell(row, name)));
        }
        if covered.is_some_and(|t| {
            StoredCell::decode(self.cursor.value()).is_ok_and(|s| s.timestamp() <= t)
        }) {
            return Ok(None);
        }
        let key = self.cursor.key();
        self.look_at_cell(key, &key[at..], row)
    }

    /// Looks up the deletions of the complex column at the cursor, if it is another one than
    /// before.
    fn enter_column(&mut self, len: usize) -> Result<()> {
        let place = &self.cursor.key()[self.partition.len()..];
        if *self.column == place[..len] {
            return Ok(());
        }
        self.column.clear();
        self.column.extend_from_slice(&place[..len]);
        self.column_deleted = None;
        if self.slice.reverse && !self.slice.raw {
            let column = std::mem::take(&mut self.column);
            self.column_deleted = self.marker_by_get(&column)?;
            self.column = column;
        }
        Ok(())
    }

    /// Returns the length of the row at the cursor; looks up its deletions if it is another one
    /// than before.
    fn enter_row(&mut self) -> Result<usize> {
        let place = &self.cursor.key()[self.partition.len()..];
        if !self.row.is_empty() && place.starts_with(&self.row) {
            return Ok(self.row.len());
        }
        let is_static = place.first() == Some(&STATIC);
        let len = if is_static { 1 } else { self.family.layout().row_len(place)? };
        self.row.clear();
        self.row.extend_from_slice(&place[..len]);
        self.row_shown = false;
        self.row_deleted = None;
        if !is_static && !self.slice.raw {
            self.row_deleted = self.row_covered_by_range()?;
            if self.slice.reverse && self.kinds & ROWS != 0 {
                let row = std::mem::take(&mut self.row);
                self.row_deleted = self.marker_by_get(&row)?.max(self.row_deleted);
                self.row = row;
            }
        }
        Ok(len)
    }

    /// Skips the rest of the row (super column) of the cell returned last, so that
    /// [`next`](Self::next) returns the first cell of the next one.
    ///
    /// # Errors
    /// Those of [`next`](Self::next).
    pub fn skip_row(&mut self) -> Result<()> {
        if self.state != ReaderState::Shown {
            return Ok(());
        }
        self.state = ReaderState::Done;
        for _ in 0..PATIENCE {
            self.step()?;
            // The next partition may have a row with the same clustering.
            let place = Some(&self.cursor)
                .filter(|c| c.is_valid())
                .and_then(|c| c.key().strip_prefix(&*self.partition));
            if !place.is_some_and(|place| place.starts_with(&self.row)) {
                self.state = ReaderState::Fresh;
                return Ok(());
            }
        }
        self.seek.clear();
        self.seek.extend_from_slice(&self.partition);
        self.seek.extend_from_slice(&self.row);
        if self.slice.reverse {
            self.cursor.seek_before(&self.seek)?;
        } else {
            // All keys of the row continue with a smaller byte.
            self.seek.push(BEYOND);
            self.cursor.seek(&self.seek)?;
        }
        self.state = ReaderState::Fresh;
        Ok(())
    }

    /// Counts the live cells in the rest of the partition, up to `limit`.
    ///
    /// # Errors
    /// Those of [`next`](Self::next).
    pub fn count_cells(&mut self, limit: usize) -> Result<usize> {
        let mut n = 0;
        while n < limit && self.find(false)?.is_some() {
            n += 1;
        }
        Ok(n)
    }

    /// Counts the rows (super columns) with live cells in the rest of the partition, up to `limit`.
    ///
    /// # Errors
    /// Those of [`next`](Self::next).
    pub fn count_rows(&mut self, limit: usize) -> Result<usize> {
        let mut n = 0;
        while n < limit
            && let Some((_, new_row)) = self.find(false)?
        {
            n += new_row as usize;
            self.skip_row()?;
        }
        Ok(n)
    }
}
