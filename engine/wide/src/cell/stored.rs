//! Stored values: cells and deletions, and their decoding.

use super::reconcile::wins;
use super::value::{COUNTER, Cell, CellState, DELETION, EXPIRING, LIVE, RANGE, TOMBSTONE};
use crate::base::error::{Error, Result};

/// A deletion of a whole container: of a partition, a row (super column), a complex column, or a
/// range of rows.
///
/// The order of this type decides between two deletions: the larger timestamp counts; at equal
/// timestamps, the later second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellDeletion {
    /// Everything in the container with a timestamp up to this one is deleted
    /// (`markedForDeleteAt`).
    pub timestamp: i64,
    /// Time of the deletion on the server, in seconds since 1970; grace begins here.
    pub local: i64,
}

impl CellDeletion {
    /// Reports whether a cell with this timestamp is deleted.
    #[inline]
    pub fn covers(&self, timestamp: i64) -> bool {
        timestamp <= self.timestamp
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_as(DELETION, out);
    }

    /// Appends the stored form of a range deletion with this exclusive end bound.
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

/// A decoded stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredCell<'a> {
    /// A cell.
    Cell(Cell<'a>),
    /// A deletion of the container in its key.
    Deletion(CellDeletion),
    /// A range deletion, and its exclusive end bound. The key has the start bound.
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

/// Decodes a stored value; returns `None` if it is malformed.
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
    /// Decodes a stored value.
    ///
    /// # Errors
    /// `Corrupt` for malformed bytes, or for those of an unknown version.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<StoredCell<'a>> {
        parse(bytes).ok_or_else(|| corrupt(bytes))
    }

    /// Returns its timestamp.
    #[inline]
    pub fn timestamp(&self) -> i64 {
        match self {
            StoredCell::Cell(c) => c.timestamp,
            StoredCell::Deletion(d) | StoredCell::Range(d, _) => d.timestamp,
        }
    }

    /// Reports whether `self`, written after `other` to the same key, replaces it. Equal ones do
    /// not.
    pub fn beats(&self, other: &StoredCell<'_>) -> bool {
        match (self, other) {
            (StoredCell::Cell(a), StoredCell::Cell(b)) => wins(a, b),
            (
                StoredCell::Deletion(a) | StoredCell::Range(a, _),
                StoredCell::Deletion(b) | StoredCell::Range(b, _),
            ) => a > b,
            // Keys of cells and of deletions differ; corrupt data is overwritten by valid data.
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
