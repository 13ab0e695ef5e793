//! CQL client of a store under torture: a session within the process, or a connection to a server
//! over the same store.
//!
//! Errors of a server are converted to the kind that a session returns, so that both are judged
//! alike. A lost or refused connection is an error of the kind `Closed`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use firn_cql::{ErrorClass, PagingState, Prepared, Row, Rows, RunOptions, Session, Values};
use firn_kv::{Error, ErrorKind};
use firn_server::client::{ClientError, ClientOptions, ClientRun, ClientStatement, CqlClient};

/// Reason why a statement failed or got no answer.
#[derive(Debug)]
pub enum StatementError {
    /// Refused: the code of the class, and the text.
    Refused(i32, String),
    /// The store failed, or the connection was lost: the statement may or may not have been
    /// executed.
    Failed(Error),
}

/// Result of a statement.
pub type StatementResult<T = ()> = Result<T, StatementError>;

impl StatementError {
    /// Reports whether the statement was refused with this class.
    pub fn is(&self, class: ErrorClass) -> bool {
        matches!(self, StatementError::Refused(code, _) if *code == i32::from(class.code()))
    }
}

impl From<firn_cql::Error> for StatementError {
    fn from(e: firn_cql::Error) -> StatementError {
        match e {
            firn_cql::Error::Wide(firn_wide::Error::Store(e)) => StatementError::Failed(e),
            other => StatementError::Refused(i32::from(other.code()), other.to_string()),
        }
    }
}

/// Kinds of errors that a server reports, recognized by the begin of its text.
const KINDS: [ErrorKind; 8] = [
    ErrorKind::Corruption,
    ErrorKind::Io,
    ErrorKind::NoSpace,
    ErrorKind::Exhausted,
    ErrorKind::ReadOnly,
    ErrorKind::Conflict,
    ErrorKind::NotFound,
    ErrorKind::Closed,
];
/// Maximum number of executions of a prepared statement that the server has evicted.
const MOST_TRIES: u32 = 1000;
const SERVER: i32 = ErrorClass::Server.code() as i32;

impl From<ClientError> for StatementError {
    fn from(e: ClientError) -> StatementError {
        match e {
            ClientError::Refused { code, text } => {
                let said = |kind: &ErrorKind| text.strip_prefix(kind.name())?.strip_prefix(": ");
                let kind = KINDS.iter().find_map(|kind| Some((*kind, said(kind)?)));
                match kind.filter(|_| code == SERVER) {
                    Some((kind, rest)) => StatementError::Failed(Error::new(kind, rest)),
                    None => StatementError::Refused(code, text),
                }
            }
            // A stopping server completes the answers that it has begun to send.
            ClientError::Lost(why) if !why.contains("within an answer") => {
                StatementError::Failed(Error::new(ErrorKind::Closed, format!("connection: {why}")))
            }
            e @ ClientError::Unreachable(..) => {
                StatementError::Failed(Error::new(ErrorKind::Closed, e.to_string()))
            }
            other => StatementError::Refused(-1, other.to_string()),
        }
    }
}

/// A CQL client. All threads may share one; users of one connection wait for each other.
pub enum TortureClient {
    /// A session within the process.
    Session { session: Session, known: Mutex<BTreeMap<&'static str, Prepared>> },
    /// A connection to a server.
    Connection { options: ClientOptions, line: Box<Mutex<TortureConnection>> },
}

/// A connection, with the statements prepared over it.
pub struct TortureConnection {
    client: CqlClient,
    known: BTreeMap<&'static str, ClientStatement>,
}

/// Size and start of a page.
#[derive(Clone, Default)]
struct ResultPage {
    size: Option<usize>,
    from: Option<PagingState>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TortureConnection {
    fn run(
        &mut self,
        text: &'static str,
        values: impl Values,
        page: ResultPage,
    ) -> StatementResult<Rows> {
        let statement = match self.known.entry(text) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(self.client.prepare(text)?),
        };
        let values = values.into_bound(statement.markers())?;
        let how = ClientRun { page_size: page.size, paging: page.from, ..ClientRun::default() };
        // In a server with a small cache, other statements may evict this one repeatedly.
        for _ in 0..MOST_TRIES {
            match self.client.execute(statement, &values, &how).map_err(StatementError::from) {
                Err(e) if e.is(ErrorClass::Unprepared) => {}
                done => return Ok(done?.rows),
            }
        }
        Err(StatementError::Refused(
            -1,
            format!("the server always evicted the prepared statement: {text}"),
        ))
    }
}

impl TortureClient {
    /// Creates a client within the process.
    pub fn session(session: Session) -> TortureClient {
        TortureClient::Session { session, known: Mutex::default() }
    }

    /// Creates a client of a server.
    pub fn connect(options: ClientOptions) -> StatementResult<TortureClient> {
        let line =
            TortureConnection { client: CqlClient::connect(&options)?, known: BTreeMap::new() };
        Ok(TortureClient::Connection { options, line: Box::new(Mutex::new(line)) })
    }

    /// Creates another client of the same kind, which logs in. `None`: the login was refused.
    pub fn log_in(&self, name: &str, password: &str) -> StatementResult<Option<TortureClient>> {
        let made = match self {
            TortureClient::Session { session, .. } => {
                let own = session.clone();
                own.log_in(name, password).map(|()| TortureClient::session(own)).map_err(Into::into)
            }
            TortureClient::Connection { options, .. } => {
                let mut options = options.clone();
                options.login = Some((name.to_owned(), password.to_owned()));
                TortureClient::connect(options)
            }
        };
        match made {
            Err(e) if e.is(ErrorClass::BadCredentials) => Ok(None),
            made => made.map(Some),
        }
    }

    /// Executes a statement without bound values.
    pub fn execute(&self, text: &str) -> StatementResult<Rows> {
        match self {
            TortureClient::Session { session, .. } => Ok(session.execute(text, ())?),
            TortureClient::Connection { line, .. } => {
                Ok(locked(line).client.query(text, &ClientRun::default())?.rows)
            }
        }
    }

    /// Runs a statement, which is prepared once.
    pub fn run(&self, text: &'static str, values: impl Values) -> StatementResult<Rows> {
        self.run_page(text, values, ResultPage::default())
    }

    fn run_page(
        &self,
        text: &'static str,
        values: impl Values,
        page: ResultPage,
    ) -> StatementResult<Rows> {
        let (session, known) = match self {
            TortureClient::Connection { line, .. } => return locked(line).run(text, values, page),
            TortureClient::Session { session, known } => (session, known),
        };
        let prepared = locked(known).get(text).cloned();
        let prepared = match prepared {
            Some(prepared) => prepared,
            None => {
                let made = session.prepare(text)?;
                locked(known).insert(text, made.clone());
                made
            }
        };
        let run = RunOptions { page_size: page.size, paging: page.from, ..RunOptions::default() };
        Ok(session.run(&prepared, values, &run)?)
    }

    /// Reads all rows, in pages of this size, or at once.
    pub fn read<T, E: From<StatementError>>(
        &self,
        text: &'static str,
        values: impl Values + Clone,
        size: Option<usize>,
        parse: impl Fn(&Row<'_>) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        let (mut all, mut page) = (vec![], ResultPage { size, from: None });
        loop {
            let rows = self.run_page(text, values.clone(), page)?;
            for row in rows.iter() {
                all.push(parse(&row)?);
            }
            let Some(next) = rows.paging() else { return Ok(all) };
            page = ResultPage { size, from: Some(next.clone()) };
        }
    }
}
