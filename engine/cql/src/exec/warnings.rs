//! What of a definition has no effect here, for those who made it.

use crate::catalog::{DATACENTER, TableOptions};
use crate::syntax::ast::{PropertyValue, Statement, TableChange, TableProperty};

/// What of a definition, which was made, has no effect.
pub(super) fn of_definition(statement: &Statement<'_>) -> Vec<String> {
    match statement {
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

fn of_keyspace(name: &str, properties: &[TableProperty<'_>]) -> Vec<String> {
    let mut all = vec![];
    for property in properties {
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
                "durable_writes of keyspace {name} is kept and shown, and changes nothing here: all writes are in the log"
            ));
        }
    }
    all
}

fn of_table(name: &str, properties: &[TableProperty<'_>]) -> Vec<String> {
    // It was made of these: they can be.
    let given = TableOptions::default().with(properties).unwrap_or_default();
    let idle = given.without_effect();
    if idle.is_empty() {
        return vec![];
    }
    let idle = idle.join(", ");
    vec![format!(
        "Options of table {name} that are kept and shown, and change nothing here: {idle}"
    )]
}
