//! Sessions, statements, rows.

use std::mem::MaybeUninit;

use firn_cql::internals::values::{from_json, json};
use firn_cql::{ColumnSpec, FromValue, OwnedRow, PagedRows, Prepared, RunOptions, Session, Value};
use firn_packed::rows::RowPacker;
use firn_wide::Options;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::call::*;
use crate::store::FirnOptions;

/// A CQL session with a database.
pub struct FirnSession(pub(crate) Session);

/// A prepared statement with the values bound to its markers.
pub struct FirnStatement {
    pub(crate) session: Session,
    pub(crate) prepared: Prepared,
    values: Vec<Value>,
}

/// The rows of a result, fetched a page at a time.
pub struct FirnRows {
    pub(crate) rows: RowPacker,
    pub(crate) row: Option<OwnedRow>,
    /// Packed rows lent to the caller.
    pub(crate) chunk: Vec<u8>,
}

impl FirnRows {
    /// Returns the rows before the first one.
    pub(crate) fn new(walk: PagedRows) -> FirnRows {
        FirnRows { rows: RowPacker::new(walk), row: None, chunk: vec![] }
    }
}

handles! { FirnSession "the session", FirnStatement "the statement", FirnRows "the result" }

/// Opens the database in the directory `path`, and creates it if missing or empty. `options` may be
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn firn_session_open(
    path: FirnSlice,
    options: Option<&FirnOptions>,
    out: Option<&mut MaybeUninit<Box<FirnSession>>>,
) -> FirnCode {
    result(out, || {
        let mut with = Options::default();
        with.store.db = FirnOptions::read(options)?;
        Ok(Box::new(FirnSession(Session::open_with(path.text()?, with)?)))
    })
}

/// Opens an empty database in memory.
#[unsafe(no_mangle)]
pub extern "C" fn firn_session_open_memory(
    out: Option<&mut MaybeUninit<Box<FirnSession>>>,
) -> FirnCode {
    result(out, || Ok(Box::new(FirnSession(Session::in_memory()?))))
}

/// Creates another session with the same database; each has its own keyspace.
#[unsafe(no_mangle)]
pub extern "C" fn firn_session_clone(
    session: Option<&FirnSession>,
    out: Option<&mut MaybeUninit<Box<FirnSession>>>,
) -> FirnCode {
    result(out, || Ok(Box::new(FirnSession(handle(session)?.0.clone()))))
}

/// Closes the database for all its sessions, and returns the result. Handles must still be freed;
/// calls that need the database return `FIRN_CODE_CLOSED`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_session_close(session: Option<&FirnSession>) -> FirnCode {
    done(|| Ok(handle(session)?.0.close()?))
}

/// Frees a session. An open database is closed with its last handle.
#[unsafe(no_mangle)]
pub extern "C" fn firn_session_free(session: Option<Box<FirnSession>>) {
    free(session);
}

/// Runs a statement without bind markers and discards its rows.
#[unsafe(no_mangle)]
pub extern "C" fn firn_session_execute(session: Option<&FirnSession>, cql: FirnSlice) -> FirnCode {
    done(|| Ok(handle(session)?.0.query(cql.text()?, ()).map(drop)?))
}

/// Runs a statement without bind markers and returns its rows.
#[unsafe(no_mangle)]
pub extern "C" fn firn_session_query(
    session: Option<&FirnSession>,
    cql: FirnSlice,
    out: Option<&mut MaybeUninit<Box<FirnRows>>>,
) -> FirnCode {
    result(out, || Ok(Box::new(FirnRows::new(handle(session)?.0.query(cql.text()?, ())?))))
}

/// Prepares a statement about rows.
#[unsafe(no_mangle)]
pub extern "C" fn firn_session_prepare(
    session: Option<&FirnSession>,
    cql: FirnSlice,
    out: Option<&mut MaybeUninit<Box<FirnStatement>>>,
) -> FirnCode {
    result(out, || {
        let session = handle(session)?.0.clone();
        let prepared = session.prepare(cql.text()?)?;
        let values = vec![Value::Unset; prepared.markers().len()];
        Ok(Box::new(FirnStatement { session, prepared, values }))
    })
}

/// Frees a statement.
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_free(statement: Option<Box<FirnStatement>>) {
    free(statement);
}

/// Returns the number of bind markers; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_markers(statement: Option<&FirnStatement>) -> usize {
    statement.map_or(0, |s| s.values.len())
}

fn marker(statement: Option<&FirnStatement>, marker: usize) -> Outcome<&ColumnSpec> {
    let markers = handle(statement)?.prepared.markers();
    markers.get(marker).ok_or_else(|| no_marker(marker, markers.len()))
}

