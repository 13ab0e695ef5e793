//! What the parser can expect, and how it says that it met something else.

use std::fmt;

use super::split::Source;

/// The longest statement, in bytes: the largest value a request of the article's era could carry,
/// written as hex, fits.
pub const MAX_STATEMENT: usize = 32 << 20;

/// How deep the value of an attribute may be nested.
pub const MAX_DEPTH: usize = 8;

/// Something that the parser would take next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A word of the language, in lower case.
    Word(&'static str),
    /// A sign.
    Sign(&'static str),
    /// A name or a value that the user chooses.
    Any(What),
}

/// What a name or a value stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A keyspace that exists.
    Keyspace,
    /// A name for a new keyspace.
    NewKeyspace,
    /// A column family that exists.
    Family,
    /// A name for a new column family.
    NewFamily,
    /// The key of a row.
    Key,
    /// The name of a column or of a super column.
    Column,
    /// A value of a column.
    Value,
    /// The argument of a function.
    Argument,
    /// The name of a type's class.
    Class,
    /// The name of a type, or of the function that says it.
    Type,
    /// An attribute of a keyspace.
    KeyspaceAttribute,
    /// An attribute of a column family.
    FamilyAttribute,
    /// A key of `column_metadata`.
    MetadataKey,
    /// The columns of `column_metadata`.
    Columns,
    /// A map of options.
    Options,
    /// A name in a map of options.
    OptionName,
    /// A value of an attribute.
    AttributeValue,
    /// `Standard` or `Super`.
    ColumnType,
    /// `true` or `false`.
    Boolean,
    /// What caches hold.
    Caching,
    /// How keyspaces are placed on nodes.
    PlacementStrategy,
    /// How tables are merged.
    CompactionStrategy,
    /// `KEYS`.
    IndexType,
    /// A consistency level.
    Level,
    /// What an assumption is about.
    Assumption,
    /// A whole number that isn't negative.
    Count,
    /// A whole number.
    Number,
    /// The name or address of a machine.
    Host,
    /// The name of a user.
    User,
    /// A password, in quotes.
    Password,
}

impl What {
    fn words(self) -> &'static str {
        match self {
            What::Keyspace => "a keyspace",
            What::NewKeyspace => "a name for the keyspace",
            What::Family => "a column family",
            What::NewFamily => "a name for the column family",
            What::Key => "a key",
            What::Column => "a column name",
            What::Value => "a value",
            What::Argument => "an argument",
            What::Class | What::Type => "a type",
            What::KeyspaceAttribute | What::FamilyAttribute => "an attribute",
            What::MetadataKey => "a key of column_metadata",
            What::Columns => "a list of columns",
            What::Options => "a map of options",
            What::OptionName => "the name of an option",
            What::AttributeValue => "a value of the attribute",
            What::ColumnType => "Standard or Super",
            What::Boolean => "true or false",
            What::Caching => "what to cache",
            What::PlacementStrategy => "a placement strategy",
            What::CompactionStrategy => "a compaction strategy",
            What::IndexType => "a type of index",
            What::Level => "a consistency level",
            What::Assumption => "keys, comparator, sub_comparator or validator",
            What::Count => "a whole number that is not negative",
            What::Number => "a whole number",
            What::Host => "a host",
            What::User => "a user",
            What::Password => "a password in quotes",
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Word(word) => write!(f, "'{word}'"),
            Expected::Sign(sign) => write!(f, "'{sign}'"),
            Expected::Any(what) => f.write_str(what.words()),
        }
    }
}

/// A statement that isn't one: where, what was met, what would have been taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line, from 1, counted from the beginning of the whole text.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// What was met.
    pub met: String,
    /// What was expected, in words.
    pub expected: String,
    historical: String,
}

impl SyntaxError {
    /// The message of 2012, without line and column: `Syntax error at position 4: …`, where
    /// positions count from 0 in the statement as one line.
    pub fn historical(&self) -> &str {
        &self.historical
    }

    /// An error at byte `at` of the statement. `short` is the message of 2012, which names the
    /// position of byte `place`.
    pub(super) fn new(
        source: &Source,
        at: usize,
        met: String,
        expected: String,
        place: usize,
        short: String,
    ) -> SyntaxError {
        let place = source.offset_in_one_line(place);
        SyntaxError::said(
            source,
            at,
            met,
            expected,
            format!("Syntax error at position {place}: {short}"),
        )
    }

    /// The same, where the message of 2012 named no position.
    pub(super) fn said(
        source: &Source,
        at: usize,
        met: String,
        expected: String,
        historical: String,
    ) -> SyntaxError {
        let (line, column) = source.position(at);
        SyntaxError { line, column, met, expected, historical }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: met {}, expected {}",
            self.line, self.column, self.met, self.expected
        )
    }
}

impl std::error::Error for SyntaxError {}

/// `a`, `a or b`, `a, b or c`.
pub(super) fn alternatives(list: &[Expected]) -> String {
    let mut words: Vec<String> = Vec::new();
    for e in list {
        let word = e.to_string();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    match words.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

/// A statement that was understood and can't be done: why, in our words and in those of 2012.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For people of today.
    pub plain: String,
    /// What the command of 2012 printed, possibly several lines.
    pub historical: String,
}

impl Failure {
    /// A failure that both voices put in the same words.
    pub fn same(text: impl Into<String>) -> Failure {
        let plain = text.into();
        Failure { historical: plain.clone(), plain }
    }

    /// A failure with a text for each voice.
    pub fn new(plain: impl Into<String>, historical: impl Into<String>) -> Failure {
        Failure { plain: plain.into(), historical: historical.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plain)
    }
}

impl std::error::Error for Failure {}
