//! What the trees of a store are called by its users: column families of the older interface, tables and indexes of CQL, by the records
//! of the tree `system.schema`; and the hooks that each is opened with.
//!
//! Invariant: a record that cannot be read takes no other with it. A store without such a tree has no definitions, which is no error.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_cql::catalog::{Catalog as Tables, Keyspace, PartitionKey, Table};
use firn_cql::values::literal;
use firn_kv::TreeOptions;
use firn_wide::cell::{CounterMerge, PartitionPrefix, StoredFacts, StoredPurge};
use firn_wide::json::{Catalog, Described};
use firn_wide::key::Layout;
use firn_wide::ring::Partitioner;
use firn_wide::schema::Schema;
use firn_wide::store::TreeName;
use firn_wide::types::Registry;

use crate::text;

/// What a tree is to users.
#[derive(Clone, Debug)]
pub struct Defined {
    /// The keyspace.
    pub keyspace: String,
    /// The column family or table.
    pub name: String,
    /// Whether [`name`](Defined::name) is a table of CQL.
    pub cql: bool,
    /// The index, for the tree of one.
    pub index: Option<String>,
    /// How keys are read.
    keys: Keys,
    /// Whether its cells are counters.
    counter: bool,
    token_len: usize,
}

#[derive(Clone, Debug)]
enum Keys {
    Family(Box<Described>),
    Table(Arc<Table>, Layout),
    Index,
}

/// The definitions of a store.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    trees: BTreeMap<String, Defined>,
    /// What could not be read, and why.
    pub problems: Vec<String>,
}

/// The hooks of a family's tree.
pub fn family_hooks(counter: bool, token_len: usize) -> TreeOptions {
    let mut hooks = TreeOptions {
        filter_prefix: Some(Arc::new(PartitionPrefix::new(token_len))),
        summary: Some(Arc::new(StoredFacts)),
        ..TreeOptions::default()
    };
    match counter {
        true => hooks.merge = Some(Arc::new(CounterMerge)),
        false => hooks.purge = Some(purge(token_len)),
    }
    hooks
}

/// The hooks of an index's tree.
pub fn index_hooks() -> TreeOptions {
    TreeOptions { purge: Some(purge(0)), ..TreeOptions::default() }
}

/// Only its name counts here: nothing is compacted.
fn purge(token_len: usize) -> Arc<StoredPurge> {
    Arc::new(StoredPurge { gc_grace: i64::MAX, token_len })
}

impl Defined {
    /// The hooks that the store opens the tree with.
    pub fn hooks(&self) -> TreeOptions {
        match self.keys {
            Keys::Index => index_hooks(),
            _ => family_hooks(self.counter, self.token_len),
        }
    }

    /// In words.
    pub fn words(&self) -> String {
        let what = if self.cql { "table" } else { "column family" };
        match &self.index {
            Some(index) => format!("index {index} of {what} {}.{}", self.keyspace, self.name),
            None => format!("{what} {}.{}", self.keyspace, self.name),
        }
    }

    /// A key of the tree in its own types; `None` where it is none, as bounds of blocks need not be.
    pub fn key(&self, key: &[u8]) -> Option<String> {
        match &self.keys {
            Keys::Family(described) => described.key_words(key).or_else(|| {
                let mut raw = vec![];
                let partition = described.layout.partition_len(key).ok()?;
                described.layout.key_of(&key[..partition], &mut raw).ok()?;
                Some(literal(described.def.key_validator(), Some(&raw)))
            }),
            Keys::Table(table, layout) => {
                let (mut raw, mut parts) = (vec![], PartitionKey::default());
                layout.key_of(&key[..layout.partition_len(key).ok()?], &mut raw).ok()?;
                parts.set(table, &raw).ok()?;
                let part =
                    |(i, c): (usize, &firn_cql::catalog::Column)| format!("{} = {}", c.name, literal(&c.of.of, parts.part(i)));
                Some(table.partition().iter().enumerate().map(part).collect::<Vec<_>>().join(" AND "))
            }
            Keys::Index => None,
        }
        .map(|words| text::short(words.as_bytes(), 80))
    }
}

