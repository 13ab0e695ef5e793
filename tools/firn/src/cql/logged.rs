//! Backend that writes the statements of another backend to a log.

use std::sync::Arc;

use firn_cql::{BoundValue, ColumnSpec, RanStatement, Rows, StatementLog};

use super::backend::{
    PageRequest, PreparedStatement, ShellBackend, ShellRefusal, ShellResult, ShellSetting,
};

/// A backend with an optional log.
pub struct LoggedBackend<B> {
    /// Executes the statements.
    pub backend: B,
    /// Statement log.
    pub log: Option<Arc<StatementLog>>,
}

/// A prepared statement with its text.
pub struct LoggedPrepared<P> {
    prepared: P,
    text: String,
}

impl<P: PreparedStatement> PreparedStatement for LoggedPrepared<P> {
    fn markers(&self) -> &[ColumnSpec] {
        self.prepared.markers()
    }

    fn columns(&self) -> &[ColumnSpec] {
        self.prepared.columns()
    }
}

/// Returns the class of an error in the log.
fn class(refusal: &ShellRefusal) -> &str {
    match refusal {
        ShellRefusal::Syntax(_) => "SyntaxException",
        ShellRefusal::Refused { class, .. } => class,
        ShellRefusal::Lost(_) => "Lost",
        ShellRefusal::Stopped => "Stopped",
        ShellRefusal::Fatal(_) => "Fatal",
    }
}

impl<B: ShellBackend> LoggedBackend<B> {
    fn noted(
        &mut self,
        text: &str,
        (markers, values): (&[ColumnSpec], &[BoundValue]),
        page: &PageRequest,
        run: impl FnOnce(&mut B) -> ShellResult,
    ) -> ShellResult {
        let Some(log) = &self.log else { return run(&mut self.backend) };
        let (start, keyspace) = (log.start(), self.backend.keyspace());
        let done = run(&mut self.backend);
        let ran = RanStatement { keyspace: keyspace.as_deref(), text, markers, values };
        log.ran(start, None, &[ran], page.from.is_some(), done.as_ref().map_err(class));
        done
    }
}

impl<B: ShellBackend> ShellBackend for LoggedBackend<B> {
    type Prepared = LoggedPrepared<B::Prepared>;

    fn keyspace(&self) -> Option<String> {
        self.backend.keyspace()
    }

    fn role(&self) -> Option<&str> {
        self.backend.role()
    }

    fn execute(&mut self, statement: &str, page: &PageRequest) -> ShellResult {
        self.noted(statement, (&[], &[]), page, |backend| backend.execute(statement, page))
    }

    fn prepare(&mut self, statement: &str) -> ShellResult<Self::Prepared> {
        let prepared = self.backend.prepare(statement)?;
        Ok(LoggedPrepared { prepared, text: statement.to_owned() })
    }

    fn run(
        &mut self,
        prepared: &mut Self::Prepared,
        values: &[BoundValue],
        page: &PageRequest,
    ) -> ShellResult {
        let LoggedPrepared { prepared, text } = prepared;
        if self.log.is_none() {
            return self.backend.run(prepared, values, page);
        }
        // The log needs the types while the statement is borrowed for the execution.
        let markers = prepared.markers().to_vec();
        self.noted(text, (&markers, values), page, |backend| backend.run(prepared, values, page))
    }

    fn set(&mut self, setting: &ShellSetting) -> Result<String, String> {
        self.backend.set(setting)
    }

    fn host(&mut self) -> ShellResult<String> {
        self.backend.host()
    }

    fn login(&mut self, role: &str, password: String) -> Result<String, String> {
        self.backend.login(role, password)
    }

    fn trace(&mut self) -> ShellResult<Option<(String, Rows)>> {
        self.backend.trace()
    }

    fn version(&mut self) -> ShellResult<String> {
        self.backend.version()
    }
}
