//! Plans show what reaches the store; batches and scans are bounded.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use firn_datafusion::{FirnCatalog, SqlScanOptions};
use futures::StreamExt;

use crate::common::{context, database, flush, lines, small, text};

const EVENTS: &str =
    "CREATE TABLE ks.e (k int, t timestamp, kind text, v double, PRIMARY KEY (k, t))";

#[tokio::test]
async fn explain_shows_the_pushed_conditions() {
    let session = database(&[EVENTS, "INSERT INTO ks.e (k, t, kind, v) VALUES (1, 5, 'a', 2)"]);
    flush(&session);
    let context = context(FirnCatalog::new(&session).with_options(small()));
    let explain = async |sql: &str| text(&context, &format!("EXPLAIN {sql}")).await;

    let point = explain("SELECT v FROM e WHERE k = 1 LIMIT 3").await;
    assert!(
        point.contains("table=ks.e, columns=[v], filters=[k = Int32(1)], limit=3, partitions=1"),
        "{point}"
    );
    assert!(!point.contains("FilterExec"), "{point}");

    // A range of a clustering column is checked again.
    let slice =
        explain("SELECT v FROM e WHERE k = 1 AND t >= '1970-01-01T00:00:00Z' AND kind = 'a'").await;
    assert!(slice.contains("filters=[k = Int32(1), t >= TimestampMillisecond(0"), "{slice}");
    assert!(slice.contains("FilterExec") && slice.contains("columns=[t, kind, v]"), "{slice}");

    let whole = explain("SELECT kind FROM e WHERE t < '2020-01-01T00:00:00Z'").await;
    assert!(whole.contains("columns=[t, kind], partitions=4"), "{whole}");
    let count = explain("SELECT count(*) FROM e").await;
    assert!(count.contains("columns=[], partitions=4"), "{count}");
    let analyzed = text(&context, "EXPLAIN ANALYZE SELECT kind FROM e").await;
    assert!(analyzed.contains("output_rows=1"), "{analyzed}");
}

#[tokio::test]
async fn joins_and_windows_run_over_tables() {
    let session = database(&[
        "CREATE TABLE ks.users (id int PRIMARY KEY, name text)",
        "INSERT INTO ks.users (id, name) VALUES (1, 'ann')",
        "INSERT INTO ks.users (id, name) VALUES (2, 'bob')",
        EVENTS,
        "INSERT INTO ks.e (k, t, v) VALUES (1, 1, 10)",
        "INSERT INTO ks.e (k, t, v) VALUES (1, 2, 20)",
        "INSERT INTO ks.e (k, t, v) VALUES (2, 1, 5)",
    ]);
    let context = context(FirnCatalog::new(&session));
    let join = "SELECT name, sum(v) FROM e JOIN users ON k = id GROUP BY name";
    assert_eq!(lines(&context, join).await, ["ann|30.0", "bob|5.0"]);
    let window = "SELECT k, v, sum(v) OVER (PARTITION BY k ORDER BY t) FROM e";
    assert_eq!(lines(&context, window).await, ["1|10.0|10.0", "1|20.0|30.0", "2|5.0|5.0"]);
}

#[tokio::test]
async fn batches_are_bounded_in_bytes() {
    let session = database(&["CREATE TABLE ks.b (k int PRIMARY KEY, v blob)"]);
    let value = vec![7_u8; 100 << 10];
    for k in 0..50 {
        session.execute("INSERT INTO ks.b (k, v) VALUES (?, ?)", (k, &value)).unwrap();
    }
    let mut options = SqlScanOptions::default();
    options.max_batch_bytes = 1 << 20;
    let context = context(FirnCatalog::new(&session).with_options(options));
    let mut stream = context.sql("SELECT * FROM b").await.unwrap().execute_stream().await.unwrap();
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.unwrap();
        let bytes: usize =
            batch.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap()).sum();
        assert!(bytes <= (1 << 20) / 4 + (200 << 10), "{bytes} bytes");
        rows += batch.num_rows();
    }
    assert_eq!(rows, 50);
    session.execute("INSERT INTO ks.b (k, v) VALUES (50, ?)", (vec![1_u8; 2 << 20],)).unwrap();
    let refused = context.sql("SELECT * FROM b").await.unwrap().collect().await.unwrap_err();
    assert!(refused.to_string().contains("more than 1048576 bytes"), "{refused}");
    assert_eq!(lines(&context, "SELECT count(*) FROM b").await, ["51"]);
}

#[tokio::test]
async fn a_dropped_query_releases_its_snapshot() {
    let session = database(&[EVENTS]);
    for t in 0..500_i64 {
        let text = "INSERT INTO ks.e (k, t, v) VALUES (1, ?, 1)";
        session.execute(text, (firn_cql::Value::Timestamp(t),)).unwrap();
    }
    let context = context(FirnCatalog::new(&session));
    let snapshots = || session.engine().store().db().stats().snapshots.len();
    let mut stream = context.sql("SELECT * FROM e").await.unwrap().execute_stream().await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    assert_eq!(snapshots(), 1);
    drop(stream);
    // The task that reads the next batch ends by itself.
    while snapshots() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_table_that_is_altered_ends_the_scan() {
    let session = database(&[EVENTS]);
    for t in 0..500_i64 {
        let text = "INSERT INTO ks.e (k, t, v) VALUES (1, ?, 1)";
        session.execute(text, (firn_cql::Value::Timestamp(t),)).unwrap();
    }
    let context = context(FirnCatalog::new(&session));
    let plan = |sql: &'static str| async {
        context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
    };
    let before: Arc<dyn ExecutionPlan> = plan("SELECT * FROM e").await;
    session.execute("DROP TABLE ks.e", ()).unwrap();
    session.execute(EVENTS, ()).unwrap();
    let read = datafusion::physical_plan::collect(before, context.task_ctx()).await;
    let error = read.unwrap_err().to_string();
    assert!(error.contains("the table was altered: run the query again"), "{error}");
    assert!(lines(&context, "SELECT * FROM e").await.is_empty());
}

#[tokio::test]
async fn estimates_come_from_the_files() {
    let session = database(&["CREATE TABLE ks.n (k int PRIMARY KEY, a int, b int)"]);
    for k in 0..300 {
        session.execute("INSERT INTO ks.n (k, a, b) VALUES (?, 1, 2)", (k,)).unwrap();
    }
    flush(&session);
    let context = context(FirnCatalog::new(&session));
    context.sql("SET datafusion.explain.show_statistics = true").await.unwrap();
    let plan = text(&context, "EXPLAIN SELECT * FROM n").await;
    assert!(plan.contains("Rows=Inexact(300)"), "{plan}");
}
