//! Assigns background work to threads, or to the caller if there are no threads.
//!
//! Invariants:
//! - Flushes go before compactions. With two or more threads the first only flushes. With one, a
//!   compaction pauses for flushes. So there is always a thread for a flush. If small tables use
//!   too much memory ([`crate::db::jobs::background::has_too_many_small_tables`]), all threads but
//!   the first compact before they flush. In this state there is always a memtable to flush, and
//!   each flush would leave less memory to the next.
//! - Threads that compact have low priority: readers and writers get the processor first, then
//!   flushes, then compactions. If compactions fall behind, writers are
//!   [slowed](crate::db::write::slowdown), so that they catch up.
//! - A worker that gets an error makes the Db read-only, which ends background work. It never
//!   ends the process. A panic, of a hook for example, is an error.
//! - Lack of space, file descriptors or memory leaves the store writable. Nothing has been
//!   installed, the memtable still exists, and the work is retried after [`RETRY`]. A thread that
//!   waits for the work gets the error instead of waiting while the disk is full.
//! - Failed work does not block other work. A tree whose flush lacks space does not block flushes
//!   of other trees. A log segment that cannot be prepared does not block a flush that would free
//!   an old one.
//! - Without threads the work is done at the end of the write that made it necessary, in tree
//!   order: equal histories give equal directories.
//! - A worker starts when there is work, and exits after a while without any. So a small or idle
//!   store has no thread. Code that creates work, or changes a tree so that time will create some
//!   ([`crate::db::jobs::pick::can_age`]), finds a running worker or calls one
//!   ([`WorkerPoolHandle::start_missing`]). The set of workers changes under the lock of the
//!   signals, so an exiting worker has seen the last signal.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind};
use crate::db::commit::CommitPipeline;
use crate::db::jobs::background;
use crate::db::jobs::pick;
use crate::db::memory::budget::MemoryManager;
use crate::db::scheduler::Scheduler;
use crate::db::scheduler::gate::CloseGate;
use crate::db::versions::VersionSet;
use crate::env::start_thread;
use crate::wal::{Unneeded, Wal};

use crate::db::inner::DbInner;
use crate::db::observe::pins::advance_epoch;
use crate::db::scheduler::queue::WorkerPoolHandle;

/// Longest sleep of a worker without a signal. It bounds the delay of an age-driven job.
const IDLE: Duration = Duration::from_secs(1);
/// Number of consecutive idle rounds before a worker exits. Its reserves have been released by
/// then.
const PATIENCE: u32 = 4;
/// Bytes of log written during one sleep of a worker from which memtables count as being filled.
const SLOW: u64 = 1 << 20;
/// Delay before a worker retries work that lacked space.
const RETRY: Duration = Duration::from_millis(50);

/// Allows workers to start, and calls them if there is work.
pub fn allow_workers(db: &Arc<DbInner>) {
    let _ = db.me.set(Arc::downgrade(db));
    let pool: Arc<dyn WorkerPoolHandle> = db.clone();
    db.scheduler.queue().set_pool(Arc::downgrade(&pool));
    db.call_workers_to_flush();
    pick::call_workers_for_any(db);
}

/// Handles a worker that could not be started. Threads that wait for its work get the error,
/// and the next creation of work calls again.
fn worker_failed_to_start(db: &DbInner, e: Error) {
    let ids = db.scheduler.queue().sealed();
    for t in ids.iter().filter_map(|id| db.versions.tree(*id)) {
        t.postponed.lock().note(&e);
    }
    // Any other error makes the store read-only.
    let _ = db.gate.postpone(e).map_err(|e| db.gate.fail(e));
}

/// Exits the worker, unless there has been a signal since `seen`.
fn exit_worker(scheduler: &Scheduler, versions: &VersionSet, i: usize, seen: u64) -> bool {
    let signals = scheduler.queue().hold();
    if signals.generation() != seen {
        return false;
    }
    let left = signals.mark_exited(i);
    // With several workers, the first does not compact.
    if left & !u64::from(scheduler.workers() > 1) == 0 {
        versions.opener().set_background_deletion(false);
    }
    true
}

