//! Records pending background work, and signals between workers and the threads that wait for them.
//!
//! Invariants:
//! - A thread that creates work signals it afterwards. A worker that found no work sleeps only if
//!   there has been no signal since.
//! - A worker starts, and exits for lack of work, under the signal lock. So an exiting worker has
//!   seen the last signal.
//! - Every tree with an immutable memtable is recorded. A thread that seals a memtable records the
//!   tree afterwards. The record is removed only after a check, under its lock, that the tree has
//!   no immutable memtable.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::base::error::{Error, Result};
use crate::base::ops::TreeId;
use crate::env::Thread;
use crate::util::sorted_map::{SortedMap, SortedSet};
use crate::util::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, rank};

/// Handle of the worker pool, which starts workers when there is work.
pub trait WorkerPoolHandle: Send + Sync {
    /// Starts the workers that are not running. May be called under any lock.
    fn start_missing(&self);
    /// Runs worker number `i` until it exits. `compacts` allows it to run compactions.
    fn run_worker(&self, i: usize, compacts: bool);
}

/// Threads of the workers by worker number, including exited threads that are not joined yet.
pub type WorkerThreads = Vec<Option<Box<dyn Thread>>>;

/// Queue of background work, with the signals between writers and workers.
#[derive(Default)]
pub struct BackgroundQueue {
    /// Number of signals. Each signal says that there may be work.
    generation: Mutex<u64, rank::Generation>,
    /// Wakes workers.
    wake: Condvar,
    /// Wakes writers that wait for memtable space, and callers that wait for flushes or
    /// compactions.
    done: Condvar,
    /// Background work that failed for lack of space or another resource, and will be retried.
    postponed: Mutex<Postponed>,
    /// Running workers, one bit each.
    present: AtomicU64,
    threads: Mutex<WorkerThreads, rank::Threads>,
    /// Handle of the worker pool. Empty until workers may start.
    pool: OnceLock<Weak<dyn WorkerPoolHandle>>,
    /// Number of running compactions.
    compacting: AtomicU64,
    /// Trees that have immutable memtables, or had some recently.
    sealed: Mutex<SortedSet<TreeId>, rank::Sealed>,
    /// Trees that may need a compaction.
    changed: Mutex<ChangedTrees>,
    /// Trees with enough read cost for a read-triggered compaction.
    paid: Mutex<SortedSet<TreeId>>,
    /// Pressure of each tree that has more runs than the soft limit of its policy.
    pressed: Mutex<SortedMap<TreeId, f64>, rank::Pressed>,
}

/// Trees to check for compactions.
#[derive(Default)]
struct ChangedTrees {
    /// Trees whose tables or options changed, or where a job ended, since their last check found
    /// no compaction.
    trees: SortedSet<TreeId>,
    /// Wall clock of the last check of all trees, in seconds. It finds jobs that become due with
    /// time.
    asked: u64,
}

/// Record of failed work that will be retried, for the threads that wait for it.
#[derive(Default)]
pub struct Postponed {
    times: u64,
    /// Last error.
    cause: Option<Error>,
}

impl Postponed {
    /// Records an error. Returns true if its message differs from that of the previous one.
    pub fn note(&mut self, e: &Error) -> bool {
        let other = self.cause.as_ref().is_none_or(|c| c.to_string() != e.to_string());
        self.times += 1;
        self.cause = Some(e.clone());
        other
    }

    /// Returns the number of recorded failures, for a later call of [`check`](Postponed::check).
    pub fn times(&self) -> u64 {
        self.times
    }

    /// Returns the last error if a failure was recorded after `since` failures.
    pub fn check(&self, since: u64) -> Result<()> {
        match &self.cause {
            Some(e) if self.times > since => Err(e.clone()),
            _ => Ok(()),
        }
    }
}

/// Guard of the signal lock. While it is held no thread signals and no worker starts or exits,
/// except while its holder waits.
pub struct HeldSignals<'a> {
    work: &'a BackgroundQueue,
    generation: MutexGuard<'a, u64, rank::Generation>,
}

impl HeldSignals<'_> {
    /// Returns the number of signals so far.
    pub fn generation(&self) -> u64 {
        *self.generation
    }

    /// Waits until background work has made progress, for at most `at_most`.
    pub fn wait_done(&mut self, at_most: Duration) {
        self.work.done.wait_for(&mut self.generation, at_most);
    }

    /// Waits until there may be work, for at most `at_most`. Returns true on a timeout.
    pub fn wait_wake(&mut self, at_most: Duration) -> bool {
        self.work.wake.wait_for(&mut self.generation, at_most)
    }

    /// Marks worker `i` as running. Returns true if it was running already.
    pub fn mark_running(&self, i: usize) -> bool {
        self.work.present.fetch_or(1 << i, Ordering::Relaxed) & 1 << i != 0
    }

    /// Marks worker `i` as exited and wakes waiting threads. Returns the running workers, one bit
    /// each.
    pub fn mark_exited(&self, i: usize) -> u64 {
        let left = self.work.present.fetch_and(!(1 << i), Ordering::Relaxed) & !(1 << i);
        self.work.done.notify_all();
        left
    }
}

