//! Version edits, which change the state of a Db. The payload of a frame is any number of edits.
//!
//! A frame is a message (see `fields`) with one field for each edit: 2 snapshot (a state), 4 create
//! tree (a tree without tables), 16 set subscription (its state), and the edits of `EDITS`.

use std::sync::Arc;

use super::fields::{FieldDef, FieldValue, FieldWriter, Message, decode_fields, read_fields};
use super::options::PersistedOptions;
use super::state::{ManifestState, SubscriptionState, check_subscription_count, check_writers};
use super::tree::{AddedTable, TreeState, unfit};
use crate::base::blob_ref::BlobFileMeta;
use crate::base::error::Result;
use crate::base::identity::LogWriter;
use crate::base::key::Seq;
use crate::base::ops::{NO_TREE, TreeId};
use crate::util::sorted_map::SortedSet;

/// Version edit: a change of the [`ManifestState`].
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Replaces the whole state. Every manifest begins with it.
    Snapshot(Box<ManifestState>),
    /// Creates an empty tree.
    CreateTree {
        /// Id of the tree: at least the state's `next_tree`.
        id: TreeId,
        /// Name of the tree, which no other tree has.
        name: String,
        /// Options of the tree.
        options: PersistedOptions,
        /// Log position below which it has no records.
        flushed: u64,
    },
    /// Drops a tree with all its tables.
    DropTree {
        /// Id of the tree.
        id: TreeId,
    },
    /// Changes the options of a tree.
    SetOptions {
        /// Id of the tree.
        id: TreeId,
        /// New options of the tree.
        options: PersistedOptions,
    },
    /// Result of a flush or a compaction. A table that is both removed and added is moved.
    Tables {
        /// Id of the tree.
        tree: TreeId,
        /// Ids of removed tables.
        removed: Vec<u64>,
        /// Added tables.
        added: Vec<AddedTable>,
        /// New log position below which the tree's records are in tables.
        flushed: Option<u64>,
        /// Blob files that were written for the added tables.
        values: Vec<Arc<BlobFileMeta>>,
    },
    /// Advances counters; lower values than the current ones have no effect.
    Counters {
        /// See [`ManifestState::next_file`].
        next_file: u64,
        /// See [`ManifestState::last_seq`].
        last_seq: Seq,
        /// See [`ManifestState::wal_floor`].
        wal_floor: u64,
    },
    /// Records that the Db has been opened for writing again.
    LogWriters {
        /// New value of [`ManifestState::writers`]; the last writer is the new one.
        writers: Vec<LogWriter>,
    },
    /// Creates a subscription, or replaces the state of the one with this name.
    SetSubscription(SubscriptionState),
    /// Removes a subscription.
    DropSubscription {
        /// Name of the subscription.
        name: String,
    },
}

/// Message of a kind of edit.
struct EditDef {
    tag: u64,
    /// Name of the message in errors.
    name: &'static str,
    is: fn(&Edit) -> bool,
    empty: fn() -> Edit,
    fields: &'static [FieldDef<Edit>],
}

/// Defines the messages of edits: `tag kind, "name": fields`. A field is its tag, its name and, if
/// it must not be missing, its name in errors.
macro_rules! edits {
    ($($edit:literal $kind:ident, $of:literal:
        $($tag:literal $field:ident $($name:literal)?),+;)+) => {{
        // A new kind of edit must be listed.
        const _: fn(&Edit) = |e| match e {
            Edit::Snapshot(_) | Edit::CreateTree { .. } | Edit::SetSubscription(_) $(| Edit::$kind { .. })+ => {}
        };
        &[$(EditDef {
            tag: $edit,
            name: $of,
            is: |e| matches!(e, Edit::$kind { .. }),
            empty: || Edit::$kind { $($field: Default::default()),+ },
            fields: &[$(FieldDef {
                tag: $tag,
                name: [$(Some($name),)? None][0],
                write: |e, tag, w| {
                    if let Edit::$kind { $field, .. } = e {
                        $field.write(tag, w);
                    }
                },
                read: |e, f| match e {
                    Edit::$kind { $field, .. } => $field.read(f),
                    _ => Ok(()),
                },
            }),+],
        }),+]
    }};
}

/// Edits with fields of their own. The others are stored as a state, a tree or a subscription.
const EDITS: &[EditDef] = edits! {
    6 DropTree, "drop": 2 id "tree";
    8 SetOptions, "change of options": 2 id "tree", 4 options "options";
    10 Tables, "change of tables": 2 tree "tree", 4 removed, 6 added, 8 flushed, 10 values;
    12 Counters, "counters":
        2 next_file "next file", 4 last_seq "last sequence number", 6 wal_floor "WAL floor";
    14 LogWriters, "list of log writers": 2 writers;
    18 DropSubscription, "drop of a subscription": 2 name "name";
};

/// Encodes the payload of a frame.
pub fn encode_edits(edits: &[Edit]) -> Vec<u8> {
    let mut w = FieldWriter::default();
    for e in edits {
        match e {
            Edit::Snapshot(state) => state.write(2, &mut w),
            Edit::CreateTree { id, name, options, flushed } => {
                TreeState::new(*id, name, options, *flushed).write(4, &mut w);
            }
            Edit::SetSubscription(state) => state.write(16, &mut w),
            _ => EDITS.iter().filter(|d| (d.is)(e)).for_each(|d| w.message(d.tag, e, d.fields)),
        }
    }
    w.0
}

