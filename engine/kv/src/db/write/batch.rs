//! A batch: operations on any trees of one Db that are written atomically.
//!
//! Invariant: the log has no range deletion without an end. A batch encodes an open range with the
//! empty key as its end, which no other range has. [`closed`](Batch::closed) replaces it, when the
//! batch is written, by an end after all existing keys.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::key::{Kind, MAX_BATCH_LEN, MAX_BATCH_OPS, successor};
use crate::base::ops::{Op, OpReader, TreeId, encode};
use crate::memtable::Memtable;
use crate::util::sorted_map::SortedMap;

use crate::db::read::bounds::KeyBounds;
use crate::db::versions::tree::TreeInner;
use crate::db::write::limits::{check_key, check_value};

/// Operations that are written atomically: readers and crash recovery see all of them or none.
///
/// Later operations win over earlier ones on the same key.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("firn-doc-batch-{}", std::process::id()));
/// use firn_kv::{Batch, Db, TreeOptions};
/// let db = Db::open(&dir)?;
/// let (users, mails) = (db.tree("users", TreeOptions::default())?, db.tree("mails", TreeOptions::default())?);
/// let mut batch = Batch::new();
/// batch.put(&users, "ann", "1")?;
/// batch.put(&mails, "ann@example.org", "ann")?;
/// db.write(batch)?;
/// assert_eq!(mails.get("ann@example.org")?.unwrap(), "ann");
/// # drop((users, mails, db)); std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_kv::Error>(())
/// ```
#[derive(Default)]
pub struct Batch {
    pub(in crate::db) bytes: Vec<u8>,
    pub(in crate::db) count: u64,
    /// Trees of the operations, ordered by id, each with an upper bound of the memtable bytes that
    /// its operations need.
    pub(in crate::db) trees: Vec<(Arc<TreeInner>, usize)>,
    /// Index in `trees` of the tree of the last operation.
    last: usize,
    /// Number of range deletions without an end.
    open: u64,
}

/// Operation of a [`Batch`], as it was added. `tree` is the tree's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are the arguments of the calls that added it")]
pub enum BatchOp<'a> {
    /// Added by [`Batch::put`].
    Put { tree: &'a str, key: &'a [u8], value: &'a [u8] },
    /// Added by [`Batch::delete`].
    Delete { tree: &'a str, key: &'a [u8] },
    /// Added by [`Batch::merge`].
    Merge { tree: &'a str, key: &'a [u8], operand: &'a [u8] },
    /// Added by [`Batch::delete_range`]: the keys from `start` until before `end`, or all keys from
    /// `start` on.
    DeleteRange { tree: &'a str, start: &'a [u8], end: Option<&'a [u8]> },
}

/// Iterator over the operations of a [`Batch`] in the order in which they were added.
#[derive(Clone)]
pub struct BatchOps<'a> {
    batch: &'a Batch,
    ops: OpReader<'a>,
}

impl<'a> Iterator for BatchOps<'a> {
    type Item = BatchOp<'a>;

    fn next(&mut self) -> Option<BatchOp<'a>> {
        let (tree, op) = self.ops.next()??;
        Some(BatchOp::of(&self.batch.tree(tree)?.name, op))
    }
}

impl<'a> BatchOp<'a> {
    /// Decodes an operation on the tree of this name.
    pub(in crate::db) fn of(tree: &'a str, op: Op<'a>) -> BatchOp<'a> {
        match op {
            // A batch holds the values themselves: `OpReader` rejects operations that refer to
            // blobs.
            Op::Point { kind: Kind::Put | Kind::Blob, key, value } => {
                BatchOp::Put { tree, key, value }
            }
            Op::Point { kind: Kind::Delete, key, .. } => BatchOp::Delete { tree, key },
            Op::Point { kind: Kind::Merge, key, value } => {
                BatchOp::Merge { tree, key, operand: value }
            }
            Op::DeleteRange { start, end } => {
                BatchOp::DeleteRange { tree, start, end: Some(end).filter(|e| !e.is_empty()) }
            }
        }
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = BatchOp<'a>;
    type IntoIter = BatchOps<'a>;

