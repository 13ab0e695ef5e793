//! Backend of the shell on a cluster, through any available node.
//!
//! Invariant: the driver reconnects automatically. A statement without an answer is reported as
//! lost and is not sent again.

use firn_cluster::{ClusterUrl, Prepared, Session};
use firn_cql::{BoundValue, ColumnSpec, Error, ErrorClass, Rows};
use firn_tools::output::Done;

use super::backend::{
    PageRequest, PreparedStatement, ShellBackend, ShellRefusal, ShellResult, ShellSetting,
};
use super::local::shell_run;
use super::remote::{server_host, server_version, syntax_refusal};
use crate::shell::connect::not_connected;

/// Version of the driver's protocol.
const PROTOCOL: u8 = 4;

/// A session with a cluster.
pub struct ClusterBackend {
    session: Session,
    address: String,
}

impl PreparedStatement for Prepared {
    fn markers(&self) -> &[ColumnSpec] {
        Prepared::markers(self)
    }

    fn columns(&self) -> &[ColumnSpec] {
        Prepared::columns(self).map_or(&[][..], |c| &**c)
    }
}

/// Converts an error of a statement.
fn refusal(e: Error, statement: &str) -> ShellRefusal {
    match e {
        Error::Refused { class: ErrorClass::Syntax, text, .. } => syntax_refusal(statement, text),
        other => other.into(),
    }
}

impl ClusterBackend {
    /// Connects.
    ///
    /// # Errors
    /// No node is reachable, or the cluster refuses the login or the keyspace.
    pub fn connect(url: ClusterUrl) -> Done<ClusterBackend> {
        let address = url.nodes().join(", ");
        let session = Session::connect_to(url).map_err(|e| not_connected(&e))?;
        Ok(ClusterBackend { session, address })
    }

    /// Returns the addresses of the URL.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl ShellBackend for ClusterBackend {
    type Prepared = Prepared;

    fn keyspace(&self) -> Option<String> {
        self.session.keyspace().map(|k| k.to_string())
    }

    fn role(&self) -> Option<&str> {
        self.session.role()
    }

    fn execute(&mut self, statement: &str, page: &PageRequest) -> ShellResult {
        let done = self.session.execute_with(statement, (), &shell_run(page));
        done.map_err(|e| refusal(e, statement))
    }

    fn prepare(&mut self, statement: &str) -> ShellResult<Prepared> {
        self.session.prepare(statement).map_err(|e| refusal(e, statement))
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
        let changed = match setting {
            ShellSetting::Consistency(Some(name)) => self.session.with_consistency(name),
            ShellSetting::SerialConsistency(Some(name)) => {
                self.session.with_serial_consistency(name)
            }
            ShellSetting::Tracing(Some(true)) => {
                return Err("a session with a cluster cannot be traced: connect to one node with `firn cql --connect HOST`"
                    .to_owned());
            }
            _ => Ok(self.session.clone()),
        };
        self.session = changed.map_err(|e| e.to_string())?;
        let (consistency, serial) = self.session.consistencies().unwrap_or_default();
        Ok(match setting {
            ShellSetting::Consistency(_) => format!("the consistency is {consistency}"),
            ShellSetting::SerialConsistency(_) => format!("the serial consistency is {serial}"),
            ShellSetting::Tracing(_) => "tracing is off".to_owned(),
        })
    }

    fn host(&mut self) -> ShellResult<String> {
        server_host(self, &self.address.clone())
    }

    fn login(&mut self, _: &str, _: String) -> Result<String, String> {
        Err("a session with a cluster cannot change its login: start another one, `firn cql --connect cassandra://ROLE@HOST`"
            .to_owned())
    }

    fn trace(&mut self) -> ShellResult<Option<(String, Rows)>> {
        Ok(None)
    }

    fn version(&mut self) -> ShellResult<String> {
        server_version(self, PROTOCOL)
    }
}
