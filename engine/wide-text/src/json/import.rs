//! Families from JSON, in the article's notations, mixed as one likes.
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
//! A super column is in the full form when its `value` is an object. A colon may be left out before
//! an object. Columns may also come alone, for a row that is named elsewhere
//! ([`ImportOptions::row`]): as members, as `listed`, or as a list of those.

use std::io::Read;

use firn_kv::Durability;
use firn_wide::internals::base::error::invalid;
use firn_wide::internals::cell::{Cell, CellDeletion, CellState};
use firn_wide::{Chunks, Counts, Error, Keyspace, Type};

use super::JsonFailure;
use super::lex::{JsonLexer, Word};
use crate::text::{self, Ticks};

/// How a document is read.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Takes the document's rows, whatever family they are said to be of.
    pub family: Option<String>,
    /// The document is columns of this row of [`family`](ImportOptions::family), which must be
    /// named then; a text of the key's type.
    pub row: Option<String>,
    /// Of columns that have none; a fresh one for each row when it is `None`.
    pub timestamp: Option<i64>,
    /// Columns in an atomic chunk.
    pub chunk: usize,
    /// What each chunk waits for.
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

/// Reads a document into families of a keyspace, which must be there. `watch` is told, after each
/// row, of the bytes that were read and of what was written.
///
/// # Errors
/// What is wrong with the document, with its line; what the families refuse; errors of the store.
/// Chunks before it are written then.
pub fn import<R: Read>(
    keyspace: &Keyspace,
    source: R,
    options: &ImportOptions,
    watch: &mut dyn FnMut(u64, Counts),
) -> Result<Counts, JsonFailure> {
    let times = Ticks(keyspace.wide().timestamp());
    let mut import = Import {
        lexer: JsonLexer::new(source),
        keyspace,
        options,
        times,
        watch,
        counts: Counts::default(),
    };
    match &options.row {
        Some(key) => import.columns_alone(key)?,
        None => import.document()?,
    }
    Ok(import.counts)
}

struct Import<'a, R: Read> {
    lexer: JsonLexer<R>,
    keyspace: &'a Keyspace,
    options: &'a ImportOptions,
    times: Ticks,
    watch: &'a mut dyn FnMut(u64, Counts),
    counts: Counts,
}

/// A row that is being read.
struct JsonRow<'a> {
    chunks: &'a mut Chunks,
    /// Of columns that have none.
    timestamp: i64,
    super_column: Option<Vec<u8>>,
    name: Vec<u8>,
}

/// What was said of a column or a deletion.
#[derive(Default)]
struct JsonAttributes {
    value: Option<Vec<u8>>,
    timestamp: Option<i64>,
    ttl: Option<i64>,
    expires: Option<i64>,
    deleted: Option<i64>,
    counter: Option<i64>,
}

