//! Floor 4: the Db: what a program that embeds the engine sees, and how the floors below work together.
//!
//! The write path is [`write`], the read path of a key `read`, of a range `iter`; `flush` and `compact` turn memtables
//! into tables and tables into fewer; `workers` says who does it, `pace` who waits for it. `view` is what readers hold.

mod batch;
mod behind;
mod budget;
mod checkpoint;
mod compact;
mod core;
mod events;
pub mod explain;
mod flush;
mod ingest;
mod iter;
mod kept;
mod meters;
mod open;
mod pace;
mod pins;
mod read;
mod reader;
mod replay;
mod snapshot;
mod stats;
mod tables;
#[cfg(test)]
mod tests;
mod tree;
mod trees;
mod txn;
mod view;
mod workers;
mod write;

use std::path::Path;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{Kind, Seq};
use crate::base::options::{DbOptions, Durability, TreeOptions};
use crate::base::sync::{Ordering, epoch};
use crate::env::Env;
use crate::manifest::{Edit, PersistedOptions};
use crate::memtable::Memtable;
use crate::merge::gaps::Writers;
use crate::merge::value::Value;
use crate::wal::{TornTail, Wal};

pub use batch::Batch;
pub use checkpoint::Verified;
pub use iter::{Cursor, Range};
pub use meters::{Latencies, Latency};
pub use pins::{Pin, PinKind, Space};
pub use snapshot::{Snapshot, SnapshotInfo};
pub use stats::{Memory, RunStats, Stats, TreeStats};
pub use tables::TableInfo;
pub use txn::Transaction;

use self::core::Core;
use tree::TreeCore;
use view::MemHandle;

/// An open store: trees of ordered keys, one log, one order of writes.
///
/// Cheap to clone; all clones and all [`Tree`]s share one store, which closes when the last of them is dropped. Closing does not
/// flush: what is in memtables is in the log, and is there again when the store is opened.
///
/// A store belongs to the process that opened it. In a child made by `fork()` every write is an error of kind
/// [`ReadOnly`](ErrorKind::ReadOnly) (on Linux from 4.14 on; elsewhere nobody can tell), and the child keeps the store's lock until it ends:
/// open stores after a fork, not before.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("firn-doc-db-{}", std::process::id()));
/// use firn_kv::{Db, TreeOptions};
/// let db = Db::open(&dir)?;
/// let tree = db.tree("greetings", TreeOptions::default())?;
/// tree.put(b"hello", b"world")?;
/// assert_eq!(tree.get(b"hello")?.as_deref(), Some(&b"world"[..]));
/// # drop((tree, db)); std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_kv::Error>(())
/// ```
#[derive(Clone)]
pub struct Db {
    handle: Arc<Handle>,
}

/// What keeps a store open.
pub(crate) struct Handle {
    core: Arc<Core>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.core.env.is_forked() {
            // The threads are the parent's, and so is the log.
            std::mem::take(&mut *self.core.work.threads.lock()).into_iter().for_each(std::mem::forget);
            return;
        }
        self.core.work.closing.store(true, Ordering::Relaxed);
        self.core.signal_work();
        // Nobody calls another one once the store is closing.
        let threads = std::mem::take(&mut *self.core.work.threads.lock());
        threads.into_iter().flatten().for_each(|t| t.join());
        self.core.close();
    }
}

impl Db {
    /// Opens the store in `dir` with the default options, creating it when the directory is missing or empty.
    ///
    /// # Errors
    /// As [`open_with`](Db::open_with).
    pub fn open(dir: impl AsRef<Path>) -> Result<Db> {
        Db::open_with(dir, DbOptions::default())
    }

    /// Opens the store in `dir`.
    ///
    /// # Errors
    /// `Locked` when somebody else has it open, `NotFound` when there is none and it may not be created, `InvalidArgument` when
    /// the directory holds something else or an option is out of bounds, `Incompatible` when a newer version wrote it,
    /// `Corruption` with file and offset when its files are damaged, and I/O errors.
    pub fn open_with(dir: impl AsRef<Path>, options: DbOptions) -> Result<Db> {
        Db::open_in(crate::env::os::OsEnv::new(), dir, options)
    }

    /// Opens the store in `dir` of another environment.
    ///
    /// # Errors
    /// As [`open_with`](Db::open_with).
    pub fn open_in(env: Arc<dyn Env>, dir: impl AsRef<Path>, options: DbOptions) -> Result<Db> {
        options.check()?;
        let core = Arc::new(Core::open(env, dir.as_ref(), options)?);
        core.allow_workers();
        Ok(Db { handle: Arc::new(Handle { core }) })
    }

    fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }

    /// The tree `name` with these options, created when it is not there.
    ///
    /// Options of a tree that is there are replaced by these from now on (files already written stay as they are), but its
    /// hooks must be those that it was created with.
    ///
    /// # Errors
    /// `InvalidArgument` for an option out of bounds, `Incompatible` for another hook, and errors of writing the manifest.
    pub fn tree(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        options.check()?;
        let core = self.core();
        let tree = loop {
            let there = core.trees.read().named(name);
            match there {
                Some(t) => match core.reopen_tree(&t, options.clone()) {
                    Ok(()) => {
                        core.shorten_log(&t)?;
                        break t;
                    }
                    // Another thread has dropped it meanwhile.
                    Err(e) if e.kind() == ErrorKind::Closed => {}
                    Err(e) => return Err(e),
                },
                // `None` when another thread has made it meanwhile, with whatever options.
                None => {
                    if let Some(t) = core.create_tree(name, options.clone())? {
                        break t;
                    }
                }
            }
        };
        let options = tree.view.load_full().options.clone();
        core.events.note("tree", |e| {
            e.str("tree", name).str("policy", &format!("{:?}", options.policy)).num("table_size", options.table_size);
            e.num("memtable_size", options.memtable_size as u64).num("tombstone_age_secs", options.tombstone_age_secs);
        });
        Ok(self.wrap(tree))
    }

    /// The tree `name` as it was last opened or created. A tree with hooks that were not handed in yet ([`Db::tree`]) can be looked at: it
    /// is not compacted, filters of prefixes are not used, and what needs the merge hook is an error of kind `Incompatible`.
    ///
    /// # Errors
    /// `NotFound` when there is no such tree.
    pub fn existing_tree(&self, name: &str) -> Result<Tree> {
        let there = self.core().trees.read().named(name);
        let tree = there.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no tree {name:?}")))?;
        Ok(self.wrap(tree))
    }

    fn wrap(&self, core: Arc<TreeCore>) -> Tree {
        core.gaps.set_writers(|| {
            let writers: Arc<dyn Writers> = self.core().clone();
            Arc::downgrade(&writers)
        });
        Tree { handle: self.handle.clone(), core }
    }

    /// Names of the trees, in order of creation.
    pub fn tree_names(&self) -> Vec<String> {
        self.core().trees.read().iter().map(|t| t.name.clone()).collect()
    }

    /// Drops a tree with all it holds. Handles of it report [`ErrorKind::Closed`] from now on; files go when their last reader does.
    ///
    /// # Errors
    /// `NotFound` when there is no such tree, and errors of writing the manifest.
    pub fn drop_tree(&self, name: &str) -> Result<()> {
        self.core().drop_tree(name)
    }

    /// Writes a batch with the Db's durability.
    ///
    /// # Errors
    /// `ReadOnly` when the store takes no writes, `Closed` when a tree concerned was dropped, and I/O errors, after which the store is
    /// read-only. `NoSpace` or `Exhausted` when the log cannot grow, or when all memtables are full and can't be flushed: nothing was
    /// written then, and the store goes on by itself when there is space (or file descriptors, or memory) again.
    pub fn write(&self, batch: Batch) -> Result<()> {
        self.write_with(batch, self.core().options.durability)
    }

    /// Writes a batch with this durability.
    ///
    /// # Errors
    /// As [`write`](Db::write).
    pub fn write_with(&self, batch: Batch, durability: Durability) -> Result<()> {
        self.check_own(&batch)?;
        self.core().write_batch(&batch, durability, None).map(|_| ())
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

    /// Records what each read of this store costs, by whatever thread, from now until the recording ends: see [`explain`].
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

    /// The end of the log as opening found it, unless it was a clean one: what was being written in a crash, or damage
    /// ([`TornTail::proof`]) that cuts off what had been written.
    pub fn torn_log(&self) -> Option<&TornTail> {
        self.core().torn.as_ref()
    }

    /// Waits until no memtable waits for its flush and no policy wants a compaction.
    ///
    /// # Errors
    /// The failure that stopped the background work, or `NoSpace` or `Exhausted` when it has been put off.
    pub fn wait_idle(&self) -> Result<()> {
        self.core().wait_idle()
    }

    /// Counters, memory, levels, and what holds space back.
    pub fn stats(&self) -> Stats {
        self.core().stats()
    }
}

