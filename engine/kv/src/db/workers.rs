//! Background work: which thread does which job, and the same jobs done by the caller where there
//! are no threads.
//!
//! Invariants:
//! - Flushes go before compactions. With two or more threads the first only flushes; with one, a
//!   compaction stops for flushes as it goes. So a flush always finds someone to do it. Where small
//!   tables take the memory ([`Core::is_cluttered`]) all threads but the first compact before they
//!   flush: there is always something to be flushed there, and each flush would leave less memory
//!   to the next.
//! - The threads that compact give way to all others: a reader or writer has the processor first,
//!   then flushes, then compactions. Compactions that fall behind for it slow the writers
//!   (`pace.rs`), so they catch up.
//! - A worker that meets an error latches the Db and goes on serving what can be served; it never
//!   ends the process.
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
//!   time pass that will ([`Core::ages`]), finds it there or calls it ([`Core::call_workers`]):
//!   `present` is read and changed under the lock of `generation`, so a worker that leaves has seen
//!   the last signal.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::events::Event;
use crate::base::ops::TreeId;
use crate::base::sync::Ordering;
use crate::wal::{Unneeded, Wal};

use super::core::Core;
use super::tree::{TreeCore, TreeFiles};

/// How long a worker sleeps when nothing wakes it: bounds how late an age-driven job starts.
const IDLE: Duration = Duration::from_secs(1);
/// How often in turn a worker must find nothing to do before it leaves. What is held in reserve has
/// been given up by then.
const PATIENCE: u32 = 4;
/// So many trees are all asked for work each time.
const FEW: usize = 16;
/// Memtables of so many bytes at most are flushed with others, so many at most, and not more than a
/// sixteenth of the memory.
const SMALL: usize = 256 << 10;
const TOGETHER: usize = 64;
/// How long a worker waits before it tries again what lacked space.
const RETRY: Duration = Duration::from_millis(50);

/// What came of work on a tree; nothing is wrong when the tree has been dropped meanwhile: whoever
/// did the work may be a writer of another tree, whose own write has been done.
fn unless_dropped(tree: &TreeCore, done: Result<bool>) -> Result<bool> {
    match done {
        Err(e) if e.kind() == ErrorKind::Closed && tree.is_dropped() => Ok(true),
        done => done,
    }
}

impl Core {
    /// Lets workers come from now on, and calls them if there is something to do.
    pub fn allow_workers(self: &Arc<Core>) {
        let _ = self.work.me.set(Arc::downgrade(self));
        self.call_workers_to_flush();
        self.call_workers_for_any();
    }

    /// Whether all workers are there that may be.
    pub fn has_all_workers(&self) -> bool {
        let n = self.options.background_threads as u32;
        self.options.read_only || self.work.present.load(Ordering::Relaxed).count_ones() == n
    }

    /// Calls the workers that are not there. May be called under any lock.
    pub fn call_workers(&self) {
        let n = self.options.background_threads;
        if self.has_all_workers() {
            return;
        }
        let Some(me) = self.work.me.get().and_then(Weak::upgrade) else { return };
        let mut threads = self.work.threads.lock();
        threads.resize_with(n, || None);
        for (i, thread) in threads.iter_mut().enumerate() {
            if self.is_closing() {
                return;
            }
            let is_there = {
                let _order = self.work.generation.lock();
                self.work.present.fetch_or(1 << i, Ordering::Relaxed) & 1 << i != 0
            };
            if is_there {
                continue;
            }
            // One that has left ends any moment.
            if let Some(gone) = thread.take() {
                gone.join();
            }
            let (core, compacts) = (me.clone(), i > 0 || n == 1);
            match self
                .env
                .spawn(&format!("firn-worker-{i}"), Box::new(move || core.serve(i, compacts)))
            {
                Ok(t) => *thread = Some(t),
                Err(e) => {
                    self.work.present.fetch_and(!(1 << i), Ordering::Relaxed);
                    drop(threads);
                    return self.nobody_comes(e);
                }
            }
        }
    }

    /// Calls workers where a memtable waits for its flush. May be called under any lock.
    pub fn call_workers_to_flush(&self) {
        if !self.has_all_workers() && self.is_flush_due() {
            self.call_workers();
        }
    }

