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

/// Defines the kinds of names and values, with their texts in messages.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $words:literal,)*) => {
        /// The meaning of a name or a value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ExpectedKind { $($(#[$doc])* $kind,)* }

        impl ExpectedKind {
            fn words(self) -> &'static str {
                match self { $(ExpectedKind::$kind => $words,)* }
            }
        }
    };
}

kinds! {
    /// A keyspace that exists.
    Keyspace "a keyspace",
    /// A name for a new keyspace.
    NewKeyspace "a name for the keyspace",
    /// A column family that exists.
    Family "a column family",
    /// A name for a new column family.
    NewFamily "a name for the column family",
    /// The key of a row.
    Key "a key",
    /// The name of a column or of a super column.
    Column "a column name",
    /// A value of a column.
    Value "a value",
    /// The argument of a function.
    Argument "an argument",
    /// The name of a type's class.
    Class "a type",
    /// The name of a type, or of its function.
    Type "a type",
    /// An attribute of a keyspace.
    KeyspaceAttribute "an attribute",
    /// An attribute of a column family.
    FamilyAttribute "an attribute",
    /// A key of `column_metadata`.
    MetadataKey "a key of column_metadata",
    /// The columns of `column_metadata`.
    Columns "a list of columns",
    /// A map of options.
    Options "a map of options",
    /// A name in a map of options.
    OptionName "the name of an option",
    /// A value of an attribute.
    AttributeValue "a value of the attribute",
    /// `Standard` or `Super`.
    ColumnType "Standard or Super",
    /// `true` or `false`.
    Boolean "true or false",
    /// Cache settings.
    Caching "what to cache",
    /// A replication strategy.
    PlacementStrategy "a placement strategy",
    /// A compaction strategy.
    CompactionStrategy "a compaction strategy",
    /// `KEYS`.
    IndexType "a type of index",
    /// A consistency level.
    Level "a consistency level",
    /// The target of an assumption.
    Assumption "keys, comparator, sub_comparator or validator",
    /// A whole number that isn't negative.
    Count "a whole number that is not negative",
    /// A whole number.
    Number "a whole number",
    /// The name or address of a machine.
    Host "a host",
    /// The name of a user.
    User "a user",
    /// A password, in quotes.
    Password "a password in quotes",
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
