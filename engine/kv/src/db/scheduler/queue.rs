//! The work that waits: what there is to be done in the background, who does it, and the signals
//! between them and those who wait for it.
//!
//! Invariants:
//! - Whoever makes work signals it afterwards; a worker that has found none sleeps only as long as
//!   there has been no signal since.
//! - Which workers are there is changed under the lock of the signals, so a worker that leaves has
//!   seen the last one.
//! - A tree with a sealed memtable is noted. Who seals notes it afterwards, and it is forgotten
//!   only when it is seen under the lock that none is sealed.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::base::error::{Error, Result};
use crate::base::ops::TreeId;
use crate::env::Thread;
use crate::util::sorted_map::{SortedMap, SortedSet};
use crate::util::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, rank};

/// Those who do the work: they are called when there is some.
pub trait WorkerPoolHandle: Send + Sync {
    /// Calls the workers that are not there. May be called under any lock.
    fn call(&self);
    /// The work of worker number `i`, until it leaves.
    fn serve(&self, i: usize, compacts: bool);
}

/// Their threads, by number, and of those that have left.
pub type WorkerThreads = Vec<Option<Box<dyn Thread>>>;

/// Work that waits, and signals between writers and workers.
#[derive(Default)]
pub struct BackgroundQueue {
    /// Bumped whenever there may be something to do.
    generation: Mutex<u64, rank::Generation>,
    /// Wakes workers.
    wake: Condvar,
    /// Wakes writers that wait for room, and callers that wait for flushes and compactions.
    done: Condvar,
    /// Background work that could not be done for want of space or other resources, and will be
    /// tried again.
    postponed: Mutex<Postponed>,
    /// Which workers there are, a bit for each.
    present: AtomicU64,
    threads: Mutex<WorkerThreads, rank::Threads>,
    /// None before workers may come.
    crew: OnceLock<Weak<dyn WorkerPoolHandle>>,
    /// How many compactions run now.
    compacting: AtomicU64,
    /// Trees that have sealed memtables, or had some.
    sealed: Mutex<SortedSet<TreeId>, rank::Sealed>,
    /// Trees whose policies may want something.
    changed: Mutex<ChangedTrees>,
    /// Trees whose readers have paid for several sources.
    paid: Mutex<SortedSet<TreeId>>,
    /// Trees with more runs than their policies' soft limits, with their pressures.
    pressed: Mutex<SortedMap<TreeId, f64>, rank::Pressed>,
}

/// Which trees to ask for compactions.
#[derive(Default)]
struct ChangedTrees {
    /// Those whose tables or options have changed, or where a job has ended, since they wanted
    /// nothing.
    trees: SortedSet<TreeId>,
    /// When all were asked, for what comes of age: the wall clock in seconds.
    asked: u64,
}

/// What could not be done for now, for those who wait for it.
#[derive(Default)]
pub struct Postponed {
    times: u64,
    /// The last error.
    cause: Option<Error>,
}

impl Postponed {
    /// Takes note of an error. Whether it is another one than the last time.
    pub fn note(&mut self, e: &Error) -> bool {
        let other = self.cause.as_ref().is_none_or(|c| c.to_string() != e.to_string());
        self.times += 1;
        self.cause = Some(e.clone());
        other
    }

    /// How often something could not be done, to be handed to [`check`](Postponed::check).
    pub fn times(&self) -> u64 {
        self.times
    }

    /// The last error, if there has been one since.
    pub fn check(&self, since: u64) -> Result<()> {
        match &self.cause {
            Some(e) if self.times > since => Err(e.clone()),
            _ => Ok(()),
        }
    }
}

/// The lock of the signals, held: nobody signals, comes or leaves meanwhile, except while its
/// holder waits.
pub struct HeldSignals<'a> {
    work: &'a BackgroundQueue,
    generation: MutexGuard<'a, u64, rank::Generation>,
}

impl HeldSignals<'_> {
    /// How many signals there have been.
    pub fn generation(&self) -> u64 {
        *self.generation
    }

    /// Waits until something has been done, or so long.
    pub fn wait_done(&mut self, at_most: Duration) {
        self.work.done.wait_for(&mut self.generation, at_most);
    }

    /// Waits until there may be something to do, or so long. Whether it was so long.
    pub fn wait_wake(&mut self, at_most: Duration) -> bool {
        self.work.wake.wait_for(&mut self.generation, at_most)
    }

    /// Worker `i` comes. Whether it is there already.
    pub fn come(&self, i: usize) -> bool {
        self.work.present.fetch_or(1 << i, Ordering::Relaxed) & 1 << i != 0
    }

    /// Worker `i` leaves. Those that are left.
    pub fn leave(&self, i: usize) -> u64 {
        let left = self.work.gone(i);
        self.work.done.notify_all();
        left
    }
}

