//! `firn serve`: serves a store to Cassandra clients.
//!
//! Invariants:
//! - SIGTERM and Ctrl-C shut it down in order: running requests finish, clients are notified, the
//!   store is closed.
//! - SIGHUP and SIGUSR1 never end it.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::{Args, ValueEnum};
use firn_changes::{CHANGE_DESCRIPTORS, ChangeServer, ChangeServerOptions};
use firn_console::{Console, ConsoleOptions, ConsoleStore};
use firn_kv::{DbOptions, OpenFiles, OsEnv};
use firn_replication::{Primary, ReplicaListener};
use firn_server::http::{HttpLimits, HttpLogin};
use firn_server::{
    DescriptorPlan, MetricsSource, Options, Server, ServerError, StoreLocation, TlsOptions,
};
use firn_tools::io::stdout;
use firn_tools::options::{self, Durable};
use firn_tools::output::{Done, Failure, bytes, count};
use firn_workload::phase::parse_count;
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;

use crate::console;
use crate::listen::listen_address;
#[cfg(feature = "otel")]
use crate::otlp::{Otlp, OtlpSender};
use crate::replication::{REPLICATION_DESCRIPTORS, ReplicaHandles, ServeReplicationArgs};
use crate::serve_backups::{ServeBackupArgs, ServedBackups};
use crate::store::{Global, StoreContent, clock_words};

pub const EXAMPLES: &str = "\
Clients of Cassandra connect as to a node: cqlsh, and the drivers for Python, Java, Node, Go and Rust (native protocol 3, 4 and 5). The
server opens the store of --db, and creates it if it is missing; with --ephemeral the store is in memory and ends with the server.
SIGTERM or Ctrl-C stops the server: running requests finish, and the store is closed. SIGHUP reloads the certificates. SIGUSR1 makes a
backup (see `firn backup --help`).

