//! `COPY`: rows out of a file into a table, and back.
//!
//! Invariants: a batch is written whole or not at all, batches in the order of the file; a cell
//! that can't be a value of its column is an error that names file and line, with all before its
//! batch written; what `COPY TO` writes, `COPY FROM` with the same options reads as the same bytes,
//! where no text is the one that stands for null; what `--json` prints, `COPY FROM` reads so, too.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use csv::{ByteRecord, QuoteStyle, ReaderBuilder, WriterBuilder};
use firn_cql::internals::values::{from_exported_json, from_plain, plain};
use firn_cql::{Bound, ColumnSpec, quote_if_needed};
use firn_tools::io::{self, Input, Stopwatch};
use firn_tools::output::{self, Done, Failure, Progress, things};
use firn_wide::Type;

use super::backend::{PageWish, PreparedStatement, ShellBackend, ShellRefusal};
use super::command::CommandWords;
use crate::fields::{FieldReader, Fields};
use crate::interrupt;
use crate::record::{Format, RecordTrouble};

/// Rows that are asked for at once.
const PAGE: usize = 1000;
/// The class of a refusal that is about the statement itself.
const REFUSED_AS_IT_IS: &str = "InvalidRequest";
/// A statement has no more bind markers.
const MARKERS: usize = 65_535;

/// A `COPY` command.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    keyspace: Option<String>,
    table: String,
    columns: Vec<String>,
    is_into_table: bool,
    /// `None`: standard input or output.
    file: Option<PathBuf>,
    how: CopyMode,
}

#[derive(Clone, Debug, PartialEq)]
struct CopyMode {
    header: bool,
    delimiter: u8,
    quote: u8,
    escape: Option<u8>,
    null: String,
    chunk: usize,
    skip: u64,
    max: u64,
    format: Format,
}

impl Default for CopyMode {
    fn default() -> CopyMode {
        CopyMode {
            header: false,
            delimiter: b',',
            quote: b'"',
            escape: None,
            null: String::new(),
            chunk: 100,
            skip: 0,
            max: u64::MAX,
            format: Format::Csv,
        }
    }
}

fn name(word: Option<(String, bool)>) -> Result<String, String> {
    match word {
        Some((word, true)) => Ok(word),
        Some((word, false)) if word.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Ok(word.to_ascii_lowercase())
        }
        Some((word, _)) => Err(format!("a name was expected, not '{word}'")),
        None => Err("a name was expected; COPY table (columns) FROM 'file' is the form".into()),
    }
}

impl CopyMode {
    fn set(&mut self, option: &str, value: &str) -> Result<(), String> {
        let sign = || match value.as_bytes() {
            [b'\\', b't'] => Ok(b'\t'),
            [one] => Ok(*one),
            _ => Err(format!("{option} is one character, not '{value}'")),
        };
        let number =
            || value.parse::<u64>().map_err(|_| format!("{option} is a number, not '{value}'"));
        match option {
            "HEADER" => {
                let known = [("true", true), ("yes", true), ("false", false), ("no", false)];
                let found = known.iter().find(|(w, _)| w.eq_ignore_ascii_case(value));
                self.header =
                    found.ok_or_else(|| format!("HEADER is true or false, not '{value}'"))?.1;
            }
            "DELIMITER" => self.delimiter = sign()?,
            "QUOTE" => self.quote = sign()?,
            "ESCAPE" => self.escape = Some(sign()?),
            "NULL" | "NULLVAL" => self.null = value.to_owned(),
            "CHUNKSIZE" => self.chunk = usize::try_from(number()?.clamp(1, 10_000)).unwrap_or(1),
            "SKIPROWS" => self.skip = number()?,
            "MAXROWS" => self.max = number()?,
            "FORMAT" => {
                let known = [
                    ("csv", Format::Csv),
                    ("tsv", Format::Tsv),
                    ("json", Format::Json),
                    ("deb822", Format::Deb822),
                ];
                let found = known.iter().find(|(w, _)| w.eq_ignore_ascii_case(value));
                self.format = found
                    .ok_or_else(|| format!("FORMAT is csv, tsv, json or deb822, not '{value}'"))?
                    .1;
            }
            _ => {
                let known =
                    "HEADER, DELIMITER, QUOTE, ESCAPE, NULL, CHUNKSIZE, SKIPROWS, MAXROWS, FORMAT";
                return Err(format!("there is no option {option}; there are {known}"));
            }
        }
        Ok(())
    }

