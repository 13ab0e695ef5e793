//! Definitions: what one side has, in an order in which the other takes them, and how they are made
//! there.
//!
//! Invariants: keyspaces, types and tables come before data, indexes and views behind it, so that each
//! is built once. What is there already stays as it is; a table that is there with other columns is
//! refused before any data is sent.

use std::collections::BTreeSet;

use firn_cluster::Session;
use firn_cql::quote_if_needed;
use firn_table_events::cql_trouble;
use firn_tools::output::{Done, Failure};

/// When a definition is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionPhase {
    /// Before data.
    Before,
    /// Behind it.
    After,
    /// Not at all: the other side would not understand it.
    Never,
}

/// A definition that is carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedDefinition {
    /// What it defines, as `DESCRIBE` calls it: `keyspace`, `type`, `table`, `index`,
    /// `materialized_view`, `function`, `aggregate`.
    pub kind: String,
    /// The keyspace that it is in, or that it is.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// The statement that makes it where it is missing.
    pub text: String,
    /// When it is made.
    pub phase: DefinitionPhase,
}

/// The words behind which `IF NOT EXISTS` stands, by kinds.
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

/// The replication that a user writes: a number of replicas in each data centre, or a map of CQL.
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

/// A statement that does nothing where what it defines is there.
fn guarded(kind: &str, text: &str) -> Option<String> {
    let begins = |(of, words): &&(&str, &str)| *of == kind && text.starts_with(words);
    let (_, words) = BEGINNINGS.iter().find(begins)?;
    Some(format!("{words}{GUARD}{}", &text[words.len()..]))
}

/// The statement of a keyspace, with this replication.
fn with_replication(text: &str, replication: &str) -> Option<String> {
    let (head, rest) = text.split_once(REPLICATION)?;
    let (_, tail) = rest.split_once('}')?;
    Some(format!("{head}{REPLICATION}{replication}{tail}"))
}

/// A table's name, as CQL writes it.
pub fn full_name(keyspace: &str, table: &str) -> String {
    format!("{}.{}", quote_if_needed(keyspace), quote_if_needed(table))
}

/// What `DESCRIBE` says.
fn described(session: &Session, what: &str) -> Done<Vec<(String, String, String, String)>> {
    let rows = session.execute(&format!("DESCRIBE {what}"), ()).map_err(|e| cql_trouble(&e))?;
    let rows: Vec<(String, String, String, String)> = rows.typed().map_err(|e| cql_trouble(&e))?;
    let named = rows.into_iter().map(|(keyspace, kind, name, text)| {
        // Functions come with their types.
        let is_signed = matches!(&*kind, "function" | "aggregate");
        let name = if is_signed { name } else { without_quotes(name) };
        (without_quotes(keyspace), kind, name, text)
    });
    Ok(named.collect())
}

/// A name without the quotes that `DESCRIBE` writes it in where it needs some.
fn without_quotes(name: String) -> String {
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => name,
    }
}

/// The definitions of `tables`, each a keyspace and a name, with their keyspaces and all that these
/// have of types and functions, in the order in which they can be made. `replication`: of keyspaces,
/// instead of their own.
///
/// # Errors
/// What a session says that can't describe them.
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

/// Makes what a definition defines, unless it is there.
///
/// # Errors
/// What the session says of the statement.
pub fn define(session: &Session, definition: &CarriedDefinition) -> Done {
    let done = session.execute(&definition.text, ());
    done.map(drop).map_err(|e| {
        let what = format!("{} {}: {}", definition.kind, definition.name, e.text());
        Failure::with_next(
            what,
            "make it there by hand, as it should be, and run this again: what is there is kept",
        )
    })
}

/// The columns of a table as a side tells of them: name, kind, place within its kind, order, type.
type ToldColumn = (String, String, i32, String, String);

fn columns(session: &Session, keyspace: &str, table: &str) -> Done<BTreeSet<ToldColumn>> {
    let cql = "SELECT column_name, kind, position, clustering_order, type FROM system_schema.columns \
               WHERE keyspace_name = ? AND table_name = ?";
    let rows = session.execute(cql, (keyspace, table)).map_err(|e| cql_trouble(&e))?;
    Ok(rows.typed().map_err(|e| cql_trouble(&e))?.into_iter().collect())
}

/// Whether a side has a table.
///
/// # Errors
/// Those of reading about it.
pub fn has_table(session: &Session, keyspace: &str, table: &str) -> Done<bool> {
    Ok(!columns(session, keyspace, table)?.is_empty())
}

/// Refuses a table that the target has with other columns than the source.
///
/// # Errors
/// The columns that differ, and those of reading about them.
pub fn check_columns(source: &Session, target: &Session, keyspace: &str, table: &str) -> Done {
    let (here, there) = (columns(source, keyspace, table)?, columns(target, keyspace, table)?);
    let told = |c: &ToldColumn| format!("{} {} ({})", c.0, c.4, c.1);
    let missing: Vec<_> = here.difference(&there).map(told).collect();
    let more: Vec<_> = there.difference(&here).map(told).collect();
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
