//! The result of a statement: rows with typed access.

use std::fmt;
use std::sync::{Arc, LazyLock};

use firn_wide::Type;

use super::result_budget::ResultShare;
use crate::catalog::ColumnType;
use crate::error::{Error, Result, invalid};
use crate::syntax::ast::BatchKind;
use crate::values::{ColumnSpec, FromValue, Value};

/// Position from which a paged result continues; opaque to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagingState(pub Vec<u8>);

/// The effect of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaChange {
    /// `CREATED`, `UPDATED` or `DROPPED`.
    pub change: &'static str,
    /// `KEYSPACE`, `TABLE`, `TYPE`, `FUNCTION` or `AGGREGATE`.
    pub target: &'static str,
    /// Keyspace of the object.
    pub keyspace: String,
    /// Name of the table, type, function or aggregate.
    pub name: Option<String>,
    /// Types of the arguments of a function or aggregate, in CQL syntax.
    pub arguments: Vec<String>,
}

impl SchemaChange {
    #[doc(hidden)]
    pub fn new(
        change: &'static str,
        target: &'static str,
        keyspace: &str,
        name: Option<&str>,
    ) -> SchemaChange {
        let (keyspace, name) = (keyspace.to_owned(), name.map(str::to_owned));
        SchemaChange { change, target, keyspace, name, arguments: vec![] }
    }
}

/// Kind of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// Empty result.
    Void,
    /// Rows.
    Rows,
    /// `USE` selected this keyspace.
    SetKeyspace(String),
    /// The schema was changed.
    Schema(Box<SchemaChange>),
}

/// Values stored consecutively: a result with many rows needs two allocations, not one for each
/// value.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowCells {
    bytes: Vec<u8>,
    /// End of each value, which is the start of the next one.
    ends: Vec<RowsEnd>,
}

#[derive(Clone, Copy, Debug)]
struct RowsEnd {
    at: usize,
    is_null: bool,
}

/// Initial capacity in bytes.
const FIRST: usize = 256;

impl RowCells {
    /// Creates a list with room for this number of values.
    pub fn with_capacity(values: usize) -> RowCells {
        RowCells { bytes: Vec::with_capacity(FIRST), ends: Vec::with_capacity(values) }
    }

    /// Adds a value; `None` is null.
    pub fn push(&mut self, value: Option<&[u8]>) {
        if self.ends.is_empty() {
            self.bytes.reserve(FIRST);
        }
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.ends.push(RowsEnd { at: self.bytes.len(), is_null: value.is_none() });
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Reports whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds values that are not null.
    pub fn extend<'v>(&mut self, values: impl IntoIterator<Item = &'v [u8]>) {
        values.into_iter().for_each(|value| self.push(Some(value)));
    }

    /// Returns the bytes of memory used.
    pub fn memory(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<RowsEnd>()
    }

    /// Returns the value with this index; `None` for null.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let end = self.ends.get(i).filter(|e| !e.is_null)?;
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before].at);
        Some(&self.bytes[start..end.at])
    }
}

/// Result of a statement.
#[derive(Clone, Debug)]
pub struct Rows {
    kind: ResultKind,
    columns: Option<Arc<[ColumnSpec]>>,
    cells: RowCells,
    paging: Option<PagingState>,
    warnings: Vec<String>,
    batch: Option<(BatchKind, usize)>,
    share: Option<Arc<ResultShare>>,
}

impl Rows {
    fn of_kind(kind: ResultKind) -> Rows {
        Rows {
            kind,
            columns: None,
            cells: RowCells::default(),
            paging: None,
            warnings: vec![],
            batch: None,
            share: None,
        }
    }

    /// Creates the result of a statement that returns nothing.
    #[doc(hidden)]
    pub fn void() -> Rows {
        Rows::of_kind(ResultKind::Void)
    }

    /// Creates the result of `USE`.
    #[doc(hidden)]
    pub fn set_keyspace(keyspace: impl Into<String>) -> Rows {
        Rows::of_kind(ResultKind::SetKeyspace(keyspace.into()))
    }

    /// Creates the result of a definition.
    #[doc(hidden)]
    pub fn schema(change: SchemaChange) -> Rows {
        Rows::of_kind(ResultKind::Schema(Box::new(change)))
    }

    /// Creates a result with these columns. Every row has one cell for each.
    pub(crate) fn new(columns: Arc<[ColumnSpec]>, cells: RowCells) -> Rows {
        Rows { columns: Some(columns), cells, ..Rows::of_kind(ResultKind::Rows) }
    }

