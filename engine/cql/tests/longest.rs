//! Partition keys of 65,535 bytes, and clustering values with as many bytes together, of any types.
//! They are written, read, found by indexes and deleted, in memtables and table files, after
//! compactions and reopening.

use super::common;

use std::sync::Arc;

use firn_cql::{BoundValue, Rows, RunOptions, Session};
use firn_crash::{CrashEnv, Cut};
use firn_kv::DbOptions;
use firn_wide::{Options, Wide};

fn open(env: &CrashEnv) -> Session {
    let db = DbOptions { background_threads: 0, wal_segment: 1 << 20, ..DbOptions::default() };
    let options = Options {
        store: firn_wide::StoreOptions { db, clock: None, ..firn_wide::StoreOptions::default() },
        ..Options::default()
    };
    common::session_in(Wide::open_in(Arc::new(env.clone()), "db", options).unwrap(), "k")
}

/// Returns bytes of this length and end that take the most space in the engine's keys: zeros
/// separated by other bytes.
fn bytes(len: usize, end: u8) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|i| (i % 2) as u8).collect();
    bytes[len - 1] = end;
    bytes
}

const KEY: usize = 65_535;
const HALF: usize = 32_767;

fn run(session: &Session, statement: &str, values: &[&[u8]]) -> Rows {
    let prepared = session.prepare(statement).unwrap_or_else(|e| panic!("{statement}: {e}"));
    let values: Vec<BoundValue> = values.iter().map(|b| BoundValue::Bytes(b.to_vec())).collect();
    session
        .run(&prepared, values, &RunOptions::default())
        .unwrap_or_else(|e| panic!("{statement}: {e}"))
}

/// Returns the last bytes of the two clustering values and the number of each row.
fn told(rows: &Rows) -> Vec<(u8, u8, i32)> {
    let last = |bytes: Vec<u8>| bytes.last().copied().unwrap_or(0);
    let of = |(c, d, n): (Vec<u8>, Vec<u8>, i32)| {
        assert!(c == bytes(HALF + 1, last(c.clone())) && d == bytes(HALF, last(d.clone())));
        (last(c), last(d), n)
    };
    rows.typed().unwrap().into_iter().map(of).collect()
}

#[test]
fn partition_and_clustering_have_65535_bytes_each() {
    let env = CrashEnv::new(1);
    let session = open(&env);
    let define = |statement: &str| drop(session.execute(statement, ()).unwrap());
    define(
        "CREATE TABLE t (p blob, c blob, d blob, s blob static, m map<blob, int>, n int, PRIMARY KEY (p, c, d)) \
         WITH CLUSTERING ORDER BY (c DESC, d ASC)",
    );
    for index in ["(c)", "(n)", "(keys(m))", "(entries(m))"] {
        define(&format!("CREATE INDEX ON t {index}"));
    }
    let key = |end| bytes(KEY, end);
    for p in 1..3 {
        run(&session, "UPDATE t SET s = ? WHERE p = ?", &[&[p], &key(p)]);
        for (i, c) in (0..).zip(1..4) {
            for d in 1..3u8 {
                let n = 10 * i + i32::from(d);
                let values = [&key(p)[..], &bytes(HALF + 1, c), &bytes(HALF, d), &n.to_be_bytes()];
                run(&session, "INSERT INTO t (p, c, d, n) VALUES (?, ?, ?, ?)", &values);
                let values =
                    [&key(d)[..], &n.to_be_bytes(), &key(p), &bytes(HALF + 1, c), &bytes(HALF, d)];
                run(&session, "UPDATE t SET m[?] = ? WHERE p = ? AND c = ? AND d = ?", &values);
            }
        }
        // A range of rows, and a row.
        run(
            &session,
            "DELETE FROM t WHERE p = ? AND c = ? AND d > ?",
            &[&key(p), &bytes(HALF + 1, 1), &bytes(HALF, 1)],
        );
        let values = [&key(p)[..], &bytes(HALF + 1, 3), &bytes(HALF, 1)];
        run(&session, "DELETE FROM t WHERE p = ? AND c = ? AND d = ? IF EXISTS", &values);
    }
    let check = |session: &Session| {
        let all = vec![(3, 2, 22), (2, 1, 11), (2, 2, 12), (1, 1, 1)];
        let of = "SELECT c, d, n FROM t WHERE p = ?";
        let asked = |more: &str, values: &[&[u8]]| {
            told(&run(session, &format!("{of} {more}"), &[&[&key(2)[..]], values].concat()))
        };
        assert_eq!(asked("", &[]), all);
        assert_eq!(
            asked("ORDER BY c ASC, d DESC", &[]),
            all.iter().rev().copied().collect::<Vec<_>>()
        );
        assert_eq!(asked("AND c = ?", &[&bytes(HALF + 1, 2)]), all[1..3]);
        assert_eq!(
            asked("AND c = ? AND d > ?", &[&bytes(HALF + 1, 2), &bytes(HALF, 1)]),
            all[2..3]
        );
        assert_eq!(
            asked("AND c >= ? AND c < ?", &[&bytes(HALF + 1, 2), &bytes(HALF + 1, 3)]),
            all[1..3]
        );
        let found = |clause: &str, values: &[&[u8]]| {
            told(&run(session, &format!("SELECT c, d, n FROM t WHERE {clause}"), values))
        };
        assert_eq!(found("c = ?", &[&bytes(HALF + 1, 3)]), [all[0]; 2]);
        assert_eq!(found("n = ?", &[&12i32.to_be_bytes()]), [all[2]; 2]);
        assert_eq!(found("m CONTAINS KEY ?", &[&key(1)]).len(), 4);
        assert_eq!(found("m[?] = ?", &[&key(2), &22i32.to_be_bytes()]), [all[0]; 2]);
        let first: Vec<(Vec<u8>, Vec<u8>)> =
            run(session, "SELECT p, s FROM t", &[]).typed().unwrap();
        assert_eq!(first.len(), 8);
        assert!(first.iter().all(|(p, s)| *p == key(s[0])));
    };
    check(&session);
    let tree = |session: &Session| {
        let catalog = session.engine().catalog();
        let table = catalog.keyspace("k").unwrap().table("t").unwrap().clone();
        session.engine().family(&table).unwrap().tree().clone()
    };
    tree(&session).flush().unwrap();
    check(&session);
    drop(session);
    let session = open(&env.crash_image(0, &Cut::PowerNone));
    check(&session);
    tree(&session).compact().unwrap();
    check(&session);
    run(&session, "DELETE FROM t WHERE p = ?", &[&key(1)]);
    assert_eq!(
        told(&run(&session, "SELECT c, d, n FROM t WHERE c = ?", &[&bytes(HALF + 1, 3)])),
        [(3, 2, 22)]
    );
}

