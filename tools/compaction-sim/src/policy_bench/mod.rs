//! Compares compaction policies in the simulator and on the engine: `firn bench policy`, and the
//! call [`compare_policies`] for policies in Rust.
//!
//! Each policy runs each workload on a new store in the directory of temporary files, until its
//! last compaction is done. The simulator predicts the same run from the workload, the policy and
//! the speeds of the machine, as `compaction-sim compare --workload` does. A trace of another store
//! runs as its summary ([`TraceSketch`]).
//!
//! ```no_run
//! use compaction_sim::policy_bench::{PolicyBench, compare_policies};
//! use firn_kv::policy::{CompactionPolicy, CompactionRequest, CustomPolicy, LsmShape};
//!
//! /// Merges all runs as soon as there are eight.
//! struct Eight;
//!
//! impl CompactionPolicy for Eight {
//!     fn name(&self) -> &str {
//!         "eight"
//!     }
//!
//!     fn requests(&self, shape: &LsmShape) -> Vec<CompactionRequest> {
//!         if shape.runs.len() < 8 { vec![] } else { vec![CompactionRequest::whole(0..=7)] }
//!     }
//! }
//!
//! let bench = PolicyBench { workloads: vec!["ycsb-a".into()], ..PolicyBench::default() };
//! let compared = compare_policies(&bench, &[CustomPolicy::new(Eight)]).map_err(|e| format!("{e:?}"))?;
//! std::fs::write("report.html", compared.html().map_err(|e| format!("{e:?}"))?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod args;
mod page;
mod plan;
mod report;

use firn_kv::policy::CustomPolicy;
use firn_tools::output::{Done, Failure, Progress, count};
use firn_workload::WorkloadDescription;
use serde::Serialize;

pub use args::{EXAMPLES, PolicyBenchArgs, run, run_main};
pub use plan::PolicyBench;

use crate::policy::script::ScriptPolicy;
use crate::report::metric::MetricUnit;
use crate::validate::measured::{self, MeasurePlan, Measured, MeasuredFigure};
#[cfg(doc)]
use crate::workload::sketch::TraceSketch;

/// Simulations of each case.
const SIMULATIONS: u64 = 3;

/// A figure that is measured and simulated.
#[derive(Clone, Copy, Debug)]
pub struct BenchFigure {
    /// Name in JSON.
    pub name: &'static str,
    /// Label.
    pub words: &'static str,
    /// Meaning.
    pub about: &'static str,
    /// Unit.
    pub unit: MetricUnit,
    /// Index in [`measured::NAMES`], and the divisor: an index in [`Measured::data`].
    from: (usize, Option<usize>),
}

/// The figures. The Pareto front is that of the first three; smaller is better for all.
pub const BENCH_FIGURES: [BenchFigure; 4] = [
    BenchFigure {
        name: "write_amplification",
        words: "write amplification",
        about: "Bytes written to tables for each byte put.",
        unit: MetricUnit::Factor,
        from: (0, Some(0)),
    },
    BenchFigure {
        name: "space_amplification",
        words: "peak space",
        about: "Peak bytes of tables, with unfinished outputs, for each byte of live data.",
        unit: MetricUnit::Factor,
        from: (5, Some(1)),
    },
    BenchFigure {
        name: "mean_runs",
        words: "runs",
        about: "Runs that a read may have to search: mean after each flush.",
        unit: MetricUnit::Mean,
        from: (4, None),
    },
    BenchFigure {
        name: "held_up_seconds",
        words: "stalls",
        about: "Seconds in which writers were slowed down or waited.",
        unit: MetricUnit::Seconds,
        from: (3, None),
    },
];

/// Number of the figures that make the Pareto front.
pub const TRADED: usize = 3;

impl BenchFigure {
    fn of(&self, m: &Measured) -> MeasuredFigure {
        let MeasuredFigure { engine, predicted } = m.figures[self.from.0];
        let by = self.from.1.map_or(1.0, |i| m.data[i].max(1.0));
        MeasuredFigure { engine: engine.map(|v| v / by), predicted: predicted.map(|v| v / by) }
    }
}

/// A policy under one workload.
#[derive(Clone, Debug, Serialize)]
pub struct BenchedPolicy {
    /// Its name.
    pub policy: String,
    /// Whether it is a custom policy.
    pub custom: bool,
    /// The figures, in the order of [`BENCH_FIGURES`].
    pub figures: Vec<MeasuredFigure>,
    /// Operations per second of the last phase on the engine.
    pub ops_per_second: f64,
    /// 99th percentile of their times on the engine, in nanoseconds.
    pub p99_ns: Option<u64>,
    /// Whether it is on the Pareto front: as measured, and as simulated.
    pub on_front: [bool; 2],
}

