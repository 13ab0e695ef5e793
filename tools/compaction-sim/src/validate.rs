//! The simulator against the engine: the larger checks, too long for every test run. What is exact, and the closed forms, are in
//! `tests/`.

use std::io::Write;

use firn_kv::{Compression, Db, DbOptions, TreeOptions};
use firn_tools::io::Watch;
use firn_tools::output::{Done, Failure, bytes, print_table, row, table};

use crate::cli::{Cli, ValidateArgs, read};
use crate::commands::simulate_all;
use crate::engine;
use crate::machine::Machine;
use crate::policy::{self, STRATEGIES};
use crate::recorded;
use crate::report::seconds;
use crate::sim::{self, Setup};
use crate::size::Content;
use crate::workload::{Kind, Workload};

fn workload(kind: Kind, ops: u64, keys: u64, content: Content) -> Workload {
    let (keys, phases) = kind.phases(ops, keys);
    Workload { keys, phases, content, ttl_micros: 0, seed: 1, per_memtable: None }
}

/// `validate`.
///
/// # Errors
/// [`Failure::Found`] when a prediction is further off than promised.
pub fn run(args: &ValidateArgs, cli: &Cli, out: &mut dyn Write) -> Done {
    let wanted = |part: &str| args.parts.is_empty() || args.parts.iter().any(|p| p == part);
    let sample = args.sample.as_deref().map(read).transpose()?.unwrap_or_default();
    let mut good = true;
    if wanted("compressed") {
        good &= compressed(&sample, cli, out)?;
    }
    if wanted("overload") {
        good &= overload(cli, out)?;
    }
    if wanted("sweep") {
        good &= sweep(cli, out)?;
    }
    if good { Ok(()) } else { Err(Failure::Found) }
}

/// Write amplification of the summary model against the engine's, with compressed data.
fn compressed(sample: &[u8], cli: &Cli, out: &mut dyn Write) -> Done<bool> {
    let mut t = table(&["write amplification, LZ4", "engine", "simulated", "differs"]);
    let mut good = true;
    for name in ["tiered:3", "leveled:4:4", "lazy:4", "unified:2", "full:4"] {
        for workload_name in ["insert", "uniform", "zipfian:0.9"] {
            let mut options = TreeOptions {
                compression: vec![Compression::Lz4],
                memtable_size: 512 << 10,
                table_size: 512 << 10,
                ..TreeOptions::default()
            };
            options.policy = policy::parse(name, &options).map_err(Failure::new)?.policy;
            let kind: Kind = workload_name.parse().map_err(Failure::new)?;
            let content = Content { key_len: 16, value_len: (200, 200), random: 0.5, sample: sample.to_vec() };
            let workload = workload(kind, 200_000, 60_000, content);
            let (stats, _) = engine::run_in_memory(&options, &workload, 1000)?;
            let machine = Machine { threads: 0, instant: true, ..Machine::default() };
            let o = sim::run(&Setup { options, workload, machine, exact: false, picture: false }, &mut |_| ())?;
            let (real, ours) = (stats.write_amplification(), o.write_amplification);
            let off = (ours / real - 1.0) * 100.0;
            good &= off.abs() <= 5.0;
            row(
                &mut t,
                [format!("{name}, {workload_name}"), format!("{real:.3}"), format!("{ours:.3}"), format!("{off:+.1} %")],
            );
        }
    }
    writeln!(out, "{}", print_table(&t, cli.style()))?;
    Ok(good)
}

/// One run of the real engine with threads and files: its event log, seconds, and the seconds that writers were held up.
struct Measured {
    log: String,
    seconds: f64,
    held_up: f64,
}

fn measure(options: &TreeOptions, workload: &Workload) -> Done<Measured> {
    let dir = std::env::temp_dir().join(format!("compaction-sim-{}", std::process::id()));
    let clean = || {
        if dir.exists() { std::fs::remove_dir_all(&dir).map_err(|e| Failure::file("remove", &dir, &e)) } else { Ok(()) }
    };
    clean()?;
    let watch = Watch::start();
    let db_options = DbOptions { memory_budget: 64 << 20, ..DbOptions::default() };
    let db = Db::open_with(&dir, db_options)?;
    let stats = engine::write(&db, options, workload, 0.0, |_| ())?;
    let seconds = watch.seconds();
    drop(db);
    let log = read(&dir.join("EVENTS.jsonl"))?;
    clean()?;
    let held_up = (stats.paced_nanos + stats.stalled_nanos) as f64 / 1e9;
    Ok(Measured { log: String::from_utf8_lossy(&log).into_owned(), seconds, held_up })
}

