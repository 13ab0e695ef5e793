//! The items that a reader returns, and how they are decoded from an entry.

use crate::base::error::{Error, Result};
use crate::cell::{Cell, CellDeletion, StoredCell};
use crate::key::{DELETION, KeyPlace, Layout, RANGES, ROWS, STATIC};

use super::ranges::range_at;

/// An item returned by a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowItem<'a> {
    /// Its position. Empty for a deletion of a partition or range.
    pub place: KeyPlace<'a>,
    /// Whether it is the first returned item of its row (for static cells, of all of them).
    pub new_row: bool,
    /// Content at the position.
    pub body: Body<'a>,
}

/// Content at a position. Only raw readers return anything but live cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// A cell.
    Cell(Cell<'a>),
    /// A deletion of the partition.
    PartitionDeletion(CellDeletion),
    /// A range deletion of rows.
    RangeDeletion {
        /// First position of the range.
        start: &'a [u8],
        /// Exclusive end position.
        end: &'a [u8],
        /// Its deletion.
        deletion: CellDeletion,
    },
    /// A deletion of the row (super column).
    RowDeletion(CellDeletion),
    /// A deletion of the elements of a complex column.
    ComplexDeletion(CellDeletion),
}

impl<'a> RowItem<'a> {
    /// Returns the cell, unless it is a deletion.
    pub fn cell(&self) -> Option<Cell<'a>> {
        if let Body::Cell(cell) = self.body { Some(cell) } else { None }
    }

    /// Decodes a stored entry of a family with this layout, as a raw reader returns it. Returns the
    /// length of the key's partition part, and the item, which is not marked as the first of a row.
    ///
    /// # Errors
    /// `Corrupt` if the entry is malformed.
    pub fn of_entry(
        layout: &Layout,
        key: &'a [u8],
        value: &'a [u8],
    ) -> Result<(usize, RowItem<'a>)> {
        let partition = layout.partition_len(key)?;
        let place = &key[partition..];
        let found = match place.first() {
            Some(&DELETION) => FoundCell::Partition,
            Some(&RANGES) => FoundCell::Range,
            Some(&(STATIC | ROWS)) => {
                let is_static = place.first() == Some(&STATIC);
                let row = if is_static { 1 } else { layout.row_len(place)? };
                match &place[row..] {
                    [DELETION] => FoundCell::Row(row),
                    rest => {
                        let name = layout.name_len(rest)?;
                        match rest[name + 1..] {
                            [DELETION] => FoundCell::Complex(row, name),
                            _ => FoundCell::Cell(row, name),
                        }
                    }
                }
            }
            _ => return Err(misplaced(key)),
        };
        Ok((partition, RowItem::decode(key, value, partition, found, false)?))
    }

    /// Decodes the entry, whose key begins with a partition part of `partition` bytes.
    pub(super) fn decode(
        key: &'a [u8],
        value: &'a [u8],
        partition: usize,
        found: FoundCell,
        new_row: bool,
    ) -> Result<RowItem<'a>> {
        let at = &key[partition..];
        let mut place = KeyPlace { is_static: false, row: &[], name: &[], path: None };
        if let FoundCell::Row(n) | FoundCell::Complex(n, _) | FoundCell::Cell(n, _) = found {
            place.is_static = at.first() == Some(&STATIC);
            place.row = if place.is_static { &[] } else { &at[1..n - 1] };
        }
        if let FoundCell::Complex(row, name) | FoundCell::Cell(row, name) = found {
            place.name = &at[row..row + name];
            let path = &at[row + name + 1..];
            place.path =
                path.split_last().filter(|(_, path)| !path.is_empty()).map(|(_, path)| path);
        }
        let body = match (StoredCell::decode(value)?, found) {
            (StoredCell::Cell(cell), FoundCell::Cell(..)) => Body::Cell(cell),
            (StoredCell::Deletion(d), FoundCell::Partition) => Body::PartitionDeletion(d),
            (StoredCell::Deletion(d), FoundCell::Row(_)) => Body::RowDeletion(d),
            (StoredCell::Deletion(d), FoundCell::Complex(..)) => Body::ComplexDeletion(d),
            (StoredCell::Range(..), FoundCell::Range) => {
                let (start, end, deletion) = range_at(key, partition, value)?;
                Body::RangeDeletion { start, end, deletion }
            }
            _ => return Err(misplaced(key)),
        };
        Ok(RowItem { place, new_row, body })
    }
}

/// Kind of the entry that a reader found at its cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoundCell {
    Partition,
    Range,
    /// Length of the row.
    Row(usize),
    /// Lengths, in the position, of the row and of the name's component.
    Complex(usize, usize),
    Cell(usize, usize),
}

/// Returns the error for an entry with an invalid key.
pub(super) fn misplaced(key: &[u8]) -> Error {
    let head = &key[..key.len().min(64)];
    Error::Corrupt(format!(
        "a cell or deletion is in an invalid position, at the key \"{}\"",
        head.escape_ascii()
    ))
}
