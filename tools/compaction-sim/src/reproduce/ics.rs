//! ScyllaDB's incremental compaction strategy: its documentation, and its posts on the strategy and
//! on its space goal.

use super::paper::{Paper, claim, peak, rounded, runs, times, writes};
use crate::model::meter::SimOutcome;

/// Bytes of a fragment in the options.
const FRAGMENT: f64 = (8 << 20) as f64;

pub(super) const PAPER: Paper = Paper {
    name: "ics",
    title: "Incremental compaction strategy (ScyllaDB's documentation; its blog, January 2020 and April \
            2021)",
    setup: "Merges of four runs beside writes. Inserts in random order, so that all space beyond the data \
            is that of merges, and overwrites in random order, with a goal for space and without. \
            Sizes are ours: fragments of 8 MiB for 1 GB, memtables of 4 MiB, and 1 MiB written a \
            second, so that few flushes happen during a compaction.",
    options: "--data 4G --value-size 484 --memtable-size 4M --table-size 8M --ingest 1M",
    cases: &[
        ("size-tiered", "--workload insert --policy tiered:4"),
        ("incremental", "--workload insert --policy ics:4"),
        ("overwritten", "--workload uniform --policy ics:4:goal=65"),
        ("goal 2", "--workload uniform --policy ics:4:goal=2"),
        ("goal 1.5", "--workload uniform --policy ics:4:goal=1.5"),
        ("goal 1.25", "--workload uniform --policy ics:4:goal=1.25"),
        ("leveled", "--workload uniform --policy leveled:10:base=40m"),
    ],
    claims: &[
        claim("2020, Space overhead in STCS", "A size-tiered merge may take as much space again as all that it reads").figure("100 % more", |o| {
                let more = (peak(&o["size-tiered"]) - 1.0) * 100.0;
                (format!("{more:.0} % more at most"), rounded(more, 0) == 100.0)
            }),
        claim("2020", "So size-tiered has to leave half of a disk free, and incremental a small part").figure("50 % used, and up to 90 %", |o| {
                let [tiered, steps] = o.each(["size-tiered", "incremental"], |o| 100.0 / peak(o));
let agrees = rounded(tiered, 0) == 50.0 && rounded(steps, 0) >= 90.0;
(format!("{tiered:.0} % and {steps:.0} %"), agrees)
            }),
        claim("Choose a compaction strategy", "An incremental merge takes the room of two fragments, whatever it reads").figure("2 fragments for each shard", |o| {
                let most = room(&o["incremental"]) / FRAGMENT;
                (format!("{most:.1} fragments at most"), rounded(most, 0) <= 2.0)
            }).differs("there versions have timestamps, and an input goes as soon as its keys have been \
                      passed. Here the order of runs distinguishes old from new, and inputs go \
                      where the fragments of all of them end: at least one of each run, and what a \
                      small run in between has in one table"),
        claim("Choose a compaction strategy", "It has the write and read amplification of size-tiered").figure("the same, here within 2 %", |o| {
                let both = ["size-tiered", "incremental"];
let ([a, b], [c, d]) = (o.each(both, writes), o.each(both, runs));
let ours = format!("{a:.2} and {b:.2} bytes a byte, {c:.1} and {d:.1} runs");
(ours, (b / a - 1.0).abs() < 0.02 && (d / c - 1.0).abs() < 0.02)
            }),
        claim("Choose a compaction strategy", "Without a goal, overwritten data may stay in all tiers for long").figure("several times the data", |o| {
                let most = peak(&o["overwritten"]);
                (format!("{most:.2} times the data at most"), most > 2.0)
            }),
        claim("CQL, space_amplification_goal", "The goal bounds what newer runs hold by the size of the oldest").figure("2, 1.5 and 1.25 times the data", |o| {
                let goals = [("goal 2", 2.0), ("goal 1.5", 1.5), ("goal 1.25", 1.25)];
                let most = goals.map(|(name, _)| complete(&o[name]));
                let peaks = goals.map(|(name, _)| peak(&o[name]));
                let holds = most.iter().zip(goals).all(|(most, (_, goal))| rounded(*most, 2) <= goal);
                (format!("{most:.2?} at most; with the output of running steps {peaks:.2?}"), holds)
            }),
        claim("2021", "A lower goal is paid with writes").figure("monotone", |o| {
                let writes = o.each(["overwritten", "goal 2", "goal 1.5", "goal 1.25"], writes);
                (format!("{writes:.1?} bytes a byte"), writes.is_sorted())
            }),
        claim("2021", "With the goal it holds as little as leveled, and still writes less").figure("less", |o| {
                let both = ["goal 1.25", "leveled"];
let ([goal, leveled], [a, b]) = (o.each(both, writes), o.each(both, |o| o.mean_space()));
let ours = format!(
"with 1.25 {} of the writes of leveled, {a:.2} times the data on average for {b:.2}",
times(goal, leveled)
);
(ours, goal < leveled && a <= b)
            }),
    ],
};

/// Returns the peak bytes of complete tables after a flush, over those of one copy of the live data.
/// Leaves out the first tenth of the run.
fn complete(outcome: &SimOutcome) -> f64 {
    let late = outcome.points.iter().filter(|p| p.ops * 10 >= outcome.ops && p.live_bytes > 0.0);
    late.map(|p| p.bytes as f64 / p.live_bytes).fold(0.0, f64::max)
}

/// Returns the peak bytes beyond the tables at some earlier flush, which is rather an overestimate.
fn room(outcome: &SimOutcome) -> f64 {
    let more = outcome.points.windows(2).map(|w| w[1].peak.saturating_sub(w[0].bytes));
    more.max().unwrap_or(0) as f64
}
