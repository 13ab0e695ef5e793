//! Floor 4: the Db: what a program that embeds the engine sees, and how the floors below work
//! together.
//!
//! The write path is [`write`], the read path of a key `read`, of a range `iter`; `flush` and
//! `compact` turn memtables into tables and tables into fewer; `workers` says who does it, `pace`
//! who waits for it. `view` is what readers hold.

mod batch;
mod behind;
mod bounds;
mod budget;
mod checkpoint;
mod close;
mod compact;
mod core;
mod debug;
mod events;
pub mod explain;
mod flush;
mod ingest;
mod install;
mod iter;
mod kept;
mod map;
mod meters;
mod open;
mod pace;
mod pins;
mod prometheus;
mod read;
mod readable;
mod reader;
mod replay;
mod snapshot;
mod stats;
mod tables;
#[cfg(test)]
mod tests;
mod throttle;
#[cfg(feature = "tracing")]
mod tracing;
mod tree;
mod trees;
mod ttl;
mod txn;
mod update;
mod view;
mod workers;
mod write;

use std::path::Path;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::events::Event;
use crate::base::options::{DbOptions, Durability, TreeOptions};
use crate::env::Env;
use crate::manifest::{Edit, PersistedOptions};
use crate::memtable::Memtable;
use crate::merge::gaps::Writers;
use crate::wal::TornTail;

pub use batch::{Batch, BatchOp, BatchOps};
pub use bounds::KeyBounds;
pub use checkpoint::Verified;
pub use iter::{Cursor, Keys, Range};
pub use map::Tree;
pub use meters::{Latencies, Latency};
pub use pins::{Pin, PinKind, Space};
pub use readable::Readable;
pub use snapshot::{Snapshot, SnapshotInfo};
pub use stats::{Memory, RunStats, Stats, TreeStats};
pub use tables::TableInfo;
pub use throttle::Pause;
#[cfg(feature = "tracing")]
pub use tracing::TracingListener;
pub use ttl::{TtlRange, TtlTree, TtlValue};
pub use txn::{Retry, Transaction};
pub use update::Updated;

pub(crate) use self::close::CloseHandle;
use self::core::Core;
use tree::TreeCore;
use view::MemHandle;

/// An open store: trees of ordered keys, one log, one order of writes.
///
/// Cheap to clone; all clones and all [`Tree`]s share one store, which closes when the last of them
/// is dropped, or with [`close`](Db::close), which says whether all went well. Closing does not
/// flush: what is in memtables is in the log, and is there again when the store is opened.
///
/// A handle has a durability, with which everything is written through it: at first that of the
/// [`DbOptions`], and with [`with`](Db::with) another one.
///
/// A store belongs to the process that opened it. In a child made by `fork()` every write is an
/// error of kind [`ReadOnly`](ErrorKind::ReadOnly) (on Linux from 4.14 on; elsewhere nobody can
/// tell), and the child keeps the store's lock until it ends: open stores after a fork, not before.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("firn-doc-db-{}", std::process::id()));
/// use firn_kv::{Db, TreeOptions};
/// let db = Db::open(&dir)?;
/// let tree = db.tree("greetings", TreeOptions::default())?;
/// tree.put("hello", "world")?;
/// assert_eq!(tree.get("hello")?.unwrap(), "world");
/// # drop((tree, db)); std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_kv::Error>(())
/// ```
#[derive(Clone)]
pub struct Db {
    handle: Arc<CloseHandle>,
    durability: Durability,
}

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
        let handle = CloseHandle::new(Core::open(env, dir.as_ref(), options)?);
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

    fn core(&self) -> &Arc<Core> {
        &self.handle.core
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
        self.core().check_open()?;
        let there = self.core().trees.read().named(name);
        let tree = there
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no tree {name:?}")))?;
        Ok(self.wrap(tree))
    }

    fn wrap(&self, core: Arc<TreeCore>) -> Tree {
        core.gaps.set_writers(|| {
            let writers: Arc<dyn Writers> = self.core().clone();
            Arc::downgrade(&writers)
        });
        Tree { handle: self.handle.clone(), core, durability: self.durability }
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
        self.core().drop_tree(name)
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
        Snapshot { point: Arc::new(snapshot::ReadPoint::new(self.handle.clone(), name, false)) }
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

    /// Whether the store was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.core().options.read_only
    }

    /// The end of the log as opening found it, unless it was a clean one: what was being written in
    /// a crash, or damage ([`TornTail::proof`]) that cuts off what had been written.
    pub fn torn_log(&self) -> Option<&TornTail> {
        self.core().torn.get()
    }

    /// Waits until no memtable waits for its flush and no policy wants a compaction.
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
}

