//! `DESCRIBE`: renders definitions as the statements that create them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::engine::Engine;
use super::functions::{aggregate_text, function_text};
use super::masks::mask_text;
use super::rows::Rows;
use crate::catalog::{
    Catalog, ColumnType, DroppedColumn, KeyspaceEntry, TableColumn, TableIndex, TableSchema,
    TypeDef, ViewSchema, keyspace_of, quoted_map, system_keyspaces, without_user_types,
};
use crate::error::{Result, invalid};
use crate::syntax::ast::{Describe, DescribedObject, QualifiedName, SchemaObject};
use crate::syntax::{quote_if_needed, quote_type_if_needed};

const STATEMENTS: [&str; 4] = ["keyspace_name", "type", "name", "create_statement"];
const NAMES: [&str; 3] = ["keyspace_name", "type", "name"];

fn quoted(name: &str) -> String {
    quote_if_needed(name).into_owned()
}

fn keyspace_text(keyspace: &KeyspaceEntry) -> String {
    let mut replication = keyspace.replication.clone();
    if let Some(class) = replication.get_mut("class")
        && let Some(short) = class.strip_prefix("org.apache.cassandra.locator.")
    {
        *class = short.to_owned();
    }
    if keyspace.is_virtual() {
        let name = quoted(&keyspace.name);
        return format!(
            "/*\nWarning: Keyspace {name} is a virtual keyspace and cannot be recreated with CQL.\nStructure, for reference:\n\
             VIRTUAL KEYSPACE {name};\n*/"
        );
    }
    format!(
        "CREATE KEYSPACE {} WITH replication = {} AND durable_writes = {};",
        quoted(&keyspace.name),
        quoted_map(&replication),
        keyspace.durable_writes
    )
}

fn type_text(keyspace: &str, def: &TypeDef) -> String {
    let fields: Vec<_> = def.fields.iter().map(|(n, t)| format!("    {} {t}", quoted(n))).collect();
    format!(
        "CREATE TYPE {}.{} (\n{}\n);",
        quoted(keyspace),
        quote_type_if_needed(&def.name),
        fields.join(",\n")
    )
}

fn index_text(table: &TableSchema, index: &TableIndex) -> String {
    let target = index.target_text();
    let place = format!("{}.{}", quoted(&table.keyspace), quoted(&table.name));
    let mut text = format!("INDEX {} ON {place} ({target})", quoted(&index.name));
    if let Some(class) = &index.class {
        text = format!("CUSTOM {text} USING '{class}'");
        if !index.options.is_empty() {
            text.push_str(&format!(" WITH OPTIONS = {}", quoted_map(&index.options)));
        }
    }
    format!("CREATE {text};")
}

/// Returns the `CREATE MATERIALIZED VIEW` statement of this view.
fn create_view_text(table: &TableSchema, view: &ViewSchema, with_internals: bool) -> String {
    let place = |name: &str| format!("{}.{}", quoted(&table.keyspace), quoted(name));
    let columns: Vec<String> = table.columns().iter().map(|c| quoted(&c.name)).collect();
    let selection = if view.all_columns { "*".to_owned() } else { columns.join(", ") };
    let key = key_text(table);
    let clauses = clauses(table, with_internals);
    format!(
        "CREATE MATERIALIZED VIEW {} AS\n    SELECT {selection}\n    FROM {}\n    WHERE {}\n    {key}\n WITH {};",
        place(&table.name),
        place(&view.base_name),
        view.where_clause,
        clauses.join("\n    AND ")
    )
}

/// Returns `PRIMARY KEY (…)`.
fn key_text(table: &TableSchema) -> String {
    let names =
        |columns: &[TableColumn]| columns.iter().map(|c| quoted(&c.name)).collect::<Vec<_>>();
    let (partition, clustering) = (table.partition(), table.clustering());
    let key = names(partition).join(", ");
    let first = if partition.len() == 1 { key } else { format!("({key})") };
    let all: Vec<_> = std::iter::once(first).chain(names(clustering)).collect();
    format!("PRIMARY KEY ({})", all.join(", "))
}

