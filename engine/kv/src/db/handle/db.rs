//! The calls of a store's handle.

use std::path::Path;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::options::{DbOptions, Durability, TreeOptions};
use crate::env::Env;
use crate::wal::TornTail;

use super::super::batch::Batch;
use super::super::explain;
use super::super::state::core::DbInner;
use super::super::stats::Stats;
use super::handles::{CloseHandle, Db, Tree};
use super::snapshot::{ReadPoint, Snapshot};

impl Db {
    /// Opens the store in `dir` with the default options, creating it when the directory is missing
    /// or empty.
    ///
    /// # Errors
    /// As [`open_with`](Db::open_with).
    pub fn open(dir: impl AsRef<Path>) -> Result<Db> {
        Db::open_with(dir, DbOptions::default())
    }

    /// Opens the store in `dir`.
    ///
    /// # Errors
    /// `Locked` when somebody else has it open, `NotFound` when there is none and it may not be
    /// created, `InvalidArgument` when the directory holds something else or an option is out of
    /// bounds, `Incompatible` when a newer version wrote it, `Corruption` with file and offset when
    /// its files are damaged, and I/O errors.
    pub fn open_with(dir: impl AsRef<Path>, options: DbOptions) -> Result<Db> {
        Db::open_in(crate::env::os::OsEnv::new(), dir, options)
    }

    /// Opens the store in `dir` of another environment.
    ///
    /// # Errors
    /// As [`open_with`](Db::open_with).
    pub fn open_in(env: Arc<dyn Env>, dir: impl AsRef<Path>, options: DbOptions) -> Result<Db> {
        options.check()?;
        let handle = CloseHandle::new(|| DbInner::open(env, dir.as_ref(), options))?;
        handle.core.events.start()?;
        handle.core.allow_workers();
        let durability = handle.core.options.durability;
        Ok(Db { handle: Arc::new(handle), durability })
    }

    /// The same store; what is written through this handle, and through the trees and transactions
    /// that are got from it, has this durability.
    ///
    /// ```
    /// use firn_kv::{Batch, Db, Durability, TreeOptions};
    /// let db = Db::in_memory()?;
    /// let tree = db.tree("t", TreeOptions::default())?;
    /// let mut batch = Batch::new();
    /// batch.put(&tree, "k", "v")?;
    /// db.with(Durability::Power).write(batch)?; // one batch
    /// tree.with(Durability::Power).delete("k")?; // one delete
    /// let safe = tree.with(Durability::Power); // all that is written through `safe`
    /// safe.put("k", "v")?;
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn with(&self, durability: Durability) -> Db {
        Db { handle: self.handle.clone(), durability }
    }

