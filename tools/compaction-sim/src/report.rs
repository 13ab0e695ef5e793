//! Outcomes as tables for people and as CSV and JSON for programs.

use firn_tools::output::{Style, bytes, count, nanos, print_table, rate, row, table};
use serde_json::{Value, json};

use crate::latency::Percentiles;
use crate::meter::SimOutcome;
use crate::ssd::YEAR;

/// Seconds for people.
pub fn seconds(s: f64) -> String {
    match s {
        s if s <= 0.0 => "0".to_owned(),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{:.1} min", s / 60.0),
        s if s < 360_000.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// A time for people, from nanoseconds on.
pub fn time(s: f64) -> String {
    if s < 1.0 { nanos((s * 1e9) as u64) } else { seconds(s) }
}

/// Percentiles in words.
pub fn percentiles(p: &Percentiles) -> String {
    let Percentiles { p50, p99, p999, most } = *p;
    format!("{}, {}, {}, {}", time(p50), time(p99), time(p999), time(most))
}

fn factor(f: f64) -> String {
    format!("{f:.2}")
}

/// One outcome: what one decides by, what it cost, then the levels.
pub fn one(o: &SimOutcome, style: Style) -> String {
    let mut t = table(&["", "value"]);
    let mut line = |name: &str, value: String| row(&mut t, [name.to_owned(), value]);
    line("policy", o.policy.clone());
    line("workload", o.workload.clone());
    line("write amplification", factor(o.write_amplification));
    line(
        "space amplification: now, most",
        format!("{}, {}", factor(o.space_amplification), factor(o.max_space_amplification)),
    );
    line("space: now, peak", format!("{}, {}", bytes(o.bytes), bytes(o.peak_bytes)));
    line("runs: mean, most, now", format!("{:.1}, {}, {}", o.mean_runs, o.max_runs, o.runs));
    line(
        "writers slowed, stopped",
        format!("{}, {}", seconds(o.paced_seconds), seconds(o.stalled_seconds)),
    );
    line("writes a second", rate(o.ops_per_second));
    line("writes: p50, p99, p99.9, most", percentiles(&o.write_latency));
    line("lookups that find: the same", percentiles(&o.hit_latency));
    line("lookups that do not: the same", percentiles(&o.miss_latency));
    line("scans that begin: the same", percentiles(&o.scan_latency));
    line(
        "blocks they read, on average",
        format!("{:.3}, {:.3}, {:.3}", o.hit_blocks, o.miss_blocks, o.scan_blocks),
    );
    line("time", seconds(o.seconds));
    if o.tombstone_age[2] > 0.0 {
        let [p50, p99, max] = o.tombstone_age.map(seconds);
        line("age of deletes: p50, p99, max", format!("{p50}, {p99}, {max}"));
        line("deletes still there", count(o.tombstones as u64));
    }
    line("operations", count(o.ops));
    line("written by the user", bytes(o.user_bytes as u64));
    line("written by flushes", bytes(o.flush_bytes));
    line("written by merges", bytes(o.merge_written));
    line(
        "flushes, merges, moves, drops",
        format!("{}, {}, {}, {}", o.flushes, o.merges, o.moves, o.drops),
    );
    line("tables that may hold a key", factor(o.tables_per_read));
    line("blocks read for a key not there", format!("{:.4}", o.blocks_per_miss));
    line(
        "filters and indexes in memory",
        format!("{}, {}", bytes(o.filter_bytes as u64), bytes(o.index_bytes as u64)),
    );
    if let Some(w) = &o.wear {
        line("written by the device", bytes((w.host_bytes + w.moved_bytes) as u64));
        line("device write amplification", factor(w.device_write_amplification));
        line("drive writes a day", factor(w.drive_writes_per_day));
        line("device full at most", format!("{:.0} %", 100.0 * w.fullest));
        if w.years > 0.0 {
            line("endurance lasts for", seconds(w.years * YEAR));
        }
    }
    let mut out = print_table(&t, style);
    let mut levels = table(&["level", "runs", "tables", "bytes", "entries"]);
    for l in &o.levels {
        row(
            &mut levels,
            [
                l.level.to_string(),
                l.runs.to_string(),
                l.tables.to_string(),
                bytes(l.bytes),
                count(l.entries),
            ],
        );
    }
    out.push('\n');
    out.push_str(&print_table(&levels, style));
    out
}

/// Outcomes by their case: those that follow each other under one name are its seeds.
pub fn by_case(all: &[(String, SimOutcome)]) -> Vec<(&str, Vec<&SimOutcome>)> {
    all.chunk_by(|a, b| a.0 == b.0)
        .map(|seeds| (seeds[0].0.as_str(), seeds.iter().map(|(_, o)| o).collect()))
        .collect()
}

/// A figure of which a log tells nothing: what lives, and filters. It is no number then.
fn known(o: &SimOutcome, figure: f64) -> f64 {
    if o.live_bytes > 0.0 { figure } else { f64::NAN }
}

/// Many cases, a line each; a figure that seeds differ in is from its least to its most.
pub fn many(all: &[(String, SimOutcome)], style: Style) -> String {
    type Column = (&'static str, fn(&SimOutcome) -> f64, fn(f64) -> String);
    let columns: [Column; 13] = [
        ("write amp", |o| o.write_amplification, factor),
        ("runs", |o| o.mean_runs, |v| format!("{v:.1}")),
        ("most", |o| o.max_runs as f64, |v| format!("{v:.0}")),
        ("space amp", |o| known(o, o.space_amplification), factor),
        ("most", |o| known(o, o.max_space_amplification), factor),
        ("peak", |o| o.peak_bytes as f64, |v| bytes(v as u64)),
        ("del p99", |o| o.tombstone_age[1], |v| if v > 0.0 { seconds(v) } else { "-".to_owned() }),
        ("slowed", |o| o.paced_seconds, seconds),
        ("stopped", |o| o.stalled_seconds, seconds),
        ("writes/s", |o| o.ops_per_second, rate),
        ("put p99.9", |o| known(o, o.write_latency.p999), time),
        ("get p99.9", |o| known(o, o.hit_latency.p999), time),
        ("filters", |o| known(o, o.filter_bytes), |v| bytes(v as u64)),
    ];
    let header: Vec<&str> = ["case"].into_iter().chain(columns.iter().map(|c| c.0)).collect();
    let mut t = table(&header);
    for (name, seeds) in by_case(all) {
        let cell = |(_, value, words): &Column| {
            let values = || seeds.iter().map(|o| value(o));
            if values().any(f64::is_nan) {
                return "-".to_owned();
            }
            let least = words(values().fold(f64::INFINITY, f64::min));
            let most = words(values().fold(f64::NEG_INFINITY, f64::max));
            if least == most { least } else { format!("{least} to {most}") }
        };
        row(&mut t, [name.to_owned()].into_iter().chain(columns.iter().map(cell)));
    }
    print_table(&t, style)
}

/// Outcomes that differ by chance alone: of each figure the least, the middle and the most.
pub fn spread(all: &[(String, SimOutcome)], style: Style) -> String {
    type SpreadFigure = (&'static str, fn(&SimOutcome) -> f64, fn(f64) -> String);
    let of_bytes = |v: f64| bytes(v as u64);
    let figures: [SpreadFigure; 6] = [
        ("write amplification", |o| o.write_amplification, factor),
        ("space amplification, most", |o| o.max_space_amplification, factor),
        ("space, peak", |o| o.peak_bytes as f64, of_bytes),
        ("runs, mean", |o| o.mean_runs, factor),
        ("runs, most", |o| o.max_runs as f64, |v| count(v as u64)),
        ("writers held up", |o| o.paced_seconds + o.stalled_seconds, seconds),
    ];
    let mut t = table(&[&format!("{} seeds", all.len()), "least", "middle", "most"]);
    for (name, of, text) in figures {
        let mut values: Vec<f64> = all.iter().map(|(_, o)| of(o)).collect();
        values.sort_by(f64::total_cmp);
        let at = |i: usize| values.get(i).map_or_else(String::new, |v| text(*v));
        let last = values.len().saturating_sub(1);
        row(&mut t, [name.to_owned(), at(0), at(values.len() / 2), at(last)]);
    }
    print_table(&t, style)
}

/// Outcomes as JSON: an array of objects, `case` and the fields of [`SimOutcome`].
pub fn to_json(all: &[(String, SimOutcome)]) -> Value {
    let object = |(name, o): &(String, SimOutcome)| {
        let mut v = json!(o);
        v["case"] = json!(name);
        v
    };
    Value::Array(all.iter().map(object).collect())
}

/// The numbers of outcomes as CSV, a line each, with a header. Lists are left out: JSON has them.
///
/// # Errors
/// Those of the writer.
pub fn write_csv(all: &[(String, SimOutcome)], to: impl std::io::Write) -> Result<(), csv::Error> {
    let mut w = csv::Writer::from_writer(to);
    for (i, (name, o)) in all.iter().enumerate() {
        let v = json!(o);
        let scalars: Vec<(&String, &Value)> = v
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, v)| v.is_number() || v.is_string())
            .collect();
        let ages = ["p50", "p99", "max"].into_iter().zip(o.tombstone_age);
        let mut spread: Vec<(String, f64)> =
            ages.map(|(name, s)| (format!("tombstone_age_{name}"), s)).collect();
        for (what, p) in [
            ("write", o.write_latency),
            ("hit", o.hit_latency),
            ("miss", o.miss_latency),
            ("scan", o.scan_latency),
        ] {
            let parts = [("p50", p.p50), ("p99", p.p99), ("p999", p.p999), ("most", p.most)];
            spread.extend(parts.map(|(name, s)| (format!("{what}_latency_{name}"), s)));
        }
        if i == 0 {
            let names = scalars.iter().map(|(k, _)| k.as_str());
            let spread = spread.iter().map(|(name, _)| name.as_str());
            w.write_record(["case"].into_iter().chain(names).chain(spread))?;
        }
        let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
        let values = scalars.iter().map(|(_, v)| text(v));
        let spread = spread.iter().map(|(_, s)| s.to_string());
        w.write_record([name.clone()].into_iter().chain(values).chain(spread))?;
    }
    w.flush()?;
    Ok(())
}
