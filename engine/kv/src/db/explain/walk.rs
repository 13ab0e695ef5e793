//! Creates a cursor whose cost is recorded.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::base::error::Result;
use crate::base::key::Seq;
use crate::iterator::cost::{FilterAnswer, Skipped, SourceCost, VersionPlace};
use crate::iterator::merging::MergeSource;
use crate::iterator::run::TableRun;
use crate::iterator::run_cursor::RunCursor;
use crate::iterator::shadow::{Cover, RangeShadow};
use crate::iterator::traced::{Blocks, Count, TraceContext, Traced};
use crate::iterator::visible::{Visible, VisibleRange};
use crate::util::rank;
use crate::util::sync::Mutex;

use crate::db::commit::mem_handle::MemHandle;
use crate::db::explain::recorder::ProfiledRead;
use crate::db::explain::walked::{CountedSource, ScanProfile, inside};
use crate::db::versions::view::TreeView;

/// Returns an iterator over the keys of `range` visible at `read`, as
/// [`visible`](crate::db::read::sources::visible) does, with a count for each source.
#[cold]
pub fn visible(view: &TreeView, range: VisibleRange, read: Seq) -> Result<Visible> {
    let env = view.meters.recorder.env().clone();
    let walk = Arc::new(TraceContext { read, env });
    let hash = if range.is_empty() { None } else { view.prefix_hash(&range) };
    let mut making =
        Making { range: &range, hash, counts: vec![], sources: vec![], shadows: vec![] };
    for (i, m) in view.memtables().enumerate() {
        making.memtable(m, if i == 0 { VersionPlace::Active } else { VersionPlace::Sealed }, read);
    }
    for run in &view.version.runs {
        let from = walk.env.monotonic_nanos();
        let (mut cost, blocks, source) = making.run(run)?;
        cost.nanos = walk.env.monotonic_nanos().saturating_sub(from);
        making.add(cost, blocks, Some(run.clone()), source);
    }
    let Making { counts, sources, shadows, .. } = making;
    let traced = |(inner, count): (MergeSource, Arc<Mutex<Count, rank::Counted>>)| {
        let shadow = RangeShadow::new(shadows.clone(), read);
        MergeSource::Run(RunCursor::traced(Traced::new(inner, count, shadow, walk.clone())))
    };
    let sources: Vec<MergeSource> = sources.into_iter().map(traced).collect();
    let shown = Arc::new(AtomicU64::new(0));
    let walked = ScanProfile {
        tree: view.name.clone(),
        range: range.clone(),
        shown: shown.clone(),
        read,
        sources: counts,
    };
    view.meters.recorder.note(|| ProfiledRead::Walk(walked.clone()));
    let visible = Visible::new(
        sources,
        read,
        RangeShadow::new(shadows, read),
        view.options.merge.clone(),
        range,
    );
    Ok(visible.counting(shown))
}

/// Sources of a recorded scan under construction.
struct Making<'a> {
    range: &'a VisibleRange,
    /// Hash of the prefix that all keys of the range share, if filters hold prefixes.
    hash: Option<u64>,
    counts: Vec<CountedSource>,
    sources: Vec<(MergeSource, Arc<Mutex<Count, rank::Counted>>)>,
    shadows: Vec<Cover>,
}

impl Making<'_> {
    fn add(
        &mut self,
        cost: SourceCost,
        blocks: Blocks,
        run: Option<Arc<TableRun>>,
        source: Option<MergeSource>,
    ) {
        let count = Arc::new(Mutex::new(Count { cost, blocks, tables: Default::default() }));
        self.counts.push((count.clone(), run));
        self.sources.extend(source.map(|inner| (inner, count)));
    }

    fn memtable(&mut self, m: &MemHandle, place: VersionPlace, read: Seq) {
        let mut cost = SourceCost::of(place);
        if !self.range.is_empty() {
            let deletions = m.mem.deletions();
            let all = deletions.iter().flat_map(|d| d.iter());
            (cost.range_deletions, cost.covered_by) = inside(all, self.range, read);
            self.shadows.extend(deletions.into_iter().map(Cover::Mem));
        }
        if self.range.is_empty() || m.mem.entries() == 0 {
            cost.skipped = Some(Skipped::Empty);
        } else if let Some(h) = self.hash {
            let maybe = m.mem.may_contain_prefix(h);
            cost.filters.push(FilterAnswer { table: 0, maybe, right: None });
            cost.skipped = (!maybe).then_some(Skipped::Prefix);
        }
        let source = cost.skipped.is_none().then(|| MergeSource::Mem(m.mem.cursor()));
        self.add(cost, Blocks::default(), None, source);
    }

    fn run(&mut self, run: &Arc<TableRun>) -> Result<(SourceCost, Blocks, Option<MergeSource>)> {
        let place =
            VersionPlace::Run { level: run.level, number: run.number, tables: run.tables.len() };
        let (mut cost, mut blocks) = (SourceCost::of(place), Blocks::default());
        let (from, until) = (self.range.from.as_slice(), self.range.until.as_deref());
        if self.range.is_empty() || !run.overlaps(from, until) {
            cost.skipped = Some(Skipped::Bounds);
            return Ok((cost, blocks, None));
        }
        let first = run.lower_bound(from);
        let inside_of = run.tables[first..].iter().take_while(|t| t.overlaps(None, until));
        let last = first + inside_of.clone().count();
        // A scan may reach the table beyond either end before it detects that it left the range.
        for t in &run.tables[first.saturating_sub(1)..(last + 1).min(run.tables.len())] {
            blocks.note(t, from, until);
        }
        if run.has_range_deletes(from, until) {
            self.shadows.push(Cover::Run(run.clone()));
        }
        if let Some(h) = self.hash {
            let mut maybe = false;
            for t in inside_of {
                let table = t.table()?;
                maybe = table.may_contain(h);
                if table.has_filter() {
                    cost.filters.push(FilterAnswer { table: t.meta.id, maybe, right: None });
                }
                if maybe {
                    break;
                }
            }
            cost.skipped = (!maybe).then_some(Skipped::Prefix);
        }
        let source =
            cost.skipped.is_none().then(|| MergeSource::Run(RunCursor::recorded(run.clone())));
        Ok((cost, blocks, source))
    }
}
