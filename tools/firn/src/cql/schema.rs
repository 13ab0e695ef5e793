//! Names of the defined objects, for completion. They are read from the system tables, which Firn's
//! stores and servers have, and Cassandra's from 3.0.

use std::collections::BTreeMap;

use firn_cql::{Row, Rows};

use super::backend::{ShellBackend, every_page};

/// Names of all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellSchema {
    /// Keyspaces by name.
    pub keyspaces: BTreeMap<String, KeyspaceNames>,
    /// Roles.
    pub roles: Vec<String>,
}

/// Names of a keyspace's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceNames {
    /// Tables with their columns.
    pub tables: BTreeMap<String, Vec<String>>,
    /// User types.
    pub types: Vec<String>,
    /// Indexes.
    pub indexes: Vec<String>,
    /// Functions.
    pub functions: Vec<String>,
    /// Aggregates.
    pub aggregates: Vec<String>,
}

impl ShellSchema {
    /// Reads the names. Objects that are missing or not readable are left out.
    pub fn read<B: ShellBackend>(backend: &mut B) -> ShellSchema {
        let mut schema = ShellSchema::default();
        let mut each = |statement: &str, add: &mut dyn FnMut(&mut ShellSchema, Vec<String>)| {
            for page in every_page(backend, statement).unwrap_or_default() {
                page.iter().for_each(|row| add(&mut schema, texts(row, &page)));
            }
        };
        each("SELECT keyspace_name FROM system_schema.keyspaces", &mut |schema, texts| {
            let [keyspace] = texts.try_into().unwrap_or_default();
            schema.keyspaces.entry(keyspace).or_default();
        });
        each(
            "SELECT keyspace_name, table_name, column_name FROM system_schema.columns",
            &mut |schema, texts| {
                let [keyspace, table, column] = texts.try_into().unwrap_or_default();
                let keyspace = schema.keyspaces.entry(keyspace).or_default();
                keyspace.tables.entry(table).or_default().push(column);
            },
        );
        each("SELECT keyspace_name, type_name FROM system_schema.types", &mut |schema, texts| {
            let [keyspace, name] = texts.try_into().unwrap_or_default();
            schema.keyspaces.entry(keyspace).or_default().types.push(name);
        });
        each(
            "SELECT keyspace_name, index_name FROM system_schema.indexes",
            &mut |schema, texts| {
                let [keyspace, name] = texts.try_into().unwrap_or_default();
                schema.keyspaces.entry(keyspace).or_default().indexes.push(name);
            },
        );
        each(
            "SELECT keyspace_name, function_name FROM system_schema.functions",
            &mut |schema, texts| {
                let [keyspace, name] = texts.try_into().unwrap_or_default();
                schema.keyspaces.entry(keyspace).or_default().functions.push(name);
            },
        );
        each(
            "SELECT keyspace_name, aggregate_name FROM system_schema.aggregates",
            &mut |schema, texts| {
                let [keyspace, name] = texts.try_into().unwrap_or_default();
                schema.keyspaces.entry(keyspace).or_default().aggregates.push(name);
            },
        );
        each("SELECT role FROM system_auth.roles", &mut |schema, mut texts| {
            schema.roles.append(&mut texts);
        });
        schema
    }
}

/// Returns the texts of a row.
fn texts(row: Row<'_>, page: &Rows) -> Vec<String> {
    let text = |at: usize| String::from_utf8_lossy(row.bytes(at).unwrap_or_default()).into_owned();
    (0..page.columns().len()).map(text).collect()
}
