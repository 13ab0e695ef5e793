//! The side that copies: follows a primary, and applies its changes.
//!
//! Invariants:
//! - One thread writes to the store, and nobody else.
//! - A change is acknowledged to the primary when it is durable here.
//! - After an error the replica connects again, with growing delays of 1 to 10 seconds.

use std::fmt;
use std::io::BufReader;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_kv::fs::{FileLock, Thread};
use firn_kv::stats::PrometheusText;
use firn_kv::{ChangePosition, Db, DbOptions, Env, Error, ErrorKind, OsEnv, Result};
use parking_lot::Mutex;

use crate::apply::Applier;
use crate::incoming::{
    CopyProgress, REPLICA_LOCK, copied_position, finish, forget_position, has_store, receive_copy,
};
use crate::login::{Side, is_proven, nonce, prove};
use crate::message::{
    LONG_FRAME, Message, SHORT_FRAME, VERSION, network, receive, send, unexpected,
};
use crate::state::{ReplicaTrees, begin_replica, promote_open};

/// Time without a message after which the connection is closed. The primary sends one each second,
/// except while it flushes before a copy.
const SILENCE: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest interval between the application of a change and its acknowledgement.
const ACKNOWLEDGE_NANOS: u64 = 100_000_000;
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// Interval of checks while waiting.
const TICK: Duration = Duration::from_millis(2);

/// Rule for writes: a tree's name and a key.
type WriteRule = Arc<dyn Fn(&str, &[u8]) -> bool + Send + Sync>;

/// Holder of handles of a replica's store that must be opened again at times: when the store is
/// replaced by a new copy, and for writes that [`ReplicaOptions::reopen_on`] names.
pub trait ReplicaListener: Send + Sync {
    /// Closes the handles. The store changes when this returns.
    fn close_handles(&self);
    /// Opens handles again. `store` only reads ([`Db::reader`]).
    fn open_handles(&self, store: Db);
}

/// Options of a [`Replica`].
#[derive(Clone)]
#[non_exhaustive]
pub struct ReplicaOptions {
    /// Address of the primary: host and port.
    pub primary: String,
    /// Name of this replica, different from the others of the primary. 1 to 200 bytes.
    pub name: String,
    /// Password of the primary; `None` if it has none.
    pub password: Option<String>,
    /// Options of the store.
    pub store: DbOptions,
    /// Receiver of changes that require handles to be opened again.
    pub listener: Option<Arc<dyn ReplicaListener>>,
    /// Returns for a tree and a key whether a write to it requires that.
    pub reopen_on: Option<WriteRule>,
}

impl ReplicaOptions {
    /// Returns the default options of a replica.
    pub fn of(primary: impl Into<String>, name: impl Into<String>) -> ReplicaOptions {
        ReplicaOptions {
            primary: primary.into(),
            name: name.into(),
            password: None,
            store: DbOptions::default(),
            listener: None,
            reopen_on: None,
        }
    }
}

impl fmt::Debug for ReplicaOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaOptions")
            .field("primary", &self.primary)
            .field("name", &self.name)
            .field("has_password", &self.password.is_some())
            .finish_non_exhaustive()
    }
}

/// Calls of the listener.
pub struct Reopening {
    rule: Option<WriteRule>,
    listener: Option<Arc<dyn ReplicaListener>>,
}

impl Reopening {
    /// Returns the rule for writes, if there is a listener.
    pub fn rule(&self) -> Option<&WriteRule> {
        self.rule.as_ref().filter(|_| self.listener.is_some())
    }

    /// Runs `change` while no handle is open.
    pub fn around(&self, db: &Db, change: impl FnOnce() -> Result<()>) -> Result<()> {
        self.close();
        let changed = change();
        self.open(db);
        changed
    }

    fn close(&self) {
        self.listener.iter().for_each(|l| l.close_handles());
    }

    fn open(&self, db: &Db) {
        self.listener.iter().for_each(|l| l.open_handles(db.reader()));
    }
}

