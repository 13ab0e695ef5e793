//! Makes changes of tables durable and visible.
//!
//! Invariants:
//! - Changes of several trees are one frame of the manifest, so all of them count or none.
//! - Flushed memtables leave the views in the same change that adds their tables.

use std::sync::Arc;

use crate::base::blob_ref::BlobFileMeta;
use crate::base::error::Result;
use crate::db::jobs::pick;
use crate::db::write::durable;
use crate::iterator::table_handle::TableHandle;
use crate::manifest::{AddedTable, Edit, TableMeta};
use crate::wal::Lsn;

use crate::db::commit::mem_handle::MemHandle;
use crate::db::inner::DbInner;
use crate::db::jobs::outputs::remove_tables;
use crate::db::observe::pins::advance_epoch;
use crate::db::versions::catalog::TreeCatalog;
use crate::db::versions::tree::{TreeFiles, TreeInner, build_version};
use crate::db::versions::view::TreeView;

/// Change of one tree's tables.
pub struct VersionChange<'a> {
    pub tree: &'a TreeInner,
    /// Ids of removed tables.
    pub removed: Vec<u64>,
    /// Added tables: level, run, metadata.
    pub added: Vec<(u8, u64, TableMeta)>,
    /// Blob files that were written for the added tables.
    pub values: Vec<BlobFileMeta>,
    /// Flushed memtable to remove, with the new flushed position of the tree.
    pub flushed: Option<(&'a MemHandle, Lsn)>,
}

impl VersionChange<'_> {
    /// Returns the edit for the manifest.
    pub fn edit(&self) -> Edit {
        let added = self.added.iter().map(|(level, run, m)| AddedTable {
            level: *level,
            run: *run,
            table: Arc::new(m.clone()),
        });
        Edit::Tables {
            tree: self.tree.id,
            removed: self.removed.clone(),
            added: added.collect(),
            flushed: self.flushed.map(|(_, end)| end),
            values: self.values.iter().cloned().map(Arc::new).collect(),
        }
    }

    /// Returns the files that were written for the change.
    fn made(&self) -> Vec<u64> {
        let tables = self.added.iter().map(|(_, _, t)| t.id);
        let new = tables.filter(|id| !self.removed.contains(id));
        new.chain(self.values.iter().map(|v| v.id)).collect()
    }
}

/// Makes changes durable and visible, at most one for each tree. Returns the position below
/// which the log is not needed.
pub fn install_changes(db: &DbInner, changes: Vec<VersionChange<'_>>) -> Result<Lsn> {
    let remove_made = || changes.iter().for_each(|change| remove_tables(db, &change.made()));
    let mut gone: Vec<Vec<Arc<TableHandle>>> = vec![];
    let floor;
    {
        let mut c = db.versions.lock_catalog();
        // The floor that is set below must not enter a manifest without its tables.
        let known = changes.iter().try_for_each(|change| check_known(&c, change.tree));
        if let Err(e) = known.and_then(|()| durable::make_manifest_ready(db, &mut c)) {
            drop(c);
            // The new files will never be named in a manifest. Moved tables were dropped with
            // the tree.
            remove_made();
            return Err(e);
        }
        let before = c.state().wal_floor;
        let flushed: Vec<_> =
            changes.iter().filter_map(|change| Some((change.tree.id, change.flushed?.0))).collect();
        floor = before.max(db.commit.durable_floor(&flushed));
        c.set_wal_floor(floor);
        let edits: Vec<Edit> = changes.iter().map(VersionChange::edit).collect();
        if let Err(e) = durable::log_edits(db, &mut c, edits.clone()) {
            // The memtables, and so their log, are still needed.
            c.set_wal_floor(before);
            drop(c);
            // If the store is read-only, the manifest may name the tables; the next open decides.
            if db.gate.check_writable().is_ok() {
                remove_made();
            }
            return Err(e);
        }
        for (change, edit) in changes.iter().zip(edits) {
            gone.push(make_visible(db, &c, &mut change.tree.files.lock(), change, edit)?);
        }
    }
    for (change, gone) in changes.iter().zip(&gone) {
        db.observer.pins().retire(change.tree.id, gone);
        pick::tables_changed(db, change.tree);
    }
    if changes.iter().any(|change| change.flushed.is_some()) {
        // Frees the memory of the memtable. Otherwise the old view would hold it until the next
        // access.
        advance_epoch();
    }
    db.memory.rebalance();
    db.scheduler.queue().signal_done();
    pick::call_workers_for(db, changes.iter().map(|change| change.tree));
    Ok(floor)
}

/// Makes a change visible to readers after its edit is in the manifest. Returns the removed
/// tables.
pub fn make_visible(
    db: &DbInner,
    c: &TreeCatalog,
    files: &mut TreeFiles,
    change: &VersionChange<'_>,
    edit: Edit,
) -> Result<Vec<Arc<TableHandle>>> {
    let (tree, mut gone) = (change.tree, vec![]);
    let Some(state) = c.state().trees.get(&tree.id) else { return Ok(gone) };
    if let Edit::Tables { added, .. } = edit {
        for AddedTable { table, .. } in added {
            files.add_table_handle(table, db.versions.opener(), &state.values);
        }
    }
    for id in change.removed.iter().filter(|id| !c.state().has_table(**id)) {
        let handle = files.handles.remove(id);
        debug_assert!(handle.is_some(), "removed table {id} must have a handle");
        gone.extend(handle);
    }
    let before = tree.view.load_full().version.clone();
    let version = Arc::new(build_version(&before, state, files).map_err(|e| db.gate.fail(e))?);
    if let Some((m, _)) = change.flushed {
        tree.read_debt.hold(change.added.iter().map(|(_, _, t)| t.size).sum());
        m.set_flushed();
        db.commit.lock().release(tree.id, m);
        db.memory.release(m);
    }
    tree.change_view(|v| TreeView {
        sealed: v.without(change.flushed.map(|(m, _)| m)),
        version,
        ..v.clone()
    });
    Ok(gone)
}

/// Returns an error if the tree is no longer in the manifest. Trees are dropped under the same
/// lock.
pub fn check_known(c: &TreeCatalog, tree: &TreeInner) -> Result<()> {
    if c.state().trees.contains_key(&tree.id) {
        return Ok(());
    }
    Err(tree.dropped())
}
