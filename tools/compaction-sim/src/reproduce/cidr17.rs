//! Dong, Callaghan, Galanis, Borthakur, Savor, Stumm: Optimizing Space Amplification in RocksDB.

use super::paper::{Paper, claim, rounded, runs, writes};
use crate::model::meter::SimOutcome;

/// Cases of different ratio.
const RATIOS: [&str; 3] = ["ratio 5", "ratio 10", "ratio 20"];

/// Returns the average bytes over those of one copy of the live data.
fn space(o: &SimOutcome) -> f64 {
    o.mean_space()
}

/// Returns the percentage of the bytes that the last level has at the end.
fn last_level(o: &SimOutcome) -> f64 {
    let all: u64 = o.levels.iter().map(|l| l.bytes).sum();
    100.0 * o.levels.last().map_or(0.0, |l| l.bytes as f64) / all.max(1) as f64
}

pub(super) const PAPER: Paper = Paper {
    name: "cidr17",
    title: "Optimizing Space Amplification in RocksDB (CIDR 2017)",
    setup: "Leveled of ratio 10 with fixed level sizes and with dynamic ones. Keys are overwritten \
            in random order. Sizes are ours: memtables of 2 MiB and a level 1 of 64 MiB. In the \
            first two cases the live data is a little larger than the target of level 2.",
    options: "--workload uniform --value-size 484 --memtable-size 2M --table-size 4M --background-threads 0",
    cases: &[
        ("fixed", "--live 660M --data 32G --policy leveled:10:level0_runs=2:base=64m"),
        ("dynamic", "--live 660M --data 32G --policy dynamic-leveled:10:level0_runs=2:base=64m"),
        ("ratio 5", "--live 2G --data 7G --policy dynamic-leveled:5:level0_runs=2:base=64m"),
        ("ratio 10", "--live 2G --data 7G --policy dynamic-leveled:10:level0_runs=2:base=64m"),
        ("ratio 20", "--live 2G --data 7G --policy dynamic-leveled:20:level0_runs=2:base=64m"),
    ],
    claims: &[
        claim(
            "Dynamic level sizes",
            "With fixed sizes, the last level may be little larger than the target of the level \
             above it",
        )
        .figure("space amplification larger than 2", |o| {
            let [fixed, dynamic] = o.each(["fixed", "dynamic"], |o| o.space_amplification);
            let ours = format!("{fixed:.2} at the end; with dynamic sizes {dynamic:.2}");
            (ours, rounded(fixed, 2) > 2.0)
        }),
        claim(
            "Dynamic level sizes",
            "With a tenth of the next level as the size of each level, space amplification is the \
             sum of 1, 1/10, 1/100 and so on at most",
        )
        .figure("less than 1.111", |o| {
            let [small, large] = o.each(["dynamic", "ratio 10"], space);
            let ours = format!("{small:.3} for 660 MiB and {large:.3} for 2 GiB, on average");
            (ours, rounded(small, 3) <= 1.111 && rounded(large, 3) <= 1.111)
        }),
        claim(
            "Level size multiplier",
            "A larger ratio lowers space and read amplification, and raises write amplification",
        )
        .figure("monotone", |o| {
            let (space, runs, writes) =
                (o.each(RATIOS, space), o.each(RATIOS, runs), o.each(RATIOS, writes));
            let agrees = space.is_sorted_by(|a, b| a > b)
                && runs.is_sorted_by(|a, b| a >= b)
                && writes.is_sorted_by(|a, b| a < b);
            let ours = format!(
                "for 5, 10 and 20: space {space:.2?}, runs {runs:.1?}, {writes:.1?} bytes a byte"
            );
            (ours, agrees)
        }),
        claim("Compression", "The last level has about 90 % of the data").figure("90 %", |o| {
            let share = last_level(&o["ratio 10"]);
            (format!("{share:.0} %"), rounded(share, 0) == 90.0)
        }),
    ],
};