    /// A text as the writer takes it.
    fn escaped<'t>(&self, text: &'t str) -> Cow<'t, [u8]> {
        match self.escape.map(char::from) {
            Some(escape) => {
                Cow::Owned(text.replace(escape, &format!("{escape}{escape}")).into_bytes())
            }
            None => Cow::Borrowed(text.as_bytes()),
        }
    }
}

impl Copy {
    /// The command whose words follow `COPY`.
    pub fn parse(words: &mut CommandWords<'_>) -> Result<Copy, String> {
        let (mut keyspace, mut table) = (None, name(words.next())?);
        if words.eat(".") {
            keyspace = Some(std::mem::replace(&mut table, name(words.next())?));
        }
        let mut columns = vec![];
        if words.eat("(") {
            loop {
                columns.push(name(words.next())?);
                match words.next() {
                    Some((w, false)) if w == "," => {}
                    Some((w, false)) if w == ")" => break,
                    _ => return Err("columns are (a, b, …)".into()),
                }
            }
        }
        let is_into_table = words.eat("FROM");
        if !is_into_table && !words.eat("TO") {
            return Err(
                "FROM or TO was expected; COPY table (columns) FROM 'file' is the form".into()
            );
        }
        let file = match words.next() {
            Some((file, true)) => Some(PathBuf::from(file)),
            Some((w, false))
                if w.eq_ignore_ascii_case(if is_into_table { "STDIN" } else { "STDOUT" }) =>
            {
                None
            }
            _ => return Err("the name of a file in quotes was expected, or STDIN or STDOUT".into()),
        };
        let mut how = CopyMode::default();
        if words.eat("WITH") {
            loop {
                let option = words.next().map(|w| w.0.to_ascii_uppercase()).unwrap_or_default();
                if !words.eat("=") {
                    return Err(format!("'=' was expected after {option}"));
                }
                how.set(&option, &words.next().ok_or_else(|| format!("{option} has no value"))?.0)?;
                if !words.eat("AND") {
                    break;
                }
            }
        }
        if !is_into_table && how.format != Format::Csv {
            return Err("COPY TO writes csv".into());
        }
        Ok(Copy { keyspace, table, columns, is_into_table, file, how })
    }

    /// The table and its columns, those of the key first.
    fn table<B: ShellBackend>(&self, backend: &mut B) -> Done<CopyTable> {
        let keyspace = self.keyspace.clone().or_else(|| backend.keyspace()).ok_or_else(|| {
            Failure::with_next(
                "no keyspace is chosen",
                "USE one, or name it: COPY keyspace.table …",
            )
        })?;
        let place = format!("{}.{}", quote_if_needed(&keyspace), quote_if_needed(&self.table));
        let all = backend.prepare(&format!("SELECT * FROM {place}")).map_err(failure)?;
        Ok(CopyTable { name: self.table.clone(), place, columns: all.columns().to_vec() })
    }

    /// Carries it out and says how it went.
    pub fn run<B: ShellBackend>(&self, backend: &mut B, out: &mut dyn Write) -> Done {
        let table = self.table(backend)?;
        if self.is_into_table {
            self.read(backend, &table)
        } else {
            self.write(backend, &table, out)
        }
    }

