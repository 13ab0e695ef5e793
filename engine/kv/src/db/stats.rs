//! Statistics of a Db: counters, memory, levels, pins that hold space.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::error::Error;
use crate::base::key::Seq;
use crate::base::open_files::FileStats;
use crate::base::ops::TreeId;
use crate::base::reads::ReadStats;
use crate::cache::CacheStats;
use crate::compaction::{SpaceBound, one_copy, space_bound};
use crate::merge::run::{TableRun, table_path};

use super::kept::SnapshotSpace;
use super::state::core::DbInner;
use super::state::meters::Latencies;
use super::state::pins::{Pin, PinKind, Space};
use super::state::snapshots::SnapshotInfo;
use super::state::tree::TreeInner;

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
    /// Nanoseconds that writers slept because compaction was behind.
    pub paced_nanos: u64,
    /// Nanoseconds that writers waited for a memtable.
    pub stalled_nanos: u64,
    /// What reads did: of all trees, those included that were dropped.
    pub reads: ReadStats,
    /// What the block cache did; of Dbs that share a [`MemoryBudget`](crate::MemoryBudget) that of
    /// all of them.
    pub cache: CacheStats,
    /// How long operations took.
    pub latencies: Latencies,
    /// Where the memory is.
    pub memory: Memory,
    /// How many files of tables are open.
    pub files: FileStats,
    /// Bytes of table files, those of trees that were dropped included.
    pub space: Space,
    /// Why the store takes no writes, where it takes none: it was opened so, or a failure has made it
    /// so, or it was closed.
    pub refusal: Option<Error>,
    /// Bytes that are free where the store lies, as far as the system says.
    pub disk_free: Option<u64>,
    /// The trees.
    pub trees: Vec<TreeStats>,
    /// Live snapshots, which hold old versions back.
    pub snapshots: Vec<SnapshotInfo>,
    /// What holds space: snapshots, readers of old states, work in progress; oldest first.
    pub pins: Vec<Pin>,
}

/// Anonymous memory of a Db in bytes; of Dbs that share a [`MemoryBudget`](crate::MemoryBudget)
/// that of all of them, but for `tables`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// What the user allowed.
    pub budget: u64,
    /// Memtables, active and sealed, as far as they are in use, and memory that is kept for the
    /// next one.
    pub memtables: u64,
    /// Decoded blocks.
    pub cache: u64,
    /// What the cache may grow to at present.
    pub cache_capacity: u64,
    /// Live tables: 2 KiB for each, and of those that are open indexes and filters.
    pub tables: u64,
    /// What flushes, merges and ingestions that run take beside what they write: tables in the making,
    /// 33 bytes for each of their keys.
    pub jobs: u64,
}

