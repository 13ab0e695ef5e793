//! Runs SQL over a store, and prints the result.
//!
//! ```text
//! cargo run --release -p firn-datafusion --example query -- DIR "SELECT count(*) FROM shop.sales"
//! ```

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, ValueEnum};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::{
    CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider, SchemaProvider,
};
use datafusion::prelude::{SessionConfig, SessionContext};
use firn_cql::Session;
use firn_datafusion::{ByteForm, FirnCatalog, FirnTree, QuerySnapshots, SqlScanOptions};
use firn_kv::{Db, DbOptions};
use firn_tools::io;
use firn_wide::{Options, StoreOptions};
use futures::StreamExt;

/// Tree in which the data model has its definitions.
const SCHEMA_TREE: &str = "system.schema";
/// Rows that are laid out as one table.
const SHOWN: usize = 1000;

const EXAMPLES: &str = "\
Examples:
  query shop \"SELECT day, sum(price) FROM shop.sales GROUP BY day ORDER BY day\"
  query shop \"EXPLAIN SELECT * FROM shop.sales WHERE day = '2026-11-30'\"
  query fruit --tree default=utf8,utf8 \"SELECT * FROM \\\"default\\\" WHERE key > 'b'\"
  query shop --json \"SELECT * FROM shop.sales\" > sales.jsonl";

type AnyError = Box<dyn std::error::Error>;

/// Run SQL over a store, which no other program may write to
#[derive(Parser)]
#[command(after_help = EXAMPLES, max_term_width = 100)]
struct QueryArgs {
    /// Directory of the store
    dir: PathBuf,
    /// Statement in DataFusion's SQL; tables are KEYSPACE.TABLE
    sql: String,
    /// Add a tree as a table of the columns key and value: NAME=FORM,FORM, with binary, utf8, hex,
    /// u32, u64, i32 or i64 as forms of its keys and values
    #[arg(long = "tree", value_name = "TREE")]
    trees: Vec<String>,
    /// Read decimals as numbers with this many digits after the point, and varints as numbers
    #[arg(long, value_name = "DIGITS")]
    decimal_scale: Option<i8>,
    /// Print a JSON object per row
    #[arg(long)]
    json: bool,
}

/// Opens the store, and makes its tables known.
fn open(args: &QueryArgs) -> Result<SessionContext, AnyError> {
    let mut options = SqlScanOptions::default();
    options.decimal_scale = args.decimal_scale;
    let read = || DbOptions { create: false, read_only: true, ..DbOptions::default() };
    let mut db = Db::open_with(&args.dir, read())?;
    let has_tables = db.tree_names().iter().any(|name| name == SCHEMA_TREE);
    let (catalog, snapshots): (Arc<dyn CatalogProvider>, _) = match has_tables {
        true => {
            drop(db);
            let store = StoreOptions { db: read(), ..StoreOptions::default() };
            let session = Session::open_with(&args.dir, Options { store, ..Options::default() })?;
            let catalog = FirnCatalog::new(&session).with_options(options);
            let snapshots = catalog.snapshots().clone();
            db = snapshots.db().clone();
            (Arc::new(catalog), snapshots)
        }
        false => (Arc::new(MemoryCatalogProvider::new()), QuerySnapshots::new(&db)),
    };
    let schema = MemorySchemaProvider::new();
    for text in &args.trees {
        let wrong = || format!("--tree {text}: give NAME=FORM,FORM, such as default=utf8,utf8");
        let (name, forms) = text.rsplit_once('=').ok_or_else(wrong)?;
        let (key, value) = forms.split_once(',').ok_or_else(wrong)?;
        let form = |word: &str| ByteForm::from_str(word, true).map_err(|_| wrong());
        let forms = [form(key)?, form(value)?];
        let tree = FirnTree::new(&snapshots, &db.existing_tree(name)?, forms, options);
        schema.register_table(name.to_owned(), Arc::new(tree))?;
    }
    catalog.register_schema("trees", Arc::new(schema))?;
    let config = SessionConfig::new()
        .with_default_catalog_and_schema("firn", "trees")
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(true);
    let context = SessionContext::new_with_config(config);
    context.register_catalog("firn", catalog);
    Ok(context)
}

async fn run(args: &QueryArgs) -> Result<(), AnyError> {
    let mut batches = open(args)?.sql(&args.sql).await?.execute_stream().await?;
    let mut out = io::stdout();
    // The first batch shows the columns of a result without rows.
    let mut shown = vec![RecordBatch::new_empty(batches.schema())];
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        if args.json {
            let mut writer = LineDelimitedWriter::new(&mut out);
            writer.write(&batch)?;
            writer.finish()?;
            continue;
        }
        rows += batch.num_rows();
        shown.push(batch);
        if rows >= SHOWN {
            writeln!(out, "{}", pretty_format_batches(&shown)?)?;
            (shown, rows) = (vec![], 0);
        }
    }
    if !args.json && !shown.is_empty() {
        writeln!(out, "{}", pretty_format_batches(&shown)?)?;
    }
    out.flush()?;
    Ok(())
}

fn main() -> ExitCode {
    let args = QueryArgs::parse();
    let runtime = tokio::runtime::Runtime::new();
    let done = runtime.map_err(AnyError::from).and_then(|runtime| runtime.block_on(run(&args)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}
