//! Backend of the shell on a server: Firn's or Cassandra's.
//!
//! Invariant: a lost connection is reported, and the next statement reconnects with the same
//! keyspace.

use std::time::Duration;

use firn_cql::internals::syntax::parse;
use firn_cql::{BoundValue, ColumnSpec, ErrorClass, Rows, SyntaxError};
use firn_kv::OsEnv;
use firn_server::client::{
    ClientAnswer, ClientError, ClientOptions, ClientRun, ClientStatement, Consistency, CqlClient,
};
use firn_tools::output::{Done, Failure, Style};

use super::backend::{
    PageRequest, PreparedStatement, ShellBackend, ShellRefusal, ShellResult, ShellSetting,
};
use super::trace;
use crate::shell::connect::{LOG_IN, NOT_ENCRYPTED};
use crate::shell::interrupt;

/// Default port of servers.
pub const PORT: u16 = 9042;
/// Error code of a syntax error.
const SYNTAX: i32 = ErrorClass::Syntax.code() as i32;
/// Number of reads of a trace that is not complete yet, and the time between them.
const TRIES: u32 = 40;
const BETWEEN: Duration = Duration::from_millis(50);

/// A connection to a server.
pub struct RemoteBackend {
    options: ClientOptions,
    style: Style,
    client: Option<CqlClient>,
    keyspace: Option<String>,
    consistency: Consistency,
    serial: Option<Consistency>,
    tracing: bool,
    /// Trace of the previous statement.
    traced: Option<[u8; 16]>,
}

impl PreparedStatement for ClientStatement {
    fn markers(&self) -> &[ColumnSpec] {
        ClientStatement::markers(self)
    }

    fn columns(&self) -> &[ColumnSpec] {
        ClientStatement::columns(self)
    }
}

/// Reports whether a server's message is this error. Firn's servers append the hint.
fn says(error: &SyntaxError, text: &str) -> bool {
    let rest = text.strip_prefix(&error.to_string());
    rest.is_some_and(|rest| match rest.strip_prefix("; ") {
        Some(hint) => error.hint.as_deref() == Some(hint),
        None => rest.is_empty(),
    })
}

/// Converts a server's syntax error. The local parser adds the position and the hint.
pub fn syntax_refusal(statement: &str, text: String) -> ShellRefusal {
    match parse(statement) {
        Err(error) if says(&error, &text) => ShellRefusal::Syntax(error),
        _ => {
            ShellRefusal::Refused { class: ErrorClass::Syntax.name().to_owned(), text, help: None }
        }
    }
}

/// Converts an error of a statement.
fn refusal(e: ClientError, statement: &str) -> ShellRefusal {
    let class = e.class().to_owned();
    match e {
        ClientError::Stopped => ShellRefusal::Stopped,
        ClientError::Refused { code: SYNTAX, text } => syntax_refusal(statement, text),
        ClientError::Refused { text, .. } => ShellRefusal::Refused { class, text, help: None },
        ClientError::Lost(_) | ClientError::Protocol(_) | ClientError::NotEncrypted(_) => {
            ShellRefusal::Lost(e.to_string())
        }
        other => ShellRefusal::Refused { class, text: other.to_string(), help: None },
    }
}

/// Converts the error of the first connection.
fn failure(e: &ClientError) -> Failure {
    let next = match e {
        ClientError::Unreachable(..) => {
            "`firn --db DIR serve` starts a server; --connect HOST:PORT names another one"
        }
        ClientError::LoginRequired => LOG_IN,
        ClientError::Protocol(_) => {
            "the address may be that of another protocol: servers listen at port 9042"
        }
        ClientError::NotEncrypted(_) => NOT_ENCRYPTED,
        _ => return Failure::new(e.to_string()),
    };
    Failure::with_next(e.to_string(), next)
}

impl RemoteBackend {
    /// Connects.
    ///
    /// # Errors
    /// The server is unreachable, or refuses the login.
    pub fn connect(options: ClientOptions, style: Style) -> Done<RemoteBackend> {
        let client = CqlClient::connect(&options).map_err(|e| failure(&e))?;
        Ok(RemoteBackend {
            options,
            style,
            client: Some(client),
            keyspace: None,
            consistency: Consistency::One,
            serial: None,
            tracing: false,
            traced: None,
        })
    }

    /// Returns the server's address.
    pub fn address(&self) -> &str {
        &self.options.address
    }

    /// Runs an operation over the connection; reconnects first if it was lost.
    fn with<T>(
        &mut self,
        statement: &str,
        run: impl FnOnce(&mut CqlClient) -> Result<T, ClientError>,
    ) -> ShellResult<T> {
        let mut client = match self.client.take().filter(CqlClient::is_open) {
            Some(client) => client,
            None => self.again().map_err(|e| refusal(e, statement))?,
        };
        let done = run(&mut client);
        if let Some(keyspace) = client.keyspace() {
            self.keyspace = Some(keyspace.to_owned());
        }
        if matches!(done, Ok(_) | Err(ClientError::Refused { .. })) {
            self.client = Some(client);
        }
        done.map_err(|e| refusal(e, statement))
    }

    fn again(&self) -> Result<CqlClient, ClientError> {
        let mut client = CqlClient::connect(&self.options)?;
        eprintln!("{} connected to {} again", self.style.bold("note:"), self.options.address);
        if let Some(keyspace) = &self.keyspace {
            client.use_keyspace(keyspace)?;
        }
        Ok(client)
    }

