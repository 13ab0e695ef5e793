//! Imports into tables of CQL.
//!
//! The position of an import is a row of [`KEYSPACE`], in the same batch as the rows of the chunk.
//! For a table of counters it is a counter, because a batch of counters has nothing else.

use std::ops::Range;

use firn_cql::internals::catalog::{TableColumn, TableSchema};
use firn_cql::{
    BatchKind, BoundValue, Error, ErrorClass, Prepared, RunOptions, Session, quote_if_needed,
};
use firn_kv::Durability;
use firn_tools::output::{Done, Failure};
use firn_wide::Type;

use super::position::other_source;
use super::{CommittedChunk, RefusedRow, RowRefusal, RowTarget};
use crate::convert::{convert, type_name};
use crate::source::{RowPlace, SourceCell, SourceColumn};
use crate::text::{from_field, is_same_name};

/// Keyspace of the positions of unfinished imports.
pub const KEYSPACE: &str = "firn_import";
/// Statements that define it.
const DEFINITIONS: [&str; 3] = [
    "CREATE KEYSPACE IF NOT EXISTS firn_import WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE IF NOT EXISTS firn_import.positions (target text PRIMARY KEY, source text, rows bigint)",
    "CREATE TABLE IF NOT EXISTS firn_import.counted (target text PRIMARY KEY, rows counter)",
];

/// Returns an error of CQL as a failure of the command.
pub fn cql_failure(e: &Error) -> Failure {
    Failure::Failed { what: e.text().into_owned(), next: e.help().map(str::to_owned) }
}

/// A table to create.
#[derive(Clone, Debug)]
pub struct NewTable {
    /// Names of the columns of the partition key.
    pub partition: Vec<String>,
    /// Names of the clustering columns.
    pub clustering: Vec<String>,
    /// Types of columns in CQL, instead of the source's.
    pub types: Vec<(String, String)>,
}

impl NewTable {
    /// Parses the key: `id`, `day,hour`, `(a,b),c`; the first column or group is the partition key.
    ///
    /// # Errors
    /// The reason if it is no list of names.
    pub fn parse_key(text: &str) -> Result<NewTable, String> {
        let names = |text: &str| -> Vec<String> {
            text.split(',').map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()).collect()
        };
        let (partition, clustering) = match text.trim().strip_prefix('(') {
            Some(rest) => {
                let (group, rest) = rest.split_once(')').ok_or("a ')' is missing")?;
                (names(group), names(rest))
            }
            None => {
                let mut all = names(text);
                let rest = all.split_off(all.len().min(1));
                (all, rest)
            }
        };
        match partition.is_empty() {
            true => Err("the key has no column".to_owned()),
            false => Ok(NewTable { partition, clustering, types: vec![] }),
        }
    }

    /// Returns the statements that define the table, its user types and its keyspace.
    ///
    /// # Errors
    /// A key or a type is of an unknown column.
    pub fn statements(
        &self,
        keyspace: &str,
        table: &str,
        columns: &[SourceColumn],
    ) -> Done<Vec<String>> {
        let named = self.types.iter().map(|(name, _)| name);
        let mut all_named = self.partition.iter().chain(&self.clustering).chain(named);
        if let Some(unknown) = all_named.find(|n| columns.iter().all(|c| c.name != **n)) {
            let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
            let what = format!("the source has no column {unknown:?}");
            return Err(Failure::with_next(what, format!("it has {}", names.join(", "))));
        }
        let quoted_keyspace = quote_if_needed(keyspace);
        let mut statements = vec![format!(
            "CREATE KEYSPACE IF NOT EXISTS {quoted_keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        )];
        let mut definitions = vec![];
        for column in columns {
            let own = self.types.iter().find(|(name, _)| *name == column.name);
            let of = match (own, &column.value_type) {
                (Some((_, of)), _) => of.clone(),
                (None, None) => "text".to_owned(),
                (None, Some(of)) => {
                    user_types(of, &quoted_keyspace, &mut statements);
                    type_name(of)
                }
            };
            definitions.push(format!("{} {of}", quote_if_needed(&column.name)));
        }
        let list = |names: &[String]| {
            names.iter().map(|n| quote_if_needed(n).into_owned()).collect::<Vec<_>>().join(", ")
        };
        let mut key = format!("({})", list(&self.partition));
        if !self.clustering.is_empty() {
            key = format!("{key}, {}", list(&self.clustering));
        }
        statements.push(format!(
            "CREATE TABLE IF NOT EXISTS {quoted_keyspace}.{} ({}, PRIMARY KEY ({key}))",
            quote_if_needed(table),
            definitions.join(", ")
        ));
        Ok(statements)
    }
}

/// Adds the definitions of the user types of a type, inner ones first.
fn user_types(of: &Type, keyspace: &str, statements: &mut Vec<String>) {
    let mut inner = |of: &Type| user_types(of, keyspace, statements);
    match of.unreversed() {
        Type::List(e) | Type::Set(e) | Type::Vector(e, _) => inner(e),
        Type::Map(kv) => {
            inner(&kv.0);
            inner(&kv.1);
        }
        Type::Tuple(types) => types.iter().for_each(inner),
        Type::Udt(user) => {
            user.fields.iter().for_each(|f| inner(&f.1));
            let fields = user.fields.iter();
            let fields = fields.map(|(n, of)| format!("{} {}", quote_if_needed(n), type_name(of)));
            statements.push(format!(
                "CREATE TYPE IF NOT EXISTS {keyspace}.{} ({})",
                quote_if_needed(&user.name),
                fields.collect::<Vec<_>>().join(", ")
            ));
        }
        _ => {}
    }
}

/// A column of the source and of the table.
struct MappedColumn {
    source: usize,
    name: String,
    from: Option<Type>,
    to: Type,
    is_key: bool,
}

/// A row of the current chunk.
struct PendingRow {
    place: RowPlace,
    read: u64,
    values: Vec<BoundValue>,
}

/// Statements of an import.
struct TableWriter {
    session: Session,
    insert: Prepared,
    position: Prepared,
    kind: BatchKind,
}

/// A table of CQL.
pub struct TableTarget {
    /// `None`: rows are only checked.
    writer: Option<TableWriter>,
    columns: Vec<MappedColumn>,
    name: String,
    source: String,
    lossy: bool,
    skips_bad: bool,
    durability: Durability,
    is_counter: bool,
    rows: Vec<PendingRow>,
    bytes: usize,
    /// Position that the store has.
    written: u64,
}

/// Settings of an import into a table.
pub struct TableSettings<'a> {
    /// Columns of the source; `None` for one that is not imported.
    pub columns: &'a [Option<SourceColumn>],
    /// Name of the source in the stored position.
    pub source: &'a str,
    /// Whether a near value may stand for one that the column's type lacks.
    pub lossy: bool,
    /// Whether rows that the store refuses are left out.
    pub skips_bad: bool,
    /// Durability of a chunk.
    pub durability: Durability,
}