/// Decodes the edits of a frame's payload. Unknown edits that a reader may skip are left out.
///
/// # Errors
/// `Corruption` for bytes that are none, `Incompatible` for unknown values.
pub fn decode_edits(bytes: &[u8]) -> Result<Vec<Edit>> {
    let mut edits = vec![];
    for f in read_fields(bytes, "frame") {
        let f = f?;
        edits.push(match f.tag {
            2 => Edit::Snapshot(Box::new(ManifestState::decode(f.bytes)?)),
            4 => {
                let TreeState { id, name, options, flushed, .. } = TreeState::decode(f.bytes)?;
                Edit::CreateTree { id, name, options, flushed }
            }
            16 => Edit::SetSubscription(SubscriptionState::decode(f.bytes)?),
            tag => match EDITS.iter().find(|d| d.tag == tag) {
                Some(d) => decode_fields((d.empty)(), d.name, d.fields, f.bytes)?,
                None => {
                    f.unknown()?;
                    continue;
                }
            },
        });
    }
    Ok(edits)
}

/// Lookups that report whether a name or a file id is in use. A new tree or table must not reuse
/// one.
pub(super) struct Used<'a> {
    pub name: &'a dyn Fn(&ManifestState, &str) -> bool,
    pub table: &'a dyn Fn(&ManifestState, u64) -> bool,
}

impl ManifestState {
    fn tree(&mut self, id: TreeId) -> Result<&mut TreeState> {
        self.trees.get_mut(&id).ok_or_else(|| unfit(format_args!("there is no tree {id}")))
    }

    /// Applies an edit. Its cost is proportional to all trees and tables; to apply many edits, use
    /// [`LiveFiles`](super::LiveFiles).
    ///
    /// # Errors
    /// `Corruption` for an edit that does not fit this state, which stays unchanged.
    pub fn apply(&mut self, edit: &Edit) -> Result<()> {
        let used = Used {
            name: &|state, name| state.tree_named(name).is_some(),
            table: &|state, id| {
                state.trees.values().flat_map(TreeState::files).any(|file| file == id)
            },
        };
        self.apply_knowing(edit, &used)
    }

    /// Applies an edit, given the names and ids in use.
    pub(super) fn apply_knowing(&mut self, edit: &Edit, used: &Used<'_>) -> Result<()> {
        match edit {
            Edit::Snapshot(state) => {
                state.check()?;
                *self = (**state).clone();
            }
            Edit::CreateTree { id, name, options, flushed } => {
                if *id < self.next_tree || *id == NO_TREE || (used.name)(self, name) {
                    return Err(unfit(format_args!(
                        "the id or the name of the new tree {id}, {name:?}, was used before"
                    )));
                }
                self.next_tree = id + 1;
                let tree = TreeState::new(*id, name, options, *flushed);
                self.trees.insert(*id, tree);
            }
            Edit::DropTree { id } => {
                self.tree(*id)?;
                self.trees.remove(id);
            }
            Edit::SetOptions { id, options } => self.tree(*id)?.options = options.clone(),
            Edit::Tables { tree, removed, added, flushed, values } => {
                self.apply_tables(*tree, (removed, added, values), *flushed, used)?
            }
            Edit::Counters { next_file, last_seq, wal_floor } => {
                self.next_file = self.next_file.max(*next_file);
                self.last_seq = self.last_seq.max(*last_seq);
                self.wal_floor = self.wal_floor.max(*wal_floor);
            }
            Edit::LogWriters { writers } => {
                check_writers(writers)?;
                self.writers = writers.clone();
            }
            Edit::SetSubscription(state) => {
                state.check()?;
                let is_new = !self.subscriptions.contains_key(&state.name);
                check_subscription_count(self.subscriptions.len() + usize::from(is_new))?;
                self.subscriptions.insert(state.name.clone(), state.clone());
            }
            Edit::DropSubscription { name } => {
                self.subscriptions
                    .remove(name)
                    .ok_or_else(|| unfit(format_args!("there is no subscription {name:?}")))?;
            }
        }
        Ok(())
    }

    fn apply_tables(
        &mut self,
        id: TreeId,
        (removed, added, values): (&[u64], &[AddedTable], &[Arc<BlobFileMeta>]),
        flushed: Option<u64>,
        used: &Used<'_>,
    ) -> Result<()> {
        let tree = self.tree(id)?;
        if flushed.is_some_and(|f| f < tree.flushed) {
            return Err(unfit(format_args!("tree {:?} was flushed further already", tree.name)));
        }
        let runs = tree.changed(removed, added)?;
        let mut new: SortedSet<u64> = added.iter().map(|a| a.table.id).collect();
        let there = tree.values_of(&runs, values)?;
        if new.len() != added.len() || new.contains(&u64::MAX) {
            return Err(unfit("a table is added twice, or its id is out of bounds"));
        }
        removed.iter().for_each(|id| {
            new.remove(id);
        });
        if !values.iter().all(|v| v.id < u64::MAX && new.insert(v.id)) {
            return Err(unfit("a blob file has the number of a table, or one out of bounds"));
        }
        if let Some(id) = new.iter().find(|&&id| (used.table)(self, id)) {
            return Err(unfit(format_args!("table {id} is added and there already")));
        }
        let (next_file, last_seq) =
            added.iter().fold((self.next_file, self.last_seq), |(n, s), a| {
                (n.max(a.table.id + 1), s.max(a.table.max_seq))
            });
        let next_file = values.iter().fold(next_file, |n, v| n.max(v.id + 1));
        (self.next_file, self.last_seq) = (next_file, last_seq);
        let tree = self.tree(id)?;
        tree.runs = runs;
        tree.values = there;
        tree.flushed = flushed.unwrap_or(tree.flushed);
        Ok(())
    }
}
