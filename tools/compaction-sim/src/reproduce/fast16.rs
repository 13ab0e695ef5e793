//! Lim, Andersen, Kaminsky: Towards Accurate and Fast Evaluation of Multi-Stage Log-structured
//! Designs.

use super::paper::{Paper, PaperOutcomes, claim, rounded, writes};
use crate::model::meter::SimOutcome;

/// Cases with LevelDB's level sizes.
const USUAL: [&str; 4] = ["uniform, 1 GiB", "uniform, 2 GiB", "zipf, 1 GiB", "zipf, 2 GiB"];

/// Returns the estimate of the worst case over the bytes written: a flush, and for each level below
/// 0 the byte itself with ten of the next level.
fn overestimate(o: &SimOutcome) -> f64 {
    worst(o) / writes(o)
}

/// Returns the same over the bytes written for each flushed byte.
fn of_flushed(o: &SimOutcome) -> f64 {
    worst(o) / o.rewrite_amplification
}

fn worst(o: &SimOutcome) -> f64 {
    1.0 + 11.0 * o.levels.iter().filter(|l| l.level > 0).count() as f64
}

/// Returns the percentage of the bytes written that the best of these other cases saves.
fn saved<const N: usize>(o: &PaperOutcomes, usual: &str, others: [&str; N]) -> f64 {
    let best = o.each(others, writes).into_iter().fold(f64::MAX, f64::min);
    100.0 * (1.0 - best / writes(&o[usual]))
}

pub(super) const PAPER: Paper = Paper {
    name: "fast16",
    title: "Towards Accurate and Fast Evaluation of Multi-Stage Log-structured Designs (FAST 2016)",
    setup: "LevelDB's settings: memtables of 4 MiB, tables of 2 MiB, four runs on level 0, a level \
            1 of 10 MiB, ratio 10, and tables that move down in key order; entries of 1016 bytes, \
            with uniform and with Zipfian keys. The sizes are ours, and so are the other level \
            sizes, which give as many levels. The worst case is our reading: a flush, and 11 bytes \
            for each level.",
    options: "--key-size 16 --value-size 1000 --memtable-size 4M --table-size 2M --background-threads 0",
    cases: &[
        (
            "uniform, 1 GiB",
            "--workload uniform --live 1G --data 6G \
            --policy leveled:10:base=10m:movement=round-robin",
        ),
        (
            "uniform, 2 GiB",
            "--workload uniform --live 2G --data 8G \
            --policy leveled:10:base=10m:movement=round-robin",
        ),
        (
            "zipf, 1 GiB",
            "--workload zipfian:0.99 --live 1G --data 6G \
            --policy leveled:10:base=10m:movement=round-robin",
        ),
        (
            "zipf, 2 GiB",
            "--workload zipfian:0.99 --live 2G --data 8G \
            --policy leveled:10:base=10m:movement=round-robin",
        ),
        (
            "uniform, 20m",
            "--workload uniform --live 1G --data 6G \
            --policy leveled:7:base=20m:movement=round-robin",
        ),
        (
            "uniform, 40m",
            "--workload uniform --live 1G --data 6G \
            --policy leveled:5:base=40m:movement=round-robin",
        ),
        (
            "zipf, 20m",
            "--workload zipfian:0.99 --live 1G --data 6G \
            --policy leveled:7:base=20m:movement=round-robin",
        ),
        (
            "zipf, 40m",
            "--workload zipfian:0.99 --live 1G --data 6G \
            --policy leveled:5:base=40m:movement=round-robin",
        ),
    ],
    claims: &[
        claim(
            "abstract",
            "The usual analysis of the worst case, 11 bytes for each level, estimates more than \
             LevelDB writes",
        )
        .figure("1.8 to 3.5 times", |o| {
            let all = o.each(USUAL, overestimate);
            let agrees = all.iter().all(|x| (1.8..=3.5).contains(&rounded(*x, 1)));
            let [.., a, b] = o.each(USUAL, of_flushed);
            let ours = format!(
                "{all:.1?} times: uniform with 1 and 2 GiB, and Zipfian; Zipfian counted for each \
                 flushed byte {a:.1} and {b:.1}"
            );
            (ours, agrees)
        })
        .differs(
            "uniform keys agree. With Zipfian ones a memtable drops overwritten versions of \
             popular keys before they reach a table, and the cost here is for each byte put; the \
             abstract does not say for which workloads its figures are",
        ),
        claim("abstract", "Better level sizes lower LevelDB's cost of inserts").figure(
            "by up to 9.4 to 26.2 %",
            |o| {
                let uniform = saved(o, "uniform, 1 GiB", ["uniform, 20m", "uniform, 40m"]);
                let zipf = saved(o, "zipf, 1 GiB", ["zipf, 20m", "zipf, 40m"]);
                let agrees = [uniform, zipf].iter().all(|x| (9.4..=26.2).contains(&rounded(*x, 1)));
                (format!("uniform {uniform:.1} %, Zipfian {zipf:.1} %"), agrees)
            },
        ),
    ],
};
