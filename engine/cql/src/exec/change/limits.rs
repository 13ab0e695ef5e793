//! How large a batch may be, as servers bound it.

/// How large a batch over several partitions may be. What it weighs is what servers make of it: its
/// values with their names of elements, the clustering values, and some bytes for each cell, row
/// and partition.
///
/// ```
/// use firn_cql::{BatchLimits, Run};
/// let limits = BatchLimits { fail_bytes: usize::MAX, ..BatchLimits::default() };
/// let run = Run { batch_limits: Some(limits), ..Run::default() }; // warns, refuses none
/// # assert_eq!(run.batch_limits.unwrap().warn_bytes, 5 << 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Heavier ones are warned of; servers' default is 5 KiB.
    pub warn_bytes: usize,
    /// Heavier ones are refused; servers' default is 50 KiB.
    pub fail_bytes: usize,
    /// Those that are not logged are warned of where they write to more partitions; servers' default
    /// is 10.
    pub warn_partitions: usize,
}

impl Default for BatchLimits {
    fn default() -> BatchLimits {
        BatchLimits { warn_bytes: 5 << 10, fail_bytes: 50 << 10, warn_partitions: 10 }
    }
}

/// What changes weigh, each by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChangeWeight {
    /// Their rows without what is in them, each as often as it is changed.
    pub rows: usize,
    /// Cells and deletions of ranges.
    pub rest: usize,
}

/// What a row weighs beside its clustering values.
pub(super) const ROW: usize = 21;
/// What a cell weighs beside its value.
pub(super) const CELL: usize = 20;
/// What a deletion of a range weighs beside its ends.
pub(super) const RANGE: usize = 24;
/// What the part of a table in a partition weighs beside its rows.
pub(super) const PARTITION: usize = 29;