impl TableTarget {
    /// Prepares imports into a table. Without a session, rows are only checked.
    ///
    /// # Errors
    /// A column of the source is not in the table, or a column of the key is not in the source;
    /// errors of the store.
    pub fn new(
        session: Option<&Session>,
        schema: &TableSchema,
        settings: &TableSettings<'_>,
    ) -> Done<TableTarget> {
        let name = full_name(schema);
        let mut columns = mapped(schema, settings.columns)?;
        let is_counter = schema.is_counter();
        // An UPDATE has the counters before the key.
        columns.sort_by_key(|c| is_counter && c.is_key);
        let statement = row_statement(&name, &columns, is_counter);
        let writer = match session {
            None => None,
            Some(session) => {
                let run = |cql: &str| session.execute(cql, ()).map_err(|e| cql_failure(&e));
                DEFINITIONS.iter().try_for_each(|cql| run(cql).map(drop))?;
                let position = match is_counter {
                    true => "UPDATE firn_import.counted SET rows = rows + ? WHERE target = ?",
                    false => {
                        "INSERT INTO firn_import.positions (rows, target, source) VALUES (?, ?, ?)"
                    }
                };
                let prepare = |cql: &str| session.prepare(cql).map_err(|e| cql_failure(&e));
                Some(TableWriter {
                    session: session.clone(),
                    insert: prepare(&statement)?,
                    position: prepare(position)?,
                    kind: if is_counter { BatchKind::Counter } else { BatchKind::Unlogged },
                })
            }
        };
        Ok(TableTarget {
            writer,
            columns,
            name,
            source: settings.source.to_owned(),
            lossy: settings.lossy,
            skips_bad: settings.skips_bad,
            durability: settings.durability,
            is_counter,
            rows: vec![],
            bytes: 0,
            written: 0,
        })
    }

    /// Returns the value of a column.
    fn value(&self, column: &MappedColumn, cell: SourceCell) -> Result<BoundValue, String> {
        let to = &column.to;
        let bytes = match cell {
            SourceCell::Null if column.is_key => return Err("a column of the key is null".into()),
            SourceCell::Null => return Ok(BoundValue::Unset),
            SourceCell::Value(bytes) => {
                convert(column.from.as_ref().unwrap_or(&Type::Utf8), to, bytes, self.lossy)?
            }
            SourceCell::Typed(from, bytes) => convert(&from, to, bytes, self.lossy)?,
            SourceCell::Text(text) => from_field(to, &text, false)?,
            SourceCell::Json(text) => from_field(to, &text, true)?,
        };
        to.validate(&bytes).map_err(|e| e.0)?;
        Ok(BoundValue::Bytes(bytes))
    }

