//! A connection as others see it: who its client is, what it listens to, how it is answered.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use firn_cql::internals::exec::SchemaListener;
use firn_cql::{Class, Error, Rows, SchemaChange, Session};
use firn_kv::Env;
use parking_lot::Mutex;
use uuid::Uuid;

use super::outbox::Outbox;
use crate::node::{ConnectionMeter, FlightBudget, Node};
use crate::transport::Transport;
use crate::wire::{BodyCompression, Envelope, Opcode, ResponseBody, Version, WireError};

/// Kinds of events that a client may listen to.
pub const EVENTS: [&str; 3] = ["TOPOLOGY_CHANGE", "STATUS_CHANGE", "SCHEMA_CHANGE"];
const STATUS: u8 = 1 << 1;
const SCHEMA: u8 = 1 << 2;

/// Requests of one client that wait for a worker or run there. More are not read.
const MOST_WAITING: usize = 32;

/// The language of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The version of the protocol.
    pub version: Version,
    /// The compression of bodies or segments.
    pub compression: Option<BodyCompression>,
    /// Whether the client wants a refusal rather than to wait where too much is in flight.
    pub throws_on_overload: bool,
}

/// A connection with a client.
pub struct Client {
    /// Its number.
    pub number: u64,
    /// Where the client is.
    pub peer: SocketAddr,
    /// Where it has reached the server.
    pub local: SocketAddr,
    /// Its conversation with the database.
    pub session: Session,
    /// Its answers.
    pub outbox: Arc<Outbox>,
    /// The language, when that is settled.
    pub dialect: OnceLock<Dialect>,
    /// What it said of itself in STARTUP.
    pub about: Mutex<BTreeMap<String, String>>,
    /// Whether it was told what a prepared statement in a keyspace of USE means.
    pub warned_of_use: AtomicBool,
    /// Set when it has gone: its statements end then.
    pub gone: Arc<AtomicBool>,
    /// Its requests that wait for a worker or run there: whatever they answer lies in memory until
    /// it is sent.
    pub waiting: FlightBudget,
    /// How many requests it has sent.
    pub requests: AtomicU64,
    /// What it counts with.
    pub meter: ConnectionMeter,
    listens: AtomicU8,
    env: Arc<dyn Env>,
}

impl Client {
    /// With whom no conversation has begun.
    ///
    /// # Errors
    /// A connection that is closed already.
    pub fn new(number: u64, transport: &Arc<Transport>, node: &Node) -> std::io::Result<Client> {
        let meter = node.meter(number);
        Ok(Client {
            number,
            peer: transport.socket().peer_addr()?,
            local: transport.socket().local_addr()?,
            session: node.session.clone(),
            outbox: Arc::new(Outbox::new(transport.clone(), meter.clone())),
            dialect: OnceLock::new(),
            about: Mutex::default(),
            warned_of_use: AtomicBool::new(false),
            gone: Arc::default(),
            waiting: FlightBudget::new(MOST_WAITING),
            requests: AtomicU64::new(0),
            meter,
            listens: AtomicU8::new(0),
            env: node.env.clone(),
        })
    }

    /// Begins to listen to events of these kinds.
    ///
    /// # Errors
    /// A kind that there is not.
    pub fn listen(&self, kinds: &[&str]) -> Result<(), WireError> {
        let mut bits = 0;
        for kind in kinds {
            let at = EVENTS
                .iter()
                .position(|e| e.eq_ignore_ascii_case(kind))
                .ok_or_else(|| WireError::protocol(format!("Invalid value '{kind}' for Type")))?;
            bits |= 1 << at;
        }
        self.listens.fetch_or(bits, Ordering::Relaxed);
        Ok(())
    }

    fn dialect(&self) -> Dialect {
        let before = Dialect { version: Version::V5, compression: None, throws_on_overload: false };
        self.dialect.get().copied().unwrap_or(before)
    }

