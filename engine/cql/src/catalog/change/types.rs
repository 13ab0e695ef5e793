//! User-defined types, and the tables and types that use them.

use std::sync::Arc;

use super::check_not_system_new;
use crate::catalog::column_type::mentions;
use crate::catalog::resolve::{refresh, resolve};
use crate::catalog::{
    Catalog, ColumnType, KeyspaceEntry, TableColumn, TableSchema, TypeDef, is_unordered,
};
use crate::error::{Result, bail, bail_if, invalid, skip_if};
use crate::syntax::ast::{
    self, AlterType, CreateType, Drop, Native, QualifiedName, TypeChange, TypeKind,
};

impl Catalog {
    /// Executes `CREATE TYPE` in this keyspace.
    ///
    /// # Errors
    /// Errors of the definition.
    pub fn create_type(
        &self,
        statement: &CreateType<'_>,
        keyspace: &str,
    ) -> Result<Option<Catalog>> {
        check_not_system_new(keyspace)?;
        let mut home = (**self.existing(keyspace)?).clone();
        let name = &*statement.name.name.text;
        if home.user_type(name).is_some() {
            return skip_if(statement.if_not_exists, || {
                invalid!("A user type with name '{name}' already exists")
            });
        }
        let mut fields: Vec<(String, ColumnType)> = vec![];
        for (field, of) in &statement.fields {
            if fields.iter().any(|f| f.0 == field.text) {
                bail!("Duplicate field name '{}' in type '{name}'", field.text);
            }
            fields.push((field.text.to_string(), field_type(&home, of)?));
        }
        home.types.insert(name.to_owned(), Arc::new(TypeDef { name: name.to_owned(), fields }));
        Ok(Some(self.with_keyspace(home)))
    }

    /// Executes `ALTER TYPE` in this keyspace, and updates every table and type that uses it.
    ///
    /// # Errors
    /// Errors of the change.
    pub fn alter_type(&self, statement: &AlterType<'_>, keyspace: &str) -> Result<Option<Catalog>> {
        super::super::check_not_system(keyspace)?;
        let name = &*statement.name.name.text;
        let Some(found) = self.keyspace(keyspace).and_then(|k| k.user_type(name)) else {
            return skip_if(statement.if_exists, || {
                invalid!("Type '{keyspace}.{name}' doesn't exist")
            });
        };
        let mut home = (**self.existing(keyspace)?).clone();
        let mut def = (**found).clone();
        match &statement.change {
            TypeChange::Add { if_not_exists, field, of } => {
                if def.fields.iter().any(|f| f.0 == field.text) {
                    return skip_if(*if_not_exists, || {
                        invalid!(
                            "Cannot add field {field} to type {keyspace}.{name}: a field with name {field} already exists"
                        )
                    });
                }
                let of_field = field_type(&home, of)?;
                bail_if!(
                    mentions(&of_field.value_type, name),
                    "Cannot add field {field} of type {of} to type {keyspace}.{name} as this would create a circular reference"
                );
                // Partitions are found by the bytes of the key that they were written with.
                let in_key = |t: &&Arc<TableSchema>| {
                    t.partition().iter().any(|c| mentions(&c.of.value_type, name))
                };
                let tables: Vec<String> = home
                    .tables
                    .values()
                    .filter(in_key)
                    .map(|t| format!("{keyspace}.{}", t.name))
                    .collect();
                bail_if!(
                    !tables.is_empty(),
                    "Cannot add new field {field} of type {of} to user type {keyspace}.{name} as the type is being used in partition key by the following tables: {}",
                    tables.join(", ")
                );
                check_order(&home, name, &field.text, &of_field)?;
                def.fields.push((field.text.to_string(), of_field));
            }
            TypeChange::Rename { if_exists, pairs } => {
                for (from, to) in pairs {
                    let Some(at) = def.fields.iter().position(|f| f.0 == from.text) else {
                        if *if_exists {
                            continue;
                        }
                        bail!("Unkown field {from} in user type {keyspace}.{name}");
                    };
                    if def.fields.iter().any(|f| f.0 == to.text) {
                        bail!("Duplicate field name {to} in type {keyspace}.{name}");
                    }
                    def.fields[at].0 = to.text.to_string();
                }
            }
            TypeChange::Retype { .. } => {
                bail!("Altering field types is no longer supported");
            }
        }
        home.types.insert(name.to_owned(), Arc::new(def));
        refresh_uses(&mut home, name);
        Ok(Some(self.with_keyspace(home)))
    }