impl Definitions {
    /// Those that these records of [`SCHEMA_TREE`](firn_wide::store::SCHEMA_TREE) tell of.
    pub fn read(records: &[(Vec<u8>, Vec<u8>)]) -> Definitions {
        let mut all = Definitions::default();
        let registry = Arc::new(Registry::new());
        let families = Catalog::read(records, &registry);
        all.problems.extend(families.problems().iter().cloned());
        for family in families.families() {
            let (def, token_len) = (&family.def, family.layout.token_len());
            let of = |index: Option<String>, keys: Keys| Defined {
                keyspace: def.keyspace().to_owned(),
                name: def.name().to_owned(),
                cql: false,
                index,
                keys,
                counter: def.is_counter(),
                token_len,
            };
            all.trees.insert(TreeName::Family(def.id()).to_string(), of(None, Keys::Family(Box::new(family.clone()))));
            for (_, index) in def.indexes() {
                all.trees.insert(TreeName::Index(index.id).to_string(), of(Some(index.name.clone()), Keys::Index));
            }
        }
        if let Some(partitioner) = families.partitioner() {
            all.read_tables(records, &registry, partitioner);
        }
        all
    }

    fn read_tables(&mut self, records: &[(Vec<u8>, Vec<u8>)], registry: &Arc<Registry>, partitioner: Partitioner) {
        let keyspaces = || {
            let own = records.iter().filter(|(k, _)| k.starts_with(b"schema/") && !k.starts_with(b"schema/family/"));
            let schema = Schema::from_records(registry.clone(), own.map(|(k, v)| (&**k, &**v)));
            let schema = schema.unwrap_or_else(|_| Schema::new(registry.clone()));
            let each = |k: &Arc<firn_wide::schema::Keyspace>| Keyspace::with(k.name().to_owned(), BTreeMap::new(), true);
            schema.keyspaces().map(each).collect::<Vec<_>>()
        };
        let of_cql: Vec<_> = records.iter().filter(|(k, _)| k.starts_with(firn_cql::catalog::RECORD_PREFIX)).collect();
        // One by one, so that one that can't be read doesn't take the others with it.
        let is_table = |k: &[u8]| k.starts_with(b"cql/table/");
        for (key, _) in of_cql.iter().filter(|(k, _)| is_table(k)) {
            let with_it = of_cql.iter().filter(|(k, _)| !is_table(k) || k == key);
            match Tables::load(keyspaces(), with_it.map(|(k, v)| (&**k, &**v))) {
                Ok(tables) => tables.tables().for_each(|t| self.add_table(t, partitioner)),
                Err(e) => self.problems.push(e.to_string()),
            }
        }
    }

    fn add_table(&mut self, table: &Arc<Table>, partitioner: Partitioner) {
        let layout = table.layout(partitioner);
        let of = |index: Option<String>, keys: Keys| Defined {
            keyspace: table.keyspace.clone(),
            name: table.name.clone(),
            cql: true,
            index,
            keys,
            counter: table.is_counter(),
            token_len: layout.token_len(),
        };
        for index in table.indexes() {
            self.trees.insert(TreeName::Index(index.id).to_string(), of(Some(index.name.clone()), Keys::Index));
        }
        self.trees.insert(TreeName::Family(table.id).to_string(), of(None, Keys::Table(table.clone(), layout.clone())));
    }

    /// What the tree of this name is.
    pub fn of_tree(&self, name: &str) -> Option<&Defined> {
        self.trees.get(name)
    }

    /// All of them, by the names of their trees.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Defined)> {
        self.trees.iter().map(|(name, defined)| (name.as_str(), defined))
    }
}