/// Returns the clauses of `WITH`.
fn clauses(table: &TableSchema, with_internals: bool) -> Vec<String> {
    let clustering = table.clustering();
    let mut clauses = vec![];
    if with_internals {
        clauses.push(format!("ID = {}", table.uuid));
    }
    if table.is_compact() {
        clauses.push("COMPACT STORAGE".to_owned());
    }
    if !clustering.is_empty() {
        let order = |c: &TableColumn| {
            format!("{} {}", quoted(&c.name), if c.descending { "DESC" } else { "ASC" })
        };
        let orders: Vec<_> = clustering.iter().map(order).collect();
        clauses.push(format!("CLUSTERING ORDER BY ({})", orders.join(", ")));
    }
    // Data in a view expires with that of its base table.
    let is_own =
        |clause: &String| table.view().is_none() || !clause.starts_with("default_time_to_live = ");
    clauses.extend(table.options.clauses().into_iter().filter(is_own));
    clauses
}

/// Returns the columns of a table in the order of `CREATE TABLE`. Among the columns outside the
/// key, single-cell ones come before collections and user types.
fn create_order(table: &TableSchema) -> Vec<&TableColumn> {
    let mut columns: Vec<&TableColumn> = table.columns().iter().collect();
    let keys = table.partition().len() + table.clustering().len();
    columns[keys..].sort_by_key(|c| (!c.is_static(), c.of.multicell));
    columns
}

fn column_text(column: &TableColumn) -> String {
    let mut text = format!("{} {}", quoted(&column.name), column.of);
    if column.is_static() {
        text.push_str(" static");
    }
    if let Some(mask) = &column.mask {
        text.push_str(&format!(" {}", mask_text(mask)));
    }
    text
}

/// Returns the dropped columns, the last of each name.
fn dropped_columns(table: &TableSchema) -> Vec<&DroppedColumn> {
    let mut last: BTreeMap<&str, &DroppedColumn> = BTreeMap::new();
    last.extend(table.dropped().iter().map(|d| (d.name.as_str(), d)));
    last.into_values().collect()
}

/// Renders a dropped column. It names no user types, because these may have been dropped.
fn dropped_text(column: &DroppedColumn) -> String {
    let of =
        ColumnType { value_type: without_user_types(&column.of.value_type), ..column.of.clone() };
    let is_static = if column.is_static { " static" } else { "" };
    format!("{} {of}{is_static}", quoted(&column.name))
}

/// Returns the `CREATE TABLE` statement of this table, without its indexes and views. With
/// internals it includes the table's id and its dropped columns.
pub fn create_table_text(table: &TableSchema, with_internals: bool) -> String {
    let (partition, clustering) = (table.partition(), table.clustering());
    let only = partition.len() == 1 && clustering.is_empty();
    let dropped = if with_internals { dropped_columns(table) } else { vec![] };
    let mut lines: Vec<String> = vec![];
    for column in create_order(table) {
        // A column that was dropped and added again comes below, as both in turn.
        if dropped.iter().any(|d| d.name == column.name) {
            continue;
        }
        let end = if only && column.is_primary_key() { " PRIMARY KEY" } else { "" };
        lines.push(format!("    {}{end}", column_text(column)));
    }
    lines.extend(dropped.iter().map(|d| format!("    {}", dropped_text(d))));
    if !only {
        lines.push(format!("    {}", key_text(table)));
    }
    let clauses = clauses(table, with_internals);
    let place = format!("{}.{}", quoted(&table.keyspace), quoted(&table.name));
    let (lines, clauses) = (lines.join(",\n"), clauses.join("\n    AND "));
    if table.is_virtual() {
        let comment = table.options.comment();
        return format!(
            "/*\nWarning: Table {place} is a virtual table and cannot be recreated with CQL.\nStructure, for reference:\n\
             VIRTUAL TABLE {place} (\n{lines}\n) WITH comment = '{comment}';\n*/"
        );
    }
    let mut text = format!("CREATE TABLE {place} (\n{lines}\n) WITH {clauses};");
    for column in dropped {
        let name = quoted(&column.name);
        text.push_str(&format!(
            "\nALTER TABLE {place} DROP {name} USING TIMESTAMP {};",
            column.dropped
        ));
        if let Some(again) = table.column(&column.name) {
            text.push_str(&format!("\nALTER TABLE {place} ADD {};", column_text(again)));
        }
    }
    if table.form().is_some_and(|form| form.is_super) {
        return format!(
            "/*\nWarning: Table {place} is a column family with super columns and cannot be recreated with CQL.\nStructure, for \
             reference:\n{text}\n*/"
        );
    }
    text
}

/// Returns a result row with a statement. The names of functions and aggregates are already quoted.
fn row(keyspace: &str, kind: &str, name: &str, text: String) -> Vec<String> {
    let is_signed = matches!(kind, "function" | "aggregate");
    let name = if is_signed { name.to_owned() } else { quoted(name) };
    vec![quoted(keyspace), kind.to_owned(), name, text]
}

