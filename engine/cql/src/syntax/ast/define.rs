//! Definitions, types, `DESCRIBE`.

use crate::syntax::text_enum;
use std::borrow::Cow;

use super::{AstName, Constant, Ordering, Pos, QualifiedName, Term, TypeSyntax};

/// `CREATE KEYSPACE [IF NOT EXISTS] name WITH …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateKeyspace<'a> {
    pub if_not_exists: bool,
    pub name: AstName<'a>,
    /// `replication` and `durable_writes`, each at most once.
    pub properties: Vec<TableProperty<'a>>,
}

/// `ALTER KEYSPACE [IF EXISTS] name WITH …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterKeyspace<'a> {
    pub if_exists: bool,
    pub name: AstName<'a>,
    pub properties: Vec<TableProperty<'a>>,
}

/// `DROP … [IF EXISTS] name`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drop<N> {
    pub if_exists: bool,
    pub name: N,
}

/// `name = value` after `WITH`. The name is a known one, and has a map as its value if required.
#[derive(Clone, Debug, PartialEq, Eq)]
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
pub struct CreateTable<'a> {
    pub if_not_exists: bool,
    pub name: QualifiedName<'a>,
    pub columns: Vec<ColumnDefinition<'a>>,
    /// `PRIMARY KEY (…)` clauses. Together with those at columns there must be exactly one, which
    /// the analysis checks.
    pub primary_keys: Vec<PrimaryKey<'a>>,
    pub properties: Vec<TableProperty<'a>>,
    /// `COMPACT STORAGE`
    pub compact_storage: bool,
    /// All `CLUSTERING ORDER BY (…)` clauses.
    pub clustering_order: Vec<Ordering<'a>>,
}

/// `name type [STATIC] [MASKED WITH …] [PRIMARY KEY]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDefinition<'a> {
    pub name: AstName<'a>,
    pub of: TypeSyntax<'a>,
    pub is_static: bool,
    pub mask: Option<MaskSyntax<'a>>,
    pub primary_key: bool,
}

/// `MASKED WITH function(…)`, with the arguments after the column's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskSyntax<'a> {
    pub function: QualifiedName<'a>,
    pub arguments: Vec<Term<'a>>,
}

/// `PRIMARY KEY (partition, clustering…)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey<'a> {
    pub at: Pos,
    /// At least one.
    pub partition: Vec<AstName<'a>>,
    pub clustering: Vec<AstName<'a>>,
}

/// `ALTER TABLE [IF EXISTS] name …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTable<'a> {
    pub if_exists: bool,
    pub name: QualifiedName<'a>,
    pub change: TableChange<'a>,
}

/// The change of an `ALTER TABLE`.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// An indexed column, and its indexed part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTargetText<'a> {
    pub part: IndexPartText,
    pub column: AstName<'a>,
}

text_enum! {
    /// Indexed part of a column.
    IndexPartText, word {
        /// `c`: the value, or the elements of a collection.
        Simple "values",
        /// `KEYS(c)`
        Keys "keys",
        /// `VALUES(c)`
        Values "values",
        /// `ENTRIES(c)`
        Entries "entries",
        /// `FULL(c)`
        Full "full",
    }
}

/// `CREATE TYPE [IF NOT EXISTS] name (field type, …)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateType<'a> {
    pub if_not_exists: bool,
    pub name: QualifiedName<'a>,
    /// At least one.
    pub fields: Vec<(AstName<'a>, TypeSyntax<'a>)>,
}

/// `ALTER TYPE [IF EXISTS] name …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterType<'a> {
    pub if_exists: bool,
    pub name: QualifiedName<'a>,
    pub change: TypeChange<'a>,
}

/// The change of an `ALTER TYPE`.
#[derive(Clone, Debug, PartialEq, Eq)]
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
pub struct Describe<'a> {
    pub what: DescribedObject<'a>,
    pub with_internals: bool,
}

/// Object of a `DESCRIBE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescribedObject<'a> {
    Cluster,
    /// `[FULL] SCHEMA`
    Schema {
        full: bool,
    },
    Keyspaces,
    /// `[ONLY] KEYSPACE [name]`; without a name the current keyspace.
    Keyspace {
        only: bool,
        name: Option<AstName<'a>>,
    },
    /// All objects of a kind that has a list.
    All(SchemaObject),
    /// One object: `TABLE name`
    One(SchemaObject, QualifiedName<'a>),
    /// A name without a keyword: a keyspace, table or index, whichever exists.
    Any(QualifiedName<'a>),
}

text_enum! {
    /// Kind of a schema object in `DESCRIBE`.
    SchemaObject, word {
        Table "TABLE",
        Index "INDEX",
        View "MATERIALIZED VIEW",
        Type "TYPE",
        Function "FUNCTION",
        Aggregate "AGGREGATE",
    }
}
