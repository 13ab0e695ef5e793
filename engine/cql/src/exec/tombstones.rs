//! How many deleted rows and cells may be read, as servers bound it.

/// How many deleted rows, and cells that were deleted or have expired, one partition or one range
/// may have that is read. What a deletion of a whole partition or of a range of rows has emptied is
/// not counted.
///
/// ```
/// use firn_cql::{Run, TombstoneLimits};
/// let limits = TombstoneLimits { fail: u64::MAX, ..TombstoneLimits::default() };
/// let run = Run { tombstone_limits: Some(limits), ..Run::default() }; // warns, refuses none
/// # assert_eq!(run.tombstone_limits.unwrap().warn, 1000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TombstoneLimits {
    /// More are warned of; servers' default is 1,000.
    pub warn: u64,
    /// More fail the statement; servers' default is 100,000.
    pub fail: u64,
}

impl Default for TombstoneLimits {
    fn default() -> TombstoneLimits {
        TombstoneLimits { warn: 1000, fail: 100_000 }
    }
}
