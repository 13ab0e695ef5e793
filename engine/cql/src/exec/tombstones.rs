//! Limits on tombstones that a read may pass, as in Cassandra.

/// Limits on the tombstones of a partition or range that a statement reads: deleted rows, and
/// deleted or expired cells. Data covered by a partition deletion or range deletion does not count.
///
/// ```
/// use firn_cql::{RunOptions, TombstoneLimits};
/// let limits = TombstoneLimits { fail: u64::MAX, ..TombstoneLimits::default() };
/// let run = RunOptions { tombstone_limits: Some(limits), ..RunOptions::default() }; // warns, refuses none
/// # assert_eq!(run.tombstone_limits.unwrap().warn, 1000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TombstoneLimits {
    /// Number above which the statement gets a warning; Cassandra's default is 1,000.
    pub warn: u64,
    /// Number above which the statement fails; Cassandra's default is 100,000.
    pub fail: u64,
    #[doc(hidden)]
    pub _non_exhaustive: (),
}

impl Default for TombstoneLimits {
    fn default() -> TombstoneLimits {
        TombstoneLimits { warn: 1000, fail: 100_000, _non_exhaustive: () }
    }
}
