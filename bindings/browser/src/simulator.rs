//! The simulator of compactions for JavaScript.

use clap::Parser;
use compaction_sim::cli::{SimCli, SimCommand};
use compaction_sim::model::sim;
use compaction_sim::report::{self, plot};
use firn_kv::Policy;
use firn_tools::output::Failure;
use firn_workload::WorkloadDescription;
use firn_workload::description::STANDARD;
use js_sys::{Array, Function};
use wasm_bindgen::prelude::*;

use crate::convert::{json, object};
use crate::errors::{JsOutcome, exception, simulator};

/// Runs `compaction-sim run` with these options and returns its JSON (`outcomes`, `json` as text) and
/// its figures (`figures`, each with `name` and `svg`). `description` is the text of the workload's
/// description, instead of a file. `progress` is called with the share that is done.
#[wasm_bindgen]
pub fn simulate(
    options: Vec<String>,
    description: Option<String>,
    progress: Option<Function>,
) -> JsOutcome<JsValue> {
    let command = ["compaction-sim", "run"].map(str::to_owned).into_iter().chain(options);
    let cli = SimCli::try_parse_from(command)
        .map_err(|e| exception("INVALID_ARGUMENT", e.to_string().trim_end()))?;
    let SimCommand::Run(mut args) = cli.command else {
        return Err(exception("INVALID_ARGUMENT", "the options are those of `compaction-sim run`"));
    };
    if args.seeds > 1 {
        let why = "--seeds needs threads: call simulate() with one --seed after the other";
        return Err(exception("INVALID_ARGUMENT", why));
    }
    args.model.workload.text = description;
    let (policy, setup) = args.setup().map_err(simulator)?;
    let mut outcome = sim::run(&setup, &mut |share| {
        if let Some(progress) = &progress {
            // A progress display that fails does not end the simulation.
            let _ = progress.call1(&JsValue::NULL, &share.into());
        }
    })
    .map_err(|e| simulator(Failure::from(e)))?;
    (outcome.policy, outcome.workload) = (policy.clone(), args.model.words());
    let all = [(policy, outcome)];
    let outcomes = report::to_json(&all);
    let figures = Array::new();
    for figure in plot::all(&all).map_err(simulator)? {
        figures.push(&object(&[("name", figure.name.into()), ("svg", figure.svg.into())])?);
    }
    object(&[
        ("json", outcomes.to_string().into()),
        ("outcomes", json(&outcomes)?),
        ("figures", figures.into()),
    ])
}

/// Returns the metrics of an outcome, as `compaction-sim metrics --json`.
#[wasm_bindgen]
pub fn metrics() -> JsOutcome<JsValue> {
    let style = firn_tools::output::Style::new(firn_tools::output::Color::Never);
    js_sys::JSON::parse(&report::metrics(true, style))
}

/// Returns the compaction policies: objects with `name` and `about`.
#[wasm_bindgen]
pub fn policies() -> JsOutcome<Array> {
    let policy =
        |name: &str, about: &str| object(&[("name", name.into()), ("about", about.into())]);
    Policy::ALL.iter().map(|d| policy(d.name, d.about)).collect()
}

/// Returns the standard workloads: objects with `name`, `about`, and `text`, the description.
#[wasm_bindgen]
pub fn workloads() -> JsOutcome<Array> {
    let workload = |(name, text): &(&str, &str)| {
        let about = WorkloadDescription::standard(name).unwrap_or_default().about;
        object(&[("name", (*name).into()), ("about", about.into()), ("text", (*text).into())])
    };
    STANDARD.iter().map(workload).collect()
}
