//! Backends of the shell: a store that this process has open, a server or a cluster. The shell uses
//! all of them in the same way.

use firn_cql::{BoundValue, ColumnSpec, PagingState, Rows, SyntaxError};
use firn_tools::output::Failure;

/// Request for a page of a result.
#[derive(Clone, Debug, Default)]
pub struct PageRequest {
    /// Maximum number of rows. `None`: all.
    pub rows: Option<usize>,
    /// Start of the page: the paging state of the page before.
    pub from: Option<PagingState>,
}

/// Reason why a statement failed.
#[derive(Debug)]
pub enum ShellRefusal {
    /// Syntax error, with its position.
    Syntax(Box<SyntaxError>),
    /// The backend refused the statement.
    Refused {
        /// Error class, as drivers name it.
        class: String,
        /// Error message of the server.
        text: String,
        /// Advice, if there is any.
        help: Option<String>,
    },
    /// The connection was lost. The statement may or may not have been executed.
    Lost(String),
    /// The user interrupted the statement.
    Stopped,
    /// The shell cannot continue.
    Fatal(Failure),
}

impl ShellRefusal {
    /// Returns the message without the error class, for callers that add their own context.
    pub fn text(&self) -> String {
        match self {
            ShellRefusal::Syntax(error) => error.to_string(),
            ShellRefusal::Refused { text, help: Some(help), .. } => format!("{text}; {help}"),
            ShellRefusal::Refused { text, .. } => text.clone(),
            ShellRefusal::Lost(text) => text.clone(),
            ShellRefusal::Stopped => "it was stopped".to_owned(),
            ShellRefusal::Fatal(failure) => match failure {
                Failure::Failed { what, .. } => what.clone(),
                Failure::Engine(e) => e.to_string(),
                Failure::Found | Failure::PipeClosed | Failure::Interrupted => {
                    "it has ended".to_owned()
                }
            },
        }
    }
}

/// Result of a statement.
pub type ShellResult<T = Rows> = Result<T, ShellRefusal>;

/// A setting of the shell. `None` queries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellSetting {
    /// Consistency level of reads and writes.
    Consistency(Option<String>),
    /// Consistency level of conditions.
    SerialConsistency(Option<String>),
    /// Whether the server traces statements.
    Tracing(Option<bool>),
}

/// A prepared statement.
pub trait PreparedStatement {
    /// Returns the types of its bind markers.
    fn markers(&self) -> &[ColumnSpec];
    /// Returns the columns of its result.
    fn columns(&self) -> &[ColumnSpec];
}

/// Executes the statements of the shell.
pub trait ShellBackend {
    /// Prepared statement of this backend.
    type Prepared: PreparedStatement;

    /// Returns the current keyspace.
    fn keyspace(&self) -> Option<String>;

    /// Returns the logged-in role, which the prompt shows before `cql`.
    fn role(&self) -> Option<&str>;

    /// Runs a statement and returns one page of its result.
    ///
    /// # Errors
    /// The statement failed.
    fn execute(&mut self, statement: &str, page: &PageRequest) -> ShellResult;

    /// Prepares a statement.
    ///
    /// # Errors
    /// The statement cannot be prepared.
    fn prepare(&mut self, statement: &str) -> ShellResult<Self::Prepared>;

    /// Runs a prepared statement and returns one page of its result.
    ///
    /// # Errors
    /// The statement failed.
    fn run(
        &mut self,
        prepared: &mut Self::Prepared,
        values: &[BoundValue],
        page: &PageRequest,
    ) -> ShellResult;

    /// Changes or queries a setting, and returns the text to print.
    ///
    /// # Errors
    /// The backend does not support the setting.
    fn set(&mut self, setting: &ShellSetting) -> Result<String, String>;

    /// Describes the store, server or cluster.
    ///
    /// # Errors
    /// The description is not available.
    fn host(&mut self) -> ShellResult<String>;

    /// Logs in as another role, and returns the text to print.
    ///
    /// # Errors
    /// The backend has no logins, or refuses this one.
    fn login(&mut self, role: &str, password: String) -> Result<String, String>;

    /// Returns the trace of the previous statement, if tracing is on: its id and events.
    ///
    /// # Errors
    /// The trace is not available.
    fn trace(&mut self) -> ShellResult<Option<(String, Rows)>>;

    /// Describes the versions of the backend.
    ///
    /// # Errors
    /// The versions are not available.
    fn version(&mut self) -> ShellResult<String>;
}

/// Returns all rows of a statement, page by page.
///
/// # Errors
/// As for [`ShellBackend::execute`].
pub fn every_page<B: ShellBackend>(backend: &mut B, statement: &str) -> ShellResult<Vec<Rows>> {
    let (mut pages, mut request) = (vec![], PageRequest { rows: Some(1000), from: None });
    loop {
        let page = backend.execute(statement, &request)?;
        request.from = page.paging().cloned();
        pages.push(page);
        if request.from.is_none() {
            return Ok(pages);
        }
    }
}
