//! `firn bench --model wide`: the cost of columns and rows on a fresh store, compared with the
//! engine's cost for the same bytes.
//!
//! [`store`] opens the store and creates rows, [`steps`] measures.
//!
//! Invariant: results of reads are checked (number of cells, sums), so no benchmark is fast by
//! doing nothing. A wrong answer ends the bench with a failure.

mod steps;
mod store;

pub use store::{BESIDE, KEYSPACE};

use firn_tools::output::{Done, Failure, bytes, count};
use serde_json::json;

use super::args::ModelBenchArgs;
use firn_bench::Setting;
use firn_bench::duel::DuelReport;

/// Memory budget of a store that is smaller than its widest row.
const SMALL_BUDGET: u64 = 16 << 20;

/// Runs the benchmark.
pub fn run(setting: &Setting<'_>, args: &ModelBenchArgs) -> Done {
    if args.rows < steps::LEAST_ROWS || args.columns < steps::LEAST_COLUMNS {
        let (rows, columns) = (steps::LEAST_ROWS, steps::LEAST_COLUMNS);
        return Err(Failure::new(format!(
            "--rows must be {rows} at least, and --columns {columns}"
        )));
    }
    setting.make_room(&setting.store.db)?;
    let mut report = DuelReport::default();
    let bench = store::WideBench::open(&setting.store.db, args, args.engine.budget())?;
    firn_bench::mark(&setting.store.db)?;
    steps::inserts(&bench, &mut report)?;
    steps::row_reads(&bench, "as loaded", &mut report)?;
    bench.compact()?;
    steps::row_reads(&bench, "compacted", &mut report)?;
    steps::point_reads(&bench, &mut report)?;
    steps::load_wide_row(&bench, &mut report)?;
    steps::last_ten(&bench, &mut report)?;
    steps::walk(&bench, "a cell of the wide row walked", &mut report)?;
    steps::long_slices(&bench, &mut report)?;
    steps::judge_row_reads(&mut report);
    steps::counters(&bench, &mut report)?;
    steps::late_writes(&bench, &mut report)?;
    drop(bench);
    let small = store::WideBench::open(&setting.store.db, args, SMALL_BUDGET)?;
    steps::walk(&small, "the same in 16 MiB of memory", &mut report)?;
    drop(small);
    let bench = store::WideBench::open(&setting.store.db, args, args.engine.budget())?;
    steps::deletion(&bench, &mut report)?;
    let (rows, columns) = (count(args.rows), count(args.columns));
    let head = format!(
        "{rows} rows of 10 columns, one row of {columns}; memory {}",
        bytes(args.engine.budget())
    );
    let options = json!({ "rows": args.rows, "columns": args.columns, "budget": args.engine.budget(), "seed": args.engine.seed() });
    report.print(setting, "wide", &head, options)
}
