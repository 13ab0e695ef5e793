//! Memory budget of memtables and the block cache, for one Db or for several Dbs that share it.
//!
//! Memtables get their memory as [`MemtableRoom`](crate::memtable::MemtableRoom), one piece at a
//! time, under the write lock of their Db. The budget is divided as follows:
//! - Each tree has a fixed cost ([`TREE`]). All trees together count for at most half of the
//!   budget.
//! - Active memtables may take three eighths of the rest.
//! - Active and immutable memtables together may take three quarters of the rest.
//! - The block cache gets the remainder, but at least an eighth of the budget.
//!
//! The smallest memtable with an entry takes one page ([`LEAST`]), for one entry as for twenty.
//! With very many trees, the pages alone may exceed three eighths. Sealing such a memtable frees
//! one page until the next put into its tree, and then each put would cost a table. So each tree
//! keeps its first page. Beyond these pages, active memtables share at least another eighth. A
//! budget that is too small for its trees therefore exceeds its limit by the pages. It does not
//! cause one flush per put.
//!
//! Invariants:
//! - B1: a memtable is counted as long as a current view refers to it. Readers of older views do
//!   not matter. So without worker threads, only the history of writes decides which memtable is
//!   sealed when.
//! - B2: a writer that finds three eighths in use seals memtables until usage is seven eighths of
//!   that. It first seals the memtable with the largest size times age, the age in bytes of log. By
//!   size alone, rarely written trees would keep the memory. By age alone, flushes would write the
//!   smallest tables. The flushes run concurrently. A memtable of at most one page is never sealed
//!   for this.
//! - B3: a writer waits only while three quarters are in use and its own Db has an immutable
//!   memtable. So it waits until the next flush ends or fails. A Db without immutable memtables may
//!   always write, regardless of the memory of other Dbs. If pages raise the limit of active
//!   memtables above three eighths, the limit of all memtables rises by the same amount.
//! - B4: a Db seals only its own memtables, and not below its share of the budget. Dbs above their
//!   share are asked for memory ([`MemoryManager::request_from_others`]). They seal as soon as one
//!   of their workers or writers checks.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};

use crate::block_cache::Cache;
use crate::iterator::empty_range_cache;
use crate::iterator::opener::TableOpener;
use crate::memtable::{ArenaPool, LEAST, Memtable};
use crate::util::coalescer::Coalescer;
use crate::util::sort::sort_by_key;
use crate::util::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

use crate::db::commit::mem_handle::MemHandle;
use crate::db::scheduler::queue::BackgroundQueue;

/// Budget in bytes up to which an open in a debug build uses only a sixteenth for replay. This
/// makes tests with short logs flush during the open.
const TINY: u64 = if cfg!(debug_assertions) { 4 << 20 } else { 0 };

/// Bytes that an empty tree takes: its view, options, names, manifest entry, and a memtable without
/// arena memory.
pub const TREE: u64 = 7 << 9;

/// Largest number of immutable memtables of a tree, whatever the budget: each is another source of a
/// cursor.
const MAX_SEALED: usize = 6;

/// Smallest increase that a job reports, in bytes.
const BUFFER_STEP: u64 = 1 << 20;

const _: () = assert!(size_of::<Memtable>() + size_of::<MemHandle>() <= TREE as usize / 2);

/// Returns how many immutable memtables of a tree may wait for their flush. Together with the active
/// memtable they fit into three quarters of the budget.
fn max_sealed(budget: u64, largest_memtable: u64) -> usize {
    let memtables = budget / 4 * 3 / largest_memtable.max(1);
    (memtables as usize).saturating_sub(1).clamp(1, MAX_SEALED)
}

/// Counts of memtable bytes and of trees.
#[derive(Default)]
struct BudgetTally {
    /// Bytes of active memtables.
    active: AtomicU64,
    /// Part of `active` beyond one page for each memtable.
    beyond: AtomicU64,
    /// Bytes of immutable memtables.
    sealed: AtomicU64,
    /// Number of trees.
    trees: AtomicU64,
}

impl BudgetTally {
    fn active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    fn beyond(&self) -> u64 {
        self.beyond.load(Ordering::Relaxed)
    }

    /// Returns the bytes of active memtables within their first page.
    fn pages(&self) -> u64 {
        self.active().saturating_sub(self.beyond())
    }

    fn sealed(&self) -> u64 {
        self.sealed.load(Ordering::Relaxed)
    }

