//! Trees of an open store, by number and by name.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::base::ops::TreeId;

use crate::db::versions::tree::TreeInner;

/// Trees, also as a slice in order of their numbers, which is the order of creation.
#[derive(Default)]
pub struct OpenTrees {
    list: Vec<Arc<TreeInner>>,
    names: HashMap<String, Arc<TreeInner>>,
}

impl OpenTrees {
    /// In order of their numbers.
    pub fn new(list: Vec<Arc<TreeInner>>) -> OpenTrees {
        debug_assert!(list.is_sorted_by(|a, b| a.id < b.id));
        let names = list.iter().map(|t| (t.name.clone(), t.clone())).collect();
        OpenTrees { list, names }
    }

    /// Returns the tree with this name.
    pub fn named(&self, name: &str) -> Option<Arc<TreeInner>> {
        self.names.get(name).cloned()
    }

    /// Returns the tree with this number.
    pub fn by_id(&self, id: TreeId) -> Option<&Arc<TreeInner>> {
        find(&self.list, id)
    }

    /// Adds a tree. Its number must be larger than all others.
    pub fn add(&mut self, tree: Arc<TreeInner>) {
        debug_assert!(self.list.last().is_none_or(|t| t.id < tree.id));
        self.names.insert(tree.name.clone(), tree.clone());
        self.list.push(tree);
    }

    /// Removes a tree.
    pub fn remove(&mut self, tree: &TreeInner) {
        let at = self.list.binary_search_by_key(&tree.id, |t| t.id);
        debug_assert!(at.is_ok(), "tree {} is dropped twice", tree.id);
        if let Ok(at) = at {
            self.list.remove(at);
            self.names.remove(&tree.name);
        }
    }
}

impl Deref for OpenTrees {
    type Target = [Arc<TreeInner>];

    fn deref(&self) -> &Self::Target {
        &self.list
    }
}

/// Returns the tree with this number from a slice in order of numbers.
pub fn find(trees: &[Arc<TreeInner>], id: TreeId) -> Option<&Arc<TreeInner>> {
    trees.binary_search_by_key(&id, |t| t.id).ok().map(|at| &trees[at])
}
