//! Optimistic transactions: read at a snapshot, write into a batch, commit if nothing that was read
//! has changed.
//!
//! Invariants:
//! - T1: a transaction reads its snapshot with its own writes on top. Iterators are lazy, and see
//!   what it had written when they began.
//! - T2: at commit, under the write lock and with every earlier write visible, each key read must
//!   have no version newer than the snapshot, and each range walked nothing that could be seen
//!   newer than it, and no range deletion. So the committed transactions are serializable in the
//!   order of their commits.
//! - T3: what an iterator has not come to was not read.
//! - T4: a transaction that is dropped, or refused, has written nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{ErrorKind, Result};
use crate::base::options::Durability;
use crate::db::write;
use crate::iterator::value::Value;
use crate::iterator::visible::VisibleRange;

use crate::db::handle::handles::{Db, Tree};
use crate::db::handle::range::Range;
use crate::db::handle::readable::ReadSource;
use crate::db::handle::snapshot::{ReadPoint, Snapshot};
use crate::db::read::bounds::KeyBounds;
use crate::db::write::limits::{check_key, check_value};

mod conflicts;
mod intervals;
mod state;
mod walk;

use state::TransactionState;
use walk::Overlay;

/// An optimistic, serializable transaction. See [`Db::transact`] for the loop that most programs
/// want, and [`Readable`](crate::Readable) for what can be read.
///
/// It reads the state at its beginning with its own writes on top (an iterator with those before
/// the iterator), and commits when nothing that it read has changed since. Of a range it has read
/// what its iterator has come to: whoever takes the first item of a queue depends on the queue up
/// to there, not on its tail. What it read and wrote is kept in memory until it ends; its writes
/// may take as much as a [`Batch`](crate::Batch) may.
///
/// ```
/// use firn_kv::{Db, Readable, TreeOptions};
/// let db = Db::in_memory()?;
/// let (jobs, done) = (db.tree("jobs", TreeOptions::default())?, db.tree("done", TreeOptions::default())?);
/// jobs.put("1", "wash up")?;
/// jobs.put("2", "sweep")?;
/// let mut tx = db.transaction();
/// if let Some((key, job)) = tx.first(&jobs)? {
///     tx.delete(&jobs, &key)?;
///     tx.put(&done, &key, &job)?;
/// }
/// jobs.put("3", "rest")?; // no conflict: only the first job was read
/// tx.commit()?;
/// assert_eq!((jobs.len()?, done.len()?), (2, 1));
/// # Ok::<(), firn_kv::Error>(())
/// ```
pub struct Transaction {
    pub(super) db: Db,
    pub(super) snapshot: Snapshot,
    pub(super) state: Arc<TransactionState>,
}

/// How often a transaction that meets a conflict is run again, and what is waited before.
///
/// Pauses are random, between none and a bound that doubles from `first_pause` to `longest_pause`,
/// so that those who met each other do not meet again.
///
/// ```
/// use firn_kv::{Db, ErrorKind, Readable, Retry, TreeOptions};
/// let db = Db::in_memory()?;
/// let tree = db.tree("t", TreeOptions::default())?;
/// let once = Retry { attempts: 1, ..Retry::default() };
/// let done = once.transact(&db, |tx| {
///     tx.get(&tree, "k")?;
///     tree.put("k", "another one was faster")?;
///     tx.put(&tree, "k", "mine")
/// });
/// assert_eq!(done.unwrap_err().kind(), ErrorKind::Conflict);
/// # Ok::<(), firn_kv::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often it is run at most; 0 is taken for 1. Default 32.
    pub attempts: u32,
    /// The longest first pause. Default 50 µs. Zero for none.
    pub first_pause: Duration,
    /// No pause is longer. Default 10 ms.
    pub longest_pause: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            attempts: 32,
            first_pause: Duration::from_micros(50),
            longest_pause: Duration::from_millis(10),
        }
    }
}

impl Retry {
    /// Runs `work` in a transaction and commits it; again from the start, in another transaction,
    /// as long as it meets conflicts. What `work` does beside writing in the transaction happens
    /// each time.
    ///
    /// # Errors
    /// What `work` returns, unless that is a `Conflict` too; `Conflict` when the attempts were not
    /// enough; and the errors of [`Db::write`].
    pub fn transact<T>(
        &self,
        db: &Db,
        mut work: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut tx = db.transaction();
            match work(&mut tx).and_then(|out| tx.commit().map(|()| out)) {
                Err(e) if e.kind() == ErrorKind::Conflict && attempt < self.attempts => {
                    self.pause(db, attempt)
                }
                done => return done,
            }
        }
    }

    /// Sleeps as long as [`transact`](Retry::transact) does after its attempt number `attempt`,
    /// counted from 1, has met a conflict: for loops that run their transactions themselves. How
    /// many attempts there are is theirs to count.
    ///
    /// ```
    /// use firn_kv::{Db, ErrorKind, Readable, Retry, TreeOptions};
    /// let db = Db::in_memory()?;
    /// let tree = db.tree("t", TreeOptions::default())?;
    /// let retry = Retry::default();
    /// for attempt in 1..=retry.attempts {
    ///     let mut tx = db.transaction();
    ///     let n = tx.get(&tree, "n")?.map_or(0, |v| v[0]);
    ///     tx.put(&tree, "n", [n + 1])?;
    ///     match tx.commit() {
    ///         Err(e) if e.kind() == ErrorKind::Conflict && attempt < retry.attempts => retry.pause(&db, attempt),
    ///         done => { done?; break }
    ///     }
    /// }
    /// assert_eq!(tree.get("n")?.unwrap(), [1]);
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn pause(&self, db: &Db, attempt: u32) {
        let bound = self
            .first_pause
            .saturating_mul(1 << attempt.saturating_sub(1).min(20))
            .min(self.longest_pause);
        let (env, nanos) = (&db.inner().env, u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX));
        if nanos > 0 {
            env.sleep(Duration::from_nanos(env.random() % nanos.saturating_add(1)));
        }
    }
}

