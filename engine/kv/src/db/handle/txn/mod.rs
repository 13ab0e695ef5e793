//! Optimistic transactions: read from a snapshot, collect writes in a batch, and commit if nothing
//! read has changed.
//!
//! Invariants:
//! - T1: a transaction reads its snapshot with its own writes on top. Iterators are lazy. They see
//!   the transaction's writes made before their creation.
//! - T2: the commit checks the read set under the write lock, with every earlier write visible. No
//!   key read may have a version newer than the snapshot. No range read may have a range deletion
//!   or an entry newer than the snapshot, except deletes where the snapshot is known to be empty.
//!   So committed transactions are serializable in the order of their commits.
//! - T3: keys that an iterator has not reached are not part of the read set.
//! - T4: a rollback to a savepoint restores the pending writes, and removes nothing from the read
//!   set.
//! - T5: a transaction that is dropped or rejected has written nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::options::Durability;
use crate::db::write;
use crate::iterator::value::Value;
use crate::iterator::visible::VisibleRange;

use crate::db::handle::handles::{Db, Tree};
use crate::db::handle::range::{Keys, Range};
use crate::db::handle::readable::{ReadSource, Readable, own_reads};
use crate::db::handle::snapshot::{ReadPoint, Snapshot};
use crate::db::read::bounds::{Entry, KeyBounds};
use crate::db::write::limits::{check_key, check_value};

mod conflicts;
mod intervals;
mod locks;
mod state;
mod walk;

use conflicts::{conflict, key_changed_since};
use locks::HeldLocks;
use state::{SavedWrites, TransactionState};
use walk::Overlay;

/// An optimistic, serializable transaction. [`Db::transact`] runs the retry loop that most programs
/// need. [`Readable`](crate::Readable) lists the reads.
///
/// A transaction reads the state at its beginning with its own writes on top. An iterator sees the
/// writes made before its creation. The transaction commits if nothing that it read has changed
/// since. An iterator adds to the read set only the part of its range that it has reached. A
/// transaction that takes the first item of a queue depends on the queue up to that item, not on
/// its tail. Reads and writes are recorded in memory until the transaction ends. Its writes have
/// the size limit of a [`Batch`](crate::Batch).
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
    locks: Option<HeldLocks>,
}

/// The pending writes of a [`Transaction`] at one moment ([`Transaction::savepoint`]).
#[derive(Clone)]
pub struct Savepoint {
    state: Arc<TransactionState>,
    writes: SavedWrites,
}

/// Retry policy for transactions that meet a conflict: the number of attempts and the pauses
/// between them.
///
/// Pauses are random, so that two conflicting transactions do not collide again. Their upper bound
/// doubles from `first_pause` to `longest_pause`.
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
    /// Maximum number of attempts; 0 means 1. Default 32.
    pub attempts: u32,
    /// Upper bound of the first pause. Default 50 µs. Zero disables pauses.
    pub first_pause: Duration,
    /// Upper bound of every pause. Default 10 ms.
    pub longest_pause: Duration,
    #[doc(hidden)]
    pub _non_exhaustive: (),
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            attempts: 32,
            first_pause: Duration::from_micros(50),
            longest_pause: Duration::from_millis(10),
            _non_exhaustive: (),
        }
    }
}

impl Retry {
    /// Runs `work` in a transaction and commits it. On a conflict it starts again in a new
    /// transaction. Side effects of `work` outside the transaction happen in each attempt.
    ///
    /// # Errors
    /// The error of `work`, unless it is a `Conflict`. `Conflict` when all attempts have failed.
    /// The errors of [`Db::write`].
    pub fn transact<T>(
        &self,
        db: &Db,
        mut work: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            // The transaction is dropped, with its locks, before the pause.
            let done = {
                let mut tx = db.transaction();
                work(&mut tx).and_then(|out| tx.commit().map(|()| out))
            };
            match done {
                Err(e) if e.kind() == ErrorKind::Conflict && attempt < self.attempts => {
                    self.pause(db, attempt)
                }
                done => return done,
            }
        }
    }

    /// Sleeps as long as [`transact`](Retry::transact) does after a conflict in attempt number
    /// `attempt`, counted from 1. It is for loops that run their transactions themselves. They must
    /// count their attempts.
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
    /// Begins a transaction. It commits with the handle's durability.
    pub fn transaction(&self) -> Transaction {
        let snapshot = self.transaction_snapshot();
        Transaction { db: self.clone(), snapshot, state: Arc::default(), locks: None }
    }

    fn transaction_snapshot(&self) -> Snapshot {
        Snapshot { point: Arc::new(ReadPoint::new(self.handle.clone(), "transaction", true)) }
    }

    /// Runs `work` in a transaction and commits it. On a conflict it starts again, 32 times at
    /// most, with short random pauses. [`Retry::transact`] takes other limits.
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

