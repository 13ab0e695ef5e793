//! Counters of what a tree's readers did with filters and blocks. Counting costs next to nothing.
//!
//! Invariants:
//! - Nothing that happens for each read touches memory that threads share: of what is frequent one
//!   in [`SAMPLED`] is looked at and counts for all of them. Reads of blocks that are not in memory
//!   are counted one by one; next to the read the count is nothing.
//! - The atomics are the standard library's, so that models and schedules do not grow by choices
//!   that decide nothing.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// One in so many is looked at. A prime, so that no pattern of operations that repeats hides from
/// it.
pub const SAMPLED: u32 = 257;

thread_local! {
    /// How many of this thread's steps from block to block go by until one is counted.
    static LEFT: Cell<u32> = const { Cell::new(1) };
}

/// Where a thread begins to count down, so that threads that live shortly are seen as often as
/// others: each begins elsewhere.
pub fn some_phase() -> u32 {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    let thread = THREADS.fetch_add(1, Ordering::Relaxed);
    // Multiples of the golden ratio lie evenly.
    let spread = thread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((spread * u64::from(SAMPLED)) >> 32) as u32
}

/// Counts of one tree, for all its readers.
#[derive(Debug, Default)]
pub struct ReadCounters {
    gets: AtomicU64,
    found: AtomicU64,
    in_memtables: AtomicU64,
    filters_asked: AtomicU64,
    filters_no: AtomicU64,
    filters_wrong: AtomicU64,
    blocks_cached: AtomicU64,
    blocks_mapped: AtomicU64,
    blocks_read: AtomicU64,
    bytes_read: AtomicU64,
}

/// What reads did since the Db was opened, by what was counted of them. Gets, filters and blocks in
/// memory are estimates: of each thread's operations one in
/// [`Latencies::sampled`](crate::Latencies::sampled) is looked at, and counts for as many. Blocks
/// read are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadStats {
    /// Gets of one key, of those of several keys at once each key (estimated).
    pub gets: u64,
    /// Gets that found a value (estimated).
    pub found: u64,
    /// Gets that a memtable answered (estimated).
    pub in_memtables: u64,
    /// Filters of tables that were asked: by gets, and, where they hold prefixes, by reads of
    /// ranges, a run at a time (estimated).
    pub filters_asked: u64,
    /// Those that knew that nothing is there: each saved the search of a block (estimated).
    pub filters_no: u64,
    /// Those that said that a get's key may be there where it was not (estimated).
    pub filters_wrong: u64,
    /// Blocks that were in the cache (estimated).
    pub blocks_cached: u64,
    /// Blocks that were served from the map of their file (estimated).
    pub blocks_mapped: u64,
    /// Blocks that were not in the cache, and were read for a reader, and decoded but for large
    /// values that it did not want. Those that compactions read are not among them.
    pub blocks_read: u64,
    /// Bytes of those blocks in their files.
    pub bytes_read: u64,
}

impl ReadStats {
    /// The share of blocks that were in the cache when a reader wanted them, of those that are not
    /// served from maps: 0 to 1; `None` when there were none.
    pub fn hit_rate(&self) -> Option<f64> {
        let all = self.blocks_cached + self.blocks_read;
        (all > 0).then(|| self.blocks_cached as f64 / all as f64)
    }

    /// Of the filters that were asked about keys that were not there, the share that did not know:
    /// 0 to 1; `None` when none was.
    pub fn false_positive_rate(&self) -> Option<f64> {
        let all = self.filters_no + self.filters_wrong;
        (all > 0).then(|| self.filters_wrong as f64 / all as f64)
    }

    /// Adds those of another tree.
    pub fn add(&mut self, other: &ReadStats) {
        self.gets += other.gets;
        self.found += other.found;
        self.in_memtables += other.in_memtables;
        self.filters_asked += other.filters_asked;
        self.filters_no += other.filters_no;
        self.filters_wrong += other.filters_wrong;
        self.blocks_cached += other.blocks_cached;
        self.blocks_mapped += other.blocks_mapped;
        self.blocks_read += other.blocks_read;
        self.bytes_read += other.bytes_read;
    }
}

/// For so many one that is looked at counts.
const EACH: u64 = SAMPLED as u64;

fn more(count: &AtomicU64, by: u64) {
    count.fetch_add(by, Ordering::Relaxed);
}

impl ReadCounters {
    /// A get that was looked at: what it gave.
    pub fn got(&self, found: bool, in_memtable: bool) {
        more(&self.gets, EACH);
        more(&self.found, EACH * u64::from(found));
        more(&self.in_memtables, EACH * u64::from(in_memtable));
    }

    /// A filter that was asked by a read that was looked at.
    pub fn asked_filter(&self, maybe: bool) {
        more(&self.filters_asked, EACH);
        more(&self.filters_no, EACH * u64::from(!maybe));
    }

    /// A filter that was wrong in a get that was looked at.
    pub fn filter_was_wrong(&self) {
        more(&self.filters_wrong, EACH);
    }

    /// A block that a read that was looked at found in the cache.
    pub fn block_was_cached(&self) {
        more(&self.blocks_cached, EACH);
    }

    /// A block that a read that was looked at was served from a map.
    pub fn block_was_mapped(&self) {
        more(&self.blocks_mapped, EACH);
    }

    /// A block that had to be read, of so many bytes.
    pub fn block_was_read(&self, bytes: u64) {
        more(&self.blocks_read, 1);
        more(&self.bytes_read, bytes);
    }

    /// Adds what was counted elsewhere, of a tree that goes.
    pub fn add(&self, s: &ReadStats) {
        more(&self.gets, s.gets);
        more(&self.found, s.found);
        more(&self.in_memtables, s.in_memtables);
        more(&self.filters_asked, s.filters_asked);
        more(&self.filters_no, s.filters_no);
        more(&self.filters_wrong, s.filters_wrong);
        more(&self.blocks_cached, s.blocks_cached);
        more(&self.blocks_mapped, s.blocks_mapped);
        more(&self.blocks_read, s.blocks_read);
        more(&self.bytes_read, s.bytes_read);
    }

    /// What was counted until now.
    pub fn told(&self) -> ReadStats {
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        ReadStats {
            gets: get(&self.gets),
            found: get(&self.found),
            in_memtables: get(&self.in_memtables),
            filters_asked: get(&self.filters_asked),
            filters_no: get(&self.filters_no),
            filters_wrong: get(&self.filters_wrong),
            blocks_cached: get(&self.blocks_cached),
            blocks_mapped: get(&self.blocks_mapped),
            blocks_read: get(&self.blocks_read),
            bytes_read: get(&self.bytes_read),
        }
    }
}

/// Whether this step of the thread's cursors, from block to block or from filter to filter, is one
/// that is looked at.
#[inline]
pub fn is_looked_at() -> bool {
    if cfg!(interleave) {
        // What a thread has counted in one schedule would be another in the next.
        return false;
    }
    let left = LEFT.get() - 1;
    LEFT.set(left);
    left == 0 && begin_again()
}

#[cold]
fn begin_again() -> bool {
    thread_local! {
        static IS_NEW: Cell<bool> = const { Cell::new(true) };
    }
    let left = if IS_NEW.replace(false) { some_phase() } else { 0 };
    LEFT.set(if left == 0 { SAMPLED } else { left });
    left == 0
}
