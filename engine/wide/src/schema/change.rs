//! Schema changes. Each returns a new [`Schema`] or an error, and a [`SchemaDiff`] for the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::def::{CfDef, ColumnDef, FOREIGN_IDS, KsDef};
use super::family::{self, Family, Numbers, SchemaContext};
use super::typing::Type;
use super::{KeyspaceSchema, Schema, rules};
use crate::base::error::{Error, Result, invalid};

/// Ids of a family: existing and new ones. An index whose values change their type gets a new id,
/// because it must be rebuilt.
struct NewNumbers<'a> {
    present: Option<&'a Family>,
    next: &'a mut u32,
}

impl NewNumbers<'_> {
    fn take(&mut self) -> Result<u32> {
        let id = *self.next;
        *self.next = id
            .checked_add(1)
            .ok_or_else(|| invalid("there are no more numbers for families and indexes"))?;
        Ok(id)
    }
}

impl Numbers for NewNumbers<'_> {
    fn family(&mut self) -> Result<u32> {
        match self.present {
            Some(family) => Ok(family.id()),
            None => self.take(),
        }
    }

    fn index(&mut self, column: &[u8], validator: &Type, def: &ColumnDef) -> Result<u32> {
        let had = self
            .present
            .and_then(|f| f.column(column))
            .filter(|c| c.validator() == validator)
            .and_then(|c| c.index());
        match had.filter(|index| {
            Some(index.kind) == def.index_type && index.options == def.index_options
        }) {
            Some(index) => Ok(index.id),
            None => self.take(),
        }
    }
}

/// Ids of a family that is also a CQL table; CQL assigns them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableNumbers {
    /// Id of the table: [`FOREIGN_IDS`] or larger.
    pub table: u32,
    /// Ids of its indexes, by column name.
    pub indexes: BTreeMap<Vec<u8>, u32>,
    /// Whether it has materialized views, which only CQL maintains.
    pub has_views: bool,
}

impl Numbers for &TableNumbers {
    fn family(&mut self) -> Result<u32> {
        Ok(self.table)
    }

    fn index(&mut self, column: &[u8], _: &Type, _: &ColumnDef) -> Result<u32> {
        let missing = || invalid("an index of a table has no number");
        self.indexes.get(column).copied().ok_or_else(missing)
    }
}

/// Returns the error for a family name that is in use.
pub fn already_there(keyspace: &str, name: &str) -> Error {
    invalid(format!("Cannot add already existing column family '{name}' to keyspace '{keyspace}'."))
}

impl Schema {
    /// Adds a keyspace and its families.
    ///
    /// # Errors
    /// `InvalidRequest` with the reason: a name that is invalid or in use, or an invalid family.
    pub fn add_keyspace(&self, def: &KsDef) -> Result<Schema> {
        rules::check_unique(&def.name, self.keyspaces().map(|k| k.name()))?;
        rules::check_strategy_of_clients(def)?;
        let mut schema = self.clone();
        schema.put(KeyspaceSchema {
            name: def.name.clone(),
            strategy_class: rules::check_keyspace(def)?,
            strategy_options: def.strategy_options.clone(),
            durable_writes: def.durable_writes,
            families: BTreeMap::new(),
        });
        for family in &def.cf_defs {
            if family.keyspace.is_empty() {
                schema =
                    schema.add_family(&CfDef { keyspace: def.name.clone(), ..family.clone() })?;
            } else if family.keyspace == def.name {
                schema = schema.add_family(family)?;
            } else {
                let name = &family.name;
                return Err(invalid(format!(
                    "CfDef ({name}) had a keyspace definition that did not match KsDef"
                )));
            }
        }
        Ok(schema)
    }

    /// Changes the attributes of a keyspace, but not its families.
    ///
    /// # Errors
    /// `InvalidRequest` with the reason: no such keyspace, or the definition contains families.
    pub fn update_keyspace(&self, def: &KsDef) -> Result<Schema> {
        rules::check_modifiable(&def.name)?;
        let Ok(present) = self.keyspace(&def.name) else {
            return Err(invalid(format!("Cannot update non existing keyspace '{}'.", def.name)));
        };
        if !def.cf_defs.is_empty() {
            return Err(invalid("Keyspace update must not contain any column family definitions."));
        }
        // A keyspace created with it by an earlier version may retain it.
        if !present.strategy_class.ends_with("LocalStrategy") {
            rules::check_strategy_of_clients(def)?;
        }
        let mut schema = self.clone();
        schema.put(KeyspaceSchema {
            strategy_class: rules::check_keyspace(def)?,
            strategy_options: def.strategy_options.clone(),
            durable_writes: def.durable_writes,
            ..KeyspaceSchema::clone(present)
        });
        Ok(schema)
    }

