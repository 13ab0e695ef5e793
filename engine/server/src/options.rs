//! Options of a server.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firn_cql::{BatchLimits, Session, TombstoneLimits};
use firn_kv::stats::PrometheusText;
use firn_kv::{OpenFiles, OsEnv};

use crate::descriptors::{DescriptorNeeds, DescriptorPlan};
use crate::http::HttpLimits;
use crate::transport::{TlsAcceptor, TlsOptions};

/// The location of the store.
#[derive(Clone, Debug)]
pub enum StoreLocation {
    /// In memory; the data is lost when the server stops.
    Memory,
    /// In this directory, which is created if missing.
    Directory(PathBuf, Box<firn_wide::Options>),
}

/// Source of further metrics.
#[derive(Clone)]
pub struct MetricsSource(Arc<dyn Fn(&mut PrometheusText) + Send + Sync>);

impl MetricsSource {
    /// Creates a source; `export` appends metrics with names that the server does not have.
    pub fn new(export: impl Fn(&mut PrometheusText) + Send + Sync + 'static) -> MetricsSource {
        MetricsSource(Arc::new(export))
    }

    pub(crate) fn export(&self, text: &mut PrometheusText) {
        (self.0)(text);
    }
}

impl fmt::Debug for MetricsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsSource").finish_non_exhaustive()
    }
}

/// Options of a server. All sizes are in bytes.
///
/// ```
/// let options = firn_server::Options::directory("data");
/// assert_eq!(options.address.to_string(), "127.0.0.1:9042");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Address for CQL clients. Port 0 means any free port.
    pub address: SocketAddr,
    /// Address for Thrift clients (the interface before CQL). `None`: no Thrift.
    pub thrift: Option<SocketAddr>,
    /// Whether Thrift calls are those of Cassandra 0.4, whose first argument is the keyspace.
    pub thrift_0_4: bool,
    /// Address that serves `/metrics` and `/health` over HTTP/1.1, without a login. `None`: not
    /// served.
    pub metrics: Option<SocketAddr>,
    /// TLS settings. `None`: connections are not encrypted.
    pub tls: Option<TlsOptions>,
    /// The location of the store.
    pub store: StoreLocation,
    /// Whether clients must log in. `None`: they must if the store has a role that can log in.
    pub login: Option<bool>,
    /// Whether to allow an address other than a loopback one without logins. Every client that
    /// reaches it has all permissions.
    pub insecure: bool,
    /// Largest request; 16 MiB.
    pub max_frame: usize,
    /// Largest request before the connection is set up (STARTUP and login); 4 KiB.
    pub max_first_frame: usize,
    /// Maximum number of connections; 1,024. The server accepts fewer if the process cannot open as
    /// many files in addition to those of the store
    /// ([`descriptor_plan`](Options::descriptor_plan)).
    pub max_connections: usize,
    /// Maximum size of all requests that wait or run, and their responses, together; 64 MiB. Above
    /// it the server stops reading from clients, or refuses the requests of clients that asked for
    /// refusals.
    pub max_in_flight: usize,
    /// Largest result of a statement; 256 MiB. A page ends at a quarter of it.
    pub max_result: usize,
    /// Memory for all results that are being built or sent, counted as twice their bytes. If it
    /// runs short, pages end early, and larger results are refused as overloaded. `None`: twice
    /// [`max_result`](Options::max_result), 512 MiB.
    pub max_results_memory: Option<usize>,
    /// Limits on the size of batches. As in Cassandra, batches above 5 KiB cause a warning, and
    /// batches above 50 KiB are refused.
    pub batches: BatchLimits,
    /// Limits on the deleted rows and cells that a read may skip. As in Cassandra, a read warns
    /// above 1,000 and fails above 100,000.
    pub tombstones: TombstoneLimits,
    /// Maximum time until a connection is set up, and for a refused client to read the reason; 5 s.
    pub login_timeout: Duration,
    /// Idle time after which a connection is closed. `None`: never.
    pub idle_timeout: Option<Duration>,
    /// Maximum time for a client to read a response; 60 s.
    pub write_timeout: Duration,
    /// Threads for slow requests. `None`: four for each processor, at least 16.
    pub workers: Option<usize>,
    /// Maximum bytes of prepared statements, texts and plans together; 10 MiB. Native protocol and
    /// Thrift have this limit each. The least recently used are dropped. A statement that exceeds
    /// the limit alone is refused.
    pub max_prepared: usize,
    /// File for all statements of clients, in the format of
    /// [`StatementLog`](firn_cql::StatementLog). `None`: not logged.
    pub statement_log: Option<PathBuf>,
    /// Source of further metrics. `None`: none.
    pub more_metrics: Option<MetricsSource>,
    /// File descriptors that the program needs besides the server; 0.
    #[doc(hidden)]
    pub other_descriptors: u64,
}

impl Options {
    fn with(store: StoreLocation, port: u16) -> Options {
        Options {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
            thrift: None,
            thrift_0_4: false,
            metrics: None,
            tls: None,
            store,
            login: None,
            insecure: false,
            max_frame: 16 << 20,
            max_first_frame: 4 << 10,
            max_connections: 1024,
            max_in_flight: 64 << 20,
            max_result: 256 << 20,
            max_results_memory: None,
            batches: BatchLimits::default(),
            tombstones: TombstoneLimits::default(),
            login_timeout: Duration::from_secs(5),
            idle_timeout: None,
            write_timeout: Duration::from_secs(60),
            workers: None,
            max_prepared: 10 << 20,
            statement_log: None,
            more_metrics: None,
            other_descriptors: 0,
        }
    }

