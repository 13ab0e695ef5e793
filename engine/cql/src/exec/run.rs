//! Options of an execution.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_wide::internals::store::StoreView;

use super::change::BatchLimits;
use super::result_budget::ResultBudget;
use super::rows::PagingState;
use super::tombstones::TombstoneLimits;

/// Options of the execution of a statement: paging, default timestamp, time, limits and
/// cancellation.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Maximum rows of a page. `None`: all rows in one page.
    pub page_size: Option<usize>,
    /// Start of the page: the paging state of the page before it.
    pub paging: Option<PagingState>,
    /// Timestamp of writes that specify none, in microseconds since 1970.
    pub timestamp: Option<i64>,
    /// Current time in seconds since 1970. TTLs expire, and deletions are made, as of this time.
    /// Functions that return the time do not use it. `None`: the clock's time.
    pub now_in_seconds: Option<u32>,
    /// Limits on the size of batches. Servers set them; `None`: no limits.
    pub batch_limits: Option<BatchLimits>,
    /// Limits on the tombstones that a `SELECT` may read. Servers set them; `None`: no limits.
    pub tombstone_limits: Option<TombstoneLimits>,
    /// Maximum bytes of the result of a `SELECT`. A larger one is refused, and a page ends at a
    /// quarter of the limit. Servers set it; `None`: no limit.
    pub max_result_bytes: Option<usize>,
    /// Budget shared by the results of several `SELECT`s. If it has no space, a page ends early,
    /// and an unpaged result fails with the class `Overloaded`. `None`: no budget.
    pub result_budget: Option<ResultBudget>,
    /// Keyspace of unqualified table names. `None`: the current keyspace of the session.
    pub keyspace: Option<Arc<str>>,
    /// Address at which the client reached the database; `system.local` returns it. `None`:
    /// 127.0.0.1, port 9042.
    pub endpoint: Option<SocketAddr>,
    /// Cancels the statement when set to true. A `SELECT` then ends with
    /// [`Error::Stopped`](crate::Error::Stopped) at the next row that it reads. A definition that
    /// builds an index ends with it at its next cell, without effect. Other statements, `TRUNCATE`
    /// included, take a time that does not depend on the data. The setter resets the flag.
    pub stop: Option<Arc<AtomicBool>>,
    /// State that a `SELECT` without an index reads, expiration included: all pages of several
    /// statements can read one state. Definitions are always the newest. `None`: the newest state.
    #[doc(hidden)]
    pub view: Option<StoreView>,
    #[doc(hidden)]
    pub _non_exhaustive: (),
}

impl RunOptions {
    /// Reports whether the statement is cancelled.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}
