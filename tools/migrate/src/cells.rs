//! Reads the cells of a table by CQL, from either database: a `SELECT` of each column with write
//! times and TTLs, by token ranges and pages, split into rows of cells.
//!
//! Invariants: rows come in the order of the ring and of the table, so the readers of two databases
//! can be merged. An element of a set, list or map, and a field of a user type, is a separate cell.
//! Unavailable information is `None`, never a guess.
//!
//! CQL returns no deletions, no row markers and no names of list elements. Cassandra before 5.0
//! also has no write times of parts of columns; then the statement omits them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use firn_cluster::{Prepared, Session};
use firn_cql::internals::catalog::{PartitionKey, TableColumn, TableSchema};
use firn_cql::internals::values::{literal, split};
use firn_cql::{
    BoundValue, Error, ErrorClass, PagingState, Result, Row, Rows, RunOptions, quote_if_needed,
};
use firn_kv::Env;
use firn_wide::internals::key::{Layout, STATIC};
use firn_wide::{Partitioner, Type};

use crate::token_ranges::TokenSpan;

/// Page size in rows; it shrinks if the response times out.
const PAGE: usize = 1000;
/// Maximum number of attempts for a page.
const TRIES: u32 = 8;
/// Pause before the second attempt; it doubles for each further one.
const PAUSE: Duration = Duration::from_millis(100);

/// A cell as CQL returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedCell {
    /// Index of its column in [`TableSchema::columns`].
    pub column: usize,
    /// The part of the column: map key, set element, field number (2 bytes) or list index (4
    /// bytes). `None`: the column is one cell.
    pub path: Option<Vec<u8>>,
    /// Its value; empty for a set element.
    pub value: Vec<u8>,
    /// Write time in microseconds since 1970. `None`: the server does not return it.
    pub written: Option<i64>,
    /// Expiration in seconds since 1970, by this machine's clock. `None`: never, or the server does
    /// not return it.
    pub expires: Option<i64>,
}

/// A row, or the static cells of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CqlRow {
    /// Partition key.
    pub key: Vec<u8>,
    /// The partition's part of the store's keys, which orders partitions.
    pub order: Vec<u8>,
    /// The row's part of the store's keys, which orders rows; static cells come first.
    pub place: Vec<u8>,
    /// Clustering values; `None` for static cells.
    pub clustering: Option<Vec<Vec<u8>>>,
    /// Cells in the order of columns and of their parts.
    pub cells: Vec<ReportedCell>,
}

/// The statement that reads a table's cells from one database.
#[derive(Debug)]
pub struct CellQuery {
    session: Session,
    schema: Arc<TableSchema>,
    layout: Layout,
    /// For spans without bounds, with a start, with an end, with both.
    prepared: [Prepared; 4],
    /// For each non-key column: the positions of its value and times in a result row.
    selected: Vec<SelectedColumn>,
    selects_parts: bool,
}

#[derive(Clone, Copy, Debug)]
struct SelectedColumn {
    /// Its index in the table.
    column: usize,
    at: usize,
    /// Position of its write time.
    written: Option<usize>,
    /// Position of its TTL.
    ttl: Option<usize>,
}

/// Reports whether a column consists of several cells.
fn is_many(column: &TableColumn) -> bool {
    column.of.multicell
}

impl CellQuery {
    /// Prepares reading a table with Firn's schema from a database. `condition` restricts it, as
    /// after `WHERE`.
    ///
    /// # Errors
    /// Errors of the statement: an unknown table or column, an invalid condition.
    pub fn new(
        session: &Session,
        partitioner: Partitioner,
        schema: &Arc<TableSchema>,
        condition: Option<&str>,
    ) -> Result<CellQuery> {
        let query = CellQuery::with_parts(session, partitioner, schema, condition, true);
        let has_parts = schema.columns().iter().any(is_many);
        match query {
            // Cassandra before 5.0, and ScyllaDB.
            Err(e)
                if has_parts && matches!(e.class(), ErrorClass::Invalid | ErrorClass::Syntax) =>
            {
                let without = CellQuery::with_parts(session, partitioner, schema, condition, false);
                without.map_err(|_| e)
            }
            other => other,
        }
    }

