//! Schema migration: the definitions of one side in an order that the other side accepts, and their
//! creation there.
//!
//! Invariants: keyspaces, types and tables come before the data, indexes and views after it, so
//! that each is built once. Existing definitions are not changed. An existing table with other
//! columns is refused before any data is sent.

use std::collections::BTreeSet;

use firn_cluster::Session;
use firn_cql::quote_if_needed;
use firn_table_events::cql_trouble;
use firn_tools::output::{Done, Failure};

/// The phase in which a definition is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionPhase {
    /// Before the data.
    Before,
    /// After the data.
    After,
    /// Never: the other side does not support it.
    Never,
}

/// A definition to migrate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedDefinition {
    /// Its type as in `DESCRIBE`: `keyspace`, `type`, `table`, `index`, `materialized_view`,
    /// `function`, `aggregate`.
    pub kind: String,
    /// Its keyspace, or the keyspace itself.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// The statement that creates it if it is missing.
    pub text: String,
    /// The phase in which it is created.
    pub phase: DefinitionPhase,
}

/// The words before `IF NOT EXISTS`, by type.
const BEGINNINGS: [(&str, &str); 8] = [
    ("keyspace", "CREATE KEYSPACE "),
    ("type", "CREATE TYPE "),
    ("table", "CREATE TABLE "),
    ("index", "CREATE INDEX "),
    ("index", "CREATE CUSTOM INDEX "),
    ("materialized_view", "CREATE MATERIALIZED VIEW "),
    ("function", "CREATE FUNCTION "),
    ("aggregate", "CREATE AGGREGATE "),
];

const GUARD: &str = "IF NOT EXISTS ";
const REPLICATION: &str = " WITH replication = ";

/// Parses a replication of the user: a number of replicas in each data centre, or a CQL map.
///
/// # Errors
/// A text that is neither.
pub fn replication(text: &str) -> Done<String> {
    let text = text.trim();
    if text.parse::<u16>().is_ok_and(|n| n > 0) {
        return Ok(format!("{{'class': 'NetworkTopologyStrategy', 'replication_factor': {text}}}"));
    }
    let statement = format!("CREATE KEYSPACE k{REPLICATION}{text}");
    match text.starts_with('{') && firn_cql::internals::syntax::parse(&statement).is_ok() {
        true => Ok(text.to_owned()),
        false => Err(Failure::with_next(
            format!("{text:?} is no replication"),
            "write a number of replicas, as 3, or a map, as \"{'class': 'NetworkTopologyStrategy', 'dc1': 3}\"",
        )),
    }
}

/// Returns the statement with IF NOT EXISTS.
fn guarded(kind: &str, text: &str) -> Option<String> {
    let begins = |(of, words): &&(&str, &str)| *of == kind && text.starts_with(words);
    let (_, words) = BEGINNINGS.iter().find(begins)?;
    Some(format!("{words}{GUARD}{}", &text[words.len()..]))
}

/// Returns the statement of a keyspace with this replication.
fn with_replication(text: &str, replication: &str) -> Option<String> {
    let (head, rest) = text.split_once(REPLICATION)?;
    let (_, tail) = rest.split_once('}')?;
    Some(format!("{head}{REPLICATION}{replication}{tail}"))
}

/// Formats a table's name in CQL.
pub fn full_name(keyspace: &str, table: &str) -> String {
    format!("{}.{}", quote_if_needed(keyspace), quote_if_needed(table))
}

/// Returns the result of `DESCRIBE`.
fn described(session: &Session, what: &str) -> Done<Vec<(String, String, String, String)>> {
    let rows = session.execute(&format!("DESCRIBE {what}"), ()).map_err(|e| cql_trouble(&e))?;
    let rows: Vec<(String, String, String, String)> = rows.typed().map_err(|e| cql_trouble(&e))?;
    let named = rows.into_iter().map(|(keyspace, kind, name, text)| {
        // Functions have their types in the name.
        let is_signed = matches!(&*kind, "function" | "aggregate");
        let name = if is_signed { name } else { without_quotes(name) };
        (without_quotes(keyspace), kind, name, text)
    });
    Ok(named.collect())
}

/// Removes the quotes that `DESCRIBE` adds to some names.
fn without_quotes(name: String) -> String {
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => name,
    }
}

