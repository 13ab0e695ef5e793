//! Cost of a recorded read.

use crate::iterator::cost::SourceCost;

/// Target of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadTarget {
    /// Value of a key.
    Key(Vec<u8>),
    /// Keys of a range, read by a cursor or an iterator up to its current position.
    Range {
        /// First key of the range.
        from: Vec<u8>,
        /// Exclusive end of the range; `None` for no end.
        until: Option<Vec<u8>>,
    },
}

/// Cost of one read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadCost {
    /// Name of the tree that was read.
    pub tree: String,
    /// Target of the read.
    pub target: ReadTarget,
    /// Number of keys returned.
    pub found: u64,
    /// All candidate sources, newest first, with the cost or the reason for skipping each.
    pub sources: Vec<SourceCost>,
    /// Duration in nanoseconds, including the measurement. For a cursor, only the time spent in its
    /// sources.
    pub nanos: u64,
}

impl ReadCost {
    /// Returns the sum over all sources.
    pub fn total(&self) -> SourceCost {
        let mut all = SourceCost::default();
        self.sources.iter().for_each(|s| all.add(s));
        all
    }

    /// Returns the number of memtables and runs that were searched.
    pub fn searched(&self) -> usize {
        self.sources.iter().filter(|s| s.skipped.is_none()).count()
    }
}

/// Result of a recording.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecordedReads {
    /// Reads in the order in which they began, up to
    /// [`MAX_READS`](crate::db::explain::MAX_READS).
    pub reads: Vec<ReadCost>,
    /// Number of further reads.
    pub more: u64,
}
