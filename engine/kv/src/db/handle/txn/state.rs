//! State of a transaction: its read set and its pending writes.
//!
//! Invariants:
//! - A range deletion removes the pending writes of the keys that it covers. So the pending write
//!   of a key is newer than every range deletion that covers the key. The batch therefore has a
//!   tree's range deletions first and then its keys.
//! - In a *hidden* range of a tree no entry of the snapshot is visible, but pending puts may be.
//!   Hidden ranges only grow: by deletions, and by the space between two hidden ranges where an
//!   iterator found nothing. This turns many deletions into one range, and an iterator passes each
//!   range once.
//! - The read set of a tree consists of keys and of disjoint ranges, regardless of the number of
//!   iterators.

use std::ops::Bound;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::key::{Kind, MAX_BATCH_LEN, Seq, successor};
use crate::base::ops::TreeId;
use crate::db::read::bounds::KeyBounds;
use crate::db::versions::tree::TreeInner;
use crate::db::write::batch::{Batch, BatchOp};
use crate::iterator::visible::VisibleRange;
use crate::util::sorted_map::SortedMap;
use crate::util::sync::{Mutex, rank};
use crate::util::version_map::{MapKey, VersionMap};

use crate::db::handle::txn::conflicts::{changed_since, conflict, key_changed_since};
use crate::db::handle::txn::intervals::KeyIntervals;

/// Maximum overhead in bytes of an operation in a batch, beyond its key and value.
const OVERHEAD: usize = 16;

/// Reads and writes of a transaction. Its iterators share it.
#[derive(Default)]
pub struct TransactionState(Mutex<Inside, rank::Transaction>);

#[derive(Default)]
struct Inside {
    trees: SortedMap<TreeId, Box<TouchedKeys>>,
    /// Upper bound of the batch size in bytes.
    bytes: usize,
}

struct TouchedKeys {
    tree: Arc<TreeInner>,
    own: Own,
    /// Keys with a pending delete.
    deletes: VersionMap<()>,
    /// Deleted ranges as requested, each an operation of the batch; `deleted` is their union.
    calls: Vec<(MapKey, Option<MapKey>)>,
    deleted: KeyIntervals,
    keys: VersionMap<()>,
    /// Number of `keys`.
    key_count: usize,
    /// Ranges read by finished iterators.
    ranges: KeyIntervals,
    /// Active iterators by number, and the count of all iterators so far.
    walks: SortedMap<u64, Box<WalkedRange>>,
    begun: u64,
}

/// Pending writes to a tree as iterators see them: the current ones, or those before the creation
/// of an iterator.
#[derive(Clone, Default)]
pub struct Own {
    puts: VersionMap<MapKey>,
    /// Ranges in which no entry of the snapshot is visible.
    pub hidden: KeyIntervals,
}

/// Part of a range that an iterator has read.
struct WalkedRange {
    range: VisibleRange,
    /// Last key read from the front.
    front: Option<Vec<u8>>,
    /// Last key read from the back.
    back: Option<Vec<u8>>,
    /// Whether the iterator has read the whole range.
    all: bool,
}

impl Inside {
    fn of(&mut self, tree: &Arc<TreeInner>) -> &mut TouchedKeys {
        let new = || TouchedKeys {
            tree: tree.clone(),
            own: Own::default(),
            deletes: VersionMap::default(),
            calls: vec![],
            deleted: KeyIntervals::default(),
            keys: VersionMap::default(),
            key_count: 0,
            ranges: KeyIntervals::default(),
            walks: SortedMap::new(),
            begun: 0,
        };
        self.trees.get_or_insert_with(tree.id, || Box::new(new()))
    }

    /// Charges `bytes` in place of an earlier charge of `before` bytes.
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
    /// Returns the pending write of a key: its value, or `None` for a delete.
    fn pending(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.own.puts.get(key).map(|v| Some(&**v)).or_else(|| self.deletes.get(key).map(|()| None))
    }
}

impl TransactionState {
    /// Returns the transaction's own result for a key. Without one, adds the key to the read set.
    pub fn get(&self, tree: &Arc<TreeInner>, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let mut s = self.0.lock();
        let t = s.of(tree);
        if let Some(own) = t.pending(key) {
            return Some(own.map(<[u8]>::to_vec));
        }
        if t.deleted.around(key).is_some() {
            return Some(None);
        }
        if t.keys.get(key).is_none() {
            t.keys.insert(key, ());
            t.key_count += 1;
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
        // Checks the bounds, and converts them to a start and an end key.
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

    /// Hides a range that begins and ends with hidden ranges, after an iterator found nothing
    /// between them.
    pub fn hide(&self, tree: TreeId, from: &[u8], until: Option<&[u8]>) {
        if let Some(t) = self.0.lock().trees.get_mut(&tree) {
            t.own.hidden.add(from, until);
        }
    }

    /// Returns the batch of all writes.
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

    /// Returns an error if anything in the read set has changed since. Called under the write lock.
    pub fn check(&self, since: Seq) -> Result<()> {
        for t in self.0.lock().trees.values() {
            for (key, ()) in t.keys.iter() {
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

    /// Returns the number of keys and ranges read, and of keys and ranges to write.
    pub fn counts(&self) -> (usize, usize) {
        let s = self.0.lock();
        let count = |f: fn(&TouchedKeys) -> usize| s.trees.values().map(|t| f(t)).sum();
        let written =
            |t: &TouchedKeys| t.own.puts.iter().count() + t.deletes.iter().count() + t.calls.len();
        (count(|t| t.key_count + t.ranges.iter().count() + t.walks.len()), count(written))
    }

    /// Starts an iterator. Returns its number and the present pending writes.
    pub fn begin_walk(&self, tree: &Arc<TreeInner>, range: VisibleRange) -> (u64, Own) {
        let mut s = self.0.lock();
        let t = s.of(tree);
        t.begun += 1;
        let walked = WalkedRange { range, front: None, back: None, all: false };
        t.walks.insert(t.begun, Box::new(walked));
        (t.begun, t.own.clone())
    }

    /// Records that an iterator has reached `key`, or its end if `key` is `None`.
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

    /// Ends an iterator and adds the part that it has read to the read set.
    pub fn end_walk(&self, tree: TreeId, walk: u64) {
        let mut s = self.0.lock();
        let Some(t) = s.trees.get_mut(&tree) else { return };
        if let Some(w) = t.walks.remove(&walk) {
            w.note(&mut t.ranges);
        }
    }
}

impl Own {
    /// Returns the next pending put of a range after `passed`, in the given direction.
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
    /// Adds the part that was read to `ranges`.
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
