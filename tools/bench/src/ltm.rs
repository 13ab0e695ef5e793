//! `firn bench ltm`: a store larger than memory: times of fill, reads, seeks, batched reads and
//! scans, with their device I/O.
//!
//! The command creates a control group with the limit and restarts itself inside it, so that all
//! memory counts: memtables, cache and the page cache. If it cannot create a group, it reports the
//! reason and an alternative. Steps other than the fill run for a time, not for a number of
//! operations.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use firn_kv::DbOptions;
use firn_workload::limit::{self, MemoryGroup};
use firn_workload::process::{Device, Usage};
use firn_workload::{Config, Extent, Phase, Runner, WorkloadDescription};
use serde_json::{Value, json};

use crate::Setting;
use crate::duel::scattered;
use crate::run::{TREE, failure};
use crate::{BenchArgs, directory};
use firn_tools::io::{Stopwatch, stdout};
use firn_tools::output::{
    self, Done, Failure, Progress, bytes, count, nanos, print_table, rate, row, table,
};
use firn_workload::firn::FirnStore;

/// Passes the group's directory to the process inside it.
const GROUP: &str = "FIRN_BENCH_GROUP";
/// Keys of one multi_get.
const TOGETHER: usize = 64;

/// Runs the bench: outside the group it creates the group, inside it measures.
pub fn run(setting: &Setting<'_>, args: &BenchArgs) -> Done {
    if let Some(group) = std::env::var_os(GROUP) {
        limit::enter(Path::new(&group)).map_err(|e| no_limit(args, &e))?;
        return measure(setting, args);
    }
    if args.limit == 0 {
        return measure(setting, args);
    }
    let group = MemoryGroup::new(args.limit).map_err(|e| no_limit(args, &e))?;
    let me = std::env::current_exe()?;
    let status =
        Command::new(me).args(std::env::args_os().skip(1)).env(GROUP, group.path()).status()?;
    drop(group);
    match status.code() {
        Some(0) => Ok(()),
        // The process has printed the reason.
        Some(code) => std::process::exit(code),
        None => Err(Failure::with_next(
            format!("the process inside the limit of {} was killed", bytes(args.limit)),
            "give it more memory (--limit), or the store less (--memory-budget, --memtable-size)",
        )),
    }
}

fn no_limit(args: &BenchArgs, e: &std::io::Error) -> Failure {
    let what = format!("no control group with {} of memory could be made: {e}", bytes(args.limit));
    let next = format!(
        "run it as root, or give the limit from outside: `systemd-run --scope -p MemoryMax={} -p MemorySwapMax=0 firn bench ltm --limit 0`, \
         or in a container with that much memory",
        args.limit
    );
    Failure::with_next(what, next)
}

/// Results of one step.
struct LtmLine {
    step: String,
    ops: u64,
    seconds: f64,
    /// Median and 99th percentile, nanoseconds.
    latency: Option<[u64; 2]>,
    /// Bytes that this process read from the device.
    read: u64,
    /// Bytes written to the device by any process until no dirty pages were left.
    written: u64,
}

/// Returns the device I/O: reads of this process (`/proc/self/io`), and writes of the device,
/// because writeback is delayed and done by others.
fn traffic(dir: &Path) -> (u64, u64) {
    (Usage::now().map_or(0, |u| u.read), Device::of(dir).map_or(0, |d| d.written))
}

struct LtmBench<'a> {
    dir: &'a Path,
    lines: Vec<LtmLine>,
}

impl LtmBench<'_> {
    /// Measures a step, which returns its operations, and its latencies if known. Its dirty pages
    /// are written back before the next step begins, if it writes.
    fn step(
        &mut self,
        name: &str,
        writes: bool,
        work: impl FnOnce() -> Done<(u64, Option<[u64; 2]>)>,
    ) -> Done {
        let before = traffic(self.dir);
        let watch = Stopwatch::start();
        let (ops, latency) = work()?;
        let seconds = watch.seconds();
        if writes {
            // Include delayed writeback.
            let _ = Command::new("sync").status();
        }
        let after = traffic(self.dir);
        let (read, written) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        self.lines.push(LtmLine { step: name.into(), ops, seconds, latency, read, written });
        Ok(())
    }

    /// Runs a workload of the runner.
    fn phase(
        &mut self,
        store: &FirnStore,
        config: &Config,
        name: &str,
        threads: usize,
        seconds: Option<u64>,
    ) -> Done {
        let max_time = seconds.map(Duration::from_secs);
        let config = Config { max_time, sample_every: 4, ..config.clone() };
        let runner = Runner::new(config).map_err(failure)?;
        let mut phase: Phase = name.parse().map_err(Failure::new)?;
        phase.threads = threads;
        let name = phase.to_string();
        phase.extent = seconds.map(|s| Extent::Seconds(s as f64));
        let progress = Progress::operations(&name, None);
        self.step(&name, !phase.mix.only_reads(), || {
            let o = runner
                .run(store, &phase, |p| {
                    progress.at(p.ops);
                    progress.say(format!("{}/s", rate(p.ops_per_second)));
                })
                .map_err(failure)?;
            Ok((o.ops, o.latency.map(|l| [l.p50_ns, l.p99_ns])))
        })
    }
}

