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
    Catalog, ColumnKind, FIRST_ID, FamilyForm, KeyspaceEntry, Resource, SYSTEM_KEYSPACES,
    TableColumn, TableSchema,
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
        if self.family.is_none() {
            let form = || FamilyForm::of_compact(self.clustering, self.regulars());
            self.form = self.compact.then(form);
        }
    }

    /// Refuses to change what a column family is: it is defined by the interface that made it.
    fn check_own(&self) -> Result<()> {
        if self.family().is_none() {
            return Ok(());
        }
        Err(invalid(format!(
            "{} is a column family, which statements cannot change: use system_update_column_family or cassandra-cli's UPDATE COLUMN \
             FAMILY",
            self.shown_name()
        )))
    }

    fn shown_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.name)
    }
}

impl KeyspaceEntry {
    /// The same without these tables and their views.
    fn without_tables(&self, is_gone: impl Fn(&TableSchema) -> bool) -> KeyspaceEntry {
        let gone: BTreeSet<u32> = self.tables().filter(|t| is_gone(t)).map(|t| t.id).collect();
        let mut kept = self.clone();
        kept.tables.retain(|_, t| {
            !gone.contains(&t.id) && !t.view().is_some_and(|view| gone.contains(&view.base))
        });
        kept
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

    /// These definitions over the keyspaces that the data model has now, with its families: what it
    /// dropped is gone with its tables, and with what was permitted about it, also where it was made
    /// again; a compact table with its family and its views. A table hides a family of its name.
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
                let there: BTreeSet<u32> = keyspace.tables.values().map(|f| f.id).collect();
                let before = before.without_tables(|t| t.is_own_family() && !there.contains(&t.id));
                let own = before.tables.iter().filter(|(_, t)| t.family().is_none());
                keyspace.tables.extend(own.map(|(name, t)| (name.clone(), t.clone())));
                keyspace.types = before.types.clone();
                keyspace.functions = before.functions.clone();
                keyspace.aggregates = before.aggregates.clone();
            }
            next.keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
        }
        let is_there = |family: &TableSchema| {
            let now = next.keyspace(&family.keyspace).and_then(|k| k.table(&family.name));
            now.is_some_and(|t| t.id == family.id)
        };
        let families = self.keyspaces().flat_map(|k| k.families()).filter(|f| !is_there(f));
        let gone: BTreeSet<Resource> =
            families.map(|f| Resource::Table(f.keyspace.clone(), f.name.clone())).collect();
        let next = next.without_permissions(|resource| gone.contains(resource));
        next.without_strangers(remade)
    }

    /// The same definitions without these tables, their views, and what was permitted about them.
    pub fn without_tables(&self, is_gone: impl Fn(&TableSchema) -> bool) -> Catalog {
        let mut next = self.next();
        for keyspace in next.keyspaces.values_mut() {
            if keyspace.tables().any(|t| is_gone(t)) {
                *keyspace = Arc::new(keyspace.without_tables(&is_gone));
            }
        }
        let gone: BTreeSet<Resource> = self
            .tables()
            .filter(|t| is_gone(t))
            .map(|t| Resource::Table(t.keyspace.clone(), t.name.clone()))
            .collect();
        next.without_permissions(|resource| gone.contains(resource))
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
