//! A comparison of policies as one self-contained HTML page: plots beside tables.
//!
//! The page loads nothing from elsewhere, and its content security policy forbids it.

use std::fmt::Write;

use firn_tools::output::{Done, Failure, bytes, count, nanos, rate};
use firn_tools::page::escaped;
use plotters::prelude::*;

use super::report::{front_text, summary, typical_difference};
use super::{BENCH_FIGURES, BenchedPolicy, BenchedWorkload, PolicyComparison, TRADED, sides};
use crate::report::drawing::{CurveLook, DrawError, chart, drawing};

const STYLE: &str = "\
:root{color-scheme:light}body{font:15px/1.45 system-ui,sans-serif;color:#1e2228;background:#fff;\
max-width:1180px;margin:2rem auto;padding:0 1rem}h1{font-size:1.6rem}h2{font-size:1.25rem;\
margin-top:2.5rem;border-top:1px solid #d5d9de;padding-top:1.2rem}p{max-width:52rem}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:1rem 0;\
font-size:.84rem}th,td{padding:.22rem .42rem;text-align:right;white-space:nowrap}th{font-weight:600}\
thead th{border-bottom:1px solid #8a929c;vertical-align:bottom}thead tr:first-child th{border-bottom:0}\
th:first-child,td:first-child{text-align:left}tbody tr:nth-child(even){background:#f4f6f8}\
tr.own td{font-weight:700}td.part{border-left:1px solid #d5d9de}td.off{color:#b03a00}\
td.bar{background:linear-gradient(to right,#c9dcec var(--w),transparent var(--w))}\
.front{color:#006b4f}svg{max-width:100%;height:auto}nav a{margin-right:1rem}";

/// Largest difference in percent that the page does not mark.
const SMALL_DIFFERENCE: f64 = 15.0;

impl PolicyComparison {
    /// Returns the comparison as one HTML page, which needs no other file.
    ///
    /// # Errors
    /// Errors of the plotting library.
    pub fn html(&self) -> Done<String> {
        let mut page = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
             'unsafe-inline'\"><meta name=\"viewport\" content=\"width=device-width\">\
             <title>Compaction policies</title><style>{STYLE}</style></head><body>\
             <h1>Compaction policies, measured and simulated</h1>{}",
            self.introduction()
        );
        page += &self.summary_table();
        for (i, workload) in self.workloads.iter().enumerate() {
            page += &section(i, workload)?;
        }
        page += "</body></html>\n";
        Ok(page)
    }

    fn introduction(&self) -> String {
        let mut text = "<p>Each policy ran each workload on a new store of the engine, until its \
             last compaction was done. The simulator predicted the same run from the workload, the \
             policy, and the speeds of the machine.</p><ul>"
            .to_owned();
        for figure in &BENCH_FIGURES {
            let _ = write!(text, "<li><b>{}</b>: {}</li>", figure.words, figure.about);
        }
        text += "<li><b>ops/s</b> and <b>p99</b>: rate and 99th percentile of the operations of \
                 the last phase, measured.</li><li><b>front</b>: the Pareto front of write \
                 amplification, peak space and runs. No other policy is as good in all three, and \
                 better in one.</li></ul>";
        if let Some(w) = self.workloads.first() {
            let s = &w.description.store;
            let _ = write!(
                text,
                "<p>Store: memtables and tables of {}, compression {}, {} background threads, \
                 memory budget {}. A small store has the shape of a large one, not its speed.</p>",
                bytes(s.memtable_size),
                escaped(&s.compression),
                s.background_threads,
                bytes(s.memory_budget)
            );
        }
        text
    }

    fn summary_table(&self) -> String {
        let mut text = "<h2 id=\"summary\">Summary</h2><p>Geometric mean over the workloads, \
             relative to the best policy of each (1.00), as measured.</p><div class=\"wide\">\
             <table><thead><tr><th>policy</th>"
            .to_owned();
        for figure in &BENCH_FIGURES[..TRADED] {
            let _ = write!(text, "<th>{}</th>", figure.words);
        }
        text += "<th>on the front</th></tr></thead><tbody>";
        let rows = summary(self);
        for (policy, means, fronts) in &rows {
            let _ = write!(text, "<tr{}><td>{}</td>", own(policy), escaped(&policy.policy));
            for (k, mean) in means.iter().enumerate() {
                let most = rows.iter().map(|r| r.1[k]).fold(1.0, f64::max);
                text += &bar_cell(*mean / most, &format!("{mean:.2}"));
            }
            let all = self.workloads.len();
            let _ = write!(text, "<td class=\"part\">{fronts} of {all}</td></tr>");
        }
        text += "</tbody></table></div>";
        let differences: Vec<String> = (0..TRADED)
            .map(|k| format!("{} {:.0} %", BENCH_FIGURES[k].words, typical_difference(self, k)))
            .collect();
        let _ = write!(
            text,
            "<p>Median difference between simulation and measurement: {}.</p><nav>",
            differences.join(", ")
        );
        for (i, w) in self.workloads.iter().enumerate() {
            let _ = write!(text, "<a href=\"#w{i}\">{}</a>", escaped(&w.name));
        }
        text + "</nav>"
    }
}

fn own(policy: &BenchedPolicy) -> &'static str {
    if policy.custom { " class=\"own\"" } else { "" }
}

