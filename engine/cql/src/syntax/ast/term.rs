//! Terms and constants.

use std::borrow::Cow;
use std::fmt;

use super::{Name, Native, Pos, QualifiedName, Type};

/// A value in a statement.
#[derive(Clone, PartialEq, Eq)]
pub struct Term<'a> {
    /// Where it begins.
    pub at: Pos,
    /// What it is.
    pub kind: TermKind<'a>,
}

impl fmt::Debug for Term<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

/// The kinds of terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermKind<'a> {
    /// `NULL`
    Null,
    /// A constant.
    Constant(Constant<'a>),
    /// `?` or `:name`
    Marker(Marker<'a>),
    /// `[a, b]`
    List(Vec<Term<'a>>),
    /// `{a, b}`; `{}` also means an empty map where a map is wanted.
    Set(Vec<Term<'a>>),
    /// `{a: b, c: d}`, at least one.
    Map(Vec<(Term<'a>, Term<'a>)>),
    /// `{field: a, other: b}`, at least one.
    User(Vec<(Name<'a>, Term<'a>)>),
    /// `(a, b)`, at least one.
    Tuple(Vec<Term<'a>>),
    /// `function(a, b)`
    Call(Box<Call<'a, Term<'a>>>),
    /// `(type) a`: no conversion, only a word about which type is meant.
    Hint(Box<(Type<'a>, Term<'a>)>),
    /// `CAST(a AS type)`
    Cast(Box<Term<'a>>, Native),
    /// `- a`
    Negate(Box<Term<'a>>),
    /// `a + b`
    Binary(Box<Binary<Term<'a>>>),
}

/// A constant, unread: its text is what the messages quote, and which type it can be the analysis decides.
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

/// A call of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Call<'a, T> {
    pub function: QualifiedName<'a>,
    pub arguments: Vec<T>,
}

/// `left operator right`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Binary<T> {
    pub operator: Operator,
    pub left: T,
    pub right: T,
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Operator {
    /// Its sign.
    pub fn sign(self) -> char {
        match self {
            Operator::Add => '+',
            Operator::Subtract => '-',
            Operator::Multiply => '*',
            Operator::Divide => '/',
            Operator::Modulo => '%',
        }
    }
}
