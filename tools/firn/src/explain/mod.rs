//! `firn explain`: reports the cost of one read and its causes: the existing memtables and runs,
//! the skipped ones and why, the blocks read and their source, the skipped entries, and advice.
//!
//! Invariant: the report was recorded during the read, in the store opened for it. So the caches
//! are empty at a first read.

mod advice;
mod show;

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use firn_cql::RunOptions;
use firn_cql::internals::syntax::ast::Statement;
use firn_cql::internals::syntax::parse;
use firn_cql::quote_if_needed;
use firn_kv::explain::{ReadCost, ReadTarget, RecordedReads};
use firn_kv::{Db, Error, Tree};
use firn_tools::escape::words;
use firn_tools::io::stdout;
use firn_tools::keys::{self, RangeArgs};
use firn_tools::output::{Done, Failure};
use firn_wide::internals::cell::{Cell, StoredCell};
use firn_wide::internals::store::{SCHEMA_TREE, TreeName};

use crate::names::StoreNames;
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

/// The recorded reads and their costs.
struct ToldSteps {
    /// Rows of a statement.
    rows: Option<usize>,
    reads: Vec<ExplainedRead>,
    /// Number of reads that were not recorded.
    more: u64,
    names: StoreNames,
    /// First words of commands for this store.
    firn: String,
}

/// One read of the engine.
struct ExplainedRead {
    cost: ReadCost,
    /// Entries in the read range, for a tree of cells.
    cells: Option<CellCounts>,
}

/// Entries of a range of a tree of cells.
#[derive(Clone, Copy, Default)]
struct CellCounts {
    live: u64,
    /// Deletions of partitions, rows and collections.
    deletions: u64,
    /// Tombstones of single cells.
    tombstones: u64,
    expired: u64,
    /// Range deletions of rows, which a read seeks past.
    ranges: u64,
}

impl CellCounts {
    /// Returns the number of entries that a read steps through.
    fn all(&self) -> u64 {
        self.live + self.dead()
    }

    /// Returns the number of entries that it steps through and does not return.
    fn dead(&self) -> u64 {
        self.deletions + self.tombstones + self.expired
    }
}

/// Limit of cells in a range; beyond it, dead cells are not counted.
const MOST_CELLS: u64 = 200_000;

/// Runs `firn explain`.
pub fn run(global: &Global, args: &ExplainArgs) -> Done {
    let told = match &args.cql {
        Some(text) => of_statement(global, args, text)?,
        None => of_keys(global, args)?,
    };
    let mut out = stdout();
    if global.store.json {
        writeln!(out, "{}", show::json(&told))?;
    } else {
        show::print(global.style(), &mut out, &told)?;
    }
    Ok(out.flush()?)
}

/// Runs the read, or runs it twice with `--warm`, and records the last one.
fn record<T>(db: &Db, args: &ExplainArgs, read: impl Fn() -> Done<T>) -> Done<(T, RecordedReads)> {
    if args.warm {
        read()?;
    }
    let recording = db.record_reads();
    let given = read()?;
    Ok((given, recording.finish()))
}

fn of_statement(global: &Global, args: &ExplainArgs, text: &str) -> Done<ToldSteps> {
    global.check_model()?;
    let session = global.model(global.to_read())?;
    let refused = |e: firn_cql::Error| Failure::new(e.to_string());
    if let Some(name) = &args.keyspace {
        session.execute(&format!("USE {}", quote_if_needed(name)), ()).map_err(refused)?;
    }
    if !matches!(parse(text).map_err(|e| refused(e.into()))?.statement, Statement::Select(_)) {
        return Err(Failure::with_next(
            "this statement does not read: only SELECT can be explained",
            "`firn cql -e` runs it",
        ));
    }
    let how = RunOptions { page_size: Some(args.limit.max(1)), ..RunOptions::default() };
    let db = session.engine().store().db();
    let (rows, recorded) =
        record(db, args, || session.execute_with(text, (), &how).map_err(refused))?;
    let names = StoreNames::of_session(&session);
    told(global, db, recorded, names, Some(rows.len()))
}

