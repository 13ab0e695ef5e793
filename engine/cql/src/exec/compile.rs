//! Compilation of statements.

use std::sync::Arc;

use super::change::ChangePlan;
use super::define::PreparedDefinition;
use super::engine::Engine;
use super::plan::StatementPlan;
use super::select;
use crate::catalog::Catalog;
use crate::error::Result;
use crate::syntax::ParsedStatement;
use crate::syntax::ast::Statement;

/// Compiles a statement, with `keyspace` as the current keyspace.
///
/// # Errors
/// `Invalid` with Cassandra's text.
pub fn compile(
    engine: &Engine,
    catalog: &Arc<Catalog>,
    keyspace: Option<&Arc<str>>,
    text: &str,
    parsed: &ParsedStatement<'_>,
) -> Result<Box<dyn StatementPlan>> {
    let name = keyspace.map(|k| &**k);
    match &parsed.statement {
        Statement::Select(select) => Ok(Box::new(select::plan_select(&select::Compilation {
            engine,
            catalog,
            keyspace: name,
            select,
            markers: parsed.markers,
        })?)),
        Statement::Change(change) => {
            Ok(Box::new(ChangePlan::change(engine, catalog, name, change, parsed.markers)?))
        }
        Statement::Batch(batch) => {
            Ok(Box::new(ChangePlan::batch(engine, catalog, name, batch, parsed.markers)?))
        }
        _ => {
            Ok(Box::new(PreparedDefinition { text: text.to_owned(), keyspace: keyspace.cloned() }))
        }
    }
}
