//! What a Db can tell about itself: counters, memory, levels, what holds space back.

use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use crate::base::key::Seq;
use crate::compaction::Action;
use crate::merge::retain::Dropped;

use super::core::Core;
use super::snapshot::SnapshotInfo;

/// Counters kept since the Db was opened.
pub struct Counters {
    pub(super) flushes: AtomicU64,
    pub(super) flush_in: AtomicU64,
    pub(super) flush_out: AtomicU64,
    pub(super) flush_nanos: AtomicU64,
    compactions: AtomicU64,
    moves: AtomicU64,
    drops: AtomicU64,
    compact_in: AtomicU64,
    compact_out: AtomicU64,
    compact_nanos: AtomicU64,
    shadowed: AtomicU64,
    deletes: AtomicU64,
    covered: AtomicU64,
    purged: AtomicU64,
    flush_micros: Mutex<Histogram<u64>>,
    compact_micros: Mutex<Histogram<u64>>,
}

/// A histogram of microseconds up to an hour with 3 significant digits.
fn histogram() -> Mutex<Histogram<u64>> {
    let h = Histogram::new_with_bounds(1, 3_600_000_000, 3).or_else(|_| Histogram::new(3));
    Mutex::new(h.unwrap_or_else(|_| unreachable!("3 significant digits are within the crate's bounds")))
}

impl Default for Counters {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Counters {
            flushes: zero(),
            flush_in: zero(),
            flush_out: zero(),
            flush_nanos: zero(),
            compactions: zero(),
            moves: zero(),
            drops: zero(),
            compact_in: zero(),
            compact_out: zero(),
            compact_nanos: zero(),
            shadowed: zero(),
            deletes: zero(),
            covered: zero(),
            purged: zero(),
            flush_micros: histogram(),
            compact_micros: histogram(),
        }
    }
}

impl Counters {
    pub(super) fn flushed(&self, memory: u64, bytes: u64, nanos: u64) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flush_in.fetch_add(memory, Ordering::Relaxed);
        self.flush_out.fetch_add(bytes, Ordering::Relaxed);
        self.flush_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.flush_micros.lock().saturating_record(nanos / 1000);
    }

    pub(super) fn compacted(&self, action: Action, read: u64, written: u64, nanos: u64) {
        let counter = match action {
            Action::Merge => &self.compactions,
            Action::Move => &self.moves,
            Action::Drop => &self.drops,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.compact_in.fetch_add(read, Ordering::Relaxed);
        self.compact_out.fetch_add(written, Ordering::Relaxed);
        self.compact_nanos.fetch_add(nanos, Ordering::Relaxed);
        if action == Action::Merge {
            self.compact_micros.lock().saturating_record(nanos / 1000);
        }
    }

    pub(super) fn dropped(&self, d: &Dropped) {
        self.shadowed.fetch_add(d.shadowed, Ordering::Relaxed);
        self.deletes.fetch_add(d.deletes, Ordering::Relaxed);
        self.covered.fetch_add(d.covered, Ordering::Relaxed);
        self.purged.fetch_add(d.purged, Ordering::Relaxed);
    }
}

/// Where a Db's time and bytes went since it was opened, and what it holds now.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Operations written.
    pub ops_written: u64,
    /// Bytes of keys and values written (for batches: of their encoding).
    pub user_bytes: u64,
    /// Bytes of log that are kept.
    pub wal_bytes: u64,
    /// The newest sequence number that may be read.
    pub seq: Seq,
    /// Flushes done.
    pub flushes: u64,
    /// Bytes of tables written by flushes.
    pub flush_bytes: u64,
    /// Nanoseconds spent in flushes.
    pub flush_nanos: u64,
    /// Merging compactions done.
    pub compactions: u64,
    /// Tables moved without rewriting.
    pub moves: u64,
    /// Jobs that only dropped tables.
    pub drops: u64,
    /// Bytes of tables read by compactions.
    pub compaction_read: u64,
    /// Bytes of tables written by compactions.
    pub compaction_written: u64,
    /// Nanoseconds spent in compactions.
    pub compaction_nanos: u64,
    /// Older versions dropped by compactions and flushes.
    pub dropped_shadowed: u64,
    /// Deletes dropped at the bottom.
    pub dropped_deletes: u64,
    /// Entries dropped because a range deletion covers them.
    pub dropped_covered: u64,
    /// Entries dropped by the purge hook.
    pub dropped_purged: u64,
    /// Median, 99th percentile and maximum of flush times in microseconds.
    pub flush_micros: [u64; 3],
    /// Median, 99th percentile and maximum of compaction times in microseconds.
    pub compaction_micros: [u64; 3],
    /// Nanoseconds that writers slept because compaction was behind.
    pub paced_nanos: u64,
    /// Nanoseconds that writers waited for a memtable.
    pub stalled_nanos: u64,
    /// Where the memory is.
    pub memory: Memory,
    /// The trees.
    pub trees: Vec<TreeStats>,
    /// Live snapshots, which hold old versions back.
    pub snapshots: Vec<SnapshotInfo>,
}

/// Anonymous memory of a Db in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// What the user allowed.
    pub budget: u64,
    /// Memtables, active and sealed, and spare arenas.
    pub memtables: u64,
    /// Decoded blocks.
    pub cache: u64,
    /// What the cache may grow to at present.
    pub cache_capacity: u64,
    /// Indexes and filters of open tables.
    pub tables: u64,
}

impl Memory {
    /// The sum.
    pub fn total(&self) -> u64 {
        self.memtables + self.cache + self.tables
    }
}

