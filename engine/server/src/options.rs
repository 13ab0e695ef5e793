//! How a server is started.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use firn_cql::{BatchLimits, Session, TombstoneLimits};
use firn_kv::{OpenFiles, OsEnv};

use crate::descriptors::{DescriptorNeeds, DescriptorPlan};
use crate::http::HTTP_DESCRIPTORS;
use crate::transport::{TlsAcceptor, TlsOptions};

/// Where the data is.
#[derive(Clone, Debug)]
pub enum StorePlace {
    /// In memory; it goes with the server.
    Memory,
    /// In this directory, which is made when it is missing.
    Directory(PathBuf, Box<firn_wide::Options>),
}

/// How a server is started. All sizes are in bytes.
///
/// ```
/// let options = firn_server::Options::directory("data");
/// assert_eq!(options.address.to_string(), "127.0.0.1:9042");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Where clients connect to; port 0: any that is free.
    pub address: SocketAddr,
    /// Where clients of the interface before CQL connect to, which is Thrift's. `None`: nowhere.
    pub thrift: Option<SocketAddr>,
    /// Whether calls of Thrift are those of Cassandra 0.4, whose first argument is the keyspace.
    pub thrift_0_4: bool,
    /// Where `/metrics` and `/health` are told over HTTP/1.1, to all who reach it. `None`: nowhere.
    pub metrics: Option<SocketAddr>,
    /// What connections are encrypted with. `None`: nothing is.
    pub tls: Option<TlsOptions>,
    /// Where the data is.
    pub store: StorePlace,
    /// Whether clients must log in. `None`: where there is a role that may.
    pub login: Option<bool>,
    /// Whether everybody who reaches another address than a loopback one may do everything, where
    /// nobody must log in.
    pub insecure: bool,
    /// The largest request; 16 MiB.
    pub max_frame: usize,
    /// The largest request of a client that has not begun a conversation; 4 KiB.
    pub max_first_frame: usize,
    /// How many connections there are at most; 1,024, and fewer where the process may not open as
    /// many files beside those of the store ([`descriptor_plan`](Options::descriptor_plan)).
    pub max_connections: usize,
    /// The requests that wait or run, and their answers, together; 64 MiB. Above it clients are not
    /// read from, or refused where they asked for that.
    pub max_in_flight: usize,
    /// The largest result of a statement; 256 MiB. A page ends at a quarter of that.
    pub max_result: usize,
    /// The memory of all results that are made or sent: twice their bytes. Where it lacks room,
    /// pages end early, and larger results are refused as overloaded. `None`: twice
    /// [`max_result`](Options::max_result), 512 MiB.
    pub max_results_memory: Option<usize>,
    /// How large batches may be: as servers of Cassandra have it, above 5 KiB they are warned of, and
    /// above 50 KiB refused.
    pub batches: BatchLimits,
    /// How many deleted rows and cells a read may step over: as servers of Cassandra have it, above
    /// 1,000 it is warned of, and above 100,000 it fails.
    pub tombstones: TombstoneLimits,
    /// How long a client may take until its conversation has begun, and until it has read why it is
    /// sent away; 5 s.
    pub login_timeout: Duration,
    /// After which time without a request a connection is closed. `None`: never.
    pub idle_timeout: Option<Duration>,
    /// How long a client may leave an answer lying; 60 s.
    pub write_timeout: Duration,
    /// Threads for requests that may take their time. `None`: four for each processor, at least 16.
    pub workers: Option<usize>,
    /// The bytes of prepared statements, texts and plans together: of clients of the native
    /// protocol, and as many of Thrift's; 10 MiB. Those that were used longest ago are dropped. A
    /// statement that takes more alone is refused.
    pub max_prepared: usize,
    /// The file that all statements of clients are written to, as a
    /// [`StatementLog`](firn_cql::StatementLog) has them. `None`: none.
    pub statement_log: Option<PathBuf>,
}

