//! Backend of `firn cli --connect`: a server's Thrift interface.
//!
//! Invariants:
//! - The next operation after a lost connection reconnects.
//! - Definitions are read again after this session changed or showed them, and when it selects a
//!   keyspace.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use firn_cql::ErrorClass;
use firn_kv::{Env, OsEnv};
use firn_server::client::{ClientError, ClientOptions, FamilyClient};
use firn_tools::output::{Done, Failure, Style};
use firn_wide::internals::schema::Schema;
use firn_wide::{
    CfDef, Column, ColumnOrSuperColumn, ColumnParent, ColumnPath, CounterColumn, IndexClause,
    KeyRange, KeySlice, KsDef, Registry, SlicePredicate,
};
use firn_wide_text::cli::{CliResult, CliStore, CliTrouble};

use crate::shell::connect::{LOG_IN, NOT_ENCRYPTED};
use crate::shell::interrupt;

/// Default Thrift port of servers.
pub const PORT: u16 = 9160;
/// Error code of an invalid request.
const INVALID: i32 = ErrorClass::Invalid.code() as i32;

/// A server, and the connection to it.
pub struct RemoteFamilies {
    options: RefCell<ClientOptions>,
    style: Style,
    client: RefCell<Option<FamilyClient>>,
    consistency: RefCell<String>,
    /// All definitions, as last read.
    known: RefCell<Option<Schema>>,
    registry: Arc<Registry>,
    env: Arc<dyn Env>,
    /// Last assigned timestamp.
    last: Cell<i64>,
}

fn trouble(e: ClientError) -> CliTrouble {
    match e {
        ClientError::NotFound => CliTrouble::NotFound,
        ClientError::Refused { code: INVALID, text } => CliTrouble::Invalid(text),
        ClientError::Lost(_) => CliTrouble::Other(format!(
            "{e}; it is unknown whether the statement was executed; the next one reconnects"
        )),
        other => CliTrouble::Other(other.to_string()),
    }
}

fn failure(e: &ClientError) -> Failure {
    let next = match e {
        ClientError::Unreachable(..) => {
            "`firn --db DIR serve --thrift 127.0.0.1:9160` starts a server; --connect HOST:PORT names another one"
        }
        ClientError::Protocol(_) | ClientError::Lost(_) => {
            "the address may be that of another protocol: Thrift has a port of its own"
        }
        ClientError::Refused { .. } => LOG_IN,
        ClientError::NotEncrypted(_) => NOT_ENCRYPTED,
        _ => return Failure::new(e.to_string()),
    };
    Failure::with_next(e.to_string(), next)
}

impl RemoteFamilies {
    /// Connects.
    ///
    /// # Errors
    /// The server is unreachable, or refuses the login.
    pub fn connect(options: ClientOptions, style: Style) -> Done<RemoteFamilies> {
        let remote = RemoteFamilies {
            options: RefCell::new(options),
            style,
            client: RefCell::new(None),
            consistency: RefCell::new("ONE".to_owned()),
            known: RefCell::new(None),
            registry: Arc::new(Registry::new()),
            env: OsEnv::new(),
            last: Cell::new(0),
        };
        let mut client = remote.reach().map_err(|e| failure(&e))?;
        // Without a login, a server returns its version, but no keyspaces.
        client.describe_keyspaces().map_err(|e| failure(&e))?;
        remote.client.replace(Some(client));
        Ok(remote)
    }

    fn reach(&self) -> Result<FamilyClient, ClientError> {
        let mut client = FamilyClient::connect(&self.options.borrow())?;
        client.stop_by(interrupt::flag());
        client.set_consistency(&self.consistency.borrow());
        Ok(client)
    }