    /// Calls workers where one of these trees wants a compaction or will want one when time has
    /// passed. Takes locks of trees.
    pub fn call_workers_for<'t>(&self, trees: impl IntoIterator<Item = &'t TreeCore>) {
        let is_due = |t: &TreeCore| self.ages(t) || self.wants(t);
        if !self.has_all_workers() && trees.into_iter().any(is_due) {
            self.call_workers();
        }
    }

    /// The same for all trees.
    pub fn call_workers_for_any(&self) {
        if !self.has_all_workers() {
            let trees = self.trees.read().to_vec();
            self.call_workers_for(trees.iter().map(|t| &**t));
        }
    }

    fn is_flush_due(&self) -> bool {
        let ids: Vec<TreeId> = self.work.sealed.lock().iter().copied().collect();
        let trees = self.trees.read();
        ids.iter().filter_map(|id| trees.by_id(*id)).any(|t| !t.view.load_full().sealed.is_empty())
    }

    /// Whether time alone can make this tree want a compaction.
    fn ages(&self, tree: &TreeCore) -> bool {
        let view = tree.view.load_full();
        let o = &view.options;
        (o.policy.ages() || o.tombstone_age_secs > 0 || o.purge.is_some())
            && !view.version.runs.is_empty()
    }

    /// A worker could not be started. Those who wait for its work hear of it, and the next one to
    /// make work calls again.
    fn nobody_comes(&self, e: Error) {
        let ids: Vec<TreeId> = self.work.sealed.lock().iter().copied().collect();
        for t in ids.iter().filter_map(|id| self.trees.read().by_id(*id).cloned()) {
            t.put_off.lock().note(&e);
        }
        // What is wrong otherwise latches.
        let _ = self.put_off(e).map_err(|e| self.latch(e));
    }

    /// Leaves, unless there has been a signal since `seen`.
    fn leave(&self, i: usize, seen: u64) -> bool {
        let generation = self.work.generation.lock();
        if *generation != seen {
            return false;
        }
        let left = self.work.present.fetch_and(!(1 << i), Ordering::Relaxed) & !(1 << i);
        // Of several the first does not compact.
        if left & !u64::from(self.options.background_threads > 1) == 0 {
            self.opener.attend(false);
        }
        self.work.done.notify_all();
        true
    }

    fn serve(&self, i: usize, compacts: bool) {
        if compacts {
            self.opener.attend(true);
        }
        if compacts && self.options.background_threads > 1 {
            self.env.give_way();
        }
        let (mut seen, mut idle) = (0, 0);
        while !self.is_closing() {
            match self.work_once(compacts) {
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
            let mut g = self.work.generation.lock();
            let nothing = *g == seen && !self.is_closing() && self.work.wake.wait_for(&mut g, IDLE);
            seen = *g;
            drop(g);
            idle = if nothing { idle + 1 } else { 0 };
            if nothing && i == 0 {
                self.rest(Wal::rest);
            }
            if idle >= PATIENCE
                && !self.trees.read().iter().any(|t| self.ages(t))
                && self.leave(i, seen)
            {
                // What has died meanwhile.
                return self.opener.bury();
            }
        }
    }

    /// Lets the log give up what it holds in reserve, and goes without the memory that the next
    /// memtable would get.
    pub(super) fn rest(&self, rest: impl FnOnce(&mut Wal) -> Unneeded) {
        let unneeded = self.write.lock().wal.as_mut().map(rest);
        // What cannot be removed now is removed after the next opening.
        let _ = unneeded.map(Unneeded::remove);
        if self.arenas.trim() {
            self.rebalance();
        }
    }

    /// A failure in the background: a full disk or a closing Db is met again by the next try,
    /// anything else latches. Whether to try again before long.
    fn failed(&self, e: Error) -> bool {
        if e.kind() == ErrorKind::Closed || self.check_writable().is_err() {
            return false;
        }
        self.put_off(e).map_err(|e| self.latch(e)).is_ok()
    }

    /// Takes note of work that could not be done for want of space or other resources, and tells
    /// those who wait for it. Any other error is handed on.
    pub fn put_off(&self, e: Error) -> Result<()> {
        if !e.is_transient() {
            return Err(e);
        }
        self.check_writable()?;
        if self.work.put_off.lock().note(&e) {
            self.events.note(|| Event::PutOff { error: e.clone() });
        }
        self.signal_done();
        Ok(())
    }

    /// Does one piece of work. False when there is none.
    pub(super) fn work_once(&self, compacts: bool) -> Result<bool> {
        // To remove a large file takes tens of milliseconds, which no flush should wait for.
        if compacts {
            self.opener.bury();
        }
        if self.check_writable().is_err() {
            return Ok(false);
        }
        let prepare = self.write.lock().wal.as_mut().and_then(|w| w.prepare_next());
        let prepared = prepare.map_or(Ok(()), |job| job.run(&|| self.is_closing()));
        if prepared.as_ref().is_err_and(|e| !e.is_transient()) {
            return prepared.map(|()| false);
        }
        let compacts_first =
            compacts && self.options.background_threads != 1 && self.is_cluttered();
        let compacted = if compacts_first { self.compact_once() } else { Ok(false) };
        if compacted.as_ref().map_or_else(|e| !e.is_transient(), |&any| any) {
            return compacted;
        }
        if self.flush_some()? {
            self.signal_work();
            return Ok(true);
        }
        if compacted? || (compacts && !compacts_first && self.compact_once()?) {
            return Ok(true);
        }
        prepared.map(|()| false)
    }

    /// Whether small tables take more than an eighth of the memory by being there. (Of large ones a
    /// store may have as many.)
    fn is_cluttered(&self) -> bool {
        self.opener.are_small() && self.opener.of_handles() > self.memory.part() / 8
    }

    /// Flushes one memtable of some tree, or small ones of several. False when none is sealed.
    pub fn flush_some(&self) -> Result<bool> {
        if self.is_closing() {
            return Ok(false);
        }
        self.make_way()?;
        let due = self.due();
        let (mut at, mut lacking) = (0, None);
        while at < due.len() {
            let (mut group, mut bytes) = (vec![], 0);
            while let Some(t) = due.get(at) {
                let size = t.view.load_full().sealed.last().map_or(0, |m| m.mem.used());
                let is_small = size <= SMALL;
                bytes += size as u64;
                if !group.is_empty()
                    && (!is_small || group.len() == TOGETHER || bytes > self.memory.bytes() / 16)
                {
                    break;
                }
                at += 1;
                // Another worker at this tree flushes its memtables in order; this one looks for
                // other work.
                group.extend(t.flushing.try_lock().map(|one| (&**t, one)));
                if !is_small {
                    break;
                }
            }
            let together: Vec<_> = group.iter().map(|(t, one)| (*t, one)).collect();
            match self.flush_together(&together) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(e) if e.is_transient() => {
                    for (t, one) in &group {
                        // One may find the space that all of them don't.
                        let alone = if group.len() > 1 {
                            self.flush_oldest_locked(t, one)
                        } else {
                            Err(e.clone())
                        };
                        match alone {
                            Ok(true) => return Ok(true),
                            Ok(false) => {}
                            Err(e) if e.is_transient() => {
                                t.put_off.lock().note(&e);
                            }
                            Err(e) => return Err(e),
                        }
                    }
                    lacking = lacking.or(Some(e));
                }
                Err(e) => return Err(e),
            }
        }
        lacking.map_or(Ok(false), Err)
    }

    /// The trees that have sealed memtables, in order of their numbers.
    fn due(&self) -> Vec<Arc<TreeCore>> {
        let ids: Vec<TreeId> = self.work.sealed.lock().iter().copied().collect();
        let mut due = Vec::with_capacity(ids.len());
        for id in ids {
            let tree = self.trees.read().by_id(id).cloned();
            // Who seals notes it afterwards: so what is sealed after this look is noted again.
            let mut noted = self.work.sealed.lock();
            match tree.filter(|t| !t.view.load_full().sealed.is_empty()) {
                Some(t) => due.push(t),
                None => {
                    noted.remove(&id);
                }
            }
        }
        due
    }

    /// Runs the most urgent compaction of all trees. False when nothing wants to run.
    fn compact_once(&self) -> Result<bool> {
        if self.is_closing() {
            return Ok(false);
        }
        let Some(_running) = self.throttle.begin() else { return Ok(false) };
        let mut order = self.may_want();
        let mut lacking = None;
        while let Some(t) = order.pop_front() {
            let claimed = match self.claim(&t) {
                Ok(None) => continue,
                // This tree may want more, and the others were not asked.
                other => {
                    self.work
                        .changed
                        .lock()
                        .trees
                        .extend(std::iter::once(&t).chain(&order).map(|t| t.id));
                    other
                }
            };
            let Some(claimed) = claimed? else { continue };
            let threads = self.options.background_threads;
            let mut flush = || {
                while threads == 1 && self.flush_some()? {}
                Ok(())
            };
            let ran = self.run_job(&claimed, &mut || {
                flush()?;
                if threads > 0 { self.stand_still(&mut flush) } else { Ok(()) }
            });
            match unless_dropped(&t, ran.map(|()| true)) {
                // Another tree's job may be one that frees space.
                Err(e) if e.is_transient() => lacking = lacking.or(Some(e)),
                ran => {
                    ran?;
                    self.signal_work();
                    return Ok(true);
                }
            }
        }
        lacking.map_or(Ok(false), Err)
    }

    /// The trees whose policies may want something, the one that is furthest behind first. It is
    /// left to the caller to ask them. What comes of age is found by asking all: few trees each
    /// time, more of them once a second.
    fn may_want(&self) -> VecDeque<Arc<TreeCore>> {
        let now = self.env.wall_micros() / 1_000_000;
        let trees = self.trees.read();
        let changed = {
            let mut changed = self.work.changed.lock();
            let all = trees.len() <= FEW || changed.asked != now;
            changed.asked = now;
            let trees = std::mem::take(&mut changed.trees);
            (!all).then_some(trees)
        };
        let mut order: Vec<Arc<TreeCore>> = match changed {
            Some(ids) => ids.into_iter().filter_map(|id| trees.by_id(id).cloned()).collect(),
            None => trees.to_vec(),
        };
        drop(trees);
        let pressed = self.work.pressed.lock();
        let pressure = |t: &TreeCore| pressed.get(&t.id).copied().unwrap_or(0.0);
        order.sort_by(|a, b| pressure(b).total_cmp(&pressure(a)));
        order.into()
    }

    /// Does all work there is, on the calling thread. False when there was none.
    pub fn work_inline(&self) -> Result<bool> {
        let mut any = false;
        while self.flush_some()? || self.compact_once()? {
            any = true;
        }
        Ok(any)
    }

    /// Waits until the workers have done something since `generation`, or a while.
    pub fn wait_for_change(&self, generation: u64) -> Result<()> {
        self.check_writable()?;
        // Without workers what is waited for may be the work of another caller.
        let inline = self.options.background_threads == 0;
        if inline && self.work_inline()? {
            return Ok(());
        }
        let mut g = self.work.generation.lock();
        if inline || *g == generation {
            self.work.done.wait_for(&mut g, Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until no memtable is sealed and no policy wants a compaction.
    pub fn wait_idle(&self) -> Result<()> {
        self.check_process()?;
        let since = self.work.put_off.lock().times();
        loop {
            self.check_writable()?;
            self.work.put_off.lock().check(since)?;
            // Before the generation is read: who counted his own signal for a change would never
            // wait.
            self.signal_work();
            let generation = *self.work.generation.lock();
            let trees = self.trees.read().to_vec();
            let flushing = trees.iter().any(|t| !t.view.load_full().sealed.is_empty());
            if !flushing
                && (self.throttle.is_paused()
                    || !trees.iter().any(|t| self.is_compacting_or_wants(t)))
            {
                self.opener.bury();
                return Ok(());
            }
            self.call_workers();
            self.wait_for_change(generation)?;
        }
    }

    /// Whether a job runs anywhere or this tree wants one. Both are asked under the lock under
    /// which jobs are claimed: a job that is taken in between would be neither.
    fn is_compacting_or_wants(&self, t: &TreeCore) -> bool {
        let files = t.files.lock();
        self.work.compacting.load(Ordering::Relaxed) > 0 || self.wants_with(t, &files)
    }

    fn wants(&self, t: &TreeCore) -> bool {
        self.wants_with(t, &t.files.lock())
    }

    fn wants_with(&self, t: &TreeCore, files: &TreeFiles) -> bool {
        let view = t.view.load_full();
        let shape = self.shape(&view.version, &view.options, files);
        !t.is_dropped() && t.is_hooked() && self.wish(&view.options, &shape).is_some()
    }
}
