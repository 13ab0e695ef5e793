//! Rows of a file for `COPY FROM`.

use std::collections::BTreeSet;
use std::path::Path;

use csv::{ByteRecord, ReaderBuilder};
use firn_tools::io::Input;
use firn_tools::output::{Done, Failure};
use firn_transfer::text::{FieldReader, Fields, Format, RecordTrouble, is_same_name};

use super::Copy;
use super::parts::BadRow;
use super::table::CopyTable;

/// Reader of a file's rows, as cells in the order of the columns.
pub struct CopyCells {
    source: CellSource,
    /// Number of columns of the file.
    width: usize,
    /// Numbers of the skipped columns.
    left: Vec<usize>,
}

/// Reason why there is no next row.
pub enum CellTrouble {
    /// This row is invalid; others may be valid.
    Row(BadRow),
    /// The rest of the file is unreadable.
    End(BadRow),
}

enum CellSource {
    Csv(Box<csv::Reader<Input>>, ByteRecord),
    /// Fields by name, with the column of each field, and the fields without a column.
    Named {
        reader: Box<FieldReader<Input>>,
        fields: Fields,
        names: Vec<String>,
        left_out: BTreeSet<Vec<u8>>,
    },
}

impl CopyCells {
    /// Opens the file; also returns the names of the columns of its cells.
    pub fn open(
        copy: &Copy,
        path: &Path,
        input: Input,
        table: &CopyTable,
    ) -> Done<(CopyCells, Vec<String>)> {
        let mut names = if copy.columns.is_empty() { table.names() } else { copy.columns.clone() };
        let how = &copy.how;
        if how.format != Format::Csv {
            let trouble = |t| match t {
                RecordTrouble::Bad { line, why } => {
                    Failure::new(format!("{}:{line}: {why}", path.display()))
                }
                RecordTrouble::Io(e) => Failure::file("read", path, &e),
            };
            let reader = FieldReader::new(input, how.format, true, false).map_err(trouble)?;
            let (fields, left_out) = (Fields::default(), BTreeSet::new());
            names.retain(|name| !how.skip_columns.contains(name));
            let source = CellSource::Named {
                reader: Box::new(reader),
                fields,
                names: names.clone(),
                left_out,
            };
            return Ok((CopyCells { source, width: names.len(), left: vec![] }, names));
        }
        let mut builder = ReaderBuilder::new();
        builder.has_headers(how.header).flexible(true).delimiter(how.delimiter).quote(how.quote);
        builder.double_quote(how.escape.is_none()).escape(how.escape);
        let mut reader = builder.from_reader(input);
        if how.header && copy.columns.is_empty() {
            let head =
                reader.headers().map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
            names = head.iter().map(str::to_owned).collect();
            let is_known = |n: &String| table.column(n).is_some() || how.skip_columns.contains(n);
            if let Some(unknown) = names.iter().find(|n| !is_known(n)) {
                let next = "name the columns in the order of the file: COPY table (a, b, …) FROM …";
                let what = format!(
                    "{}:1: the head names {unknown:?}, which is no column of {}",
                    path.display(),
                    table.name
                );
                return Err(Failure::with_next(what, next));
            }
        }
        let source = CellSource::Csv(Box::new(reader), ByteRecord::new());
        let width = names.len();
        let left: Vec<usize> =
            (0..width).filter(|&i| how.skip_columns.contains(&names[i])).collect();
        if let Some(unknown) = how.skip_columns.iter().find(|n| !names.contains(n)) {
            return Err(Failure::new(format!(
                "SKIPCOLS names {unknown}, which is no column of the file"
            )));
        }
        names.retain(|name| !how.skip_columns.contains(name));
        Ok((CopyCells { source, width, left }, names))
    }

    /// Reads the line number and cells of the next row; returns `false` at the end.
    pub fn next(
        &mut self,
        line: &mut u64,
        cells: &mut [Option<Vec<u8>>],
    ) -> Result<bool, CellTrouble> {
        match &mut self.source {
            CellSource::Csv(reader, record) => {
                let good = reader
                    .read_byte_record(record)
                    .map_err(|e| (e.position().map_or(0, csv::Position::line), e.to_string()))
                    .map_err(CellTrouble::End)?;
                *line = record.position().map_or(0, csv::Position::line);
                if good && record.len() != self.width {
                    return Err(CellTrouble::Row((
                        *line,
                        format!("{} cells, but {} columns", record.len(), self.width),
                    )));
                }
                let taken = record.iter().enumerate().filter(|(i, _)| !self.left.contains(i));
                for (cell, (_, text)) in cells.iter_mut().zip(taken) {
                    let cell = cell.get_or_insert_default();
                    cell.clear();
                    cell.extend_from_slice(text);
                }
                Ok(good)
            }
            CellSource::Named { reader, fields, names, left_out } => {
                let good = reader.next(fields).map_err(|t| match t {
                    RecordTrouble::Bad { line, why } => CellTrouble::End((line, why)),
                    RecordTrouble::Io(e) => CellTrouble::End((0, e.to_string())),
                })?;
                *line = fields.line;
                cells.fill(None);
                for (name, value) in fields.iter().filter(|_| good) {
                    // Two columns may differ in case only.
                    let same = names.iter().position(|n| n.as_bytes() == name);
                    match same.or_else(|| names.iter().position(|n| is_same_name(n, name))) {
                        Some(at) => cells[at] = Some(value.to_vec()),
                        None if left_out.contains(name) => {}
                        None => drop(left_out.insert(name.to_vec())),
                    }
                }
                Ok(good)
            }
        }
    }

    /// Returns the last row as a line of a file.
    pub fn row(&self, cells: &[Option<Vec<u8>>], null: &str) -> ByteRecord {
        match &self.source {
            CellSource::Csv(_, record) => record.clone(),
            CellSource::Named { .. } => {
                cells.iter().map(|cell| cell.as_deref().unwrap_or(null.as_bytes())).collect()
            }
        }
    }

    /// Reports whether cells of the last row are names of columns.
    pub fn is_head(&self, table: &CopyTable) -> bool {
        let is_name = |cell: &[u8]| {
            let names = || table.columns.iter().map(|c| c.name.as_bytes());
            names().any(|name| name.eq_ignore_ascii_case(cell.trim_ascii()))
        };
        match &self.source {
            CellSource::Csv(_, record) => !record.is_empty() && record.iter().all(is_name),
            CellSource::Named { .. } => false,
        }
    }

    /// Prints the names of fields without a column.
    pub fn note_left_out(&self) {
        if let CellSource::Named { left_out, .. } = &self.source
            && !left_out.is_empty()
        {
            let names: Vec<_> = left_out.iter().map(|name| String::from_utf8_lossy(name)).collect();
            eprintln!("fields without a column: {}", names.join(", "));
        }
    }
}