Examples:
  firn --db shop serve                            at 127.0.0.1:9042, the default address of clients
  cqlsh                                           from another terminal
  firn --db shop serve --listen 127.0.0.1:9142 --durability power
  firn --db shop serve --tls-certificate server.pem --tls-key key.pem
  firn serve --ephemeral                          for tests: prints {\"host\":\"127.0.0.1\",\"port\":40123} and serves from memory
  firn --db shop serve --backup /mnt/backups --backup-every 60 --backup-keep 48
  firn --db shop serve --console 8042             with a web console at http://127.0.0.1:8042/
  firn --db shop serve --changes 8043             with feeds of changes at http://127.0.0.1:8043/changes
  firn --db shop serve --log-statements shop.statements    a log for `firn check --statements`
  firn --db shop serve --read-only                for a damaged store, a backup, or a store with another writer
  firn --db shop serve --replicas 9043            accept replicas at port 9043 (`firn replicate --help`)
  firn --db standby serve --replica-of 9043       follow the server above, and serve its store for reading
  firn --db shop serve --check                    print the resulting settings and exit";

/// File descriptors of the console: its port, connections and the event log.
const CONSOLE_DESCRIPTORS: u64 = HttpLimits::READS.descriptors() as u64 + 2;

/// Interval of checks for signals.
const TICK: Duration = Duration::from_millis(20);

/// Arguments of `firn serve`.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Listen at this address and port [default: 127.0.0.1:9042; with --ephemeral a free port]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    /// Listen for Thrift clients at this address too, framed or unframed
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address)]
    thrift: Option<SocketAddr>,
    /// Serve the Thrift interface of Cassandra 0.4, where the keyspace is the first argument of
    /// each call
    #[arg(long = "thrift-0.4", requires = "thrift")]
    thrift_0_4: bool,
    /// Serve /metrics (Prometheus) and /health over HTTP at this address [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address)]
    metrics: Option<SocketAddr>,
    /// Serve the web console at this address (see `firn console --help`) [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address)]
    console: Option<SocketAddr>,
    /// Require the password in this file for the console [default: the login of a superuser, if
    /// clients must log in]
    #[arg(long, value_name = "FILE", requires = "console")]
    console_password: Option<PathBuf>,
    /// Allow statements of the console that change the store
    #[arg(long, requires = "console", conflicts_with = "read_only")]
    console_write: bool,
    /// Serve the changes of the store to consumers over HTTP at this address (see `firn follow
    /// --help`) [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address, conflicts_with_all = ["read_only", "replica_of"])]
    changes: Option<SocketAddr>,
    /// Require the password in this file for the changes [default: the login of a superuser, if
    /// clients must log in]
    #[arg(long, value_name = "FILE", requires = "changes")]
    changes_password: Option<PathBuf>,
    /// Allow pages of this site to read the changes, for example `https://app.example.org`
    #[arg(long, value_name = "ORIGIN", requires = "changes", value_parser = origin)]
    changes_origin: Vec<String>,
    /// Send spans and metrics to the OpenTelemetry collector at this URL, by OTLP over HTTP, for
    /// example http://127.0.0.1:4318
    #[arg(long, value_name = "URL", conflicts_with = "replica_of")]
    #[cfg_attr(not(feature = "otel"), arg(hide = true))]
    otlp: Option<String>,
    /// Send this share of the spans of statements: 0 to 1
    #[arg(long, value_name = "SHARE", requires = "otlp", default_value = "1", value_parser = share)]
    #[cfg_attr(not(feature = "otel"), arg(hide = true))]
    otlp_statements: f64,
    /// Send metrics every this many seconds
    #[arg(long, value_name = "SECONDS", requires = "otlp", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    #[cfg_attr(not(feature = "otel"), arg(hide = true))]
    otlp_every: u64,
    /// Encrypt all connections with TLS, with this certificate followed by its chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Use this private key of the certificate (PEM, without a password)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate signed by one of these (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_clients: Option<PathBuf>,
    /// Serve from memory, and print the address as one line of JSON
    #[arg(long)]
    ephemeral: bool,
    /// Open the store for reading only, in its current state, and refuse statements that write
    #[arg(long, conflicts_with_all = ["ephemeral", "backup"])]
    read_only: bool,
    /// Print the resulting settings and exit
    #[arg(long)]
    check: bool,
    /// Require a login [default: if a role exists that may log in]
    #[arg(long, conflicts_with = "no_login")]
    login: bool,
    /// Require no login, and allow everything to every client
    #[arg(long)]
    no_login: bool,
    /// Listen at an address that other machines reach, even without logins
    #[arg(long)]
    insecure: bool,
    /// Select the durability of a write when it is answered
    #[arg(long, value_enum, default_value = "process", value_name = "DURABLE")]
    durability: Durable,
    /// Limit the number of open connections
    #[arg(long, default_value_t = 1024, value_name = "N")]
    max_connections: usize,
    /// Limit the size of a request
    #[arg(long, default_value = "16m", value_parser = options::size, value_name = "SIZE")]
    max_request: u64,
    /// Limit the total size of waiting and running requests; above it, backpressure
    #[arg(long, default_value = "64m", value_parser = options::size, value_name = "SIZE")]
    max_in_flight: u64,
    /// Limit the result of a statement; a page ends at a quarter of it
    #[arg(long, default_value = "256m", value_parser = options::size, value_name = "SIZE")]
    max_result: u64,
    /// Limit the memory of all results, counted as twice their bytes; at the limit pages end early
    /// and larger results are refused as overloaded [default: twice --max-result]
    #[arg(long, value_parser = options::size, value_name = "SIZE")]
    max_results_memory: Option<u64>,
    /// Limit a batch over several partitions; 0 for no limit [default: 50k, as Cassandra]
    #[arg(long, value_parser = options::size, value_name = "SIZE")]
    max_batch: Option<u64>,
    /// Limit the tombstones that a read steps over; 0 for no limit [default: 100k, as Cassandra]
    #[arg(long, value_parser = parse_count, value_name = "N")]
    max_tombstones: Option<u64>,
    /// Log every statement to this file, with its time and the sizes of its values (see `firn check
    /// --help`)
    #[arg(long, value_name = "FILE")]
    log_statements: Option<PathBuf>,
    /// Select the messages that go to standard error
    #[arg(long, value_enum, default_value = "warn", value_name = "LEVEL")]
    log: LogLevel,
    /// Close connections after this many seconds without a request [default: never]
    #[arg(long, value_name = "SECONDS")]
    idle_timeout: Option<u64>,
    #[command(flatten)]
    backups: ServeBackupArgs,
    #[command(flatten)]
    replication: ServeReplicationArgs,
    /// Limit the threads for slow requests [default: four per processor, at least 16]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
}