    /// Returns options for tests: a store in memory and a free port.
    pub fn ephemeral() -> Options {
        Options::with(StoreLocation::Memory, 0)
    }

    /// Returns options for the store in this directory, at 127.0.0.1, port 9042.
    pub fn directory(dir: impl Into<PathBuf>) -> Options {
        let store = StoreLocation::Directory(dir.into(), Box::default());
        Options::with(store, 9042)
    }

    /// Checks the options.
    ///
    /// # Errors
    /// The invalid option, with a valid alternative.
    pub fn check(&self) -> Result<(), ServerError> {
        let least = |name: &str, value: usize, least: usize| {
            let text =
                || ServerError::Options(format!("{name} must be at least {least}, not {value}"));
            if value < least { Err(text()) } else { Ok(()) }
        };
        least("the largest request", self.max_frame, 1 << 10)?;
        least("the largest first request", self.max_first_frame, 256)?;
        least("the number of connections", self.max_connections, 1)?;
        least("the number of workers", self.workers.unwrap_or(1), 1)?;
        least("the limit of bytes in flight", self.max_in_flight, self.max_frame)?;
        least("the memory of results", self.results_memory(), self.max_result.saturating_mul(2))?;
        match &self.tls {
            None => Ok(()),
            Some(tls) => {
                TlsAcceptor::new(&*OsEnv::new(), tls).map(drop).map_err(ServerError::Options)
            }
        }
    }
}

impl Options {
    /// Returns how the server would share the file descriptors that this process may have now.
    /// `None`: the limit is absent or unknown.
    pub fn descriptor_plan(&self) -> Option<DescriptorPlan> {
        let (threads, tables) = match &self.store {
            StoreLocation::Memory => (0, Some(0)),
            StoreLocation::Directory(_, wide) => {
                let db = &wide.store.db;
                (db.background_threads, db.open_files.as_ref().map(OpenFiles::limit))
            }
        };
        self.descriptor_plan_of(threads, tables)
    }

    /// As [`descriptor_plan`](Options::descriptor_plan), for a store with this number of background
    /// threads and this bound on open table files.
    pub(crate) fn descriptor_plan_of(
        &self,
        background_threads: usize,
        tables: Option<u64>,
    ) -> Option<DescriptorPlan> {
        let ports = [Some(self.address), self.thrift, self.metrics].into_iter().flatten().count();
        let http = if self.metrics.is_some() { HttpLimits::READS.descriptors() } else { 0 };
        let needs = DescriptorNeeds {
            connections: self.max_connections,
            workers: self.worker_count(),
            background_threads,
            ports: (ports + http) as u64 + self.other_descriptors,
            tables,
        };
        Some(DescriptorPlan::new(OsEnv::new().descriptors()?, &needs))
    }

    /// Returns the memory that all results may take.
    pub fn results_memory(&self) -> usize {
        self.max_results_memory.unwrap_or(self.max_result.saturating_mul(2))
    }

    /// Returns the number of threads for slow requests.
    pub(crate) fn worker_count(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.unwrap_or((processors * 4).max(16))
    }

    /// Reports whether clients must log in to this database.
    ///
    /// # Errors
    /// No role can log in; or clients on other machines would have all permissions without a login.
    pub(crate) fn requires_login(&self, session: &Session) -> Result<bool, ServerError> {
        let catalog = session.engine().catalog();
        let has_login_role = catalog.roles().any(|r| r.can_login && r.salted_hash.is_some());
        let login = self.login.unwrap_or(has_login_role);
        if login && !has_login_role {
            return Err(ServerError::Options(
                "clients must log in, and there is no role that may: make one without a server, with \
                 `firn cql -e \"CREATE ROLE admin WITH PASSWORD = '…' AND LOGIN = true AND SUPERUSER = true\"`"
                    .to_owned(),
            ));
        }
        if !login {
            self.check_without_login()?;
        }
        Ok(login)
    }

    /// Fails if clients on other machines would have all permissions, because nobody must log in.
    /// For a store without roles, a command calls this before it opens the store, which would
    /// otherwise be changed by a server that does not start.
    ///
    /// # Errors
    /// An address that is not a loopback one, without [`insecure`](Options::insecure).
    pub fn check_without_login(&self) -> Result<(), ServerError> {
        let is_remote = |address: &SocketAddr| !address.ip().is_loopback();
        let all = [Some(self.address), self.thrift, self.metrics];
        match all.into_iter().flatten().find(is_remote) {
            Some(far) if !self.insecure => Err(ServerError::Options(format!(
                "{} can be reached from other machines, and nobody would have to log in; take a loopback address such as 127.0.0.1, \
                 make roles, or say that this is wanted (--insecure)",
                far.ip()
            ))),
            _ => Ok(()),
        }
    }
}

/// An error of starting or stopping a server.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// Invalid options.
    Options(String),
    /// A network error: the operation, and its reason.
    Network(String, std::io::Error),
    /// An error of the store.
    Store(firn_cql::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::Options(text) => f.write_str(text),
            ServerError::Network(what, e) => write!(f, "{what}: {e}"),
            ServerError::Store(e) => e.fmt(f),
        }
    }
}

/// It has no source: its text includes that of its cause, so a printed chain repeats nothing.
impl std::error::Error for ServerError {}

impl From<firn_cql::Error> for ServerError {
    fn from(e: firn_cql::Error) -> ServerError {
        ServerError::Store(e)
    }
}
