//! The trees of an open Db, by number and by name, and how they are opened and made.
//!
//! Invariant: trees that are made together are one frame of the manifest, so that all of them are
//! there after a crash, or none is.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::events::Event;
use crate::base::ops::TreeId;
use crate::base::options::TreeOptions;
use crate::manifest::{Edit, PersistedOptions};
use crate::memtable::Memtable;

use super::core::Core;
use super::tree::TreeCore;
use super::view::MemHandle;

/// Trees; as a slice in order of their numbers, which is that of their creation.
#[derive(Default)]
pub struct OpenTrees {
    list: Vec<Arc<TreeCore>>,
    names: HashMap<String, Arc<TreeCore>>,
}

impl OpenTrees {
    /// Of trees in order of their numbers.
    pub fn new(list: Vec<Arc<TreeCore>>) -> OpenTrees {
        debug_assert!(list.is_sorted_by(|a, b| a.id < b.id));
        let names = list.iter().map(|t| (t.name.clone(), t.clone())).collect();
        OpenTrees { list, names }
    }

    /// The tree with this name.
    pub fn named(&self, name: &str) -> Option<Arc<TreeCore>> {
        self.names.get(name).cloned()
    }

    /// The tree with this number.
    pub fn by_id(&self, id: TreeId) -> Option<&Arc<TreeCore>> {
        find(&self.list, id)
    }

    /// Adds a tree, whose number is above all others.
    pub fn add(&mut self, tree: Arc<TreeCore>) {
        debug_assert!(self.list.last().is_none_or(|t| t.id < tree.id));
        self.names.insert(tree.name.clone(), tree.clone());
        self.list.push(tree);
    }

    /// Removes a tree.
    pub fn remove(&mut self, tree: &TreeCore) {
        let at = self.list.binary_search_by_key(&tree.id, |t| t.id);
        debug_assert!(at.is_ok(), "tree {} is dropped twice", tree.id);
        if let Ok(at) = at {
            self.list.remove(at);
            self.names.remove(&tree.name);
        }
    }
}

impl Deref for OpenTrees {
    type Target = [Arc<TreeCore>];

    fn deref(&self) -> &Self::Target {
        &self.list
    }
}

/// The tree with this number among trees in order of their numbers.
pub fn find(trees: &[Arc<TreeCore>], id: TreeId) -> Option<&Arc<TreeCore>> {
    trees.binary_search_by_key(&id, |t| t.id).ok().map(|at| &trees[at])
}

impl Core {
    /// Opens trees of these names, and makes those that are not there, all or none.
    pub(super) fn open_trees(&self, wanted: &[(&str, &TreeOptions)]) -> Result<Vec<Arc<TreeCore>>> {
        let mut names = HashSet::with_capacity(wanted.len());
        for (name, options) in wanted {
            options.check()?;
            if name.is_empty() || name.len() > 255 {
                return Err(Error::invalid(format!(
                    "a tree's name has 1 to 255 bytes, this one {}",
                    name.len()
                )));
            }
            if !names.insert(name) {
                return Err(Error::invalid(format!(
                    "the tree {name:?} is asked for twice in one call"
                )));
            }
        }
        let mut trees = vec![None; wanted.len()];
        loop {
            let mut missing = vec![];
            for (slot, &(name, options)) in
                trees.iter_mut().zip(wanted).filter(|(slot, _)| slot.is_none())
            {
                let there = self.trees.read().named(name);
                *slot = there.map_or(Ok(None), |t| self.open_again(t, options))?;
                if slot.is_none() {
                    missing.push((name, options));
                }
            }
            if missing.is_empty() {
                break;
            }
            // `None` when another thread has made one of them meanwhile, with whatever options.
            if let Some(made) = self.create_trees(&missing)? {
                trees
                    .iter_mut()
                    .filter(|slot| slot.is_none())
                    .zip(made)
                    .for_each(|(slot, t)| *slot = Some(t));
                break;
            }
        }
        let trees: Vec<Arc<TreeCore>> = trees.into_iter().flatten().collect();
        trees.iter().for_each(|t| self.tell_options(t));
        Ok(trees)
    }

    /// Opens a tree that is there; `None` when another thread has dropped it meanwhile.
    fn open_again(&self, t: Arc<TreeCore>, options: &TreeOptions) -> Result<Option<Arc<TreeCore>>> {
        match self.change_options(&t, options.clone(), false) {
            Ok(()) => {
                self.shorten_log(&t)?;
                Ok(Some(t))
            }
            Err(e) if e.kind() == ErrorKind::Closed && !self.is_closing() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Makes trees with one edit group of the manifest; `None`, and none made, when there is one of
    /// such a name already.
    fn create_trees(&self, missing: &[(&str, &TreeOptions)]) -> Result<Option<Vec<Arc<TreeCore>>>> {
        let start = self.sync_log()?;
        let mut c = self.catalog.lock();
        {
            let there = self.trees.read();
            if missing.iter().any(|(name, _)| there.named(name).is_some()) {
                return Ok(None);
            }
        }
        let first = c.state.next_tree;
        let ids = (0..).map(|n| first.saturating_add(n));
        // First all that can fail: a tree that the manifest knows must be there.
        let memtables =
            missing.iter().map(|(_, o)| Memtable::empty(&self.arenas, o.filter_prefix.clone()));
        let memtables = memtables.collect::<Result<Vec<_>>>()?;
        let edits = ids.clone().zip(missing).map(|(id, (name, options))| Edit::CreateTree {
            id,
            name: (*name).to_owned(),
            options: PersistedOptions::of(options),
            flushed: start,
        });
        self.log_edits(&mut c, edits.collect())?;
        let mut made = vec![];
        for ((id, (name, options)), memtable) in ids.zip(missing).zip(memtables) {
            let state = c.state.trees.get(&id);
            let state = state
                .ok_or_else(|| Error::invalid(format!("the tree {name:?} could not be created")))?;
            let tree = self
                .new_tree(state, (*options).clone(), MemHandle::new(memtable, start))
                .map_err(|e| self.latch(e))?;
            made.push(tree);
        }
        {
            let mut trees = self.trees.write();
            made.iter().for_each(|t| trees.add(t.clone()));
            self.memory.set_trees(trees.len());
        }
        made.iter().for_each(|t| {
            self.events.note(|| Event::TreeCreated { tree: t.name.clone(), id: t.id })
        });
        drop(c);
        self.rebalance();
        Ok(Some(made))
    }
}
