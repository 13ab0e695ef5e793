//! A session with a cluster: the calls of `firn_cql::Session` as driver requests.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use firn_cql::internals::syntax::ast::Statement;
use firn_cql::internals::syntax::parse;
use firn_cql::{
    BatchKind, BoundValue, Error, ErrorClass, PagingState, Result, Rows, RunOptions, Values,
};
use parking_lot::RwLock;
use scylla::client::session::Session as Driver;
use scylla::errors::ExecutionError;
use scylla::response::query_result::QueryResult;
use scylla::response::{PagingState as DriverPaging, PagingStateResponse};
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement as Text;

use crate::address::Levels;
use crate::cluster::{Cluster, DriverPool};
use crate::convert::{RawValues, rows};
use crate::failure::of_execution;
use crate::prepared::ClusterStatement;

/// A session with a cluster. Clones share connections, and each has its own keyspace.
#[derive(Debug)]
pub(crate) struct ClusterSession {
    pub cluster: Arc<Cluster>,
    pub keyspace: RwLock<Option<Arc<str>>>,
    pub levels: Levels,
}

impl Clone for ClusterSession {
    fn clone(&self) -> ClusterSession {
        let keyspace = RwLock::new(self.keyspace.read().clone());
        ClusterSession { cluster: self.cluster.clone(), keyspace, levels: self.levels }
    }
}

impl ClusterSession {
    /// Returns the number of known nodes by data centre, including nodes that are down.
    pub fn nodes_by_datacenter(&self) -> Result<BTreeMap<String, usize>> {
        let pool = self.cluster.pool(self.keyspace.read().as_ref())?;
        let state = pool.driver.get_cluster_state();
        let mut all = BTreeMap::new();
        for node in state.get_nodes_info() {
            *all.entry(node.datacenter.clone().unwrap_or_default()).or_default() += 1;
        }
        Ok(all)
    }
}

/// The type of a statement, as far as a session needs it.
enum TextKind {
    /// USE with this keyspace.
    Use(String),
    /// Reads or writes rows.
    OfRows,
    /// All others: schema changes, and statements that only the cluster knows.
    Other,
}

fn kind_of(cql: &str) -> TextKind {
    match parse(cql).map(|parsed| parsed.statement) {
        Ok(Statement::Use(name)) => TextKind::Use(name.text.into_owned()),
        Ok(Statement::Select(_) | Statement::Change(_) | Statement::Batch(_)) => TextKind::OfRows,
        _ => TextKind::Other,
    }
}

/// Default page size of a continued result.
const PAGE: usize = 5000;

/// A request that may have several pages.
enum PagedRequest<'a> {
    Text(Text),
    Prepared(PreparedStatement, &'a [BoundValue]),
}

impl PagedRequest<'_> {
    /// Sets the page size; `None` means all at once.
    fn set_page_size(&mut self, rows: Option<usize>) {
        let Some(rows) = rows else { return };
        let rows = i32::try_from(rows).unwrap_or(i32::MAX).max(1);
        match self {
            PagedRequest::Text(text) => text.set_page_size(rows),
            PagedRequest::Prepared(prepared, _) => prepared.set_page_size(rows),
        }
    }

    async fn whole(&self, driver: &Driver) -> std::result::Result<QueryResult, ExecutionError> {
        match self {
            PagedRequest::Text(text) => driver.query_unpaged(text.clone(), ()).await,
            PagedRequest::Prepared(prepared, values) => {
                driver.execute_unpaged(prepared, RawValues(values)).await
            }
        }
    }

    async fn page(
        &self,
        driver: &Driver,
        from: DriverPaging,
    ) -> std::result::Result<(QueryResult, PagingStateResponse), ExecutionError> {
        match self {
            PagedRequest::Text(text) => driver.query_single_page(text.clone(), (), from).await,
            PagedRequest::Prepared(prepared, values) => {
                driver.execute_single_page(prepared, RawValues(values), from).await
            }
        }
    }
}

/// Sets the execution options of all three types of statements.
macro_rules! set_levels {
    ($request:expr, $levels:expr, $how:expr) => {{
        $request.set_consistency($levels.consistency);
        $request.set_serial_consistency(Some($levels.serial));
        $request.set_timestamp($how.timestamp);
    }};
}

/// Returns an error for options that a cluster does not support.
fn check(how: &RunOptions) -> Result<()> {
    let unsaid = [
        ("now_in_seconds", how.now_in_seconds.is_some()),
        ("batch_limits", how.batch_limits.is_some()),
        ("tombstone_limits", how.tombstone_limits.is_some()),
        ("endpoint", how.endpoint.is_some()),
    ];
    match unsaid.iter().find(|(_, is_set)| *is_set) {
        Some((name, _)) => Err(Error::Refused {
            class: ErrorClass::Invalid,
            text: format!("RunOptions::{name} is for a database in this process"),
            help: Some("leave it out where the database is a cluster".to_owned()),
        }),
        None => Ok(()),
    }
}