/// Returns the definitions of `tables` (each a keyspace and a name), with their keyspaces and all
/// types and functions of these, in an order that can be executed. `replication` replaces that of
/// the keyspaces.
///
/// # Errors
/// Errors of describing them.
pub fn definitions(
    session: &Session,
    tables: &[(String, String)],
    replication: Option<&str>,
) -> Done<Vec<CarriedDefinition>> {
    let keyspaces: BTreeSet<&str> = tables.iter().map(|(keyspace, _)| &**keyspace).collect();
    let mut all = vec![];
    let mut add = |row: (String, String, String, String)| {
        let (keyspace, kind, name, mut text) = row;
        if let (true, Some(replication)) = (kind == "keyspace", replication) {
            text = with_replication(&text, replication).unwrap_or(text);
        }
        let guarded = guarded(&kind, &text);
        let phase = match (&*kind, &guarded) {
            ("keyspace" | "type" | "table", Some(_)) => DefinitionPhase::Before,
            ("index" | "materialized_view", Some(_)) => DefinitionPhase::After,
            _ => DefinitionPhase::Never,
        };
        let text = guarded.unwrap_or(text);
        all.push(CarriedDefinition { kind, keyspace, name, text, phase });
    };
    for keyspace in keyspaces {
        let of = described(session, &format!("KEYSPACE {}", quote_if_needed(keyspace)))?;
        let is_shared = |kind: &str| matches!(kind, "keyspace" | "type" | "function" | "aggregate");
        of.into_iter().filter(|row| is_shared(&row.1)).for_each(&mut add);
    }
    for (keyspace, table) in tables {
        let of = described(session, &format!("TABLE {}", full_name(keyspace, table)))?;
        of.into_iter().for_each(&mut add);
    }
    all.sort_by_key(|d| match d.phase {
        DefinitionPhase::Before => 0,
        DefinitionPhase::After => 1,
        DefinitionPhase::Never => 2,
    });
    Ok(all)
}

/// Creates a definition unless it exists.
///
/// # Errors
/// Errors of the statement.
pub fn define(session: &Session, definition: &CarriedDefinition) -> Done {
    let done = session.execute(&definition.text, ());
    done.map(drop).map_err(|e| {
        let what = format!("{} {}: {}", definition.kind, definition.name, e.text());
        Failure::with_next(
            what,
            "create it there by hand and run this again: existing definitions are not changed",
        )
    })
}

/// The columns of a table on one side: name, kind, position within its kind, order, type.
type ReadColumn = (String, String, i32, String, String);

fn columns(session: &Session, keyspace: &str, table: &str) -> Done<BTreeSet<ReadColumn>> {
    let cql = "SELECT column_name, kind, position, clustering_order, type FROM system_schema.columns \
               WHERE keyspace_name = ? AND table_name = ?";
    let rows = session.execute(cql, (keyspace, table)).map_err(|e| cql_trouble(&e))?;
    Ok(rows.typed().map_err(|e| cql_trouble(&e))?.into_iter().collect())
}

/// Reports whether a side has a table.
///
/// # Errors
/// Errors of reading the schema.
pub fn has_table(session: &Session, keyspace: &str, table: &str) -> Done<bool> {
    Ok(!columns(session, keyspace, table)?.is_empty())
}

/// Returns an error if the target has the table with other columns than the source.
///
/// # Errors
/// The columns that differ; errors of reading the schema.
pub fn check_columns(source: &Session, target: &Session, keyspace: &str, table: &str) -> Done {
    let (here, there) = (columns(source, keyspace, table)?, columns(target, keyspace, table)?);
    let words = |c: &ReadColumn| format!("{} {} ({})", c.0, c.4, c.1);
    let missing: Vec<_> = here.difference(&there).map(words).collect();
    let more: Vec<_> = there.difference(&here).map(words).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut what =
        format!("{} is there without {}", full_name(keyspace, table), missing.join(", "));
    if !more.is_empty() {
        what.push_str(&format!(", but with {}", more.join(", ")));
    }
    Err(Failure::with_next(what, "drop it there, or give it the same columns"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_have_the_names_of_what_they_define() {
        let session: Session = firn_cql::Session::in_memory().unwrap().into();
        for cql in [
            "CREATE KEYSPACE \"K\" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TYPE \"K\".\"a \"\"type\" (a int)",
            "CREATE TABLE \"K\".\"T\" (a int PRIMARY KEY)",
            "CREATE TABLE \"K\".plain (a int PRIMARY KEY)",
        ] {
            session.execute(cql, ()).unwrap();
        }
        let tables = ["T", "plain"].map(|table| ("K".to_owned(), table.to_owned()));
        let all = definitions(&session, &tables, None).unwrap();
        let names: Vec<(&str, &str)> = all.iter().map(|d| (&*d.keyspace, &*d.name)).collect();
        assert_eq!(names, [("K", "K"), ("K", "a \"type"), ("K", "T"), ("K", "plain")]);
    }

    #[test]
    fn statements_make_what_is_missing_only() {
        let text = "CREATE CUSTOM INDEX i ON k.t (v) USING 'C';";
        let guarded_text = "CREATE CUSTOM INDEX IF NOT EXISTS i ON k.t (v) USING 'C';";
        assert_eq!(guarded("index", text).unwrap(), guarded_text);
        assert_eq!(guarded("table", "/*\nWarning: …"), None);
    }

    #[test]
    fn a_keyspace_gets_the_replication_that_is_asked_for() {
        let text = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': '1'} AND durable_writes = true;";
        let other = with_replication(text, &replication("3").unwrap()).unwrap();
        assert_eq!(
            other,
            "CREATE KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 3} AND durable_writes = true;"
        );
        assert!(replication("{'class': 'NetworkTopologyStrategy', 'dc1': 2}").is_ok());
        for wrong in ["", "0", "-1", "three", "{'class'", "{} AND durable_writes = false; x"] {
            assert!(replication(wrong).is_err(), "{wrong:?}");
        }
    }
}
