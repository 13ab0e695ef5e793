//! The blob files of a store without a manifest: those to which tables refer, and values of lost
//! tables in the others.

use std::collections::{BTreeMap, BTreeSet};

use firn_kv::internals::base::ops::TreeId;
use firn_kv::internals::manifest::{ManifestState, TreeState};
use firn_tools::output::Done;

use crate::repair::context::RepairContext;
use crate::repair::tables::TakenFiles;
use crate::salvage::losses::Loss;
use crate::salvage::lost_values::{LostEntries, ValueRecovery};
use crate::salvage::new_store;
use crate::store::blobs::StoreBlobs;

/// Takes over the blob files to which tables refer, and recovers the values of lost tables from
/// them.
///
/// A value without a reference may belong to a lost table, or it was deleted or replaced. If a table
/// of the tree is lost or damaged, all values without a newer entry are recovered. If no source
/// names the former tables, only values of files without any reference are recovered, since a file
/// exists only as long as a table needs it. In other cases the values are garbage of compactions.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn take_blob_files(
    c: &mut RepairContext<'_>,
    taken: &TakenFiles,
    state: &mut ManifestState,
) -> Done {
    let (old, is_unsourced) = (c.old, c.history.names_no_table());
    let mut by_tree: BTreeMap<TreeId, BTreeSet<u64>> = BTreeMap::new();
    for (&id, &tree) in taken.blob_files.iter().filter(|f| !c.history.is_left_over(*f.0)) {
        match tree.or_else(|| tree_of(old.files, id, state)) {
            Some(tree) => drop(by_tree.entry(tree).or_default().insert(id)),
            None => c.report.unknown.push(format!(
                "the tree of blob file {id}, to which no table refers and whose properties are lost: it is left out"
            )),
        }
    }
    for tree in state.trees.values_mut() {
        let id = tree.id;
        let has_lost = |l: &Loss| {
            (l.tree.is_none() || l.tree == Some(id)) && matches!(l.what, "data" | "table")
        };
        let mut files = by_tree.remove(&id).unwrap_or_default();
        if !taken.is_table_missing && !c.report.losses.iter().any(has_lost) {
            files.retain(|file| is_unsourced && !is_referred(old.files, tree, *file));
        }
        let lost = [LostEntries { files, ..LostEntries::default() }];
        let (uses, floor) = (BTreeMap::new(), c.log.floor);
        let missing = ValueRecovery { old, tree, uses, lost: &lost, floor, store: state.id };
        let from = c.report.losses.len();
        let runs = new_store::recover_values(missing, &mut state.next_file, from, c.report)?;
        let values = new_store::copy_blob_files(old, &runs, c.report)?;
        (tree.runs, tree.values) = (runs, values.into_iter().collect());
        state.last_seq = tree.tables().map(|t| t.max_seq).fold(state.last_seq, u64::max);
    }
    Ok(())
}

/// Reports whether a table of the tree refers to a blob file. Includes tables that no longer do in
/// the new store.
fn is_referred(files: &StoreBlobs<'_>, tree: &TreeState, file: u64) -> bool {
    tree.tables().any(|m| files.refers(m.id, file).unwrap_or(false))
}

/// Returns the tree of a blob file without properties: that of the tables that refer to it, or the
/// only existing tree.
fn tree_of(files: &StoreBlobs<'_>, id: u64, state: &ManifestState) -> Option<TreeId> {
    let by_tables = state.trees.values().find(|t| is_referred(files, t, id)).map(|t| t.id);
    let only = || Some(*state.trees.keys().next()?).filter(|_| state.trees.len() == 1);
    by_tables.or_else(only)
}