/// Lowest severity of logged messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    /// Also each connection
    Debug,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> LevelFilter {
        match level {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        }
    }
}

/// Raises the limit of file descriptors to the hard limit: each connection uses one.
fn raise_descriptors() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        // If this fails, the server accepts fewer connections and logs it.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
}

/// Parses a share.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "it is between 0 and 1".to_owned())
}

/// Parses the origin of a site as browsers send it.
fn origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match host {
        Some(host) if !host.is_empty() && !host.contains('/') => Ok(text.to_owned()),
        _ => Err("give scheme and host, without a path: https://app.example.org".to_owned()),
    }
}

fn failure(e: ServerError) -> Failure {
    match &e {
        ServerError::Network(_, cause) if cause.kind() == std::io::ErrorKind::AddrInUse => {
            Failure::with_next(
                e.to_string(),
                "another program listens there: end it, or take another port",
            )
        }
        ServerError::Network(_, cause) if cause.kind() == std::io::ErrorKind::AddrNotAvailable => {
            Failure::with_next(
                e.to_string(),
                "this machine does not have that address: --listen takes one of its own",
            )
        }
        _ => Failure::new(e.to_string()),
    }
}

fn options(global: &Global, args: &ServeArgs) -> Options {
    let mut options = if args.ephemeral {
        Options::ephemeral()
    } else {
        let db = if args.read_only { global.to_read() } else { global.defaults() };
        let db = with_spans(args, db);
        let store =
            firn_wide::StoreOptions { db, clock: None, ..firn_wide::StoreOptions::default() };
        let wide = firn_wide::Options {
            durability: args.durability.into(),
            store,
            ..firn_wide::Options::default()
        };
        let mut options = Options::directory(&global.store.db);
        options.store = StoreLocation::Directory(global.store.db.clone(), Box::new(wide));
        options
    };
    let bounded = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    options.address = args.listen.unwrap_or(options.address);
    options.thrift = args.thrift;
    options.thrift_0_4 = args.thrift_0_4;
    options.metrics = args.metrics;
    options.other_descriptors = args.console.map_or(0, |_| CONSOLE_DESCRIPTORS);
    options.other_descriptors += args.changes.map_or(0, |_| CHANGE_DESCRIPTORS);
    if args.replication.replicas.is_some() || args.replication.replica_of.is_some() {
        options.other_descriptors += REPLICATION_DESCRIPTORS;
    }
    if let (Some(certificate), Some(key)) = (&args.tls_certificate, &args.tls_key) {
        let mut tls = TlsOptions::new(certificate, key);
        tls.clients.clone_from(&args.tls_clients);
        options.tls = Some(tls);
    }
    options.login = (args.login || args.no_login).then_some(args.login);
    options.insecure = args.insecure;
    options.max_connections = args.max_connections;
    options.max_frame = bounded(args.max_request);
    options.max_in_flight = bounded(args.max_in_flight);
    options.max_result = bounded(args.max_result);
    options.max_results_memory = args.max_results_memory.map(bounded);
    if let Some(most) = args.max_batch {
        options.batches.fail_bytes = if most == 0 { usize::MAX } else { bounded(most) };
    }
    if let Some(most) = args.max_tombstones {
        options.tombstones.fail = if most == 0 { u64::MAX } else { most };
    }
    options.idle_timeout = args.idle_timeout.map(Duration::from_secs);
    options.workers = args.workers;
    options.statement_log = args.log_statements.clone();
    options
}

/// Reports the events of the store as spans if there is a collector for them.
#[cfg(feature = "otel")]
fn with_spans(args: &ServeArgs, mut db: DbOptions) -> DbOptions {
    if args.otlp.is_some() {
        db.listener = Some(Arc::new(firn_kv::TracingListener::default()));
    }
    db
}

