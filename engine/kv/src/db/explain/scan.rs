//! Cost of a recorded scan so far; its sources continue to count while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::key::Seq;
use crate::iterator::cost::SourceCost;
use crate::iterator::run::TableRun;
use crate::iterator::traced::Count;
use crate::iterator::visible::VisibleRange;
use crate::util::rank;
use crate::util::sorted_map::SortedSet;
use crate::util::sync::Mutex;

use crate::db::explain::cost::{ReadCost, ReadTarget};

/// Counters of a source, and its run (`None` for a memtable).
pub type CountedSource = (Arc<Mutex<Count, rank::Counted>>, Option<Arc<TableRun>>);

/// Counters of a cursor.
#[derive(Clone)]
pub struct ScanProfile {
    pub tree: Arc<str>,
    pub range: VisibleRange,
    pub shown: Arc<AtomicU64>,
    pub read: Seq,
    pub sources: Vec<CountedSource>,
}

impl ScanProfile {
    /// Returns the cost so far.
    pub fn report(self) -> ReadCost {
        let report = |(count, run): &CountedSource| {
            let mut cost = count.lock().report();
            if let Some(run) = run {
                (cost.range_deletions, cost.covered_by) = inside_run(run, &self.range, self.read);
            }
            cost
        };
        let sources: Vec<SourceCost> = self.sources.iter().map(report).collect();
        ReadCost {
            tree: self.tree.to_string(),
            target: ReadTarget::Range { from: self.range.from, until: self.range.until },
            found: self.shown.load(Ordering::Relaxed),
            nanos: sources.iter().map(|s| s.nanos).sum(),
            sources,
        }
    }
}

/// Returns the number of range deletions in a range, and the newest one visible at `read`.
pub fn inside<'a>(
    all: impl Iterator<Item = (&'a [u8], &'a [u8], Seq)>,
    range: &VisibleRange,
    read: Seq,
) -> (u64, Option<Seq>) {
    let meets = |(start, end, seq): &(&[u8], &[u8], Seq)| {
        *seq <= read
            && *end > range.from.as_slice()
            && range.until.as_deref().is_none_or(|u| *start < u)
    };
    // Overlapping range deletions are split into fragments, which retain their sequence numbers.
    let seqs: SortedSet<Seq> = all.filter(meets).map(|(.., seq)| seq).collect();
    (seqs.len() as u64, seqs.last().copied())
}

/// Same for the tables of a run that have been opened; other tables were not read.
fn inside_run(run: &TableRun, range: &VisibleRange, read: Seq) -> (u64, Option<Seq>) {
    let opened = run.tables.iter().filter(|t| {
        t.meta.range_deletes > 0 && t.overlaps(Some(&range.from), range.until.as_deref())
    });
    let fragments = opened.filter_map(|t| t.opened()).flat_map(|t| t.tombstones().as_slice());
    let all = fragments
        .flat_map(|f| f.seqs.iter().map(|seq| (f.start.as_slice(), f.end.as_slice(), *seq)));
    inside(all, range, read)
}
