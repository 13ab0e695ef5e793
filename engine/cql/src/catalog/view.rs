//! What makes a table a materialized view: of which other one, and which of its rows.

use serde::{Deserialize, Serialize};

use crate::error::{Result, corrupt};
use crate::syntax::ast::{Relation, Statement};
use crate::syntax::parse;

/// The part of a view's definition that other tables have not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewSchema {
    /// The number of the table that its rows are made of.
    pub base: u32,
    /// The name of that table, which is in the same keyspace.
    pub base_name: String,
    /// Whether it has all columns of its base: `SELECT *`. It gets those that are added, too.
    pub all_columns: bool,
    /// The relations of its `WHERE`, in the canonical spelling.
    pub where_clause: String,
    /// The number of the base's column that is part of this key and of none there. A row of the
    /// view is there while that column has its value.
    pub key_column: Option<u16>,
}

impl ViewSchema {
    /// Shows the relations of the clause to `work`.
    ///
    /// # Errors
    /// `Server` when what is stored is no clause; those of `work`.
    pub fn with_relations<T>(&self, work: impl FnOnce(&[Relation<'_>]) -> Result<T>) -> Result<T> {
        if self.where_clause.is_empty() {
            return work(&[]);
        }
        let text = format!("SELECT * FROM base WHERE {}", self.where_clause);
        match parse(&text).map(|p| p.statement) {
            Ok(Statement::Select(select)) => work(&select.relations),
            _ => Err(corrupt(format!(
                "the clause of a view of {} can't be read: {}",
                self.base_name, self.where_clause
            ))),
        }
    }
}

/// The relations of a clause as a view keeps them.
pub(super) fn clause_text(relations: &[Relation<'_>]) -> String {
    relations.iter().map(ToString::to_string).collect::<Vec<_>>().join(" AND ")
}
