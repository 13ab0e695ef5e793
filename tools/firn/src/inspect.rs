//! The commands that show what a store holds: `firn stats`, `firn trees`. Both open it for reading only.

use std::io::Write;

use clap::Args;
use firn_kv::env::os::OsEnv;
use firn_kv::{Latency, Pin, Stats, TreeStats};
use firn_wide::store::loss;
use firn_workload::process::disk_bytes;
use serde_json::{Value, json};

use crate::names::Names;
use crate::store::Global;
use firn_tools::io::stdout;
use firn_tools::output::{Done, bytes, count, print_table, row, table, things};

pub const STATS_EXAMPLES: &str = "\
Shows what the store holds: trees, their runs and tables, sizes, what compaction still has to do, and the memory that opening it
takes. It may be run beside a program that writes; what that program's iterators, snapshots and jobs hold, and how long its
operations take, only its own statistics know.

A run is a sorted sequence of tables that do not overlap; a read looks into every run of a tree that may hold its key, so fewer
runs are faster reads. \"Declared\" is what the tree's policy lets tables grow to while keys are overwritten, a running compaction
included, reckoned from the largest run as one copy of every key.

Examples:
  firn stats
  firn stats --json | jq '.trees[].runs | length'
  firn --db /data/orders stats";

/// What `firn stats` takes: nothing of its own.
#[derive(Args, Clone, Debug)]
pub struct StatsArgs {}

/// The statistics as JSON.
pub fn stats_json(s: &Stats) -> Value {
    let run = |r: &firn_kv::RunStats| {
        json!({
            "level": r.level, "number": r.number, "tables": r.tables, "bytes": r.bytes, "raw_bytes": r.raw_bytes,
            "entries": r.entries, "deletes": r.deletes,
        })
    };
    let space = |s: &firn_kv::Space| json!({"live": s.live, "pinned": s.pinned, "writing": s.writing, "total": s.total()});
    let tree = |t: &TreeStats| {
        json!({
            "space": space(&t.space), "declared_bytes": t.bound_bytes(), "one_copy_bytes": t.one_copy,
            "name": t.name, "memtable_bytes": t.memtable_bytes, "sealed_memtables": t.sealed, "debt_bytes": t.debt,
            "runs": t.runs.iter().map(run).collect::<Vec<_>>(),
        })
    };
    let snapshot = |s: &firn_kv::SnapshotInfo| json!({"name": s.name, "seq": s.seq, "since_micros": s.since_micros});
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
    let latencies: serde_json::Map<String, Value> = s.latencies.named().iter().map(latency).collect();
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
            "dropped_deletes": s.dropped_deletes, "dropped_covered": s.dropped_covered, "dropped_purged": s.dropped_purged,
            "paced_nanos": s.paced_nanos, "stalled_nanos": s.stalled_nanos,
        },
        "latencies": latencies,
        "sampled_one_in": s.latencies.sampled,
        "space": space(&s.space),
        "memory": {
            "budget": s.memory.budget, "memtables": s.memory.memtables, "cache": s.memory.cache,
            "cache_capacity": s.memory.cache_capacity, "tables": s.memory.tables, "total": s.memory.total(),
        },
        "trees": s.trees.iter().map(tree).collect::<Vec<_>>(),
        "snapshots": s.snapshots.iter().map(snapshot).collect::<Vec<_>>(),
        "pins": s.pins.iter().map(pin).collect::<Vec<_>>(),
    })
}

/// Sums over the runs of a tree.
struct Sums {
    tables: u64,
    bytes: u64,
    raw: u64,
    entries: u64,
    deletes: u64,
}

fn sums(t: &TreeStats) -> Sums {
    let sum = |of: fn(&firn_kv::RunStats) -> u64| t.runs.iter().map(of).sum();
    Sums {
        tables: sum(|r| r.tables as u64),
        bytes: sum(|r| r.bytes),
        raw: sum(|r| r.raw_bytes),
        entries: sum(|r| r.entries),
        deletes: sum(|r| r.deletes),
    }
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.0} %", part as f64 * 100.0 / whole as f64) }
}

/// Bytes of table files in a directory.
fn files_of_tables(dir: &std::path::Path) -> u64 {
    let env = OsEnv::new();
    let names = env.list(dir).unwrap_or_default();
    let tables = names.iter().filter(|n| n.ends_with(".sst"));
    // One that a writer has removed meanwhile has no bytes.
    tables.filter_map(|n| env.file_len(&dir.join(n)).ok()).sum()
}

