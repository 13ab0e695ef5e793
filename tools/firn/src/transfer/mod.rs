//! `firn import` and `firn export` of rows: trees and tables of CQL, and files and stores of others.

mod export;
mod import;

pub use export::{ExportTarget, RowExportArgs, export};
pub use import::{RowImportArgs, import};

use std::sync::Arc;

use firn_cql::Session;
use firn_cql::internals::catalog::TableSchema;
use firn_table_events::cql_trouble;
use firn_tools::output::{Done, Failure};

/// Name of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    keyspace: String,
    table: String,
}

impl TableName {
    /// Parses `KEYSPACE.TABLE`. As in CQL, names in double quotes keep their case.
    pub fn parse(text: &str) -> Result<TableName, String> {
        let (name, rest) = part(text)?;
        let Some(rest) = rest.strip_prefix('.') else {
            return Err("it must be KEYSPACE.TABLE".to_owned());
        };
        match part(rest)? {
            (table, "") => Ok(TableName { keyspace: name, table }),
            _ => Err("it must be KEYSPACE.TABLE".to_owned()),
        }
    }

    /// Returns the definition of the table; `None` if there is none.
    fn schema(&self, session: &Session) -> Done<Option<Arc<TableSchema>>> {
        let catalog = session.engine().fresh_catalog().map_err(|e| cql_trouble(&e))?;
        Ok(catalog.keyspace(&self.keyspace).and_then(|k| k.table(&self.table)).cloned())
    }

    /// Returns the failure for a missing table.
    fn missing(&self, session: &Session, next: &str) -> Failure {
        let catalog = session.engine().catalog();
        let names: Vec<String> =
            catalog.own_tables().map(|t| format!("{}.{}", t.keyspace, t.name)).collect();
        let has = match names.is_empty() {
            true => "no tables".to_owned(),
            false => names.join(", "),
        };
        Failure::with_next(format!("there is no table {self}; the store has {has}"), next)
    }
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let quoted = firn_cql::quote_if_needed;
        write!(f, "{}.{}", quoted(&self.keyspace), quoted(&self.table))
    }
}

/// Splits a name off.
fn part(text: &str) -> Result<(String, &str), String> {
    if let Some(quoted) = text.strip_prefix('"') {
        let (name, rest) = quoted.split_once('"').ok_or("a quote is missing")?;
        return Ok((name.to_owned(), rest));
    }
    let end = text.find('.').unwrap_or(text.len());
    match end {
        0 => Err("it must be KEYSPACE.TABLE".to_owned()),
        _ => Ok((text[..end].to_ascii_lowercase(), &text[end..])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_cql() {
        let parse = |text| TableName::parse(text).map(|t| (t.keyspace, t.table));
        let named = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(parse("Shop.Items"), named("shop", "items"));
        assert_eq!(parse("\"Shop\".\"My.Items\""), named("Shop", "My.Items"));
        for bad in ["shop", "shop.", ".items", "shop.items.x", "\"shop.items", ""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
