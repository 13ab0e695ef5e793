//! `firn explain`: reports the cost of one read and its causes: the existing memtables and runs,
//! the skipped ones and why, the blocks read and their source, the skipped entries, and advice.
//!
//! Invariant: the report was recorded during the read, in the store opened for it. So the caches
//! are empty at a first read.

use std::ffi::OsString;
use std::io::Write;
use std::sync::Arc;

use clap::Args;
use firn_console::explain::{self, Explained, ExplainedRange, ReadExplanation};
use firn_console::names::StoreNames;
use firn_cql::quote_if_needed;
use firn_tools::io::stdout;
use firn_tools::keys::{self, RangeArgs};
use firn_tools::output::{Done, Failure};

use crate::store::Global;

pub const EXAMPLES: &str = "\
Reports for one read which memtables and runs existed, which ones were skipped and why (bounds, filter, prefix), the answer of each
filter and whether it was right, which blocks came from the cache, the file or its memory map, the entries passed on the way (tombstones,
old versions, entries under range deletions) and their files, and the time of each part; then notable costs, with advice.

The store is opened for reading only and its cache is empty, so these are the costs of a first read. With --warm the read is executed
once before. The times include the overhead of counting. For a CQL statement, the report has every read of the engine for one page.

Examples:
  firn explain apple
  firn explain --prefix user: --limit 100
  firn explain --tree fruit --from a --to b --reverse --json
  firn explain --cql \"SELECT * FROM shop.items WHERE id = 1\"
  firn explain --cql \"SELECT * FROM items WHERE id = 1\" -k shop --warm";

/// Arguments of `firn explain`.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// Read this key, byte for byte
    #[arg(value_name = "KEY", conflicts_with_all = ["from", "to", "prefix", "cql", "reverse"])]
    key: Option<OsString>,
    #[command(flatten)]
    range: RangeArgs,
    /// Run this CQL statement, a SELECT
    #[arg(long, value_name = "SELECT", conflicts_with_all = ["from", "to", "prefix", "tree", "hex", "reverse"])]
    cql: Option<String>,
    /// Use this keyspace for the statement
    #[arg(short, long, value_name = "NAME", requires = "cql")]
    keyspace: Option<String>,
    /// Read this tree, or KEYSPACE.TABLE [default: the tree "default", or the only one]
    #[arg(long, value_name = "NAME")]
    tree: Option<String>,
    /// Scan a range from its end
    #[arg(long)]
    reverse: bool,
    /// Scan at most this many keys of a range; for a statement, rows of a page
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    limit: usize,
    /// Run the read once before, and explain the second one
    #[arg(long)]
    warm: bool,
    /// Read keys as hexadecimal
    #[arg(long)]
    hex: bool,
}

/// Runs `firn explain`.
pub fn run(global: &Global, args: &ExplainArgs) -> Done {
    let explanation = match &args.cql {
        Some(text) => of_statement(global, args, text)?,
        None => of_keys(global, args)?,
    };
    let mut out = stdout();
    if global.store.json {
        writeln!(out, "{}", explain::json(&explanation))?;
    } else {
        explain::print(global.style(), &mut out, &explanation)?;
    }
    Ok(out.flush()?)
}

fn of_statement(global: &Global, args: &ExplainArgs, text: &str) -> Done<ReadExplanation> {
    global.check_model()?;
    let session = global.model(global.to_read())?;
    if let Some(name) = &args.keyspace {
        let chosen = session.execute(&format!("USE {}", quote_if_needed(name)), ());
        chosen.map_err(|e| Failure::new(e.to_string()))?;
    }
    let names = Arc::new(StoreNames::of_session(&session));
    let how = Explained { names, firn: global.firn(), limit: args.limit, warm: args.warm };
    explain::statement(&session, text, how)
}

fn of_keys(global: &Global, args: &ExplainArgs) -> Done<ReadExplanation> {
    // In the tree of a table or family, the hooks fold counters and know the content of the
    // filters.
    let (db, names) = global.open_named()?;
    let tree = global.tree(&db, args.tree.as_deref())?;
    let names = Arc::new(names);
    let how = Explained { names, firn: global.firn(), limit: args.limit, warm: args.warm };
    match &args.key {
        Some(key) => explain::key(&db, &tree, &keys::key(key, args.hex)?, how),
        None if args.range.is_empty() => {
            let next = "give a key, --prefix, --from and --to, or --cql; `firn explain --help` has examples";
            Err(Failure::with_next("no key, range or statement to read is given", next))
        }
        None => {
            let range = args.range.range(args.hex)?;
            let range = ExplainedRange { bounds: range.bounds(), reverse: args.reverse };
            explain::range(&db, &tree, &range, how)
        }
    }
}
