//! Stored values: cells and deletions, and how they are read.

use super::reconcile::wins;
use super::value::{COUNTER, Cell, CellState, DELETION, EXPIRING, LIVE, RANGE, TOMBSTONE};
use crate::base::error::{Error, Result};

/// The deletion of a whole container: of a partition, a row (super column), a complex column, or a
/// range of rows.
///
/// Of two, the one with the larger timestamp counts, and at equal timestamps the one of the later
/// second: the order of this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellDeletion {
    /// Everything in the container with a timestamp up to this one is dead (`markedForDeleteAt`).
    pub timestamp: i64,
    /// The server's second since 1970 of the deletion; grace counts from here.
    pub local: i64,
}

impl CellDeletion {
    /// Whether a cell with this timestamp is dead.
    #[inline]
    pub fn covers(&self, timestamp: i64) -> bool {
        timestamp <= self.timestamp
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_as(DELETION, out);
    }

    /// Appends the stored form of a deletion of a range that ends before this bound.
    pub fn encode_range(&self, end: &[u8], out: &mut Vec<u8>) {
        self.encode_as(RANGE, out);
        out.extend_from_slice(end);
    }

    fn encode_as(&self, kind: u8, out: &mut Vec<u8>) {
        out.push(kind);
        out.extend_from_slice(&self.timestamp.to_le_bytes());
        out.extend_from_slice(&self.local.to_le_bytes());
    }
}

/// A stored value, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredCell<'a> {
    /// A cell.
    Cell(Cell<'a>),
    /// A deletion of the container that its key names.
    Deletion(CellDeletion),
    /// A deletion of a range, and the bound that it ends before. The key has the other bound.
    Range(CellDeletion, &'a [u8]),
}

fn i64_at(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (n, rest) = bytes.split_first_chunk()?;
    Some((i64::from_le_bytes(*n), rest))
}

fn u32_at(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (n, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*n), rest))
}

/// Reads a stored value; `None` when it isn't one.
#[inline]
pub(super) fn parse(bytes: &[u8]) -> Option<StoredCell<'_>> {
    let (&kind, rest) = bytes.split_first()?;
    let (timestamp, rest) = i64_at(rest)?;
    let cell = |state| Some(StoredCell::Cell(Cell { timestamp, state }));
    let last = |rest: &[u8]| i64_at(rest).and_then(|(n, rest)| rest.is_empty().then_some(n));
    match kind {
        LIVE => cell(CellState::Live(rest)),
        EXPIRING => {
            let (ttl, rest) = u32_at(rest)?;
            let (expires, value) = i64_at(rest)?;
            cell(CellState::Expiring { value, ttl, expires })
        }
        TOMBSTONE => cell(CellState::Tombstone { deleted: last(rest)? }),
        COUNTER => cell(CellState::Counter(last(rest)?)),
        DELETION => Some(StoredCell::Deletion(CellDeletion { timestamp, local: last(rest)? })),
        RANGE => {
            let (local, end) = i64_at(rest)?;
            Some(StoredCell::Range(CellDeletion { timestamp, local }, end))
        }
        _ => None,
    }
}

impl<'a> StoredCell<'a> {
    /// Reads a stored value.
    ///
    /// # Errors
    /// `Corrupt` for bytes that are none, or of a version that this one doesn't know.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<StoredCell<'a>> {
        parse(bytes).ok_or_else(|| corrupt(bytes))
    }

    /// Its timestamp.
    #[inline]
    pub fn timestamp(&self) -> i64 {
        match self {
            StoredCell::Cell(c) => c.timestamp,
            StoredCell::Deletion(d) | StoredCell::Range(d, _) => d.timestamp,
        }
    }

    /// Whether `self`, written after `other` to the same key, takes its place. Equal ones don't.
    pub fn beats(&self, other: &StoredCell<'_>) -> bool {
        match (self, other) {
            (StoredCell::Cell(a), StoredCell::Cell(b)) => wins(a, b),
            (
                StoredCell::Deletion(a) | StoredCell::Range(a, _),
                StoredCell::Deletion(b) | StoredCell::Range(b, _),
            ) => a > b,
            // Keys of cells and of deletions differ; damage is overwritten by what is sound.
            _ => true,
        }
    }
}

#[cold]
pub(super) fn corrupt(bytes: &[u8]) -> Error {
    let head = &bytes[..bytes.len().min(9)];
    Error::Corrupt(format!(
        "a stored value of {} bytes that begins with \"{}\" is no cell",
        bytes.len(),
        head.escape_ascii()
    ))
}
