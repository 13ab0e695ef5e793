//! The side that is copied: accepts replicas, and sends each a copy and the changes.
//!
//! Invariants:
//! - A replica proves that it knows the password before it receives anything of the store.
//! - At most [`MAX_REPLICAS`] connections are open, each with two threads and less than 2 MiB of
//!   buffers, beyond the largest change. A new connection replaces one that has not logged in.

use std::fmt;
use std::io::{BufReader, BufWriter, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_kv::fs::Thread;
use firn_kv::stats::PrometheusText;
use firn_kv::{ChangePosition, Db, Env, Error, ErrorKind, OsEnv, Result, SubscriptionInfo};
use parking_lot::{Condvar, Mutex};

use crate::login::{Side, is_proven, nonce, prove};
use crate::message::{Message, SHORT_FRAME, VERSION, network, receive, send, unexpected};
use crate::sender::{Sender, SenderState, receive_applied};

/// Maximum number of connections.
const MAX_REPLICAS: usize = 64;
/// Time for a replica to log in.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without an answer, or without progress of a send, after which a connection is closed.
const SILENCE: Duration = Duration::from_secs(60);
/// Names of subscriptions of replicas begin with this.
const SUBSCRIPTIONS: &str = "replica/";

/// Options of a [`Primary`].
#[derive(Clone)]
#[non_exhaustive]
pub struct PrimaryOptions {
    /// Address to listen at. Port 0 means any free port.
    pub address: SocketAddr,
    /// Password that replicas must know. `None`: none, for an address that only trusted programs
    /// reach.
    pub password: Option<String>,
    /// Maximum number of bytes of log that the store retains for each replica that is away; 1 GiB.
    /// A replica that needs more copies the store again.
    pub max_log_bytes: u64,
}

impl PrimaryOptions {
    /// Returns the default options for this address.
    pub fn at(address: SocketAddr) -> PrimaryOptions {
        PrimaryOptions { address, password: None, max_log_bytes: 1 << 30 }
    }
}

impl fmt::Debug for PrimaryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrimaryOptions")
            .field("address", &self.address)
            .field("has_password", &self.password.is_some())
            .field("max_log_bytes", &self.max_log_bytes)
            .finish()
    }
}

/// A replica, as its primary knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaInfo {
    /// Name of the replica.
    pub name: String,
    /// Address of its connection; `None` if it is away.
    pub address: Option<SocketAddr>,
    /// Whether the store is being copied to it.
    pub is_copying: bool,
    /// Sequence number up to which everything is durable in the replica.
    pub applied: u64,
    /// Number of sequence numbers that are not.
    pub behind: u64,
    /// Bytes of log that the store retains for it.
    pub retained_bytes: u64,
}

/// An open connection.
struct Connection {
    number: u64,
    /// Empty before the login.
    name: String,
    address: SocketAddr,
    socket: Arc<TcpStream>,
    state: Arc<SenderState>,
}

#[derive(Default)]
struct Connections {
    open: Vec<Connection>,
    threads: usize,
    next: u64,
}

struct PrimaryCore {
    env: Arc<dyn Env>,
    db: Db,
    options: PrimaryOptions,
    is_stopped: AtomicBool,
    connections: Mutex<Connections>,
    left: Condvar,
}

/// Listener for replicas of a store. Dropping it stops it.
pub struct Primary {
    core: Arc<PrimaryCore>,
    address: SocketAddr,
    accepting: Mutex<Option<Box<dyn Thread>>>,
}