/// State of a [`Replica`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaStatus {
    /// Whether it is connected to the primary.
    pub is_connected: bool,
    /// Progress of the copy that is being received.
    pub copy: Option<CopyProgress>,
    /// Position up to which changes were applied; `None` before the first copy.
    pub position: Option<ChangePosition>,
    /// Newest sequence number of the primary that is known.
    pub newest: u64,
    /// Number of sequence numbers between them.
    pub behind: u64,
    /// Time since the replica last had everything that it knew of, and heard of the primary at most
    /// about a second before.
    pub lag: Duration,
    /// Number of changes that were applied since the start.
    pub changes: u64,
    /// Number of copies that were received since the start.
    pub copies: u64,
    /// The last error, until the next connection.
    pub error: Option<String>,
}

struct ReplicaCore {
    env: Arc<dyn Env>,
    dir: PathBuf,
    options: ReplicaOptions,
    reopening: Reopening,
    is_stopped: AtomicBool,
    status: Mutex<ReplicaStatus>,
    /// Monotonic time at which the replica last had everything.
    caught_up: Mutex<u64>,
    db: Mutex<Option<Db>>,
    socket: Mutex<Option<Arc<TcpStream>>>,
}

/// A copy of a primary's store. Dropping it stops it.
pub struct Replica {
    core: Arc<ReplicaCore>,
    thread: Mutex<Option<Box<dyn Thread>>>,
    lock: Mutex<Option<Box<dyn FileLock>>>,
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("dir", &self.core.dir).finish_non_exhaustive()
    }
}

impl Replica {
    /// Opens the replica in `dir`, and follows the primary from now on. If the directory is missing
    /// or empty, the store of the primary is copied first.
    ///
    /// # Errors
    /// `InvalidArgument` if the directory has a store that is no replica or that another program has
    /// written to, `Locked` if it is in use, and errors of opening the store. An absent primary is no
    /// error: see [`status`](Replica::status).
    pub fn start(dir: impl AsRef<Path>, options: ReplicaOptions) -> Result<Replica> {
        let dir = std::path::absolute(dir.as_ref())
            .map_err(|e| Error::new(ErrorKind::Io, format!("the working directory: {e}")))?;
        Replica::start_in(OsEnv::new(), dir, options)
    }

    /// As [`start`](Replica::start), in another environment.
    ///
    /// # Errors
    /// As [`start`](Replica::start).
    pub fn start_in(
        env: Arc<dyn Env>,
        dir: impl AsRef<Path>,
        options: ReplicaOptions,
    ) -> Result<Replica> {
        let dir = dir.as_ref().to_path_buf();
        if options.name.is_empty() || options.name.len() > 200 {
            return Err(Error::invalid("the name of a replica has 1 to 200 bytes"));
        }
        env.create_dir_all(&dir)?;
        let lock = env.lock(&dir.join(REPLICA_LOCK))?;
        finish(&*env, &dir)?;
        let reopening =
            Reopening { rule: options.reopen_on.clone(), listener: options.listener.clone() };
        let core = Arc::new(ReplicaCore {
            caught_up: Mutex::new(env.monotonic_nanos()),
            env: env.clone(),
            dir,
            options,
            reopening,
            is_stopped: AtomicBool::new(false),
            status: Mutex::default(),
            db: Mutex::default(),
            socket: Mutex::default(),
        });
        if has_store(&*env, &core.dir)? {
            let db = core.open_store()?;
            core.status.lock().position = Some(ReplicaTrees::open(&db)?.position());
            core.reopening.open(&db);
        }
        let running = core.clone();
        let thread = env.spawn("firn-replica", Box::new(move || running.run()))?;
        Ok(Replica { core, thread: Mutex::new(Some(thread)), lock: Mutex::new(Some(lock)) })
    }

    /// Returns the state.
    pub fn status(&self) -> ReplicaStatus {
        let core = &self.core;
        let mut status = core.status.lock().clone();
        let seq = status.position.map_or(0, |p| p.seq);
        status.behind = status.newest.saturating_sub(seq);
        if !status.is_connected || status.behind > 0 || status.position.is_none() {
            let passed = core.env.monotonic_nanos().saturating_sub(*core.caught_up.lock());
            status.lag = Duration::from_nanos(passed);
        }
        status
    }