    /// Records that an active or sealed memtable took `before` bytes and now takes `now`.
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

/// Returns the bytes of a memtable beyond its first page, which its tree always keeps.
fn beyond(bytes: u64) -> u64 {
    bytes.saturating_sub(LEAST as u64)
}

/// Memory budget of one Db, or of several Dbs that share it.
pub struct Budget {
    bytes: u64,
    /// Block cache with decoded blocks.
    pub cache: Arc<Cache>,
    /// Arenas of memtables.
    pub arenas: Arc<ArenaPool>,
    /// Bytes of working buffers of flushes and compactions.
    buffers: AtomicU64,
    /// Memory of the trees' empty-range caches. It is part of the thirty-second that
    /// [`MemoryManager::rebalance`] reserves.
    pub empty_ranges: Arc<empty_range_cache::EmptyRangeBudget>,
    all: BudgetTally,
    members: Mutex<Vec<Weak<MemoryManager>>>,
    /// Coalesces concurrent updates of the cache's capacity.
    up_to_date: Coalescer,
}

impl Budget {
    /// Creates a budget of `bytes` bytes.
    pub fn new(bytes: usize) -> Budget {
        let (all, members) = (BudgetTally::default(), Mutex::default());
        let empty_ranges = empty_range_cache::EmptyRangeBudget::new(bytes as u64 / 64);
        Budget {
            bytes: bytes as u64,
            cache: Cache::within(bytes, bytes / 2),
            arenas: ArenaPool::new(1),
            buffers: AtomicU64::new(0),
            empty_ranges,
            all,
            members,
            up_to_date: Coalescer::default(),
        }
    }

    /// Returns the bytes that trees take, limited to half of the budget.
    fn of_trees(&self) -> u64 {
        self.all.trees().saturating_mul(TREE).min(self.bytes / 2)
    }

    /// Returns an eighth of the budget without the bytes of the trees.
    fn eighth(&self) -> u64 {
        (self.bytes - self.of_trees()) / 8
    }

    /// Returns the limit of all active memtables in bytes.
    fn most_active(&self) -> u64 {
        (3 * self.eighth()).max(self.all.pages() + self.eighth())
    }

    /// Returns the limit of all memtables, active and immutable, in bytes.
    fn most(&self) -> u64 {
        self.most_active() + 3 * self.eighth()
    }

    fn total(&self) -> u64 {
        self.all.active() + self.all.sealed()
    }

    /// Returns the bytes of working buffers of flushes and compactions.
    pub fn of_jobs(&self) -> u64 {
        self.buffers.load(Ordering::Relaxed)
    }

    /// Sets the cache's capacity to the rest of the budget.
    fn give_cache_the_rest(&self) {
        let members = self.held();
        let mut openers: Vec<_> = members.iter().map(|m| &m.opener).collect();
        // Readers that were created from one another share one opener.
        sort_by_key(&mut openers, |o| Arc::as_ptr(o));
        openers.dedup_by_key(|o| Arc::as_ptr(o));
        let tables: u64 = openers.iter().map(|o| o.memory()).sum();
        let taken = self.arenas.bytes() as u64 + self.of_trees() + tables;
        let buffers = self.of_jobs().max(self.bytes / 32);
        let rest = self.bytes - self.bytes / 32;
        let rest = rest.saturating_sub(taken.saturating_add(buffers)).max(self.bytes / 8);
        self.cache.set_capacity(rest as usize);
    }

