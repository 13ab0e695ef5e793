//! Floor 1: schema definitions: keyspaces, tables, user types, indexes (model 3.1, 3.3, 3.5).
//!
//! - [`Catalog`]: an immutable snapshot of all definitions. A change returns a new one, or an error
//!   with Cassandra's text.
//! - [`TableSchema`], [`TableColumn`], [`ColumnType`], [`TableIndex`]: a resolved table; with a
//!   [`ViewSchema`] it is a materialized view.
//! - [`Catalog::records`], [`Catalog::load`]: the stored form.
//!
//! Keyspaces are those of `firn-wide`, shared with the Thrift interface, and each column family is
//! a table of its keyspace ([`FamilyForm`]). Other tables, and types, belong to this crate.
//!
//! Invariants:
//! - Ids of tables and indexes begin at [`FIRST_ID`] and are never reused.
//! - Ids of a table's columns are never reused for other columns. A column that is dropped and
//!   added again gets its old id, with the timestamp up to which its cells are dropped.
//! - Names of tables and indexes are unique in a keyspace.

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

pub use analyzer::{TextAnalyzer, TextCase, TextMatch, TextSplit, TextTest};
pub use column::{ColumnKind, TableColumn};
use column_type::with_parts;
pub use column_type::{ColumnType, has_duration, is_unordered, part_types, without_user_types};
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

use crate::error::{Error, ErrorClass, Result, invalid};
use crate::syntax::ast::QualifiedName;

/// First id of a table or index. Those of Thrift families are smaller.
pub const FIRST_ID: u32 = firn_wide::internals::schema::FOREIGN_IDS;
/// Maximum bytes of the name of a keyspace, and of a column with an index that has a class.
pub const MAX_NAME: usize = 48;
/// Maximum bytes of the name of a table, view or index. Cassandra 5.0 has this bound because it
/// names a directory `NAME-ID`, with an id of 32 digits.
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

/// A snapshot of all definitions. A clone shares its keyspaces.
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
    /// Name of the type.
    pub name: String,
    /// Fields in order. An unfrozen collection becomes frozen where the type is frozen.
    pub fields: Vec<(String, ColumnType)>,
}

impl TypeDef {
    /// Returns the type of its values.
    pub fn user_type(&self, keyspace: &str) -> Arc<UserType> {
        let fields = self.fields.iter().map(|(n, t)| (n.clone(), t.value_type.clone())).collect();
        Arc::new(UserType { keyspace: keyspace.to_owned(), name: self.name.clone(), fields })
    }
}

/// A keyspace with its tables and types.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyspaceEntry {
    /// Name of the keyspace.
    pub name: String,
    /// Full class name of its strategy under `class`, and the strategy's options.
    pub replication: BTreeMap<String, String>,
    /// Whether its writes are logged.
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

    /// Creates a keyspace without tables and types.
    pub fn with(
        name: String,
        replication: BTreeMap<String, String>,
        durable_writes: bool,
    ) -> KeyspaceEntry {
        KeyspaceEntry { replication, durable_writes, ..KeyspaceEntry::new(&name) }
    }

    /// Returns this keyspace with these tables, each of which is a column family.
    pub fn with_families(
        self,
        families: impl IntoIterator<Item = Arc<TableSchema>>,
    ) -> KeyspaceEntry {
        let tables = families.into_iter().map(|t| (t.name.clone(), t)).collect();
        KeyspaceEntry { tables, ..self }
    }

    /// Iterates by name over its tables that are column families: those of the Thrift interface,
    /// and compact ones.
    pub fn families(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.tables().filter(|t| t.form().is_some())
    }

    /// Reports whether the keyspaces have the same attributes.
    pub fn is_like(&self, other: &KeyspaceEntry) -> bool {
        (&self.name, &self.replication, self.durable_writes)
            == (&other.name, &other.replication, other.durable_writes)
    }

    /// Iterates over its tables and views by name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.tables.values()
    }

    /// Iterates over its user-defined types by name.
    pub fn types(&self) -> impl Iterator<Item = &Arc<TypeDef>> {
        self.types.values()
    }

    /// Iterates over its functions by name and arguments.
    pub fn functions(&self) -> impl Iterator<Item = &Arc<StoredFunction>> {
        self.functions.values()
    }

    /// Iterates over its aggregates by name and arguments.
    pub fn aggregates(&self) -> impl Iterator<Item = &Arc<StoredAggregate>> {
        self.aggregates.values()
    }

    /// Returns the function with this name and these arguments.
    pub fn function(&self, signature: &Signature) -> Option<&Arc<StoredFunction>> {
        self.functions.get(signature)
    }

    /// Returns the table with this name.
    pub fn table(&self, name: &str) -> Option<&Arc<TableSchema>> {
        self.tables.get(name)
    }

    /// Returns the type with this name.
    pub fn user_type(&self, name: &str) -> Option<&Arc<TypeDef>> {
        self.types.get(name)
    }

    /// Iterates by name over the views of the table with this id.
    pub fn views_of(&self, base: u32) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.tables().filter(move |t| t.view().is_some_and(|view| view.base == base))
    }

    /// Returns the index with this name, and its table.
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
    /// Returns its version, which increases with each change after the store was opened.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Iterates by name over all keyspaces except system keyspaces.
    pub fn keyspaces(&self) -> impl Iterator<Item = &Arc<KeyspaceEntry>> {
        self.keyspaces.values()
    }

    /// Returns the keyspace with this name.
    pub fn keyspace(&self, name: &str) -> Option<&Arc<KeyspaceEntry>> {
        self.keyspaces.get(name)
    }

    /// Returns the base table of a view.
    pub fn base_of(&self, view: &TableSchema) -> Option<&Arc<TableSchema>> {
        let base = view.view()?.base;
        self.keyspace(&view.keyspace)?.tables().find(|t| t.id == base)
    }

    /// Iterates over all tables except system tables; includes views and column families.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.keyspaces().flat_map(|k| k.tables())
    }

    /// Iterates over the tables defined here: all except column families of the Thrift interface.
    pub fn own_tables(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.tables().filter(|t| t.family().is_none())
    }
}

/// Returns the keyspace that a name refers to.
///
/// # Errors
/// `Invalid` if it names none and there is no current keyspace.
pub fn keyspace_of<'a>(name: &'a QualifiedName<'_>, current: Option<&'a str>) -> Result<&'a str> {
    let none =
        "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename";
    name.keyspace.as_ref().map(|k| &*k.text).or(current).ok_or_else(|| invalid(none))
}

/// Refuses changes of system keyspaces.
///
/// # Errors
/// `Unauthorized`.
pub fn check_not_system(keyspace: &str) -> Result<()> {
    if SYSTEM_KEYSPACES.contains(&keyspace) {
        let text = format!("{keyspace} keyspace is not user-modifiable.");
        return Err(Error::refused(ErrorClass::Unauthorized, text));
    }
    Ok(())
}

/// Reports whether a name of at most `most` bytes is valid for a keyspace, table or index.
pub fn is_valid_name(name: &str, most: usize) -> bool {
    !name.is_empty()
        && name.len() <= most
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
