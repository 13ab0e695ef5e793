//! `peers queue`: scans among deletions by RocksDB's own published recipe, on Firn and on RocksDB,
//! with and without the remedy that the recipe was published for.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use firn_workload::phase::parse_count;
use firn_workload::recipe::{Scans, scans_among_deletions};
use firn_workload::{Result, Store};

use super::engines::{Settings, firn, rocksdb};

#[derive(Args)]
pub struct Queue {
    /// Keys
    #[arg(long, default_value = "1m", value_parser = parse_count)]
    recipe: u64,
    /// Seconds per step
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    recipe_seconds: u64,
    /// RocksDB's min_tombstones_for_range_conversion for its remedy: the number of deletions that a
    /// scan must pass to write a range deletion
    #[arg(long, default_value_t = 8)]
    conversion: u32,
    /// Repetitions, in turns
    #[arg(long, default_value_t = 1)]
    reps: usize,
    /// Directory for the stores' data; each store's directory in it is deleted before and after
    #[arg(long, default_value = "peers-data")]
    dir: PathBuf,
}

fn of<S: Store>(
    args: &Queue,
    dir: &Path,
    open: impl FnOnce(&Path) -> Result<S>,
) -> Result<Vec<Scans>> {
    super::clear(dir)?;
    fs::create_dir_all(dir)?;
    let scans = scans_among_deletions(&open(dir)?, args.recipe, args.recipe_seconds)?;
    super::clear(dir)?;
    Ok(scans)
}

/// Runs the bench.
pub fn main(args: &Queue) -> Result<()> {
    let settings =
        Settings { memtable: 64 << 20, cache: 512 << 20, background: 2, lz4: true, apart: 0 };
    let remedy = args.conversion.to_string();
    println!("| engine | deletions | direction | scans a second |\n|---|---:|---|---:|");
    for _ in 0..args.reps {
        let firn = of(args, &args.dir.join("peers-firn"), |dir| firn::open(dir, &settings))?;
        let plain = of(args, &args.dir.join("peers-rocksdb"), |dir| rocksdb::open(dir, &settings))?;
        let remedied = of(args, &args.dir.join("peers-rocksdb"), |dir| {
            let store = rocksdb::open(dir, &settings)?;
            store.set("min_tombstones_for_range_conversion", &remedy)?;
            Ok(store)
        })?;
        let with = format!("RocksDB, min_tombstones_for_range_conversion={remedy}");
        for (engine, scans) in [("Firn", firn), ("RocksDB", plain), (&with, remedied)] {
            for s in scans {
                let direction = if s.forward { "forward" } else { "backward" };
                println!(
                    "| {engine} | {} | {direction} | {:.0} |",
                    s.deletions, s.scans_per_second
                );
            }
        }
    }
    Ok(())
}
