//! What the trees of a store with keyspaces are called by people, the table or family that is in each, and what their keys say.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_cql::Session;
use firn_cql::catalog::{PartitionKey, Table};
use firn_cql::syntax::quote_if_needed;
use firn_cql::values::literal;
use firn_wide::json::Described;
use firn_wide::key::Layout;
use firn_wide::store::TreeName;

use crate::store::{Global, Holding};

/// The names of a store's trees.
#[derive(Default)]
pub struct Names(BTreeMap<TreeName, Named>);

/// What is in a tree.
struct Named {
    /// "table shop.items".
    words: String,
    keys: Keys,
}

/// What its keys are made of.
enum Keys {
    Family(Box<Described>),
    Table(Arc<Table>, Layout),
    Index,
}

impl Keys {
    fn layout(&self) -> Option<&Layout> {
        match self {
            Keys::Family(f) => Some(&f.layout),
            Keys::Table(_, layout) => Some(layout),
            Keys::Index => None,
        }
    }

    /// The key of a partition in the types of its columns.
    fn partition(&self, partition: &[u8]) -> Option<String> {
        let mut raw = vec![];
        self.layout()?.key_of(partition, &mut raw).ok()?;
        match self {
            Keys::Family(f) => Some(literal(f.def.key_validator(), Some(&raw))),
            Keys::Table(table, _) => {
                let mut parts = PartitionKey::default();
                parts.set(table, &raw).ok()?;
                let part = |(i, c): (usize, &firn_cql::catalog::Column)| {
                    format!("{} = {}", quote_if_needed(&c.name), literal(&c.of.of, parts.part(i)))
                };
                Some(table.partition().iter().enumerate().map(part).collect::<Vec<_>>().join(" AND "))
            }
            Keys::Index => None,
        }
    }
}

impl Names {
    /// Those of this store; none where there are no keyspaces, or where they can't be read.
    pub fn of(global: &Global) -> Names {
        if global.holding().ok() != Some(Holding::Model) {
            return Names::default();
        }
        global.model(global.to_read()).map_or_else(|_| Names::default(), |session| Names::of_session(&session))
    }

    /// Those of the store of a session.
    pub fn of_session(session: &Session) -> Names {
        let mut names = BTreeMap::new();
        let engine = session.engine();
        let layout = |id: u32| engine.store().family(id).map(|f| f.layout().clone());
        let mut put = |tree: TreeName, words: String, keys: Option<Keys>| {
            names.insert(tree, Named { words, keys: keys.unwrap_or(Keys::Index) });
        };
        for family in engine.wide().schema().families() {
            let name = format!("{}.{}", family.keyspace(), family.name());
            for (_, index) in family.indexes() {
                put(TreeName::Index(index.id), format!("index {} on family {name}", index.name), None);
            }
            let keys = layout(family.id()).map(|layout| Keys::Family(Box::new(Described { def: family.clone(), layout })));
            put(TreeName::Family(family.id()), format!("family {name}"), keys);
        }
        for table in engine.catalog().tables() {
            let name = format!("{}.{}", quote_if_needed(&table.keyspace), quote_if_needed(&table.name));
            for index in table.indexes() {
                put(TreeName::Index(index.id), format!("index {} on table {name}", quote_if_needed(&index.name)), None);
            }
            let keys = layout(table.id).map(|layout| Keys::Table(table.clone(), layout));
            put(TreeName::Family(table.id), format!("table {name}"), keys);
        }
        Names(names)
    }

    fn named(&self, tree: &str) -> Option<&Named> {
        self.0.get(&TreeName::parse(tree)?)
    }

    /// What is in the tree: "table shop.items". `None` where nobody knows, or where the tree's own name says it.
    pub fn of_tree(&self, tree: &str) -> Option<&str> {
        self.named(tree).map(|n| n.words.as_str())
    }

    /// Whose partition a key of a table's or family's tree begins with: "id = 1". `None` where it begins with none.
    pub fn partition(&self, tree: &str, key: &[u8]) -> Option<String> {
        let keys = &self.named(tree)?.keys;
        keys.partition(&key[..keys.layout()?.partition_len(key).ok()?])
    }
}