    /// Opens an empty store in memory, which is gone when its last handle is: for caches, and for
    /// tests of programs that use a store. It is the whole engine, flushes, compactions,
    /// checkpoints and all, and behaves as on a disk that never fails and is never read again; each
    /// store has files of its own. It takes about the memory that a store on disk would take plus
    /// its files: the log of what is not flushed yet, and the tables, compressed as they would be
    /// there.
    ///
    /// Several stores that lie in the same memory, or one that is closed and opened again, are
    /// opened [in](Db::open_in) one [`MemEnv::plain`](crate::env::mem::MemEnv::plain);
    /// [`MemEnv::new`](crate::env::mem::MemEnv::new) has a clock that tests turn, and shows what
    /// crashes and power cuts leave.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use firn_kv::MemEnv;
    /// use firn_kv::{Db, DbOptions, TreeOptions};
    /// let tree = Db::in_memory()?.tree("t", TreeOptions::default())?;
    /// tree.put("k", "v")?;
    /// // The same in files that stay when it is closed.
    /// let env = Arc::new(MemEnv::plain());
    /// let db = Db::open_in(env.clone(), "/store", DbOptions::default())?;
    /// db.tree("t", TreeOptions::default())?.put("k", "v")?;
    /// db.close()?;
    /// let again = Db::open_in(env, "/store", DbOptions::default())?;
    /// assert_eq!(again.existing_tree("t")?.get("k")?.unwrap(), "v");
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Exhausted` when there is no memory.
    pub fn in_memory() -> Result<Db> {
        Db::open_in(
            Arc::new(crate::env::mem::MemEnv::plain()),
            "/",
            DbOptions { event_log: false, ..DbOptions::default() },
        )
    }

    /// The tree `name` with these options, created when it is not there.
    ///
    /// Options of a tree that is there are replaced by these from now on (files already written
    /// stay as they are), but its hooks must be those that it was created with.
    ///
    /// # Errors
    /// `InvalidArgument` for an option out of bounds, `Incompatible` for another hook, and errors
    /// of writing the manifest.
    pub fn tree(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        let tree = self.trees([(name, options)])?.pop();
        Ok(tree.unwrap_or_else(|| unreachable!("one tree is asked for, and one is given")))
    }

    /// The trees of these names with these options, in this order. Those that are not there are
    /// created with one sync, however many they are, and all of them or none: a crash leaves no
    /// part of them. To create 1,000 trees one by one costs 1,000 syncs.
    ///
    /// With those that are there each does what [`Db::tree`] does, before any is created.
    ///
    /// ```
    /// use firn_kv::{Db, TreeOptions};
    /// let db = Db::in_memory()?;
    /// let trees = db.trees((0..100).map(|n| (format!("shard-{n}"), TreeOptions::default())))?;
    /// trees[7].put("k", "v")?;
    /// assert_eq!(trees[7].name(), "shard-7");
    /// assert_eq!(db.tree_names().len(), 100);
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Db::tree`], and `InvalidArgument` for a name that is there twice. No tree has
    /// been created then, but trees that were there may have their new options.
    pub fn trees<N: AsRef<str>>(
        &self,
        trees: impl IntoIterator<Item = (N, TreeOptions)>,
    ) -> Result<Vec<Tree>> {
        let wanted: Vec<(N, TreeOptions)> = trees.into_iter().collect();
        let wanted: Vec<_> =
            wanted.iter().map(|(name, options)| (name.as_ref(), options)).collect();
        let trees = self.core().open_trees(&wanted)?;
        Ok(trees.into_iter().map(|t| self.wrap(t)).collect())
    }

    /// The tree `name` as it was last opened or created. A tree with hooks that were not handed in
    /// yet ([`Db::tree`]) can be looked at: it is not compacted, filters of prefixes are not used,
    /// and what needs the merge hook is an error of kind `Incompatible`.
    ///
    /// # Errors
    /// `NotFound` when there is no such tree.
    pub fn existing_tree(&self, name: &str) -> Result<Tree> {
        self.core().gate.check_open()?;
        let there = self.core().trees.read().named(name);
        let tree = there
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no tree {name:?}")))?;
        Ok(self.wrap(tree))
    }

    /// Names of the trees, in order of creation.
    pub fn tree_names(&self) -> Vec<String> {
        self.core().trees.read().iter().map(|t| t.name.clone()).collect()
    }

    /// Drops a tree with all it holds. Handles of it report [`ErrorKind::Closed`] from now on;
    /// files go when their last reader does.
    ///
    /// # Errors
    /// `NotFound` when there is no such tree, and errors of writing the manifest.
    pub fn drop_tree(&self, name: &str) -> Result<()> {
        self.core().with_reserve(|| self.core().drop_tree(name))
    }

    /// Writes a batch with the handle's durability.
    ///
    /// # Errors
    /// `ReadOnly` when the store takes no writes, `Closed` when a tree concerned was dropped, and
    /// I/O errors, after which the store is read-only. `NoSpace` or `Exhausted` when the log cannot
    /// grow, or when all memtables are full and can't be flushed: nothing was written then, and the
    /// store goes on by itself when there is space (or file descriptors, or memory) again.
    pub fn write(&self, batch: Batch) -> Result<()> {
        self.check_own(&batch)?;
        self.core().write_batch(&batch, self.durability).map(|_| ())
    }

    fn check_own(&self, batch: &Batch) -> Result<()> {
        let watch = &self.core().watch;
        if batch.trees.iter().all(|(t, _)| t.is_of(watch)) {
            return Ok(());
        }
        Err(Error::invalid("the batch names a tree of another store"))
    }

    /// A frozen view of all trees.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_named("snapshot")
    }

    /// A frozen view of all trees with a name by which the statistics list it.
    pub fn snapshot_named(&self, name: &str) -> Snapshot {
        Snapshot { point: Arc::new(ReadPoint::new(self.handle.clone(), name, false)) }
    }

    /// Records what each read of this store costs, by whatever thread, from now until the recording
    /// ends: see [`explain`].
    pub fn record_reads(&self) -> explain::Recording {
        explain::Recording::begin(self.core().watch.meters.clone())
    }

    /// Makes every write so far survive a power cut.
    ///
    /// # Errors
    /// I/O errors, after which the store is read-only.
    pub fn sync(&self) -> Result<()> {
        self.core().sync_log().map(|_| ())
    }

    /// The number that names the store among all others, also among its clones: drawn when its log
    /// was made, the same at each opening.
    ///
    /// ```
    /// let (one, other) = (firn_kv::Db::in_memory()?, firn_kv::Db::in_memory()?);
    /// assert_eq!(one.identity(), one.clone().identity());
    /// assert_ne!(one.identity(), other.identity());
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn identity(&self) -> u64 {
        self.core().store
    }

