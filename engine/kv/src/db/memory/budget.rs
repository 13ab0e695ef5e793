//! The memory of memtables and of the cache, of one Db or of several that share it: how much is
//! granted, and who makes room.
//!
//! What is granted is room in memtables ([`MemtableRoom`](crate::memtable::MemtableRoom)), a piece
//! at a time and under the write lock of their Db. Trees have what they take by themselves
//! ([`TREE`]), up to half of the budget. Of the rest memtables that take writes may have three
//! eighths, with those on their way to tables three quarters. The cache has what is left, an eighth
//! of the budget at least.
//!
//! The smallest memtable that holds anything takes a page ([`LEAST`]), for one entry as for twenty.
//! Where trees are so many that their pages alone are more than three eighths, whoever seals one
//! gains a page until the next put into its tree, and each put would cost a table. So a page is
//! left to its tree, and those who have more than one share an eighth beside all pages at least:
//! where a budget is too small for its trees, it takes as much memory as they need at least, and
//! not a flush a put.
//!
//! Invariants:
//! - B1: memtables are counted as long as a current view names them, whatever readers of older
//!   states hold. So without worker threads it depends on the history of writes alone what is
//!   sealed when.
//! - B2: who finds three eighths used up seals memtables until seven eighths of that are left,
//!   those first of which bytes times age is the largest, the age in bytes of log: the largest
//!   alone would leave the memory to what is seldom written, the oldest alone would write the
//!   smallest tables. Their flushes run beside. None is sealed that takes no more than a page.
//! - B3: a writer waits only while three quarters are used up and its own Db has something sealed,
//!   so until the next flush or its error. A Db that has nothing on its way to tables is never kept
//!   from writing, whatever others hold. By as much as those that take writes may have more than
//!   three eighths because of their pages, all may have more than three quarters.
//! - B4: a Db seals its own memtables only, and not below its share of the budget. Those that hold
//!   more than theirs are asked ([`MemoryManager::ask_others`]), and do it as soon as a worker or writer of
//!   theirs comes by.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};

use crate::base::settle::Coalescer;
use crate::base::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use crate::cache::Cache;
use crate::memtable::{ArenaPool, LEAST, Memtable};
use crate::merge::gaps;
use crate::merge::run::TableOpener;

use crate::db::commit::mem_handle::MemHandle;
use crate::db::scheduler::queue::BackgroundQueue;

/// In debug builds openings with so little memory make do with a sixteenth of it, so that tests
/// with short logs have some that flush.
const TINY: u64 = if cfg!(debug_assertions) { 4 << 20 } else { 0 };

/// Bytes that a tree takes by itself, in which nothing is: its view, its options, its names, its
/// place in the manifest, a memtable of which nothing but its fields is there.
pub const TREE: u64 = 7 << 9;

/// Steps in which a job says how much it takes, in bytes.
const BUFFER_STEP: u64 = 1 << 20;

const _: () = assert!(size_of::<Memtable>() + size_of::<MemHandle>() <= TREE as usize / 2);

/// Bytes of memtables, and trees.
#[derive(Default)]
struct BudgetTally {
    /// Of those that take writes.
    active: AtomicU64,
    /// Of that what they have beyond a page each.
    beyond: AtomicU64,
    /// Of those that wait for their flush.
    sealed: AtomicU64,
    /// How many trees there are.
    trees: AtomicU64,
}

impl BudgetTally {
    fn active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    fn beyond(&self) -> u64 {
        self.beyond.load(Ordering::Relaxed)
    }

    /// What its memtables that take writes have but for what is beyond a page.
    fn pages(&self) -> u64 {
        self.active().saturating_sub(self.beyond())
    }

    fn sealed(&self) -> u64 {
        self.sealed.load(Ordering::Relaxed)
    }

    /// A memtable that takes writes, or one that `is_sealed`, took `before`, and takes `now`.
    fn resize(&self, is_sealed: bool, before: u64, now: u64) {
        if is_sealed {
            self.sealed.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        } else {
            self.active.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
            self.beyond.fetch_add(beyond(now).wrapping_sub(beyond(before)), Ordering::Relaxed);
        }
    }

