//! All tables of a query read one state, while others write, flush and compact.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::catalog::{MemorySchemaProvider, SchemaProvider};
use firn_cql::{BatchKind, Session, Values};
use firn_datafusion::{ByteForm, FirnCatalog, FirnTree, QuerySnapshots};

use crate::common::{context, database, flush, lines, small};

const ACCOUNTS: i32 = 200;

/// Ends the writer, even if the test fails.
struct WriterEnd(Arc<AtomicBool>);

impl Drop for WriterEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Moves amounts between accounts of two tables, each time in one batch.
fn write(session: &Session, is_over: &AtomicBool) {
    let puts = ["a", "b"].map(|table| {
        session.prepare(&format!("INSERT INTO ks.{table} (k, v) VALUES (?, ?)")).unwrap()
    });
    let mut step = 0_i32;
    while !is_over.load(Ordering::Relaxed) {
        step += 1;
        let k = step * 7 % ACCOUNTS;
        let amounts = [step, -step];
        let members: Vec<_> = puts
            .iter()
            .zip(amounts)
            .map(|(put, amount)| (put, (k, amount).bind(put.markers()).unwrap()))
            .collect();
        session.batch(BatchKind::Logged, &members, &Default::default()).unwrap();
        if step % 500 == 0 {
            flush(session);
        }
        if step % 2000 == 0 {
            let db = session.engine().store().db();
            for name in db.tree_names() {
                db.existing_tree(&name).unwrap().compact().unwrap();
            }
        }
    }
    assert!(step > 10, "nothing was written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_one_query_agree_while_others_write() {
    let session = database(&[
        "CREATE TABLE ks.a (k int PRIMARY KEY, v int)",
        "CREATE TABLE ks.b (k int PRIMARY KEY, v int)",
    ]);
    for k in 0..ACCOUNTS {
        for table in ["a", "b"] {
            let text = format!("INSERT INTO ks.{table} (k, v) VALUES (?, 0)");
            session.execute(&text, (k,)).unwrap();
        }
    }
    flush(&session);
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = {
        let (session, is_over) = (session.clone(), is_over.clone());
        tokio::task::spawn_blocking(move || write(&session, &is_over))
    };
    let end = WriterEnd(is_over);
    let context = context(FirnCatalog::new(&session).with_options(small()));
    for _ in 0..60 {
        let sums =
            "SELECT (SELECT sum(v) FROM a) + (SELECT sum(v) FROM b), (SELECT count(*) FROM a)";
        assert_eq!(lines(&context, sums).await, [format!("0|{ACCOUNTS}")]);
        let join = "SELECT count(*) FROM a JOIN b ON a.k = b.k WHERE a.v + b.v <> 0";
        assert_eq!(lines(&context, join).await, ["0"]);
    }
    drop(end);
    writer.await.unwrap();
}

#[tokio::test]
async fn queries_with_a_fixed_snapshot_agree_with_each_other() {
    let session = database(&[
        "CREATE TABLE ks.a (k int PRIMARY KEY, v int)",
        "INSERT INTO ks.a (k, v) VALUES (1, 1)",
        "INSERT INTO ks.a (k, v) VALUES (2, 2) USING TTL 1",
    ]);
    let db = session.engine().store().db().clone();
    let tree = db.tree("pairs", firn_kv::TreeOptions::default()).unwrap();
    tree.put("k", "v").unwrap();
    let snapshots = QuerySnapshots::fixed(&db, db.snapshot());
    session.execute("INSERT INTO ks.a (k, v) VALUES (3, 3)", ()).unwrap();
    tree.put("l", "w").unwrap();
    let fixed = context(FirnCatalog::new(&session).with_snapshots(snapshots.clone()));
    let pairs = FirnTree::new(&snapshots, &tree, [ByteForm::Utf8; 2], small());
    let schema = MemorySchemaProvider::new();
    schema.register_table("pairs".to_owned(), Arc::new(pairs)).unwrap();
    let catalog = fixed.catalog("firn").unwrap();
    let refused = catalog.register_schema("ks", Arc::new(MemorySchemaProvider::new()));
    assert!(refused.unwrap_err().to_string().contains("the schema ks is a keyspace"));
    catalog.register_schema("trees", Arc::new(schema)).unwrap();
    assert_eq!(catalog.schema_names(), ["ks", "trees"]);
    assert_eq!(lines(&fixed, "SELECT k FROM a").await, ["1", "2"]);
    assert_eq!(lines(&fixed, "SELECT key FROM trees.pairs").await, ["k"]);
    let newest = context(FirnCatalog::new(&session));
    assert!(lines(&newest, "SELECT k FROM a").await.contains(&"3".to_owned()));
}
