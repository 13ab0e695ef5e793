//! Rebuilds the trees of a store without a manifest: name, options, runs and flushed position.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_kv::TreeOptions;
use firn_kv::internals::base::ops::{NO_TREE, TreeId};
use firn_kv::internals::manifest::{ManifestState, PersistedOptions, RunState, TreeState};
use firn_kv::internals::sstable::Table;
use firn_tools::output::{Done, things};
use firn_wide::internals::store::TreeName;

use crate::repair::ages;
use crate::repair::context::RepairContext;
use crate::salvage::finish::NAMELESS;
use crate::salvage::table::{meta_of, options_by};
use crate::schema::matching::{self, TableContent};

/// Names trees by their content, and leaves out those of indexes that cannot be identified.
///
/// # Errors
/// I/O errors.
pub fn match_trees(
    c: &mut RepairContext<'_>,
    by_tree: &mut BTreeMap<TreeId, Vec<Arc<Table>>>,
) -> Done {
    by_tree.retain(|id, _| *id != NO_TREE && !c.history.dropped.contains(id));
    let content = TableContent { names: c.old.names, floor: c.log.floor, trees: by_tree };
    let found = matching::find(&content, c.history)?;
    for (id, name, what) in found.names {
        c.report.notes.push(format!("tree {id} is {name:?}: by what is in it, {what}"));
        c.history.trees.entry(id).or_default().name = Some(name);
    }
    for (id, what, hooks) in found.open {
        c.report.unknown.push(format!("what tree {id} is: by what is in it, {what}"));
        c.history.hooks.extend(hooks.map(|hooks| (id, hooks)));
    }
    for id in found.indexes {
        c.report
            .unset
            .push(format!("the index whose entries tree {id} holds: it is left out, and all indexes are built anew"));
        for t in by_tree.remove(&id).unwrap_or_default() {
            c.leave_out(&t)?;
        }
        c.history.dropped.insert(id);
    }
    Ok(())
}

/// Returns the tree, and the position below which its tables are known to have all its records.
/// `state` has the trees that are already rebuilt.
///
/// # Errors
/// I/O errors.
pub fn rebuild_tree(
    c: &mut RepairContext<'_>,
    id: TreeId,
    tables: &[Arc<Table>],
    state: &ManifestState,
) -> Done<(TreeState, u64)> {
    let facts = c.history.trees.get(&id).cloned().unwrap_or_default();
    let taken = |name: &String| state.tree_named(name).is_some();
    let name = facts.name.filter(|n| !taken(n)).unwrap_or_else(|| {
        c.report
            .unknown
            .push(format!("the name of tree {id}: it is called \"{NAMELESS}{id}\" now"));
        format!("{NAMELESS}{id}")
    });
    let options = facts.options.unwrap_or_else(|| {
        let by = tables.iter().max_by_key(|t| t.id()).map(|t| options_by(t.properties()));
        by.or_else(|| c.history.hooks.get(&id).cloned()).unwrap_or_else(|| {
            if TreeName::parse(&name).is_none() {
                c.report.unset.push(format!(
                    "the hooks of tree {id} {name:?}, which is in the log only: none are taken"
                ));
            }
            PersistedOptions::of(&TreeOptions::default())
        })
    });
    let runs = find_runs(c, tables)?;
    let by_tables = tables.iter().map(|t| c.log.end_of_table(t.properties())).max().unwrap_or(0);
    let known = facts.flushed.max(by_tables);
    let flushed = flushed_position(c, (id, &name), tables, known);
    let count: usize = runs.iter().map(|r| r.tables.len()).sum();
    let (tables, runs_word) =
        (things(count as u64, "table", "tables"), things(runs.len() as u64, "run", "runs"));
    c.report.notes.push(format!("tree {id} {name:?}: {tables} in {runs_word}"));
    Ok((TreeState { id, name, options, flushed, runs, values: Default::default() }, known))
}

