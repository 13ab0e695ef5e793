//! Measures scans and queries of a table and of a tree with the same rows.
//!
//! ```text
//! cargo run --release -p firn-datafusion --example measure -- DIR ROWS
//! ```

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use datafusion::prelude::{SessionConfig, SessionContext};
use firn_cql::{Session, Value};
use firn_datafusion::{ByteForm, FirnCatalog, FirnTree, SqlScanOptions};
use firn_kv::TreeOptions;
use firn_tools::io::Stopwatch;
use futures::StreamExt;

type AnyError = Box<dyn std::error::Error>;

/// Rows of a partition.
const PARTITION: u64 = 1000;
/// Runs of a query, of which the fastest counts.
const RUNS: usize = 3;

const QUERIES: &[(&str, &str)] = &[
    ("all columns", "SELECT * FROM ks.events"),
    ("one column", "SELECT value FROM ks.events"),
    ("count", "SELECT count(*) FROM ks.events"),
    ("group by", "SELECT kind, count(*), avg(value) FROM ks.events GROUP BY kind"),
    ("filter", "SELECT at FROM ks.events WHERE value > 0.99"),
    ("one partition", "SELECT sum(value) FROM ks.events WHERE device = 7"),
    ("tree, all columns", "SELECT * FROM trees.pairs"),
    ("tree, count", "SELECT count(*) FROM trees.pairs"),
];

/// Writes the rows, and compacts them.
fn fill(session: &Session, rows: u64) -> Result<(), AnyError> {
    session.execute(
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        (),
    )?;
    session.execute(
        "CREATE TABLE ks.events (device int, at timestamp, kind text, value double, note text, \
         PRIMARY KEY (device, at))",
        (),
    )?;
    let db = session.engine().store().db().clone();
    let tree = db.tree("pairs", TreeOptions::default())?;
    let insert = session
        .prepare("INSERT INTO ks.events (device, at, kind, value, note) VALUES (?, ?, ?, ?, ?)")?;
    for row in 0..rows {
        // A multiplicative hash spreads the values.
        let random = row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let (device, at) = ((row / PARTITION) as i32, Value::Timestamp(row as i64 * 1000));
        let kind = ["start", "stop", "measure", "error"][random as usize % 4];
        let value = random as f64 / f64::from(u32::MAX);
        let note = format!("note {random:08x} of device {device}");
        session.run(&insert, (device, at, kind, value, note.as_str()), &Default::default())?;
        tree.put(row.to_be_bytes(), &note)?;
    }
    for name in db.tree_names() {
        let tree = db.existing_tree(&name)?;
        tree.flush()?;
        tree.compact()?;
    }
    Ok(())
}

async fn measure(session: &Session, rows: u64) -> Result<(), AnyError> {
    let catalog = FirnCatalog::new(session);
    let tree = session.engine().store().db().existing_tree("pairs")?;
    let forms = [ByteForm::U64, ByteForm::Utf8];
    let pairs = FirnTree::new(catalog.snapshots(), &tree, forms, SqlScanOptions::default());
    let config = SessionConfig::new()
        .with_default_catalog_and_schema("firn", "ks")
        .with_create_default_catalog_and_schema(false);
    println!("{rows} rows, {} partitions of scans", config.target_partitions());
    let context = SessionContext::new_with_config(config);
    context.register_catalog("firn", Arc::new(catalog));
    let schema = datafusion::catalog::MemorySchemaProvider::new();
    datafusion::catalog::SchemaProvider::register_table(
        &schema,
        "pairs".to_owned(),
        Arc::new(pairs),
    )?;
    context.catalog("firn").ok_or("no catalog")?.register_schema("trees", Arc::new(schema))?;
    for (name, sql) in QUERIES {
        let mut best = f64::MAX;
        for _ in 0..RUNS {
            let watch = Stopwatch::start();
            let mut batches = context.sql(sql).await?.execute_stream().await?;
            while let Some(batch) = batches.next().await {
                batch?;
            }
            best = best.min(watch.seconds());
        }
        println!("{name:<18} {:>9.1} ms {:>12.0} rows/s", best * 1e3, rows as f64 / best);
    }
    let watch = Stopwatch::start();
    let all = session.query("SELECT * FROM ks.events", ())?;
    let read = all.filter(Result::is_ok).count();
    println!(
        "{:<18} {:>9.1} ms {:>12.0} rows/s",
        "CQL, all columns",
        watch.seconds() * 1e3,
        read as f64 / watch.seconds()
    );
    Ok(())
}

fn run(dir: &Path, rows: u64) -> Result<(), AnyError> {
    let session = Session::open(dir)?;
    fill(&session, rows)?;
    tokio::runtime::Runtime::new()?.block_on(measure(&session, rows))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, rows] = &arguments[..] else {
        eprintln!("usage: measure DIR ROWS; DIR is a new folder");
        return ExitCode::from(2);
    };
    let done = rows.parse().map_err(AnyError::from).and_then(|rows| run(Path::new(dir), rows));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}
