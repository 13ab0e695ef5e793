//! Materialized views.

use super::{Ordering, PrimaryKey, QualifiedName, Relation, Selected, TableProperty};

/// `CREATE MATERIALIZED VIEW [IF NOT EXISTS] name AS SELECT … FROM table [WHERE …] PRIMARY KEY (…)
/// [WITH …]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateView<'a> {
    pub if_not_exists: bool,
    pub name: QualifiedName<'a>,
    /// Empty for `*`. The analysis refuses selectors that are not columns.
    pub selection: Vec<Selected<'a>>,
    pub table: QualifiedName<'a>,
    pub relations: Vec<Relation<'a>>,
    pub primary_key: PrimaryKey<'a>,
    pub properties: Vec<TableProperty<'a>>,
    /// All `CLUSTERING ORDER BY (…)` clauses.
    pub clustering_order: Vec<Ordering<'a>>,
}

/// `ALTER MATERIALIZED VIEW [IF EXISTS] name WITH …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterView<'a> {
    pub if_exists: bool,
    pub name: QualifiedName<'a>,
    pub properties: Vec<TableProperty<'a>>,
}