    fn with_parts(
        session: &Session,
        partitioner: Partitioner,
        schema: &Arc<TableSchema>,
        condition: Option<&str>,
        selects_parts: bool,
    ) -> Result<CellQuery> {
        let name = |c: &TableColumn| quote_if_needed(&c.name).into_owned();
        let keys: Vec<String> = schema.partition().iter().map(name).collect();
        let mut terms: Vec<String> = keys.clone();
        terms.extend(schema.clustering().iter().map(name));
        let mut selected = vec![];
        for (number, column) in schema.columns().iter().enumerate().skip(terms.len()) {
            let is_selected = selects_parts || !is_many(column);
            let at = terms.len();
            terms.push(name(column));
            let mut ask = |what: &str, is_selected: bool| {
                is_selected.then(|| {
                    terms.push(format!("{what}({})", name(column)));
                    terms.len() - 1
                })
            };
            let written = ask("writetime", is_selected);
            // A counter has no TTL.
            let ttl = ask("ttl", is_selected && !column.is_counter());
            selected.push(SelectedColumn { column: number, at, written, ttl });
        }
        let token = format!("token({})", keys.join(", "));
        let from = format!(
            "SELECT {} FROM {}.{}",
            terms.join(", "),
            quote_if_needed(&schema.keyspace),
            quote_if_needed(&schema.name)
        );
        let prepare = |after: bool, until: bool| {
            let mut conditions = vec![];
            if after {
                conditions.push(format!("{token} > ?"));
            }
            if until {
                conditions.push(format!("{token} <= ?"));
            }
            conditions.extend(condition.map(str::to_owned));
            let filtering = if condition.is_some() { " ALLOW FILTERING" } else { "" };
            session.prepare(&match conditions.is_empty() {
                true => from.clone(),
                false => format!("{from} WHERE {}{filtering}", conditions.join(" AND ")),
            })
        };
        Ok(CellQuery {
            session: session.clone(),
            schema: schema.clone(),
            layout: schema.layout(partitioner),
            prepared: [
                prepare(false, false)?,
                prepare(true, false)?,
                prepare(false, true)?,
                prepare(true, true)?,
            ],
            selected,
            selects_parts,
        })
    }

    /// Returns the table.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Reports whether the database returns times of parts of columns, for tables that have such
    /// columns.
    pub fn selects_parts(&self) -> bool {
        self.selects_parts
    }

    /// Returns a reader for a token span.
    pub fn read<'q>(&'q self, env: &'q dyn Env, span: TokenSpan) -> CellReader<'q> {
        let token = |t: i64| BoundValue::Bytes(t.to_be_bytes().to_vec());
        let number = usize::from(span.after.is_some()) + 2 * usize::from(span.until.is_some());
        CellReader {
            query: self,
            env,
            prepared: &self.prepared[number],
            values: [span.after, span.until].into_iter().flatten().map(token).collect(),
            paging: None,
            page: PAGE,
            is_last: false,
            key: None,
            last: None,
            rows: VecDeque::new(),
        }
    }
}

/// Reader of the rows of a span.
pub struct CellReader<'q> {
    query: &'q CellQuery,
    env: &'q dyn Env,
    prepared: &'q Prepared,
    values: Vec<BoundValue>,
    paging: Option<PagingState>,
    /// Page size of the next request.
    page: usize,
    is_last: bool,
    /// Partition key of the last row: the first row of a partition has its static cells.
    key: Option<Vec<u8>>,
    /// Partition and position of the last returned row.
    last: Option<(Vec<u8>, Vec<u8>)>,
    /// Rows of the page that are not returned yet.
    rows: VecDeque<CqlRow>,
}

impl std::fmt::Debug for CellReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CellReader").field("values", &self.values).finish_non_exhaustive()
    }
}

