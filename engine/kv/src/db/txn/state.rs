//! What a transaction has read and written so far.
//!
//! Invariant: a key has a pending write of its own, or lies in a deleted range that has come before it, or in one that has taken earlier
//! writes away; so the deleted ranges of a tree are written first, and then its keys.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::key::{MAX_BATCH_LEN, Seq, successor};
use crate::base::ops::TreeId;
use crate::base::sync::Mutex;
use crate::db::Tree;
use crate::db::batch::Batch;
use crate::db::bounds::{KeyBounds, key_range};
use crate::merge::visible::KeyRange;

use super::conflicts::{changed_since, conflict, key_changed_since};

/// A pending write of a key: its value, or `None` for a delete.
type Pending = Option<Vec<u8>>;

/// Bytes that an operation takes in a batch beside key and value, at most.
const OVERHEAD: usize = 16;

/// What a transaction has read and written. Its iterators hold it too.
#[derive(Default)]
pub struct State(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    trees: BTreeMap<TreeId, Touched>,
    /// What the batch will take, at most.
    bytes: usize,
}

struct Touched {
    tree: Tree,
    own: Own,
    keys: BTreeSet<Vec<u8>>,
    walks: Vec<Walked>,
}

/// Pending writes to a tree, as they are or as they were when an iterator began. They are copied where something is written while an
/// iterator holds them, once for each.
#[derive(Clone, Default)]
pub struct Own {
    writes: Arc<BTreeMap<Vec<u8>, Pending>>,
    deleted: Arc<Vec<Deleted>>,
}

#[derive(Clone)]
struct Deleted {
    bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    range: KeyRange,
}

/// What an iterator over a range has come to.
struct Walked {
    range: KeyRange,
    /// The last key from the front.
    front: Option<Vec<u8>>,
    /// The last key from the back.
    back: Option<Vec<u8>>,
    /// It has met its end.
    all: bool,
}

impl Inside {
    fn of(&mut self, tree: &Tree) -> &mut Touched {
        self.trees.entry(tree.core.id).or_insert_with(|| Touched {
            tree: tree.clone(),
            own: Own::default(),
            keys: BTreeSet::new(),
            walks: vec![],
        })
    }

    /// Counts what takes so many bytes in place of what took so many.
    fn charge(&mut self, bytes: usize, before: usize) -> Result<()> {
        let sum = (self.bytes - before).saturating_add(bytes);
        if sum > MAX_BATCH_LEN {
            return Err(Error::invalid(format!("the transaction's writes would be over {MAX_BATCH_LEN} bytes")));
        }
        self.bytes = sum;
        Ok(())
    }
}

fn size(key: &[u8], value: Option<&[u8]>) -> usize {
    key.len() + value.map_or(0, <[u8]>::len) + OVERHEAD
}

impl State {
    /// What the transaction itself says of a key. When it says nothing, the key counts as read.
    pub fn get(&self, tree: &Tree, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let mut s = self.0.lock();
        let t = s.of(tree);
        if let Some(own) = t.own.writes.get(key) {
            return Some(own.clone());
        }
        if t.own.deleted.iter().any(|d| d.range.contains(key)) {
            return Some(None);
        }
        if !t.keys.contains(key) {
            t.keys.insert(key.to_vec());
        }
        None
    }

    pub fn write(&self, tree: &Tree, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let mut s = self.0.lock();
        let before = s.of(tree).own.writes.get(key).map_or(0, |b| size(key, b.as_deref()));
        s.charge(size(key, value), before)?;
        Arc::make_mut(&mut s.of(tree).own.writes).insert(key.to_vec(), value.map(<[u8]>::to_vec));
        Ok(())
    }

    pub fn delete_range(&self, tree: &Tree, bounds: &dyn KeyBounds) -> Result<()> {
        // Checks the bounds.
        let mut alone = Batch::new();
        alone.delete_between(tree, bounds)?;
        if alone.is_empty() {
            return Ok(());
        }
        let mut s = self.0.lock();
        let range = key_range(bounds);
        let gone = s.of(tree).own.writes.iter().filter(|(k, _)| range.contains(k)).map(|(k, v)| size(k, v.as_deref())).sum();
        s.charge(alone.size() + OVERHEAD, gone)?;
        let bounds = (bounds.start_key().map(<[u8]>::to_vec), bounds.end_key().map(<[u8]>::to_vec));
        let t = s.of(tree);
        Arc::make_mut(&mut t.own.writes).retain(|k, _| !range.contains(k));
        Arc::make_mut(&mut t.own.deleted).push(Deleted { bounds, range });
        Ok(())
    }