    /// Appends the metrics of the replica.
    pub fn export(&self, text: &mut PrometheusText) {
        let s = self.status();
        let copy = s.copy.unwrap_or_default();
        let gauges = [
            (
                "firn_replica_connected",
                "Whether the replica is connected to the primary.",
                u64::from(s.is_connected),
            ),
            (
                "firn_replica_behind",
                "Sequence numbers of the primary that were not applied yet.",
                s.behind,
            ),
            (
                "firn_replica_copy_bytes",
                "Bytes of the copy that is being received; 0 without one.",
                copy.bytes,
            ),
            ("firn_replica_copy_received_bytes", "Bytes of it that have arrived.", copy.received),
        ];
        gauges.into_iter().for_each(|(name, help, value)| text.gauge(name, help, value));
        let help = "Time since the replica last had all that it knew of; 0 while it has.";
        text.gauge("firn_replica_lag_seconds", help, s.lag.as_secs_f64());
        text.counter("firn_replica_changes_total", "Changes that were applied.", s.changes);
        text.counter("firn_replica_copies_total", "Copies of the primary's store.", s.copies);
    }

    /// Returns a handle of the present store that only reads; `None` before the first copy. After a
    /// new copy ([`ReplicaStatus::copies`]) it fails with `Closed`: get another one.
    pub fn reader(&self) -> Option<Db> {
        self.core.db.lock().as_ref().map(Db::reader)
    }

    /// Waits for the first copy, and returns a handle of the store that only reads.
    ///
    /// # Errors
    /// The last error of the connection if there is no copy after this time.
    pub fn wait_for_copy(&self, time: Duration) -> Result<Db> {
        let mut copy = None;
        self.wait(time, || {
            copy = self.reader();
            copy.is_some()
        });
        copy.ok_or_else(|| {
            let error = self.status().error.unwrap_or_else(|| "the copy takes longer".to_owned());
            Error::new(ErrorKind::Io, format!("there is no copy of the primary yet: {error}"))
        })
    }

    /// Waits until the change with this sequence number of the primary was applied, for example
    /// that of a write that a reader must see. Returns whether it was.
    pub fn wait_for(&self, seq: u64, time: Duration) -> bool {
        self.wait(time, || self.core.status.lock().position.is_some_and(|p| p.seq >= seq))
    }

    fn wait(&self, time: Duration, mut is_done: impl FnMut() -> bool) -> bool {
        let env = &self.core.env;
        let end = env.monotonic_nanos().saturating_add(time.as_nanos() as u64);
        loop {
            if is_done() {
                return true;
            }
            if env.monotonic_nanos() >= end {
                return false;
            }
            env.sleep(TICK);
        }
    }

    /// Stops following and closes the store. A later [`start`](Replica::start) continues.
    pub fn stop(&self) {
        if let Some(db) = self.end() {
            // Changes that were not synced are received again.
            let _ = db.close();
        }
        *self.lock.lock() = None;
    }

    /// Ends the thread, and returns the store.
    fn end(&self) -> Option<Db> {
        self.core.is_stopped.store(true, Ordering::SeqCst);
        if let Some(socket) = &*self.core.socket.lock() {
            // Ignore the error: the connection may have ended already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        let thread = self.thread.lock().take();
        thread.into_iter().for_each(|t| t.join());
        self.core.db.lock().take()
    }

    /// Stops following, and makes the store an independent one, to which the returned handle writes.
    /// Writes of the primary that were not received are not in it.
    ///
    /// # Errors
    /// `NotFound` if there is no copy yet, and errors of writing the store.
    pub fn promote(&self) -> Result<Db> {
        let db = self.end().ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there is no copy of the primary yet")
        })?;
        promote_open(&db)?;
        db.sync()?;
        *self.lock.lock() = None;
        Ok(db)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.stop();
    }
}

