//! Closing: it waits until no thread writes to the store's files, and lets no other begin.
//!
//! Invariants:
//! - C1: who writes files without the lock of log or catalogue (a flush, a job, an ingestion, a
//!   checkpoint) holds a [`WritePass`] meanwhile. None is given once the store is closing.
//! - C2: when all passes are back, the log and the manifest are taken away under their locks, and
//!   the latch says that the store is closed. Only then the lock of the directory is given up. So
//!   nothing of this Db is written once another one may have the store.
//! - C3: a file is removed afterwards by nobody ([`TableOpener`](crate::merge::run::TableOpener)),
//!   and what is read under a name then is known by its identity: tables of another opening are
//!   never taken for this one's.

use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::{Mutex, Ordering, rank};
use crate::wal::Wal;

use super::Db;
use super::core::Core;

/// How long who waits for passes sleeps at most.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// What keeps a store open.
pub(crate) struct CloseHandle {
    pub core: Arc<Core>,
    /// What came of closing it; locked while it is being closed.
    closed: Mutex<Option<Result<()>>, rank::Closing>,
}

/// Allows to write files of the store; closing waits until it is given back.
pub struct WritePass<'a>(&'a Core);

impl Drop for WritePass<'_> {
    fn drop(&mut self) {
        self.0.work.passes.fetch_sub(1, Ordering::SeqCst);
        if self.0.is_closing() {
            self.0.signal_done();
        }
    }
}

impl CloseHandle {
    /// Of a store that has just been opened.
    pub fn new(core: Arc<Core>) -> CloseHandle {
        CloseHandle { core, closed: Mutex::new(None) }
    }

    /// Closes the store, if nobody has; gives what came of it.
    fn close(&self) -> Result<()> {
        let core = &self.core;
        if core.env.is_forked() {
            // The threads are the parent's, and so is the log.
            std::mem::take(&mut *core.work.threads.lock()).into_iter().for_each(std::mem::forget);
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

impl Db {
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
}

impl Core {
    /// Allows the caller to write files until the pass goes.
    ///
    /// # Errors
    /// `Closed` once the store is closing.
    pub fn pass(&self) -> Result<WritePass<'_>> {
        self.work.passes.fetch_add(1, Ordering::SeqCst);
        let pass = WritePass(self);
        // Both in one order for all: either this is seen, or the pass is waited for.
        if self.work.closing.load(Ordering::SeqCst) { Err(closed()) } else { Ok(pass) }
    }

    /// Whether the Db is being closed, or is.
    pub fn is_closing(&self) -> bool {
        self.work.closing.load(Ordering::Relaxed)
    }

    /// Whether the Db is closed.
    pub fn is_closed(&self) -> bool {
        self.work.closed.load(Ordering::Acquire)
    }

    /// An error when the Db is closed.
    pub fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(closed()) } else { Ok(()) }
    }

    fn close(&self) -> Result<()> {
        self.work.closing.store(true, Ordering::SeqCst);
        self.work.signal();
        self.signal_done();
        // Nobody calls another one once the store is closing.
        let threads = std::mem::take(&mut *self.work.threads.lock());
        threads.into_iter().flatten().for_each(|t| t.join());
        {
            let mut g = self.work.generation.lock();
            while self.work.passes.load(Ordering::SeqCst) > 0 {
                self.work.done.wait_for(&mut g, LOOK);
            }
        }
        self.opener.bury();
        let (latched, wal) = {
            let mut c = self.catalog.lock();
            let mut w = self.write.lock();
            // Asked under the lock of the manifest: a log that is closed says that of no frame it
            // is unknown whether it is durable.
            let latched = if self.options.read_only { Ok(()) } else { self.check_writable() };
            self.work.closed.store(true, Ordering::Release);
            // Of what a reader has opened other handles may go on ([`Db::refresh`]); it never
            // removes a file.
            if !self.options.read_only {
                self.opener.close();
            }
            self.is_latched.store(true, Ordering::Relaxed);
            c.manifest = None;
            for t in self.trees.read().iter() {
                t.mark_closed();
                // Other Dbs that share the budget get it; the memory itself goes with the last
                // handle.
                t.view.load_full().memtables().for_each(|m| self.memory.release(m));
            }
            (latched, w.wal.take())
        };
        // With a failure behind it nobody knows what log and manifest hold, and they are left as
        // they are: the log without its last mark.
        let ended = latched.and_then(|()| wal.map_or(Ok(()), Wal::close));
        self.end_pacing();
        self.events.close();
        self.signal_done();
        // Another Db that wants memory of this one may hold on to it for a moment longer.
        drop(self.lock.lock().take());
        ended
    }
}

/// The error of whoever comes when the Db is closing, or closed.
#[cold]
pub fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store has been closed")
}
