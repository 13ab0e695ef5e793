//! Sarkar, Papon, Staratzis, Athanassoulis: Lethe: A Tunable Delete-Aware LSM Engine.

use crate::paper::{Paper, PaperClaim};

pub(super) const PAPER: Paper = Paper {
    name: "lethe",
    title: "Lethe: A Tunable Delete-Aware LSM Engine (SIGMOD 2020, arXiv 2006.04777)",
    setup: "Leveled of ratio 10, entries of 1 KiB, one run on level 0; FADE shares the threshold \
            of persistence out over the levels, each ten times the one above. Buffers of 1 MiB, 2 \
            GB of writes, of which a tenth are deletes, and a threshold of a fifth of the run's \
            time are ours.",
    options: "--workload deletes:0.1 --data 2G --key-size 24 --value-size 1000 --memtable-size 1M \
              --table-size 1M --ingest 4M",
    cases: &[
        ("without", "--policy leveled:10:level0_runs=1:base=10m"),
        ("FADE", "--policy fade:10:level0_runs=1:base=10m --tombstone-age 100"),
        ("bound of the tree", "--policy leveled:10:level0_runs=1:base=10m --tombstone-age 100"),
    ],
    claims: &[
        PaperClaim {
            section: "4.1",
            text: "Every delete is persistent by the threshold",
            figure: "100 s",
            ours: |o| {
                let of = |name: &str| o[name].tombstone_age[2];
                (
                    format!(
                        "at most {:.0} s; without {:.0} s; with the bound that all policies have \
                         {:.0} s",
                        of("FADE"),
                        of("without"),
                        of("bound of the tree")
                    ),
                    of("FADE") <= 100.0 && of("without") > 100.0,
                )
            },
            differs: "",
        },
        PaperClaim {
            section: "abstract",
            text: "For a modest increase of the bytes written",
            figure: "4 to 25 %",
            ours: |o| {
                let of = |name: &str| o[name].write_amplification;
                let more = 100.0 * (of("FADE") / of("without") - 1.0);
                let bound = 100.0 * (of("bound of the tree") / of("without") - 1.0);
                (
                    format!("{more:.0} %; with the bound that all policies have {bound:.0} %"),
                    (3.5..25.5).contains(&more),
                )
            },
            differs: "",
        },
        PaperClaim {
            section: "abstract",
            text: "Space amplification is lower",
            figure: "2.1 to 9.8 times",
            ours: |o| {
                let of = |name: &str| o[name].mean_space() - 1.0;
                (
                    format!("{:.3} against {:.3} over one copy", of("FADE"), of("without")),
                    of("without") > 2.1 * of("FADE"),
                )
            },
            differs: "nine tenths of these writes overwrite; the space is that of their old \
                      versions, which no bound on the age of deletes reaches",
        },
        PaperClaim {
            section: "4.1",
            text: "Fewer deletes are left in the tree",
            figure: "fewer",
            ours: |o| {
                let of = |name: &str| o[name].tombstones;
                (
                    format!("{:.0} against {:.0}", of("FADE"), of("without")),
                    of("FADE") < of("without"),
                )
            },
            differs: "",
        },
    ],
};