    /// Executes `DROP TYPE` in this keyspace.
    ///
    /// # Errors
    /// `Invalid` if it does not exist or is in use.
    pub fn drop_type(
        &self,
        statement: &Drop<QualifiedName<'_>>,
        keyspace: &str,
    ) -> Result<Option<Catalog>> {
        super::super::check_not_system(keyspace)?;
        let name = &*statement.name.name.text;
        let Some(home) = self.keyspace(keyspace).filter(|k| k.user_type(name).is_some()) else {
            return skip_if(statement.if_exists, || {
                invalid!("Type '{keyspace}.{name}' doesn't exist")
            });
        };
        let used = |of: &ColumnType| mentions(&of.value_type, name);
        let mut functions: Vec<String> = home
            .functions()
            .filter(|f| f.types().any(used))
            .map(|f| format!("{keyspace}.{}", f.name))
            .collect();
        functions.extend(
            home.aggregates()
                .filter(|a| a.types().any(used))
                .map(|a| format!("{keyspace}.{}", a.name)),
        );
        let types: Vec<_> = home
            .types()
            .filter(|t| t.fields.iter().any(|f| used(&f.1)))
            .map(|t| t.name.clone())
            .collect();
        let tables: Vec<_> = home
            .tables()
            .filter(|t| t.columns.iter().any(|c| used(&c.of)))
            .map(|t| t.name.clone())
            .collect();
        for (kind, users) in [("functions", functions), ("user types", types), ("tables", tables)] {
            if !users.is_empty() {
                let users = users.join(", ");
                bail!(
                    "Cannot drop user type '{keyspace}.{name}' as it is still used by {kind} {users}"
                );
            }
        }
        let mut home = (**home).clone();
        home.types.remove(name);
        Ok(Some(self.with_keyspace(home)))
    }
}

/// Refuses a new field with durations, which have no order, if values of the type must be sorted:
/// in keys of tables and views, and in indexes.
fn check_order(home: &KeyspaceEntry, name: &str, field: &str, of: &ColumnType) -> Result<()> {
    if !is_unordered(&of.value_type) {
        return Ok(());
    }
    let ordered = |t: &&Arc<TableSchema>| {
        let is_ordered =
            |c: &TableColumn| c.is_primary_key() || t.indexes().iter().any(|i| i.column == c.name);
        t.columns().iter().any(|c| is_ordered(c) && mentions(&c.of.value_type, name))
    };
    let tables: Vec<String> =
        home.tables().filter(ordered).map(|t| format!("{}.{}", home.name, t.name)).collect();
    if tables.is_empty() {
        return Ok(());
    }
    Err(invalid!(
        "Cannot add new field {field} of type {of} to user type {}.{name} as durations have no order and the type is being used in primary keys or indexes of the following tables: {}",
        home.name,
        tables.join(", ")
    ))
}

fn field_type(home: &KeyspaceEntry, of: &ast::TypeSyntax<'_>) -> Result<ColumnType> {
    match of.kind {
        TypeKind::Native(Native::Counter) => Err(invalid("A user type cannot contain counters")),
        TypeKind::User(_) => Err(invalid("A user type cannot contain non-frozen UDTs")),
        _ => resolve(home, of, false),
    }
}

/// Updates all uses of a user type to its current definition.
fn refresh_uses(home: &mut KeyspaceEntry, name: &str) {
    let Some(changed) = home.user_type(name).map(|t| t.user_type(&home.name)) else { return };
    let again = |of: &mut ColumnType| of.value_type = refresh(&of.value_type, &changed);
    for def in home.types.values_mut().filter(|t| t.name != name) {
        Arc::make_mut(def).fields.iter_mut().for_each(|f| again(&mut f.1));
    }
    let renewed = |of: &ColumnType| ColumnType {
        value_type: refresh(&of.value_type, &changed),
        ..of.clone()
    };
    for function in home.functions.values_mut() {
        if function.types().any(|of| mentions(&of.value_type, name)) {
            *function = Arc::new(function.retyped(renewed));
        }
    }
    for aggregate in home.aggregates.values_mut() {
        if aggregate.types().any(|of| mentions(&of.value_type, name)) {
            let aggregate = Arc::make_mut(aggregate);
            let (state, result) = (&mut aggregate.state, &mut aggregate.result);
            aggregate.arguments.iter_mut().chain([state, result]).for_each(again);
        }
    }
    let uses = |t: &TableSchema| {
        t.columns
            .iter()
            .map(|c| &c.of)
            .chain(t.dropped.iter().map(|d| &d.of))
            .any(|of| mentions(&of.value_type, name))
    };
    for table in home.tables.values_mut().filter(|t| t.family().is_none() && uses(t)) {
        let table = Arc::make_mut(table);
        for column in &mut table.columns {
            again(&mut column.of);
            column.mask.iter_mut().flat_map(|m| &mut m.types).for_each(again);
        }
        table.dropped.iter_mut().for_each(|d| again(&mut d.of));
    }
}
