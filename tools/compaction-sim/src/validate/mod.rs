//! Larger checks of the simulator against the engine, too long for every test run. Exact results
//! and closed forms are tested in `tests/`.

pub mod advice;
pub mod engine;
pub mod measured;
mod random;

use std::io::Write;

use firn_kv::{Compression, TreeOptions};
use firn_tools::io::Stopwatch;
use firn_tools::output::{Done, Failure, bytes, print_table, row, table};
use firn_workload::ValueSize;
use serde_json::json;

use crate::cli::batch::simulate_all;
use crate::cli::{SimCli, ValidateArgs, read};
use crate::model::machine::Machine;
use crate::model::meter::SimOutcome;
use crate::model::sim::Setup;
use crate::model::size::ContentSize;
use crate::policy::{self, STRATEGIES};
use crate::report::text::seconds;
use crate::workload::{SimWorkload, WorkloadName};

/// Runs `validate`.
///
/// # Errors
/// [`Failure::Found`] if a prediction exceeds its allowed error.
pub fn run(args: &ValidateArgs, cli: &SimCli, out: &mut dyn Write) -> Done {
    let wanted = |part: &str| args.parts.is_empty() || args.parts.iter().any(|p| p == part);
    let sample = args.sample.as_deref().map(read).transpose()?.unwrap_or_default();
    let mut good = true;
    if wanted("summary") {
        good &= summary(cli, out)?;
    }
    if wanted("compressed") {
        good &= compressed(&sample, cli, out)?;
    }
    if wanted("drawn") {
        good &= random_cases(args, cli, out)?;
    }
    if wanted("advice") {
        good &= advice::run(cli, out)?;
    }
    if wanted("sweep") {
        good &= sweep(cli, out)?;
    }
    if good { Ok(()) } else { Err(Failure::Found) }
}

/// Returns a simulation with memtables and tables of `size` bytes and `ops` operations, without
/// threads: tests and measurements compare the summary model with the exact one on it.
///
/// # Errors
/// An unknown policy or workload.
pub fn small_tree(
    policy_name: &str,
    workload_name: &str,
    ops: u64,
    size: u64,
    exact: bool,
) -> Result<Setup, String> {
    let options = TreeOptions {
        compression: vec![Compression::None],
        memtable_size: size as usize,
        table_size: size,
        ..TreeOptions::default()
    };
    let options = TreeOptions { policy: policy::parse(policy_name, &options)?.policy, ..options };
    let content = ContentSize::default();
    let workload = SimWorkload::of(&workload_name.parse()?, ops, ops / 4, content);
    let machine = Machine { threads: 0, instant: true, ..Machine::default() };
    Ok(Setup { exact, ..Setup::new(options, workload, machine) })
}

/// Compares writes and space of the summary model with the exact one.
fn summary(cli: &SimCli, out: &mut dyn Write) -> Done<bool> {
    let policies = [
        "lo+1:6",
        "lo+1:10",
        "lo+2:6",
        "rr:6",
        "cold:6",
        "old:6",
        "tsd:6",
        "1-lvl:4",
        "tiered:3",
        "lazy-leveled:4",
        "full:4",
        "tier:4",
    ];
    let names: Vec<[&str; 2]> = policies
        .iter()
        .flat_map(|&p| {
            ["uniform", "zipfian:0.9", "deletes:0.2", "massdelete:0.5", "queue:0.1"].map(|w| [p, w])
        })
        .collect();
    let mut cases = vec![];
    for [p, w] in &names {
        for exact in [true, false] {
            cases.push((
                format!("{p}, {w}"),
                small_tree(p, w, 1_000_000, 128 << 10, exact).map_err(Failure::new)?,
            ));
        }
    }
    let outcomes = simulate_all("summary", &cases)?;
    let mut t = table(&[
        "exact, and numbers per table",
        "WA",
        "WA",
        "differs",
        "SA",
        "SA",
        "differs",
        "at the end",
        "at the end",
        "differs",
    ]);
    let mut good = true;
    for ((name, _), pair) in cases.iter().step_by(2).zip(outcomes.chunks(2)) {
        let values =
            |o: &SimOutcome| [o.write_amplification, o.mean_space(), o.space_amplification];
        let (real, ours) = (values(&pair[0]), values(&pair[1]));
        let mut cells = vec![name.clone()];
        for (real, ours) in real.into_iter().zip(ours) {
            let off = (ours / real - 1.0) * 100.0;
            good &= off.abs() <= 5.0;
            cells.extend([format!("{real:.3}"), format!("{ours:.3}"), format!("{off:+.1} %")]);
        }
        t.add_row(cells);
    }
    writeln!(out, "{}", print_table(&t, cli.style()))?;
    Ok(good)
}

