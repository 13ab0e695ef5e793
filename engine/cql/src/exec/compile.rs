//! Statements about rows, compiled once and run often.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::change::ChangePlan;
use super::select::SelectPlan;
use super::{Engine, PagingState, Rows};
use crate::catalog::Catalog;
use crate::error::{Result, invalid};
use crate::syntax::Parsed;
use crate::syntax::ast::Statement;
use crate::values::{Bound, ColumnSpec};

/// How a statement is run.
#[derive(Clone, Copy, Default)]
pub struct Request<'a> {
    /// What is bound to the markers, by their number.
    pub bound: &'a [Bound],
    /// The timestamp of writes that name none, microseconds since 1970. `None`: the store's clock.
    pub timestamp: Option<i64>,
    /// How many rows a page has at most. `None`: all.
    pub page_size: Option<usize>,
    /// Where the page begins. `None`: the first one.
    pub paging: Option<&'a PagingState>,
    /// Set from outside when nobody wants the answer any more.
    pub stop: Option<&'a AtomicBool>,
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("timestamp", &self.timestamp)
            .field("page_size", &self.page_size)
            .field("paging", &self.paging)
            .finish_non_exhaustive()
    }
}

/// A compiled statement about rows. It is used as long as the catalog that it was compiled with is the present one.
pub trait Plan: Send + Sync {
    /// What its bind markers want.
    fn markers(&self) -> &[ColumnSpec];

    /// The columns of its result, where that is known before it is run.
    fn columns(&self) -> Option<&Arc<[ColumnSpec]>>;

    /// Runs it.
    ///
    /// # Errors
    /// `Invalid` for bound values that can't be; errors of the engine beneath.
    fn run(&self, engine: &Engine, request: &Request<'_>) -> Result<Rows>;
}

/// Compiles a statement about rows, with `keyspace` as the one that is chosen.
///
/// # Errors
/// `Invalid` with the servers' text.
pub fn compile(engine: &Engine, catalog: &Arc<Catalog>, keyspace: Option<&str>, parsed: &Parsed<'_>) -> Result<Box<dyn Plan>> {
    match &parsed.statement {
        Statement::Select(select) => Ok(Box::new(SelectPlan::compile(engine, catalog, keyspace, select, parsed.markers)?)),
        Statement::Change(change) => Ok(Box::new(ChangePlan::change(engine, catalog, keyspace, change, parsed.markers)?)),
        Statement::Batch(batch) => Ok(Box::new(ChangePlan::batch(engine, catalog, keyspace, batch, parsed.markers)?)),
        definition => Err(invalid(format!("a definition can't be compiled: {definition}"))),
    }
}