    fn trees(&self) -> u64 {
        self.trees.load(Ordering::Relaxed)
    }
}

/// What a memtable of so many bytes takes beyond the page that is left to its tree.
fn beyond(bytes: u64) -> u64 {
    bytes.saturating_sub(LEAST as u64)
}

/// Memory that one Db has, or several share.
pub struct Budget {
    bytes: u64,
    /// Decoded blocks.
    pub cache: Arc<Cache>,
    /// Memory of memtables.
    pub arenas: Arc<ArenaPool>,
    /// What flushes and merges take beside what they write.
    buffers: AtomicU64,
    /// Memory for what trees know of where nothing is: part of the thirty-second that
    /// [`MemoryManager::rebalance`] keeps.
    pub gaps: Arc<gaps::EmptyRangeBudget>,
    all: BudgetTally,
    members: Mutex<Vec<Weak<MemoryManager>>>,
    /// What the cache has is what is left.
    settled: Coalescer,
}

impl Budget {
    /// Of so many bytes.
    pub fn new(bytes: usize) -> Budget {
        let (all, members) = (BudgetTally::default(), Mutex::default());
        let gaps = gaps::EmptyRangeBudget::new(bytes as u64 / 64);
        Budget {
            bytes: bytes as u64,
            cache: Cache::within(bytes, bytes / 2),
            arenas: ArenaPool::new(1),
            buffers: AtomicU64::new(0),
            gaps,
            all,
            members,
            settled: Coalescer::default(),
        }
    }

    /// What the trees take by themselves, as far as it is counted.
    fn of_trees(&self) -> u64 {
        self.all.trees().saturating_mul(TREE).min(self.bytes / 2)
    }

    /// An eighth of what is left by the trees.
    fn eighth(&self) -> u64 {
        (self.bytes - self.of_trees()) / 8
    }

    /// What memtables that take writes may have.
    fn most_active(&self) -> u64 {
        (3 * self.eighth()).max(self.all.pages() + self.eighth())
    }

    /// What all memtables may have.
    fn most(&self) -> u64 {
        self.most_active() + 3 * self.eighth()
    }

    fn total(&self) -> u64 {
        self.all.active() + self.all.sealed()
    }

    /// What flushes and merges take beside what they write.
    pub fn of_jobs(&self) -> u64 {
        self.buffers.load(Ordering::Relaxed)
    }

    /// Gives the cache what is left of the budget.
    fn give_cache_the_rest(&self) {
        let members = self.held();
        let mut openers: Vec<_> = members.iter().map(|m| &m.opener).collect();
        // Readers that came of one another have one.
        openers.sort_unstable_by_key(|o| Arc::as_ptr(o));
        openers.dedup_by_key(|o| Arc::as_ptr(o));
        let tables: u64 = openers.iter().map(|o| o.memory()).sum();
        let taken = self.arenas.bytes() as u64 + self.of_trees() + tables;
        let buffers = self.of_jobs().max(self.bytes / 32);
        let rest = self.bytes - self.bytes / 32;
        let rest = rest.saturating_sub(taken.saturating_add(buffers)).max(self.bytes / 8);
        self.cache.set_capacity(rest as usize);
    }

    /// What a Db counts here from now on.
    pub fn share(
        self: &Arc<Budget>,
        opener: &Arc<TableOpener>,
        work: &Arc<BackgroundQueue>,
        largest_memtable: usize,
    ) -> Arc<MemoryManager> {
        let (budget, opener, work) = (self.clone(), opener.clone(), work.clone());
        let max_sealed = (self.bytes as usize / 4 / largest_memtable.max(1)).clamp(1, 3);
        let share = Arc::new(MemoryManager {
            budget,
            own: BudgetTally::default(),
            asked: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
            opener,
            work,
            max_sealed,
        });
        self.members.lock().push(Arc::downgrade(&share));
        share
    }

    /// The shares of all Dbs of which somebody has a handle.
    fn held(&self) -> Vec<Arc<MemoryManager>> {
        let mut members = self.members.lock();
        members.retain(|m| m.strong_count() > 0);
        members.iter().filter_map(Weak::upgrade).collect()
    }

