//! Floor 1: the schema: which keyspaces, column families, columns and indexes there are (model 2.5,
//! 2.6, 2.9 to 2.11, 6).
//!
//! - [`KsDef`], [`CfDef`], [`ColumnDef`]: definitions as clients give and get them, types by name.
//! - [`Schema`]: what is defined, checked and resolved: [`KeyspaceSchema`], [`Family`],
//!   [`SchemaColumn`], [`Index`]. It never changes: every change makes a new one or refuses with
//!   the text of the article's servers. A store keeps the present one behind an `Arc`.
//! - [`Schema::records`], [`Schema::from_records`], [`Schema::diff`]: the stored form.
//!
//! Invariants of a [`Schema`]: keyspaces are unique whatever the case; names of indexes are unique
//! in a keyspace; the numbers of families and indexes are unique, below the next one to be given,
//! and never reused, so that what is dropped and created again is another thing.

mod change;
mod def;
mod family;
mod record;
mod rules;
mod storage;
mod typing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use md5::{Digest, Md5};
use uuid::Uuid;

pub use change::SchemaDiff;
pub use def::{CfDef, ColumnDef, IndexType, KsDef};
pub use family::{Family, FamilyKind, Index, SchemaColumn};
pub use record::RECORD_PREFIX;
pub use storage::{filter_of_chance, leveled, size_tiered};
pub use typing::{NO_SUCH_TYPE, Registry, Type, UnknownType, lookup};

use crate::base::error::Result;
use crate::base::error::invalid;

const FIRST_ID: u32 = 1;

/// Families and indexes with this number or a larger one are not this schema's: tables of CQL,
/// which keep their own records.
pub const FOREIGN_IDS: u32 = 1 << 31;

/// All definitions, at one moment. A clone shares its keyspaces.
#[derive(Clone)]
pub struct Schema {
    registry: Arc<Registry>,
    next_id: u32,
    keyspaces: BTreeMap<String, Arc<KeyspaceSchema>>,
}

/// A keyspace.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyspaceSchema {
    name: String,
    strategy_class: String,
    strategy_options: BTreeMap<String, String>,
    durable_writes: bool,
    families: BTreeMap<String, Arc<Family>>,
}

impl KeyspaceSchema {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its writes go through the log.
    pub fn durable_writes(&self) -> bool {
        self.durable_writes
    }

    /// Its families, by name.
    pub fn families(&self) -> impl Iterator<Item = &Arc<Family>> {
        self.families.values()
    }

    /// The family of this name.
    pub fn family(&self, name: &str) -> Option<&Arc<Family>> {
        self.families.get(name)
    }

    /// Its definition, with those of its families.
    pub fn def(&self) -> KsDef {
        KsDef { cf_defs: self.families().map(|f| f.def().clone()).collect(), ..self.own_def() }
    }

    fn own_def(&self) -> KsDef {
        KsDef {
            name: self.name.clone(),
            strategy_class: self.strategy_class.clone(),
            strategy_options: self.strategy_options.clone(),
            durable_writes: self.durable_writes,
            cf_defs: Vec::new(),
        }
    }

    fn check(&self) -> Result<()> {
        rules::check_keyspace(&self.own_def()).map(drop)
    }

    /// The names of the indexes of all families but this one.
    fn index_names(&self, except: &str) -> BTreeSet<&str> {
        let others = self.families().filter(|f| f.name() != except);
        others
            .flat_map(|f| f.def().column_metadata.iter())
            .filter_map(|c| c.index_name.as_deref())
            .collect()
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema")
            .field("next_id", &self.next_id)
            .field("keyspaces", &self.keyspaces)
            .finish_non_exhaustive()
    }
}

impl Schema {
    /// One without keyspaces, whose types come from `registry`.
    pub fn new(registry: Arc<Registry>) -> Schema {
        Schema { registry, next_id: FIRST_ID, keyspaces: BTreeMap::new() }
    }

    /// The types that definitions can name.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The keyspaces, by name.
    pub fn keyspaces(&self) -> impl Iterator<Item = &Arc<KeyspaceSchema>> {
        self.keyspaces.values()
    }

    /// The keyspace of this name.
    ///
    /// # Errors
    /// `InvalidRequest` where there is none.
    pub fn keyspace(&self, name: &str) -> Result<&Arc<KeyspaceSchema>> {
        self.keyspaces.get(name).ok_or_else(|| invalid(format!("Keyspace {name} does not exist")))
    }

    /// The family of this name in this keyspace.
    ///
    /// # Errors
    /// `InvalidRequest` where there is none, or no name is given.
    pub fn family(&self, keyspace: &str, name: &str) -> Result<&Arc<Family>> {
        let keyspace = self.keyspace(keyspace)?;
        if name.is_empty() {
            return Err(invalid("non-empty columnfamily is required"));
        }
        keyspace.family(name).ok_or_else(|| invalid(format!("unconfigured columnfamily {name}")))
    }

    /// The families of all keyspaces.
    pub fn families(&self) -> impl Iterator<Item = &Arc<Family>> {
        self.keyspaces().flat_map(|k| k.families())
    }

    /// The family of this number. Looks through all of them.
    pub fn family_by_id(&self, id: u32) -> Option<&Arc<Family>> {
        self.families().find(|f| f.id() == id)
    }

    /// The version: a digest of all records, equal for equal schemas.
    pub fn version(&self) -> Uuid {
        let mut digest = Md5::new();
        for (key, value) in self.records() {
            for part in [key, value] {
                digest.update((part.len() as u64).to_le_bytes());
                digest.update(part);
            }
        }
        uuid::Builder::from_md5_bytes(digest.finalize().into()).into_uuid()
    }

    /// All records, by key: what [`Schema::from_records`] makes this schema of. A schema in which
    /// nothing was ever defined has none.
    pub fn records(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        if self.keyspaces.is_empty() && self.next_id == FIRST_ID {
            return Vec::new();
        }
        let mut records = vec![record::head(self)];
        records.extend(self.keyspaces().map(|k| record::keyspace(k)));
        records.extend(self.families().map(|f| record::family(f)));
        records.sort();
        records
    }

    /// The schema that these records describe. They are all those of the tree whose key begins with
    /// [`RECORD_PREFIX`].
    ///
    /// # Errors
    /// `Corrupt` with the name of the record that can't be read or contradicts another one;
    /// `Configuration` when a custom type that a family names is not in the registry.
    pub fn from_records<'a>(
        registry: Arc<Registry>,
        records: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<Schema> {
        record::load(registry, records)
    }
}
