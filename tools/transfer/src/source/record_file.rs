//! Text files: CSV, TSV and JSON lines, as rows of columns or as keys and values.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use firn_tools::io::Input;
use firn_tools::output::{Done, Failure};
use firn_wide::Type;

use super::rows::{
    RowPlace, RowSource, RowVisitor, SourceCell, SourceColumn, SourceLength, SourceOptions,
    VisitFlow, pair_columns,
};
use crate::format::TransferFormat;
use crate::text::{
    Choice, FieldReader, Fields, Format, Record, RecordTrouble, Records, is_same_name,
};

/// Number of JSON lines from which columns are taken.
const SAMPLE: usize = 1000;

/// Opens a text file.
///
/// # Errors
/// It is unreadable; its head is malformed.
pub fn open(
    path: &Path,
    format: TransferFormat,
    options: &SourceOptions,
) -> Done<Box<dyn RowSource>> {
    let format = format.text().unwrap_or(Format::Csv);
    let file = TextFile { path: path.to_path_buf(), format, len: input(path)?.len };
    if let Some(choice) = &options.pairs {
        let (choice, columns) = (choice.clone(), pair_columns());
        return Ok(Box::new(RecordSource { file, choice, columns }));
    }
    let options = options.clone();
    let columns = file.columns(&options)?;
    Ok(Box::new(FieldSource { file, options, columns }))
}

fn input(path: &Path) -> Done<Input> {
    Input::open(path).map_err(|e| Failure::file("open", path, &e))
}

/// A file of a text format.
struct TextFile {
    path: PathBuf,
    format: Format,
    len: Option<u64>,
}

impl TextFile {
    fn head_failure(&self, trouble: RecordTrouble) -> Failure {
        match trouble {
            RecordTrouble::Bad { line, why } => {
                Failure::new(format!("{}, line {line}: {why}", self.path.display()))
            }
            RecordTrouble::Io(e) => Failure::file("read", &self.path, &e),
        }
    }

    fn reader(&self, options: &SourceOptions, input: Input) -> Done<FieldReader<Input>> {
        let reader = FieldReader::new(input, self.format, options.header, false);
        Ok(reader.map_err(|t| self.head_failure(t))?.with_null(&options.null))
    }

    /// Returns the columns of the file.
    fn columns(&self, options: &SourceOptions) -> Done<Vec<SourceColumn>> {
        let untyped = |name: &String| SourceColumn { name: name.clone(), value_type: None };
        if let Some(names) = options.fields.as_ref().filter(|_| self.format == Format::Json) {
            return Ok(names.iter().map(untyped).collect());
        }
        if self.path == Path::new("-") {
            return Err(Failure::with_next(
                "the columns of standard input are unknown",
                "write it to a file first, or import JSON lines into an existing table",
            ));
        }
        let mut reader = self.reader(options, input(&self.path)?)?;
        if self.format != Format::Json && options.header {
            let names = reader.head().iter().map(|n| String::from_utf8_lossy(n).into_owned());
            return Ok(names.map(|name| untyped(&name)).collect());
        }
        let mut fields = Fields::default();
        let mut found: Vec<SourceColumn> = vec![];
        // A malformed line is reported with its number by the import.
        for _ in 0..SAMPLE {
            match reader.next(&mut fields) {
                Ok(true) => {}
                Ok(false) => break,
                Err(RecordTrouble::Bad { .. }) => continue,
                Err(trouble) => return Err(self.head_failure(trouble)),
            }
            for ((name, value), is_json) in fields.iter().zip(fields.are_json()) {
                let name = String::from_utf8_lossy(name).into_owned();
                let of = (self.format == Format::Json).then(|| guess(value, is_json));
                match found.iter_mut().find(|c| c.name == name) {
                    Some(column) => {
                        column.value_type =
                            column.value_type.take().zip(of).map(|(a, b)| wider(a, b));
                    }
                    None => found.push(SourceColumn { name, value_type: of }),
                }
            }
        }
        if found.is_empty() {
            return Err(Failure::new(format!("{} has no columns", self.path.display())));
        }
        Ok(found)
    }
}

/// Returns the type of a JSON value. `is_json`: it is not a string.
fn guess(field: &[u8], is_json: bool) -> Type {
    let Ok(text) = std::str::from_utf8(field) else { return Type::Utf8 };
    match text {
        _ if !is_json => Type::Utf8,
        "true" | "false" => Type::Boolean,
        _ if text.parse::<i64>().is_ok() => Type::Long,
        _ if text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()) => Type::Integer,
        _ if text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
            && text.parse::<f64>().is_ok() =>
        {
            Type::Double
        }
        _ => Type::Utf8,
    }
}

