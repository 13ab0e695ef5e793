//! Tests the recommendations of `advise` on the engine: it runs the workload of a small question
//! under the recommended policy and under the second best, and compares their use of the resource
//! that decided.
//!
//! The engine measures bytes written, runs and peak bytes. The use of device and processor follows
//! from these as in `advise`, with the speeds of the machine of the question. No reads are run:
//! their cost follows from the measured number of runs.

use std::io::Write;
use std::time::Duration;

use clap::Parser;
use firn_kv::{Db, DbOptions, OsEnv};
use firn_tools::io::Stopwatch;
use firn_tools::output::{Done, Failure, Progress, Style, bytes, print_table, row, table};
use serde::Serialize;
use serde_json::json;

use crate::advise::candidates::PolicyCandidate;
use crate::advise::profile::{StoreProfile, late_writes};
use crate::advise::{Advice, AdvisedResource, PolicyCost, recommend};
use crate::cli::{SimCli, SimCommand, read};
use crate::history::{self, course};
use crate::model::sim::Setup;
use crate::model::store::EPOCH_MICROS;
use crate::validate::engine;
use crate::validate::measured::OwnDir;

/// The questions: a name, and the options of `advise`. Each store has tens of MB and is written for
/// about half a minute.
const QUESTIONS: [(&str, &str); 4] = [
    ("overwrites", "--live 40M --ingest 4M/s --workload zipfian:0.8 --memtable-size 1M"),
    ("series", "--ingest 2M/s --ttl 20s --scans 50/s --memtable-size 512K"),
    ("scans", "--live 40M --ingest 4M/s --scans 16k/s --cache 4M --memtable-size 1M"),
    ("disk", "--live 40M --ingest 4M/s --disk 100M --memtable-size 1M"),
];

/// Memory budget of the stores.
const MEMORY: usize = 64 << 20;
/// Maximum delay of writers, in nanoseconds, that they still catch up.
const CATCH_UP: f64 = 20e6;
/// Number of writes between two looks at the clock.
const BETWEEN_LOOKS: u64 = 16;
/// Relative difference below which two measured figures count as equal.
const EQUAL: f64 = 0.01;

/// Figures of a policy, predicted or measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AdvisedFigures {
    /// Bytes written to tables for each byte put, once the store is full.
    pub write_amplification: f64,
    /// Average number of runs.
    pub runs: f64,
    /// Peak bytes of tables.
    pub peak_bytes: f64,
    /// Used share of the resource that decided.
    pub share: f64,
}

/// A policy that the engine ran.
#[derive(Clone, Debug, Serialize)]
pub struct CheckedPolicy {
    /// The policy, in the usual notation.
    pub policy: String,
    /// Figures of `advise`.
    pub predicted: AdvisedFigures,
    /// Figures of the engine.
    pub measured: AdvisedFigures,
}

/// Verdict about a recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AdviceVerdict {
    /// The recommended policy uses less of the resource that decided.
    Right,
    /// Both use the same.
    Equal,
    /// The second best uses less.
    Wrong,
}

/// A recommendation that the engine ran.
#[derive(Clone, Debug, Serialize)]
pub struct CheckedAdvice {
    /// Name of the question.
    pub question: String,
    /// Command line of the question.
    pub command: String,
    /// Reason of the recommendation.
    pub because: String,
    /// The resource that decided; `None` if the scarcest one of each policy did.
    pub resource: Option<AdvisedResource>,
    /// The recommended policy.
    pub chosen: CheckedPolicy,
    /// The second best.
    pub second: CheckedPolicy,
    /// Whether the recommendation was right.
    pub verdict: AdviceVerdict,
}

/// Asks `advise`, and runs its two best policies with `store`, which returns the event log.
///
/// # Errors
/// A question without a second best policy, and errors of the simulator and of `store`.
pub fn check(
    name: &str,
    options: &str,
    store: &mut dyn FnMut(&PolicyCandidate, &Setup) -> Done<String>,
) -> Done<CheckedAdvice> {
    let command = format!("compaction-sim advise {options}");
    let cli = SimCli::try_parse_from(command.split_whitespace())
        .map_err(|e| Failure::new(format!("{command}: {e}")))?;
    let SimCommand::Advise(args) = cli.command else {
        return Err(Failure::new(format!("{command}: not a question")));
    };
    let q = args.profile(None)?;
    let advice = recommend(&q)?;
    let Some((second, decided)) = advice.second.zip(advice.decided.as_ref()) else {
        return Err(Failure::new(format!("{command}: no resource decided: {}", advice.because)));
    };
    let resource = decided.resource;
    let mut run = |i: usize| checked_policy(&advice, i, &q, resource, store);
    let (chosen, second) = (run(advice.chosen)?, run(second)?);
    let (mine, theirs) = (chosen.measured.share, second.measured.share);
    let verdict = match () {
        () if mine < theirs * (1.0 - EQUAL) => AdviceVerdict::Right,
        () if mine <= theirs * (1.0 + EQUAL) => AdviceVerdict::Equal,
        () => AdviceVerdict::Wrong,
    };
    let because = advice.because;
    Ok(CheckedAdvice {
        question: name.to_owned(),
        command,
        because,
        resource,
        chosen,
        second,
        verdict,
    })
}

