//! Definitions, types, `DESCRIBE`.

use std::borrow::Cow;

use super::{AstName, Constant, Ordering, Pos, QualifiedName, Term, TypeSyntax};

/// `CREATE KEYSPACE [IF NOT EXISTS] name WITH …`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CreateKeyspace<'a> {
    pub if_not_exists: bool,
    pub name: AstName<'a>,
    /// `replication` and `durable_writes`, none twice.
    pub properties: Vec<TableProperty<'a>>,
}

/// `ALTER KEYSPACE [IF EXISTS] name WITH …`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct AlterKeyspace<'a> {
    pub if_exists: bool,
    pub name: AstName<'a>,
    pub properties: Vec<TableProperty<'a>>,
}

/// `DROP … [IF EXISTS] name`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Drop<N> {
    pub if_exists: bool,
    pub name: N,
}

/// `name = value` after `WITH`. The names are known ones, and those of maps have maps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TableProperty<'a> {
    pub name: AstName<'a>,
    pub value: PropertyValue<'a>,
}

/// The value of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue<'a> {
    /// A constant.
    Constant(Constant<'a>),
    /// An unreserved keyword, in lower case.
    Word(Cow<'a, str>),
    /// `{'key': value, …}`
    Map(Vec<(Constant<'a>, Constant<'a>)>),
}

/// `CREATE TABLE [IF NOT EXISTS] name (…) [WITH …]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CreateTable<'a> {
    pub if_not_exists: bool,
    pub name: QualifiedName<'a>,
    pub columns: Vec<ColumnDefinition<'a>>,
    /// The `PRIMARY KEY (…)` clauses. With those at columns there must be one in all, which the
    /// analysis sees to.
    pub primary_keys: Vec<PrimaryKey<'a>>,
    pub properties: Vec<TableProperty<'a>>,
    /// `COMPACT STORAGE`
    pub compact_storage: bool,
    /// `CLUSTERING ORDER BY (…)`, all of them if there are several.
    pub clustering_order: Vec<Ordering<'a>>,
}

/// `name type [STATIC] [MASKED WITH …] [PRIMARY KEY]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ColumnDefinition<'a> {
    pub name: AstName<'a>,
    pub of: TypeSyntax<'a>,
    pub is_static: bool,
    pub mask: Option<MaskSyntax<'a>>,
    pub primary_key: bool,
}

/// `MASKED WITH function(…)`: the arguments behind the column's value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MaskSyntax<'a> {
    pub function: QualifiedName<'a>,
    pub arguments: Vec<Term<'a>>,
}

/// `PRIMARY KEY (partition, clustering…)`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PrimaryKey<'a> {
    pub at: Pos,
    /// At least one.
    pub partition: Vec<AstName<'a>>,
    pub clustering: Vec<AstName<'a>>,
}

/// `ALTER TABLE [IF EXISTS] name …`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct AlterTable<'a> {
    pub if_exists: bool,
    pub name: QualifiedName<'a>,
    pub change: TableChange<'a>,
}

/// What `ALTER TABLE` does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TableChange<'a> {
    /// `ADD [IF NOT EXISTS] name type [STATIC]` or several in parentheses; none is a `PRIMARY KEY`.
    Add { if_not_exists: bool, columns: Vec<ColumnDefinition<'a>> },
    /// `DROP [IF EXISTS] name [USING TIMESTAMP n]` or several in parentheses; the timestamp is an
    /// integer.
    Drop { if_exists: bool, columns: Vec<AstName<'a>>, timestamp: Option<Constant<'a>> },
    /// `DROP COMPACT STORAGE`
    DropCompactStorage,
    /// `RENAME [IF EXISTS] a TO b AND …`
    Rename { if_exists: bool, pairs: Vec<(AstName<'a>, AstName<'a>)> },
    /// `ALTER name TYPE type`, which is always refused later.
    Retype { column: AstName<'a>, of: TypeSyntax<'a> },
    /// `ALTER [IF EXISTS] name MASKED WITH …`; without a mask, `DROP MASKED`.
    Mask { if_exists: bool, column: AstName<'a>, mask: Option<MaskSyntax<'a>> },
    /// `WITH …`
    With(Vec<TableProperty<'a>>),
}

/// `CREATE [CUSTOM] INDEX [IF NOT EXISTS] [name] ON table (…) [USING 'class'] [WITH OPTIONS = {…}]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CreateIndex<'a> {
    pub custom: bool,
    pub if_not_exists: bool,
    pub name: Option<AstName<'a>>,
    pub table: QualifiedName<'a>,
    /// At least one.
    pub targets: Vec<IndexTargetText<'a>>,
    pub class: Option<Cow<'a, str>>,
    pub properties: Vec<TableProperty<'a>>,
}

/// A column, and what of it is indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct IndexTargetText<'a> {
    pub part: IndexPartText,
    pub column: AstName<'a>,
}

/// What of a column is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexPartText {
    /// `c`: the value, or the values of a collection.
    Simple,
    /// `KEYS(c)`
    Keys,
    /// `VALUES(c)`
    Values,
    /// `ENTRIES(c)`
    Entries,
    /// `FULL(c)`
    Full,
}

/// `CREATE TYPE [IF NOT EXISTS] name (field type, …)`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CreateType<'a> {
    pub if_not_exists: bool,
    pub name: QualifiedName<'a>,
    /// At least one.
    pub fields: Vec<(AstName<'a>, TypeSyntax<'a>)>,
}

/// `ALTER TYPE [IF EXISTS] name …`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct AlterType<'a> {
    pub if_exists: bool,
    pub name: QualifiedName<'a>,
    pub change: TypeChange<'a>,
}

/// What `ALTER TYPE` does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TypeChange<'a> {
    /// `ADD [IF NOT EXISTS] field type`
    Add { if_not_exists: bool, field: AstName<'a>, of: TypeSyntax<'a> },
    /// `RENAME [IF EXISTS] a TO b AND …`
    Rename { if_exists: bool, pairs: Vec<(AstName<'a>, AstName<'a>)> },
    /// `ALTER field TYPE type`, which is always refused later.
    Retype { field: AstName<'a>, of: TypeSyntax<'a> },
}

/// `DESCRIBE … [WITH INTERNALS]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Describe<'a> {
    pub what: DescribedObject<'a>,
    pub with_internals: bool,
}

/// What is described.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DescribedObject<'a> {
    Cluster,
    /// `[FULL] SCHEMA`
    Schema {
        full: bool,
    },
    Keyspaces,
    /// `[ONLY] KEYSPACE [name]`; without a name the one in use.
    Keyspace {
        only: bool,
        name: Option<AstName<'a>>,
    },
    Tables,
    Table(QualifiedName<'a>),
    Index(QualifiedName<'a>),
    /// `MATERIALIZED VIEW name`
    View(QualifiedName<'a>),
    Types,
    Type(QualifiedName<'a>),
    Functions,
    Function(QualifiedName<'a>),
    Aggregates,
    Aggregate(QualifiedName<'a>),
    /// A bare name: a keyspace, table or index, whichever there is.
    Any(QualifiedName<'a>),
}