/// The policies under one workload.
#[derive(Clone, Debug, Serialize)]
pub struct BenchedWorkload {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: WorkloadDescription,
    /// The policies: the custom ones first.
    pub policies: Vec<BenchedPolicy>,
}

/// Result of [`compare_policies`].
#[derive(Clone, Debug, Serialize)]
pub struct PolicyComparison {
    /// Each workload.
    pub workloads: Vec<BenchedWorkload>,
}

/// Runs the custom policies and the engine's on the workloads, in the simulator and on the engine.
///
/// # Errors
/// Workloads or policies that are unknown, a custom policy that fails, and errors of the engine.
pub fn compare_policies(bench: &PolicyBench, custom: &[CustomPolicy]) -> Done<PolicyComparison> {
    let described = bench.descriptions()?;
    let own = custom.iter().map(|policy| (policy.name().to_owned(), Some(policy)));
    let named = bench.policies()?.into_iter().map(|text| (text, None));
    let policies: Vec<(String, Option<&CustomPolicy>)> = own.chain(named).collect();
    let all = described.len() * policies.len();
    let bar = Progress::operations("policies", Some(all as u64));
    let (mut workloads, mut done) = (vec![], 0);
    for (name, description) in described {
        let mut rows = vec![];
        for (policy, custom) in &policies {
            bar.at(done);
            bar.say(format!("{name}, {policy}"));
            done += 1;
            rows.push(measure(bench, &name, &description, policy, *custom)?);
        }
        mark_front(&mut rows);
        workloads.push(BenchedWorkload { name, description, policies: rows });
    }
    Ok(PolicyComparison { workloads })
}

fn measure(
    bench: &PolicyBench,
    workload: &str,
    description: &WorkloadDescription,
    policy: &str,
    custom: Option<&CustomPolicy>,
) -> Done<BenchedPolicy> {
    let mut d = description.clone();
    if custom.is_none() {
        policy.clone_into(&mut d.store.policy);
    }
    let plan = MeasurePlan {
        simulations: SIMULATIONS,
        custom,
        shows_phases: false,
        ..MeasurePlan::new(bench.runs)
    };
    let m = measured::measure(&d, policy, &plan).map_err(|e| in_case(e, workload, policy))?;
    if m.jobs[0] < 2 {
        return Err(Failure::with_next(
            format!("{workload} fills only {} memtables", count(m.jobs[0])),
            "give a larger --data, or a smaller --memtable-size",
        ));
    }
    let last = m.phases.last();
    Ok(BenchedPolicy {
        policy: policy.to_owned(),
        custom: custom.is_some(),
        figures: BENCH_FIGURES.iter().map(|figure| figure.of(&m)).collect(),
        ops_per_second: last.map_or(0.0, |o| o.ops_per_second),
        p99_ns: last.and_then(|o| o.latency).map(|l| l.p99_ns),
        on_front: [false; 2],
    })
}

/// Names the case in which a failure occurred.
fn in_case(failure: Failure, workload: &str, policy: &str) -> Failure {
    let at = |what: String| format!("{policy} on {workload}: {what}");
    match failure {
        Failure::Failed { what, next } => Failure::Failed { what: at(what), next },
        Failure::Engine(e) => Failure::new(at(e.to_string())),
        other => other,
    }
}

/// Marks the policies that no other policy beats: no worse in all traded figures, and better in
/// one.
fn mark_front(rows: &mut [BenchedPolicy]) {
    for side in 0..2 {
        let points: Vec<Vec<f64>> = rows
            .iter()
            .map(|row| row.figures[..TRADED].iter().map(|f| sides(f)[side]).collect())
            .collect();
        for (i, row) in rows.iter_mut().enumerate() {
            let beats = |other: &Vec<f64>| {
                let pairs = || other.iter().zip(&points[i]);
                pairs().all(|(a, b)| a <= b) && pairs().any(|(a, b)| a < b)
            };
            row.on_front[side] = !points.iter().any(beats);
        }
    }
}

/// Returns the medians of a figure: measured and simulated.
fn sides(f: &MeasuredFigure) -> [f64; 2] {
    [f.engine[1], f.predicted[1]]
}

