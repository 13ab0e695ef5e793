//! Dayan, Idreos: Dostoevsky: Better Space-Time Trade-Offs for LSM-Tree Based Key-Value Stores via
//! Adaptive Removal of Superfluous Merging.

use crate::filters::allocate;
use crate::meter::SimOutcome;
use crate::paper::{Paper, PaperClaim};

/// Returns the runs read for a missing key, with ten bits per key, allocated optimally.
fn best_miss(o: &SimOutcome) -> f64 {
    allocate(&o.run_entries(), 10.0).iter().sum()
}

pub(super) const PAPER: Paper = Paper {
    name: "dostoevsky",
    title: "Dostoevsky: Better Space-Time Trade-Offs for LSM-Tree Based Key-Value Stores (SIGMOD \
            2018)",
    setup: "Lazy leveling, leveling and tiering as settings of the Fluid LSM-tree (section 4.2), \
            ratio 5, worst case: keys inserted or overwritten in random order. Sizes are ours: \
            2000 and 4000 memtables of 1 MiB.",
    options: "--memtable-size 1M --table-size 2M --threads 0 --tombstone-age 0",
    cases: &[
        ("leveling", "--workload insert --data 2G --policy fluid:5:1:1"),
        ("lazy", "--workload insert --data 2G --policy fluid:5:4:1"),
        ("lazy-leveled", "--workload insert --data 2G --policy lazy-leveled:5"),
        ("tiering", "--workload insert --data 2G --policy fluid:5:4:4"),
        ("K = 2", "--workload insert --data 2G --policy fluid:5:2:1"),
        ("Z = 2", "--workload insert --data 2G --policy fluid:5:4:2"),
        ("leveling, over", "--workload uniform --data 4G --policy fluid:5:1:1"),
        ("lazy, over", "--workload uniform --data 4G --policy fluid:5:4:1"),
        ("tiering, over", "--workload uniform --data 4G --policy fluid:5:4:4"),
    ],
    claims: &[
        PaperClaim {
            section: "4.1",
            text: "Updates cost lazy leveling O(L + T), between tiering's O(L) and leveling's O(L \
                   T)",
            figure: "tiering < lazy < leveling",
            ours: |o| {
                let of = |name: &str| o[name].write_amplification;
                let [tier, lazy, level] = ["tiering", "lazy", "leveling"].map(of);
                (
                    format!("{tier:.1} < {lazy:.1} < {level:.1} bytes a byte"),
                    tier < lazy && lazy < level,
                )
            },
            differs: "",
        },
        PaperClaim {
            section: "4.1",
            text: "Lazy leveling writes more than tiering by the merges of the last level only, \
                   about T/2",
            figure: "2.5",
            ours: |o| {
                let more = o["lazy"].write_amplification - o["tiering"].write_amplification;
                (format!("{more:.1}"), (2.0..=3.0).contains(&more))
            },
            differs: "",
        },
        PaperClaim {
            section: "4.1",
            text: "Space: lazy leveling's is leveling's, O(1/T); tiering's is O(T)",
            figure: "1/T = 0.2 and less than T",
            ours: |o| {
                let of = |name: &str| o[name].mean_space() - 1.0;
                let [tier, lazy, level] = ["tiering, over", "lazy, over", "leveling, over"].map(of);
                (
                    format!(
                        "over one copy: leveling {level:.2}, lazy {lazy:.2}, tiering {tier:.2}"
                    ),
                    level < 0.25 && lazy < 0.25 && tier > lazy && tier < 5.0,
                )
            },
            differs: "",
        },
        PaperClaim {
            section: "4.1",
            text: "Lookups of keys that are not there cost lazy leveling about what they cost \
                   leveling, with filters by level",
            figure: "the same order",
            ours: |o| {
                let [tier, lazy, level] =
                    ["tiering", "lazy", "leveling"].map(|name| best_miss(&o[name]));
                (
                    format!("leveling {level:.4}, lazy {lazy:.4}, tiering {tier:.4} runs read"),
                    lazy < 2.0 * level && lazy < tier,
                )
            },
            differs: "",
        },
        PaperClaim {
            section: "4.1",
            text: "Runs: at most L under leveling, 1 + (L − 1)(T − 1) under lazy leveling, \
                   L (T − 1) under tiering",
            figure: "leveling < lazy <= tiering",
            ours: |o| {
                let of = |name: &str| o[name].mean_runs;
                let [tier, lazy, level] = ["tiering", "lazy", "leveling"].map(of);
                (
                    format!("on average {level:.1} < {lazy:.1} <= {tier:.1}"),
                    level < lazy && lazy <= tier,
                )
            },
            differs: "",
        },
        PaperClaim {
            section: "4.2",
            text: "K = T − 1 and Z = 1 is lazy leveling",
            figure: "the same",
            ours: |o| {
                let of = |name: &str| o[name].merge_written;
                (
                    format!(
                        "fluid:5:4:1 {:.2}, lazy-leveled:5 {:.2} bytes a byte",
                        o["lazy"].write_amplification, o["lazy-leveled"].write_amplification
                    ),
                    of("lazy") == of("lazy-leveled"),
                )
            },
            differs: "",
        },
        PaperClaim {
            section: "4.2",
            text: "A smaller K writes more and leaves fewer runs",
            figure: "a trade",
            ours: |o| {
                let of = |name: &str| (o[name].write_amplification, o[name].mean_runs);
                let (two, lazy) = (of("K = 2"), of("lazy"));
                (
                    format!(
                        "K 4 to 2: {:.1} to {:.1} bytes a byte, {:.1} to {:.1} runs",
                        lazy.0, two.0, lazy.1, two.1
                    ),
                    two.0 > lazy.0 && two.1 < lazy.1,
                )
            },
            differs: "",
        },
        PaperClaim {
            section: "4.2",
            text: "A larger Z writes less and leaves more runs",
            figure: "a trade",
            ours: |o| {
                let of = |name: &str| (o[name].write_amplification, o[name].mean_runs);
                let (two, lazy) = (of("Z = 2"), of("lazy"));
                (
                    format!(
                        "Z 1 to 2: {:.1} to {:.1} bytes a byte, {:.1} to {:.1} runs",
                        lazy.0, two.0, lazy.1, two.1
                    ),
                    two.0 < lazy.0 && two.1 > lazy.1,
                )
            },
            differs: "",
        },
    ],
};