    /// Those of the Dbs that are open. One that has been closed wants no memory for writes.
    fn members(&self) -> Vec<Arc<MemoryManager>> {
        let mut members = self.held();
        members.retain(|m| !m.has_left.load(Ordering::Acquire));
        members
    }

    /// What a Db's memtables that take writes may have beside the others': its part, or its own
    /// pages and a part of what there is beside pages.
    fn fair(&self, own: &BudgetTally, members: usize) -> u64 {
        self.limit(own.pages(), members.max(1) as u64)
    }

    /// How much those that take writes may have when more than they may was met.
    fn goal(&self) -> u64 {
        self.limit(self.all.pages(), 1)
    }

    /// What is left to one of so many who seal: its part of seven eighths of three eighths, or
    /// these pages and its part of what there is beside pages.
    fn limit(&self, pages: u64, members: u64) -> u64 {
        let eighth = self.eighth();
        (3 * eighth / 8 * 7 / members).max(pages + eighth / 8 * 7 / members)
    }
}

/// What a flush or a merge takes at most beside what it writes; counted as long as this is there, so
/// that the cache makes room for it once, and not for each table anew.
pub struct JobBuffers {
    share: Arc<MemoryManager>,
    bytes: u64,
}

impl JobBuffers {
    /// Nothing yet.
    pub fn new(share: &Arc<MemoryManager>) -> JobBuffers {
        JobBuffers { share: share.clone(), bytes: 0 }
    }

    /// It takes so many bytes now, give or take [`BUFFER_STEP`].
    pub fn grow_to(&mut self, bytes: u64) {
        if bytes >= self.bytes + BUFFER_STEP {
            self.share.budget.buffers.fetch_add(bytes - self.bytes, Ordering::Relaxed);
            self.bytes = bytes;
            self.share.rebalance();
        }
    }
}

impl Drop for JobBuffers {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.share.budget.buffers.fetch_sub(self.bytes, Ordering::Relaxed);
            self.share.rebalance();
        }
    }
}

/// A Db's share of a budget; what it has counted is given back when it goes.
pub struct MemoryManager {
    budget: Arc<Budget>,
    own: BudgetTally,
    /// Whether another Db wants memory of this one.
    asked: AtomicBool,
    /// Whether its Db is closed: it wants no memory for writes any more.
    has_left: AtomicBool,
    opener: Arc<TableOpener>,
    work: Arc<BackgroundQueue>,
    max_sealed: usize,
}

impl MemoryManager {
    /// Returns the number of immutable memtables of a tree from which its writers wait for a flush.
    pub fn max_sealed(&self) -> usize {
        self.max_sealed
    }

