//! Sarkar, Staratzis, Zhu, Athanassoulis: Constructing and Analyzing the LSM Compaction Design
//! Space.

use super::paper::{Paper, claim, runs, times, writes};
use crate::model::meter::SimOutcome;

/// Returns the average seconds of a compaction.
fn merge_seconds(o: &SimOutcome) -> f64 {
    o.merge_seconds / (o.merges as f64).max(1.0)
}

/// Returns the average bytes that a compaction between two levels below 0 reads.
fn merge_bytes(o: &SimOutcome) -> f64 {
    let [jobs, read, _] = o.reasons.get("level-size").copied().unwrap_or_default();
    read as f64 / (jobs as f64).max(1.0)
}

const LEVELED: [&str; 6] = ["full", "lo+1", "lo+2", "rr", "old", "cold"];

fn most<'a>(names: &[&'a str], of: impl Fn(&str) -> f64) -> &'a str {
    names.iter().max_by(|a, b| of(a).total_cmp(&of(b))).copied().unwrap_or_default()
}

pub(super) const PAPER: Paper = Paper {
    name: "vldb21",
    title: "Constructing and Analyzing the LSM Compaction Design Space (VLDB 2021, arXiv \
            2202.04522)",
    setup: "Buffer 16 MiB, ratio 10, entries of 1 KiB, files of a buffer, one run on level 0: the \
            defaults of the authors' published code. 5 GB of inserts in random order and a rate \
            that all keep up with are ours.",
    options: "--workload insert --data 5G --key-size 24 --value-size 1000",
    cases: &[
        ("full", "--memtable-size 16M --table-size 16M --policy full --ingest 8M"),
        ("lo+1", "--memtable-size 16M --table-size 16M --policy lo+1 --ingest 8M"),
        ("lo+2", "--memtable-size 16M --table-size 16M --policy lo+2 --ingest 8M"),
        ("rr", "--memtable-size 16M --table-size 16M --policy rr --ingest 8M"),
        ("old", "--memtable-size 16M --table-size 16M --policy old --ingest 8M"),
        ("cold", "--memtable-size 16M --table-size 16M --policy cold --ingest 8M"),
        ("1-lvl", "--memtable-size 16M --table-size 16M --policy 1-lvl --ingest 8M"),
        ("tier", "--memtable-size 16M --table-size 16M --policy tier --ingest 8M"),
        (
            "full, L0 of 4",
            "--memtable-size 16M --table-size 16M --policy \
             leveled:level0_runs=4:base=160m:movement=whole-level --ingest 8M",
        ),
        (
            "lo+1, L0 of 4",
            "--memtable-size 16M --table-size 16M --policy leveled:level0_runs=4:base=160m \
             --ingest 8M",
        ),
        ("full, 64M", "--policy full --memtable-size 64M --table-size 64M --ingest 8M"),
        ("lo+1, 64M", "--policy lo+1 --memtable-size 64M --table-size 64M --ingest 8M"),
        ("full, rushed", "--memtable-size 16M --table-size 16M --policy full --ingest 0"),
        ("lo+1, rushed", "--memtable-size 16M --table-size 16M --policy lo+1 --ingest 0"),
        ("tier, rushed", "--memtable-size 16M --table-size 16M --policy tier --ingest 0"),
    ],
    claims: &[
        claim("5.1", "Compactions move many times the data that is inserted").figure(
            "many times",
            |o| {
                let moved = |o: &SimOutcome| o.merge_written as f64 / o.user_bytes;
                let [part, tier] = o.each(["lo+1", "tier"], moved);
                (format!("lo+1 {part:.1}, tier {tier:.1} times"), part > 5.0 && tier > 1.0)
            },
        ),
        claim("5.1", "Partial compaction makes more compactions than full").figure("more", |o| {
            let (full, part) = (o["full"].merges, o["lo+1"].merges);
            (format!("lo+1 {part}, full {full}"), part > full)
        }),
        claim("5.1", "Partial compaction moves less data than full")
            .figure("less", |o| {
                let [a, b, c, d] =
                    o.each(["lo+1", "full", "lo+1, L0 of 4", "full, L0 of 4"], writes);
                let with_4 = format!("with 4 runs on level 0 {c:.1}, {d:.1}");
                (format!("lo+1 {a:.1}, full {b:.1} bytes a byte; {with_4}"), a < b)
            })
            .differs(
                "by arithmetic a level that is emptied as a whole is half full on average \
                      when the next comes, and one that stays full is not: each byte meets about \
                      T/2 others, not T. Spooky (VLDB 2022) measures as we do, that partial \
                      merges write more",
            ),
        claim(
            "5.1",
            "A full compaction moves nearly 2 L times the data of a partial one (L levels)",
        )
        .figure("nearly 2 L", |o| {
            let all = |o: &SimOutcome| o.merge_read as f64 / (o.merges as f64).max(1.0);
            let ratio = |of: fn(&SimOutcome) -> f64| of(&o["full"]) / of(&o["lo+1"]);
            let levels = o["lo+1"].levels.iter().filter(|l| l.level > 0).count() as f64;
            let (below, overall) = (ratio(merge_bytes), ratio(all));
            let ours = format!(
                "{overall:.1} times of all, {below:.0} times of those below level 0, 2 L is {}",
                2.0 * levels
            );
            (ours, (1.8 * levels..=2.0 * levels).contains(&overall))
        })
        .differs(
            "both compact each flush with level 1 at once. These compactions are alike, and they \
             are most of those of full, so the first figure is small. Without them whole levels \
             are compared with single tables. How the paper counts them we do not know",
        ),
        claim("5.1", "Among the leveled ones, full has the longest compactions").figure(
            "full",
            |o| {
                let all = ["full", "old", "cold", "rr", "lo+1"];
                let longest = most(&all, |name| merge_seconds(&o[name]));
                let seconds = |name: &str| format!("{name} {:.1} s", merge_seconds(&o[name]));
                let beside = format!("{}, which minds no overlap one level down", seconds("lo+2"));
                let ours = format!("{}; beside it only {beside}", all.map(seconds).join(", "));
                (ours, longest == "full")
            },
        ),
        claim("5.1", "Writers wait the longest under tiering, whose compactions come in cascades")
            .figure("tier", |o| {
                let waits = |o: &SimOutcome| o.slowdown_seconds + o.stalled_seconds;
                let [full, part, tier] =
                    o.each(["full, rushed", "lo+1, rushed", "tier, rushed"], waits);
                let ours =
                    format!("held up in all: tier {tier:.0} s, full {full:.0} s, lo+1 {part:.0} s");
                (ours, tier > full && tier > part)
            })
            .differs(
                "the engine never lets a merge hold up a flush, and paces writers by the \
                      number of runs instead of stopping them: what is held up follows the bytes \
                      written, which are the fewest under tiering",
            ),
        claim(
            "5.1",
            "Point lookups and scans cost the most under tiering, which has the most runs",
        )
        .figure("tier", |o| {
            let all = [LEVELED.as_slice(), &["1-lvl", "tier"]].concat();
            let worst = most(&all, |name| runs(&o[name]));
            let [tier, part] = o.each(["tier", "lo+1"], runs);
            (format!("{worst}: tier {tier:.1}, lo+1 {part:.1} runs"), worst == "tier")
        }),
        claim("5.1", "Point lookups cost the least under full")
            .figure("full", |o| {
                let least = most(&LEVELED, |name| -runs(&o[name]));
                let [full, part] = o.each(["full", "lo+1"], runs);
                (format!("{least}: full {full:.1}, lo+1 {part:.1} runs"), least == "full")
            })
            .differs(
                "runs wait on level 0 while a long merge of full is running; the paper's code \
                 stops writers there at two. Where merges take no time (`--background-threads 0`), full has \
                 fewer runs: 3.5, and lo+1 3.6",
            ),
        claim("5.3", "A larger buffer makes each compaction larger and longer").figure(
            "longer",
            |o| {
                let cases = ["full, 64M", "full", "lo+1, 64M", "lo+1"];
                let [a, b, c, d] = o.each(cases, merge_seconds);
                let (full, part) = (times(a, b), times(c, d));
                (format!("64 over 16 MiB: full {full} times, lo+1 {part} times"), a > b && c > d)
            },
        ),
    ],
};