/// Whether both have the same hooks by name.
fn has_hooks_of(a: &TreeOptions, b: &TreeOptions) -> bool {
    PersistedOptions::of(b).check_hooks("", a).is_ok()
}

impl Core {
    /// Says which options a tree has now.
    fn tell_options(&self, t: &TreeCore) {
        let options = t.view.load_full().options.clone();
        self.events.note(|| Event::TreeOpened {
            tree: t.name.clone(),
            options: Box::new((*options).clone()),
        });
    }

    /// Puts these options in force, with the hooks that the tree was written with. With `keep` a
    /// tree without hooks that it should have goes on without them.
    fn change_options(&self, t: &TreeCore, options: TreeOptions, keep: bool) -> Result<()> {
        let mut c = self.catalog.lock();
        self.check_open()?;
        let Some(state) = c.state.trees.get(&t.id) else { return Err(t.dropped()) };
        let hooked = match state.options.check_hooks(&t.name, &options) {
            Ok(()) => true,
            Err(_)
                if keep
                    && !t.is_hooked()
                    && has_hooks_of(&options, &t.view.load_full().options) =>
            {
                false
            }
            Err(e) => return Err(e),
        };
        let persisted = PersistedOptions::of(&options).with_names_of(&state.options);
        if persisted != state.options && !self.options.read_only {
            self.log_edits(&mut c, vec![Edit::SetOptions { id: t.id, options: persisted }])?;
        }
        // Under the catalogue's lock still: of two callers the one whose options the manifest has
        // is the one whose are in force. And under the write lock, so that nobody writes to a
        // memtable that is gone over.
        let files = t.files.lock();
        let w = self.write.lock();
        t.set_options(options, hooked, &files)?;
        drop((w, files, c));
        self.tables_changed(t);
        self.signal_work();
        self.call_workers_for([t]);
        Ok(())
    }

    fn set_options(&self, t: &TreeCore, options: TreeOptions) -> Result<()> {
        self.check_writable()?;
        self.change_options(t, options, true)?;
        self.tell_options(t);
        Ok(())
    }

    fn drop_tree(&self, name: &str) -> Result<()> {
        let there = self.trees.read().named(name);
        let t = there
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no tree {name:?}")))?;
        let _one = t.flushing.lock();
        self.sync_log()?;
        let mut c = self.catalog.lock();
        if !c.state.trees.contains_key(&t.id) {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("there is no tree {name:?}: another thread has dropped it"),
            ));
        }
        self.log_edits(&mut c, vec![Edit::DropTree { id: t.id }])?;
        self.events.note(|| Event::TreeDropped { tree: t.name.clone(), id: t.id });
        {
            // In one step, for whoever has seen that it is gone and then asks for the names.
            let mut trees = self.trees.write();
            t.mark_dropped();
            trees.remove(&t);
            self.memory.set_trees(trees.len());
        }
        // Before the catalogue is let go: who closes the Db ends what the trees that are left have
        // begun.
        self.end_fill(&t);
        drop(c);
        {
            // Nobody enters a memtable of a dropped tree any more.
            let mut w = self.write.lock();
            t.view.load_full().memtables().for_each(|m| {
                w.release(t.id, m);
                self.memory.release(m);
            });
        }
        self.tables_changed(&t);
        self.counters.reads.add(&t.view.load_full().reads.told());
        let handles = std::mem::take(&mut t.files.lock().handles);
        self.watch.pins.retire(t.id, handles.values());
        t.view.load_full().sealed.iter().for_each(|m| m.set_flushed());
        // Handles of the tree may live for long; its memtable need not.
        let active = Memtable::empty(&self.arenas, None)
            .map_or_else(|_| t.view.load_full().active.clone(), |m| MemHandle::new(m, 0));
        t.change_view(|v| {
            let version = Arc::default();
            view::TreeView { active, sealed: vec![], version, ..v.clone() }
        });
        self.rebalance();
        self.signal_done();
        Ok(())
    }

    /// Seals the memtable of a tree, if it holds anything, and waits until all of its sealed ones
    /// are flushed.
    fn flush_tree(&self, t: &TreeCore) -> Result<()> {
        self.check_process()?;
        {
            let w = self.write.lock();
            self.check_writable()?;
            if t.view.load_full().active.is_touched() {
                self.seal(&w, t)?;
            }
        }
        while self.flush_oldest(t)? {}
        Ok(())
    }
}
