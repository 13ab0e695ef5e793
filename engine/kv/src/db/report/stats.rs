//! Statistics of a Db: counters, memory, levels, and pins that hold space.

use std::sync::Arc;

use crate::base::error::Error;
use crate::base::key::Seq;
use crate::base::open_files::FileStats;
use crate::base::ops::TreeId;
use crate::block_cache::CacheStats;
use crate::compaction::{SpaceBound, one_copy, space_bound};
use crate::counters::reads::ReadStats;
use crate::db::jobs::pick;
use crate::db::observe::Observer;
use crate::db::versions::VersionSet;
use crate::env::Env;
use crate::iterator::opener::table_path;
use crate::iterator::run::TableRun;
use crate::util::sort::sort_by_key;
use crate::util::sorted_map::SortedMap;

use crate::db::inner::DbInner;
use crate::db::observe::meters::Latencies;
use crate::db::observe::pins::{Pin, PinKind, Space};
use crate::db::report::snapshot_space::SnapshotSpace;
use crate::db::versions::snapshots::SnapshotInfo;
use crate::db::versions::tree::TreeInner;

/// Work done by a Db since it was opened, and the memory and space that it uses now.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Number of operations written.
    pub ops_written: u64,
    /// Bytes of keys and values written; for batches, bytes of their encoding.
    pub user_bytes: u64,
    /// Bytes of write-ahead log that are retained.
    pub wal_bytes: u64,
    /// Newest sequence number visible to readers.
    pub seq: Seq,
    /// Number of flushes done.
    pub flushes: u64,
    /// Bytes of tables written by flushes.
    pub flush_bytes: u64,
    /// Nanoseconds spent in flushes.
    pub flush_nanos: u64,
    /// Number of compactions that merged tables.
    pub compactions: u64,
    /// Number of tables moved to another level without rewriting (trivial moves).
    pub moves: u64,
    /// Number of jobs that only dropped tables.
    pub drops: u64,
    /// Bytes of tables read by compactions.
    pub compaction_read: u64,
    /// Bytes of tables written by compactions.
    pub compaction_written: u64,
    /// Nanoseconds spent in compactions.
    pub compaction_nanos: u64,
    /// Number of older versions dropped by compactions and flushes.
    pub dropped_shadowed: u64,
    /// Number of tombstones dropped at the bottom level.
    pub dropped_deletes: u64,
    /// Number of entries dropped because a range deletion covers them.
    pub dropped_covered: u64,
    /// Number of entries dropped by the compaction filter.
    pub dropped_by_filter: u64,
    /// Nanoseconds that writers slept for a slowdown, because compaction was late.
    pub slowdown_nanos: u64,
    /// Nanoseconds that writers waited for a memtable (write stall).
    pub stalled_nanos: u64,
    /// Counters of reads, summed over all trees, including dropped ones.
    pub reads: ReadStats,
    /// Counters of the block cache. Dbs that share a [`MemoryBudget`](crate::MemoryBudget) report
    /// the sum over all of them.
    pub cache: CacheStats,
    /// Latencies of operations.
    pub latencies: Latencies,
    /// Memory in use, by purpose.
    pub memory: Memory,
    /// Number of open table files.
    pub files: FileStats,
    /// Number of keys that transactions have locked ([`Transaction::lock`](crate::Transaction::lock)).
    pub locked_keys: u64,
    /// Number of transactions that wait for the lock of a key.
    pub lock_waits: u64,
    /// Bytes of table files, including those of dropped trees.
    pub space: Space,
    /// The reason why the store refuses writes; `None` if it accepts them. The store may be opened
    /// read-only (from the start or after a failure) or closed.
    pub refusal: Option<Error>,
    /// Free bytes on the file system of the store, if the system reports them.
    pub disk_free: Option<u64>,
    /// Statistics of each tree.
    pub trees: Vec<TreeStats>,
    /// Live snapshots, which retain old versions.
    pub snapshots: Vec<SnapshotInfo>,
    /// Holders of space: snapshots, readers of old states and jobs in progress; oldest first.
    pub pins: Vec<Pin>,
}

/// Anonymous memory of a Db in bytes. Dbs that share a [`MemoryBudget`](crate::MemoryBudget) report
/// the sum over all of them, except for `tables`.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Memory {
    /// Configured memory budget in bytes.
    pub budget: u64,
    /// Bytes in use by active and immutable memtables, and memory reserved for the next memtable.
    pub memtables: u64,
    /// Bytes of decoded blocks.
    pub cache: u64,
    /// Current capacity of the block cache in bytes.
    pub cache_capacity: u64,
    /// Bytes for live tables: 2 KiB each, plus indexes and filters of the open ones.
    pub tables: u64,
    /// Bytes that running flushes, compactions and ingestions use besides their output: tables
    /// under construction take 33 bytes for each key.
    pub jobs: u64,
}

