//! Losses of a migration, by number, and statements that the other side refused.

use firn_table_events::MOST_LIST_RUNS;
use firn_tools::output::things;
use serde_json::{Value, json};

/// Data that CQL cannot express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CarriedLosses {
    /// Lists whose elements get other write times.
    pub mixed_lists: u64,
    /// Lists whose elements have too many expirations, so that they are written as one.
    pub whole_lists: u64,
    /// Expired cells, which are sent as deletions.
    pub ended: u64,
    /// Cells of columns or fields that the table no longer has.
    pub unknown_columns: u64,
    /// Deletions of all rows of a partition with static columns.
    pub whole_ranges: u64,
    /// Deletions left out because of a condition: they may affect rows that it excludes.
    pub kept_back: u64,
}

impl CarriedLosses {
    /// Adds the losses of another part.
    pub fn add(&mut self, other: &CarriedLosses) {
        self.mixed_lists += other.mixed_lists;
        self.whole_lists += other.whole_lists;
        self.ended += other.ended;
        self.unknown_columns += other.unknown_columns;
        self.whole_ranges += other.whole_ranges;
        self.kept_back += other.kept_back;
    }

    /// Formats the losses that occurred.
    pub fn describe(&self) -> Vec<String> {
        let all = [
            (
                self.mixed_lists,
                format!(
                    "{} whose elements get the write time of their newest, because their own do not rise along the list; times to live are unchanged",
                    things(self.mixed_lists, "list", "lists")
                ),
            ),
            (
                self.whole_lists,
                format!(
                    "{} whose elements expire at more than {MOST_LIST_RUNS} times: each is written whole, so its elements live as long as the one that lives longest",
                    things(self.whole_lists, "list", "lists")
                ),
            ),
            (
                self.ended,
                format!(
                    "{} whose time to live has ended sent as deletions",
                    things(self.ended, "cell", "cells")
                ),
            ),
            (
                self.unknown_columns,
                format!(
                    "{} of columns or fields that are not there any more left out",
                    things(self.unknown_columns, "cell", "cells")
                ),
            ),
            (
                self.whole_ranges,
                format!(
                    "{} of all rows of a partition, but not of its static columns, left out",
                    things(self.whole_ranges, "deletion", "deletions")
                ),
            ),
            (
                self.kept_back,
                format!(
                    "{} of partitions and ranges left out, because --where leaves out rows in them",
                    things(self.kept_back, "deletion", "deletions")
                ),
            ),
        ];
        all.into_iter().filter(|l| l.0 > 0).map(|l| l.1).collect()
    }

    /// Returns the losses as JSON.
    pub fn json(&self) -> Value {
        json!({
            "lists_with_times_of_elements": self.mixed_lists, "lists_that_live_longer": self.whole_lists, "ended_sent_as_deletions": self.ended,
            "cells_of_unknown_columns": self.unknown_columns, "deletions_of_all_rows": self.whole_ranges,
            "deletions_kept_back": self.kept_back,
        })
    }
}

/// A statement that the other side refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedStatement {
    /// The table.
    pub table: String,
    /// Its key as in a `WHERE`.
    pub key: String,
    /// The error message of the other side.
    pub why: String,
}

/// Maximum number of refused statements that are listed.
pub const MOST_SHOWN: usize = 20;
