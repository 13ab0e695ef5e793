//! What could not be carried as it was, by number, and what the other side refused.

use firn_table_events::MOST_LIST_RUNS;
use firn_tools::output::things;
use serde_json::{Value, json};

/// What CQL has no words for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CarriedLosses {
    /// Lists whose elements get write times that are not their own.
    pub mixed_lists: u64,
    /// Lists whose elements have too many ends, so that they are written whole.
    pub whole_lists: u64,
    /// Cells whose time to live had ended, which are sent as deletions.
    pub ended: u64,
    /// Cells of columns or fields that the table does not have any more.
    pub unknown_columns: u64,
    /// Deletions of all rows of a partition beside static columns.
    pub whole_ranges: u64,
    /// Deletions that a condition keeps back, because they may be of rows that it leaves out.
    pub kept_back: u64,
}

impl CarriedLosses {
    /// Takes in those of another part.
    pub fn add(&mut self, other: &CarriedLosses) {
        self.mixed_lists += other.mixed_lists;
        self.whole_lists += other.whole_lists;
        self.ended += other.ended;
        self.unknown_columns += other.unknown_columns;
        self.whole_ranges += other.whole_ranges;
        self.kept_back += other.kept_back;
    }

    /// In words, each that there is.
    pub fn told(&self) -> Vec<String> {
        let all = [
            (
                self.mixed_lists,
                format!(
                    "{} whose elements get the write time of their newest, because their own do not rise along the list; times to live are kept",
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

    /// For programs.
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
    /// Whose it is, as a `WHERE` has it.
    pub key: String,
    /// What the other side said.
    pub why: String,
}

/// The most refused statements that are told one by one.
pub const MOST_TOLD: usize = 20;
