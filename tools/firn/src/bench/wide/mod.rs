//! `firn bench --model wide`: what columns and rows cost on a fresh store, beside what the engine
//! beneath takes for the same bytes.
//!
//! [`store`] opens the store and makes rows, [`steps`] measures.
//!
//! Invariant: what is read is checked (how many cells, which sum), so that nothing is fast by doing
//! nothing; a wrong answer ends the bench with a failure.

mod steps;
mod store;

pub use store::{BESIDE, KEYSPACE};

use firn_tools::output::{Done, Failure, bytes, count};
use serde_json::json;

use super::args::ModelBenchArgs;
use firn_bench::Setting;
use firn_bench::duel::DuelReport;

/// The memory budget of the store whose widest row is larger than it.
const SMALL_BUDGET: u64 = 16 << 20;

/// Runs it.
pub fn run(setting: &Setting<'_>, args: &ModelBenchArgs) -> Done {
    if args.rows < steps::LEAST_ROWS || args.columns < steps::LEAST_COLUMNS {
        let (rows, columns) = (steps::LEAST_ROWS, steps::LEAST_COLUMNS);
        return Err(Failure::new(format!(
            "--rows must be {rows} at least, and --columns {columns}"
        )));
    }
    setting.make_room(&setting.store.db)?;
    let mut report = DuelReport::default();
    let bench = store::WideBench::open(&setting.store.db, args, args.engine.budget)?;
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
    let bench = store::WideBench::open(&setting.store.db, args, args.engine.budget)?;
    steps::deletion(&bench, &mut report)?;
    let (rows, columns) = (count(args.rows), count(args.columns));
    let head = format!(
        "{rows} rows of 10 columns, one row of {columns}; memory {}",
        bytes(args.engine.budget)
    );
    let options = json!({ "rows": args.rows, "columns": args.columns, "budget": args.engine.budget, "seed": args.engine.seed });
    report.print(setting, "wide", &head, options)
}
