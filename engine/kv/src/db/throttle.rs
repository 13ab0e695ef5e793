//! The rate of compactions: a bound in bytes a second, and pauses.
//!
//! Invariants:
//! - T1: flushes are neither limited nor paused. Writers wait for them, and memory and log are
//!   bounded by them.
//! - T2: a merge counts what it reads and writes as it goes, whether it comes out or not, and waits
//!   while more has been counted than the time that has passed allows. Several share one account.
//!   Nothing is saved up: after a rest the rate is what it always is. One that fails leaves nothing
//!   of its inputs to be waited for that it has not read.
//! - T3: who waits or stands still does so between two steps of a merge, with no lock held, and
//!   goes on with flushes where nobody else does them. A closing store ends the waiting.
//! - T4: a pause is in force when every job of the workers has ended or stands still. Without
//!   workers a job that has begun is finished: the writer whose thread it runs on must not wait for
//!   another one's pause.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::Result;
use crate::base::options::check_rate;
use crate::base::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering};
use crate::env::WriteFile;

use super::Db;
use super::close::{CloseHandle, closed};
use super::core::Core;

/// How long one who waits for the rate sleeps at a time, so that he sees what has changed.
const SLICE: u64 = 10_000_000;
/// The same for one who stands still.
const LOOK: Duration = Duration::from_millis(50);

/// The limits of one Db.
#[derive(Default)]
pub struct Throttle {
    /// Bytes a second; 0 is no limit.
    rate: AtomicU64,
    /// When all that was counted will have been allowed, in nanoseconds of the monotonic clock.
    due: Mutex<u64>,
    /// Whether there is a pause: `state` without its lock.
    paused: AtomicBool,
    state: Mutex<ThrottleState>,
    changed: Condvar,
}

#[derive(Default)]
struct ThrottleState {
    pauses: u64,
    /// Jobs that are not their callers' own.
    jobs: u64,
    /// Those of them that stand still.
    still: u64,
}

/// Keeps compactions from running until it is dropped: see [`Db::pause_background`].
#[must_use = "compactions go on when it is dropped"]
pub struct Pause {
    pub(super) handle: Arc<CloseHandle>,
}

impl Drop for Pause {
    fn drop(&mut self) {
        let core = &self.handle.core;
        {
            let mut state = core.throttle.state.lock();
            state.pauses -= 1;
            core.throttle.paused.store(state.pauses > 0, Ordering::Relaxed);
            core.throttle.changed.notify_all();
        }
        core.signal_work();
        core.call_workers_for_any();
    }
}

/// A job that runs in the background.
pub struct RunningCompaction<'a>(&'a Throttle);

impl Drop for RunningCompaction<'_> {
    fn drop(&mut self) {
        self.0.state.lock().jobs -= 1;
        self.0.changed.notify_all();
    }
}

impl Throttle {
    /// With this rate.
    pub fn new(rate: Option<u64>) -> Throttle {
        Throttle { rate: AtomicU64::new(rate.unwrap_or(0)), ..Throttle::default() }
    }

    /// Whether compactions are paused.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Whether there is a pause, and it is in force: who holds a table in the background stands
    /// still.
    pub fn stands_still(&self) -> bool {
        let state = self.state.lock();
        state.pauses > 0 && state.still == state.jobs
    }

    /// Says that a job begins; `None` when it must not.
    pub fn begin(&self) -> Option<RunningCompaction<'_>> {
        let mut state = self.state.lock();
        if state.pauses > 0 {
            return None;
        }
        state.jobs += 1;
        Some(RunningCompaction(self))
    }

    /// Counts bytes that were read or written. Gives when they will have been allowed.
    fn count(&self, now: u64, bytes: u64) -> u64 {
        let rate = self.rate.load(Ordering::Relaxed);
        let mut due = self.due.lock();
        if rate > 0 {
            let takes = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
            *due = (*due).max(now).saturating_add(u64::try_from(takes).unwrap_or(u64::MAX));
        }
        *due
    }

    fn set_rate(&self, now: u64, rate: Option<u64>) {
        let mut due = self.due.lock();
        self.rate.store(rate.unwrap_or(0), Ordering::Relaxed);
        // What was counted at another rate is forgotten.
        *due = now;
    }
}

