//! Floor 1: what a column family stores: cells and deletions, how they are coded, which of two
//! wins, and what compactions may forget. Pure functions over bytes.
//!
//! A stored value is `flags u8 | timestamp i64 LE |` and then, by the low four bits of the flags
//! (the other bits are 0; they leave room for a version):
//!
//! | kind | what | after the timestamp |
//! |---|---|---|
//! | 1 | live cell | value |
//! | 2 | expiring cell | ttl u32 LE, second of expiry i64 LE, value (cut by compactions once it has expired) |
//! | 3 | tombstone of a cell | second of deletion i64 LE |
//! | 4 | deletion of a partition, row or complex column | second of deletion i64 LE |
//! | 5 | deletion of a range of rows | second of deletion i64 LE, length of the start bound u32 LE |
//! | 6 | counter | sum i64 LE |
//!
//! Invariants: [`reconcile`] gives the same winner in whatever order and grouping cells are
//! compared, and never asks a clock.

mod hooks;
mod reconcile;

pub use hooks::{CellFacts, CounterMerge, PartitionPrefix, StoredFacts, StoredPurge};
pub use reconcile::reconcile;

use crate::base::error::{Error, Result};

const LIVE: u8 = 1;
const EXPIRING: u8 = 2;
const TOMBSTONE: u8 = 3;
const DELETION: u8 = 4;
const RANGE: u8 = 5;
const COUNTER: u8 = 6;

/// One cell: what a column (or an element of a collection) holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// The client's timestamp, in microseconds by convention.
    pub timestamp: i64,
    /// What was written at that time.
    pub state: CellState<'a>,
}

/// What a [`Cell`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellState<'a> {
    /// A value for good.
    Live(&'a [u8]),
    /// A value with a time to live.
    Expiring {
        /// The value; empty in a cell that expired long ago.
        value: &'a [u8],
        /// The time to live as it was given, in seconds.
        ttl: u32,
        /// From this second since 1970 on the cell is dead.
        expires: i64,
    },
    /// Deleted.
    Tombstone {
        /// The server's second since 1970 of the deletion; grace counts from here.
        deleted: i64,
    },
    /// The sum of a counter's increments.
    Counter(i64),
}

impl<'a> Cell<'a> {
    /// Whether a reader at second `now` sees a value.
    #[inline]
    pub fn is_live(&self, now: i64) -> bool {
        match self.state {
            CellState::Live(_) | CellState::Counter(_) => true,
            CellState::Expiring { expires, .. } => now < expires,
            CellState::Tombstone { .. } => false,
        }
    }

    /// The value; empty where there is none, and for counters.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        match self.state {
            CellState::Live(value) | CellState::Expiring { value, .. } => value,
            CellState::Tombstone { .. } | CellState::Counter(_) => &[],
        }
    }

    /// The same cell with these bytes for its value; as it is where it has none.
    #[inline]
    pub fn with_value<'b>(&self, value: &'b [u8]) -> Cell<'b> {
        let state = match self.state {
            CellState::Live(_) => CellState::Live(value),
            CellState::Expiring { ttl, expires, .. } => CellState::Expiring { value, ttl, expires },
            CellState::Tombstone { deleted } => CellState::Tombstone { deleted },
            CellState::Counter(sum) => CellState::Counter(sum),
        };
        Cell { timestamp: self.timestamp, state }
    }

    /// The sum, of a counter.
    pub fn counter(&self) -> Option<i64> {
        if let CellState::Counter(sum) = self.state { Some(sum) } else { None }
    }

    /// The time to live as it was given.
    pub fn ttl(&self) -> Option<u32> {
        if let CellState::Expiring { ttl, .. } = self.state { Some(ttl) } else { None }
    }

    /// Seconds that are left of a time to live.
    pub fn remaining(&self, now: i64) -> Option<i64> {
        if let CellState::Expiring { expires, .. } = self.state {
            Some(expires.saturating_sub(now).max(0))
        } else {
            None
        }
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (kind, value) = match self.state {
            CellState::Live(v) => (LIVE, v),
            CellState::Expiring { value, .. } => (EXPIRING, value),
            CellState::Tombstone { .. } => (TOMBSTONE, &[][..]),
            CellState::Counter(_) => (COUNTER, &[][..]),
        };
        out.reserve(21 + value.len());
        out.push(kind);
        out.extend_from_slice(&self.timestamp.to_le_bytes());
        match self.state {
            CellState::Live(_) => {}
            CellState::Expiring { ttl, expires, .. } => {
                out.extend_from_slice(&ttl.to_le_bytes());
                out.extend_from_slice(&expires.to_le_bytes());
            }
            CellState::Tombstone { deleted: n } | CellState::Counter(n) => {
                out.extend_from_slice(&n.to_le_bytes())
            }
        }
        out.extend_from_slice(value);
    }
}

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

    /// Appends the stored form of a deletion of a range whose start bound has this length in the
    /// key.
    pub fn encode_range(&self, start_len: u32, out: &mut Vec<u8>) {
        self.encode_as(RANGE, out);
        out.extend_from_slice(&start_len.to_le_bytes());
    }

    fn encode_as(&self, kind: u8, out: &mut Vec<u8>) {
        out.push(kind);
        out.extend_from_slice(&self.timestamp.to_le_bytes());
        out.extend_from_slice(&self.local.to_le_bytes());
    }
}

/// What a stored value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredCell<'a> {
    /// A cell.
    Cell(Cell<'a>),
    /// A deletion of the container that its key names.
    Deletion(CellDeletion),
    /// A deletion of a range, and the length of the start bound in the key.
    Range(CellDeletion, usize),
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
fn parse(bytes: &[u8]) -> Option<StoredCell<'_>> {
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
            let (local, rest) = i64_at(rest)?;
            let (len, rest) = u32_at(rest)?;
            rest.is_empty()
                .then_some(StoredCell::Range(CellDeletion { timestamp, local }, len as usize))
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
            (StoredCell::Cell(a), StoredCell::Cell(b)) => reconcile::wins(a, b),
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
fn corrupt(bytes: &[u8]) -> Error {
    let head = &bytes[..bytes.len().min(9)];
    Error::Corrupt(format!(
        "a stored value of {} bytes that begins with \"{}\" is no cell",
        bytes.len(),
        head.escape_ascii()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state() -> impl Strategy<Value = (u8, Vec<u8>, u32, i64)> {
        (0u8..4, prop::collection::vec(any::<u8>(), 0..4), any::<u32>(), any::<i64>())
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded((kind, value, ttl, n) in state(), timestamp in any::<i64>()) {
            let state = match kind {
                0 => CellState::Live(&value),
                1 => CellState::Expiring { value: &value, ttl, expires: n },
                2 => CellState::Tombstone { deleted: n },
                _ => CellState::Counter(n),
            };
            let cell = Cell { timestamp, state };
            let mut bytes = vec![];
            cell.encode(&mut bytes);
            prop_assert_eq!(StoredCell::decode(&bytes).unwrap(), StoredCell::Cell(cell));
            let deletion = CellDeletion { timestamp, local: n };
            bytes.clear();
            deletion.encode(&mut bytes);
            prop_assert_eq!(StoredCell::decode(&bytes).unwrap(), StoredCell::Deletion(deletion));
            bytes.clear();
            deletion.encode_range(ttl, &mut bytes);
            prop_assert_eq!(StoredCell::decode(&bytes).unwrap(), StoredCell::Range(deletion, ttl as usize));
        }

        #[test]
        fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = StoredCell::decode(&bytes);
        }
    }
}
