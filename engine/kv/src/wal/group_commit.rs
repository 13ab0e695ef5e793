//! Makes the log durable, with group commit.
//!
//! Invariants:
//! - `synced` only grows, and only after every file with bytes below it has been synced.
//! - At most one thread syncs at a time and covers everything appended before its sync began. So
//!   the others wait for at most one sync in addition to their own.
//! - After a failure every call returns the first cause and nothing is synced again (W5). The
//!   operating system may have dropped exactly the pages that it failed to write.

use std::sync::Arc;

use super::Lsn;
use crate::base::error::{Error, Result};
use crate::env::LogFile;
use crate::util::stripe::CachePadded;
use crate::util::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, rank};

/// Makes the log durable up to a position. All writing threads share it; see
/// [`Wal::syncer`](super::Wal::syncer).
pub struct Syncer {
    /// End of the appended records. Padded, because every writer changes it and reads the fields
    /// next to it.
    appended: CachePadded<AtomicU64>,
    synced: AtomicU64,
    failed: AtomicBool,
    state: Mutex<SyncerState, rank::Unsynced>,
    done: Condvar,
}

debug_by!(Syncer, "Syncer");

struct SyncerState {
    /// Segments that may have unsynced bytes, ascending.
    files: Vec<Unsynced>,
    syncing: bool,
    cause: Option<Error>,
}

struct Unsynced {
    number: u64,
    base: Lsn,
    file: Arc<dyn LogFile>,
}

impl Syncer {
    /// Creates the syncer of a log that is durable up to `start`, where its first segment begins.
    pub(super) fn new(start: Lsn) -> Syncer {
        Syncer {
            appended: CachePadded(AtomicU64::new(start)),
            synced: AtomicU64::new(start),
            failed: AtomicBool::new(false),
            state: Mutex::new(SyncerState { files: vec![], syncing: false, cause: None }),
            done: Condvar::new(),
        }
    }

    /// Adds the segment that begins at `base`. Called before anything beyond `base` is published.
    pub(super) fn add(&self, number: u64, base: Lsn, file: Arc<dyn LogFile>) {
        self.state.lock().files.push(Unsynced { number, base, file });
    }

    /// Removes a retired segment (W4).
    pub(super) fn forget(&self, number: u64) {
        self.state.lock().files.retain(|f| f.number != number);
    }

    /// Removes all segments, because the log is closed.
    pub(super) fn let_go(&self) {
        self.state.lock().files.clear();
    }

    /// Announces that everything below `end` has been written.
    #[inline]
    pub(super) fn publish(&self, end: Lsn) {
        self.appended.store(end, Ordering::Release);
    }

    /// Returns the position below which the log is durable.
    #[inline]
    pub fn synced(&self) -> Lsn {
        self.synced.load(Ordering::Acquire)
    }

    /// Makes everything below `lsn` durable. Concurrent callers share one sync.
    ///
    /// # Errors
    /// The cause of the first failed sync, in that call and every later one, for any position.
    /// `InvalidArgument` for a position that has not been written yet.
    pub fn sync(&self, lsn: Lsn) -> Result<()> {
        if self.synced() >= lsn && !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.state.lock();
        loop {
            if let Some(e) = &state.cause {
                return Err(e.clone());
            }
            if self.synced() >= lsn {
                return Ok(());
            }
            if state.syncing {
                self.done.wait(&mut state);
                continue;
            }
            let target = self.appended.load(Ordering::Acquire);
            if lsn > target {
                return Err(Error::invalid(format!(
                    "position {lsn} is beyond the end of the log, {target}"
                )));
            }
            let files: Vec<_> =
                state.files.iter().filter(|f| f.base < target).map(|f| f.file.clone()).collect();
            state.syncing = true;
            drop(state);
            let result = Error::catch("a sync", || files.iter().try_for_each(|f| f.sync()));
            state = self.state.lock();
            state.syncing = false;
            match result {
                Ok(()) => {
                    self.synced.store(target, Ordering::Release);
                    let full = state.files.partition_point(|f| f.base <= target).saturating_sub(1);
                    state.files.drain(..full);
                }
                Err(e) => {
                    self.failed.store(true, Ordering::Release);
                    state.cause = Some(e.context(
                        "the write-ahead log could not be made durable; reopen the store",
                    ));
                }
            }
            self.done.notify_all();
        }
    }
}
