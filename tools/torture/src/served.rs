//! Server of a cycle over the open store, its clients, and misbehaving visitors.
//!
//! A visitor sends a prefix of a conversation, or random bytes. It then disconnects, or stays
//! without reading an answer. This must not affect others: a lost connection of another client is a
//! failure of the run.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use firn_cql::Session;
use firn_kv::{Error, ErrorKind};
use firn_server::client::{ClientOptions, Consistency};
use firn_server::internals::wire::{
    QueryParameters, QueryRequest, Version, WireRequest, put_request,
};
use firn_server::{Options, Server, ServerError};
use firn_workload::rng::Rng;

use super::client::TortureClient;
use super::error::{Checked, wrong};
use super::plan::ServedPlan;
use super::roles::MASTER;

/// Time limit for a visitor to send.
const VISIT: Duration = Duration::from_millis(50);

/// A server over the store under torture.
pub struct Served {
    server: Server,
    /// Whether clients must log in.
    login: bool,
}

/// A connected visitor that does not read the answers.
pub struct UnreadConnection {
    _socket: TcpStream,
    /// Step at which it disconnects.
    pub until: u64,
}

/// Converts an error of a server to an error of the store.
fn error(e: ServerError) -> Error {
    match e {
        ServerError::Store(firn_cql::Error::Wide(firn_wide::Error::Store(e))) => e,
        other => Error::new(ErrorKind::Io, format!("the server: {other}")),
    }
}

impl Served {
    /// Starts a server at a free port.
    pub fn start(session: Session, plan: &ServedPlan) -> Checked<Served> {
        let mut options = Options::ephemeral();
        options.login = Some(plan.login);
        options.workers = Some(plan.workers);
        options.write_timeout = Duration::from_millis(plan.write_millis);
        options.login_timeout = Duration::from_millis(plan.login_millis);
        options.max_prepared = plan.prepared_bytes;
        options.max_in_flight = options.max_frame;
        match Server::start_with_session(session, options) {
            Ok(server) => Ok(Served { server, login: plan.login }),
            Err(e) => wrong(format!("the server does not start: {e}")),
        }
    }

    /// Returns a client with all permissions.
    pub fn client(&self) -> Checked<TortureClient> {
        let mut options = ClientOptions::new(self.server.address().to_string());
        let (name, password) = MASTER;
        options.login = self.login.then(|| (name.to_owned(), password.to_owned()));
        Ok(TortureClient::connect(options)?)
    }

    /// Reports whether clients must log in.
    pub fn wants_login(&self) -> bool {
        self.login
    }

    /// Opens a connection and sends an incomplete conversation. Returns the visitor if it stays
    /// connected.
    pub fn visit(&self, rng: &mut Rng, step: u64) -> Option<UnreadConnection> {
        // A refused connection is not a visitor.
        let mut socket = TcpStream::connect(self.server.address()).ok()?;
        socket.set_write_timeout(Some(VISIT)).ok()?;
        let mut bytes = vec![];
        if rng.below(5) == 0 {
            bytes.extend((0..rng.below(300)).map(|_| rng.bits() as u8));
        } else {
            self.put_conversation(rng, &mut bytes);
        }
        if rng.below(3) > 0 {
            bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
        }
        // The server may have closed the connection, or accept no more bytes.
        let _ = socket.write_all(&bytes);
        let stays = rng.below(3) == 0;
        stays.then(|| UnreadConnection { _socket: socket, until: step + 1 + rng.below(2000) })
    }

    /// Appends the requests of a valid client that asks for large results.
    fn put_conversation(&self, rng: &mut Rng, out: &mut Vec<u8>) {
        let version = [Version::V3, Version::V4][rng.below(2) as usize];
        let token = format!("\0{}\0{}", MASTER.0, MASTER.1);
        let mut requests = vec![WireRequest::Startup(vec![("CQL_VERSION", "3.0.0")])];
        if self.login {
            requests.push(WireRequest::AuthResponse(Some(token.as_bytes())));
        }
        let text = match rng.below(3) {
            0 => "INSERT INTO torture.guest (id, version, n) VALUES (5, 1, 5)",
            1 => "SELECT * FROM torture.rows LIMIT 3000",
            _ => "SELECT * FROM torture.counts LIMIT 3000",
        };
        let parameters = QueryParameters {
            consistency: Consistency::One,
            values: vec![],
            skip_metadata: false,
            page_size: None,
            paging_state: None,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
        };
        for _ in 0..1 + rng.below(60) {
            let parameters = parameters.clone();
            requests.push(WireRequest::Query(QueryRequest { text, parameters }));
        }
        for (stream, request) in (1..).zip(&requests) {
            put_request(out, version, stream, (request.opcode(), false), |body| {
                request.put(body, version);
            });
        }
    }

    /// Stops the server in order, which closes the store.
    pub fn stop(&self) -> Result<(), Error> {
        self.server.stop().map_err(error)
    }
}
