//! `firn bench`: benchmarks of the engine (`firn-bench`), of the data model and of CQL.
//!
//! [`wide`] and [`cql`] alternate between two measurements: their own operations, and equivalent
//! operations of the layer below.

mod args;
mod cql;
mod wide;

use std::path::Path;

use compaction_sim::{policy_bench, reproduce};
use firn_bench::{ModelStores, Setting, not_alone, refuse_others};
use firn_kv::DbOptions;
use firn_tools::io::stdout;
use firn_tools::output::Done;
use firn_wide::internals::store::{SCHEMA_TREE, TreeName};

use crate::store::{Global, open_wide};
use args::{BenchModel, ModelBenchArgs, ResearchBench};

pub use args::BenchCommandArgs;
pub use firn_bench::{given, is_of_a_bench};

const MODEL_EXAMPLES: &str = "
  firn bench --model wide --rows 1m                        rows of columns, compared with puts, gets and cursors;
                                                           takes --rows, --columns, --memory-budget and --seed
  firn bench --model cql --rows 1m                         statements, compared with the operations on columns
  firn bench --model cql --rows 10k --connect localhost    statements at a server or a cluster, compared with a fresh store
  firn bench policy idea.rhai --html report.html           compaction policies, in the simulator and on the engine (firn bench policy --help)
  firn bench papers                                        the claims of papers about compaction (firn bench papers --help)";

/// Returns the examples of the help text.
pub fn examples() -> String {
    format!("{}{MODEL_EXAMPLES}", firn_bench::examples())
}

/// Benchmark of a model above the engine.
struct ModelBench {
    /// Name on the command line.
    name: &'static str,
    /// Names of the accepted options.
    takes: &'static [&'static str],
    run: fn(&Setting<'_>, &ModelBenchArgs) -> Done,
}

impl BenchModel {
    /// Returns the benchmark of the model. Those of the engine are in `firn-bench` and have their
    /// own options.
    fn bench(self) -> Option<ModelBench> {
        match self {
            BenchModel::Kv => None,
            BenchModel::Wide => Some(ModelBench {
                name: "--model wide",
                takes: &["rows", "columns", "memory-budget", "durability", "seed"],
                run: wide::run,
            }),
            BenchModel::Cql => Some(ModelBench {
                name: "--model cql",
                takes: &[
                    "rows",
                    "memory-budget",
                    "durability",
                    "connect",
                    "user",
                    "password-file",
                    "replication",
                ],
                run: cql::run,
            }),
        }
    }
}

/// Describes a keyspace in the store that no benchmark created, if there is one.
fn foreign_keyspace(dir: &Path) -> Done<Option<String>> {
    let db = DbOptions { create: false, read_only: true, ..DbOptions::default() };
    let keyspaces = open_wide(dir, db)?.describe_keyspaces();
    let ours = [wide::KEYSPACE, cql::KEYSPACE, cql::BESIDE];
    Ok(keyspaces
        .iter()
        .find(|k| !ours.contains(&k.name.as_str()))
        .map(|k| format!("the keyspace {:?}", k.name)))
}

const MODEL_STORES: ModelStores = ModelStores {
    is_own: |name| name == SCHEMA_TREE || TreeName::parse(name).is_some(),
    is_beside: |name| name.starts_with(wide::BESIDE),
    foreign: foreign_keyspace,
    cliffs: cql::cliffs::RUN,
};

/// Runs `firn bench`. `given` has the names of the options on the command line.
pub fn run(global: &Global, args: &BenchCommandArgs, given: &[String]) -> Done {
    let (as_json, style) = (global.store.json, global.store.style());
    match &args.research {
        None => run_model(global, &args.model, given),
        Some(ResearchBench::Policy(args)) => {
            policy_bench::run(args, &[], as_json, style, &mut stdout())
        }
        Some(ResearchBench::Papers(args)) => reproduce::run(args, as_json, &mut stdout()),
    }
}

fn run_model(global: &Global, args: &ModelBenchArgs, given: &[String]) -> Done {
    let setting = Setting { store: &global.store, models: Some(MODEL_STORES) };
    let given: Vec<String> = given.iter().filter(|option| *option != "model").cloned().collect();
    let Some(bench) = args.model.bench() else {
        return firn_bench::run(&setting, &args.engine, &given);
    };
    if !args.engine.workloads.is_empty() {
        return Err(not_alone(bench.name));
    }
    refuse_others(bench.name, bench.takes, &given)?;
    (bench.run)(&setting, args)
}
