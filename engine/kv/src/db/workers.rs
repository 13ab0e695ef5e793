//! Background work: which thread does which job, and the same jobs done by the caller where there
//! are no threads.
//!
//! Invariants:
//! - Flushes go before compactions. With two or more threads the first only flushes; with one, a
//!   compaction stops for flushes as it goes. So a flush always finds someone to do it. Where small
//!   tables take the memory ([`DbInner::is_cluttered`]) all threads but the first compact before they
//!   flush: there is always something to be flushed there, and each flush would leave less memory
//!   to the next.
//! - The threads that compact give way to all others: a reader or writer has the processor first,
//!   then flushes, then compactions. Compactions that fall behind for it slow the writers
//!   (`pacing.rs`), so they catch up.
//! - A worker that meets an error latches the Db and goes on serving what can be served; it never
//!   ends the process. A panic, of a hook for example, is an error.
//! - Want of space, file descriptors or memory latches nothing: nothing has been installed, the
//!   memtable is still there, and the work is tried again after [`RETRY`]. Who waits for it gets
//!   the error instead of waiting for as long as the disk is full.
//! - No work that fails keeps other work from being tried: a tree whose flush lacks space not the
//!   flushes of others, and a log segment that can't be made ready not the flush that would free an
//!   old one.
//! - Without threads the work is done at the end of the write that made it necessary, in tree
//!   order: one history, one directory.
//! - A worker comes when there is something to do and leaves when there has been nothing for a
//!   while, so that a store that is small or at rest costs no thread. Whoever makes work, or lets
//!   time pass that will ([`DbInner::ages`]), finds it there or calls it ([`WorkerPoolHandle::call`]):
//!   who is there is changed under the lock of the signals, so a worker that leaves has seen the
//!   last one.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind};
use crate::env::start_thread;
use crate::wal::{Unneeded, Wal};

use super::state::core::DbInner;
use super::state::pins::nudge;
use super::state::work::WorkerPoolHandle;

/// How long a worker sleeps when nothing wakes it: bounds how late an age-driven job starts.
const IDLE: Duration = Duration::from_secs(1);
/// How often in turn a worker must find nothing to do before it leaves. What is held in reserve has
/// been given up by then.
const PATIENCE: u32 = 4;
/// Who writes more than so many bytes while a worker sleeps once fills memtables.
const SLOW: u64 = 1 << 20;
/// How long a worker waits before it tries again what lacked space.
const RETRY: Duration = Duration::from_millis(50);

impl DbInner {
    /// Lets workers come from now on, and calls them if there is something to do.
    pub fn allow_workers(self: &Arc<DbInner>) {
        let _ = self.me.set(Arc::downgrade(self));
        let crew: Arc<dyn WorkerPoolHandle> = self.clone();
        self.work.allow(Arc::downgrade(&crew));
        self.call_workers_to_flush();
        self.call_workers_for_any();
    }

    /// A worker could not be started. Those who wait for its work hear of it, and the next one to
    /// make work calls again.
    fn nobody_comes(&self, e: Error) {
        let ids = self.work.sealed();
        for t in ids.iter().filter_map(|id| self.trees.read().by_id(*id).cloned()) {
            t.put_off.lock().note(&e);
        }
        // What is wrong otherwise latches.
        let _ = self.put_off(e).map_err(|e| self.latch(e));
    }

    /// Leaves, unless there has been a signal since `seen`.
    fn leave(&self, i: usize, seen: u64) -> bool {
        let signals = self.work.hold();
        if signals.generation() != seen {
            return false;
        }
        let left = signals.leave(i);
        // Of several the first does not compact.
        if left & !u64::from(self.options.background_threads > 1) == 0 {
            self.opener.attend(false);
        }
        true
    }

    /// Lets the log give up what it holds in reserve, and goes without the memory that the next
    /// memtable would get, unless that is written to before long: to touch it anew would hold up
    /// writers by milliseconds for each of its huge pages, and take them from the cache by turns.
    pub(super) fn rest(&self) {
        let mut w = self.write.lock();
        let is_filled = w.log().is_some_and(|log| log.since_rest() > SLOW);
        let unneeded = w.log().map(Wal::rest);
        drop(w);
        // What cannot be removed now is removed after the next opening.
        let _ = unneeded.map(Unneeded::remove);
        // Tables that no reader holds any more, but that one held when they were replaced.
        nudge();
        self.opener.delete_obsolete_files();
        if !is_filled && self.arenas.trim() {
            self.memory.rebalance();
        }
    }

    /// A failure in the background: a full disk or a closing Db is met again by the next try,
    /// anything else latches. Whether to try again before long.
    fn failed(&self, e: Error) -> bool {
        if e.kind() == ErrorKind::Closed || self.gate.check_writable().is_err() {
            return false;
        }
        self.put_off(e).map_err(|e| self.latch(e)).is_ok()
    }

    /// The work of worker number `i`, until there has been none for a while.
    fn work_until_nothing(&self, i: usize, compacts: bool) {
        if compacts {
            self.opener.attend(true);
        }
        if compacts && self.options.background_threads > 1 {
            self.env.give_way();
        }
        let (mut seen, mut idle) = (0, 0);
        while !self.gate.is_closing() {
            match Error::catch("background work", || self.work_once(compacts)) {
                Ok(true) => {
                    idle = 0;
                    continue;
                }
                Ok(false) => {}
                Err(e) => {
                    if self.failed(e) {
                        self.env.sleep(RETRY);
                        continue;
                    }
                }
            }
            let mut signals = self.work.hold();
            let nothing =
                signals.generation() == seen && !self.gate.is_closing() && signals.wait_wake(IDLE);
            seen = signals.generation();
            drop(signals);
            idle = if nothing { idle + 1 } else { 0 };
            if nothing && i == 0 {
                self.rest();
            }
            if idle >= PATIENCE
                && !self.trees.read().iter().any(|t| self.ages(t))
                && self.leave(i, seen)
            {
                // What has died meanwhile.
                return self.opener.delete_obsolete_files();
            }
        }
    }
}

impl WorkerPoolHandle for DbInner {
    fn call(&self) {
        let n = self.options.background_threads;
        if self.has_all_workers() {
            return;
        }
        let Some(me) = self.work.crew() else { return };
        let mut threads = self.work.threads();
        threads.resize_with(n, || None);
        for (i, thread) in threads.iter_mut().enumerate() {
            if self.gate.is_closing() {
                return;
            }
            if self.work.hold().come(i) {
                continue;
            }
            // One that has left ends any moment.
            if let Some(gone) = thread.take() {
                gone.join();
            }
            let (core, compacts) = (me.clone(), i > 0 || n == 1);
            let serve = move || core.serve(i, compacts);
            match start_thread(&*self.env, &format!("firn-worker-{i}"), serve) {
                Ok(t) => *thread = Some(t),
                Err(e) => {
                    self.work.gone(i);
                    drop(threads);
                    return self.nobody_comes(e);
                }
            }
        }
    }

    fn serve(&self, i: usize, compacts: bool) {
        let served = Error::catch("a worker", || {
            self.work_until_nothing(i, compacts);
            Ok(())
        });
        if let Err(e) = served {
            self.latch(e);
            self.work.gone(i);
        }
    }
}