#[cfg(not(feature = "otel"))]
fn with_spans(_: &ServeArgs, db: DbOptions) -> DbOptions {
    db
}

/// Returns the address under which a client of this machine reaches `ip`. An unspecified address
/// becomes the loopback address.
fn reachable(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V6(ip) if ip.is_unspecified() => "::1".to_owned(),
        ip => ip.to_string(),
    }
}

/// The settings that `--check` prints.
struct ResultingSettings<'a> {
    args: &'a ServeArgs,
    options: &'a Options,
    /// The store, in words.
    store: String,
    connections: usize,
    /// Present if there are too few file descriptors for the requested connections.
    short: Option<DescriptorPlan>,
    max_batch: Option<usize>,
    max_tombstones: Option<u64>,
    /// Absent if no write survives a crash.
    durability: Option<&'static str>,
    level: String,
}

impl ResultingSettings<'_> {
    fn of<'a>(args: &'a ServeArgs, options: &'a Options) -> ResultingSettings<'a> {
        let store = match &options.store {
            StoreLocation::Memory => "memory".to_owned(),
            StoreLocation::Directory(dir, _) if OsEnv::new().list(dir).is_ok() => {
                format!("the store {}", dir.display())
            }
            StoreLocation::Directory(dir, _) => format!("a new store, {}", dir.display()),
        };
        let short = options.descriptor_plan().filter(DescriptorPlan::is_short);
        // Data in memory survives no crash.
        let durability = match (&options.store, args.durability) {
            (StoreLocation::Memory, _) => None,
            _ if args.read_only => None,
            (_, Durable::Process) => Some("process"),
            (_, Durable::Power) => Some("power"),
        };
        ResultingSettings {
            args,
            options,
            store,
            connections: short.map_or(options.max_connections, |plan| plan.connections),
            short,
            max_batch: Some(options.batches.fail_bytes).filter(|most| *most < usize::MAX),
            max_tombstones: Some(options.tombstones.fail).filter(|most| *most < u64::MAX),
            durability,
            level: LevelFilter::from(args.log).to_string(),
        }
    }

    fn json(&self) -> serde_json::Value {
        let ResultingSettings { args, options, .. } = self;
        json!({
            "listen": options.address.to_string(),
            "thrift": options.thrift.map(|at| at.to_string()),
            "metrics": options.metrics.map(|at| at.to_string()),
            "console": args.console.map(|at| at.to_string()),
            "console_write": args.console_write,
            "replicas": args.replication.replicas.map(|at| at.to_string()),
            "replica_of": args.replication.replica_of,
            "changes": args.changes.map(|at| at.to_string()),
            "changes_origins": args.changes_origin,
            "otlp": args.otlp,
            "tls": options.tls.is_some(),
            "tls_clients": args.tls_clients,
            "store": self.store,
            "read_only": args.read_only,
            "max_connections": self.connections,
            "max_connections_wanted": self.short.map(|plan| plan.wanted),
            "max_request_bytes": options.max_frame,
            "max_in_flight_bytes": options.max_in_flight,
            "max_result_bytes": options.max_result,
            "max_results_memory_bytes": options.results_memory(),
            "max_batch_bytes": self.max_batch,
            "max_tombstones": self.max_tombstones,
            "idle_timeout_seconds": args.idle_timeout,
            "workers": options.workers,
            "durability": self.durability,
            "login": options.login,
            "insecure": options.insecure,
            "backups": args.backups.json(),
            "log_statements": args.log_statements,
            "log": self.level,
        })
    }

    /// Returns the settings in words, each with its title.
    fn words(&self) -> Vec<(&'static str, String)> {
        let ResultingSettings { args, options, .. } = self;
        let or = |text: Option<String>, absent: &str| text.unwrap_or_else(|| absent.to_owned());
        let mut all = vec![("listens at", options.address.to_string())];
        all.extend(options.thrift.map(|at| ("and for Thrift", at.to_string())));
        let metrics = options.metrics.map(|at| format!("http://{at}/metrics, and /health"));
        all.push(("metrics", or(metrics, "nowhere")));
        let changes = if args.console_write { "" } else { ", read-only" };
        let console = args.console.map(|at| format!("http://{at}/{changes}"));
        all.extend(console.map(|console| ("console", console)));
        all.extend(args.replication.replicas.map(|at| ("replicas", at.to_string())));
        all.extend(args.replication.replica_of.clone().map(|primary| ("replica of", primary)));
        let feeds = args.changes.map(|at| format!("http://{at}/changes"));
        all.extend(feeds.map(|feeds| ("change feeds", feeds)));
        all.extend(args.otlp.clone().map(|url| ("OpenTelemetry", url)));
        all.push(("encrypted", or(options.tls.as_ref().map(ToString::to_string), "nothing")));
        let how = if args.read_only { ", for reading only" } else { "" };
        all.push(("serves", format!("{}{how}", self.store)));
        let survived = match self.durability {
            None if args.read_only => "nothing: it is refused",
            None => "nothing: the data ends with the server",
            Some("power") => "a power cut, before it is answered",
            Some(_) => "a crash of the process, before it is answered",
        };
        all.push(("a write survives", survived.to_owned()));
        let idle = args.idle_timeout.map(|s| format!("closed after {s} s without a request"));
        let idle = or(idle, "never closed");
        all.push(("connections", format!("{} at most, {idle}", self.connections)));
        all.extend(self.short.map(|plan| ("", plan.to_string())));
        all.push(("largest request", bytes(options.max_frame as u64)));
        all.push(("largest result", bytes(options.max_result as u64)));
        let memory = bytes(options.results_memory() as u64);
        all.push(("all results", format!("{memory} of memory")));
        let batch = self.max_batch.map(|n| format!("{}, over several partitions", bytes(n as u64)));
        all.push(("largest batch", or(batch, "any")));
        let tombstones = self.max_tombstones.map(|n| format!("{} at most in a read", count(n)));
        all.push(("tombstones", or(tombstones, "any")));
        all.push(("in flight", format!("{} at most", bytes(options.max_in_flight as u64))));
        let workers = options.workers.map(|n| n.to_string());
        all.push(("workers", or(workers, "four for each processor, at least 16")));
        let clients = match options.login {
            Some(true) => "clients that log in, within their role's permissions",
            Some(false) => "every client, everything",
            None => "clients that log in, if a role may; else every client, everything",
        };
        let far = if options.insecure { "; from other machines, too" } else { "" };
        all.push(("allowed", format!("{clients}{far}")));
        all.push(("backups", args.backups.words()));
        let log = args.log_statements.as_ref().map(|file| format!("to {}", file.display()));
        all.extend(log.map(|log| ("statements", log)));
        all.push(("log", self.level.clone()));
        all
    }
}

