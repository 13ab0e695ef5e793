//! Tests the crate `scylla` against a server at 127.0.0.1: clients PORT

use std::error::Error;

use futures::TryStreamExt;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::frame::Compression;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::unprepared::Statement as Unprepared;
use scylla::value::CqlTimeuuid;

type Outcome = Result<(), Box<dyn Error>>;

async fn conversation(session: &Session) -> Outcome {
    for text in [
        "CREATE KEYSPACE IF NOT EXISTS rust WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "DROP TABLE IF EXISTS rust.every",
        "DROP TABLE IF EXISTS rust.rows",
        "CREATE TABLE rust.every (k int PRIMARY KEY, a text, b bigint, c blob, d boolean, e double, f list<int>, g set<text>, h timeuuid)",
        "CREATE TABLE rust.rows (k int, c int, v text, PRIMARY KEY (k, c))",
    ] {
        session.query_unpaged(text, ()).await?;
    }
    session.refresh_metadata().await?;
    let state = session.get_cluster_state();
    let table = &state.get_keyspace("rust").expect("the keyspace").tables["every"];
    assert_eq!(table.columns.len(), 9);
    assert_eq!(table.partition_key, ["k"]);

    type Every = (i32, String, i64, Vec<u8>, bool, f64, Vec<i32>, Vec<String>, CqlTimeuuid);
    let time: CqlTimeuuid = "8e14e760-7fa8-11eb-bc66-000000000001".parse()?;
    let every: Every =
        (1, "grüße".into(), i64::MIN, vec![0, 255], true, 1.5e300, vec![3, 1], vec!["a".into()], time);
    let put = session
        .prepare("INSERT INTO rust.every (k, a, b, c, d, e, f, g, h) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .await?;
    session.execute_unpaged(&put, &every).await?;
    let read = session.query_unpaged("SELECT k, a, b, c, d, e, f, g, h FROM rust.every", ()).await?;
    assert_eq!(read.into_rows_result()?.first_row::<Every>()?, every);

    let put = session.prepare("INSERT INTO rust.rows (k, c, v) VALUES (?, ?, ?)").await?;
    futures::future::try_join_all((0..500).map(|i| session.execute_unpaged(&put, (i % 3, i, format!("v{i}"))))).await?;
    let all = Unprepared::new("SELECT k, c, v FROM rust.rows").with_page_size(31);
    let rows: Vec<(i32, i32, String)> =
        session.query_iter(all, ()).await?.rows_stream::<(i32, i32, String)>()?.try_collect().await?;
    assert_eq!(rows.len(), 500);

    let mut batch = Batch::new(BatchType::Unlogged);
    let values: Vec<_> = (0..20).map(|i| (9, i, "b")).collect();
    values.iter().for_each(|_| batch.append_statement(put.clone()));
    session.batch(&batch, values).await?;
    let count = session.query_unpaged("SELECT count(*) FROM rust.rows WHERE k = 9", ()).await?;
    assert_eq!(count.into_rows_result()?.single_row::<(i64,)>()?.0, 20);
    let again = session.query_unpaged("INSERT INTO rust.rows (k, c, v) VALUES (9, 0, 'x') IF NOT EXISTS", ()).await?;
    assert_eq!(again.into_rows_result()?.first_row::<(bool, i32, i32, String)>()?, (false, 9, 0, "b".into()));

    let read = session.prepare("SELECT * FROM rust.rows WHERE k = ? AND c = ?").await?;
    assert_eq!(session.execute_unpaged(&read, (9, 1)).await?.into_rows_result()?.column_specs().len(), 3);
    session.query_unpaged("ALTER TABLE rust.rows ADD w int", ()).await?;
    let wide = session.execute_unpaged(&read, (9, 1)).await?.into_rows_result()?;
    assert!(wide.first_row::<(i32, i32, Option<String>, Option<i32>)>().is_ok());
    assert!(session.query_unpaged("SELECT * FROM rust.nowhere", ()).await.is_err());
    assert!(session.query_unpaged("SELEKT", ()).await.is_err());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let port = std::env::args().nth(1).expect("a port");
    for compression in [None, Some(Compression::Lz4), Some(Compression::Snappy)] {
        let builder = SessionBuilder::new().known_node(format!("127.0.0.1:{port}"));
        let session = builder.compression(compression).build().await?;
        conversation(&session).await?;
        println!("scylla: protocol 4, compression {compression:?}: good");
    }
    Ok(())
}
