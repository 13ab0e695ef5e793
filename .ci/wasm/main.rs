//! The engine and CQL in memory, as `.ci/everywhere` runs them under WebAssembly: one thread, no
//! files.

use std::sync::Arc;

use firn_kv::MemEnv;
use firn_kv::{Db, ErrorKind, TreeOptions};

fn main() {
    let db = Db::in_memory().unwrap();
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    for i in 0..50_000u32 {
        tree.put(i.wrapping_mul(2_654_435_761).to_be_bytes(), [7; 50]).unwrap();
    }
    tree.delete_range(..1000u32.to_be_bytes()).unwrap();
    let wanted = (0..50_000u32).filter(|i| i.wrapping_mul(2_654_435_761) >= 1000).count();
    assert_eq!(tree.iter().count(), wanted);
    tree.flush().unwrap();
    assert_eq!((tree.iter().count(), db.stats().flushes), (wanted, 1));

    // There are no locks of files, so a store on files is refused and not opened without one.
    let refused = Db::open("/store").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");

    let wide =
        firn_wide::Wide::open_in(Arc::new(MemEnv::new(1)), "/wide", Default::default()).unwrap();
    let session = firn_cql::Session::new(wide).unwrap();
    let run = |cql: &str| session.execute(cql, ()).unwrap();
    run(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run("CREATE TABLE k.t (a int, b int, PRIMARY KEY (a, b))");
    for b in 0..100 {
        session.execute("INSERT INTO k.t (a, b) VALUES (1, ?)", (b,)).unwrap();
    }
    let count: Vec<(i64,)> = run("SELECT count(*) FROM k.t WHERE a = 1").typed().unwrap();
    assert_eq!(count, [(100,)]);
    println!("wasm32-wasip1: the engine and CQL ran in memory");
}
