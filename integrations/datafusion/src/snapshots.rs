//! One snapshot for all tables of a query.
//!
//! Invariant: the snapshot of a query lives as long as one of its plans, and no longer.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use datafusion::catalog::Session;
use firn_kv::{Db, Snapshot};

/// State that the tables of one query read.
#[derive(Debug)]
pub(crate) struct QueryState {
    pub snapshot: Snapshot,
    /// Second as of which values expire, once a table with expiration is read.
    second: OnceLock<i64>,
}

impl QueryState {
    fn new(snapshot: Snapshot) -> Arc<QueryState> {
        Arc::new(QueryState { snapshot, second: OnceLock::new() })
    }

    /// Returns the second as of which values expire: the first one that a caller passes.
    pub fn second(&self, now: impl FnOnce() -> i64) -> i64 {
        *self.second.get_or_init(now)
    }
}

/// A query with plans.
#[derive(Debug)]
struct PlannedQuery {
    session: String,
    /// Nanosecond at which its planning began.
    began: i64,
    state: Weak<QueryState>,
}

/// The snapshots that queries over one store read. Clones share them, and tables that share them
/// read one snapshot within a query.
#[derive(Clone)]
pub struct QuerySnapshots {
    db: Db,
    fixed: Option<Arc<QueryState>>,
    running: Arc<Mutex<Vec<PlannedQuery>>>,
}

impl fmt::Debug for QuerySnapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuerySnapshots")
            .field("is_fixed", &self.fixed.is_some())
            .finish_non_exhaustive()
    }
}

impl QuerySnapshots {
    /// Takes a snapshot of the store for each query, when its physical plan is made.
    pub fn new(db: &Db) -> QuerySnapshots {
        QuerySnapshots { db: db.clone(), fixed: None, running: Arc::default() }
    }

    /// Uses one snapshot for all queries: of a transaction, or for several queries that must agree.
    pub fn fixed(db: &Db, snapshot: Snapshot) -> QuerySnapshots {
        QuerySnapshots { fixed: Some(QueryState::new(snapshot)), ..QuerySnapshots::new(db) }
    }

    /// Returns the store.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Returns the state for a query: the same one for each of its tables.
    pub(crate) fn of_query(&self, session: &dyn Session) -> Arc<QueryState> {
        if let Some(fixed) = &self.fixed {
            return fixed.clone();
        }
        let taken = || QueryState::new(self.db.snapshot_named("sql"));
        let began = session.execution_props().query_execution_start_time;
        let Some(began) = began.and_then(|t| t.timestamp_nanos_opt()) else { return taken() };
        let session = session.session_id();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|query| query.state.strong_count() > 0);
        let mut same = running.iter().filter(|q| q.began == began && q.session == session);
        if let Some(state) = same.find_map(|query| query.state.upgrade()) {
            return state;
        }
        let state = taken();
        let query =
            PlannedQuery { session: session.to_owned(), began, state: Arc::downgrade(&state) };
        running.push(query);
        state
    }
}
