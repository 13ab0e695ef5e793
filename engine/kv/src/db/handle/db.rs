//! Methods of [`Db`], the handle of a store.

use std::path::Path;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::format_version::FormatVersion;
use crate::base::key::Seq;
use crate::base::options::{DbOptions, Durability, TreeOptions};
use crate::db::jobs::background;
use crate::db::jobs::workers;
use crate::db::open;
use crate::db::open::checkpoint;
use crate::db::open::trees;
use crate::db::report::stats;
use crate::db::write;
use crate::db::write::durable;
use crate::db::write::reserve;
use crate::env::Env;
use crate::wal::TornTail;

#[cfg(feature = "explain")]
use crate::db::explain;
use crate::db::handle::handles::{CloseHandle, Db, Tree};
use crate::db::handle::snapshot::{ReadPoint, Snapshot};
use crate::db::report::stats::Stats;
use crate::db::write::batch::Batch;

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
    /// `Locked` when another process or handle has it open. `NotFound` when there is no store and
    /// none may be created. `InvalidArgument` when the directory holds other files or an option is
    /// out of bounds. `Incompatible` when a newer version wrote the store. `Corruption` with file
    /// and offset when its files are damaged. I/O errors.
    pub fn open_with(dir: impl AsRef<Path>, options: DbOptions) -> Result<Db> {
        Db::open_in(crate::env::os::OsEnv::new(), dir, options)
    }

    /// Opens the store in `dir` of the environment `env`.
    ///
    /// # Errors
    /// As [`open_with`](Db::open_with).
    pub fn open_in(env: Arc<dyn Env>, dir: impl AsRef<Path>, options: DbOptions) -> Result<Db> {
        options.check()?;
        let handle = CloseHandle::new(|| crate::db::open::open_store(env, dir.as_ref(), options))?;
        handle.inner.observer.events().start()?;
        workers::allow_workers(&handle.inner);
        let durability = handle.inner.options.durability;
        Ok(Db { handle: Arc::new(handle), durability })
    }

    /// Returns a handle of the same store that writes with `durability`. The trees and transactions
    /// obtained from the new handle use it too.
    ///
    /// ```
    /// use firn_kv::{Batch, Db, Durability, TreeOptions};
    /// let db = Db::in_memory()?;
    /// let tree = db.tree("t", TreeOptions::default())?;
    /// let mut batch = Batch::new();
    /// batch.put(&tree, "k", "v")?;
    /// db.with_durability(Durability::Power).write(batch)?; // one batch
    /// tree.with_durability(Durability::Power).delete("k")?; // one delete
    /// let safe = tree.with_durability(Durability::Power); // all that is written through `safe`
    /// safe.put("k", "v")?;
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn with_durability(&self, durability: Durability) -> Db {
        Db { handle: self.handle.clone(), durability }
    }

    /// Opens an empty store in memory, which is freed with its last handle. It suits caches, and
    /// tests of programs that use a store. It runs the whole engine, including flushes, compactions
    /// and checkpoints. It behaves like a store on a disk that never fails. Each store has its own
    /// files. It uses about the memory of a store on disk plus its files: the log of unflushed
    /// writes, and the tables, compressed as on disk.
    ///
    /// To share one memory file system between stores, or to reopen a store, [open](Db::open_in)
    /// them in one [`MemEnv::plain`](crate::env::mem::MemEnv::plain).
    /// [`MemEnv::new`](crate::env::mem::MemEnv::new) has a clock that tests advance. The crate
    /// `firn-crash` has an environment that simulates crashes and power cuts.
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
    /// `Exhausted` when memory runs out.
    pub fn in_memory() -> Result<Db> {
        Db::open_in(
            Arc::new(crate::env::mem::MemEnv::plain()),
            "/",
            DbOptions { event_log: false, ..DbOptions::default() },
        )
    }

    /// Returns the directory of the store, as it was passed to the opening; "/" for a store
    /// [in memory](Db::in_memory).
    pub fn dir(&self) -> &Path {
        self.inner().versions.dir()
    }

    /// Returns the format version of the store's files.
    ///
    /// A store keeps the version with which it was created, or to which it was last
    /// [upgraded](Db::upgrade_format). Programs that know only earlier versions refuse to open it.
    pub fn format_version(&self) -> u32 {
        self.inner().versions.format().number()
    }

    /// Raises the format version of the store to the newest that this program writes, and returns
    /// that version. There is no way back: programs that know only earlier versions refuse the
    /// store from then on, and change nothing in it. If the store has the newest version already,
    /// nothing changes.
    ///
    /// New files are written in the new version. The existing ones stay as they are, and remain
    /// readable: tables until compactions replace them, blob files until their garbage is
    /// collected, log segments until they are released. [`compact`](Tree::compact) replaces all
    /// tables of a tree at once. A power cut during the call leaves a store of the old or of the
    /// new version.
    ///
    /// ```
    /// use firn_kv::Db;
    ///
    /// let db = Db::in_memory()?;
    /// let before = db.format_version();
    /// assert_eq!(db.upgrade_format()?, before, "a new store has the newest version");
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ReadOnly` for a store opened read-only, `NoSpace` and other I/O errors.
    pub fn upgrade_format(&self) -> Result<u32> {
        self.handle.check_writer()?;
        durable::upgrade_format(self.inner()).map(FormatVersion::number)
    }

    /// Opens the tree `name`, and creates it with these options if it does not exist.
    ///
    /// An existing tree keeps its stored options, so an opening undoes no earlier
    /// [`set_options`](Tree::set_options). Only the hooks are taken from `options`, because they are
    /// code: they must be those that the tree was created with. [`Tree::options`] returns the
    /// options in force.
    ///
    /// ```
    /// use firn_kv::{Db, TreeOptions};
    /// let db = Db::in_memory()?;
    /// let small = TreeOptions { memtable_size: 1 << 20, ..TreeOptions::default() };
    /// db.tree("t", small.clone())?;
    /// let again = db.tree("t", TreeOptions::default())?;
    /// assert_eq!(again.options().memtable_size, 1 << 20);
    /// again.set_options(TreeOptions { memtable_size: 8 << 20, ..again.options() })?;
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for an option out of bounds, `Incompatible` for a different hook, and
    /// errors of writing the manifest.
    pub fn tree(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        let tree = self.trees([(name, options)])?.pop();
        Ok(tree.unwrap_or_else(|| unreachable!("one requested tree yields one tree")))
    }

    /// Opens the trees of these names and returns them in this order. Missing
    /// trees are created together, atomically and with one sync: after a crash all of them exist,
    /// or none. Creating 1,000 trees one by one costs 1,000 syncs.
    ///
    /// Existing trees are opened as by [`Db::tree`], before any tree is created.
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
    /// Those of [`Db::tree`], and `InvalidArgument` for a duplicate name. On an error no tree has
    /// been created.
    pub fn trees<N: AsRef<str>>(
        &self,
        trees: impl IntoIterator<Item = (N, TreeOptions)>,
    ) -> Result<Vec<Tree>> {
        let wanted: Vec<(N, TreeOptions)> = trees.into_iter().collect();
        let wanted: Vec<_> =
            wanted.iter().map(|(name, options)| (name.as_ref(), options)).collect();
        let may_create = self.handle.check_writer();
        let trees = trees::open_trees(self.inner(), &wanted, may_create)?;
        Ok(trees.into_iter().map(|t| self.wrap(t)).collect())
    }

    /// Returns the tree `name` with the options of its last opening or creation. If its hooks were
    /// not supplied yet ([`Db::tree`]), the tree can be read with limits. It is not compacted,
    /// prefix filters are not used, and reads that need the merge operator fail with
    /// `Incompatible`.
    ///
    /// # Errors
    /// `NotFound` when there is no such tree.
    pub fn existing_tree(&self, name: &str) -> Result<Tree> {
        self.inner().gate.check_open()?;
        let there = self.inner().versions.trees().named(name);
        let tree = there
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no tree {name:?}")))?;
        Ok(self.wrap(tree))
    }

    /// Returns the names of the trees, in order of creation.
    pub fn tree_names(&self) -> Vec<String> {
        self.inner().versions.trees().iter().map(|t| t.name.clone()).collect()
    }

    /// Drops a tree and its data. Its handles report [`ErrorKind::Closed`] from now on. Its files
    /// are deleted when their last reader releases them.
    ///
    /// # Errors
    /// `NotFound` when there is no such tree, and errors of writing the manifest.
    pub fn drop_tree(&self, name: &str) -> Result<()> {
        self.handle.check_writer()?;
        reserve::with_reserve(self.inner(), || trees::drop_tree(self.inner(), name))
    }

    /// Writes a batch with the handle's durability.
    ///
    /// # Errors
    /// `ReadOnly` when the store accepts no writes, `Closed` when a tree of the batch was dropped.
    /// I/O errors, after which the store is read-only. `NoSpace` or `Exhausted` when the log cannot
    /// grow, or when all memtables are full and cannot be flushed. In that case nothing was
    /// written. The store resumes by itself once space, file descriptors or memory are available
    /// again.
    pub fn write(&self, batch: Batch) -> Result<()> {
        self.check_own(&batch)?;
        write::write_batch(self.inner(), &batch, self.durability).map(|_| ())
    }

    pub(super) fn check_own(&self, batch: &Batch) -> Result<()> {
        self.handle.check_writer()?;
        let pins = self.inner().observer.pins();
        if batch.trees.iter().all(|(t, _)| t.is_of(pins)) {
            return Ok(());
        }
        Err(Error::invalid("the batch names a tree of another store"))
    }

    /// Takes a snapshot: a frozen view of all trees.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_named("snapshot")
    }

    /// Takes a snapshot with a name. The statistics list it under this name.
    pub fn snapshot_named(&self, name: &str) -> Snapshot {
        Snapshot { point: Arc::new(ReadPoint::new(self.handle.clone(), name, false)) }
    }

    /// Records the cost of each read of this store, by any thread, until the recording ends: see
    /// [`explain`].
    #[cfg(feature = "explain")]
    pub fn record_reads(&self) -> explain::Recording {
        explain::Recording::begin(self.inner().observer.meters().clone())
    }

    /// Makes every write so far survive a power cut.
    ///
    /// # Errors
    /// I/O errors, after which the store is read-only.
    pub fn sync(&self) -> Result<()> {
        self.inner().commit.sync_log().map(|_| ())
    }

    /// Returns the random number that identifies the store. It is drawn when the log is created, so
    /// it differs from all other stores, and is the same at each opening.
    ///
    /// ```
    /// let (one, other) = (firn_kv::Db::in_memory()?, firn_kv::Db::in_memory()?);
    /// assert_eq!(one.identity(), one.clone().identity());
    /// assert_ne!(one.identity(), other.identity());
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn identity(&self) -> u64 {
        self.inner().versions.store()
    }

    /// Reports whether the store was opened read-only, or this handle only [reads](Db::reader).
    pub fn is_read_only(&self) -> bool {
        self.inner().options.read_only || self.handle.is_reader()
    }

    /// Returns a handle of the same store through which nothing can be written. Each write fails
    /// with kind [`ReadOnly`](ErrorKind::ReadOnly), and so does the creation of a tree. Trees,
    /// snapshots and transactions obtained from it are the same. It sees the writes of the other
    /// handles at once, and hooks of its trees are those of the store. It keeps the store open;
    /// [closing](Db::close) it does nothing.
    ///
    /// ```
    /// use firn_kv::{Db, ErrorKind, TreeOptions};
    /// let db = Db::in_memory()?;
    /// let tree = db.tree("t", TreeOptions::default())?;
    /// let seen = db.reader().existing_tree("t")?;
    /// tree.put("k", "v")?;
    /// assert_eq!(seen.get("k")?.unwrap(), "v");
    /// assert_eq!(seen.delete("k").unwrap_err().kind(), ErrorKind::ReadOnly);
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn reader(&self) -> Db {
        Db { handle: Arc::new(self.handle.reader()), durability: self.durability }
    }

    /// Returns the torn end of the log that opening found; `None` after a clean shutdown. The cause
    /// is a write that a crash interrupted, or damage ([`TornTail::proof`]) that cuts off earlier
    /// writes.
    pub fn torn_log(&self) -> Option<&TornTail> {
        self.inner().commit.torn()
    }

    /// Waits until no memtable waits for its flush and no policy requests a compaction. Then
    /// deletes the files of replaced tables, except those with readers.
    ///
    /// # Errors
    /// The failure that stopped the background work, or `NoSpace` or `Exhausted` when the work is
    /// postponed.
    pub fn wait_idle(&self) -> Result<()> {
        background::wait_idle(self.inner())
    }

    /// Returns counters, memory use, levels, and the holders of retained space.
    pub fn stats(&self) -> Stats {
        stats::collect_stats(self.inner())
    }

    /// Returns a new handle with the current state of the store, for a handle opened read-only. A
    /// second process uses it to follow the writer. The new handle sees all writes acknowledged
    /// before the call, and trees created since. This handle, and its trees, snapshots and
    /// iterators, keep their old state. Drop them when you no longer need them, because they retain
    /// files that the writer has removed.
    ///
    /// The cost is that of an opening, except that open tables are reused. The call reads the
    /// manifest, opens new tables, and reads the writer's log from the flushed position, at most
    /// about its memory budget. Hooks are passed to the new handle. The memory budget is shared
    /// with this handle. Each handle has its own memtables.
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
    /// `InvalidArgument` for a handle that writes, `Incompatible` when the directory now holds
    /// another store, `Closed` when the handle was closed, else as [`open_with`](Db::open_with).
    /// This handle is unchanged.
    pub fn refresh(&self) -> Result<Db> {
        let fresh = CloseHandle::new(|| open::refresh_reader(self.inner()))?;
        fresh.inner.observer.events().start()?;
        Ok(Db { handle: Arc::new(fresh), durability: self.durability })
    }

    /// Closes the store, and reports whether all writes are safe. It stops the background work,
    /// syncs the log, and releases the lock of the directory, so that the store can be opened again
    /// at once. Dropping the last handle does the same, but discards the error. A running flush is
    /// waited for; a running compaction is aborted. Memtables are not flushed, because the log has
    /// their contents.
    ///
    /// Other handles may still exist, and other threads may use them. A write that returned before
    /// the close is durable. Afterwards each read, write or change through a handle, snapshot or
    /// transaction fails with kind [`Closed`](ErrorKind::Closed). So do calls that wait or run long
    /// when the close begins. Existing iterators, cursors and values continue with the memory and
    /// files that they hold. They fail with `Closed` if they need a file that is not open
    /// ([`OpenFiles`](crate::OpenFiles)) and has been deleted since. They retain their memory until
    /// they are dropped. Closing twice returns the first result again.
    ///
    /// Do not call it from a hook, or from the pairs that [`Tree::ingest`](crate::Tree::ingest)
    /// consumes: it would deadlock. A listener that calls it while another thread closes the store
    /// gets `Closed` at once.
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
    /// The failure that made the store read-only, if there was one. In that case writes
    /// acknowledged after the last successful sync may not survive a power cut. I/O errors of the
    /// last sync, with the same meaning. I/O errors of cleaning up the log, which only slow the
    /// next opening. The store is closed in all these cases. `ReadOnly` in a child made by
    /// `fork()`, where the call does nothing.
    pub fn close(&self) -> Result<()> {
        self.handle.close()
    }

    /// Runs `f` and reports to it the cost of the reads that the calling thread begins during the
    /// call. These are gets, new cursors, and iterators whose first item is taken, of any tree,
    /// snapshot or transaction of this store. Cursors created before, iterators that have returned
    /// an item, and reads of other threads are excluded; their cost does not change.
    ///
    /// A recorded read takes several times as long, and does not use the empty-range cache. So it
    /// reports all entries in its range. Use it for some operations, not for every one.
    ///
    /// ```
    /// use firn_kv::{Db, TreeOptions};
    /// let db = Db::in_memory()?;
    /// let tree = db.tree("t", TreeOptions::default())?;
    /// tree.put("apple", "red")?;
    /// tree.flush()?;
    /// let (colour, cost) = db.with_read_context(|cx| (tree.get("apple"), cx.sum()));
    /// assert_eq!(colour?.unwrap(), "red");
    /// assert_eq!((cost.runs, cost.filter_probes, cost.found), (1, 1, 1));
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    #[cfg(feature = "explain")]
    pub fn with_read_context<T>(&self, f: impl FnOnce(&explain::ReadContext) -> T) -> T {
        f(&explain::ReadContext::begin(self.inner().observer.meters().clone()))
    }

    /// Creates a copy of the store in `dir`, which must be missing or empty. The copy opens as an
    /// independent store. Tables are hard-linked, so the cost is a flush and some directory
    /// entries. `dir` must be on the same file system. Writers continue during the call, but no tree
    /// is flushed while files are linked, so they may stall. Returns the sequence number of the last
    /// write that the copy has: it has this write and all earlier ones, and none of the later ones.
    ///
    /// # Errors
    /// `InvalidArgument` when `dir` is not empty, `ReadOnly` for a store opened read-only, and I/O
    /// errors. After an error the partial checkpoint is removed as far as possible; remaining files
    /// include no `CURRENT` file. Delete them or choose another directory before you retry.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<Seq> {
        checkpoint::create_checkpoint(self.inner(), dir.as_ref())
    }
}
