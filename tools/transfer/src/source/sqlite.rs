//! SQLite databases: the rows of a table, or of a query.
//!
//! A column of SQLite may have values of several types. A declared type gives the type of a new
//! column; without one, the first rows give it. Every value keeps its own type until it is
//! converted to that of its target column.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use firn_tools::output::{Done, Failure};
use firn_wide::Type;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use super::rows::{
    RowPlace, RowSource, RowVisitor, SourceCell, SourceColumn, SourceLength, SourceOptions, damaged,
};

/// Number of rows from which types are taken.
const SAMPLE: usize = 1000;

/// The rows of a table or query.
pub struct SqliteSource {
    path: PathBuf,
    connection: Connection,
    query: String,
    columns: Vec<SourceColumn>,
}

impl SqliteSource {
    /// Opens a database for reading only.
    ///
    /// # Errors
    /// It is unreadable or damaged; the table is missing or not named; the query is invalid.
    pub fn open(path: &Path, options: &SourceOptions) -> Done<SqliteSource> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags);
        let connection = connection.map_err(|e| damaged(path, e))?;
        let query = match &options.query {
            Some(query) => query.clone(),
            None => {
                let table = table(path, &connection, options.part.as_deref())?;
                format!("SELECT * FROM \"{}\"", table.replace('"', "\"\""))
            }
        };
        let columns = columns(&connection, &query).map_err(|e| damaged(path, e))?;
        Ok(SqliteSource { path: path.to_path_buf(), connection, query, columns })
    }
}

/// Returns the table to read: the named one, or the only one.
fn table(path: &Path, connection: &Connection, named: Option<&str>) -> Done<String> {
    let names = || -> rusqlite::Result<Vec<String>> {
        let list = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
        let mut statement = connection.prepare(list)?;
        let names = statement.query_map([], |row| row.get(0))?;
        names.collect()
    };
    let names = names().map_err(|e| damaged(path, e))?;
    let list = || format!("it has {}", names.join(", "));
    match (named, &names[..]) {
        (Some(name), _) if names.iter().any(|n| n == name) => Ok(name.to_owned()),
        (Some(name), _) => {
            let what = format!("{} has no table {name:?}", path.display());
            Err(Failure::with_next(what, list()))
        }
        (None, [only]) => Ok(only.clone()),
        (None, []) => Err(damaged(path, "it has no tables")),
        (None, _) => {
            let what = format!("{} has {} tables", path.display(), names.len());
            Err(Failure::with_next(what, format!("choose one with --part NAME: {}", list())))
        }
    }
}

/// Returns the type of a column by its declared type, with SQLite's own rules.
fn declared(words: &str) -> Option<Type> {
    let words = words.to_ascii_uppercase();
    let has = |word: &str| words.contains(word);
    match () {
        () if has("BOOL") => Some(Type::Boolean),
        () if has("INT") => Some(Type::Long),
        () if has("CHAR") || has("CLOB") || has("TEXT") => Some(Type::Utf8),
        () if has("BLOB") => Some(Type::Bytes),
        () if has("REAL") || has("FLOA") || has("DOUB") => Some(Type::Double),
        () => None,
    }
}

/// Returns the type of a value, and its bytes; `None` for null.
fn typed(value: ValueRef<'_>) -> Result<Option<(Type, Vec<u8>)>, String> {
    Ok(Some(match value {
        ValueRef::Null => return Ok(None),
        ValueRef::Integer(n) => (Type::Long, n.to_be_bytes().to_vec()),
        ValueRef::Real(n) => (Type::Double, n.to_be_bytes().to_vec()),
        ValueRef::Text(text) => {
            std::str::from_utf8(text).map_err(|_| "a text that is not UTF-8".to_owned())?;
            (Type::Utf8, text.to_vec())
        }
        ValueRef::Blob(bytes) => (Type::Bytes, bytes.to_vec()),
    }))
}

/// Returns the columns of a query.
fn columns(connection: &Connection, query: &str) -> rusqlite::Result<Vec<SourceColumn>> {
    let mut statement = connection.prepare(query)?;
    let mut columns: Vec<SourceColumn> = statement
        .columns()
        .map(|c| SourceColumn {
            name: c.name().to_owned(),
            value_type: c.decl_type().and_then(declared),
        })
        .collect();
    let mut seen: Vec<Option<Type>> = vec![None; columns.len()];
    let mut rows = statement.query([])?;
    for _ in 0..SAMPLE {
        let Some(row) = rows.next()? else { break };
        for (i, seen) in seen.iter_mut().enumerate() {
            if let Ok(Some((of, _))) = typed(row.get_ref(i)?) {
                *seen = Some(match seen.take() {
                    None => of,
                    Some(before) if before == of => of,
                    Some(Type::Long | Type::Double) if matches!(of, Type::Long | Type::Double) => {
                        Type::Double
                    }
                    Some(_) => Type::Utf8,
                });
            }
        }
    }
    for (column, seen) in columns.iter_mut().zip(seen) {
        let of = column.value_type.take().or(seen);
        column.value_type = Some(of.unwrap_or(Type::Utf8));
    }
    Ok(columns)
}

impl RowSource for SqliteSource {
    fn columns(&self) -> &[SourceColumn] {
        &self.columns
    }

    fn length(&self) -> SourceLength {
        let count = format!("SELECT count(*) FROM ({})", self.query);
        let rows = self.connection.query_row(&count, [], |row| row.get::<_, i64>(0));
        SourceLength::Rows(rows.ok().and_then(|n| u64::try_from(n).ok()))
    }

    fn read(&mut self, skip: u64, visitor: &mut dyn RowVisitor) -> Done {
        let fail = |e: rusqlite::Error| damaged(&self.path, e);
        let mut statement = self.connection.prepare(&self.query).map_err(fail)?;
        let mut rows = statement.query([]).map_err(fail)?;
        let mut cells = vec![SourceCell::Null; self.columns.len()];
        let mut number = 0;
        while let Some(row) = rows.next().map_err(fail)? {
            number += 1;
            if number <= skip {
                continue;
            }
            let place = RowPlace::Row(number);
            let mut refused = None;
            for (i, cell) in cells.iter_mut().enumerate() {
                match typed(row.get_ref(i).map_err(fail)?) {
                    Ok(value) => {
                        *cell = value.map_or(SourceCell::Null, |(of, v)| SourceCell::Typed(of, v));
                    }
                    Err(why) => refused = Some(format!("column {}: {why}", self.columns[i].name)),
                }
            }
            let flow = match refused {
                None => visitor.row(place, number, &mut cells)?,
                Some(why) => visitor.bad(place, number, why)?,
            };
            if flow == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}
