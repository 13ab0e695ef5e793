//! Backend of the shell on a store that this process opens.

use firn_cql::internals::catalog::CQL_VERSION;
use firn_cql::{BoundValue, ColumnSpec, Error, ErrorClass, Prepared, Rows, RunOptions, Session};
use firn_kv::{DbOptions, ErrorKind};
use firn_tools::output::{Done, Failure};

use super::backend::{
    PageRequest, PreparedStatement, ShellBackend, ShellRefusal, ShellResult, ShellSetting,
};
use super::command;
use crate::shell::interrupt;
use crate::store::{Global, empty};

/// A session with a store.
pub struct LocalBackend {
    session: Session,
    global: Global,
    /// Options for the open when a statement creates a keyspace. Until then the session uses an
    /// empty database.
    awaited: Option<DbOptions>,
}

impl From<Error> for ShellRefusal {
    fn from(e: Error) -> ShellRefusal {
        let class = e.class().name().to_owned();
        match e {
            Error::Stopped => ShellRefusal::Stopped,
            Error::Syntax(error) => ShellRefusal::Syntax(error),
            Error::Refused { class: ErrorClass::Unanswered, .. } => {
                ShellRefusal::Lost(e.to_string())
            }
            other => ShellRefusal::Refused {
                class,
                text: other.text().into_owned(),
                help: other.help().map(str::to_owned),
            },
        }
    }
}

impl PreparedStatement for Prepared {
    fn markers(&self) -> &[ColumnSpec] {
        Prepared::markers(self)
    }

    fn columns(&self) -> &[ColumnSpec] {
        Prepared::columns(self).map_or(&[][..], |c| &**c)
    }
}

/// Returns the execution options of a page.
pub fn shell_run(page: &PageRequest) -> RunOptions {
    RunOptions {
        page_size: page.rows,
        paging: page.from.clone(),
        stop: Some(interrupt::flag()),
        ..RunOptions::default()
    }
}

impl LocalBackend {
    /// Opens the store with these options. If there is none yet, opens it when a statement creates
    /// an object. A store that cannot be written is opened for reading, with a notice: it is on a
    /// read-only file system, belongs to another user, has a damaged
    /// file, or is a replica.
    ///
    /// # Errors
    /// The store cannot be opened.
    pub fn open(global: &Global, db: DbOptions) -> Done<LocalBackend> {
        let global = global.clone();
        if global.begins_empty()? {
            let session = Session::new(empty()?).map_err(|e| Failure::new(e.to_string()))?;
            return Ok(LocalBackend { session, global, awaited: Some(db) });
        }
        let is_replica = !db.read_only && global.is_replica()?;
        if is_replica {
            let note = global.style().bold("note:");
            eprintln!("{note} the store is a replica, so it is opened for reading only");
        }
        let session = match global.model(if is_replica { global.to_read() } else { db }) {
            Ok(session) => session,
            Err(Failure::Engine(e)) if may_be_read(&e) => match global.model(global.to_read()) {
                Ok(session) => {
                    eprintln!(
                        "{} the store is opened for reading only: {e}",
                        global.style().bold("note:")
                    );
                    session
                }
                // Reports the error of the open for writing, which is the problem to solve.
                Err(_) => return Err(Failure::Engine(e)),
            },
            Err(other) => return Err(other),
        };
        Ok(LocalBackend { session, global, awaited: None })
    }
}

/// Reports whether to open a store for reading after this error of the open for writing.
fn may_be_read(e: &firn_kv::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    e.kind() == ErrorKind::Corruption
        || e.io_error().is_some_and(|s| matches!(s.kind(), PermissionDenied | ReadOnlyFilesystem))
}

impl ShellBackend for LocalBackend {
    type Prepared = Prepared;

    fn keyspace(&self) -> Option<String> {
        self.session.keyspace().map(|k| k.to_string())
    }

    fn role(&self) -> Option<&str> {
        None
    }

    fn execute(&mut self, statement: &str, page: &PageRequest) -> ShellResult {
        if let Some(db) = self.awaited.take_if(|_| command::makes_first(statement)) {
            self.session = self.global.model(db).map_err(ShellRefusal::Fatal)?;
        }
        let done = self.session.execute_with(statement, (), &shell_run(page));
        if done.is_err() && self.awaited.is_some() && !self.global.store.json {
            self.global.note_empty();
        }
        Ok(done?)
    }

    fn prepare(&mut self, statement: &str) -> ShellResult<Prepared> {
        Ok(self.session.prepare(statement)?)
    }

    fn run(
        &mut self,
        prepared: &mut Prepared,
        values: &[BoundValue],
        page: &PageRequest,
    ) -> ShellResult {
        Ok(self.session.run(prepared, values, &shell_run(page))?)
    }

    fn set(&mut self, setting: &ShellSetting) -> Result<String, String> {
        match setting {
            ShellSetting::Tracing(None | Some(false)) => Ok("tracing is off".to_owned()),
            ShellSetting::Tracing(Some(true)) => {
                Err("only a server can trace statements: use `firn serve` and `firn cql --connect`"
                    .to_owned())
            }
            ShellSetting::Consistency(_) | ShellSetting::SerialConsistency(_) => {
                Ok("there is one node, so every read sees all writes at every level".to_owned())
            }
        }
    }

    fn host(&mut self) -> ShellResult<String> {
        Ok(format!("the store {}, which this process has open", self.global.store.db.display()))
    }

    fn login(&mut self, _: &str, _: String) -> Result<String, String> {
        Err("a store has no logins: the process that opens it has all permissions; use `firn cql --connect` with a server"
            .to_owned())
    }

    fn trace(&mut self) -> ShellResult<Option<(String, Rows)>> {
        Ok(None)
    }

    fn version(&mut self) -> ShellResult<String> {
        Ok(format!("[firn {} | CQL spec {CQL_VERSION}]", env!("CARGO_PKG_VERSION")))
    }
}
