//! A compaction policy of one's own, compared with the engine's: in the simulator and on the engine.

use std::process::ExitCode;

use compaction_sim::policy_bench::run_main;
use firn_kv::policy::{CompactionPolicy, CompactionRequest, CustomPolicy, LsmShape};

/// Lazy tiering: a level of four runs becomes one run of the next level.
pub struct LazyTiers;

/// Runs of a level that become one.
const FAN: usize = 4;

impl CompactionPolicy for LazyTiers {
    fn name(&self) -> &str {
        "lazy-tiers"
    }

    /// Returns the compactions that the policy wants, the most urgent first. Run 0 is the newest.
    fn requests(&self, shape: &LsmShape) -> Vec<CompactionRequest> {
        let (mut wanted, mut first) = (vec![], 0);
        for level in shape.runs.chunk_by(|a, b| a.level == b.level) {
            if level.len() >= FAN {
                wanted.push(CompactionRequest::whole(first..=first + level.len() - 1));
            }
            first += level.len();
        }
        wanted
    }

    /// Returns the number of runs at which writers are slowed down.
    fn max_runs(&self, _: &LsmShape) -> Option<usize> {
        Some(24)
    }
}

fn main() -> ExitCode {
    run_main(&[CustomPolicy::new(LazyTiers)])
}
