//! A scan that needs only keys leaves each row early, and must not skip the next partition.

use std::sync::Arc;

use firn_cql::Session;
use firn_kv::MemEnv;
use firn_wide::{Options, Wide};

#[test]
fn rows_of_the_same_clustering_in_neighbouring_partitions_are_all_counted() {
    let wide = Wide::open_in(Arc::new(MemEnv::new(7)), "db", Options::default()).unwrap();
    let session = Session::new(wide).unwrap();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "USE ks",
        "CREATE TABLE t (k int, c text, v int, PRIMARY KEY (k, c))",
    ] {
        session.execute(statement, ()).unwrap();
    }
    let insert = session.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)").unwrap();
    for k in 0..50 {
        session.run(&insert, (k, "the same", k), &Default::default()).unwrap();
    }
    let count: i64 =
        session.execute("SELECT count(*) FROM t", ()).unwrap().row(0).unwrap().at(0).unwrap();
    assert_eq!(count, 50);
    let keys: Vec<(i32,)> = session.execute("SELECT k FROM t", ()).unwrap().typed().unwrap();
    assert_eq!(keys.len(), 50);
}
