//! `firn bench small`: many small stores in one process, and what each of them costs: to make, to open, to read, to close.
//!
//! All are open at the same time, as the stores of tenants or of tests are.

use clap::Args;
use firn_kv::{Db, DbOptions, TreeOptions};
use firn_tools::io::Watch;
use firn_tools::output::{Done, Failure, bytes, count, listing, nanos, print_table, row};
use firn_workload::process::{Usage, disk_bytes};
use serde_json::json;

use super::directory;
use crate::store::Global;

/// What `firn bench small` takes of its own.
#[derive(Args, Clone, Debug)]
pub struct SmallArgs {
    /// small: how many stores
    #[arg(long, value_name = "STORES", default_value = "1000", value_parser = firn_workload::spec::parse_count)]
    stores: u64,
    /// small: records in each, of 16 bytes and 100
    #[arg(long, value_name = "RECORDS", default_value = "100", value_parser = firn_workload::spec::parse_count)]
    records: u64,
}

/// A clock tick of the processor's accounting, in nanoseconds.
const TICK: u64 = 10_000_000;

/// What one step has cost, divided by the number of stores.
struct Step {
    name: &'static str,
    wall: u64,
    cpu: u64,
    /// What the process has more than before the bench, per store.
    memory: u64,
    threads: f64,
    disk: u64,
}

struct Bench<'a> {
    dirs: &'a [std::path::PathBuf],
    before: Usage,
    steps: Vec<Step>,
}

impl Bench<'_> {
    fn step<T>(&mut self, name: &'static str, work: impl FnOnce() -> Done<T>) -> Done<T> {
        eprintln!("{name}");
        let n = self.dirs.len() as u64;
        let (from, watch) = (Usage::now().unwrap_or_default(), Watch::start());
        let done = work()?;
        let (wall, now) = (watch.nanos(), Usage::now().unwrap_or_default());
        let more = |now: u64, before: u64| now.saturating_sub(before);
        let memory = more(now.rss_anon, self.before.rss_anon) + more(now.rss_file, self.before.rss_file);
        self.steps.push(Step {
            name,
            wall: wall / n,
            cpu: (now.cpu_ticks - from.cpu_ticks) * TICK / n,
            memory: memory / n,
            threads: more(now.threads, self.before.threads) as f64 / n as f64,
            disk: self.dirs.iter().map(|d| disk_bytes(d).unwrap_or(0)).sum::<u64>() / n,
        });
        Ok(done)
    }
}

fn key(i: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[8..].copy_from_slice(&i.to_be_bytes());
    key
}

/// Runs it.
pub fn run(global: &Global, args: &SmallArgs) -> Done {
    if args.stores == 0 || args.records == 0 {
        return Err(Failure::new("--stores and --records must be 1 at least"));
    }
    let dirs: Vec<_> = (0..args.stores).map(|i| global.db.join(format!("small-{i:06}"))).collect();
    dirs.iter().try_for_each(|d| directory::make_room(d))?;
    let mut bench = Bench { dirs: &dirs, before: Usage::now().unwrap_or_default(), steps: vec![] };
    let open = || dirs.iter().map(|d| Ok(Db::open_with(d, DbOptions::default())?)).collect::<Done<Vec<Db>>>();
    let put = |db: &Db, keys: std::ops::Range<u64>| {
        let tree = db.tree("t", TreeOptions::default())?;
        Ok(keys.into_iter().try_for_each(|i| tree.put(&key(i), &[b'v'; 100]))?)
    };
    let dbs = bench.step("make", open)?;
    bench.step("fill", || dbs.iter().try_for_each(|db| put(db, 0..args.records)))?;
    bench.step("close", || {
        drop(dbs);
        Ok(())
    })?;
    let dbs = bench.step("open", open)?;
    bench.step("read all", || {
        dbs.iter().try_for_each(|db| {
            let found = db.existing_tree("t")?.iter().count() as u64;
            if found == args.records { Ok(()) } else { Err(Failure::new(format!("a store has {found} records"))) }
        })
    })?;
    bench.step("close, read only", || {
        drop(dbs);
        Ok(())
    })?;
    bench.step("open, put one, close", || {
        dirs.iter().try_for_each(|d| put(&Db::open_with(d, DbOptions::default())?, args.records..args.records + 1))
    })?;
    for dir in &dirs {
        directory::mark(dir)?;
        directory::make_room(dir)?;
        firn_tools::io::remove_dir(dir).map_err(|e| Failure::file("remove", dir, &e))?;
    }
    if global.json {
        let step = |s: &Step| json!({"step": s.name, "wall_nanos": s.wall, "cpu_nanos": s.cpu, "memory": s.memory, "threads": s.threads, "disk": s.disk});
        let steps: Vec<_> = bench.steps.iter().map(step).collect();
        println!("{}", json!({"stores": args.stores, "records": args.records, "steps": steps}));
        return Ok(());
    }
    println!("{} stores of {} records of 116 bytes, all open at once. Each costs:", count(args.stores), count(args.records));
    let mut table = listing(&["step", "time", "processor", "memory then", "threads then", "disk then"], "lrrrrr");
    for s in &bench.steps {
        row(
            &mut table,
            [s.name.into(), nanos(s.wall), nanos(s.cpu), bytes(s.memory), format!("{:.3}", s.threads), bytes(s.disk)],
        );
    }
    print!("{}", print_table(&table, global.style()));
    Ok(())
}