    /// Drops a keyspace and its families.
    ///
    /// # Errors
    /// `InvalidRequest` if there is none with this name.
    pub fn drop_keyspace(&self, name: &str) -> Result<Schema> {
        rules::check_modifiable(name)?;
        let mut schema = self.clone();
        match schema.keyspaces.remove(name) {
            Some(_) => Ok(schema),
            None => Err(invalid(format!("Cannot drop non existing keyspace '{name}'."))),
        }
    }

    /// Adds a family. The schema assigns its id and ignores one in the definition.
    ///
    /// # Errors
    /// `InvalidRequest` with the reason.
    pub fn add_family(&self, def: &CfDef) -> Result<Schema> {
        rules::check_modifiable(&def.keyspace)?;
        let (keyspace, name) = (&def.keyspace, &def.name);
        let Ok(present) = self.keyspace(keyspace) else {
            return Err(invalid(format!(
                "Cannot add column family '{name}' to non existing keyspace '{keyspace}'."
            )));
        };
        // As in Cassandra, the definition, including index names, is checked before the existence
        // of such a family.
        let namesake = present.family(name).map(|f| &**f);
        let mut schema = self.clone();
        let around = self.around(present, namesake, name);
        let family = family::resolve(
            def,
            &around,
            &mut NewNumbers { present: None, next: &mut schema.next_id },
        )?;
        if namesake.is_some() {
            return Err(already_there(keyspace, name));
        }
        schema.put_family(present, family);
        Ok(schema)
    }

    /// Replaces the definition of a family. Start from its [`Family::def`], because all attributes
    /// are replaced.
    ///
    /// # Errors
    /// `InvalidRequest` with the reason: no such family, another id, another kind of rows, an
    /// incompatible order of names, or an invalid definition.
    pub fn update_family(&self, def: &CfDef) -> Result<Schema> {
        rules::check_modifiable(&def.keyspace)?;
        let (keyspace, name) = (&def.keyspace, &def.name);
        let found = self.keyspace(keyspace).ok().and_then(|k| Some((k, k.family(name)?)));
        let Some((present, family)) = found else {
            return Err(invalid(format!(
                "Cannot update non existing column family '{name}' in keyspace '{keyspace}'."
            )));
        };
        if let Some(id) = def.id
            && id != family.id()
        {
            return Err(invalid(format!(
                "Column family ID mismatch (found {id}; expected {})",
                family.id()
            )));
        }
        if family.is_table() {
            return Err(invalid(format!(
                "Column family '{name}' in keyspace '{keyspace}' was made by CREATE TABLE: ALTER TABLE changes it"
            )));
        }
        let mut schema = self.clone();
        let around = self.around(present, Some(family), name);
        let mut numbers = NewNumbers { present: Some(family), next: &mut schema.next_id };
        let updated = family::resolve(def, &around, &mut numbers)?;
        family::check_compatible(&updated, family)?;
        schema.put_family(present, updated);
        Ok(schema)
    }

    /// Adds or replaces a family that is also a CQL table, with the ids that CQL has assigned.
    ///
    /// # Errors
    /// `InvalidRequest` with the reason: another family has the name, or the definition is invalid
    /// or incompatible with the previous one.
    pub fn put_table(&self, def: &CfDef, numbers: &TableNumbers) -> Result<Schema> {
        rules::check_modifiable(&def.keyspace)?;
        let home = self.keyspace(&def.keyspace)?;
        let before = home.family(&def.name).map(|f| &**f);
        if before.is_some_and(|f| f.id() != numbers.table) || numbers.table < FOREIGN_IDS {
            return Err(already_there(&def.keyspace, &def.name));
        }
        // CQL checks the names of its indexes.
        let around = SchemaContext { is_stored: true, ..self.around(home, before, &def.name) };
        let family = family::resolve(def, &around, &mut &*numbers)?.with_views(numbers.has_views);
        // User-defined types in names may get more fields.
        if before.is_some_and(|before| !family.comparator().extends(before.comparator())) {
            return Err(invalid("comparators do not match or are not compatible."));
        }
        let mut schema = self.clone();
        schema.put_family(home, family);
        Ok(schema)
    }

