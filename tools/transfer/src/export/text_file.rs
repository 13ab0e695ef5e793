//! CSV, TSV and JSON lines.

use std::io::Write;
use std::path::Path;

use csv::{QuoteStyle, Writer, WriterBuilder};
use firn_cql::internals::values::{exported_json, plain};
use firn_tools::escape::{self, Show};
use firn_tools::io;
use firn_tools::output::{Done, things};
use firn_wide::Type;

use super::sink::{ExportColumn, ExportSettings, RowSink, UnfinishedFile};
use crate::format::TransferFormat;

/// Creates a text file, or writes to standard output.
pub fn create(
    path: &Path,
    format: TransferFormat,
    columns: &[ExportColumn],
    settings: &ExportSettings,
) -> Done<Box<dyn RowSink>> {
    let (file, out): (_, Box<dyn Write>) = match path == Path::new("-") {
        true => (None, Box::new(io::stdout())),
        false => {
            let file = UnfinishedFile::new(path);
            let out = file.create()?;
            (Some(file), Box::new(out))
        }
    };
    let columns = columns.to_vec();
    if format == TransferFormat::JsonLines {
        return Ok(Box::new(JsonSink { file, out, columns, line: String::new() }));
    }
    let is_tsv = format == TransferFormat::Tsv;
    let mut builder = WriterBuilder::new();
    if is_tsv {
        builder.delimiter(b'\t').quote_style(QuoteStyle::Never);
    }
    let null = settings.null.clone();
    let mut sink =
        CsvSink { file, out: builder.from_writer(out), columns, null, is_tsv, like_null: 0 };
    if settings.header {
        let names: Vec<String> = sink.columns.iter().map(|c| c.name.clone()).collect();
        let names = names.iter().map(|n| sink.field(n.as_bytes())).collect::<Vec<_>>();
        sink.out.write_record(names).map_err(csv_failure)?;
    }
    Ok(Box::new(sink))
}

fn csv_failure(e: csv::Error) -> firn_tools::output::Failure {
    match e.into_kind() {
        csv::ErrorKind::Io(e) => e.into(),
        other => firn_tools::output::Failure::new(format!("cannot write csv: {other:?}")),
    }
}

/// Writes CSV or TSV.
struct CsvSink {
    file: Option<UnfinishedFile>,
    out: Writer<Box<dyn Write>>,
    columns: Vec<ExportColumn>,
    null: String,
    is_tsv: bool,
    /// Number of values that have the text for null.
    like_null: u64,
}

impl CsvSink {
    /// Returns a field as it is written. TSV has escapes instead of quotes.
    fn field(&self, text: &[u8]) -> Vec<u8> {
        if !self.is_tsv {
            return text.to_vec();
        }
        let mut out = vec![];
        escape::encode(text, Show::Plain, &mut out);
        out
    }
}

impl RowSink for CsvSink {
    fn row(&mut self, values: &[Option<&[u8]>]) -> Done {
        for (i, value) in values.iter().enumerate() {
            let column = &self.columns[i];
            let text = match value {
                None => {
                    self.out.write_field(&self.null).map_err(csv_failure)?;
                    continue;
                }
                Some(bytes) if column.is_raw => bytes.to_vec(),
                Some(bytes) => plain(&column.value_type, bytes).into_bytes(),
            };
            // A tree has no nulls.
            self.like_null += u64::from(!column.is_raw && text == self.null.as_bytes());
            self.out.write_field(self.field(&text)).map_err(csv_failure)?;
        }
        self.out.write_record(None::<&[u8]>).map_err(csv_failure)
    }

    fn finish(mut self: Box<Self>) -> Done<Vec<String>> {
        self.out.flush()?;
        drop(self.out);
        self.file.map_or(Ok(()), |file| file.finish())?;
        let note = || {
            let values = things(self.like_null, "value is", "values are");
            format!("{values} written like null; --null '\\N' distinguishes them")
        };
        Ok(if self.like_null > 0 { vec![note()] } else { vec![] })
    }
}

/// Writes a JSON object per line.
struct JsonSink {
    file: Option<UnfinishedFile>,
    out: Box<dyn Write>,
    columns: Vec<ExportColumn>,
    line: String,
}

impl RowSink for JsonSink {
    fn row(&mut self, values: &[Option<&[u8]>]) -> Done {
        self.line.clear();
        self.line.push('{');
        for (i, value) in values.iter().enumerate() {
            let column = &self.columns[i];
            let quoted = |text: &str| exported_json(&Type::Utf8, Some(text.as_bytes()));
            let (name, json) = match value {
                // As `firn scan` writes them.
                Some(bytes) if column.is_raw => match std::str::from_utf8(bytes) {
                    Ok(text) => (quoted(&column.name), quoted(text)),
                    Err(_) => {
                        (quoted(&format!("{}_hex", column.name)), quoted(&escape::hex(bytes)))
                    }
                },
                value => (quoted(&column.name), exported_json(&column.value_type, *value)),
            };
            if i > 0 {
                self.line.push(',');
            }
            self.line.push_str(&name);
            self.line.push(':');
            self.line.push_str(&json);
        }
        self.line.push_str("}\n");
        Ok(self.out.write_all(self.line.as_bytes())?)
    }

    fn finish(mut self: Box<Self>) -> Done<Vec<String>> {
        self.out.flush()?;
        drop(self.out);
        self.file.map_or(Ok(()), |file| file.finish())?;
        Ok(vec![])
    }
}
