//! Mutations: writes to one partition, as operations on any families.

use std::cell::Cell as Slot;

use crate::base::error::Result;
use crate::cell::{Cell, CellDeletion, CellState, StoredCell};

use super::family::StoreFamily;

/// Initial capacity of a mutation, sufficient for a row of few columns.
const ROOM: usize = 256;
/// Maximum bytes of memory that a thread recycles.
const MAX_RECYCLED: usize = 64 << 10;

thread_local! {
    /// Memory of an earlier mutation of this thread.
    static RECYCLED: Slot<Option<StoreMutation>> = const { Slot::new(None) };
}

/// Operations on one partition key, over several families. Their order does not matter: at equal
/// timestamps deletions win.
#[derive(Clone, Debug)]
pub struct StoreMutation {
    pub(super) key: Vec<u8>,
    pub(super) families: Vec<StoreFamily>,
    pub(super) ops: Vec<MutationOp>,
    /// Positions and stored values of the operations.
    pub(super) bytes: Vec<u8>,
}

/// An operation; its position and its value are in [`StoreMutation::bytes`].
#[derive(Clone, Copy, Debug)]
pub(super) struct MutationOp {
    /// Index of its family in the mutation.
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
    /// A cell whose TTL begins when it is written.
    Expiring { ttl: u32 },
    /// A tombstone of a cell, with the second at which it is written.
    Delete,
    /// An increment.
    Add { delta: i64 },
    /// The sum of another store's counter, with its timestamp.
    AddCell,
    /// A deletion of the container at the position; with the server's second, if `local` is not
    /// set.
    Container { what: Container, local: Option<i64> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Partition,
    Row,
    Complex,
    /// The position is the start bound, the value the end bound.
    Range,
}

/// Operation of a mutation on a cell or row.
#[derive(Clone, Copy, Debug)]
pub struct MutatedPlace<'m> {
    /// Family of the operation.
    pub family: &'m StoreFamily,
    /// Position of the cell or row.
    pub place: &'m [u8],
    /// Timestamp; meaningless for an increment.
    pub timestamp: i64,
    /// Kind of the operation.
    pub body: MutatedBody<'m>,
}

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MutatedBody<'m> {
    /// Writes a cell with this value.
    Value(&'m [u8]),
    /// Adds to a counter.
    Increment,
    /// Deletes the cell.
    Tombstone,
    /// Deletes the row.
    Row,
}

impl StoreMutation {
    /// Creates an empty mutation of the partition with this key.
    pub fn new(key: &[u8]) -> StoreMutation {
        let bytes = Vec::with_capacity(ROOM);
        StoreMutation { key: key.to_vec(), families: vec![], ops: vec![], bytes }
    }

    /// Creates an empty mutation like [`new`](StoreMutation::new), in memory that this thread has
    /// [recycled](StoreMutation::recycle).
    pub fn recycled(key: &[u8]) -> StoreMutation {
        let Some(mut mutation) = RECYCLED.take() else { return StoreMutation::new(key) };
        mutation.reset(key);
        mutation
    }

    /// Leaves the memory to the next mutation of this thread, unless it is large.
    pub fn recycle(mut self) {
        let bytes = self.key.capacity() + self.bytes.capacity();
        if bytes + self.ops.capacity() * size_of::<MutationOp>() <= MAX_RECYCLED {
            // The handles of a family would keep its store open.
            self.families.clear();
            RECYCLED.set(Some(self));
        }
    }

    /// Returns the partition's key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Reports whether it has no operations.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Removes the operations and sets another key; retains the memory.
    pub fn reset(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.families.clear();
        self.ops.clear();
        self.bytes.clear();
    }

    /// Adds a write of a value.
    pub fn put(
        &mut self,
        family: &StoreFamily,
        place: &[u8],
        timestamp: i64,
        value: &[u8],
    ) -> &mut Self {
        self.put_cell(family, place, Cell { timestamp, state: CellState::Live(value) })
    }

    /// Adds a write of a value with a TTL of `ttl` seconds, which begins when it is written.
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

    /// Adds a cell of another store unchanged. A counter adds to the existing one.
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

    /// Adds a deletion of a cell. A counter is deleted whatever the timestamp is.
    pub fn delete(&mut self, family: &StoreFamily, place: &[u8], timestamp: i64) -> &mut Self {
        self.push(family, MutationKind::Delete, timestamp, place, &[])
    }

    /// Adds an increment of a counter.
    pub fn add(&mut self, family: &StoreFamily, place: &[u8], delta: i64) -> &mut Self {
        self.push(family, MutationKind::Add { delta }, 0, place, &[])
    }

    /// Adds a deletion of the whole partition in a family.
    pub fn delete_partition(&mut self, family: &StoreFamily, timestamp: i64) -> &mut Self {
        self.container(family, Container::Partition, timestamp, &[], &[], None)
    }

    /// Adds a deletion of a row (a super column) at this position.
    pub fn delete_row(&mut self, family: &StoreFamily, row: &[u8], timestamp: i64) -> &mut Self {
        self.container(family, Container::Row, timestamp, row, &[], None)
    }

    /// Adds a deletion of the rows between two bounds.
    pub fn delete_range(
        &mut self,
        family: &StoreFamily,
        start: &[u8],
        end: &[u8],
        timestamp: i64,
    ) -> &mut Self {
        self.container(family, Container::Range, timestamp, start, end, None)
    }

    /// Adds a deletion of all elements of a complex column, by the position of a cell without path.
    pub fn delete_complex(
        &mut self,
        family: &StoreFamily,
        place: &[u8],
        timestamp: i64,
    ) -> &mut Self {
        self.container(family, Container::Complex, timestamp, place, &[], None)
    }

    /// Like [`delete_partition`](Self::delete_partition) (if `row` is empty) or
    /// [`delete_row`](Self::delete_row), with its second of deletion, for data of another store.
    pub fn delete_as(
        &mut self,
        family: &StoreFamily,
        row: &[u8],
        deletion: CellDeletion,
    ) -> &mut Self {
        let what = if row.is_empty() { Container::Partition } else { Container::Row };
        self.container(family, what, deletion.timestamp, row, &[], Some(deletion.local))
    }

    /// Like [`delete_complex`](Self::delete_complex), with its second of deletion.
    pub fn delete_complex_as(
        &mut self,
        family: &StoreFamily,
        place: &[u8],
        deletion: CellDeletion,
    ) -> &mut Self {
        let CellDeletion { timestamp, local } = deletion;
        self.container(family, Container::Complex, timestamp, place, &[], Some(local))
    }

    /// Iterates over the operations on cells and whole rows, in the order in which they were added.
    /// Other deletions are omitted.
    ///
    /// # Errors
    /// `Corrupt` for a malformed cell.
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

    /// Like [`delete_range`](Self::delete_range), with its second of deletion.
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
