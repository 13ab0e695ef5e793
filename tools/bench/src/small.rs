//! `firn bench small`: many small stores in one process, and the cost of each: creating, opening,
//! reading, closing.
//!
//! All are open at the same time, like stores of tenants or tests. [`firn_workload::embedding`]
//! does the measuring, for any engine.

use std::path::Path;

use clap::Args;
use firn_kv::{DbOptions, TreeOptions};
use firn_tools::output::{Done, Failure, bytes, count, listing, nanos, print_table, row};
use firn_workload::embedding::{KEY, VALUE, small};
use firn_workload::firn::FirnEmbedded;
use serde_json::json;

use crate::Setting;
use crate::directory;
use crate::run::failure;

/// Options of `firn bench small`.
#[derive(Args, Clone, Debug)]
pub struct SmallArgs {
    /// small: Number of stores
    #[arg(long, value_name = "STORES", default_value = "1000", value_parser = firn_workload::phase::parse_count)]
    stores: u64,
    /// small: Records in each, of 16 and 100 bytes
    #[arg(long, value_name = "RECORDS", default_value = "100", value_parser = firn_workload::phase::parse_count)]
    records: u64,
}

/// Runs the bench.
pub fn run(setting: &Setting<'_>, args: &SmallArgs) -> Done {
    if args.stores == 0 || args.records == 0 {
        return Err(Failure::new("--stores and --records must be 1 at least"));
    }
    let dirs: Vec<_> =
        (0..args.stores).map(|i| setting.store.db.join(format!("small-{i:06}"))).collect();
    dirs.iter().try_for_each(|d| setting.make_room(d))?;
    let open = |dir: &Path| FirnEmbedded::open(dir, DbOptions::default(), TreeOptions::default());
    let steps = small(&dirs, args.records, open).map_err(failure)?;
    for dir in &dirs {
        directory::mark(dir)?;
        setting.make_room(dir)?;
        firn_tools::io::remove_dir(dir).map_err(|e| Failure::file("remove", dir, &e))?;
    }
    if setting.store.json {
        println!("{}", json!({"stores": args.stores, "records": args.records, "steps": steps}));
        return Ok(());
    }
    println!(
        "{} stores of {} records of {} bytes, all open at once. Each costs:",
        count(args.stores),
        count(args.records),
        KEY + VALUE
    );
    let mut table = listing(
        &["step", "time", "processor", "memory then", "threads then", "disk then"],
        "lrrrrr",
    );
    for s in &steps {
        row(
            &mut table,
            [
                s.name.clone(),
                nanos(s.wall_nanos),
                nanos(s.cpu_nanos),
                bytes(s.memory),
                format!("{:.3}", s.threads),
                bytes(s.disk),
            ],
        );
    }
    print!("{}", print_table(&table, setting.store.style()));
    Ok(())
}
