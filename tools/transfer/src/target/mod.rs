//! Targets of rows: trees, and tables of CQL.
//!
//! Invariant: a target writes a chunk of rows and the position after it in one atomic write, and
//! removes the position when the import is complete.

mod position;
mod table;
mod tree;

pub use table::{KEYSPACE, NewTable, TableSettings, TableTarget, cql_failure};
pub use tree::{POSITIONS, PairColumns, TreeTarget};

use firn_tools::output::Done;

use crate::source::{RowPlace, SourceCell};

/// Reason why a target refuses a row.
#[derive(Debug)]
pub enum RowRefusal {
    /// The row is invalid; others may be valid.
    Row(String),
    /// The store has failed.
    Store(firn_tools::output::Failure),
}

/// A refused row of a chunk.
#[derive(Debug)]
pub struct RefusedRow {
    /// The row.
    pub place: RowPlace,
    /// The reason.
    pub why: String,
}

/// Result of the write of a chunk.
#[derive(Debug, Default)]
pub struct CommittedChunk {
    /// Number of written rows.
    pub rows: u64,
    /// Number of the source's rows up to the stored position.
    pub read: u64,
    /// Rows that the store refused.
    pub refused: Vec<RefusedRow>,
}

/// A target of rows.
pub trait RowTarget {
    /// Returns the number of the source's rows that an interrupted import of the same source has
    /// written. `None`: there was none.
    ///
    /// # Errors
    /// There was one of another source; errors of the store.
    fn resume(&mut self) -> Done<Option<u64>>;

    /// Begins an import at the first row.
    ///
    /// # Errors
    /// An interrupted import of counters must be resumed; errors of the store.
    fn begin(&mut self) -> Done;

    /// Adds a row to the current chunk. `read`: the number of the source's rows up to it.
    ///
    /// # Errors
    /// The row is refused.
    fn add(
        &mut self,
        place: RowPlace,
        read: u64,
        cells: &mut [SourceCell],
    ) -> Result<(), RowRefusal>;

    /// Returns rows and bytes of the current chunk.
    fn pending(&self) -> (usize, usize);

    /// Writes the current chunk, and `read`, the number of the source's rows up to its end. A row
    /// that the store refuses ends it, unless such rows are left out.
    ///
    /// # Errors
    /// Errors of the store.
    fn commit(&mut self, read: u64) -> Done<CommittedChunk>;

    /// Removes the position of a complete import, and makes all rows durable.
    ///
    /// # Errors
    /// Errors of the store.
    fn finish(&mut self) -> Done;
}