    fn into_iter(self) -> BatchOps<'a> {
        self.iter()
    }
}

impl fmt::Debug for BatchOps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchOps").field("batch", self.batch).finish_non_exhaustive()
    }
}

impl Batch {
    /// Creates an empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Creates an empty batch with room for this many encoded bytes: keys, values, and up to 12
    /// bytes of overhead for each operation. The batch grows if it needs more.
    ///
    /// ```
    /// use firn_kv::{Batch, Db, TreeOptions};
    /// let db = Db::in_memory()?;
    /// let tree = db.tree("t", TreeOptions::default())?;
    /// let mut batch = Batch::with_capacity(100 * (8 + 100 + 12));
    /// for key in 0..100_u64 {
    ///     batch.put(&tree, key.to_be_bytes(), [7; 100])?;
    /// }
    /// db.write(batch)?;
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn with_capacity(bytes: usize) -> Batch {
        // A batch may not be larger, so a larger capacity would be wasted.
        Batch { bytes: Vec::with_capacity(bytes.min(MAX_BATCH_LEN)), ..Batch::default() }
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Reports whether the batch has no operations.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the encoded size in bytes, as written to the log.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all operations and retains the allocated memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.trees.clear();
        self.count = 0;
        self.open = 0;
    }

    /// Returns the operations, in the order in which they were added.
    ///
    /// ```
    /// use firn_kv::{Batch, BatchOp, Db, TreeOptions};
    /// let tree = Db::in_memory()?.tree("t", TreeOptions::default())?;
    /// let mut batch = Batch::new();
    /// batch.put(&tree, "k", "v")?;
    /// batch.delete_range(&tree, "x"..)?;
    /// let ops: Vec<BatchOp> = batch.iter().collect();
    /// assert_eq!(ops[0], BatchOp::Put { tree: "t", key: b"k", value: b"v" });
    /// assert_eq!(ops[1], BatchOp::DeleteRange { tree: "t", start: b"x", end: None });
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn iter(&self) -> BatchOps<'_> {
        BatchOps { batch: self, ops: OpReader::new(&self.bytes) }
    }

    pub(in crate::db) fn delete_between(
        &mut self,
        tree: &Arc<TreeInner>,
        range: &dyn KeyBounds,
    ) -> Result<()> {
        for bound in [range.start_key(), range.end_key()] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound {
                check_key(key)?;
            }
        }
        let after;
        let start = match range.start_key() {
            Bound::Unbounded => &[][..],
            Bound::Included(key) => key,
            Bound::Excluded(key) => match successor(key) {
                Some(key) => {
                    after = key;
                    &after
                }
                None => return Ok(()),
            },
        };
        match range.end_key() {
            Bound::Unbounded => self.delete_from(tree, start),
            Bound::Excluded(end) => self.delete_to(tree, start, end),
            Bound::Included(end) => match successor(end) {
                Some(end) => self.delete_to(tree, start, &end),
                None => self.delete_from(tree, start),
            },
        }
    }

    fn delete_to(&mut self, tree: &Arc<TreeInner>, start: &[u8], end: &[u8]) -> Result<()> {
        if start >= end {
            return Ok(());
        }
        self.add(tree, Op::DeleteRange { start, end })
    }

    fn delete_from(&mut self, tree: &Arc<TreeInner>, start: &[u8]) -> Result<()> {
        self.add(tree, Op::DeleteRange { start, end: &[] })?;
        self.open += 1;
        Ok(())
    }

    /// Reports whether the batch deletes a range without an end. Then only its
    /// [`closed`](Batch::closed) form can be written.
    pub(in crate::db) fn is_open(&self) -> bool {
        self.open > 0
    }

    /// Returns the same operations, with an end for each range. `greatest` returns the greatest key
    /// of a tree, including deleted keys. No other thread may write until the batch is written.
    pub(in crate::db) fn closed(
        &self,
        greatest: impl Fn(&TreeInner) -> Result<Option<Vec<u8>>>,
    ) -> Result<Batch> {
        let mut closed = Batch::new();
        let mut written: SortedMap<TreeId, &[u8]> = SortedMap::new();
        for (id, op) in OpReader::new(&self.bytes).flatten() {
            let Some(tree) = self.tree(id) else { continue };
            match op {
                Op::DeleteRange { start, end: [] } => {
                    let there = greatest(tree)?;
                    let last = there.as_deref().max(written.get(&id).copied()).unwrap_or_default();
                    // Emits at least one operation, so that the deletion has a sequence number.
                    let last = last.max(start);
                    match successor(last) {
                        Some(end) => closed.delete_to(tree, start, &end)?,
                        None => {
                            closed.delete_to(tree, start, last)?;
                            closed.point(tree, Kind::Delete, last, &[])?;
                        }
                    }
                }
                Op::Point { key, .. } => {
                    let last = written.get_or_default(id);
                    *last = key.max(last);
                    closed.add(tree, op)?;
                }
                op => closed.add(tree, op)?,
            }
        }
        Ok(closed)
    }

    fn tree(&self, id: TreeId) -> Option<&Arc<TreeInner>> {
        self.trees.binary_search_by_key(&id, |(t, _)| t.id).ok().map(|at| &self.trees[at].0)
    }

    pub(in crate::db) fn point(
        &mut self,
        tree: &Arc<TreeInner>,
        kind: Kind,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        check_key(key)?;
        check_value(value)?;
        self.add(tree, Op::Point { kind, key, value })
    }

    pub(in crate::db) fn add(&mut self, tree: &Arc<TreeInner>, op: Op<'_>) -> Result<()> {
        let before = self.bytes.len();
        if self.len() >= MAX_BATCH_OPS {
            return Err(Error::invalid(format!(
                "a batch has {MAX_BATCH_OPS} operations at most (MAX_BATCH_OPS); write it, and begin another"
            )));
        }
        encode(&mut self.bytes, tree.id, op);
        if self.bytes.len() > MAX_BATCH_LEN {
            self.bytes.truncate(before);
            return Err(Error::invalid(format!(
                "the batch would be over {MAX_BATCH_LEN} bytes (MAX_BATCH_LEN); write it, and begin another"
            )));
        }
        let cost = Memtable::cost_of(&op);
        match self.trees.get_mut(self.last) {
            Some((t, c)) if Arc::ptr_eq(t, tree) => *c += cost,
            _ => self.charge(tree, cost),
        }
        self.count += 1;
        Ok(())
    }

    /// Adds to the memtable bytes of a tree. Trees of two stores may have the same id; such a batch
    /// is refused when it is written.
    fn charge(&mut self, tree: &Arc<TreeInner>, cost: usize) {
        let place = |t: &Arc<TreeInner>| (t.id, Arc::as_ptr(t));
        match self.trees.binary_search_by_key(&place(tree), |(t, _)| place(t)) {
            Ok(at) => {
                self.trees[at].1 += cost;
                self.last = at;
            }
            Err(at) => {
                self.trees.insert(at, (tree.clone(), cost));
                self.last = at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::MAX_CAPACITY;

    /// A batch within its limits fits into a memtable, regardless of its operations.
    #[test]
    fn the_largest_batch_of_any_operations_fits_into_a_memtable() {
        for key in (0..40).map(|n| vec![7; n]) {
            for value in (0..40).map(|n| vec![7; n]) {
                let point = Op::Point { kind: Kind::Put, key: &key, value: &value };
                for op in [point, Op::DeleteRange { start: &key, end: &value }] {
                    let mut bytes = vec![];
                    encode(&mut bytes, 0, op);
                    let most = MAX_BATCH_OPS.min(MAX_BATCH_LEN / bytes.len());
                    let capacity = Memtable::capacity_for(0, most * Memtable::cost_of(&op));
                    assert!(capacity <= MAX_CAPACITY, "{op:?}: {capacity} bytes");
                }
            }
        }
    }
}