impl Db {
    /// Begins a transaction. It is written with the handle's durability.
    pub fn transaction(&self) -> Transaction {
        let snapshot =
            Snapshot { point: Arc::new(ReadPoint::new(self.handle.clone(), "transaction", true)) };
        Transaction { db: self.clone(), snapshot, state: Arc::default() }
    }

    /// Runs `work` in a transaction and commits it, again from the start as long as others got in
    /// between: 32 times at most, with short random pauses. [`Retry::transact`] is the same with
    /// other numbers.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-txn-{}", std::process::id()));
    /// use firn_kv::{Db, Readable, TreeOptions};
    /// let db = Db::open(&dir)?;
    /// let counters = db.tree("counters", TreeOptions::default())?;
    /// db.transact(|tx| {
    ///     let n = tx.get(&counters, "visits")?.map_or(0, |v| v[0]);
    ///     tx.put(&counters, "visits", [n + 1])
    /// })?;
    /// assert_eq!(counters.get("visits")?.unwrap(), [1]);
    /// # drop((counters, db)); std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Retry::transact`].
    pub fn transact<T>(&self, work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        Retry::default().transact(self, work)
    }
}

impl ReadSource for Transaction {
    fn read(&self, tree: &Tree, key: &[u8]) -> Result<Option<Value>> {
        tree.inner.check_live()?;
        self.snapshot.check_own(tree)?;
        match self.state.get(&tree.inner, key) {
            Some(own) => Ok(own.map(Value::from)),
            None => self.snapshot.read(tree, key),
        }
    }

    fn walk(&self, tree: &Tree, range: VisibleRange) -> Range {
        let walk = self.snapshot.walk(tree, range);
        if self.snapshot.check_own(tree).is_err() {
            return walk;
        }
        let overlay = Overlay::new(&self.state, &tree.inner, walk.walk.range.clone());
        walk.with_overlay(Box::new(overlay))
    }
}

impl Transaction {
    /// Sets `key` to `value` when the transaction commits.
    ///
    /// # Errors
    /// `InvalidArgument` when key or value are over the limits, the transaction's writes would take
    /// more than a batch may, or the tree is one of another store.
    pub fn put(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write(tree, key.as_ref(), Some(value.as_ref()))
    }

    /// Deletes `key` when the transaction commits.
    ///
    /// # Errors
    /// As [`put`](Transaction::put).
    pub fn delete(&mut self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(tree, key.as_ref(), None)
    }

    fn write(&mut self, tree: &Tree, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.snapshot.check_own(tree)?;
        check_key(key)?;
        check_value(value.unwrap_or_default())?;
        self.state.write(&tree.inner, key, value)
    }

    /// Deletes every key of a range when the transaction commits, those too that others have put
    /// there by then; nothing is read for it.
    ///
    /// # Errors
    /// As [`put`](Transaction::put).
    pub fn delete_range(&mut self, tree: &Tree, range: impl KeyBounds) -> Result<()> {
        self.snapshot.check_own(tree)?;
        self.state.delete_range(&tree.inner, &range)
    }

    /// The same transaction, which commits with this durability.
    pub fn with(mut self, durability: Durability) -> Transaction {
        self.db.durability = durability;
        self
    }

    /// Commits: all writes at once, or none.
    ///
    /// # Errors
    /// `Conflict` when something that was read has changed: run the whole transaction again.
    /// `Closed` when a tree that was read or is written has been dropped. Else as [`Db::write`].
    pub fn commit(self) -> Result<()> {
        let batch = self.state.batch()?;
        if batch.is_empty() {
            // Read-only: everything was read at one snapshot, which is a place in the order of
            // commits.
            return Ok(());
        }
        let since = self.snapshot.seq();
        write::write_checked(self.db.inner(), batch, self.db.durability, &|| {
            self.state.check(since)
        })
        .map(|_| ())
    }
}

#[cfg(all(test, not(loom), not(interleave)))]
mod tests;
