//! Dayan, Idreos: Dostoevsky: Better Space-Time Trade-Offs for LSM-Tree Based Key-Value Stores via
//! Adaptive Removal of Superfluous Merging.

use super::paper::{Paper, PaperOutcomes, claim, excess, rounded, runs, writes};
use crate::model::filters::allocate;
use crate::model::meter::SimOutcome;

/// Returns the runs read for a missing key, with ten bits per key, allocated optimally.
fn best_miss(o: &SimOutcome) -> f64 {
    allocate(&o.run_entries(), 10.0).iter().sum()
}

/// Compares a case with "lazy". Returns the figures, and whether it writes more and has fewer runs.
fn trade(o: &PaperOutcomes, change: &str, case: &str) -> (String, bool, bool) {
    let ([a, b], [c, d]) = (o.each(["lazy", case], writes), o.each(["lazy", case], runs));
    let ours = format!("{change}: {a:.1} to {b:.1} bytes a byte, {c:.1} to {d:.1} runs");
    (ours, b > a, d < c)
}

pub(super) const PAPER: Paper = Paper {
    name: "dostoevsky",
    title: "Dostoevsky: Better Space-Time Trade-Offs for LSM-Tree Based Key-Value Stores (SIGMOD \
            2018)",
    setup: "Lazy leveling, leveling and tiering as settings of the Fluid LSM-tree (section 4.2), \
            ratio 5, worst case: keys inserted or overwritten in random order. Sizes are ours: \
            2000 and 4000 memtables of 1 MiB.",
    options: "--memtable-size 1M --table-size 2M --background-threads 0 --tombstone-age-secs 0",
    cases: &[
        ("leveling", "--workload insert --data 2G --policy fluid:5:1:1"),
        ("lazy", "--workload insert --data 2G --policy fluid:5:4:1"),
        ("lazy-leveled", "--workload insert --data 2G --policy lazy-leveled:5"),
        ("tiering", "--workload insert --data 2G --policy fluid:5:4:4"),
        ("K = 2", "--workload insert --data 2G --policy fluid:5:2:1"),
        ("Z = 2", "--workload insert --data 2G --policy fluid:5:4:2"),
        ("lazy, small", "--workload insert --data 256M --policy fluid:5:4:1"),
        ("tiering, small", "--workload insert --data 256M --policy fluid:5:4:4"),
        ("leveling, over", "--workload uniform --data 4G --policy fluid:5:1:1"),
        ("lazy, over", "--workload uniform --data 4G --policy fluid:5:4:1"),
        ("tiering, over", "--workload uniform --data 4G --policy fluid:5:4:4"),
    ],
    claims: &[
        claim(
            "4.1",
            "Updates cost lazy leveling O(L + T), between tiering's O(L) and leveling's O(L \
                   T)",
        )
        .figure("tiering < lazy < leveling", |o| {
            let [tier, lazy, level] = o.each(["tiering", "lazy", "leveling"], writes);
            let ours = format!("{tier:.1} < {lazy:.1} < {level:.1} bytes a byte");
            (ours, tier < lazy && lazy < level)
        }),
        claim(
            "4.1",
            "Lazy leveling writes more than tiering by the merges of the last level only, O(T) for \
             any amount of data",
        )
        .figure("at most T = 5", |o| {
            let more = |lazy: &str, tiering: &str| writes(&o[lazy]) - writes(&o[tiering]);
            let (small, large) = (more("lazy, small", "tiering, small"), more("lazy", "tiering"));
            let ours = format!("{small:.1} more for 256 MiB, {large:.1} more for 2 GiB");
            (ours, [small, large].iter().all(|more| *more > 0.0 && *more <= 5.0))
        }),
        claim("4.1", "Space: lazy leveling's is leveling's, O(1/T); tiering's is O(T)").figure(
            "1/T = 0.2 and less than T",
            |o| {
                let cases = ["tiering, over", "lazy, over", "leveling, over"];
                let [tier, lazy, level] = o.each(cases, excess);
                let ours = format!(
                    "over one copy: leveling {level:.2}, lazy {lazy:.2}, tiering {tier:.2}"
                );
                let few = [level, lazy].iter().all(|space| rounded(*space, 2) <= 0.2);
                (ours, few && tier > lazy && tier < 5.0)
            },
        ),
        claim(
            "4.1",
            "Lookups of keys that are not there cost lazy leveling about what they cost \
                   leveling, with filters by level",
        )
        .figure("the same order, here within 2 times", |o| {
            let [tier, lazy, level] = o.each(["tiering", "lazy", "leveling"], best_miss);
            let ours = format!("leveling {level:.4}, lazy {lazy:.4}, tiering {tier:.4} runs read");
            (ours, lazy < 2.0 * level && lazy < tier)
        }),
        claim(
            "4.1",
            "Runs: at most L under leveling, 1 + (L − 1)(T − 1) under lazy leveling, \
                   L (T − 1) under tiering",
        )
        .figure("leveling < lazy <= tiering", |o| {
            let [tier, lazy, level] = o.each(["tiering", "lazy", "leveling"], runs);
            let ours = format!("on average {level:.1} < {lazy:.1} <= {tier:.1}");
            (ours, level < lazy && lazy <= tier)
        }),
        claim("4.2", "K = T − 1 and Z = 1 is lazy leveling").figure("the same", |o| {
            let [fluid, lazy] = o.each(["lazy", "lazy-leveled"], writes);
            let ours = format!("fluid:5:4:1 {fluid:.2}, lazy-leveled:5 {lazy:.2} bytes a byte");
            (ours, o["lazy"].merge_written == o["lazy-leveled"].merge_written)
        }),
        claim("4.2", "A smaller K writes more and leaves fewer runs").figure("a trade", |o| {
            let (ours, more_writes, fewer_runs) = trade(o, "K 4 to 2", "K = 2");
            (ours, more_writes && fewer_runs)
        }),
        claim("4.2", "A larger Z writes less and leaves more runs").figure("a trade", |o| {
            let (ours, more_writes, fewer_runs) = trade(o, "Z 1 to 2", "Z = 2");
            (ours, !more_writes && !fewer_runs)
        }),
    ],
};
