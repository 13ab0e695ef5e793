//! Floor 1: what all connections share: the database, prepared statements, threads for long work,
//! what is in flight, traces, counters.

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
pub use logins::{AFTER_A_GUESS, LoginQueue};
pub use metrics::{ConnectionMeter, NodeMetrics, RequestKind, TableUse, TableUses};
pub use prepared::{KnownStatement, PreparedStatements};
pub use receiving::{ReceiveBudget, RequestReceipt};
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

/// Bytes of texts that are compiled at once; a longer one is compiled alone.
const COMPILING: usize = 1 << 20;
/// A shorter text is not counted.
const SHORT_TEXT: usize = 4 << 10;

/// Bytes that a client that is sent away may still send before it is cut off.
const PARTING: usize = 64 << 20;

/// What all connections share.
pub struct Node {
    /// A conversation with the database, of which each connection has a clone.
    pub session: Session,
    /// Clock, randomness and threads.
    pub env: Arc<dyn Env>,
    /// How the server was started.
    pub options: Options,
    /// The statements that clients have prepared.
    pub prepared: Arc<PreparedStatements>,
    /// Those of Thrift's clients, which do not prepare them again when definitions change.
    pub thrift_prepared: Arc<PreparedStatements>,
    /// The threads for requests that may take their time.
    pub workers: WorkerPool,
    /// Large requests of which a part is here.
    pub receiving: ReceiveBudget,
    /// The texts that are being compiled: a plan takes many times its text.
    pub compiling: FlightBudget,
    /// The requests that wait or run.
    pub flight: FlightBudget,
    /// The results that are made or sent.
    pub results: ResultBudget,
    /// The compactions since the server has opened the store. `None`: it was open before.
    pub compactions: Option<Arc<CompactionHistory>>,
    /// The requests that were traced.
    pub traces: TraceLog,
    /// The requests that workers carry out.
    pub running: RunningRequests,
    /// When the server was started, by [`firn_kv::Env::monotonic_nanos`].
    pub started: u64,
    /// What is counted.
    pub metrics: Arc<NodeMetrics>,
    /// Whether clients must log in.
    pub login: bool,
    /// The logins that wait or are checked: each takes memory and time.
    pub logins: LoginQueue,
    /// Set when the server stops: connections are read from no more, and end when what runs of
    /// theirs is finished.
    pub stopping: AtomicBool,
    /// Whether a write waits for the disk: then many wait together.
    pub writes_wait: bool,
}

impl Node {
    /// Over this database.
    ///
    /// # Errors
    /// Threads that can't be started.
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

    /// What a connection has received of a request that is not here whole: nothing yet.
    pub fn receipt(&self) -> RequestReceipt {
        let (patience, idle) = (self.options.login_timeout, self.options.idle_timeout);
        RequestReceipt::new(&self.env, &self.receiving, patience, idle)
    }

    /// Waits until a text of this many bytes may be compiled. `None`: a short one, which always may.
    pub fn compile_share(&self, bytes: usize) -> Option<FlightShare> {
        (bytes > SHORT_TEXT).then(|| self.compiling.take(bytes))
    }

    /// Whether the server stops.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// What the connection with this number counts with.
    pub fn meter(&self, number: u64) -> ConnectionMeter {
        ConnectionMeter::new(self.metrics.clone(), number)
    }

    /// The nanoseconds since then, by [`firn_kv::Env::monotonic_nanos`].
    pub fn nanos_since(&self, came: u64) -> u64 {
        self.env.monotonic_nanos().saturating_sub(came)
    }

    /// Sets what every connection has. Without it a connection works, too; a client that has gone is
    /// found out later.
    pub fn set_up(&self, socket: &TcpStream) {
        let _ = socket.set_nodelay(true);
        let _ = socket.set_write_timeout(Some(self.options.write_timeout));
        #[cfg(unix)]
        let _ = rustix::net::sockopt::set_socket_keepalive(socket, true);
    }

    /// Sends a client away so that it can read why: it has as much time as one that begins.
    pub fn part(&self, transport: &Transport) {
        let began = self.env.monotonic_nanos();
        transport.part(PARTING, || self.left_to_begin(began));
    }

    /// The time that a client has left to begin a conversation which came then, by
    /// [`firn_kv::Env::monotonic_nanos`]: in all, and not from one byte to the next. `None`: it has
    /// passed.
    pub fn left_to_begin(&self, came: u64) -> Option<Duration> {
        let passed = Duration::from_nanos(self.nanos_since(came));
        self.options.login_timeout.checked_sub(passed).filter(|left| !left.is_zero())
    }
}
