//! Closes a store: waits until no thread writes to its files, and lets no thread begin.
//!
//! Invariants:
//! - C1: a thread that writes files without the lock of log or catalogue (a flush, a job, an
//!   ingestion, a checkpoint) holds a [`WritePermit`](crate::db::scheduler::gate::WritePermit). No
//!   permit is issued once the store is closing.
//! - C2: after all permits are returned, the log and the manifest are taken under their locks, and
//!   the store is marked as closed. Only then is the lock of the directory released. So this Db
//!   writes nothing once another one may own the store.
//! - C3: no file is removed afterwards ([`TableOpener`](crate::iterator::opener::TableOpener)).
//!   Files read by name later are verified by their identity, so tables of another opening are
//!   never taken for this one's.

use std::time::Duration;

use crate::base::error::Result;
use crate::db::write::{durable, slowdown};
use crate::wal::Wal;

use crate::db::inner::DbInner;
use crate::db::observe::pins::advance_epoch;

/// Longest wait for permits before the state is checked again.
const LOOK: Duration = Duration::from_millis(50);

pub fn close_store(db: &DbInner) -> Result<()> {
    db.gate.begin_closing();
    db.scheduler.queue().signal();
    db.scheduler.queue().signal_done();
    // No thread calls a worker once the store is closing.
    let threads = std::mem::take(&mut *db.scheduler.queue().threads());
    threads.into_iter().flatten().for_each(|t| t.join());
    {
        let mut signals = db.scheduler.queue().hold();
        while db.gate.has_permits() {
            signals.wait_done(LOOK);
        }
    }
    // Releases replaced views: after this, no code removes the tables that they hold.
    advance_epoch();
    db.versions.opener().delete_obsolete_files();
    let (acknowledged, read_only_error, wal) = {
        let mut c = db.versions.lock_catalog();
        let acknowledged = durable::log_subscriptions(db, &mut c);
        let mut w = db.commit.lock();
        // Checked under the lock of the manifest: a cleanly closed log states that the
        // durability of every frame is known.
        let read_only_error = if db.options.read_only { Ok(()) } else { db.gate.check_writable() };
        db.gate.set_closed();
        db.memory.leave();
        // Other handles may continue to use a reader's open tables ([`Db::refresh`]); a reader
        // never removes a file.
        if !db.options.read_only {
            db.versions.opener().close();
        }
        db.gate.refuse_writes();
        c.close();
        for t in db.versions.trees().iter() {
            t.mark_closed();
            // Returns the budget to other Dbs that share it. The memory itself is freed with
            // the last handle.
            t.view.load_full().memtables().for_each(|m| db.memory.release(m));
        }
        (acknowledged, read_only_error, w.take_log())
    };
    // After a failure the contents of log and manifest are unknown. They are left as they are:
    // the log without its last mark.
    let ended = read_only_error.and_then(|()| wal.map_or(Ok(()), Wal::close));
    slowdown::end_slowdowns(db);
    db.observer.events().close();
    db.scheduler.queue().signal_done();
    // Another Db that requests memory of this one may hold a reference for a moment longer.
    db.versions.unlock_directory();
    ended.and(acknowledged)
}
