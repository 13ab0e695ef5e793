//! How much the background may do, and when it may do nothing.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::options::check_rate;
use crate::db::jobs::pick;

use crate::db::handle::handles::{CloseHandle, Db};

/// Keeps compactions from running until it is dropped: see [`Db::pause_background`].
///
/// It is a handle of the store, as a tree is: while it is held the store stays open and locked,
/// unless it is [closed](Db::close).
#[must_use = "compactions go on when it is dropped"]
pub struct Pause {
    pub(in crate::db) handle: Arc<CloseHandle>,
}

impl Drop for Pause {
    fn drop(&mut self) {
        let inner = &self.handle.inner;
        inner.scheduler.throttle().resume();
        inner.signal_work();
        pick::call_workers_for_any(inner);
    }
}

impl Db {
    /// From now on compactions of this store, also those that
    /// [`Tree::compact`](crate::Tree::compact) runs, may read and write so many bytes a second
    /// together, `None` for as many as they can:
    /// [`DbOptions::background_rate`](crate::DbOptions::background_rate), which is where it begins.
    /// In force for those that run, too.
    ///
    /// ```
    /// use firn_kv::Db;
    /// let db = Db::in_memory()?;
    /// db.set_background_rate(Some(50 << 20))?; // by day
    /// db.set_background_rate(None)?; // by night
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for less than 64 KiB a second.
    pub fn set_background_rate(&self, bytes_a_second: Option<u64>) -> Result<()> {
        check_rate(bytes_a_second)?;
        let inner = self.inner();
        inner.scheduler.throttle().set_rate(inner.env.monotonic_nanos(), bytes_a_second);
        Ok(())
    }

    /// Keeps the store's own compactions from running until the guard is dropped; with several
    /// guards, the last one. It returns when none runs: those that ran stand still between two
    /// steps, and go on later from there.
    ///
    /// Flushes go on, because writers wait for them; so do [`Tree::flush`](crate::Tree::flush),
    /// checkpoints, ingestions and everything else that somebody calls. Runs pile up meanwhile:
    /// reads become slower, and writers are slowed down, but never stopped. While it is paused,
    /// [`wait_idle`](Db::wait_idle) waits for flushes only, and
    /// [`Tree::compact`](crate::Tree::compact) is an error of kind `Conflict` where it needs a
    /// table that a compaction holds which stands still. With `background_threads: 0` nothing
    /// stands still; a compaction that runs inside another thread's write is waited for.
    ///
    /// Not to be called from a hook: it would wait for itself.
    ///
    /// ```
    /// use firn_kv::Db;
    /// let db = Db::in_memory()?;
    /// let pause = db.pause_background()?;
    /// // what must not be disturbed
    /// drop(pause);
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Closed` when the store is closed meanwhile.
    pub fn pause_background(&self) -> Result<Pause> {
        let inner = self.inner();
        inner.scheduler.throttle().pause();
        let pause = Pause { handle: self.handle.clone() };
        inner.scheduler.throttle().wait_until_stopped(|| inner.gate.is_closing());
        inner.gate.check_open().map(|()| pause)
    }
}
