//! `COPY TO`: exports rows of a table to files.

use std::io::Write;
use std::path::{Path, PathBuf};

use csv::{QuoteStyle, Writer, WriterBuilder};
use firn_cql::internals::values::plain;
use firn_tools::io::{self, Stopwatch};
use firn_tools::output::{Done, Failure, Progress, things};
use firn_wide::Type;

use super::Copy;
use super::mode::CopyMode;
use super::parts::{failure, quoted};
use super::table::CopyTable;
use crate::cql::backend::{PageRequest, PreparedStatement, ShellBackend, ShellRefusal};
use crate::shell::interrupt;

/// Writer of a file of rows.
type RowFile<'w> = Writer<Box<dyn Write + 'w>>;

impl Copy {
    /// Exports the table to the file, or to several.
    pub(super) fn write<B: ShellBackend>(
        &self,
        backend: &mut B,
        table: &CopyTable,
        out: &mut dyn Write,
    ) -> Done {
        let names = if self.columns.is_empty() { table.names() } else { self.columns.clone() };
        table.check(&names)?;
        let mut statement = format!("SELECT {} FROM {}", quoted(&names), table.place);
        statement += &self.tokens(backend, table)?;
        let failed = |e: ShellRefusal| match e {
            ShellRefusal::Refused { .. } => Failure::new(format!("{statement}: {}", e.text())),
            other => failure(other),
        };
        let mut prepared = backend.prepare(&statement).map_err(failed)?;
        let types: Vec<Type> =
            prepared.columns().iter().map(|c| c.column_type.value_type.clone()).collect();
        let head = self.how.header.then_some(&names[..]);
        let mut writer = match &self.file {
            Some(file) => self.how.file(file, head)?,
            None => self.how.writer(Box::new(out), head)?,
        };
        let (watch, progress) = (Stopwatch::start(), Progress::operations("copy", None));
        let (mut rows, mut like_null, mut files) = (0u64, 0u64, 1u64);
        let mut request = PageRequest { rows: Some(self.how.page), from: None };
        loop {
            let page = backend.run(&mut prepared, &[], &request).map_err(failed)?;
            for row in page.iter() {
                if let (Some(most), Some(file)) = (self.how.max_lines, &self.file)
                    && rows == most * files
                {
                    writer.flush()?;
                    writer = self.how.file(&numbered(file, files), head)?;
                    files += 1;
                }
                for (i, of) in types.iter().enumerate() {
                    let value = row.bytes(i);
                    let text =
                        value.map(|bytes| self.how.values.written(of, bytes, plain(of, bytes)));
                    like_null += u64::from(text.as_ref() == Some(&self.how.null));
                    let text = text.as_ref().unwrap_or(&self.how.null);
                    writer.write_field(&*self.how.escaped(text)).map_err(csv_failure)?;
                }
                writer.write_record(None::<&[u8]>).map_err(csv_failure)?;
                rows += 1;
            }
            progress.say(things(rows, "row", "rows"));
            request.from = page.paging().cloned();
            if request.from.is_none() {
                break;
            }
            if interrupt::is_set() {
                writer.flush()?;
                return Err(Failure::new(format!(
                    "it was stopped after {}",
                    things(rows, "row", "rows")
                )));
            }
        }
        writer.flush()?;
        drop(progress);
        if like_null > 0 {
            let values = things(like_null, "value is", "values are");
            eprintln!("warning: {values} written as null is; WITH NULL = '\\N' distinguishes them");
        }
        self.report(rows, names.len(), watch.seconds());
        Ok(())
    }

    /// Returns the condition for the requested tokens.
    fn tokens<B: ShellBackend>(&self, backend: &mut B, table: &CopyTable) -> Done<String> {
        let ends = [(">", &self.how.begin_token), ("<=", &self.how.end_token)];
        if ends.iter().all(|(_, end)| end.is_none()) {
            return Ok(String::new());
        }
        let key = quoted(&table.partition_key(backend)?);
        let conditions = ends
            .iter()
            .filter_map(|(sign, end)| Some(format!("token({key}) {sign} {}", end.as_ref()?)));
        Ok(format!(" WHERE {}", conditions.collect::<Vec<_>>().join(" AND ")))
    }
}

impl CopyMode {
    /// Creates a file, with its header line if it has one.
    fn file<'w>(&self, path: &Path, head: Option<&[String]>) -> Done<RowFile<'w>> {
        let file = io::create(path).map_err(|e| Failure::file("write", path, &e))?;
        self.writer(Box::new(file), head)
    }

    fn writer<'w>(&self, sink: Box<dyn Write + 'w>, head: Option<&[String]>) -> Done<RowFile<'w>> {
        let mut builder = WriterBuilder::new();
        builder.delimiter(self.delimiter).quote(self.quote).quote_style(QuoteStyle::Necessary);
        if let Some(escape) = self.escape {
            // The writer escapes only quotes, and readers know escapes only within quotes.
            builder.double_quote(false).escape(escape).quote_style(QuoteStyle::Always);
        }
        let mut writer = builder.from_writer(sink);
        if let Some(names) = head {
            writer.write_record(names).map_err(csv_failure)?;
        }
        Ok(writer)
    }
}

/// Returns the name of a further file: `rows.csv.1`.
fn numbered(file: &Path, number: u64) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

fn csv_failure(e: csv::Error) -> Failure {
    match e.into_kind() {
        csv::ErrorKind::Io(e) => e.into(),
        other => Failure::new(format!("cannot write csv: {other:?}")),
    }
}
