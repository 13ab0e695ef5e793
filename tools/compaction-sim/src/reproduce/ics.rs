//! ScyllaDB's incremental compaction strategy: its documentation, and its posts on the strategy and
//! on its space goal.

use crate::meter::SimOutcome;
use crate::paper::{Paper, PaperClaim, times};

/// Bytes of a fragment in the options.
const FRAGMENT: f64 = (8 << 20) as f64;

pub(super) const PAPER: Paper = Paper {
    name: "ics",
    title: "Incremental compaction strategy (ScyllaDB's documentation; its blog, January 2020 and April \
            2021)",
    setup: "Merges of four runs beside writes. Inserts in random order, so that all space beyond the data \
            is that of merges, and overwrites in random order, with a goal for space and without. \
            Sizes are ours: fragments of 8 MiB for 1 GB, memtables of 4 MiB.",
    options: "--data 4G --value-size 484 --memtable-size 4M --table-size 8M --ingest 10M",
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
        PaperClaim {
            section: "2020, Space overhead in STCS",
            text: "A size-tiered merge may take as much space again as all that it reads",
            figure: "100 % more",
            ours: |o| {
                let more = (o["size-tiered"].max_space_amplification - 1.0) * 100.0;
                (format!("{more:.0} % more at most"), (90.0..=100.0).contains(&more))
            },
            differs: "",
        },
        PaperClaim {
            section: "2020",
            text: "So size-tiered has to leave half of a disk free, and incremental a small part",
            figure: "50 % used, and up to 90 %",
            ours: |o| {
                let used = |name: &str| 100.0 / o[name].max_space_amplification;
                let (tiered, steps) = (used("size-tiered"), used("incremental"));
                (
                    format!("{tiered:.0} % and {steps:.0} %"),
                    (45.0..=55.0).contains(&tiered) && steps >= 90.0,
                )
            },
            differs: "",
        },
        PaperClaim {
            section: "Choose a compaction strategy",
            text: "An incremental merge takes the room of two fragments, whatever it reads",
            figure: "2 fragments for each shard",
            ours: |o| {
                let most = room(&o["incremental"]) / FRAGMENT;
                (format!("{most:.1} fragments at most"), most <= 2.0)
            },
            differs: "there versions have timestamps, and an input goes as soon as its keys have been \
                      passed. Here the order of runs distinguishes old from new, and inputs go \
                      where the fragments of all of them end: at least one of each run, and what a \
                      small run in between has in one table",
        },
        PaperClaim {
            section: "Choose a compaction strategy",
            text: "It has the write and read amplification of size-tiered",
            figure: "the same",
            ours: |o| {
                let (tiered, steps) = (&o["size-tiered"], &o["incremental"]);
                let both = |f: fn(&SimOutcome) -> f64| (f(tiered), f(steps));
                let (writes, runs) = (both(|o| o.write_amplification), both(|o| o.mean_runs));
                (
                    format!(
                        "{:.2} and {:.2} bytes a byte, {:.1} and {:.1} runs",
                        writes.0, writes.1, runs.0, runs.1
                    ),
                    (writes.1 / writes.0 - 1.0).abs() < 0.1 && (runs.1 / runs.0 - 1.0).abs() < 0.1,
                )
            },
            differs: "",
        },
        PaperClaim {
            section: "Choose a compaction strategy",
            text: "Without a goal, overwritten data may stay in all tiers for long",
            figure: "several times the data",
            ours: |o| {
                let most = o["overwritten"].max_space_amplification;
                (format!("{most:.2} times the data at most"), most > 2.0)
            },
            differs: "",
        },
        PaperClaim {
            section: "CQL, space_amplification_goal",
            text: "The goal bounds what newer runs hold by the size of the oldest",
            figure: "2, 1.5 and 1.25 times the data",
            ours: |o| {
                let goals = [("goal 2", 2.0), ("goal 1.5", 1.5), ("goal 1.25", 1.25)];
                let most = goals.map(|(name, _)| o[name].max_space_amplification);
                // Plus the space of steps, and of flushes during a compaction.
                let holds = most.iter().zip(goals).all(|(most, (_, goal))| most / goal < 1.06);
                (format!("{most:.2?} at most, what merges take included"), holds)
            },
            differs: "",
        },
        PaperClaim {
            section: "2021",
            text: "A lower goal is paid with writes",
            figure: "monotone",
            ours: |o| {
                let names = ["overwritten", "goal 2", "goal 1.5", "goal 1.25"];
                let writes = names.map(|name| o[name].write_amplification);
                (format!("{writes:.1?} bytes a byte"), writes.is_sorted())
            },
            differs: "",
        },
        PaperClaim {
            section: "2021",
            text: "With the goal it holds as little as leveled, and still writes less",
            figure: "less",
            ours: |o| {
                let (goal, leveled) = (&o["goal 1.25"], &o["leveled"]);
                let writes = (goal.write_amplification, leveled.write_amplification);
                let space = (goal.mean_space(), leveled.mean_space());
                (
                    format!(
                        "with 1.25 {} of the writes of leveled, {:.2} times the data on average for {:.2}",
                        times(writes.0, writes.1),
                        space.0,
                        space.1
                    ),
                    writes.0 < writes.1 && space.0 <= space.1,
                )
            },
            differs: "",
        },
    ],
};

/// Returns the peak bytes beyond the tables at some earlier flush, which is rather an overestimate.
fn room(outcome: &SimOutcome) -> f64 {
    let more = outcome.points.windows(2).map(|w| w[1].peak.saturating_sub(w[0].bytes));
    more.max().unwrap_or(0) as f64
}
