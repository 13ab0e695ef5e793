//! Connection to a cluster: the driver's runtime, its connections, and waiting for responses.
//!
//! Invariants: each connection has a fixed keyspace, so sessions with other keyspaces use other
//! connections. A waiting thread only sleeps, so tasks of other runtimes may wait, too.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_cql::{Error, ErrorClass, Result};
use parking_lot::Mutex;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session_builder::SessionBuilder;
use tokio::runtime::Runtime;

use crate::address::{ClusterUrl, TlsChoice};
use crate::convert::columns;
use crate::failure::{of_connect, of_prepare};
use crate::prepared::ClusterStatement;

/// Threads that read and write connections.
const THREADS: usize = 2;
/// Maximum number of cached prepared statements per keyspace.
const CACHED: usize = 1024;
/// Interval of checking a stop flag.
const LOOK: Duration = Duration::from_millis(20);

/// The connections of one keyspace.
#[derive(Debug)]
pub(crate) struct DriverPool {
    pub driver: scylla::client::session::Session,
    prepared: Mutex<BTreeMap<String, Arc<ClusterStatement>>>,
}

/// Connections by keyspace; `None` if closed.
type Pools = Option<BTreeMap<Option<Arc<str>>, Arc<DriverPool>>>;

/// State shared by a session's clones.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub url: ClusterUrl,
    /// Present until the drop.
    runtime: Option<Runtime>,
    pools: Mutex<Pools>,
}

fn closed() -> Error {
    Error::refused(ErrorClass::Server, "the session with the cluster is closed")
}

/// Returns the output of `future`, unless stopped.
async fn until_stopped<T>(future: impl Future<Output = T>, stop: &AtomicBool) -> Result<T> {
    let mut future = pin!(future);
    while !stop.load(Ordering::Relaxed) {
        if let Ok(given) = tokio::time::timeout(LOOK, &mut future).await {
            return Ok(given);
        }
    }
    Err(Error::Stopped)
}

/// Enables TLS.
#[cfg(feature = "tls")]
fn encrypted(builder: SessionBuilder, tls: &TlsChoice) -> Result<SessionBuilder> {
    Ok(builder.tls_context(Some(crate::tls::config(tls)?)))
}

/// Fails: this build has no TLS.
#[cfg(not(feature = "tls"))]
fn encrypted(_: SessionBuilder, _: &TlsChoice) -> Result<SessionBuilder> {
    Err(Error::Refused {
        class: ErrorClass::Configuration,
        text: "this program was built without TLS".to_owned(),
        help: Some("build it with the feature `tls`".to_owned()),
    })
}

impl Cluster {
    pub fn new(url: ClusterUrl) -> Result<Cluster> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("firn-cluster")
            .enable_all()
            .build()
            .map_err(|e| {
                Error::refused(ErrorClass::Server, format!("cannot start threads: {e}"))
            })?;
        Ok(Cluster { url, runtime: Some(runtime), pools: Mutex::new(Some(BTreeMap::new())) })
    }

    /// Blocks until `future` is ready, or until `stop` is true.
    pub fn wait<T>(
        &self,
        stop: Option<&Arc<AtomicBool>>,
        future: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        // The driver's timers and sockets belong to the runtime, whose threads drive them.
        let _context = self.runtime.as_ref().ok_or_else(closed)?.enter();
        match stop {
            None => pollster::block_on(future),
            Some(stop) => pollster::block_on(until_stopped(future, stop))?,
        }
    }

    /// Returns the connections of this keyspace.
    pub fn pool(&self, keyspace: Option<&Arc<str>>) -> Result<Arc<DriverPool>> {
        let keyspace = keyspace.cloned();
        if let Some(pool) = self.pools.lock().as_ref().ok_or_else(closed)?.get(&keyspace) {
            return Ok(pool.clone());
        }
        // Without the lock: sessions with other keyspaces are not blocked.
        let driver = self.wait(None, self.connect(keyspace.as_deref()))?;
        let made = Arc::new(DriverPool { driver, prepared: Mutex::default() });
        let mut pools = self.pools.lock();
        Ok(pools.as_mut().ok_or_else(closed)?.entry(keyspace).or_insert(made).clone())
    }

    async fn connect(&self, keyspace: Option<&str>) -> Result<scylla::client::session::Session> {
        let url = &self.url;
        let profile = ExecutionProfile::builder()
            .request_timeout(Some(url.request_timeout))
            .build()
            .into_handle();
        // Fetch only the metadata for routing: with the full schema, the driver would refuse a
        // cluster because of a single column with an unknown type.
        let mut builder = SessionBuilder::new()
            .known_nodes(&url.hosts)
            .fetch_full_schema_metadata(false)
            .compression(url.compression)
            .connection_timeout(url.connect_timeout)
            .hostname_resolution_timeout(Some(url.connect_timeout))
            .default_execution_profile_handle(profile);
        if let Some(user) = &url.user {
            builder = builder.user(user, url.password.as_deref().unwrap_or_default());
        }
        if let Some(keyspace) = keyspace {
            builder = builder.use_keyspace(keyspace, true);
        }
        if let Some(datacenter) = &url.datacenter {
            builder = builder.prefer_datacenter(datacenter.clone());
        }
        if let Some(tls) = &url.tls {
            builder = encrypted(builder, tls)?;
        }
        // A port of another service may never answer.
        let most = url.connect_timeout + url.request_timeout;
        let connected = tokio::time::timeout(most, builder.build()).await;
        let late = |_| Error::Refused {
            class: ErrorClass::Unanswered,
            text: format!("cannot connect to {} within {most:?}", url.hosts.join(", ")),
            help: Some("see whether it is a node's port of the native protocol".to_owned()),
        };
        connected.map_err(late)?.map_err(|e| of_connect(e, &url.hosts, url.tls.is_some()))
    }

    /// Returns a statement prepared for this keyspace.
    pub fn prepare(&self, keyspace: Option<&Arc<str>>, cql: &str) -> Result<Arc<ClusterStatement>> {
        let pool = self.pool(keyspace)?;
        if let Some(known) = pool.prepared.lock().get(cql) {
            return Ok(known.clone());
        }
        let prepare = async { pool.driver.prepare(cql).await.map_err(of_prepare) };
        let statement = self.wait(None, prepare)?;
        let made = Arc::new(ClusterStatement {
            keyspace: keyspace.cloned(),
            markers: columns(statement.get_variable_col_specs())?,
            columns: columns(statement.get_current_result_set_col_specs().get())?,
            statement,
        });
        let mut prepared = pool.prepared.lock();
        if prepared.len() >= CACHED {
            prepared.clear();
        }
        prepared.insert(cql.to_owned(), made.clone());
        Ok(made)
    }

    /// Clears the prepared statements after a schema change, which may change the types of markers.
    pub fn forget_prepared(&self) {
        let pools = self.pools.lock();
        pools.iter().flat_map(BTreeMap::values).for_each(|pool| pool.prepared.lock().clear());
    }

    pub fn close(&self) {
        *self.pools.lock() = None;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.close();
        // If the last session is dropped within a task, its threads cannot be joined.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
