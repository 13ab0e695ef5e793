//! How a statement is run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::exec::{BatchLimits, PagingState, ResultBudget, TombstoneLimits};

/// How a statement is run: one page, a timestamp for writes that name none, what time it is, and
/// whether somebody may stop it.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// How many rows a page has at most. `None`: all.
    pub page_size: Option<usize>,
    /// Where the page begins: what the page before it ended with.
    pub paging: Option<PagingState>,
    /// Microseconds since 1970.
    pub timestamp: Option<i64>,
    /// The second since 1970 that is taken for now: what has a time to live is there or not, and
    /// expires, as of then, and what is deleted was deleted then. Functions that tell the time do
    /// not go by it. `None`: the clock's.
    pub now_in_seconds: Option<u32>,
    /// How large batches may be: a server says, an application is free. `None`: as they are.
    pub batch_limits: Option<BatchLimits>,
    /// How many deleted rows and cells a `SELECT` may step over: a server says, an application is
    /// free. `None`: as many as there are.
    pub tombstone_limits: Option<TombstoneLimits>,
    /// How many bytes the result of a `SELECT` may have: a larger one is refused, and a page of it
    /// ends at a quarter of them. A server says, an application is free. `None`: as many as there
    /// are.
    pub max_result_bytes: Option<usize>,
    /// The budget that the results of several `SELECT`s share. Where it lacks room, a page ends
    /// early, and a result that has no pages fails with the class `Overloaded`. `None`: no budget.
    pub result_budget: Option<ResultBudget>,
    /// The keyspace of tables that the statement names without one. `None`: that of the session.
    pub keyspace: Option<Arc<str>>,
    /// The address that the client has reached the database at: what `system.local` tells it.
    /// `None`: 127.0.0.1, port 9042.
    pub endpoint: Option<SocketAddr>,
    /// As soon as it is true, a `SELECT` ends with [`Error::Stopped`](crate::Error::Stopped) at the next row that it
    /// reads, and so does a definition that builds an index, at its next cell: all is as it was
    /// then. Other statements take no time that depends on what is there, `TRUNCATE` too. Whoever
    /// sets it sets it back.
    pub stop: Option<Arc<AtomicBool>>,
}
