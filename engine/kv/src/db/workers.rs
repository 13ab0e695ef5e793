//! Background work: which thread does what, and the same work done by the caller where there are no threads.
//!
//! Invariants:
//! - Flushes go before compactions. With two or more threads the first only flushes; with one, a compaction stops for flushes as
//!   it goes. So a flush always finds someone to do it.
//! - The threads that compact give way to all others: a reader or writer has the processor first, then flushes, then compactions.
//!   Compactions that fall behind for it slow the writers (`pace.rs`), so they catch up.
//! - A worker that meets an error latches the Db and goes on serving what can be served; it never ends the process.
//! - Without threads the work is done at the end of the write that made it necessary, in tree order: one history, one directory.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::env::Thread;

use super::core::Core;

/// How long a worker sleeps when nothing wakes it: bounds how late an age-driven job starts.
const IDLE: Duration = Duration::from_secs(1);

impl Core {
    /// Starts the background threads.
    pub fn start_workers(self: &Arc<Core>) -> Result<Vec<Box<dyn Thread>>> {
        let n = self.options.background_threads;
        let mut threads = vec![];
        for i in 0..n {
            let core = self.clone();
            let compacts = i > 0 || n == 1;
            threads.push(self.env.spawn(&format!("firn-worker-{i}"), Box::new(move || core.serve(compacts)))?);
        }
        Ok(threads)
    }

    fn serve(&self, compacts: bool) {
        if compacts && self.options.background_threads > 1 {
            self.env.give_way();
        }
        let mut seen = 0;
        while !self.is_closing() {
            match self.work_once(compacts) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(e) => self.failed(e),
            }
            let mut g = self.work.generation.lock();
            if *g == seen && !self.is_closing() {
                self.work.wake.wait_for(&mut g, IDLE);
            }
            seen = *g;
        }
    }

    /// A failure in the background: a full disk or a closing Db is met again by the next try, anything else latches.
    fn failed(&self, e: Error) {
        if e.kind() == ErrorKind::Closed || self.check_writable().is_err() {
            return;
        }
        if e.kind() == ErrorKind::NoSpace {
            self.events.note("no space", |o| {
                o.str("error", &e.to_string());
            });
            self.signal_done();
            return;
        }
        self.latch(e);
    }

    /// Does one piece of work. False when there is none.
    fn work_once(&self, compacts: bool) -> Result<bool> {
        // To remove a large file takes tens of milliseconds, which no flush should wait for.
        if compacts {
            self.opener.bury();
        }
        if self.check_writable().is_err() {
            return Ok(false);
        }
        let prepare = self.write.lock().wal.as_mut().and_then(|w| w.prepare_next());
        if let Some(job) = prepare {
            job.run()?;
        }
        if self.flush_some()? {
            self.signal_work();
            return Ok(true);
        }
        Ok(compacts && self.compact_once()?)
    }

    /// Flushes one memtable of some tree. False when none is sealed.
    fn flush_some(&self) -> Result<bool> {
        let trees = self.trees.read().clone();
        for t in trees {
            if t.view.load_full().sealed.is_empty() {
                continue;
            }
            // Another worker at this tree flushes its memtables in order; this one looks for other work.
            if let Some(one) = t.flushing.try_lock()
                && self.flush_oldest_locked(&t, &one)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs the most urgent compaction of all trees. False when nothing wants to run.
    fn compact_once(&self) -> Result<bool> {
        let trees = self.trees.read().clone();
        let mut order: Vec<_> = trees.iter().map(|t| (self.pressure(t), t)).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, t) in order {
            let Some(claimed) = self.claim(t)? else { continue };
            let alone = self.options.background_threads == 1;
            self.run_job(&claimed, &mut || {
                if alone {
                    while self.flush_some()? {}
                }
                Ok(())
            })?;
            self.signal_work();
            return Ok(true);
        }
        Ok(false)
    }

    /// Does all work there is, on the calling thread.
    pub fn work_inline(&self) -> Result<()> {
        while self.flush_some()? || self.compact_once()? {}
        Ok(())
    }

    /// Waits until the workers have done something since `generation`, or a while.
    pub fn wait_for_change(&self, generation: u64) -> Result<()> {
        self.check_writable()?;
        if self.options.background_threads == 0 {
            return self.work_inline();
        }
        let mut g = self.work.generation.lock();
        if *g == generation {
            self.work.done.wait_for(&mut g, Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until no memtable is sealed and no policy wants a compaction.
    pub fn wait_idle(&self) -> Result<()> {
        loop {
            self.check_writable()?;
            let generation = *self.work.generation.lock();
            let trees = self.trees.read().clone();
            let flushing = trees.iter().any(|t| !t.view.load_full().sealed.is_empty());
            if !flushing && !trees.iter().any(|t| self.is_compacting_or_wants(t)) {
                self.opener.bury();
                return Ok(());
            }
            self.signal_work();
            self.wait_for_change(generation)?;
        }
    }

    /// Whether a job runs anywhere or this tree wants one. Both are asked under the lock under which jobs are claimed: a job that is
    /// taken in between would be neither.
    fn is_compacting_or_wants(&self, t: &super::tree::TreeCore) -> bool {
        let files = t.files.lock();
        let view = t.view.load_full();
        let wants = || {
            let shape = self.shape(&view.version, &view.options, &files);
            !t.is_dropped() && t.is_hooked() && crate::compaction::pick(&view.options.policy, &shape).is_some()
        };
        self.work.compacting.load(Ordering::Relaxed) > 0 || wants()
    }
}
