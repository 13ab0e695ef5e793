//! An explanation: the recorded reads, and their words.

use std::sync::Arc;

use firn_kv::explain::{ReadCost, ReadTarget};
use firn_tools::escape::words;

use crate::names::StoreNames;

/// The recorded reads and their costs.
#[derive(Debug)]
pub struct ReadExplanation {
    /// Rows of a statement.
    pub(super) rows: Option<usize>,
    pub(super) reads: Vec<ExplainedRead>,
    /// Number of reads that were not recorded.
    pub(super) more: u64,
    pub(super) names: Arc<StoreNames>,
    /// First words of commands for this store.
    pub(super) firn: String,
}

/// One read of the engine.
#[derive(Debug)]
pub(super) struct ExplainedRead {
    pub(super) cost: ReadCost,
    /// Entries in the read range, for a tree of cells.
    pub(super) cells: Option<CellCounts>,
}

/// Entries of a range of a tree of cells.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CellCounts {
    pub(super) live: u64,
    /// Deletions of partitions, rows and collections.
    pub(super) deletions: u64,
    /// Tombstones of single cells.
    pub(super) tombstones: u64,
    pub(super) expired: u64,
    /// Range deletions of rows, which a read seeks past.
    pub(super) ranges: u64,
}

impl CellCounts {
    /// Returns the number of entries that a read steps through.
    pub(super) fn all(&self) -> u64 {
        self.live + self.dead()
    }

    /// Returns the number of entries that it steps through and does not return.
    pub(super) fn dead(&self) -> u64 {
        self.deletions + self.tombstones + self.expired
    }
}

/// Returns the part of a partition that was read, in the types of its table; `None` for all of it.
pub(super) fn part(read: &ReadCost, names: &StoreNames) -> Option<String> {
    match &read.target {
        ReadTarget::Key(key) => names.cell(&read.tree, key),
        ReadTarget::Range { from, until } => names.rows(&read.tree, from, until.as_deref()),
    }
}

/// Describes the read.
pub(super) fn subject(read: &ReadCost, names: &StoreNames) -> String {
    let tree = names
        .of_tree(&read.tree)
        .map_or_else(|| format!("tree {}", read.tree), |n| format!("{n} (tree {})", read.tree));
    let of = |key: &[u8]| names.partition(&read.tree, key);
    let part = part(read, names).map_or_else(String::new, |part| format!(", {part}"));
    match &read.target {
        ReadTarget::Key(key) => match of(key) {
            Some(partition) => format!("a cell of {tree}, partition {partition}{part}"),
            None => format!("key {} of {tree}", words(key)),
        },
        ReadTarget::Range { from, until } => match of(from) {
            Some(partition) => format!("cells of {tree}, partition {partition}{part}"),
            None if names.of_tree(&read.tree).is_some() => format!("partitions of {tree}"),
            None => {
                let from = if from.is_empty() { "the first".into() } else { words(from) };
                let until =
                    until.as_ref().map_or("the last".into(), |u| format!("before {}", words(u)));
                format!("keys of {tree} from {from} to {until}")
            }
        },
    }
}
