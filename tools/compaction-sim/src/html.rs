//! Outcomes as a page ([`firn_tools::page`]).

use firn_tools::output::{bytes, count};
use firn_tools::page;

use crate::meter::SimOutcome;
use crate::report::seconds;

const HEAD: [&str; 9] = [
    "case",
    "write amplification",
    "runs, mean",
    "runs, most",
    "space now",
    "space, most",
    "peak",
    "stopped",
    "writes/s",
];

/// The page. Outcomes without frames show their numbers only.
pub fn page(all: &[(String, SimOutcome)]) -> String {
    let row = |(name, o): &(String, SimOutcome)| {
        vec![
            name.clone(),
            format!("{:.2}", o.write_amplification),
            format!("{:.1}", o.mean_runs),
            o.max_runs.to_string(),
            format!("{:.2}", o.space_amplification),
            format!("{:.2}", o.max_space_amplification),
            bytes(o.peak_bytes),
            seconds(o.stalled_seconds),
            count(o.ops_per_second as u64),
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    let cases: Vec<_> = all.iter().map(|(name, o)| (name.clone(), o.frames.clone())).collect();
    page::page("Compactions over time", &HEAD, &rows, &cases)
}
