//! Thrift calls with CQL 3 statements.

use std::sync::Arc;

use firn_cql::{BoundValue, ResultKind, Row, Rows, RunOptions};

use super::fault::invalid;
use super::fields::{Result, ThriftFields};
use super::session::ThriftSession;
use super::writer::{Elements, FIELD_BYTES, Pairs, WriteField, structure};

/// Largest text of a compressed statement, after decompression.
const MAX_TEXT: usize = 1 << 20;
/// Maximum prepared statements of one connection.
const MAX_PREPARED: usize = 1024;
/// Half of the bytes that a cell takes in addition to its name and value.
const CELL: usize = 3 * FIELD_BYTES / 2 + 32;

impl ThriftSession {
    fn statement(&self, f: &ThriftFields<'_>) -> Result<String> {
        let query: &[u8] = f.read(1, "query")?;
        // 1 is called GZIP, but the format is zlib.
        let query = match f.read(2, "compression")? {
            Some(1) => miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(query, MAX_TEXT)
                .map_err(|_| invalid("Error deflating query string."))?,
            _ => query.to_vec(),
        };
        String::from_utf8(query).map_err(|_| invalid("Cannot decode query string as UTF8"))
    }

    /// Executes a call with a CQL statement.
    pub(super) fn cql(
        &mut self,
        method: &str,
        f: &ThriftFields<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let how = RunOptions {
            keyspace: self.keyspace.as_ref().map(|(name, _)| name.as_str().into()),
            batch_limits: Some(self.batch_limits),
            tombstone_limits: Some(self.tombstone_limits),
            max_result_bytes: Some(self.max_result),
            result_budget: Some(self.results.clone()),
            ..RunOptions::default()
        };
        match method {
            "prepare_cql3_query" => {
                let statement = self.statement(f)?;
                let prepared = self.session.prepare_in(how.keyspace.as_ref(), &statement)?;
                if self.prepared.len() >= MAX_PREPARED {
                    self.prepared.pop_first();
                }
                let id = self.next;
                self.next = self.next.wrapping_add(1);
                let markers = prepared.markers();
                let count = i32::try_from(markers.len()).unwrap_or(i32::MAX);
                let known = self.statements.put(prepared.clone(), Arc::default())?;
                self.prepared.insert(id, known.prepared.id());
                let result = structure(|w| {
                    let types = markers.iter().map(|m| m.column_type.value_type.full_name());
                    w.field(1, &id);
                    w.field(2, &count);
                    w.field(3, &types.collect::<Vec<_>>());
                    w.field(4, &Elements(|| markers.iter().map(|m| &m.name)));
                });
                self.reply(out, &result)
            }
            "execute_prepared_cql3_query" => {
                let id = f.read_or(1, "itemId", 0)?;
                let known = self.prepared.get(&id).and_then(|id| self.statements.get(id));
                let unknown = || invalid(format!("Prepared query with ID {id} not found"));
                let values: Vec<Vec<u8>> = f.read_or(2, "values", vec![])?;
                let bound: Vec<BoundValue> = values.into_iter().map(BoundValue::Bytes).collect();
                let known = known.ok_or_else(unknown)?;
                let rows = self.session.run(&known.prepared, bound, &how)?;
                self.result(&rows, out)
            }
            _ => {
                let statement = self.statement(f)?;
                let prepared = self.session.compile_once(how.keyspace.as_ref(), &statement)?;
                let rows = self.session.run(&prepared, (), &how)?;
                self.result(&rows, out)
            }
        }
    }

    /// Writes a result. `USE` also sets the keyspace of later Thrift calls.
    fn result(&mut self, rows: &Rows, out: &mut Vec<u8>) -> Result<()> {
        if let Some((kind, partitions)) = rows.batch() {
            self.meter.batch(kind, partitions);
        }
        if let ResultKind::SetKeyspace(name) = rows.kind() {
            self.keyspace = Some((name.clone(), self.wide().keyspace(name).ok()));
        }
        if *rows.kind() != ResultKind::Rows {
            return self.reply(out, &structure(|w| w.field(1, &2_i32)));
        }
        let columns = rows.columns();
        // A cell repeats its column's name, and exists as row, as value, and as sent bytes.
        let names: usize = columns.iter().map(|c| c.name.len() + CELL).sum();
        let values =
            rows.iter().flat_map(|row| (0..columns.len()).filter_map(move |i| row.bytes(i)));
        let bytes = 3 * values.map(<[u8]>::len).sum::<usize>() + 2 * names * rows.len();
        self.share = rows.share().cloned();
        self.take_room(bytes)?;
        let of = |kind: &dyn Fn(usize) -> String| {
            Pairs((0..columns.len()).map(|i| (columns[i].name.as_str(), kind(i))).collect())
        };
        let names = of(&|_| "UTF8Type".to_owned());
        let types = of(&|i| columns[i].column_type.value_type.full_name());
        let schema = structure(|w| {
            w.field(1, &names);
            w.field(2, &types);
            w.field(3, "UTF8Type");
            w.field(4, "UTF8Type");
        });
        let result = structure(|w| {
            w.field(1, &1_i32);
            w.field(2, &Elements(|| rows.iter().map(row_of)));
            w.field(4, &schema);
        });
        self.reply(out, &result)
    }
}

/// Returns the structure of a row: `CqlRow`.
fn row_of(row: Row<'_>) -> impl WriteField {
    structure(move |w| {
        let cells = || {
            row.columns().iter().enumerate().map(|(i, column)| {
                let value = row.bytes(i);
                structure(move |w| {
                    w.field(1, &column.name);
                    w.field(2, &value);
                    w.field(3, &-1_i64);
                })
            })
        };
        w.field(1, "");
        w.field(2, &Elements(cells));
    })
}
