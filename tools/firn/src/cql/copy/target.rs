//! Writes rows into a table, in batches.

use csv::ByteRecord;
use firn_cql::{BoundValue, quote_if_needed};

use super::mode::CopyMode;
use super::parts::{BadRow, quoted};
use super::refused::{RefusalKind, RefusedRows};
use super::table::CopyTable;
use crate::cql::backend::{PageRequest, ShellBackend, ShellRefusal};

/// Error class of an invalid statement.
const REFUSED_AS_IT_IS: &str = "InvalidRequest";
/// Maximum number of bind markers of a statement.
const MARKERS: usize = 65_535;

/// Pending rows of a table, and the statements that write them.
pub struct CopyTarget<'a, B: ShellBackend> {
    backend: &'a mut B,
    /// Statement that writes a row.
    pub one: B::Prepared,
    batch: B::Prepared,
    chunk: usize,
    width: usize,
    /// Pending values.
    pub cells: Vec<BoundValue>,
    lines: Vec<u64>,
    /// Pending rows, if rows may be refused.
    rows: Vec<ByteRecord>,
    /// Refused rows.
    pub refused: RefusedRows<'a>,
    /// Number of written rows.
    pub written: u64,
}

/// Returns the columns in the order of the statement's markers: counters come before the key.
pub fn marker_order(table: &CopyTable, names: &[String]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    if table.is_counter() {
        order.sort_by_key(|&i| table.is_key(&names[i]));
    }
    order
}

/// Returns the statement that writes a row, and the begin of a batch of such statements.
fn row_statement(table: &CopyTable, names: &[String], ttl: Option<u32>) -> (String, &'static str) {
    if !table.is_counter() {
        let ttl = ttl.map_or(String::new(), |ttl| format!(" USING TTL {ttl}"));
        let markers = vec!["?"; names.len()].join(", ");
        return (
            format!("INSERT INTO {} ({}) VALUES ({markers}){ttl}", table.place, quoted(names)),
            "UNLOGGED",
        );
    }
    let (keys, counters): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|n| table.is_key(n));
    let added: Vec<_> =
        counters.iter().map(|n| format!("{0} = {0} + ?", quote_if_needed(n))).collect();
    let keys: Vec<_> = keys.iter().map(|n| format!("{} = ?", quote_if_needed(n))).collect();
    (
        format!("UPDATE {} SET {} WHERE {}", table.place, added.join(", "), keys.join(" AND ")),
        "COUNTER",
    )
}

impl<B: ShellBackend> CopyTarget<'_, B> {
    /// Prepares statements for rows with these columns.
    pub fn new<'a>(
        backend: &'a mut B,
        table: &CopyTable,
        names: &[String],
        mode: &CopyMode,
        refused: RefusedRows<'a>,
    ) -> Result<CopyTarget<'a, B>, ShellRefusal> {
        let (statement, kind) = row_statement(table, names, mode.ttl);
        let chunk = mode.chunk.min(MARKERS / names.len().max(1)).max(1);
        let one = backend.prepare(&statement)?;
        let batch = backend.prepare(&format!(
            "BEGIN {kind} BATCH {} APPLY BATCH",
            format!("{statement}; ").repeat(chunk)
        ))?;
        Ok(CopyTarget {
            backend,
            one,
            batch,
            chunk,
            width: names.len(),
            cells: vec![],
            lines: vec![],
            rows: vec![],
            refused,
            written: 0,
        })
    }

    /// Adds a row whose values were added, and writes a full batch. Reports whether it wrote one.
    pub fn add(&mut self, line: u64, row: Option<ByteRecord>) -> Result<bool, BadRow> {
        self.lines.push(line);
        self.rows.extend(row);
        if self.lines.len() < self.chunk {
            return Ok(false);
        }
        self.flush().map(|()| true)
    }

    /// Writes the pending rows. After a refused batch, writes its rows one by one up to the faulty
    /// one.
    pub fn flush(&mut self) -> Result<(), BadRow> {
        let (cells, lines) = (std::mem::take(&mut self.cells), std::mem::take(&mut self.lines));
        let texts = std::mem::take(&mut self.rows);
        let (rows, whole) = (lines.len(), PageRequest::default());
        if rows == self.chunk && rows > 1 {
            match self.backend.run(&mut self.batch, &cells, &whole) {
                Ok(_) => {
                    self.written += rows as u64;
                    return Ok(());
                }
                // The batch had no effect: one of its rows is invalid, or it is too large.
                Err(ShellRefusal::Refused { class, .. }) if class == REFUSED_AS_IT_IS => {}
                Err(other) => return Err((lines[0], other.text())),
            }
        }
        let none = ByteRecord::new();
        for (i, (row, line)) in cells.chunks_exact(self.width).zip(lines).enumerate() {
            match self.backend.run(&mut self.one, row, &whole) {
                Ok(_) => self.written += 1,
                Err(e @ ShellRefusal::Refused { .. }) => {
                    let text = texts.get(i).unwrap_or(&none);
                    self.refused.take(RefusalKind::Insert, (line, e.text()), text)?;
                }
                Err(e) => return Err((line, e.text())),
            }
        }
        Ok(())
    }
}