/// Runs `firn stats`.
pub fn stats(global: &Global, _: &StatsArgs) -> Done {
    let db = global.open_to_read()?;
    let s = db.stats();
    let on_disk = disk_bytes(&global.db).unwrap_or(0);
    let unlisted = files_of_tables(&global.db).saturating_sub(s.table_bytes());
    let mut out = stdout();
    if global.json {
        let mut v = stats_json(&s);
        v["dir"] = global.db.display().to_string().into();
        v["disk_bytes"] = on_disk.into();
        v["unlisted_table_bytes"] = unlisted.into();
        writeln!(out, "{v:#}")?;
        return Ok(out.flush()?);
    }
    let style = global.style();
    let tables: u64 = s.trees.iter().map(|t| sums(t).tables).sum();
    writeln!(
        out,
        "{}: {} on disk, {} of it in {}; {} so far",
        global.db.display(),
        bytes(on_disk),
        bytes(s.table_bytes()),
        things(tables, "table", "tables"),
        things(s.seq, "operation", "operations"),
    )?;
    if unlisted > 0 {
        let held = bytes(unlisted);
        writeln!(
            out,
            "{held} more in tables that are not listed: being written, or kept for readers, by a program that has the store open, or else left \
             by one that was killed (the next opening for writing removes those)"
        )?;
    }
    writeln!(out)?;
    let mut t =
        table(&["tree", "runs", "tables", "on disk", "declared", "of raw", "entries", "deletes", "in memory", "to compact"]);
    for tree in &s.trees {
        let m = sums(tree);
        let cells = [
            tree.name.clone(),
            count(tree.runs.len() as u64),
            count(m.tables),
            bytes(m.bytes),
            tree.bound_bytes().map_or_else(|| "no bound".into(), bytes),
            share(m.bytes, m.raw),
            count(m.entries),
            count(m.deletes),
            bytes(tree.memtable_bytes),
            bytes(tree.debt),
        ];
        row(&mut t, cells);
    }
    write!(out, "{}", print_table(&t, style))?;
    for tree in s.trees.iter().filter(|t| !t.runs.is_empty()) {
        let mut t = table(&["run", "level", "tables", "on disk", "of raw", "entries", "deletes"]);
        for r in &tree.runs {
            let cells = [
                r.number.to_string(),
                r.level.to_string(),
                count(r.tables as u64),
                bytes(r.bytes),
                share(r.bytes, r.raw_bytes),
                count(r.entries),
                count(r.deletes),
            ];
            row(&mut t, cells);
        }
        write!(out, "\nruns of {:?}, newest first\n{}", tree.name, print_table(&t, style))?;
    }
    writeln!(
        out,
        "\nmemory of this command: memtables {}, indexes and filters {}, block cache {} of {}",
        bytes(s.memory.memtables),
        bytes(s.memory.tables),
        bytes(s.memory.cache),
        bytes(s.memory.cache_capacity)
    )?;
    Ok(out.flush()?)
}

pub const TREES_EXAMPLES: &str = "\
Examples:
  firn trees
  firn trees --json | jq -r '.[].name'";

/// What `firn trees` takes: nothing of its own.
#[derive(Args, Clone, Debug)]
pub struct TreesArgs {}

/// Runs `firn trees`.
pub fn trees(global: &Global, _: &TreesArgs) -> Done {
    let db = global.open_to_read()?;
    let s = db.stats();
    let mut out = stdout();
    let undefined = Names::of(global).undefined(&db);
    if global.json {
        let list: Vec<Value> = s
            .trees
            .iter()
            .map(|t| {
                let m = sums(t);
                let undefined = undefined.contains(&t.name);
                json!({
                    "name": t.name, "runs": t.runs.len(), "tables": m.tables, "bytes": m.bytes, "entries": m.entries,
                    "undefined": undefined,
                })
            })
            .collect();
        writeln!(out, "{}", Value::from(list))?;
    } else {
        for t in &s.trees {
            writeln!(out, "{}", t.name)?;
        }
    }
    out.flush()?;
    for tree in &undefined {
        let (words, next) = loss::words_of_undefined(tree);
        eprintln!("{} {words}; {next}", global.style().bold("note:"));
    }
    Ok(())
}
