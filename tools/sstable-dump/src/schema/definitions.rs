//! The user-visible names of the trees of a store, and the hooks that each tree is opened with.
//! Names are those of column families of the older interface and of tables and indexes of CQL. They
//! come from the records of the tree `system.schema`.
//!
//! Invariants: an unreadable record affects no other record. Neither does a lost record, if
//! surviving data shows its content ([`find_lost_records`]). A store without the tree has no definitions; that
//! is no error.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_cql::internals::catalog::{
    Catalog as Tables, KeyspaceEntry, PartitionKey, TableColumn, TableSchema,
};
use firn_cql::internals::values::literal;
use firn_cql::quote_if_needed;
use firn_kv::TreeOptions;
use firn_wide::internals::cell::{Cell, CellState};
use firn_wide::internals::key::Layout;
use firn_wide::internals::schema::Schema;
use firn_wide::internals::store::{Body, IndexPart, TreeName, hooks};
use firn_wide::{KsDef, Partitioner, Registry, Type};
use firn_wide_text::files::{DescribedFile, FileCatalog, read_entry};

use crate::dump::text;
use crate::schema::lost_records::{LostRecord, TreeEvidence, find_lost_records, row_key};

/// Grace period of tombstones for the tools, in seconds: the tools never drop a tombstone.
pub const NEVER: i64 = i64::MAX;

/// The user-visible definition of a tree.
#[derive(Clone, Debug)]
pub struct TreeDefinition {
    /// Name of the keyspace.
    pub keyspace: String,
    /// Name of the column family or table.
    pub name: String,
    /// Whether [`name`](TreeDefinition::name) is a CQL table.
    pub cql: bool,
    /// Name of the index, if the tree belongs to one.
    pub index: Option<String>,
    /// Format of the keys.
    keys: KeyFormat,
    /// Whether its cells are counters.
    counter: bool,
    token_len: usize,
}

#[derive(Clone, Debug)]
enum KeyFormat {
    Family(Box<DescribedFile>),
    Table(Arc<TableSchema>, Layout),
    /// A key begins with a value of this type, if there is one. A row's key in the layout follows.
    Index(Option<Type>, Layout),
}

/// The definitions of a store.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    trees: BTreeMap<String, TreeDefinition>,
    /// Unreadable definitions, with reasons.
    pub problems: Vec<String>,
    /// The partitioner, if known.
    pub partitioner: Option<Partitioner>,
    /// Lost records that were rebuilt from other data.
    pub lacking: Vec<LostRecord>,
    /// Facts about them that cannot be recovered.
    pub unknown: Vec<String>,
}

impl TreeDefinition {
    /// Returns the hooks that the store opens the tree with.
    pub fn hooks(&self) -> TreeOptions {
        match self.keys {
            KeyFormat::Index(..) => hooks::index(),
            _ => hooks::family(TreeOptions::default(), self.counter, self.token_len, NEVER),
        }
    }

    /// Returns the definition as text.
    pub fn words(&self) -> String {
        let what = if self.cql { "table" } else { "column family" };
        match &self.index {
            Some(index) => format!("index {index} of {what} {}.{}", self.keyspace, self.name),
            None => format!("{what} {}.{}", self.keyspace, self.name),
        }
    }

