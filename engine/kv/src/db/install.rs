//! Changes of tables are made durable and visible.
//!
//! Invariants: those of several trees are one frame of the manifest, so all of them count or none;
//! the memtables that were flushed leave the views with the change that brings their tables.

use std::sync::Arc;

use crate::base::blob_ref::BlobFileMeta;
use crate::base::error::Result;
use crate::manifest::{AddedTable, Edit, TableMeta};
use crate::merge::run::TableHandle;
use crate::wal::Lsn;

use super::outputs::remove_tables;
use super::state::catalog::TreeCatalog;
use super::state::core::DbInner;
use super::state::memtable::MemHandle;
use super::state::pins::nudge;
use super::state::tree::{TreeFiles, TreeInner, build_version};
use super::state::view::TreeView;

/// A change of one tree's tables.
pub(super) struct VersionChange<'a> {
    pub tree: &'a TreeInner,
    /// Those that leave.
    pub removed: Vec<u64>,
    /// Those that come: level, run, facts.
    pub added: Vec<(u8, u64, TableMeta)>,
    /// Value files that were written for those that come.
    pub values: Vec<BlobFileMeta>,
    /// The memtable that they were made of goes, with the position that the tree is flushed to.
    pub flushed: Option<(&'a MemHandle, Lsn)>,
}

impl VersionChange<'_> {
    /// What the manifest is told.
    pub(super) fn edit(&self) -> Edit {
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

    /// Files that were written for it.
    fn made(&self) -> Vec<u64> {
        let tables = self.added.iter().map(|(_, _, t)| t.id);
        let new = tables.filter(|id| !self.removed.contains(id));
        new.chain(self.values.iter().map(|v| v.id)).collect()
    }
}

impl DbInner {
    /// Makes changes durable and visible, one for each of some trees. Gives the position below
    /// which the log is not needed.
    pub(super) fn install(&self, changes: Vec<VersionChange<'_>>) -> Result<Lsn> {
        let remove_made = || changes.iter().for_each(|change| remove_tables(self, &change.made()));
        let mut gone: Vec<Vec<Arc<TableHandle>>> = vec![];
        let floor;
        {
            let mut c = self.catalog.lock();
            // The floor that is set below must not get into a manifest without the tables for which
            // it is.
            let known = changes.iter().try_for_each(|change| check_known(&c, change.tree));
            if let Err(e) = known.and_then(|()| self.make_manifest_ready(&mut c)) {
                drop(c);
                // What was written for it will never have a name; tables that move have left with
                // the tree.
                remove_made();
                return Err(e);
            }
            let before = c.state().wal_floor;
            let flushed: Vec<_> = changes
                .iter()
                .filter_map(|change| Some((change.tree.id, change.flushed?.0)))
                .collect();
            floor = before.max(self.write.lock().wal_floor(&flushed));
            c.set_wal_floor(floor);
            let edits: Vec<Edit> = changes.iter().map(VersionChange::edit).collect();
            if let Err(e) = self.log_edits(&mut c, edits.clone()) {
                // The memtables are still needed, and with them their log.
                c.set_wal_floor(before);
                drop(c);
                // When the store is latched the manifest may name the tables; the next open
                // decides.
                if self.gate.check_writable().is_ok() {
                    remove_made();
                }
                return Err(e);
            }
            for (change, edit) in changes.iter().zip(edits) {
                gone.push(self.show(&c, &mut change.tree.files.lock(), change, edit)?);
            }
        }
        for (change, gone) in changes.iter().zip(&gone) {
            self.watch.pins.retire(change.tree.id, gone);
            self.tables_changed(change.tree);
        }
        if changes.iter().any(|change| change.flushed.is_some()) {
            // The memory of the memtable, else kept by the view that named it until somebody comes
            // by.
            nudge();
        }
        self.memory.rebalance();
        self.work.signal_done();
        self.call_workers_for(changes.iter().map(|change| change.tree));
        Ok(floor)
    }

    /// Shows readers a change that counts, of which the manifest knows the edit. Gives the tables
    /// that have left.
    pub(super) fn show(
        &self,
        c: &TreeCatalog,
        files: &mut TreeFiles,
        change: &VersionChange<'_>,
        edit: Edit,
    ) -> Result<Vec<Arc<TableHandle>>> {
        let (tree, mut gone) = (change.tree, vec![]);
        let Some(state) = c.state().trees.get(&tree.id) else { return Ok(gone) };
        if let Edit::Tables { added, .. } = edit {
            for AddedTable { table, .. } in added {
                files.take_up(table, &self.opener, &state.values);
            }
        }
        for id in change.removed.iter().filter(|id| !c.state().has_table(**id)) {
            let handle = files.handles.remove(id);
            debug_assert!(handle.is_some(), "table {id} leaves and has no handle");
            gone.extend(handle);
        }
        let before = tree.view.load_full().version.clone();
        let version = Arc::new(build_version(&before, state, files).map_err(|e| self.latch(e))?);
        if let Some((m, _)) = change.flushed {
            tree.tolls.hold(change.added.iter().map(|(_, _, t)| t.size).sum());
            m.set_flushed();
            self.write.lock().release(tree.id, m);
            self.memory.release(m);
        }
        tree.change_view(|v| TreeView {
            sealed: v.without(change.flushed.map(|(m, _)| m)),
            version,
            ..v.clone()
        });
        Ok(gone)
    }
}

/// An error when the tree has left the manifest. Asked under the lock under which trees are
/// dropped.
pub(super) fn check_known(c: &TreeCatalog, tree: &TreeInner) -> Result<()> {
    if c.state().trees.contains_key(&tree.id) {
        return Ok(());
    }
    Err(tree.dropped())
}
