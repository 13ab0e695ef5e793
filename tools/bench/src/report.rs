//! Prints a bench: a table with conclusions, or JSON.

use std::io::Write;

use serde_json::{Value, json};

use crate::BenchArgs;
use crate::Setting;
use crate::advice::{AdviceFacts, advise};
use crate::run::{Bench, MeasuredRun};
use firn_tools::io::stdout;
use firn_tools::output::{Done, bytes, count, nanos, print_table, rate, row, table};
use firn_tools::stats::stats_json;

/// Prints everything.
pub fn print(setting: &Setting<'_>, args: &BenchArgs, bench: &Bench) -> Done {
    let advice = advise(&AdviceFacts::of(setting, bench));
    let mut out = stdout();
    if setting.store.json {
        writeln!(out, "{:#}", as_json(setting, args, bench, &advice))?;
        return Ok(out.flush()?);
    }
    let style = setting.store.style();
    writeln!(out, "{}\n", settings(setting, bench))?;
    write!(out, "{}", print_table(&steps_table(bench), style))?;
    writeln!(
        out,
        "\nworst: no operation took longer. w-amp: bytes of tables written for each byte put, the log (once more) left out.\n\
         runs: how many a read of one key may have to look into. disk: tables and the log's reserved files. memory: the \
         process's own, without mapped files."
    )?;
    writeln!(out, "\n{}", style.heading("In all"))?;
    for line in totals(bench) {
        writeln!(out, "  {line}")?;
    }
    writeln!(out, "\n{}", style.heading("Next steps"))?;
    for line in &advice {
        writeln!(out, "  - {line}")?;
    }
    Ok(out.flush()?)
}

fn settings(setting: &Setting<'_>, bench: &Bench) -> String {
    let d = &bench.description;
    format!(
        "{} keys of {} bytes in {}; policy {}, memory {}, memtables of {}, compression {}, durability {}",
        count(d.keys),
        d.key_size,
        setting.store.db.display(),
        d.store.policy,
        bytes(d.store.memory_budget),
        bytes(d.store.memtable_size),
        d.store.compression,
        d.store.durability,
    )
}

fn steps_table(bench: &Bench) -> firn_tools::output::Table {
    let header = [
        "step", "ops/s", "p50", "p99", "p99.9", "worst", "seconds", "w-amp", "runs", "disk",
        "memory",
    ];
    let mut t = table(&header);
    for m in &bench.steps {
        let dash = || "-".to_owned();
        let of = |f: fn(&firn_workload::Outcome) -> String| m.outcome.as_ref().map_or_else(dash, f);
        let time = |f: fn(&firn_workload::LatencyFigures) -> u64| {
            m.outcome.as_ref().and_then(|o| o.latency.as_ref()).map_or_else(dash, |l| nanos(f(l)))
        };
        let cells = [
            m.step.clone(),
            of(|o| rate(o.ops_per_second)),
            time(|l| l.p50_ns),
            time(|l| l.p99_ns),
            time(|l| l.p999_ns),
            of(|o| {
                if o.ceiling_ns == 0 || o.latency.is_none() {
                    "-".into()
                } else {
                    nanos(o.ceiling_ns)
                }
            }),
            format!("{:.2}", m.seconds),
            if m.user_bytes() == 0 { dash() } else { format!("{:.2}", amplification(m)) },
            m.after.read_amplification().to_string(),
            bytes(m.disk_bytes),
            m.usage.map_or_else(dash, |u| bytes(u.rss_anon)),
        ];
        row(&mut t, cells);
    }
    t
}

fn amplification(m: &MeasuredRun) -> f64 {
    m.table_bytes_written() as f64 / m.user_bytes().max(1) as f64
}

/// Returns bytes of tables per live byte; excludes the log, which has a fixed size.
fn space_of_raw(bench: &Bench, s: &firn_kv::stats::Stats) -> f64 {
    s.table_bytes() as f64 / bench.live_bytes.max(1) as f64
}

