//! The handles of a store that others are made of: what keeps it open, the store, and a tree of it.
//! Their calls are in the files above this one.
//!
//! Invariant: a store is closed when its last handle goes, if nobody has closed it before.

use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::options::Durability;
use crate::base::sync::{Mutex, epoch, rank};
use crate::merge::gaps::Writers;

use super::super::state::core::DbInner;
use super::super::state::gate::closed;
use super::super::state::pins::nudge;
use super::super::state::tree::TreeInner;

/// What keeps a store open.
pub struct CloseHandle {
    pub core: Arc<DbInner>,
    /// What came of closing it; locked while it is being closed.
    closed: Mutex<Option<Result<()>>, rank::Closing>,
    /// Behind the store: it goes after it.
    _left: LeftToEpoch,
}

/// Lets the epoch move on when it goes: else what a store has left to the epoch, its tables' files,
/// memtables and frames, would stay until some other store of the process is used, if there is one.
/// A store that could not be opened leaves as much, and the descriptors that the next try needs.
struct LeftToEpoch;

impl Drop for LeftToEpoch {
    fn drop(&mut self) {
        nudge();
    }
}

impl CloseHandle {
    /// Of a store that `open` opens.
    ///
    /// # Errors
    /// What `open` gives; whatever it had opened until then is closed.
    pub fn new(open: impl FnOnce() -> Result<Arc<DbInner>>) -> Result<CloseHandle> {
        let left = LeftToEpoch;
        Ok(CloseHandle { core: open()?, closed: Mutex::new(None), _left: left })
    }

    /// Closes the store, if nobody has; gives what came of it.
    pub fn close(&self) -> Result<()> {
        let core = &self.core;
        if core.env.is_forked() {
            // The threads are the parent's, and so is the log.
            std::mem::take(&mut *core.work.threads()).into_iter().for_each(std::mem::forget);
            core.events.forget();
            return core.check_process();
        }
        let mut outcome = if core.events.is_told_here() {
            // Who closes waits for the listener, which must not wait for that.
            self.closed.try_lock().ok_or_else(closed)?
        } else {
            self.closed.lock()
        };
        outcome.get_or_insert_with(|| core.close()).clone()
    }
}

impl Drop for CloseHandle {
    fn drop(&mut self) {
        // Who wants to know calls `close`.
        let _ = self.close();
    }
}

/// An open store: trees of ordered keys, one log, one order of writes.
///
/// Cheap to clone; all clones and all [`Tree`]s share one store, which closes when the last of them
/// is dropped, or with [`close`](Db::close), which says whether all went well. Closing does not
/// flush: what is in memtables is in the log, and is there again when the store is opened.
///
/// A handle has a durability, with which everything is written through it: at first that of the
/// [`DbOptions`](crate::DbOptions), and with [`with`](Db::with) another one.
///
/// A store belongs to the process that opened it. In a child made by `fork()` every write is an
/// error of kind [`ReadOnly`](crate::ErrorKind::ReadOnly) (on Linux from 4.14 on; elsewhere nobody
/// can tell), and the child keeps the store's lock until it ends: open stores after a fork, not
/// before.
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
    pub(in crate::db) fn core(&self) -> &Arc<DbInner> {
        &self.handle.core
    }

    pub(in crate::db) fn wrap(&self, core: Arc<TreeInner>) -> Tree {
        core.gaps.set_writers(|| {
            let writers: Arc<dyn Writers> = self.core().clone();
            Arc::downgrade(&writers)
        });
        Tree { handle: self.handle.clone(), core, durability: self.durability }
    }
}

/// One ordered map of a [`Db`]. Cheap to clone.
///
/// Keys and values are anything that is bytes: `&[u8]`, `&str`, `String`, `Vec<u8>`, arrays. Ranges
/// are written `..`, `"a".."b"`, `"a"..="b"` and so on ([`KeyBounds`](crate::KeyBounds)).
///
/// A handle has a durability, with which everything is written through it: that of the [`Db`] that
/// it was got from, and with [`with`](Tree::with) another one.
#[derive(Clone)]
pub struct Tree {
    // Before what keeps the store open, so that it goes before it.
    pub(in crate::db) core: Arc<TreeInner>,
    pub(in crate::db) handle: Arc<CloseHandle>,
    pub(in crate::db) durability: Durability,
}

impl Tree {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The store that it belongs to, with the handle's durability.
    pub fn db(&self) -> Db {
        Db { handle: self.handle.clone(), durability: self.durability }
    }

    /// The same tree; what is written through this handle has this durability. It costs two
    /// reference counts: keep the handle where many writes go through it.
    pub fn with(&self, durability: Durability) -> Tree {
        Tree { durability, ..self.clone() }
    }

    /// An error when it is a tree of another store.
    pub(in crate::db) fn check_of(&self, store: &Arc<CloseHandle>) -> Result<()> {
        if Arc::ptr_eq(store, &self.handle) {
            return Ok(());
        }
        Err(Error::invalid(format!("the tree {:?} belongs to another store", self.name())))
    }

    pub(in crate::db) fn check_merge(&self) -> Result<()> {
        let guard = epoch::pin();
        match self.core.view.load(&guard).options.merge {
            Some(_) => Ok(()),
            None => Err(Error::invalid(format!(
                "the tree {:?} has no merge hook; open it with one",
                self.core.name
            ))),
        }
    }
}
