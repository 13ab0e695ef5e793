//! Leveled compaction with the allowed age of tombstones divided among the levels, after FADE of
//! Lethe (SIGMOD 2020).
//!
//! - *Trigger*: as leveled. Also a table whose oldest tombstone is older than the total share of
//!   the levels down to its own. The shares divide the tree's `tombstone_age_secs`. Level i + 1 has
//!   `ratio` times the share of level i, and all levels above the last have the whole age together.
//!   So a tombstone reaches the bottom and is dropped at the age that the tree declares. The bound
//!   common to all policies would only start to push it down at that age.
//! - *Layout*, *granularity*: as leveled.
//! - *Movement*: the table that is overdue the longest for its level; otherwise as leveled.
//! - *Space*: that of leveled.

use super::leveled::Leveled;
use crate::compaction::describe::policy;
use crate::compaction::job::CompactionJob;
use crate::compaction::strategy::{SpaceBound, Strategy};
use crate::compaction::view::PickContext;

policy! {
    /// Leveled, with the age of deletes (the tree's tombstone age) shared out over the levels, so
    /// that they are gone when it has passed.
    Fade = "fade" {
        /// Size of a level over the one above.
        ratio: u32 = 10, number(2, 64);
        /// Flushed runs that start a compaction.
        level0_runs: u32 = 4, number(1, 64);
        /// Size of level 1, of table files.
        base: u64 = 256 << 20, bytes(64 << 10, 1 << 50);
    }
}

impl Fade {
    fn leveled(&self) -> Leveled {
        let Fade { ratio, level0_runs, base, .. } = *self;
        Leveled { ratio, level0_runs, base, ..Leveled::default() }
    }
}

impl Strategy for Fade {
    fn candidate_jobs(&self, view: &PickContext<'_>) -> Vec<CompactionJob> {
        self.leveled().candidate_jobs(view)
    }

    fn slowdown_run_count(&self, view: &PickContext<'_>) -> Option<usize> {
        self.leveled().slowdown_run_count(view)
    }

    fn single_run_levels(&self) -> bool {
        true
    }

    fn space(&self, memtable: u64, flushed: u64) -> SpaceBound {
        self.leveled().space(memtable, flushed)
    }

    fn pending_bytes(&self, view: &PickContext<'_>) -> Option<u64> {
        self.leveled().pending_bytes(view)
    }

    fn age_share(&self, view: &PickContext<'_>, run: usize) -> f64 {
        let last = view.shape.runs.last().map_or(0, |r| r.level);
        let level = view.run(run).level.min(last);
        if level == last {
            return 1.0;
        }
        // 1 + T + … + T^i divided by 1 + T + … + T^(last − 1).
        let ratio = f64::from(self.ratio.max(2));
        let sum = |levels: u8| ratio.powi(i32::from(levels)) - 1.0;
        sum(level + 1) / sum(last)
    }
}
