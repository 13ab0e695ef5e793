//! Sessions, and queries of them.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{SessionConfig, SessionContext};
use firn_cql::Session;
use firn_datafusion::{FirnCatalog, SqlScanOptions};

/// Number of partitions of scans.
pub const PARTITIONS: usize = 4;

/// Options with which small tables have several partitions.
pub fn small() -> SqlScanOptions {
    let mut options = SqlScanOptions::default();
    options.min_partition_bytes = 1;
    options
}

/// Creates a database in memory with the keyspace `ks`.
pub fn database(statements: &[&str]) -> Session {
    let session = Session::in_memory().unwrap();
    let keyspace = "CREATE KEYSPACE ks WITH replication = \
                    {'class': 'SimpleStrategy', 'replication_factor': 1}";
    for text in [keyspace].iter().chain(statements) {
        session.execute(text, ()).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    session
}

/// Creates a context with `catalog` as its default catalog `firn`, and the default schema `ks`.
pub fn context(catalog: FirnCatalog) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(PARTITIONS)
        .with_batch_size(64)
        .with_default_catalog_and_schema("firn", "ks")
        .with_create_default_catalog_and_schema(false);
    let context = SessionContext::new_with_config(config);
    context.register_catalog("firn", Arc::new(catalog));
    context
}

/// Runs a query.
pub async fn run(context: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let frame = context.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    frame.collect().await.unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// Returns the result of a query as lines of values, sorted.
pub async fn lines(context: &SessionContext, sql: &str) -> Vec<String> {
    let mut out = vec![];
    for batch in run(context, sql).await {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|c| array_value_to_string(c, row).unwrap());
            out.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    out.sort();
    out
}

/// Returns the result of a query, such as `EXPLAIN`, as a table of text.
pub async fn text(context: &SessionContext, sql: &str) -> String {
    pretty_format_batches(&run(context, sql).await).unwrap().to_string()
}

/// Writes all memtables of a database to files.
pub fn flush(session: &Session) {
    let db = session.engine().store().db();
    for name in db.tree_names() {
        db.existing_tree(&name).unwrap().flush().unwrap();
    }
}
