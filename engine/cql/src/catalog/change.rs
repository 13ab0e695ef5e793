//! Changes of definitions: each makes a new [`Catalog`] or refuses with the servers' text (model 3.5, 6). `None`: there is nothing to do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::record::table_uuid;
use super::resolve::{mentions, refresh, resolve};
use super::{
    Catalog, Column, ColumnKind, ColumnType, DroppedColumn, FIRST_ID, Index, IndexTarget, Keyspace, MAX_NAME, SYSTEM_KEYSPACES,
    Table, TableOptions, TypeDef, is_valid_name,
};
use crate::error::{Class, Error, Result, configuration, invalid};
use crate::syntax::ast::{
    AlterKeyspace, AlterTable, AlterType, ColumnDefinition, CreateIndex, CreateKeyspace, CreateTable, CreateType, Drop,
    IndexPart, Name, Property, PropertyValue, QualifiedName, TableChange, TypeChange,
};

const STRATEGIES: [&str; 4] = ["SimpleStrategy", "NetworkTopologyStrategy", "OldNetworkTopologyStrategy", "LocalStrategy"];
const LOCATOR: &str = "org.apache.cassandra.locator.";

impl Table {
    /// Puts the columns in order, each at its position.
    pub(super) fn arrange(&mut self) {
        // Columns of the primary key have an order already; the sort is stable.
        self.columns.sort_by(|a, b| {
            let name = |c: &Column| (!c.is_primary_key()).then(|| c.name.clone());
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

fn already_there(text: String) -> Error {
    Error::Refused(Class::AlreadyExists, text)
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
        self.next_id = id.checked_add(1).ok_or_else(|| invalid("no more tables and indexes can be numbered"))?;
        debug_assert!(id >= FIRST_ID);
        Ok(id)
    }

    fn existing(&self, name: &str) -> Result<&Arc<Keyspace>> {
        self.keyspace(name).ok_or_else(|| missing_keyspace(name))
    }

    fn with_keyspace(&self, keyspace: Keyspace) -> Catalog {
        let mut next = self.next();
        next.keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
        next
    }

    fn with_table(&self, table: Table) -> Result<Catalog> {
        let mut keyspace = (**self.existing(&table.keyspace)?).clone();
        keyspace.tables.insert(table.name.clone(), Arc::new(table));
        Ok(self.with_keyspace(keyspace))
    }

    /// These definitions over the keyspaces that the data model has now: what it dropped is gone with its tables.
    pub fn over(&self, keyspaces: impl IntoIterator<Item = Keyspace>) -> Catalog {
        let mut next = self.next();
        next.keyspaces.clear();
        for mut keyspace in keyspaces {
            if let Some(before) = self.keyspace(&keyspace.name) {
                keyspace.tables = before.tables.clone();
                keyspace.types = before.types.clone();
            }
            next.keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
        }
        next
    }

    // ------------------------------------------------------------------------------------------ keyspaces

    /// `CREATE KEYSPACE`
    ///
    /// # Errors
    /// `AlreadyExists`; `Invalid` for a name, `Configuration` for a strategy that can't be.
    pub fn create_keyspace(&self, statement: &CreateKeyspace<'_>) -> Result<Option<Catalog>> {
        let name = &*statement.name.text;
        check_not_system_new(name)?;
        if !is_valid_name(name) {
            return Err(invalid(format!(
                "Keyspace name must not be empty, more than {MAX_NAME} characters long, or contain non-alphanumeric-underscore \
                 characters (got '{name}')"
            )));
        }
        let mut keyspace = Keyspace::new(name);
        apply_keyspace(&mut keyspace, &statement.properties)?;
        if keyspace.replication.is_empty() {
            return Err(invalid("Missing mandatory option 'replication'"));
        }
        if self.keyspace(name).is_some() {
            return match statement.if_not_exists {
                true => Ok(None),
                false => Err(already_there(format!("Cannot add existing keyspace \"{name}\""))),
            };
        }
        Ok(Some(self.with_keyspace(keyspace)))
    }

    /// `ALTER KEYSPACE`
    ///
    /// # Errors
    /// `Invalid` when it isn't there; as [`create_keyspace`](Catalog::create_keyspace).
    pub fn alter_keyspace(&self, statement: &AlterKeyspace<'_>) -> Result<Option<Catalog>> {
        let name = &*statement.name.text;
        super::check_not_system(name)?;
        let Some(before) = self.keyspace(name) else {
            return if statement.if_exists { Ok(None) } else { Err(missing_keyspace(name)) };
        };
        let mut keyspace = (**before).clone();
        apply_keyspace(&mut keyspace, &statement.properties)?;
        Ok(Some(self.with_keyspace(keyspace)))
    }

    /// `DROP KEYSPACE`
    ///
    /// # Errors
    /// `Invalid` when it isn't there, `Unauthorized` for one of the system.
    pub fn drop_keyspace(&self, statement: &Drop<Name<'_>>) -> Result<Option<Catalog>> {
        let name = &*statement.name.text;
        super::check_not_system(name)?;
        if self.keyspace(name).is_none() {
            return if statement.if_exists { Ok(None) } else { Err(missing_keyspace(name)) };
        }
        let mut next = self.next();
        next.keyspaces.remove(name);
        Ok(Some(next))
    }

    // ------------------------------------------------------------------------------------------ tables

    /// `CREATE TABLE` in this keyspace; `bits` are random.
    ///
    /// # Errors
    /// `AlreadyExists`, or what is wrong with the definition.
    pub fn create_table(&self, statement: &CreateTable<'_>, keyspace: &str, bits: u128) -> Result<Option<Catalog>> {
        check_not_system_new(keyspace)?;
        let name = &*statement.name.name.text;
        let home = self.existing(keyspace)?;
        if home.table(name).is_some() {
            return match statement.if_not_exists {
                true => Ok(None),
                false => Err(already_there(format!("Cannot add already existing table \"{name}\" to keyspace \"{keyspace}\""))),
            };
        }
        if !is_valid_name(name) {
            return Err(invalid(format!(
                "Table name must not be empty, more than {MAX_NAME} characters long, or contain non-alphanumeric-underscore \
                 characters (got '{name}')"
            )));
        }
        let mut next = self.clone();
        let mut table = new_table(home, statement)?;
        table.id = next.new_id()?;
        table.uuid = given_uuid(&statement.properties)?.unwrap_or_else(|| table_uuid(bits));
        Ok(Some(next.with_table(table)?))
    }

    /// The table that a definition names; `None` where it may be missing.
    fn find_table(&self, keyspace: &str, name: &str, may_be_missing: bool) -> Result<Option<&Arc<Table>>> {
        super::check_not_system(keyspace)?;
        match self.keyspace(keyspace).and_then(|k| k.table(name)) {
            None if may_be_missing => Ok(None),
            None => Err(invalid(format!("Table '{keyspace}.{name}' doesn't exist"))),
            found => Ok(found),
        }
    }

    /// `ALTER TABLE` in this keyspace, at this time in microseconds.
    ///
    /// # Errors
    /// What can't be done.
    pub fn alter_table(&self, statement: &AlterTable<'_>, keyspace: &str, now: i64) -> Result<Option<Catalog>> {
        let Some(found) = self.find_table(keyspace, &statement.name.name.text, statement.if_exists)? else { return Ok(None) };
        let home = self.existing(keyspace)?;
        let mut table = (**found).clone();
        match &statement.change {
            TableChange::Add { if_not_exists, columns } => {
                for column in columns {
                    add_column(home, &mut table, column, *if_not_exists)?;
                }
            }
            TableChange::Drop { if_exists, columns, timestamp } => {
                let given = timestamp.as_ref().map(|t| t.text.parse::<i64>());
                let at = given.transpose().map_err(|_| invalid("Out of bound timestamp of a dropped column"))?.unwrap_or(now);
                for column in columns {
                    drop_column(&mut table, &column.text, *if_exists, at)?;
                }
            }
            TableChange::Rename { if_exists, pairs } => {
                for (from, to) in pairs {
                    rename_column(&mut table, from, to, *if_exists)?;
                }
            }
            TableChange::Retype { .. } => return Err(invalid("Altering column types is no longer supported")),
            TableChange::With(properties) => {
                if properties.iter().any(|p| p.name.text == "id") {
                    return Err(configuration("Cannot alter table id."));
                }
                table.options = table.options.with(properties)?;
                check_ttl(&table)?;
            }
        }
        Ok(Some(self.with_table(table)?))
    }

    /// `DROP TABLE` in this keyspace.
    ///
    /// # Errors
    /// `Invalid` when it isn't there.
    pub fn drop_table(&self, statement: &Drop<QualifiedName<'_>>, keyspace: &str) -> Result<Option<Catalog>> {
        let name = &*statement.name.name.text;
        if self.find_table(keyspace, name, statement.if_exists)?.is_none() {
            return Ok(None);
        }
        let mut home = (**self.existing(keyspace)?).clone();
        home.tables.remove(name);
        Ok(Some(self.with_keyspace(home)))
    }

    // ------------------------------------------------------------------------------------------ indexes

    /// `CREATE INDEX` in this keyspace.
    ///
    /// # Errors
    /// What can't be indexed.
    pub fn create_index(&self, statement: &CreateIndex<'_>, keyspace: &str) -> Result<Option<Catalog>> {
        let Some(found) = self.find_table(keyspace, &statement.table.name.text, false)? else { return Ok(None) };
        let home = self.existing(keyspace)?;
        if let Some(name) = &statement.name
            && home.index(&name.text).is_some()
        {
            let there = || invalid(format!("Index '{}' already exists", name.text));
            return if statement.if_not_exists { Ok(None) } else { Err(there()) };
        }
        if found.is_counter() {
            return Err(invalid("Secondary indexes on counter tables aren't supported"));
        }
        let [target] = &statement.targets[..] else {
            return Err(invalid("Only CUSTOM indexes support multiple columns"));
        };
        let column = found.known_column(&target.column.text)?;
        let what = index_target(found, column, target.part)?;
        let name = match &statement.name {
            Some(name) if !is_valid_name(&name.text) => {
                return Err(invalid(format!("Index name {} is not valid", name.text)));
            }
            Some(name) => name.text.to_string(),
            None => free_index_name(home, &found.name, &column.name),
        };
        if let Some(same) = found.index_of(&column.name, what) {
            return match statement.if_not_exists {
                true => Ok(None),
                false => Err(invalid(format!("Index {name} is a duplicate of existing index {}", same.name))),
            };
        }
        if statement.custom && statement.class.is_none() {
            return Err(invalid("CUSTOM index requires specifiying the index class"));
        }
        if !statement.custom && statement.class.is_some() {
            return Err(invalid("Cannot specify index class for a non-CUSTOM index"));
        }
        let options = statement.properties.iter().filter_map(|p| match &p.value {
            PropertyValue::Map(pairs) => Some(pairs.iter().map(|(k, v)| (k.text.to_string(), v.text.to_string()))),
            _ => None,
        });
        let mut next = self.clone();
        let mut table = (**found).clone();
        table.indexes.push(Index {
            id: next.new_id()?,
            name,
            column: column.name.clone(),
            target: what,
            class: statement.class.as_ref().map(|c| c.to_string()),
            options: options.flatten().collect(),
        });
        Ok(Some(next.with_table(table)?))
    }

    /// `DROP INDEX` in this keyspace.
    ///
    /// # Errors
    /// `Invalid` when it isn't there.
    pub fn drop_index(&self, statement: &Drop<QualifiedName<'_>>, keyspace: &str) -> Result<Option<Catalog>> {
        let name = &*statement.name.name.text;
        super::check_not_system(keyspace)?;
        let Some((table, index)) = self.keyspace(keyspace).and_then(|k| k.index(name)) else {
            let missing = || invalid(format!("Index '{keyspace}.{name}' doesn't exist'"));
            return if statement.if_exists { Ok(None) } else { Err(missing()) };
        };
        let mut changed = (**table).clone();
        changed.indexes.retain(|i| i.id != index.id);
        Ok(Some(self.with_table(changed)?))
    }

    // ------------------------------------------------------------------------------------------ types

    /// `CREATE TYPE` in this keyspace.
    ///
    /// # Errors
    /// What is wrong with the definition.
    pub fn create_type(&self, statement: &CreateType<'_>, keyspace: &str) -> Result<Option<Catalog>> {
        check_not_system_new(keyspace)?;
        let mut home = (**self.existing(keyspace)?).clone();
        let name = &*statement.name.name.text;
        if home.user_type(name).is_some() {
            let there = || invalid(format!("A user type with name '{name}' already exists"));
            return if statement.if_not_exists { Ok(None) } else { Err(there()) };
        }
        let mut fields: Vec<(String, ColumnType)> = vec![];
        for (field, of) in &statement.fields {
            if fields.iter().any(|f| f.0 == field.text) {
                return Err(invalid(format!("Duplicate field name '{}' in type '{name}'", field.text)));
            }
            fields.push((field.text.to_string(), field_type(&home, of)?));
        }
        home.types.insert(name.to_owned(), Arc::new(TypeDef { name: name.to_owned(), fields }));
        Ok(Some(self.with_keyspace(home)))
    }

    /// `ALTER TYPE` in this keyspace: every table and type that uses it follows.
    ///
    /// # Errors
    /// What can't be done.
    pub fn alter_type(&self, statement: &AlterType<'_>, keyspace: &str) -> Result<Option<Catalog>> {
        super::check_not_system(keyspace)?;
        let name = &*statement.name.name.text;
        let Some(found) = self.keyspace(keyspace).and_then(|k| k.user_type(name)) else {
            return if statement.if_exists {
                Ok(None)
            } else {
                Err(invalid(format!("Type '{keyspace}.{name}' doesn't exist")))
            };
        };
        let mut home = (**self.existing(keyspace)?).clone();
        let mut def = (**found).clone();
        match &statement.change {
            TypeChange::Add { if_not_exists, field, of } => {
                if def.fields.iter().any(|f| f.0 == field.text) {
                    let there = || {
                        invalid(format!(
                            "Cannot add field {field} to type {keyspace}.{name}: a field with name {field} already exists"
                        ))
                    };
                    return if *if_not_exists { Ok(None) } else { Err(there()) };
                }
                let of_field = field_type(&home, of)?;
                if mentions(&of_field.of, name) {
                    return Err(invalid(format!(
                        "Cannot add field {field} of type {of} to type {keyspace}.{name} as this would create a circular reference"
                    )));
                }
                // Keys that were written name the fields there were; of partitions they are found byte by byte.
                let in_key = |t: &&Arc<Table>| t.columns.iter().any(|c| c.is_primary_key() && mentions(&c.of.of, name));
                let tables: Vec<&str> = home.tables.values().filter(in_key).map(|t| &*t.name).collect();
                if !tables.is_empty() {
                    return Err(invalid(format!(
                        "Cannot add field {field} to type {keyspace}.{name}: it is used in the primary key of {}",
                        tables.join(", ")
                    )));
                }
                def.fields.push((field.text.to_string(), of_field));
            }
            TypeChange::Rename { if_exists, pairs } => {
                for (from, to) in pairs {
                    let Some(at) = def.fields.iter().position(|f| f.0 == from.text) else {
                        if *if_exists {
                            continue;
                        }
                        return Err(invalid(format!("Unkown field {from} in user type {keyspace}.{name}")));
                    };
                    if def.fields.iter().any(|f| f.0 == to.text) {
                        return Err(invalid(format!("Duplicate field name {to} in type {keyspace}.{name}")));
                    }
                    def.fields[at].0 = to.text.to_string();
                }
            }
            TypeChange::Retype { .. } => return Err(invalid("Altering field types is no longer supported")),
        }
        home.types.insert(name.to_owned(), Arc::new(def));
        refresh_uses(&mut home, name);
        Ok(Some(self.with_keyspace(home)))
    }

    /// `DROP TYPE` in this keyspace.
    ///
    /// # Errors
    /// `Invalid` when it isn't there or is used.
    pub fn drop_type(&self, statement: &Drop<QualifiedName<'_>>, keyspace: &str) -> Result<Option<Catalog>> {
        super::check_not_system(keyspace)?;
        let name = &*statement.name.name.text;
        let Some(home) = self.keyspace(keyspace).filter(|k| k.user_type(name).is_some()) else {
            let missing = || invalid(format!("Type '{keyspace}.{name}' doesn't exist"));
            return if statement.if_exists { Ok(None) } else { Err(missing()) };
        };
        let used = |of: &ColumnType| mentions(&of.of, name);
        let types: Vec<_> = home.types().filter(|t| t.fields.iter().any(|f| used(&f.1))).map(|t| t.name.clone()).collect();
        let tables: Vec<_> = home.tables().filter(|t| t.columns.iter().any(|c| used(&c.of))).map(|t| t.name.clone()).collect();
        for (kind, users) in [("user types", types), ("tables", tables)] {
            if !users.is_empty() {
                let users = users.join(", ");
                return Err(invalid(format!(
                    "Cannot drop user type '{keyspace}.{name}' as it is still used by {kind} {users}"
                )));
            }
        }
        let mut home = (**home).clone();
        home.types.remove(name);
        Ok(Some(self.with_keyspace(home)))
    }
}

fn apply_keyspace(keyspace: &mut Keyspace, properties: &[Property<'_>]) -> Result<()> {
    for property in properties {
        match &property.value {
            PropertyValue::Map(pairs) => {
                let map = pairs.iter().map(|(k, v)| (k.text.to_string(), v.text.to_string())).collect();
                keyspace.replication = check_replication(&keyspace.name, map)?;
            }
            PropertyValue::Constant(c) => keyspace.durable_writes = durable(&c.text)?,
            PropertyValue::Word(w) => keyspace.durable_writes = durable(w)?,
        }
    }
    Ok(())
}

fn durable(text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" => Ok(false),
        _ => Err(Error::Refused(Class::Syntax, format!("Invalid boolean value {text} for 'durable_writes'"))),
    }
}

fn check_replication(keyspace: &str, mut map: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let class = map.get("class").ok_or_else(|| configuration("Missing replication strategy class"))?;
    let full = if class.contains('.') { class.clone() } else { format!("{LOCATOR}{class}") };
    let short = full.strip_prefix(LOCATOR).filter(|s| STRATEGIES.contains(s));
    let Some(short) = short else {
        return Err(configuration(format!("Unable to find replication strategy class '{full}'")));
    };
    let factor = |text: &str| match text.parse::<i64>() {
        Ok(n) if n < 0 => Err(configuration(format!("Replication factor must be non-negative; found {n}"))),
        Ok(_) => Ok(()),
        Err(_) => Err(configuration(format!("Replication factor must be numeric; found {text}"))),
    };
    if short == "SimpleStrategy" {
        if !map.contains_key("replication_factor") {
            return Err(configuration("SimpleStrategy requires a replication_factor strategy option."));
        }
        if let Some(other) = map.keys().find(|k| *k != "class" && *k != "replication_factor") {
            return Err(configuration(format!(
                "Unrecognized strategy option {{{other}}} passed to SimpleStrategy for keyspace {keyspace}"
            )));
        }
    }
    for (_, value) in map.iter().filter(|(k, _)| *k != "class") {
        factor(value)?;
    }
    map.insert("class".into(), full);
    Ok(map)
}

/// The names of the columns of the primary key: of the partition, and those that cluster.
fn primary_key<'s>(statement: &'s CreateTable<'_>) -> Result<(Vec<&'s str>, Vec<&'s str>)> {
    let name = &statement.name.name.text;
    let inline: Vec<&str> = statement.columns.iter().filter(|c| c.primary_key).map(|c| &*c.name.text).collect();
    let (partition, clustering): (Vec<&str>, Vec<&str>) = match (&inline[..], &statement.primary_keys[..]) {
        ([one], []) => (vec![one], vec![]),
        ([], [key]) => (key.partition.iter().map(|n| &*n.text).collect(), key.clustering.iter().map(|n| &*n.text).collect()),
        ([], []) => return Err(invalid(format!("No PRIMARY KEY specifed for table '{name}' (exactly one required)"))),
        _ => return Err(invalid(format!("Multiple PRIMARY KEY specified for table '{name}' (exactly one required)"))),
    };
    let mut seen = BTreeSet::new();
    for column in partition.iter().chain(&clustering) {
        if !statement.columns.iter().any(|c| c.name.text == *column) {
            return Err(invalid(format!("Unknown column '{column}' referenced in PRIMARY KEY for table '{name}'")));
        }
        if !seen.insert(column) {
            return Err(invalid(format!("Duplicate column '{column}' in PRIMARY KEY clause for table '{name}'")));
        }
    }
    Ok((partition, clustering))
}

fn new_table(home: &Keyspace, statement: &CreateTable<'_>) -> Result<Table> {
    let name = statement.name.name.text.to_string();
    let mut seen = BTreeSet::new();
    if let Some(twice) = statement.columns.iter().find(|c| !seen.insert(&*c.name.text)) {
        return Err(invalid(format!("Duplicate column '{}' declaration for table '{name}'", twice.name.text)));
    }
    let (partition, clustering) = primary_key(statement)?;
    let mut table = Table {
        id: 0,
        uuid: uuid::Uuid::nil(),
        keyspace: home.name.clone(),
        name,
        options: TableOptions::default().with(&statement.properties)?,
        compact: statement.compact_storage,
        columns: vec![],
        partition: partition.len(),
        clustering: clustering.len(),
        next_column: 1,
        dropped: vec![],
        indexes: vec![],
    };
    let in_key = |names: &[&str], kind, table: &mut Table| -> Result<()> {
        for name in names {
            let Some(definition) = statement.columns.iter().find(|c| c.name.text == *name) else { continue };
            let of = key_type(home, definition)?;
            let name = (*name).to_owned();
            table.columns.push(Column { id: 0, name, kind, position: 0, of, descending: false });
        }
        Ok(())
    };
    in_key(&partition, ColumnKind::Partition, &mut table)?;
    in_key(&clustering, ColumnKind::Clustering, &mut table)?;
    let rest = statement.columns.iter().filter(|c| !partition.contains(&&*c.name.text) && !clustering.contains(&&*c.name.text));
    for definition in rest {
        push_column(home, &mut table, definition)?;
    }
    clustering_order(&mut table, statement)?;
    if table.has_statics() && table.clustering == 0 {
        return Err(invalid(
            "Static columns are only useful (and thus allowed) if the table has at least one clustering column",
        ));
    }
    if table.is_counter() && table.columns.iter().any(|c| !c.is_primary_key() && !c.is_counter()) {
        return Err(invalid("Cannot mix counter and non counter columns in the same table"));
    }
    check_ttl(&table)?;
    table.arrange();
    Ok(table)
}

/// `WITH id = …`
fn given_uuid(properties: &[Property<'_>]) -> Result<Option<uuid::Uuid>> {
    let Some(property) = properties.iter().find(|p| p.name.text == "id") else { return Ok(None) };
    match &property.value {
        PropertyValue::Constant(c) => c.text.parse().map(Some).map_err(|_| configuration("Invalid table id")),
        _ => Err(configuration("Invalid table id")),
    }
}

fn clustering_order(table: &mut Table, statement: &CreateTable<'_>) -> Result<()> {
    let ordered = &statement.clustering_order;
    if ordered.is_empty() {
        return Ok(());
    }
    let declared: Vec<&str> = table.clustering().iter().map(|c| c.name.as_str()).collect();
    if ordered.iter().map(|o| &*o.column.text).ne(declared) {
        return Err(invalid("Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive"));
    }
    for (column, order) in table.columns[table.partition..].iter_mut().zip(ordered) {
        column.descending = order.descending;
    }
    Ok(())
}

fn check_ttl(table: &Table) -> Result<()> {
    if table.is_counter() && table.options.default_ttl() > 0 {
        return Err(invalid("Cannot set default_time_to_live on a table with counters"));
    }
    Ok(())
}

/// The type of a column of the primary key.
fn key_type(home: &Keyspace, definition: &ColumnDefinition<'_>) -> Result<ColumnType> {
    let (of, name) = (resolve(home, &definition.of, false)?, &definition.name.text);
    if definition.is_static {
        return Err(invalid(format!("Static column '{name}' cannot be part of the PRIMARY KEY")));
    }
    if of.multicell {
        return Err(invalid(match &of.of {
            firn_wide::types::Type::Udt(u) => {
                format!("Invalid non-frozen user-defined type \"{}.{}\" for PRIMARY KEY column '{name}'", u.keyspace, u.name)
            }
            _ => format!("Invalid non-frozen collection type {of} for PRIMARY KEY column '{name}'"),
        }));
    }
    match of.of {
        firn_wide::types::Type::Counter => {
            Err(invalid(format!("counter type is not supported for PRIMARY KEY column '{name}'")))
        }
        firn_wide::types::Type::Duration => {
            Err(invalid(format!("duration type is not supported for PRIMARY KEY column '{name}'")))
        }
        _ => Ok(of),
    }
}

/// Adds a static or regular column with a number of its own.
fn push_column(home: &Keyspace, table: &mut Table, definition: &ColumnDefinition<'_>) -> Result<()> {
    let of = resolve(home, &definition.of, false)?;
    if let firn_wide::types::Type::Udt(u) = &of.of
        && of.multicell
        && home.user_type(&u.name).is_some_and(|t| t.fields.iter().any(|f| f.1.multicell))
    {
        return Err(invalid("Non-frozen UDTs with nested non-frozen collections are not supported"));
    }
    let kind = if definition.is_static { ColumnKind::Static } else { ColumnKind::Regular };
    let id = table.next_column;
    let all_given = || invalid(format!("table {} has given all its {id} numbers of columns", table.full_name()));
    table.next_column = id.checked_add(1).ok_or_else(all_given)?;
    let name = definition.name.text.to_string();
    table.columns.push(Column { id, name, kind, position: 0, of, descending: false });
    Ok(())
}

fn add_column(home: &Keyspace, table: &mut Table, definition: &ColumnDefinition<'_>, if_not_exists: bool) -> Result<()> {
    let name = &*definition.name.text;
    if table.column(name).is_some() {
        let there = || invalid(format!("Column with name '{name}' already exists"));
        return if if_not_exists { Ok(()) } else { Err(there()) };
    }
    if definition.is_static && table.clustering == 0 {
        return Err(invalid(
            "Static columns are only useful (and thus allowed) if the table has at least one clustering column",
        ));
    }
    let of = resolve(home, &definition.of, false)?;
    if let Some(before) = table.dropped.iter().rev().find(|d| d.name == name) {
        if before.of != of {
            return Err(invalid(format!(
                "Cannot re-add a previously dropped column '{name}' of type {of}, incompatible with previous type {}",
                before.of
            )));
        }
        if before.is_static != definition.is_static {
            let (now, then) = if before.is_static { ("regular", "static") } else { ("static", "regular") };
            return Err(invalid(format!(
                "Cannot re-add a previously dropped column '{name}' of kind {now}, incompatible with previous kind {then}"
            )));
        }
        if of.of.is_counter() {
            return Err(invalid(format!("Cannot re-add previously dropped counter column {name}")));
        }
    }
    if of.of.is_counter() != table.is_counter() && table.columns.iter().any(|c| !c.is_primary_key()) {
        return Err(invalid(match of.of.is_counter() {
            true => format!("Cannot add a counter column ({name}) in a non counter column family"),
            false => format!("Cannot add a non counter column ({name}) in a counter column family"),
        }));
    }
    push_column(home, table, definition)?;
    table.arrange();
    Ok(())
}

fn drop_column(table: &mut Table, name: &str, if_exists: bool, at: i64) -> Result<()> {
    let Some(column) = table.column(name).cloned() else {
        let missing = || invalid(format!("Column {name} was not found in table '{}'", table.full_name()));
        return if if_exists { Ok(()) } else { Err(missing()) };
    };
    if column.is_primary_key() {
        return Err(invalid(format!("Cannot drop PRIMARY KEY column {name}")));
    }
    let dependent: Vec<&str> = table.indexes.iter().filter(|i| i.column == name).map(|i| i.name.as_str()).collect();
    if !dependent.is_empty() {
        return Err(invalid(format!(
            "Cannot drop column {name} because it has dependent secondary indexes ({})",
            dependent.join(", ")
        )));
    }
    table.columns.retain(|c| c.name != name);
    let is_static = column.is_static();
    table.dropped.push(DroppedColumn { id: column.id, name: column.name, of: column.of, is_static, dropped: at });
    Ok(())
}

fn rename_column(table: &mut Table, from: &Name<'_>, to: &Name<'_>, if_exists: bool) -> Result<()> {
    let (from, to) = (&*from.text, &*to.text);
    let Some(column) = table.column(from) else {
        let missing = || invalid(format!("Column {from} was not found in table '{}'", table.full_name()));
        return if if_exists { Ok(()) } else { Err(missing()) };
    };
    if !column.is_primary_key() {
        return Err(invalid(format!("Cannot rename non PRIMARY KEY column {from}")));
    }
    if table.column(to).is_some() {
        return Err(invalid(format!(
            "Cannot rename column {from} to {to} in table '{}'; another column with that name already exists",
            table.full_name()
        )));
    }
    if table.indexes.iter().any(|i| i.column == from) {
        return Err(invalid(format!("Can't rename column {from} because it has dependent secondary indexes")));
    }
    if let Some(column) = table.columns.iter_mut().find(|c| c.name == from) {
        column.name = to.to_owned();
    }
    Ok(())
}

fn index_target(table: &Table, column: &Column, part: IndexPart) -> Result<IndexTarget> {
    use firn_wide::types::Type;
    let name = &column.name;
    if column.kind == ColumnKind::Partition && table.partition == 1 {
        return Err(invalid(format!("Cannot create secondary index on the only partition key column {name}")));
    }
    if column.of.of == Type::Duration {
        return Err(invalid("Secondary indexes are not supported on duration columns"));
    }
    let word = |part| match part {
        IndexPart::Keys => "keys",
        IndexPart::Entries => "entries",
        IndexPart::Full => "full",
        IndexPart::Values | IndexPart::Simple => "values",
    };
    if !column.of.is_collection() {
        if matches!(column.of.of, Type::Udt(_)) && column.of.multicell {
            return Err(invalid("Cannot create index on non-frozen UDT column"));
        }
        return match part {
            IndexPart::Simple => Ok(IndexTarget::Simple),
            _ => Err(invalid(format!(
                "Cannot create {}() index on {name}. Non-collection columns only support simple indexes",
                word(part)
            ))),
        };
    }
    if !column.of.multicell {
        return match part {
            IndexPart::Full => Ok(IndexTarget::Full),
            _ => Err(invalid(format!(
                "Cannot create {}() index on frozen column {name}. Frozen collections only support full() indexes",
                word(part)
            ))),
        };
    }
    match part {
        IndexPart::Full => Err(invalid("full() indexes can only be created on frozen collections")),
        IndexPart::Simple | IndexPart::Values => Ok(IndexTarget::Values),
        _ if !matches!(column.of.of, Type::Map(_)) => {
            Err(invalid(format!("Cannot create index on {} of column {name} with non-map type", word(part))))
        }
        IndexPart::Keys => Ok(IndexTarget::Keys),
        IndexPart::Entries => Ok(IndexTarget::Entries),
    }
}

/// `table_column_idx`, with a number when it is taken.
fn free_index_name(home: &Keyspace, table: &str, column: &str) -> String {
    let clean: String = column.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let base = format!("{table}_{clean}_idx");
    let mut name = base.clone();
    let mut n = 0;
    while home.index(&name).is_some() {
        n += 1;
        name = format!("{base}_{n}");
    }
    name
}

fn field_type(home: &Keyspace, of: &crate::syntax::ast::Type<'_>) -> Result<ColumnType> {
    use crate::syntax::ast::{Native, TypeKind};
    match of.kind {
        TypeKind::Native(Native::Counter) => Err(invalid("A user type cannot contain counters")),
        TypeKind::User(_) => Err(invalid("A user type cannot contain non-frozen UDTs")),
        _ => resolve(home, of, false),
    }
}

/// Makes every use of a user type its present form.
fn refresh_uses(home: &mut Keyspace, name: &str) {
    let Some(changed) = home.user_type(name).map(|t| t.user_type(&home.name)) else { return };
    let again = |of: &mut ColumnType| of.of = refresh(&of.of, &changed);
    for def in home.types.values_mut().filter(|t| t.name != name) {
        Arc::make_mut(def).fields.iter_mut().for_each(|f| again(&mut f.1));
    }
    let uses =
        |t: &Table| t.columns.iter().map(|c| &c.of).chain(t.dropped.iter().map(|d| &d.of)).any(|of| mentions(&of.of, name));
    for table in home.tables.values_mut().filter(|t| uses(t)) {
        let table = Arc::make_mut(table);
        table.columns.iter_mut().for_each(|c| again(&mut c.of));
        table.dropped.iter_mut().for_each(|d| again(&mut d.of));
    }
}
