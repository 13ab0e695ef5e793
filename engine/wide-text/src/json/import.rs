//! Imports column families from JSON, in any mix of the article's notations.
//!
//! ```text
//! document     ::= "{" families "}" | families          families ::= (name ":" "{" rows "}")*
//! row          ::= key ":" "{" (column | super_column | deletion)* "}" | key ":" "[" listed* "]"
//! column       ::= name ":" scalar | name ":" "{" attribute* "}"
//! super_column ::= name ":" "{" (column | deletion)* "}" | name ":" "{" name: …, value: "{" (column | deletion)* "}" "}"
//! deletion     ::= "" ":" "{" timestamp: …, deleted: … "}"
//! listed       ::= "{" name: …, attribute* "}" | "{" name: …, value: "{" (column | deletion)* "}" "}"
//! attribute    ::= name, value, timestamp, ttl, expires, deleted, counter
//! ```
//! A super column is in the full form if its `value` is an object. A colon may be omitted before an
//! object. Columns may also come alone, for a row that is named elsewhere ([`ImportOptions::row`]):
//! as members, as `listed`, or as a list of those.

use std::io::Read;

use firn_wide::internals::api::{Chunks, Counts};
use firn_wide::internals::base::error::invalid;
use firn_wide::{Error, Keyspace};

use super::JsonFailure;
use super::lex::{JsonLexer, Word};
use super::reading::{CLOSE, Import, ImportOptions, JsonAttributes, JsonRow, LIST, LIST_END, OPEN};
use super::report::{ImportDefaults, ImportReport, SeenNames};

/// Imports a document into existing column families of a keyspace. After each row, `watch` receives
/// the bytes read and the counts written.
///
/// # Errors
/// Errors of the document, with the line; refusals of the column families; errors of the store.
/// Chunks before the error are written.
pub fn import<R: Read>(
    keyspace: &Keyspace,
    source: R,
    options: &ImportOptions,
    watch: &mut dyn FnMut(u64, Counts),
) -> Result<ImportReport, JsonFailure> {
    let mut import = Import {
        lexer: JsonLexer::new(source),
        keyspace,
        options,
        times: ImportDefaults::new(keyspace.wide().timestamp()),
        watch,
        report: ImportReport::default(),
        replaced: 0,
    };
    match &options.row {
        Some(key) => import.columns_alone(key)?,
        None => import.document()?,
    }
    import.report.counts.columns -= import.replaced;
    Ok(import.report)
}

