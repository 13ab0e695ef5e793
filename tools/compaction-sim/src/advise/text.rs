//! Advice as text.

use firn_tools::output::{Style, bytes, print_table, row, table};

use crate::advise::cost::{PolicyCost, percent};
use crate::advise::profile::StoreProfile;
use crate::advise::reason::names;
use crate::advise::recommend::Advice;
use crate::report::text::{HeadedLines, percentiles, seconds, time};

/// Smallest disk that is bought for a store. For a smaller one the number of full writes a day
/// means nothing.
const LEAST_DISK: f64 = (16u64 << 30) as f64;
/// Seconds that a log must cover before its load is extrapolated to a day.
const DAY_FROM: f64 = 3600.0;

/// Returns the bytes written to the device, and its endurance, as text.
fn wear(c: &PolicyCost, q: &StoreProfile) -> String {
    let mut text = match q.seconds {
        Some(s) if s < DAY_FROM => format!(
            "{}/s; the log covers {}, too little for a daily figure",
            bytes(c.written_per_second as u64),
            seconds(s)
        ),
        _ => format!("{} a day", bytes((c.written_per_second * 86_400.0) as u64)),
    };
    let room = q.disk.unwrap_or(1.2 * c.peak_bytes);
    let by_day = q.seconds.is_none_or(|s| s >= DAY_FROM);
    if by_day && room >= LEAST_DISK {
        let times = c.written_per_second * 86_400.0 / room;
        text += &format!(", {times:.2} times a disk of {}", bytes(room as u64));
    }
    if let Some(factor) = c.device_write_amplification {
        text += &format!("; the device writes {factor:.2} times that");
    }
    if let Some(s) = c.endurance_seconds {
        text += &format!("; its endurance lasts for {}", seconds(s));
    }
    text
}

/// Returns an answer as text.
pub fn advice_text(advice: &Advice, q: &StoreProfile, style: Style) -> String {
    let c = &advice.costs[advice.chosen];
    let mut out = HeadedLines::new(style);
    let ttl =
        if q.ttl > 0.0 { format!(", expires after {}", seconds(q.ttl)) } else { String::new() };
    out.line(
        "question",
        format!(
            "{} of live data, {}/s written ({}){ttl}",
            bytes(q.held as u64),
            bytes(q.ingest as u64),
            q.kind
        ),
    );
    out.line("choose", &c.policy);
    out.line("because", &advice.because);
    out.line(
        "disk",
        format!(
            "at most {} of tables ({:.2} times the live data); {}",
            bytes(c.peak_bytes as u64),
            c.peak_bytes / q.held,
            if q.disk.is_some() {
                "leave a fifth free"
            } else {
                "buy a fifth more, or name --disk"
            }
        ),
    );
    out.line(
        "device",
        format!(
            "{} busy: {}/s written, {:.1} bytes for each byte put",
            percent(c.device),
            bytes(c.written_per_second as u64),
            c.write_amplification
        ),
    );
    out.line("wear", wear(c, q));
    out.line("cores", format!("{:.2} of {:.0}", c.cores, q.machine.cores));
    read_lines(c, q, &mut out);
    out.line("doubled", &advice.doubled);
    out.line("in Rust", &c.options);
    if let Some(cql) = cql_text(advice) {
        out.line("in CQL", cql);
    }
    let costs = cost_table(advice, q, style);
    let mut text = out.text;
    text += &format!(
        "\n{costs}\n* chosen, 2 second best, - another is no worse in all costs, ! does not fit\n"
    );
    text
}

/// Adds the lines about reads, writes and deletes.
fn read_lines(c: &PolicyCost, q: &StoreProfile, out: &mut HeadedLines) {
    if q.reads + q.scans > 0.0 {
        out.line(
            "reads",
            format!(
                "{:.2} and {:.2} blocks from the device for a lookup and a scan",
                c.blocks_per_read, c.blocks_per_scan
            ),
        );
        out.line("lookups", percentiles(&c.read_latency));
        out.line("scans", percentiles(&c.scan_latency));
    }
    if let Some(took) = &c.write_latency {
        out.line("writes", percentiles(took));
    }
    if c.deletes[1] > 0.0 {
        out.line(
            "deletes",
            format!(
                "gone after {} in 99 of 100 cases, {} at most",
                seconds(c.deletes[0]),
                seconds(c.deletes[1])
            ),
        );
    }
    if q.ttl > 0.0 && q.is_series() {
        let longer = (c.peak_bytes / q.held - 1.0).max(0.0) * q.ttl;
        out.line("expired", format!("data takes space for at most {} longer", seconds(longer)));
    }
}

/// Returns the CQL of the chosen policy, or else of the best one that CQL has.
fn cql_text(advice: &Advice) -> Option<String> {
    if let Some(cql) = &advice.costs[advice.chosen].cql {
        return Some(format!("WITH {cql}"));
    }
    let has_cql = |c: &&PolicyCost| c.cql.is_some();
    let other = advice.costs.iter().filter(has_cql).min_by(|a, b| {
        let key = |c: &PolicyCost| (c.unfit.len(), c.strain);
        let (a, b) = (key(a), key(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let cql = other?.cql.as_ref()?;
    Some(format!("no equivalent; the best policy that CQL has: WITH {cql}"))
}

/// Returns the table of all candidates. It has every figure of the reason.
fn cost_table(advice: &Advice, q: &StoreProfile, style: Style) -> String {
    let header = [
        "",
        "write amp",
        "at most",
        "runs",
        "blocks/get",
        "blocks/scan",
        "device",
        "cores",
        "get p99",
        "scan p99",
        "stalls",
        "scarcest",
    ];
    // Latencies of reads that the question has, and stalls if there are any.
    let has_stalls = advice.costs.iter().any(|c| percent(c.held_up) != percent(0.0));
    let is_shown = |column: &str| match column {
        "get p99" => q.reads > 0.0,
        "scan p99" => q.scans > 0.0,
        "stalls" => has_stalls,
        _ => true,
    };
    let mut t = table(&header.into_iter().filter(|c| is_shown(c)).collect::<Vec<_>>());
    for (i, (c, name)) in advice.costs.iter().zip(names(&advice.costs)).enumerate() {
        let mark = match i {
            i if i == advice.chosen => "*",
            _ if !c.unfit.is_empty() => "!",
            i if Some(i) == advice.second => "2",
            i if i >= advice.front => "-",
            _ => " ",
        };
        let cells = [
            format!("{mark} {name}"),
            format!("{:.1}", c.write_amplification),
            bytes(c.peak_bytes as u64),
            format!("{:.1}", c.runs),
            format!("{:.2}", c.blocks_per_read),
            format!("{:.2}", c.blocks_per_scan),
            percent(c.device),
            format!("{:.2}", c.cores),
            time(c.read_latency.p99),
            time(c.scan_latency.p99),
            percent(c.held_up),
            c.scarcest.in_table(),
        ];
        let shown = header.into_iter().zip(cells).filter(|(column, _)| is_shown(column));
        row(&mut t, shown.map(|(_, cell)| cell));
    }
    print_table(&t, style)
}
