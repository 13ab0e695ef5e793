//! Thrift calls with CQL 3 statements.

use std::sync::Arc;

use firn_cql::{BoundValue, ResultKind, Rows, RunOptions};

use super::binary::{ThriftValue, element};
use super::fault::invalid;
use super::fields::{Result, ThriftFields};
use super::session::{Answer, ThriftSession, texts};

/// Largest text of a compressed statement, after decompression.
const MAX_TEXT: usize = 1 << 20;
/// Maximum prepared statements of one connection.
const MAX_PREPARED: usize = 1024;
/// Half of the bytes that a cell takes in addition to its name and value.
const CELL: usize = 3 * size_of::<(i16, ThriftValue<'_>)>() / 2 + 32;

impl ThriftSession {
    fn statement(&self, f: ThriftFields<'_>) -> Result<String> {
        let query: Vec<u8> = f.read(1, "query")?;
        // 1 is called GZIP, but the format is zlib.
        let query = match f.read(2, "compression")? {
            Some(1) => miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&query, MAX_TEXT)
                .map_err(|_| invalid("Error deflating query string."))?,
            _ => query,
        };
        String::from_utf8(query).map_err(|_| invalid("Cannot decode query string as UTF8"))
    }

    /// Executes a call with a CQL statement.
    pub(super) fn cql(&mut self, method: &str, f: ThriftFields<'_>) -> Answer {
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
                let count = ThriftValue::I32(i32::try_from(markers.len()).unwrap_or(i32::MAX));
                let types = texts(markers.iter().map(|m| m.column_type.value_type.full_name()));
                let names = texts(markers.iter().map(|m| m.name.clone()));
                let known = self.statements.put(prepared.clone(), Arc::default())?;
                self.prepared.insert(id, known.prepared.id());
                Ok(Some(ThriftValue::Struct(vec![
                    (1, ThriftValue::I32(id)),
                    (2, count),
                    (3, types),
                    (4, names),
                ])))
            }
            "execute_prepared_cql3_query" => {
                let id = f.read_or(1, "itemId", 0)?;
                let known = self.prepared.get(&id).and_then(|id| self.statements.get(id));
                let unknown = || invalid(format!("Prepared query with ID {id} not found"));
                let values: Vec<Vec<u8>> = f.read_or(2, "values", vec![])?;
                let bound: Vec<BoundValue> = values.into_iter().map(BoundValue::Bytes).collect();
                let known = known.ok_or_else(unknown)?;
                let rows = self.session.run(&known.prepared, bound, &how)?;
                self.result(&rows)
            }
            _ => {
                let statement = self.statement(f)?;
                let prepared = self.session.compile_once(how.keyspace.as_ref(), &statement)?;
                let rows = self.session.run(&prepared, (), &how)?;
                self.result(&rows)
            }
        }
    }

    /// Converts a result. `USE` also sets the keyspace of later Thrift calls.
    fn result(&mut self, rows: &Rows) -> Answer {
        if let Some((kind, partitions)) = rows.batch() {
            self.meter.batch(kind, partitions);
        }
        if let ResultKind::SetKeyspace(name) = rows.kind() {
            self.keyspace = Some((name.clone(), self.wide().keyspace(name).ok()));
        }
        if *rows.kind() != ResultKind::Rows {
            return Ok(Some(ThriftValue::Struct(vec![(1, ThriftValue::I32(2))])));
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
            let pair = |i: usize| {
                let name = columns[i].name.clone().into_bytes();
                (ThriftValue::bytes(name), ThriftValue::text(kind(i)))
            };
            ThriftValue::map(element::BYTES, element::BYTES, (0..columns.len()).map(pair))
        };
        let row = |row: firn_cql::Row<'_>| {
            let cell = |i: usize| {
                let mut fields =
                    vec![(1, ThriftValue::bytes(columns[i].name.clone().into_bytes()))];
                fields.extend(row.bytes(i).map(|b| (2, ThriftValue::bytes(b.to_vec()))));
                fields.push((3, ThriftValue::I64(-1)));
                ThriftValue::Struct(fields)
            };
            let cells = ThriftValue::list(element::STRUCT, (0..columns.len()).map(cell));
            ThriftValue::Struct(vec![(1, ThriftValue::bytes(vec![])), (2, cells)])
        };
        let schema = ThriftValue::Struct(vec![
            (1, of(&|_| "UTF8Type".to_owned())),
            (2, of(&|i| columns[i].column_type.value_type.full_name())),
            (3, ThriftValue::text("UTF8Type")),
            (4, ThriftValue::text("UTF8Type")),
        ]);
        let rows = ThriftValue::list(element::STRUCT, rows.iter().map(row));
        Ok(Some(ThriftValue::Struct(vec![(1, ThriftValue::I32(1)), (2, rows), (4, schema)])))
    }
}
