//! Open state of a database: the schema with the store's handles of its families. A schema change
//! replaces it as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_kv::TreeOptions;

use super::Column;
use crate::base::error::{Result, invalid};
use crate::key::Layout;
use crate::ring::Partitioner;
use crate::schema::{self, Index, Schema};
use crate::store::{self, CellStore, FamilySpec, IndexPart, IndexSpec, TreeName};
use crate::types::{Registry, Type};

/// A column family: its definition, and its store handle.
pub struct ApiTable {
    pub def: Arc<schema::Family>,
    pub cells: store::StoreFamily,
}

impl ApiTable {
    /// Returns the type of the names in a super column, or in the row itself.
    #[inline]
    pub fn name_type(&self, in_super_column: bool) -> &Type {
        if in_super_column { self.def.cell_comparator() } else { self.def.comparator() }
    }

    /// Returns the index on a column.
    pub fn index(&self, column: &[u8]) -> Option<&Index> {
        self.def.column(column)?.index()
    }

    /// Returns the TTL in seconds of a column that is written now; `None` for no expiration.
    pub fn ttl_of(&self, column: &Column) -> Option<u32> {
        match column.ttl {
            Some(ttl) => u32::try_from(ttl).ok().filter(|ttl| *ttl > 0),
            None => self.def.default_ttl(),
        }
    }

    pub fn layout(&self) -> &Layout {
        self.cells.layout()
    }
}

/// An immutable snapshot of the open definitions.
pub struct ApiState {
    pub schema: Schema,
    /// By keyspace and name. Every call looks up a family; an ordered map is cheaper than hashing
    /// two names.
    tables: BTreeMap<String, BTreeMap<String, Arc<ApiTable>>>,
}

impl ApiState {
    /// Opens the families of the schema, except those that were open with the same definitions in
    /// `before`. Existing handles are reused; new indexes are built.
    pub fn open(
        schema: Schema,
        store: &CellStore,
        partitioner: Partitioner,
        memtable_size: usize,
        before: Option<&ApiState>,
    ) -> Result<ApiState> {
        let known = |def: &Arc<schema::Family>| {
            let table = before?.tables.get(def.keyspace())?.get(def.name())?;
            Arc::ptr_eq(&table.def, def).then(|| table.clone())
        };
        let defs = || schema.keyspaces().flat_map(|k| k.families());
        let new = defs().filter(|def| known(def).is_none());
        let specs = new.map(|def| spec(def, store, partitioner, memtable_size)).collect();
        let mut opened = store.open_families(specs)?.into_iter();
        let mut tables: BTreeMap<String, BTreeMap<String, Arc<ApiTable>>> =
            schema.keyspaces().map(|k| (k.name().to_owned(), BTreeMap::new())).collect();
        for def in defs() {
            let made = |cells| Arc::new(ApiTable { def: def.clone(), cells });
            let table = known(def).or_else(|| opened.next().map(made));
            if let (Some(table), Some(home)) = (table, tables.get_mut(def.keyspace())) {
                home.insert(def.name().to_owned(), table);
            }
        }
        Ok(ApiState { schema, tables })
    }

    /// Returns this state with more types.
    pub fn with_registry(&self, registry: Arc<Registry>) -> ApiState {
        ApiState { schema: self.schema.with_registry(registry), tables: self.tables.clone() }
    }

    /// Returns the family with this name.
    pub fn table(&self, keyspace: &str, name: &str) -> Result<&Arc<ApiTable>> {
        let families = self
            .tables
            .get(keyspace)
            .ok_or_else(|| invalid(format!("Keyspace {keyspace} does not exist")))?;
        if name.is_empty() {
            return Err(invalid("non-empty columnfamily is required"));
        }
        let found = families.get(name);
        let found = found.ok_or_else(|| invalid(format!("unconfigured columnfamily {name}")))?;
        found.def.check_registered()?;
        Ok(found)
    }
}

fn spec(
    def: &schema::Family,
    store: &CellStore,
    partitioner: Partitioner,
    memtable_size: usize,
) -> FamilySpec {
    let wanted = match def.subcomparator() {
        None => Layout::standard(partitioner, def.comparator().clone()),
        Some(sub) => Layout::super_columns(partitioner, def.comparator().clone(), sub.clone()),
    };
    let layout = match store.family(def.id()) {
        // A comparator can only change to one with the same order and encoding of existing names.
        Some(open) if !wanted.extends(open.layout()) => open.layout().clone(),
        _ => wanted,
    };
    let indexes = def.indexes().map(|(column, index)| IndexSpec {
        id: index.id,
        is_static: false,
        name: column.name().to_vec(),
        part: IndexPart::Value,
        value: column.validator().clone(),
    });
    // The options of a table's tree come from CQL, which has more of them than a family.
    let name = def.is_table().then(|| TreeName::Family(def.id()).to_string());
    let tree = match name.and_then(|name| store.db().existing_tree(&name).ok()) {
        Some(tree) => tree.options(),
        None => TreeOptions { memtable_size, ..def.tree() },
    };
    FamilySpec {
        id: def.id(),
        layout,
        counter: def.is_counter(),
        gc_grace: u32::try_from(def.gc_grace()).unwrap_or(u32::MAX),
        indexes: indexes.collect(),
        tree,
        has_views: def.has_views(),
    }
}