    /// Drops a family.
    ///
    /// # Errors
    /// `InvalidRequest` if there is none with this name.
    pub fn drop_family(&self, keyspace: &str, name: &str) -> Result<Schema> {
        rules::check_modifiable(keyspace)?;
        let mut changed = match self.keyspaces.get(keyspace) {
            Some(present) => KeyspaceSchema::clone(present),
            None => {
                return Err(invalid(format!(
                    "Cannot drop column family '{name}' from non existing keyspace '{keyspace}'."
                )));
            }
        };
        if changed.families.remove(name).is_none() {
            return Err(invalid(format!(
                "Cannot drop non existing column family '{name}' in keyspace '{keyspace}'."
            )));
        }
        let mut schema = self.clone();
        schema.put(changed);
        Ok(schema)
    }

    fn around<'a>(
        &'a self,
        keyspace: &'a KeyspaceSchema,
        present: Option<&'a Family>,
        name: &str,
    ) -> SchemaContext<'a> {
        SchemaContext {
            registry: &self.registry,
            present,
            index_names: keyspace.index_names(name),
            is_stored: false,
        }
    }

    fn put(&mut self, keyspace: KeyspaceSchema) {
        self.keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
    }

    fn put_family(&mut self, keyspace: &KeyspaceSchema, family: Family) {
        let mut keyspace = keyspace.clone();
        keyspace.families.insert(family.name().to_owned(), Arc::new(family));
        self.put(keyspace);
    }
}

/// Differences between a schema and a later one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchemaDiff {
    /// Records to write, and those to delete (`None`), by key.
    pub records: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// New families.
    pub added_families: Vec<Arc<Family>>,
    /// Dropped families, with their old definitions.
    pub dropped_families: Vec<Arc<Family>>,
    /// Families with changed definitions, in their new form.
    pub changed_families: Vec<Arc<Family>>,
    /// New indexes with their families, including those of new families.
    pub added_indexes: Vec<(Arc<Family>, u32)>,
    /// Dropped indexes, including those of dropped families.
    pub dropped_indexes: Vec<u32>,
}

impl Schema {
    /// Returns the records and trees to change so that this schema becomes `newer`.
    pub fn diff(&self, newer: &Schema) -> SchemaDiff {
        let mut diff = SchemaDiff::default();
        let (old, new): (BTreeMap<_, _>, BTreeMap<_, _>) = (by_id(self), by_id(newer));
        for (id, family) in &new {
            match old.get(id) {
                None => diff.added_families.push(Arc::clone(family)),
                Some(before) if Arc::ptr_eq(before, family) || before == family => {}
                Some(_) => diff.changed_families.push(Arc::clone(family)),
            }
        }
        diff.dropped_families = old
            .iter()
            .filter(|(id, _)| !new.contains_key(id))
            .map(|(_, f)| Arc::clone(f))
            .collect();
        let (had, has) = (index_ids(self), index_ids(newer));
        for family in new.values() {
            let added = family.indexes().filter(|(_, index)| !had.contains(&index.id));
            diff.added_indexes.extend(added.map(|(_, index)| (Arc::clone(family), index.id)));
        }
        diff.dropped_indexes = had.difference(&has).copied().collect();
        let before: BTreeMap<_, _> = self.records_beside(newer).into_iter().collect();
        let mut after: BTreeMap<_, _> = newer.records_beside(self).into_iter().collect();
        let gone = before
            .keys()
            .filter(|key| !after.contains_key(*key))
            .map(|key| (key.clone(), None))
            .collect::<Vec<_>>();
        after.retain(|key, value| before.get(key) != Some(value));
        diff.records = gone
            .into_iter()
            .chain(after.into_iter().map(|(key, value)| (key, Some(value))))
            .collect();
        diff.records.sort();
        diff
    }
}

fn by_id(schema: &Schema) -> BTreeMap<u32, &Arc<Family>> {
    schema.families().map(|f| (f.id(), f)).collect()
}

fn index_ids(schema: &Schema) -> BTreeSet<u32> {
    schema.families().flat_map(|f| f.indexes().map(|(_, index)| index.id)).collect()
}
