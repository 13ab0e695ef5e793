//! The state of an open Db, and groups of edits to it, whose cost grows with what they change, not
//! with what there is.
//!
//! Invariants:
//! - `names` and `files` are those of the state's trees.
//! - A group of edits is applied as a whole or not at all, and can be taken back as long as no
//!   other came after it.

use std::collections::{BTreeMap, HashSet};
use std::ops::Deref;

use super::state::{Edit, ManifestState, TreeState, Used};
use crate::base::error::Result;
use crate::base::identity::LogWriter;
use crate::base::key::Seq;
use crate::base::ops::TreeId;

/// A [`ManifestState`] that knows which names and ids are in use.
#[derive(Default)]
pub struct LiveFiles {
    state: ManifestState,
    names: HashSet<String>,
    files: HashSet<u64>,
}

debug_by!(LiveFiles, "Live");

/// What a group of edits has changed.
#[must_use]
pub struct Undo {
    /// The counters as they were.
    next_file: u64,
    last_seq: Seq,
    wal_floor: u64,
    next_tree: TreeId,
    /// The writers as they were, where they have changed.
    writers: Option<Vec<LogWriter>>,
    /// The trees that were touched, as they were; `None`: they were not there.
    trees: BTreeMap<TreeId, Option<TreeState>>,
}

debug_by!(Undo, "Undo");

impl Deref for LiveFiles {
    type Target = ManifestState;

    fn deref(&self) -> &ManifestState {
        &self.state
    }
}

impl LiveFiles {
    /// Of a state whose invariants hold.
    pub fn new(state: ManifestState) -> LiveFiles {
        let mut live = LiveFiles { state, ..LiveFiles::default() };
        live.learn();
        live
    }

    /// Gives the state back.
    pub fn into_state(self) -> ManifestState {
        self.state
    }

    fn learn(&mut self) {
        self.names = self.state.trees.values().map(|t| t.name.clone()).collect();
        self.files = self.state.trees.values().flat_map(TreeState::files).collect();
    }

    /// Whether a table or a value file with this id is live.
    pub fn has_table(&self, id: u64) -> bool {
        self.files.contains(&id)
    }

    /// The next file number, which is taken.
    pub fn take_file(&mut self) -> u64 {
        self.state.next_file += 1;
        self.state.next_file - 1
    }

    /// No file gets a number up to this one.
    pub fn pass_file(&mut self, number: u64) {
        self.state.next_file = self.state.next_file.max(number.saturating_add(1));
    }

    /// The newest sequence number that the log was found to have.
    pub fn set_last_seq(&mut self, seq: Seq) {
        self.state.last_seq = seq;
    }

    /// The log is needed from here on only. It goes into the manifest with the next edits.
    pub fn set_wal_floor(&mut self, floor: u64) {
        self.state.wal_floor = floor;
    }

    /// Makes a change. Costs by the edit, and by the runs of its tree that it changes.
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
            Edit::SetOptions { .. } | Edit::Counters { .. } | Edit::LogWriters { .. } => {}
        }
        Ok(())
    }

    fn forget(&mut self, tree: &TreeState) {
        self.names.remove(&tree.name);
        tree.files().for_each(|id| {
            self.files.remove(&id);
        });
    }

    /// Makes all changes of a group (no snapshots), or none.
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
            Edit::Snapshot(_) | Edit::Counters { .. } | Edit::LogWriters { .. } => None,
        });
        let trees = touched.map(|id| (id, s.trees.get(&id).cloned())).collect();
        let ManifestState { next_file, last_seq, wal_floor, next_tree, .. } = *s;
        let writers =
            edits.iter().any(|e| matches!(e, Edit::LogWriters { .. })).then(|| s.writers.clone());
        let undo = Undo { next_file, last_seq, wal_floor, next_tree, writers, trees };
        match edits.iter().try_for_each(|e| self.apply(e)) {
            Ok(()) => Ok(undo),
            Err(e) => {
                self.undo(undo);
                Err(e)
            }
        }
    }

    /// Takes the last group of edits back.
    pub fn undo(&mut self, undo: Undo) {
        let s = &mut self.state;
        (s.next_file, s.last_seq, s.wal_floor, s.next_tree) =
            (undo.next_file, undo.last_seq, undo.wal_floor, undo.next_tree);
        if let Some(writers) = undo.writers {
            s.writers = writers;
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
