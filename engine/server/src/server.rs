//! Floor 3: the server: listens, starts a thread for each connection, stops in order.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_cql::{Session, StatementLog, with_scripts};
use firn_kv::fs::Thread;
use firn_kv::stats::PrometheusText;
use firn_kv::{Env, OpenFiles, OsEnv};
use firn_wide::Wide;
use parking_lot::{Condvar, Mutex};
use serde_json::json;

use crate::http::{HttpLimits, HttpPort, HttpRequest, HttpResponse};
use crate::native::{Client, Clients, ServerViews, serve};
use crate::node::{CompactionHistory, Node};
use crate::options::{Options, ServerError, StoreLocation};
use crate::thrift::serve_thrift;
use crate::transport::{TlsAcceptor, Transport};

/// A running server. It stops when it is dropped, or with [`stop`](Server::stop), which reports
/// whether all writes are durable.
///
/// ```
/// use firn_server::{Options, Server};
/// let server = Server::start(Options::ephemeral())?;
/// println!("connect to {}", server.address());
/// // This session sees the changes of clients.
/// server.session().execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ())?;
/// server.stop()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    shared: Arc<ServerCore>,
    /// Listening addresses: for CQL, and for Thrift if enabled.
    listening: Vec<(Protocol, SocketAddr)>,
    accepting: Mutex<Vec<Box<dyn Thread>>>,
    /// The port of the metrics.
    http: Option<HttpPort>,
}

/// Bytes that must be free on the store's disk: with less, the next flush or log segment fails.
const MIN_FREE_BYTES: u64 = 16 << 20;
/// Memtable bytes above which a stopping server flushes instead of relying on the log.
const LARGE_MEMTABLES: u64 = 1 << 20;
/// Threads that flush and compact a store, as counted for file descriptors.
const BACKGROUND: usize = 2;
/// Maximum number of trees that a stopping server flushes, those with most data first: each costs a
/// table file and a sync.
const MAX_FLUSHED_TREES: usize = 16;

/// Protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Native,
    Thrift,
}

struct ServerCore {
    node: Arc<Node>,
    clients: Arc<Clients>,
    /// Connections with a running thread, to stop them.
    open: Mutex<Vec<(u64, Protocol, Arc<Transport>)>>,
    /// TLS, if enabled.
    tls: Option<TlsAcceptor>,
    left: Condvar,
    next: AtomicU64,
    /// Number of connections refused because of the limit.
    refused: AtomicU64,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("listening", &self.listening).finish_non_exhaustive()
    }
}

fn network(what: String) -> impl FnOnce(std::io::Error) -> ServerError {
    move |e| ServerError::Network(what, e)
}

fn listen(address: SocketAddr) -> Result<(SocketAddr, TcpListener), ServerError> {
    let at = || format!("listen at {address}");
    let listener = TcpListener::bind(address).map_err(network(at()))?;
    Ok((listener.local_addr().map_err(network(at()))?, listener))
}

impl Server {
    /// Opens the store and listens. Clients can connect when it returns.
    ///
    /// # Errors
    /// Invalid options, a store that cannot be opened, an address that cannot be bound.
    pub fn start(options: Options) -> Result<Server, ServerError> {
        options.check()?;
        let mut compactions = None;
        let session = match &options.store {
            StoreLocation::Memory => Session::in_memory()?,
            StoreLocation::Directory(dir, wide) => {
                let mut wide = (**wide).clone();
                if let (Some(plan), None) = (options.descriptor_plan(), &wide.store.db.open_files) {
                    wide.store.db.open_files = Some(OpenFiles::new(plan.tables));
                }
                let next = wide.store.db.listener.take();
                let history = Arc::new(CompactionHistory::new(OsEnv::new(), next));
                wide.store.db.listener = Some(history.clone());
                compactions = Some(history);
                let wide = Wide::open_with(dir, with_scripts(wide));
                Session::new(wide.map_err(firn_cql::Error::from)?)?
            }
        };
        Server::begin(session, options, compactions)
    }

