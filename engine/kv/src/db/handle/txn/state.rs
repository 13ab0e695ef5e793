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
//! - An iterator that began before a rollback hides nothing: the deletions that it sees may be gone.
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
    /// Number of rollbacks to a savepoint.
    rollbacks: u64,
}

struct TouchedKeys {
    tree: Arc<TreeInner>,
    writes: PendingWrites,
    keys: VersionMap<()>,
    /// Number of `keys`.
    key_count: usize,
    /// Ranges read by finished iterators.
    ranges: KeyIntervals,
    /// Active iterators by number, and the count of all iterators so far.
    walks: SortedMap<u64, Box<WalkedRange>>,
    begun: u64,
}

/// Pending writes to a tree. A clone costs nothing.
#[derive(Clone, Default)]
struct PendingWrites {
    own: Own,
    /// Keys with a pending delete.
    deletes: VersionMap<()>,
    /// Deleted ranges as requested, each an operation of the batch, by their number in big-endian;
    /// `deleted` is their union.
    calls: VersionMap<(MapKey, Option<MapKey>)>,
    /// Number of `calls`.
    call_count: u64,
    deleted: KeyIntervals,
}

/// The pending writes of a transaction at one moment.
#[derive(Clone)]
pub struct SavedWrites {
    trees: Vec<(TreeId, PendingWrites)>,
    bytes: usize,
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
    /// Number of rollbacks before the iterator began.
    rollbacks: u64,
}

impl Inside {
    fn of(&mut self, tree: &Arc<TreeInner>) -> &mut TouchedKeys {
        let new = || TouchedKeys {
            tree: tree.clone(),
            writes: PendingWrites::default(),
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

impl PendingWrites {
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
        if let Some(own) = t.writes.pending(key) {
            return Some(own.map(<[u8]>::to_vec));
        }
        if t.writes.deleted.around(key).is_some() {
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
        let before = s.of(tree).writes.pending(key).map_or(0, |b| size(key, b));
        s.charge(size(key, value), before)?;
        let t = &mut s.of(tree).writes;
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
        let t = &s.of(tree).writes;
        let (mut puts, mut deletes) = (t.own.puts.clone(), t.deletes.clone());
        let gone: usize = puts.take(start, end).iter().map(|(k, v)| size(k, Some(v))).sum();
        let gone =
            gone + deletes.take(start, end).iter().map(|(k, ())| size(k, None)).sum::<usize>();
        s.charge(size(start, end), gone)?;
        let t = &mut s.of(tree).writes;
        t.own.hidden.add(start, end);
        t.deleted.add(start, end);
        t.calls.insert(&t.call_count.to_be_bytes(), (start.into(), end.map(MapKey::from)));
        t.call_count += 1;
        (t.own.puts, t.deletes) = (puts, deletes);
        Ok(())
    }

    /// Hides a range that begins and ends with hidden ranges, after an iterator found nothing
    /// between them.
    pub fn hide(&self, tree: TreeId, walk: u64, from: &[u8], until: Option<&[u8]>) {
        let mut s = self.0.lock();
        let rollbacks = s.rollbacks;
        let Some(t) = s.trees.get_mut(&tree) else { return };
        if t.walks.get(&walk).is_some_and(|w| w.rollbacks == rollbacks) {
            t.writes.own.hidden.add(from, until);
        }
    }

    /// Returns the present pending writes.
    pub fn save(&self) -> SavedWrites {
        let s = self.0.lock();
        let trees = s.trees.iter().map(|(id, t)| (*id, t.writes.clone())).collect();
        SavedWrites { trees, bytes: s.bytes }
    }

    /// Replaces the pending writes with saved ones. The read set stays as it is.
    pub fn restore(&self, saved: &SavedWrites) {
        let mut s = self.0.lock();
        s.rollbacks += 1;
        s.bytes = saved.bytes;
        s.trees.values_mut().for_each(|t| t.writes = PendingWrites::default());
        for (id, writes) in &saved.trees {
            if let Some(t) = s.trees.get_mut(id) {
                t.writes = writes.clone();
            }
        }
    }

    /// Reports whether the transaction has read anything of its snapshot, or has begun an iterator.
    pub fn has_read(&self) -> bool {
        let has_read = |t: &TouchedKeys| {
            t.key_count > 0 || t.ranges.iter().next().is_some() || !t.walks.is_empty()
        };
        self.0.lock().trees.values().any(|t| has_read(t))
    }

    /// Returns the batch of all writes.
    pub fn batch(&self) -> Result<Batch> {
        let mut batch = Batch::new();
        for t in self.0.lock().trees.values() {
            for (_, (from, until)) in t.writes.calls.iter() {
                let end = until.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                batch.delete_between(&t.tree, &(Bound::Included(&**from), end))?;
            }
            for (key, ()) in t.writes.deletes.iter() {
                batch.point(&t.tree, Kind::Delete, key, &[])?;
            }
            for (key, value) in t.writes.own.puts.iter() {
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
                    return Err(conflict("a key that the transaction read has changed since")
                        .keys(key, key));
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
                    return Err(conflict("a range that the transaction read has changed since"));
                }
            }
        }
        Ok(())
    }

    /// Returns the number of keys and ranges read, and of keys and ranges to write.
    pub fn counts(&self) -> (usize, usize) {
        let s = self.0.lock();
        let count = |f: fn(&TouchedKeys) -> usize| s.trees.values().map(|t| f(t)).sum();
        let written = |t: &TouchedKeys| {
            let w = &t.writes;
            w.own.puts.iter().count() + w.deletes.iter().count() + w.calls.iter().count()
        };
        (count(|t| t.key_count + t.ranges.iter().count() + t.walks.len()), count(written))
    }

    /// Starts an iterator. Returns its number and the present pending writes.
    pub fn begin_walk(&self, tree: &Arc<TreeInner>, range: VisibleRange) -> (u64, Own) {
        let mut s = self.0.lock();
        let rollbacks = s.rollbacks;
        let t = s.of(tree);
        t.begun += 1;
        let walked = WalkedRange { range, front: None, back: None, all: false, rollbacks };
        t.walks.insert(t.begun, Box::new(walked));
        (t.begun, t.writes.own.clone())
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