    /// Returns the block cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.budget.cache
    }

    /// Returns the pool of memtable memory.
    pub fn arenas(&self) -> &Arc<ArenaPool> {
        &self.budget.arenas
    }

    fn resize(&self, is_sealed: bool, before: u64, now: u64) {
        self.own.resize(is_sealed, before, now);
        self.budget.all.resize(is_sealed, before, now);
    }

    /// Counts what a memtable takes now.
    pub fn count(&self, m: &MemHandle) {
        let now = m.mem.taken() as u64;
        self.resize(m.end.get().is_some(), m.counted.swap(now, Ordering::Relaxed), now);
    }

    /// Counts a memtable that has just been sealed as such.
    pub fn seal(&self, m: &MemHandle) {
        let n = m.counted.load(Ordering::Relaxed);
        self.resize(false, n, 0);
        self.resize(true, 0, n);
    }

    /// Counts a memtable no more.
    pub fn release(&self, m: &MemHandle) {
        self.resize(m.end.get().is_some(), m.counted.swap(0, Ordering::Relaxed), 0);
    }

    /// Says how many trees its Db has now.
    pub fn set_trees(&self, n: usize) {
        let before = self.own.trees.swap(n as u64, Ordering::Relaxed);
        self.budget.all.trees.fetch_add((n as u64).wrapping_sub(before), Ordering::Relaxed);
    }

    /// Bytes that memtables may take which an opening fills from the log: what others leave of what
    /// all may have, for nothing waits for its flush meanwhile.
    pub fn for_replay(&self) -> u64 {
        let budget = &self.budget;
        let most = budget
            .most()
            .saturating_sub(budget.total())
            .max(budget.fair(&self.own, budget.members().len()));
        if budget.bytes <= TINY { most / 16 } else { most }
    }

    /// Its Db is closed.
    pub fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
    }

    /// Whether memtables that take writes may have so many bytes more, of all Dbs.
    pub fn may_grow(&self, price: u64) -> bool {
        price + self.budget.all.active() <= self.budget.most_active()
    }

    /// The same if every memtable had a page and no more.
    pub fn may_grow_beside_pages(&self, price: u64) -> bool {
        self.budget.all.pages() + price <= self.budget.most_active()
    }

    /// Gives up the memory that is kept for the next memtable when so many bytes more are too many.
    pub fn trim_for(&self, price: u64) {
        let budget = &self.budget;
        if budget.total() + budget.arenas.spare_bytes() as u64 + price > budget.most() {
            budget.arenas.trim();
        }
    }

    /// Whether so many bytes more are too many, and a flush of this Db will free some.
    pub fn is_short(&self, price: u64) -> bool {
        self.budget.total() + price > self.budget.most() && self.own.sealed() > 0
    }

    /// Whether enough is sealed, `more` bytes included, asked again after each memtable: those that
    /// take writes have seven eighths of what they may; where several Dbs share the budget, this
    /// one has no more than its share of that, and who was `asked` not before.
    pub fn seal_goal(&self, more: u64, asked: bool) -> impl Fn() -> bool + '_ {
        let (budget, own) = (&self.budget, &self.own);
        let members = budget.members().len();
        let is_fair = move || members > 1 && own.active() <= budget.fair(own, members);
        move || {
            own.beyond() == 0
                || is_fair()
                || (!asked && budget.all.active() + more <= budget.goal())
        }
    }

    /// What sealing this memtable would gain, for those that wait for room: 0 where it has its page
    /// and no more.
    pub fn gain(m: &MemHandle) -> u64 {
        let held = m.counted.load(Ordering::Relaxed);
        if beyond(held) > 0 { held } else { 0 }
    }

    /// Asks those Dbs for memory that have more than their share.
    pub fn ask_others(&self) {
        let members = self.budget.members();
        let has_some = |m: &MemoryManager| {
            m.own.active() > self.budget.fair(&m.own, members.len()) && m.own.beyond() > 0
        };
        let others = members.iter().filter(|m| !std::ptr::eq(&***m, self) && has_some(m));
        for m in others {
            if !m.asked.swap(true, Ordering::Relaxed) {
                m.work.signal();
                // Who has nothing to do has no workers.
                m.work.call();
            }
        }
    }

    /// Whether another Db has asked for memory of this one since the last call.
    pub fn take_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) && self.asked.swap(false, Ordering::Relaxed)
    }

    /// Gives the cache what memtables, trees, indexes, filters and the buffers of flushes and merges
    /// leave of the budget, but never less than an eighth of it. A thirty-second is kept for those
    /// buffers, however few there are, and another for what is not counted one by one: views, what
    /// walks read ahead, the allocator's own. Of several at once one does it for all, so that what
    /// changed last is what counts.
    pub fn rebalance(&self) {
        self.budget.settled.after_change(|| self.budget.give_cache_the_rest());
    }

    /// What it is a share of.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// What is there for each of those that share it.
    pub fn part(&self) -> u64 {
        self.budget.bytes / self.budget.members().len().max(1) as u64
    }

    /// Bytes of the whole budget.
    pub fn bytes(&self) -> u64 {
        self.budget.bytes
    }
}

impl Drop for MemoryManager {
    fn drop(&mut self) {
        self.budget.all.active.fetch_sub(self.own.active(), Ordering::Relaxed);
        self.budget.all.beyond.fetch_sub(self.own.beyond(), Ordering::Relaxed);
        self.budget.all.sealed.fetch_sub(self.own.sealed(), Ordering::Relaxed);
        self.budget.all.trees.fetch_sub(self.own.trees(), Ordering::Relaxed);
    }
}
