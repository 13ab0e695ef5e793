//! Warnings about parts of a definition that have no effect.

use firn_wide::Type;

use crate::catalog::{Catalog, DATACENTER, IndexClass, TableOptions, foreign_option};
use crate::syntax::ast::{CreateIndex, PropertyValue, Statement, TableChange, TableProperty};

const OF_VECTORS: &str = "SAI ANN indexes on vector columns are experimental and are not recommended for production use.\nThey don't yet support SELECT queries with:\n * Consistency level higher than ONE/LOCAL_ONE.\n * Paging.\n * No LIMIT clauses.\n * PER PARTITION LIMIT clauses.\n * GROUP BY clauses.\n * Aggregation functions.\n * Filters on columns without a SAI index.";

/// Returns warnings about parts of an executed definition that have no effect.
pub(super) fn of_definition(
    statement: &Statement<'_>,
    catalog: &Catalog,
    keyspace: &str,
) -> Vec<String> {
    match statement {
        Statement::CreateIndex(s) => of_index(s, catalog, keyspace).into_iter().collect(),
        Statement::CreateKeyspace(s) => of_keyspace(&s.name.text, &s.properties),
        Statement::AlterKeyspace(s) => of_keyspace(&s.name.text, &s.properties),
        Statement::CreateTable(s) => of_table(&s.name.name.text, &s.properties),
        Statement::AlterTable(s) => match &s.change {
            TableChange::With(properties) => of_table(&s.name.name.text, properties),
            _ => vec![],
        },
        _ => vec![],
    }
}

/// Returns Cassandra's warning about indexes of this class.
fn of_index(index: &CreateIndex<'_>, catalog: &Catalog, keyspace: &str) -> Option<String> {
    match IndexClass::named(index.class.as_deref()?)? {
        IndexClass::Local => None,
        IndexClass::Sasi => Some(
            "SASI indexes are experimental and are not recommended for production use.".to_owned(),
        ),
        IndexClass::StorageAttached => {
            let table = catalog.keyspace(keyspace)?.table(&index.table.name.text)?;
            let column = table.column(&index.targets.first()?.column.text)?;
            matches!(column.of.value_type, Type::Vector(..)).then(|| OF_VECTORS.to_owned())
        }
    }
}

fn of_keyspace(name: &str, properties: &[TableProperty<'_>]) -> Vec<String> {
    let mut all = foreign("keyspace", name, properties);
    for property in properties.iter().filter(|p| foreign_option(&p.name.text).is_none()) {
        let text = match &property.value {
            PropertyValue::Map(pairs) => {
                let is_simple = |class: &str| class.ends_with("SimpleStrategy");
                let simple = pairs.iter().any(|(k, v)| k.text == "class" && is_simple(&v.text));
                let factors = pairs.iter().filter(|(k, _)| k.text != "class");
                for (place, factor) in factors {
                    let Some(factor) = factor.text.parse().ok().filter(|n: &u32| *n > 1) else {
                        continue;
                    };
                    let place =
                        if place.text == "replication_factor" { DATACENTER } else { &place.text };
                    let of =
                        if simple { String::new() } else { format!(" for datacenter {place}") };
                    all.push(format!(
                        "Your replication factor {factor} for keyspace {name} is higher than the number of nodes 1{of}"
                    ));
                }
                continue;
            }
            PropertyValue::Constant(c) => &c.text,
            PropertyValue::Word(word) => word,
        };
        if ["false", "no", "0"].iter().any(|no| no.eq_ignore_ascii_case(text)) {
            all.push(format!(
                "durable_writes of keyspace {name} is stored and shown, but has no effect here: all writes are in the log"
            ));
        }
    }
    all
}

/// Returns warnings about options of other releases and databases.
fn foreign(kind: &str, name: &str, properties: &[TableProperty<'_>]) -> Vec<String> {
    let each = properties.iter().filter_map(|p| {
        let option = &p.name.text;
        let (whose, done) = foreign_option(option)?;
        Some(format!("Option {option} of {kind} {name} belongs to {whose}: it {done}"))
    });
    each.collect()
}

fn of_table(name: &str, properties: &[TableProperty<'_>]) -> Vec<String> {
    // The table was created with these options, so they are valid.
    let given = TableOptions::default().with(properties).unwrap_or_default();
    let mut all = foreign("table", name, properties);
    let idle = given.without_effect();
    if !idle.is_empty() {
        let idle = idle.join(", ");
        all.push(format!(
            "Options of table {name} that are stored and shown, but have no effect here: {idle}"
        ));
    }
    all
}
