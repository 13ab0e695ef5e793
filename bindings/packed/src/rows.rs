//! Rows of a statement.

use std::sync::Arc;

use firn_cql::{OwnedRow, PagedRows, Result, Rows, Value};

use crate::value::put_value;
use crate::{put_bytes, put_len};

/// Rows of a statement, packed a chunk at a time.
#[derive(Debug)]
pub struct RowPacker {
    walk: PagedRows,
    /// A row with other columns than the chunk that was packed last.
    held: Option<OwnedRow>,
    /// Whether the last chunk was packed.
    has_ended: bool,
}

impl RowPacker {
    /// Packs the rows that `walk` returns.
    pub fn new(walk: PagedRows) -> RowPacker {
        RowPacker { walk, held: None, has_ended: false }
    }

    /// Returns the page of the next row: its columns.
    pub fn page(&self) -> &Rows {
        self.walk.page()
    }

    /// Returns the next row, unpacked; `None` after the last one.
    ///
    /// # Errors
    /// The error of the statement for a further page.
    pub fn next_row(&mut self) -> Result<Option<OwnedRow>> {
        self.held.take().map(Ok).or_else(|| self.walk.next()).transpose()
    }

    /// Packs the next rows: at most `max_rows`, and none after the chunk has `max_bytes` bytes. All
    /// rows of a chunk have the same columns. After the last chunk, chunks have no rows.
    ///
    /// # Errors
    /// The error of the statement for a further page; the rows of that chunk are lost.
    pub fn next_chunk(&mut self, max_rows: usize, max_bytes: usize) -> Result<Vec<u8>> {
        let mut header = self.walk.page().columns().clone();
        let (mut out, mut count, mut body) = (vec![], 0, vec![]);
        while !self.has_ended && count < max_rows && (count == 0 || body.len() < max_bytes) {
            let Some(row) = self.next_row()? else {
                self.has_ended = true;
                break;
            };
            // A definition may have changed between two pages.
            let columns = self.walk.page().columns();
            if !Arc::ptr_eq(columns, &header) && **columns != *header {
                if count > 0 {
                    self.held = Some(row);
                    break;
                }
                header = columns.clone();
            }
            for at in 0..header.len() {
                put_value(&mut body, &row.row().at::<Value>(at)?);
            }
            count += 1;
        }
        let mut columns = vec![];
        put_len(&mut columns, header.len());
        for column in header.iter() {
            put_bytes(&mut columns, column.name.as_bytes());
            put_bytes(&mut columns, column.column_type.to_string().as_bytes());
        }
        put_bytes(&mut out, &columns);
        out.push(u8::from(self.has_ended));
        put_len(&mut out, count);
        out.extend_from_slice(&body);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use firn_cql::{RunOptions, Session};

    use super::*;
    use crate::Unpacker;
    use crate::value::value;

    #[test]
    fn chunks_have_all_rows_and_the_last_one_says_so() {
        let session = Session::in_memory().unwrap();
        let run = |cql: &str| session.execute(cql, ()).map(drop).unwrap();
        run(
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        run("CREATE TABLE k.t (p int, c int, PRIMARY KEY (p, c))");
        (0..25).for_each(|n| run(&format!("INSERT INTO k.t (p, c) VALUES (1, {n})")));
        let how = RunOptions { page_size: Some(7), ..RunOptions::default() };
        let mut rows = RowPacker::new(session.query_with("SELECT c FROM k.t", (), &how).unwrap());
        let mut read = vec![];
        loop {
            let chunk = rows.next_chunk(10, 1 << 20).unwrap();
            let mut chunk = Unpacker::new(&chunk);
            let mut header = Unpacker::new(chunk.bytes().unwrap());
            assert_eq!((header.number().unwrap(), header.text().unwrap()), (1, "c"));
            assert_eq!(header.text().unwrap(), "int");
            let is_last = chunk.byte().unwrap() == 1;
            for _ in 0..chunk.number().unwrap() {
                read.push(value(&mut chunk, &firn_wide::Type::Int32).unwrap());
            }
            assert!(chunk.is_at_end());
            if is_last {
                break;
            }
        }
        assert_eq!(read, (0..25).map(Value::BigInt).collect::<Vec<_>>());
    }
}
