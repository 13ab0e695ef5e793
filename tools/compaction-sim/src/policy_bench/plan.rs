//! Settings of a comparison of policies: workloads, the engine's policies at the size of the data,
//! and the store.

use std::path::PathBuf;

use firn_kv::Policy;
use firn_kv::policy::{ParameterKind, ParameterValue};
use firn_tools::output::{Done, Failure};
use firn_tools::workload::WorkloadArgs;
use firn_workload::{StoreSettings, WorkloadDescription};

use crate::workload::trace;

/// Workloads of a comparison that names none.
pub const WORKLOADS: [&str; 7] =
    ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f", "mixgraph"];

/// Phases of YCSB after the load. Those with many writes run three times as long, so that
/// compactions have to follow.
const YCSB: [(&str, &str); 6] = [
    ("ycsb-a", "ycsb-a@300%"),
    ("ycsb-b", "ycsb-b"),
    ("ycsb-c", "ycsb-c"),
    ("ycsb-d", "ycsb-d"),
    ("ycsb-e", "ycsb-e"),
    ("ycsb-f", "ycsb-f@300%"),
];

/// Settings of [`compare_policies`](super::compare_policies).
#[derive(Clone, Debug)]
pub struct PolicyBench {
    /// Bytes of keys and values that each workload puts. Default 32 MiB.
    pub data: u64,
    /// Size of a memtable and of a table in bytes. Default 1 MiB: a small store then has the shape
    /// of one that is 64 times as large.
    pub memtable_size: u64,
    /// Workloads: `ycsb-a` to `ycsb-f`, standard workloads by name, or description files. Default:
    /// those of YCSB, and mixgraph.
    pub workloads: Vec<String>,
    /// Traces of other stores to run, too. Default: none.
    pub traces: Vec<PathBuf>,
    /// The engine's policies beside the custom ones. Default: all that store all data, in the
    /// proportions of their defaults.
    pub policies: Vec<String>,
    /// Compression of tables: `none` (the default), `lz4` or `zstd`.
    pub compression: String,
    /// Background threads. Default 2.
    pub background_threads: usize,
    /// Operations per second of each phase; `None` (the default) for the maximum. A bounded rate
    /// makes figures independent of other work on the machine.
    pub rate: Option<u64>,
    /// Runs of the engine, with different seeds. Default 1.
    pub runs: u64,
    /// Random seed. Default 1.
    pub seed: u64,
}

impl Default for PolicyBench {
    fn default() -> Self {
        let memtable_size = 1 << 20;
        PolicyBench {
            data: 32 << 20,
            memtable_size,
            workloads: WORKLOADS.map(str::to_owned).to_vec(),
            traces: vec![],
            policies: scaled_policies(memtable_size),
            compression: "none".to_owned(),
            background_threads: 2,
            rate: None,
            runs: 1,
            seed: 1,
        }
    }
}

/// Returns the engine's policies with their default parameters; sizes have the same ratio to
/// memtables of this size as to those of the default size. Policies that drop live data are left
/// out: their reads cannot be compared.
pub fn scaled_policies(memtable_size: u64) -> Vec<String> {
    let usual = StoreSettings::default().memtable_size;
    let scaled = |bytes: u64| {
        let wide = u128::from(bytes) * u128::from(memtable_size) / u128::from(usual);
        u64::try_from(wide).unwrap_or(u64::MAX)
    };
    let policy = |d: &firn_kv::policy::Description| {
        let mut text = d.name.to_owned();
        let mut values = d.defaults();
        for (param, value) in d.params.iter().zip(&mut values) {
            if let (ParameterKind::Bytes { min, max }, ParameterValue::Number(bytes)) =
                (param.kind, &mut *value)
            {
                *bytes = scaled(*bytes).clamp(min, max);
                text += &format!(":{}={}", param.name, firn_kv::policy::size_text(*bytes));
            }
        }
        let policy = Policy::of(d.name, &values)?;
        (!policy.drops_live_data()).then_some(text)
    };
    Policy::ALL.iter().filter_map(policy).collect()
}

