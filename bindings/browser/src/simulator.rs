//! The simulator of compactions for JavaScript.

use std::cell::RefCell;

use clap::Parser;
use compaction_sim::cli::{SimCli, SimCommand};
use compaction_sim::model::meter::SimOutcome;
use compaction_sim::model::sim;
use compaction_sim::report::{self, plot};
use firn_kv::Policy;
use firn_workload::WorkloadDescription;
use firn_workload::description::STANDARD;
use js_sys::{Array, Function};
use wasm_bindgen::prelude::*;

use crate::convert::{self, object};
use crate::errors::{JsOutcome, exception, kv, simulator};

/// Outcomes of simulations, drawn in the same figures.
const MAX_OUTCOMES: usize = 12;

/// Runs `compaction-sim run` with these options. Returns the outcome as `json`, the text that the
/// command prints, and as `outcomes`, the same as objects; and its figures, each with `name` and
/// `svg`. `description` is the text of the workload's description, instead of a file. `progress` is
/// called with the share that is done.
#[wasm_bindgen(unchecked_return_type = "Simulation")]
pub fn simulate(
    options: Vec<String>,
    #[wasm_bindgen(unchecked_optional_param_type = "string")] description: Option<String>,
    #[wasm_bindgen(unchecked_optional_param_type = "(share: number) => void")] progress: Option<
        Function,
    >,
) -> JsOutcome<JsValue> {
    BrowserComparison::new().run(options, description, progress)
}

/// Simulations that are drawn in the same figures: at most the last 12.
#[derive(Debug, Default)]
#[wasm_bindgen(js_name = Comparison)]
pub struct BrowserComparison(RefCell<Vec<(String, SimOutcome)>>);

#[wasm_bindgen(js_class = Comparison)]
impl BrowserComparison {
    /// Creates an empty comparison.
    #[wasm_bindgen(constructor)]
    pub fn new() -> BrowserComparison {
        BrowserComparison::default()
    }

    /// Runs a simulation, as `simulate`.
    #[wasm_bindgen(unchecked_return_type = "Simulation")]
    pub fn run(
        &self,
        options: Vec<String>,
        #[wasm_bindgen(unchecked_optional_param_type = "string")] description: Option<String>,
        #[wasm_bindgen(unchecked_optional_param_type = "(share: number) => void")] progress: Option<
            Function,
        >,
    ) -> JsOutcome<JsValue> {
        let (policy, outcome) = run(options, description, progress)?;
        let name = format!("{policy}, {}", outcome.workload);
        let json = report::to_json(&[(policy, outcome.clone())]);
        let mut all = self.0.borrow_mut();
        // Equal names would be seeds of one case.
        let count = all.iter().filter(|(other, _)| other.starts_with(&name)).count();
        let name = if count > 0 { format!("{name} #{}", count + 1) } else { name };
        all.push((name, outcome));
        if all.len() > MAX_OUTCOMES {
            all.remove(0);
        }
        let figures = Array::new();
        for figure in plot::all(&all).map_err(simulator)? {
            figures.push(&object(&[("name", figure.name.into()), ("svg", figure.svg.into())])?);
        }
        object(&[
            ("json", json.to_string().into()),
            ("outcomes", convert::json(&json)?),
            ("figures", figures.into()),
        ])
    }
}

/// Returns the policy as text, and the outcome.
fn run(
    options: Vec<String>,
    description: Option<String>,
    progress: Option<Function>,
) -> JsOutcome<(String, SimOutcome)> {
    let command = ["compaction-sim", "run"].map(str::to_owned).into_iter().chain(options);
    let cli = SimCli::try_parse_from(command)
        .map_err(|e| exception("INVALID_ARGUMENT", e.to_string().trim_end()))?;
    let SimCommand::Run(mut args) = cli.command else {
        return Err(exception("INVALID_ARGUMENT", "the options are those of `compaction-sim run`"));
    };
    if args.seeds > 1 {
        let why = "--seeds needs threads: run one --seed after the other";
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
    .map_err(kv)?;
    (outcome.policy, outcome.workload) = (policy.clone(), args.model.words());
    Ok((policy, outcome))
}

/// Returns the metrics of an outcome, as `compaction-sim metrics --json`.
#[wasm_bindgen(
    unchecked_return_type = "{ name: string, unit: string, words: string, about: string, logged: boolean }[]"
)]
pub fn metrics() -> JsOutcome<JsValue> {
    let style = firn_tools::output::Style::new(firn_tools::output::Color::Never);
    js_sys::JSON::parse(&report::metrics(true, style))
}

/// Returns the compaction policies: objects with `name` and `about`.
#[wasm_bindgen(unchecked_return_type = "{ name: string, about: string }[]")]
pub fn policies() -> JsOutcome<Array> {
    let policy =
        |name: &str, about: &str| object(&[("name", name.into()), ("about", about.into())]);
    Policy::ALL.iter().map(|d| policy(d.name, d.about)).collect()
}

/// Returns the standard workloads: objects with `name`, `about`, and `text`, the description.
#[wasm_bindgen(unchecked_return_type = "{ name: string, about: string, text: string }[]")]
pub fn workloads() -> JsOutcome<Array> {
    let workload = |(name, text): &(&str, &str)| {
        let about = WorkloadDescription::standard(name).unwrap_or_default().about;
        object(&[("name", (*name).into()), ("about", about.into()), ("text", (*text).into())])
    };
    STANDARD.iter().map(workload).collect()
}