/// Prints the resulting settings.
fn check(global: &Global, args: &ServeArgs, options: &Options) -> Done {
    options.check().map_err(failure)?;
    let settings = ResultingSettings::of(args, options);
    let mut out = stdout();
    if global.store.json {
        writeln!(out, "{}", settings.json())?;
    } else {
        for (title, text) in settings.words() {
            writeln!(out, "{title:<16} {text}")?;
        }
    }
    Ok(out.flush()?)
}

/// Shows messages on standard error, and sends spans to the collector if there is one.
#[cfg(feature = "otel")]
fn start_messages(global: &Global, args: &ServeArgs) -> Done<Option<Otlp>> {
    use tracing_subscriber::layer::{Layer, SubscriberExt};
    use tracing_subscriber::util::SubscriberInitExt;
    let every = Duration::from_secs(args.otlp_every);
    let otlp = args.otlp.as_ref().map(|url| Otlp::new(url, args.otlp_statements, every));
    let otlp = otlp.transpose()?;
    let shown = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(global.style().colours_errors())
        .with_filter(LevelFilter::from(args.log));
    tracing_subscriber::registry().with(shown).with(otlp.as_ref().map(Otlp::layer)).init();
    Ok(otlp)
}

/// Shows messages on standard error.
#[cfg(not(feature = "otel"))]
fn start_messages(global: &Global, args: &ServeArgs) -> Done {
    if args.otlp.is_some() {
        return Err(Failure::with_next(
            "this build of firn lacks OpenTelemetry",
            "build it with --features otel",
        ));
    }
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(LevelFilter::from(args.log))
        .with_ansi(global.style().colours_errors())
        .init();
    Ok(())
}