own_reads!(Transaction);

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
    /// `InvalidArgument` when the key or value exceeds the limits, or the tree belongs to another
    /// store. Also when the transaction's writes would exceed the size limit of a batch.
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

    /// Deletes every key of a range when the transaction commits, including keys that others have
    /// put there by then. It reads nothing.
    ///
    /// # Errors
    /// As [`put`](Transaction::put).
    pub fn delete_range(&mut self, tree: &Tree, range: impl KeyBounds) -> Result<()> {
        self.snapshot.check_own(tree)?;
        self.state.delete_range(&tree.inner, &range)
    }

    /// Locks `key` until the transaction is dropped or has committed. Waits for at most `wait` while
    /// another transaction holds the lock; zero does not wait. The key needs no value.
    ///
    /// Locks make transactions on the same keys wait for each other, in the order of their calls,
    /// where optimistic ones would run again. Lock first and read afterwards: the call advances the
    /// snapshot of a transaction that has not read yet, so that it sees the commits of the earlier
    /// owners. A transaction that has read keeps its snapshot, and gets a `Conflict` at once if the
    /// key has changed since.
    ///
    /// A lock excludes only other calls of `lock` on the same key. Other writes do not wait for it.
    /// The commit checks everything that was read, with locks as without, so transactions with and
    /// without locks can be mixed. Locks are exclusive, and a second call for the same key returns
    /// at once. A key may be locked before it exists. Nothing of a lock is stored: after a crash
    /// none is held.
    ///
    /// ```
    /// use std::time::Duration;
    /// use firn_kv::{Db, ErrorKind, TreeOptions};
    /// let db = Db::in_memory()?;
    /// let accounts = db.tree("accounts", TreeOptions::default())?;
    /// accounts.put("ann", 10_u64.to_be_bytes())?;
    /// db.transact(|tx| {
    ///     tx.lock(&accounts, "ann", Duration::from_secs(1))?;
    ///     let balance = tx.get(&accounts, "ann")?.unwrap();
    ///     let balance = u64::from_be_bytes(balance.to_array()?);
    ///     tx.put(&accounts, "ann", (balance - 3).to_be_bytes())?;
    ///     // Meanwhile another transaction cannot take the lock.
    ///     let refused = db.transaction().lock(&accounts, "ann", Duration::ZERO);
    ///     assert_eq!(refused.unwrap_err().kind(), ErrorKind::Locked);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Conflict` for a deadlock: the owner waits, directly or through others, for this transaction.
    /// Drop the transaction and run it again; [`Db::transact`] does. `Conflict` too if the
    /// transaction has read and the key has changed since its snapshot. `Locked` when the wait
    /// ended without the lock. `Closed` when the store is being closed. `InvalidArgument` for a tree
    /// of another store, a key beyond the limits, or more than
    /// [`MAX_BATCH_LEN`](crate::MAX_BATCH_LEN) bytes of locked keys.
    pub fn lock(&mut self, tree: &Tree, key: impl AsRef<[u8]>, wait: Duration) -> Result<()> {
        let key = key.as_ref();
        self.snapshot.check_own(tree)?;
        tree.inner.check_live()?;
        check_key(key)?;
        let locks = self.locks.get_or_insert_with(|| HeldLocks::new(self.db.handle.clone()));
        if !locks.take(tree.inner.id, key, wait)? {
            return Ok(());
        }
        if !self.state.has_read() {
            self.snapshot = self.db.transaction_snapshot();
        } else if key_changed_since(&tree.inner, key, self.snapshot.seq())? {
            return Err(
                conflict("the locked key has changed since the transaction began").keys(key, key)
            );
        }
        Ok(())
    }

    /// Returns the number of locked keys.
    pub(super) fn lock_count(&self) -> usize {
        self.locks.as_ref().map_or(0, HeldLocks::len)
    }

    /// Returns the present pending writes, for [`rollback_to`](Transaction::rollback_to). It costs
    /// time and memory for each tree that the transaction has touched, not for its writes. While it
    /// exists, it retains the writes of its moment, also those that have been replaced since.
    ///
    /// ```
    /// use firn_kv::{Db, TreeOptions};
    /// let db = Db::in_memory()?;
    /// let tree = db.tree("t", TreeOptions::default())?;
    /// let mut tx = db.transaction();
    /// tx.put(&tree, "order", "1")?;
    /// let before = tx.savepoint();
    /// tx.put(&tree, "coupon", "spring")?;
    /// tx.rollback_to(&before)?; // the coupon was refused
    /// tx.commit()?;
    /// assert!(tree.contains("order")? && !tree.contains("coupon")?);
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { state: self.state.clone(), writes: self.state.save() }
    }

    /// Replaces the pending writes with those at a savepoint, which stays usable. Reads made since
    /// then still count at the commit, locks stay, and iterators that exist go on as they began.
    ///
    /// # Errors
    /// `InvalidArgument` for a savepoint of another transaction.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        if !Arc::ptr_eq(&self.state, &savepoint.state) {
            return Err(Error::invalid("the savepoint belongs to another transaction"));
        }
        self.state.restore(&savepoint.writes);
        Ok(())
    }

    /// Returns the transaction with another durability for its commit.
    pub fn with_durability(mut self, durability: Durability) -> Transaction {
        self.db.durability = durability;
        self
    }

    /// Commits all writes atomically.
    ///
    /// # Errors
    /// `Conflict` when something read has changed: run the whole transaction again. `Closed` when a
    /// tree that was read or written has been dropped. Otherwise as [`Db::write`].
    pub fn commit(self) -> Result<()> {
        let batch = self.state.batch()?;
        if batch.is_empty() {
            // Read-only: all reads came from one snapshot, which is a point in the order of
            // commits.
            return Ok(());
        }
        self.db.handle.check_writer()?;
        let since = self.snapshot.seq();
        write::write_checked(self.db.inner(), batch, self.db.durability, &|| {
            self.state.check(since)
        })
        .map(|_| ())
    }
}

#[cfg(all(test, not(loom), not(interleave)))]
mod tests;
