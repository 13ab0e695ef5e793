//! `SELECT`: selectors, and relations, which changes have too.

use super::{
    AstName, Comparison, Expression, ExpressionKind, InsertValues, Ordering, Pos, QualifiedName,
    Term,
};
use crate::syntax::text_enum;

/// `SELECT …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Select<'a> {
    pub json: bool,
    pub distinct: bool,
    /// Empty for `*`.
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
pub struct Selected<'a> {
    pub selector: Selector<'a>,
    pub alias: Option<AstName<'a>>,
}

/// A selector.
pub type Selector<'a> = Expression<'a, SelectorPrimary<'a>>;

/// Kinds of selectors.
pub type SelectorKind<'a> = ExpressionKind<'a, SelectorPrimary<'a>>;

/// Primaries of selectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorPrimary<'a> {
    /// A column.
    Column(AstName<'a>),
    /// A constant, `NULL` or a marker.
    Term(Term<'a>),
    /// `count(*)`
    CountRows,
    /// `writetime(c)` and similar, for a column or a part of one
    About(About, Box<Selector<'a>>),
    /// `a.field`
    Field(Box<(Selector<'a>, AstName<'a>)>),
    /// `a[key]`
    Element(Box<(Selector<'a>, Term<'a>)>),
    /// `a[from..to]`, at least one of the two.
    Slice(Box<(Selector<'a>, Option<Term<'a>>, Option<Term<'a>>)>),
}

impl<'a> From<SelectorPrimary<'a>> for SelectorKind<'a> {
    fn from(primary: SelectorPrimary<'a>) -> SelectorKind<'a> {
        ExpressionKind::Primary(primary)
    }
}

text_enum! {
    /// Function of a cell's times.
    About, word {
        WriteTime "writetime",
        MaxWriteTime "maxwritetime",
        Ttl "ttl",
    }
}

/// A relation of a `WHERE` clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation<'a> {
    /// `c < term`
    Compare { column: AstName<'a>, comparison: Comparison, value: Term<'a> },
    /// `c IN (…)`
    In { column: AstName<'a>, values: InsertValues<'a> },
    /// `c CONTAINS term`
    Contains { column: AstName<'a>, value: Term<'a> },
    /// `c CONTAINS KEY term`
    ContainsKey { column: AstName<'a>, key: Term<'a> },
    /// `c[key] = term`
    Element { column: AstName<'a>, key: Term<'a>, comparison: Comparison, value: Term<'a> },
    /// `c LIKE term`
    Like { column: AstName<'a>, pattern: Term<'a> },
    /// `c IS NOT NULL`
    NotNull { column: AstName<'a> },
    /// `token(a, b) < term`
    Token { at: Pos, columns: Vec<AstName<'a>>, comparison: Comparison, value: Term<'a> },
    /// `(a, b) < (term, term)`; the value is a tuple or a marker.
    Tuple { at: Pos, columns: Vec<AstName<'a>>, comparison: Comparison, value: Term<'a> },
    /// `(a, b) IN ((term, term), …)`; the values are tuples or markers.
    TupleIn { at: Pos, columns: Vec<AstName<'a>>, values: InsertValues<'a> },
}

impl<'a> Relation<'a> {
    /// Returns its columns.
    pub fn columns_mut(&mut self) -> &mut [AstName<'a>] {
        match self {
            Relation::Compare { column, .. }
            | Relation::In { column, .. }
            | Relation::Contains { column, .. }
            | Relation::ContainsKey { column, .. }
            | Relation::Element { column, .. }
            | Relation::Like { column, .. }
            | Relation::NotNull { column } => std::slice::from_mut(column),
            Relation::Token { columns, .. }
            | Relation::Tuple { columns, .. }
            | Relation::TupleIn { columns, .. } => columns,
        }
    }
}
