//! Definition of a materialized view: its base table, and the selected rows and columns.

use serde::{Deserialize, Serialize};

use crate::error::{Result, corrupt};
use crate::syntax::ast::{Relation, Statement};
use crate::syntax::parse;

/// The additional definition of a table that is a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewSchema {
    /// Id of its base table.
    pub base: u32,
    /// Name of its base table, which is in the same keyspace.
    pub base_name: String,
    /// Whether it has all columns of its base (`SELECT *`), including those added later.
    pub all_columns: bool,
    /// Relations of its `WHERE` clause, in canonical spelling.
    pub where_clause: String,
    /// Id of the column that is in the view's key but not in the base's key. A row of the view
    /// exists while that column has its value.
    pub key_column: Option<u16>,
}

impl ViewSchema {
    /// Passes the relations of the clause to `work`.
    ///
    /// # Errors
    /// `Server` if the stored clause is invalid; those of `work`.
    pub fn with_relations<T>(&self, work: impl FnOnce(&[Relation<'_>]) -> Result<T>) -> Result<T> {
        if self.where_clause.is_empty() {
            return work(&[]);
        }
        let text = format!("SELECT * FROM base WHERE {}", self.where_clause);
        match parse(&text).map(|p| p.statement) {
            Ok(Statement::Select(select)) => work(&select.relations),
            _ => Err(corrupt!(
                "the clause of a view of {} can't be read: {}",
                self.base_name,
                self.where_clause
            )),
        }
    }
}

/// Returns the text of the relations, as stored in a view.
pub(super) fn clause_text(relations: &[Relation<'_>]) -> String {
    relations.iter().map(ToString::to_string).collect::<Vec<_>>().join(" AND ")
}
