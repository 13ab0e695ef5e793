//! Limits on the size of a batch, as in Cassandra.

/// Limits on the size of a batch over several partitions. The size is computed as in Cassandra: the
/// values with their element names, the clustering values, and some bytes for each cell, row and
/// partition.
///
/// ```
/// use firn_cql::{BatchLimits, RunOptions};
/// let limits = BatchLimits { fail_bytes: usize::MAX, ..BatchLimits::default() };
/// let run = RunOptions { batch_limits: Some(limits), ..RunOptions::default() }; // warns, refuses none
/// # assert_eq!(run.batch_limits.unwrap().warn_bytes, 5 << 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Size above which the batch gets a warning; Cassandra's default is 5 KiB.
    pub warn_bytes: usize,
    /// Size above which the batch is refused; Cassandra's default is 50 KiB.
    pub fail_bytes: usize,
    /// Number of partitions above which an unlogged batch gets a warning; Cassandra's default is
    /// 10.
    pub warn_partitions: usize,
    #[doc(hidden)]
    pub _non_exhaustive: (),
}

impl Default for BatchLimits {
    fn default() -> BatchLimits {
        BatchLimits {
            warn_bytes: 5 << 10,
            fail_bytes: 50 << 10,
            warn_partitions: 10,
            _non_exhaustive: (),
        }
    }
}

/// Size of changes, each counted by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChangeWeight {
    /// Bytes of the rows without their content, for each change of a row.
    pub rows: usize,
    /// Bytes of cells and range deletions.
    pub rest: usize,
}

/// Bytes of a row besides its clustering values.
pub(super) const ROW: usize = 21;
/// Bytes of a cell besides its value.
pub(super) const CELL: usize = 20;
/// Bytes of a range deletion besides its bounds.
pub(super) const RANGE: usize = 24;
/// Bytes of a table's part of a partition besides its rows.
pub(super) const PARTITION: usize = 29;
