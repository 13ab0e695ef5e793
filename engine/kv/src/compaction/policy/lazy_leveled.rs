//! Lazy leveling: tiered, except that the last level is one run.
//!
//! - *Trigger*: `ratio` runs on a level; two runs on the last. A last run that exceeds its level (a
//!   memtable × `ratio`^(level + 1)). Newer runs that together exceed 2/`ratio` of the last one and
//!   the `ratio` memtables that level 0 may hold anyway.
//! - *Layout*: several runs on every level but the last. The last level is the deepest one with a
//!   run, and at least 1.
//! - *Granularity*: all runs of a level.
//! - *Movement*: into a new run of the next level, or into the last run if the next level is the
//!   last. A run that exceeds its level moves down without being rewritten. Nothing else makes the
//!   last level deeper. If the last run moved down with each merge, more and more tiered levels
//!   would accumulate above it, until the tree is purely tiered.
//! - *Space*: 1 + 2 / `ratio`, because newer runs are at most 2 / `ratio` of the last one, or
//!   within the bytes that level 0 may hold anyway.
//!
//! It is the tree of [`Fluid`] with `ratio` − 1 runs on each level and one on the last.

use super::fluid::Fluid;
use crate::compaction::describe::policy;
use crate::compaction::job::CompactionJob;
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::PickContext;

policy! {
    /// Tiered on all levels but the last, which is one run.
    LazyLeveled = "lazy-leveled" {
        /// Runs per level that start a merge, and the size of a level over the one above.
        ratio: u32 = 4, number(2, 64);
    }
}

impl LazyLeveled {
    fn fluid(&self) -> Fluid {
        Fluid {
            ratio: self.ratio,
            inner_runs: self.ratio.saturating_sub(1),
            last_runs: 1,
            ..Fluid::default()
        }
    }
}

impl Strategy for LazyLeveled {
    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob> {
        self.fluid().candidate_jobs(view)
    }

    fn slowdown_run_count(&self, view: &PickContext<'_>) -> Option<usize> {
        self.fluid().slowdown_run_count(view)
    }

    fn space(&self, memtable: u64, flushed: u64) -> SpaceBound {
        self.fluid().space(memtable, flushed)
    }
}