    fn write<B: ShellBackend>(
        &self,
        backend: &mut B,
        table: &CopyTable,
        out: &mut dyn Write,
    ) -> Done {
        let names = if self.columns.is_empty() { table.names() } else { self.columns.clone() };
        table.check(&names)?;
        let statement = format!("SELECT {} FROM {}", quoted(&names), table.place);
        let failed = |e: ShellRefusal| match e {
            ShellRefusal::Refused { .. } => Failure::new(format!("{statement}: {}", e.text())),
            other => failure(other),
        };
        let mut prepared = backend.prepare(&statement).map_err(failed)?;
        let types: Vec<Type> = prepared.columns().iter().map(|c| c.of.of.clone()).collect();
        let mut created;
        let sink: &mut dyn Write = match &self.file {
            Some(file) => {
                created = io::create(file).map_err(|e| Failure::file("write", file, &e))?;
                &mut created
            }
            None => out,
        };
        let mut builder = WriterBuilder::new();
        builder
            .delimiter(self.how.delimiter)
            .quote(self.how.quote)
            .quote_style(QuoteStyle::Necessary);
        if let Some(escape) = self.how.escape {
            // The writer escapes quotes only, and readers know escapes within quotes only.
            builder.double_quote(false).escape(escape).quote_style(QuoteStyle::Always);
        }
        let mut writer = builder.from_writer(sink);
        if self.how.header {
            writer.write_record(&names).map_err(csv_failure)?;
        }
        let (watch, progress) = (Stopwatch::start(), Progress::operations("copy", None));
        let (mut rows, mut like_null) = (0u64, 0u64);
        let mut wish = PageWish { rows: Some(PAGE), from: None };
        loop {
            let page = backend.run(&mut prepared, &[], &wish).map_err(failed)?;
            for row in page.iter() {
                for (i, of) in types.iter().enumerate() {
                    let text = row.bytes(i).map(|bytes| plain(of, bytes));
                    like_null += u64::from(text.as_ref() == Some(&self.how.null));
                    let text = text.as_ref().unwrap_or(&self.how.null);
                    writer.write_field(&*self.how.escaped(text)).map_err(csv_failure)?;
                }
                writer.write_record(None::<&[u8]>).map_err(csv_failure)?;
            }
            rows += page.len() as u64;
            progress.say(things(rows, "row", "rows"));
            wish.from = page.paging().cloned();
            if wish.from.is_none() {
                break;
            }
            if interrupt::is_set() {
                writer.flush()?;
                return Err(Failure::new(format!(
                    "it was stopped: {} are written",
                    things(rows, "row", "rows")
                )));
            }
        }
        writer.flush()?;
        drop(progress);
        if like_null > 0 {
            let values = things(like_null, "value is", "values are");
            eprintln!("warning: {values} written as null is; WITH NULL = '\\N' tells them apart");
        }
        self.report(rows, names.len(), watch.seconds());
        Ok(())
    }

    fn report(&self, rows: u64, columns: usize, seconds: f64) {
        let rate = |n: f64| output::rate(n / seconds.max(1e-9));
        let cells = rows as f64 * columns as f64;
        eprintln!(
            "copied {} in {seconds:.2} s, {} rows/s, {} cells/s",
            things(rows, "row", "rows"),
            rate(rows as f64),
            rate(cells)
        );
    }

    fn read<B: ShellBackend>(&self, backend: &mut B, table: &CopyTable) -> Done {
        let path = self.file.clone().unwrap_or_else(|| PathBuf::from("-"));
        let input = Input::open(&path).map_err(|e| Failure::file("read", &path, &e))?;
        let progress = Progress::bytes("copy", input.len);
        let read = input.counter();
        let (mut source, names) = CopyCells::open(self, &path, input, table)?;
        table.check(&names)?;
        let order = marker_order(table, &names);
        let mut target =
            CopyTarget::new(backend, table, &names, self.how.chunk).map_err(failure)?;
        let types: Vec<Type> = target.one.markers().iter().map(|m| m.of.of.clone()).collect();
        let watch = Stopwatch::start();
        let mut rows = CopyLoading { path: &path, progress, read, watch, target: &mut target };
        let (mut line, mut cells) = (0, vec![None; names.len()]);
        let mut skip = self.how.skip;
        let mut taken = 0;
        while taken < self.how.max
            && source.next(&mut line, &mut cells).map_err(|why| rows.stop(why))?
        {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            taken += 1;
            if interrupt::is_set() {
                rows.target.flush().map_err(|(line, why)| rows.stop((line, why)))?;
                return Err(rows.stop((line, "it was stopped here".to_owned())));
            }
            for (of, &i) in types.iter().zip(&order) {
                let bound = self.bound(of, cells[i].as_deref());
                rows.target.cells.push(
                    bound
                        .map_err(|why| rows.stop((line, format!("column {}: {why}", names[i]))))?,
                );
            }
            rows.add(line)?;
        }
        rows.target.flush().map_err(|(line, why)| rows.stop((line, why)))?;
        let seconds = rows.watch.seconds();
        drop(rows);
        source.tell_left_out();
        self.report(target.written, names.len(), seconds);
        Ok(())
    }

    /// What a cell binds. Nothing is known of a cell that is missing or stands for null: its column
    /// stays as it is.
    fn bound(&self, of: &Type, cell: Option<&[u8]>) -> Result<Bound, String> {
        let is_json = self.how.format == Format::Json;
        // JSON has its own null, and an empty text is one there.
        let stands_for_null =
            |c: &[u8]| c == self.how.null.as_bytes() && !(is_json && c.is_empty());
        let Some(cell) = cell.filter(|c| !stands_for_null(c)) else { return Ok(Bound::Unset) };
        let text = std::str::from_utf8(cell).map_err(|_| "the cell is not UTF-8".to_owned())?;
        // A text may hold a literal of CQL, as cells of other formats do.
        if is_json
            && of.has_parts()
            && let Ok(value) = serde_json::from_str(text)
        {
            match from_exported_json(of, value) {
                Ok(value) => return Ok(value),
                Err(why) => {
                    return from_plain(of, text).map(Bound::Bytes).map_err(|_| why.to_string());
                }
            }
        }
        from_plain(of, text).map(Bound::Bytes).map_err(|e| e.to_string())
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|n| quote_if_needed(n)).collect::<Vec<_>>().join(", ")
}