impl Memory {
    /// The sum.
    pub fn total(&self) -> u64 {
        self.memtables + self.cache + self.tables + self.jobs
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
    /// Bytes of its table files and value files.
    pub space: Space,
    /// What its policy declares `space` to stay below, but for what is pinned.
    pub bound: Option<SpaceBound>,
    /// Bytes of one copy of every key, as far as that is known: its largest run.
    pub one_copy: u64,
    /// What reads of it did.
    pub reads: ReadStats,
    /// Its value files.
    pub values: BlobStats,
}

impl TreeStats {
    /// The declared bound in bytes, by what is known of the live bytes
    /// ([`one_copy`](TreeStats::one_copy)), and the value files, which have a bound of their own
    /// ([`blob_gc_percent`](crate::TreeOptions::blob_gc_percent)); `None` when the policy declares
    /// none.
    pub fn bound_bytes(&self) -> Option<u64> {
        let bound = self.bound.map(|b| b.bytes(self.one_copy)).filter(|b| *b < u64::MAX)?;
        Some(bound.saturating_add(self.values.bytes))
    }
}

/// The value files of a tree: see [`blob_threshold`](crate::TreeOptions::blob_threshold).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobStats {
    /// How many there are.
    pub files: u64,
    /// Their length in bytes.
    pub bytes: u64,
    /// Bytes of them that tables refer to; the rest is garbage.
    pub live_bytes: u64,
    /// Files that are given up: what tables refer to in them is being written again.
    pub given_up: u64,
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
    /// Bytes of all table files and value files.
    pub fn table_bytes(&self) -> u64 {
        let tables: u64 = self.trees.iter().flat_map(|t| &t.runs).map(|r| r.bytes).sum();
        tables + self.trees.iter().map(|t| t.values.bytes).sum::<u64>()
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

impl DbInner {
    /// Everything that can be told.
    pub fn stats(&self) -> Stats {
        let (written, wal_bytes) = {
            let w = self.write.lock();
            (w.written(), w.log_bytes())
        };
        let sums = self.counters.sums();
        let mut s = Stats {
            ops_written: written.ops,
            user_bytes: written.bytes,
            wal_bytes,
            seq: self.read_point(),
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
            dropped_purged: sums.dropped.purged,
            paced_nanos: self.pace.slept(),
            stalled_nanos: self.pace.stalled(),
            reads: self.counters.reads_of_dropped(),
            cache: self.cache.usage(),
            latencies: self.watch.meters.all(),
            memory: self.memory(),
            files: self.opener.files(),
            space: Space::default(),
            refusal: self.gate.check_writable().err(),
            disk_free: self.env.free_space(&self.dir),
            trees: vec![],
            snapshots: self.snapshots.infos(),
            pins: self.pins(),
        };
        let trees = self.trees.read().to_vec();
        let (pinned, writing) = (self.watch.pins.pinned_by_tree(), self.writing());
        let sum_of =
            |of: &BTreeMap<TreeId, u64>, t: &TreeInner| of.get(&t.id).copied().unwrap_or(0);
        s.trees = trees
            .iter()
            .map(|t| self.tree_stats(t, sum_of(&pinned, t), sum_of(&writing, t)))
            .collect();
        s.trees.iter().for_each(|t| s.reads.add(&t.reads));
        let sum = |of: fn(&Space) -> u64| s.trees.iter().map(|t| of(&t.space)).sum();
        s.space = Space {
            live: sum(|s| s.live),
            pinned: pinned.values().sum(),
            writing: sum(|s| s.writing),
        };
        s
    }

    /// What holds space, oldest first.
    fn pins(&self) -> Vec<Pin> {
        let mut pins = self.watch.pins.list();
        let now = self.env.wall_micros();
        let snapshots = self.snapshots.infos();
        let trees = if snapshots.is_empty() { vec![] } else { self.trees.read().to_vec() };
        let kept: Vec<SnapshotSpace> =
            trees.iter().filter_map(|t| SnapshotSpace::of(&t.view.load_full().version)).collect();
        let read = self.read_point();
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
        pins.sort_by_key(|p| p.since_micros);
        pins
    }

    fn tree_stats(&self, t: &TreeInner, pinned: u64, writing: u64) -> TreeStats {
        let files = t.files.lock();
        let view = t.view.load_full();
        let shape = self.shape(&view, &files);
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
            debt: crate::compaction::debt(&view.options.policy, &shape),
            space: Space { live: shape.size() + values.size, pinned, writing },
            bound: Some(space_bound(&view.options.policy, &shape)),
            one_copy: one_copy(&shape),
            reads: view.reads.told(),
            values: BlobStats {
                files: values.files.len() as u64,
                bytes: values.size,
                live_bytes: values.live,
                given_up: values.given_up.len() as u64,
            },
        }
    }

    /// Bytes of the files that are being written for each tree and are not in the manifest yet.
    fn writing(&self) -> BTreeMap<TreeId, u64> {
        let mut writing = BTreeMap::new();
        for task in self.watch.pins.tasks() {
            let Some(tree) = task.tree().and_then(|id| self.trees.read().by_id(id).cloned()) else {
                continue;
            };
            // A file whose length is not to be had has just been removed again.
            let sizes: Vec<(u64, u64)> = task
                .created()
                .into_iter()
                .map(|id| (id, self.env.file_len(&table_path(&self.dir, id)).unwrap_or(0)))
                .collect();
            let files = tree.files.lock();
            let values = tree.view.load_full().version.values.files.clone();
            let is_new =
                |(id, _): &&(u64, u64)| !files.handles.contains_key(id) && !values.contains(id);
            let new: u64 = sizes.iter().filter(is_new).map(|s| s.1).sum();
            *writing.entry(tree.id).or_default() += new;
        }
        writing
    }

    /// Where the memory is.
    pub fn memory(&self) -> Memory {
        let cache = self.cache.usage();
        Memory {
            budget: self.memory.bytes(),
            memtables: self.arenas.bytes() as u64,
            cache: cache.resident as u64,
            cache_capacity: cache.capacity as u64,
            tables: self.table_memory(),
            jobs: self.memory.budget().of_jobs(),
        }
    }

    /// Bytes of live tables, and of indexes and filters of those that are open.
    pub fn table_memory(&self) -> u64 {
        self.opener.memory()
    }
}