impl ClusterSession {
    /// Returns the keyspace of unqualified names.
    fn home(&self, how: Option<&Arc<str>>) -> Option<Arc<str>> {
        how.cloned().or_else(|| self.keyspace.read().clone())
    }

    pub fn choose(&self, keyspace: &str) -> Result<Rows> {
        let name: Arc<str> = keyspace.into();
        self.cluster.pool(Some(&name))?;
        *self.keyspace.write() = Some(name);
        Ok(Rows::set_keyspace(keyspace))
    }

    pub fn execute_with(&self, cql: &str, values: impl Values, how: &RunOptions) -> Result<Rows> {
        check(how)?;
        if !values.bind(&[]).is_ok_and(|none| none.is_empty()) {
            return self.run(&*self.prepare_in(how.keyspace.as_ref(), cql)?, values, how);
        }
        let kind = kind_of(cql);
        if let TextKind::Use(keyspace) = &kind {
            return self.choose(keyspace);
        }
        let pool = self.cluster.pool(self.home(how.keyspace.as_ref()).as_ref())?;
        let mut text = Text::new(cql);
        set_levels!(text, self.levels, how);
        let done = self.fetch(&pool, PagedRequest::Text(text), how);
        if let TextKind::Other = kind {
            self.cluster.forget_prepared();
        }
        done
    }

    pub fn prepare_in(
        &self,
        keyspace: Option<&Arc<str>>,
        cql: &str,
    ) -> Result<Arc<ClusterStatement>> {
        if let TextKind::Use(_) = kind_of(cql) {
            return Err(Error::Refused {
                class: ErrorClass::Invalid,
                text: "USE can't be prepared at a cluster".to_owned(),
                help: Some("execute it, or name the keyspace by RunOptions::keyspace".to_owned()),
            });
        }
        self.cluster.prepare(self.home(keyspace).as_ref(), cql)
    }

    pub fn run(
        &self,
        prepared: &ClusterStatement,
        values: impl Values,
        how: &RunOptions,
    ) -> Result<Rows> {
        check(how)?;
        let bound = values.into_bound(&prepared.markers)?;
        let pool = self.cluster.pool(prepared.keyspace.as_ref())?;
        let mut statement = prepared.statement.clone();
        set_levels!(statement, self.levels, how);
        self.fetch(&pool, PagedRequest::Prepared(statement, &bound), how)
    }

    pub fn batch(
        &self,
        kind: BatchKind,
        members: &[(&ClusterStatement, &[BoundValue])],
        how: &RunOptions,
    ) -> Result<Rows> {
        check(how)?;
        let mut batch = Batch::new(match kind {
            BatchKind::Logged => BatchType::Logged,
            BatchKind::Unlogged => BatchType::Unlogged,
            BatchKind::Counter => BatchType::Counter,
        });
        let mut values = Vec::with_capacity(members.len());
        for (prepared, bound) in members {
            bound.bind(&prepared.markers)?;
            batch.append_statement(prepared.statement.clone());
            values.push(RawValues(bound));
        }
        set_levels!(batch, self.levels, how);
        let keyspace = members.first().map_or_else(|| self.home(None), |m| m.0.keyspace.clone());
        let pool = self.cluster.pool(keyspace.as_ref())?;
        self.cluster.wait(how.stop.as_ref(), async {
            let done = pool.driver.batch(&batch, values).await.map_err(of_execution)?;
            rows(vec![done], None)
        })
    }

    /// Fetches a page if `how` has a page size; otherwise all remaining rows.
    fn fetch(
        &self,
        pool: &DriverPool,
        mut request: PagedRequest<'_>,
        how: &RunOptions,
    ) -> Result<Rows> {
        let size = how.page_size.or(self.cluster.url.page_size);
        let size = size.or(how.paging.as_ref().map(|_| PAGE));
        request.set_page_size(size);
        let begin = |paging: &PagingState| DriverPaging::new_from_raw_bytes(&*paging.0);
        let mut from = how.paging.as_ref().map_or_else(DriverPaging::start, begin);
        self.cluster.wait(how.stop.as_ref(), async {
            if size.is_none() {
                return rows(vec![request.whole(&pool.driver).await.map_err(of_execution)?], None);
            }
            let mut pages = vec![];
            loop {
                let (page, next) = request.page(&pool.driver, from).await.map_err(of_execution)?;
                pages.push(page);
                from = match next.into_paging_control_flow() {
                    ControlFlow::Break(()) => return rows(pages, None),
                    ControlFlow::Continue(next) => next,
                };
                if how.page_size.is_some() {
                    let next = from.as_bytes_slice().map(|bytes| PagingState(bytes.to_vec()));
                    return rows(pages, next);
                }
            }
        })
    }
}