fn measure(setting: &Setting<'_>, args: &BenchArgs) -> Done {
    let dir = &setting.store.db;
    setting.prepare(dir, args.keep)?;
    let plan = crate::plan::BenchPlan::of_options(args, args.description()?)?;
    let options = DbOptions { wal_segment: DbOptions::default().wal_segment, ..plan.db.clone() };
    let store = FirnStore::open(dir, options, TREE, plan.tree.clone()).map_err(failure)?;
    directory::mark(dir)?;
    let mut bench = LtmBench { dir, lines: vec![] };
    if !args.keep {
        bench.phase(&store, &plan.config, "fillrandom", 1, None)?;
        bench.step("wait", true, || {
            store.db.wait_idle().map(|()| (1, None)).map_err(Failure::from)
        })?;
    }
    let threads = plan.description.threads.max(2);
    let time = Some(args.seconds);
    bench.phase(&store, &plan.config, "readrandom", 1, time)?;
    bench.phase(&store, &plan.config, "readrandom", threads, time)?;
    bench.phase(&store, &plan.config, "seekrandom", 1, time)?;
    bench.step(&format!("multi_get of {TOGETHER}"), false, || {
        multi_get(&store, &plan.config, args.seconds)
    })?;
    bench.phase(&store, &plan.config, "readseq", 1, time)?;
    print(setting, args, &plan.description, &bench.lines)
}

/// Counts keys, not calls; latencies are those of calls.
fn multi_get(store: &FirnStore, config: &Config, seconds: u64) -> Done<(u64, Option<[u64; 2]>)> {
    let progress = Progress::operations("multi_get", None);
    let watch = Stopwatch::start();
    let mut times =
        hdrhistogram::Histogram::<u64>::new(3).map_err(|e| Failure::new(e.to_string()))?;
    let mut key = firn_workload::keys::KeyBuf::new(config.key_size);
    let mut ops = 0;
    while watch.seconds() < seconds as f64 {
        let keys: Vec<Vec<u8>> = (ops..ops + TOGETHER as u64)
            .map(|i| key.set(scattered(i ^ config.seed) % config.keys).to_vec())
            .collect();
        let from = watch.nanos();
        store.tree.multi_get(&keys)?;
        times.saturating_record(watch.nanos().saturating_sub(from));
        ops += TOGETHER as u64;
        progress.at(ops);
    }
    Ok((ops, Some([times.value_at_quantile(0.5), times.value_at_quantile(0.99)])))
}

fn print(
    setting: &Setting<'_>,
    args: &BenchArgs,
    d: &WorkloadDescription,
    lines: &[LtmLine],
) -> Done {
    let device = Device::of(&setting.store.db);
    let mut out = stdout();
    if setting.store.json {
        let line = |l: &LtmLine| {
            json!({
                "step": l.step, "operations": l.ops, "seconds": l.seconds, "operations_per_second": l.ops as f64 / l.seconds,
                "p50_ns": l.latency.map(|t| t[0]), "p99_ns": l.latency.map(|t| t[1]),
                "device_read_bytes": l.read, "device_written_bytes": l.written,
            })
        };
        let all: Value = json!({
            "firn": env!("CARGO_PKG_VERSION"),
            "limit": args.limit, "workload": d,
            "device": device.as_ref().map(|d| &d.name), "read_ahead_kb": device.as_ref().and_then(|d| d.read_ahead_kb),
            "steps": lines.iter().map(line).collect::<Vec<_>>(),
        });
        writeln!(out, "{all:#}")?;
        return Ok(out.flush()?);
    }
    let limit = if args.limit == 0 {
        "no limit of its own".into()
    } else {
        format!("{} for all", bytes(args.limit))
    };
    let ahead = device
        .as_ref()
        .and_then(|d| d.read_ahead_kb)
        .map_or("unknown".into(), |kb| format!("{} KiB", count(kb)));
    let name = device.map_or("unknown".into(), |d| d.name);
    writeln!(
        out,
        "{} keys of {} bytes in {}; memory: {limit}, of it {} for the store, memtables of {}; device {name}, read-ahead {ahead}\n",
        count(d.keys),
        d.key_size,
        setting.store.db.display(),
        bytes(d.store.memory_budget),
        bytes(d.store.memtable_size)
    )?;
    let mut t = table(&[
        "step",
        "ops/s",
        "p50",
        "p99",
        "seconds",
        "read",
        "a read op",
        "written",
        "a write op",
    ]);
    for l in lines {
        let time = |i: usize| l.latency.map_or_else(|| "-".into(), |t| nanos(t[i]));
        let each = |n: u64| if l.ops > 1 { output::bytes(n / l.ops) } else { "-".into() };
        let rate = if l.ops > 1 { rate(l.ops as f64 / l.seconds) } else { "-".into() };
        let cells = [
            l.step.clone(),
            rate,
            time(0),
            time(1),
            format!("{:.1}", l.seconds),
            bytes(l.read),
            each(l.read),
            bytes(l.written),
            each(l.written),
        ];
        row(&mut t, cells);
    }
    write!(out, "{}", print_table(&t, setting.store.style()))?;
    writeln!(
        out,
        "\nread: from the device, by this process (/proc/self/io). written: to the device, by anybody (/proc/diskstats), after a fill with \
         the data left to be written back. p50 and p99 of multi_get are those of a call with {TOGETHER} keys, its rate is that of keys."
    )?;
    Ok(out.flush()?)
}
