//! Formats outcomes as tables, CSV and JSON, all from the list of [`METRICS`].

pub(crate) mod drawing;
mod html;
pub mod metric;
pub(crate) mod output;
#[doc(hidden)]
pub mod plot;
pub(crate) mod text;

use firn_tools::output::{Style, bytes, count, listing, print_table, row, table};
use serde_json::{Value, json};

use crate::model::meter::SimOutcome;
use crate::report::metric::{METRICS, Metric};

/// Formats one outcome: metrics for decisions, then costs, then the levels.
pub fn one(o: &SimOutcome, style: Style) -> String {
    let mut t = table(&["", "value"]);
    row(&mut t, ["policy", &o.policy].map(str::to_owned));
    row(&mut t, ["workload", &o.workload].map(str::to_owned));
    for line in METRICS.chunk_by(|a, b| a.line().0 == b.line().0) {
        let known: Vec<(&Metric, String)> =
            line.iter().filter_map(|m| Some((m, m.text(o)?))).collect();
        let Some((first, _)) = known.first() else { continue };
        let parts: Vec<&str> = known.iter().filter_map(|(m, _)| m.line().1).collect();
        let label = match &parts[..] {
            [] => first.line().0.to_owned(),
            parts => format!("{}: {}", first.line().0, parts.join(", ")),
        };
        let values: Vec<String> = known.into_iter().map(|(_, text)| text).collect();
        row(&mut t, [label, values.join(", ")]);
    }
    let mut out = print_table(&t, style);
    let mut levels = table(&["level", "runs", "tables", "bytes", "entries"]);
    for l in &o.levels {
        row(
            &mut levels,
            [
                l.level.to_string(),
                l.runs.to_string(),
                l.tables.to_string(),
                bytes(l.bytes),
                count(l.entries),
            ],
        );
    }
    out.push('\n');
    out.push_str(&print_table(&levels, style));
    out
}

/// Groups outcomes by case: consecutive ones with the same name are its seeds.
pub fn by_case(all: &[(String, SimOutcome)]) -> Vec<(&str, Vec<&SimOutcome>)> {
    all.chunk_by(|a, b| a.0 == b.0)
        .map(|seeds| (seeds[0].0.as_str(), seeds.iter().map(|(_, o)| o).collect()))
        .collect()
}

/// Returns the metrics of a table with many outcomes: those with a heading that any outcome has.
pub fn columns(all: &[(String, SimOutcome)]) -> Vec<(&'static str, &'static Metric)> {
    let is_known = |m: &Metric| all.iter().any(|(_, o)| (m.of)(o).is_some());
    METRICS.iter().filter(|m| is_known(m)).filter_map(|m| Some((m.heading?, m))).collect()
}

/// Formats many cases, a line each. A metric that differs between seeds shows minimum and maximum.
pub fn many(all: &[(String, SimOutcome)], style: Style) -> String {
    let columns = columns(all);
    let header: Vec<&str> = ["case"].into_iter().chain(columns.iter().map(|c| c.0)).collect();
    let mut t = table(&header);
    for (name, seeds) in by_case(all) {
        let cell = |(_, metric): &(&str, &Metric)| {
            let values: Option<Vec<f64>> = seeds.iter().map(|o| (metric.of)(o)).collect();
            let Some(values) = values else { return "-".to_owned() };
            let words = |of: fn(f64, f64) -> f64| {
                values.iter().copied().reduce(of).map_or_else(String::new, |v| metric.unit.text(v))
            };
            let (least, most) = (words(f64::min), words(f64::max));
            if least == most { least } else { format!("{least} to {most}") }
        };
        row(&mut t, [name.to_owned()].into_iter().chain(columns.iter().map(cell)));
    }
    print_table(&t, style)
}

/// Formats outcomes that differ only by their seed: minimum, median and maximum of each metric.
pub fn spread(all: &[(String, SimOutcome)], style: Style) -> String {
    let mut t = table(&[&format!("{} seeds", all.len()), "min", "median", "max"]);
    for (_, metric) in columns(all) {
        let mut values: Vec<f64> = all.iter().filter_map(|(_, o)| (metric.of)(o)).collect();
        values.sort_by(f64::total_cmp);
        let at = |i: usize| values.get(i).map_or_else(String::new, |v| metric.unit.text(*v));
        let last = values.len().saturating_sub(1);
        row(&mut t, [metric.words.to_owned(), at(0), at(values.len() / 2), at(last)]);
    }
    print_table(&t, style)
}

/// Returns outcomes as JSON: an array of objects with `case`, `policy`, `workload` and `seed`, each
/// metric by its name (null if unknown), and lists: `reasons` of jobs, the `levels` at the end, the
/// `points` of the course.
pub fn to_json(all: &[(String, SimOutcome)]) -> Value {
    let object = |(name, o): &(String, SimOutcome)| {
        let mut v = json!({
            "case": name, "policy": o.policy, "workload": o.workload, "seed": o.seed,
            "reasons": o.reasons, "levels": o.levels, "points": o.points,
        });
        for metric in METRICS {
            v[metric.name] = json!((metric.of)(o));
        }
        v
    };
    Value::Array(all.iter().map(object).collect())
}

/// Writes the metrics of outcomes as CSV, a line each, with a header; unknown ones are empty. Only
/// JSON has the lists.
///
/// # Errors
/// Errors of the writer.
pub fn write_csv(all: &[(String, SimOutcome)], to: impl std::io::Write) -> Result<(), csv::Error> {
    let mut w = csv::Writer::from_writer(to);
    let first = ["case", "policy", "workload", "seed"];
    w.write_record(first.into_iter().chain(METRICS.iter().map(|m| m.name)))?;
    for (name, o) in all {
        let first = [name.clone(), o.policy.clone(), o.workload.clone(), o.seed.to_string()];
        let value = |m: &Metric| (m.of)(o).map_or_else(String::new, |v| v.to_string());
        w.write_record(first.into_iter().chain(METRICS.iter().map(value)))?;
    }
    w.flush()?;
    Ok(())
}

/// Returns the list of metrics with their units and meanings.
pub fn metrics(as_json: bool, style: Style) -> String {
    if as_json {
        let object = |m: &Metric| {
            json!({
                "name": m.name, "unit": m.unit.name(), "words": m.words, "about": m.about,
                "logged": m.logged,
            })
        };
        return format!("{}\n", METRICS.iter().map(object).collect::<Value>());
    }
    let mut t = listing(&["name", "unit", "meaning"], "lll");
    for m in METRICS {
        t.add_row([m.name, m.unit.name(), m.about]);
    }
    print_table(&t, style)
}
