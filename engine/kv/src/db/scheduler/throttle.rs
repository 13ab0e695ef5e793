//! Limits compactions to a rate in bytes a second, and pauses them.
//!
//! Invariants:
//! - T1: flushes are neither limited nor paused, because writers wait for them, and they bound
//!   memory and log.
//! - T2: a compaction counts the bytes that it reads and writes, also if it fails later. It waits
//!   while the count exceeds the rate times the elapsed time. All compactions share one account.
//!   Idle time earns no credit. A failed compaction is not charged for input that it did not read.
//! - T3: compactions wait at progress checks, with no lock held. If no other thread flushes, they
//!   do so while they wait. Closing the store ends the wait.
//! - T4: a pause is in force when every job of the workers has ended or stopped. Without workers a
//!   started job runs to its end: the writer on whose thread it runs must not wait for another
//!   thread's pause.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::Result;
use crate::env::WriteFile;
use crate::util::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering};

/// Maximum sleep while waiting for a pause, so that the waiter notices other changes.
const LOOK: Duration = Duration::from_millis(50);

/// Rate limit and pause of one Db.
#[derive(Default)]
pub struct Throttle {
    /// Bytes a second; 0 means no limit.
    rate: AtomicU64,
    /// Time at which everything counted so far is within the rate, in nanoseconds of the monotonic
    /// clock.
    due: Mutex<u64>,
    /// Whether a pause is active: a copy of `state` that is read without the lock.
    paused: AtomicBool,
    state: Mutex<ThrottleState>,
    changed: Condvar,
}

#[derive(Default)]
struct ThrottleState {
    pauses: u64,
    /// Running background jobs. Jobs on the caller's own behalf are not counted.
    jobs: u64,
    /// Number of them that are stopped by a pause.
    still: u64,
}

/// A running background job.
pub struct RunningCompaction<'a>(&'a Throttle);

impl Drop for RunningCompaction<'_> {
    fn drop(&mut self) {
        self.0.state.lock().jobs -= 1;
        self.0.changed.notify_all();
    }
}

impl Throttle {
    /// Creates a limit of `rate` bytes a second.
    pub fn new(rate: Option<u64>) -> Throttle {
        Throttle { rate: AtomicU64::new(rate.unwrap_or(0)), ..Throttle::default() }
    }

    /// Reports whether compactions are paused.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Reports whether a pause is in force: all background jobs are stopped.
    pub fn is_stopped(&self) -> bool {
        let state = self.state.lock();
        state.pauses > 0 && state.still == state.jobs
    }

    /// Registers a job. Returns `None` during a pause.
    pub fn begin(&self) -> Option<RunningCompaction<'_>> {
        let mut state = self.state.lock();
        if state.pauses > 0 {
            return None;
        }
        state.jobs += 1;
        Some(RunningCompaction(self))
    }

    /// Counts bytes read or written. Returns the time at which they are within the rate.
    pub fn count(&self, now: u64, bytes: u64) -> u64 {
        let rate = self.rate.load(Ordering::Relaxed);
        let mut due = self.due.lock();
        if rate > 0 {
            let takes = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
            *due = (*due).max(now).saturating_add(u64::try_from(takes).unwrap_or(u64::MAX));
        }
        *due
    }

    /// Returns the time at which everything counted so far is within the rate.
    pub fn due(&self) -> u64 {
        *self.due.lock()
    }

    /// Begins a pause.
    pub fn pause(&self) {
        let mut state = self.state.lock();
        state.pauses += 1;
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Waits until every job has ended or stopped, or until `is_over` returns true.
    pub fn wait_until_stopped(&self, is_over: impl Fn() -> bool) {
        let mut state = self.state.lock();
        while state.jobs > state.still && !is_over() {
            self.changed.wait_for(&mut state, LOOK);
        }
    }

    /// Ends a pause.
    pub fn resume(&self) {
        let mut state = self.state.lock();
        state.pauses -= 1;
        self.paused.store(state.pauses > 0, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Stops the calling job during a pause, until `is_over` returns true. Calls `during`
    /// repeatedly, without a lock.
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

    /// Sets the rate.
    pub fn set_rate(&self, now: u64, rate: Option<u64>) {
        let mut due = self.due.lock();
        self.rate.store(rate.unwrap_or(0), Ordering::Relaxed);
        // Discards the debt at the old rate.
        *due = now;
    }
}

/// I/O of one compaction: bytes written since the last query, and input bytes left, estimated from
/// the number of entries read.
pub struct Account {
    written: Arc<AtomicU64>,
    total: u64,
    unread: u64,
    bytes_per_entry: u64,
}

/// File wrapper that counts written bytes.
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
    /// Creates the account of a compaction of `bytes` bytes of tables with `entries` entries.
    pub fn new(bytes: u64, entries: u64) -> Account {
        let bytes_per_entry = bytes / entries.max(1);
        Account { written: Arc::default(), total: bytes, unread: bytes, bytes_per_entry }
    }

    /// Wraps `file` to count its writes.
    pub fn watch(written: &Arc<AtomicU64>, file: Box<dyn WriteFile>) -> Box<dyn WriteFile> {
        Box::new(CountedWriter { file, written: written.clone() })
    }

    /// Returns the counter for [`watch`](Account::watch).
    pub fn written(&self) -> Arc<AtomicU64> {
        self.written.clone()
    }

    /// Returns the input bytes read so far.
    pub fn passed(&self) -> u64 {
        self.total - self.unread
    }

    /// Returns the bytes read and written since the last call. `entries` is the number of entries
    /// read since then; `None` charges all remaining input.
    pub fn take(&mut self, entries: Option<u64>) -> u64 {
        let read = entries
            .map_or(self.unread, |n| n.saturating_mul(self.bytes_per_entry).min(self.unread));
        self.unread -= read;
        read + self.written.swap(0, Ordering::Relaxed)
    }
}
