//! Outcomes as a page ([`firn_tools::page`]).

use firn_tools::output::{bytes, count};
use firn_tools::page::{FilmPage, PageFrame};

use crate::meter::SimOutcome;
use crate::report::{by_case, seconds};

const HEAD: [(&str, &str); 9] = [
    ("case", "The policy, and what else was varied."),
    (
        "write amplification",
        "Bytes that flushes and merges wrote to tables, for each byte of keys and values that the user wrote.",
    ),
    ("runs, mean", "Sorted runs that a read may have to look into: mean over all writes."),
    ("runs, most", "The most runs after any flush."),
    (
        "space now",
        "Bytes of tables at the end, over the bytes that one copy of all live keys takes.",
    ),
    (
        "space, most",
        "The largest that this was, counted from a tenth of the operations on, with what jobs were still writing.",
    ),
    ("peak", "The most bytes of tables at any time, with what jobs were still writing."),
    ("stopped", "How long writers stood still, because every memtable was full."),
    ("writes/s", "Writes a second while writes went on."),
];

/// The page, of several seeds the first. Outcomes without frames show their numbers only.
pub fn page(all: &[(String, SimOutcome)]) -> String {
    let shown: Vec<(&str, &SimOutcome)> = by_case(all)
        .into_iter()
        .filter_map(|(name, seeds)| Some((name, *seeds.first()?)))
        .collect();
    let row = |(name, o): &(&str, &SimOutcome)| {
        vec![
            (*name).to_owned(),
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
    let rows: Vec<_> = shown.iter().map(row).collect();
    let cases: Vec<(&str, &[PageFrame])> =
        shown.iter().map(|(name, o)| (*name, &o.frames[..])).collect();
    let about = shown.first().map_or_else(String::new, |(_, o)| {
        format!(
            "Simulated: {}, {} operations, {} written by the user. The policies are the engine's own, the tables are virtual.",
            o.workload,
            count(o.ops),
            bytes(o.user_bytes as u64)
        )
    });
    let page = FilmPage {
        title: "Compactions over time",
        about: &about,
        work: "operations",
        head: &HEAD,
        rows: &rows,
        cases: &cases,
        at_once: false,
        live: None,
    };
    page.html()
}
