//! `firn bench --model cql`: the cost of statements on a fresh store, compared with equivalent
//! operations on columns. With `--connect`, compares a cluster with such a store.
//!
//! [`rows`] compares a table with a column family. [`derived`] measures indexes, views and groups.
//! `cluster` compares a table in both places.
//!
//! Invariant: results of reads are checked, so no benchmark is fast by doing nothing. A wrong
//! answer ends the bench with a failure.

pub mod cliffs;
#[cfg(feature = "cluster")]
mod cluster;
mod derived;
mod rows;
mod store;

use serde_json::json;

use super::args::ModelBenchArgs;
use firn_bench::Setting;
use firn_bench::duel::DuelReport;
use firn_tools::output::{Done, Failure, bytes, count};

use store::CqlBench;
pub use store::{BESIDE, KEYSPACE};

/// Minimum number of rows for a measurement.
const LEAST_ROWS: u64 = 1000;

/// Runs the benchmark.
pub fn run(setting: &Setting<'_>, args: &ModelBenchArgs) -> Done {
    if args.rows < LEAST_ROWS {
        return Err(Failure::new(format!("--rows must be {LEAST_ROWS} at least")));
    }
    #[cfg(feature = "cluster")]
    if let Some(url) = args.connect.cluster()? {
        return cluster::run(setting, args, url);
    }
    #[cfg(not(feature = "cluster"))]
    args.connect.cluster()?;
    setting.make_room(&setting.store.db)?;
    let mut report = DuelReport::default();
    let bench = CqlBench::open(&setting.store.db, args)?;
    firn_bench::mark(&setting.store.db)?;
    bench.inserts(&mut report)?;
    bench.selects("as loaded", 0, &mut report)?;
    bench.compact()?;
    bench.selects("compacted", 1 << 32, &mut report)?;
    bench.texts(&mut report)?;
    bench.elements(&mut report)?;
    bench.scans(&mut report)?;
    bench.derived(&mut report)?;
    let head =
        format!("{} rows of 4 columns; memory {}", count(args.rows), bytes(args.engine.budget()));
    report.print(
        setting,
        "cql",
        &head,
        json!({ "rows": args.rows, "budget": args.engine.budget() }),
    )
}
