//! Floor 3: clients for shells, tools and tests, of Firn's server and of Cassandra's. [`CqlClient`]
//! speaks the native protocol (versions 3, 4 and 5; Cassandra 2.1 and newer), [`FamilyClient`]
//! Thrift's interface (20.1.0; Cassandra up to 3.11).
//!
//! One connection, one request at a time, no thread of its own. Other programs should use one of
//! Cassandra's drivers.
//!
//! ```
//! use firn_server::client::{ClientOptions, ClientRun, CqlClient};
//! use firn_server::{Options, Server};
//!
//! let server = Server::start(Options::ephemeral())?;
//! let mut client = CqlClient::connect(&ClientOptions::new(server.address().to_string()))?;
//! let answer = client.query("SELECT cluster_name FROM system.local", &ClientRun::default())?;
//! assert_eq!(answer.rows.typed::<(String,)>()?, [("Firn".to_owned(),)]);
//! # drop(client); server.stop()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: a length claimed by the server allocates nothing before that many bytes have
//! arrived. No response is longer than the options allow. A request without a response closes the
//! connection, so that a late response is never matched to another request.

mod connection;
mod error;
mod families;
mod options;
mod socket;

pub use crate::wire::WireConsistency as Consistency;
pub use error::ClientError;
pub use families::FamilyClient;
pub use options::ClientOptions;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use firn_cql::{
    BoundValue, ColumnSpec, ErrorClass, PagingState, ResultKind, Rows, quote_if_needed,
};

use crate::wire::{
    ErrorCode, ExecuteRequest, PrepareRequest, QueryParameters, QueryRequest, Version,
    WirePrepared, WireReply, WireRequest, WireResponse, WireValue,
};
use connection::NativeConnection;

/// Versions to try, in this order.
const VERSIONS: [Version; 3] = [Version::V5, Version::V4, Version::V3];
/// Error code of a protocol error, including an unsupported version.
const PROTOCOL: i32 = ErrorCode::Protocol as i32;
/// Error code of an unknown prepared statement.
const UNPREPARED: i32 = ErrorClass::Unprepared.code() as i32;

/// Options of one execution of a statement.
#[derive(Clone, Debug)]
pub struct ClientRun {
    /// Consistency level; `ONE`.
    pub consistency: Consistency,
    /// Consistency level of conditions. `None`: `SERIAL`.
    pub serial_consistency: Option<Consistency>,
    /// Maximum rows of a page. `None`: no paging.
    pub page_size: Option<usize>,
    /// Paging state of the previous page.
    pub paging: Option<PagingState>,
    /// Whether the server traces the execution ([`ClientAnswer::trace`]).
    pub traced: bool,
    /// Stops waiting for the response and closes the connection as soon as it is true. The caller
    /// that sets it also resets it.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for ClientRun {
    fn default() -> ClientRun {
        ClientRun {
            consistency: Consistency::One,
            serial_consistency: None,
            page_size: None,
            paging: None,
            traced: false,
            stop: None,
        }
    }
}

/// Result of a statement.
#[derive(Clone, Debug)]
pub struct ClientAnswer {
    /// The rows, or a page of them.
    pub rows: Rows,
    /// Id of the trace in `system_traces.sessions`, if requested.
    pub trace: Option<[u8; 16]>,
}

/// A statement prepared by a server.
#[derive(Clone, Debug)]
pub struct ClientStatement {
    text: String,
    known: WirePrepared,
}

impl ClientStatement {
    /// Returns the types of its bind markers.
    pub fn markers(&self) -> &Arc<[ColumnSpec]> {
        &self.known.markers
    }

    /// Returns the columns of its result; none if it returns no rows.
    pub fn columns(&self) -> &Arc<[ColumnSpec]> {
        &self.known.columns
    }
}

/// A connection to a server. It is closed when dropped.
#[derive(Debug)]
pub struct CqlClient {
    connection: NativeConnection,
    keyspace: Option<String>,
}

impl CqlClient {
    /// Connects, negotiates the newest protocol version that both sides support, and logs in.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] if no server listens, [`ClientError::LoginRequired`] if the
    /// options have no login, [`ClientError::Refused`] for a wrong password, and connection errors.
    pub fn connect(options: &ClientOptions) -> Result<CqlClient, ClientError> {
        for version in VERSIONS {
            match CqlClient::begin(options, version) {
                Err(ClientError::Refused { code: PROTOCOL, .. } | ClientError::Protocol(_))
                    if version > Version::V3 => {}
                other => return other,
            }
        }
        // The last version returns a connection or an error.
        Err(ClientError::Lost("no version of the protocol is spoken by both".to_owned()))
    }

