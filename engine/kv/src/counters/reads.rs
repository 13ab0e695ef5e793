//! Counts what the readers of a tree do with filters and blocks, at negligible cost.
//!
//! Invariants:
//! - No work that happens for each read touches memory that threads share. One in [`SAMPLED`]
//!   frequent operations is sampled and counts for all of them. Reads of blocks that are not in
//!   memory are counted one by one, because the read costs far more than the count.
//! - The atomics are those of the standard library. So the models (`loom`) and schedules
//!   (`interleave`) do not grow by choices that affect no decision.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sampling interval in operations. It is prime, so that no repeating pattern of operations escapes
/// it.
pub const SAMPLED: u32 = 257;

thread_local! {
    /// Block-to-block steps of this thread until the next sample.
    static LEFT: Cell<u32> = const { Cell::new(1) };
}

/// Returns the initial countdown of a thread. Each thread starts at another value, so that
/// operations of short-lived threads are sampled as often as others.
pub fn sampling_phase() -> u32 {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    let thread = THREADS.fetch_add(1, Ordering::Relaxed);
    // Multiples of the golden ratio are spread evenly.
    let spread = thread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((spread * u64::from(SAMPLED)) >> 32) as u32
}

/// Read counters of one tree, shared by all its readers.
#[derive(Debug, Default)]
pub struct ReadCounters {
    gets: AtomicU64,
    found: AtomicU64,
    in_memtables: AtomicU64,
    filter_probes: AtomicU64,
    filter_negatives: AtomicU64,
    filter_false_positives: AtomicU64,
    blocks_cached: AtomicU64,
    blocks_mapped: AtomicU64,
    blocks_read: AtomicU64,
    bytes_read: AtomicU64,
}

/// Read statistics since the Db was opened. Gets, filters and blocks in memory are estimates: one
/// in [`Latencies::sampled`](crate::stats::Latencies::sampled) operations of each thread is sampled
/// and counts for as many. Blocks read are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadStats {
    /// Gets of keys; a get of several keys counts each key (estimated).
    pub gets: u64,
    /// Gets that found a value (estimated).
    pub found: u64,
    /// Gets that a memtable answered (estimated).
    pub in_memtables: u64,
    /// Filter probes by gets, and by range reads where filters hold prefixes, one for each run
    /// (estimated).
    pub filter_probes: u64,
    /// Filter probes with a negative result. Each saved the search of a block (estimated).
    pub filter_negatives: u64,
    /// False positives: filter probes of gets that were positive although the key was absent
    /// (estimated).
    pub filter_false_positives: u64,
    /// Blocks found in the block cache (estimated).
    pub blocks_cached: u64,
    /// Blocks served from the map of their file (estimated).
    pub blocks_mapped: u64,
    /// Blocks that were not in the cache and were read and decoded for a reader. Large values that
    /// the reader did not need are not decoded. Blocks read by compactions are not included.
    pub blocks_read: u64,
    /// Bytes of those blocks in their files.
    pub bytes_read: u64,
}

impl ReadStats {
    /// Returns the cache hit rate of blocks, 0 to 1, without blocks served from maps; `None` if
    /// there were none.
    pub fn hit_rate(&self) -> Option<f64> {
        let all = self.blocks_cached + self.blocks_read;
        (all > 0).then(|| self.blocks_cached as f64 / all as f64)
    }

    /// Returns the share of positive results among filter probes for absent keys, 0 to 1; `None` if
    /// there were none.
    pub fn false_positive_rate(&self) -> Option<f64> {
        let all = self.filter_negatives + self.filter_false_positives;
        (all > 0).then(|| self.filter_false_positives as f64 / all as f64)
    }

    /// Adds the statistics of another tree.
    #[doc(hidden)]
    pub fn add(&mut self, other: &ReadStats) {
        self.gets += other.gets;
        self.found += other.found;
        self.in_memtables += other.in_memtables;
        self.filter_probes += other.filter_probes;
        self.filter_negatives += other.filter_negatives;
        self.filter_false_positives += other.filter_false_positives;
        self.blocks_cached += other.blocks_cached;
        self.blocks_mapped += other.blocks_mapped;
        self.blocks_read += other.blocks_read;
        self.bytes_read += other.bytes_read;
    }
}

/// Weight of one sampled operation.
const EACH: u64 = SAMPLED as u64;

fn more(count: &AtomicU64, by: u64) {
    count.fetch_add(by, Ordering::Relaxed);
}

impl ReadCounters {
    /// Counts a sampled get and its result.
    pub fn got(&self, found: bool, in_memtable: bool) {
        more(&self.gets, EACH);
        more(&self.found, EACH * u64::from(found));
        more(&self.in_memtables, EACH * u64::from(in_memtable));
    }

    /// Counts a filter probe of a sampled read.
    pub fn checked_filter(&self, maybe: bool) {
        more(&self.filter_probes, EACH);
        more(&self.filter_negatives, EACH * u64::from(!maybe));
    }

    /// Counts a false positive of a sampled get.
    pub fn filter_was_wrong(&self) {
        more(&self.filter_false_positives, EACH);
    }

    /// Counts a block that a sampled read found in the cache.
    pub fn block_was_cached(&self) {
        more(&self.blocks_cached, EACH);
    }

    /// Counts a block that a sampled read got from a map.
    pub fn block_was_mapped(&self) {
        more(&self.blocks_mapped, EACH);
    }

    /// Counts a block that was read from a file, with its size in bytes.
    pub fn block_was_read(&self, bytes: u64) {
        more(&self.blocks_read, 1);
        more(&self.bytes_read, bytes);
    }

    /// Adds the statistics of a tree that is being removed.
    pub fn add(&self, s: &ReadStats) {
        more(&self.gets, s.gets);
        more(&self.found, s.found);
        more(&self.in_memtables, s.in_memtables);
        more(&self.filter_probes, s.filter_probes);
        more(&self.filter_negatives, s.filter_negatives);
        more(&self.filter_false_positives, s.filter_false_positives);
        more(&self.blocks_cached, s.blocks_cached);
        more(&self.blocks_mapped, s.blocks_mapped);
        more(&self.blocks_read, s.blocks_read);
        more(&self.bytes_read, s.bytes_read);
    }

    /// Returns the counts so far.
    pub fn report(&self) -> ReadStats {
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        ReadStats {
            gets: get(&self.gets),
            found: get(&self.found),
            in_memtables: get(&self.in_memtables),
            filter_probes: get(&self.filter_probes),
            filter_negatives: get(&self.filter_negatives),
            filter_false_positives: get(&self.filter_false_positives),
            blocks_cached: get(&self.blocks_cached),
            blocks_mapped: get(&self.blocks_mapped),
            blocks_read: get(&self.blocks_read),
            bytes_read: get(&self.bytes_read),
        }
    }
}

/// Reports whether to sample this step of the thread's cursors, from block to block or from filter
/// to filter.
#[inline]
pub fn should_sample() -> bool {
    if cfg!(interleave) {
        // Thread-local counts would differ from one schedule to the next.
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
    let left = if IS_NEW.replace(false) { sampling_phase() } else { 0 };
    LEFT.set(if left == 0 { SAMPLED } else { left });
    left == 0
}
