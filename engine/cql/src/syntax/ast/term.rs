//! Terms: what only they have, and constants.

use std::borrow::Cow;
use std::fmt;

use super::{AstName, Expression, ExpressionKind};

/// A value in a statement.
pub type Term<'a> = Expression<'a, TermPrimary<'a>>;

/// The kinds of terms.
pub type TermKind<'a> = ExpressionKind<'a, TermPrimary<'a>>;

/// What only terms have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermPrimary<'a> {
    /// `NULL`
    Null,
    /// A constant.
    Constant(Constant<'a>),
    /// `?` or `:name`
    Marker(Marker<'a>),
    /// `{field: a, other: b}`, at least one.
    User(Vec<(AstName<'a>, Term<'a>)>),
}

impl<'a> From<TermPrimary<'a>> for TermKind<'a> {
    fn from(primary: TermPrimary<'a>) -> TermKind<'a> {
        ExpressionKind::Primary(primary)
    }
}

/// A constant, unread: its text is what the messages quote, and which type it can be the analysis
/// decides.
#[derive(Clone, PartialEq, Eq)]
pub struct Constant<'a> {
    /// The kind of token.
    pub kind: ConstantKind,
    /// The text; of a string without quotes, `NaN` and `Infinity` in this spelling.
    pub text: Cow<'a, str>,
}

impl fmt::Debug for Constant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.kind.word())
    }
}

/// The kinds of constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ConstantKind {
    String,
    Integer,
    Float,
    Boolean,
    Duration,
    Uuid,
    Hex,
}

impl ConstantKind {
    /// The word for it in messages: `Invalid INTEGER constant (5) for …`.
    pub fn word(self) -> &'static str {
        match self {
            ConstantKind::String => "STRING",
            ConstantKind::Integer => "INTEGER",
            ConstantKind::Float => "FLOAT",
            ConstantKind::Boolean => "BOOLEAN",
            ConstantKind::Duration => "DURATION",
            ConstantKind::Uuid => "UUID",
            ConstantKind::Hex => "HEX",
        }
    }
}

/// A bind marker.
#[derive(Clone, PartialEq, Eq)]
pub struct Marker<'a> {
    /// Its number, from 0, in the order of the text.
    pub index: u16,
    /// `name` of `:name`; nothing for `?`.
    pub name: Option<Cow<'a, str>>,
}

impl fmt::Debug for Marker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.index)
    }
}

/// What `IN` is asked of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertValues<'a> {
    /// `(term, …)`, perhaps none.
    List(Vec<Term<'a>>),
    /// `?`: all of them bound as one list.
    Marker(Term<'a>),
}