fn view_row(table: &TableSchema, view: &ViewSchema, with_internals: bool) -> Vec<String> {
    let text = create_view_text(table, view, with_internals);
    row(&table.keyspace, "materialized_view", &table.name, text)
}

/// Returns the rows of a table with its indexes and views.
fn table_rows(home: &KeyspaceEntry, table: &TableSchema, with_internals: bool) -> Vec<Vec<String>> {
    let mut rows =
        vec![row(&table.keyspace, "table", &table.name, create_table_text(table, with_internals))];
    rows.extend(
        table
            .indexes()
            .iter()
            .map(|i| row(&table.keyspace, "index", &i.name, index_text(table, i))),
    );
    let views = home.views_of(table.id);
    rows.extend(views.filter_map(|t| Some(view_row(t, t.view()?, with_internals))));
    rows
}

/// Returns the types so that each comes after the types that it uses.
fn ordered_types(keyspace: &KeyspaceEntry) -> Vec<&TypeDef> {
    let mut left: Vec<&TypeDef> = keyspace.types().map(|t| &**t).collect();
    let mut out: Vec<&TypeDef> = vec![];
    while !left.is_empty() {
        let uses =
            |t: &TypeDef, other: &TypeDef| t.fields.iter().any(|f| f.1.mentions(&other.name));
        let (ready, later): (Vec<_>, Vec<_>) =
            left.iter().partition(|t| !left.iter().any(|o| o.name != t.name && uses(t, o)));
        if ready.is_empty() {
            out.extend(later);
            break;
        }
        out.extend(ready);
        left = later;
    }
    out
}

fn function_rows(keyspace: &KeyspaceEntry, is_wanted: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
    let all = keyspace.functions().filter(|f| is_wanted(&f.name));
    all.map(|f| row(&keyspace.name, "function", &f.signed_name(), function_text(f))).collect()
}

fn aggregate_rows(keyspace: &KeyspaceEntry, is_wanted: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
    let all = keyspace.aggregates().filter(|a| is_wanted(&a.name));
    all.map(|a| row(&keyspace.name, "aggregate", &a.signed_name(), aggregate_text(a))).collect()
}

/// Returns names in the order in which Cassandra lists them.
fn signed_names(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort_by_key(|name| name.trim_start_matches('"').to_lowercase());
    names
}

/// Returns the rows, or `None` if there are none.
fn some(rows: Vec<Vec<String>>) -> Option<Vec<Vec<String>>> {
    (!rows.is_empty()).then_some(rows)
}

fn keyspace_rows(keyspace: &KeyspaceEntry, only: bool, with_internals: bool) -> Vec<Vec<String>> {
    let mut rows = vec![row(&keyspace.name, "keyspace", &keyspace.name, keyspace_text(keyspace))];
    if !only {
        rows.extend(
            ordered_types(keyspace)
                .iter()
                .map(|t| row(&keyspace.name, "type", &t.name, type_text(&keyspace.name, t))),
        );
        rows.extend(function_rows(keyspace, |_| true));
        rows.extend(aggregate_rows(keyspace, |_| true));
        let tables = keyspace.tables().filter(|t| t.view().is_none());
        rows.extend(tables.flat_map(|t| table_rows(keyspace, t, with_internals)));
    }
    rows
}

