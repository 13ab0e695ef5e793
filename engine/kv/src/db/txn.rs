//! Optimistic transactions: read at a snapshot, write into a batch, commit if nothing that was read has changed.
//!
//! Invariants:
//! - T1: a transaction reads its snapshot with its own writes on top.
//! - T2: at commit, under the write lock and with every earlier write visible, each key read must have no version newer than the
//!   snapshot, and each range read no entry and no range deletion newer than it. So the committed transactions are serializable
//!   in the order of their commits.
//! - T3: a transaction that is dropped, or refused, has written nothing.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

use crate::base::cursor::Cursor as _;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{MAX_SEQ, Seq};
use crate::base::options::Durability;
use crate::base::sync::epoch;
use crate::merge::merging::{Merging, Source};
use crate::merge::run::RunCursor;
use crate::merge::value::Value;
use crate::merge::visible::KeyRange;

use super::batch::{Batch, check_key, check_value};
use super::iter::key_range;
use super::read::filter_hash;
use super::snapshot::{ReadPoint, Snapshot};
use super::tree::TreeCore;
use super::{Db, Tree};

/// A pending write of a key.
type Pending = Option<Vec<u8>>;

/// An optimistic, serializable transaction. See [`Db::transact`] for the loop that most programs want.
pub struct Transaction {
    db: Db,
    snapshot: Snapshot,
    writes: BTreeMap<(u32, Vec<u8>), (Tree, Pending)>,
    keys: Vec<(Arc<TreeCore>, Vec<u8>)>,
    ranges: Vec<(Arc<TreeCore>, KeyRange)>,
    durability: Durability,
}

impl Db {
    /// Begins a transaction.
    pub fn transaction(&self) -> Transaction {
        let durability = self.core().options.durability;
        let snapshot = Snapshot { point: Arc::new(ReadPoint::new(self.handle.clone(), "transaction", true)) };
        Transaction { db: self.clone(), snapshot, writes: BTreeMap::new(), keys: vec![], ranges: vec![], durability }
    }

    /// Runs `work` in a transaction and commits it, again from the start as long as others got in between, at most `tries` times.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-txn-{}", std::process::id()));
    /// use firn_kv::{Db, TreeOptions};
    /// let db = Db::open(&dir)?;
    /// let counters = db.tree("counters", TreeOptions::default())?;
    /// db.transact(10, |tx| {
    ///     let n = tx.get(&counters, b"visits")?.map_or(0, |v| v[0]);
    ///     tx.put(&counters, b"visits", &[n + 1])
    /// })?;
    /// assert_eq!(counters.get(b"visits")?.as_deref(), Some(&[1][..]));
    /// # drop((counters, db)); std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `work` returns, `Conflict` when `tries` were not enough, and the errors of [`Db::write`].
    pub fn transact<T>(&self, tries: usize, mut work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut left = tries.max(1);
        loop {
            let mut tx = self.transaction();
            let out = work(&mut tx)?;
            left -= 1;
            match tx.commit() {
                Ok(()) => return Ok(out),
                Err(e) if e.kind() == ErrorKind::Conflict && left > 0 => {}
                Err(e) => return Err(e),
            }
        }
    }
}

