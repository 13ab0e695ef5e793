//! An immutable snapshot of all definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::def::KsDef;
use super::family::Family;
use super::rules;
use super::typing::Registry;
use crate::base::error::Result;
use crate::base::error::invalid;

pub(super) const FIRST_ID: u32 = 1;

/// An immutable snapshot of all definitions. A clone shares its keyspaces.
#[derive(Clone)]
pub struct Schema {
    pub(super) registry: Arc<Registry>,
    pub(super) next_id: u32,
    pub(super) keyspaces: BTreeMap<String, Arc<KeyspaceSchema>>,
}

/// A keyspace.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyspaceSchema {
    pub(super) name: String,
    pub(super) strategy_class: String,
    pub(super) strategy_options: BTreeMap<String, String>,
    pub(super) durable_writes: bool,
    pub(super) families: BTreeMap<String, Arc<Family>>,
}

impl KeyspaceSchema {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reports whether its writes are logged.
    pub fn durable_writes(&self) -> bool {
        self.durable_writes
    }

    /// Returns its families by name.
    pub fn families(&self) -> impl Iterator<Item = &Arc<Family>> {
        self.families.values()
    }

    /// Returns the family with this name.
    pub fn family(&self, name: &str) -> Option<&Arc<Family>> {
        self.families.get(name)
    }

    /// Returns its definition with those of its families.
    pub fn def(&self) -> KsDef {
        KsDef { cf_defs: self.families().map(|f| f.def().clone()).collect(), ..self.own_def() }
    }

    pub(super) fn own_def(&self) -> KsDef {
        KsDef {
            name: self.name.clone(),
            strategy_class: self.strategy_class.clone(),
            strategy_options: self.strategy_options.clone(),
            durable_writes: self.durable_writes,
            cf_defs: Vec::new(),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        rules::check_keyspace(&self.own_def()).map(drop)
    }

    /// Returns the names of the indexes of all families except this one.
    pub(super) fn index_names(&self, except: &str) -> BTreeSet<&str> {
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
    /// Creates a schema without keyspaces, whose types come from `registry`.
    pub fn new(registry: Arc<Registry>) -> Schema {
        Schema { registry, next_id: FIRST_ID, keyspaces: BTreeMap::new() }
    }

    /// Returns the types that definitions can name.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns the same definitions with more types for later changes.
    pub(crate) fn with_registry(&self, registry: Arc<Registry>) -> Schema {
        Schema { registry, ..self.clone() }
    }

    /// Returns the keyspaces by name.
    pub fn keyspaces(&self) -> impl Iterator<Item = &Arc<KeyspaceSchema>> {
        self.keyspaces.values()
    }

    /// Returns the keyspace with this name.
    ///
    /// # Errors
    /// `InvalidRequest` if there is none.
    pub fn keyspace(&self, name: &str) -> Result<&Arc<KeyspaceSchema>> {
        self.keyspaces.get(name).ok_or_else(|| invalid(format!("Keyspace {name} does not exist")))
    }

    /// Returns the family with this name in this keyspace.
    ///
    /// # Errors
    /// `InvalidRequest` if there is none, or if the name is empty.
    pub fn family(&self, keyspace: &str, name: &str) -> Result<&Arc<Family>> {
        let keyspace = self.keyspace(keyspace)?;
        if name.is_empty() {
            return Err(invalid("non-empty columnfamily is required"));
        }
        keyspace.family(name).ok_or_else(|| invalid(format!("unconfigured columnfamily {name}")))
    }

    /// Returns the families of all keyspaces.
    pub fn families(&self) -> impl Iterator<Item = &Arc<Family>> {
        self.keyspaces().flat_map(|k| k.families())
    }

    /// Returns the family with this id. Searches all families.
    pub fn family_by_id(&self, id: u32) -> Option<&Arc<Family>> {
        self.families().find(|f| f.id() == id)
    }
}
