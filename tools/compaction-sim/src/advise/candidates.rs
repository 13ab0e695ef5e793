//! The policies that `advise` considers, in the notations of the engine and of CQL.

use firn_kv::Policy;
use firn_kv::policy::{
    DynamicLeveled, Incremental, LazyLeveled, Leveled, Spooky, Tiered, TieredLeveled, TimeWindow,
    Unified, Universal,
};

use crate::advise::profile::StoreProfile;
use crate::policy::NamedPolicy;

/// A candidate policy with its notations.
#[derive(Clone, Debug)]
pub struct PolicyCandidate {
    /// The policy, with sizes for the store of the question.
    pub policy: Policy,
    /// Size of its tables in bytes.
    pub table: u64,
    /// Text after `WITH` in CQL, if CQL has the policy.
    pub cql: Option<String>,
}

impl PolicyCandidate {
    fn new(policy: impl Into<Policy>, table: u64) -> PolicyCandidate {
        PolicyCandidate { policy: policy.into(), table, cql: None }
    }

    fn with_cql(policy: impl Into<Policy>, table: u64, options: &str) -> PolicyCandidate {
        let cql = Some(format!("compaction = {{{options}}}"));
        PolicyCandidate { policy: policy.into(), table, cql }
    }
}

/// Returns the policies that are considered for a store.
pub fn candidates(q: &StoreProfile) -> Vec<PolicyCandidate> {
    const TABLE: u64 = 64 << 20;
    let base = (10.0 * q.memtable) as u64;
    let mut all = vec![
        PolicyCandidate::with_cql(
            Tiered::default(),
            TABLE,
            "'class': 'SizeTieredCompactionStrategy'",
        ),
        PolicyCandidate::with_cql(
            Leveled { ratio: 10, base: 1600 << 20, ..Leveled::default() },
            160 << 20,
            "'class': 'LeveledCompactionStrategy'",
        ),
        PolicyCandidate::with_cql(
            Unified {
                scaling: vec![2],
                target_table: 1 << 30,
                base_shards: 4,
                ..Unified::default()
            },
            TABLE,
            "'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4'",
        ),
        PolicyCandidate::with_cql(
            Unified {
                scaling: vec![-8],
                target_table: 1 << 30,
                base_shards: 4,
                ..Unified::default()
            },
            TABLE,
            "'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'L10'",
        ),
        PolicyCandidate::with_cql(
            Unified {
                scaling: vec![2, 2, 2, -2],
                target_table: 1 << 30,
                base_shards: 4,
                ..Unified::default()
            },
            TABLE,
            "'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4, T4, T4, L4'",
        ),
        // CQL has the class, but its trees write a compaction as a whole: the simulation would
        // differ.
        PolicyCandidate::new(Incremental::default(), TABLE),
        PolicyCandidate::new(LazyLeveled { ratio: 4, ..LazyLeveled::default() }, TABLE),
        PolicyCandidate::new(LazyLeveled { ratio: 8, ..LazyLeveled::default() }, TABLE),
        PolicyCandidate::new(
            DynamicLeveled { ratio: 10, level0_runs: 4, base, ..DynamicLeveled::default() },
            TABLE,
        ),
        PolicyCandidate::new(
            TieredLeveled { ratio: 10, min_runs: 3, base, ..TieredLeveled::default() },
            TABLE,
        ),
        PolicyCandidate::new(
            Spooky { ratio: 10, level0_runs: 4, base, ..Spooky::default() },
            TABLE,
        ),
        PolicyCandidate::new(Universal { runs: 8, ..Universal::default() }, TABLE),
    ];
    if q.is_series() && q.ttl > 0.0 {
        // About thirty windows: expired data stays for one of them longer.
        let (unit, secs, size) = match q.ttl / 30.0 {
            s if s < 3600.0 => ("MINUTES", 60, (s / 60.0).round().max(1.0) as u64),
            s if s < 86_400.0 => ("HOURS", 3600, (s / 3600.0).round().max(1.0) as u64),
            s => ("DAYS", 86_400, (s / 86_400.0).round().max(1.0) as u64),
        };
        all.push(PolicyCandidate::with_cql(
            TimeWindow { window_secs: size * secs, min_runs: 4, ..TimeWindow::default() },
            TABLE,
            &format!(
                "'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': '{unit}', \
                 'compaction_window_size': {size}"
            ),
        ));
        // CQL has no shorter window than a minute.
        let secs = (q.ttl / 30.0).round().max(1.0) as u64;
        if secs < 60 {
            let windows = TimeWindow { window_secs: secs, min_runs: 4, ..TimeWindow::default() };
            all.push(PolicyCandidate::new(windows, TABLE));
        }
    }
    if let Some((policy, table)) = &q.present
        && all.iter().all(|c| c.policy != *policy)
    {
        all.push(PolicyCandidate::new(policy.clone(), *table));
    }
    all
}

impl PolicyCandidate {
    /// Returns its policy for a simulation.
    pub fn named(&self) -> NamedPolicy {
        let (name, policy) = (self.policy.to_string(), self.policy.clone());
        NamedPolicy { name, policy, custom: None, ages: false }
    }

    /// Returns the options of a tree as program text.
    pub fn options(&self, memtable: u64) -> String {
        format!(
            "TreeOptions {{ policy: \"{}\".parse()?, memtable_size: {memtable}, table_size: {}, \
             ..TreeOptions::default() }}",
            self.policy, self.table
        )
    }
}
