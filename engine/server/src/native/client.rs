//! A client's connection as seen by other threads: identity, registered events, responses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use firn_cql::internals::exec::SchemaListener;
use firn_cql::{Error, ErrorClass, Rows, SchemaChange, Session};
use firn_kv::Env;
use parking_lot::Mutex;
use uuid::Uuid;

use super::outbox::Outbox;
use crate::node::{ConnectionMeter, FlightBudget, Node};
use crate::transport::Transport;
use crate::wire::{BodyCompression, Envelope, Opcode, ResponseBody, Version, WireError};

/// Event types that a client can register for.
pub const EVENTS: [&str; 3] = ["TOPOLOGY_CHANGE", "STATUS_CHANGE", "SCHEMA_CHANGE"];
const STATUS: u8 = 1 << 1;
const SCHEMA: u8 = 1 << 2;

/// Maximum number of requests of one client that wait for a worker or run there. Then the server
/// stops reading from it.
const MAX_WAITING: usize = 32;

/// Negotiated properties of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiatedProtocol {
    /// Protocol version.
    pub version: Version,
    /// Compression of bodies or segments.
    pub compression: Option<BodyCompression>,
    /// Whether the client prefers a refusal to waiting when too many bytes are in flight.
    pub refuses_on_overload: bool,
}

/// A connection with a client.
pub struct Client {
    /// Number of the connection.
    pub number: u64,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Local address of the connection.
    pub local: SocketAddr,
    /// Its session with the database.
    pub session: Session,
    /// Its outgoing responses.
    pub outbox: Arc<Outbox>,
    /// Negotiated properties, once known.
    pub negotiated: OnceLock<NegotiatedProtocol>,
    /// Driver and application info of STARTUP.
    pub about: Mutex<BTreeMap<String, String>>,
    /// Whether it got the warning about prepared statements in a keyspace of USE.
    pub has_use_warning: AtomicBool,
    /// Set when the connection has ended: its statements end then.
    pub has_ended: Arc<AtomicBool>,
    /// Its requests that wait for a worker or run there: their responses stay in memory until sent.
    pub waiting: FlightBudget,
    /// Number of received requests.
    pub requests: AtomicU64,
    /// Its metrics.
    pub meter: ConnectionMeter,
    registered: AtomicU8,
    env: Arc<dyn Env>,
}

impl Client {
    /// Creates a client before STARTUP.
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
            negotiated: OnceLock::new(),
            about: Mutex::default(),
            has_use_warning: AtomicBool::new(false),
            has_ended: Arc::default(),
            waiting: FlightBudget::new(MAX_WAITING),
            requests: AtomicU64::new(0),
            meter,
            registered: AtomicU8::new(0),
            env: node.env.clone(),
        })
    }

    /// Registers for events of these types.
    ///
    /// # Errors
    /// An unknown event type.
    pub fn listen(&self, kinds: &[&str]) -> Result<(), WireError> {
        let mut bits = 0;
        for kind in kinds {
            let at = EVENTS
                .iter()
                .position(|e| e.eq_ignore_ascii_case(kind))
                .ok_or_else(|| WireError::protocol(format!("Invalid value '{kind}' for Type")))?;
            bits |= 1 << at;
        }
        self.registered.fetch_or(bits, Ordering::Relaxed);
        Ok(())
    }

    fn negotiated(&self) -> NegotiatedProtocol {
        let before = NegotiatedProtocol {
            version: Version::V5,
            compression: None,
            refuses_on_overload: false,
        };
        self.negotiated.get().copied().unwrap_or(before)
    }

    /// Puts a response into the outbox. `version`: that of the connection, once negotiated.
    pub fn answer(
        &self,
        stream: i16,
        opcode: Opcode,
        about: (&[String], Option<Uuid>),
        body: impl FnOnce(&mut ResponseBody<'_>),
    ) {
        let NegotiatedProtocol { version, compression, .. } = self.negotiated();
        self.put(version, compression, stream, opcode, about, body);
    }

    /// Puts the result of a statement into the outbox. Its share of the results budget is released
    /// when it is sent.
    pub fn answer_with_rows(
        &self,
        stream: i16,
        rows: &Rows,
        trace: Option<Uuid>,
        body: impl FnOnce(&mut ResponseBody<'_>),
    ) {
        let NegotiatedProtocol { version, compression, .. } = self.negotiated();
        let (trace, warnings) = (trace.map(Uuid::into_bytes), rows.warnings());
        let envelope = Envelope { version, stream, trace, warnings, compression };
        self.outbox.put(rows.share().cloned(), |out| {
            envelope.put(out, Opcode::Result, |out| body(&mut ResponseBody::new(out, version)));
        });
    }

    /// Puts a response with these protocol properties into the outbox.
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

    /// Responds with an error.
    pub fn refuse(&self, stream: i16, error: &WireError) {
        let NegotiatedProtocol { version, compression, .. } = self.negotiated();
        self.refuse_in(version, compression, stream, error);
    }

    /// Responds with an error with these protocol properties.
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

    /// Responds that the prepared statement with this id is unknown.
    pub fn unprepared(&self, stream: i16, id: &[u8], trace: Option<Uuid>) {
        self.meter.failed(ErrorClass::Unprepared.code());
        self.answer(stream, Opcode::Error, (&[], trace), |body| body.unprepared(id));
    }

    /// Responds with the error of a statement.
    pub fn fail(&self, stream: i16, error: &Error, trace: Option<Uuid>) {
        self.meter.failed(error.code());
        self.answer(stream, Opcode::Error, (&[], trace), |body| body.error(error));
    }

    /// Sends an event if the client has registered for it.
    fn notify(&self, bit: u8, body: impl FnOnce(&mut ResponseBody<'_>)) {
        if self.registered.load(Ordering::Relaxed) & bit != 0 {
            // The events of a client that does not read would accumulate forever.
            if !self.outbox.count_event() {
                tracing::warn!(client = %self.peer, "a client does not read its events");
                return self.close();
            }
            self.answer(-1, Opcode::Event, (&[], None), body);
            self.outbox.send_at_once(&self.env);
        }
    }

    /// Sends the outbox without waiting for the client.
    pub fn send_at_once(&self) {
        self.outbox.send_at_once(&self.env);
    }

    /// Returns the version and ciphers of TLS, if encrypted.
    pub fn encryption(&self) -> Option<(String, String)> {
        self.outbox.encryption()
    }

    /// Closes the connection.
    pub fn close(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
        self.outbox.close();
    }
}

/// The open connections.
#[derive(Default)]
pub struct Clients(Mutex<BTreeMap<u64, Arc<Client>>>);

impl Clients {
    /// Adds a connection.
    pub fn add(&self, client: Arc<Client>) {
        self.0.lock().insert(client.number, client);
    }

    /// Removes a connection.
    pub fn remove(&self, number: u64) {
        self.0.lock().remove(&number);
    }

    /// Returns all connections.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.0.lock().values().cloned().collect()
    }

    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Sends STATUS_CHANGE DOWN to all clients that have registered for it.
    pub fn notify_down(&self) {
        for client in self.all() {
            let node = client.local;
            client.notify(STATUS, |body| body.status_event("DOWN", node));
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
            client.notify(SCHEMA, |body| body.schema_event(change));
        }
    }
}