    /// As [`start`](Server::start), on an open database. It ignores the store in `options`.
    ///
    /// # Errors
    /// As [`start`](Server::start).
    pub fn start_with_session(session: Session, options: Options) -> Result<Server, ServerError> {
        Server::begin(session, options, None)
    }

    fn begin(
        session: Session,
        options: Options,
        compactions: Option<Arc<CompactionHistory>>,
    ) -> Result<Server, ServerError> {
        options.check()?;
        let login = options.requires_login(&session)?;
        if let Some(file) = &options.statement_log {
            session.log_statements(Arc::new(StatementLog::append(file)?))?;
        }
        let env: Arc<dyn Env> = OsEnv::new();
        let tls = options.tls.as_ref().map(|tls| TlsAcceptor::new(&*env, tls)).transpose();
        let tls = tls.map_err(ServerError::Options)?;
        let mut listeners = vec![];
        let wanted =
            [(Protocol::Native, Some(options.address)), (Protocol::Thrift, options.thrift)];
        for (protocol, address) in wanted {
            let Some(address) = address else { continue };
            let (address, listener) = listen(address)?;
            listeners.push((protocol, address, listener));
        }
        let http = options.metrics.map(listen).transpose()?;
        let listening: Vec<_> = listeners.iter().map(|(p, address, _)| (*p, *address)).collect();
        let address = listening[0].1;
        let mut options = Options { address, ..options };
        let tables = session.engine().wide().db().stats().files.limit;
        let tables = Some(tables).filter(|most| *most < u64::MAX).unwrap_or_default();
        if let Some(plan) = options.descriptor_plan_of(BACKGROUND, Some(tables)) {
            if plan.is_short() {
                tracing::warn!("{plan}");
            }
            options.max_connections = plan.connections;
        }
        let node = Node::new(session, env.clone(), options, login, compactions)
            .map_err(firn_cql::Error::from)?;
        let (node, clients) = (Arc::new(node), Arc::new(Clients::default()));
        let engine = node.session.engine();
        engine.add_listener(clients.clone());
        engine.add_listener(node.metrics.clone());
        let views = ServerViews { node: Arc::downgrade(&node), clients: Arc::downgrade(&clients) };
        engine.add_source(Arc::new(views));
        let shared = Arc::new(ServerCore {
            node,
            clients,
            open: Mutex::default(),
            tls,
            left: Condvar::new(),
            next: AtomicU64::new(1),
            refused: AtomicU64::new(0),
        });
        let mut accepting = vec![];
        for (protocol, _, listener) in listeners {
            let shared = shared.clone();
            let work = move || shared.accept(&listener, protocol);
            let thread = env.spawn("firn-accept", Box::new(work));
            accepting.push(thread.map_err(firn_cql::Error::from)?);
        }
        let mut server = Server { shared, listening, accepting: Mutex::new(accepting), http: None };
        if let Some((address, listener)) = http {
            let shared = server.shared.clone();
            let content = move |request: &HttpRequest| shared.content_of(&request.path);
            let port = HttpPort::start(&env, listener, address, HttpLimits::READS, content);
            server.http = Some(port.map_err(firn_cql::Error::from)?);
        }
        Ok(server)
    }

    fn listens(&self, protocol: Protocol) -> Option<SocketAddr> {
        self.listening.iter().find(|(p, _)| *p == protocol).map(|(_, address)| *address)
    }

    /// Returns the address for CQL clients.
    pub fn address(&self) -> SocketAddr {
        // A server always listens for CQL.
        self.listens(Protocol::Native).unwrap_or(self.shared.node.options.address)
    }

    /// Returns the address for Thrift clients.
    pub fn thrift_address(&self) -> Option<SocketAddr> {
        self.listens(Protocol::Thrift)
    }

