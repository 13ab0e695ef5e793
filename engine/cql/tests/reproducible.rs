//! A history of CQL is reproducible: randomness and time come from the environment. So the same
//! statements with the same seed have the same answers and, without other threads, the same bytes
//! on disk.

use super::common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::session_in;
use firn_cql::Session;
use firn_cql::internals::values::literal;
use firn_kv::{Env, MemEnv};
use firn_wide::{Options, Wide};

const DEFINITIONS: [&str; 4] = [
    "CREATE TYPE place (street text, number int)",
    "CREATE TABLE t (k uuid, c timeuuid, tags set<uuid>, notes list<text>, at timestamp, where_ place, PRIMARY KEY (k, c))",
    "CREATE TABLE counts (k int PRIMARY KEY, n counter)",
    "CREATE INDEX ON t (at)",
];

/// Each statement uses random bits or the time.
const CHANGES: [&str; 8] = [
    "INSERT INTO t (k, c, tags, at) VALUES (uuid(), now(), {uuid(), uuid()}, toTimestamp(now()))",
    "INSERT INTO t (k, c, notes) VALUES (00000000-0000-0000-0000-000000000001, 50554d6e-29bb-11e5-b345-feff819cdc9f, ['a', 'b'])",
    "UPDATE t SET notes = notes + ['c'] WHERE k = 00000000-0000-0000-0000-000000000001 AND c = 50554d6e-29bb-11e5-b345-feff819cdc9f",
    "UPDATE t SET notes = ['0'] + notes WHERE k = 00000000-0000-0000-0000-000000000001 AND c = 50554d6e-29bb-11e5-b345-feff819cdc9f",
    "INSERT INTO t (k, c, at) VALUES (uuid(), currentTimeUUID(), currentTimestamp()) IF NOT EXISTS",
    "INSERT INTO t JSON '{\"k\": \"00000000-0000-0000-0000-000000000002\", \"c\": \"50554d6e-29bb-11e5-b345-feff819cdc9f\"}' USING TTL 100",
    "BEGIN BATCH INSERT INTO t (k, c) VALUES (uuid(), now()); INSERT INTO t (k, c) VALUES (uuid(), now()); APPLY BATCH",
    "UPDATE counts SET n = n + 1 WHERE k = 7",
];

const QUESTIONS: [&str; 4] = [
    "SELECT * FROM t",
    "SELECT k, uuid(), now(), toTimestamp(now()), writetime(at), ttl(at) FROM t",
    "SELECT token(k), k FROM t WHERE at > '2000-01-01' ALLOW FILTERING",
    "SELECT * FROM counts",
];

fn tell(session: &Session, cql: &str, answers: &mut Vec<String>) {
    let rows = session.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}"));
    for row in rows.iter() {
        let values: Vec<_> = rows
            .columns()
            .iter()
            .enumerate()
            .map(|(i, c)| literal(&c.column_type.value_type, row.bytes(i)))
            .collect();
        answers.push(values.join(", "));
    }
}

fn files(env: &MemEnv) -> BTreeMap<String, Vec<u8>> {
    let dir = Path::new("db");
    let all = env.list(dir).unwrap().into_iter();
    all.map(|name| (name.clone(), env.read_all(&dir.join(&name), 1 << 30).unwrap())).collect()
}

fn flush(session: &Session) {
    let db = session.engine().store().db();
    db.tree_names().iter().for_each(|name| db.existing_tree(name).unwrap().flush().unwrap());
}

/// Returns the answers of a history, and its files.
fn history(seed: u64) -> (Vec<String>, BTreeMap<String, Vec<u8>>) {
    let env = MemEnv::new(seed);
    let mut options = Options::default();
    options.store.db.background_threads = 0;
    let open =
        || session_in(Wide::open_in(Arc::new(env.clone()), "db", options.clone()).unwrap(), "k");
    let (mut session, mut answers) = (open(), vec![]);
    DEFINITIONS.iter().for_each(|cql| tell(&session, cql, &mut answers));
    for round in 0..3 {
        for cql in CHANGES.iter().chain(&QUESTIONS) {
            tell(&session, cql, &mut answers);
            env.advance(Duration::from_micros(700));
        }
        flush(&session);
        if round == 1 {
            session.close().unwrap();
            session = open();
        }
    }
    session.close().unwrap();
    (answers, files(&env))
}

#[test]
fn the_same_seed_gives_the_same_answers_and_bytes() {
    let (answers, files) = history(1);
    let (again, files_again) = history(1);
    assert_eq!(answers, again);
    assert_eq!(files.keys().collect::<Vec<_>>(), files_again.keys().collect::<Vec<_>>());
    for (name, bytes) in &files {
        assert!(*bytes == files_again[name], "{name} differs");
    }
    assert!(
        answers.len() > 60 && files.len() > 5,
        "{} answers, {} files",
        answers.len(),
        files.len()
    );
    let (other, _) = history(2);
    assert!(answers != other, "the seed makes no difference");
}