impl<R: Read> Import<'_, R> {
    fn document(&mut self) -> Result<(), JsonFailure> {
        let end = if self.lexer.peek()? == OPEN {
            self.lexer.next()?;
            CLOSE
        } else {
            Word::End
        };
        let mut first = true;
        while self.member(end, &mut first)? {
            let named = self.lexer.text().to_owned();
            let family = self.options.family.clone().unwrap_or(named);
            let mut chunks = self.chunks(&family).map_err(|e| self.lexer.wrong(e.to_string()))?;
            self.expect_colon()?;
            self.rows(&mut chunks)?;
            chunks.flush()?;
            self.report.counts += chunks.counts();
        }
        if end == CLOSE && self.lexer.next()? != Word::End {
            return Err(self.lexer.wrong("something follows the document"));
        }
        Ok(())
    }

    fn chunks(&self, family: &str) -> Result<Chunks, Error> {
        Chunks::new(self.keyspace, family, self.options.chunk, self.options.durability)
    }

    /// Imports a document that consists of columns of the row of this key.
    fn columns_alone(&mut self, key: &str) -> Result<(), JsonFailure> {
        let Some(family) = &self.options.family else {
            return Err(invalid("columns of a row need the name of their family").into());
        };
        let mut chunks = self.chunks(family)?;
        let mut bytes = vec![];
        let of = chunks.family().key_validator();
        let read = self.times.read(of, key, &mut self.report, &mut bytes);
        read.map_err(|e| invalid(format!("key: {e}")))?;
        chunks.row(&bytes)?;
        let timestamp = self.options.timestamp.unwrap_or_else(|| chunks.timestamp());
        let mut row = JsonRow::new(&mut chunks, timestamp);
        match self.lexer.peek()? {
            OPEN => self.listed(&mut row, Word::End)?,
            LIST => {
                self.lexer.next()?;
                self.listed(&mut row, LIST_END)?;
                if self.lexer.next()? != Word::End {
                    return Err(self.lexer.wrong("something follows the list"));
                }
            }
            _ => self.columns(&mut row, Word::End)?,
        }
        chunks.flush()?;
        self.report.counts += chunks.counts();
        (self.watch)(self.lexer.read(), self.report.counts);
        Ok(())
    }

    fn rows(&mut self, chunks: &mut Chunks) -> Result<(), JsonFailure> {
        self.expect_open("a family")?;
        let mut first = true;
        let (mut key, mut keys) = (vec![], SeenNames::default());
        while self.member(CLOSE, &mut first)? {
            key.clear();
            let of = chunks.family().key_validator();
            self.times
                .read(of, self.lexer.text(), &mut self.report, &mut key)
                .map_err(|e| self.lexer.wrong(format!("key: {e}")))?;
            let repeats = self.repeats_row(chunks, &mut keys, &key);
            chunks.row(&key).map_err(|e| self.refused(e))?;
            self.expect_colon()?;
            let timestamp = self.options.timestamp.unwrap_or_else(|| chunks.timestamp());
            let mut row = JsonRow::new(chunks, timestamp.saturating_add(repeats));
            match self.lexer.next()? {
                OPEN => self.columns(&mut row, CLOSE)?,
                LIST => self.listed(&mut row, LIST_END)?,
                _ => {
                    return Err(self
                        .lexer
                        .wrong("a row is an object: { … }, or a list of columns: [ … ]"));
                }
            }
            (self.watch)(self.lexer.read(), self.report.counts + chunks.counts());
        }
        Ok(())
    }

    /// Reads the members of a row or of a super column, up to its end.
    fn columns(&mut self, row: &mut JsonRow<'_>, end: Word) -> Result<(), JsonFailure> {
        let mut first = true;
        while self.member(end, &mut first)? {
            self.member_of_row(row)?;
        }
        Ok(())
    }

    /// Reads columns or super columns with their names inside, up to the end.
    fn listed(&mut self, row: &mut JsonRow<'_>, end: Word) -> Result<(), JsonFailure> {
        let mut first = true;
        loop {
            let mut word = self.lexer.next()?;
            if word == Word::Sign(b',') && !first {
                word = self.lexer.next()?;
            }
            first = false;
            if word == end {
                return Ok(());
            }
            let mut nothing_yet = true;
            if word != OPEN || !self.member(CLOSE, &mut nothing_yet)? || self.lexer.text() != "name"
            {
                return Err(self
                    .lexer
                    .wrong("a column that has no name before it is an object that begins with its name: {name: …, …}"));
            }
            self.expect_colon()?;
            if self.lexer.next()? != Word::Text {
                return Err(self.lexer.wrong("here should be a name"));
            }
            self.listed_one(row)?;
        }
    }

    /// Reads a column or super column after its name, which is the lexer's text.
    fn listed_one(&mut self, row: &mut JsonRow<'_>) -> Result<(), JsonFailure> {
        let family = row.chunks.family();
        let is_super = family.is_super();
        let of = if is_super { family.comparator() } else { family.cell_comparator() };
        let mut name = vec![];
        let read = self.read_name(of, row.super_column.as_deref(), &mut row.words, &mut name);
        read.map_err(|e| self.lexer.wrong(format!("name: {e}")))?;
        if !is_super {
            row.name = name;
            let attributes = self.attributes(Some(row), false)?;
            return self.put(row, attributes);
        }
        row.super_column = Some(name);
        let mut first = false;
        if !self.member(CLOSE, &mut first)? || self.lexer.text() != "value" {
            return Err(self
                .lexer
                .wrong("a super column has a name and a value, and nothing else"));
        }
        self.expect_colon()?;
        self.expect_open("the value of a super column")?;
        self.full_super_column(row, None)?;
        row.super_column = None;
        Ok(())
    }

    fn member_of_row(&mut self, row: &mut JsonRow<'_>) -> Result<(), JsonFailure> {
        if self.lexer.text().is_empty() {
            self.expect_colon()?;
            return self.deletion(row);
        }
        let family = row.chunks.family();
        let opens = family.is_super() && row.super_column.is_none();
        let of = if opens { family.comparator() } else { family.cell_comparator() };
        let mut name = std::mem::take(&mut row.name);
        name.clear();
        let read = self.read_name(of, row.super_column.as_deref(), &mut row.words, &mut name);
        read.map_err(|e| self.lexer.wrong(format!("name: {e}")))?;
        self.expect_colon()?;
        if opens {
            row.super_column = Some(name);
            self.super_column(row)?;
            row.name = row.super_column.take().unwrap_or_default();
            return Ok(());
        }
        row.name = name;
        self.column(row)
    }

    fn column(&mut self, row: &mut JsonRow<'_>) -> Result<(), JsonFailure> {
        let attributes = match self.lexer.next()? {
            Word::Text => {
                JsonAttributes { value: Some(self.value(row)?), ..JsonAttributes::default() }
            }
            OPEN => self.attributes(Some(row), true)?,
            _ => return Err(self.lexer.wrong("here should be a value, or an object with a value")),
        };
        self.put(row, attributes)
    }

    fn super_column(&mut self, row: &mut JsonRow<'_>) -> Result<(), JsonFailure> {
        self.expect_open("a super column")?;
        // Until it is clear whether `name` is a column or the super column's own.
        let mut held: Option<String> = None;
        let (mut first, mut begun) = (true, false);
        while self.member(CLOSE, &mut first)? {
            let (is_name, is_value) = (self.lexer.text() == "name", self.lexer.text() == "value");
            if begun || !(is_value || (is_name && held.is_none())) {
                self.release(row, &mut held)?;
                begun = true;
                self.member_of_row(row)?;
                continue;
            }
            self.expect_colon()?;
            match (self.lexer.peek()?, is_value) {
                (Word::Text, false) => {
                    self.lexer.next()?;
                    held = Some(self.lexer.text().to_owned());
                }
                (OPEN, true) => {
                    self.lexer.next()?;
                    return self.full_super_column(row, held);
                }
                _ => {
                    self.release(row, &mut held)?;
                    begun = true;
                    self.name_column(row, if is_value { "value" } else { "name" })?;
                    self.column(row)?;
                }
            }
        }
        self.release(row, &mut held)
    }

    /// Reads the contents after `value: {`.
    fn full_super_column(
        &mut self,
        row: &mut JsonRow<'_>,
        mut name: Option<String>,
    ) -> Result<(), JsonFailure> {
        self.columns(row, CLOSE)?;
        let mut first = false;
        while self.member(CLOSE, &mut first)? {
            let again = self.lexer.text() == "name" && name.is_none();
            self.expect_colon()?;
            if !again || self.lexer.next()? != Word::Text {
                return Err(self
                    .lexer
                    .wrong("a super column has a name and a value, and nothing else"));
            }
            name = Some(self.lexer.text().to_owned());
        }
        match (&name, &row.super_column) {
            (Some(written), Some(expected)) => {
                self.same_name(row.chunks.family().comparator(), written, expected)
            }
            _ => Ok(()),
        }
    }

    /// Writes the postponed column `name`.
    fn release(
        &mut self,
        row: &mut JsonRow<'_>,
        held: &mut Option<String>,
    ) -> Result<(), JsonFailure> {
        let Some(written) = held.take() else { return Ok(()) };
        self.name_column(row, "name")?;
        let mut value = vec![];
        let of = row.chunks.family().validator(&row.name);
        let read = self.times.read(of, &written, &mut self.report, &mut value);
        read.map_err(|e| self.lexer.wrong(format!("value: {e}")))?;
        self.put(row, JsonAttributes { value: Some(value), ..JsonAttributes::default() })
    }
}
