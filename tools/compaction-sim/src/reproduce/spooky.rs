//! Dayan, Weiss, Dashevsky, Pan, Bortnikov, Twitto: Spooky: Granulating LSM-Tree Compactions
//! Correctly.

use crate::paper::{Paper, PaperClaim, times};

pub(super) const PAPER: Paper = Paper {
    name: "spooky",
    title: "Spooky: Granulating LSM-Tree Compactions Correctly (VLDB 2022)",
    setup: "Full and partial merges and Spooky over the same levels, ratio 5 and 10, keys \
            overwritten in random order at a rate that all keep up with. Sizes are ours: 6 GB \
            written over 1.5 GB of keys, memtables of 4 MiB; an SSD of 2 GiB that erases 64 MiB \
            at once, which Spooky nearly fills.",
    options: "--workload uniform --data 6G --value-size 484 --memtable-size 4M --table-size 8M \
              --ingest 10M",
    cases: &[
        ("full", "--policy leveled:10:level0_runs=2:base=40m:movement=whole-level"),
        ("partial", "--policy dynamic-leveled:10:level0_runs=2:base=40m"),
        ("spooky", "--policy spooky:10:level0_runs=2:base=40m"),
        ("full, 5", "--policy leveled:5:level0_runs=2:base=40m:movement=whole-level"),
        ("partial, 5", "--policy dynamic-leveled:5:level0_runs=2:base=40m"),
        ("spooky, 5", "--policy spooky:5:level0_runs=2:base=40m"),
        (
            "partial, SSD",
            "--policy dynamic-leveled:10:level0_runs=2:base=40m --ssd 2G --erase-block 64M",
        ),
        ("spooky, SSD", "--policy spooky:10:level0_runs=2:base=40m --ssd 2G --erase-block 64M"),
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
                    // Half, to the precision of the paper.
                    of("spooky") < 0.55 * of("full"),
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
                let device = |name: &str| {
                    of(name) * o[name].wear.map_or(1.0, |w| w.device_write_amplification)
                };
                let (spooky, partial) = (device("spooky, SSD"), device("partial, SSD"));
                (
                    format!(
                        "{} of it, with what the SSD's garbage collection writes: {spooky:.1} \
                         against {partial:.1}; without, ratio 10: {:.1} against {:.1}; ratio 5: \
                         {:.1} against {:.1}",
                        times(spooky, partial),
                        of("spooky"),
                        of("partial"),
                        of("spooky, 5"),
                        of("partial, 5")
                    ),
                    spooky < 0.5 * partial,
                )
            },
            differs: "most of it is garbage collection, and how much that writes hangs on how full \
                      the SSD is and on what it erases at once, which the abstract does not say",
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
                    of("spooky") <= 0.115 && of("partial") <= 0.115,
                )
            },
            differs: "",
        },
    ],
};