/// Executes a `DESCRIBE`.
pub(super) fn describe(
    engine: &Engine,
    current: Option<&str>,
    statement: &Describe<'_>,
) -> Result<Rows> {
    let catalog = engine.fresh_catalog()?;
    let inside = statement.with_internals;
    let named = |rows: Vec<Vec<String>>| Ok(Rows::texts(&STATEMENTS, rows));
    let of_keyspace = |name: &str, only| {
        let missing = || invalid!("'{name}' not found in keyspaces");
        Ok::<_, crate::error::Error>(keyspace_rows(
            catalog.any_keyspace(name).ok_or_else(missing)?,
            only,
            inside,
        ))
    };
    match &statement.what {
        DescribedObject::Cluster => Ok(Rows::texts(
            &["cluster", "partitioner", "snitch"],
            vec![vec![
                engine.wide().describe_cluster_name().to_owned(),
                engine.partitioner().full_name(),
                engine.wide().describe_snitch().to_owned(),
            ]],
        )),
        DescribedObject::Schema { full } => {
            let system = system_keyspaces().filter(|_| *full);
            let all = catalog.keyspaces().chain(system);
            named(all.flat_map(|k| keyspace_rows(k, false, inside)).collect())
        }
        DescribedObject::Keyspaces => {
            let each =
                |k: &Arc<KeyspaceEntry>| vec![quoted(&k.name), "keyspace".into(), quoted(&k.name)];
            let mut all: Vec<_> = catalog.keyspaces().chain(system_keyspaces()).collect();
            all.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(Rows::texts(&NAMES, all.into_iter().map(each).collect()))
        }
        DescribedObject::Keyspace { only, name } => {
            let none = || invalid("No keyspace specified and no current keyspace");
            named(of_keyspace(
                name.as_ref().map(|n| &*n.text).or(current).ok_or_else(none)?,
                *only,
            )?)
        }
        DescribedObject::All(kind) => Ok(names_of(&catalog, current, *kind)),
        DescribedObject::One(kind, name) => named(one(&catalog, current, name, *kind, inside)?),
        DescribedObject::Any(name) => {
            if name.keyspace.is_none() && catalog.any_keyspace(&name.name.text).is_some() {
                return named(of_keyspace(&name.name.text, false)?);
            }
            let found = one(&catalog, current, name, SchemaObject::Table, inside)
                .or_else(|_| one(&catalog, current, name, SchemaObject::Index, inside))
                .or_else(|_| one(&catalog, current, name, SchemaObject::View, inside));
            let missing = |_| {
                let keyspace = name.keyspace.as_ref().map(|k| &*k.text).or(current);
                invalid(match keyspace {
                    Some(keyspace) => {
                        format!("'{}' not found in keyspace '{keyspace}'", name.name.text)
                    }
                    None => format!("'{}' not found in keyspaces", name.name.text),
                })
            };
            named(found.map_err(missing)?)
        }
    }
}

/// Returns names of one kind in the current keyspace, or in all keyspaces.
fn names_of(catalog: &Catalog, current: Option<&str>, kind: SchemaObject) -> Rows {
    let of = |k: &KeyspaceEntry| -> Vec<String> {
        match kind {
            SchemaObject::Type => k.types().map(|t| quoted(&t.name)).collect(),
            SchemaObject::Function => signed_names(k.functions().map(|f| f.signed_name())),
            SchemaObject::Aggregate => signed_names(k.aggregates().map(|a| a.signed_name())),
            _ => k.tables().filter(|t| t.view().is_none()).map(|t| quoted(&t.name)).collect(),
        }
    };
    let mut all: Vec<_> = catalog.keyspaces().chain(system_keyspaces()).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let chosen = all.into_iter().filter(|k| current.is_none_or(|c| c == k.name));
    let word = kind.word().to_ascii_lowercase();
    let each = |k: &Arc<KeyspaceEntry>| {
        of(k).into_iter().map(|n| vec![quoted(&k.name), word.clone(), n]).collect::<Vec<_>>()
    };
    Rows::texts(&NAMES, chosen.flat_map(each).collect())
}

fn one(
    catalog: &Catalog,
    current: Option<&str>,
    name: &QualifiedName<'_>,
    kind: SchemaObject,
    with_internals: bool,
) -> Result<Vec<Vec<String>>> {
    let home = keyspace_of(name, current)
        .map_err(|_| invalid("No keyspace specified and no current keyspace"))?;
    let wanted = &*name.name.text;
    let keyspace =
        catalog.any_keyspace(home).ok_or_else(|| invalid!("'{home}' not found in keyspaces"))?;
    let table = keyspace.table(wanted);
    let one = |kind, text| vec![row(home, kind, wanted, text)];
    let found = match kind {
        SchemaObject::Table => {
            table.filter(|t| t.view().is_none()).map(|t| table_rows(keyspace, t, with_internals))
        }
        SchemaObject::View => {
            table.and_then(|t| Some(vec![view_row(t, t.view()?, with_internals)]))
        }
        SchemaObject::Index => keyspace.index(wanted).map(|(t, i)| one("index", index_text(t, i))),
        SchemaObject::Type => keyspace.user_type(wanted).map(|t| one("type", type_text(home, t))),
        SchemaObject::Function => some(function_rows(keyspace, |name| name == wanted)),
        SchemaObject::Aggregate => some(aggregate_rows(keyspace, |name| name == wanted)),
    };
    let word = kind.word().to_ascii_lowercase();
    let shown = match kind {
        SchemaObject::Table | SchemaObject::Index => word,
        SchemaObject::View => "Materialized view".to_owned(),
        _ => format!("User defined {word}"),
    };
    found.ok_or_else(|| invalid!("{shown} '{wanted}' not found in '{home}'"))
}
