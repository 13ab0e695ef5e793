//! Back-pressure: writers are slowed smoothly as compaction falls behind, and wait only when every
//! memtable is full ([`room`](super::room)).
//!
//! Invariants:
//! - The delay follows the number of runs ([`delay`]): a writer is slowed by runs, never stopped.
//! - When the memtable that is being filled would be full before the one that is being flushed is
//!   written, what is missing is spread over it beforehand
//!   ([`MemtableFill`](super::state::pace::MemtableFill)): a writer is a little slower for a while
//!   instead of standing still at the end.
//! - Whatever delay has begun ends: with its cause, with the tree, or with the Db
//!   ([`pace`](super::state::pace) tells of both).

use crate::compaction::delay;

use super::state::core::DbInner;
use super::state::meters::LatencyOp;
use super::state::pace::{FLUSH, RUNS};
use super::state::tree::TreeInner;

impl DbInner {
    /// Slows the caller, who takes `bytes` of memtables, if compactions or the tree's flushes are
    /// behind.
    #[inline]
    pub fn pace(&self, tree: &TreeInner, bytes: usize) {
        let rate = self.pace.runs().rate().max(tree.fill.delay().rate());
        if rate > 0 {
            self.pay(rate, bytes);
        }
    }

    #[cold]
    fn pay(&self, rate: u64, bytes: usize) {
        if let Some(pay) = self.pace.owe(rate, bytes) {
            self.pace.sleep(&*self.env, pay);
            self.watch.meters.record(LatencyOp::Pace, pay);
        }
    }

    /// Sets the delay from the position between the soft and the hard limit of the tree that is
    /// furthest behind, after that of `tree` has changed: 0 is none, 1 the most. One caller at a
    /// time.
    pub fn set_pace(&self, tree: &TreeInner, pressure: f64) {
        let mut held = self.pace.runs().hold();
        held.set(delay(pressure), &tree.name, RUNS, &self.pace_teller());
    }

    /// A fresh memtable of `tree` has been begun at `now`, after one of `memory` bytes.
    pub fn begin_fill(&self, tree: &TreeInner, now: u64, memory: usize) {
        let stood = self.pace.slept() + self.pace.stalled();
        let mut held = tree.fill.delay().hold();
        let rate = tree.fill.begin(now, stood, memory, self.is_full_soon(tree));
        held.set(rate, &tree.name, FLUSH, &self.pace_teller());
    }

    /// A memtable of `tree` has been flushed, or the tree is gone: when nobody will wait for a
    /// flush any more, nobody is slowed for it.
    pub fn end_fill(&self, tree: &TreeInner) {
        let mut held = tree.fill.delay().hold();
        if !self.is_full_soon(tree) {
            held.set(0, &tree.name, FLUSH, &self.pace_teller());
        }
    }

    /// The Db is closed, and all trees are marked so: nobody is slowed any more.
    pub fn end_pacing(&self) {
        {
            let mut pressed = self.work.pressed();
            pressed.clear();
            self.pace.runs().hold().end(&self.pace_teller());
        }
        self.trees.read().iter().for_each(|t| self.end_fill(t));
    }

    /// Whether the writers of `tree` will wait for a flush when the memtable is full that they fill
    /// now. Without workers they flush themselves, and there is nobody to wait for.
    pub(super) fn is_full_soon(&self, tree: &TreeInner) -> bool {
        let is_full = || tree.view.load_full().sealed.len() >= self.max_sealed;
        self.options.background_threads > 0 && tree.check_live().is_ok() && is_full()
    }
}
