//! Renders outcomes as a page ([`firn_tools::page`]).

use firn_tools::output::{bytes, count};
use firn_tools::page::{FilmPage, PageFrame};

use crate::model::meter::SimOutcome;
use crate::report::metric::Metric;
use crate::report::{by_case, columns};

/// Returns the page, with the first of several seeds. Outcomes without frames show only their
/// numbers.
pub fn page(all: &[(String, SimOutcome)]) -> String {
    let shown: Vec<(&str, &SimOutcome)> = by_case(all)
        .into_iter()
        .filter_map(|(name, seeds)| Some((name, *seeds.first()?)))
        .collect();
    let columns = columns(all);
    let head: Vec<(&str, &str)> = [("case", "The policy, and what else was varied.")]
        .into_iter()
        .chain(columns.iter().map(|(_, m)| (m.words, m.about)))
        .collect();
    let row = |(name, o): &(&str, &SimOutcome)| {
        let value = |(_, m): &(&str, &Metric)| m.text(o).unwrap_or_else(|| "-".to_owned());
        [(*name).to_owned()].into_iter().chain(columns.iter().map(value)).collect::<Vec<_>>()
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
        head: &head,
        rows: &rows,
        cases: &cases,
        at_once: false,
    };
    page.html()
}