/// Reads a script as a policy that has the name of its file.
///
/// # Errors
/// A file that cannot be read, and the error in the script with its line.
pub fn read_script(path: &std::path::Path) -> Done<CustomPolicy> {
    ScriptPolicy::of_file(path).map(CustomPolicy::new).map_err(|why| {
        Failure::with_next(why, "docs/research.md describes the functions of a script")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(policy: &str, engine: [f64; 3], predicted: [f64; 3]) -> BenchedPolicy {
        let figure =
            |i: usize| MeasuredFigure { engine: [engine[i]; 3], predicted: [predicted[i]; 3] };
        BenchedPolicy {
            policy: policy.to_owned(),
            custom: policy == "own",
            figures: vec![figure(0), figure(1), figure(2), figure(0)],
            ops_per_second: 1e5,
            p99_ns: None,
            on_front: [false; 2],
        }
    }

    #[test]
    fn the_front_has_the_policies_that_none_beats() {
        let mut rows = [
            row("writes", [1.0, 3.0, 9.0], [1.0, 3.0, 9.0]),
            row("space", [5.0, 1.1, 2.0], [5.0, 1.1, 2.0]),
            row("worse", [5.0, 1.2, 2.0], [4.0, 1.2, 2.0]),
            row("same", [1.0, 3.0, 9.0], [2.0, 3.0, 9.0]),
        ];
        mark_front(&mut rows);
        let fronts: Vec<[bool; 2]> = rows.iter().map(|r| r.on_front).collect();
        assert_eq!(fronts, [[true; 2], [true; 2], [false, true], [true, false]]);
    }

    #[test]
    fn a_small_comparison_measures_and_simulates() {
        let script = "fn compactions(runs, tree) { \
                      if runs.len() < 4 { return []; } [#{ from: 0, to: runs.len() - 1 }] }";
        let own = CustomPolicy::new(ScriptPolicy::read(script).unwrap());
        let bench = PolicyBench {
            data: 2 << 20,
            memtable_size: 128 << 10,
            workloads: vec!["ycsb-a".to_owned(), "insert".to_owned()],
            policies: vec!["tiered:4".to_owned()],
            // The writer compacts, so that figures do not depend on the speed of the machine.
            background_threads: 0,
            ..PolicyBench::default()
        };
        let compared = compare_policies(&bench, &[own]).unwrap();
        let names: Vec<&str> = compared.workloads.iter().map(|w| w.name.as_str()).collect();
        assert_eq!(names, ["ycsb-a", "insert"]);
        for workload in &compared.workloads {
            let [own, tiered] = &workload.policies[..] else { panic!("{workload:?}") };
            assert_eq!((own.policy.as_str(), own.custom), ("script", true));
            assert_eq!((tiered.policy.as_str(), tiered.custom), ("tiered:4", false));
            assert!(own.ops_per_second > 0.0 && tiered.on_front[0] | own.on_front[0]);
            let [writes, space, runs] = [0, 1, 2].map(|i| own.figures[i]);
            // Merges of all data at four runs.
            assert!(writes.engine[1] > 1.2 && space.engine[1] >= 0.9, "{own:?}");
            assert!((1.0..=4.0).contains(&runs.engine[1]), "{own:?}");
            assert!(writes.percent().abs() < 20.0, "{writes:?}");
        }
        let page = compared.html().unwrap();
        assert!(
            page.contains("<svg")
                && page.contains("ycsb-a")
                && !page.contains("http://www.w3.org/1999/xhtml")
        );
        for loaded in ["src=", "href=\"http", "@import", "url("] {
            assert!(!page.contains(loaded), "{loaded}");
        }
        let json = compared.to_json();
        let figure = &json["workloads"][0]["policies"][0]["figures"]["write_amplification"];
        assert!(
            figure["measured"].as_f64() > Some(1.0) && figure["simulated"].as_f64() > Some(1.0)
        );
    }

    #[test]
    fn wrong_policies_and_workloads_are_refused() {
        let small = PolicyBench {
            data: 1 << 20,
            memtable_size: 128 << 10,
            workloads: vec!["insert".to_owned()],
            policies: vec![],
            ..PolicyBench::default()
        };
        let said = |bench: &PolicyBench, script: &str| {
            let own = CustomPolicy::new(ScriptPolicy::read(script).unwrap());
            format!("{:?}", compare_policies(bench, &[own]).unwrap_err())
        };
        let wrong = said(&small, "fn compactions(runs, tree) {\n  runs[99]\n}");
        assert!(wrong.contains("script on insert") && wrong.contains("line 2"), "{wrong}");
        let content = "fn compactions(runs, tree) { [] }";
        let unknown = PolicyBench { workloads: vec!["ycsb-z".to_owned()], ..small.clone() };
        assert!(said(&unknown, content).contains("ycsb-z"));
        let unknown = PolicyBench { policies: vec!["tired".to_owned()], ..small.clone() };
        assert!(said(&unknown, content).contains("tired"));
        let few = PolicyBench { memtable_size: 8 << 20, ..small };
        assert!(said(&few, content).contains("memtable"));
    }
}
