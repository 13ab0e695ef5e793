//! Losing a definition loses no data: an opening drops only objects that were dropped by a
//! statement, or were never defined.

use std::sync::Arc;

use firn_cql::Session;
use firn_crash::{CrashEnv, Cut};
use firn_kv::{Db, DbOptions};
use firn_wide::{CfDef, Column, ColumnParent, ColumnPath, KsDef, Options, Wide};

use super::common;
use common::session_in;

fn options() -> Options {
    let mut options = Options::default();
    options.store.db = DbOptions { background_threads: 0, ..DbOptions::default() };
    options
}

fn wide(env: &CrashEnv) -> Wide {
    Wide::open_in(Arc::new(env.clone()), "db", options()).unwrap()
}

fn session(env: &CrashEnv) -> Session {
    session_in(wide(env), "ks")
}

fn count(session: &Session, table: &str) -> usize {
    session.execute(&format!("SELECT * FROM {table}"), ()).unwrap().len()
}

fn trees(env: &CrashEnv) -> Vec<String> {
    let db = Db::open_in(Arc::new(env.clone()), "db", options().store.db).unwrap();
    db.tree_names().into_iter().filter(|n| n.starts_with("cf-")).collect()
}

/// Removes the records with this key prefix from the schema tree, as damage would.
fn lose(env: &CrashEnv, prefix: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let db = Db::open_in(Arc::new(env.clone()), "db", options().store.db).unwrap();
    let schema = db.existing_tree("system.schema").unwrap();
    let lost: Vec<_> = schema
        .prefix(prefix.as_bytes())
        .map(|r| r.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
        .collect();
    lost.iter().for_each(|(k, _)| schema.delete(k).unwrap());
    assert!(!lost.is_empty());
    lost
}

fn find_again(env: &CrashEnv, records: &[(Vec<u8>, Vec<u8>)]) {
    let db = Db::open_in(Arc::new(env.clone()), "db", options().store.db).unwrap();
    let schema = db.existing_tree("system.schema").unwrap();
    records.iter().for_each(|(k, v)| schema.put(k, v).unwrap());
}

fn filled(env: &CrashEnv) {
    let session = session(env);
    for text in [
        "CREATE TABLE t (p int PRIMARY KEY, v int)",
        "CREATE INDEX ON t (v)",
        "CREATE TABLE hits (p int PRIMARY KEY, n counter)",
        "CREATE TABLE nothing (p int PRIMARY KEY)",
    ] {
        session.execute(text, ()).unwrap();
    }
    for p in 0..20 {
        session.execute("INSERT INTO t (p, v) VALUES (?, 7)", (p,)).unwrap();
        session.execute("UPDATE hits SET n = n + 2 WHERE p = ?", (p,)).unwrap();
    }
}

#[test]
fn a_table_whose_record_is_lost_keeps_its_rows() {
    let env = CrashEnv::new(1);
    filled(&env);
    let before = trees(&env);
    let lost = lose(&env, "cql/table/");
    assert!(session(&env).execute("SELECT * FROM t", ()).is_err());
    let left = trees(&env);
    assert_eq!((before.len(), left.len()), (3, 2), "the tree that held nothing may go: {left:?}");
    find_again(&env, &lost);
    let session = session(&env);
    assert_eq!(
        (count(&session, "t"), count(&session, "hits"), count(&session, "nothing")),
        (20, 20, 0)
    );
    assert_eq!(
        session.execute("SELECT p FROM t WHERE v = 7", ()).unwrap().len(),
        20,
        "the index was built again"
    );
}

#[test]
fn a_keyspace_whose_record_is_lost_is_missed_and_its_tables_wait_for_it() {
    let env = CrashEnv::new(2);
    filled(&env);
    lose(&env, "schema/keyspace/");
    let error = Session::new(wide(&env)).unwrap_err().to_string();
    assert!(
        error.contains("record cql/table/") && error.contains("keyspace ks does not exist"),
        "{error}"
    );
    assert_eq!(trees(&env).len(), 3);
    wide(&env).system_add_keyspace(&KsDef::new("ks")).unwrap();
    let session = session(&env);
    assert_eq!((count(&session, "t"), count(&session, "hits")), (20, 20));
}

#[test]
fn a_family_whose_record_is_lost_keeps_its_rows() {
    let env = CrashEnv::new(3);
    {
        let wide = wide(&env);
        wide.system_add_keyspace(&KsDef::new("ks")).unwrap();
        wide.system_add_column_family(&CfDef::new("ks", "f")).unwrap();
        let column = Column::new("c", "v", 1);
        wide.keyspace("ks").unwrap().insert(b"row", &ColumnParent::new("f"), &column).unwrap();
    }
    let lost = lose(&env, "schema/family/");
    assert!(wide(&env).keyspace("ks").unwrap().family("f").is_err());
    find_again(&env, &lost);
    let wide = wide(&env);
    assert!(wide.keyspace("ks").unwrap().get(b"row", &ColumnPath::new("f").column("c")).is_ok());
}

#[test]
fn no_new_table_gets_what_a_lost_one_left() {
    let env = CrashEnv::new(4);
    filled(&env);
    lose(&env, "cql/");
    let session = session(&env);
    let error =
        session.execute("CREATE TABLE other (p int PRIMARY KEY)", ()).unwrap_err().to_string();
    assert!(error.contains("definition was lost") && error.contains("cf-"), "{error}");
    drop(session);
    assert_eq!(trees(&env).len(), 2);
}

/// After a crash at any point, a table exists with all its rows, or is gone with its tree.
#[test]
fn what_was_being_dropped_goes_with_the_next_opening() {
    for text in ["DROP TABLE t", "DROP KEYSPACE ks"] {
        let env = CrashEnv::new(5);
        filled(&env);
        let session = session(&env);
        env.start_journal();
        session.execute(text, ()).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for at in 0..=env.journal_len() {
            for cut in [Cut::Process, Cut::PowerNone] {
                let image = env.crash_image(at, &cut);
                let there = {
                    let session = Session::new(wide(&image)).unwrap();
                    let there = session
                        .engine()
                        .catalog()
                        .keyspace("ks")
                        .is_some_and(|k| k.table("t").is_some());
                    if there {
                        assert_eq!(count(&session, "ks.t"), 20, "{text}, {at} {cut:?}");
                    }
                    there
                };
                let left = trees(&image).len();
                let dropped = if text == "DROP TABLE t" { 2 } else { 0 };
                assert_eq!(left, if there { 3 } else { dropped }, "{text}, {at} {cut:?}");
                seen.insert(there);
            }
        }
        assert_eq!(seen.len(), 2, "{text}");
    }
}
