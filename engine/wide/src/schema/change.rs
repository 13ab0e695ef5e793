//! Changes: each makes a new [`Schema`] or says why not; and what a change means for the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::def::{CfDef, ColumnDef, FOREIGN_IDS, KsDef};
use super::family::{self, Family, Numbers, Surroundings};
use super::typing::Type;
use super::{KeyspaceSchema, Schema, rules};
use crate::base::error::{Error, Result, invalid};

/// The numbers of a family that is defined now: those it has, and new ones. An index whose values
/// change their type is a new one, since it must be built anew.
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

/// The numbers of a family that is a table of CQL too: CQL gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableNumbers {
    /// That of the table: [`FOREIGN_IDS`] or larger.
    pub table: u32,
    /// Those of its indexes, by the names of their columns.
    pub indexes: BTreeMap<Vec<u8>, u32>,
    /// Whether it has materialized views, which only CQL keeps.
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

/// The refusal of a family whose name is given.
pub fn already_there(keyspace: &str, name: &str) -> Error {
    invalid(format!("Cannot add already existing column family '{name}' to keyspace '{keyspace}'."))
}

impl Schema {
    /// With this keyspace and its families.
    ///
    /// # Errors
    /// `InvalidRequest` with the reason: a name that is taken or can't be one, or whatever is wrong
    /// with a family.
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

    /// With other attributes of a keyspace; its families stay.
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
        // One that was made so by an earlier version may keep it.
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

    /// Without a keyspace and its families.
    ///
    /// # Errors
    /// `InvalidRequest` when there is none of this name.
    pub fn drop_keyspace(&self, name: &str) -> Result<Schema> {
        rules::check_modifiable(name)?;
        let mut schema = self.clone();
        match schema.keyspaces.remove(name) {
            Some(_) => Ok(schema),
            None => Err(invalid(format!("Cannot drop non existing keyspace '{name}'."))),
        }
    }

    /// With this family. An id in the definition is not looked at: the schema gives one.
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
        // The servers look at the definition, index names included, before they look whether there
        // is such a family already.
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

    /// With another definition of a family; begin with its [`Family::def`], since it is all
    /// replaced.
    ///
    /// # Errors
    /// `InvalidRequest` with the reason: no such family, another id, other sorts of rows, an order
    /// of names that is not compatible, or a definition that can't be.
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

    /// With a family that is a table of CQL, under the numbers that CQL has given, in place of what
    /// the table was before.
    ///
    /// # Errors
    /// `InvalidRequest` with the reason: another family has the name, or a definition that can't be
    /// or does not fit what it was before.
    pub fn put_table(&self, def: &CfDef, numbers: &TableNumbers) -> Result<Schema> {
        rules::check_modifiable(&def.keyspace)?;
        let home = self.keyspace(&def.keyspace)?;
        let before = home.family(&def.name).map(|f| &**f);
        if before.is_some_and(|f| f.id() != numbers.table) || numbers.table < FOREIGN_IDS {
            return Err(already_there(&def.keyspace, &def.name));
        }
        // What CQL names an index is for CQL to check.
        let around = Surroundings { is_stored: true, ..self.around(home, before, &def.name) };
        let family = family::resolve(def, &around, &mut &*numbers)?.with_views(numbers.has_views);
        // Types of users that are in names may get more fields.
        if before.is_some_and(|before| !family.comparator().extends(before.comparator())) {
            return Err(invalid("comparators do not match or are not compatible."));
        }
        let mut schema = self.clone();
        schema.put_family(home, family);
        Ok(schema)
    }

    /// Without a family.
    ///
    /// # Errors
    /// `InvalidRequest` when there is none of this name.
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
    ) -> Surroundings<'a> {
        Surroundings {
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

/// The changes from one schema to a later one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchemaDiff {
    /// The records to put, and those to delete (`None`), by key.
    pub records: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Families that are new.
    pub added_families: Vec<Arc<Family>>,
    /// Families that are gone, as they were.
    pub dropped_families: Vec<Arc<Family>>,
    /// Families with another definition, as they are now.
    pub changed_families: Vec<Arc<Family>>,
    /// Indexes that are new, with their family; those of new families too.
    pub added_indexes: Vec<(Arc<Family>, u32)>,
    /// Indexes that are gone; those of families that are gone too.
    pub dropped_indexes: Vec<u32>,
}

impl Schema {
    /// The records and trees to change so that this schema becomes `newer`.
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