impl Memory {
    /// Returns the sum in bytes; the budget and the cache capacity are not included.
    pub fn total(&self) -> u64 {
        self.memtables + self.cache + self.tables + self.jobs
    }
}

/// Statistics of one tree.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TreeStats {
    /// Name of the tree.
    pub name: String,
    /// Bytes in its memtables.
    pub memtable_bytes: u64,
    /// Number of immutable memtables that wait for their flush.
    pub sealed: usize,
    /// Its runs, newest first.
    pub runs: Vec<RunStats>,
    /// Pending compaction bytes, by its policy.
    pub debt: u64,
    /// Bytes of its table files and blob files.
    pub space: Space,
    /// The space bound that its policy declares for `space`, except for pinned files.
    pub bound: Option<SpaceBound>,
    /// Estimated bytes of one copy of every key: the size of its largest run.
    pub live_bytes: u64,
    /// Counters of its reads.
    pub reads: ReadStats,
    /// Its blob files.
    pub blobs: BlobStats,
}

impl TreeStats {
    /// Returns the declared space bound in bytes, or `None` when the policy declares none. It is
    /// computed from the estimate of live bytes, [`live_bytes`](TreeStats::live_bytes). Blob files are
    /// added, because they have a bound of their own
    /// ([`blob_gc_percent`](crate::TreeOptions::blob_gc_percent)).
    pub fn bound_bytes(&self) -> Option<u64> {
        let bound = self.bound.map(|b| b.bytes(self.live_bytes)).filter(|b| *b < u64::MAX)?;
        Some(bound.saturating_add(self.blobs.bytes))
    }
}

/// Blob files of a tree; see [`blob_threshold`](crate::TreeOptions::blob_threshold).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobStats {
    /// Number of blob files.
    pub files: u64,
    /// Their total length in bytes.
    pub bytes: u64,
    /// Bytes of them that tables refer to. The rest is garbage.
    pub live_bytes: u64,
    /// Number of files under garbage collection: compactions rewrite the values that are still
    /// live.
    pub gc_files: u64,
}

/// Statistics of one run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunStats {
    /// Level of the run.
    pub level: u8,
    /// Number of the run.
    pub number: u64,
    /// Number of its tables.
    pub tables: usize,
    /// Bytes of its files.
    pub bytes: u64,
    /// Uncompressed bytes of its keys and values.
    pub raw_bytes: u64,
    /// Number of its entries.
    pub entries: u64,
    /// Number of tombstones among the entries.
    pub deletes: u64,
}

impl Stats {
    /// Returns the bytes of all table files and blob files.
    pub fn table_bytes(&self) -> u64 {
        let tables: u64 = self.trees.iter().flat_map(|t| &t.runs).map(|r| r.bytes).sum();
        tables + self.trees.iter().map(|t| t.blobs.bytes).sum::<u64>()
    }

    /// Returns the bytes written to tables for each byte that the user wrote.
    pub fn write_amplification(&self) -> f64 {
        (self.flush_bytes + self.compaction_written) as f64 / self.user_bytes.max(1) as f64
    }

    /// Returns the largest number of runs that a point lookup may have to read.
    pub fn read_amplification(&self) -> usize {
        self.trees.iter().map(|t| t.runs.len()).max().unwrap_or(0)
    }
}

/// Collects all statistics.
pub fn collect_stats(db: &DbInner) -> Stats {
    let (written, wal_bytes) = {
        let w = db.commit.lock();
        (w.written(), w.log_bytes())
    };
    let sums = db.observer.counters().sums();
    let (locked_keys, lock_waits) = db.key_locks.counts();
    let mut s = Stats {
        ops_written: written.ops,
        user_bytes: written.bytes,
        wal_bytes,
        seq: db.commit.read_point(),
        flushes: sums.flushes,
        flush_bytes: sums.flush_out,
        flush_nanos: sums.flush_nanos,
        compactions: sums.compactions,
        moves: sums.moves,
        drops: sums.drops,
        compaction_read: sums.compact_in,
        compaction_written: sums.compact_out,
        compaction_nanos: sums.compact_nanos,
        dropped_shadowed: sums.dropped.shadowed,
        dropped_deletes: sums.dropped.deletes,
        dropped_covered: sums.dropped.covered,
        dropped_by_filter: sums.dropped.filtered,
        slowdown_nanos: db.scheduler.writes().slept(),
        stalled_nanos: db.scheduler.writes().stalled(),
        reads: db.observer.counters().reads_of_dropped(),
        cache: db.memory.cache().usage(),
        latencies: db.observer.meters().all(),
        memory: memory_usage(db),
        files: db.versions.opener().files(),
        space: Space::default(),
        refusal: db.gate.check_writable().err(),
        locked_keys,
        lock_waits,
        disk_free: db.env.free_space(db.versions.dir()),
        trees: vec![],
        snapshots: db.versions.snapshots().infos(),
        pins: list_pins(db),
    };
    let trees = db.versions.trees().to_vec();
    let (pinned, writing) = (
        db.observer.pins().pinned_by_tree(),
        bytes_being_written(&db.observer, &db.versions, &*db.env),
    );
    let sum_of = |of: &SortedMap<TreeId, u64>, t: &TreeInner| of.get(&t.id).copied().unwrap_or(0);
    s.trees =
        trees.iter().map(|t| tree_stats(db, t, sum_of(&pinned, t), sum_of(&writing, t))).collect();
    s.trees.iter().for_each(|t| s.reads.add(&t.reads));
    let sum = |of: fn(&Space) -> u64| s.trees.iter().map(|t| of(&t.space)).sum();
    s.space =
        Space { live: sum(|s| s.live), pinned: pinned.values().sum(), writing: sum(|s| s.writing) };
    s
}