impl Transaction {
    /// Commits with this durability instead of the Db's.
    pub fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    /// The value of `key`: the transaction's own write, else that of its snapshot.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn get(&mut self, tree: &Tree, key: &[u8]) -> Result<Option<Value>> {
        tree.core.check_live()?;
        self.snapshot.check_own(tree)?;
        if let Some((_, own)) = self.writes.get(&(tree.core.id, key.to_vec())) {
            return Ok(own.as_deref().map(Value::from));
        }
        self.keys.push((tree.core.clone(), key.to_vec()));
        self.snapshot.get(tree, key)
    }

    /// The keys of a range with their values, the transaction's own writes included. They are collected at once.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn range<K: AsRef<[u8]>>(&mut self, tree: &Tree, range: impl RangeBounds<K>) -> Result<Vec<(Vec<u8>, Value)>> {
        tree.core.check_live()?;
        self.snapshot.check_own(tree)?;
        let range = key_range(range);
        let mut all: BTreeMap<Vec<u8>, Value> = BTreeMap::new();
        if !range.is_empty() {
            let until = range.until.as_deref();
            let bounds = (
                std::ops::Bound::Included(range.from.as_slice()),
                until.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded),
            );
            for item in self.snapshot.range::<&[u8]>(tree, bounds) {
                let (k, v) = item?;
                all.insert(k.to_vec(), v);
            }
            let from = (tree.core.id, range.from.clone());
            for ((_, k), (_, own)) in
                self.writes.range(from..).take_while(|((t, k), _)| *t == tree.core.id && range.contains(k))
            {
                match own {
                    Some(v) => all.insert(k.clone(), v.as_slice().into()),
                    None => all.remove(k),
                };
            }
        }
        self.ranges.push((tree.core.clone(), range));
        Ok(all.into_iter().collect())
    }

    /// Sets `key` to `value` when the transaction commits.
    ///
    /// # Errors
    /// `InvalidArgument` when key or value are over the limits, or the tree is one of another store.
    pub fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.snapshot.check_own(tree)?;
        check_key(key)?;
        check_value(value)?;
        self.writes.insert((tree.core.id, key.to_vec()), (tree.clone(), Some(value.to_vec())));
        Ok(())
    }

    /// Deletes `key` when the transaction commits.
    ///
    /// # Errors
    /// `InvalidArgument` when the key is over the limit, or the tree is one of another store.
    pub fn delete(&mut self, tree: &Tree, key: &[u8]) -> Result<()> {
        self.snapshot.check_own(tree)?;
        check_key(key)?;
        self.writes.insert((tree.core.id, key.to_vec()), (tree.clone(), None));
        Ok(())
    }

    /// Commits: all writes at once, or none.
    ///
    /// # Errors
    /// `Conflict` when something that was read has changed: run the whole transaction again. `Closed` when a tree that was read or is
    /// written has been dropped. Else as [`Db::write`].
    pub fn commit(self) -> Result<()> {
        let mut batch = Batch::new();
        for ((_, key), (tree, value)) in &self.writes {
            match value {
                Some(v) => batch.put(tree, key, v)?,
                None => batch.delete(tree, key)?,
            }
        }
        if batch.is_empty() {
            // Read-only: everything was read at one snapshot, which is a place in the order of commits.
            return Ok(());
        }
        let since = self.snapshot.seq();
        let check = || -> Result<()> {
            for (tree, key) in &self.keys {
                if key_changed_since(tree, key, since)? {
                    return Err(conflict("a key").keys(key, key));
                }
            }
            for (tree, range) in &self.ranges {
                if changed_since(tree, range, since)? {
                    return Err(conflict("a range"));
                }
            }
            Ok(())
        };
        self.db.core().write_batch(&batch, self.durability, Some(&check)).map(|_| ())
    }
}

fn conflict(what: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("{what} that the transaction read has changed since; run it again"))
}

/// Whether a key has a version, deletions included, that is newer than `since`. Called under the write lock: sources that hold nothing newer
/// are not looked into, and of the others filters are asked first.
fn key_changed_since(tree: &TreeCore, key: &[u8], since: Seq) -> Result<bool> {
    let guard = epoch::pin();
    let view = tree.view.load(&guard);
    // A tree that is dropped is marked before it is emptied.
    tree.check_live()?;
    let newer = |seq: Option<Seq>| seq.is_some_and(|s| s > since);
    for m in view.memtables() {
        let found = m.mem.get(key, MAX_SEQ).map(|f| f.trailer.seq());
        if newer(found) || newer(m.mem.newest_covering(key, MAX_SEQ, &guard)) {
            return Ok(true);
        }
        // What is in older sources is older still.
        if found.is_some() {
            return Ok(false);
        }
    }
    let mut hash = None;
    for t in view.version.runs.iter().filter_map(|r| r.find(key)).filter(|t| t.meta.max_seq > since) {
        let table = t.table()?;
        if t.meta.range_deletes > 0 && newer(table.tombstones().newest_covering(key, MAX_SEQ)) {
            return Ok(true);
        }
        if table.may_contain(*hash.get_or_insert_with(|| filter_hash(&view.options, key)))
            && let Some(hit) = table.get(key, None, MAX_SEQ, &guard)?
        {
            return Ok(hit.trailer.seq() > since);
        }
    }
    Ok(false)
}

/// Whether anything in a range is newer than `since`. Sources that hold nothing newer are not looked into.
fn changed_since(tree: &TreeCore, range: &KeyRange, since: Seq) -> Result<bool> {
    if range.is_empty() {
        return Ok(false);
    }
    let view = tree.view.load_full();
    tree.check_live()?;
    let until = range.until.as_deref();
    let mut sources: Vec<Source> = vec![];
    for m in view.memtables().filter(|m| !m.mem.is_empty()) {
        sources.push(Source::Mem(m.mem.cursor()));
        if m.mem.deletions().iter().any(|d| d.changed_since(&range.from, until, since)) {
            return Ok(true);
        }
    }
    for run in view.version.runs.iter().filter(|r| r.max_seq() > since) {
        let there = run.tables[run.lower_bound(&range.from)..].iter().take_while(|t| t.overlaps(None, until));
        for t in there.filter(|t| t.meta.range_deletes > 0 && t.meta.max_seq > since) {
            if t.table()?.tombstones().changed_since(&range.from, until, since) {
                return Ok(true);
            }
        }
        sources.push(Source::Run(RunCursor::new(run.clone(), true)));
    }
    let mut all = Merging::new(sources);
    all.seek(&range.from, crate::base::key::Trailer::NEWEST)?;
    while all.valid() && until.is_none_or(|u| all.key() < u) {
        if all.trailer().seq() > since {
            return Ok(true);
        }
        all.next()?;
    }
    Ok(false)
}
