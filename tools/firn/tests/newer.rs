//! Tests a store with a table of a newer version. Every writing command refuses it and changes no
//! file; reads succeed unless they need that table.
#![allow(clippy::disallowed_methods)] // files are given a version that nobody writes yet

use super::common;

use common::{Ran, Temp};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Position of the version in a table, in bytes from the end.
const VERSION: usize = 12;

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let all = fs::read_dir(dir).unwrap().map(|f| f.unwrap().path());
    all.map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

/// Gives one table at a time a newer version, and runs writing commands on the store.
fn refused(t: &Temp, commands: &[(&[&str], &str)]) {
    let tables: Vec<PathBuf> = files(&t.path("db"))
        .into_keys()
        .filter(|p| p.extension().is_some_and(|e| e == "sst"))
        .collect();
    assert!(tables.len() > 1, "{tables:?}");
    for table in tables {
        let sound = fs::read(&table).unwrap();
        let mut newer = sound.clone();
        let at = newer.len() - VERSION;
        newer[at] += 1;
        fs::write(&table, newer).unwrap();
        let before = files(&t.path("db"));
        for (args, input) in commands {
            let ran = Ran::of(t.run("db", args, input.as_bytes()));
            assert_eq!(ran.0, 2, "{args:?}: {}{}", ran.1, ran.2);
            assert!(
                ran.2.contains("version") && ran.2.contains("use the version of firn"),
                "{args:?}: {}",
                ran.2
            );
            let after = files(&t.path("db"));
            let changed: Vec<_> = after
                .iter()
                .filter(|(name, bytes)| before.get(*name) != Some(bytes))
                .map(|f| f.0)
                .collect();
            assert!(
                changed.is_empty() && after.len() == before.len(),
                "{args:?} has changed {changed:?}"
            );
            assert!(!t.path("copy").exists(), "{args:?}");
        }
        fs::write(&table, sound).unwrap();
    }
}

#[test]
fn a_table_of_a_newer_version_stops_writes_of_keys() {
    let t = Temp::new("newer", "keys");
    for tree in ["a", "b"] {
        Ran::of(t.run("db", &["load", "-", "--tree", tree], b"k\tv\n")).good();
        Ran::of(t.run("db", &["compact", "--tree", tree], b"")).good();
    }
    let make = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};";
    refused(
        &t,
        &[
            (&["load", "-", "--tree", "a"], "new\tv\n"),
            (&["delete", "k", "--tree", "a"], ""),
            (&["delete", "--prefix", "k", "-y", "--tree", "b"], ""),
            (&["compact"], ""),
            (&["compact", "--tree", "a"], ""),
            (&["checkpoint", "copy"], ""),
            (&["cql", "-e", make], ""),
            (&["cli", "-e", "create keyspace Music;"], ""),
            (
                &["define", "-", "--keyspace", "Blog"],
                "<ColumnFamily CompareWith=\"LongType\" Name=\"Numbers\"/>",
            ),
            (&["demo", "bloggy"], ""),
        ],
    );
}

#[test]
fn verify_calls_a_newer_table_newer() {
    let t = Temp::new("newer", "verify");
    Ran::of(t.run("db", &["load", "-"], b"k\tv\n")).good();
    Ran::of(t.run("db", &["compact"], b"")).good();
    let table =
        files(&t.path("db")).into_keys().find(|p| p.extension().is_some_and(|e| e == "sst"));
    let table = table.unwrap();
    let mut bytes = fs::read(&table).unwrap();
    let at = bytes.len() - VERSION;
    bytes[at] += 1;
    fs::write(&table, bytes).unwrap();
    let out = Ran::of(t.run("db", &["verify"], b"")).said(1, &[]);
    assert!(out.contains("newer:") && out.contains("use the version of Firn"), "{out}");
    assert!(!out.contains("damaged:") && !out.contains("permissions"), "{out}");
}

#[test]
fn a_table_of_a_newer_version_stops_writes_of_families_and_tables() {
    let t = Temp::new("newer", "model");
    let make = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.items (id int PRIMARY KEY, name text); INSERT INTO shop.items (id, name) VALUES (1, 'one');";
    Ran::of(t.run("db", &["cql", "-e", make], b"")).good();
    let family =
        "create keyspace Music; use Music; create column family users with comparator = UTF8Type;
        set users['ann']['city'] = 'Rome';";
    Ran::of(t.run("db", &["cli", "-e", family], b"")).good();
    let exported = Ran::of(t.run("db", &["export", "--keyspace", "Music"], b"")).good();
    Ran::of(t.run("db", &["compact"], b"")).good();
    let cql = |statement: &'static str| ["cql", "-e", statement];
    let (insert, drop) =
        (cql("INSERT INTO shop.items (id, name) VALUES (2, 'two')"), cql("DROP TABLE shop.items"));
    refused(
        &t,
        &[
            (&insert, ""),
            (&drop, ""),
            (&["cql", "-e", "COPY shop.items (id, name) FROM STDIN"], "3,three\n"),
            (&["cli", "-k", "Music", "-e", "set users['ben']['city'] = 'Oslo';"], ""),
            (&["import", "-", "--keyspace", "Music"], &exported),
            (
                &["load", "-", "--keyspace", "Music", "--family", "users"],
                "{\"key\":\"x\",\"columns\":{\"city\":\"Bern\"}}\n",
            ),
            (&["load", "-", "--tree", "mine"], "k\tv\n"),
            (&["delete", "k"], ""),
            (&["compact"], ""),
            (&["checkpoint", "copy"], ""),
            (
                &["define", "-", "--keyspace", "Blog"],
                "<ColumnFamily CompareWith=\"LongType\" Name=\"Numbers\"/>",
            ),
            (&["demo", "songs"], ""),
        ],
    );
}
