//! The state of a transaction: its reads and writes so far.
//!
//! Invariants:
//! - A key has a pending write of its own, or lies in a deleted range that has come before it, or
//!   in one that has taken earlier writes away; so the deleted ranges of a tree are written first,
//!   and then its keys.
//! - In what is *hidden* of a tree nothing of the snapshot is to be seen, though pending puts may
//!   be. It only grows: by what is deleted, and by what lies between two hidden ranges where a walk
//!   has found nothing. So many deletes become one range, and each is passed once.
//! - What a transaction has read of a tree are keys, and ranges of which no two meet, however many
//!   walks there were.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::key::{Kind, MAX_BATCH_LEN, Seq, successor};
use crate::base::ops::TreeId;
use crate::db::read::bounds::KeyBounds;
use crate::db::versions::tree::TreeInner;
use crate::db::write::batch::{Batch, BatchOp};
use crate::iterator::visible::VisibleRange;
use crate::util::sync::{Mutex, rank};
use crate::util::version_map::{MapKey, VersionMap};

use crate::db::handle::txn::conflicts::{changed_since, conflict, key_changed_since};
use crate::db::handle::txn::intervals::KeyIntervals;

/// Bytes that an operation takes in a batch beside key and value, at most.
const OVERHEAD: usize = 16;

/// What a transaction has read and written. Its iterators hold it too.
#[derive(Default)]
pub struct TransactionState(Mutex<Inside, rank::Transaction>);

#[derive(Default)]
struct Inside {
    trees: BTreeMap<TreeId, TouchedKeys>,
    /// What the batch will take, at most.
    bytes: usize,
}

struct TouchedKeys {
    tree: Arc<TreeInner>,
    own: Own,
    /// Keys with a pending delete.
    deletes: VersionMap<()>,
    /// Deleted ranges, as they were asked for: each is an operation of the batch. And what they
    /// cover.
    calls: Vec<(MapKey, Option<MapKey>)>,
    deleted: KeyIntervals,
    keys: BTreeSet<Vec<u8>>,
    /// What walks have read that are over.
    ranges: KeyIntervals,
    /// Those that are not, by their numbers, and how many there were.
    walks: BTreeMap<u64, WalkedRange>,
    begun: u64,
}

/// What walks see of the pending writes to a tree, as they are or as they were when an iterator
/// began.
#[derive(Clone, Default)]
pub struct Own {
    puts: VersionMap<MapKey>,
    /// Where nothing of the snapshot is to be seen.
    pub hidden: KeyIntervals,
}

/// What an iterator over a range has come to.
struct WalkedRange {
    range: VisibleRange,
    /// The last key from the front.
    front: Option<Vec<u8>>,
    /// The last key from the back.
    back: Option<Vec<u8>>,
    /// It has met its end.
    all: bool,
}

impl Inside {
    fn of(&mut self, tree: &Arc<TreeInner>) -> &mut TouchedKeys {
        self.trees.entry(tree.id).or_insert_with(|| TouchedKeys {
            tree: tree.clone(),
            own: Own::default(),
            deletes: VersionMap::default(),
            calls: vec![],
            deleted: KeyIntervals::default(),
            keys: BTreeSet::new(),
            ranges: KeyIntervals::default(),
            walks: BTreeMap::new(),
            begun: 0,
        })
    }

    /// Counts what takes so many bytes in place of what took so many.
    fn charge(&mut self, bytes: usize, before: usize) -> Result<()> {
        let sum = (self.bytes - before).saturating_add(bytes);
        if sum > MAX_BATCH_LEN {
            return Err(Error::invalid(format!(
                "the transaction's writes would be over {MAX_BATCH_LEN} bytes"
            )));
        }
        self.bytes = sum;
        Ok(())
    }
}

fn size(key: &[u8], value: Option<&[u8]>) -> usize {
    key.len() + value.map_or(0, <[u8]>::len) + OVERHEAD
}

impl TouchedKeys {
    /// The pending write of a key: its value, or `None` for a delete.
    fn pending(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.own.puts.get(key).map(|v| Some(&**v)).or_else(|| self.deletes.get(key).map(|()| None))
    }
}

impl TransactionState {
    /// What the transaction itself says of a key. When it says nothing, the key counts as read.
    pub fn get(&self, tree: &Arc<TreeInner>, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let mut s = self.0.lock();
        let t = s.of(tree);
        if let Some(own) = t.pending(key) {
            return Some(own.map(<[u8]>::to_vec));
        }
        if t.deleted.around(key).is_some() {
            return Some(None);
        }
        if !t.keys.contains(key) {
            t.keys.insert(key.to_vec());
        }
        None
    }

    pub fn write(&self, tree: &Arc<TreeInner>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let mut s = self.0.lock();
        let before = s.of(tree).pending(key).map_or(0, |b| size(key, b));
        s.charge(size(key, value), before)?;
        let t = s.of(tree);
        if let Some(value) = value {
            t.deletes.remove(key);
            t.own.puts.insert(key, value.into());
        } else {
            t.own.puts.remove(key);
            t.deletes.insert(key, ());
            t.own.hidden.add_key(key);
        }
        Ok(())
    }

