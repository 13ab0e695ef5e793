//! Materialized views.

use std::fmt::{Display, Formatter, Result};

use super::change::where_clause;
use super::{Joined, list, opt};
use crate::syntax::ast::{AlterView, CreateView};

impl Display for CreateView<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let if_not_exists = opt(self.if_not_exists, "IF NOT EXISTS ");
        write!(f, "CREATE MATERIALIZED VIEW {if_not_exists}{} AS SELECT ", self.name)?;
        if self.selection.is_empty() {
            f.write_str("*")?
        } else {
            list(&self.selection).fmt(f)?
        }
        write!(f, " FROM {}", self.table)?;
        where_clause(f, &self.relations)?;
        write!(f, " {}", self.primary_key)?;
        let mut word = " WITH ";
        for property in &self.properties {
            write!(f, "{word}{property}")?;
            word = " AND ";
        }
        if !self.clustering_order.is_empty() {
            write!(f, "{word}CLUSTERING ORDER BY ({})", list(&self.clustering_order))?;
        }
        Ok(())
    }
}

impl Display for AlterView<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let if_exists = opt(self.if_exists, "IF EXISTS ");
        let properties = Joined(&self.properties, " AND ");
        write!(f, "ALTER MATERIALIZED VIEW {if_exists}{} WITH {properties}", self.name)
    }
}