    /// Runs an operation over the connection; reconnects first if it was lost.
    fn with<T>(
        &self,
        run: impl FnOnce(&mut FamilyClient) -> Result<T, ClientError>,
    ) -> CliResult<T> {
        let open = self.client.take().filter(FamilyClient::is_open);
        let mut client = match open {
            Some(client) => client,
            None => {
                let client = self.reach().map_err(trouble)?;
                let address = self.options.borrow().address.clone();
                eprintln!("{} connected to {address} again", self.style.bold("note:"));
                client
            }
        };
        let done = run(&mut client);
        if matches!(done, Ok(_) | Err(ClientError::Refused { .. } | ClientError::NotFound)) {
            self.client.replace(Some(client));
        }
        done.map_err(trouble)
    }

    /// Runs an operation in a keyspace.
    fn within<T>(
        &self,
        keyspace: &str,
        run: impl FnOnce(&mut FamilyClient) -> Result<T, ClientError>,
    ) -> CliResult<T> {
        self.with(|client| {
            client.set_keyspace(keyspace)?;
            run(client)
        })
    }

    /// Runs an operation that changes definitions.
    fn changing<T>(
        &self,
        run: impl FnOnce(&mut FamilyClient) -> Result<T, ClientError>,
    ) -> CliResult<T> {
        self.known.replace(None);
        self.with(run)
    }
}

/// Converts a server's definitions to those of this process. The server's own keyspaces, and types
/// that only the server knows, are left out.
fn resolved(registry: &Arc<Registry>, keyspaces: Vec<KsDef>) -> Schema {
    let mut schema = Schema::new(registry.clone());
    for keyspace in keyspaces {
        // The replication of a keyspace is not relevant for its families.
        let Ok(with) = schema.add_keyspace(&KsDef::new(&keyspace.name)) else { continue };
        schema = with;
        for family in keyspace.cf_defs {
            if let Ok(with) = schema.add_family(&CfDef { id: None, ..family }) {
                schema = with;
            }
        }
    }
    schema
}