    pub fn delete_range(&self, tree: &Arc<TreeInner>, bounds: &dyn KeyBounds) -> Result<()> {
        // Checks the bounds, and says what they come to.
        let mut alone = Batch::new();
        alone.delete_between(tree, bounds)?;
        let Some(BatchOp::DeleteRange { start, end, .. }) = alone.iter().next() else {
            return Ok(());
        };
        let mut s = self.0.lock();
        let t = s.of(tree);
        let (mut puts, mut deletes) = (t.own.puts.clone(), t.deletes.clone());
        let gone: usize = puts.take(start, end).iter().map(|(k, v)| size(k, Some(v))).sum();
        let gone =
            gone + deletes.take(start, end).iter().map(|(k, ())| size(k, None)).sum::<usize>();
        s.charge(size(start, end), gone)?;
        let t = s.of(tree);
        t.own.hidden.add(start, end);
        t.deleted.add(start, end);
        t.calls.push((start.into(), end.map(MapKey::from)));
        (t.own.puts, t.deletes) = (puts, deletes);
        Ok(())
    }

    /// Between two hidden ranges of the tree, which this one begins and ends with, a walk has found
    /// nothing.
    pub fn hide(&self, tree: TreeId, from: &[u8], until: Option<&[u8]>) {
        if let Some(t) = self.0.lock().trees.get_mut(&tree) {
            t.own.hidden.add(from, until);
        }
    }

    /// The batch of all writes.
    pub fn batch(&self) -> Result<Batch> {
        let mut batch = Batch::new();
        for t in self.0.lock().trees.values() {
            for (from, until) in &t.calls {
                let end = until.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                batch.delete_between(&t.tree, &(Bound::Included(&**from), end))?;
            }
            for (key, ()) in t.deletes.iter() {
                batch.point(&t.tree, Kind::Delete, key, &[])?;
            }
            for (key, value) in t.own.puts.iter() {
                batch.point(&t.tree, Kind::Put, key, value)?;
            }
        }
        Ok(batch)
    }

    /// An error when anything that was read has changed since. Called under the write lock.
    pub fn check(&self, since: Seq) -> Result<()> {
        for t in self.0.lock().trees.values() {
            for key in &t.keys {
                if key_changed_since(&t.tree, key, since)? {
                    return Err(conflict("a key").keys(key, key));
                }
            }
            let mut ranges = t.ranges.clone();
            t.walks.values().for_each(|w| w.note(&mut ranges));
            for (from, until) in ranges.iter() {
                let range = VisibleRange {
                    from: from.to_vec(),
                    until: until.as_deref().map(<[u8]>::to_vec),
                };
                if changed_since(&t.tree, &range, since)? {
                    return Err(conflict("a range"));
                }
            }
        }
        Ok(())
    }

    /// How many keys and ranges it has read, and how many keys and ranges it will write.
    pub fn counts(&self) -> (usize, usize) {
        let s = self.0.lock();
        let count = |f: fn(&TouchedKeys) -> usize| s.trees.values().map(f).sum();
        let written =
            |t: &TouchedKeys| t.own.puts.iter().count() + t.deletes.iter().count() + t.calls.len();
        (count(|t| t.keys.len() + t.ranges.iter().count() + t.walks.len()), count(written))
    }

    /// Begins a walk; gives its number, and what is written by now.
    pub fn begin_walk(&self, tree: &Arc<TreeInner>, range: VisibleRange) -> (u64, Own) {
        let mut s = self.0.lock();
        let t = s.of(tree);
        t.begun += 1;
        t.walks.insert(t.begun, WalkedRange { range, front: None, back: None, all: false });
        (t.begun, t.own.clone())
    }

    /// A walk has come to `key`, or, without one, to its end.
    pub fn walked(&self, tree: TreeId, walk: u64, key: Option<&[u8]>, forward: bool) {
        let mut s = self.0.lock();
        let Some(w) = s.trees.get_mut(&tree).and_then(|t| t.walks.get_mut(&walk)) else { return };
        let Some(key) = key else {
            w.all = true;
            return;
        };
        let to = if forward { &mut w.front } else { &mut w.back }.get_or_insert_default();
        to.clear();
        to.extend_from_slice(key);
    }

    /// A walk goes no further.
    pub fn end_walk(&self, tree: TreeId, walk: u64) {
        let mut s = self.0.lock();
        let Some(t) = s.trees.get_mut(&tree) else { return };
        if let Some(w) = t.walks.remove(&walk) {
            w.note(&mut t.ranges);
        }
    }
}

impl Own {
    /// The next pending put of a range behind `passed`, seen from one end.
    pub fn next(
        &self,
        range: &VisibleRange,
        passed: Option<&[u8]>,
        forward: bool,
    ) -> Option<(MapKey, MapKey)> {
        let is_after = |k: &[u8]| passed.is_none_or(|p| if forward { k > p } else { k < p });
        let is_begun = |k: &[u8]| {
            if forward {
                k >= range.from.as_slice()
            } else {
                range.until.as_deref().is_none_or(|u| k < u)
            }
        };
        let (key, value) = self.puts.end(forward, |k| is_begun(k) && is_after(k))?;
        range.contains(key).then(|| (key.clone(), value.clone()))
    }
}

impl WalkedRange {
    /// Adds what was read.
    fn note(&self, ranges: &mut KeyIntervals) {
        let (from, until) = (&self.range.from, self.range.until.as_deref());
        if self.all {
            ranges.add(from, until);
            return;
        }
        if let Some(front) = &self.front {
            ranges.add(from, successor(front).as_deref());
        }
        if let Some(back) = &self.back {
            ranges.add(back, until);
        }
    }
}