    /// The batch of all writes.
    pub fn batch(&self) -> Result<Batch> {
        let mut batch = Batch::new();
        for t in self.0.lock().trees.values() {
            for d in &*t.own.deleted {
                batch.delete_range(&t.tree, &d.bounds)?;
            }
            for (key, value) in &*t.own.writes {
                match value {
                    Some(v) => batch.put(&t.tree, key, v)?,
                    None => batch.delete(&t.tree, key)?,
                }
            }
        }
        Ok(batch)
    }

    /// An error when anything that was read has changed since. Called under the write lock.
    pub fn check(&self, since: Seq) -> Result<()> {
        for t in self.0.lock().trees.values() {
            for key in &t.keys {
                if key_changed_since(&t.tree.core, key, since)? {
                    return Err(conflict("a key").keys(key, key));
                }
            }
            for range in t.walks.iter().flat_map(Walked::ranges) {
                if changed_since(&t.tree.core, &range, since)? {
                    return Err(conflict("a range"));
                }
            }
        }
        Ok(())
    }

    /// How many keys and ranges it has read, and how many keys and ranges it will write.
    pub fn counts(&self) -> (usize, usize) {
        let s = self.0.lock();
        let count = |f: fn(&Touched) -> usize| s.trees.values().map(f).sum();
        (count(|t| t.keys.len() + t.walks.len()), count(|t| t.own.writes.len() + t.own.deleted.len()))
    }

    /// Begins a walk; gives its number, and what is written by now.
    pub fn begin_walk(&self, tree: &Tree, range: KeyRange) -> (usize, Own) {
        let mut s = self.0.lock();
        let t = s.of(tree);
        t.walks.push(Walked { range, front: None, back: None, all: false });
        (t.walks.len() - 1, t.own.clone())
    }

    /// A walk has come to `key`, or, without one, to its end.
    pub fn walked(&self, tree: TreeId, walk: usize, key: Option<&[u8]>, forward: bool) {
        let mut s = self.0.lock();
        let Some(w) = s.trees.get_mut(&tree).and_then(|t| t.walks.get_mut(walk)) else { return };
        let Some(key) = key else {
            w.all = true;
            return;
        };
        let to = if forward { &mut w.front } else { &mut w.back }.get_or_insert_default();
        to.clear();
        to.extend_from_slice(key);
    }
}

impl Own {
    /// The next pending write of a range behind `passed`, seen from one end.
    pub fn next(&self, range: &KeyRange, passed: Option<&[u8]>, forward: bool) -> Option<(Vec<u8>, Pending)> {
        let from = range.from.as_slice();
        let until = range.until.as_deref();
        let (start, end) = match (passed, forward) {
            (Some(p), true) => (Bound::Excluded(p), until),
            (Some(p), false) => (Bound::Included(from), Some(p)),
            (None, _) => (Bound::Included(from), until),
        };
        // The map's own method panics on ranges that end before they begin.
        if let (Bound::Included(a) | Bound::Excluded(a), Some(b)) = (start, end)
            && a >= b
        {
            return None;
        }
        let mut found = self.writes.range::<[u8], _>((start, end.map_or(Bound::Unbounded, Bound::Excluded)));
        let (key, value) = if forward { found.next() } else { found.next_back() }?;
        Some((key.clone(), value.clone()))
    }

    /// The deleted range that hides what a key had.
    pub fn hidden(&self, key: &[u8]) -> Option<&KeyRange> {
        self.deleted.iter().map(|d| &d.range).find(|r| r.contains(key))
    }
}

impl Walked {
    /// What was read.
    fn ranges(&self) -> impl Iterator<Item = KeyRange> {
        let all = self.all.then(|| self.range.clone());
        let came_to = |end: &'_ Option<Vec<u8>>| end.clone().filter(|_| !self.all);
        let front = came_to(&self.front).map(|key| KeyRange { from: self.range.from.clone(), until: successor(&key) });
        let back = came_to(&self.back).map(|key| KeyRange { from: key, until: self.range.until.clone() });
        all.into_iter().chain(front).chain(back)
    }
}