    /// Creates a result from cells of another source, row after row; `None` is null. Cells missing
    /// in the last row are null.
    #[doc(hidden)]
    pub fn from_cells<'c>(
        columns: Arc<[ColumnSpec]>,
        values: impl IntoIterator<Item = Option<&'c [u8]>>,
    ) -> Rows {
        let mut cells = RowCells::default();
        values.into_iter().for_each(|value| cells.push(value));
        while !cells.len().is_multiple_of(columns.len().max(1)) {
            cells.push(None);
        }
        Rows::new(columns, cells)
    }

    /// Creates a result of text columns.
    pub(super) fn texts(names: &[&str], rows: Vec<Vec<String>>) -> Rows {
        let column = |name: &&str| ColumnSpec {
            keyspace: "system".into(),
            table: "describe".into(),
            name: (*name).to_owned(),
            column_type: ColumnType::frozen(Type::Utf8),
        };
        let mut cells = RowCells::default();
        rows.iter().flatten().for_each(|text| cells.push(Some(text.as_bytes())));
        Rows::new(names.iter().map(column).collect(), cells)
    }

    /// Sets the position where the next page begins.
    #[doc(hidden)]
    pub fn with_paging(self, paging: Option<PagingState>) -> Rows {
        Rows { paging, ..self }
    }

    /// Sets the warnings for clients.
    #[doc(hidden)]
    pub fn with_warnings(self, warnings: Vec<String>) -> Rows {
        Rows { warnings, ..self }
    }

    /// Sets the share of a budget that the result has taken.
    pub(super) fn with_share(self, share: Option<ResultShare>) -> Rows {
        Rows { share: share.map(Arc::new), ..self }
    }

    /// Returns the bytes that this result has taken of [`RunOptions::result_budget`](crate::RunOptions). A
    /// response made of it holds them until it is sent. `None`: the result is small, or has no
    /// budget.
    #[doc(hidden)]
    pub fn share(&self) -> Option<&Arc<ResultShare>> {
        self.share.as_ref()
    }

    /// Sets the kind of the batch and the number of partitions that it has written to.
    pub(super) fn with_batch(self, kind: BatchKind, partitions: usize) -> Rows {
        Rows { batch: Some((kind, partitions)), ..self }
    }

    /// Returns the kind of a batch without conditions, and the number of partitions that it has
    /// written to.
    pub fn batch(&self) -> Option<(BatchKind, usize)> {
        self.batch
    }

    /// Returns the bytes of all values.
    pub(crate) fn value_bytes(&self) -> usize {
        self.cells.bytes.len()
    }

    /// Returns the kind of the result.
    pub fn kind(&self) -> &ResultKind {
        &self.kind
    }

    /// Returns the columns.
    pub fn columns(&self) -> &Arc<[ColumnSpec]> {
        static NONE: LazyLock<Arc<[ColumnSpec]>> = LazyLock::new(|| Arc::new([]));
        self.columns.as_ref().unwrap_or_else(|| &NONE)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.cells.len() / self.columns().len().max(1)
    }

    /// Reports whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns where the next page begins; `None` if this is the last one.
    pub fn paging(&self) -> Option<&PagingState> {
        self.paging.as_ref()
    }

    /// Returns the warnings for clients.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the row with this index.
    pub fn row(&self, i: usize) -> Option<Row<'_>> {
        (i < self.len()).then(|| self.at(i))
    }

    /// Returns the row with this index, which must exist.
    pub(crate) fn at(&self, row: usize) -> Row<'_> {
        let columns = self.columns();
        Row { columns, cells: &self.cells, first: row * columns.len() }
    }

    /// Iterates over the rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        (0..self.len()).map(|i| self.at(i))
    }

    /// Returns the rows as tuples or other Rust types.
    ///
    /// # Errors
    /// Those of [`FromRow::from_row`].
    pub fn typed<T: FromRow>(&self) -> Result<Vec<T>> {
        self.iter().map(T::from_row).collect()
    }
}

/// A row of a result.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    columns: &'a [ColumnSpec],
    cells: &'a RowCells,
    /// Index of its first cell.
    first: usize,
}

