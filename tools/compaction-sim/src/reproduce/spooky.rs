//! Dayan, Weiss, Dashevsky, Pan, Bortnikov, Twitto: Spooky: Granulating LSM-Tree Compactions
//! Correctly.

use crate::paper::{Paper, PaperClaim};

pub(super) const PAPER: Paper = Paper {
    name: "spooky",
    title: "Spooky: Granulating LSM-Tree Compactions Correctly (VLDB 2022)",
    setup: "Full and partial merges and Spooky over the same levels, ratio 5 and 10, keys \
            overwritten in random order at a rate that all keep up with. Sizes are ours: 6 GB \
            written over 1.5 GB of keys, memtables of 4 MiB.",
    options: "--workload uniform --data 6G --value-size 484 --memtable-size 4M --table-size 8M \
              --ingest 10M",
    cases: &[
        ("full", "--policy leveled:10:level0_runs=2:base=40m:movement=whole-level"),
        ("partial", "--policy dynamic-leveled:10:level0_runs=2:base=40m"),
        ("spooky", "--policy spooky:10:level0_runs=2:base=40m"),
        ("full, 5", "--policy leveled:5:level0_runs=2:base=40m:movement=whole-level"),
        ("partial, 5", "--policy dynamic-leveled:5:level0_runs=2:base=40m"),
        ("spooky, 5", "--policy spooky:5:level0_runs=2:base=40m"),
    ],
    claims: &[
        PaperClaim {
            section: "abstract",
            text: "Full merges need twice the space of the data while they merge the largest \
                   level",
            figure: "2 and more",
            ours: |o| {
                let most = o["full"].max_space_amplification;
                (format!("{most:.2} at most"), most >= 2.0)
            },
            differs: "",
        },
        PaperClaim {
            section: "abstract",
            text: "Partial merges write more than full ones, for what they merge does not overlap \
                   perfectly",
            figure: "more",
            ours: |o| {
                let of = |name: &str| o[name].write_amplification;
                (
                    format!(
                        "ratio 10: partial {:.1}, full {:.1}; ratio 5: {:.1}, {:.1}",
                        of("partial"),
                        of("full"),
                        of("partial, 5"),
                        of("full, 5")
                    ),
                    of("partial") > of("full") && of("partial, 5") > of("full, 5"),
                )
            },
            differs: "",
        },
        PaperClaim {
            section: "abstract",
            text: "Spooky needs far less space than full merges",
            figure: "half",
            ours: |o| {
                let of = |name: &str| o[name].max_space_amplification;
                (
                    format!("{:.2} against {:.2} at most", of("spooky"), of("full")),
                    of("spooky") < 0.75 * of("full"),
                )
            },
            differs: "",
        },
        PaperClaim {
            section: "abstract",
            text: "Spooky writes less than partial merges",
            figure: "less than half",
            ours: |o| {
                let of = |name: &str| o[name].write_amplification;
                (
                    format!(
                        "ratio 10: {:.1} against {:.1}; ratio 5: {:.1} against {:.1}",
                        of("spooky"),
                        of("partial"),
                        of("spooky, 5"),
                        of("partial, 5")
                    ),
                    of("spooky") < 0.5 * of("partial"),
                )
            },
            differs: "the direction is the paper's, but its figure counts what the garbage \
                      collection of the SSD writes, which is not simulated",
        },
        PaperClaim {
            section: "4",
            text: "With the levels above sized by what the largest holds, what is obsolete is at \
                   most 1/(T − 1)",
            figure: "0.11",
            ours: |o| {
                let of = |name: &str| o[name].mean_space() - 1.0;
                (
                    format!("spooky {:.2}, partial {:.2} on average", of("spooky"), of("partial")),
                    of("spooky") < 0.2 && of("partial") < 0.2,
                )
            },
            differs: "",
        },
    ],
};