/// Returns a type that has the values of both.
fn wider(a: Type, b: Type) -> Type {
    match (a, b) {
        (a, b) if a == b => a,
        (Type::Long, Type::Double) | (Type::Double, Type::Long) => Type::Double,
        (Type::Long, Type::Integer) | (Type::Integer, Type::Long) => Type::Integer,
        _ => Type::Utf8,
    }
}

/// Rows of named fields.
struct FieldSource {
    file: TextFile,
    options: SourceOptions,
    columns: Vec<SourceColumn>,
}

impl RowSource for FieldSource {
    fn columns(&self) -> &[SourceColumn] {
        &self.columns
    }

    fn length(&self) -> SourceLength {
        SourceLength::Bytes(self.file.len)
    }

    fn read(&mut self, skip: u64, visitor: &mut dyn RowVisitor) -> Done {
        let input = input(&self.file.path)?;
        let done = input.counter();
        let mut reader = self.file.reader(&self.options, input)?;
        let mut fields = Fields::default();
        let mut cells = vec![SourceCell::Null; self.columns.len()];
        let mut left_out = BTreeSet::new();
        let is_json = self.file.format == Format::Json;
        let read = lines(&self.file, skip, &done, visitor, &mut |visitor| {
            let more = reader.next(&mut fields)?;
            if !more {
                return Ok(None);
            }
            let line = fields.line;
            let Some(visitor) = visitor else { return Ok(Some(Ok(ControlFlow::Continue(())))) };
            cells.fill(SourceCell::Null);
            for (name, value) in fields.iter() {
                let names = || self.columns.iter().map(|c| c.name.as_str());
                // Two columns may differ in case only.
                let same = names().position(|n| n.as_bytes() == name);
                let same = same.or_else(|| names().position(|n| is_same_name(n, name)));
                match same {
                    Some(at) if is_json => cells[at] = SourceCell::Json(value.to_vec()),
                    Some(at) => cells[at] = SourceCell::Text(value.to_vec()),
                    None if left_out.contains(name) => {}
                    None => drop(left_out.insert(name.to_vec())),
                }
            }
            Ok(Some(visitor.row(RowPlace::Line(line), done.get(), &mut cells)))
        });
        if !left_out.is_empty() {
            let names: Vec<_> = left_out.iter().map(|name| String::from_utf8_lossy(name)).collect();
            eprintln!("fields without a column, left out: {}", names.join(", "));
        }
        read
    }
}

/// Rows of a key and a value.
struct RecordSource {
    file: TextFile,
    choice: Choice,
    columns: Vec<SourceColumn>,
}

impl RowSource for RecordSource {
    fn columns(&self) -> &[SourceColumn] {
        &self.columns
    }

    fn length(&self) -> SourceLength {
        SourceLength::Bytes(self.file.len)
    }

    fn read(&mut self, skip: u64, visitor: &mut dyn RowVisitor) -> Done {
        let input = input(&self.file.path)?;
        let done = input.counter();
        let records = Records::new(input, self.file.format, self.choice.clone());
        let mut records = records.map_err(|t| self.file.head_failure(t))?;
        let mut record = Record::default();
        lines(&self.file, skip, &done, visitor, &mut |visitor| {
            if !records.next(&mut record)? {
                return Ok(None);
            }
            let Some(visitor) = visitor else {
                return Ok(Some(Ok(ControlFlow::Continue(()))));
            };
            let take = |bytes: &mut Vec<u8>| SourceCell::Text(std::mem::take(bytes));
            let mut cells = [take(&mut record.key), take(&mut record.value)];
            Ok(Some(visitor.row(RowPlace::Line(record.line), done.get(), &mut cells)))
        })
    }
}

/// Reads the next record, and passes it to a visitor, if there is one. Returns `None` at the end.
type NextRecord<'n> =
    dyn FnMut(Option<&mut dyn RowVisitor>) -> Result<Option<VisitFlow>, RecordTrouble> + 'n;

/// Reads records by `next` until the end, without a visitor for the first `skip`.
fn lines(
    file: &TextFile,
    skip: u64,
    done: &Rc<Cell<u64>>,
    visitor: &mut dyn RowVisitor,
    next: &mut NextRecord<'_>,
) -> Done {
    for row in 0_u64.. {
        let is_wanted = row >= skip;
        let visited = next(if is_wanted { Some(&mut *visitor) } else { None });
        let flow = match visited {
            Ok(None) => return Ok(()),
            Ok(Some(flow)) => flow?,
            Err(RecordTrouble::Bad { line, why }) if is_wanted => {
                visitor.bad(RowPlace::Line(line), done.get(), why)?
            }
            Err(RecordTrouble::Bad { .. }) => ControlFlow::Continue(()),
            Err(RecordTrouble::Io(e)) => return Err(Failure::file("read", &file.path, &e)),
        };
        if flow.is_break() {
            return Ok(());
        }
    }
    Ok(())
}
