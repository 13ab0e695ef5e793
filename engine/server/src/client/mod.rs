//! Floor 3: the other side: clients for shells, tools and tests, of Firn's server and of Cassandra's.
//! [`CqlClient`] speaks the native protocol (versions 3, 4 and 5; Cassandra 2.1 and newer),
//! [`FamilyClient`] Thrift's interface (20.1.0; Cassandra up to 3.11).
//!
//! One connection, one request at a time, no thread of its own. Programs that want more than that
//! take one of Cassandra's drivers.
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
//! Invariants: whatever a server sends, nothing is allocated by a length that it claims before that
//! many bytes are there, and no answer is longer than the options allow; a request that got no
//! answer ends the connection, so that no late answer is taken for another one's.

mod error;
mod families;
mod line;
mod options;
mod socket;

pub use crate::wire::WireConsistency as Consistency;
pub use error::ClientError;
pub use families::FamilyClient;
pub use options::ClientOptions;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use firn_cql::{Bound, Class, ColumnSpec, Kind, PagingState, Rows, quote_if_needed};

use crate::wire::{
    ErrorCode, ExecuteRequest, PrepareRequest, QueryParameters, QueryRequest, Version, WireAnswer,
    WirePrepared, WireReply, WireRequest, WireValue,
};
use line::Line;

/// The versions that are tried, one after the other.
const VERSIONS: [Version; 3] = [Version::V5, Version::V4, Version::V3];
/// The code of an error of the protocol: of a version that a server does not speak, too.
const PROTOCOL: i32 = ErrorCode::Protocol as i32;
/// The code of a prepared statement that the server does not know.
const UNPREPARED: i32 = Class::Unprepared.code() as i32;

/// How a statement is run.
#[derive(Clone, Debug)]
pub struct ClientRun {
    /// What the client wants to be sure of; `ONE`.
    pub consistency: Consistency,
    /// The same of conditions. `None`: `SERIAL`.
    pub serial_consistency: Option<Consistency>,
    /// How many rows a page has at most. `None`: all.
    pub page_size: Option<usize>,
    /// Where the page begins: what the page before it ended with.
    pub paging: Option<PagingState>,
    /// Whether the server is to write down how it went ([`ClientAnswer::trace`]).
    pub traced: bool,
    /// As soon as it is true, the answer is not waited for any more, and the connection ends.
    /// Whoever sets it sets it back.
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

/// What a statement gave.
#[derive(Clone, Debug)]
pub struct ClientAnswer {
    /// The result, or a page of it.
    pub rows: Rows,
    /// The id of the trace in `system_traces.sessions`, where one was asked for.
    pub trace: Option<[u8; 16]>,
}

/// A statement that a server has prepared.
#[derive(Clone, Debug)]
pub struct ClientStatement {
    text: String,
    known: WirePrepared,
}

impl ClientStatement {
    /// The types of its bind markers.
    pub fn markers(&self) -> &Arc<[ColumnSpec]> {
        &self.known.markers
    }

    /// The columns of its result; none of a statement that gives no rows.
    pub fn columns(&self) -> &Arc<[ColumnSpec]> {
        &self.known.columns
    }
}

/// A connection to a server. It ends when it is dropped.
#[derive(Debug)]
pub struct CqlClient {
    line: Line,
    keyspace: Option<String>,
}

impl CqlClient {
    /// Connects, agrees on the newest version of the protocol that both speak, and logs in.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] where nobody listens, [`ClientError::LoginWanted`] where the
    /// options name nobody, [`ClientError::Refused`] for a wrong password, and those of a
    /// connection.
    pub fn connect(options: &ClientOptions) -> Result<CqlClient, ClientError> {
        for version in VERSIONS {
            match CqlClient::begin(options, version) {
                Err(ClientError::Refused { code: PROTOCOL, .. } | ClientError::Nonsense(_))
                    if version > Version::V3 => {}
                other => return other,
            }
        }
        // The last version gives an answer or an error.
        Err(ClientError::Lost("no version of the protocol is spoken by both".to_owned()))
    }

