//! Slices and ranges: the part of a partition, and the partitions, that a reader reads.

use std::ops::Bound;

use crate::key::{RANGES, ROWS, STATIC};

/// A part of a partition: the positions in `[from, until)`, and the reading order. Bounds are
/// ascending in either order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreSlice {
    /// First position; empty for the partition's start.
    pub from: Vec<u8>,
    /// First position after it; empty for the partition's end.
    pub until: Vec<u8>,
    /// Whether it is read in reverse.
    pub reverse: bool,
    /// Whether all stored entries are returned, including deletions and dead cells.
    pub raw: bool,
}

impl StoreSlice {
    /// Returns the slice of the whole partition.
    pub fn all() -> StoreSlice {
        StoreSlice::default()
    }

    /// Returns the slice of all rows, without static cells.
    pub fn rows() -> StoreSlice {
        StoreSlice { from: vec![ROWS], ..StoreSlice::default() }
    }

    /// Returns the slice of the static cells only.
    pub fn statics() -> StoreSlice {
        StoreSlice { from: vec![STATIC], until: vec![ROWS], ..StoreSlice::default() }
    }

    /// Returns the slice of the positions in `[from, until)`.
    pub fn between(from: Vec<u8>, until: Vec<u8>) -> StoreSlice {
        StoreSlice { from, until, ..StoreSlice::default() }
    }

    /// Returns this slice in reverse order.
    pub fn reversed(self) -> StoreSlice {
        StoreSlice { reverse: true, ..self }
    }

    /// Returns this slice with all stored entries.
    pub fn raw(self) -> StoreSlice {
        StoreSlice { raw: true, ..self }
    }

    /// Reports whether it begins before all cells, so that the partition's own deletions are read
    /// on the way.
    pub(super) fn is_from_start(&self) -> bool {
        self.from.first().is_none_or(|&b| b <= RANGES)
    }

    /// Returns the part of the slice that a reader of one partition needs after its start. In
    /// reverse order it needs the start position; otherwise the cursor's range is sufficient.
    pub(super) fn of_one_partition(&self) -> StoreSlice {
        if self.reverse { self.clone() } else { StoreSlice { raw: self.raw, ..StoreSlice::all() } }
    }

    /// Reports whether a position is before its end.
    #[inline]
    pub(super) fn is_before_end(&self, place: &[u8]) -> bool {
        self.until.is_empty() || place < &*self.until
    }
}

/// A range of partitions, by their partition parts, or by tokens alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitions {
    /// Start of the range.
    pub from: Bound<Vec<u8>>,
    /// End of the range.
    pub until: Bound<Vec<u8>>,
}

impl Partitions {
    /// Returns the range of all partitions.
    pub fn all() -> Partitions {
        Partitions { from: Bound::Unbounded, until: Bound::Unbounded }
    }
}