/// Releases the log's spare segments. If few writes arrive, it also releases the memory for the
/// next memtable. While memtables are being filled that memory stays: touching it again would
/// delay writers by milliseconds for each huge page, and would take pages from the cache
/// repeatedly.
pub fn release_spare_memory(
    commit: &CommitPipeline,
    versions: &VersionSet,
    memory: &MemoryManager,
) {
    let mut w = commit.lock();
    let is_filled = w.log().is_some_and(|log| log.since_rest() > SLOW);
    let unneeded = w.log().map(Wal::rest);
    drop(w);
    // Segments that cannot be removed now are removed after the next opening.
    let _ = unneeded.map(Unneeded::remove);
    // Removes tables that a reader held when they were replaced, and that no reader holds any
    // more.
    advance_epoch();
    versions.opener().delete_obsolete_files();
    if !is_filled && memory.arenas().trim() {
        memory.rebalance();
    }
}

/// Handles a failure in the background. A full disk is retried and a closing Db is ignored; any
/// other error makes the store read-only. Reports whether to retry soon.
fn job_failed(gate: &CloseGate, e: Error) -> bool {
    if e.kind() == ErrorKind::Closed || gate.check_writable().is_err() {
        return false;
    }
    gate.postpone(e).map_err(|e| gate.fail(e)).is_ok()
}

/// Runs worker number `i`, until there has been no work for a while.
fn serve(db: &DbInner, i: usize, compacts: bool) {
    if compacts {
        db.versions.opener().set_background_deletion(true);
    }
    if compacts && db.scheduler.workers() > 1 {
        db.env.lower_priority();
    }
    let (mut seen, mut idle) = (0, 0);
    while !db.gate.is_closing() {
        match Error::catch("background work", || background::work_once(db, compacts)) {
            Ok(true) => {
                idle = 0;
                continue;
            }
            Ok(false) => {}
            Err(e) => {
                if job_failed(&db.gate, e) {
                    db.env.sleep(RETRY);
                    continue;
                }
            }
        }
        let mut signals = db.scheduler.queue().hold();
        let nothing =
            signals.generation() == seen && !db.gate.is_closing() && signals.wait_wake(IDLE);
        seen = signals.generation();
        drop(signals);
        idle = if nothing { idle + 1 } else { 0 };
        if nothing && i == 0 {
            release_spare_memory(&db.commit, &db.versions, &db.memory);
        }
        if idle >= PATIENCE
            && !db.versions.trees().iter().any(|t| pick::can_age(db, t))
            && exit_worker(&db.scheduler, &db.versions, i, seen)
        {
            // Removes the files that became obsolete in the meantime.
            return db.versions.opener().delete_obsolete_files();
        }
    }
}

impl WorkerPoolHandle for DbInner {
    fn start_missing(&self) {
        let n = self.scheduler.workers();
        if self.scheduler.has_all_workers() {
            return;
        }
        let Some(me) = self.scheduler.queue().pool() else { return };
        let mut threads = self.scheduler.queue().threads();
        threads.resize_with(n, || None);
        for (i, thread) in threads.iter_mut().enumerate() {
            if self.gate.is_closing() {
                return;
            }
            if self.scheduler.queue().hold().mark_running(i) {
                continue;
            }
            // A worker that has left exits at any moment.
            if let Some(gone) = thread.take() {
                gone.join();
            }
            let (inner, compacts) = (me.clone(), i > 0 || n == 1);
            let serve = move || inner.run_worker(i, compacts);
            match start_thread(&*self.env, &format!("firn-worker-{i}"), serve) {
                Ok(t) => *thread = Some(t),
                Err(e) => {
                    self.scheduler.queue().hold().mark_exited(i);
                    drop(threads);
                    return worker_failed_to_start(self, e);
                }
            }
        }
    }

    fn run_worker(&self, i: usize, compacts: bool) {
        let served = Error::catch("a worker", || {
            serve(self, i, compacts);
            Ok(())
        });
        if let Err(e) = served {
            self.gate.fail(e);
            self.scheduler.queue().hold().mark_exited(i);
        }
    }
}
