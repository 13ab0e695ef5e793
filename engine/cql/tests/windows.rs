//! Data with TTLs in time windows: expired data frees its space, window by window.

use super::common;

use std::sync::Arc;
use std::time::Duration;

use firn_cql::{RunOptions, Session};
use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_wide::{Options, Wide};

fn open(env: &MemEnv) -> Session {
    let db = DbOptions {
        background_threads: 0,
        memory_budget: 8 << 20,
        wal_segment: 1 << 20,
        ..DbOptions::default()
    };
    let options = Options {
        store: firn_wide::StoreOptions { db, clock: None, ..firn_wide::StoreOptions::default() },
        ..Options::default()
    };
    common::session_in(Wide::open_in(Arc::new(env.clone()), "db", options).unwrap(), "k")
}

/// Runs all background work, and returns the number of remaining tables.
fn merge_due(session: &Session, flush: bool) -> usize {
    let catalog = session.engine().catalog();
    let table = catalog.keyspace("k").unwrap().table("t").unwrap().clone();
    let tree = session.engine().family(&table).unwrap().tree().clone();
    if flush {
        tree.flush().unwrap();
    }
    tree.db().wait_idle().unwrap();
    tree.tables().unwrap().len()
}

fn windows(compaction: &str, expected: impl Fn(usize) -> bool) {
    let env = MemEnv::new(3);
    let mut session = open(&env);
    let create = format!(
        "CREATE TABLE IF NOT EXISTS t (p int, c int, v text, PRIMARY KEY (p, c)) WITH default_time_to_live = 120 AND gc_grace_seconds = 0 \
         AND compaction = {compaction}"
    );
    session.execute(&create, ()).unwrap();
    for window in 0..12 {
        let insert = session.prepare("INSERT INTO t (p, c, v) VALUES (?, ?, ?)").unwrap();
        for c in 0..300 {
            session
                .run(
                    &insert,
                    (c % 7, window * 1000 + c, "some text that takes space"),
                    &RunOptions::default(),
                )
                .unwrap();
        }
        let tables = merge_due(&session, true);
        assert!(expected(tables), "{tables} tables after window {window}");
        env.advance(Duration::from_secs(60));
        if window == 8 {
            // The tables found then have not been read.
            drop(session);
            session = open(&env);
        }
    }
    env.advance(Duration::from_secs(200));
    assert_eq!(merge_due(&session, false), 0, "all of it has expired");
    assert_eq!(session.execute("SELECT * FROM t", ()).unwrap().iter().count(), 0);
}

#[test]
fn expired_windows_are_dropped() {
    let twcs = "{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', 'compaction_window_size': '1'}";
    windows(twcs, |tables| (1..=5).contains(&tables));
}

#[test]
fn whole_tables_that_have_expired_are_dropped_under_other_strategies_too() {
    let stcs = "{'class': 'SizeTieredCompactionStrategy', 'min_threshold': '32'}";
    let env = MemEnv::new(4);
    let session = open(&env);
    let create = format!(
        "CREATE TABLE t (p int PRIMARY KEY, v text) WITH default_time_to_live = 10 AND gc_grace_seconds = 5 AND compaction = {stcs}"
    );
    session.execute(&create, ()).unwrap();
    for round in 0..4 {
        session.execute(&format!("INSERT INTO t (p, v) VALUES ({round}, 'x')"), ()).unwrap();
        assert_eq!(merge_due(&session, true), round + 1);
    }
    session.execute("INSERT INTO t (p, v) VALUES (2, 'for good') USING TTL 0", ()).unwrap();
    merge_due(&session, true);
    env.advance(Duration::from_secs(12));
    assert_eq!(merge_due(&session, false), 5, "gone, and still within grace");
    env.advance(Duration::from_secs(6));
    assert_eq!(merge_due(&session, false), 1);
    assert_eq!(session.execute("SELECT v FROM t", ()).unwrap().iter().count(), 1);
}