impl fmt::Debug for Primary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Primary").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Primary {
    /// Listens for replicas of a store on disk.
    ///
    /// # Errors
    /// An address that cannot be bound, and a thread that cannot be started.
    pub fn start(db: &Db, options: PrimaryOptions) -> Result<Primary> {
        Primary::start_in(OsEnv::new(), db, options)
    }

    /// As [`start`](Primary::start), for a store in another environment.
    ///
    /// # Errors
    /// As [`start`](Primary::start).
    pub fn start_in(env: Arc<dyn Env>, db: &Db, options: PrimaryOptions) -> Result<Primary> {
        let at = |e: std::io::Error| {
            Error::new(ErrorKind::Io, format!("cannot listen at {}: {e}", options.address))
        };
        let listener = TcpListener::bind(options.address).map_err(at)?;
        let address = listener.local_addr().map_err(at)?;
        let core = Arc::new(PrimaryCore {
            env: env.clone(),
            db: db.clone(),
            options,
            is_stopped: AtomicBool::new(false),
            connections: Mutex::default(),
            left: Condvar::new(),
        });
        let accepting = core.clone();
        let work = Box::new(move || accepting.accept(&listener));
        let thread = env.spawn("firn-primary", work)?;
        Ok(Primary { core, address, accepting: Mutex::new(Some(thread)) })
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns all replicas, connected or away, in the order of their names.
    pub fn replicas(&self) -> Vec<ReplicaInfo> {
        let connections = self.core.connections.lock();
        let of = |s: SubscriptionInfo| {
            let name = s.name.strip_prefix(SUBSCRIPTIONS)?.to_owned();
            let open = connections.open.iter().find(|c| c.name == name);
            Some(ReplicaInfo {
                address: open.map(|c| c.address),
                is_copying: open.is_some_and(|c| c.state.is_copying.load(Ordering::Relaxed)),
                applied: s.seq,
                behind: s.behind,
                retained_bytes: s.retained_bytes,
                name,
            })
        };
        self.core.db.subscriptions().into_iter().filter_map(of).collect()
    }

    /// Appends the metrics of all replicas.
    pub fn export(&self, text: &mut PrometheusText) {
        let all = self.replicas();
        let mut each = |(name, help), value: fn(&ReplicaInfo) -> u64| {
            let values: Vec<_> = all.iter().map(|r| (&*r.name, value(r))).collect();
            text.each((name, "gauge"), help, "replica", &values);
        };
        each(("firn_primary_replica_connected", "Whether the replica is connected."), |r| {
            u64::from(r.address.is_some())
        });
        each(
            (
                "firn_primary_replica_behind",
                "Sequence numbers that are not durable in the replica.",
            ),
            |r| r.behind,
        );
        each(
            ("firn_primary_replica_log_bytes", "Bytes of log that are retained for the replica."),
            |r| r.retained_bytes,
        );
    }

    /// Forgets a replica that is away for good, and releases the log that the store retains for it.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name, and errors of writing the manifest.
    pub fn forget(&self, name: &str) -> Result<()> {
        self.core.db.drop_subscription(&format!("{SUBSCRIPTIONS}{name}"))
    }

    /// Stops listening, and closes all connections.
    pub fn stop(&self) {
        self.core.is_stopped.store(true, Ordering::SeqCst);
        let thread = self.accepting.lock().take();
        if let Some(thread) = thread {
            // A connection wakes the accepting thread.
            drop(TcpStream::connect(self.address));
            thread.join();
        }
        let mut connections = self.core.connections.lock();
        connections.open.iter().for_each(|c| close(&c.socket));
        while connections.threads > 0 {
            self.core.left.wait(&mut connections);
        }
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        self.stop();
    }
}

fn close(socket: &TcpStream) {
    // Ignore the error: the connection may have ended already.
    let _ = socket.shutdown(Shutdown::Both);
}

/// Removes a connection when its thread ends, even by a panic.
struct Leaving {
    core: Arc<PrimaryCore>,
    number: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut connections = self.core.connections.lock();
        connections.open.retain(|c| c.number != self.number);
        connections.threads -= 1;
        self.core.left.notify_all();
    }
}

