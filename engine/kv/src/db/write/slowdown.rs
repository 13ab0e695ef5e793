//! Applies backpressure: slows writers smoothly as compaction falls behind. Writers stop only when
//! every memtable is full ([`room`](crate::db::write::room)).
//!
//! Invariants:
//! - The delay follows the number of runs ([`delay`]): runs slow a writer, but never stop it.
//! - The active memtable may become full before the previous one is flushed. Then the missing time
//!   is spread over the fill time ([`MemtableFill`](crate::db::scheduler::write_controller::MemtableFill)): a writer is
//!   a little slower for a while instead of stopping at the end.
//! - Every delay ends: with its cause, with the tree, or with the Db. [`pace`](crate::db::scheduler::write_controller)
//!   reports begin and end.

use crate::compaction::delay;

use crate::db::inner::DbInner;
use crate::db::observe::meters::LatencyOp;
use crate::db::scheduler::write_controller::{FLUSH, RUNS};
use crate::db::versions::tree::TreeInner;

impl DbInner {
    /// Slows a caller that adds `bytes` to memtables, if compactions or the tree's flushes are
    /// late.
    #[inline]
    pub fn pace(&self, tree: &TreeInner, bytes: usize) {
        let rate = self.scheduler.writes().runs().rate().max(tree.fill.delay().rate());
        if rate > 0 {
            self.pay(rate, bytes);
        }
    }

    #[cold]
    fn pay(&self, rate: u64, bytes: usize) {
        if let Some(pay) = self.scheduler.writes().owe(rate, bytes) {
            self.scheduler.writes().sleep(pay);
            self.observer.meters().record(LatencyOp::Pace, pay);
        }
    }

    /// Sets the delay from the largest position between the soft and hard limits over all trees,
    /// after that of `tree` has changed: 0 is no delay, 1 the maximum. Calls must not run
    /// concurrently.
    pub fn set_pace(&self, tree: &TreeInner, pressure: f64) {
        let mut held = self.scheduler.writes().runs().hold();
        held.set(delay(pressure), &tree.name, RUNS, self.scheduler.writes());
    }

    /// Called when a new memtable of `tree` was started at `now`, after one of `memory` bytes.
    pub fn begin_fill(&self, tree: &TreeInner, now: u64, memory: usize) {
        let stood = self.scheduler.writes().slept() + self.scheduler.writes().stalled();
        let mut held = tree.fill.delay().hold();
        let rate = tree.fill.begin(now, stood, memory, self.is_full_soon(tree));
        held.set(rate, &tree.name, FLUSH, self.scheduler.writes());
    }

    /// Called when a memtable of `tree` was flushed, or the tree was dropped. Ends the slowdown if
    /// no writer will wait for a flush any more.
    pub fn end_fill(&self, tree: &TreeInner) {
        let mut held = tree.fill.delay().hold();
        if !self.is_full_soon(tree) {
            held.set(0, &tree.name, FLUSH, self.scheduler.writes());
        }
    }

    /// Ends all slowdowns. The Db is closed, and all trees are marked as closed.
    pub fn end_pacing(&self) {
        {
            let mut pressed = self.scheduler.queue().pressed();
            pressed.clear();
            self.scheduler.writes().runs().hold().end(self.scheduler.writes());
        }
        self.versions.trees().iter().for_each(|t| self.end_fill(t));
    }

    /// Reports whether writers of `tree` will wait for a flush when the active memtable is full.
    /// Without workers they flush themselves and do not wait.
    pub fn is_full_soon(&self, tree: &TreeInner) -> bool {
        let is_full = || tree.view.load_full().sealed.len() >= self.memory.max_sealed();
        self.scheduler.workers() > 0 && tree.check_live().is_ok() && is_full()
    }
}