/// Returns a cell with a bar of this share behind its text.
fn bar_cell(share: f64, text: &str) -> String {
    let percent = (share.clamp(0.0, 1.0) * 100.0).round();
    format!("<td class=\"part bar\" style=\"--w:{percent}%\">{text}</td>")
}

/// Returns the section of a workload: plot and table.
fn section(i: usize, w: &BenchedWorkload) -> Done<String> {
    let d = &w.description;
    let mut text = format!(
        "<h2 id=\"w{i}\">{}</h2><p>{}. Steps: {}; {} keys.</p>",
        escaped(&w.name),
        escaped(d.about.trim_end_matches('.')),
        escaped(&d.steps),
        count(d.keys)
    );
    let cannot = |e: DrawError| Failure::new(format!("cannot draw {}: {e}", w.name));
    text += &trade_off(&w.policies).map_err(cannot)?;
    text += "<p>Marker: measured. The line ends at the simulated value. The broad line joins the \
             measured front of the two figures. In the table, sim. is the simulated value, and diff. \
             its difference from the measured one.</p>";
    text += "<div class=\"wide\"><table><thead><tr><th rowspan=\"2\">policy</th>";
    for (k, figure) in BENCH_FIGURES.iter().enumerate() {
        let columns = if k < TRADED { 3 } else { 2 };
        let _ = write!(text, "<th colspan=\"{columns}\">{}</th>", figure.words);
    }
    text += "<th rowspan=\"2\">ops/s</th><th rowspan=\"2\">p99</th><th rowspan=\"2\">front</th></tr><tr>";
    text += &"<th>measured</th><th>sim.</th><th>diff.</th>".repeat(TRADED);
    text += "<th>measured</th><th>sim.</th>";
    text += "</tr></thead><tbody>";
    let fastest = w.policies.iter().map(|p| p.ops_per_second).fold(0.0, f64::max);
    for p in &w.policies {
        let _ = write!(text, "<tr{}><td>{}</td>", own(p), escaped(&p.policy));
        for (k, f) in p.figures.iter().enumerate() {
            let unit = BENCH_FIGURES[k].unit;
            let [measured, simulated] = sides(f);
            let most = w.policies.iter().map(|p| sides(&p.figures[k])[0]).fold(0.0, f64::max);
            text += &bar_cell(measured / most.max(1e-9), &unit.text(measured));
            let _ = write!(text, "<td>{}</td>", unit.text(simulated));
            if k < TRADED {
                let off = f.percent().abs() > SMALL_DIFFERENCE;
                let off = if off { " class=\"off\"" } else { "" };
                let _ = write!(text, "<td{off}>{:+.0} %</td>", f.percent());
            }
        }
        text += &bar_cell(p.ops_per_second / fastest.max(1e-9), &rate(p.ops_per_second));
        let _ = write!(
            text,
            "<td>{}</td><td class=\"front\">{}</td></tr>",
            p.p99_ns.map_or_else(String::new, nanos),
            front_text(p.on_front)
        );
    }
    text += "</tbody></table></div>";
    Ok(text)
}

/// Draws each pair of traded figures against each other.
fn trade_off(policies: &[BenchedPolicy]) -> Result<String, DrawError> {
    let names: Vec<&str> = policies.iter().map(|p| p.policy.as_str()).collect();
    let pairs = [(0, 1), (0, 2), (1, 2)];
    drawing(330, &[names], |_, area| {
        let parts = area.split_evenly((1, pairs.len()));
        for (part, (x, y)) in parts.iter().zip(pairs) {
            let at = |p: &BenchedPolicy, side: usize| {
                (sides(&p.figures[x])[side], sides(&p.figures[y])[side])
            };
            let most = |k: usize| {
                let all = policies.iter().flat_map(|p| sides(&p.figures[k]));
                all.filter(|v| v.is_finite()).fold(0.0, f64::max)
            };
            let (right, top) = (most(x), most(y));
            let words = |k: usize| BENCH_FIGURES[k].words;
            let mut chart = chart(part, (0.0, right, words(x)), (top, words(y)))?;
            let front = front_of(policies.iter().map(|p| at(p, 0)).collect());
            let pale = RGBColor(0, 107, 79).mix(0.25).stroke_width(6);
            chart.draw_series(LineSeries::new(front, pale))?;
            for (i, p) in policies.iter().enumerate() {
                let look = CurveLook(i);
                let ends = vec![at(p, 0), at(p, 1)];
                chart.draw_series([PathElement::new(ends, look.colour().stroke_width(1))])?;
            }
            for (i, p) in policies.iter().enumerate() {
                let (fill, edge) = CurveLook(i).marker();
                chart.draw_series([EmptyElement::at(at(p, 0)) + fill + edge])?;
            }
        }
        Ok(())
    })
}

/// Returns the points that no other point beats in both coordinates, from left to right.
fn front_of(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut front: Vec<(f64, f64)> = vec![];
    for p in points {
        if front.last().is_none_or(|last| p.1 < last.1) {
            front.push(p);
        }
    }
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_descends_and_text_is_escaped() {
        let points = vec![(3.0, 1.0), (1.0, 3.0), (2.0, 3.0), (2.0, 2.0), (3.0, 2.0)];
        assert_eq!(front_of(points), [(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]);
        assert_eq!(escaped("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }
}