    /// Writes pending rows, and the position after them.
    fn write(&self, rows: Range<usize>, read: u64) -> Result<(), Error> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let rows = self.rows[rows].iter();
        let mut members: Vec<(&Prepared, Vec<BoundValue>)> =
            rows.map(|row| (&writer.insert, row.values.clone())).collect();
        let text = |text: &str| BoundValue::Bytes(text.as_bytes().to_vec());
        let number = |n: u64| BoundValue::Bytes(n.to_be_bytes().to_vec());
        members.push((
            &writer.position,
            match self.is_counter {
                true => vec![number(read.saturating_sub(self.written)), text(&self.name)],
                false => vec![number(read), text(&self.name), text(&self.source)],
            },
        ));
        writer.session.batch(writer.kind, &members, &RunOptions::default()).map(drop)
    }

    /// Writes the rows of the chunk one by one.
    fn commit_each(&mut self, read: u64) -> Done<CommittedChunk> {
        let mut done = CommittedChunk::default();
        for i in 0..self.rows.len() {
            let (place, read) = (self.rows[i].place, self.rows[i].read);
            match self.write(i..i + 1, read) {
                Ok(()) => {
                    self.written = read;
                    done.rows += 1;
                }
                Err(e) if is_refusal(&e) => {
                    done.refused.push(RefusedRow { place, why: e.text().into_owned() });
                    if !self.skips_bad {
                        done.read = read - 1;
                        return Ok(done);
                    }
                }
                Err(e) => return Err(cql_failure(&e)),
            }
        }
        self.write(0..0, read).map_err(|e| cql_failure(&e))?;
        self.written = read;
        done.read = read;
        Ok(done)
    }

    fn execute(&self, cql: &str) -> Done<Option<firn_cql::Rows>> {
        let Some(writer) = &self.writer else { return Ok(None) };
        let rows = writer.session.execute(cql, ());
        rows.map(Some).map_err(|e| cql_failure(&e))
    }

    /// Drops the keyspace of positions if no import is unfinished.
    fn drop_unused(&self) -> Done {
        let others = self.execute(&format!("SELECT target FROM {KEYSPACE}.positions LIMIT 1"))?;
        if others.is_some_and(|rows| rows.is_empty()) {
            self.execute(&format!("DROP KEYSPACE {KEYSPACE}"))?;
        }
        Ok(())
    }

    /// Returns the name of this target as a literal.
    fn literal(&self) -> String {
        format!("'{}'", self.name.replace('\'', "''"))
    }
}

/// Returns the name of a table in CQL.
fn full_name(schema: &TableSchema) -> String {
    format!("{}.{}", quote_if_needed(&schema.keyspace), quote_if_needed(&schema.name))
}

/// Pairs the columns of the source with those of the table.
fn mapped(schema: &TableSchema, columns: &[Option<SourceColumn>]) -> Done<Vec<MappedColumn>> {
    let all = || schema.columns().iter();
    let names = || all().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut found: Vec<MappedColumn> = vec![];
    for (source, column) in columns.iter().enumerate() {
        let Some(column) = column else { continue };
        let same = all().find(|c| c.name == column.name);
        let same = same.or_else(|| all().find(|c| is_same_name(&c.name, column.name.as_bytes())));
        let Some(target) = same else {
            return Err(Failure::with_next(
                format!("{} has no column {:?} of the source", full_name(schema), column.name),
                format!("choose columns with --columns; the table has {}", names()),
            ));
        };
        if found.iter().any(|m| m.name == target.name) {
            return Err(Failure::with_next(
                format!("two columns of the source are the column {}", target.name),
                "choose columns with --columns",
            ));
        }
        found.push(MappedColumn {
            source,
            name: target.name.clone(),
            from: column.value_type.clone(),
            to: target.of.value_type.unreversed().clone(),
            is_key: target.is_primary_key(),
        });
    }
    let is_missing =
        |c: &&TableColumn| c.is_primary_key() && found.iter().all(|m| m.name != c.name);
    if let Some(missing) = all().find(is_missing) {
        let names: Vec<&str> = columns.iter().flatten().map(|c| c.name.as_str()).collect();
        return Err(Failure::with_next(
            format!("the source has no column {:?}, which belongs to the key", missing.name),
            format!("it has {}", names.join(", ")),
        ));
    }
    Ok(found)
}

