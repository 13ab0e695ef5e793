//! Rebuilds the state of a store without a manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use firn_kv::Env as _;
use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::format_version::FormatVersion;
use firn_kv::internals::base::ops::{NO_TREE, TreeId};
use firn_kv::internals::db::new_id;
use firn_kv::internals::manifest::{ManifestState, TreeState};
use firn_kv::internals::sstable::Table;
use firn_tools::output::{Done, things};

use crate::history::owner::StoreOwner;
use crate::history::recovered::RecoveredHistory;
use crate::repair::blob_files::take_blob_files;
use crate::repair::context::RepairContext;
use crate::repair::log::LogContents;
use crate::repair::tables::{TakenFiles, take_all};
use crate::repair::trees::{match_trees, rebuild_tree};
use crate::salvage::losses::Loss;
use crate::salvage::report::NewStoreReport;
use crate::store::blobs::{OldStore, StoreBlobs};
use crate::store::names::FileNames;
use crate::store::target::{env, table_number};

/// Takes over the tables and blob files in the directory of `names`, and returns the state of the
/// new store in `out`.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn rebuild(
    names: &FileNames,
    out: &Path,
    history: &mut RecoveredHistory,
    owner: &StoreOwner,
    report: &mut NewStoreReport,
) -> Done<ManifestState> {
    let log = &LogContents::read(names)?;
    let files = &StoreBlobs::of(names);
    let c = &mut RepairContext {
        old: OldStore { names, out, format: FormatVersion::newest(), files },
        history,
        log,
        report,
    };
    let taken = take_all(c, owner)?;
    let mut by_tree: BTreeMap<TreeId, Vec<Arc<Table>>> = BTreeMap::new();
    for t in &taken.tables {
        by_tree.entry(t.properties().tree).or_default().push(t.clone());
    }
    let ids = name_trees(c, &taken, &mut by_tree);
    match_trees(c, &mut by_tree)?;
    let (mut state, mut unflushed) = (new_state(c, owner, &taken), vec![]);
    for id in ids {
        if id == NO_TREE || c.history.dropped.contains(&id) {
            continue;
        }
        let tables = by_tree.remove(&id).unwrap_or_default();
        let (tree, known) = rebuild_tree(c, id, &tables, &state)?;
        if known < log.floor {
            unflushed.push((known, format!("{:?}", tree.name)));
        }
        state.last_seq = tree.tables().map(|t| t.max_seq).fold(state.last_seq, u64::max);
        state.next_tree = state.next_tree.max(id + 1);
        state.trees.insert(id, tree);
    }
    check_log_start(c, &taken.tables, &state, unflushed)?;
    set_counters(c, &mut state)?;
    take_blob_files(c, &taken, &mut state)?;
    report_unknown(c);
    if taken.tables.is_empty() && log.trees.is_empty() {
        report_empty(c)?;
    }
    Ok(state)
}

/// Names the trees by manifests, events and tables. Returns the ids of all trees.
fn name_trees(
    c: &mut RepairContext<'_>,
    taken: &TakenFiles,
    by_tree: &mut BTreeMap<TreeId, Vec<Arc<Table>>>,
) -> BTreeSet<TreeId> {
    // Values of a tree may remain even if all its tables are lost.
    let of_values = taken.blob_files.values().flatten().filter(|_| c.history.names_no_table());
    let known = c.history.trees.keys();
    let ids: BTreeSet<TreeId> =
        by_tree.keys().chain(c.log.trees.keys()).chain(known).chain(of_values).copied().collect();
    let mut taken_names = BTreeSet::new();
    // If a name was used twice, the newer tree has it: the older one was dropped.
    for &id in ids.iter().rev() {
        let its = by_tree.entry(id).or_default();
        let newest = its.iter().max_by_key(|t| t.id()).map(|t| t.properties().tree_name.clone());
        c.history.name_tree(id, &its.iter().map(|t| t.id()).collect(), newest, &mut taken_names);
    }
    ids
}

/// Returns the state of the new store, still without trees.
fn new_state(c: &RepairContext<'_>, owner: &StoreOwner, taken: &TakenFiles) -> ManifestState {
    let created = taken.tables.iter().map(|t| t.properties().created_micros).min();
    let last_seq = c.history.partial.as_ref().map_or(0, |s| s.last_seq);
    ManifestState {
        id: owner.id.unwrap_or_else(|| new_id(&*env())),
        created_micros: created.unwrap_or_else(|| env().wall_micros()),
        last_seq: last_seq.max(c.log.seqs.end - 1),
        format: c.old.format,
        ..ManifestState::default()
    }
}

