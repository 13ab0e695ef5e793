//! Statistics of a store as JSON, for the commands and for bindings of other languages.

use firn_kv::internals::db::metrics::{
    MetricValue, READ_METRICS, RESOURCE_METRICS, StoreMetric, TREE_METRICS, WRITE_METRICS,
};
use firn_kv::stats::{Latency, Pin, ReadStats, RunStats, SnapshotInfo, Space, Stats, TreeStats};
use serde_json::{Map, Value, json};

/// Adds the metrics of a table by their paths.
fn add<T>(out: &mut Value, metrics: &[StoreMetric<T>], of: &T) {
    for (_, path, value) in metrics.iter().flat_map(|metric| metric.samples) {
        let value = match value(of) {
            MetricValue::Count(n) | MetricValue::Nanos(n) => json!(n),
            MetricValue::Limit(n) => json!(Some(n).filter(|n| *n < u64::MAX)),
            MetricValue::Unknown => Value::Null,
        };
        match path.split_once('.') {
            Some((object, field)) => out[object][field] = value,
            None if path.is_empty() => {}
            None => out[*path] = value,
        }
    }
}

fn reads(r: &ReadStats) -> Value {
    let mut out = json!({"hit_rate": r.hit_rate(), "false_positive_rate": r.false_positive_rate()});
    add(&mut out, READ_METRICS, r);
    out
}

fn space(s: &Space) -> Value {
    json!({"live": s.live, "pinned": s.pinned, "writing": s.writing, "total": s.total()})
}

fn run(r: &RunStats) -> Value {
    json!({
        "level": r.level, "number": r.number, "tables": r.tables, "bytes": r.bytes,
        "raw_bytes": r.raw_bytes, "entries": r.entries, "deletes": r.deletes,
    })
}

fn tree(t: &TreeStats) -> Value {
    let mut out = json!({
        "name": t.name, "space": space(&t.space), "declared_bytes": t.bound_bytes(),
        "one_copy_bytes": t.live_bytes, "runs": t.runs.iter().map(run).collect::<Vec<_>>(),
        "reads": reads(&t.reads), "values": {"given_up": t.blobs.gc_files},
    });
    add(&mut out, TREE_METRICS, t);
    out
}

fn snapshot(s: &SnapshotInfo) -> Value {
    json!({"name": s.name, "seq": s.seq, "since_micros": s.since_micros})
}

fn pin(p: &Pin) -> Value {
    json!({
        "kind": p.kind.name(), "name": p.name, "tree": p.tree, "since_micros": p.since_micros,
        "age_micros": p.age_micros, "holders": p.holders, "bytes": p.bytes, "memory": p.memory,
    })
}

fn latency((name, l): (&'static str, Latency)) -> (String, Value) {
    let nanos = json!({
        "timed": l.timed, "p50_ns": l.p50, "p90_ns": l.p90, "p99_ns": l.p99, "p999_ns": l.p999,
        "max_ns": l.max,
    });
    (name.to_owned(), nanos)
}

/// Returns the statistics as JSON.
pub fn stats_json(s: &Stats) -> Value {
    let latencies: Map<String, Value> = s.latencies.named().into_iter().map(latency).collect();
    let mut out = json!({
        "table_bytes": s.table_bytes(),
        "read_amplification": s.read_amplification(),
        "since_open": {"write_amplification": s.write_amplification()},
        "latencies": latencies,
        "sampled_one_in": s.latencies.sampled,
        "reads": reads(&s.reads),
        "cache": {},
        "space": space(&s.space),
        "files": {},
        "memory": {"total": s.memory.total()},
        "trees": s.trees.iter().map(tree).collect::<Vec<_>>(),
        "snapshots": s.snapshots.iter().map(snapshot).collect::<Vec<_>>(),
        "pins": s.pins.iter().map(pin).collect::<Vec<_>>(),
    });
    add(&mut out, WRITE_METRICS, s);
    add(&mut out, RESOURCE_METRICS, s);
    out
}
