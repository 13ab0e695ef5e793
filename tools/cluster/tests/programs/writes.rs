//! Conditions, batches, counters, timestamps and TTLs, concurrent writers.

use std::thread;

use firn_cql::{BatchKind, BoundValue, ErrorClass, Result, RunOptions, Values};

use super::Session;
use super::done;

pub fn conditions(session: &Session) {
    done(session, "CREATE TABLE t (id int PRIMARY KEY, v int, w text)");
    let insert = session.prepare("INSERT INTO t (id, v) VALUES (?, ?) IF NOT EXISTS").unwrap();
    let first = session.run(&insert, (1, 10), &RunOptions::default()).unwrap();
    assert!(first.row(0).unwrap().get::<bool>("[applied]").unwrap());
    let second = session.run(&insert, (1, 20), &RunOptions::default()).unwrap();
    let row = second.row(0).unwrap();
    assert!(!row.get::<bool>("[applied]").unwrap());
    assert_eq!((row.get::<i32>("id").unwrap(), row.get::<i32>("v").unwrap()), (1, 10));
    let update = "UPDATE t SET v = ? WHERE id = ? IF v = ?";
    let applied = |new: i32, old: i32| -> bool {
        let rows = session.execute(update, (new, 1, old)).unwrap();
        rows.row(0).unwrap().get("[applied]").unwrap()
    };
    assert_eq!((applied(11, 9), applied(11, 10), applied(12, 10)), (false, true, false));
    let gone = session.execute("DELETE FROM t WHERE id = 1 IF EXISTS", ()).unwrap();
    assert!(gone.row(0).unwrap().get::<bool>("[applied]").unwrap());
    let none = session.execute("UPDATE t SET w = 'x' WHERE id = 1 IF EXISTS", ()).unwrap();
    assert!(!none.row(0).unwrap().get::<bool>("[applied]").unwrap());
    assert!(done(session, "SELECT * FROM t").is_empty());
}

pub fn batches(session: &Session) {
    done(session, "CREATE TABLE t (p int, c int, v text, PRIMARY KEY (p, c))");
    done(session, "CREATE TABLE n (id int PRIMARY KEY, n counter)");
    let put = session.prepare("INSERT INTO t (p, c, v) VALUES (?, ?, ?)").unwrap();
    let drop = session.prepare("DELETE FROM t WHERE p = ? AND c = ?").unwrap();
    let bind = |c: i32, v: &str| (1, c, v).bind(put.markers()).unwrap();
    let count = || done(session, "SELECT c FROM t WHERE p = 1").len();
    let members: Vec<_> = (0..10).map(|c| (&put, bind(c, "x"))).collect();
    for kind in [BatchKind::Logged, BatchKind::Unlogged] {
        session.batch(kind, &members, &RunOptions::default()).unwrap();
        assert_eq!(count(), 10);
        let mixed = [(&put, bind(20, "y")), (&drop, (1, 3).bind(drop.markers()).unwrap())];
        session.batch(kind, &mixed, &RunOptions::default()).unwrap();
        assert_eq!(count(), 10);
        done(session, "DELETE FROM t WHERE p = 1");
    }
    let how = RunOptions { timestamp: Some(4_000_000_000_000_000), ..RunOptions::default() };
    session.batch(BatchKind::Logged, &members[..1], &how).unwrap();
    let at: Vec<(i64,)> = done(session, "SELECT writetime(v) FROM t WHERE p = 1").typed().unwrap();
    assert_eq!(at, [(4_000_000_000_000_000,)]);
    let add = session.prepare("UPDATE n SET n = n + ? WHERE id = ?").unwrap();
    let added = [
        (&add, (5_i64, 1).bind(add.markers()).unwrap()),
        (&add, (2_i64, 1).bind(add.markers()).unwrap()),
    ];
    session.batch(BatchKind::Counter, &added, &RunOptions::default()).unwrap();
    assert_eq!(done(session, "SELECT n FROM n").typed::<(i64,)>().unwrap(), [(7,)]);
    // A condition applies to the whole batch.
    let once = session.prepare("INSERT INTO t (p, c, v) VALUES (?, ?, ?) IF NOT EXISTS").unwrap();
    let together = [(&once, bind(50, "a")), (&put, bind(51, "b"))];
    for applied in [true, false] {
        let rows = session.batch(BatchKind::Logged, &together, &RunOptions::default()).unwrap();
        assert_eq!(rows.row(0).unwrap().get::<bool>("[applied]").unwrap(), applied);
    }
    let script = "BEGIN UNLOGGED BATCH INSERT INTO t (p, c, v) VALUES (?, ?, 'q'); UPDATE t SET v = ? WHERE p = ? AND c = ?; APPLY BATCH";
    session.execute(script, (2, 1, "r", 2, 2)).unwrap();
    assert_eq!(done(session, "SELECT v FROM t WHERE p = 2").len(), 2);
    // A batch with incompatible statements or missing values writes nothing.
    let both = [(&put, bind(60, "z")), (&add, (1_i64, 1).bind(add.markers()).unwrap())];
    let short: [(_, Vec<BoundValue>); 2] = [(&put, bind(61, "z")), (&put, vec![BoundValue::Null])];
    let read = session.prepare("SELECT v FROM t").unwrap();
    for (kind, members) in [
        (BatchKind::Logged, &both[..]),
        (BatchKind::Counter, &both[..]),
        (BatchKind::Logged, &short[..]),
        (BatchKind::Logged, &[(&read, vec![])][..]),
    ] {
        let refused = session.batch(kind, members, &RunOptions::default()).unwrap_err();
        assert_eq!(refused.class(), ErrorClass::Invalid, "{refused}");
    }
    assert!(done(session, "SELECT c FROM t WHERE p = 1 AND c >= 60").is_empty());
    session.batch(BatchKind::Logged, &[], &RunOptions::default()).unwrap();
}