/// Runs one of the policies of an answer.
fn checked_policy(
    advice: &Advice,
    i: usize,
    q: &StoreProfile,
    resource: Option<AdvisedResource>,
    store: &mut dyn FnMut(&PolicyCandidate, &Setup) -> Done<String>,
) -> Done<CheckedPolicy> {
    let (candidate, _) = &advice.simulated[i];
    let setup = q.setup(candidate.named(), candidate.table, 1.0)?;
    let h = history::parse(&store(candidate, &setup)?, None)?;
    let whole = course::whole(&h.course)?;
    let written = late_writes(&h.course, q.bytes())
        .ok_or_else(|| Failure::new("the engine's history is too short for this question"))?;
    let figures = |cost: &PolicyCost| AdvisedFigures {
        write_amplification: cost.write_amplification,
        runs: cost.runs,
        peak_bytes: cost.peak_bytes,
        share: match resource {
            Some(resource) => cost.used(q, resource).map_or(0.0, |used| used.share),
            None => cost.scarcest.share,
        },
    };
    let measured = advice.cost_of_measured(q, i, [written, whole.mean_runs, whole.peak as f64]);
    Ok(CheckedPolicy {
        policy: measured.policy.clone(),
        predicted: figures(&advice.costs[i]),
        measured: figures(&measured),
    })
}

/// Runs the workload of a simulation on a store in memory, without threads. Returns its event log.
///
/// # Errors
/// Errors of the engine.
pub fn in_memory(setup: &Setup) -> Done<String> {
    let interval = interval_nanos(setup) as u64;
    Ok(engine::run_in_memory(&setup.options, &setup.workload, interval)?.1)
}

fn interval_nanos(setup: &Setup) -> f64 {
    setup.workload.put_bytes() / setup.machine.ingest * 1e9
}

/// Runs the workload of a simulation on files, at its rate. Returns its event log.
fn on_files(setup: &Setup, bar: &Progress) -> Done<String> {
    let dir = OwnDir::new()?;
    let db_options = DbOptions {
        memory_budget: MEMORY,
        background_threads: setup.machine.threads,
        ..DbOptions::default()
    };
    let db = Db::open_with(&dir.0, db_options)?;
    let env = OsEnv::new();
    let interval = interval_nanos(setup);
    let mut workload = setup.workload.clone();
    if workload.ttl_micros > 0 {
        // The writes have the times of a simulated clock, and expire by the system's.
        workload.ttl_micros += env.wall_micros().saturating_sub(EPOCH_MICROS);
    }
    let watch = Stopwatch::start();
    let mut due = 0.0;
    engine::write(&db, &setup.options, &workload, interval, |id| {
        due += interval;
        if !id.is_multiple_of(BETWEEN_LOOKS) {
            return;
        }
        bar.at(id);
        let now = watch.nanos() as f64;
        if due > now + 1e6 {
            env.sleep(Duration::from_nanos((due - now) as u64));
        }
        due = due.max(now - CATCH_UP);
    })?;
    db.wait_idle()?;
    drop(db);
    Ok(String::from_utf8_lossy(&read(&dir.0.join("EVENTS.jsonl"))?).into_owned())
}

/// Runs the questions on files. Returns whether no recommendation was wrong.
///
/// # Errors
/// Errors of the engine and the simulator.
pub(super) fn run(cli: &SimCli, out: &mut dyn Write) -> Done<bool> {
    let mut all = vec![];
    for (name, options) in QUESTIONS {
        let checked = check(name, options, &mut |candidate, setup| {
            let bar = Progress::operations(name, Some(setup.workload.ops()));
            bar.say(candidate.policy.to_string());
            on_files(setup, &bar)
        })?;
        if !cli.json {
            writeln!(out, "{}", checked.text(cli.style()))?;
            out.flush()?;
        }
        all.push(checked);
    }
    if cli.json {
        writeln!(out, "{}", json!({ "advice": all }))?;
    }
    Ok(all.iter().all(|checked| checked.verdict != AdviceVerdict::Wrong))
}

impl CheckedAdvice {
    /// Returns the comparison as text.
    fn text(&self, style: Style) -> String {
        let resource = self.resource.map_or("scarcest resource", AdvisedResource::subject);
        let mut t = table(&[
            &self.question,
            "write amp",
            "measured",
            "runs",
            "measured",
            "at most",
            "measured",
            resource,
            "measured",
        ]);
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        for p in [&self.chosen, &self.second] {
            let (ours, real) = (p.predicted, p.measured);
            let cells = [
                p.policy.clone(),
                format!("{:.2}", ours.write_amplification),
                format!("{:.2}", real.write_amplification),
                format!("{:.1}", ours.runs),
                format!("{:.1}", real.runs),
                bytes(ours.peak_bytes as u64),
                bytes(real.peak_bytes as u64),
                percent(ours.share),
                percent(real.share),
            ];
            row(&mut t, cells);
        }
        let verdict = match self.verdict {
            AdviceVerdict::Right => "right: the recommended policy uses less",
            AdviceVerdict::Equal => "equal: both policies use the same",
            AdviceVerdict::Wrong => "wrong: the second best uses less",
        };
        let (mine, theirs) = (self.chosen.measured.share, self.second.measured.share);
        let (mine, theirs) = (percent(mine), percent(theirs));
        format!(
            "{}\n{}\n{}{verdict}, measured {mine} against {theirs}\n",
            self.command,
            self.because,
            print_table(&t, style),
        )
    }
}