fn no_marker(marker: usize, markers: usize) -> Failure {
    Failure::argument(format!(
        "there is no bind marker {marker}; there are {markers}, counted from 0"
    ))
}

/// Returns the name of a bind marker; valid until the statement is freed.
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_marker_name(
    statement: Option<&FirnStatement>,
    index: usize,
    out: Option<&mut MaybeUninit<FirnSlice>>,
) -> FirnCode {
    result(out, || Ok(FirnSlice::lend(marker(statement, index)?.name.as_bytes())))
}

/// Returns the CQL type of a bind marker.
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_marker_type(
    statement: Option<&FirnStatement>,
    index: usize,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    result(out, || Ok(marker(statement, index)?.column_type.to_string().into()))
}

fn bind(statement: Option<&mut FirnStatement>, marker: usize, value: Value) -> Outcome {
    let statement = handle(statement)?;
    let markers = statement.values.len();
    let place = statement.values.get_mut(marker);
    *place.ok_or_else(|| no_marker(marker, markers))? = value;
    Ok(FirnCode::Ok)
}

/// Binds null to a marker; the first one is 0. Bound values stay bound for later runs.
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_bind_null(
    statement: Option<&mut FirnStatement>,
    marker: usize,
) -> FirnCode {
    call(|| bind(statement, marker, Value::Null))
}

/// Binds a boolean.
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_bind_bool(
    statement: Option<&mut FirnStatement>,
    marker: usize,
    value: bool,
) -> FirnCode {
    call(|| bind(statement, marker, Value::Boolean(value)))
}

/// Binds an integer: to tinyint, smallint, int, bigint, varint, counter, timestamp (milliseconds
/// since 1970) or time (nanoseconds).
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_bind_int(
    statement: Option<&mut FirnStatement>,
    marker: usize,
    value: i64,
) -> FirnCode {
    call(|| bind(statement, marker, Value::BigInt(value)))
}

/// Binds a number to float or double.
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_bind_double(
    statement: Option<&mut FirnStatement>,
    marker: usize,
    value: f64,
) -> FirnCode {
    call(|| bind(statement, marker, Value::Double(value)))
}

/// Binds a text; also to types with a text form: uuid, inet, timestamp, date, time, duration,
/// decimal, varint.
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_bind_text(
    statement: Option<&mut FirnStatement>,
    marker: usize,
    value: FirnSlice,
) -> FirnCode {
    call(|| bind(statement, marker, Value::Text(value.text()?.to_owned())))
}

/// Binds bytes to blob.
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_bind_blob(
    statement: Option<&mut FirnStatement>,
    marker: usize,
    value: FirnSlice,
) -> FirnCode {
    call(|| bind(statement, marker, Value::Blob(value.bytes()?.to_vec())))
}

/// Binds the 16 bytes of a uuid.
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_bind_uuid(
    statement: Option<&mut FirnStatement>,
    marker: usize,
    value: FirnSlice,
) -> FirnCode {
    call(|| {
        let uuid = Uuid::from_slice(value.bytes()?)
            .map_err(|_| Failure::argument("a uuid has 16 bytes"))?;
        bind(statement, marker, Value::Uuid(uuid))
    })
}

/// Binds a value of any type, including collections, in the form of `INSERT … JSON`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_bind_json(
    statement: Option<&mut FirnStatement>,
    marker: usize,
    value: FirnSlice,
) -> FirnCode {
    call(|| {
        let statement = handle(statement)?;
        let raw: Box<RawValue> = serde_json::from_str(value.text()?)
            .map_err(|e| Failure::argument(format!("no JSON: {e}")))?;
        let value = match statement.prepared.markers().get(marker) {
            Some(spec) => Value::decode(
                &spec.column_type.value_type,
                from_json(&spec.column_type.value_type, &raw)?.bytes(),
            )?,
            None => Value::Null,
        };
        bind(Some(statement), marker, value)
    })
}

/// Runs a statement with its bound values. Markers without a value leave the column unchanged.
/// `page_size` is the number of rows fetched at once; 0: 1000.
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_query(
    statement: Option<&FirnStatement>,
    page_size: usize,
    out: Option<&mut MaybeUninit<Box<FirnRows>>>,
) -> FirnCode {
    result(out, || {
        let FirnStatement { session, prepared, values } = handle(statement)?;
        let how =
            RunOptions { page_size: (page_size > 0).then_some(page_size), ..RunOptions::default() };
        Ok(Box::new(FirnRows::new(session.query_prepared(prepared, values, &how)?)))
    })
}