impl ReplicaCore {
    fn open_store(&self) -> Result<Db> {
        let db = Db::open_in(self.env.clone(), &self.dir, self.options.store.clone())?;
        if let Some(position) = copied_position(&*self.env, &self.dir)? {
            begin_replica(&db, position)?;
            forget_position(&*self.env, &self.dir)?;
        }
        *self.db.lock() = Some(db.clone());
        Ok(db)
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    fn run(&self) {
        let mut delay = FIRST_DELAY;
        while !self.is_stopped() {
            let result = self.follow();
            let was_connected = {
                let mut status = self.status.lock();
                status.copy = None;
                std::mem::take(&mut status.is_connected)
            };
            *self.socket.lock() = None;
            if self.is_stopped() {
                return;
            }
            if let Err(e) = result {
                let primary = &self.options.primary;
                tracing::warn!("replication from {primary}: {e}");
                self.status.lock().error = Some(e.to_string());
            }
            delay = if was_connected { FIRST_DELAY } else { LONGEST_DELAY.min(delay * 2) };
            let end = self.env.monotonic_nanos().saturating_add(delay.as_nanos() as u64);
            while !self.is_stopped() && self.env.monotonic_nanos() < end {
                self.env.sleep(Duration::from_millis(20));
            }
        }
    }

    fn connect(&self) -> Result<Arc<TcpStream>> {
        let primary = &self.options.primary;
        let failed = |e: std::io::Error| {
            Error::new(ErrorKind::Io, format!("cannot connect to the primary {primary}: {e}"))
        };
        let mut last = std::io::ErrorKind::NotFound.into();
        for address in primary.to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(socket) => return Ok(Arc::new(socket)),
                Err(e) => last = e,
            }
        }
        Err(failed(last))
    }

    fn log_in(&self, socket: &TcpStream, position: Option<ChangePosition>) -> Result<u64> {
        let (store, theirs, needs_password) = match receive(&mut &*socket, SHORT_FRAME)? {
            Message::Hello { version, .. } if version != VERSION => {
                return Err(Error::new(
                    ErrorKind::Incompatible,
                    format!(
                        "the primary has version {version} of the protocol, this one {VERSION}"
                    ),
                ));
            }
            Message::Hello { store, nonce, needs_password, .. } => (store, nonce, needs_password),
            other => return Err(unexpected(&other)),
        };
        if needs_password && self.options.password.is_none() {
            return Err(Error::invalid("the primary requires a password"));
        }
        if let Some(position) = position.filter(|p| p.store != store) {
            return Err(Error::invalid(format!(
                "this is a replica of the store {:016x}, and the primary has the store {store:016x}: remove the replica to copy the other store",
                position.store
            )));
        }
        let (own, name) = (nonce(&*self.env), self.options.name.clone());
        let password = self.options.password.as_deref().unwrap_or_default();
        let nonces = [&theirs, &own];
        let proof = prove(password, Side::Replica, nonces, &name);
        let join = Message::Join { version: VERSION, nonce: own, proof, position, name };
        send(&mut &*socket, &join)?;
        match receive(&mut &*socket, SHORT_FRAME)? {
            Message::Accept { proof }
                if is_proven(password, Side::Primary, nonces, &self.options.name, &proof) =>
            {
                Ok(store)
            }
            Message::Accept { .. } => Err(Error::invalid("the primary does not know the password")),
            Message::Refuse { reason } => Err(refused(&reason)),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the store, opened again if a failure has made it read-only; `None` before the first
    /// copy.
    fn writable_store(&self) -> Result<Option<Db>> {
        let open = self.db.lock().clone();
        match open {
            Some(db) if db.stats().refusal.is_some() => {
                self.reopening.close();
                // The failure is known.
                let _ = db.close();
                *self.db.lock() = None;
                drop(db);
            }
            Some(db) => return Ok(Some(db)),
            None => finish(&*self.env, &self.dir)?,
        }
        if !has_store(&*self.env, &self.dir)? {
            return Ok(None);
        }
        let db = self.open_store()?;
        self.reopening.open(&db);
        Ok(Some(db))
    }

    /// Follows the primary until the connection ends.
    fn follow(&self) -> Result<()> {
        let socket = self.connect()?;
        *self.socket.lock() = Some(socket.clone());
        if self.is_stopped() {
            return Ok(());
        }
        // Optional: replication works without it.
        let _ = socket.set_nodelay(true);
        socket.set_read_timeout(Some(SILENCE)).map_err(network)?;
        socket.set_write_timeout(Some(SILENCE)).map_err(network)?;
        let mut applier = match self.writable_store()? {
            Some(db) => Some(Applier::new(db.clone(), ReplicaTrees::open(&db)?)),
            None => None,
        };
        // The store may have lost unsynced changes since the last connection.
        let position = applier.as_ref().map(Applier::position);
        let store = self.log_in(&socket, position)?;
        {
            let mut status = self.status.lock();
            status.is_connected = true;
            status.error = None;
        }
        let mut from = BufReader::with_capacity(256 << 10, &*socket);
        let mut acknowledged = self.env.monotonic_nanos();
        loop {
            if from.buffer().is_empty()
                && let Some(applier) = &mut applier
            {
                applier.write(&self.reopening)?;
                self.note(store, applier.seq());
                let now = self.env.monotonic_nanos();
                if now >= acknowledged + ACKNOWLEDGE_NANOS {
                    acknowledged = now;
                    send(&mut &*socket, &Message::Applied { seq: applier.sync()? })?;
                }
            }
            match (receive(&mut from, LONG_FRAME)?, &mut applier) {
                (Message::Copy { bytes, reason, .. }, _) => {
                    tracing::info!("the store of {} is copied: {reason}", self.options.primary);
                    let copy = (store, bytes);
                    receive_copy(&self.env, &self.dir, &mut from, copy, |progress| {
                        self.status.lock().copy = Some(progress);
                        let now = self.env.monotonic_nanos();
                        if now >= acknowledged + ACKNOWLEDGE_NANOS {
                            acknowledged = now;
                            send(&mut &*socket, &Message::Applied { seq: 0 })?;
                        }
                        Ok(())
                    })?;
                    drop(applier.take());
                    applier = Some(self.replace_store()?);
                }
                (Message::Trees { definitions }, Some(applier)) => {
                    applier.define(&definitions, &self.reopening)?;
                }
                (Message::Change { first, last, ops }, Some(applier)) => {
                    applier.add((first, last), &ops, &self.reopening)?;
                    let mut status = self.status.lock();
                    status.changes += 1;
                    status.newest = status.newest.max(last);
                }
                (Message::Alive { newest }, Some(_)) => {
                    let mut status = self.status.lock();
                    status.newest = status.newest.max(newest);
                }
                (Message::Refuse { reason }, _) => return Err(refused(&reason)),
                (other, _) => return Err(unexpected(&other)),
            }
        }
    }

    /// Notes the sequence number up to which changes were applied.
    fn note(&self, store: u64, seq: u64) {
        let mut status = self.status.lock();
        status.position = Some(ChangePosition { store, seq });
        if seq >= status.newest {
            *self.caught_up.lock() = self.env.monotonic_nanos();
        }
    }

    /// Puts a complete copy into its place, and opens it.
    fn replace_store(&self) -> Result<Applier> {
        let old = self.db.lock().take();
        if let Some(old) = old {
            self.reopening.close();
            // Its files are removed.
            let _ = old.close();
        }
        finish(&*self.env, &self.dir)?;
        let db = self.open_store()?;
        let trees = ReplicaTrees::open(&db)?;
        let position = trees.position();
        {
            let mut status = self.status.lock();
            status.copy = None;
            status.copies += 1;
            status.newest = status.newest.max(position.seq);
        }
        self.note(position.store, position.seq);
        self.reopening.open(&db);
        Ok(Applier::new(db, trees))
    }
}

fn refused(reason: &str) -> Error {
    Error::new(ErrorKind::Io, format!("the primary refuses: {reason}"))
}