impl CellReader<'_> {
    /// Returns the next row; `None` after the last.
    ///
    /// # Errors
    /// Repeated errors of the database; an invalid response.
    pub fn advance(&mut self) -> Result<Option<CqlRow>> {
        let row = loop {
            match self.rows.pop_front() {
                Some(row) => break row,
                None if self.is_last => return Ok(None),
                None => self.fetch()?,
            }
        };
        let here = Some((row.order.clone(), row.place.clone()));
        if self.last >= here {
            let schema = &self.query.schema;
            let table = format!("{}.{}", schema.keyspace, schema.name);
            let row = row_text(schema, &row);
            let text =
                format!("{table} comes in another order than Firn's: {row} is behind a later row");
            return Err(Error::refused(ErrorClass::Server, text));
        }
        self.last = here;
        Ok(Some(row))
    }

    fn fetch(&mut self) -> Result<()> {
        let mut tries = 0;
        let (rows, second) = loop {
            let second = (self.env.wall_micros() / 1_000_000) as i64;
            let (page_size, paging) = (Some(self.page), self.paging.clone());
            let how = RunOptions { page_size, paging, ..RunOptions::default() };
            tries += 1;
            match self.query.session.run(self.prepared, &self.values, &how) {
                Ok(rows) => break (rows, second),
                Err(e) if tries == TRIES || !is_passing(e.class()) => return Err(e),
                Err(_) => {
                    self.page = (self.page / 2).max(1);
                    self.env.sleep(PAUSE * 2u32.pow(tries - 1));
                }
            }
        };
        self.paging = rows.paging().cloned();
        self.is_last = self.paging.is_none();
        self.split_value(&rows, second)
    }

    fn split_value(&mut self, rows: &Rows, second: i64) -> Result<()> {
        let (query, schema) = (self.query, &*self.query.schema);
        let (of_key, of_clustering) = (schema.partition().len(), schema.clustering().len());
        let mut parts: Vec<&[u8]> = vec![];
        for row in rows.iter() {
            parts.clear();
            parts.extend((0..of_key).map(|i| row.bytes(i).unwrap_or_default()));
            let mut key = vec![];
            schema.put_partition_key(&parts, &mut key)?;
            let mut order = vec![];
            query.layout.put_partition(&key, &mut order)?;
            if self.key.as_ref() != Some(&key) {
                self.key = Some(key.clone());
                let cells = query.cells(&row, true, second)?;
                if !cells.is_empty() {
                    let (key, order, place) = (key.clone(), order.clone(), vec![STATIC]);
                    self.rows.push_back(CqlRow { key, order, place, clustering: None, cells });
                }
            }
            let clustering = (of_key..of_key + of_clustering).map(|i| row.bytes(i));
            let Some(clustering) = clustering.collect::<Option<Vec<&[u8]>>>() else {
                // A partition with static cells only.
                continue;
            };
            let mut place = vec![];
            query.layout.put_row(&clustering, &mut place)?;
            let cells = query.cells(&row, false, second)?;
            let clustering = Some(clustering.iter().map(|v| v.to_vec()).collect());
            self.rows.push_back(CqlRow { key, order, place, clustering, cells });
        }
        Ok(())
    }
}

/// Reports whether a retry may help.
fn is_passing(class: ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::Unavailable
            | ErrorClass::Overloaded
            | ErrorClass::IsBootstrapping
            | ErrorClass::ReadTimeout
            | ErrorClass::ReadFailure
            | ErrorClass::Unanswered
    )
}

impl CellQuery {
    /// Returns the cells of a row, or the static cells of its partition.
    fn cells(&self, row: &Row<'_>, of_static: bool, second: i64) -> Result<Vec<ReportedCell>> {
        let mut cells = vec![];
        for selected in &self.selected {
            let column = &self.schema.columns()[selected.column];
            let Some(value) = row.bytes(selected.at).filter(|_| column.is_static() == of_static)
            else {
                continue;
            };
            let bytes = |at: Option<usize>| at.and_then(|at| row.bytes(at));
            let (written, ttl) = (bytes(selected.written), bytes(selected.ttl));
            if is_many(column) {
                self.parts(selected.column, value, written, ttl, second, &mut cells)
            } else {
                cell(selected.column, None, value, written, ttl, second).map(|c| cells.push(c))
            }
            .ok_or_else(|| {
                let (keyspace, table) = (&self.schema.keyspace, &self.schema.name);
                let text = format!("the answer about {keyspace}.{table} can't be understood: its times of {} are not those of its value", column.name);
                Error::refused(ErrorClass::Server, text)
            })?;
        }
        Ok(cells)
    }

