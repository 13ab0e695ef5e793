//! State of a Thrift client's session: keyspace, role, prepared statements.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use firn_cql::internals::catalog::Resource;
use firn_cql::internals::syntax::ast::Permission;
use firn_cql::{BatchLimits, ResultBudget, ResultShare, Session, TombstoneLimits};
use firn_kv::Env;
use firn_wide::{Keyspace, Wide};
use uuid::Uuid;

use super::fault::{ThriftError, invalid};
use super::fields::Result;
use super::writer::{ThriftWriter, WriteField};
use crate::node::{ConnectionMeter, LoginQueue, Node, PreparedStatements};

/// Bytes of a reply that are free of charge in the results budget.
const FREE: usize = 64 << 10;

/// Session of a client.
pub struct ThriftSession {
    /// Session with the database.
    pub(super) session: Session,
    /// Whether the client must log in first.
    pub(super) login: bool,
    pub(super) logins: LoginQueue,
    pub(super) peer: SocketAddr,
    /// Address at which the client reached the server, for traces.
    pub(super) local: Option<SocketAddr>,
    /// Name of the current keyspace, and its handle unless it is one of the system.
    pub(super) keyspace: Option<(String, Option<Keyspace>)>,
    /// Ids of its prepared statements, by number.
    pub(super) prepared: BTreeMap<i32, [u8; 16]>,
    pub(super) next: i32,
    /// Prepared statements of all connections.
    pub(super) statements: Arc<PreparedStatements>,
    /// Limits of CQL batches.
    pub(super) batch_limits: BatchLimits,
    pub(super) tombstone_limits: TombstoneLimits,
    pub(super) max_result: usize,
    /// Results budget of all connections, and the share of the current reply.
    pub(super) results: ResultBudget,
    pub(super) share: Option<Arc<ResultShare>>,
    pub(super) meter: ConnectionMeter,
    /// Trace id of the next call.
    pub(super) traced: Option<Uuid>,
    pub(super) env: Arc<dyn Env>,
    /// Whether calls are those of 0.4.
    pub(super) is_old: bool,
}

impl ThriftSession {
    /// Creates the session of a client that has not logged in.
    pub fn new(
        node: &Node,
        meter: ConnectionMeter,
        peer: SocketAddr,
        local: Option<SocketAddr>,
    ) -> ThriftSession {
        ThriftSession {
            session: node.session.clone(),
            login: node.login,
            logins: node.logins.clone(),
            peer,
            local,
            keyspace: None,
            prepared: BTreeMap::new(),
            next: 1,
            statements: node.thrift_prepared.clone(),
            batch_limits: node.options.batches,
            tombstone_limits: node.options.tombstones,
            max_result: node.options.max_result,
            results: node.results.clone(),
            share: None,
            meter,
            traced: None,
            env: node.env.clone(),
            is_old: node.options.thrift_0_4,
        }
    }

    /// Takes room for a reply of this many bytes, in memory and as sent.
    /// [`end_of_call`](ThriftSession::end_of_call) releases it.
    pub(super) fn take_room(&mut self, bytes: usize) -> Result<()> {
        if bytes <= FREE {
            return Ok(());
        }
        let most = self.results.max_bytes();
        if bytes > most {
            let text = format!("The result takes more than {most} bytes; ask for fewer rows");
            return Err(invalid(text));
        }
        let share = self.share.get_or_insert_with(|| Arc::new(self.results.share()));
        if share.grow_to(bytes) { Ok(()) } else { Err(ThriftError::Unavailable) }
    }

    /// Appends the result of a call, after it has taken room for the result and for the reply.
    pub(super) fn reply<T: WriteField + ?Sized>(
        &mut self,
        out: &mut Vec<u8>,
        result: &T,
    ) -> Result<()> {
        self.take_room(result.memory().saturating_mul(2))?;
        ThriftWriter::new(out).field(0, result);
        Ok(())
    }

    /// Releases the room of a reply that was sent.
    pub fn end_of_call(&mut self) {
        self.share = None;
    }

    /// Reports whether its client still has to log in.
    pub fn must_log_in(&self) -> bool {
        self.login && self.session.role().is_none()
    }

    /// Reports whether the session is over because its role was dropped.
    pub fn is_over(&self) -> bool {
        self.session.check_login().is_err()
    }

    /// Returns the data model of the store.
    pub(super) fn wide(&self) -> &Wide {
        self.session.engine().wide()
    }

    /// Returns the name of the current keyspace.
    pub(super) fn name(&self) -> Result<&str> {
        Ok(&self.current()?.0)
    }

    /// Returns the name of the current keyspace and its handle.
    pub(super) fn current(&self) -> Result<&(String, Option<Keyspace>)> {
        let missing = || invalid("You have not set a keyspace for this session");
        self.keyspace.as_ref().ok_or_else(missing)
    }

    /// Returns an error if the role lacks this permission.
    pub(super) fn check(&self, permission: Permission, resource: &Resource) -> Result<()> {
        self.session.engine().refresh_catalog()?;
        let catalog = self.session.engine().catalog();
        Ok(catalog.check_may(self.session.role(), permission, resource)?)
    }

    /// Returns an error if the role lacks this permission on a column family of the current
    /// keyspace.
    pub(super) fn check_family(&self, permission: Permission, name: &str) -> Result<()> {
        match self.session.role() {
            Some(_) => self.check(permission, &self.family(name)?),
            None => Ok(()),
        }
    }

    /// Returns a column family of the current keyspace as a resource of permissions.
    pub(super) fn family(&self, name: &str) -> Result<Resource> {
        Ok(Resource::Table(self.name()?.to_owned(), name.to_owned()))
    }
}