impl CliStore for RemoteFamilies {
    fn connect(
        &self,
        host: &str,
        port: u32,
        login: Option<&(String, String)>,
    ) -> CliResult<Option<String>> {
        let before = self.options.borrow().clone();
        {
            let mut options = self.options.borrow_mut();
            options.address = if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            };
            options.login = login.cloned();
        }
        let reached = self.reach().and_then(|mut client| {
            client.describe_keyspaces()?;
            Ok(client)
        });
        match reached {
            Ok(client) => {
                self.client.replace(Some(client));
                self.known.replace(None);
                let name = self.describe_cluster_name()?;
                Ok(Some(format!("Connected to: \"{name}\" on {host}/{port}")))
            }
            Err(e) => {
                self.options.replace(before);
                Err(trouble(e))
            }
        }
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
    }

    fn timestamp(&self) -> i64 {
        let now = i64::try_from(self.env.wall_micros()).unwrap_or(i64::MAX);
        self.last.set(now.max(self.last.get().saturating_add(1)));
        self.last.get()
    }

    fn set_consistency(&self, level: &str) {
        self.consistency.replace(level.to_owned());
        if let Some(client) = &mut *self.client.borrow_mut() {
            client.set_consistency(level);
        }
    }

    fn schema(&self) -> CliResult<Schema> {
        if let Some(schema) = &*self.known.borrow() {
            return Ok(schema.clone());
        }
        let schema = resolved(&self.registry, self.with(FamilyClient::describe_keyspaces)?);
        self.known.replace(Some(schema.clone()));
        Ok(schema)
    }

    fn describe_keyspaces(&self) -> CliResult<Vec<KsDef>> {
        let all = self.with(FamilyClient::describe_keyspaces)?;
        self.known.replace(Some(resolved(&self.registry, all.clone())));
        Ok(all)
    }

    fn describe_keyspace(&self, name: &str) -> CliResult<KsDef> {
        self.changing(|client| client.describe_keyspace(name))
    }

    fn describe_cluster_name(&self) -> CliResult<String> {
        self.with(|client| client.describe("cluster_name"))
    }

    fn describe_version(&self) -> CliResult<String> {
        self.with(|client| client.describe("version"))
    }

    fn describe_snitch(&self) -> CliResult<String> {
        self.with(|client| client.describe("snitch"))
    }

    fn describe_partitioner(&self) -> CliResult<String> {
        self.with(|client| client.describe("partitioner"))
    }

    fn describe_schema_versions(&self) -> CliResult<BTreeMap<String, Vec<String>>> {
        self.with(FamilyClient::describe_schema_versions)
    }

    fn system_add_keyspace(&self, def: &KsDef) -> CliResult<String> {
        self.changing(|client| client.system_add_keyspace(def))
    }

    fn system_update_keyspace(&self, def: &KsDef) -> CliResult<String> {
        self.changing(|client| client.system_update_keyspace(def))
    }

    fn system_drop_keyspace(&self, name: &str) -> CliResult<String> {
        self.changing(|client| client.system_drop_keyspace(name))
    }

    fn system_add_column_family(&self, def: &CfDef) -> CliResult<String> {
        self.changing(|client| {
            client.set_keyspace(&def.keyspace)?;
            client.system_add_column_family(&CfDef { id: None, ..def.clone() })
        })
    }

    fn system_update_column_family(&self, def: &CfDef) -> CliResult<String> {
        self.changing(|client| {
            // The server's id of the family.
            let there = client.describe_keyspace(&def.keyspace)?;
            let id = there.cf_defs.iter().find(|f| f.name == def.name).and_then(|f| f.id);
            client.set_keyspace(&def.keyspace)?;
            client.system_update_column_family(&CfDef { id, ..def.clone() })
        })
    }

    fn system_drop_column_family(&self, keyspace: &str, name: &str) -> CliResult<String> {
        self.changing(|client| {
            client.set_keyspace(keyspace)?;
            client.system_drop_column_family(name)
        })
    }

    fn get(&self, keyspace: &str, key: &[u8], path: &ColumnPath) -> CliResult<ColumnOrSuperColumn> {
        self.within(keyspace, |client| client.get(key, path))
    }

    fn get_slice(
        &self,
        keyspace: &str,
        key: &[u8],
        parent: &ColumnParent,
        predicate: &SlicePredicate,
    ) -> CliResult<Vec<ColumnOrSuperColumn>> {
        self.within(keyspace, |client| client.get_slice(key, parent, predicate))
    }

    fn get_count(&self, keyspace: &str, key: &[u8], parent: &ColumnParent) -> CliResult<i32> {
        self.within(keyspace, |client| client.get_count(key, parent, &SlicePredicate::all()))
    }

    fn get_range_slices(
        &self,
        keyspace: &str,
        parent: &ColumnParent,
        predicate: &SlicePredicate,
        range: &KeyRange,
    ) -> CliResult<Vec<KeySlice>> {
        self.within(keyspace, |client| client.get_range_slices(parent, predicate, range))
    }

    fn get_indexed_slices(
        &self,
        keyspace: &str,
        parent: &ColumnParent,
        clause: &IndexClause,
        predicate: &SlicePredicate,
    ) -> CliResult<Vec<KeySlice>> {
        self.within(keyspace, |client| client.get_indexed_slices(parent, clause, predicate))
    }

    fn insert(
        &self,
        keyspace: &str,
        key: &[u8],
        parent: &ColumnParent,
        column: &Column,
    ) -> CliResult {
        self.within(keyspace, |client| client.insert(key, parent, column))
    }

    fn add(
        &self,
        keyspace: &str,
        key: &[u8],
        parent: &ColumnParent,
        column: &CounterColumn,
    ) -> CliResult {
        self.within(keyspace, |client| client.add(key, parent, column))
    }

    fn remove(&self, keyspace: &str, key: &[u8], path: &ColumnPath, timestamp: i64) -> CliResult {
        self.within(keyspace, |client| client.remove(key, path, timestamp))
    }

    fn remove_counter(&self, keyspace: &str, key: &[u8], path: &ColumnPath) -> CliResult {
        self.within(keyspace, |client| client.remove_counter(key, path))
    }

    fn truncate(&self, keyspace: &str, family: &str) -> CliResult {
        self.within(keyspace, |client| client.truncate(family))
    }
}