/// Compares the write amplification of the summary model with the engine's, with compressed data.
fn compressed(sample: &[u8], cli: &SimCli, out: &mut dyn Write) -> Done<bool> {
    let mut t = table(&["write amplification, LZ4", "engine", "simulated", "differs"]);
    let mut good = true;
    for name in [
        "tiered:3",
        "1-lvl:4",
        "leveled:6:base=3m",
        "leveled:10:base=5m",
        "lo+1:6",
        "lo+1:10",
        "lazy-leveled:4",
        "tier:4",
        "full:4",
    ] {
        for workload_name in ["insert", "uniform", "zipfian:0.9"] {
            let mut options = TreeOptions {
                compression: vec![Compression::Lz4],
                memtable_size: 512 << 10,
                table_size: 512 << 10,
                ..TreeOptions::default()
            };
            options.policy = policy::parse(name, &options).map_err(Failure::new)?.policy;
            let name: WorkloadName = workload_name.parse().map_err(Failure::new)?;
            let value = ValueSize::Fixed(200);
            let content = ContentSize { value, sample: sample.to_vec(), ..ContentSize::default() };
            let workload = SimWorkload::of(&name, 200_000, 60_000, content);
            let (stats, _) = engine::run_in_memory(&options, &workload, 1000)?;
            let (o, _) = engine::simulated_in_memory(&options, &workload, 1000, false)?;
            let (real, ours) = (stats.write_amplification(), o.write_amplification);
            let off = (ours / real - 1.0) * 100.0;
            good &= off.abs() <= 5.0;
            row(
                &mut t,
                [
                    format!("{name}, {workload_name}"),
                    format!("{real:.3}"),
                    format!("{ours:.3}"),
                    format!("{off:+.1} %"),
                ],
            );
        }
    }
    writeln!(out, "{}", print_table(&t, cli.style()))?;
    Ok(good)
}

/// Compares the engine's figures for random configurations with the predictions. The machine
/// determines how long writers are held up, so it should do nothing else.
fn random_cases(args: &ValidateArgs, cli: &SimCli, out: &mut dyn Write) -> Done<bool> {
    let all = random::results(args.seed, args.draws, args.logs.as_deref())?;
    let (text, good) = random::table_of(&all, cli.style());
    if cli.json {
        let case =
            |(about, m): &(String, measured::Measured)| json!({"about": about, "measured": m});
        writeln!(out, "{}", json!(all.iter().map(case).collect::<Vec<_>>()))?;
    } else {
        write!(out, "{text}")?;
    }
    Ok(good)
}

/// Simulates the ten strategies over 1 TiB.
fn sweep(cli: &SimCli, out: &mut dyn Write) -> Done<bool> {
    let content = ContentSize::default();
    let ops = (1u64 << 40) / 116;
    let deletes: WorkloadName = "deletes:0.1".parse().map_err(Failure::new)?;
    let mut cases = vec![];
    for name in STRATEGIES {
        let options =
            TreeOptions { compression: vec![Compression::None], ..TreeOptions::default() };
        let named = policy::parse(name, &options).map_err(Failure::new)?;
        let options = TreeOptions {
            policy: named.policy,
            tombstone_age_secs: if named.ages { 3600 } else { 0 },
            ..options
        };
        let workload = SimWorkload::of(&deletes, ops, ops / 4, content.clone());
        cases.push((name.to_owned(), Setup::new(options, workload, Machine::default())));
    }
    let watch = Stopwatch::start();
    let outcomes = simulate_all("sweep", &cases)?;
    let took = watch.seconds();
    let all: Vec<_> = cases.into_iter().map(|c| c.0).zip(outcomes).collect();
    write!(out, "{}", crate::report::many(&all, cli.style()))?;
    writeln!(out, "\n{} strategies over {} in {}", all.len(), bytes(1 << 40), seconds(took))?;
    Ok(took < 300.0)
}
