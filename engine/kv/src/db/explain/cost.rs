//! What a recorded read cost.

use crate::merge::cost::SourceCost;

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOf {
    /// The value of a key.
    Key(Vec<u8>),
    /// By a cursor or an iterator, as far as it was walked: keys of a range.
    Range {
        /// The first key of the range.
        from: Vec<u8>,
        /// The first key after it; `None` for no end.
        until: Option<Vec<u8>>,
    },
}

/// What one read cost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadCost {
    /// The tree that was read.
    pub tree: String,
    /// What of it.
    pub of: ReadOf,
    /// How many keys the reader was shown.
    pub found: u64,
    /// All that could have been looked at, newest first, and what was done with it.
    pub sources: Vec<SourceCost>,
    /// How long it took, in nanoseconds, counting included; of a cursor only the time that it spent
    /// in its sources.
    pub nanos: u64,
}

impl ReadCost {
    /// The sum over all sources.
    pub fn total(&self) -> SourceCost {
        let mut all = SourceCost::default();
        self.sources.iter().for_each(|s| all.add(s));
        all
    }

    /// How many memtables and runs were searched.
    pub fn searched(&self) -> usize {
        self.sources.iter().filter(|s| s.skipped.is_none()).count()
    }
}

/// What was recorded.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recorded {
    /// The reads in the order in which they began, up to [`MOST_READS`](super::MOST_READS).
    pub reads: Vec<ReadCost>,
    /// How many more there were.
    pub more: u64,
}
