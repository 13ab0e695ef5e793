//! `SELECT`: selectors; relations, which changes have as well.

use std::fmt;

use super::{Binary, Call, Comparison, Name, Native, Ordering, Pos, QualifiedName, Term, Type, Values};

/// `SELECT …`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Select<'a> {
    pub json: bool,
    pub distinct: bool,
    /// Nothing: `*`.
    pub selection: Vec<Selected<'a>>,
    pub table: QualifiedName<'a>,
    pub relations: Vec<Relation<'a>>,
    pub group_by: Vec<Selector<'a>>,
    pub order_by: Vec<Ordering<'a>>,
    /// An integer constant or a marker.
    pub per_partition_limit: Option<Term<'a>>,
    /// An integer constant or a marker.
    pub limit: Option<Term<'a>>,
    pub allow_filtering: bool,
}

/// `selector [AS alias]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Selected<'a> {
    pub selector: Selector<'a>,
    pub alias: Option<Name<'a>>,
}

/// What is made of a row.
#[derive(Clone, PartialEq, Eq)]
pub struct Selector<'a> {
    /// Where it begins.
    pub at: Pos,
    /// What it is.
    pub kind: SelectorKind<'a>,
}

impl fmt::Debug for Selector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

/// The kinds of selectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorKind<'a> {
    /// A column.
    Column(Name<'a>),
    /// A constant, `NULL` or a marker.
    Term(Term<'a>),
    /// `count(*)`
    CountRows,
    /// `writetime(c)` and the like
    About(About, Name<'a>),
    /// `function(a, b)`
    Call(Box<Call<'a, Selector<'a>>>),
    /// `CAST(a AS type)`
    Cast(Box<Selector<'a>>, Native),
    /// `a.field`
    Field(Box<(Selector<'a>, Name<'a>)>),
    /// `a[key]`
    Element(Box<(Selector<'a>, Term<'a>)>),
    /// `a[from..to]`, at least one of the two.
    Slice(Box<(Selector<'a>, Option<Term<'a>>, Option<Term<'a>>)>),
    /// `(type) a`
    Hint(Box<(Type<'a>, Selector<'a>)>),
    /// `[a, b]`
    List(Vec<Selector<'a>>),
    /// `{a, b}`
    Set(Vec<Selector<'a>>),
    /// `{a: b}`, at least one. Whether a key that is a name is a column or a field of a user-defined type the analysis decides.
    Map(Vec<(Selector<'a>, Selector<'a>)>),
    /// `(a, b)`; with one only, parentheses or a tuple, as the analysis decides.
    Tuple(Vec<Selector<'a>>),
    /// `- a`
    Negate(Box<Selector<'a>>),
    /// `a + b`
    Binary(Box<Binary<Selector<'a>>>),
}

/// What is asked about a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum About {
    WriteTime,
    MaxWriteTime,
    Ttl,
}

/// A part of a `WHERE` clause.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Relation<'a> {
    /// `c < term`
    Compare { column: Name<'a>, comparison: Comparison, value: Term<'a> },
    /// `c IN (…)`
    In { column: Name<'a>, values: Values<'a> },
    /// `c CONTAINS term`
    Contains { column: Name<'a>, value: Term<'a> },
    /// `c CONTAINS KEY term`
    ContainsKey { column: Name<'a>, key: Term<'a> },
    /// `c[key] = term`
    Element { column: Name<'a>, key: Term<'a>, comparison: Comparison, value: Term<'a> },
    /// `c LIKE term`
    Like { column: Name<'a>, pattern: Term<'a> },
    /// `c IS NOT NULL`
    NotNull { column: Name<'a> },
    /// `token(a, b) < term`
    Token { at: Pos, columns: Vec<Name<'a>>, comparison: Comparison, value: Term<'a> },
    /// `(a, b) < (term, term)`; the value is a tuple or a marker.
    Tuple { at: Pos, columns: Vec<Name<'a>>, comparison: Comparison, value: Term<'a> },
    /// `(a, b) IN ((term, term), …)`; the values are tuples or markers.
    TupleIn { at: Pos, columns: Vec<Name<'a>>, values: Values<'a> },
}
