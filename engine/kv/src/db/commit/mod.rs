//! Commit pipeline: write lock, log, sequence numbers, group commit.
//!
//! Invariants:
//! - All changes of log and sequence numbers happen under the write lock ([`WriteState`]).
//! - A sequence number becomes visible after all entries up to it are in their memtables.
//! - A failed sync leaves the state of the log unknown and makes the store read-only.

pub mod mem_handle;
pub mod probe_schedule;
pub mod write_state;

use std::sync::{Arc, OnceLock};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::Seq;
use crate::base::ops::TreeId;
use crate::base::visible_seq::VisibleSeq;
use crate::db::scheduler::gate::CloseGate;
use crate::util::sync::{Mutex, rank};
use crate::wal::{Lsn, Syncer, TornTail, Wal};

use mem_handle::MemHandle;
use write_state::{WriteState, Writing};

/// Log, sequence numbers and group commit of an open store.
pub struct CommitPipeline {
    gate: Arc<CloseGate>,
    write: Mutex<WriteState, rank::Write>,
    visible: VisibleSeq,
    /// Group commit; set when the store begins to write.
    syncer: OnceLock<Arc<Syncer>>,
    /// Random id of the log's writer; set when the store begins to write.
    writer_id: OnceLock<u64>,
    /// End of the log found by the opening, unless it was clean.
    torn: OnceLock<TornTail>,
}

impl CommitPipeline {
    /// Creates the pipeline of a store whose newest sequence number is `last_seq`. Its log has not
    /// been read yet.
    pub fn new(gate: Arc<CloseGate>, last_seq: Seq) -> CommitPipeline {
        CommitPipeline {
            gate,
            write: Mutex::new(WriteState::new(last_seq)),
            visible: VisibleSeq::new(last_seq),
            syncer: OnceLock::new(),
            writer_id: OnceLock::new(),
            torn: OnceLock::new(),
        }
    }

    /// Takes the write lock.
    #[inline]
    pub fn lock(&self) -> Writing<'_> {
        self.write.lock()
    }

    /// Takes the write lock if it is free.
    pub fn try_lock(&self) -> Option<Writing<'_>> {
        self.write.try_lock()
    }

    /// Returns the counter of visible sequence numbers.
    #[inline]
    pub fn visible(&self) -> &VisibleSeq {
        &self.visible
    }

    /// Returns the newest visible sequence number.
    #[inline]
    pub fn read_point(&self) -> Seq {
        self.visible.now()
    }

    /// Continues in a new log, which has no records yet.
    pub fn begin(&self, wal: Wal) {
        let _ = self.syncer.set(wal.syncer());
        let _ = self.writer_id.set(wal.writer().id);
        self.write.lock().begin(wal);
    }

    /// Returns the id of the log's writer; `None` before the store begins to write.
    pub fn writer_id(&self) -> Option<u64> {
        self.writer_id.get().copied()
    }

    /// Returns the damaged or incomplete end of the log that the opening found.
    pub fn torn(&self) -> Option<&TornTail> {
        self.torn.get()
    }

    /// Records the damaged or incomplete end of the log that the opening found.
    pub fn set_torn(&self, torn: TornTail) {
        let _ = self.torn.set(torn);
    }

    /// Classifies a failed append. An append that wrote nothing, for lack of space or system
    /// resources, can be retried; this happens only at the begin of a segment. After any other
    /// error the state of the log is unknown, and the store becomes read-only.
    pub fn append_failed(&self, e: Error) -> Error {
        let is_unwritten = e.is_transient() || e.kind() == ErrorKind::InvalidArgument;
        if is_unwritten { e } else { self.gate.fail(e) }
    }

    /// Makes the log durable up to its current end, and returns that position. The manifest may
    /// then name data that is newer than this position. So a power cut leaves a prefix of all
    /// writes, creations and drops of trees, without gaps.
    pub fn sync_log(&self) -> Result<Lsn> {
        self.gate.check_process()?;
        let end = self.write.lock().end();
        self.gate.check_writable()?;
        self.sync_to(end)?;
        Ok(end)
    }

    /// Returns the position below which no tree needs the log once these memtables are flushed. If
    /// subscriptions pin the log, the log below it is durable: recovery does not check it.
    pub fn durable_floor(&self, flushed: &[(TreeId, &MemHandle)]) -> Lsn {
        let mut w = self.lock();
        let floor = w.wal_floor(flushed);
        match w.log() {
            Some(wal) if wal.has_durable_holds() => floor.min(wal.syncer().synced()),
            _ => floor,
        }
    }

    /// Returns once the log is durable up to `lsn`. Makes all of it durable if a sync is needed.
    pub fn sync_beyond(&self, lsn: Lsn) -> Result<()> {
        if self.syncer.get().is_some_and(|s| s.synced() < lsn) {
            self.sync_log()?;
        }
        Ok(())
    }

    /// Returns when the log is durable up to `lsn`.
    pub fn sync_to(&self, lsn: Lsn) -> Result<()> {
        self.syncer.get().map_or(Ok(()), |s| s.sync(lsn)).map_err(|e| self.gate.fail(e))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::db::observe::events::Events;
    use crate::env::Env;
    use crate::env::mem::MemEnv;

    fn pipeline() -> CommitPipeline {
        let env: Arc<dyn Env> = Arc::new(MemEnv::plain());
        let events = Arc::new(Events::open(env.clone(), Path::new("/"), false, None));
        CommitPipeline::new(Arc::new(CloseGate::new(env, events, Arc::default())), 7)
    }

    #[test]
    fn before_the_first_write_there_is_no_log_and_nothing_to_sync() {
        let commit = pipeline();
        assert_eq!((commit.read_point(), commit.writer_id()), (7, None));
        assert!(!commit.lock().has_begun() && commit.torn().is_none());
        assert_eq!(commit.sync_log().unwrap(), 0);
        commit.sync_to(u64::MAX).unwrap();
        let held = commit.lock();
        assert!(commit.try_lock().is_none());
        drop(held);
        assert!(commit.try_lock().is_some());
    }

    #[test]
    fn an_append_that_wrote_nothing_can_be_retried() {
        let commit = pipeline();
        for kind in [ErrorKind::NoSpace, ErrorKind::Exhausted, ErrorKind::InvalidArgument] {
            assert_eq!(commit.append_failed(Error::new(kind, "no")).kind(), kind);
            commit.gate.check_writable().unwrap();
        }
        commit.append_failed(Error::new(ErrorKind::Io, "lost"));
        let refused = commit.sync_log().unwrap_err();
        assert!(refused.to_string().contains("lost"), "{refused}");
    }
}