/// Returns the login of an HTTP port: the password in a file, or that of the server's clients.
fn login(password: Option<&Path>, server: &Server) -> Done<HttpLogin> {
    Ok(match password {
        Some(file) => console::password_login(file)?,
        None if server.requires_login() => HttpLogin::Roles,
        None => HttpLogin::Open,
    })
}

/// Starts the change server.
fn start_changes(args: &ServeArgs, server: &Server) -> Done<Option<ChangeServer>> {
    let Some(address) = args.changes else { return Ok(None) };
    let login = login(args.changes_password.as_deref(), server)?;
    let options = ChangeServerOptions { address, login, origins: args.changes_origin.clone() };
    ChangeServer::start(&server.session(), options).map(Some)
}

/// Returns the options of the console of a server.
fn console_options(args: &ServeArgs, server: &Server) -> Done<Option<ConsoleOptions>> {
    let Some(address) = args.console else { return Ok(None) };
    let mut options = ConsoleOptions::at(address);
    options.may_write = args.console_write;
    options.login = login(args.console_password.as_deref(), server)?;
    Ok(Some(options))
}

/// Starts the console of a server.
fn start_console(args: &ServeArgs, server: &Server) -> Done<Option<Console>> {
    let Some(options) = console_options(args, server)? else { return Ok(None) };
    let store = ConsoleStore::own(&server.session());
    Console::start(Arc::new(store), options).map(Some)
}

/// Flags that signals set.
struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    backup: Arc<AtomicBool>,
}

impl Signals {
    fn watch() -> Done<Signals> {
        let signals =
            Signals { stop: Arc::default(), reload: Arc::default(), backup: Arc::default() };
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, signals.stop.clone())?;
        }
        #[cfg(unix)]
        signal_hook::flag::register(signal_hook::consts::SIGHUP, signals.reload.clone())?;
        #[cfg(unix)]
        signal_hook::flag::register(signal_hook::consts::SIGUSR1, signals.backup.clone())?;
        Ok(signals)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Logs whether certificates were read again.
fn note_reload(reloaded: Result<(), String>) {
    match reloaded {
        Ok(()) => tracing::info!("the certificates were read again"),
        Err(e) => tracing::error!("the old certificates remain in use: {e}"),
    }
}

/// Follows a primary, and serves its store for reading.
fn run_replica(global: &Global, args: &ServeArgs, options: Options, signals: &Signals) -> Done {
    let mut store = with_spans(args, global.defaults());
    if let Some(plan) = options.descriptor_plan() {
        store.open_files = Some(OpenFiles::new(plan.tables));
    }
    let of_console = args.clone();
    let handles = Arc::new(ReplicaHandles::with_server(options, move |server| {
        console_options(&of_console, server)
            .inspect_err(|e| tracing::error!("no console: {e}"))
            .ok()
            .flatten()
    }));
    let Some(replica) = args.replication.start_replica(global, store, &handles)? else {
        return Ok(());
    };
    let db = replica.clone();
    let mut backups = ServedBackups::begin(global, &args.backups, move || db.reader())?;
    if !global.store.json {
        eprintln!("{} follows its primary; Ctrl-C stops", global.store.db.display());
    }
    let env = OsEnv::new();
    let mut address = None;
    while !signals.is_stopped() && !handles.has_failed() {
        let now = handles.address();
        if let Some(at) = now.filter(|_| now != address) {
            if global.store.json {
                let mut out = stdout();
                writeln!(out, "{}", json!({"host": reachable(at.ip()), "port": at.port()}))?;
                out.flush()?;
            } else {
                eprintln!("serving it for reading at {at}");
            }
        }
        address = now.or(address);
        if signals.reload.swap(false, Ordering::Relaxed) {
            note_reload(handles.reload_certificates());
        }
        let asked = signals.backup.swap(false, Ordering::Relaxed);
        backups.iter_mut().for_each(|backups| backups.tick(asked));
        env.sleep(TICK);
    }
    if let Some(backups) = backups {
        backups.stop();
    }
    // A change of definitions may have opened handles meanwhile.
    handles.close_handles();
    replica.stop();
    handles.close_handles();
    handles.failure()
}

