//! What the trees of a store with keyspaces are called by people: the table or family that is in each.

use std::collections::BTreeMap;

use firn_cql::syntax::quote_if_needed;
use firn_wide::store::TreeName;

use crate::store::{Global, Holding};

/// The names of a store's trees.
#[derive(Default)]
pub struct Names(BTreeMap<TreeName, String>);

impl Names {
    /// Those of this store; none where there are no keyspaces, or where they can't be read.
    pub fn of(global: &Global) -> Names {
        let mut names = BTreeMap::new();
        if global.holding().ok() != Some(Holding::Model) {
            return Names(names);
        }
        let Ok(session) = global.model(global.to_read()) else { return Names(names) };
        let engine = session.engine();
        for family in engine.wide().schema().families() {
            let name = format!("{}.{}", family.keyspace(), family.name());
            for (_, index) in family.indexes() {
                names.insert(TreeName::Index(index.id), format!("index {} on family {name}", index.name));
            }
            names.insert(TreeName::Family(family.id()), format!("family {name}"));
        }
        for table in engine.catalog().tables() {
            let name = format!("{}.{}", quote_if_needed(&table.keyspace), quote_if_needed(&table.name));
            for index in table.indexes() {
                names.insert(TreeName::Index(index.id), format!("index {} on table {name}", quote_if_needed(&index.name)));
            }
            names.insert(TreeName::Family(table.id), format!("table {name}"));
        }
        Names(names)
    }

    /// What is in the tree: "table shop.items". `None` where nobody knows, or where the tree's own name says it.
    pub fn of_tree(&self, tree: &str) -> Option<&str> {
        self.0.get(&TreeName::parse(tree)?).map(String::as_str)
    }
}
