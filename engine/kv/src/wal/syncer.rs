//! Durability of the log: group commit.
//!
//! Invariants: `synced` only grows, and only after every file with bytes below it has been synced;
//! at most one thread syncs at a time and covers everything appended when it began, so the others
//! wait for one sync at most beside their own; after a failure every call fails with the first
//! cause and nothing is synced again (W5), because the operating system may have dropped the very
//! pages that it failed to write.

use std::sync::Arc;

use super::Lsn;
use crate::base::error::{Error, Result};
use crate::base::stripe::CachePadded;
use crate::base::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, rank};
use crate::env::LogFile;

/// Makes the log durable up to a position. Shared by all writing threads; see
/// [`Wal::syncer`](super::Wal::syncer).
pub struct Syncer {
    /// Every writer moves it, and reads what lies beside it.
    appended: CachePadded<AtomicU64>,
    synced: AtomicU64,
    failed: AtomicBool,
    state: Mutex<SyncerState, rank::Unsynced>,
    done: Condvar,
}

debug_by!(Syncer, "Syncer");

struct SyncerState {
    /// Segments that may hold unsynced bytes, ascending.
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
    /// For a log that is durable up to `start` and goes on in a first segment.
    pub(super) fn new(start: Lsn) -> Syncer {
        Syncer {
            appended: CachePadded(AtomicU64::new(start)),
            synced: AtomicU64::new(start),
            failed: AtomicBool::new(false),
            state: Mutex::new(SyncerState { files: vec![], syncing: false, cause: None }),
            done: Condvar::new(),
        }
    }

    /// The log goes on in this file from `base` on. Called before anything is published beyond
    /// `base`.
    pub(super) fn add(&self, number: u64, base: Lsn, file: Arc<dyn LogFile>) {
        self.state.lock().files.push(Unsynced { number, base, file });
    }

    /// This segment is needed no more (W4).
    pub(super) fn forget(&self, number: u64) {
        self.state.lock().files.retain(|f| f.number != number);
    }

    /// The log is closed, and nothing is to be synced any more.
    pub(super) fn let_go(&self) {
        self.state.lock().files.clear();
    }

    /// Everything below `end` has been written.
    #[inline]
    pub(super) fn publish(&self, end: Lsn) {
        self.appended.store(end, Ordering::Release);
    }

    /// Position below which the log is durable.
    #[inline]
    pub fn synced(&self) -> Lsn {
        self.synced.load(Ordering::Acquire)
    }

    /// Returns when everything below `lsn` is durable. Threads that call at the same time share one
    /// sync.
    ///
    /// # Errors
    /// The cause of the first sync that failed: then, and on every later call, whatever the
    /// position. `InvalidArgument` for a position that has not been written yet.
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
                    "position {lsn} lies beyond the end of the log, {target}"
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
