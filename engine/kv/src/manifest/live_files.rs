//! Applies groups of edits to the state of an open Db, at a cost that depends on the change and not
//! on the size of the state.
//!
//! Invariants:
//! - `names` and `files` are those of the state's trees.
//! - A group of edits is applied as a whole or not at all. It can be undone as long as no other
//!   group was applied after it.

use std::collections::HashSet;
use std::ops::Deref;

use super::edit::{Edit, Used};
use super::state::{ManifestState, SubscriptionState};
use super::tree::TreeState;
use crate::base::error::Result;
use crate::base::format_version::FormatVersion;
use crate::base::identity::LogWriter;
use crate::base::key::Seq;
use crate::base::ops::TreeId;
use crate::util::sorted_map::SortedMap;

/// A [`ManifestState`] with indexes of the names and ids in use.
#[derive(Default)]
pub struct LiveFiles {
    state: ManifestState,
    names: HashSet<String>,
    files: HashSet<u64>,
}

debug_by!(LiveFiles, "LiveFiles");

/// Undo record of a group of edits.
#[must_use]
pub struct Undo {
    /// Previous counters.
    next_file: u64,
    last_seq: Seq,
    wal_floor: u64,
    next_tree: TreeId,
    /// Previous writers, if they have changed.
    writers: Option<Vec<LogWriter>>,
    /// Previous subscriptions, if they have changed.
    subscriptions: Option<SortedMap<String, SubscriptionState>>,
    /// Previous states of the changed trees; `None` for a tree that did not exist.
    trees: SortedMap<TreeId, Option<TreeState>>,
}

debug_by!(Undo, "Undo");

impl Deref for LiveFiles {
    type Target = ManifestState;

    fn deref(&self) -> &ManifestState {
        &self.state
    }
}

impl LiveFiles {
    /// Indexes a state whose invariants hold.
    pub fn new(state: ManifestState) -> LiveFiles {
        let mut live = LiveFiles { state, ..LiveFiles::default() };
        live.learn();
        live
    }

    /// Returns the state.
    pub fn into_state(self) -> ManifestState {
        self.state
    }

    fn learn(&mut self) {
        self.names = self.state.trees.values().map(|t| t.name.clone()).collect();
        self.files = self.state.trees.values().flat_map(TreeState::files).collect();
    }

    /// Reports whether a table or a blob file with this id is live.
    pub fn has_table(&self, id: u64) -> bool {
        self.files.contains(&id)
    }

    /// Returns the next file number and marks it as used.
    pub fn take_file(&mut self) -> u64 {
        self.state.next_file += 1;
        self.state.next_file - 1
    }

    /// Excludes all file numbers up to this one from use.
    pub fn pass_file(&mut self, number: u64) {
        self.state.next_file = self.state.next_file.max(number.saturating_add(1));
    }

    /// Sets the newest sequence number that was found in the log.
    pub fn set_last_seq(&mut self, seq: Seq) {
        self.state.last_seq = seq;
    }

    /// Sets the version of the store's files. The next manifest has it.
    pub fn set_format(&mut self, format: FormatVersion) {
        self.state.format = format;
    }

    /// Sets the position from which the log is needed. The next edits write it to the manifest.
    pub fn set_wal_floor(&mut self, floor: u64) {
        self.state.wal_floor = floor;
    }

    /// Applies an edit. The cost is proportional to the edit and to the runs of its tree that it
    /// changes.
    ///
    /// # Errors
    /// As [`ManifestState::apply`].
    pub fn apply(&mut self, edit: &Edit) -> Result<()> {
        let before = match edit {
            Edit::DropTree { id } => self.state.trees.get(id).cloned(),
            Edit::Tables { tree, .. } => {
                self.state.trees.get(tree).filter(|t| !t.values.is_empty()).cloned()
            }
            _ => None,
        };
        let (names, files) = (&self.names, &self.files);
        let used =
            Used { name: &|_, name| names.contains(name), table: &|_, id| files.contains(&id) };
        self.state.apply_knowing(edit, &used)?;
        match edit {
            Edit::Snapshot(_) => self.learn(),
            Edit::CreateTree { name, .. } => {
                self.names.insert(name.clone());
            }
            Edit::DropTree { .. } => before.iter().for_each(|t| self.forget(t)),
            Edit::Tables { tree, removed, added, .. } => {
                let now = self.state.trees.get(tree).map(|t| &t.values);
                let gone = before.iter().flat_map(|t| t.values.keys());
                let gone = gone.filter(|id| now.is_none_or(|now| !now.contains_key(id)));
                for id in removed.iter().chain(gone) {
                    self.files.remove(id);
                }
                self.files.extend(added.iter().map(|a| a.table.id));
                self.files.extend(now.into_iter().flat_map(|now| now.keys()));
            }
            Edit::SetOptions { .. }
            | Edit::Counters { .. }
            | Edit::LogWriters { .. }
            | Edit::SetSubscription(_)
            | Edit::DropSubscription { .. } => {}
        }
        Ok(())
    }

    fn forget(&mut self, tree: &TreeState) {
        self.names.remove(&tree.name);
        tree.files().for_each(|id| {
            self.files.remove(&id);
        });
    }

    /// Applies all edits of a group (no snapshots), or none.
    ///
    /// # Errors
    /// As [`ManifestState::apply`].
    pub fn apply_all(&mut self, edits: &[Edit]) -> Result<Undo> {
        let s = &self.state;
        let touched = edits.iter().filter_map(|e| match e {
            Edit::CreateTree { id, .. } | Edit::DropTree { id } | Edit::SetOptions { id, .. } => {
                Some(*id)
            }
            Edit::Tables { tree, .. } => Some(*tree),
            Edit::Snapshot(_)
            | Edit::Counters { .. }
            | Edit::LogWriters { .. }
            | Edit::SetSubscription(_)
            | Edit::DropSubscription { .. } => None,
        });
        let trees = touched.map(|id| (id, s.trees.get(&id).cloned())).collect();
        let ManifestState { next_file, last_seq, wal_floor, next_tree, .. } = *s;
        let writers =
            edits.iter().any(|e| matches!(e, Edit::LogWriters { .. })).then(|| s.writers.clone());
        let subscriptions = edits
            .iter()
            .any(|e| matches!(e, Edit::SetSubscription(_) | Edit::DropSubscription { .. }))
            .then(|| s.subscriptions.clone());
        let undo =
            Undo { next_file, last_seq, wal_floor, next_tree, writers, subscriptions, trees };
        match edits.iter().try_for_each(|e| self.apply(e)) {
            Ok(()) => Ok(undo),
            Err(e) => {
                self.undo(undo);
                Err(e)
            }
        }
    }

    /// Undoes the last group of edits.
    pub fn undo(&mut self, undo: Undo) {
        let s = &mut self.state;
        (s.next_file, s.last_seq, s.wal_floor, s.next_tree) =
            (undo.next_file, undo.last_seq, undo.wal_floor, undo.next_tree);
        if let Some(writers) = undo.writers {
            s.writers = writers;
        }
        if let Some(subscriptions) = undo.subscriptions {
            s.subscriptions = subscriptions;
        }
        for id in undo.trees.keys() {
            if let Some(now) = self.state.trees.remove(id) {
                self.forget(&now);
            }
        }
        for (id, before) in undo.trees {
            if let Some(tree) = before {
                self.names.insert(tree.name.clone());
                self.files.extend(tree.files());
                self.state.trees.insert(id, tree);
            }
        }
    }
}
