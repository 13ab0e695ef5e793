//! What the parser can expect, and how it says that it met something else.

use std::fmt;

use super::split::CliSource;

/// The longest statement, in bytes: the largest value a request of the article's era could carry,
/// written as hex, fits.
pub const MAX_STATEMENT: usize = 32 << 20;

/// How deep the value of an attribute may be nested.
pub const MAX_DEPTH: usize = 8;

/// Something that the parser would take next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedToken {
    /// A word of the language, in lower case.
    Word(&'static str),
    /// A sign.
    Sign(&'static str),
    /// A name or a value that the user chooses.
    Any(ExpectedKind),
}

/// What a name or a value stands for.
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

/// A statement that isn't one: where, what was met, what would have been taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliSyntaxError {
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

impl CliSyntaxError {
    /// The message of 2012, without line and column: `Syntax error at position 4: …`, where
    /// positions count from 0 in the statement as one line.
    pub fn historical(&self) -> &str {
        &self.historical
    }

    /// An error at byte `at` of the statement. `short` is the message of 2012, which names the
    /// position of byte `place`.
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

    /// The same, where the message of 2012 named no position.
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

/// `a`, `a or b`, `a, b or c`.
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

/// A statement that was understood and can't be done: why, in our words and in those of 2012.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxFailure {
    /// For people of today.
    pub plain: String,
    /// What the command of 2012 printed, possibly several lines.
    pub historical: String,
}

impl SyntaxFailure {
    /// A failure that both voices put in the same words.
    pub fn same(text: impl Into<String>) -> SyntaxFailure {
        let plain = text.into();
        SyntaxFailure { historical: plain.clone(), plain }
    }

    /// A failure with a text for each voice.
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