    /// Returns the part of a key that names the row or partition, or in an index the value. Returns
    /// `None` if the key has no such part.
    pub fn partition<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        let len = match &self.keys {
            KeyFormat::Family(described) => described.layout.partition_len(key).ok(),
            KeyFormat::Table(_, layout) => layout.partition_len(key).ok(),
            KeyFormat::Index(of, _) => of.as_ref().and_then(|of| of.component_len(key)),
        };
        key.get(..len?)
    }

    /// Reports whether this can be an entry of the tree. `value` is the value of a put or, if
    /// `merge` is set, a merge operand; `None` for a delete.
    pub fn fits(&self, key: &[u8], value: Option<&[u8]>, merge: bool) -> bool {
        match &self.keys {
            KeyFormat::Family(described) => {
                let of_key = described.def.key_validator();
                let is_key = |raw: &[u8]| of_key.validate(raw).is_ok();
                merge <= self.counter
                    && row_key(&described.layout, key).is_some_and(|raw| is_key(&raw))
                    && value.is_none_or(|v| {
                        let entry = read_entry(&described.layout, key, v);
                        described.typed(key, v).is_ok() && entry.is_ok_and(|e| self.holds(&e.body))
                    })
            }
            KeyFormat::Table(table, layout) => {
                let is_key = |raw: &[u8]| {
                    let mut parts = PartitionKey::default();
                    let set = parts.set(table, raw).is_ok();
                    let is_part = |(i, c): (usize, &TableColumn)| {
                        parts.part(i).is_some_and(|v| c.of.value_type.validate(v).is_ok())
                    };
                    set && table.partition().iter().enumerate().all(is_part)
                };
                merge <= self.counter
                    && row_key(layout, key).is_some_and(|raw| is_key(&raw))
                    && value.is_none_or(|v| {
                        let entry = read_entry(layout, key, v);
                        entry.is_ok_and(|e| has_column(table, e.place.name) && self.holds(&e.body))
                    })
            }
            KeyFormat::Index(of, layout) => {
                let after = |of: &Type| key.get(of.component_len(key)? + 1..);
                !merge
                    && of
                        .as_ref()
                        .and_then(after)
                        .is_some_and(|rest| row_key(layout, rest).is_some())
            }
        }
    }

    /// Reports whether the content of an entry fits the tree. A tree with counters has only
    /// counters, and entries that delete them.
    fn holds(&self, body: &Body<'_>) -> bool {
        match body {
            Body::Cell(Cell { state: CellState::Counter(_), .. }) => self.counter,
            Body::Cell(Cell { state: CellState::Live(_) | CellState::Expiring { .. }, .. }) => {
                !self.counter
            }
            _ => true,
        }
    }

    /// Returns a key of the tree as text in its own types. Returns `None` for bytes that are no
    /// key, which bounds of blocks may be.
    pub fn key(&self, key: &[u8]) -> Option<String> {
        match &self.keys {
            KeyFormat::Family(described) => described.key_words(key).or_else(|| {
                let mut raw = vec![];
                let partition = described.layout.partition_len(key).ok()?;
                described.layout.key_of(&key[..partition], &mut raw).ok()?;
                Some(literal(described.def.key_validator(), Some(&raw)))
            }),
            KeyFormat::Table(table, layout) => {
                let (mut raw, mut parts) = (vec![], PartitionKey::default());
                layout.key_of(&key[..layout.partition_len(key).ok()?], &mut raw).ok()?;
                parts.set(table, &raw).ok()?;
                let part = |(i, c): (usize, &TableColumn)| {
                    format!("{} = {}", c.name, literal(&c.of.value_type, parts.part(i)))
                };
                Some(
                    table
                        .partition()
                        .iter()
                        .enumerate()
                        .map(part)
                        .collect::<Vec<_>>()
                        .join(" AND "),
                )
            }
            KeyFormat::Index(of, _) => {
                let (of, mut raw) = (of.as_ref()?, vec![]);
                of.take_component(&mut &*key, &mut raw).ok()?;
                Some(literal(of, Some(&raw)))
            }
        }
        .map(|words| text::short(words.as_bytes(), 80))
    }
}

/// Reports whether a table has, or had, the column with this name component. The component is empty
/// for entries other than cells, and short for a row marker.
fn has_column(table: &TableSchema, name: &[u8]) -> bool {
    match name {
        [_, id @ ..] if id.len() == 2 => {
            let id = u16::from_be_bytes([id[0], id[1]]);
            table.column_by_id(id).is_some() || table.dropped().iter().any(|d| d.id == id)
        }
        _ => true,
    }
}

impl Definitions {
    /// Reads the definitions from these records of
    /// [`SCHEMA_TREE`](firn_wide::internals::store::SCHEMA_TREE). Adds missing records that the
    /// store's trees prove.
    pub fn read(mut records: Vec<(Vec<u8>, Vec<u8>)>, trees: &TreeEvidence<'_>) -> Definitions {
        let rebuilt_records = find_lost_records(&records, trees);
        records.extend(rebuilt_records.lacking.iter().map(|r| (r.key.clone(), r.value.clone())));
        let registry = Arc::new(Registry::new());
        let families = FileCatalog::read(&records, &registry);
        let mut all = Definitions {
            partitioner: families.partitioner(),
            lacking: rebuilt_records.lacking,
            unknown: rebuilt_records.unknown,
            ..Definitions::default()
        };
        all.problems.extend(families.problems().iter().cloned());
        for family in families.families() {
            all.add_family(family);
        }
        if let Some(partitioner) = all.partitioner {
            all.read_tables(&records, &registry, partitioner);
        }
        all
    }