/// Runs `firn serve`.
pub fn run(global: &Global, args: &ServeArgs) -> Done {
    let mut options = options(global, args);
    raise_descriptors();
    if args.check {
        return check(global, args, &options);
    }
    #[cfg(feature = "otel")]
    let messages = start_messages(global, args)?;
    #[cfg(not(feature = "otel"))]
    start_messages(global, args)?;
    let signals = Signals::watch()?;
    args.replication.check(args.insecure)?;
    if args.replication.replica_of.is_some() {
        return run_replica(global, args, options, &signals);
    }
    if !args.ephemeral && !args.read_only {
        global.check_no_replica()?;
    }
    // A store of keys and values has no roles; opening it for CQL would add a tree to it.
    if !args.ephemeral && global.holding()? != StoreContent::Model {
        options.check_without_login().map_err(failure)?;
    }
    let primary: Arc<OnceLock<Primary>> = Arc::default();
    let metrics = primary.clone();
    options.more_metrics = Some(MetricsSource::new(move |text| {
        metrics.get().iter().for_each(|primary| primary.export(text));
    }));
    let server = Arc::new(Server::start(options).map_err(failure)?);
    #[cfg(feature = "otel")]
    let otlp = messages.map(|otlp| otlp.start(&server)).transpose()?;
    let db = server.session().engine().store().db().clone();
    if let Some(words) = clock_words(server.session().engine().store()) {
        tracing::warn!("{words}");
    }
    let console = start_console(args, &server)?;
    let changes = start_changes(args, &server)?;
    if let Some(started) = args.replication.start_primary(global, &db)? {
        primary.get_or_init(|| started);
    }
    let mut backups = ServedBackups::begin(global, &args.backups, move || Some(db.clone()))?;
    let address = server.address();
    if args.ephemeral || global.store.json {
        let mut out = stdout();
        let mut at = json!({"host": reachable(address.ip()), "port": address.port()});
        if let Some(thrift) = server.thrift_address() {
            at["thrift"] = thrift.port().into();
        }
        if let Some(metrics) = server.metrics_address() {
            at["metrics"] = metrics.port().into();
        }
        if let Some(console) = &console {
            at["console"] = console.address().port().into();
        }
        if let Some(primary) = primary.get() {
            at["replicas"] = primary.address().port().into();
        }
        if let Some(changes) = &changes {
            at["changes"] = changes.address().port().into();
        }
        writeln!(out, "{at}")?;
        out.flush()?;
    } else {
        eprintln!("serving {} at {address}; Ctrl-C stops", global.store.db.display());
        if let Some(console) = &console {
            eprintln!("the console is at {}", console::url(console.address()));
        }
        if let Some(primary) = primary.get() {
            eprintln!("replicas connect to {}", primary.address());
        }
        if let Some(changes) = &changes {
            eprintln!("the changes are at {}changes", console::url(changes.address()));
        }
    }
    let env = OsEnv::new();
    while !signals.is_stopped() {
        if signals.reload.swap(false, Ordering::Relaxed) {
            note_reload(server.reload_certificates().map_err(|e| e.to_string()));
        }
        let asked = signals.backup.swap(false, Ordering::Relaxed);
        match &mut backups {
            Some(backups) => backups.tick(asked),
            None if asked => tracing::warn!("no backup was made: --backup is not set"),
            None => {}
        }
        env.sleep(TICK);
    }
    if let Some(backups) = backups {
        backups.stop();
    }
    console.iter().for_each(Console::stop);
    primary.get().iter().for_each(|primary| primary.stop());
    changes.iter().for_each(ChangeServer::stop);
    #[cfg(feature = "otel")]
    let spans = otlp.map(OtlpSender::stop);
    let stopped = server.stop().map_err(failure);
    // The last flushes and statements have ended.
    #[cfg(feature = "otel")]
    if let Some(Err(e)) = spans.map(|spans| spans.shutdown()) {
        tracing::warn!("the last spans were not sent: {e}");
    }
    stopped
}
