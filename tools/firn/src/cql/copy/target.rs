//! Rows on their way into a table, in batches.

use csv::ByteRecord;
use firn_cql::{Bound, quote_if_needed};

use super::mode::CopyMode;
use super::parts::{BadRow, quoted};
use super::refused::{RefusalKind, RefusedRows};
use super::table::CopyTable;
use crate::cql::backend::{PageWish, ShellBackend, ShellRefusal};

/// The class of a refusal that is about the statement itself.
const REFUSED_AS_IT_IS: &str = "InvalidRequest";
/// A statement has no more bind markers.
const MARKERS: usize = 65_535;

/// Rows on their way into a table, in batches.
pub struct CopyTarget<'a, B: ShellBackend> {
    backend: &'a mut B,
    /// The statement that writes a row.
    pub one: B::Prepared,
    batch: B::Prepared,
    chunk: usize,
    width: usize,
    /// Values that wait to be written.
    pub cells: Vec<Bound>,
    lines: Vec<u64>,
    /// The rows that wait, where they may be refused.
    rows: Vec<ByteRecord>,
    /// The rows that were refused.
    pub refused: RefusedRows<'a>,
    /// Rows that were written.
    pub written: u64,
}

/// The columns in the order of the markers of the statement that writes a row: counters are before
/// the key.
pub fn marker_order(table: &CopyTable, names: &[String]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    if table.is_counter() {
        order.sort_by_key(|&i| table.is_key(&names[i]));
    }
    order
}

/// The statement that writes a row, and what opens a batch of such.
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
    /// Prepares to write rows with these columns.
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

    /// Adds the row whose values were added, and writes a batch when there is one; whether it did.
    pub fn add(&mut self, line: u64, row: Option<ByteRecord>) -> Result<bool, BadRow> {
        self.lines.push(line);
        self.rows.extend(row);
        if self.lines.len() < self.chunk {
            return Ok(false);
        }
        self.flush().map(|()| true)
    }

    /// Writes what is waiting. Of a batch that is refused, rows are written one by one up to the
    /// one to blame.
    pub fn flush(&mut self) -> Result<(), BadRow> {
        let (cells, lines) = (std::mem::take(&mut self.cells), std::mem::take(&mut self.lines));
        let texts = std::mem::take(&mut self.rows);
        let (rows, whole) = (lines.len(), PageWish::default());
        if rows == self.chunk && rows > 1 {
            match self.backend.run(&mut self.batch, &cells, &whole) {
                Ok(_) => {
                    self.written += rows as u64;
                    return Ok(());
                }
                // It did nothing, for one of its rows or because it is too large.
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