    /// Returns the address of `/metrics` and `/health`.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpPort::address)
    }

    /// Returns a session with the database from within this process.
    pub fn session(&self) -> Session {
        self.shared.node.session.clone()
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        self.shared.clients.len()
    }

    /// Reports whether clients must log in.
    #[doc(hidden)]
    pub fn requires_login(&self) -> bool {
        self.shared.node.login
    }

    /// Reloads the TLS certificates. New connections use the new ones; open connections are
    /// unaffected. Without TLS it does nothing.
    ///
    /// # Errors
    /// `Options` for files that cannot be read or used. The server continues with its current
    /// certificates.
    pub fn reload_certificates(&self) -> Result<(), ServerError> {
        let shared = &self.shared;
        let done = shared.tls.as_ref().map(|tls| tls.reload(&*shared.node.env));
        done.transpose().map_err(ServerError::Options).map(drop)
    }

    /// Returns the metrics of the server and its store in the text format of Prometheus, version
    /// 0.0.4: connections, requests by type with latency histograms, errors, bytes, bytes in
    /// flight, prepared statements. Those of [`firn_kv::stats::Stats::prometheus`] follow.
    ///
    /// ```
    /// use firn_server::{Options, Server};
    /// let server = Server::start(Options::ephemeral())?;
    /// assert!(server.metrics().contains("\nfirn_server_connections{protocol=\"native\"} 0\n"));
    /// # server.stop()?;
    /// # Ok::<(), firn_server::ServerError>(())
    /// ```
    pub fn metrics(&self) -> String {
        self.shared.metrics()
    }

    /// Stops the server: accepts no more connections and requests, finishes running ones, notifies
    /// the clients that listen to events, and closes the store.
    ///
    /// # Errors
    /// As [`firn_cql::Session::close`].
    pub fn stop(&self) -> Result<(), ServerError> {
        let shared = &self.shared;
        if shared.node.stopping.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        // A connection wakes the accepting threads.
        self.listening.iter().for_each(|(_, address)| drop(TcpStream::connect(address)));
        std::mem::take(&mut *self.accepting.lock()).into_iter().for_each(|t| t.join());
        shared.clients.notify_down();
        for (.., transport) in &*shared.open.lock() {
            transport.end_reading();
        }
        shared.node.workers.stop();
        shared.clients.all().iter().for_each(|c| c.send_at_once());
        shared.open.lock().iter().for_each(|(.., transport)| transport.end());
        let mut open = shared.open.lock();
        while !open.is_empty() {
            shared.left.wait(&mut open);
        }
        drop(open);
        self.http.iter().for_each(HttpPort::stop);
        self.flush_large_memtables();
        Ok(shared.node.session.close()?)
    }

    /// Flushes memtables that hold much data: the next start would replay it from the log before it
    /// answers anybody. A flush that fails here makes the closing fail, too.
    fn flush_large_memtables(&self) {
        let db = self.shared.node.session.engine().wide().db();
        if db.is_read_only() {
            return;
        }
        let mut trees = db.stats().trees;
        if trees.iter().map(|tree| tree.memtable_bytes).sum::<u64>() < LARGE_MEMTABLES {
            return;
        }
        trees.sort_unstable_by_key(|tree| std::cmp::Reverse(tree.memtable_bytes));
        for tree in trees.iter().filter(|tree| tree.memtable_bytes > 0).take(MAX_FLUSHED_TREES) {
            if let Err(e) = db.existing_tree(&tree.name).and_then(|tree| tree.flush()) {
                tracing::warn!("{} was not flushed before the store is closed: {e}", tree.name);
                return;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Callers that need the result call `stop`.
        let _ = self.stop();
    }
}

impl ServerCore {
    fn accept(self: &Arc<Self>, listener: &TcpListener, protocol: Protocol) {
        loop {
            let accepted = listener.accept();
            if self.node.is_stopping() {
                return;
            }
            match accepted {
                Ok((socket, peer)) => self.take(socket, peer, protocol),
                Err(e) => {
                    // Probably out of descriptors: other connections close in time.
                    tracing::warn!("a connection could not be accepted: {e}");
                    self.node.env.sleep(std::time::Duration::from_millis(50));
                }
            }
        }
    }

    fn take(self: &Arc<Self>, socket: TcpStream, peer: SocketAddr, protocol: Protocol) {
        let most = self.node.options.max_connections;
        if self.open.lock().len() >= most {
            self.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%peer, most, "a connection was refused: too many are open");
            return;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // One descriptor for each connection, regardless of the number of its users.
        let transport = match &self.tls {
            None => Transport::plain(socket),
            Some(tls) => match tls.accept(socket) {
                Ok(transport) => transport,
                Err(e) => return tracing::error!(%peer, "a connection can't be encrypted: {e}"),
            },
        };
        let transport = Arc::new(transport);
        let client = match protocol {
            Protocol::Thrift => None,
            Protocol::Native => {
                let made = Client::new(number, &transport, &self.node);
                let Ok(client) = made.map(Arc::new) else { return };
                self.clients.add(client.clone());
                Some(client)
            }
        };
        self.open.lock().push((number, protocol, transport.clone()));
        let guard = ConnectionGuard { server: self.clone(), number };
        let work = move || {
            tracing::debug!(client = %peer, ?protocol, "connected");
            match &client {
                Some(client) => serve(&guard.server.node, client, &transport),
                None => serve_thrift(&guard.server.node, &transport, peer, number),
            }
            tracing::debug!(client = %peer, "gone");
        };
        if let Err(e) = self.node.env.spawn(&format!("firn-client-{number}"), Box::new(work)) {
            tracing::warn!(%peer, "no thread for a connection: {e}");
        }
    }

    fn metrics(&self) -> String {
        let mut text = PrometheusText::default();
        let count =
            |protocol| self.open.lock().iter().filter(|(_, p, _)| *p == protocol).count() as u64;
        let open = [("native", count(Protocol::Native)), ("thrift", count(Protocol::Thrift))];
        text.each(("firn_server_connections", "gauge"), "Open connections.", "protocol", &open);
        text.counter(
            "firn_server_connections_total",
            "Connections that were accepted.",
            self.next.load(Ordering::Relaxed) - 1,
        );
        text.counter(
            "firn_server_connections_refused_total",
            "Connections that were refused because the limit was reached.",
            self.refused.load(Ordering::Relaxed),
        );
        self.node.export_metrics(&mut text);
        self.node.options.more_metrics.iter().for_each(|more| more.export(&mut text));
        text.into_string()
    }

    /// Answers a request for a path of the metrics port.
    fn content_of(&self, path: &str) -> HttpResponse {
        let metrics = "text/plain; version=0.0.4; charset=utf-8";
        match path {
            "/metrics" => HttpResponse::new("200 OK", metrics, self.metrics()),
            "/health" => self.health(),
            _ => HttpResponse::text("404 Not Found", "there are /metrics and /health\n"),
        }
    }

    /// Reports whether the server answers requests and accepts writes; if not, the reason.
    fn health(&self) -> HttpResponse {
        let db = self.node.session.engine().wide().db();
        let (stats, may_write) = (db.stats(), !db.is_read_only());
        let is_full = may_write && stats.disk_free.is_some_and(|free| free < MIN_FREE_BYTES);
        let (is_healthy, status, why) = if self.node.is_stopping() {
            (false, "stopping", None)
        } else if let Some(refusal) = stats.refusal.filter(|_| may_write) {
            (false, "read-only", Some(refusal.to_string()))
        } else if is_full {
            let free = stats.disk_free.unwrap_or_default();
            (false, "disk full", Some(format!("the store's disk has {free} free bytes")))
        } else {
            (true, "serving", None)
        };
        let mut body = json!({ "status": status });
        if !may_write {
            body["read_only"] = true.into();
        }
        if let Some(why) = why {
            body["why"] = why.into();
        }
        let status = if is_healthy { "200 OK" } else { "503 Service Unavailable" };
        HttpResponse::new(status, "application/json", format!("{body}\n"))
    }

    fn leave(&self, number: u64) {
        self.open.lock().retain(|(n, ..)| *n != number);
        self.clients.remove(number);
        self.left.notify_all();
    }
}

/// Removes a connection from the list when its thread ends, even by a panic.
struct ConnectionGuard {
    server: Arc<ServerCore>,
    number: u64,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.server.leave(self.number);
    }
}
