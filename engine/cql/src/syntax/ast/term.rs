//! Terms: their primaries, and constants.

use crate::syntax::text_enum;
use std::borrow::Cow;
use std::fmt;

use super::{AstName, Expression, ExpressionKind};

/// A term: a value in a statement.
pub type Term<'a> = Expression<'a, TermPrimary<'a>>;

/// Kinds of terms.
pub type TermKind<'a> = ExpressionKind<'a, TermPrimary<'a>>;

/// Primaries of terms.
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

/// An unparsed constant. Messages quote its text, and the analysis determines its type.
#[derive(Clone, PartialEq, Eq)]
pub struct Constant<'a> {
    /// Kind of the token.
    pub kind: ConstantKind,
    /// Text of the constant: strings are without quotes, `NaN` and `Infinity` in this spelling.
    pub text: Cow<'a, str>,
}

impl fmt::Debug for Constant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.kind.word())
    }
}

text_enum! {
    /// Kinds of constants.
    ConstantKind, word {
        String "STRING",
        Integer "INTEGER",
        Float "FLOAT",
        Boolean "BOOLEAN",
        Duration "DURATION",
        Uuid "UUID",
        Hex "HEX",
    }
}

/// A bind marker.
#[derive(Clone, PartialEq, Eq)]
pub struct Marker<'a> {
    /// Number of the marker in text order, starting at 0.
    pub index: u16,
    /// `name` of `:name`; `None` for `?`.
    pub name: Option<Cow<'a, str>>,
}

impl fmt::Debug for Marker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.index)
    }
}

/// Values of `IN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertValues<'a> {
    /// `(term, …)`, possibly empty.
    List(Vec<Term<'a>>),
    /// `?`: all values bound as one list.
    Marker(Term<'a>),
}
