//! Floor 1: what is defined: keyspaces, tables, user types, indexes (model 3.1, 3.3, 3.5).
//!
//! - [`Catalog`]: all definitions of one moment. It never changes: a change makes a new one or
//!   refuses with the servers' text.
//! - [`TableSchema`], [`TableColumn`], [`ColumnType`], [`TableIndex`]: a table, resolved; with a
//!   [`ViewSchema`] it is a materialized view.
//! - [`Catalog::records`], [`Catalog::load`]: the stored form.
//!
//! Keyspaces are those of the data model beneath, shared with the Thrift world, and each of its
//! column families is a table of its keyspace ([`FamilyForm`]); other tables, and types, are this
//! crate's own.
//!
//! Invariants: the numbers of tables and indexes begin at [`FIRST_ID`] and are never given twice;
//! neither are the numbers of a table's columns, but that one which is dropped and added again gets
//! its own back, with the time until which its cells are no more; names of tables and indexes are
//! unique in a keyspace.

mod access;
mod analyzer;
mod as_family;
mod change;
mod column;
mod column_type;
mod family;
mod foreign;
mod from_family;
mod function;
mod index_class;
mod mask;
mod options;
mod record;
mod resolve;
mod role;
mod storage;
mod system;
mod table;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_wide::UserType;

pub use access::unauthorized;
pub use analyzer::{TextAnalyzer, TextCase, TextMatch, TextSplit, TextTest};
pub use column::{ColumnKind, TableColumn};
pub use column_type::{ColumnType, has_duration, is_unordered};
pub use family::FamilyForm;
pub use foreign::foreign_option;
pub use function::{Signature, StoredAggregate, StoredFunction, argument_text};
pub use index_class::IndexClass;
pub use mask::ColumnMask;
pub use options::{TableOptions, quoted_map};
pub use record::{
    CatalogDiff, LoadedCatalog, OrphanedTable, RECORD_PREFIX, ROLE_PREFIX, RecordGaps,
};
pub use resolve::native_type;
pub use role::{Resource, RoleEntry};
pub use system::{CQL_VERSION, DATACENTER, RELEASE_VERSION, system_keyspace, system_keyspaces};
pub use table::{DroppedColumn, IndexTarget, PartitionKey, TableIndex, TableSchema};
pub use view::ViewSchema;

use crate::error::{Class, Error, Result, invalid};
use crate::syntax::ast::QualifiedName;

/// The first number of a table or index. Those of Thrift families are smaller.
pub const FIRST_ID: u32 = firn_wide::internals::schema::FOREIGN_IDS;
/// The longest name of a keyspace, and of a column with an index that has a class, in bytes.
pub const MAX_NAME: usize = 48;
/// The longest name of a table, view or index, in bytes. Cassandra 5.0 has this bound because it
/// names a folder `NAME-ID`, with an id of 32 digits.
pub const MAX_TABLE_NAME: usize = 222;
/// Keyspaces that cannot be defined or changed.
const SYSTEM_KEYSPACES: [&str; 7] = [
    "system",
    "system_schema",
    "system_auth",
    "system_distributed",
    "system_traces",
    "system_views",
    "system_virtual_schema",
];

/// All definitions, at one moment. A clone shares its keyspaces.
#[derive(Clone, Debug)]
pub struct Catalog {
    keyspaces: BTreeMap<String, Arc<KeyspaceEntry>>,
    roles: BTreeMap<String, Arc<RoleEntry>>,
    next_id: u32,
    version: u64,
}

/// A user-defined type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDef {
    /// Its name.
    pub name: String,
    /// Its fields in order. A collection that isn't frozen becomes frozen wherever the type is.
    pub fields: Vec<(String, ColumnType)>,
}

impl TypeDef {
    /// The type of its values.
    pub fn user_type(&self, keyspace: &str) -> Arc<UserType> {
        let fields = self.fields.iter().map(|(n, t)| (n.clone(), t.of.clone())).collect();
        Arc::new(UserType { keyspace: keyspace.to_owned(), name: self.name.clone(), fields })
    }
}

/// A keyspace with its tables and types.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyspaceEntry {
    /// Its name.
    pub name: String,
    /// The class of its strategy in full under `class`, and the strategy's options.
    pub replication: BTreeMap<String, String>,
    /// Whether its writes go through the log.
    pub durable_writes: bool,
    tables: BTreeMap<String, Arc<TableSchema>>,
    types: BTreeMap<String, Arc<TypeDef>>,
    functions: BTreeMap<Signature, Arc<StoredFunction>>,
    aggregates: BTreeMap<Signature, Arc<StoredAggregate>>,
}