impl PolicyBench {
    /// Returns the engine's policies, checked.
    pub(super) fn policies(&self) -> Done<Vec<String>> {
        for text in &self.policies {
            let policy: Policy = text.parse().map_err(|e: firn_kv::policy::PolicyError| {
                Failure::with_next(e.to_string(), "firn set-options --help lists the policies")
            })?;
            if policy.drops_live_data() {
                return Err(Failure::with_next(
                    format!("{text} drops live data: its figures cannot be compared"),
                    "name another policy",
                ));
            }
        }
        Ok(self.policies.clone())
    }

    /// Returns the workloads with their names, in the size of the bench.
    pub(super) fn descriptions(&self) -> Done<Vec<(String, WorkloadDescription)>> {
        let workload = |name: &String| Ok((name.clone(), self.sized(named(name)?)?));
        let trace = |path: &PathBuf| {
            let sketch = trace::read(path)?;
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            let described = sketch.description(self.data).map_err(|why| {
                Failure::with_next(
                    format!("{}: {why}", path.display()),
                    "`compaction-sim trace FILE` shows the content of a trace",
                )
            })?;
            Ok((name.into_owned(), self.with_store(described)))
        };
        let all = self.workloads.iter().map(workload).chain(self.traces.iter().map(trace));
        let all: Vec<(String, WorkloadDescription)> = all.collect::<Done<_>>()?;
        if all.is_empty() {
            return Err(Failure::with_next(
                "there is no workload",
                "name one with --workloads, or a trace with --traces",
            ));
        }
        Ok(all)
    }

    /// Returns the workload at the size of the bench, on its store.
    fn sized(&self, mut d: WorkloadDescription) -> Done<WorkloadDescription> {
        d.scale_to(self.data).map_err(Failure::new)?;
        Ok(self.with_store(d))
    }

    fn with_store(&self, d: WorkloadDescription) -> WorkloadDescription {
        let store = StoreSettings {
            memtable_size: self.memtable_size,
            table_size: self.memtable_size.max(64 << 10),
            compression: self.compression.clone(),
            background_threads: self.background_threads,
            // A quarter of the data, so that reads also miss the cache.
            memory_budget: (self.data / 4).max(8 * self.memtable_size).max(8 << 20),
            // The shape is that of the policy. The simulator has no read-triggered compactions.
            read_compaction_percent: 0,
            ..d.store
        };
        let rate = self.rate.map(|rate| rate as f64).or(d.rate);
        WorkloadDescription { seed: self.seed, rate, store, ..d }
    }
}

/// Returns the workload of this name.
fn named(name: &str) -> Done<WorkloadDescription> {
    if let Some((_, phase)) = YCSB.iter().find(|(ycsb, _)| *ycsb == name) {
        let letter = name.trim_start_matches("ycsb-").to_uppercase();
        return Ok(WorkloadDescription {
            about: format!("YCSB: a load, then workload {letter}"),
            steps: format!("ycsb-load, wait, {phase}"),
            ..WorkloadDescription::default()
        });
    }
    let args = WorkloadArgs { workload: Some(name.to_owned()), ..WorkloadArgs::default() };
    args.description(&WorkloadDescription::default()).map_err(|failure| match failure {
        Failure::Failed { what, next: Some(next) } => {
            Failure::with_next(what, format!("{next}, or one of ycsb-a to ycsb-f"))
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_the_proportions_of_their_defaults() {
        let policies = scaled_policies(1 << 20);
        assert!(policies.contains(&"leveled:base=4m".to_owned()), "{policies:?}");
        assert!(policies.len() > 9 && !policies.iter().any(|p| p.starts_with("fifo")));
        let bench = PolicyBench { policies, ..PolicyBench::default() };
        assert_eq!(bench.policies().unwrap(), bench.policies);
    }

    #[test]
    fn workloads_have_the_size_of_the_bench() {
        let described = PolicyBench::default().descriptions().unwrap();
        assert_eq!(described.len(), 7);
        let (name, a) = &described[0];
        assert_eq!((name.as_str(), a.steps.as_str()), ("ycsb-a", "ycsb-load, wait, ycsb-a@300%"));
        // A load, and three operations for each key, of which one half are puts.
        assert_eq!(a.keys, (32 << 20) * 2 / (5 * 1016));
        assert_eq!((a.store.memtable_size, a.store.compression.as_str()), (1 << 20, "none"));
    }
}
