//! The plan of a statement about rows, once it is compiled, and how a plan is run.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use firn_wide::internals::store::CellStore;

use super::access::Need;
use super::change::BatchLimits;
use super::engine::Engine;
use super::result_budget::ResultBudget;
use super::rows::{PagingState, Rows};
use super::tombstones::TombstoneLimits;
use crate::catalog::TableSchema;
use crate::error::Result;
use crate::values::{Bound, ColumnSpec};

/// How a statement is run.
#[derive(Clone, Copy, Default)]
pub struct Request<'a> {
    /// The values bound to the markers, by their number.
    pub bound: &'a [Bound],
    /// The timestamp of writes that name none, microseconds since 1970. `None`: the store's clock.
    pub timestamp: Option<i64>,
    /// The second since 1970 that expiry goes by. `None`: the clock's, when it began.
    pub now_in_seconds: Option<u32>,
    /// How large batches may be. `None`: as they are.
    pub batch_limits: Option<BatchLimits>,
    /// How many deleted rows and cells a `SELECT` may step over. `None`: as many as there are.
    pub tombstone_limits: Option<TombstoneLimits>,
    /// How many bytes a result may have. `None`: as many as there are.
    pub max_result_bytes: Option<usize>,
    /// The budget that the results of several statements share. `None`: none.
    pub result_budget: Option<&'a ResultBudget>,
    /// How many rows a page has at most. `None`: all.
    pub page_size: Option<usize>,
    /// Where the page begins. `None`: the first one.
    pub paging: Option<&'a PagingState>,
    /// The role that has logged in. `None` may do everything.
    pub role: Option<&'a str>,
    /// The address that the client has reached the database at.
    pub endpoint: Option<SocketAddr>,
    /// Set from outside when nobody wants the answer any more.
    pub stop: Option<&'a Arc<AtomicBool>>,
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

/// What a statement does with the rows of a table, as servers tell it apart that time requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableAccess {
    /// It reads partitions that it names.
    Read,
    /// It reads a range of partitions, or all.
    Scan,
    /// It writes, whether or not it looks at rows before.
    Write,
}

/// How a statement changes rows: servers allow other consistencies for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind<'p> {
    /// One change without a condition.
    Plain,
    /// One change of a counter in the table of this name.
    Counter(&'p str),
    /// One or several, on conditions.
    Conditional,
    /// A batch without conditions.
    Batch,
}

impl Request<'_> {
    /// The store as it is for a statement that began at this microsecond: all of it goes by one
    /// second.
    pub fn store(&self, engine: &Engine, began: i64) -> CellStore {
        let second = self.now_in_seconds.map_or(began.div_euclid(1_000_000), i64::from);
        engine.store().as_of(second)
    }
}

/// A compiled statement about rows. It is used as long as the catalog that it was compiled with is
/// the present one.
pub trait StatementPlan: Any + Send + Sync {
    /// The types of its bind markers.
    fn markers(&self) -> &[ColumnSpec];

    /// The markers that are bound to the columns of the partition key, in their order. Empty when
    /// one of the columns is bound to none.
    fn partition_key(&self) -> &[u16] {
        &[]
    }

    /// The permissions that it needs. A definition looks at them itself.
    fn needs(&self) -> &[Need] {
        &[]
    }

    /// The tables whose rows it reads or writes, once for each part of the statement. A definition
    /// has none.
    fn accesses(&self) -> Vec<(TableAccess, &TableSchema)> {
        vec![]
    }

    /// Whether it takes no longer than to read or write the rows of one partition that it names.
    fn is_quick(&self) -> bool {
        false
    }

    /// How it changes rows; `None`: it changes none.
    fn change_kind(&self) -> Option<ChangeKind<'_>> {
        None
    }

    /// The columns of its result, where that is known before it is run.
    fn columns(&self) -> Option<&Arc<[ColumnSpec]>>;

    /// Estimates the bytes that it holds on the heap: what caches charge for it.
    fn heap_bytes(&self) -> usize;

    /// Runs it.
    ///
    /// # Errors
    /// `Invalid` for bound values that can't be; errors of the engine beneath.
    fn run(&self, engine: &Engine, request: &Request<'_>) -> Result<Rows>;
}
