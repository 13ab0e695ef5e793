//! Dayan, Weiss, Dashevsky, Pan, Bortnikov, Twitto: Spooky: Granulating LSM-Tree Compactions
//! Correctly.

use super::paper::{Paper, claim, excess, peak, times, writes};

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
        claim(
            "abstract",
            "Full merges need twice the space of the data while they merge the largest \
                   level",
        )
        .figure("2 and more", |o| {
            let most = peak(&o["full"]);
            (format!("{most:.2} at most"), most >= 2.0)
        }),
        claim(
            "abstract",
            "Partial merges write more than full ones, for what they merge does not overlap \
                   perfectly",
        )
        .figure("more", |o| {
            let [a, b] = o.each(["partial", "full"], writes);
            let [c, d] = o.each(["partial, 5", "full, 5"], writes);
            let ours = format!("ratio 10: partial {a:.1}, full {b:.1}; ratio 5: {c:.1}, {d:.1}");
            (ours, a > b && c > d)
        }),
        claim("abstract", "Spooky needs far less space than full merges").figure("half", |o| {
            let [spooky, full] = o.each(["spooky", "full"], peak);
            // Half, to the precision of the paper.
            (format!("{spooky:.2} against {full:.2} at most"), spooky < 0.55 * full)
        }),
        claim("abstract", "Spooky writes less than partial merges")
            .figure("less than half", |o| {
                let [spooky, partial] = o.each(["spooky, SSD", "partial, SSD"], |o| {
                    writes(o) * o.wear.map_or(1.0, |w| w.device_write_amplification)
                });
                let [a, b, c, d] = o.each(["spooky", "partial", "spooky, 5", "partial, 5"], writes);
                let ours = format!(
                    "{} of it, with what the SSD's garbage collection writes: {spooky:.1} against \
 {partial:.1}; without, ratio 10: {a:.1} against {b:.1}; ratio 5: {c:.1} against {d:.1}",
                    times(spooky, partial)
                );
                (ours, spooky < 0.5 * partial)
            })
            .differs(
                "most of it is garbage collection, and how much that writes hangs on how full \
                      the SSD is and on what it erases at once, which the abstract does not say",
            ),
        claim(
            "4",
            "With the levels above sized by what the largest holds, what is obsolete is at \
                   most 1/(T − 1)",
        )
        .figure("0.11", |o| {
            let [a, b] = o.each(["spooky", "partial"], excess);
            (format!("spooky {a:.2}, partial {b:.2} on average"), a <= 0.115 && b <= 0.115)
        }),
    ],
};