    /// Adds a Db to the budget and returns its share.
    pub fn share(
        self: &Arc<Budget>,
        opener: &Arc<TableOpener>,
        work: &Arc<BackgroundQueue>,
        largest_memtable: usize,
    ) -> Arc<MemoryManager> {
        let (budget, opener, work) = (self.clone(), opener.clone(), work.clone());
        let max_sealed = max_sealed(self.bytes, largest_memtable as u64);
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

    /// Returns the shares of all Dbs that still have a handle.
    fn held(&self) -> Vec<Arc<MemoryManager>> {
        let mut members = self.members.lock();
        members.retain(|m| m.strong_count() > 0);
        members.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the shares of Dbs that are not closed. A closed Db needs no memory for writes.
    fn members(&self) -> Vec<Arc<MemoryManager>> {
        let mut members = self.held();
        members.retain(|m| !m.has_left.load(Ordering::Acquire));
        members
    }

    /// Returns the fair limit of active memtables of one Db in bytes. It is the larger of two
    /// values: an equal part for each member, or the Db's own pages plus an equal part of the
    /// memory beyond pages.
    fn fair(&self, own: &BudgetTally, members: usize) -> u64 {
        self.limit(own.pages(), members.max(1) as u64)
    }

    /// Returns the bytes to which active memtables shrink once they have reached their limit.
    fn goal(&self) -> u64 {
        self.limit(self.all.pages(), 1)
    }

    /// Returns the goal of sealing for one of `members`, in bytes. It is the larger of two values:
    /// its part of 7/8 of three eighths, or `pages` plus its part of 7/8 of an eighth.
    fn limit(&self, pages: u64, members: u64) -> u64 {
        let eighth = self.eighth();
        (3 * eighth / 8 * 7 / members).max(pages + eighth / 8 * 7 / members)
    }
}

/// Largest buffer memory that a flush or a compaction has used, counted until this value is
/// dropped. So the cache makes room for it once, and not again for each table.
pub struct JobBuffers {
    share: Arc<MemoryManager>,
    bytes: u64,
}

impl JobBuffers {
    /// Starts with no bytes.
    pub fn new(share: &Arc<MemoryManager>) -> JobBuffers {
        JobBuffers { share: share.clone(), bytes: 0 }
    }

    /// Raises the count to `bytes`, with a granularity of [`BUFFER_STEP`].
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

/// Share of one Db in a budget. Dropping it subtracts its counts from the budget.
pub struct MemoryManager {
    budget: Arc<Budget>,
    own: BudgetTally,
    /// Whether another Db has asked this one to free memory.
    asked: AtomicBool,
    /// Whether its Db is closed and needs no more memory for writes.
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

    /// Updates the count of a memtable to its present size.
    pub fn count(&self, m: &MemHandle) {
        let now = m.mem.taken() as u64;
        self.resize(m.end.get().is_some(), m.counted.swap(now, Ordering::Relaxed), now);
    }

    /// Moves the bytes of a memtable that was just sealed from active to sealed.
    pub fn seal(&self, m: &MemHandle) {
        let n = m.counted.load(Ordering::Relaxed);
        self.resize(false, n, 0);
        self.resize(true, 0, n);
    }

    /// Removes a memtable from the counts.
    pub fn release(&self, m: &MemHandle) {
        self.resize(m.end.get().is_some(), m.counted.swap(0, Ordering::Relaxed), 0);
    }

    /// Sets the number of trees of this Db.
    pub fn set_trees(&self, n: usize) {
        let before = self.own.trees.swap(n as u64, Ordering::Relaxed);
        self.budget.all.trees.fetch_add((n as u64).wrapping_sub(before), Ordering::Relaxed);
    }

    /// Returns how many bytes memtables may take while an open replays the log. This is the part of
    /// the limit for all memtables that other Dbs leave free, but at least the fair limit. No
    /// memtable waits for a flush during replay, so all of it may be active.
    pub fn for_replay(&self) -> u64 {
        let budget = &self.budget;
        let most = budget
            .most()
            .saturating_sub(budget.total())
            .max(budget.fair(&self.own, budget.members().len()));
        if budget.bytes <= TINY { most / 16 } else { most }
    }

    /// Records that the Db is closed.
    pub fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
    }

    /// Reports whether active memtables of all Dbs may grow by `price` bytes.
    pub fn may_grow(&self, price: u64) -> bool {
        price + self.budget.all.active() <= self.budget.most_active()
    }

    /// Reports the same as [`MemoryManager::may_grow`], as if each active memtable had only its
    /// first page.
    pub fn may_grow_beside_pages(&self, price: u64) -> bool {
        self.budget.all.pages() + price <= self.budget.most_active()
    }

    /// Frees spare arenas when `price` more bytes would exceed the limit of all memtables.
    pub fn trim_for(&self, price: u64) {
        let budget = &self.budget;
        if budget.total() + budget.arenas.spare_bytes() as u64 + price > budget.most() {
            budget.arenas.trim();
        }
    }

    /// Reports whether `price` more bytes exceed the limit and a flush of this Db will free memory.
    pub fn is_short(&self, price: u64) -> bool {
        self.budget.total() + price > self.budget.most() && self.own.sealed() > 0
    }

    /// Returns a predicate that reports whether enough is sealed; evaluate it after each sealed
    /// memtable. Enough is sealed when active memtables with `more` bytes take at most seven
    /// eighths of their limit. If several Dbs share the budget, it is also enough that this Db is
    /// within its fair limit. A Db that was `asked` stops only at its fair limit, or when it has no
    /// memory beyond pages.
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

    /// Returns the bytes that sealing this memtable would free for waiting writers. Returns 0 for a
    /// memtable of at most one page.
    pub fn gain(m: &MemHandle) -> u64 {
        let held = m.counted.load(Ordering::Relaxed);
        if beyond(held) > 0 { held } else { 0 }
    }

    /// Asks the Dbs that exceed their fair limit to free memory.
    pub fn request_from_others(&self) {
        let members = self.budget.members();
        let has_some = |m: &MemoryManager| {
            m.own.active() > self.budget.fair(&m.own, members.len()) && m.own.beyond() > 0
        };
        let others = members.iter().filter(|m| !std::ptr::eq(&***m, self) && has_some(m));
        for m in others {
            if !m.asked.swap(true, Ordering::Relaxed) {
                m.work.signal();
                // An idle Db has no worker threads, so call one.
                m.work.start_workers();
            }
        }
    }

    /// Reports whether another Db has asked this one for memory since the last call.
    pub fn take_request(&self) -> bool {
        self.asked.load(Ordering::Relaxed) && self.asked.swap(false, Ordering::Relaxed)
    }

    /// Sets the cache's capacity to the rest of the budget, but at least an eighth of it. The rest
    /// is without memtables, trees, indexes, filters, and buffers of flushes and compactions. At
    /// least a thirty-second is reserved for those buffers. Another thirty-second is for memory
    /// that is not counted individually: views, readahead of iterators, and the allocator's
    /// overhead. Concurrent calls coalesce into one update, which uses the latest counts.
    pub fn rebalance(&self) {
        self.budget.up_to_date.after_change(|| self.budget.give_cache_the_rest());
    }

    /// Returns the budget of this share.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Returns the bytes of the budget for each Db that shares it.
    pub fn part(&self) -> u64 {
        self.budget.bytes / self.budget.members().len().max(1) as u64
    }

    /// Returns the bytes of the whole budget.
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