pub fn counters_and_times(session: &Session) {
    done(session, "CREATE TABLE n (id int PRIMARY KEY, n counter)");
    let add = session.prepare("UPDATE n SET n = n + ? WHERE id = ?").unwrap();
    for by in [5_i64, -2, 40] {
        session.run(&add, (by, 1), &RunOptions::default()).unwrap();
    }
    assert_eq!(done(session, "SELECT n FROM n").typed::<(i64,)>().unwrap(), [(43,)]);
    done(session, "CREATE TABLE t (id int PRIMARY KEY, v text)");
    let put = session.prepare("INSERT INTO t (id, v) VALUES (?, ?)").unwrap();
    let at = |timestamp: i64| RunOptions { timestamp: Some(timestamp), ..RunOptions::default() };
    session.run(&put, (1, "new"), &at(2000)).unwrap();
    session.run(&put, (1, "old"), &at(1000)).unwrap();
    let rows: Vec<(String, i64)> = done(session, "SELECT v, writetime(v) FROM t").typed().unwrap();
    assert_eq!(rows, [("new".to_owned(), 2000)]);
    session.execute_with("UPDATE t SET v = ? WHERE id = 1", ("newest",), &at(3000)).unwrap();
    session
        .execute_with("UPDATE t USING TIMESTAMP 2500 SET v = 'named' WHERE id = 1", (), &at(9000))
        .unwrap();
    let rows: Vec<(String, i64)> = done(session, "SELECT v, writetime(v) FROM t").typed().unwrap();
    assert_eq!(rows, [("newest".to_owned(), 3000)]);
    session.execute("INSERT INTO t (id, v) VALUES (?, ?) USING TTL ?", (2, "brief", 1000)).unwrap();
    let ttl: Vec<(i32,)> = done(session, "SELECT ttl(v) FROM t WHERE id = 2").typed().unwrap();
    assert!((900..=1000).contains(&ttl[0].0), "{ttl:?}");
}

pub fn many_threads(session: &Session) {
    done(session, "CREATE TABLE t (p int, c int, PRIMARY KEY (p, c))");
    let write = |p: i32| -> Result<()> {
        let insert = session.prepare("INSERT INTO t (p, c) VALUES (?, ?)")?;
        (0..50).try_for_each(|c| session.run(&insert, (p, c), &RunOptions::default()).map(drop))
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|p| scope.spawn(move || write(p))).collect();
        all.into_iter().for_each(|one| one.join().unwrap().unwrap());
    });
    assert_eq!(done(session, "SELECT count(*) FROM t").typed::<(i64,)>().unwrap(), [(200,)]);
}
