//! `COPY FROM`: imports rows of a file into a table.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use firn_cql::BoundValue;
use firn_tools::io::{Input, Stopwatch};
use firn_tools::output::{self, Done, Failure, Progress, things};
use firn_wide::Type;

use super::Copy;
use super::cells::{CellTrouble, CopyCells};
use super::parts::{BadRow, failure};
use super::refused::{RefusalKind, RefusedRows};
use super::table::CopyTable;
use super::target::{CopyTarget, marker_order};
use crate::cql::backend::{PreparedStatement, ShellBackend};
use crate::shell::interrupt;
use firn_transfer::text::{Format, from_field};

const HEAD: &str = "the first line names the columns: COPY … WITH HEADER = true";

impl Copy {
    /// Imports the file into the table.
    pub(super) fn read<B: ShellBackend>(&self, backend: &mut B, table: &CopyTable) -> Done {
        let path = self.file.clone().unwrap_or_else(|| PathBuf::from("-"));
        if self.how.ttl.is_some() && table.is_counter() {
            return Err(Failure::with_next("counters have no time to live", "leave TTL out"));
        }
        let input = Input::open(&path).map_err(|e| Failure::file("read", &path, &e))?;
        let progress = Progress::bytes("copy", input.len);
        let read = input.counter();
        let (mut source, names) = CopyCells::open(self, &path, input, table)?;
        table.check(&names)?;
        let order = marker_order(table, &names);
        let refused = RefusedRows::new(&self.how, &path, &table.place)?;
        let mut target =
            CopyTarget::new(backend, table, &names, &self.how, refused).map_err(failure)?;
        let types: Vec<Type> =
            target.one.markers().iter().map(|m| m.column_type.value_type.clone()).collect();
        let watch = Stopwatch::start();
        let (is_tolerant, null) = (self.how.refusals.is_tolerant(), &*self.how.null);
        let mut rows =
            CopyLoading { path: &path, progress, read, watch, target: &mut target, is_head: false };
        let (mut line, mut cells) = (0, vec![None; names.len()]);
        let mut skip = self.how.skip;
        let mut taken = 0;
        let mut is_first = !self.how.header;
        while taken < self.how.max {
            let row = match source.next(&mut line, &mut cells) {
                Ok(false) => break,
                Ok(true) => Ok(()),
                Err(CellTrouble::End(why)) => return Err(rows.stop(why)),
                Err(CellTrouble::Row(why)) => Err(why),
            };
            rows.is_head = std::mem::take(&mut is_first) && source.is_head(table);
            if skip > 0 && row.is_ok() {
                skip -= 1;
                continue;
            }
            taken += 1;
            if interrupt::is_set() {
                rows.target.flush().map_err(|why| rows.stop(why))?;
                return Err(rows.stop((line, "it was stopped here".to_owned())));
            }
            let values = row.and_then(|()| {
                let each = types.iter().zip(&order).map(|(of, &i)| {
                    let bound = self.bound(of, cells[i].as_deref());
                    bound.map_err(|why| (line, format!("column {}: {why}", names[i])))
                });
                each.collect::<Result<Vec<_>, _>>()
            });
            match values {
                Ok(values) => {
                    if rows.is_head {
                        eprintln!("warning: line {line} is imported as a row; {HEAD}");
                    }
                    rows.target.cells.extend(values);
                    rows.add(line, is_tolerant.then(|| source.row(&cells, null)))?;
                }
                Err(why) => {
                    let row = source.row(&cells, null);
                    let taken = rows.target.refused.take(RefusalKind::Parse, why, &row);
                    taken.map_err(|why| rows.stop(why))?;
                }
            }
        }
        rows.target.flush().map_err(|why| rows.stop(why))?;
        let seconds = rows.watch.seconds();
        drop(rows);
        source.note_left_out();
        self.report(target.written, names.len(), seconds);
        target.refused.finish()
    }

    /// Returns the bound value of a cell. A missing cell or the null text binds nothing, so its
    /// column does not change.
    fn bound(&self, of: &Type, cell: Option<&[u8]>) -> Result<BoundValue, String> {
        let is_json = self.how.format == Format::Json;
        // JSON has its own null; an empty JSON text is an empty text.
        let stands_for_null =
            |c: &[u8]| c == self.how.null.as_bytes() && !(is_json && c.is_empty());
        let Some(cell) = cell.filter(|c| !stands_for_null(c)) else { return Ok(BoundValue::Unset) };
        let text = std::str::from_utf8(cell).map_err(|_| "the cell is not UTF-8".to_owned())?;
        let text = &*self.how.values.usual(of, text)?;
        from_field(of, text.as_bytes(), is_json).map(BoundValue::Bytes)
    }
}

/// An import in progress.
struct CopyLoading<'a, 'b, B: ShellBackend> {
    path: &'a Path,
    progress: Progress,
    read: Rc<Cell<u64>>,
    watch: Stopwatch,
    target: &'a mut CopyTarget<'b, B>,
    /// Whether the current row contains names of columns.
    is_head: bool,
}

impl<B: ShellBackend> CopyLoading<'_, '_, B> {
    /// Adds a complete row.
    fn add(&mut self, line: u64, row: Option<csv::ByteRecord>) -> Done {
        if !self.target.add(line, row).map_err(|why| self.stop(why))? {
            return Ok(());
        }
        self.progress.at(self.read.get());
        let rate = self.target.written as f64 / self.watch.seconds().max(1e-9);
        self.progress.say(format!(
            "{} at {}/s",
            things(self.target.written, "row", "rows"),
            output::rate(rate)
        ));
        Ok(())
    }

    /// Returns the failure for a bad line, which ends the import.
    fn stop(&self, (line, why): BadRow) -> Failure {
        let written = things(self.target.written, "row is", "rows are");
        let next = match self.is_head {
            true => HEAD.to_owned(),
            false => format!(
                "{written} written; correct the line and copy the file again, continue after it WITH SKIPROWS, or over all such lines WITH ERRFILE"
            ),
        };
        Failure::with_next(format!("{}:{line}: {why}", self.path.display()), next)
    }
}
