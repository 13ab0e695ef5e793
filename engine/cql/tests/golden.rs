//! The golden store of the data model, in `format-spec/golden-cql/v1`: every type of CQL, every
//! shape of table, counters, and column families with and without super columns. This version reads
//! all of it, writes the same keys and values, and goes on with it.
//!
//! `FIRN_REWRITE=1` rewrites it, which is right only before a release.
#![allow(clippy::disallowed_methods, reason = "golden files are read as they are")]

use super::common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use common::session_in;
use firn_cql::Session;
use firn_kv::{DbOptions, Env, MemEnv};
use firn_wide::{CfDef, Options, StoreOptions, Wide};

const STATEMENTS: &str = include_str!("data/golden.cql");
const DIR: &str = "db";
const KEYSPACE: &str = "gold";
const QUESTIONS: [&str; 9] = [
    "SELECT JSON * FROM kinds",
    "SELECT JSON * FROM rows_",
    "SELECT JSON writetime(v), writetime(tags), v FROM rows_",
    "SELECT JSON * FROM rows_ WHERE v = 'one'",
    "SELECT JSON p1, c1 FROM rows_ WHERE tags CONTAINS 'blue'",
    "SELECT JSON * FROM by_street",
    "SELECT JSON * FROM counts",
    "SELECT JSON * FROM dense",
    "SELECT JSON * FROM once",
];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format-spec/golden-cql/v1")
}

fn options() -> Options {
    let db = DbOptions {
        background_threads: 0,
        memory_budget: 8 << 20,
        wal_segment: 64 << 10,
        event_log: false,
        ..DbOptions::default()
    };
    Options { store: StoreOptions { db, ..StoreOptions::default() }, ..Options::default() }
}

fn open(env: &MemEnv) -> (Wide, Session) {
    let wide = Wide::open_in(Arc::new(env.clone()), DIR, options()).unwrap();
    (wide.clone(), session_in(wide, KEYSPACE))
}

fn flush(session: &Session) {
    let db = session.engine().store().db();
    db.tree_names().iter().for_each(|name| db.existing_tree(name).unwrap().flush().unwrap());
}

/// Creates the store. The last writes are only in its log, as a kill of the process leaves them.
fn create() -> MemEnv {
    let env = MemEnv::new(12);
    let (wide, session) = open(&env);
    for part in STATEMENTS.split("-- FLUSH\n") {
        for statement in part.lines().filter(|l| !l.starts_with("--")) {
            session.execute(statement, ()).unwrap_or_else(|e| panic!("{statement}: {e}"));
            env.advance(Duration::from_micros(1300));
        }
        flush(&session);
    }
    let mut family = CfDef::new(KEYSPACE, "Posts");
    family.column_type = "Super".to_owned();
    family.comparator_type = "UTF8Type".to_owned();
    family.subcomparator_type = Some("LongType".to_owned());
    wide.system_add_column_family(&family).unwrap();
    let posts = || wide.keyspace(KEYSPACE).unwrap().family("Posts").unwrap();
    for (super_column, name) in [("first", 1i64), ("first", -1), ("second", 7)] {
        let row = posts().row("ann").super_column(super_column).at(1_000 + name);
        row.insert(name.to_be_bytes(), format!("{super_column} {name}")).unwrap();
    }
    flush(&session);
    posts().row("ann").super_column("first").at(2_000).delete((-1i64).to_be_bytes()).unwrap();
    session.execute("INSERT INTO kinds (k, t) VALUES (5, 'in the log')", ()).unwrap();
    session.engine().store().db().sync().unwrap();
    let left = MemEnv::new(0);
    left.create_dir_all(Path::new(DIR)).unwrap();
    env.files().iter().for_each(|f| left.write_file(f, &env.read_file(f).unwrap()).unwrap());
    left
}

