//! Expected tokens of the parser, and syntax errors.

use std::fmt;

use super::split::CliSource;

/// Longest statement in bytes: fits the largest value of a request of that time, in hexadecimal.
pub const MAX_STATEMENT: usize = 32 << 20;

/// Maximum nesting of an attribute's value.
pub const MAX_DEPTH: usize = 8;

/// A token that the parser would accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedToken {
    /// Keyword of the language, in lower case.
    Word(&'static str),
    /// A sign.
    Sign(&'static str),
    /// A name or a value chosen by the user.
    Any(ExpectedKind),
}

/// The meaning of a name or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedKind {
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
    /// The name of a type, or of its function.
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
    /// Cache settings.
    Caching,
    /// A replication strategy.
    PlacementStrategy,
    /// A compaction strategy.
    CompactionStrategy,
    /// `KEYS`.
    IndexType,
    /// A consistency level.
    Level,
    /// The target of an assumption.
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

impl ExpectedKind {
    fn words(self) -> &'static str {
        match self {
            ExpectedKind::Keyspace => "a keyspace",
            ExpectedKind::NewKeyspace => "a name for the keyspace",
            ExpectedKind::Family => "a column family",
            ExpectedKind::NewFamily => "a name for the column family",
            ExpectedKind::Key => "a key",
            ExpectedKind::Column => "a column name",
            ExpectedKind::Value => "a value",
            ExpectedKind::Argument => "an argument",
            ExpectedKind::Class | ExpectedKind::Type => "a type",
            ExpectedKind::KeyspaceAttribute | ExpectedKind::FamilyAttribute => "an attribute",
            ExpectedKind::MetadataKey => "a key of column_metadata",
            ExpectedKind::Columns => "a list of columns",
            ExpectedKind::Options => "a map of options",
            ExpectedKind::OptionName => "the name of an option",
            ExpectedKind::AttributeValue => "a value of the attribute",
            ExpectedKind::ColumnType => "Standard or Super",
            ExpectedKind::Boolean => "true or false",
            ExpectedKind::Caching => "what to cache",
            ExpectedKind::PlacementStrategy => "a placement strategy",
            ExpectedKind::CompactionStrategy => "a compaction strategy",
            ExpectedKind::IndexType => "a type of index",
            ExpectedKind::Level => "a consistency level",
            ExpectedKind::Assumption => "keys, comparator, sub_comparator or validator",
            ExpectedKind::Count => "a whole number that is not negative",
            ExpectedKind::Number => "a whole number",
            ExpectedKind::Host => "a host",
            ExpectedKind::User => "a user",
            ExpectedKind::Password => "a password in quotes",
        }
    }
}

impl fmt::Display for ExpectedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExpectedToken::Word(word) => write!(f, "'{word}'"),
            ExpectedToken::Sign(sign) => write!(f, "'{sign}'"),
            ExpectedToken::Any(what) => f.write_str(what.words()),
        }
    }
}

/// A syntax error: position, actual and expected tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliSyntaxError {
    /// Line, from 1, in the whole text.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The actual token.
    pub met: String,
    /// The expected tokens as text.
    pub expected: String,
    historical: String,
}

impl CliSyntaxError {
    /// Returns the message of 2012, without line and column: `Syntax error at position 4: …`, where
    /// positions count from 0 in the statement as one line.
    pub fn historical(&self) -> &str {
        &self.historical
    }

    /// Creates an error at byte `at` of the statement. `short` is the message of 2012, which names
    /// the position of byte `place`.
    pub(super) fn new(
        source: &CliSource,
        at: usize,
        met: String,
        expected: String,
        place: usize,
        short: String,
    ) -> CliSyntaxError {
        let place = source.offset_in_one_line(place);
        CliSyntaxError::said(
            source,
            at,
            met,
            expected,
            format!("Syntax error at position {place}: {short}"),
        )
    }

    /// As [`new`](CliSyntaxError::new), for a message of 2012 without a position.
    pub(super) fn said(
        source: &CliSource,
        at: usize,
        met: String,
        expected: String,
        historical: String,
    ) -> CliSyntaxError {
        let (line, column) = source.position(at);
        CliSyntaxError { line, column, met, expected, historical }
    }
}

impl fmt::Display for CliSyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: met {}, expected {}",
            self.line, self.column, self.met, self.expected
        )
    }
}

impl std::error::Error for CliSyntaxError {}

/// Formats `a`, `a or b`, `a, b or c`.
pub(super) fn alternatives(list: &[ExpectedToken]) -> String {
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

/// The error of a valid statement, in Firn's words and in those of 2012.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxFailure {
    /// Firn's message.
    pub plain: String,
    /// The output of the command of 2012, possibly several lines.
    pub historical: String,
}

impl SyntaxFailure {
    /// Creates a failure with the same text for both modes.
    pub fn same(text: impl Into<String>) -> SyntaxFailure {
        let plain = text.into();
        SyntaxFailure { historical: plain.clone(), plain }
    }

    /// Creates a failure with a text for each mode.
    pub fn new(plain: impl Into<String>, historical: impl Into<String>) -> SyntaxFailure {
        SyntaxFailure { plain: plain.into(), historical: historical.into() }
    }
}

impl fmt::Display for SyntaxFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plain)
    }
}

impl std::error::Error for SyntaxFailure {}
