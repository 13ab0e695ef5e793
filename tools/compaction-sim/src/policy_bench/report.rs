//! A comparison of policies as text and as JSON.

use firn_tools::output::{Style, count, listing, print_table, rate};
use serde_json::{Value, json};

use super::{BENCH_FIGURES, BenchedPolicy, PolicyComparison, sides};
use crate::validate::measured::MeasuredFigure;

/// Returns the place of a policy relative to the Pareto front, as text.
pub(super) fn front_text(on_front: [bool; 2]) -> &'static str {
    match on_front {
        [true, true] => "yes",
        [true, false] => "measured",
        [false, true] => "simulated",
        [false, false] => "",
    }
}

/// Returns the geometric means of a policy's figures over the workloads, each relative to the
/// smallest of the workload, and the number of workloads in which it is on the measured front.
pub(super) fn summary<'a>(
    compared: &'a PolicyComparison,
) -> Vec<(&'a BenchedPolicy, Vec<f64>, usize)> {
    let Some(first) = compared.workloads.first() else { return vec![] };
    let rows =
        |i: usize| compared.workloads.iter().filter_map(move |w| Some((w, w.policies.get(i)?)));
    let relative = |i: usize, k: usize| {
        let logs = rows(i).map(|(w, row)| {
            let all = w.policies.iter().map(|p| sides(&p.figures[k])[0]);
            let least = all.fold(f64::INFINITY, f64::min).max(1e-9);
            (sides(&row.figures[k])[0].max(1e-9) / least).ln()
        });
        (logs.sum::<f64>() / compared.workloads.len() as f64).exp()
    };
    let line = |(i, policy): (usize, &'a BenchedPolicy)| {
        let means = (0..super::TRADED).map(|k| relative(i, k)).collect();
        (policy, means, rows(i).filter(|(_, row)| row.on_front[0]).count())
    };
    first.policies.iter().enumerate().map(line).collect()
}

/// Returns the median absolute difference of a figure in percent, over all cases.
pub(super) fn typical_difference(compared: &PolicyComparison, k: usize) -> f64 {
    let all = compared.workloads.iter().flat_map(|w| &w.policies);
    let mut differences: Vec<f64> = all.map(|p| p.figures[k].percent().abs()).collect();
    differences.sort_by(f64::total_cmp);
    differences.get(differences.len() / 2).copied().unwrap_or(0.0)
}

impl PolicyComparison {
    /// Returns the comparison as a table for each workload.
    pub fn text(&self, style: Style) -> String {
        let mut out = String::new();
        for w in &self.workloads {
            let figures = BENCH_FIGURES.iter().map(|f| f.words);
            let head: Vec<&str> =
                [w.name.as_str()].into_iter().chain(figures).chain(["ops/s", "front"]).collect();
            let mut t = listing(&head, "lrrrrrl");
            for p in &w.policies {
                let cell = |(k, f): (usize, &MeasuredFigure)| {
                    let unit = BENCH_FIGURES[k].unit;
                    let [measured, simulated] = sides(f).map(|v| unit.text(v));
                    format!("{measured} / {simulated}")
                };
                let cells = p.figures.iter().enumerate().map(cell);
                let last = [rate(p.ops_per_second), front_text(p.on_front).to_owned()];
                t.add_row([p.policy.clone()].into_iter().chain(cells).chain(last));
            }
            out += &print_table(&t, style);
            out.push('\n');
        }
        let differences: Vec<String> = (0..super::TRADED)
            .map(|k| format!("{} {:.0} %", BENCH_FIGURES[k].words, typical_difference(self, k)))
            .collect();
        let cases: usize = self.workloads.iter().map(|w| w.policies.len()).sum();
        out += &format!(
            "Figures: measured on the engine / simulated. Front: no other policy is as good in write \
             amplification, peak space and runs, and better in one. Median difference over {} \
             cases: {}\n",
            count(cases as u64),
            differences.join(", ")
        );
        out
    }

    /// Returns the comparison as JSON.
    pub fn to_json(&self) -> Value {
        let figures = |p: &BenchedPolicy| {
            let figure = |(k, f): (usize, &MeasuredFigure)| {
                let [measured, simulated] = sides(f);
                let value = json!({
                    "measured": measured, "simulated": simulated, "percent": f.percent(),
                    "measured_range": [f.engine[0], f.engine[2]],
                    "simulated_range": [f.predicted[0], f.predicted[2]],
                });
                (BENCH_FIGURES[k].name.to_owned(), value)
            };
            Value::Object(p.figures.iter().enumerate().map(figure).collect())
        };
        let policy = |p: &BenchedPolicy| {
            json!({
                "policy": p.policy, "custom": p.custom, "figures": figures(p),
                "ops_per_second": p.ops_per_second, "p99_ns": p.p99_ns,
                "on_front": {"measured": p.on_front[0], "simulated": p.on_front[1]},
            })
        };
        let workloads = self.workloads.iter().map(|w| {
            json!({
                "name": w.name, "description": w.description,
                "policies": w.policies.iter().map(policy).collect::<Vec<_>>(),
            })
        });
        json!({"workloads": workloads.collect::<Vec<_>>()})
    }
}