impl BackgroundQueue {
    /// Takes the lock of the signals.
    pub fn hold(&self) -> HeldSignals<'_> {
        HeldSignals { work: self, generation: self.generation.lock() }
    }

    /// How many signals there have been.
    pub fn generation(&self) -> u64 {
        *self.generation.lock()
    }

    /// Tells the workers that there may be something to do.
    pub fn signal(&self) {
        *self.generation.lock() += 1;
        self.wake.notify_all();
    }

    /// Tells those who wait that something has been done.
    pub fn signal_done(&self) {
        let _g = self.generation.lock();
        self.done.notify_all();
    }

    /// The same for who may hold any lock: somebody who is about to wait sees it later.
    pub fn wake_waiting(&self) {
        self.done.notify_all();
    }

    /// Lets workers come from now on.
    pub fn allow(&self, crew: Weak<dyn WorkerPoolHandle>) {
        let _ = self.crew.set(crew);
    }

    /// Those who do the work, when they may come and the store is there.
    pub fn crew(&self) -> Option<Arc<dyn WorkerPoolHandle>> {
        self.crew.get().and_then(Weak::upgrade)
    }

    /// Calls the workers that are not there. May be called under any lock.
    pub fn call(&self) {
        if let Some(crew) = self.crew() {
            crew.call();
        }
    }

    /// Which workers are there, a bit for each.
    pub fn present(&self) -> u64 {
        self.present.load(Ordering::Relaxed)
    }

    /// Worker `i` is not there. Those that are.
    pub fn gone(&self, i: usize) -> u64 {
        self.present.fetch_and(!(1 << i), Ordering::Relaxed) & !(1 << i)
    }

    /// The threads of the workers.
    pub fn threads(&self) -> MutexGuard<'_, WorkerThreads, rank::Threads> {
        self.threads.lock()
    }

    /// What could not be done for now.
    pub fn postponed(&self) -> &Mutex<Postponed> {
        &self.postponed
    }

    /// A compaction begins.
    pub fn begin_compaction(&self) {
        self.compacting.fetch_add(1, Ordering::Relaxed);
    }

    /// A compaction has ended, however.
    pub fn end_compaction(&self) {
        self.compacting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a compaction runs.
    pub fn is_compacting(&self) -> bool {
        self.compacting.load(Ordering::Relaxed) > 0
    }

    /// A memtable of a tree has been sealed.
    pub fn note_sealed(&self, tree: TreeId) {
        self.sealed.lock().insert(tree);
    }

    /// Whether a tree has sealed memtables, or had some.
    pub fn has_sealed(&self) -> bool {
        !self.sealed.lock().is_empty()
    }

    /// The trees that have sealed memtables, or had some, in order of their numbers.
    pub fn sealed(&self) -> Vec<TreeId> {
        self.sealed.lock().iter().copied().collect()
    }

    /// Forgets that a tree has sealed memtables, if `has_none` says so while nobody notes one.
    pub fn forget_sealed(&self, tree: TreeId, has_none: impl FnOnce() -> bool) {
        let mut noted = self.sealed.lock();
        if has_none() {
            noted.remove(&tree);
        }
    }

    /// Readers of a tree have paid much for there being several sources. May be called under any
    /// lock.
    pub fn note_paid(&self, tree: TreeId) {
        self.paid.lock().insert(tree);
        self.recheck([tree]);
        self.signal();
        self.call();
    }

    /// The trees whose readers have paid much, until they are told to be forgotten.
    pub fn paid(&self) -> Vec<TreeId> {
        self.paid.lock().iter().copied().collect()
    }

    /// What readers of a tree have paid has been used, or nothing is to be done for it.
    pub fn forget_paid(&self, tree: TreeId) {
        self.paid.lock().remove(&tree);
    }

    /// The policies of these trees may want something.
    pub fn recheck(&self, trees: impl IntoIterator<Item = TreeId>) {
        self.changed.lock().trees.extend(trees);
    }

    /// The trees whose policies may want something, which the caller is to ask; `None` for all of
    /// them: where there are `few`, or none has been asked since `now`, in seconds.
    pub fn take_changed(&self, few: bool, now: u64) -> Option<SortedSet<TreeId>> {
        let mut changed = self.changed.lock();
        let all = few || changed.asked != now;
        changed.asked = now;
        let trees = std::mem::take(&mut changed.trees);
        (!all).then_some(trees)
    }

    /// Trees with more runs than their policies' soft limits, with their pressures.
    pub fn pressed(&self) -> MutexGuard<'_, SortedMap<TreeId, f64>, rank::Pressed> {
        self.pressed.lock()
    }
}
