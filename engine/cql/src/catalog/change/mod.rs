//! Changes of definitions: each makes a new [`Catalog`] or refuses with the servers' text (model
//! 3.5, 6). `None`: there is nothing to do.

mod functions;
mod indexes;
mod keyspaces;
mod masks;
mod roles;
mod tables;
mod types;
mod views;

pub(super) use tables::new_table;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{
    Catalog, ColumnKind, FIRST_ID, KeyspaceEntry, SYSTEM_KEYSPACES, TableColumn, TableSchema,
};
use crate::error::{Error, Result, invalid};

impl TableSchema {
    /// Puts the columns in order, each at its position.
    pub(super) fn arrange(&mut self) {
        // Columns of the primary key have an order already; the sort is stable.
        self.columns.sort_by(|a, b| {
            let name = |c: &TableColumn| (!c.is_primary_key()).then(|| c.name.clone());
            (a.kind, name(a)).cmp(&(b.kind, name(b)))
        });
        for (i, column) in self.columns.iter_mut().enumerate() {
            column.position = match column.kind {
                ColumnKind::Partition => i,
                ColumnKind::Clustering => i - self.partition,
                _ => 0,
            };
        }
    }

    fn full_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.name)
    }
}

fn missing_keyspace(name: &str) -> Error {
    invalid(format!("Keyspace '{name}' doesn't exist"))
}

fn check_not_system_new(keyspace: &str) -> Result<()> {
    if SYSTEM_KEYSPACES.contains(&keyspace) {
        return Err(invalid(format!("System keyspace '{keyspace}' is not user-modifiable")));
    }
    Ok(())
}

impl Catalog {
    fn next(&self) -> Catalog {
        Catalog { version: self.version + 1, ..self.clone() }
    }

    fn new_id(&mut self) -> Result<u32> {
        let id = self.next_id;
        self.next_id = id
            .checked_add(1)
            .ok_or_else(|| invalid("no more tables and indexes can be numbered"))?;
        debug_assert!(id >= FIRST_ID);
        Ok(id)
    }

    fn existing(&self, name: &str) -> Result<&Arc<KeyspaceEntry>> {
        self.keyspace(name).ok_or_else(|| missing_keyspace(name))
    }

    fn with_keyspace(&self, keyspace: KeyspaceEntry) -> Catalog {
        let mut next = self.next();
        next.keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
        next
    }

    fn with_table(&self, table: TableSchema) -> Result<Catalog> {
        let mut keyspace = (**self.existing(&table.keyspace)?).clone();
        keyspace.tables.insert(table.name.clone(), Arc::new(table));
        Ok(self.with_keyspace(keyspace))
    }

    /// These definitions over the keyspaces that the data model has now: what it dropped is gone
    /// with its tables, and with what was permitted about it, also where it was made again.
    pub fn over(
        &self,
        keyspaces: impl IntoIterator<Item = KeyspaceEntry>,
        remade: &BTreeSet<String>,
    ) -> Catalog {
        let mut next = self.next();
        next.keyspaces.clear();
        for mut keyspace in keyspaces {
            let before = self.keyspace(&keyspace.name);
            if let Some(before) = before.filter(|k| !remade.contains(&k.name)) {
                keyspace.tables = before.tables.clone();
                keyspace.types = before.types.clone();
                keyspace.functions = before.functions.clone();
                keyspace.aggregates = before.aggregates.clone();
            }
            next.keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
        }
        next.without_strangers(remade)
    }

    /// The same definitions without what was permitted about keyspaces that are not there, or are
    /// others of their names.
    pub fn without_strangers(self, remade: &BTreeSet<String>) -> Catalog {
        let there: BTreeSet<String> =
            self.keyspaces.keys().filter(|name| !remade.contains(*name)).cloned().collect();
        self.without_permissions(|resource| match resource.keyspace() {
            Some(keyspace) => !there.contains(keyspace) && !SYSTEM_KEYSPACES.contains(&keyspace),
            None => false,
        })
    }
}
