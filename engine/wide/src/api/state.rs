//! The open state: the schema with the store's handles of its families, replaced as a whole when a
//! definition changes.

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

/// One column family: its definition, and where its cells are.
pub struct ApiTable {
    pub def: Arc<schema::Family>,
    pub cells: store::StoreFamily,
}

impl ApiTable {
    /// The type of the names in a super column, or in the row itself.
    #[inline]
    pub fn name_type(&self, in_super_column: bool) -> &Type {
        if in_super_column { self.def.cell_comparator() } else { self.def.comparator() }
    }

    /// The index on a column.
    pub fn index(&self, column: &[u8]) -> Option<&Index> {
        self.def.column(column)?.index()
    }

    /// The seconds that a column is to live which is written now; `None` is for ever.
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

/// The definitions of one moment, open.
pub struct ApiState {
    pub schema: Schema,
    /// By keyspace and name: looked up by each call, and cheaper in order than by hashing two
    /// names.
    tables: BTreeMap<String, BTreeMap<String, Arc<ApiTable>>>,
}

impl ApiState {
    /// Opens the families of the schema, but those that are open with these definitions `before`.
    /// What is open already stays; new indexes are built.
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

    /// The same state, with more types.
    pub fn with_registry(&self, registry: Arc<Registry>) -> ApiState {
        ApiState { schema: self.schema.with_registry(registry), tables: self.tables.clone() }
    }

    /// The family of this name.
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
        // A comparator changes only to one that sorts and codes what is there alike.
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
    // The options of a table's tree are CQL's: there are more of them than a family has.
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