    /// Whether the store was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.core().options.read_only
    }

    /// The end of the log as opening found it, unless it was a clean one: what was being written in
    /// a crash, or damage ([`TornTail::proof`]) that cuts off what had been written.
    pub fn torn_log(&self) -> Option<&TornTail> {
        self.core().torn.get()
    }

    /// Waits until no memtable waits for its flush and no policy wants a compaction. The files of
    /// tables that were replaced are then removed, except those that somebody still reads.
    ///
    /// # Errors
    /// The failure that stopped the background work, or `NoSpace` or `Exhausted` when it has been
    /// put off.
    pub fn wait_idle(&self) -> Result<()> {
        self.core().wait_idle()
    }

    /// Counters, memory, levels, and what holds space back.
    pub fn stats(&self) -> Stats {
        self.core().stats()
    }

    /// The store as it is now, for a handle that was opened read-only: with this a second process
    /// follows the one that writes. The new handle sees all that the writer had acknowledged before
    /// the call, and trees that have been made since. This handle, and all trees, snapshots and
    /// iterators that were got from it, stay as they were; drop them when they are not needed any
    /// more, because they keep files that the writer has removed.
    ///
    /// It costs what an opening costs but for the tables that are open already: the manifest is
    /// read, the tables that have come since are opened, and the writer's log is read from where
    /// its trees have been flushed, at most about its memory budget. Hooks are handed on. The
    /// memory budget is shared with this handle; memtables are those of each handle.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-refresh-{}", std::process::id()));
    /// use firn_kv::{Db, DbOptions, TreeOptions};
    /// let writer = Db::open(&dir)?.tree("t", TreeOptions::default())?; // in another process, say
    /// let mut reader = Db::open_with(&dir, DbOptions { read_only: true, ..DbOptions::default() })?;
    /// writer.put("k", "v")?;
    /// assert!(!reader.existing_tree("t")?.contains("k")?);
    /// reader = reader.refresh()?;
    /// assert!(reader.existing_tree("t")?.contains("k")?);
    /// # drop((reader, writer)); std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a handle that writes, `Incompatible` when another store lies there
    /// now, `Closed` when the handle was closed, else as [`open_with`](Db::open_with). This handle
    /// stays as it is.
    pub fn refresh(&self) -> Result<Db> {
        let fresh = CloseHandle::new(|| self.core().refreshed())?;
        fresh.core.events.start()?;
        Ok(Db { handle: Arc::new(fresh), durability: self.durability })
    }

    /// Closes the store, and says whether all that was written is safe: it ends the background
    /// work, makes the log durable, and gives up the lock of the directory, so that the store can
    /// be opened again at once. Dropping the last handle does the same, and keeps the error to
    /// itself. A flush that runs is waited for, a compaction is given up. Memtables are not
    /// flushed: what is in them is in the log.
    ///
    /// Other handles may still be there, and other threads may use them. A call that wrote before
    /// the closing has happened, and is durable; after it each call through a handle, a snapshot or
    /// a transaction that reads, writes or changes anything is an error of kind
    /// [`Closed`](ErrorKind::Closed), and so is what waits or runs for long when the closing
    /// begins. Iterators, cursors and values that are there go on with what they hold; where they
    /// need a file that is not open, not yet or not any more ([`OpenFiles`](crate::OpenFiles)), and
    /// that is gone since, they give that error too. They keep its memory until they are dropped.
    /// Closing twice gives the first outcome again.
    ///
    /// Not to be called from a hook, or from the pairs that [`Tree::ingest`](crate::Tree::ingest)
    /// is given: it would wait for itself. A listener that calls it while somebody else closes the
    /// store gets `Closed` at once.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-close-{}", std::process::id()));
    /// use firn_kv::{Db, ErrorKind, TreeOptions};
    /// let db = Db::open(&dir)?;
    /// let tree = db.tree("t", TreeOptions::default())?;
    /// tree.put("k", "v")?;
    /// db.close()?; // all of it is safe
    /// assert_eq!(tree.put("k", "w").unwrap_err().kind(), ErrorKind::Closed);
    /// let again = Db::open(&dir)?; // beside the old handles
    /// assert_eq!(again.existing_tree("t")?.get("k")?.unwrap(), "v");
    /// # drop((tree, db, again)); std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// The failure that made the store read-only, if there was one: then what was acknowledged
    /// since the last sync that succeeded may not survive a power cut. I/O errors of the last sync,
    /// with the same meaning, and of tidying the log up, which cost nothing but time at the next
    /// opening. The store is closed all the same. `ReadOnly` in a child made by `fork()`, where
    /// nothing happens.
    pub fn close(&self) -> Result<()> {
        self.handle.close()
    }

    /// Runs `f` and tells it what the reads cost that the calling thread begins within it in this
    /// store: gets, cursors that are made, and iterators of which the first item is taken, of any
    /// tree, snapshot or transaction. A cursor that was there before is not among them though it is
    /// moved within, nor an iterator that has given an item; nor are other threads' reads. They
    /// cost what they always cost.
    ///
    /// What is recorded takes some times as long, and does not leap over stretches where earlier
    /// readers found nothing: so it shows all that lies there. It is for some operations, not for
    /// every one.
    ///
    /// ```
    /// use firn_kv::{Db, TreeOptions};
    /// let db = Db::in_memory()?;
    /// let tree = db.tree("t", TreeOptions::default())?;
    /// tree.put("apple", "red")?;
    /// tree.flush()?;
    /// let (colour, cost) = db.with_context(|cx| (tree.get("apple"), cx.sum()));
    /// assert_eq!(colour?.unwrap(), "red");
    /// assert_eq!((cost.runs, cost.filters_asked, cost.found), (1, 1, 1));
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn with_context<T>(&self, f: impl FnOnce(&explain::ReadContext) -> T) -> T {
        f(&explain::ReadContext::begin(self.core().watch.meters.clone()))
    }

    /// Makes a copy of the Db in `dir` (which must not exist, or be empty) that opens as a Db of
    /// its own. Tables are hard-linked, so it costs a flush and some directory entries; it must lie
    /// on the same file system. Writers go on meanwhile.
    ///
    /// # Errors
    /// `InvalidArgument` when `dir` is not empty, `ReadOnly` for a Db opened read-only, and I/O
    /// errors; what was made of the checkpoint by then is removed again as far as possible, and
    /// what stays has no `CURRENT` file. Remove the rest or name another directory before you try
    /// again.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.core().checkpoint(dir.as_ref())
    }
}