/// A merge's account: what it has written since it last looked, and what it has yet to read, by the
/// entries that it passes.
pub struct Account {
    written: Arc<AtomicU64>,
    unread: u64,
    bytes_per_entry: u64,
}

/// A file whose bytes are counted.
struct CountedWriter {
    file: Box<dyn WriteFile>,
    written: Arc<AtomicU64>,
}

impl WriteFile for CountedWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes)?;
        self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl Account {
    /// Of a merge of so many bytes of tables with so many entries.
    pub fn new(bytes: u64, entries: u64) -> Account {
        Account { written: Arc::default(), unread: bytes, bytes_per_entry: bytes / entries.max(1) }
    }

    /// The file, with what is written to it counted here.
    pub fn watch(written: &Arc<AtomicU64>, file: Box<dyn WriteFile>) -> Box<dyn WriteFile> {
        Box::new(CountedWriter { file, written: written.clone() })
    }

    /// What [`watch`](Account::watch) counts with.
    pub fn written(&self) -> Arc<AtomicU64> {
        self.written.clone()
    }

    /// Bytes since the last call, in which so many entries were passed; all that are left without a
    /// number.
    fn take(&mut self, entries: Option<u64>) -> u64 {
        let read = entries
            .map_or(self.unread, |n| n.saturating_mul(self.bytes_per_entry).min(self.unread));
        self.unread -= read;
        read + self.written.swap(0, Ordering::Relaxed)
    }
}

impl Core {
    /// Counts what a merge has done while it passed so many entries, and waits until that is
    /// allowed; `during` is called while it does.
    pub(super) fn throttle(
        &self,
        account: &mut Account,
        entries: u64,
        during: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let until = self.throttle.count(self.env.monotonic_nanos(), account.take(Some(entries)));
        loop {
            if self.is_closing() {
                return Err(closed());
            }
            during()?;
            let now = self.env.monotonic_nanos();
            // Another rate begins a new account.
            let until = until.min(*self.throttle.due.lock());
            if now >= until {
                return Ok(());
            }
            self.env.sleep(Duration::from_nanos((until - now).min(SLICE)));
        }
    }

    /// Counts the rest of a merge; whoever comes next waits for it. Of one that is not whole that
    /// is what it has written since its last step.
    pub(super) fn count_rest(&self, account: &mut Account, whole: bool) {
        let entries = (!whole).then_some(0);
        self.throttle.count(self.env.monotonic_nanos(), account.take(entries));
    }

    /// Stands still as long as there is a pause; `during` is called now and then.
    pub(super) fn stand_still(&self, during: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if !self.throttle.is_paused() {
            return Ok(());
        }
        let throttle = &self.throttle;
        let mut state = throttle.state.lock();
        state.still += 1;
        throttle.changed.notify_all();
        let mut done = Ok(());
        while done.is_ok() && state.pauses > 0 && !self.is_closing() {
            drop(state);
            done = during();
            {
                // Whoever ends a pause signals, as whoever has work does.
                let mut g = self.work.generation.lock();
                if throttle.is_paused() && done.is_ok() {
                    self.work.wake.wait_for(&mut g, LOOK);
                }
            }
            state = throttle.state.lock();
        }
        state.still -= 1;
        done
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
        let core = self.core();
        core.throttle.set_rate(core.env.monotonic_nanos(), bytes_a_second);
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
        let throttle = &self.core().throttle;
        let mut state = throttle.state.lock();
        state.pauses += 1;
        throttle.paused.store(true, Ordering::Relaxed);
        let pause = Pause { handle: self.handle.clone() };
        while state.jobs > state.still && !self.core().is_closing() {
            throttle.changed.wait_for(&mut state, LOOK);
        }
        drop(state);
        self.core().check_open().map(|()| pause)
    }
}
