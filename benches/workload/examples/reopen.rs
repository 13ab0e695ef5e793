//! Measures opening a store with a long log. `reopen make DIR TREES MIB` creates a store whose log
//! has this size, in a process that ends without closing it. `reopen open DIR BUDGET_MIB` opens it
//! and prints the costs.
//!
//! ```text
//! cargo build --release -p firn-workload --features firn --example reopen
//! reopen make /tmp/store 60 462 && reopen open /tmp/store 64
//! ```
#![allow(clippy::disallowed_methods)] // it measures time and ends its process

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use firn_kv::{Db, DbOptions, TreeOptions};
use firn_workload::process::Usage;
use firn_workload::rng::mix;

fn make(dir: &str, trees: u64, bytes: u64) -> Result<(), Box<dyn Error>> {
    let db = Db::open_with(dir, DbOptions { memory_budget: 4 << 30, ..DbOptions::default() })?;
    let trees = (0..trees)
        .map(|i| db.tree(&format!("t{i}"), TreeOptions::default()))
        .collect::<Result<Vec<_>, _>>()?;
    let mut i = 0u64;
    while db.stats().wal_bytes < bytes {
        for _ in 0..1000 {
            let at = mix(i);
            trees[(at % trees.len() as u64) as usize]
                .put([at.to_be_bytes(), i.to_be_bytes()].concat(), [b'v'; 100])?;
            i += 1;
        }
    }
    println!("{i} puts, {} flushes, {} MiB of log", db.stats().flushes, db.stats().wal_bytes >> 20);
    std::process::exit(0)
}

fn open(dir: &str, budget: usize) -> Result<(), Box<dyn Error>> {
    let (done, most) = (AtomicBool::new(false), AtomicU64::new(0));
    let before = Usage::now().unwrap_or_default();
    let start = Instant::now();
    let db = std::thread::scope(|s| {
        s.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(Usage::now().map_or(0, |u| u.rss_anon), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let db = Db::open_with(dir, DbOptions { memory_budget: budget, ..DbOptions::default() });
        done.store(true, Ordering::Relaxed);
        db
    })?;
    let wall = start.elapsed();
    let now = Usage::now().unwrap_or_default();
    let s = db.stats();
    println!(
        "open: {:.2} s, {:.2} s of processor, at most {} MiB of anonymous memory; {} flushes of {} MiB, {} MiB of memtables, {} MiB of log left",
        wall.as_secs_f64(),
        (now.cpu_ticks - before.cpu_ticks) as f64 / 100.0,
        most.load(Ordering::Relaxed) >> 20,
        s.flushes,
        s.flush_bytes >> 20,
        s.memory.memtables >> 20,
        s.wal_bytes >> 20
    );
    db.wait_idle()?;
    let after = Usage::now().unwrap_or_default();
    println!(
        "until all work is done: {:.2} s, {:.2} s of processor in all",
        start.elapsed().as_secs_f64(),
        (after.cpu_ticks - before.cpu_ticks) as f64 / 100.0
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", dir, trees, mib] => make(dir, trees.parse()?, mib.parse::<u64>()? << 20),
        ["open", dir, budget] => open(dir, budget.parse::<usize>()? << 20),
        _ => Err("reopen make DIR TREES MIB, or reopen open DIR BUDGET_MIB".into()),
    }
}
