//! The syntax tree of a statement, without name resolution.
//!
//! A tree borrows from the text where possible. Positions are stored where the analysis may report
//! errors; `==` ignores them. The `Display` of every node is CQL that parses to an equal node. That
//! holds for trees from the parser, not for any tree. For example, CQL has no parentheses in terms,
//! so a product of sums cannot be written.

#![allow(missing_docs)] // names and types of fields say it

mod change;
mod compare;
mod define;
mod expression;
mod function;
mod name;
mod role;
mod select;
mod term;
mod types;
mod view;

pub use change::*;
pub use compare::*;
pub use define::*;
pub use expression::*;
pub use function::*;
pub use name::*;
pub use role::*;
pub use select::*;
pub use term::*;
pub use types::*;
pub use view::*;

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    CreateView(CreateView<'a>),
    AlterView(AlterView<'a>),
    DropView(Drop<QualifiedName<'a>>),
    CreateIndex(CreateIndex<'a>),
    DropIndex(Drop<QualifiedName<'a>>),
    CreateType(CreateType<'a>),
    AlterType(AlterType<'a>),
    DropType(Drop<QualifiedName<'a>>),
    CreateFunction(CreateFunction<'a>),
    CreateAggregate(CreateAggregate<'a>),
    DropFunction(Drop<Overload<'a>>),
    DropAggregate(Drop<Overload<'a>>),
    Describe(Describe<'a>),
    CreateRole(RoleDefinition<'a>),
    AlterRole(RoleDefinition<'a>),
    DropRole(Drop<AstName<'a>>),
    GrantRole(RoleGrant<'a>),
    GrantPermissions(PermissionChange<'a>),
    ListRoles(RoleListing<'a>),
    Change(ChangeClause<'a>),
    Batch(BatchStatement<'a>),
    Select(Select<'a>),
}

impl Statement<'_> {
    /// Reports whether all its table names have a keyspace, so that it does not depend on the
    /// current keyspace.
    pub fn is_qualified(&self) -> bool {
        let has_home = |change: &ChangeClause<'_>| change.table().keyspace.is_some();
        match self {
            Statement::Select(s) => s.table.keyspace.is_some(),
            Statement::Change(change) => has_home(change),
            Statement::Batch(batch) => batch.changes.iter().all(has_home),
            _ => true,
        }
    }
}