fn totals(bench: &Bench) -> Vec<String> {
    let (Some(first), Some(last)) = (bench.steps.first(), bench.steps.last()) else {
        return vec![];
    };
    let s = &last.after;
    let user = s.user_bytes - first.before.user_bytes;
    let mut out = vec![];
    if user > 0 {
        let written = s.flush_bytes + s.compaction_written;
        let amp = written as f64 / user as f64;
        out.push(format!(
            "write amplification {amp:.2}: {} put, {} flushed in {} flushes, {} rewritten in {} compactions ({} tables moved)",
            bytes(user),
            bytes(s.flush_bytes),
            count(s.flushes),
            bytes(s.compaction_written),
            count(s.compactions),
            count(s.moves)
        ));
    }
    out.push(format!(
        "space {:.2} of the raw bytes: {} of tables for {} in {} live keys and their values; {} on disk with the log, {} of it needed",
        space_of_raw(bench, s),
        bytes(s.table_bytes()),
        bytes(bench.live_bytes),
        count(bench.live_keys),
        bytes(last.disk_bytes),
        bytes(s.table_bytes() + s.wal_bytes),
    ));
    out.push(format!(
        "read amplification {}: runs that a read may have to look into",
        s.read_amplification()
    ));
    let m = &s.memory;
    let peak = bench.steps.iter().filter_map(|s| s.usage).map(|u| u.rss_anon).max().unwrap_or(0);
    out.push(format!(
        "memory {} of {}: memtables {}, indexes and filters {}, block cache {}; the process had {} at most",
        bytes(m.total()),
        bytes(m.budget),
        bytes(m.memtables),
        bytes(m.tables),
        bytes(m.cache),
        bytes(peak)
    ));
    let r = &s.reads;
    if let Some(rate) = r.hit_rate() {
        out.push(format!(
            "block cache: {:.1} % of {} blocks were in it",
            rate * 100.0,
            count(r.blocks_cached + r.blocks_read)
        ));
    }
    if r.filter_probes > 0 {
        out.push(format!(
            "filters: about {} asked, {} knew that nothing is there; wrong of {:.2} % of the keys that were not",
            count(r.filter_probes),
            count(r.filter_negatives),
            r.false_positive_rate().unwrap_or(0.0) * 100.0
        ));
    }
    out.push(format!(
        "writers held back {:.2} s by pacing, {:.2} s by full memtables; {:.1} s in all",
        s.slowdown_nanos as f64 / 1e9,
        s.stalled_nanos as f64 / 1e9,
        bench.seconds
    ));
    let slow = s
        .latencies
        .named()
        .into_iter()
        .filter(|(name, l)| l.timed > 0 && !matches!(*name, "get" | "seek" | "write"));
    out.extend(slow.map(|(name, l)| {
        let (p50, p99, max) = (nanos(l.p50), nanos(l.p99), nanos(l.max));
        format!(
            "{name}: {} times, half within {p50}, 99 % within {p99}, the longest {max}",
            count(l.timed)
        )
    }));
    out
}

fn step_json(m: &MeasuredRun) -> Value {
    json!({
        "step": m.step,
        "seconds": m.seconds,
        "outcome": m.outcome,
        "user_bytes": m.user_bytes(),
        "table_bytes_written": m.table_bytes_written(),
        "write_amplification": if m.user_bytes() == 0 { Value::Null } else { amplification(m).into() },
        "read_amplification": m.after.read_amplification(),
        "disk_bytes": m.disk_bytes,
        "memory_bytes": m.after.memory.total(),
        "held_back_seconds": m.held_seconds(),
        "process": m.usage,
    })
}

fn as_json(setting: &Setting<'_>, args: &BenchArgs, bench: &Bench, advice: &[String]) -> Value {
    let last = bench.steps.last();
    json!({
        "firn": env!("CARGO_PKG_VERSION"),
        "dir": setting.store.db.display().to_string(),
        "workload": bench.description,
        "keep": args.keep,
        "steps": bench.steps.iter().map(step_json).collect::<Vec<_>>(),
        "seconds": bench.seconds,
        "live_keys": bench.live_keys,
        "live_bytes": bench.live_bytes,
        "space_of_raw": last.map(|m| space_of_raw(bench, &m.after)),
        "stats": last.map(|m| stats_json(&m.after)),
        "advice": advice,
    })
}