impl Options {
    fn with(store: StorePlace, port: u16) -> Options {
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
        }
    }

    /// For tests: a store in memory and a port that is free.
    pub fn ephemeral() -> Options {
        Options::with(StorePlace::Memory, 0)
    }

    /// Over the store in this directory, at 127.0.0.1, port 9042.
    pub fn directory(dir: impl Into<PathBuf>) -> Options {
        let store = StorePlace::Directory(dir.into(), Box::default());
        Options::with(store, 9042)
    }

    /// Whether a server can be started so.
    ///
    /// # Errors
    /// What can't be, with what to do instead.
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
        least("what is in flight", self.max_in_flight, self.max_frame)?;
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
    /// How the file descriptors that this process may have now would be shared. `None`: there is no
    /// bound, or it is unknown.
    pub fn descriptor_plan(&self) -> Option<DescriptorPlan> {
        let (threads, tables) = match &self.store {
            StorePlace::Memory => (0, Some(0)),
            StorePlace::Directory(_, wide) => {
                let db = &wide.store.db;
                (db.background_threads, db.open_files.as_ref().map(OpenFiles::most))
            }
        };
        self.descriptor_plan_of(threads, tables)
    }

    /// The same, where the store flushes and compacts with so many threads, and has this bound on
    /// open files of tables.
    pub(crate) fn descriptor_plan_of(
        &self,
        background_threads: usize,
        tables: Option<u64>,
    ) -> Option<DescriptorPlan> {
        let ports = [Some(self.address), self.thrift, self.metrics].into_iter().flatten().count();
        let watched = if self.metrics.is_some() { HTTP_DESCRIPTORS } else { 0 };
        let needs = DescriptorNeeds {
            connections: self.max_connections,
            workers: self.worker_count(),
            background_threads,
            ports: (ports + watched) as u64,
            tables,
        };
        Some(DescriptorPlan::new(OsEnv::new().descriptors()?, &needs))
    }

    /// Returns the memory that all results may take.
    pub fn results_memory(&self) -> usize {
        self.max_results_memory.unwrap_or(self.max_result.saturating_mul(2))
    }

    /// Threads for requests that may take their time.
    pub(crate) fn worker_count(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.unwrap_or((processors * 4).max(16))
    }

    /// Whether clients must log in to this database.
    ///
    /// # Errors
    /// Nobody could; or everybody could do everything, from other machines.
    pub(crate) fn wants_login(&self, session: &Session) -> Result<bool, ServerError> {
        let catalog = session.engine().catalog();
        let somebody = catalog.roles().any(|r| r.can_login && r.salted_hash.is_some());
        let login = self.login.unwrap_or(somebody);
        if login && !somebody {
            return Err(ServerError::Options(
                "clients must log in, and there is no role that may: make one without a server, with \
                 `firn cql -e \"CREATE ROLE admin WITH PASSWORD = '…' AND LOGIN = true AND SUPERUSER = true\"`"
                    .to_owned(),
            ));
        }
        let is_far = |address: &SocketAddr| !address.ip().is_loopback();
        let all = [Some(self.address), self.thrift, self.metrics];
        let far = all.into_iter().flatten().find(is_far);
        if let Some(far) = far.filter(|_| !login && !self.insecure) {
            return Err(ServerError::Options(format!(
                "{} can be reached from other machines, and nobody would have to log in; take a loopback address such as 127.0.0.1, \
                 make roles, or say that this is wanted (--insecure)",
                far.ip()
            )));
        }
        Ok(login)
    }
}

/// Why a server does not start, or does not end well.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// Options that can't be.
    Options(String),
    /// The network: what was to be done, and the reason why not.
    Network(String, std::io::Error),
    /// The store.
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

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServerError::Options(_) => None,
            ServerError::Network(_, e) => Some(e),
            ServerError::Store(e) => Some(e),
        }
    }
}

impl From<firn_cql::Error> for ServerError {
    fn from(e: firn_cql::Error) -> ServerError {
        ServerError::Store(e)
    }
}