/// Runs a statement with its bound values, and discards its rows.
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_execute(statement: Option<&FirnStatement>) -> FirnCode {
    done(|| {
        let FirnStatement { session, prepared, values } = handle(statement)?;
        session.query_prepared(prepared, values, &RunOptions::default())?;
        Ok(())
    })
}

/// Frees a result.
#[unsafe(no_mangle)]
pub extern "C" fn firn_rows_free(rows: Option<Box<FirnRows>>) {
    free(rows);
}

/// Advances to the next row, initially to the first one; `FIRN_CODE_NONE` after the last one.
#[unsafe(no_mangle)]
pub extern "C" fn firn_rows_next(rows: Option<&mut FirnRows>) -> FirnCode {
    call(|| {
        let rows = handle(rows)?;
        rows.row = None;
        rows.row = rows.rows.next_row()?;
        Ok(done_if(rows.row.is_some()))
    })
}

fn spec(columns: &[ColumnSpec], column: usize) -> Outcome<&ColumnSpec> {
    columns.get(column).ok_or_else(|| Failure::argument(format!("there is no column {column}")))
}

/// Returns the number of columns; 0 for NULL, and for a result without rows.
#[unsafe(no_mangle)]
pub extern "C" fn firn_rows_columns(rows: Option<&FirnRows>) -> usize {
    rows.map_or(0, |r| r.rows.page().columns().len())
}

/// Returns the name of a column; valid until the next row.
#[unsafe(no_mangle)]
pub extern "C" fn firn_rows_column_name(
    rows: Option<&FirnRows>,
    column: usize,
    out: Option<&mut MaybeUninit<FirnSlice>>,
) -> FirnCode {
    result(out, || {
        let spec = spec(handle(rows)?.rows.page().columns(), column)?;
        Ok(FirnSlice::lend(spec.name.as_bytes()))
    })
}

/// Returns the CQL type of a column.
#[unsafe(no_mangle)]
pub extern "C" fn firn_rows_column_type(
    rows: Option<&FirnRows>,
    column: usize,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    result(out, || {
        let spec = spec(handle(rows)?.rows.page().columns(), column)?;
        Ok(spec.column_type.to_string().into())
    })
}

fn row(rows: Option<&FirnRows>) -> Outcome<&OwnedRow> {
    let row = handle(rows)?.row.as_ref();
    row.ok_or_else(|| Failure::argument("the result is at no row; firn_rows_next goes on to one"))
}

fn value<T: FromValue>(rows: Option<&FirnRows>, column: usize) -> Outcome<Option<T>> {
    Ok(row(rows)?.row().at::<Option<T>>(column)?)
}

/// Returns a boolean of the row; `FIRN_CODE_NONE` for null.
#[unsafe(no_mangle)]
pub extern "C" fn firn_rows_bool(
    rows: Option<&FirnRows>,
    column: usize,
    out: Option<&mut MaybeUninit<bool>>,
) -> FirnCode {
    optional_result(out, || value(rows, column))
}

/// Returns an integer of the row, also a counter, a timestamp or a time; `FIRN_CODE_NONE` for null.
#[unsafe(no_mangle)]
pub extern "C" fn firn_rows_int(
    rows: Option<&FirnRows>,
    column: usize,
    out: Option<&mut MaybeUninit<i64>>,
) -> FirnCode {
    optional_result(out, || value(rows, column))
}

/// Returns a float or double of the row; `FIRN_CODE_NONE` for null.
#[unsafe(no_mangle)]
pub extern "C" fn firn_rows_double(
    rows: Option<&FirnRows>,
    column: usize,
    out: Option<&mut MaybeUninit<f64>>,
) -> FirnCode {
    optional_result(out, || value(rows, column))
}

/// Returns a value of the row as stored, for any type: the bytes of a text or a blob, the 16 bytes
/// of a uuid. Valid until the next row; `FIRN_CODE_NONE` for null.
#[unsafe(no_mangle)]
pub extern "C" fn firn_rows_bytes(
    rows: Option<&FirnRows>,
    column: usize,
    out: Option<&mut MaybeUninit<FirnSlice>>,
) -> FirnCode {
    optional_result(out, || {
        let row = row(rows)?.row();
        spec(row.columns(), column)?;
        Ok(row.bytes(column).map(FirnSlice::lend))
    })
}

/// Returns a value of the row as JSON, for any type; null is `null`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_rows_json(
    rows: Option<&FirnRows>,
    column: usize,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    result(out, || {
        let row = row(rows)?.row();
        let spec = spec(row.columns(), column)?;
        Ok(FirnOwner::Bytes(json(&spec.column_type.value_type, row.bytes(column)).into_bytes())
            .into())
    })
}
