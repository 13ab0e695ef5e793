//! `COPY`: imports rows from a file into a table, and exports them.
//!
//! Invariants:
//! - A batch is written atomically. Batches are written in the order of the file.
//! - A cell that is not a value of its column is an error that names file and line. Everything
//!   before its batch has been written.
//! - `COPY FROM` with the same options reads the output of `COPY TO` as the same bytes. Exceptions
//!   are texts equal to the null text, and options that drop digits.
//! - `COPY FROM` also reads the output of `--json` in this way.

mod cells;
mod mode;
mod parts;
mod read;
mod refused;
mod table;
mod target;
mod values;
mod write;

use std::io::Write;
use std::path::PathBuf;

use firn_cql::quote_if_needed;
use firn_tools::output::{self, Done, Failure, things};

use super::backend::{PreparedStatement, ShellBackend};
use super::command_words::CommandWords;
use mode::CopyMode;
use parts::failure;
use table::CopyTable;

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

fn name(word: Option<(String, bool)>) -> Result<String, String> {
    match word {
        Some((word, true)) => Ok(word),
        Some((word, false)) if word.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Ok(word.to_ascii_lowercase())
        }
        Some((word, _)) => Err(format!("expected a name, not '{word}'")),
        None => Err("expected a name, as in COPY table (columns) FROM 'file'".into()),
    }
}

impl Copy {
    /// Parses the words after `COPY`.
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
            return Err("expected FROM or TO, as in COPY table (columns) FROM 'file'".into());
        }
        let file = match words.next() {
            Some((file, true)) => Some(PathBuf::from(file)),
            Some((w, false))
                if w.eq_ignore_ascii_case(if is_into_table { "STDIN" } else { "STDOUT" }) =>
            {
                None
            }
            _ => return Err("expected the name of a file in quotes, or STDIN or STDOUT".into()),
        };
        let mut how = CopyMode::default();
        if words.eat("WITH") {
            loop {
                let option = words.next().map(|w| w.0.to_ascii_uppercase()).unwrap_or_default();
                if !words.eat("=") {
                    return Err(format!("'=' was expected after {option}"));
                }
                let value = words.next().ok_or_else(|| format!("{option} has no value"))?.0;
                how.set(&option, &value, is_into_table)?;
                if !words.eat("AND") {
                    break;
                }
            }
        }
        how.values.check()?;
        if file.is_none() && how.max_lines.is_some() {
            return Err("MAXOUTPUTSIZE works only with files, not with STDOUT".into());
        }
        Ok(Copy { keyspace, table, columns, is_into_table, file, how })
    }

    /// Returns the table and its columns, those of the key first.
    fn table<B: ShellBackend>(&self, backend: &mut B) -> Done<CopyTable> {
        let keyspace = self.keyspace.clone().or_else(|| backend.keyspace()).ok_or_else(|| {
            Failure::with_next(
                "no keyspace is chosen",
                "USE one, or name it: COPY keyspace.table …",
            )
        })?;
        let place = format!("{}.{}", quote_if_needed(&keyspace), quote_if_needed(&self.table));
        let all = backend.prepare(&format!("SELECT * FROM {place}")).map_err(failure)?;
        let columns = all.columns().to_vec();
        Ok(CopyTable { keyspace, name: self.table.clone(), place, columns })
    }

    /// Runs the command and reports its result.
    pub fn run<B: ShellBackend>(&self, backend: &mut B, out: &mut dyn Write) -> Done {
        let table = self.table(backend)?;
        if self.is_into_table {
            self.read(backend, &table)
        } else {
            self.write(backend, &table, out)
        }
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
}
