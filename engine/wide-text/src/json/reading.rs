//! Common parts of the importers: members, texts of names and values, and attributes of columns.

use std::io::Read;

use firn_kv::Durability;
use firn_wide::internals::api::{Chunks, Counts};
use firn_wide::internals::cell::{Cell, CellDeletion, CellState};
use firn_wide::{Error, Keyspace, Type, TypeError};

use super::JsonFailure;
use super::lex::{JsonLexer, Word};
use super::report::{ImportDefaults, ImportReport, SeenNames};
use crate::text;

/// Options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Imports all rows into this column family, regardless of the family in the document.
    pub family: Option<String>,
    /// The document has columns of this row of [`family`](ImportOptions::family), which must be set
    /// then; a text of the key's type.
    pub row: Option<String>,
    /// Timestamp of columns without one; `None`: a new one for each row.
    pub timestamp: Option<i64>,
    /// Columns in an atomic chunk.
    pub chunk: usize,
    /// Durability of each chunk.
    pub durability: Durability,
}

impl Default for ImportOptions {
    fn default() -> Self {
        ImportOptions {
            family: None,
            row: None,
            timestamp: None,
            chunk: 10_000,
            durability: Durability::Process,
        }
    }
}

/// A document being imported.
pub struct Import<'a, R: Read> {
    pub lexer: JsonLexer<R>,
    pub keyspace: &'a Keyspace,
    pub options: &'a ImportOptions,
    pub times: ImportDefaults,
    pub watch: &'a mut dyn FnMut(u64, Counts),
    pub report: ImportReport,
    /// Number of columns replaced by later ones of the same name.
    pub replaced: u64,
}

/// A row being imported.
pub struct JsonRow<'a> {
    pub chunks: &'a mut Chunks,
    /// Timestamp of columns without one.
    pub timestamp: i64,
    pub super_column: Option<Vec<u8>>,
    pub name: Vec<u8>,
    /// Names of the columns so far, each with its super column as prefix.
    pub seen: SeenNames,
    /// Words that stand for UUIDs so far, in the same form.
    pub words: SeenNames,
}

impl<'a> JsonRow<'a> {
    /// Creates an empty row.
    pub fn new(chunks: &'a mut Chunks, timestamp: i64) -> JsonRow<'a> {
        let (seen, words) = (SeenNames::default(), SeenNames::default());
        JsonRow { chunks, timestamp, super_column: None, name: vec![], seen, words }
    }
}

/// Attributes of a column or a deletion.
#[derive(Default)]
pub struct JsonAttributes {
    pub value: Option<Vec<u8>>,
    pub timestamp: Option<i64>,
    pub ttl: Option<i64>,
    pub expires: Option<i64>,
    pub deleted: Option<i64>,
    pub counter: Option<i64>,
}

pub const OPEN: Word = Word::Sign(b'{');
pub const CLOSE: Word = Word::Sign(b'}');
pub const LIST: Word = Word::Sign(b'[');
pub const LIST_END: Word = Word::Sign(b']');

impl<R: Read> Import<'_, R> {
    /// Advances to the next member of an object: its name is the lexer's text. Returns false at the
    /// end.
    pub fn member(&mut self, end: Word, first: &mut bool) -> Result<bool, JsonFailure> {
        let mut word = self.lexer.next()?;
        if word == Word::Sign(b',') && !*first {
            word = self.lexer.next()?;
        } else if word == Word::Text && !*first && !self.lexer.after_line_end() {
            return Err(self
                .lexer
                .wrong(format!("a comma is missing before {:?}", shortened(self.lexer.text()))));
        }
        *first = false;
        match word {
            w if w == end => Ok(false),
            Word::Text => Ok(true),
            Word::End => Err(self.lexer.wrong("the text ends before everything is closed with }")),
            Word::Sign(c) => {
                Err(self.lexer.wrong(format!("here should be a name, not {:?}", char::from(c))))
            }
        }
    }

    /// Reads the colon after a name, which may be omitted before an object.
    pub fn expect_colon(&mut self) -> Result<(), JsonFailure> {
        match self.lexer.peek()? {
            Word::Sign(b':') => self.lexer.next().map(drop),
            OPEN => Ok(()),
            _ => Err(self.lexer.wrong("a colon is missing")),
        }
    }

    pub fn expect_open(&mut self, what: &str) -> Result<(), JsonFailure> {
        match self.lexer.next()? {
            OPEN => Ok(()),
            _ => Err(self.lexer.wrong(format!("{what} is an object: {{ … }}"))),
        }
    }

