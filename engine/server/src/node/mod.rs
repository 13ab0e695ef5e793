//! Floor 1: state shared by all connections: the database, prepared statements, worker threads,
//! bytes in flight, traces, metrics.

mod budget;
mod compactions;
mod histogram;
mod logins;
mod metrics;
mod prepared;
mod prometheus;
mod receiving;
mod running;
mod traces;
mod workers;

pub use budget::{FlightBudget, FlightShare};
pub use compactions::CompactionHistory;
pub use logins::{FAILED_LOGIN_DELAY, LoginQueue};
pub use metrics::{ConnectionMeter, NodeMetrics, RequestKind, TableUse, TableUses};
pub use prepared::{PreparedStatements, ServerStatement};
pub use receiving::{ReceiveBudget, ReceiveProgress};
pub use running::RunningRequests;
pub use traces::{RequestTrace, TraceLog};
pub use workers::WorkerPool;

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_cql::{ResultBudget, Session};
use firn_kv::{Durability, Env};

use crate::options::Options;
use crate::transport::Transport;

/// Bytes of texts that are compiled at once; a longer text is compiled alone.
const COMPILING: usize = 1 << 20;
/// Shorter texts are not counted.
const SHORT_TEXT: usize = 4 << 10;

/// Bytes that a refused client may still send before its connection is reset.
const MAX_DISCARDED_BYTES: usize = 64 << 20;

/// State shared by all connections.
pub struct Node {
    /// A session with the database; each connection clones it.
    pub session: Session,
    /// Clock, randomness and threads.
    pub env: Arc<dyn Env>,
    /// The options of the server.
    pub options: Options,
    /// Prepared statements of native protocol clients.
    pub prepared: Arc<PreparedStatements>,
    /// Prepared statements of Thrift clients, which do not prepare again after schema changes.
    pub thrift_prepared: Arc<PreparedStatements>,
    /// Threads for slow requests.
    pub workers: WorkerPool,
    /// Budget of large requests that have partly arrived.
    pub receiving: ReceiveBudget,
    /// Budget of texts being compiled: a plan takes many times the memory of its text.
    pub compiling: FlightBudget,
    /// Budget of requests that wait or run.
    pub flight: FlightBudget,
    /// Budget of results being built or sent.
    pub results: ResultBudget,
    /// Compactions since the server opened the store. `None`: the store was open already.
    pub compactions: Option<Arc<CompactionHistory>>,
    /// Traced requests.
    pub traces: TraceLog,
    /// Requests running on workers.
    pub running: RunningRequests,
    /// Start time of the server, by [`firn_kv::Env::monotonic_nanos`].
    pub started: u64,
    /// Metrics.
    pub metrics: Arc<NodeMetrics>,
    /// Whether clients must log in.
    pub login: bool,
    /// Logins that wait or run: each takes memory and time.
    pub logins: LoginQueue,
    /// Set when the server stops: connections are not read any more, and end when their running
    /// requests have finished.
    pub stopping: AtomicBool,
    /// Whether a write waits for the disk: then workers run the writes, so that many wait together.
    pub writes_wait: bool,
}

impl Node {
    /// Creates the state over this database.
    ///
    /// # Errors
    /// Threads that cannot be started.
    pub fn new(
        session: Session,
        env: Arc<dyn Env>,
        options: Options,
        login: bool,
        compactions: Option<Arc<CompactionHistory>>,
    ) -> firn_kv::Result<Node> {
        let durability = session.engine().wide().durability();
        let prepared = Arc::new(PreparedStatements::new(options.max_prepared));
        session.engine().add_listener(prepared.clone());
        Ok(Node {
            prepared,
            thrift_prepared: Arc::new(PreparedStatements::new(options.max_prepared)),
            workers: WorkerPool::start(&env, options.worker_count())?,
            receiving: ReceiveBudget::new(options.max_in_flight),
            compiling: FlightBudget::new(COMPILING),
            flight: FlightBudget::new(options.max_in_flight),
            results: ResultBudget::new(options.results_memory()),
            compactions,
            traces: TraceLog::default(),
            running: RunningRequests::default(),
            started: env.monotonic_nanos(),
            metrics: Arc::default(),
            login,
            stopping: AtomicBool::new(false),
            logins: LoginQueue::default(),
            writes_wait: durability == Durability::Power,
            session,
            env,
            options,
        })
    }

    /// Returns the empty receive state of a connection.
    pub fn receive_progress(&self) -> ReceiveProgress {
        let (patience, idle) = (self.options.login_timeout, self.options.idle_timeout);
        ReceiveProgress::new(&self.env, &self.receiving, patience, idle)
    }

    /// Waits until a text of this many bytes may be compiled. `None`: a short text, which never
    /// waits.
    pub fn compile_share(&self, bytes: usize) -> Option<FlightShare> {
        (bytes > SHORT_TEXT).then(|| self.compiling.take(bytes))
    }

    /// Reports whether the server is stopping.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Returns the meter of the connection with this number.
    pub fn meter(&self, number: u64) -> ConnectionMeter {
        ConnectionMeter::new(self.metrics.clone(), number)
    }

    /// Returns the nanoseconds since this time, by [`firn_kv::Env::monotonic_nanos`].
    pub fn nanos_since(&self, arrived: u64) -> u64 {
        self.env.monotonic_nanos().saturating_sub(arrived)
    }

    /// Sets the options of a connection's socket. If that fails the connection still works; the
    /// server only detects a lost client later.
    pub fn set_up(&self, socket: &TcpStream) {
        let _ = socket.set_nodelay(true);
        let _ = socket.set_write_timeout(Some(self.options.write_timeout));
        #[cfg(unix)]
        let _ = rustix::net::sockopt::set_socket_keepalive(socket, true);
    }

    /// Closes the connection of a refused client so that it can read the reason. It has as much
    /// time as a new connection.
    pub fn lingering_close(&self, transport: &Transport) {
        let began = self.env.monotonic_nanos();
        transport.lingering_close(MAX_DISCARDED_BYTES, || self.left_to_begin(began));
    }

    /// Returns the remaining time of a connection to finish its setup; `arrived` is its start, by
    /// [`firn_kv::Env::monotonic_nanos`]. The limit is for the whole setup, not for the time
    /// between bytes. `None`: it has passed.
    pub fn left_to_begin(&self, arrived: u64) -> Option<Duration> {
        let passed = Duration::from_nanos(self.nanos_since(arrived));
        self.options.login_timeout.checked_sub(passed).filter(|left| !left.is_zero())
    }
}
