//! Slices and ranges: the part of a partition, and the partitions, that a reader reads.

use std::ops::Bound;

use crate::key::{RANGES, ROWS, STATIC};

/// A part of a partition: the places in `[from, until)`, and how they are read. Bounds are
/// ascending whichever way it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreSlice {
    /// First place; empty for the partition's start.
    pub from: Vec<u8>,
    /// First place after it; empty for the partition's end.
    pub until: Vec<u8>,
    /// Whether it is read from its end.
    pub reverse: bool,
    /// Whether everything is shown that is stored: deletions, and cells that are dead, too.
    pub raw: bool,
}

impl StoreSlice {
    /// Everything.
    pub fn all() -> StoreSlice {
        StoreSlice::default()
    }

    /// All rows, without static cells.
    pub fn rows() -> StoreSlice {
        StoreSlice { from: vec![ROWS], ..StoreSlice::default() }
    }

    /// The static cells only.
    pub fn statics() -> StoreSlice {
        StoreSlice { from: vec![STATIC], until: vec![ROWS], ..StoreSlice::default() }
    }

    /// The places in `[from, until)`.
    pub fn between(from: Vec<u8>, until: Vec<u8>) -> StoreSlice {
        StoreSlice { from, until, ..StoreSlice::default() }
    }

    /// The same, read from the end.
    pub fn reversed(self) -> StoreSlice {
        StoreSlice { reverse: true, ..self }
    }

    /// The same, showing everything.
    pub fn raw(self) -> StoreSlice {
        StoreSlice { raw: true, ..self }
    }

    /// Whether it begins before all cells, so that the partition's own deletions are met on the
    /// way.
    pub(super) fn is_from_start(&self) -> bool {
        self.from.first().is_none_or(|&b| b <= RANGES)
    }

    /// What of it a reader of one partition must know when it has begun: where it is read from its
    /// end, the place that it begins at is looked for; else the cursor's range ends it.
    pub(super) fn of_one_partition(&self) -> StoreSlice {
        if self.reverse { self.clone() } else { StoreSlice { raw: self.raw, ..StoreSlice::all() } }
    }

    /// Whether a place lies before its end.
    #[inline]
    pub(super) fn is_before_end(&self, place: &[u8]) -> bool {
        self.until.is_empty() || place < &*self.until
    }
}

/// A range of partitions, by their partition parts, or by tokens alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitions {
    /// Where it begins.
    pub from: Bound<Vec<u8>>,
    /// Where it ends.
    pub until: Bound<Vec<u8>>,
}

impl Partitions {
    /// All of them.
    pub fn all() -> Partitions {
        Partitions { from: Bound::Unbounded, until: Bound::Unbounded }
    }
}