/// One ordered map of a [`Db`]. Cheap to clone.
#[derive(Clone)]
pub struct Tree {
    handle: Arc<Handle>,
    core: Arc<TreeCore>,
}

impl Tree {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The store that it belongs to.
    pub fn db(&self) -> Db {
        Db { handle: self.handle.clone() }
    }

    /// Its options.
    pub fn options(&self) -> TreeOptions {
        (*self.core.view.load_full().options).clone()
    }

    /// The value of `key`. The value pins its block or memtable; nothing is copied.
    ///
    /// # Errors
    /// Corruption and I/O errors of the tables read, errors of the merge hook, `Closed` when the tree was dropped.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.handle.core.get(&self.core, key)
    }

    /// The values of several keys, all of one moment.
    ///
    /// # Errors
    /// As [`get`](Tree::get).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.handle.core.multi_get(&self.core, keys)
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`get`](Tree::get).
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// `InvalidArgument` when key or value are over the limits, else as [`Db::write`].
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(key, value, self.handle.core.options.durability)
    }

    /// Sets `key` to `value` with this durability.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    #[inline]
    pub fn put_with(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        self.handle.core.write_point(&self.core, Kind::Put, key, value, durability)
    }

    /// Deletes `key`.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.handle.core.write_point(&self.core, Kind::Delete, key, &[], self.handle.core.options.durability)
    }

    /// Adds an operand for the tree's merge hook.
    ///
    /// # Errors
    /// As [`put`](Tree::put), and `InvalidArgument` when the tree has no merge hook.
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.check_merge()?;
        self.handle.core.write_point(&self.core, Kind::Merge, key, operand, self.handle.core.options.durability)
    }

    /// Deletes every key in `[start, end)`: O(1) however many there are. Nothing happens when `start` is not below `end`.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    pub fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<()> {
        self.delete_range_numbered(start, end).map(|_| ())
    }

    /// As [`delete_range`](Tree::delete_range); gives the deletion's sequence number.
    fn delete_range_numbered(&self, start: &[u8], end: &[u8]) -> Result<Seq> {
        self.core.check_live()?;
        self.handle.core.check_writable()?;
        let mut batch = Batch::new();
        batch.delete_range(self, start, end)?;
        self.handle.core.write_batch(&batch, self.handle.core.options.durability, None)
    }

    fn check_merge(&self) -> Result<()> {
        let guard = epoch::pin();
        match self.core.view.load(&guard).options.merge {
            Some(_) => Ok(()),
            None => Err(Error::invalid(format!("the tree {:?} has no merge hook; open it with one", self.core.name))),
        }
    }

    /// Writes the memtable to a table and waits for it.
    ///
    /// # Errors
    /// I/O errors, after which the store is read-only.
    pub fn flush(&self) -> Result<()> {
        self.core.check_live()?;
        self.handle.core.flush_tree(&self.core)
    }

    /// Flushes, then merges everything down to one run, dropping what no reader can see.
    ///
    /// # Errors
    /// `Incompatible` when the tree has hooks that were not handed in ([`Db::tree`]); corruption and I/O errors.
    pub fn compact(&self) -> Result<()> {
        self.check_hooked()?;
        self.flush()?;
        self.handle.core.compact_range(&self.core, None)
    }

    /// Flushes, then merges whatever may hold keys in `[start, end]`.
    ///
    /// # Errors
    /// As [`compact`](Tree::compact).
    pub fn compact_range(&self, start: &[u8], end: &[u8]) -> Result<()> {
        self.check_hooked()?;
        self.flush()?;
        self.handle.core.compact_range(&self.core, Some((start, end)))
    }

    /// Without its hooks nobody knows what may be merged and forgotten.
    fn check_hooked(&self) -> Result<()> {
        self.core.check_live()?;
        if self.core.is_hooked() {
            return Ok(());
        }
        let words =
            format!("the tree {:?} has hooks that were not handed in, so it is not merged; open it with them", self.name());
        Err(Error::new(ErrorKind::Incompatible, words))
    }
}

