//! Statements about rows, compiled once and run often.

use std::sync::Arc;

use super::change::ChangePlan;
use super::engine::Engine;
use super::plan::StatementPlan;
use super::select;
use crate::catalog::Catalog;
use crate::error::{Result, invalid};
use crate::syntax::ParsedStatement;
use crate::syntax::ast::Statement;

/// Compiles a statement about rows, with `keyspace` as the one that is chosen.
///
/// # Errors
/// `Invalid` with the servers' text.
pub fn compile(
    engine: &Engine,
    catalog: &Arc<Catalog>,
    keyspace: Option<&str>,
    parsed: &ParsedStatement<'_>,
) -> Result<Box<dyn StatementPlan>> {
    match &parsed.statement {
        Statement::Select(select) => Ok(Box::new(select::plan_select(&select::Compilation {
            engine,
            catalog,
            keyspace,
            select,
            markers: parsed.markers,
        })?)),
        Statement::Change(change) => {
            Ok(Box::new(ChangePlan::change(engine, catalog, keyspace, change, parsed.markers)?))
        }
        Statement::Batch(batch) => {
            Ok(Box::new(ChangePlan::batch(engine, catalog, keyspace, batch, parsed.markers)?))
        }
        definition => Err(invalid(format!("a definition can't be compiled: {definition}"))),
    }
}