fn of_keys(global: &Global, args: &ExplainArgs) -> Done<ToldSteps> {
    // In the tree of a table or family, the hooks fold counters and know the content of the
    // filters.
    let (db, names) = global.open_named()?;
    let tree = global.tree(&db, args.tree.as_deref())?;
    let recorded = match &args.key {
        Some(key) => {
            let key = keys::key(key, args.hex)?;
            record(&db, args, || Ok(tree.get(&key).map(drop)?))?.1
        }
        None if args.range.is_empty() => {
            let next = "give a key, --prefix, --from and --to, or --cql; `firn explain --help` has examples";
            return Err(Failure::with_next("no key, range or statement to read is given", next));
        }
        None => {
            let range = args.range.range(args.hex)?;
            record(&db, args, || Ok(walk(&tree, range.bounds(), args)?))?.1
        }
    };
    told(global, &db, recorded, names, None)
}

type ExplainBounds<'a> = (std::ops::Bound<&'a [u8]>, std::ops::Bound<&'a [u8]>);

fn walk(tree: &Tree, bounds: ExplainBounds<'_>, args: &ExplainArgs) -> Result<(), Error> {
    let mut cursor = tree.cursor(bounds)?;
    if args.limit > 0 {
        if args.reverse { cursor.last()? } else { cursor.first()? }
    }
    let mut left = args.limit;
    while cursor.is_valid() && left > 1 {
        left -= 1;
        if args.reverse { cursor.prev()? } else { cursor.next()? }
    }
    Ok(())
}

fn told(
    global: &Global,
    db: &Db,
    recorded: RecordedReads,
    names: StoreNames,
    rows: Option<usize>,
) -> Done<ToldSteps> {
    let mut reads = vec![];
    for cost in recorded.reads.into_iter().filter(|r| r.tree != SCHEMA_TREE) {
        let cells = match TreeName::parse(&cost.tree) {
            Some(TreeName::Family(_)) => cells(&db.existing_tree(&cost.tree)?, &cost.target)?,
            _ => None,
        };
        reads.push(ExplainedRead { cost, cells });
    }
    Ok(ToldSteps { rows, reads, more: recorded.more, names, firn: global.firn() })
}

/// Counts the entries in the range of a read. Dead ones remain until their grace period ends.
fn cells(tree: &Tree, of: &ReadTarget) -> Done<Option<CellCounts>> {
    let ReadTarget::Range { from, until } = of else { return Ok(None) };
    let now = firn_kv::OsEnv::new().wall_micros() as i64 / 1_000_000;
    let end = until.as_deref().map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
    let mut cursor = tree.cursor((std::ops::Bound::Included(from.as_slice()), end))?;
    cursor.first()?;
    let mut counts = CellCounts::default();
    for _ in 0..MOST_CELLS {
        if !cursor.is_valid() {
            return Ok(Some(counts));
        }
        match StoredCell::decode(cursor.value()) {
            Ok(StoredCell::Cell(cell)) if Cell::is_live(&cell, now) => counts.live += 1,
            Ok(StoredCell::Cell(cell)) if cell.ttl().is_some() => counts.expired += 1,
            Ok(StoredCell::Cell(_)) => counts.tombstones += 1,
            Ok(StoredCell::Range(..)) => counts.ranges += 1,
            Ok(StoredCell::Deletion(_)) | Err(_) => counts.deletions += 1,
        }
        cursor.next()?;
    }
    Ok(None)
}

/// Returns the part of a partition that was read, in the types of its table; `None` for all of it.
fn part(read: &ReadCost, names: &StoreNames) -> Option<String> {
    match &read.target {
        ReadTarget::Key(key) => names.cell(&read.tree, key),
        ReadTarget::Range { from, until } => names.rows(&read.tree, from, until.as_deref()),
    }
}

/// Describes the read.
fn subject(read: &ReadCost, names: &StoreNames) -> String {
    let tree = names
        .of_tree(&read.tree)
        .map_or_else(|| format!("tree {}", read.tree), |n| format!("{n} (tree {})", read.tree));
    let of = |key: &[u8]| names.partition(&read.tree, key);
    let part = part(read, names).map_or_else(String::new, |part| format!(", {part}"));
    match &read.target {
        ReadTarget::Key(key) => match of(key) {
            Some(partition) => format!("a cell of {tree}, partition {partition}{part}"),
            None => format!("key {} of {tree}", words(key)),
        },
        ReadTarget::Range { from, until } => match of(from) {
            Some(partition) => format!("cells of {tree}, partition {partition}{part}"),
            None if names.of_tree(&read.tree).is_some() => format!("partitions of {tree}"),
            None => {
                let from = if from.is_empty() { "the first".into() } else { words(from) };
                let until =
                    until.as_ref().map_or("the last".into(), |u| format!("before {}", words(u)));
                format!("keys of {tree} from {from} to {until}")
            }
        },
    }
}
