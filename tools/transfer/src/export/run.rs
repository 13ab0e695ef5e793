//! Rows of trees and of CQL on their way into files.

use firn_cql::{RunOptions, Session};
use firn_kv::Tree;
use firn_tools::io::Stopwatch;
use firn_tools::keys::KeyRangeArg;
use firn_tools::output::{Done, Failure, Progress, rate, things};

use super::sink::{ExportColumn, RowSink, refused};
use crate::form::ByteForm;
use crate::target::cql_failure;

/// Rows between two updates of the progress.
const TOLD: u64 = 1024;

/// Result of an export.
#[derive(Debug)]
pub struct ExportReport {
    /// Number of rows.
    pub rows: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Notes of the format.
    pub notes: Vec<String>,
}

/// Counts rows on their way into a file.
pub struct ExportRun<'a> {
    sink: Option<Box<dyn RowSink>>,
    limit: u64,
    is_stopped: &'a dyn Fn() -> bool,
    progress: Progress,
    watch: Stopwatch,
    rows: u64,
}

impl<'a> ExportRun<'a> {
    /// Begins an export. Without a sink it only counts. `is_stopped` is called now and then.
    pub fn new(
        sink: Option<Box<dyn RowSink>>,
        limit: Option<u64>,
        is_stopped: &'a dyn Fn() -> bool,
    ) -> ExportRun<'a> {
        ExportRun {
            sink,
            limit: limit.unwrap_or(u64::MAX),
            is_stopped,
            progress: Progress::operations("export", None),
            watch: Stopwatch::start(),
            rows: 0,
        }
    }

    /// Writes a row.
    fn row(&mut self, values: &[Option<&[u8]>]) -> Done {
        if let Some(sink) = &mut self.sink {
            sink.row(values)?;
        }
        self.rows += 1;
        if self.rows.is_multiple_of(TOLD) {
            let speed = rate(self.rows as f64 / self.watch.seconds().max(1e-9));
            self.progress.say(format!("{} at {speed}/s", things(self.rows, "row", "rows")));
            if (self.is_stopped)() {
                let rows = things(self.rows, "row", "rows");
                return Err(Failure::new(format!("it was stopped after {rows}")));
            }
        }
        Ok(())
    }

    /// Exports the result of a statement of CQL.
    ///
    /// # Errors
    /// Errors of the statement, and of the file.
    pub fn query(mut self, session: &Session, cql: &str) -> Done<ExportReport> {
        let rows = session.query_with(cql, (), &RunOptions::default());
        let mut rows = rows.map_err(|e| cql_failure(&e))?;
        while self.rows < self.limit {
            let Some(row) = rows.next().transpose().map_err(|e| cql_failure(&e))? else { break };
            let row = row.row();
            let values: Vec<Option<&[u8]>> =
                (0..row.columns().len()).map(|i| row.bytes(i)).collect();
            self.row(&values)?;
        }
        self.finish()
    }

    /// Exports keys and values of a tree.
    ///
    /// # Errors
    /// A key or value does not have its form; errors of the store, and of the file.
    pub fn tree(
        mut self,
        tree: &Tree,
        range: &KeyRangeArg,
        forms: [ByteForm; 2],
    ) -> Done<ExportReport> {
        let mut entries = tree.range(range.bounds());
        while self.rows < self.limit {
            let Some(entry) = entries.next().transpose()? else { break };
            let named = |name: &'static str| {
                let row = self.rows + 1;
                move |why: String| refused(row, name, format!("{why}; choose another form"))
            };
            let key = forms[0].read(&entry.0).map_err(named("key"))?;
            let value = forms[1].read(&entry.1).map_err(named("value"))?;
            self.row(&[Some(&key), Some(&value)])?;
        }
        self.finish()
    }

    fn finish(self) -> Done<ExportReport> {
        let notes = self.sink.map_or(Ok(vec![]), |sink| sink.finish())?;
        Ok(ExportReport { rows: self.rows, seconds: self.watch.seconds(), notes })
    }
}

/// Returns the columns of a tree's export.
pub fn pair_columns(forms: [ByteForm; 2]) -> Vec<ExportColumn> {
    let column = |name: &str, form: ByteForm| ExportColumn {
        name: name.to_owned(),
        value_type: form.value_type(),
        is_raw: form == ByteForm::Binary,
    };
    vec![column("key", forms[0]), column("value", forms[1])]
}

/// Returns the columns of a statement's result.
///
/// # Errors
/// The statement is invalid, or returns no rows of columns.
pub fn query_columns(session: &Session, cql: &str) -> Done<Vec<ExportColumn>> {
    let prepared = session.prepare(cql).map_err(|e| cql_failure(&e))?;
    let Some(columns) = prepared.columns() else {
        return Err(Failure::with_next(
            "the statement returns no rows",
            "give a SELECT, or a table with --table",
        ));
    };
    let column = |c: &firn_cql::ColumnSpec| ExportColumn {
        name: c.name.clone(),
        value_type: c.column_type.value_type.clone(),
        is_raw: false,
    };
    Ok(columns.iter().map(column).collect())
}
