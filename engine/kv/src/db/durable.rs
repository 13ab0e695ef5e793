//! What is made durable: edits of the catalogue, the log up to a position, and before both the
//! first step of a Db that begins to write.
//!
//! Invariant: a Db has a log from its first manifest on, so that a log that is missing later is
//! known to be lost.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::identity::{LogWriter, writer_of};
use crate::manifest::{Edit, ManifestState};
use crate::wal::{Lsn, RecoveredLog, Wal};

use super::state::catalog::TreeCatalog;
use super::state::core::DbInner;
use super::state::gate::closed;

impl DbInner {
    /// Writes edits as one atomic group, with the counters of the moment. On failure nothing has
    /// changed in memory. Where only space or the like was missing, or the manifest would become
    /// too long, nothing counts; otherwise nobody can know what reached the file, and the Db is
    /// latched.
    pub fn log_edits(&self, c: &mut TreeCatalog, edits: Vec<Edit>) -> Result<()> {
        self.make_manifest_ready(c)?;
        c.log_edits(edits, self.visible.now()).map_err(|e| self.latch_failed_edit(e))
    }

    /// Makes sure that the next edits go into the manifest that there is: a new one would be begun
    /// with the state as it is. Whoever changes a part of the state ahead of the edits that belong
    /// to it asks for this first.
    pub fn make_manifest_ready(&self, c: &mut TreeCatalog) -> Result<()> {
        if c.is_replaying() {
            return Ok(());
        }
        self.begin_writing(c)?;
        c.renew_if_torn().map_err(|e| self.latch_failed_edit(e))
    }

    /// Begins to write, if that has not been done: a log segment of the Db's own, then the manifest
    /// gets to know its writer: another one is begun, or the one that is there is gone on with
    /// ([`CleanEnd`](crate::manifest::CleanEnd)). A store that was closed cleanly and has no
    /// garbage is opened without: until something is written to it, it stays as it is.
    pub fn begin_writing(&self, c: &mut TreeCatalog) -> Result<()> {
        self.check_process()?;
        self.gate.check_writable()?;
        if c.has_begun() {
            return Ok(());
        }
        let found = self.write.lock().found().cloned();
        let Some(found) = found else { return Err(closed()) };
        // The log first: a Db has one from its first manifest on, so that a log that is missing
        // later is known to be lost.
        let mut wal =
            Wal::create(self.env.clone(), &self.dir, self.store, &found, self.options.wal_segment)
                .map_err(|e| if e.is_transient() { e } else { self.latch(e) })?;
        let work = self.work.clone();
        wal.call_when_it_grows(Box::new(move || work.call()));
        // Where this fails the segment has no record, and another try takes its place.
        let writers = writers_from_now_on(c.state(), &found, &wal);
        c.begin(Edit::LogWriters { writers }, self.visible.now())
            .map_err(|e| self.latch_failed_edit(e))?;
        let _ = self.syncer.set(wal.syncer());
        let _ = self.log_writer.set(wal.writer().id);
        self.write.lock().begin(wal);
        Ok(())
    }

    /// A failed append that wrote nothing, for want of space or of what the system has to give, can
    /// be tried again: that is met only where a segment begins. After anything else the log's state
    /// is unknown.
    pub fn log_failed(&self, e: Error) -> Error {
        if e.is_transient() || e.kind() == ErrorKind::InvalidArgument { e } else { self.latch(e) }
    }

    /// Makes the log durable up to its present end, and gives that. The manifest may name what is
    /// newer than that only: so that a power cut leaves what some first writes, creations and drops
    /// of trees have made, with nothing missing between.
    pub fn sync_log(&self) -> Result<Lsn> {
        self.check_process()?;
        let end = self.write.lock().end();
        self.gate.check_writable()?;
        self.sync_to(end)?;
        Ok(end)
    }

    /// Returns when the log is durable up to `lsn`.
    pub fn sync_to(&self, lsn: Lsn) -> Result<()> {
        self.syncer.get().map_or(Ok(()), |s| s.sync(lsn)).map_err(|e| self.latch(e))
    }
}

/// The writers of the segments that are there, the new one with them.
fn writers_from_now_on(state: &ManifestState, log: &RecoveredLog, wal: &Wal) -> Vec<LogWriter> {
    let mut writers: Vec<LogWriter> = vec![];
    for s in &log.segments {
        writers.extend(writer_of(&state.writers, s.number).filter(|w| writers.last() != Some(w)));
    }
    writers.push(wal.writer());
    writers
}
