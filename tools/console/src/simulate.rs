//! Simulates the recorded load of a tree under other policies.
//!
//! Invariant: one simulation runs at a time, in a thread of its own.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use compaction_sim::history;
use compaction_sim::model::meter::SimOutcome;
use compaction_sim::model::sim;
use compaction_sim::policy;
use compaction_sim::report::metric::METRICS;
use firn_kv::Env;
use firn_tools::output::{Done, Failure};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Maximum bytes of an event log, which the engine replaces at a fraction of it.
const MAX_LOG: u64 = 64 << 20;
/// Maximum number of policies.
const MAX_POLICIES: usize = 6;

/// State of the simulation.
enum SimState {
    Idle,
    Running { tree: String, began_micros: u64 },
    Done(Value),
}

/// The simulation of a console.
pub struct Simulation {
    env: Arc<dyn Env>,
    state: Mutex<SimState>,
    /// Progress in thousandths.
    progress: AtomicU64,
}

impl Simulation {
    /// Creates one that is idle.
    pub fn new(env: Arc<dyn Env>) -> Simulation {
        Simulation { env, state: Mutex::new(SimState::Idle), progress: AtomicU64::new(0) }
    }

    /// Returns the state: `idle`, `running` with its progress, or `done` with the result.
    pub fn state(&self) -> Value {
        match &*self.state.lock() {
            SimState::Idle => json!({"state": "idle"}),
            SimState::Running { tree, began_micros } => json!({
                "state": "running", "tree": tree, "progress": self.progress.load(Ordering::Relaxed),
                "micros": self.env.wall_micros().saturating_sub(*began_micros),
            }),
            SimState::Done(result) => json!({"state": "done", "result": result}),
        }
    }

    /// Starts the simulation of a request: `tree`, `policies`.
    ///
    /// # Errors
    /// A simulation that runs already, a log that cannot be read or has too little, and invalid
    /// policies.
    pub fn start(self: &Arc<Self>, dir: &Path, request: &Value) -> Done {
        let tree = request["tree"].as_str().unwrap_or_default().to_owned();
        let names: Vec<String> = request["policies"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
        if names.is_empty() || names.len() > MAX_POLICIES {
            return Err(Failure::new(format!("name one to {MAX_POLICIES} policies")));
        }
        let log = self.env.read_all(&dir.join("EVENTS.jsonl"), MAX_LOG)?;
        let recorded = history::parse(&String::from_utf8_lossy(&log), Some(&tree))?;
        for name in &names {
            policy::parse(name, &firn_kv::TreeOptions::default()).map_err(Failure::new)?;
        }
        let mut state = self.state.lock();
        if matches!(*state, SimState::Running { .. }) {
            return Err(Failure::with_next("a simulation runs already", "wait for its end"));
        }
        let simulation = self.clone();
        let work = move || {
            let result = simulation.simulate(&recorded, &names);
            let result = result.unwrap_or_else(|e| json!({"error": e.words()}));
            *simulation.state.lock() = SimState::Done(result);
        };
        self.progress.store(0, Ordering::Relaxed);
        self.env.spawn("firn-simulate", Box::new(work))?;
        *state = SimState::Running { tree, began_micros: self.env.wall_micros() };
        Ok(())
    }

    fn simulate(&self, recorded: &history::RecordedHistory, names: &[String]) -> Done<Value> {
        let now = recorded.policy.clone().unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let base = recorded.fitted(&now, cores as f64)?;
        let mut cases = vec![("as simulated".to_owned(), base.clone())];
        for name in names {
            let mut setup = base.clone();
            let named = policy::parse(name, &base.options).map_err(Failure::new)?;
            setup.options = named.set_in(setup.options);
            cases.push((name.clone(), setup));
        }
        let mut outcomes = vec![("as recorded".to_owned(), recorded.outcome())];
        let count = cases.len() as f64;
        for (i, (name, setup)) in cases.into_iter().enumerate() {
            let mut report = |share: f64| {
                let all = (i as f64 + share.clamp(0.0, 1.0)) / count;
                self.progress.store((all * 1000.0) as u64, Ordering::Relaxed);
            };
            let mut outcome = sim::run(&setup, &mut report)?;
            recorded.count_users_bytes(&mut outcome);
            outcomes.push((name, outcome));
        }
        Ok(result_of(recorded, &outcomes))
    }
}

/// Returns the outcomes as JSON: the metrics with their labels and meanings, and the value of each
/// case as text.
fn result_of(recorded: &history::RecordedHistory, outcomes: &[(String, SimOutcome)]) -> Value {
    let shown = METRICS.iter().filter(|m| m.heading.is_some() || m.logged);
    let metrics = shown.map(|m| {
        let values = outcomes.iter().map(|(_, o)| json!({"text": m.text(o), "value": (m.of)(o)}));
        json!({
            "name": m.name, "words": m.words, "about": m.about, "values": values.collect::<Vec<_>>(),
        })
    });
    json!({
        "tree": recorded.tree,
        "policy": recorded.policy.as_ref().map(ToString::to_string),
        "flushes": recorded.flushes,
        "cases": outcomes.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "metrics": metrics.collect::<Vec<_>>(),
    })
}