/// Sets the next numbers of trees and files, and the position from which the log is needed.
fn set_counters(c: &RepairContext<'_>, state: &mut ManifestState) -> Done {
    let dropped = c.history.dropped.iter().filter(|i| **i < NO_TREE - 1).map(|i| i + 1);
    state.next_tree = dropped.fold(state.next_tree.max(1), TreeId::max);
    let files = c.old.names.numbers(table_number)?.into_iter();
    let files = files.chain(c.history.dead.iter().copied()).filter(|n| *n < 1 << 61);
    let runs = state.trees.values().flat_map(|t| &t.runs).map(|r| r.number);
    let next_file = files.chain(runs).max().unwrap_or(0) + 1;
    state.next_file = c.history.partial.as_ref().map_or(next_file, |s| s.next_file.max(next_file));
    let floor = c.log.floor;
    state.wal_floor = state.trees.values().map(|t| t.flushed).min().unwrap_or(floor).max(floor);
    Ok(())
}

/// Reports that the first segments of the log may be missing. `unflushed` are trees of which tables
/// are known to have only records below an earlier position.
fn check_log_start(
    c: &mut RepairContext<'_>,
    tables: &[Arc<Table>],
    state: &ManifestState,
    unflushed: Vec<(u64, String)>,
) -> Done {
    let floor = c.log.floor;
    let from = unflushed.iter().map(|b| b.0).min().filter(|_| c.history.log_floor < floor);
    if let Some(from) = from
        && !has_all_before(tables, state, c.log, from)?
    {
        let unflushed: Vec<String> = unflushed.into_iter().map(|b| b.1).collect();
        c.report.unknown.push(format!(
            "whether the first segments of the log are missing: it begins at position {floor}, tables are known to hold all earlier \
             writes to all trees but {}, and nothing proves that the log was no longer needed",
            unflushed.join(", ")
        ));
    }
    Ok(())
}

/// Reports whether tables have each sequence number from log position `from` up to the first number
/// in the existing log. Then nothing in between is missing. Entries that were overwritten before a
/// flush have left no sequence number.
fn has_all_before(
    tables: &[Arc<Table>],
    state: &ManifestState,
    log: &LogContents,
    from: u64,
) -> Done<bool> {
    let next = log.seqs.start;
    let ids: BTreeSet<u64> =
        state.trees.values().flat_map(TreeState::tables).map(|m| m.id).collect();
    let live = || tables.iter().filter(|t| ids.contains(&t.id()));
    let before = live().filter(|t| log.end_of_table(t.properties()) <= from);
    let before = before.map(|t| t.properties().max_seq).max().unwrap_or(0);
    let mut found = 0;
    for t in live().filter(|t| t.properties().max_seq > before) {
        let mut c = t.cursor(false);
        c.first()?;
        while c.valid() {
            found += u64::from(before < c.trailer().seq() && c.trailer().seq() < next);
            c.next()?;
        }
    }
    Ok(before + found + 1 >= next)
}

fn report_unknown(c: &mut RepairContext<'_>) {
    if c.history.trees.values().all(|t| t.options.is_none()) {
        c.report.unset.push(
            "the trees' policies, sizes of tables and of memtables: the defaults are taken; opening a tree with options sets them".into(),
        );
    }
    if c.history.names_no_table() && !c.history.has_source {
        c.report.unknown.push(
            "which tables had been dropped without being merged, with a tree or a range: all that are there have been taken, so that \
             data dropped last may be back"
                .into(),
        );
    }
}

/// Reports a store of which nothing can be read.
fn report_empty(c: &mut RepairContext<'_>) -> Done {
    let is_data = |n: &&String| table_number(n).is_some() || n.ends_with(".wal");
    let files = c.old.names.list(c.old.names.dir())?.iter().filter(is_data).count() as u64;
    let reason = format!(
        "nothing can be read in any of its {}",
        things(files, "table and log segment", "tables and log segments")
    );
    c.report.losses.push(Loss::new("store", c.old.names.dir(), reason));
    Ok(())
}
