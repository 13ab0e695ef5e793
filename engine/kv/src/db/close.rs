//! Closing: it waits until no thread writes to the store's files, and lets no other begin.
//!
//! Invariants:
//! - C1: who writes files without the lock of log or catalogue (a flush, a job, an ingestion, a
//!   checkpoint) holds a [`WritePermit`](super::state::gate::WritePermit) meanwhile. None is given once
//!   the store is closing.
//! - C2: when all passes are back, the log and the manifest are taken away under their locks, and
//!   the latch says that the store is closed. Only then the lock of the directory is given up. So
//!   nothing of this Db is written once another one may have the store.
//! - C3: a file is removed afterwards by nobody ([`TableOpener`](crate::merge::run::TableOpener)),
//!   and what is read under a name then is known by its identity: tables of another opening are
//!   never taken for this one's.

use std::time::Duration;

use crate::base::error::Result;
use crate::wal::Wal;

use super::state::core::DbInner;
use super::state::pins::nudge;

/// How long who waits for passes sleeps at most.
const LOOK: Duration = Duration::from_millis(50);

impl DbInner {
    pub fn close(&self) -> Result<()> {
        self.gate.begin_closing();
        self.work.signal();
        self.work.signal_done();
        // Nobody calls another one once the store is closing.
        let threads = std::mem::take(&mut *self.work.threads());
        threads.into_iter().flatten().for_each(|t| t.join());
        {
            let mut signals = self.work.hold();
            while self.gate.is_passed() {
                signals.wait_done(LOOK);
            }
        }
        // Views that were replaced hold tables that nobody removes after this.
        nudge();
        self.opener.delete_obsolete_files();
        let (latched, wal) = {
            let mut c = self.catalog.lock();
            let mut w = self.write.lock();
            // Asked under the lock of the manifest: a log that is closed says that of no frame it
            // is unknown whether it is durable.
            let latched = if self.options.read_only { Ok(()) } else { self.gate.check_writable() };
            self.gate.set_closed();
            self.memory.leave();
            // Of what a reader has opened other handles may go on ([`Db::refresh`]); it never
            // removes a file.
            if !self.options.read_only {
                self.opener.close();
            }
            self.gate.refuse_writes();
            c.close();
            for t in self.trees.read().iter() {
                t.mark_closed();
                // Other Dbs that share the budget get it; the memory itself goes with the last
                // handle.
                t.view.load_full().memtables().for_each(|m| self.memory.release(m));
            }
            (latched, w.take_log())
        };
        // With a failure behind it nobody knows what log and manifest hold, and they are left as
        // they are: the log without its last mark.
        let ended = latched.and_then(|()| wal.map_or(Ok(()), Wal::close));
        self.end_pacing();
        self.events.close();
        self.work.signal_done();
        // Another Db that wants memory of this one may hold on to it for a moment longer.
        drop(self.lock.lock().take());
        ended
    }
}
