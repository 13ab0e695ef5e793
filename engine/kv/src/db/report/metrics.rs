//! The metrics of a store: one table for the text of Prometheus and for JSON. A new statistic is a
//! row here.
//!
//! Invariants: names of counters, and only those, end in `_total`; those of sizes have `bytes` and
//! those of times `seconds`. A path of JSON is the name of the object, a dot and the name of the
//! field, or the field alone.

use std::fmt;

use crate::counters::reads::ReadStats;
use crate::db::report::stats::{Stats, TreeStats};

/// A value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricValue {
    /// A number, or bytes.
    Count(u64),
    /// Nanoseconds; seconds in Prometheus.
    Nanos(u64),
    /// A limit; `u64::MAX` for none.
    Limit(u64),
    /// Not known: the metric is left out.
    Unknown,
}

/// As in Prometheus.
impl fmt::Display for MetricValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            MetricValue::Limit(u64::MAX) => f.write_str("+Inf"),
            MetricValue::Count(n) | MetricValue::Limit(n) => n.fmt(f),
            MetricValue::Nanos(nanos) => (nanos as f64 / 1e9).fmt(f),
            MetricValue::Unknown => f.write_str("NaN"),
        }
    }
}

/// A sample of `T`: the text of its label, its path in JSON (may be empty), and its value.
pub type MetricSample<T> = (&'static str, &'static str, fn(&T) -> MetricValue);

/// A metric of `T`, a family in Prometheus.
#[derive(Debug)]
pub struct StoreMetric<T: 'static> {
    /// Name in Prometheus.
    pub name: &'static str,
    /// Description.
    pub help: &'static str,
    /// The label by which the samples differ; empty if there is one sample.
    pub label: &'static str,
    /// Its samples.
    pub samples: &'static [MetricSample<T>],
}

