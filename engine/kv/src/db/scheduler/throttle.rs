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
use crate::env::WriteFile;
use crate::util::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering};

/// How long one who waits for a pause sleeps at a time, so that he sees what has changed.
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
    pub fn is_stopped(&self) -> bool {
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
    pub fn count(&self, now: u64, bytes: u64) -> u64 {
        let rate = self.rate.load(Ordering::Relaxed);
        let mut due = self.due.lock();
        if rate > 0 {
            let takes = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
            *due = (*due).max(now).saturating_add(u64::try_from(takes).unwrap_or(u64::MAX));
        }
        *due
    }

    /// When what has been counted will have been allowed.
    pub fn due(&self) -> u64 {
        *self.due.lock()
    }

    /// A pause begins.
    pub fn pause(&self) {
        let mut state = self.state.lock();
        state.pauses += 1;
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Waits until every job has ended or stands still, unless `is_over` says that the store is.
    pub fn wait_until_stopped(&self, is_over: impl Fn() -> bool) {
        let mut state = self.state.lock();
        while state.jobs > state.still && !is_over() {
            self.changed.wait_for(&mut state, LOOK);
        }
    }

    /// A pause ends.
    pub fn resume(&self) {
        let mut state = self.state.lock();
        state.pauses -= 1;
        self.paused.store(state.pauses > 0, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// A job stands still as long as there is a pause, unless `is_over` says that the store is;
    /// `during` is called again and again, without a lock.
    pub fn stop_during_pause(
        &self,
        is_over: impl Fn() -> bool,
        mut during: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        state.still += 1;
        self.changed.notify_all();
        let mut done = Ok(());
        while done.is_ok() && state.pauses > 0 && !is_over() {
            drop(state);
            done = during();
            state = self.state.lock();
        }
        state.still -= 1;
        done
    }

    /// From now on so many bytes a second.
    pub fn set_rate(&self, now: u64, rate: Option<u64>) {
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
    total: u64,
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
        WriteFile::sync(&mut *self.file)
    }
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl Account {
    /// Of a merge of so many bytes of tables with so many entries.
    pub fn new(bytes: u64, entries: u64) -> Account {
        let bytes_per_entry = bytes / entries.max(1);
        Account { written: Arc::default(), total: bytes, unread: bytes, bytes_per_entry }
    }

    /// The file, with what is written to it counted here.
    pub fn watch(written: &Arc<AtomicU64>, file: Box<dyn WriteFile>) -> Box<dyn WriteFile> {
        Box::new(CountedWriter { file, written: written.clone() })
    }

    /// What [`watch`](Account::watch) counts with.
    pub fn written(&self) -> Arc<AtomicU64> {
        self.written.clone()
    }

    /// How many bytes of its tables it has passed.
    pub fn passed(&self) -> u64 {
        self.total - self.unread
    }

    /// Bytes since the last call, in which so many entries were passed; all that are left without a
    /// number.
    pub fn take(&mut self, entries: Option<u64>) -> u64 {
        let read = entries
            .map_or(self.unread, |n| n.saturating_mul(self.bytes_per_entry).min(self.unread));
        self.unread -= read;
        read + self.written.swap(0, Ordering::Relaxed)
    }
}