impl KeyspaceEntry {
    fn new(name: &str) -> KeyspaceEntry {
        KeyspaceEntry {
            name: name.to_owned(),
            replication: BTreeMap::new(),
            durable_writes: true,
            tables: BTreeMap::new(),
            types: BTreeMap::new(),
            functions: BTreeMap::new(),
            aggregates: BTreeMap::new(),
        }
    }

    /// One without tables and types.
    pub fn with(
        name: String,
        replication: BTreeMap<String, String>,
        durable_writes: bool,
    ) -> KeyspaceEntry {
        KeyspaceEntry { replication, durable_writes, ..KeyspaceEntry::new(&name) }
    }

    /// The same, with these tables, each a column family.
    pub fn with_families(
        self,
        families: impl IntoIterator<Item = Arc<TableSchema>>,
    ) -> KeyspaceEntry {
        let tables = families.into_iter().map(|t| (t.name.clone(), t)).collect();
        KeyspaceEntry { tables, ..self }
    }

    /// Its tables that are column families, by name: those that the older interface made, and compact
    /// ones.
    pub fn families(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.tables().filter(|t| t.form().is_some())
    }

    /// Whether its own attributes are the same.
    pub fn is_like(&self, other: &KeyspaceEntry) -> bool {
        (&self.name, &self.replication, self.durable_writes)
            == (&other.name, &other.replication, other.durable_writes)
    }

    /// Its tables and views, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.tables.values()
    }

    /// Its user-defined types, by name.
    pub fn types(&self) -> impl Iterator<Item = &Arc<TypeDef>> {
        self.types.values()
    }

    /// Its functions, by name and arguments.
    pub fn functions(&self) -> impl Iterator<Item = &Arc<StoredFunction>> {
        self.functions.values()
    }

    /// Its aggregates, by name and arguments.
    pub fn aggregates(&self) -> impl Iterator<Item = &Arc<StoredAggregate>> {
        self.aggregates.values()
    }

    /// The function with this name and these arguments.
    pub fn function(&self, signature: &Signature) -> Option<&Arc<StoredFunction>> {
        self.functions.get(signature)
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Option<&Arc<TableSchema>> {
        self.tables.get(name)
    }

    /// The type of this name.
    pub fn user_type(&self, name: &str) -> Option<&Arc<TypeDef>> {
        self.types.get(name)
    }

    /// The views of the table with this number, by name.
    pub fn views_of(&self, base: u32) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.tables().filter(move |t| t.view().is_some_and(|view| view.base == base))
    }

    /// The index of this name and its table.
    pub fn index(&self, name: &str) -> Option<(&Arc<TableSchema>, &TableIndex)> {
        self.tables().find_map(|t| Some((t, t.indexes().iter().find(|i| i.name == name)?)))
    }
}

impl Default for Catalog {
    fn default() -> Catalog {
        Catalog {
            keyspaces: BTreeMap::new(),
            roles: BTreeMap::new(),
            next_id: FIRST_ID,
            version: 0,
        }
    }
}

impl Catalog {
    /// Its number: a change makes a larger one. Counted from when the store was opened.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The keyspaces but those of the system, by name.
    pub fn keyspaces(&self) -> impl Iterator<Item = &Arc<KeyspaceEntry>> {
        self.keyspaces.values()
    }

    /// The keyspace of this name.
    pub fn keyspace(&self, name: &str) -> Option<&Arc<KeyspaceEntry>> {
        self.keyspaces.get(name)
    }

    /// The table that a view is of.
    pub fn base_of(&self, view: &TableSchema) -> Option<&Arc<TableSchema>> {
        let base = view.view()?.base;
        self.keyspace(&view.keyspace)?.tables().find(|t| t.id == base)
    }

    /// All tables but those of the system, views and column families among them.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.keyspaces().flat_map(|k| k.tables())
    }

    /// The tables that have their definitions here: all but the column families that the older
    /// interface made.
    pub fn own_tables(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.tables().filter(|t| t.family().is_none())
    }
}

/// The keyspace that a name means.
///
/// # Errors
/// `Invalid` when it names none and none is chosen.
pub fn keyspace_of<'a>(name: &'a QualifiedName<'_>, current: Option<&'a str>) -> Result<&'a str> {
    let none =
        "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename";
    name.keyspace.as_ref().map(|k| &*k.text).or(current).ok_or_else(|| invalid(none))
}

/// Refuses to change what the system keeps.
///
/// # Errors
/// `Unauthorized`.
pub fn check_not_system(keyspace: &str) -> Result<()> {
    if SYSTEM_KEYSPACES.contains(&keyspace) {
        let text = format!("{keyspace} keyspace is not user-modifiable.");
        return Err(Error::refused(Class::Unauthorized, text));
    }
    Ok(())
}

/// Whether a name may be that of a keyspace, table or index, which has `most` bytes at most.
pub fn is_valid_name(name: &str, most: usize) -> bool {
    !name.is_empty()
        && name.len() <= most
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
