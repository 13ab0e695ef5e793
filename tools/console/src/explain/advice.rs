//! Advice derived from the cost of reads.

use std::collections::BTreeMap;

use firn_kv::explain::{Entries, EntryLocation, ReadCost, ReadTarget, SourceCost};
use firn_tools::output::{count, things};
use firn_tools::shell;

use super::report::ReadExplanation;

/// Reported ratio of skipped entries per found key, and the minimum number of skipped entries.
const MANY_PASSED: (u64, u64) = (4, 100);
/// Reported average number of searched runs per read of a tree.
const MANY_RUNS: u64 = 4;
/// Reported number of merge operands per found key.
const MANY_OPERANDS: u64 = 16;

/// Sum over all reads of one tree.
#[derive(Default)]
struct OfTree<'a> {
    reads: u64,
    found: u64,
    searched: u64,
    sum: SourceCost,
    tables: BTreeMap<u64, Entries>,
    cells: u64,
    dead: u64,
    last: Option<&'a ReadCost>,
}

/// Returns the `firn compact` command for the data of a read: its range, or the whole tree for a
/// tree of cells. `firn` is the begin of the command.
fn compact(firn: &str, read: &ReadCost) -> String {
    let tree = shell::quote(&read.tree);
    let (from, until) = match &read.target {
        ReadTarget::Range { from, until: Some(until) } if !from.is_empty() => (from, until),
        _ => return format!("{firn} compact --tree {tree}"),
    };
    match (std::str::from_utf8(from), std::str::from_utf8(until)) {
        (Ok(from), Ok(until)) if !from.chars().chain(until.chars()).any(char::is_control) => {
            format!(
                "{firn} compact --tree {tree} --from {} --to {}",
                shell::quote(from),
                shell::quote(until)
            )
        }
        _ => {
            let hex = firn_tools::escape::hex;
            format!("{firn} compact --tree {tree} --hex --from {} --to {}", hex(from), hex(until))
        }
    }
}

/// Returns the `firn purge-report` command for the table or family of a tree.
fn purge_report(told: &ReadExplanation, tree: &str) -> String {
    let of = told.names.of_tree(tree).and_then(|words| words.split_once(' '));
    match of.and_then(|(_, path)| path.split_once('.')) {
        Some((keyspace, family)) => format!(
            "{} purge-report -k {} -f {}",
            told.firn,
            shell::quote(keyspace),
            shell::quote(family)
        ),
        None => format!("{} purge-report -k KEYSPACE", told.firn),
    }
}

/// Names the table with the largest count, and that count.
fn at_most(tables: &BTreeMap<u64, Entries>, of: impl Fn(&Entries) -> u64) -> Option<String> {
    let (id, most) = tables.iter().map(|(id, e)| (id, of(e))).max_by_key(|(_, n)| *n)?;
    (most > 0).then(|| format!("{id:08}.sst has {}", count(most)))
}

/// Returns the advice, one item per line; empty if there is none.
pub fn lines(told: &ReadExplanation) -> Vec<String> {
    let mut trees: BTreeMap<&str, OfTree<'_>> = BTreeMap::new();
    for read in &told.reads {
        let t = trees.entry(&read.cost.tree).or_default();
        t.reads += 1;
        t.found += read.cost.found;
        t.searched +=
            read.cost.sources.iter().filter(|s| is_run(s) && s.skipped.is_none()).count() as u64;
        t.sum.add(&read.cost.total());
        for (id, e) in read.cost.sources.iter().flat_map(|s| &s.tables) {
            t.tables.entry(*id).or_default().add(e);
        }
        let cells = read.cells.unwrap_or_default();
        t.cells += cells.all();
        t.dead += cells.dead();
        t.last = Some(&read.cost);
    }
    trees.values().filter_map(|t| Some(of_tree(told, t, t.last?))).flatten().collect()
}

fn is_run(s: &SourceCost) -> bool {
    matches!(s.location, EntryLocation::Run { .. })
}

fn of_tree(told: &ReadExplanation, t: &OfTree<'_>, last: &ReadCost) -> Vec<String> {
    let (e, found, tree) = (&t.sum.entries, t.found, &last.tree);
    let stands_out = |n: u64| n > MANY_PASSED.1 && n > MANY_PASSED.0 * found;
    let place = |of: fn(&Entries) -> u64| {
        at_most(&t.tables, of)
            .map_or_else(|| "all in memtables".to_owned(), |most| format!("most: {most}"))
    };
    let compact = || format!("`{}`", compact(&told.firn, last));
    let mut said = vec![];
    if stands_out(e.tombstones()) {
        said.push(format!(
            "passed {} of {tree} ({}) for {}: {} removes them and the entries that they hide, except those that a snapshot needs",
            things(e.tombstones(), "tombstone", "tombstones"),
            place(Entries::tombstones),
            things(found, "key", "keys"),
            compact(),
        ));
    }
    if stands_out(e.covered_entries()) {
        said.push(format!(
            "passed {} of {tree} under range deletions ({}): {} removes both",
            things(e.covered_entries(), "entry", "entries"),
            place(Entries::covered_entries),
            compact(),
        ));
    }
    if t.searched > MANY_RUNS * t.reads {
        said.push(format!(
            "searched {} in {} of {tree}: {} leaves one",
            runs(t.searched),
            reads(t.reads),
            compact()
        ));
    }
    if stands_out(e.unseen) {
        said.push(format!(
            "passed {} of {tree} that came after the read began",
            things(e.unseen, "entry", "entries")
        ));
    }
    if e.operands > MANY_OPERANDS * found.max(1) {
        said.push(format!(
            "folded {} of {tree}: {} leaves one value",
            things(e.operands, "operand", "operands"),
            compact()
        ));
    }
    if t.dead > MANY_PASSED.1 && t.dead * 2 > t.cells {
        said.push(format!(
            "{} of {} in the read range of {tree} are deleted or have expired: `{}` reports what retains them, and until when",
            count(t.dead),
            things(t.cells, "cell", "cells"),
            purge_report(told, tree)
        ));
    }
    let wrong = t.sum.filters.iter().filter(|f| f.right == Some(false)).count() as u64;
    if wrong > 1 + t.reads / 20 {
        said.push(format!(
            "{} of {tree} had false positives, each of which read a block: `sstable-dump filters` measures them",
            things(wrong, "filter", "filters"),
        ));
    }
    if let (Some(seq), 0) = (t.sum.covered_by, found) {
        said.push(format!("a range deletion of {tree} (sequence number {seq}) covers the read range, and nothing was found"));
    }
    said
}

fn runs(n: u64) -> String {
    things(n, "run", "runs")
}

fn reads(n: u64) -> String {
    things(n, "read", "reads")
}