/// What the command says of a statement of its own that gave nothing.
fn failure(e: ShellRefusal) -> Failure {
    match e {
        ShellRefusal::Fatal(failure) => failure,
        other => Failure::new(other.text()),
    }
}

/// The table that is copied.
struct CopyTable {
    name: String,
    /// With its keyspace, as statements name it.
    place: String,
    columns: Vec<ColumnSpec>,
}

impl CopyTable {
    fn names(&self) -> Vec<String> {
        self.columns.iter().map(|c| c.name.clone()).collect()
    }

    fn column(&self, name: &str) -> Option<&ColumnSpec> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Whether all of these are columns.
    fn check(&self, names: &[String]) -> Done {
        match names.iter().find(|name| self.column(name).is_none()) {
            Some(name) => Err(Failure::new(format!("there is no column {name} in {}", self.name))),
            None => Ok(()),
        }
    }

    /// Whether rows are counted rather than written: a table has counters, or other columns.
    fn is_counter(&self) -> bool {
        self.columns.iter().any(|c| c.of.of.is_counter())
    }

    /// Whether a column of a table of counters is of the key.
    fn is_key(&self, name: &str) -> bool {
        self.column(name).is_some_and(|c| !c.of.of.is_counter())
    }
}

fn csv_failure(e: csv::Error) -> Failure {
    match e.into_kind() {
        csv::ErrorKind::Io(e) => e.into(),
        other => Failure::new(format!("cannot write csv: {other:?}")),
    }
}

/// What a line of the file is wrong with.
type BadRow = (u64, String);

/// The rows of a file, as cells in the order of the columns.
struct CopyCells {
    source: CellSource,
    width: usize,
}

enum CellSource {
    Csv(Box<csv::Reader<Input>>, ByteRecord),
    /// Fields by name: where each column's field is looked up, and which fields no column has.
    Named {
        reader: Box<FieldReader<Input>>,
        fields: Fields,
        names: Vec<String>,
        left_out: BTreeSet<Vec<u8>>,
    },
}

impl CopyCells {
    /// Opens the file; with the names of the columns that its cells are for.
    fn open(
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
            let source = CellSource::Named {
                reader: Box::new(reader),
                fields,
                names: names.clone(),
                left_out,
            };
            return Ok((CopyCells { source, width: names.len() }, names));
        }
        let mut builder = ReaderBuilder::new();
        builder.has_headers(how.header).flexible(true).delimiter(how.delimiter).quote(how.quote);
        builder.double_quote(how.escape.is_none()).escape(how.escape);
        let mut reader = builder.from_reader(input);
        if how.header && copy.columns.is_empty() {
            let head =
                reader.headers().map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
            names = head.iter().map(str::to_owned).collect();
            if let Some(unknown) = names.iter().find(|n| table.column(n).is_none()) {
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
        Ok((CopyCells { source, width: names.len() }, names))
    }

    /// The next row's line and cells; `false` at the end.
    fn next(&mut self, line: &mut u64, cells: &mut [Option<Vec<u8>>]) -> Result<bool, BadRow> {
        match &mut self.source {
            CellSource::Csv(reader, record) => {
                let good = reader
                    .read_byte_record(record)
                    .map_err(|e| (e.position().map_or(0, csv::Position::line), e.to_string()))?;
                *line = record.position().map_or(0, csv::Position::line);
                if good && record.len() != self.width {
                    return Err((
                        *line,
                        format!("{} cells, but {} columns", record.len(), self.width),
                    ));
                }
                for (cell, text) in cells.iter_mut().zip(record.iter()) {
                    let cell = cell.get_or_insert_default();
                    cell.clear();
                    cell.extend_from_slice(text);
                }
                Ok(good)
            }
            CellSource::Named { reader, fields, names, left_out } => {
                let good = reader.next(fields).map_err(|t| match t {
                    RecordTrouble::Bad { line, why } => (line, why),
                    RecordTrouble::Io(e) => (0, e.to_string()),
                })?;
                *line = fields.line;
                cells.fill(None);
                for (name, value) in fields.iter().filter(|_| good) {
                    // Two columns may differ in case only.
                    let same = names.iter().position(|n| n.as_bytes() == name);
                    match same.or_else(|| names.iter().position(|n| is_field(n, name))) {
                        Some(at) => cells[at] = Some(value.to_vec()),
                        None if left_out.contains(name) => {}
                        None => drop(left_out.insert(name.to_vec())),
                    }
                }
                Ok(good)
            }
        }
    }

    fn tell_left_out(&self) {
        if let CellSource::Named { left_out, .. } = &self.source
            && !left_out.is_empty()
        {
            let names: Vec<_> = left_out.iter().map(|name| String::from_utf8_lossy(name)).collect();
            eprintln!("fields without a column: {}", names.join(", "));
        }
    }
}

/// Whether a field is a column's: of the same name, where case and `-` for `_` make no difference.
fn is_field(column: &str, field: &[u8]) -> bool {
    let same =
        |(a, b): (u8, &u8)| a == *b || a == b.to_ascii_lowercase() || (a == b'_' && *b == b'-');
    column.len() == field.len() && column.bytes().zip(field).all(same)
}

/// Rows on their way into a table, in batches.
struct CopyTarget<'a, B: ShellBackend> {
    backend: &'a mut B,
    one: B::Prepared,
    batch: B::Prepared,
    chunk: usize,
    width: usize,
    cells: Vec<Bound>,
    lines: Vec<u64>,
    written: u64,
}

