//! Dayan, Athanassoulis, Idreos: Monkey: Optimal Navigable Key-Value Store.

use super::paper::{Paper, claim, rounded};
use crate::model::filters::{allocate, error_of, uniform_cost};
use crate::model::meter::SimOutcome;

/// Bits of filter for each key.
const BITS: f64 = 5.0;
/// Cases of different size.
const SIZES: [&str; 3] = ["60 MiB", "480 MiB", "3.75 GiB"];

/// Returns the runs read for a missing key, with equal bits for every key.
fn uniform(o: &SimOutcome) -> f64 {
    uniform_cost(&o.run_entries(), BITS)
}

/// Returns the same for optimally allocated bits.
fn best(o: &SimOutcome) -> f64 {
    allocate(&o.run_entries(), BITS).iter().sum()
}

/// Returns the percentage of runs read that the allocation saves.
fn saved(o: &SimOutcome) -> f64 {
    100.0 * (1.0 - best(o) / uniform(o))
}

pub(super) const PAPER: Paper = Paper {
    name: "monkey",
    title: "Monkey: Optimal Navigable Key-Value Store (SIGMOD 2017)",
    setup: "Leveling of ratio 2 with 5 bits of Bloom filter for each key, inserts in random \
            order; the trees that our policies leave, and filters over their runs by the paper's \
            own model (section 4). Memtables of 1 MiB and the amounts of data are ours.",
    options: "--workload insert --memtable-size 1M --table-size 1M --background-threads 0 --value-size 1000",
    cases: &[
        ("60 MiB", "--data 60M --policy fluid:2:1:1"),
        ("480 MiB", "--data 480M --policy fluid:2:1:1"),
        ("3.75 GiB", "--data 3840M --policy fluid:2:1:1"),
        ("tiering", "--data 1G --policy fluid:4:3:3"),
        ("leveling", "--data 1G --policy fluid:4:1:1"),
    ],
    claims: &[
        claim(
            "4.1",
            "Filters of the same bits everywhere cost a lookup of a missing key the more \
                   the more levels there are",
        )
        .figure("grows with log N", |o| {
            let [a, b, c] = o.each(SIZES, uniform);
            (format!("{a:.2}, {b:.2}, {c:.2} runs read"), a < b && b < c)
        }),
        claim(
            "4.3",
            "Shared out at their best they cost at most a constant, whatever the amount of \
                   data",
        )
        .figure("T^(T/(T − 1)) / (T − 1) times the error of a filter: 0.36", |o| {
            let [a, b, c] = o.each(SIZES, best);
            let most = rounded(4.0 * error_of(BITS), 2);
            let agrees = [a, b, c].iter().all(|cost| rounded(*cost, 2) <= most);
            (format!("{a:.2}, {b:.2}, {c:.2} runs read"), agrees)
        }),
        claim("abstract", "So lookups gain, by a margin that grows with the data")
            .figure("50 to 80 %", |o| {
                let [a, b, c] = o.each(SIZES, saved);
                let runs = SIZES.map(|size| o[size].runs);
                let ours = format!(
                    "{a:.0}, {b:.0}, {c:.0} % at 60 MiB, 480 MiB and 3.75 GiB, which have {runs:?} \
                    runs"
                );
                let all = [a, b, c].map(|x| rounded(x, 0));
                (ours, a < b && b < c && all.iter().all(|x| (50.0..=80.0).contains(x)))
            })
            .differs(
                "by the paper's own model the gain of L full levels is 1 − 4/L with 5 bits and \
                 ratio 2, which is 50 % from 8 levels on; only the largest of these trees has 8 \
                 runs",
            ),
        claim("4", "It gains under tiering as under leveling").figure("both", |o| {
            let [tier, level] = o.each(["tiering", "leveling"], saved);
            (format!("tiering {tier:.0} %, leveling {level:.0} %"), tier > 0.0 && level > 0.0)
        }),
    ],
};
