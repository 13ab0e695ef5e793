//! A batch: operations on any trees of one Db that happen together or not at all.

use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::key::{Kind, MAX_BATCH_LEN, MAX_KEY_LEN, MAX_VALUE_LEN};
use crate::base::ops::{Op, encode};
use crate::memtable::Memtable;

use super::Tree;
use super::tree::TreeCore;

/// Operations that are written as one: readers see all of them or none, and so does a recovery after a crash.
///
/// Later operations win over earlier ones on the same key.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("firn-doc-batch-{}", std::process::id()));
/// use firn_kv::{Batch, Db, TreeOptions};
/// let db = Db::open(&dir)?;
/// let (users, mails) = (db.tree("users", TreeOptions::default())?, db.tree("mails", TreeOptions::default())?);
/// let mut batch = Batch::new();
/// batch.put(&users, b"ann", b"1")?;
/// batch.put(&mails, b"ann@example.org", b"ann")?;
/// db.write(batch)?;
/// assert_eq!(mails.get(b"ann@example.org")?.as_deref(), Some(&b"ann"[..]));
/// # drop((users, mails, db)); std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_kv::Error>(())
/// ```
#[derive(Default)]
pub struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u64,
    /// The trees concerned, in order of their numbers, with the memtable bytes that their operations may take.
    pub(super) trees: Vec<(Arc<TreeCore>, usize)>,
    /// The place in `trees` of the tree that was named last.
    last: usize,
}

/// Checks the length of a key.
#[inline]
pub(super) fn check_key(key: &[u8]) -> Result<()> {
    if key.len() <= MAX_KEY_LEN {
        return Ok(());
    }
    Err(Error::invalid(format!("a key of {} bytes; the limit is {MAX_KEY_LEN}", key.len())))
}

/// Checks the length of a value.
#[inline]
pub(super) fn check_value(value: &[u8]) -> Result<()> {
    if value.len() <= MAX_VALUE_LEN {
        return Ok(());
    }
    Err(Error::invalid(format!("a value of {} bytes; the limit is {MAX_VALUE_LEN}", value.len())))
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// How many operations it holds.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its encoded size in bytes, which is what the log takes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets all operations, keeping the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.trees.clear();
        self.count = 0;
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// `InvalidArgument` when key, value or batch are over the limits; the batch is then as before.
    pub fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.point(tree, Kind::Put, key, value)
    }

    /// Deletes `key`.
    ///
    /// # Errors
    /// As [`put`](Batch::put).
    pub fn delete(&mut self, tree: &Tree, key: &[u8]) -> Result<()> {
        self.point(tree, Kind::Delete, key, &[])
    }

    /// Adds an operand for the tree's merge hook.
    ///
    /// # Errors
    /// As [`put`](Batch::put), and when the tree has no merge hook.
    pub fn merge(&mut self, tree: &Tree, key: &[u8], operand: &[u8]) -> Result<()> {
        tree.check_merge()?;
        self.point(tree, Kind::Merge, key, operand)
    }

    /// Deletes every key in `[start, end)`. Adds nothing when `start` is not below `end`.
    ///
    /// # Errors
    /// As [`put`](Batch::put).
    pub fn delete_range(&mut self, tree: &Tree, start: &[u8], end: &[u8]) -> Result<()> {
        check_key(start)?;
        check_key(end)?;
        if start >= end {
            return Ok(());
        }
        self.add(tree, Op::DeleteRange { start, end }, Memtable::cost(start.len(), end.len()))
    }

    fn point(&mut self, tree: &Tree, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        check_value(value)?;
        self.add(tree, Op::Point { kind, key, value }, Memtable::cost(key.len(), value.len()))
    }

    fn add(&mut self, tree: &Tree, op: Op<'_>, cost: usize) -> Result<()> {
        let before = self.bytes.len();
        encode(&mut self.bytes, tree.core.id, op);
        if self.bytes.len() > MAX_BATCH_LEN {
            self.bytes.truncate(before);
            return Err(Error::invalid(format!("the batch would be over {MAX_BATCH_LEN} bytes")));
        }
        match self.trees.get_mut(self.last) {
            Some((t, c)) if Arc::ptr_eq(t, &tree.core) => *c += cost,
            _ => self.charge(tree, cost),
        }
        self.count += 1;
        Ok(())
    }

    /// Adds to what a tree's operations may take. Trees of two stores may have one number; such a batch is refused when it is written.
    fn charge(&mut self, tree: &Tree, cost: usize) {
        let place = |t: &Arc<TreeCore>| (t.id, Arc::as_ptr(t));
        match self.trees.binary_search_by_key(&place(&tree.core), |(t, _)| place(t)) {
            Ok(at) => {
                self.trees[at].1 += cost;
                self.last = at;
            }
            Err(at) => {
                self.trees.insert(at, (tree.core.clone(), cost));
                self.last = at;
            }
        }
    }
}
