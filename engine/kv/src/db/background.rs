//! The work in the background, a piece at a time: by a worker, or by a caller where there are none.
//!
//! Invariants: see [`workers`](super::workers).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};

use super::state::core::DbInner;
use super::state::log::Writing;
use super::state::pins::nudge;
use super::state::tree::TreeInner;

/// So many trees are all asked for work each time.
const FEW: usize = 16;

/// Memtables of so many bytes at most are flushed with others, so many at most, and not more than a
/// sixteenth of the memory.
const SMALL: usize = 256 << 10;

const TOGETHER: usize = 64;

/// What came of work on a tree; nothing is wrong when the tree has been dropped meanwhile: whoever
/// did the work may be a writer of another tree, whose own write has been done.
fn unless_dropped(tree: &TreeInner, done: Result<bool>) -> Result<bool> {
    match done {
        Err(e) if e.kind() == ErrorKind::Closed && tree.is_dropped() => Ok(true),
        done => done,
    }
}

impl DbInner {
    /// Does one piece of work. False when there is none.
    pub(super) fn work_once(&self, compacts: bool) -> Result<bool> {
        // To remove a large file takes tens of milliseconds, which no flush should wait for.
        if compacts {
            self.opener.delete_obsolete_files();
        }
        if self.gate.check_writable().is_err() {
            return Ok(false);
        }
        let prepare = self.write.lock().log().and_then(|w| w.prepare_next());
        // To touch a whole segment takes tens of milliseconds. A thread that is alone breaks off for
        // a flush; of several another one flushes, and what is not touched the writers have to.
        let is_alone = self.options.background_threads == 1;
        let stop = || self.gate.is_closing() || (is_alone && self.work.has_sealed());
        let prepared = prepare.map_or(Ok(()), |job| job.run(&stop));
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
        prepared.and_then(|()| self.seal_for_readers())
    }

    /// Whether small tables take more than an eighth of the memory by being there. (Of large ones a
    /// store may have as many.)
    fn is_cluttered(&self) -> bool {
        self.opener.are_small() && self.opener.of_handles() > self.memory.part() / 8
    }

    /// Flushes one memtable of some tree, or small ones of several. False when none is sealed.
    pub fn flush_some(&self) -> Result<bool> {
        if self.gate.is_closing() {
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
                group.extend(t.flushing.try_lock().map(|one| (t, one)));
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
    fn due(&self) -> Vec<Arc<TreeInner>> {
        let ids = self.work.sealed();
        let mut due = Vec::with_capacity(ids.len());
        for id in ids {
            let tree = self.trees.read().by_id(id).cloned();
            self.work.forget_sealed(id, || {
                let sealed = tree.filter(|t| !t.view.load_full().sealed.is_empty());
                let has_none = sealed.is_none();
                due.extend(sealed);
                has_none
            });
        }
        due
    }

    /// Runs the most urgent compaction of all trees. False when nothing wants to run.
    fn compact_once(&self) -> Result<bool> {
        if self.gate.is_closing() {
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
                    self.work.look_at(std::iter::once(&t).chain(&order).map(|t| t.id));
                    other
                }
            };
            let Some(claimed) = claimed? else { continue };
            let threads = self.options.background_threads;
            let mut flush = || {
                while threads == 1 && self.flush_some()? {}
                Ok(())
            };
            let ran = self.run_job(claimed, &mut || {
                flush()?;
                if threads > 0 { self.stand_still(&mut flush) } else { Ok(()) }
            });
            match unless_dropped(&t, ran.map(|_| true)) {
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
    fn may_want(&self) -> VecDeque<Arc<TreeInner>> {
        let now = self.env.wall_micros() / 1_000_000;
        let trees = self.trees.read();
        let mut order: Vec<Arc<TreeInner>> = match self.work.take_changed(trees.len() <= FEW, now) {
            Some(ids) => ids.into_iter().filter_map(|id| trees.by_id(id).cloned()).collect(),
            None => trees.to_vec(),
        };
        drop(trees);
        let pressed = self.work.pressed();
        let pressure = |t: &TreeInner| pressed.get(&t.id).copied().unwrap_or(0.0);
        order.sort_by(|a, b| pressure(b).total_cmp(&pressure(a)));
        order.into()
    }

    /// Does all work there is, on the calling thread. False when there was none. A panic in it makes
    /// the store read-only, as one of a worker does: every write would meet it again.
    pub fn work_inline(&self) -> Result<bool> {
        let work = || {
            let mut any = false;
            while self.flush_some()? || self.compact_once()? {
                any = true;
            }
            Ok(any)
        };
        work().map_err(|e: Error| if e.kind() == ErrorKind::Panicked { self.latch(e) } else { e })
    }

    /// Waits until the workers have done something since `generation`, or a while.
    pub fn wait_for_change(&self, generation: u64) -> Result<()> {
        self.gate.check_writable()?;
        // Without workers what is waited for may be the work of another caller.
        let inline = self.options.background_threads == 0;
        if inline && self.work_inline()? {
            return Ok(());
        }
        let mut signals = self.work.hold();
        if inline || signals.generation() == generation {
            signals.wait_done(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until no memtable is sealed and no policy wants a compaction.
    pub fn wait_idle(&self) -> Result<()> {
        self.check_process()?;
        let since = self.work.put_off().lock().times();
        loop {
            self.gate.check_writable()?;
            self.work.put_off().lock().check(since)?;
            // Before the generation is read: who counted his own signal for a change would never
            // wait.
            self.signal_work();
            let generation = self.work.generation();
            let trees = self.trees.read().to_vec();
            let flushing = trees.iter().any(|t| !t.view.load_full().sealed.is_empty());
            if !flushing
                && (self.throttle.is_paused()
                    || !trees.iter().any(|t| self.is_compacting_or_wants(t)))
            {
                // So that the files of replaced tables are gone when it returns, if nobody reads them.
                nudge();
                self.opener.delete_obsolete_files();
                return Ok(());
            }
            self.work.call();
            self.wait_for_change(generation)?;
        }
    }

    /// Flushes what the log gave back to a tree, when its segments are many, or take more than the
    /// limit, full or not: every opening that writes begins one, and a store that is opened often
    /// for a few writes must not keep them all. Not before the tree has its hooks.
    pub fn shorten_log(&self, tree: &Arc<TreeInner>) -> Result<()> {
        {
            let w = self.write.lock();
            if !w.is_log_long(self.options.log_limit())
                || !tree.view.load_full().active.is_touched()
                || self.gate.check_writable().is_err()
            {
                return Ok(());
            }
            self.seal(&w, tree)?;
        }
        if self.options.background_threads == 0 {
            while self.flush_oldest(tree)? {}
        }
        self.signal_work();
        Ok(())
    }

    /// Flushes what earlier openings have left in the log, in an opening that begins to write:
    /// before many more segments are there than [`shorten_log`](DbInner::shorten_log) allows, whoever
    /// opens which of the trees, and however soon the store is closed again.
    pub fn shorten_inherited_log(&self) -> Result<()> {
        let shorten = || {
            if self.bound_log()? {
                while self.flush_some()? {}
            }
            Ok(())
        };
        shorten().or_else(|e| self.put_off(e))
    }

    /// Begins to write for a writer, who holds the write lock; it is given up meanwhile, so callers
    /// look again at everything.
    #[cold]
    pub fn begin_log<'a>(&'a self, w: Writing<'a>) -> Result<Writing<'a>> {
        drop(w);
        self.begin_writing(&mut self.catalog.lock())?;
        self.shorten_inherited_log()?;
        Ok(self.write.lock())
    }
}
