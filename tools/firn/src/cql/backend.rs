//! What the shell speaks to: a store that this process has open, or a server. The shell knows no
//! difference.

use firn_cql::{Bound, ColumnSpec, PagingState, Rows, SyntaxError};
use firn_tools::output::Failure;

/// A page of a result that is asked for.
#[derive(Clone, Debug, Default)]
pub struct PageWish {
    /// How many rows it has at most. `None`: all.
    pub rows: Option<usize>,
    /// Where it begins: what the page before it ended with.
    pub from: Option<PagingState>,
}

/// Why a statement gave nothing.
#[derive(Debug)]
pub enum ShellRefusal {
    /// The text is no CQL; with its place.
    Syntax(Box<SyntaxError>),
    /// It was refused.
    Refused {
        /// The kind of error, as drivers call it.
        class: String,
        /// In the server's words.
        text: String,
        /// What to do about it, where that is known.
        help: Option<String>,
    },
    /// The connection was lost; whether it was carried out is not known.
    Lost(String),
    /// Somebody has stopped it.
    Stopped,
    /// The shell can't go on.
    Fatal(Failure),
}

impl ShellRefusal {
    /// What was refused and why, for those who say the rest themselves.
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
                Failure::Found | Failure::PipeClosed => "it has ended".to_owned(),
            },
        }
    }
}

/// What is said of a statement, or what it gave.
pub type ShellResult<T = Rows> = Result<T, ShellRefusal>;

/// What a user may set. `None` asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellSetting {
    /// The consistency of reads and writes.
    Consistency(Option<String>),
    /// The consistency of conditions.
    SerialConsistency(Option<String>),
    /// Whether the server writes down how statements went.
    Tracing(Option<bool>),
}

/// A statement that is prepared.
pub trait PreparedStatement {
    /// The types of its bind markers.
    fn markers(&self) -> &[ColumnSpec];
    /// The columns of its result.
    fn columns(&self) -> &[ColumnSpec];
}

/// Where statements run.
pub trait ShellBackend {
    /// A statement that is prepared there.
    type Prepared: PreparedStatement;

    /// The keyspace that is chosen.
    fn keyspace(&self) -> Option<String>;

    /// What stands before `cql` in a prompt: who has logged in.
    fn who(&self) -> Option<&str>;

    /// Runs a statement, as far as one page.
    ///
    /// # Errors
    /// Why it gave nothing.
    fn execute(&mut self, statement: &str, page: &PageWish) -> ShellResult;

    /// Prepares a statement.
    ///
    /// # Errors
    /// Why it can't be.
    fn prepare(&mut self, statement: &str) -> ShellResult<Self::Prepared>;

    /// Runs a statement that is prepared, as far as one page.
    ///
    /// # Errors
    /// Why it gave nothing.
    fn run(
        &mut self,
        prepared: &mut Self::Prepared,
        values: &[Bound],
        page: &PageWish,
    ) -> ShellResult;

    /// Changes a setting, or asks for it; what to tell.
    ///
    /// # Errors
    /// Why it can't be so.
    fn set(&mut self, setting: &ShellSetting) -> Result<String, String>;

    /// Says where statements go: to which store, server or cluster.
    ///
    /// # Errors
    /// Why that can't be said.
    fn host(&mut self) -> ShellResult<String>;

    /// Logs in as another role; says as which.
    ///
    /// # Errors
    /// Why nobody can, or this role can't.
    fn login(&mut self, role: &str, password: String) -> Result<String, String>;

    /// How the statement before went, where that was wished: the trace's id and what happened.
    ///
    /// # Errors
    /// Why that can't be told.
    fn trace(&mut self) -> ShellResult<Option<(String, Rows)>>;

    /// Which versions these are.
    ///
    /// # Errors
    /// Why that can't be told.
    fn version(&mut self) -> ShellResult<String>;
}

/// All rows of a statement, page by page.
///
/// # Errors
/// Those of [`ShellBackend::execute`].
pub fn every_page<B: ShellBackend>(backend: &mut B, statement: &str) -> ShellResult<Vec<Rows>> {
    let (mut pages, mut wish) = (vec![], PageWish { rows: Some(1000), from: None });
    loop {
        let page = backend.execute(statement, &wish)?;
        wish.from = page.paging().cloned();
        pages.push(page);
        if wish.from.is_none() {
            return Ok(pages);
        }
    }
}