/// One tree.
#[derive(Clone, Debug, Default)]
pub struct TreeStats {
    /// Its name.
    pub name: String,
    /// Bytes in its memtables.
    pub memtable_bytes: u64,
    /// Memtables that wait for their flush.
    pub sealed: usize,
    /// Its runs, newest first.
    pub runs: Vec<RunStats>,
    /// Bytes that its policy still wants rewritten.
    pub debt: u64,
}

/// One run.
#[derive(Clone, Debug, Default)]
pub struct RunStats {
    /// Its level.
    pub level: u8,
    /// Its number.
    pub number: u64,
    /// How many tables it has.
    pub tables: usize,
    /// Bytes of its files.
    pub bytes: u64,
    /// Bytes of keys and values in it, uncompressed.
    pub raw_bytes: u64,
    /// Entries in it.
    pub entries: u64,
    /// Deletes among them.
    pub deletes: u64,
}

impl Stats {
    /// Bytes of all table files.
    pub fn table_bytes(&self) -> u64 {
        self.trees.iter().flat_map(|t| &t.runs).map(|r| r.bytes).sum()
    }

    /// Bytes written to tables for each byte that the user wrote.
    pub fn write_amplification(&self) -> f64 {
        (self.flush_bytes + self.compaction_written) as f64 / self.user_bytes.max(1) as f64
    }

    /// The most runs that a read of one key may have to look into.
    pub fn read_amplification(&self) -> usize {
        self.trees.iter().map(|t| t.runs.len()).max().unwrap_or(0)
    }
}

fn percentiles(h: &Mutex<Histogram<u64>>) -> [u64; 3] {
    let h = h.lock();
    if h.is_empty() { [0; 3] } else { [h.value_at_quantile(0.5), h.value_at_quantile(0.99), h.max()] }
}

impl Core {
    /// Everything that can be told.
    pub fn stats(&self) -> Stats {
        let c = &self.counters;
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        let (ops_written, user_bytes, wal_bytes) = {
            let w = self.write.lock();
            (w.ops, w.bytes, w.wal.as_ref().map_or(0, |w| w.live_bytes()))
        };
        let mut s = Stats {
            ops_written,
            user_bytes,
            wal_bytes,
            seq: self.read_point(),
            flushes: get(&c.flushes),
            flush_bytes: get(&c.flush_out),
            flush_nanos: get(&c.flush_nanos),
            compactions: get(&c.compactions),
            moves: get(&c.moves),
            drops: get(&c.drops),
            compaction_read: get(&c.compact_in),
            compaction_written: get(&c.compact_out),
            compaction_nanos: get(&c.compact_nanos),
            dropped_shadowed: get(&c.shadowed),
            dropped_deletes: get(&c.deletes),
            dropped_covered: get(&c.covered),
            dropped_purged: get(&c.purged),
            flush_micros: percentiles(&c.flush_micros),
            compaction_micros: percentiles(&c.compact_micros),
            paced_nanos: get(&self.pace.slept),
            stalled_nanos: get(&self.pace.stalled),
            memory: self.memory(),
            trees: vec![],
            snapshots: self.snapshots.infos(),
        };
        s.trees = self.trees.read().iter().map(|t| self.tree_stats(t)).collect();
        s
    }

    fn tree_stats(&self, t: &super::tree::TreeCore) -> TreeStats {
        let files = t.files.lock();
        let view = t.view.load_full();
        let shape = self.shape(&view.version, &view.options, &files);
        let run = |r: &std::sync::Arc<crate::merge::run::Run>| RunStats {
            level: r.level,
            number: r.number,
            tables: r.tables.len(),
            bytes: r.size(),
            raw_bytes: r.tables.iter().map(|t| t.meta.raw_bytes).sum(),
            entries: r.tables.iter().map(|t| t.meta.entries).sum(),
            deletes: r.tables.iter().map(|t| t.meta.deletes).sum(),
        };
        TreeStats {
            name: t.name.clone(),
            memtable_bytes: view.memtables().map(|m| m.mem.used() as u64).sum(),
            sealed: view.sealed.len(),
            runs: view.version.runs.iter().map(run).collect(),
            debt: crate::compaction::debt(&view.options.policy, &shape),
        }
    }

    /// Where the memory is.
    pub fn memory(&self) -> Memory {
        let cache = self.cache.usage();
        Memory {
            budget: self.options.memory_budget as u64,
            memtables: self.arenas.bytes() as u64,
            cache: cache.resident as u64,
            cache_capacity: cache.capacity as u64,
            tables: self.table_memory(),
        }
    }

    /// Bytes of indexes and filters of open tables.
    pub fn table_memory(&self) -> u64 {
        let trees = self.trees.read().clone();
        let of = |t: &std::sync::Arc<super::tree::TreeCore>| -> u64 {
            let view = t.view.load_full();
            let tables = view.version.runs.iter().flat_map(|r| &r.tables);
            tables.filter_map(|t| t.opened()).map(|t| t.memory() as u64).sum()
        };
        trees.iter().map(of).sum()
    }

    /// Gives the cache what memtables, indexes and filters leave of the budget, but never less than an eighth of it. A sixteenth
    /// is kept for what is not counted one by one: buffers of compactions, views, the allocator's own.
    pub fn rebalance(&self) {
        let budget = self.options.memory_budget as u64;
        let budget = budget - budget / 16;
        let taken = self.arenas.bytes() as u64 + self.table_memory();
        let rest = budget.saturating_sub(taken).max(budget / 8);
        self.cache.set_capacity(rest as usize);
    }
}
