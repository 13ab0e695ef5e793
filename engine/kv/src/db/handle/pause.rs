//! Limits and pauses background work.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::options::check_rate;
use crate::db::jobs::pick;

use crate::db::handle::handles::{CloseHandle, Db};

/// Pauses compactions until it is dropped. See [`Db::pause_background`].
///
/// It keeps the store open and locked, as a tree handle does, unless the store is
/// [closed](Db::close).
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
    /// Limits the bytes a second that all compactions of this store together read and write,
    /// including those of [`Tree::compact`](crate::Tree::compact). `None` removes the limit. The
    /// initial value is [`DbOptions::background_rate`](crate::DbOptions::background_rate). The
    /// limit also applies to running compactions.
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

    /// Pauses the store's background compactions until the guard is dropped. With several guards,
    /// until the last one is dropped. Returns when all running compactions have stopped; they
    /// continue after the pause.
    ///
    /// Flushes continue, because writers wait for them. So do [`Tree::flush`](crate::Tree::flush),
    /// checkpoints, ingestions and other explicit calls. Runs accumulate during the pause: reads
    /// become slower, and writers are delayed but never stopped. [`wait_idle`](Db::wait_idle) waits
    /// for flushes only. [`Tree::compact`](crate::Tree::compact) returns an error of kind
    /// `Conflict` if it needs a table of a paused compaction. With `background_threads: 0`, a
    /// compaction that runs inside another thread's write is not paused; this call waits for its
    /// end.
    ///
    /// Must not be called from a hook, because it would wait for itself.
    ///
    /// ```
    /// use firn_kv::Db;
    /// let db = Db::in_memory()?;
    /// let pause = db.pause_background()?;
    /// // work that must not be disturbed
    /// drop(pause);
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Closed` if the store is closed during the call.
    pub fn pause_background(&self) -> Result<Pause> {
        let inner = self.inner();
        inner.scheduler.throttle().pause();
        let pause = Pause { handle: self.handle.clone() };
        inner.scheduler.throttle().wait_until_stopped(|| inner.gate.is_closing());
        inner.gate.check_open().map(|()| pause)
    }
}