    /// Returns the cells of a value. `None` if the number of times differs from the number of
    /// parts.
    fn parts(
        &self,
        number: usize,
        value: &[u8],
        written: Option<&[u8]>,
        ttl: Option<&[u8]>,
        second: i64,
        cells: &mut Vec<ReportedCell>,
    ) -> Option<()> {
        let of = &self.schema.columns()[number].of.value_type;
        let width = if matches!(of, Type::Map(_)) { 2 } else { 1 };
        let all = split(of, value).ok()?;
        let (written, ttl) = (times(written)?, times(ttl)?);
        let parts = all.len() / width;
        if [&written, &ttl].into_iter().flatten().any(|times| times.len() != parts) {
            return None;
        }
        for (i, part) in all.chunks_exact(width).enumerate() {
            let (path, value) = match (of, part) {
                (Type::Map(_), [Some(key), Some(value)]) => (key.to_vec(), *value),
                (Type::Set(_), [Some(element)]) => (element.to_vec(), &[][..]),
                (Type::List(_), [Some(element)]) => {
                    (u32::try_from(i).ok()?.to_be_bytes().to_vec(), *element)
                }
                (Type::Udt(_), [Some(field)]) => {
                    (u16::try_from(i).ok()?.to_be_bytes().to_vec(), *field)
                }
                (Type::Udt(_), [None]) => continue,
                _ => return None,
            };
            let time = |of: &Option<Vec<_>>| of.as_ref().and_then(|times| times[i]);
            cells.push(cell(number, Some(path), value, time(&written), time(&ttl), second)?);
        }
        Some(())
    }
}

/// Returns the times of parts, if available. `None` for an invalid list.
fn times(times: Option<&[u8]>) -> Option<Option<Vec<Option<&[u8]>>>> {
    let numbers = Type::List(Arc::new(Type::Bytes));
    times.map(|times| split(&numbers, times)).transpose().ok()
}

/// Returns a cell. `None` for invalid times.
fn cell(
    column: usize,
    path: Option<Vec<u8>>,
    value: &[u8],
    written: Option<&[u8]>,
    ttl: Option<&[u8]>,
    second: i64,
) -> Option<ReportedCell> {
    let written = written.map(|w| w.try_into().map(i64::from_be_bytes)).transpose().ok()?;
    let ttl = ttl.map(|t| t.try_into().map(i32::from_be_bytes)).transpose().ok()?;
    let expires = ttl.map(|ttl| second.saturating_add(ttl.into()));
    Some(ReportedCell { column, path, value: value.to_vec(), written, expires })
}

/// Formats the key of a row in CQL.
pub fn row_text(schema: &TableSchema, row: &CqlRow) -> String {
    let mut key = PartitionKey::default();
    let is_key = key.set(schema, &row.key).is_ok();
    let of = |c: &TableColumn, value: Option<&[u8]>| {
        format!("{} = {}", quote_if_needed(&c.name), literal(&c.of.value_type, value))
    };
    let part = |c: &TableColumn| of(c, key.part(c.position).filter(|_| is_key));
    let clustering = schema.clustering().iter().zip(row.clustering.iter().flatten());
    let mut all: Vec<String> = schema.partition().iter().map(part).collect();
    all.extend(clustering.map(|(c, value)| of(c, Some(value))));
    if row.clustering.is_none() {
        all.push("static".to_owned());
    }
    all.join(", ")
}

/// Formats a cell's column, and its part of the column, in CQL.
pub fn cell_text(schema: &TableSchema, cell: &ReportedCell) -> String {
    let column = &schema.columns()[cell.column];
    let name = quote_if_needed(&column.name);
    let Some(path) = &cell.path else { return name.into_owned() };
    let number = path.iter().fold(0, |n, byte| n << 8 | usize::from(*byte));
    match &column.of.value_type {
        Type::Udt(user) => match user.fields.get(number) {
            Some((field, _)) => format!("{name}.{}", quote_if_needed(field)),
            None => format!("{name}, field {number}"),
        },
        Type::Map(kv) => format!("{name}[{}]", literal(&kv.0, Some(path))),
        Type::Set(of) => format!("{name}[{}]", literal(of, Some(path))),
        _ => format!("{name}[{number}]"),
    }
}

/// Formats a cell's value in CQL.
pub fn value_text(schema: &TableSchema, cell: &ReportedCell) -> String {
    let of = &schema.columns()[cell.column].of;
    match (&of.value_type, &cell.path) {
        (Type::Set(element), Some(path)) => literal(element, Some(path)),
        (_, path) => literal(&of.cell_type(path.as_deref()), Some(&cell.value)),
    }
}