macro_rules! metrics {
    ($(#[$doc:meta])* $table:ident of $of:ty;
     $($name:literal $help:literal $(by $label:literal)? {
        $($($text:literal)? $(@$path:literal)? $stats:ident => $value:expr),+ $(,)?
     })+) => {
        $(#[$doc])*
        pub const $table: &[StoreMetric<$of>] = &[$(StoreMetric {
            name: $name,
            help: $help,
            label: concat!($($label)?),
            samples: &[$((concat!($($text)?), concat!($($path)?), |$stats| $value)),+],
        }),+];
    };
}

use MetricValue::{Count, Limit, Nanos, Unknown};

metrics! {
    /// Writes, flushes and compactions.
    WRITE_METRICS of Stats;

    "firn_operations_written_total" "Operations written." {
        @"since_open.ops_written" s => Count(s.ops_written) }
    "firn_user_bytes_total" "Bytes of keys and values written." {
        @"since_open.user_bytes" s => Count(s.user_bytes) }
    "firn_sequence_number" "The newest sequence number that may be read." {
        @"seq" s => Count(s.seq) }
    "firn_flushes_total" "Flushes done." { @"since_open.flushes" s => Count(s.flushes) }
    "firn_flush_bytes_total" "Bytes of tables written by flushes." {
        @"since_open.flush_bytes" s => Count(s.flush_bytes) }
    "firn_flush_seconds_total" "Time spent in flushes." {
        @"since_open.flush_nanos" s => Nanos(s.flush_nanos) }
    "firn_compactions_total" "Compactions done, by what they do with tables." by "action" {
        "merge" @"since_open.compactions" s => Count(s.compactions),
        "move" @"since_open.moves" s => Count(s.moves),
        "drop" @"since_open.drops" s => Count(s.drops),
    }
    "firn_compaction_read_bytes_total" "Bytes of tables read by compactions." {
        @"since_open.compaction_read" s => Count(s.compaction_read) }
    "firn_compaction_written_bytes_total" "Bytes of tables written by compactions." {
        @"since_open.compaction_written" s => Count(s.compaction_written) }
    "firn_compaction_seconds_total" "Time spent in compactions." {
        @"since_open.compaction_nanos" s => Nanos(s.compaction_nanos) }
    "firn_dropped_entries_total" "Entries dropped by flushes and compactions." by "why" {
        "shadowed" @"since_open.dropped_shadowed" s => Count(s.dropped_shadowed),
        "delete" @"since_open.dropped_deletes" s => Count(s.dropped_deletes),
        "covered" @"since_open.dropped_covered" s => Count(s.dropped_covered),
        "purged" @"since_open.dropped_by_filter" s => Count(s.dropped_by_filter),
    }
    "firn_write_slowdown_seconds_total" "Time that writers slept because compactions were late." {
        @"since_open.slowdown_nanos" s => Nanos(s.slowdown_nanos) }
    "firn_write_stall_seconds_total" "Time that writers waited for a memtable." {
        @"since_open.stalled_nanos" s => Nanos(s.stalled_nanos) }
}

metrics! {
    /// Reads of a tree.
    READ_METRICS of ReadStats;

    "firn_gets_total" "Gets of a key, estimated." { @"gets" r => Count(r.gets) }
    "firn_gets_found_total" "Gets that found a value, estimated." { @"found" r => Count(r.found) }
    "firn_gets_in_memtables_total" "Gets that a memtable answered, estimated." {
        @"in_memtables" r => Count(r.in_memtables) }
    "firn_filter_probes_total" "Filter probes (estimated)." {
        @"filter_probes" r => Count(r.filter_probes) }
    "firn_filter_negatives_total" "Filter probes with a negative result (estimated)." {
        @"filter_negatives" r => Count(r.filter_negatives) }
    "firn_filter_false_positives_total"
        "Filter probes that were positive for an absent key (estimated)." {
        @"filter_false_positives" r => Count(r.filter_false_positives) }
    "firn_blocks_cached_total" "Blocks that readers found in the cache, estimated." {
        @"blocks_cached" r => Count(r.blocks_cached) }
    "firn_blocks_mapped_total" "Blocks that readers were served from maps, estimated." {
        @"blocks_mapped" r => Count(r.blocks_mapped) }
    "firn_blocks_read_total" "Blocks that were read from files for readers." {
        @"blocks_read" r => Count(r.blocks_read) }
    "firn_read_bytes_total" "Bytes of blocks that were read from files for readers." {
        @"bytes_read" r => Count(r.bytes_read) }
}

metrics! {
    /// Cache, memory and files.
    RESOURCE_METRICS of Stats;

    "firn_cache_inserts_total" "Blocks put into the cache." {
        @"cache.inserts" s => Count(s.cache.inserts) }
    "firn_cache_evictions_total" "Blocks evicted from the cache." {
        @"cache.evictions" s => Count(s.cache.evictions) }
    "firn_cache_refusals_total" "Blocks not cached because no memory was free in time." {
        @"cache.refusals" s => Count(s.cache.refusals) }
    "firn_cache_blocks" "Blocks in the cache." { @"cache.frames" s => Count(s.cache.frames as u64) }
    "firn_memory_bytes" "Memory in use, by what it is for." by "part" {
        "memtables" @"memory.memtables" s => Count(s.memory.memtables),
        "cache" @"memory.cache" s => Count(s.memory.cache),
        "tables" @"memory.tables" s => Count(s.memory.tables),
        "jobs" @"memory.jobs" s => Count(s.memory.jobs),
    }
    "firn_memory_budget_bytes" "Configured memory budget." {
        @"memory.budget" s => Count(s.memory.budget) }
    "firn_cache_capacity_bytes" "Current capacity of the block cache." {
        @"memory.cache_capacity" s => Count(s.memory.cache_capacity) }
    "firn_log_bytes" "Bytes of retained log segments." { @"wal_bytes" s => Count(s.wal_bytes) }
    "firn_space_bytes" "Bytes of table files." by "state" {
        "live" @"space.live" s => Count(s.space.live),
        "pinned" @"space.pinned" s => Count(s.space.pinned),
        "writing" @"space.writing" s => Count(s.space.writing),
    }
    "firn_open_files"
        "Open files of tables: this store's, and of all that share the bound." by "of" {
        "store" @"files.open" s => Count(s.files.open),
        "shared" @"files.shared_open" s => Count(s.files.shared_open),
    }
    "firn_open_files_bound" "How many of those that share the bound may be open." {
        @"files.most" s => Limit(s.files.limit) }
    "firn_files_reopened_total"
        "Files of tables that were opened again, having been closed to stay within the bound." {
        @"files.reopened" s => Count(s.files.reopened) }
    "firn_writable"
        "Whether the store takes writes: 0 when a failure has made it read-only, and when it was opened so." {
        s => Count(u64::from(s.refusal.is_none())) }
    "firn_locked_keys" "Keys that transactions have locked." { s => Count(s.locked_keys) }
    "firn_lock_waits" "Transactions that wait for the lock of a key." {
        s => Count(s.lock_waits) }
    "firn_disk_free_bytes" "Free bytes on the store's file system." {
        s => s.disk_free.map_or(Unknown, Count) }
    "firn_snapshots" "Live snapshots." { s => Count(s.snapshots.len() as u64) }
}

metrics! {
    /// Shape of a tree.
    TREE_METRICS of TreeStats;

    "firn_tree_runs" "Sorted runs of tables, each of which a read may have to look into." {
        t => Count(t.runs.len() as u64) }
    "firn_tree_tables" "Tables." { t => Count(t.runs.iter().map(|r| r.tables as u64).sum()) }
    "firn_tree_bytes" "Bytes of table files." { t => Count(t.runs.iter().map(|r| r.bytes).sum()) }
    "firn_tree_raw_bytes" "Bytes of keys and values in tables, uncompressed." {
        t => Count(t.runs.iter().map(|r| r.raw_bytes).sum()) }
    "firn_tree_entries" "Entries in tables." { t => Count(t.runs.iter().map(|r| r.entries).sum()) }
    "firn_tree_deletes" "Deletes among them." { t => Count(t.runs.iter().map(|r| r.deletes).sum()) }
    "firn_tree_blob_files" "Blob files." { @"values.files" t => Count(t.blobs.files) }
    "firn_tree_blob_bytes" "Bytes of blob files." { @"values.bytes" t => Count(t.blobs.bytes) }
    "firn_tree_blob_live_bytes" "Bytes of blob files that tables refer to; the rest is garbage." {
        @"values.live_bytes" t => Count(t.blobs.live_bytes) }
    "firn_tree_memtable_bytes" "Bytes in memtables." {
        @"memtable_bytes" t => Count(t.memtable_bytes) }
    "firn_tree_sealed_memtables" "Memtables that wait for their flush." {
        @"sealed_memtables" t => Count(t.sealed as u64) }
    "firn_tree_pending_compaction_bytes"
        "Bytes that the compaction policy still has to rewrite (estimated)." {
        @"debt_bytes" t => Count(t.debt) }
}
