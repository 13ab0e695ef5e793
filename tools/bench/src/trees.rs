//! `firn bench trees`: the cost of many trees under one memory budget: opening, at rest, and while
//! all of them are written.
//!
//! Each number of trees is measured in its own process, because memory retained by an allocator
//! would distort the next one.

use std::path::Path;
use std::process::Command;

use clap::Args;
use firn_kv::{DbOptions, TreeOptions};
use firn_tools::output::{Done, Failure, bytes, count, listing, print_table, rate, row};
use firn_workload::embedding::{KEY, VALUE, trees};
use firn_workload::firn::FirnEmbedded;
use serde_json::{Value, json};

use crate::Setting;
use crate::run::{failure, words};
use crate::{BenchArgs, directory};

/// Options of `firn bench trees`.
#[derive(Args, Clone, Debug)]
pub struct TreeArgs {
    /// trees: Numbers of trees, each measured separately
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_value = "1,60,1k,10k", value_parser = parse_trees)]
    trees: Vec<u64>,
    /// Measure only this number of trees (for child processes).
    #[arg(long, value_name = "NUMBER", hide = true)]
    apart: Option<u64>,
}

fn parse_trees(text: &str) -> Result<u64, String> {
    let n = firn_workload::phase::parse_count(text)?;
    if (1..=1_000_000).contains(&n) { Ok(n) } else { Err("1 to 1,000,000".into()) }
}

/// Measures one number of trees.
fn measure(setting: &Setting<'_>, args: &BenchArgs, n: u64) -> Done<Value> {
    setting.make_room(&setting.store.db)?;
    let d = args.description()?;
    let memory_budget = usize::try_from(d.store.memory_budget).unwrap_or(usize::MAX);
    let options =
        DbOptions { memory_budget, durability: args.durability(), ..DbOptions::default() };
    let memtable_size = d.store.memtable_size as usize;
    let tree = TreeOptions { memtable_size, ..TreeOptions::default() };
    let open = |dir: &Path| {
        let store = FirnEmbedded::open(dir, options.clone(), tree.clone())?;
        directory::mark(dir).map_err(words)?;
        Ok(store)
    };
    let (costs, store) = trees(&setting.store.db, n, d.keys, d.seed, open).map_err(failure)?;
    let stats = store.db.stats();
    let mut all = json!(costs);
    let ours = json!({
        "flushes": stats.flushes, "flushed_bytes": stats.flush_bytes,
        "slowdown_seconds": stats.slowdown_nanos as f64 / 1e9, "stalled_seconds": stats.stalled_nanos as f64 / 1e9,
        "memtables_bytes": stats.memory.memtables, "cache_bytes": stats.memory.cache, "tables_bytes": stats.memory.tables,
    });
    if let (Some(all), Value::Object(ours)) = (all.as_object_mut(), ours) {
        all.extend(ours);
    }
    Ok(all)
}

/// Measures one number of trees in a child process.
fn measure_apart(setting: &Setting<'_>, n: u64) -> Done<Value> {
    let me = std::env::current_exe()?;
    let args = std::env::args_os().skip(1).filter(|a| a != "--json");
    let out = Command::new(me)
        .args(args)
        .args(["--json", "--apart", &n.to_string()])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    let one: Option<Value> = serde_json::from_slice(&out.stdout).ok();
    one.and_then(|v| v["cases"].get(0).cloned()).ok_or_else(|| {
        Failure::new(format!(
            "the process that measured {n} trees in {} failed",
            setting.store.db.display()
        ))
    })
}

/// Runs the bench.
pub fn run(setting: &Setting<'_>, args: &BenchArgs) -> Done {
    let d = args.description()?;
    let cases: Vec<Value> = match args.trees.apart {
        Some(n) => vec![measure(setting, args, n)?],
        None => args.trees.trees.iter().map(|&n| measure_apart(setting, n)).collect::<Done<_>>()?,
    };
    if setting.store.json {
        println!(
            "{}",
            json!({ "budget": d.store.memory_budget, "puts": d.keys, "key": KEY, "value": VALUE, "cases": cases })
        );
        return Ok(());
    }
    println!(
        "{} puts of {} bytes, budget {}",
        count(d.keys),
        KEY + VALUE,
        bytes(d.store.memory_budget)
    );
    let head = [
        "trees",
        "make s",
        "open s",
        "idle",
        "a tree",
        "full",
        "puts/s",
        "stalled s",
        "flushes",
        "address space",
    ];
    let mut table = listing(&head, "rrrrrrrrrr");
    for c in &cases {
        let number = |name: &str| c[name].as_u64().unwrap_or(0);
        let float = |name: &str| c[name].as_f64().unwrap_or(0.0);
        let cells = [
            count(number("trees")),
            format!("{:.2}", float("make_seconds")),
            format!("{:.3}", float("open_seconds")),
            bytes(number("idle_bytes")),
            bytes(number("idle_bytes") / number("trees").max(1)),
            bytes(number("full_bytes")),
            rate(float("puts_per_second")),
            format!("{:.2}", float("stalled_seconds")),
            count(number("flushes")),
            bytes(number("address_space_bytes")),
        ];
        row(&mut table, cells);
    }
    print!("{}", print_table(&table, setting.store.style()));
    Ok(())
}