    /// Returns the number of earlier rows with this key, and reports a repetition.
    pub fn repeats_row(&mut self, chunks: &Chunks, keys: &mut SeenNames, key: &[u8]) -> i64 {
        let line = self.lexer.line();
        let Some(before) = keys.add(key, line) else { return 0 };
        let shown = text::show(chunks.family().key_validator(), key).text.into_owned();
        self.report.repeats(format!(
            "line {line}: the row {shown:?} stands twice (first in line {}): its columns are put together, and of two with one name \
             the later one counts",
            before.line
        ));
        before.times
    }

    /// Appends the name of the lexer's text. A word that has already been used as a name in this
    /// row, or in this super column, stands for another UUID.
    pub fn read_name(
        &mut self,
        of: &Type,
        super_column: Option<&[u8]>,
        words: &mut SeenNames,
        out: &mut Vec<u8>,
    ) -> Result<(), TypeError> {
        let (written, line) = (self.lexer.text(), self.lexer.line());
        if self.times.stands(of, written) {
            let place = [super_column.unwrap_or_default(), &[0], written.as_bytes()].concat();
            if let Some(before) = words.add(&place, line) {
                self.report.repeats(format!(
                    "line {line}: the word {written} stands twice in one row (first in line {}): here it stands for another new UUID",
                    before.line
                ));
                out.extend(self.times.another(written, &mut self.report));
                return Ok(());
            }
        }
        self.times.read(of, written, &mut self.report, out)
    }

    /// Returns the number of earlier columns of the row with the current name, and reports a
    /// repetition.
    pub fn repeats_name(&mut self, row: &mut JsonRow<'_>) -> i64 {
        let super_column = row.super_column.as_deref().unwrap_or_default();
        let length = (super_column.len() as u64).to_be_bytes();
        let place = [&length[..], super_column, &row.name].concat();
        let line = self.lexer.line();
        let Some(before) = row.seen.add(&place, line) else { return 0 };
        let family = row.chunks.family();
        let shown = text::show_name(family.cell_comparator(), &row.name).into_owned();
        let (outcome, replaced) = match family.is_counter() {
            true => ("both are added", 0),
            false => ("the later value counts", 1),
        };
        self.replaced += replaced;
        self.report.repeats(format!(
            "line {line}: the name {shown:?} stands twice in one row (first in line {}): {outcome}",
            before.line
        ));
        before.times
    }

    /// Adds the line to a refusal of the store; failures of the store itself are unchanged.
    pub fn refused(&self, e: Error) -> JsonFailure {
        match e {
            Error::InvalidRequest(why) => self.lexer.wrong(why),
            other => other.into(),
        }
    }

    /// Returns the value of the lexer's text for the row's column.
    pub fn value(&mut self, row: &JsonRow<'_>) -> Result<Vec<u8>, JsonFailure> {
        let mut value = vec![];
        let of = row.chunks.family().validator(&row.name);
        let read = self.times.read(of, self.lexer.text(), &mut self.report, &mut value);
        read.map_err(|e| self.lexer.wrong(format!("value: {e}")))?;
        Ok(value)
    }

    pub fn number(&mut self) -> Result<i64, JsonFailure> {
        if self.lexer.next()? != Word::Text {
            return Err(self.lexer.wrong("here should be a number"));
        }
        let text = self.lexer.text();
        text.parse().map_err(|_| {
            self.lexer.wrong(format!("here should be a whole number, not {:?}", shortened(text)))
        })
    }

    /// Reads the attributes of a column, or of a deletion (no row); `first`: only the opening
    /// bracket was read.
    pub fn attributes(
        &mut self,
        row: Option<&JsonRow<'_>>,
        mut first: bool,
    ) -> Result<JsonAttributes, JsonFailure> {
        let mut all = JsonAttributes::default();
        while self.member(CLOSE, &mut first)? {
            let attribute = self.lexer.text().to_owned();
            let known = ["timestamp", "deleted", "name", "value", "ttl", "expires", "counter"];
            let allowed = if row.is_some() { &known[..] } else { &known[..2] };
            if !allowed.contains(&&*attribute) {
                let (what, names) =
                    (if row.is_some() { "column" } else { "deletion" }, allowed.join(", "));
                return Err(self
                    .lexer
                    .wrong(format!("a {what} has no {:?}: only {names}", shortened(&attribute))));
            }
            self.expect_colon()?;
            match (&*attribute, row) {
                ("timestamp", _) => all.timestamp = Some(self.number()?),
                ("deleted", _) => all.deleted = Some(self.number()?),
                ("ttl", Some(_)) => all.ttl = Some(self.number()?),
                ("expires", Some(_)) => all.expires = Some(self.number()?),
                ("counter", Some(_)) => all.counter = Some(self.number()?),
                ("name", Some(row)) => self.check_name(row)?,
                ("value", Some(row)) => match self.lexer.next()? {
                    Word::Text => all.value = Some(self.value(row)?),
                    _ => return Err(self.lexer.wrong("a column's value is a text or a number")),
                },
                _ => {}
            }
        }
        Ok(all)
    }

