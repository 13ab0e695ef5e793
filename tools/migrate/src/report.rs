//! What was carried, and what could not be, by number.

use firn_tools::output::things;

/// What was carried, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CarriedCounts {
    /// Partitions.
    pub partitions: u64,
    /// Rows.
    pub rows: u64,
    /// Cells, of which tombstones are some.
    pub cells: u64,
    /// Deletions of partitions, ranges, rows and collections.
    pub deletions: u64,
}

impl CarriedCounts {
    /// In words.
    pub fn told(&self) -> String {
        format!(
            "{}, {}, {} and {}",
            things(self.partitions, "partition", "partitions"),
            things(self.rows, "row", "rows"),
            things(self.cells, "cell", "cells"),
            things(self.deletions, "deletion", "deletions")
        )
    }
}