/// Returns the statement that writes a row.
fn row_statement(table: &str, columns: &[MappedColumn], is_counter: bool) -> String {
    let name = |c: &MappedColumn| quote_if_needed(&c.name).into_owned();
    if is_counter {
        let (keys, counters): (Vec<_>, Vec<_>) = columns.iter().partition(|c| c.is_key);
        let added: Vec<_> = counters.iter().map(|c| format!("{0} = {0} + ?", name(c))).collect();
        let keys: Vec<_> = keys.iter().map(|c| format!("{} = ?", name(c))).collect();
        return format!("UPDATE {table} SET {} WHERE {}", added.join(", "), keys.join(" AND "));
    }
    let names: Vec<_> = columns.iter().map(name).collect();
    let markers = vec!["?"; names.len()].join(", ");
    format!("INSERT INTO {table} ({}) VALUES ({markers})", names.join(", "))
}

/// Reports whether an error concerns the statement rather than the store.
fn is_refusal(e: &Error) -> bool {
    matches!(e.class(), ErrorClass::Invalid)
}

impl RowTarget for TableTarget {
    fn resume(&mut self) -> Done<Option<u64>> {
        let target = self.literal();
        let found = self.execute(&format!(
            "SELECT source, rows FROM {KEYSPACE}.positions WHERE target = {target}"
        ))?;
        let Some(row) = found.as_ref().and_then(|rows| rows.iter().next()) else {
            return self.drop_unused().map(|()| None);
        };
        let failed = |e| cql_failure(&e);
        let source: String = row.at(0).map_err(failed)?;
        let mut rows: i64 = row.at(1).map_err(failed)?;
        if source != self.source {
            return Err(other_source(&source, &self.source));
        }
        if self.is_counter {
            let counted = self
                .execute(&format!("SELECT rows FROM {KEYSPACE}.counted WHERE target = {target}"))?;
            let counted = counted.as_ref().and_then(|rows| rows.iter().next());
            rows = counted.map_or(Ok(0), |row| row.at(0)).map_err(failed)?;
        }
        self.written = u64::try_from(rows).unwrap_or(0);
        Ok(Some(self.written))
    }

    fn begin(&mut self) -> Done {
        let target = self.literal();
        if self.is_counter {
            let found = self.execute(&format!(
                "SELECT source FROM {KEYSPACE}.positions WHERE target = {target}"
            ))?;
            if found.is_some_and(|rows| !rows.is_empty()) {
                return Err(Failure::with_next(
                    format!(
                        "an import into {} was interrupted, and has added to counters",
                        self.name
                    ),
                    "continue it with --resume; or TRUNCATE the table and delete the row of firn_import.positions",
                ));
            }
            self.execute(&format!("DELETE FROM {KEYSPACE}.counted WHERE target = {target}"))?;
        }
        let source = self.source.replace('\'', "''");
        let put = format!(
            "INSERT INTO {KEYSPACE}.positions (target, source, rows) VALUES ({target}, '{source}', 0)"
        );
        self.execute(&put).map(drop)
    }

    fn add(
        &mut self,
        place: RowPlace,
        read: u64,
        cells: &mut [SourceCell],
    ) -> Result<(), RowRefusal> {
        let mut values = Vec::with_capacity(self.columns.len());
        let mut bytes = 0;
        for column in &self.columns {
            let value = self.value(column, std::mem::take(&mut cells[column.source]));
            let value =
                value.map_err(|why| RowRefusal::Row(format!("column {}: {why}", column.name)))?;
            bytes += value.bytes().map_or(0, <[u8]>::len) + size_of::<BoundValue>();
            values.push(value);
        }
        self.bytes += bytes;
        self.rows.push(PendingRow { place, read, values });
        Ok(())
    }

    fn pending(&self) -> (usize, usize) {
        (self.rows.len(), self.bytes)
    }

    fn commit(&mut self, read: u64) -> Done<CommittedChunk> {
        let mut done = CommittedChunk { rows: self.rows.len() as u64, read, refused: vec![] };
        match self.write(0..self.rows.len(), read) {
            Ok(()) => self.written = read,
            // The batch had no effect: one of its rows is invalid.
            Err(e) if is_refusal(&e) && !self.rows.is_empty() => {
                done = self.commit_each(read)?;
            }
            Err(e) => return Err(cql_failure(&e)),
        }
        self.rows.clear();
        self.bytes = 0;
        if let (Some(writer), Durability::Power) = (&self.writer, self.durability) {
            writer.session.engine().store().db().sync()?;
        }
        Ok(done)
    }

    fn finish(&mut self) -> Done {
        let target = self.literal();
        // Without its row of `positions`, a counter that a kill leaves is removed by `begin`.
        for table in ["positions", "counted"] {
            self.execute(&format!("DELETE FROM {KEYSPACE}.{table} WHERE target = {target}"))?;
        }
        self.drop_unused()?;
        match &self.writer {
            Some(writer) => Ok(writer.session.engine().store().db().sync()?),
            None => Ok(()),
        }
    }
}
