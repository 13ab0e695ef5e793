//! Simulates recorded histories: under the recorded policy, to compare with the record (`compare`),
//! and under others (`replay`).

use std::io::Write;
use std::path::Path;

use firn_kv::OsEnv;
use firn_tools::output::{Done, Failure, print_table, row, table};
use serde_json::{Value, json};

use crate::cli::batch::simulate_all;
use crate::cli::{CompareArgs, ReplayArgs, SimCli, read};
use crate::history::course::{self, CoursePhase};
use crate::history::{RecordedHistory, parse};
use crate::model::meter::SimOutcome;
use crate::model::sim;
use crate::policy;
use crate::report::metric::{METRICS, Metric, MetricUnit};
use crate::report::output::write_outcomes;
use crate::report::text::percentiles;

/// Reads the log of a store's directory, or the file itself.
///
/// # Errors
/// A log that cannot be read, and errors of [`parse`].
pub fn load(path: &Path, tree: Option<&str>) -> Done<RecordedHistory> {
    let file = if OsEnv::new().list(path).is_ok() {
        path.join("EVENTS.jsonl")
    } else {
        path.to_path_buf()
    };
    parse(&String::from_utf8_lossy(&read(&file)?), tree)
}

/// Runs `replay`.
///
/// # Errors
/// A log that cannot be read or has too little information, and invalid policies.
pub fn replay(args: &ReplayArgs, cli: &SimCli, out: &mut dyn Write) -> Done {
    let h = load(&args.events, args.tree.as_deref())?;
    let recorded = h.policy.clone().unwrap_or_default();
    let mut base = h.fitted(&recorded, args.cores)?;
    base.picture = args.pictures.html.is_some();
    if let Some(threads) = args.background_threads {
        base.machine.threads = threads;
    }
    let mut cases = vec![("as simulated".to_owned(), base.clone())];
    for name in &args.policies {
        let mut setup = base.clone();
        let named = policy::parse(name, &base.options).map_err(Failure::new)?;
        setup.options = named.set_in(setup.options);
        cases.push((name.clone(), setup));
    }
    let outcomes = simulate_all("replay", &cases)?;
    let simulated = cases.into_iter().zip(outcomes).map(|((name, _), mut o)| {
        h.count_users_bytes(&mut o);
        (name, o)
    });
    let recorded = ("as recorded".to_owned(), h.outcome());
    let named = |(name, mut o): (String, SimOutcome)| {
        (o.policy, o.workload) = (name.clone(), format!("{} of {}", h.tree, args.events.display()));
        (name, o)
    };
    let all: Vec<_> = std::iter::once(recorded).chain(simulated).map(named).collect();
    write_outcomes(&all, cli.json, &args.pictures, cli.style(), out)
}

/// Number of phases in which a history is compared.
const PHASES: u64 = 4;

/// Runs `compare`.
///
/// # Errors
/// A log that cannot be read or has too little information. [`Failure::Found`] if the bytes written
/// differ by more than the tolerance.
pub fn compare(args: &CompareArgs, events: &Path, cli: &SimCli, out: &mut dyn Write) -> Done {
    let h = load(events, args.tree.as_deref())?;
    let Some(recorded) = h.policy.clone() else {
        return Err(Failure::with_next(
            "the log does not say which policy the tree has",
            "use `replay` and name it",
        ));
    };
    let setup = h.fitted(&recorded, args.cores)?;
    let o = sim::run(&setup, &mut |_| ())?;
    let keys = setup.workload.keys;
    let real = h.outcome();
    let compared = |what: &str, unit, (recorded, predicted)| ComparedFigure {
        what: what.to_owned(),
        unit,
        recorded,
        predicted,
    };
    let both = |m: &Metric| Some(compared(m.words, m.unit, ((m.of)(&real)?, (m.of)(&o)?)));
    let mut lines: Vec<ComparedFigure> =
        METRICS.iter().filter(|m| m.logged).filter_map(both).collect();
    let ours = course::phases(&course::of_outcome(&o), PHASES);
    for (i, (real, ours)) in course::phases(&h.course, PHASES).iter().zip(&ours).enumerate() {
        let of = |what: &str| match i as u64 {
            PHASES => format!("{what}, all"),
            i => format!("{what}, phase {} of {PHASES}", i + 1),
        };
        let both = |f: fn(&CoursePhase) -> f64| (f(real), f(ours));
        for (what, unit, both) in [
            ("written", MetricUnit::Bytes, both(|p| p.written as f64)),
            ("runs, mean", MetricUnit::Mean, both(|p| p.mean_runs)),
            ("space at the end", MetricUnit::Bytes, both(|p| p.bytes as f64)),
            ("space, peak", MetricUnit::Bytes, both(|p| p.peak as f64)),
        ] {
            lines.push(compared(&of(what), unit, both));
        }
    }
    if cli.json {
        let cells: Vec<Value> = lines.iter().map(ComparedFigure::to_json).collect();
        writeln!(
            out,
            "{}",
            json!({
                "tree": h.tree, "policy": recorded.to_string(), "keys": keys, "lines": cells,
                "write_latency": o.write_latency,
            })
        )?;
    } else {
        let mut t =
            table(&[&format!("{}, {recorded:?}", h.tree), "recorded", "predicted", "differs"]);
        for l in &lines {
            let off = format!("{:+.1} %", l.percent());
            row(&mut t, [l.what.clone(), l.unit.text(l.recorded), l.unit.text(l.predicted), off]);
        }
        write!(out, "{}", print_table(&t, cli.style()))?;
        let took = percentiles(&o.write_latency);
        writeln!(out, "Writes take, by the prediction: {took} (p50, p99, p99.9, max).")?;
        if h.course.is_empty() {
            writeln!(out, "The log lacks runs and space: an older engine wrote it.")?;
        }
    }
    let written = |o: &SimOutcome| (o.flush_bytes + o.merge_written) as f64;
    let all = compared("written", MetricUnit::Bytes, (written(&real), written(&o)));
    if all.percent().abs() > args.tolerance { Err(Failure::Found) } else { Ok(()) }
}

/// A line of `compare`.
struct ComparedFigure {
    what: String,
    unit: MetricUnit,
    recorded: f64,
    predicted: f64,
}

impl ComparedFigure {
    fn percent(&self) -> f64 {
        let (real, ours) = (self.recorded, self.predicted);
        if real == ours { 0.0 } else { (ours / real.max(1e-3) - 1.0) * 100.0 }
    }

    fn to_json(&self) -> Value {
        json!({"what": self.what, "recorded": self.recorded, "predicted": self.predicted, "percent": self.percent()})
    }
}
