//! Rows that `COPY FROM` refused: their limits and their file.

use std::io::Write;
use std::path::{Path, PathBuf};

use csv::{ByteRecord, Writer, WriterBuilder};
use firn_tools::io;
use firn_tools::output::{Done, Failure, things};

use super::mode::CopyMode;
use super::parts::BadRow;

/// Maximum number of printed refusals.
const SHOWN: u64 = 10;
/// Default limit of rows that the database refuses, as in cqlsh.
const INSERT_ERRORS: u64 = 1000;

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// A cell is not a value of its column.
    Parse,
    /// The database refused the row.
    Insert,
}

/// Refused rows of a file.
pub struct RefusedRows<'a> {
    mode: &'a CopyMode,
    source: &'a Path,
    path: PathBuf,
    writer: Option<Writer<Box<dyn Write>>>,
    counts: [u64; 2],
}

impl<'a> RefusedRows<'a> {
    /// Creates the collection for the file `source`, whose rows go to this table.
    ///
    /// # Errors
    /// The file of the refused rows exists already.
    pub fn new(mode: &'a CopyMode, source: &'a Path, place: &str) -> Done<RefusedRows<'a>> {
        let usual = || PathBuf::from(format!("import_{}.err", place.replace(['.', '"'], "_")));
        let path = mode.refusals.file.clone().unwrap_or_else(usual);
        if mode.refusals.is_tolerant() && io::is_taken(&path) {
            return Err(Failure::with_next(
                format!("{} exists already: refused rows go to a new file", path.display()),
                "name another file WITH ERRFILE, or remove this one",
            ));
        }
        Ok(RefusedRows { mode, source, path, writer: None, counts: [0; 2] })
    }

    /// Adds a refused row.
    ///
    /// # Errors
    /// A limit is exceeded, or the row cannot be written.
    pub fn take(
        &mut self,
        kind: RefusalKind,
        (line, why): BadRow,
        row: &ByteRecord,
    ) -> Result<(), BadRow> {
        let limits = &self.mode.refusals;
        if !limits.is_tolerant() {
            return Err((line, why));
        }
        let (limit, option) = match kind {
            RefusalKind::Parse => (limits.parse.unwrap_or(None), "MAXPARSEERRORS"),
            RefusalKind::Insert => {
                (limits.insert.unwrap_or(Some(INSERT_ERRORS)), "MAXINSERTERRORS")
            }
        };
        let all: u64 = self.counts.iter().sum();
        let count = &mut self.counts[usize::from(kind == RefusalKind::Insert)];
        *count += 1;
        if limit.is_some_and(|limit| *count > limit) {
            return Err((line, format!("{why}; the number of refused rows exceeds {option}")));
        }
        if all < SHOWN {
            eprintln!("{}:{line}: {why}", self.source.display());
        }
        self.write(row).map_err(|e| (line, format!("cannot write {}: {e}", self.path.display())))
    }

    fn write(&mut self, row: &ByteRecord) -> csv::Result<()> {
        if self.writer.is_none() {
            let file: Box<dyn Write> = Box::new(io::create(&self.path)?);
            let mut builder = WriterBuilder::new();
            builder.delimiter(self.mode.delimiter).quote(self.mode.quote).flexible(true);
            if let Some(escape) = self.mode.escape {
                builder.double_quote(false).escape(escape);
            }
            self.writer = Some(builder.from_writer(file));
        }
        match &mut self.writer {
            Some(writer) => writer.write_byte_record(row),
            None => Ok(()),
        }
    }

    /// Completes the file, and fails if any row was refused.
    pub fn finish(self) -> Done {
        let refused: u64 = self.counts.iter().sum();
        if let Some(mut writer) = self.writer {
            writer.flush()?;
        }
        if refused == 0 {
            return Ok(());
        }
        let (rows, path) = (things(refused, "row was", "rows were"), self.path.display());
        Err(Failure::with_next(
            format!("{rows} refused, and written to {path}"),
            format!("correct {path} and copy it with the same options, without a header"),
        ))
    }
}