    fn how(&self, page: &PageRequest) -> ClientRun {
        ClientRun {
            consistency: self.consistency,
            serial_consistency: self.serial,
            page_size: page.rows,
            paging: page.from.clone(),
            traced: self.tracing,
            stop: Some(interrupt::flag()),
        }
    }

    /// Stores the id of the trace. Only the first page counts: it began the statement.
    fn keep(&mut self, answer: ClientAnswer, page: &PageRequest) -> Rows {
        if page.from.is_none() {
            self.traced = answer.trace;
        }
        answer.rows
    }
}

fn level(name: &str) -> Result<Consistency, String> {
    Consistency::named(name).ok_or_else(|| {
        "the levels are ANY, ONE, TWO, THREE, QUORUM, ALL, LOCAL_QUORUM, EACH_QUORUM, SERIAL, LOCAL_SERIAL and LOCAL_ONE"
            .to_owned()
    })
}

/// Returns the versions of a server, of this shell, and of the protocol between them.
///
/// # Errors
/// The server does not answer.
pub fn server_version<B: ShellBackend>(backend: &mut B, protocol: u8) -> ShellResult<String> {
    let asked = "SELECT release_version, cql_version FROM system.local";
    let versions: Vec<(String, String)> =
        backend.execute(asked, &PageRequest::default())?.typed()?;
    let (release, cql) = versions.into_iter().next().unwrap_or_default();
    Ok(format!(
        "[firn {} | Cassandra {release} | CQL spec {cql} | native protocol v{protocol}]",
        env!("CARGO_PKG_VERSION")
    ))
}

/// Returns the name of the server's cluster, and the address of the connection.
///
/// # Errors
/// The server does not answer.
pub fn server_host<B: ShellBackend>(backend: &mut B, address: &str) -> ShellResult<String> {
    let asked = "SELECT cluster_name FROM system.local";
    let names: Vec<(String,)> = backend.execute(asked, &PageRequest::default())?.typed()?;
    let name = names.into_iter().next().unwrap_or_default().0;
    Ok(format!("Connected to {name} at {address}"))
}

impl ShellBackend for RemoteBackend {
    type Prepared = ClientStatement;

    fn keyspace(&self) -> Option<String> {
        self.keyspace.clone()
    }

    fn role(&self) -> Option<&str> {
        self.options.login.as_ref().map(|(name, _)| name.as_str())
    }

    fn execute(&mut self, statement: &str, page: &PageRequest) -> ShellResult {
        let how = self.how(page);
        let answer = self.with(statement, |client| client.query(statement, &how))?;
        Ok(self.keep(answer, page))
    }

    fn prepare(&mut self, statement: &str) -> ShellResult<ClientStatement> {
        self.with(statement, |client| client.prepare(statement))
    }

    fn run(
        &mut self,
        prepared: &mut ClientStatement,
        values: &[BoundValue],
        page: &PageRequest,
    ) -> ShellResult {
        let how = ClientRun { traced: false, ..self.how(page) };
        Ok(self.with("", |client| client.execute(prepared, values, &how))?.rows)
    }

    fn set(&mut self, setting: &ShellSetting) -> Result<String, String> {
        match setting {
            ShellSetting::Consistency(name) => {
                if let Some(name) = name {
                    self.consistency = level(name)?;
                }
                Ok(format!("the consistency is {}", self.consistency.name()))
            }
            ShellSetting::SerialConsistency(name) => {
                if let Some(name) = name {
                    let wrong =
                        || "the levels of conditions are SERIAL and LOCAL_SERIAL".to_owned();
                    let level = level(name).ok().filter(|level| level.is_serial());
                    self.serial = Some(level.ok_or_else(wrong)?);
                }
                let level = self.serial.unwrap_or(Consistency::Serial);
                Ok(format!("the serial consistency is {}", level.name()))
            }
            ShellSetting::Tracing(change) => {
                self.tracing = change.unwrap_or(self.tracing);
                Ok(format!("tracing is {}", if self.tracing { "on" } else { "off" }))
            }
        }
    }

    fn host(&mut self) -> ShellResult<String> {
        server_host(self, &self.options.address.clone())
    }

    fn login(&mut self, role: &str, password: String) -> Result<String, String> {
        let mut options = self.options.clone();
        options.login = Some((role.to_owned(), password));
        let mut client = CqlClient::connect(&options).map_err(|e| e.to_string())?;
        if let Some(keyspace) = &self.keyspace {
            client.use_keyspace(keyspace).map_err(|e| e.to_string())?;
        }
        (self.options, self.client) = (options, Some(client));
        Ok(format!("logged in as {role}"))
    }

    fn trace(&mut self) -> ShellResult<Option<(String, Rows)>> {
        let Some(id) = self.traced.take() else { return Ok(None) };
        let traced = std::mem::replace(&mut self.tracing, false);
        let env = OsEnv::new();
        let mut read = || {
            for _ in 0..TRIES {
                // A server writes the trace after the answer.
                if let Some(rows) = trace::read(self, id)? {
                    return Ok(rows);
                }
                env.sleep(BETWEEN);
            }
            Err(ShellRefusal::Refused {
                class: "TraceUnavailable".to_owned(),
                text: "the server has not written the trace yet".to_owned(),
                help: Some(format!(
                    "SELECT * FROM system_traces.events WHERE session_id = {}",
                    trace::name(id)
                )),
            })
        };
        let rows = read();
        self.tracing = traced;
        Ok(Some((trace::name(id), rows?)))
    }

    fn version(&mut self) -> ShellResult<String> {
        let version = self.with("", |client| Ok(client.version()))?;
        server_version(self, version)
    }
}