const OPEN: Word = Word::Sign(b'{');
const CLOSE: Word = Word::Sign(b'}');
const LIST: Word = Word::Sign(b'[');
const LIST_END: Word = Word::Sign(b']');

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
            self.counts += chunks.counts();
        }
        if end == CLOSE && self.lexer.next()? != Word::End {
            return Err(self.lexer.wrong("something follows the document"));
        }
        Ok(())
    }

    fn chunks(&self, family: &str) -> Result<Chunks, Error> {
        Chunks::new(self.keyspace, family, self.options.chunk, self.options.durability)
    }

    /// A document that is columns of the row of this key.
    fn columns_alone(&mut self, key: &str) -> Result<(), JsonFailure> {
        let Some(family) = &self.options.family else {
            return Err(invalid("columns of a row need the name of their family").into());
        };
        let mut chunks = self.chunks(family)?;
        let mut bytes = vec![];
        let read = text::read(chunks.family().key_validator(), key, &mut self.times, &mut bytes);
        read.map_err(|e| invalid(format!("key: {e}")))?;
        chunks.row(&bytes)?;
        let timestamp = self.options.timestamp.unwrap_or_else(|| chunks.timestamp());
        let mut row = JsonRow { chunks: &mut chunks, timestamp, super_column: None, name: vec![] };
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
        self.counts += chunks.counts();
        (self.watch)(self.lexer.read(), self.counts);
        Ok(())
    }

    /// Goes to the next member of an object: its name is the lexer's text. False at the end.
    fn member(&mut self, end: Word, first: &mut bool) -> Result<bool, JsonFailure> {
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

    /// The colon behind a name, which may be left out before an object.
    fn expect_colon(&mut self) -> Result<(), JsonFailure> {
        match self.lexer.peek()? {
            Word::Sign(b':') => self.lexer.next().map(drop),
            OPEN => Ok(()),
            _ => Err(self.lexer.wrong("a colon is missing")),
        }
    }

    fn expect_open(&mut self, what: &str) -> Result<(), JsonFailure> {
        match self.lexer.next()? {
            OPEN => Ok(()),
            _ => Err(self.lexer.wrong(format!("{what} is an object: {{ … }}"))),
        }
    }

    fn rows(&mut self, chunks: &mut Chunks) -> Result<(), JsonFailure> {
        self.expect_open("a family")?;
        let mut first = true;
        let mut key = vec![];
        while self.member(CLOSE, &mut first)? {
            key.clear();
            let of = chunks.family().key_validator();
            text::read(of, self.lexer.text(), &mut self.times, &mut key)
                .map_err(|e| self.lexer.wrong(format!("key: {e}")))?;
            chunks.row(&key).map_err(|e| self.refused(e))?;
            self.expect_colon()?;
            let timestamp = self.options.timestamp.unwrap_or_else(|| chunks.timestamp());
            let mut row = JsonRow { chunks, timestamp, super_column: None, name: vec![] };
            match self.lexer.next()? {
                OPEN => self.columns(&mut row, CLOSE)?,
                LIST => self.listed(&mut row, LIST_END)?,
                _ => {
                    return Err(self
                        .lexer
                        .wrong("a row is an object: { … }, or a list of columns: [ … ]"));
                }
            }
            (self.watch)(self.lexer.read(), self.counts + chunks.counts());
        }
        Ok(())
    }

    /// What the store refuses is told with the line; failures of the store are not the document's.
    fn refused(&self, e: Error) -> JsonFailure {
        match e {
            Error::InvalidRequest(why) => self.lexer.wrong(why),
            other => other.into(),
        }
    }

    /// The members of a row or of a super column, up to its end.
    fn columns(&mut self, row: &mut JsonRow<'_>, end: Word) -> Result<(), JsonFailure> {
        let mut first = true;
        while self.member(end, &mut first)? {
            self.member_of_row(row)?;
        }
        Ok(())
    }

    /// Columns or super columns that say their names themselves, up to the end.
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

    /// A column or super column that has just said its name: the lexer's text.
    fn listed_one(&mut self, row: &mut JsonRow<'_>) -> Result<(), JsonFailure> {
        let family = row.chunks.family();
        let is_super = family.is_super();
        let of = if is_super { family.comparator() } else { family.cell_comparator() };
        let mut name = vec![];
        let read = text::read(of, self.lexer.text(), &mut self.times, &mut name);
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
        let read = text::read(of, self.lexer.text(), &mut self.times, &mut name);
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

    /// The value that the lexer's text means for the row's column.
    fn value(&mut self, row: &JsonRow<'_>) -> Result<Vec<u8>, JsonFailure> {
        let mut value = vec![];
        let of = row.chunks.family().validator(&row.name);
        let read = text::read(of, self.lexer.text(), &mut self.times, &mut value);
        read.map_err(|e| self.lexer.wrong(format!("value: {e}")))?;
        Ok(value)
    }

    fn number(&mut self) -> Result<i64, JsonFailure> {
        if self.lexer.next()? != Word::Text {
            return Err(self.lexer.wrong("here should be a number"));
        }
        let text = self.lexer.text();
        text.parse().map_err(|_| {
            self.lexer.wrong(format!("here should be a whole number, not {:?}", shortened(text)))
        })
    }

    /// The attributes of a column, or of a deletion (no row); `first`: nothing of the object was
    /// read but its bracket.
    fn attributes(
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

    /// The name within an object must be the one that it stands under.
    fn check_name(&mut self, row: &JsonRow<'_>) -> Result<(), JsonFailure> {
        if self.lexer.next()? != Word::Text {
            return Err(self.lexer.wrong("here should be a name"));
        }
        let written = self.lexer.text().to_owned();
        self.same_name(row.chunks.family().cell_comparator(), &written, &row.name)
    }

    fn same_name(&mut self, of: &Type, written: &str, expected: &[u8]) -> Result<(), JsonFailure> {
        let mut name = vec![];
        let read = text::read(of, written, &mut self.times, &mut name);
        read.map_err(|e| self.lexer.wrong(format!("name: {e}")))?;
        if name == expected {
            Ok(())
        } else {
            Err(self.lexer.wrong("the name is another than the one before the colon"))
        }
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

    /// What comes behind `value: {`.
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

    /// Writes the column `name` that was held back.
    fn release(
        &mut self,
        row: &mut JsonRow<'_>,
        held: &mut Option<String>,
    ) -> Result<(), JsonFailure> {
        let Some(written) = held.take() else { return Ok(()) };
        self.name_column(row, "name")?;
        let mut value = vec![];
        let of = row.chunks.family().validator(&row.name);
        let read = text::read(of, &written, &mut self.times, &mut value);
        read.map_err(|e| self.lexer.wrong(format!("value: {e}")))?;
        self.put(row, JsonAttributes { value: Some(value), ..JsonAttributes::default() })
    }

    fn name_column(&mut self, row: &mut JsonRow<'_>, name: &str) -> Result<(), JsonFailure> {
        row.name.clear();
        let of = row.chunks.family().cell_comparator();
        text::read(of, name, &mut self.times, &mut row.name)
            .map_err(|e| self.lexer.wrong(format!("name: {e}")))
    }

    fn put(&mut self, row: &mut JsonRow<'_>, a: JsonAttributes) -> Result<(), JsonFailure> {
        let timestamp = a.timestamp.unwrap_or(row.timestamp);
        let counts = row.chunks.family().is_counter();
        let state = match &a {
            JsonAttributes {
                deleted: Some(deleted),
                value: None,
                counter: None,
                ttl: None,
                expires: None,
                ..
            } => CellState::Tombstone { deleted: *deleted },
            JsonAttributes {
                counter: Some(n),
                value: None,
                deleted: None,
                ttl: None,
                expires: None,
                ..
            } => CellState::Counter(*n),
            // The bytes of a counter are its number.
            JsonAttributes {
                value: Some(value),
                counter: None,
                deleted: None,
                ttl: None,
                expires: None,
                ..
            } if counts => {
                let n = value.as_slice().try_into().map(i64::from_be_bytes);
                CellState::Counter(n.map_err(|_| self.lexer.wrong("a counter is a whole number"))?)
            }
            JsonAttributes {
                value: Some(value),
                counter: None,
                deleted: None,
                ttl: None,
                expires: None,
                timestamp,
            } => match timestamp {
                // It is written now, as by any other client.
                None => row.chunks.state_by_default(value),
                Some(_) => CellState::Live(value),
            },
            JsonAttributes {
                value: Some(value),
                counter: None,
                deleted: None,
                ttl: Some(ttl),
                expires,
                ..
            } => {
                let ttl =
                    u32::try_from(*ttl).map_err(|_| self.lexer.wrong("ttl is out of range"))?;
                match (ttl, expires) {
                    // As in a client's write: no time to live, the family's default neither.
                    (0, None) => CellState::Live(value),
                    (_, expires) => {
                        let expires = expires
                            .unwrap_or_else(|| row.chunks.now().saturating_add(i64::from(ttl)));
                        CellState::Expiring { value, ttl, expires }
                    }
                }
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

    fn deletion(&mut self, row: &mut JsonRow<'_>) -> Result<(), JsonFailure> {
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
