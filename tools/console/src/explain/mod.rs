//! Reports the cost of reads and its causes: the existing memtables and runs, the skipped ones and
//! why, the blocks read and their source, the skipped entries, and advice. `firn explain` prints
//! it, the console shows it.
//!
//! Invariant: the report was recorded during the read. If other threads read the store meanwhile,
//! the report has their reads as well.

mod advice;
mod report;
mod show;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use firn_cql::internals::syntax::ast::Statement;
use firn_cql::internals::syntax::parse;
use firn_cql::{RunOptions, Session};
use firn_kv::explain::{ReadTarget, RecordedReads};
use firn_kv::{Db, Error, Tree};
use firn_tools::escape::words;
use firn_tools::output::{Done, Failure};
use firn_wide::internals::cell::{Cell, StoredCell};
use firn_wide::internals::store::{SCHEMA_TREE, TreeName};
use serde_json::{Value, json};

use crate::explain::report::{CellCounts, ExplainedRead};
use crate::names::StoreNames;

pub use report::ReadExplanation;
pub use show::{json, print};

/// Parameters of an explanation.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Displayed names of the trees.
    pub names: Arc<StoreNames>,
    /// First words of suggested commands for the store.
    pub firn: String,
    /// Maximum keys of a range; for a statement, rows of its page.
    pub limit: usize,
    /// Whether the read runs once before, so that the explained one finds the caches filled.
    pub warm: bool,
}

/// A range to scan.
#[derive(Clone, Copy, Debug)]
pub struct ExplainedRange<'a> {
    /// Bounds of the keys.
    pub bounds: (Bound<&'a [u8]>, Bound<&'a [u8]>),
    /// Whether to scan from the end.
    pub reverse: bool,
}

/// Runs the read, or runs it twice with `warm`, and records the last one.
fn record<T>(db: &Db, warm: bool, read: impl Fn() -> Done<T>) -> Done<(T, RecordedReads)> {
    if warm {
        read()?;
    }
    let recording = db.record_reads();
    let given = read()?;
    Ok((given, recording.finish()))
}

/// Explains one page of a SELECT.
///
/// # Errors
/// Another statement, and errors of the statement.
pub fn statement(session: &Session, text: &str, how: Explained) -> Done<ReadExplanation> {
    let refused = |e: firn_cql::Error| Failure::new(e.to_string());
    if !matches!(parse(text).map_err(|e| refused(e.into()))?.statement, Statement::Select(_)) {
        return Err(Failure::with_next(
            "this statement does not read: only SELECT can be explained",
            "`firn cql -e` runs it",
        ));
    }
    let page = RunOptions { page_size: Some(how.limit.max(1)), ..RunOptions::default() };
    let db = session.engine().store().db();
    let (rows, recorded) =
        record(db, how.warm, || session.execute_with(text, (), &page).map_err(refused))?;
    explanation(db, recorded, how, Some(rows.len()))
}

/// Explains the read of a key.
///
/// # Errors
/// Errors of the read.
pub fn key(db: &Db, tree: &Tree, key: &[u8], how: Explained) -> Done<ReadExplanation> {
    let recorded = record(db, how.warm, || Ok(tree.get(key).map(drop)?))?.1;
    explanation(db, recorded, how, None)
}

/// Explains the scan of a range.
///
/// # Errors
/// Errors of the scan.
pub fn range(
    db: &Db,
    tree: &Tree,
    range: &ExplainedRange<'_>,
    how: Explained,
) -> Done<ReadExplanation> {
    let recorded = record(db, how.warm, || Ok(scan(tree, range, how.limit)?))?.1;
    explanation(db, recorded, how, None)
}

fn scan(tree: &Tree, range: &ExplainedRange<'_>, limit: usize) -> Result<(), Error> {
    let mut cursor = tree.cursor(range.bounds)?;
    if limit > 0 {
        if range.reverse { cursor.last()? } else { cursor.first()? }
    }
    let mut left = limit;
    while cursor.is_valid() && left > 1 {
        left -= 1;
        if range.reverse { cursor.prev()? } else { cursor.next()? }
    }
    Ok(())
}

fn explanation(
    db: &Db,
    recorded: RecordedReads,
    how: Explained,
    rows: Option<usize>,
) -> Done<ReadExplanation> {
    let mut reads = vec![];
    for cost in recorded.reads.into_iter().filter(|r| r.tree != SCHEMA_TREE) {
        let cells = match TreeName::parse(&cost.tree) {
            Some(TreeName::Family(_)) => cells(&db.existing_tree(&cost.tree)?, &cost.target)?,
            _ => None,
        };
        reads.push(ExplainedRead { cost, cells });
    }
    Ok(ReadExplanation { rows, reads, more: recorded.more, names: how.names, firn: how.firn })
}

/// Maximum number of listed reads in a sample.
const MAX_COSTLY: usize = 25;

/// Returns a sample of reads as JSON: those of one key or partition together, the most expensive
/// first.
pub fn costly_json(recorded: &RecordedReads, names: &StoreNames) -> Value {
    #[derive(Default)]
    struct Costly {
        reads: u64,
        nanos: u64,
        found: u64,
        searched: u64,
    }
    let mut all: BTreeMap<(String, String), Costly> = BTreeMap::new();
    for read in &recorded.reads {
        let (ReadTarget::Key(first) | ReadTarget::Range { from: first, .. }) = &read.target;
        let key = names.partition(&read.tree, first).unwrap_or_else(|| words(first));
        let tree = names.of_tree(&read.tree).unwrap_or(&read.tree);
        let of = all.entry((tree.to_owned(), key)).or_default();
        of.reads += 1;
        of.nanos += read.nanos;
        of.found += read.found;
        of.searched += read.searched() as u64;
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|(_, of)| std::cmp::Reverse(of.nanos));
    let costly = |((tree, key), of): &((String, String), Costly)| {
        json!({
            "tree": tree, "key": key, "reads": of.reads, "nanos": of.nanos, "found": of.found,
            "searched": of.searched,
        })
    };
    json!({
        "reads": recorded.reads.len(),
        "not_recorded": recorded.more,
        "keys": all.len(),
        "costly": all.iter().take(MAX_COSTLY).map(costly).collect::<Vec<_>>(),
    })
}

/// Limit of cells in a range; beyond it, dead cells are not counted.
const MOST_CELLS: u64 = 200_000;

/// Counts the entries in the range of a read. Dead ones remain until their grace period ends.
fn cells(tree: &Tree, of: &ReadTarget) -> Done<Option<CellCounts>> {
    let ReadTarget::Range { from, until } = of else { return Ok(None) };
    let now = firn_kv::OsEnv::new().wall_micros() as i64 / 1_000_000;
    let end = until.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut cursor = tree.cursor((Bound::Included(from.as_slice()), end))?;
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