    fn add_family(&mut self, family: &DescribedFile) {
        let (def, token_len) = (&family.def, family.layout.token_len());
        let of = |index: Option<String>, keys: KeyFormat| TreeDefinition {
            keyspace: def.keyspace().to_owned(),
            name: def.name().to_owned(),
            cql: def.is_table(),
            index,
            keys,
            counter: def.is_counter(),
            token_len,
        };
        self.trees.insert(
            TreeName::Family(def.id()).to_string(),
            of(None, KeyFormat::Family(Box::new(family.clone()))),
        );
        for (column, index) in def.indexes() {
            let keys = KeyFormat::Index(Some(column.validator().clone()), family.layout.clone());
            self.trees
                .insert(TreeName::Index(index.id).to_string(), of(Some(index.name.clone()), keys));
        }
    }

    /// Adds a compact table as a family from its own record, because the family's record may be
    /// lost.
    fn add_compact(
        &mut self,
        table: &TableSchema,
        registry: &Arc<Registry>,
        partitioner: Partitioner,
    ) -> firn_wide::Result<()> {
        let (def, numbers) = table.as_family();
        let schema = Schema::new(registry.clone()).add_keyspace(&KsDef::new(&*table.keyspace))?;
        let schema = schema.put_table(&def, &numbers)?;
        let def = schema.family(&table.keyspace, &table.name)?.clone();
        self.add_family(&DescribedFile { def, layout: table.stored_layout(partitioner) });
        Ok(())
    }

    fn read_tables(
        &mut self,
        records: &[(Vec<u8>, Vec<u8>)],
        registry: &Arc<Registry>,
        partitioner: Partitioner,
    ) {
        let own = records
            .iter()
            .filter(|(k, _)| k.starts_with(b"schema/") && !k.starts_with(b"schema/family/"));
        let schema = Schema::from_records(registry.clone(), own.map(|(k, v)| (&**k, &**v)));
        let schema = schema.unwrap_or_else(|_| Schema::new(registry.clone()));
        let each = |k: &Arc<firn_wide::internals::schema::KeyspaceSchema>| {
            KeyspaceEntry::with(k.name().to_owned(), BTreeMap::new(), true)
        };
        let keyspaces: Vec<_> = schema.keyspaces().map(each).collect();
        for table in Tables::load_each(&keyspaces, records) {
            match table {
                Ok(table) if table.is_own_family() => {
                    if let Err(e) = self.add_compact(&table, registry, partitioner) {
                        self.problems.push(e.to_string());
                    }
                }
                Ok(table) => self.add_table(&table, partitioner),
                Err(e) => self.problems.push(e.to_string()),
            }
        }
    }

    fn add_table(&mut self, table: &Arc<TableSchema>, partitioner: Partitioner) {
        let layout = table.layout(partitioner);
        let of = |index: Option<String>, keys: KeyFormat| TreeDefinition {
            keyspace: table.keyspace.clone(),
            name: table.name.clone(),
            cql: true,
            index,
            keys,
            counter: table.is_counter(),
            token_len: layout.token_len(),
        };
        for index in table.indexes() {
            // In a map entry the key comes first, then the value.
            let spec = index.spec(table).filter(|s| !matches!(s.part, IndexPart::Entry { .. }));
            self.trees.insert(
                TreeName::Index(index.id).to_string(),
                of(
                    Some(index.name.clone()),
                    KeyFormat::Index(spec.map(|s| s.value), layout.clone()),
                ),
            );
        }
        self.trees.insert(
            TreeName::Family(table.id).to_string(),
            of(None, KeyFormat::Table(table.clone(), layout.clone())),
        );
    }

    /// Returns the definition of the tree with this name.
    pub fn of_tree(&self, name: &str) -> Option<&TreeDefinition> {
        self.trees.get(name)
    }

    /// Returns the tree of the table, family or index that users name as KEYSPACE.NAME.
    pub fn tree_at(&self, path: &str) -> Option<&str> {
        let is_it = |d: &TreeDefinition| {
            let name = d.index.as_ref().unwrap_or(&d.name);
            let quoted = format!("{}.{}", quote_if_needed(&d.keyspace), quote_if_needed(name));
            path == quoted || path == format!("{}.{name}", d.keyspace)
        };
        self.trees.iter().find(|(_, d)| is_it(d)).map(|(tree, _)| tree.as_str())
    }

    /// Iterates over all definitions with the names of their trees.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &TreeDefinition)> {
        self.trees.iter().map(|(name, defined)| (name.as_str(), defined))
    }
}
