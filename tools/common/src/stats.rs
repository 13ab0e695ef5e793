//! Statistics of a store as JSON, for the commands and for bindings of other languages.

use firn_kv::stats::{Latency, Pin, ReadStats, Stats, TreeStats};
use serde_json::{Value, json};

/// Returns the statistics as JSON.
pub fn stats_json(s: &Stats) -> Value {
    let run = |r: &firn_kv::stats::RunStats| {
        json!({
            "level": r.level, "number": r.number, "tables": r.tables, "bytes": r.bytes, "raw_bytes": r.raw_bytes,
            "entries": r.entries, "deletes": r.deletes,
        })
    };
    let space = |s: &firn_kv::stats::Space| json!({"live": s.live, "pinned": s.pinned, "writing": s.writing, "total": s.total()});
    let reads = |r: &ReadStats| {
        json!({
            "gets": r.gets, "found": r.found, "in_memtables": r.in_memtables, "filter_probes": r.filter_probes,
            "filter_negatives": r.filter_negatives, "filter_false_positives": r.filter_false_positives, "blocks_cached": r.blocks_cached,
            "blocks_mapped": r.blocks_mapped, "blocks_read": r.blocks_read, "bytes_read": r.bytes_read,
            "hit_rate": r.hit_rate(), "false_positive_rate": r.false_positive_rate(),
        })
    };
    let tree = |t: &TreeStats| {
        json!({
            "space": space(&t.space), "declared_bytes": t.bound_bytes(), "one_copy_bytes": t.one_copy,
            "name": t.name, "memtable_bytes": t.memtable_bytes, "sealed_memtables": t.sealed, "debt_bytes": t.debt,
            "runs": t.runs.iter().map(run).collect::<Vec<_>>(), "reads": reads(&t.reads),
            "values": {
                "files": t.values.files, "bytes": t.values.bytes, "live_bytes": t.values.live_bytes, "given_up": t.values.gc_files,
            },
        })
    };
    let snapshot = |s: &firn_kv::stats::SnapshotInfo| json!({"name": s.name, "seq": s.seq, "since_micros": s.since_micros});
    let pin = |p: &Pin| {
        json!({
            "kind": p.kind.name(), "name": p.name, "tree": p.tree, "since_micros": p.since_micros, "age_micros": p.age_micros,
            "holders": p.holders, "bytes": p.bytes, "memory": p.memory,
        })
    };
    let latency = |(name, l): &(&'static str, Latency)| {
        let nanos = json!({
            "timed": l.timed, "p50_ns": l.p50, "p90_ns": l.p90, "p99_ns": l.p99, "p999_ns": l.p999, "max_ns": l.max,
        });
        ((*name).to_owned(), nanos)
    };
    let latencies: serde_json::Map<String, Value> =
        s.latencies.named().iter().map(latency).collect();
    json!({
        "seq": s.seq,
        "table_bytes": s.table_bytes(),
        "wal_bytes": s.wal_bytes,
        "read_amplification": s.read_amplification(),
        "since_open": {
            "ops_written": s.ops_written, "user_bytes": s.user_bytes, "write_amplification": s.write_amplification(),
            "flushes": s.flushes, "flush_bytes": s.flush_bytes, "flush_nanos": s.flush_nanos,
            "compactions": s.compactions, "moves": s.moves, "drops": s.drops, "compaction_read": s.compaction_read,
            "compaction_written": s.compaction_written, "compaction_nanos": s.compaction_nanos,
            "dropped_shadowed": s.dropped_shadowed,
            "dropped_deletes": s.dropped_deletes, "dropped_covered": s.dropped_covered, "dropped_by_filter": s.dropped_by_filter,
            "slowdown_nanos": s.slowdown_nanos, "stalled_nanos": s.stalled_nanos,
        },
        "latencies": latencies,
        "sampled_one_in": s.latencies.sampled,
        "reads": reads(&s.reads),
        "cache": {
            "frames": s.cache.frames, "inserts": s.cache.inserts, "evictions": s.cache.evictions, "refusals": s.cache.refusals,
        },
        "space": space(&s.space),
        "files": {
            "open": s.files.open, "reopened": s.files.reopened, "shared_open": s.files.shared_open,
            "most": (s.files.most < u64::MAX).then_some(s.files.most),
        },
        "memory": {
            "budget": s.memory.budget, "memtables": s.memory.memtables, "cache": s.memory.cache,
            "cache_capacity": s.memory.cache_capacity, "tables": s.memory.tables, "jobs": s.memory.jobs,
            "total": s.memory.total(),
        },
        "trees": s.trees.iter().map(tree).collect::<Vec<_>>(),
        "snapshots": s.snapshots.iter().map(snapshot).collect::<Vec<_>>(),
        "pins": s.pins.iter().map(pin).collect::<Vec<_>>(),
    })
}