/// The columns in the order of the markers of the statement that writes a row: counters are before
/// the key.
fn marker_order(table: &CopyTable, names: &[String]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    if table.is_counter() {
        order.sort_by_key(|&i| table.is_key(&names[i]));
    }
    order
}

/// The statement that writes a row, and what opens a batch of such.
fn row_statement(table: &CopyTable, names: &[String]) -> (String, &'static str) {
    if !table.is_counter() {
        let markers = vec!["?"; names.len()].join(", ");
        return (
            format!("INSERT INTO {} ({}) VALUES ({markers})", table.place, quoted(names)),
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
    fn new<'a>(
        backend: &'a mut B,
        table: &CopyTable,
        names: &[String],
        chunk: usize,
    ) -> Result<CopyTarget<'a, B>, ShellRefusal> {
        let (statement, kind) = row_statement(table, names);
        let chunk = chunk.min(MARKERS / names.len().max(1)).max(1);
        let one = backend.prepare(&statement)?;
        let batch = backend.prepare(&format!(
            "BEGIN {kind} BATCH {} APPLY BATCH",
            format!("{statement}; ").repeat(chunk)
        ))?;
        let (cells, lines) = (vec![], vec![]);
        Ok(CopyTarget { backend, one, batch, chunk, width: names.len(), cells, lines, written: 0 })
    }

    /// Writes what is waiting. Of a batch that is refused, rows are written one by one up to the
    /// one to blame.
    fn flush(&mut self) -> Result<(), BadRow> {
        let (cells, lines) = (std::mem::take(&mut self.cells), std::mem::take(&mut self.lines));
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
        for (row, line) in cells.chunks_exact(self.width).zip(lines) {
            self.backend.run(&mut self.one, row, &whole).map_err(|e| (line, e.text()))?;
            self.written += 1;
        }
        Ok(())
    }
}

/// A file that is being read into a table.
struct CopyLoading<'a, 'b, B: ShellBackend> {
    path: &'a Path,
    progress: Progress,
    read: Rc<Cell<u64>>,
    watch: Stopwatch,
    target: &'a mut CopyTarget<'b, B>,
}

impl<B: ShellBackend> CopyLoading<'_, '_, B> {
    /// A row is complete.
    fn add(&mut self, line: u64) -> Done {
        self.target.lines.push(line);
        if self.target.lines.len() < self.target.chunk {
            return Ok(());
        }
        self.target.flush().map_err(|why| self.stop(why))?;
        self.progress.at(self.read.get());
        let rate = self.target.written as f64 / self.watch.seconds().max(1e-9);
        self.progress.say(format!(
            "{} at {}/s",
            things(self.target.written, "row", "rows"),
            output::rate(rate)
        ));
        Ok(())
    }

    /// A bad line ends it.
    fn stop(&self, (line, why): BadRow) -> Failure {
        let written = things(self.target.written, "row is", "rows are");
        let next = format!(
            "{written} written; correct the line and copy the file again, or go on behind it WITH SKIPROWS"
        );
        Failure::with_next(format!("{}:{line}: {why}", self.path.display()), next)
    }
}