    /// Checks that the name within an object equals the name before it.
    pub fn check_name(&mut self, row: &JsonRow<'_>) -> Result<(), JsonFailure> {
        if self.lexer.next()? != Word::Text {
            return Err(self.lexer.wrong("here should be a name"));
        }
        let written = self.lexer.text().to_owned();
        self.same_name(row.chunks.family().cell_comparator(), &written, &row.name)
    }

    pub fn same_name(
        &mut self,
        of: &Type,
        written: &str,
        expected: &[u8],
    ) -> Result<(), JsonFailure> {
        let mut name = vec![];
        let read = self.times.read(of, written, &mut self.report, &mut name);
        read.map_err(|e| self.lexer.wrong(format!("name: {e}")))?;
        if name == expected {
            Ok(())
        } else {
            Err(self.lexer.wrong("the name is another than the one before the colon"))
        }
    }

    pub fn name_column(&mut self, row: &mut JsonRow<'_>, name: &str) -> Result<(), JsonFailure> {
        row.name.clear();
        let of = row.chunks.family().cell_comparator();
        self.times
            .read(of, name, &mut self.report, &mut row.name)
            .map_err(|e| self.lexer.wrong(format!("name: {e}")))
    }

    pub fn put(&mut self, row: &mut JsonRow<'_>, a: JsonAttributes) -> Result<(), JsonFailure> {
        // Columns with explicit timestamps may have one name: the newest wins, as in a store.
        let timestamp = match a.timestamp {
            Some(timestamp) => timestamp,
            None => row.timestamp.saturating_add(self.repeats_name(row)),
        };
        let counts = row.chunks.family().is_counter();
        let state = match (&a.value, a.ttl, a.expires, a.deleted, a.counter) {
            (None, None, None, Some(deleted), None) => CellState::Tombstone { deleted },
            (None, None, None, None, Some(n)) => CellState::Counter(n),
            // The bytes of a counter are its number.
            (Some(value), None, None, None, None) if counts => {
                let n = value.as_slice().try_into().map(i64::from_be_bytes);
                CellState::Counter(n.map_err(|_| self.lexer.wrong("a counter is a whole number"))?)
            }
            // Without a timestamp it is written now, as by any other client.
            (Some(value), None, None, None, None) if a.timestamp.is_none() => {
                row.chunks.state_by_default(value)
            }
            (Some(value), None, None, None, None) => CellState::Live(value),
            // As in a client's write: no TTL, not even the column family's default.
            (Some(value), Some(0), None, None, None) => CellState::Live(value),
            (Some(value), Some(ttl), expires, None, None) => {
                let ttl =
                    u32::try_from(ttl).map_err(|_| self.lexer.wrong("ttl is out of range"))?;
                let expires =
                    expires.unwrap_or_else(|| row.chunks.now().saturating_add(i64::from(ttl)));
                CellState::Expiring { value, ttl, expires }
            }
            _ => {
                let why =
                    "a column has a value (and may have ttl and expires), or deleted, or a counter";
                return Err(self.lexer.wrong(why));
            }
        };
        let cell = Cell { timestamp, state };
        row.chunks.cell(row.super_column.as_deref(), &row.name, cell).map_err(|e| self.refused(e))
    }

    pub fn deletion(&mut self, row: &mut JsonRow<'_>) -> Result<(), JsonFailure> {
        self.expect_open("a deletion")?;
        let a = self.attributes(None, true)?;
        let (Some(timestamp), Some(local)) = (a.timestamp, a.deleted) else {
            return Err(self
                .lexer
                .wrong("a deletion has a timestamp, and deleted: the second when it was made"));
        };
        let deletion = CellDeletion { timestamp, local };
        row.chunks.delete(row.super_column.as_deref(), deletion).map_err(|e| self.refused(e))
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= 40 {
        text.into()
    } else {
        text.chars().take(40).chain(['…']).collect()
    }
}
