//! The syntax tree: what a statement says, before anything is looked up.
//!
//! A tree borrows from the text wherever the text has it as it is. Positions are kept where the
//! analysis will want to point at something, and are ignored by `==`. Every node's `Display` is CQL
//! that parses to an equal node; that holds for the trees the parser makes, not for any tree: CQL
//! has no parentheses in terms, for example, so a product of sums cannot be written.

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
    /// Whether each table whose rows it is about is named with its keyspace: it means the same
    /// whatever keyspace is chosen.
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
