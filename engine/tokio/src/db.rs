//! [`AsyncDb`].

use std::path::PathBuf;

use firn_kv::{
    Batch, Db, DbOptions, Durability, Range, Result, Retry, Transaction, Tree, TreeOptions,
};

use crate::options::AsyncOptions;
use crate::queue::CallQueue;
use crate::stream::RangeStream;
use crate::tree::AsyncTree;

/// An async handle of a store. Cheap to clone. All clones and trees share one bound of running calls.
///
/// Futures do nothing until they are polled. The [crate's page](crate#guarantees) describes
/// cancellation.
///
/// Close the store with [`close`](AsyncDb::close). Otherwise it closes where its last handle is
/// dropped, and blocks that thread until the background work has stopped.
#[derive(Clone, Debug)]
pub struct AsyncDb {
    db: Db,
    queue: CallQueue,
    options: AsyncOptions,
}

impl AsyncDb {
    /// Creates an async handle of an open store, with default limits.
    pub fn new(db: Db) -> AsyncDb {
        AsyncDb::with_options(db, AsyncOptions::default())
    }

    /// Creates an async handle of an open store. Its limits do not count calls of other handles that
    /// were made by `new` or `with_options`.
    pub fn with_options(db: Db, options: AsyncOptions) -> AsyncDb {
        AsyncDb { db, queue: CallQueue::new(options.max_running), options }
    }

    /// Opens the store in `dir` with default options and limits, and creates it when the directory
    /// is missing or empty.
    ///
    /// # Errors
    /// As [`Db::open_with`].
    pub async fn open(dir: impl Into<PathBuf>) -> Result<AsyncDb> {
        AsyncDb::open_with(dir, DbOptions::default(), AsyncOptions::default()).await
    }

    /// Opens the store in `dir`.
    ///
    /// # Errors
    /// As [`Db::open_with`].
    pub async fn open_with(
        dir: impl Into<PathBuf>,
        options: DbOptions,
        limits: AsyncOptions,
    ) -> Result<AsyncDb> {
        let (dir, queue) = (dir.into(), CallQueue::new(limits.max_running));
        let db = queue.run(move || Db::open_with(dir, options)).await?;
        Ok(AsyncDb { db, queue, options: limits })
    }

    /// Returns the synchronous handle, for calls that do not block, such as
    /// [`Db::snapshot`] and [`Db::stats`].
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Returns a handle that writes with `durability`. It shares the bound of running calls.
    pub fn with_durability(&self, durability: Durability) -> AsyncDb {
        AsyncDb { db: self.db.with_durability(durability), ..self.clone() }
    }

    /// Opens the tree `name`, and creates it with these options if it does not exist.
    ///
    /// # Errors
    /// As [`Db::tree`].
    pub async fn tree(&self, name: impl Into<String>, options: TreeOptions) -> Result<AsyncTree> {
        let name = name.into();
        let tree = self.call(move |db| db.tree(&name, options)).await?;
        Ok(self.wrap(tree))
    }

    /// Returns an async handle of a tree of this store, with the tree's durability.
    ///
    /// ```
    /// # use firn_kv::{Db, Durability, TreeOptions};
    /// # use firn_tokio::AsyncDb;
    /// # let db = AsyncDb::new(Db::in_memory()?);
    /// # let tree = db.db().tree("t", TreeOptions::default())?;
    /// let durable = db.wrap(tree.with_durability(Durability::Power));
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn wrap(&self, tree: Tree) -> AsyncTree {
        AsyncTree::new(self.queue.clone(), self.options, tree)
    }

    /// Runs `work` on a blocking thread: several calls in one move, or a call that has no async
    /// form.
    ///
    /// `work` may block, but must not wait for other async calls of this store: they might wait for
    /// it.
    ///
    /// ```
    /// # use firn_kv::{Db, TreeOptions};
    /// # use firn_tokio::AsyncDb;
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let db = AsyncDb::new(Db::in_memory()?);
    /// let tree = db.tree("t", TreeOptions::default()).await?;
    /// let raw = tree.tree().clone();
    /// let size = db.call(move |db| {
    ///     raw.put("k", "v")?;
    ///     raw.flush()?;
    ///     db.wait_idle()?;
    ///     Ok(db.stats().trees.len())
    /// });
    /// assert_eq!(size.await?, 1);
    /// # Ok::<(), firn_kv::Error>(())
    /// # })?;
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `work`. `Closed` after [`close`](AsyncDb::close).
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Db) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.db.clone();
        self.queue.run(move || work(&db)).await
    }

    /// Writes a batch with the handle's durability.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub async fn write(&self, batch: Batch) -> Result<()> {
        self.call(|db| db.write(batch)).await
    }

    /// Runs `work` in a transaction and commits it. On a conflict it starts again, as
    /// [`Db::transact`] does. The pauses between attempts occupy the blocking thread.
    ///
    /// ```
    /// # use firn_kv::{Db, Readable, TreeOptions};
    /// # use firn_tokio::AsyncDb;
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let db = AsyncDb::new(Db::in_memory()?);
    /// let counters = db.tree("counters", TreeOptions::default()).await?;
    /// let raw = counters.tree().clone();
    /// db.transact(move |tx| {
    ///     let n = tx.get(&raw, "visits")?.map_or(0, |v| v[0]);
    ///     tx.put(&raw, "visits", [n + 1])
    /// })
    /// .await?;
    /// assert_eq!(counters.get("visits").await?.unwrap(), [1]);
    /// # Ok::<(), firn_kv::Error>(())
    /// # })?;
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Retry::transact`].
    pub async fn transact<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.transact_with(Retry::default(), work).await
    }

    /// Runs `work` in a transaction with other limits of retries.
    ///
    /// # Errors
    /// As [`Retry::transact`].
    pub async fn transact_with<T: Send + 'static>(
        &self,
        retry: Retry,
        work: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.call(move |db| retry.transact(db, work)).await
    }

    /// Returns a stream of the entries of an iterator of this store: of a snapshot, a prefix, or in
    /// reverse ([`RangeStream::rev`]).
    pub fn stream(&self, range: Range) -> RangeStream {
        RangeStream::new(self.queue.clone(), self.options, range)
    }

    /// Makes every write so far survive a power cut.
    ///
    /// # Errors
    /// As [`Db::sync`].
    pub async fn sync(&self) -> Result<()> {
        self.call(Db::sync).await
    }

    /// Waits for the calls made before, then closes the store and reports whether all writes are
    /// safe. Later calls, and streams that need another chunk, fail with `Closed`. A second close
    /// returns the first result again.
    ///
    /// If the future is dropped before the earlier calls have ended, the store stays open.
    ///
    /// # Errors
    /// As [`Db::close`].
    pub async fn close(&self) -> Result<()> {
        let db = self.db.clone();
        self.queue.close(move || db.close()).await
    }
}
