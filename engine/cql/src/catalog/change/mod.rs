//! Schema changes. Each returns a new [`Catalog`] or an error with Cassandra's text (model 3.5, 6).
//! `None` means that there is nothing to do.

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
use crate::error::{Error, Result, bail, invalid};

impl TableSchema {
    /// Sorts the columns and sets their positions.
    pub(super) fn arrange(&mut self) {
        // Columns of the primary key are already in order, and the sort is stable.
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

    /// Refuses changes of a column family, which is defined through the Thrift interface.
    fn check_own(&self) -> Result<()> {
        if self.family().is_none() {
            return Ok(());
        }
        Err(invalid!(
            "{} is a column family, which statements cannot change: use system_update_column_family or cassandra-cli's UPDATE COLUMN \
             FAMILY",
            self.shown_name()
        ))
    }

    fn shown_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.name)
    }
}

impl KeyspaceEntry {
    /// Returns the keyspace without these tables and their views.
    fn without_tables(&self, is_gone: impl Fn(&TableSchema) -> bool) -> KeyspaceEntry {
        let gone: BTreeSet<u32> = self.tables().filter(|t| is_gone(t)).map(|t| t.id).collect();
        let mut remaining = self.clone();
        remaining.tables.retain(|_, t| {
            !gone.contains(&t.id) && !t.view().is_some_and(|view| gone.contains(&view.base))
        });
        remaining
    }
}

fn missing_keyspace(name: &str) -> Error {
    invalid!("Keyspace '{name}' doesn't exist")
}

fn check_not_system_new(keyspace: &str) -> Result<()> {
    if SYSTEM_KEYSPACES.contains(&keyspace) {
        bail!("System keyspace '{keyspace}' is not user-modifiable");
    }
    Ok(())
}

impl Catalog {
    fn next(&self) -> Catalog {
        Catalog { version: self.version + 1, ..self.clone() }
    }

    fn new_id(&mut self) -> Result<u32> {
        let id = self.next_id;
        self.next_id =
            id.checked_add(1).ok_or_else(|| invalid("all ids of tables and indexes are in use"))?;
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

    /// Returns these definitions over the current keyspaces and column families of `firn-wide`.
    /// Dropped keyspaces are removed with their tables and permissions, even if they were created
    /// again. A compact table is removed with its family, together with its views. A table hides a
    /// family with the same name.
    pub fn over(
        &self,
        keyspaces: impl IntoIterator<Item = KeyspaceEntry>,
        recreated: &BTreeSet<String>,
    ) -> Catalog {
        let mut next = self.next();
        next.keyspaces.clear();
        for mut keyspace in keyspaces {
            let before = self.keyspace(&keyspace.name);
            if let Some(before) = before.filter(|k| !recreated.contains(&k.name)) {
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
        next.without_foreign_permissions(recreated)
    }

    /// Returns these definitions without these tables, their views, and permissions on them.
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

    /// Returns these definitions without permissions on keyspaces that do not exist, or that were
    /// dropped and created again.
    pub fn without_foreign_permissions(self, recreated: &BTreeSet<String>) -> Catalog {
        let there: BTreeSet<String> =
            self.keyspaces.keys().filter(|name| !recreated.contains(*name)).cloned().collect();
        self.without_permissions(|resource| match resource.keyspace() {
            Some(keyspace) => !there.contains(keyspace) && !SYSTEM_KEYSPACES.contains(&keyspace),
            None => false,
        })
    }
}
