//! Advice for a `SELECT` that is refused because it needs filtering: an index, or another primary
//! key.
//!
//! Invariant: all advice was tested. The definition is applied to a copy of the catalog, and the
//! statement compiles with it.

use std::borrow::Cow;
use std::sync::Arc;

use super::compile::{Compilation, plan as plan_of};
use crate::catalog::{Catalog, TableSchema};
use crate::syntax::ast::{Comparison, Relation, Select, Statement};
use crate::syntax::{parse, quote_if_needed};

/// Maximum number of indexes tried for a statement.
const TRIED: usize = 16;

/// Returns advice about a refused `SELECT`. `None` if `ALLOW FILTERING` would not help either, or
/// if no definition helps.
pub fn of(compilation: &Compilation<'_>) -> Option<String> {
    let Compilation { catalog, keyspace, select, .. } = *compilation;
    if select.allow_filtering || select.relations.is_empty() {
        return None;
    }
    let filtering = Select { allow_filtering: true, ..select.clone() };
    let plan = |catalog: &Arc<Catalog>, select: &Select<'_>| {
        plan_of(&Compilation { catalog, select, ..*compilation }).ok()
    };
    let has_index = plan(catalog, &filtering)?.restrictions.uses_index();
    let table = catalog.table(&select.table, keyspace).ok()?;
    let mut indexes: Vec<(String, Arc<Catalog>)> = vec![];
    // An index on a column of the key would find the same rows as the key.
    let targets: Vec<_> = select.relations.iter().filter_map(|r| target(table, r)).collect();
    let only_keys = targets.iter().all(|t| t.0);
    for (_, target) in targets.into_iter().filter(|t| only_keys || !t.0).take(TRIED) {
        let text = format!("CREATE INDEX ON {} ({target})", place(table));
        if let Some(with) = with_index(catalog, table, &text)
            && !indexes.iter().any(|i| i.0 == text)
        {
            indexes.push((text, with));
        }
    }
    if let Some((text, _)) = indexes.iter().find(|(_, with)| plan(with, select).is_some()) {
        return Some(format!("an index would find these rows: {text}"));
    }
    let keyed = key(table, &select.relations).filter(|key| {
        with_key(catalog, table, key).is_some_and(|with| plan(&with, select).is_some())
    });
    let keyed =
        keyed.map(|key| format!("a table of the same columns with {key} would be read without"));
    let uses =
        |with: &Arc<Catalog>| plan(with, &filtering).is_some_and(|p| p.restrictions.uses_index());
    let helps = match indexes.iter().find(|(_, with)| uses(with)) {
        _ if has_index => Some(
            "an index that is there leaves only the rows that it finds to be filtered".to_owned(),
        ),
        found => found.map(|(text, _)| {
            format!("{text} would leave only the rows that it finds to be filtered")
        }),
    };
    let all: Vec<String> = keyed.into_iter().chain(helps).collect();
    (!all.is_empty()).then(|| all.join(", and "))
}

fn place(table: &TableSchema) -> String {
    format!("{}.{}", quote_if_needed(&table.keyspace), quote_if_needed(&table.name))
}

/// Returns the index target for the relation, and whether it is a column of the primary key.
fn target(table: &TableSchema, relation: &Relation<'_>) -> Option<(bool, String)> {
    let (column, word) = match relation {
        Relation::Compare { column, comparison: Comparison::Eq, .. } => {
            (column, if table.column(&column.text)?.of.is_collection() { "FULL" } else { "" })
        }
        Relation::Contains { column, .. } => (column, ""),
        Relation::ContainsKey { column, .. } => (column, "KEYS"),
        Relation::Element { column, comparison: Comparison::Eq, .. } => (column, "ENTRIES"),
        _ => return None,
    };
    let name = quote_if_needed(&column.text);
    let text = if word.is_empty() { name.into_owned() } else { format!("{word}({name})") };
    Some((table.column(&column.text)?.is_primary_key(), text))
}

fn with_index(catalog: &Catalog, table: &TableSchema, text: &str) -> Option<Arc<Catalog>> {
    let parsed = parse(text).ok()?;
    let Statement::CreateIndex(create) = &parsed.statement else { return None };
    catalog.create_index(create, &table.keyspace).ok().flatten().map(Arc::new)
}

/// Returns a primary key with which the relations name one range of rows. Columns with equality
/// come first, then columns with ranges, then the rest of the old key.
fn key(table: &TableSchema, relations: &[Relation<'_>]) -> Option<String> {
    let (mut equal, mut ranges): (Vec<Cow<'_, str>>, Vec<Cow<'_, str>>) = (vec![], vec![]);
    for relation in relations {
        let (to, name) = match relation {
            Relation::Compare { column, comparison: Comparison::Eq, .. }
            | Relation::In { column, .. } => (&mut equal, column),
            Relation::Compare { column, .. } => (&mut ranges, column),
            _ => return None,
        };
        let name = quote_if_needed(&name.text);
        if !to.contains(&name) {
            to.push(name);
        }
    }
    let old = table.partition().iter().chain(table.clustering()).map(|c| quote_if_needed(&c.name));
    let rest: Vec<_> = old.filter(|c| !equal.contains(c) && !ranges.contains(c)).collect();
    let first = match &equal[..] {
        [] => return None,
        [one] => one.to_string(),
        some => format!("({})", some.join(", ")),
    };
    let all: Vec<_> = std::iter::once(Cow::Owned(first)).chain(ranges).chain(rest).collect();
    Some(format!("PRIMARY KEY ({})", all.join(", ")))
}

/// Returns the catalog with this key for the table.
fn with_key(catalog: &Catalog, table: &TableSchema, key: &str) -> Option<Arc<Catalog>> {
    let column = |c: &crate::catalog::TableColumn| {
        let is_static = if c.is_static() { " static" } else { "" };
        format!("{} {}{is_static}, ", quote_if_needed(&c.name), c.of)
    };
    let columns: String = table.columns().iter().map(column).collect();
    let drop = format!("DROP TABLE {}", place(table));
    let create = format!("CREATE TABLE {} ({columns}{key})", place(table));
    let (drop, create) = (parse(&drop).ok()?, parse(&create).ok()?);
    let (Statement::DropTable(drop), Statement::CreateTable(create)) =
        (&drop.statement, &create.statement)
    else {
        return None;
    };
    let without = catalog.drop_table(drop, &table.keyspace).ok()??;
    without.create_table(create, &table.keyspace, 0).ok().flatten().map(Arc::new)
}