/// The machine as one run shows it: what a flushed entry, a merged byte and a write cost, whatever else the machine was doing.
fn calibrated(m: &Measured, ops: u64, max_sealed: usize) -> Done<Machine> {
    let h = recorded::parse(&m.log, None)?;
    let per = |micros: u64, n: u64| micros as f64 * 1000.0 / n.max(1) as f64;
    Ok(Machine {
        read_bandwidth: 1e18,
        write_bandwidth: 1e18,
        sync_latency: 0.0,
        cores: 64.0,
        threads: 2,
        max_sealed,
        write_op: (m.seconds - m.held_up).max(0.001) * 1e9 / ops as f64,
        flush: (per(h.micros.0, h.flushed[0]), 0.0),
        merge: (0.0, per(h.micros.1, h.merged[0] + h.merged[1])),
        ingest: 0.0,
        instant: false,
    })
}

/// Seconds that writers are held up when they bring more than the tree can take. The machine is measured under one policy, the
/// prediction made for another.
fn overload(cli: &Cli, out: &mut dyn Write) -> Done<bool> {
    let mut t = table(&["writers held up", "measured", "simulated", "differs"]);
    let content = Content { key_len: 16, value_len: (100, 100), random: 0.5, sample: vec![] };
    let ops = 4_000_000;
    let workload = workload(Kind::Insert, ops, 0, content);
    let options = |name: &str| -> Done<TreeOptions> {
        let o = TreeOptions { memtable_size: 4 << 20, table_size: 4 << 20, ..TreeOptions::default() };
        Ok(TreeOptions { policy: policy::parse(name, &o).map_err(Failure::new)?.policy, ..o })
    };
    let machine = calibrated(&measure(&options("leveled:4")?, &workload)?, ops, 3)?;
    let mut good = true;
    for name in ["leveled:4", "tiered:2", "lazy:3", "full:4"] {
        let options = options(name)?;
        let real = measure(&options, &workload)?;
        let o = sim::run(&Setup { options, workload: workload.clone(), machine, exact: false, picture: false }, &mut |_| ())?;
        let ours = o.paced_seconds + o.stalled_seconds;
        let off = (ours / real.held_up.max(0.001) - 1.0) * 100.0;
        good &= off.abs() <= 20.0;
        row(&mut t, [name.to_owned(), seconds(real.held_up), seconds(ours), format!("{off:+.0} %")]);
    }
    writeln!(out, "{}", print_table(&t, cli.style()))?;
    Ok(good)
}

/// The ten strategies over 1 TiB.
fn sweep(cli: &Cli, out: &mut dyn Write) -> Done<bool> {
    let content = Content { key_len: 16, value_len: (100, 100), random: 0.5, sample: vec![] };
    let ops = (1u64 << 40) / 116;
    let mut cases = vec![];
    for name in STRATEGIES {
        let options = TreeOptions { compression: vec![Compression::None], ..TreeOptions::default() };
        let named = policy::parse(name, &options).map_err(Failure::new)?;
        let options = TreeOptions { policy: named.policy, tombstone_age_secs: if named.ages { 3600 } else { 0 }, ..options };
        let workload = workload(Kind::Deletes(0.1), ops, ops / 4, content.clone());
        cases.push((name.to_owned(), Setup { options, workload, machine: Machine::default(), exact: false, picture: false }));
    }
    let watch = Watch::start();
    let outcomes = simulate_all("sweep", &cases)?;
    let took = watch.seconds();
    let all: Vec<_> = cases.into_iter().map(|c| c.0).zip(outcomes).collect();
    write!(out, "{}", crate::report::many(&all, cli.style()))?;
    writeln!(out, "\n{} strategies over {} in {}", all.len(), bytes(1 << 40), seconds(took))?;
    Ok(took < 300.0)
}