/// Returns the answers to all questions, and the columns of the super column family.
fn answers(wide: &Wide, session: &Session) -> String {
    let mut out = String::new();
    for question in QUESTIONS {
        out += &format!("{question}\n");
        let rows = session.execute(question, ()).unwrap_or_else(|e| panic!("{question}: {e}"));
        for row in rows.iter() {
            out += &format!("  {}\n", String::from_utf8_lossy(row.bytes(0).unwrap()));
        }
    }
    for super_column in ["first", "second"] {
        let posts = wide.keyspace(KEYSPACE).unwrap().family("Posts").unwrap();
        for column in posts.row("ann").super_column(super_column).slice().columns().unwrap() {
            let column = column.unwrap();
            let name = i64::from_be_bytes(column.name.as_slice().try_into().unwrap());
            let value = String::from_utf8_lossy(&column.value).into_owned();
            out += &format!("ann {super_column} {name} at {}: {value}\n", column.timestamp);
        }
    }
    out
}

/// Keys and values of a tree, in order.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns the keys and values of all trees, which must be the same whatever a version does to its
/// tables.
fn trees(session: &Session) -> BTreeMap<String, Pairs> {
    let db = session.engine().store().db();
    let pairs = |name: &String| {
        let tree = db.existing_tree(name).unwrap();
        tree.iter().map(|p| p.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect()
    };
    db.tree_names().iter().map(|name| (name.clone(), pairs(name))).collect()
}

/// Returns a copy of the golden store in memory.
fn copy() -> MemEnv {
    let env = MemEnv::new(2);
    env.create_dir_all(Path::new(DIR)).unwrap();
    for file in std::fs::read_dir(golden().join("store")).unwrap() {
        let path = file.unwrap().path();
        let to = Path::new(DIR).join(path.file_name().unwrap());
        env.write_file(&to, &std::fs::read(&path).unwrap()).unwrap();
    }
    env
}

#[test]
fn the_golden_store_is_read_written_the_same_and_continued() {
    let made = create();
    if std::env::var_os("FIRN_REWRITE").is_some_and(|v| v != "0" && !v.is_empty()) {
        std::fs::remove_dir_all(golden()).ok();
        std::fs::create_dir_all(golden().join("store")).unwrap();
        for file in made.files() {
            let to = golden().join("store").join(file.file_name().unwrap());
            std::fs::write(to, made.read_file(&file).unwrap()).unwrap();
        }
        let (wide, session) = open(&copy());
        std::fs::write(golden().join("answers.txt"), answers(&wide, &session)).unwrap();
    }
    let expected = std::fs::read_to_string(golden().join("answers.txt")).unwrap();
    let env = copy();
    let (wide, session) = open(&env);
    assert_eq!(answers(&wide, &session), expected);
    // A new store of the same statements has the same keys and values, byte for byte.
    let (_, fresh) = open(&made);
    let (old, new) = (trees(&session), trees(&fresh));
    assert_eq!(old.keys().collect::<Vec<_>>(), new.keys().collect::<Vec<_>>());
    for (name, pairs) in &old {
        assert!(*pairs == new[name], "tree {name:?} has other keys or values");
    }
    assert!(old.values().map(Vec::len).sum::<usize>() > 60);
    // It goes on: writes, flushes, compactions, and another opening.
    session.execute("INSERT INTO kinds (k, t) VALUES (6, 'new')", ()).unwrap();
    session.execute("UPDATE counts SET seen = seen + 100 WHERE k = 'a' AND c = 1", ()).unwrap();
    session.execute("ALTER TABLE dense WITH comment = 'changed'", ()).unwrap();
    let changed = answers(&wide, &session);
    assert!(changed != expected && changed.contains("\"seen\": 111"), "{changed}");
    flush(&session);
    let db = session.engine().store().db();
    db.tree_names().iter().for_each(|name| db.existing_tree(name).unwrap().compact().unwrap());
    assert_eq!(answers(&wide, &session), changed);
    assert!(db.verify(|_, _| ()).unwrap().errors.is_empty());
    session.close().unwrap();
    drop((wide, session));
    let (wide, session) = open(&env);
    assert_eq!(answers(&wide, &session), changed);
}