#[test]
fn bounds_of_deletions_are_no_longer_than_rows() {
    let session = open(&CrashEnv::new(2));
    session.execute("CREATE TABLE t (p int, c blob, d blob, PRIMARY KEY (p, c, d))", ()).unwrap();
    let one = 1i32.to_be_bytes();
    run(&session, "INSERT INTO t (p, c, d) VALUES (?, ?, ?)", &[&one, &bytes(KEY - 1, 2), &[1]]);
    let told = |statement: &str, values: &[&[u8]]| {
        let prepared = session.prepare(statement).unwrap();
        let values: Vec<BoundValue> =
            values.iter().map(|b| BoundValue::Bytes(b.to_vec())).collect();
        session.run(&prepared, values, &RunOptions::default()).err().map(|e| e.to_string())
    };
    for (c, d) in [(KEY - 1, 2), (KEY, 1), (HALF + 1, HALF + 1), (HALF, 700_000)] {
        let refused = Some(format!("Key length of {} is longer than maximum of 65535", c + d));
        for clause in ["c = ? AND d > ?", "c = ? AND d <= ?", "(c, d) >= (?, ?)", "(c, d) < (?, ?)"]
        {
            assert_eq!(
                told(
                    &format!("DELETE FROM t WHERE p = ? AND {clause}"),
                    &[&one, &bytes(c, 1), &bytes(d, 1)]
                ),
                refused
            );
            // Values that cannot have been written can be queried.
            assert_eq!(
                told(
                    &format!("SELECT * FROM t WHERE p = ? AND {clause}"),
                    &[&one, &bytes(c, 1), &bytes(d, 1)]
                ),
                None
            );
        }
    }
    let refused = Some("Key length of 65536 is longer than maximum of 65535".to_owned());
    assert_eq!(told("DELETE FROM t WHERE p = ? AND c > ?", &[&one, &bytes(KEY + 1, 1)]), refused);
    assert_eq!(run(&session, "SELECT * FROM t", &[]).len(), 1);
    assert_eq!(
        told("DELETE FROM t WHERE p = ? AND c = ? AND d >= ?", &[&one, &bytes(KEY - 1, 2), &[1]]),
        None
    );
    assert_eq!(run(&session, "SELECT * FROM t", &[]).len(), 0);
}