    fn begin(options: &ClientOptions, version: Version) -> Result<CqlClient, ClientError> {
        let mut connection = NativeConnection::connect(options, version)?;
        let startup = [
            ("CQL_VERSION", "3.0.0"),
            ("DRIVER_NAME", "firn"),
            ("DRIVER_VERSION", env!("CARGO_PKG_VERSION")),
        ];
        let wait = Some(options.connect_timeout);
        let mut answer =
            connection.request(&WireRequest::Startup(startup.to_vec()), false, None, wait)?.answer;
        connection.begin_segments();
        if let WireResponse::Authenticate(_) = answer {
            let (name, password) = options.login.as_ref().ok_or(ClientError::LoginRequired)?;
            let token = format!("\0{name}\0{password}");
            let request = WireRequest::AuthResponse(Some(token.as_bytes()));
            answer = connection.request(&request, false, None, wait)?.answer;
        }
        match answer {
            WireResponse::Ready | WireResponse::AuthSuccess => {
                Ok(CqlClient { connection, keyspace: None })
            }
            WireResponse::AuthChallenge => Err(ClientError::Lost(
                "the server wants another login than a name and a password".to_owned(),
            )),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the protocol version of the connection: 3, 4 or 5.
    pub fn version(&self) -> u8 {
        self.connection.version as u8
    }

    /// Returns the current keyspace, chosen by `USE`.
    pub fn keyspace(&self) -> Option<&str> {
        self.keyspace.as_deref()
    }

    /// Reports whether the connection is open, as far as visible without a request.
    pub fn is_open(&self) -> bool {
        self.connection.is_open()
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the server's message; the connection stays usable. All other
    /// errors close it.
    pub fn query(&mut self, cql: &str, how: &ClientRun) -> Result<ClientAnswer, ClientError> {
        let parameters = parameters(how, vec![]);
        self.run(&WireRequest::Query(QueryRequest { text: cql, parameters }), how)
    }

    /// Sets the current keyspace, as `USE` does.
    ///
    /// # Errors
    /// As [`query`](CqlClient::query).
    pub fn use_keyspace(&mut self, keyspace: &str) -> Result<(), ClientError> {
        let statement = format!("USE {}", quote_if_needed(keyspace));
        self.query(&statement, &ClientRun::default()).map(drop)
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// As [`query`](CqlClient::query).
    pub fn prepare(&mut self, cql: &str) -> Result<ClientStatement, ClientError> {
        let request = WireRequest::Prepare(PrepareRequest { text: cql, keyspace: None });
        match self
            .connection
            .request(&request, false, None, self.connection.request_timeout)?
            .answer
        {
            WireResponse::Prepared(known) => Ok(ClientStatement { text: cql.to_owned(), known }),
            other => Err(self.connection.end(unexpected(&other))),
        }
    }

    /// Runs a prepared statement. If the server has dropped it, it is prepared again.
    ///
    /// # Errors
    /// As [`query`](CqlClient::query).
    pub fn execute(
        &mut self,
        statement: &mut ClientStatement,
        values: &[BoundValue],
        how: &ClientRun,
    ) -> Result<ClientAnswer, ClientError> {
        match self.execute_once(statement, values, how) {
            Err(ClientError::Refused { code: UNPREPARED, .. }) => {
                *statement = self.prepare(&statement.text)?;
                self.execute_once(statement, values, how)
            }
            other => other,
        }
    }

    fn execute_once(
        &mut self,
        statement: &ClientStatement,
        values: &[BoundValue],
        how: &ClientRun,
    ) -> Result<ClientAnswer, ClientError> {
        let values = values.iter().map(|bound| (None, wire_value(bound))).collect();
        let request = ExecuteRequest {
            id: &statement.known.id,
            metadata_id: statement.known.metadata_id.as_deref(),
            parameters: parameters(how, values),
        };
        self.run(&WireRequest::Execute(request), how)
    }

    fn run(
        &mut self,
        request: &WireRequest<'_>,
        how: &ClientRun,
    ) -> Result<ClientAnswer, ClientError> {
        let wait = self.connection.request_timeout;
        let WireReply { trace, answer } =
            self.connection.request(request, how.traced, how.stop.as_deref(), wait)?;
        let WireResponse::Rows(rows) = answer else {
            return Err(self.connection.end(unexpected(&answer)));
        };
        if let ResultKind::SetKeyspace(keyspace) = rows.kind() {
            self.keyspace = Some(keyspace.clone());
        }
        Ok(ClientAnswer { rows, trace })
    }
}

fn wire_value(bound: &BoundValue) -> WireValue<'_> {
    match bound {
        BoundValue::Bytes(bytes) => WireValue::Bytes(bytes),
        BoundValue::Null => WireValue::Null,
        BoundValue::Unset => WireValue::Unset,
    }
}

fn parameters<'v>(
    how: &'v ClientRun,
    values: Vec<(Option<&'v str>, WireValue<'v>)>,
) -> QueryParameters<'v> {
    QueryParameters {
        consistency: how.consistency,
        values,
        skip_metadata: false,
        page_size: how.page_size.map(|n| i32::try_from(n).unwrap_or(i32::MAX)),
        paging_state: how.paging.as_ref().map(|p| &*p.0),
        serial_consistency: how.serial_consistency,
        timestamp: None,
        keyspace: None,
        now_in_seconds: None,
    }
}

/// Returns the error of a response of an unexpected kind.
fn unexpected(answer: &WireResponse) -> ClientError {
    let kind = match answer {
        WireResponse::Error(..) => "ERROR",
        WireResponse::Ready => "READY",
        WireResponse::Authenticate(_) => "AUTHENTICATE",
        WireResponse::AuthChallenge => "AUTH_CHALLENGE",
        WireResponse::AuthSuccess => "AUTH_SUCCESS",
        WireResponse::Supported(_) => "SUPPORTED",
        WireResponse::Rows(_) | WireResponse::Prepared(_) => "RESULT",
        WireResponse::Event => "EVENT",
    };
    ClientError::Protocol(format!("{kind} is no answer to this request"))
}