impl PrimaryCore {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if self.is_stopped.load(Ordering::SeqCst) {
                return;
            }
            match accepted {
                Ok((socket, address)) => self.take(Arc::new(socket), address),
                Err(e) => {
                    tracing::warn!("a replica could not be accepted: {e}");
                    self.env.sleep(Duration::from_millis(50));
                }
            }
        }
    }

    fn take(self: &Arc<Self>, socket: Arc<TcpStream>, address: SocketAddr) {
        let state = Arc::new(SenderState::default());
        let number = {
            let mut connections = self.connections.lock();
            if connections.open.len() >= MAX_REPLICAS {
                // A connection that does not log in keeps nobody out.
                let Some(at) = connections.open.iter().position(|c| c.name.is_empty()) else {
                    tracing::warn!("{MAX_REPLICAS} replicas are connected, {address} is refused");
                    return;
                };
                close(&connections.open.remove(at).socket);
            }
            let number = connections.next;
            connections.next += 1;
            connections.threads += 1;
            let (socket, state) = (socket.clone(), state.clone());
            let open = Connection { number, name: String::new(), address, socket, state };
            connections.open.push(open);
            number
        };
        let leaving = Leaving { core: self.clone(), number };
        let work = move || {
            let core = leaving.core.clone();
            if let Err(e) = core.serve(&socket, &state, number) {
                if !core.is_stopped.load(Ordering::SeqCst) {
                    tracing::warn!("the replica at {address}: {e}");
                }
                // The connection may have ended; the replica then sees that.
                let _ = send(&mut &*socket, &Message::Refuse { reason: e.to_string() });
            }
            close(&socket);
        };
        if let Err(e) = self.env.spawn(&format!("firn-replica-{number}"), Box::new(work)) {
            tracing::warn!("no thread for a replica: {e}");
        }
    }

    /// Checks a replica, and returns its name and position.
    fn log_in(&self, socket: &TcpStream) -> Result<(String, Option<ChangePosition>)> {
        socket.set_read_timeout(Some(LOGIN_TIMEOUT)).map_err(network)?;
        socket.set_write_timeout(Some(LOGIN_TIMEOUT)).map_err(network)?;
        let own = nonce(&*self.env);
        let password = self.options.password.as_deref();
        let needs_password = password.is_some();
        let store = self.db.identity();
        let hello = Message::Hello { version: VERSION, store, nonce: own, needs_password };
        send(&mut &*socket, &hello)?;
        let (theirs, proof, position, name) = match receive(&mut &*socket, SHORT_FRAME)? {
            Message::Join { version, .. } if version != VERSION => {
                return Err(Error::new(
                    ErrorKind::Incompatible,
                    format!(
                        "the replica has version {version} of the protocol, the primary {VERSION}"
                    ),
                ));
            }
            Message::Join { nonce, proof, position, name, .. } => (nonce, proof, position, name),
            other => return Err(unexpected(&other)),
        };
        let (password, nonces) = (password.unwrap_or_default(), [&own, &theirs]);
        if !is_proven(password, Side::Replica, nonces, &name, &proof) {
            let words = if needs_password {
                "the password of the replica is wrong"
            } else {
                "the primary has no password, but the replica has one"
            };
            return Err(Error::invalid(words));
        }
        let proof = prove(password, Side::Primary, nonces, &name);
        send(&mut &*socket, &Message::Accept { proof })?;
        Ok((name, position))
    }

    fn serve(
        self: &Arc<Self>,
        socket: &Arc<TcpStream>,
        state: &Arc<SenderState>,
        number: u64,
    ) -> Result<()> {
        // Optional: replication works without it.
        let _ = socket.set_nodelay(true);
        let (name, position) = self.log_in(socket)?;
        let subscription = format!("{SUBSCRIPTIONS}{name}");
        let changes =
            self.db.subscribe(&subscription, self.options.max_log_bytes).map_err(|e| {
                if e.kind() == ErrorKind::Locked {
                    return Error::new(
                        ErrorKind::Locked,
                        format!("a replica named {name:?} is connected already"),
                    );
                }
                e
            })?;
        socket.set_read_timeout(Some(SILENCE)).map_err(network)?;
        socket.set_write_timeout(Some(SILENCE)).map_err(network)?;
        {
            let mut connections = self.connections.lock();
            connections
                .open
                .iter_mut()
                .filter(|c| c.number == number)
                .for_each(|c| c.name.clone_from(&name));
        }
        tracing::info!("the replica {name} is connected");
        let (receiving, from) = (state.clone(), socket.clone());
        let thread = self.env.spawn(
            &format!("firn-applied-{number}"),
            Box::new(move || {
                // The sender sees and reports the end.
                let _ = receive_applied(&mut BufReader::new(&*from), &receiving);
                receiving.is_over.store(true, Ordering::Relaxed);
                close(&from);
            }),
        )?;
        let to = BufWriter::with_capacity(256 << 10, &**socket);
        let mut sender = Sender {
            env: &self.env,
            db: &self.db,
            changes,
            state,
            to,
            is_stopped: &self.is_stopped,
        };
        let sent = sender.run(position);
        if let Err(e) = &sent {
            let told = send(&mut sender.to, &Message::Refuse { reason: e.to_string() });
            drop(told.and_then(|()| sender.to.flush().map_err(network)));
        }
        close(socket);
        thread.join();
        tracing::info!("the replica {name} is disconnected");
        sent
    }
}