/// Returns the runs of a tree; removes obsolete tables from the new store.
fn find_runs(c: &mut RepairContext<'_>, tables: &[Arc<Table>]) -> Done<Vec<Arc<RunState>>> {
    let ages = ages::compare(tables)?;
    let mut live: BTreeSet<usize> = (0..tables.len()).collect();
    let id = |i: usize| tables[i].id();
    for d in ages.obsolete(tables) {
        live.remove(&d.table);
        let others: Vec<String> = d.instead.iter().map(|&i| id(i).to_string()).collect();
        let why = if d.unfinished {
            "a compaction of them that was not finished"
        } else {
            "it was merged into them"
        };
        c.report.notes.push(format!(
            "table {} is left out: its entries are in {} too: {why}",
            id(d.table),
            others.join(", ")
        ));
        c.leave_out(&tables[d.table])?;
        let path = c.old.names.path_of(id(d.table));
        let report = &mut *c.report;
        match report.losses.iter().any(|l| l.file == path) {
            true => report.rescued = report.rescued.saturating_sub(1),
            false => report.copied = report.copied.saturating_sub(1),
        }
        // An unfinished table has lost nothing.
        report.losses.retain(|l| l.file != path);
    }
    report_unordered(c, tables, &live);
    let (runs, guessed) = ages.runs(tables, &live);
    if guessed {
        c.report.unknown.push(
            "tables contradict each other about which is newer: dead ones may be among them; the larger numbers win".into(),
        );
    }
    let meta = |&i: &usize| {
        let ingested_seq = c.history.ingested_seq(id(i));
        let known = c.history.metas.get(&id(i)).cloned();
        let known = known.or_else(|| (ingested_seq > 0).then(|| meta_of(&tables[i], None)));
        let known = known.map(|mut m| {
            m.ingested_seq = ingested_seq;
            m
        });
        Arc::new(meta_of(&tables[i], known.as_ref()))
    };
    let run = |(n, r): (usize, &Vec<usize>)| {
        Arc::new(RunState { level: 0, number: n as u64 + 1, tables: r.iter().map(meta).collect() })
    };
    // Newest first: the highest number.
    Ok(runs.iter().enumerate().map(run).rev().collect())
}

/// Reports live tables without sequence numbers, whose order is a guess.
fn report_unordered(c: &mut RepairContext<'_>, tables: &[Arc<Table>], live: &BTreeSet<usize>) {
    let is_unordered = |t: &&Arc<Table>| {
        let p = t.properties();
        p.max_seq == 0 && p.entries > 0 && c.history.ingested_seq(t.id()) == 0
    };
    let ids: Vec<String> =
        live.iter().map(|&i| &tables[i]).filter(is_unordered).map(|t| t.id().to_string()).collect();
    if ids.is_empty() || live.len() == 1 {
        return;
    }
    // If a source names the obsolete tables, they have already been left out.
    let report = &mut *c.report;
    let says = if c.history.names_no_table() { &mut report.unknown } else { &mut report.notes };
    says.push(format!(
        "table {}: no sequence numbers: merged all the way down, or bulk-loaded; they are taken for the oldest, the one with \
         the higher number for the newer. Should inputs of such a merge be left over, they hide what is newer",
        ids.join(", ")
    ));
}

/// Returns the position below which a tree's records are in its tables. `known` is the position
/// that manifests, events and tables prove.
fn flushed_position(
    c: &mut RepairContext<'_>,
    (tree, name): (TreeId, &str),
    tables: &[Arc<Table>],
    known: u64,
) -> u64 {
    let (log, floor) = (c.log.trees.get(&tree), c.log.floor);
    let max_seq = tables.iter().map(|t| t.properties().max_seq).max().unwrap_or(0);
    let by_seq = log.and_then(|l| l.end_at(max_seq)).unwrap_or(floor);
    let at = by_seq.max(known).max(floor);
    // The sources of the tree would also mention its tables.
    let has_none =
        tables.is_empty() && c.history.has_source && !c.history.has_tables_of(tree, name);
    if let Some(l) = log
        && l.merges > 0
        && known == 0
        && !has_none
        && l.records.iter().any(|r| r.0 > at)
    {
        c.report.unknown.push(format!(
            "tree {tree} {name:?} has merge operands in the log; those that compactions folded all the way down may count twice"
        ));
    }
    at
}