    /// Puts an answer into the outbox. `version`: that of the conversation, once it has begun.
    pub fn answer(
        &self,
        stream: i16,
        opcode: Opcode,
        about: (&[String], Option<Uuid>),
        body: impl FnOnce(&mut ResponseBody<'_>),
    ) {
        let Dialect { version, compression, .. } = self.dialect();
        self.put(version, compression, stream, opcode, about, body);
    }

    /// Puts the result of a statement into the outbox. What it has taken of the budget of results
    /// stays taken until it is sent.
    pub fn answer_with_rows(
        &self,
        stream: i16,
        rows: &Rows,
        trace: Option<Uuid>,
        body: impl FnOnce(&mut ResponseBody<'_>),
    ) {
        let Dialect { version, compression, .. } = self.dialect();
        let (trace, warnings) = (trace.map(Uuid::into_bytes), rows.warnings());
        let envelope = Envelope { version, stream, trace, warnings, compression };
        self.outbox.put(rows.share().cloned(), |out| {
            envelope.put(out, Opcode::Result, |out| body(&mut ResponseBody::new(out, version)));
        });
    }

    /// Puts an answer in this language into the outbox.
    pub fn put(
        &self,
        version: Version,
        compression: Option<BodyCompression>,
        stream: i16,
        opcode: Opcode,
        (warnings, trace): (&[String], Option<Uuid>),
        body: impl FnOnce(&mut ResponseBody<'_>),
    ) {
        let trace = trace.map(Uuid::into_bytes);
        let envelope = Envelope { version, stream, trace, warnings, compression };
        self.outbox.put(None, |out| {
            envelope.put(out, opcode, |out| body(&mut ResponseBody::new(out, version)));
        });
    }

    /// Answers that the request was refused.
    pub fn refuse(&self, stream: i16, error: &WireError) {
        let Dialect { version, compression, .. } = self.dialect();
        self.refuse_in(version, compression, stream, error);
    }

    /// Answers so in this language.
    pub fn refuse_in(
        &self,
        version: Version,
        compression: Option<BodyCompression>,
        stream: i16,
        error: &WireError,
    ) {
        self.meter.failed(error.code as u16);
        let about = (&[][..], None);
        self.put(version, compression, stream, Opcode::Error, about, |body| body.refused(error));
    }

    /// Answers that the statement with this id isn't known.
    pub fn unprepared(&self, stream: i16, id: &[u8], trace: Option<Uuid>) {
        self.meter.failed(Class::Unprepared.code());
        self.answer(stream, Opcode::Error, (&[], trace), |body| body.unprepared(id));
    }

    /// Answers with the error of a statement.
    pub fn fail(&self, stream: i16, error: &Error, trace: Option<Uuid>) {
        self.meter.failed(error.code());
        self.answer(stream, Opcode::Error, (&[], trace), |body| body.error(error));
    }

    /// Tells of an event, when it listens to that.
    fn tell(&self, bit: u8, body: impl FnOnce(&mut ResponseBody<'_>)) {
        if self.listens.load(Ordering::Relaxed) & bit != 0 {
            // What a client listens to that reads nothing would be stored for ever.
            if !self.outbox.takes_event() {
                tracing::warn!(client = %self.peer, "it does not read its events");
                return self.close();
            }
            self.answer(-1, Opcode::Event, (&[], None), body);
            self.outbox.send_at_once(&self.env);
        }
    }

    /// Sends what is in the outbox, without waiting for the client.
    pub fn send_at_once(&self) {
        self.outbox.send_at_once(&self.env);
    }

    /// The version and the ciphers of the encryption, where there is one.
    pub fn encryption(&self) -> Option<(String, String)> {
        self.outbox.encryption()
    }

    /// Ends the conversation.
    pub fn close(&self) {
        self.gone.store(true, Ordering::Relaxed);
        self.outbox.close();
    }
}

/// The connections that are open.
#[derive(Default)]
pub struct Clients(Mutex<BTreeMap<u64, Arc<Client>>>);

impl Clients {
    /// One came.
    pub fn add(&self, client: Arc<Client>) {
        self.0.lock().insert(client.number, client);
    }

    /// One went.
    pub fn remove(&self, number: u64) {
        self.0.lock().remove(&number);
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.0.lock().values().cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Tells all who listen that the server goes down.
    pub fn tell_down(&self) {
        for client in self.all() {
            let node = client.local;
            client.tell(STATUS, |body| body.status_event("DOWN", node));
        }
    }
}

impl SchemaListener for Clients {
    fn role_dropped(&self) {
        for client in self.all() {
            if client.session.check_login().is_err() {
                tracing::info!(client = %client.peer, "its role was dropped");
                client.close();
            }
        }
    }

    fn changed(&self, change: &SchemaChange) {
        for client in self.all() {
            client.tell(SCHEMA, |body| body.schema_event(change));
        }
    }
}
