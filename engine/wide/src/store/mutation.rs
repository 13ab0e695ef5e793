//! A mutation, the writes to one partition: operations on any families, as the caller builds them.

use crate::base::error::Result;
use crate::cell::{Cell, CellDeletion, CellState, StoredCell};

use super::family::StoreFamily;

/// Bytes that a mutation has room for at first: a row of few columns.
const ROOM: usize = 256;

/// Operations on one partition key, over several families. Their order doesn't matter: at equal
/// timestamps deletions win.
#[derive(Clone, Debug)]
pub struct StoreMutation {
    pub(super) key: Vec<u8>,
    pub(super) families: Vec<StoreFamily>,
    pub(super) ops: Vec<MutationOp>,
    /// Places and stored values of the operations.
    pub(super) bytes: Vec<u8>,
}

/// One operation; its place and its value lie in [`StoreMutation::bytes`].
#[derive(Clone, Copy, Debug)]
pub(super) struct MutationOp {
    /// Its family, by number in the mutation.
    pub family: usize,
    pub kind: MutationKind,
    pub timestamp: i64,
    pub place: (usize, usize),
    pub value: (usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MutationKind {
    /// A cell.
    Cell,
    /// A cell whose time to live begins when it is written.
    Expiring { ttl: u32 },
    /// The tombstone of a cell, of the second when it is written.
    Delete,
    /// An increment.
    Add { delta: i64 },
    /// The sum of another store's counter, with its timestamp.
    AddCell,
    /// A deletion of the container at the place; with the server's second, when `local` is not
    /// given.
    Container { what: Container, local: Option<i64> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Partition,
    Row,
    Complex,
    /// The place is the start bound, the value the end bound.
    Range,
}

/// What a mutation does at the place of a cell or row.
#[derive(Clone, Copy, Debug)]
pub struct MutatedPlace<'m> {
    /// The family.
    pub family: &'m StoreFamily,
    /// The place of the cell or row.
    pub place: &'m [u8],
    /// Of an increment it is nothing.
    pub timestamp: i64,
    /// What is done.
    pub body: MutatedBody<'m>,
}

/// What is done at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MutatedBody<'m> {
    /// A cell of this value is written.
    Value(&'m [u8]),
    /// A counter is added to.
    Increment,
    /// The cell is deleted.
    Tombstone,
    /// The row is deleted.
    Row,
}

impl StoreMutation {
    /// Nothing yet, for the partition of this key.
    pub fn new(key: &[u8]) -> StoreMutation {
        let bytes = Vec::with_capacity(ROOM);
        StoreMutation { key: key.to_vec(), families: vec![], ops: vec![], bytes }
    }

    /// The partition's key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Whether it does nothing.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Forgets the operations and takes another key, keeping the memory.
    pub fn reset(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.families.clear();
        self.ops.clear();
        self.bytes.clear();
    }

    /// Writes a value.
    pub fn put(
        &mut self,
        family: &StoreFamily,
        place: &[u8],
        timestamp: i64,
        value: &[u8],
    ) -> &mut Self {
        self.put_cell(family, place, Cell { timestamp, state: CellState::Live(value) })
    }

    /// Writes a value that lives for `ttl` seconds from when it is written.
    pub fn put_ttl(
        &mut self,
        family: &StoreFamily,
        place: &[u8],
        timestamp: i64,
        value: &[u8],
        ttl: u32,
    ) -> &mut Self {
        self.push(family, MutationKind::Expiring { ttl }, timestamp, place, value)
    }

    /// Writes a cell as it is: for what comes from another store. A counter adds to what there is.
    pub fn put_cell(&mut self, family: &StoreFamily, place: &[u8], cell: Cell<'_>) -> &mut Self {
        let value = self.bytes.len();
        cell.encode(&mut self.bytes);
        let value = (value, self.bytes.len());
        let kind = if let CellState::Counter(_) = cell.state {
            MutationKind::AddCell
        } else {
            MutationKind::Cell
        };
        self.push_op(family, kind, cell.timestamp, place, value)
    }

    /// Deletes a cell. Of a counter: whatever the timestamp.
    pub fn delete(&mut self, family: &StoreFamily, place: &[u8], timestamp: i64) -> &mut Self {
        self.push(family, MutationKind::Delete, timestamp, place, &[])
    }

    /// Adds to a counter.
    pub fn add(&mut self, family: &StoreFamily, place: &[u8], delta: i64) -> &mut Self {
        self.push(family, MutationKind::Add { delta }, 0, place, &[])
    }

    /// Deletes all of the partition in a family.
    pub fn delete_partition(&mut self, family: &StoreFamily, timestamp: i64) -> &mut Self {
        self.container(family, Container::Partition, timestamp, &[], &[], None)
    }

    /// Deletes a row (a super column), by the place of the row.
    pub fn delete_row(&mut self, family: &StoreFamily, row: &[u8], timestamp: i64) -> &mut Self {
        self.container(family, Container::Row, timestamp, row, &[], None)
    }

    /// Deletes the rows between two bounds.
    pub fn delete_range(
        &mut self,
        family: &StoreFamily,
        start: &[u8],
        end: &[u8],
        timestamp: i64,
    ) -> &mut Self {
        self.container(family, Container::Range, timestamp, start, end, None)
    }

    /// Deletes all elements of a complex column, by the place of a cell without path.
    pub fn delete_complex(
        &mut self,
        family: &StoreFamily,
        place: &[u8],
        timestamp: i64,
    ) -> &mut Self {
        self.container(family, Container::Complex, timestamp, place, &[], None)
    }

    /// As [`delete_partition`](Self::delete_partition) (`row` is empty) or
    /// [`delete_row`](Self::delete_row), with its second of deletion: for what comes from another
    /// store.
    pub fn delete_as(
        &mut self,
        family: &StoreFamily,
        row: &[u8],
        deletion: CellDeletion,
    ) -> &mut Self {
        let what = if row.is_empty() { Container::Partition } else { Container::Row };
        self.container(family, what, deletion.timestamp, row, &[], Some(deletion.local))
    }

    /// As [`delete_complex`](Self::delete_complex), with its second of deletion.
    pub fn delete_complex_as(
        &mut self,
        family: &StoreFamily,
        place: &[u8],
        deletion: CellDeletion,
    ) -> &mut Self {
        let CellDeletion { timestamp, local } = deletion;
        self.container(family, Container::Complex, timestamp, place, &[], Some(local))
    }

    /// What it does to cells and whole rows, in the order in which that was put in. Deletions of
    /// all else are not among it.
    ///
    /// # Errors
    /// `Corrupt` for what was put in as a cell and is none.
    pub fn places(&self) -> impl Iterator<Item = Result<MutatedPlace<'_>>> {
        self.ops.iter().filter_map(|op| {
            let value = self.bytes_at(op.value);
            let body = match op.kind {
                MutationKind::Cell => match StoredCell::decode(value) {
                    Ok(StoredCell::Cell(cell))
                        if matches!(cell.state, CellState::Tombstone { .. }) =>
                    {
                        MutatedBody::Tombstone
                    }
                    Ok(StoredCell::Cell(cell)) => MutatedBody::Value(cell.value()),
                    Ok(_) => return None,
                    Err(e) => return Some(Err(e)),
                },
                MutationKind::Expiring { .. } => MutatedBody::Value(value),
                MutationKind::Add { .. } | MutationKind::AddCell => MutatedBody::Increment,
                MutationKind::Delete => MutatedBody::Tombstone,
                MutationKind::Container { what: Container::Row, .. } => MutatedBody::Row,
                MutationKind::Container { .. } => return None,
            };
            let (family, place) = (&self.families[op.family], self.bytes_at(op.place));
            Some(Ok(MutatedPlace { family, place, timestamp: op.timestamp, body }))
        })
    }

    /// As [`delete_range`](Self::delete_range), with its second of deletion.
    pub fn delete_range_as(
        &mut self,
        family: &StoreFamily,
        start: &[u8],
        end: &[u8],
        deletion: CellDeletion,
    ) -> &mut Self {
        let CellDeletion { timestamp, local } = deletion;
        self.container(family, Container::Range, timestamp, start, end, Some(local))
    }

    fn container(
        &mut self,
        f: &StoreFamily,
        what: Container,
        timestamp: i64,
        place: &[u8],
        value: &[u8],
        local: Option<i64>,
    ) -> &mut Self {
        self.push(f, MutationKind::Container { what, local }, timestamp, place, value)
    }

    fn push(
        &mut self,
        family: &StoreFamily,
        kind: MutationKind,
        timestamp: i64,
        place: &[u8],
        value: &[u8],
    ) -> &mut Self {
        let value = self.add_bytes(value);
        self.push_op(family, kind, timestamp, place, value)
    }

    fn push_op(
        &mut self,
        family: &StoreFamily,
        kind: MutationKind,
        timestamp: i64,
        place: &[u8],
        value: (usize, usize),
    ) -> &mut Self {
        let place = self.add_bytes(place);
        let known = self.families.iter().rposition(|f| std::sync::Arc::ptr_eq(&f.0, &family.0));
        let family = known.unwrap_or_else(|| {
            self.families.push(family.clone());
            self.families.len() - 1
        });
        self.ops.push(MutationOp { family, kind, timestamp, place, value });
        self
    }

    fn add_bytes(&mut self, bytes: &[u8]) -> (usize, usize) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        (from, self.bytes.len())
    }

    pub(super) fn bytes_at(&self, (from, until): (usize, usize)) -> &[u8] {
        &self.bytes[from..until]
    }
}
