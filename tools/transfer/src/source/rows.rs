//! Rows of a source, and their visitors.

use std::ops::ControlFlow;
use std::path::Path;

use firn_tools::output::{Done, Failure};
use firn_wide::Type;

use crate::text::Choice;

/// A column of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceColumn {
    /// Name of the column.
    pub name: String,
    /// Type of its values; `None` for text without a type.
    pub value_type: Option<Type>,
}

/// A value of a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SourceCell {
    /// No value.
    #[default]
    Null,
    /// Value of the column's type.
    Value(Vec<u8>),
    /// Value of a type of its own.
    Typed(Type, Vec<u8>),
    /// Text that is a value of any type, as in CSV.
    Text(Vec<u8>),
    /// The text of a JSON string, or the JSON of another value.
    Json(Vec<u8>),
}

/// Number of a row, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowPlace {
    /// Line of a text file, from 1.
    Line(u64),
    /// Row, from 1.
    Row(u64),
}

impl std::fmt::Display for RowPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RowPlace::Line(n) => write!(f, "line {n}"),
            RowPlace::Row(n) => write!(f, "row {n}"),
        }
    }
}

/// Length of a source, in the unit of its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceLength {
    /// Bytes; `None` for a pipe.
    Bytes(Option<u64>),
    /// Rows, if known.
    Rows(Option<u64>),
}

/// Result of a visit.
pub type VisitFlow = Done<ControlFlow<()>>;

/// Receives the rows of a source.
pub trait RowVisitor {
    /// Receives a row, whose cells it may take. `done`: the progress in the unit of the length.
    ///
    /// # Errors
    /// Failures that end the import.
    fn row(&mut self, place: RowPlace, done: u64, cells: &mut [SourceCell]) -> VisitFlow;

    /// Receives a row that cannot be read; others follow.
    ///
    /// # Errors
    /// Failures that end the import.
    fn bad(&mut self, place: RowPlace, done: u64, why: String) -> VisitFlow;
}

/// A source of rows.
pub trait RowSource {
    /// Returns its columns.
    fn columns(&self) -> &[SourceColumn];

    /// Returns its length.
    fn length(&self) -> SourceLength;

    /// Reads all rows after the first `skip`. Rows that cannot be read count.
    ///
    /// # Errors
    /// The source is unreadable or damaged; failures of the visitor.
    fn read(&mut self, skip: u64, visitor: &mut dyn RowVisitor) -> Done;
}

/// Selection of the data of a source.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    /// Table of a SQLite database, database of an LMDB environment, or column family of a RocksDB
    /// directory.
    pub part: Option<String>,
    /// Statement that selects the rows of a SQLite database.
    pub query: Option<String>,
    /// Whether the first line of a text names the columns.
    pub header: bool,
    /// Text that stands for null in CSV.
    pub null: String,
    /// Names of the fields of JSON lines; `None`: they are taken from the first lines.
    pub fields: Option<Vec<String>>,
    /// Selection of the key and value of text records, for a tree.
    pub pairs: Option<Choice>,
    /// Whether digits may be lost where CQL's type has fewer.
    pub lossy: bool,
}

/// Returns the columns of a store of keys and values.
pub fn pair_columns() -> Vec<SourceColumn> {
    let column = |name: &str| SourceColumn { name: name.into(), value_type: Some(Type::Bytes) };
    vec![column("key"), column("value")]
}

/// Counts rows, and passes those after the first ones to a visitor.
pub struct RowCounter<'v> {
    visitor: &'v mut dyn RowVisitor,
    skip: u64,
    /// Number of rows so far.
    rows: u64,
}

impl<'v> RowCounter<'v> {
    /// Creates a counter that skips rows.
    pub fn new(skip: u64, visitor: &'v mut dyn RowVisitor) -> RowCounter<'v> {
        RowCounter { visitor, skip, rows: 0 }
    }

    /// Passes a pair of a store of keys and values on.
    pub fn pair(&mut self, key: &[u8], value: &[u8]) -> VisitFlow {
        self.rows += 1;
        if self.rows <= self.skip {
            return Ok(ControlFlow::Continue(()));
        }
        let mut cells = [SourceCell::Value(key.to_vec()), SourceCell::Value(value.to_vec())];
        self.visitor.row(RowPlace::Row(self.rows), self.rows, &mut cells)
    }
}

/// Returns the failure of a damaged or foreign file.
pub fn damaged(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {why}", path.display()))
}