impl Core {
    /// Makes a tree; `None` when there is one of that name already.
    fn create_tree(&self, name: &str, options: TreeOptions) -> Result<Option<Arc<TreeCore>>> {
        if name.is_empty() || name.len() > 255 {
            return Err(Error::invalid(format!("a tree's name has 1 to 255 bytes, this one {}", name.len())));
        }
        let start = self.sync_log()?;
        let mut c = self.catalog.lock();
        if self.trees.read().named(name).is_some() {
            return Ok(None);
        }
        let id = c.state.next_tree;
        // First all that can fail: a tree that the manifest knows must be there.
        let memtable = Memtable::empty(&self.arenas, options.filter_prefix.clone())?;
        let edit = Edit::CreateTree { id, name: name.to_owned(), options: PersistedOptions::of(&options), flushed: start };
        self.log_edits(&mut c, vec![edit])?;
        let Some(state) = c.state.trees.get(&id) else {
            return Err(Error::invalid(format!("the tree {name:?} could not be created")));
        };
        let tree = self.new_tree(state, options, MemHandle::new(memtable, start)).map_err(|e| self.latch(e))?;
        self.trees.write().add(tree.clone());
        self.events.note("tree", |e| {
            e.str("tree", name).num("id", id as u64);
        });
        Ok(Some(tree))
    }

    fn reopen_tree(&self, t: &TreeCore, options: TreeOptions) -> Result<()> {
        let mut c = self.catalog.lock();
        let Some(state) = c.state.trees.get(&t.id) else {
            return Err(Error::new(ErrorKind::Closed, format!("the tree {:?} has been dropped", t.name)));
        };
        state.options.check_hooks(&t.name, &options)?;
        let persisted = PersistedOptions::of(&options);
        if persisted != state.options && !self.options.read_only {
            self.log_edits(&mut c, vec![Edit::SetOptions { id: t.id, options: persisted }])?;
        }
        // Under the catalogue's lock still: of two callers the one whose options the manifest has is the one whose are in force. And
        // under the write lock, so that nobody writes to a memtable that is gone over.
        let files = t.files.lock();
        let w = self.write.lock();
        t.set_options(options, &files)?;
        drop((w, files, c));
        self.tables_changed(t);
        self.signal_work();
        self.call_workers_for([t]);
        Ok(())
    }

    fn drop_tree(&self, name: &str) -> Result<()> {
        let there = self.trees.read().named(name);
        let t = there.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no tree {name:?}")))?;
        let _one = t.flushing.lock();
        self.sync_log()?;
        let mut c = self.catalog.lock();
        if !c.state.trees.contains_key(&t.id) {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no tree {name:?}: another thread has dropped it")));
        }
        self.log_edits(&mut c, vec![Edit::DropTree { id: t.id }])?;
        self.events.note("tree dropped", |e| {
            e.str("tree", &t.name).num("id", t.id as u64);
        });
        {
            // In one step, for whoever has seen that it is gone and then asks for the names.
            let mut trees = self.trees.write();
            t.mark_dropped();
            trees.remove(&t);
        }
        drop(c);
        {
            // Nobody enters a memtable of a dropped tree any more.
            let mut w = self.write.lock();
            t.view.load_full().memtables().for_each(|m| {
                w.release(t.id, m);
                self.memory.release(m);
            });
        }
        self.set_pressure(t.id, 0.0);
        let handles: Vec<_> = t.files.lock().handles.drain().collect();
        self.watch.pins.retire(t.id, handles.iter().map(|(_, h)| h));
        t.view.load_full().sealed.iter().for_each(|m| m.set_flushed());
        // Handles of the tree may live for long; its memtable need not.
        let active =
            Memtable::empty(&self.arenas, None).map_or_else(|_| t.view.load_full().active.clone(), |m| MemHandle::new(m, 0));
        t.change_view(|v| {
            let version = Arc::default();
            view::View { active, sealed: vec![], version, ..v.clone() }
        });
        self.signal_done();
        Ok(())
    }

    /// Seals the memtable of a tree, if it holds anything, and waits until all of its sealed ones are flushed.
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

    /// The last act of a closing Db: what was written survives a power cut too, if the device allows.
    fn close(&self) {
        self.opener.bury();
        self.opener.closed.store(true, Ordering::Release);
        if self.check_writable().is_ok() {
            let wal = self.write.lock().wal.take();
            if let Err(e) = wal.map_or(Ok(()), Wal::close) {
                drop(self.latch(e));
            }
        }
        // Another Db that wants memory of this one may hold on to it for a moment longer.
        drop(self.lock.lock().take());
    }
}
