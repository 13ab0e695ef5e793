//! `INSERT`, `UPDATE`, `DELETE`, `BATCH`.

use super::{AstName, Comparison, InsertValues, QualifiedName, Relation, Term};

/// A statement that changes rows, alone or in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeClause<'a> {
    Insert(Insert<'a>),
    Update(Update<'a>),
    Delete(Delete<'a>),
}

impl<'a> ChangeClause<'a> {
    /// Returns the table whose rows it changes.
    pub fn table(&self) -> &QualifiedName<'a> {
        match self {
            ChangeClause::Insert(s) => &s.table,
            ChangeClause::Update(s) => &s.table,
            ChangeClause::Delete(s) => &s.table,
        }
    }
}

/// `INSERT INTO table … [IF NOT EXISTS] [USING …]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insert<'a> {
    pub table: QualifiedName<'a>,
    pub what: Inserted<'a>,
    pub if_not_exists: bool,
    pub using: Using<'a>,
}

/// The inserted values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inserted<'a> {
    /// `(column, …) VALUES (term, …)`, at least one of each, not necessarily as many.
    Values { columns: Vec<AstName<'a>>, values: Vec<Term<'a>> },
    /// `JSON '…' [DEFAULT NULL | UNSET]`; the value is a string constant or a marker.
    Json { value: Term<'a>, default_unset: bool },
}

/// `USING TIMESTAMP n AND TTL n`; both are an integer constant or a marker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Using<'a> {
    pub timestamp: Option<Term<'a>>,
    pub ttl: Option<Term<'a>>,
}

/// `UPDATE table [USING …] SET … WHERE … [IF …]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update<'a> {
    pub table: QualifiedName<'a>,
    pub using: Using<'a>,
    /// At least one. A column that is set as a whole has no other assignment.
    pub assignments: Vec<Assignment<'a>>,
    pub relations: Vec<Relation<'a>>,
    pub guard: ChangeGuard<'a>,
}

/// An assignment to a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment<'a> {
    pub column: AstName<'a>,
    pub operation: Assign<'a>,
}

/// Kinds of assignments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assign<'a> {
    /// `c = term`
    Set(Term<'a>),
    /// `c = c + term`, `c += term`, and `c = c -3` with the integer -3.
    Append(Term<'a>),
    /// `c = c - term`, `c -= term`
    Remove(Term<'a>),
    /// `c = term + c`
    Prepend(Term<'a>),
    /// `c[key] = term`
    Element { key: Term<'a>, value: Term<'a> },
    /// `c.field = term`
    Field { field: AstName<'a>, value: Term<'a> },
}

/// `DELETE [what, …] FROM table [USING TIMESTAMP n] WHERE … [IF …]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// Empty if rows are deleted.
    pub targets: Vec<ChangeTarget<'a>>,
    pub table: QualifiedName<'a>,
    /// An integer constant or a marker.
    pub timestamp: Option<Term<'a>>,
    pub relations: Vec<Relation<'a>>,
    pub guard: ChangeGuard<'a>,
}

/// A column or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeTarget<'a> {
    pub column: AstName<'a>,
    pub part: ConditionPart<'a>,
}

/// A part of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionPart<'a> {
    /// The whole column.
    Whole,
    /// `[key]`
    Element(Term<'a>),
    /// `.field`
    Field(AstName<'a>),
}

/// Condition of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeGuard<'a> {
    /// No condition.
    None,
    /// `IF EXISTS`
    Exists,
    /// `IF condition AND …`, at least one.
    Conditions(Vec<Condition<'a>>),
}

/// A condition on a column or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
    pub target: ChangeTarget<'a>,
    pub test: ChangeTest<'a>,
}

/// Test of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeTest<'a> {
    /// `= term` and similar
    Compare(Comparison, Term<'a>),
    /// `IN (…)`, `IN ?`
    In(InsertValues<'a>),
    /// `CONTAINS term`, only of a whole column
    Contains(Term<'a>),
    /// `CONTAINS KEY term`, only of a whole column
    ContainsKey(Term<'a>),
}

/// `BEGIN [UNLOGGED | COUNTER] BATCH [USING …] … APPLY BATCH`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchStatement<'a> {
    pub kind: BatchKind,
    /// A TTL is accepted by the syntax, but always refused later.
    pub using: Using<'a>,
    pub changes: Vec<ChangeClause<'a>>,
}

/// Kinds of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    Logged,
    Unlogged,
    Counter,
}
