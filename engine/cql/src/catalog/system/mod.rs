//! The system keyspaces: predefined tables with the columns of Cassandra 5.0 (`tables.cql`). They
//! have no records and no cells; `exec::system` computes their rows when they are read.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use md5::{Digest, Md5};

use super::change::new_table;
use super::{Catalog, KeyspaceEntry, SYSTEM_KEYSPACES, TableSchema, keyspace_of};
use crate::error::{Result, invalid};
use crate::syntax::ast::{QualifiedName, Statement};
use crate::syntax::{Script, parse};

/// Release of Cassandra whose language, protocol and system tables are implemented.
pub const RELEASE_VERSION: &str = "5.0.9";
/// Version of the language.
pub const CQL_VERSION: &str = "3.4.7";
/// Datacenter of the single node.
pub const DATACENTER: &str = "datacenter1";

const TABLES: &str = include_str!("tables.cql");
/// First id of a system table. All other tables have smaller ids.
const FIRST_SYSTEM_ID: u32 = u32::MAX - 4096;
/// Keyspaces of virtual tables.
const VIRTUAL: [&str; 2] = ["system_views", "system_virtual_schema"];

/// System tables that every role may read, as in Cassandra: those that clients read when they
/// connect. They show the node's addresses and the schema, but no statements and no values. All
/// other system tables, including future ones, need a permission.
const READABLE: [(&str, &str); 17] = [
    ("system", "local"),
    ("system", "peers"),
    ("system", "peers_v2"),
    ("system_schema", "aggregates"),
    ("system_schema", "column_masks"),
    ("system_schema", "columns"),
    ("system_schema", "dropped_columns"),
    ("system_schema", "functions"),
    ("system_schema", "indexes"),
    ("system_schema", "keyspaces"),
    ("system_schema", "tables"),
    ("system_schema", "triggers"),
    ("system_schema", "types"),
    ("system_schema", "views"),
    ("system_virtual_schema", "columns"),
    ("system_virtual_schema", "keyspaces"),
    ("system_virtual_schema", "tables"),
];

static KEYSPACES: LazyLock<BTreeMap<String, Arc<KeyspaceEntry>>> = LazyLock::new(defined);

fn replication(keyspace: &str) -> BTreeMap<String, String> {
    let (class, factor) = match keyspace {
        "system_traces" => ("SimpleStrategy", Some("2")),
        "system_distributed" => ("SimpleStrategy", Some("3")),
        "system_auth" => ("SimpleStrategy", Some("1")),
        _ => ("LocalStrategy", None),
    };
    let class = format!("org.apache.cassandra.locator.{class}");
    let factor = factor.map(|n| ("replication_factor".to_owned(), n.to_owned()));
    [("class".to_owned(), class)].into_iter().chain(factor).collect()
}

/// Returns the uuid that Cassandra gives a system table: a digest of its names.
fn uuid_of(keyspace: &str, table: &str) -> uuid::Uuid {
    let digest = Md5::new().chain_update(keyspace).chain_update(table);
    uuid::Builder::from_md5_bytes(digest.finalize().into()).into_uuid()
}

fn defined() -> BTreeMap<String, Arc<KeyspaceEntry>> {
    let mut all: BTreeMap<&str, KeyspaceEntry> = BTreeMap::new();
    for (piece, id) in Script::new(TABLES).zip(FIRST_SYSTEM_ID..) {
        // A test parses each of them.
        let Ok(parsed) = parse(&TABLES[piece.start..piece.end]) else { continue };
        let Statement::CreateTable(statement) = &parsed.statement else { continue };
        let Some(name) = statement.name.keyspace.as_ref().map(|k| &*k.text) else { continue };
        let Some(home) = SYSTEM_KEYSPACES.into_iter().find(|k| *k == name) else { continue };
        let fresh = || KeyspaceEntry::with(home.to_owned(), replication(home), true);
        let keyspace = all.entry(home).or_insert_with(fresh);
        let Ok(mut table) = new_table(keyspace, statement) else { continue };
        table.id = id;
        table.uuid = uuid_of(home, &table.name);
        keyspace.tables.insert(table.name.clone(), Arc::new(table));
    }
    all.into_iter().map(|(name, keyspace)| (name.to_owned(), Arc::new(keyspace))).collect()
}

/// Iterates over the system keyspaces by name.
pub fn system_keyspaces<'a>() -> impl Iterator<Item = &'a Arc<KeyspaceEntry>> {
    KEYSPACES.values()
}

/// Returns the system keyspace with this name.
pub fn system_keyspace(name: &str) -> Option<&'static Arc<KeyspaceEntry>> {
    KEYSPACES.get(name)
}

impl Catalog {
    /// Returns the keyspace or system keyspace with this name.
    pub fn any_keyspace(&self, name: &str) -> Option<&Arc<KeyspaceEntry>> {
        self.keyspace(name).or_else(|| system_keyspace(name))
    }

    /// Returns the table, which may be a system table, that a statement names.
    ///
    /// # Errors
    /// `Invalid` if there is no current keyspace, or if the keyspace or the table does not exist.
    pub fn table(
        &self,
        name: &QualifiedName<'_>,
        current: Option<&str>,
    ) -> Result<&Arc<TableSchema>> {
        let keyspace = keyspace_of(name, current)?;
        let found = self
            .any_keyspace(keyspace)
            .ok_or_else(|| invalid!("keyspace {keyspace} does not exist"))?;
        let table = found
            .table(&name.name.text)
            .ok_or_else(|| invalid!("table {} does not exist", name.name.text))?;
        // Refuse a family whose comparator is not registered.
        table.family().map_or(Ok(()), |family| family.check_registered())?;
        Ok(table)
    }
}

impl KeyspaceEntry {
    /// Reports whether it is a system keyspace.
    pub fn is_system(&self) -> bool {
        SYSTEM_KEYSPACES.contains(&&*self.name)
    }

    /// Reports whether Cassandra lists its tables in `system_virtual_schema`.
    pub fn is_virtual(&self) -> bool {
        VIRTUAL.contains(&&*self.name)
    }
}

impl TableSchema {
    /// Reports whether it is a system table.
    pub fn is_system(&self) -> bool {
        self.id >= FIRST_SYSTEM_ID
    }

    /// Reports whether every role may read it without a permission.
    pub fn is_readable_by_all(&self) -> bool {
        self.is_system() && READABLE.contains(&(&*self.keyspace, &*self.name))
    }

    /// Reports whether Cassandra lists it in `system_virtual_schema`.
    pub fn is_virtual(&self) -> bool {
        self.is_system() && VIRTUAL.contains(&&*self.keyspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_the_text_is_defined_with_the_identity_that_servers_give_it() {
        let count: usize = system_keyspaces().map(|k| k.tables().count()).sum();
        assert_eq!(count, TABLES.matches("CREATE TABLE").count());
        let local = system_keyspace("system").unwrap().table("local").unwrap();
        assert_eq!(local.uuid.to_string(), "7ad54392-bcdd-35a6-8417-4e047860b377");
        assert!(local.is_system() && !local.is_virtual());
        let names: Vec<&str> = local.columns().iter().map(|c| &*c.name).collect();
        assert_eq!(names[..3], ["key", "bootstrapped", "broadcast_address"]);
    }
}
