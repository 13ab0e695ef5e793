//! The syntax tree: what a statement says, before anything is looked up.
//!
//! A tree borrows from the text wherever the text has it as it is. Positions are kept where the
//! analysis will want to point at something, and are ignored by `==`. Every node's `Display` is CQL
//! that parses to an equal node; that holds for the trees the parser makes, not for any tree: CQL
//! has no parentheses in terms, for example, so a product of sums cannot be written.

mod change;
mod define;
mod expression;
mod select;
mod term;

use std::borrow::Cow;
use std::fmt;

pub use change::*;
pub use define::*;
pub use expression::*;
pub use select::*;
pub use term::*;

/// An offset in the text, in bytes. All positions are equal, so that trees can be compared without
/// them.
#[derive(Clone, Copy, Default)]
pub struct Pos(pub u32);

impl PartialEq for Pos {
    fn eq(&self, _: &Pos) -> bool {
        true
    }
}

impl Eq for Pos {}

impl fmt::Debug for Pos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

/// A name, as it is looked up: in lower case unless it was quoted.
#[derive(Clone, PartialEq, Eq)]
pub struct AstName<'a> {
    /// The name, without quotes. Empty only where a column is referred to as `""`.
    pub text: Cow<'a, str>,
    /// Where it stands.
    pub at: Pos,
}

impl fmt::Debug for AstName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A name of something in a keyspace, which may be left out.
#[derive(Clone, PartialEq, Eq)]
pub struct QualifiedName<'a> {
    /// The keyspace before the dot.
    pub keyspace: Option<AstName<'a>>,
    /// The name itself.
    pub name: AstName<'a>,
}

impl fmt::Debug for QualifiedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Statement<'a> {
    /// `USE keyspace`
    Use(AstName<'a>),
    CreateKeyspace(CreateKeyspace<'a>),
    AlterKeyspace(AlterKeyspace<'a>),
    DropKeyspace(Drop<AstName<'a>>),
    CreateTable(CreateTable<'a>),
    AlterTable(AlterTable<'a>),
    DropTable(Drop<QualifiedName<'a>>),
    /// `TRUNCATE table`
    Truncate(QualifiedName<'a>),
    CreateIndex(CreateIndex<'a>),
    DropIndex(Drop<QualifiedName<'a>>),
    CreateType(CreateType<'a>),
    AlterType(AlterType<'a>),
    DropType(Drop<QualifiedName<'a>>),
    Describe(Describe<'a>),
    Change(ChangeClause<'a>),
    Batch(BatchStatement<'a>),
    Select(Select<'a>),
}
