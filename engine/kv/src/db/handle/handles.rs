//! Base handles of a store: [`CloseHandle`], [`Db`] and [`Tree`]. Most of their methods are in the
//! other files of this folder.
//!
//! Invariant: dropping the last handle closes the store, unless it was closed before.

use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::options::Durability;
use crate::db::open::close;
use crate::iterator::empty_range_cache::Writers;
use crate::util::sync::{Mutex, epoch, rank};

use crate::db::inner::DbInner;
use crate::db::observe::pins::advance_epoch;
use crate::db::scheduler::gate::closed;
use crate::db::versions::tree::TreeInner;

/// Shared owner of an open store. Dropping it closes the store.
pub struct CloseHandle {
    pub inner: Arc<DbInner>,
    /// Result of closing; locked while the store is being closed.
    closed: Mutex<Option<Result<()>>, rank::Closing>,
    /// Owner of the store, if this is a handle that only reads.
    owner: Option<Arc<CloseHandle>>,
    /// Declared after the store, so that it is dropped after it.
    _left: LeftToEpoch,
}

/// Advances the epoch when dropped. Otherwise garbage that a store left to the epoch (table files,
/// memtables, cache frames) would stay until another store of the process is used. A store that
/// failed to open leaves garbage too, and the next attempt needs its file descriptors.
struct LeftToEpoch;

impl Drop for LeftToEpoch {
    fn drop(&mut self) {
        advance_epoch();
    }
}

impl CloseHandle {
    /// Creates the owner of the store that `open` returns.
    ///
    /// # Errors
    /// The error of `open`; everything that it had opened is closed.
    pub fn new(open: impl FnOnce() -> Result<Arc<DbInner>>) -> Result<CloseHandle> {
        let left = LeftToEpoch;
        Ok(CloseHandle { inner: open()?, closed: Mutex::new(None), owner: None, _left: left })
    }

    /// Creates a handle of the same store that only reads and does not close it.
    pub fn reader(self: &Arc<CloseHandle>) -> CloseHandle {
        CloseHandle {
            inner: self.inner.clone(),
            closed: Mutex::new(None),
            owner: Some(self.clone()),
            _left: LeftToEpoch,
        }
    }

    /// Reports whether the handle only reads.
    pub fn is_reader(&self) -> bool {
        self.owner.is_some()
    }

    /// Returns an error if the handle only reads.
    #[inline]
    pub fn check_writer(&self) -> Result<()> {
        if self.owner.is_some() { Err(reads_only()) } else { Ok(()) }
    }

    /// Closes the store if it is open, and returns the result of the first close.
    pub fn close(&self) -> Result<()> {
        if self.owner.is_some() {
            return Ok(());
        }
        let inner = &self.inner;
        if inner.env.is_forked() {
            // The threads and the log belong to the parent process.
            std::mem::take(&mut *inner.scheduler.queue().threads())
                .into_iter()
                .for_each(std::mem::forget);
            inner.observer.events().forget();
            return inner.gate.check_process();
        }
        let mut outcome = if inner.observer.events().is_listener_thread() {
            // The closing thread waits for this listener, so the listener must not wait for the
            // lock.
            self.closed.try_lock().ok_or_else(closed)?
        } else {
            self.closed.lock()
        };
        outcome.get_or_insert_with(|| close::close_store(inner)).clone()
    }
}

impl Drop for CloseHandle {
    fn drop(&mut self) {
        // Callers that need the result call `close`.
        let _ = self.close();
    }
}

#[cold]
fn reads_only() -> Error {
    Error::new(
        ErrorKind::ReadOnly,
        "this handle of the store only reads: write through another one, or to the primary if the store is a replica",
    )
}

/// An open store: trees of ordered keys that share one log and one order of writes. A tree is what
/// RocksDB calls a column family.
///
/// Cheap to clone. All clones and all [`Tree`]s share one store. It closes when the last of them is
/// dropped, or with [`close`](Db::close), which also reports errors. Closing does not flush: the
/// log has the contents of the memtables, and the next opening restores them.
///
/// A handle has a durability that applies to all writes through it. It is initially that of the
/// [`DbOptions`](crate::DbOptions); [`with_durability`](Db::with_durability) returns a handle with another one.
///
/// A store belongs to the process that opened it. In a child made by `fork()` every write fails
/// with kind [`ReadOnly`](crate::ErrorKind::ReadOnly). Forks are detected on Linux from 4.14 on
/// only. The child holds the store's lock until it ends, so open stores after a fork, not before.
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
    pub(in crate::db) handle: Arc<CloseHandle>,
    pub(in crate::db) durability: Durability,
}

impl Db {
    pub(in crate::db) fn inner(&self) -> &Arc<DbInner> {
        &self.handle.inner
    }

    pub(in crate::db) fn wrap(&self, inner: Arc<TreeInner>) -> Tree {
        inner.empty_ranges.set_writers(|| {
            let writers: Arc<dyn Writers> = self.inner().clone();
            Arc::downgrade(&writers)
        });
        Tree { handle: self.handle.clone(), inner, durability: self.durability }
    }
}

/// An ordered map in a [`Db`]. Cheap to clone.
///
/// Keys and values are byte strings: `&[u8]`, `&str`, `String`, `Vec<u8>`, arrays. Ranges are
/// written `..`, `"a".."b"`, `"a"..="b"` and so on ([`KeyBounds`](crate::KeyBounds)).
///
/// A handle has a durability that applies to all writes through it. It is initially that of the
/// [`Db`] that returned it; [`with_durability`](Tree::with_durability) returns a handle with another one.
#[derive(Clone)]
pub struct Tree {
    // Declared before `handle`, so that it is dropped before the store closes.
    pub(in crate::db) inner: Arc<TreeInner>,
    pub(in crate::db) handle: Arc<CloseHandle>,
    pub(in crate::db) durability: Durability,
}

impl Tree {
    /// Returns the name of the tree.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the store of the tree, with this handle's durability.
    pub fn db(&self) -> Db {
        Db { handle: self.handle.clone(), durability: self.durability }
    }

    /// Returns a handle of the same tree that writes with `durability`. It costs two reference
    /// counts: reuse the handle for many writes.
    pub fn with_durability(&self, durability: Durability) -> Tree {
        Tree { durability, ..self.clone() }
    }

    /// Returns an error when the tree belongs to another store.
    pub(in crate::db) fn check_of(&self, store: &Arc<CloseHandle>) -> Result<()> {
        if Arc::ptr_eq(store, &self.handle) {
            return Ok(());
        }
        Err(Error::invalid(format!("the tree {:?} belongs to another store", self.name())))
    }

    pub(in crate::db) fn check_merge(&self) -> Result<()> {
        let guard = epoch::pin();
        match self.inner.view.load(&guard).options.merge_operator {
            Some(_) => Ok(()),
            None => Err(Error::invalid(format!(
                "the tree {:?} has no merge operator; open it with one",
                self.inner.name
            ))),
        }
    }
}