impl<'a> Row<'a> {
    /// Returns the columns.
    pub fn columns(&self) -> &'a [ColumnSpec] {
        self.columns
    }

    /// Returns the bytes of a column; `None` is null.
    pub fn bytes(&self, column: usize) -> Option<&'a [u8]> {
        if column < self.columns.len() { self.cells.get(self.first + column) } else { None }
    }

    /// Returns the value of the column with this index.
    ///
    /// # Errors
    /// `Invalid` if there is no such column, or if its value has another type. The message names
    /// the column, its type and the requested type.
    pub fn at<T: FromValue>(&self, column: usize) -> Result<T> {
        let spec = self.columns.get(column).ok_or_else(|| self.missing(&column))?;
        let value = Value::decode(&spec.column_type.value_type, self.bytes(column))?;
        T::from_value(value).map_err(|e| {
            invalid!(
                "column {} of type {} can't be read as {}: {e}",
                spec.name,
                spec.column_type,
                short(std::any::type_name::<T>())
            )
        })
    }

    /// Returns the value of the column with this name.
    ///
    /// # Errors
    /// Those of [`at`](Row::at).
    pub fn get<T: FromValue>(&self, name: &str) -> Result<T> {
        self.at(self.position(name).ok_or_else(|| self.missing(&name))?)
    }

    /// Returns the value of the column with this name; `None` if there is no such column, or if it
    /// is null.
    ///
    /// # Errors
    /// `Invalid` if its value has another type.
    pub fn find<T: FromValue>(&self, name: &str) -> Result<Option<T>> {
        match self.position(name) {
            Some(at) if self.bytes(at).is_some() => self.at(at).map(Some),
            _ => Ok(None),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }

    fn missing(&self, column: &dyn fmt::Display) -> Error {
        let names: Vec<_> = self.columns.iter().map(|c| &*c.name).collect();
        invalid!("there is no column {column} in the result, which has {}", names.join(", "))
    }
}

/// Returns the name of a Rust type without module paths.
fn short(name: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut out = String::new();
    for word in name.split_inclusive(|c| !is_part(c)) {
        out.push_str(word.rsplit("::").next().unwrap_or(word));
    }
    out
}

/// A Rust type that a row can be converted to: a tuple of its columns in order, or a user-defined
/// struct.
///
/// With the default feature `derive`, `#[derive(FromRow)]` writes the implementation for a struct
/// with named fields. Each field is read from the column of its name. Use `Option` for columns that
/// may be null; collections need none, because null reads as empty.
///
/// | attribute | value of the field |
/// |---|---|
/// | `#[firn(rename = "…")]` | the column with this name, as the result has it: `count`, `system.writetime(v)` without an alias |
/// | `#[firn(default)]` | `Default::default()` if the result has no such column, or null in it |
/// | `#[firn(skip)]` | always `Default::default()` |
///
/// ```
/// use firn_cql::{FromRow, Session};
///
/// #[derive(Debug, PartialEq, FromRow)]
/// struct Definition {
///     #[firn(rename = "keyspace_name")]
///     keyspace: String,
///     name: String,
///     #[firn(default)]
///     comment: String,
/// }
///
/// # let dir = std::env::temp_dir().join(format!("firn-doc-cql-from-row-{}", std::process::id()));
/// let session = Session::open(&dir)?;
/// session.execute("CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ())?;
/// session.execute("CREATE TABLE shop.items (id int PRIMARY KEY)", ())?;
/// session.execute("USE shop", ())?;
/// let tables: Vec<Definition> = session.execute("DESCRIBE TABLES", ())?.typed()?;
/// assert_eq!(tables, [Definition { keyspace: "shop".into(), name: "items".into(), comment: String::new() }]);
/// # std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_cql::Error>(())
/// ```
pub trait FromRow: Sized {
    /// Converts a row.
    ///
    /// # Errors
    /// `Invalid` if a column is missing, or if its value has another type. The message names the
    /// column, its type and the requested type.
    fn from_row(row: Row<'_>) -> Result<Self>;
}

macro_rules! rows {
    ($($name:ident)+) => {
        impl<$($name: FromValue),+> FromRow for ($($name,)+) {
            fn from_row(row: Row<'_>) -> Result<Self> {
                let mut columns = 0..;
                Ok(($(row.at::<$name>(columns.next().unwrap_or_default())?,)+))
            }
        }
        rows!(@shorter $($name)+);
    };
    (@shorter $last:ident) => {};
    (@shorter $first:ident $($name:ident)+) => {
        rows!($($name)+);
    };
}

rows!(A B C D E F G H I J K L);
