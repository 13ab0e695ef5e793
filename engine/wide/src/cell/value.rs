//! A cell, and its encoding.

pub(super) const LIVE: u8 = 1;
pub(super) const EXPIRING: u8 = 2;
pub(super) const TOMBSTONE: u8 = 3;
pub(super) const DELETION: u8 = 4;
pub(super) const RANGE: u8 = 5;
pub(super) const COUNTER: u8 = 6;

/// A cell: the content of a column, or of an element of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// Client timestamp, in microseconds by convention.
    pub timestamp: i64,
    /// Content of the cell.
    pub state: CellState<'a>,
}

/// Content of a [`Cell`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellState<'a> {
    /// A value without expiration.
    Live(&'a [u8]),
    /// A value with a TTL.
    Expiring {
        /// The value; empty in a cell that expired long ago.
        value: &'a [u8],
        /// The original TTL in seconds.
        ttl: u32,
        /// Second since 1970 from which on the cell is dead.
        expires: i64,
    },
    /// Deleted.
    Tombstone {
        /// Time of the deletion on the server, in seconds since 1970; grace begins here.
        deleted: i64,
    },
    /// Sum of a counter's increments.
    Counter(i64),
}

impl<'a> Cell<'a> {
    /// Reports whether a reader at second `now` sees a value.
    #[inline]
    pub fn is_live(&self, now: i64) -> bool {
        match self.state {
            CellState::Live(_) | CellState::Counter(_) => true,
            CellState::Expiring { expires, .. } => now < expires,
            CellState::Tombstone { .. } => false,
        }
    }

    /// Returns the value; empty if there is none, and for counters.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        match self.state {
            CellState::Live(value) | CellState::Expiring { value, .. } => value,
            CellState::Tombstone { .. } | CellState::Counter(_) => &[],
        }
    }

    /// Returns this cell with another value; unchanged if it has none.
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

    /// Returns the sum of a counter.
    pub fn counter(&self) -> Option<i64> {
        if let CellState::Counter(sum) = self.state { Some(sum) } else { None }
    }

    /// Returns the original TTL.
    pub fn ttl(&self) -> Option<u32> {
        if let CellState::Expiring { ttl, .. } = self.state { Some(ttl) } else { None }
    }

    /// Returns the remaining seconds of the TTL.
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