/// Returns the holders of space, oldest first.
fn list_pins(db: &DbInner) -> Vec<Pin> {
    let mut pins = db.observer.pins().list();
    let now = db.env.wall_micros();
    let snapshots = db.versions.snapshots().infos();
    let trees = if snapshots.is_empty() { vec![] } else { db.versions.trees().to_vec() };
    let kept: Vec<SnapshotSpace> =
        trees.iter().filter_map(|t| SnapshotSpace::of(&t.view.load_full().version)).collect();
    let read = db.commit.read_point();
    pins.extend(snapshots.into_iter().map(|s| Pin {
        kind: PinKind::Snapshot,
        name: s.name,
        tree: String::new(),
        since_micros: s.since_micros,
        age_micros: now.saturating_sub(s.since_micros),
        holders: 1,
        bytes: kept.iter().map(|k| k.at(s.seq, read)).sum(),
        memory: 0,
        tables: 0,
        total: 0,
        done: 0,
    }));
    sort_by_key(&mut pins, |p| p.since_micros);
    pins
}

fn tree_stats(db: &DbInner, t: &TreeInner, pinned: u64, writing: u64) -> TreeStats {
    let files = t.files.lock();
    let view = t.view.load_full();
    let shape = pick::tree_shape(db, &view, &files);
    let run = |r: &Arc<TableRun>| RunStats {
        level: r.level,
        number: r.number,
        tables: r.tables.len(),
        bytes: r.size(),
        raw_bytes: r.tables.iter().map(|t| t.meta.raw_bytes).sum(),
        entries: r.tables.iter().map(|t| t.meta.entries).sum(),
        deletes: r.tables.iter().map(|t| t.meta.deletes).sum(),
    };
    let values = &view.version.values;
    TreeStats {
        name: t.name.clone(),
        memtable_bytes: view.memtables().map(|m| m.mem.used() as u64).sum(),
        sealed: view.sealed.len(),
        runs: view.version.runs.iter().map(run).collect(),
        debt: crate::compaction::debt(view.options.active_policy(), &shape),
        space: Space { live: shape.size() + values.size, pinned, writing },
        bound: Some(space_bound(view.options.active_policy(), &shape)),
        live_bytes: one_copy(&shape),
        reads: view.reads.report(),
        blobs: BlobStats {
            files: values.files.len() as u64,
            bytes: values.size,
            live_bytes: values.live,
            gc_files: values.gc_files.len() as u64,
        },
    }
}

/// Returns the bytes of files that are being written and are not in the manifest yet, by tree.
fn bytes_being_written(
    observer: &Observer,
    versions: &VersionSet,
    env: &dyn Env,
) -> SortedMap<TreeId, u64> {
    let mut writing = SortedMap::new();
    for task in observer.pins().tasks() {
        let Some(tree) = task.tree().and_then(|id| versions.tree(id)) else {
            continue;
        };
        // A file without a length was removed a moment ago.
        let sizes: Vec<(u64, u64)> = task
            .created()
            .into_iter()
            .map(|id| (id, env.file_len(&table_path(versions.dir(), id)).unwrap_or(0)))
            .collect();
        let files = tree.files.lock();
        let values = tree.view.load_full().version.values.files.clone();
        let is_new =
            |(id, _): &&(u64, u64)| !files.handles.contains_key(id) && !values.contains(id);
        let new: u64 = sizes.iter().filter(is_new).map(|s| s.1).sum();
        *writing.get_or_default(tree.id) += new;
    }
    writing
}

/// Returns the memory in use, by purpose.
pub fn memory_usage(db: &DbInner) -> Memory {
    let cache = db.memory.cache().usage();
    Memory {
        budget: db.memory.bytes(),
        memtables: db.memory.arenas().bytes() as u64,
        cache: cache.resident as u64,
        cache_capacity: cache.capacity as u64,
        tables: table_memory(&db.versions),
        jobs: db.memory.budget().of_jobs(),
    }
}

/// Returns the bytes of live tables, and of indexes and filters of the open ones.
pub fn table_memory(versions: &VersionSet) -> u64 {
    versions.opener().memory()
}
