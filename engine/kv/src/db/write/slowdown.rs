//! Applies backpressure: slows writers smoothly as compaction falls behind. Writers stop only when
//! every memtable is full ([`room`](crate::db::write::room)).
//!
//! Invariants:
//! - The delay follows the number of runs ([`delay`]): runs slow a writer, but never stop it.
//! - The active memtable may become full before the previous one is flushed. Then the missing time
//!   is spread over the fill time
//!   ([`MemtableFill`](crate::db::scheduler::write_controller::MemtableFill)): a writer is a little
//!   slower for a while instead of stopping at the end.
//! - Every delay ends: with its cause, with the tree, or with the Db. The [write
//!   controller](crate::db::scheduler::write_controller) reports begin and end.

use crate::compaction::delay;
use crate::db::memory::budget::MemoryManager;
use crate::db::observe::Observer;
use crate::db::scheduler::Scheduler;

use crate::db::inner::DbInner;
use crate::db::observe::meters::LatencyOp;
use crate::db::scheduler::write_controller::{FLUSH, RUNS};
use crate::db::versions::tree::TreeInner;

/// Slows a caller that adds `bytes` to memtables, if compactions or the tree's flushes are
/// late.
#[inline]
pub fn slow_writer(db: &DbInner, tree: &TreeInner, bytes: usize) {
    let rate = db.scheduler.writes().runs().rate().max(tree.fill.delay().rate());
    if rate > 0 {
        sleep_off(&db.scheduler, &db.observer, rate, bytes);
    }
}

#[cold]
fn sleep_off(scheduler: &Scheduler, observer: &Observer, rate: u64, bytes: usize) {
    if let Some(nanos) = scheduler.writes().charge(rate, bytes) {
        scheduler.writes().sleep(nanos);
        observer.meters().record(LatencyOp::Slowdown, nanos);
    }
}

/// Sets the delay from the largest position between the soft and hard limits over all trees,
/// after that of `tree` has changed: 0 is no delay, 1 the maximum. Calls must not run
/// concurrently.
pub fn set_slowdown(scheduler: &Scheduler, tree: &TreeInner, pressure: f64) {
    let mut held = scheduler.writes().runs().hold();
    held.set(delay(pressure), &tree.name, RUNS, scheduler.writes());
}

/// Called when a new memtable of `tree` was started at `now`, after one of `memory` bytes.
pub fn begin_fill(db: &DbInner, tree: &TreeInner, now: u64, memory: usize) {
    let delayed = db.scheduler.writes().slept() + db.scheduler.writes().stalled();
    let mut held = tree.fill.delay().hold();
    let rate = tree.fill.begin(now, delayed, memory, is_full_soon(&db.memory, &db.scheduler, tree));
    held.set(rate, &tree.name, FLUSH, db.scheduler.writes());
}

/// Called when a memtable of `tree` was flushed, or the tree was dropped. Ends the slowdown if
/// no writer will wait for a flush any more.
pub fn end_fill(db: &DbInner, tree: &TreeInner) {
    let mut held = tree.fill.delay().hold();
    if !is_full_soon(&db.memory, &db.scheduler, tree) {
        held.set(0, &tree.name, FLUSH, db.scheduler.writes());
    }
}

/// Ends all slowdowns. The Db is closed, and all trees are marked as closed.
pub fn end_slowdowns(db: &DbInner) {
    {
        let mut pressed = db.scheduler.queue().pressed();
        pressed.clear();
        db.scheduler.writes().runs().hold().end(db.scheduler.writes());
    }
    db.versions.trees().iter().for_each(|t| end_fill(db, t));
}

/// Reports whether writers of `tree` will wait for a flush when the active memtable is full.
/// Without workers they flush themselves and do not wait.
pub fn is_full_soon(memory: &MemoryManager, scheduler: &Scheduler, tree: &TreeInner) -> bool {
    let is_full = || tree.view.load_full().sealed.len() >= memory.max_sealed();
    scheduler.workers() > 0 && tree.check_live().is_ok() && is_full()
}