impl BackgroundQueue {
    /// Takes the signal lock.
    pub fn hold(&self) -> HeldSignals<'_> {
        HeldSignals { work: self, generation: self.generation.lock() }
    }

    /// Returns the number of signals so far.
    pub fn generation(&self) -> u64 {
        *self.generation.lock()
    }

    /// Signals to the workers that there may be work.
    pub fn signal(&self) {
        *self.generation.lock() += 1;
        self.wake.notify_all();
    }

    /// Signals to waiting threads that background work has made progress.
    pub fn signal_done(&self) {
        let _g = self.generation.lock();
        self.done.notify_all();
    }

    /// Like [`signal_done`](BackgroundQueue::signal_done), but may be called under any lock. A
    /// thread that is about to wait may miss it until its timeout.
    pub fn wake_waiting(&self) {
        self.done.notify_all();
    }

    /// Allows workers to start from now on.
    pub fn set_pool(&self, pool: Weak<dyn WorkerPoolHandle>) {
        let _ = self.pool.set(pool);
    }

    /// Returns the worker pool, if workers may start and the store still exists.
    pub fn pool(&self) -> Option<Arc<dyn WorkerPoolHandle>> {
        self.pool.get().and_then(Weak::upgrade)
    }

    /// Starts the workers that are not running. May be called under any lock.
    pub fn start_workers(&self) {
        if let Some(pool) = self.pool() {
            pool.start_missing();
        }
    }

    /// Returns the running workers, one bit each.
    pub fn running_workers(&self) -> u64 {
        self.present.load(Ordering::Relaxed)
    }

    /// Locks the list of worker threads.
    pub fn threads(&self) -> MutexGuard<'_, WorkerThreads, rank::Threads> {
        self.threads.lock()
    }

    /// Returns the record of failed work that will be retried.
    pub fn postponed(&self) -> &Mutex<Postponed> {
        &self.postponed
    }

    /// Counts a compaction as running.
    pub fn begin_compaction(&self) {
        self.compacting.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a compaction as ended, whether it succeeded or failed.
    pub fn end_compaction(&self) {
        self.compacting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Reports whether a compaction is running.
    pub fn is_compacting(&self) -> bool {
        self.compacting.load(Ordering::Relaxed) > 0
    }

    /// Records that a memtable of `tree` has become immutable.
    pub fn note_sealed(&self, tree: TreeId) {
        self.sealed.lock().insert(tree);
    }

    /// Reports whether any tree has immutable memtables, or had some recently.
    pub fn has_sealed(&self) -> bool {
        !self.sealed.lock().is_empty()
    }

    /// Returns the trees that have immutable memtables, or had some recently, in order of their
    /// ids.
    pub fn sealed(&self) -> Vec<TreeId> {
        self.sealed.lock().iter().copied().collect()
    }

    /// Removes the record of immutable memtables of `tree` if `has_none` returns true. The lock
    /// keeps other threads from recording a tree meanwhile.
    pub fn forget_sealed(&self, tree: TreeId, has_none: impl FnOnce() -> bool) {
        let mut noted = self.sealed.lock();
        if has_none() {
            noted.remove(&tree);
        }
    }

    /// Records that readers of `tree` have paid enough read cost for a read-triggered compaction,
    /// and wakes the workers. May be called under any lock.
    pub fn note_paid(&self, tree: TreeId) {
        self.paid.lock().insert(tree);
        self.recheck([tree]);
        self.signal();
        self.start_workers();
    }

    /// Returns the trees recorded by [`note_paid`](BackgroundQueue::note_paid).
    pub fn paid(&self) -> Vec<TreeId> {
        self.paid.lock().iter().copied().collect()
    }

    /// Removes the record of `tree`: its read cost has been used, or needs no compaction.
    pub fn forget_paid(&self, tree: TreeId) {
        self.paid.lock().remove(&tree);
    }

    /// Marks trees that may need a compaction.
    pub fn recheck(&self, trees: impl IntoIterator<Item = TreeId>) {
        self.changed.lock().trees.extend(trees);
    }

    /// Takes the marked trees, which the caller must check for compactions. Returns `None` if the
    /// caller must check all trees. That is so if there are `few`, or if all were last checked at
    /// a time other than `now` (wall clock in seconds).
    pub fn take_changed(&self, few: bool, now: u64) -> Option<SortedSet<TreeId>> {
        let mut changed = self.changed.lock();
        let all = few || changed.asked != now;
        changed.asked = now;
        let trees = std::mem::take(&mut changed.trees);
        (!all).then_some(trees)
    }

    /// Locks the pressures of the trees that have more runs than the soft limit of their policy.
    pub fn pressed(&self) -> MutexGuard<'_, SortedMap<TreeId, f64>, rank::Pressed> {
        self.pressed.lock()
    }
}