    fn begin(options: &ClientOptions, version: Version) -> Result<CqlClient, ClientError> {
        let mut line = Line::connect(options, version)?;
        let about = [
            ("CQL_VERSION", "3.0.0"),
            ("DRIVER_NAME", "firn"),
            ("DRIVER_VERSION", env!("CARGO_PKG_VERSION")),
        ];
        let wait = Some(options.connect_timeout);
        let mut answer = line.ask(&WireRequest::Startup(about.to_vec()), false, None, wait)?.answer;
        line.begin_segments();
        if let WireAnswer::Authenticate(_) = answer {
            let (name, password) = options.login.as_ref().ok_or(ClientError::LoginWanted)?;
            let token = format!("\0{name}\0{password}");
            let request = WireRequest::AuthResponse(Some(token.as_bytes()));
            answer = line.ask(&request, false, None, wait)?.answer;
        }
        match answer {
            WireAnswer::Ready | WireAnswer::AuthSuccess => Ok(CqlClient { line, keyspace: None }),
            WireAnswer::AuthChallenge => Err(ClientError::Lost(
                "the server wants another login than a name and a password".to_owned(),
            )),
            other => Err(unexpected(&other)),
        }
    }

    /// The version of the protocol that is spoken: 3, 4 or 5.
    pub fn version(&self) -> u8 {
        self.line.version as u8
    }

    /// The keyspace that `USE` has chosen.
    pub fn keyspace(&self) -> Option<&str> {
        self.keyspace.as_deref()
    }

    /// Whether the connection stands, as far as can be told without asking.
    pub fn is_open(&self) -> bool {
        self.line.is_open()
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// [`ClientError::Refused`]: the server's words, and the connection stands. All others end it.
    pub fn query(&mut self, cql: &str, how: &ClientRun) -> Result<ClientAnswer, ClientError> {
        let parameters = parameters(how, vec![]);
        self.run(&WireRequest::Query(QueryRequest { text: cql, parameters }), how)
    }

    /// Chooses a keyspace, as `USE` does.
    ///
    /// # Errors
    /// As [`query`](CqlClient::query).
    pub fn use_keyspace(&mut self, keyspace: &str) -> Result<(), ClientError> {
        let statement = format!("USE {}", quote_if_needed(keyspace));
        self.query(&statement, &ClientRun::default()).map(drop)
    }

    /// Has a statement prepared.
    ///
    /// # Errors
    /// As [`query`](CqlClient::query).
    pub fn prepare(&mut self, cql: &str) -> Result<ClientStatement, ClientError> {
        let request = WireRequest::Prepare(PrepareRequest { text: cql, keyspace: None });
        match self.line.ask(&request, false, None, self.line.request_timeout)?.answer {
            WireAnswer::Prepared(known) => Ok(ClientStatement { text: cql.to_owned(), known }),
            other => Err(self.line.end(unexpected(&other))),
        }
    }

    /// Runs a statement that is prepared. Where the server does not know it any more, it is
    /// prepared again.
    ///
    /// # Errors
    /// As [`query`](CqlClient::query).
    pub fn execute(
        &mut self,
        statement: &mut ClientStatement,
        values: &[Bound],
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
        values: &[Bound],
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
        let wait = self.line.request_timeout;
        let WireReply { trace, answer } =
            self.line.ask(request, how.traced, how.stop.as_deref(), wait)?;
        let WireAnswer::Rows(rows) = answer else {
            return Err(self.line.end(unexpected(&answer)));
        };
        if let Kind::SetKeyspace(keyspace) = rows.kind() {
            self.keyspace = Some(keyspace.clone());
        }
        Ok(ClientAnswer { rows, trace })
    }
}

fn wire_value(bound: &Bound) -> WireValue<'_> {
    match bound {
        Bound::Bytes(bytes) => WireValue::Bytes(bytes),
        Bound::Null => WireValue::Null,
        Bound::Unset => WireValue::Unset,
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

/// An answer of another kind than the request wants.
fn unexpected(answer: &WireAnswer) -> ClientError {
    let kind = match answer {
        WireAnswer::Error(..) => "ERROR",
        WireAnswer::Ready => "READY",
        WireAnswer::Authenticate(_) => "AUTHENTICATE",
        WireAnswer::AuthChallenge => "AUTH_CHALLENGE",
        WireAnswer::AuthSuccess => "AUTH_SUCCESS",
        WireAnswer::Supported(_) => "SUPPORTED",
        WireAnswer::Rows(_) | WireAnswer::Prepared(_) => "RESULT",
        WireAnswer::Event => "EVENT",
    };
    ClientError::Nonsense(format!("{kind} is no answer to what was asked"))
}
