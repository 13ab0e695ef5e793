//! Profile of one read: observes its sources, and reports their costs to the recordings.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::base::error::Result;
use crate::base::key::{Seq, Trailer};
use crate::env::Env;
use crate::iterator::cost::{EntryLocation, FilterAnswer, Skipped, SourceCost};
use crate::iterator::merging::MergeSource;
use crate::iterator::run::TableRun;
use crate::iterator::run_cursor::RunCursor;
use crate::iterator::shadow::{Cover, RangeShadow};
use crate::iterator::table_handle::TableHandle;
use crate::iterator::traced::{Count, TraceContext, Traced};
use crate::iterator::visible::VisibleRange;
use crate::sstable::Table;
use crate::util::sync::Mutex;
use crate::util::sync::epoch::Guard;

use crate::db::explain::cost::{ReadCost, ReadTarget};
use crate::db::explain::recorder::{ProfiledRead, Recorder};
use crate::db::explain::scan::{ScanProfile, inside};
use crate::db::observe::read_observer::{ReadObserver, SearchedSource};
use crate::db::versions::view::TreeView;

/// Target of the profiled read.
enum Target<'a> {
    Key(&'a [u8]),
    Range(&'a VisibleRange),
}

/// Costs of the sources of one read, newest first.
pub struct ReadProfile<'a> {
    target: Target<'a>,
    read: Seq,
    env: &'a Arc<dyn Env>,
    recorder: &'a Recorder,
    began: u64,
    /// Finished sources, and the current one.
    sources: Vec<(Count, Option<Arc<TableRun>>)>,
    current: Option<Current>,
}

/// State of the source that the read searches.
struct Current {
    began: u64,
    /// Table that may have the key.
    table: Option<Arc<TableHandle>>,
    /// Last answer of a filter.
    maybe: Option<bool>,
}

impl<'a> ReadProfile<'a> {
    /// Begins the profile of a point lookup.
    pub fn of_key(view: &'a TreeView, key: &'a [u8], read: Seq) -> ReadProfile<'a> {
        ReadProfile::new(view, Target::Key(key), read)
    }

    /// Begins the profile of a scan.
    pub fn of_range(view: &'a TreeView, range: &'a VisibleRange, read: Seq) -> ReadProfile<'a> {
        ReadProfile::new(view, Target::Range(range), read)
    }

    fn new(view: &'a TreeView, target: Target<'a>, read: Seq) -> ReadProfile<'a> {
        let recorder = &view.meters.recorder;
        let (env, sources, current) = (recorder.env(), vec![], None);
        let began = env.monotonic_nanos();
        ReadProfile { target, read, env, recorder, began, sources, current }
    }

    /// Reports the finished lookup.
    pub fn finish_get(mut self, view: &TreeView, found: bool) {
        self.leave();
        self.skip_others(view, Skipped::Decided);
        let Target::Key(key) = self.target else { return };
        let nanos = self.env.monotonic_nanos().saturating_sub(self.began);
        let sources = self.sources.iter().map(|(count, _)| count.report()).collect();
        let (tree, target) = (view.name.to_string(), ReadTarget::Key(key.to_vec()));
        let cost = ReadCost { tree, target, found: u64::from(found), sources, nanos };
        self.recorder.note(|| ProfiledRead::Done(cost.clone()));
    }

    /// Reports the scan that begins, whose sources count from now on. `shown` counts the keys
    /// returned.
    pub fn begin_scan(
        mut self,
        view: &TreeView,
        sources: Vec<MergeSource>,
        shadows: &[Cover],
        shown: &Arc<AtomicU64>,
    ) -> Vec<MergeSource> {
        self.leave();
        self.skip_others(view, Skipped::Bounds);
        let Target::Range(range) = self.target else { return sources };
        let context = Arc::new(TraceContext { read: self.read, env: self.env.clone() });
        let counts: Vec<_> =
            self.sources.into_iter().map(|(c, run)| (Arc::new(Mutex::new(c)), run)).collect();
        let searched = counts.iter().filter(|(c, _)| c.lock().cost.skipped.is_none());
        let traced = |(inner, (count, _)): (MergeSource, &(Arc<Mutex<Count, _>>, _))| {
            let shadow = RangeShadow::new(shadows.to_vec(), self.read);
            let traced = Traced::new(inner, count.clone(), shadow, context.clone());
            MergeSource::Run(RunCursor::traced(traced))
        };
        let sources = sources.into_iter().zip(searched).map(traced).collect();
        let scan = ScanProfile {
            tree: view.name.clone(),
            range: range.clone(),
            shown: shown.clone(),
            read: self.read,
            sources: counts,
        };
        self.recorder.note(|| ProfiledRead::Walk(scan.clone()));
        sources
    }

    fn cost(&mut self) -> Option<&mut SourceCost> {
        self.sources.last_mut().map(|(count, _)| &mut count.cost)
    }

    /// Adds the sources that the read did not reach.
    fn skip_others(&mut self, view: &TreeView, why: Skipped) {
        let all = view.memtables().map(|m| SearchedSource::Memtable(m));
        let all = all.chain(view.version.runs.iter().map(SearchedSource::Run));
        for source in all.skip(self.sources.len()) {
            let mut count = Count::new(self.place(source));
            count.cost.skipped = Some(why);
            self.sources.push((count, None));
        }
    }

    fn place(&self, source: SearchedSource<'_>) -> EntryLocation {
        match source {
            SearchedSource::Memtable(_) if self.sources.is_empty() => EntryLocation::Active,
            SearchedSource::Memtable(_) => EntryLocation::Sealed,
            SearchedSource::Run(r) => {
                EntryLocation::Run { level: r.level, number: r.number, tables: r.tables.len() }
            }
        }
    }

    /// Finishes the current source.
    fn leave(&mut self) {
        let Some(current) = self.current.take() else { return };
        let nanos = self.env.monotonic_nanos().saturating_sub(current.began);
        let Some((count, _)) = self.sources.last_mut() else { return };
        count.cost.nanos = nanos;
        match self.target {
            Target::Key(_) => {
                count.blocks.note_loaded();
                let is_known = count.cost.skipped != Some(Skipped::Facts);
                let has_key = count.cost.entries.all() > 0;
                for filter in &mut count.cost.filters {
                    filter.right = is_known.then_some(!filter.maybe || has_key);
                }
                if let (Some(t), None) = (current.table, count.cost.skipped) {
                    count.tables.get_or_default(t.meta.id);
                }
            }
            Target::Range(_) if current.maybe == Some(false) => {
                count.cost.skipped = Some(Skipped::Prefix)
            }
            Target::Range(_) => {}
        }
    }
}

impl ReadObserver for ReadProfile<'_> {
    fn caches_all(&self) -> bool {
        true
    }

    fn on_source(&mut self, source: SearchedSource<'_>) {
        self.leave();
        let mut current = Current { began: self.env.monotonic_nanos(), table: None, maybe: None };
        let mut count = Count::new(self.place(source));
        let mut scanned = None;
        match (source, &self.target) {
            (SearchedSource::Memtable(m), target) => {
                if m.mem.entries() == 0 {
                    count.cost.skipped = Some(Skipped::Empty);
                }
                if let Target::Range(range) = target {
                    let deletions = m.mem.deletions();
                    let all = deletions.iter().flat_map(|d| d.iter());
                    let (n, newest) = inside(all, range, self.read);
                    (count.cost.range_deletions, count.cost.covered_by) = (n, newest);
                }
            }
            (SearchedSource::Run(run), Target::Key(key)) => match run.find(key) {
                None => count.cost.skipped = Some(Skipped::Bounds),
                Some(t) => {
                    count.blocks.note(t, key, Some(*key));
                    current.table = Some(t.clone());
                }
            },
            (SearchedSource::Run(run), Target::Range(range)) => {
                let (from, until) = (range.from.as_slice(), range.until.as_deref());
                if run.overlaps(from, until) {
                    let first = run.lower_bound(from);
                    let inside = run.tables[first..].iter().take_while(|t| t.overlaps(None, until));
                    let last = first + inside.count();
                    // A scan may reach the table beyond either end before it detects that it left
                    // the range.
                    for t in &run.tables[first.saturating_sub(1)..(last + 1).min(run.tables.len())]
                    {
                        count.blocks.note(t, from, until);
                    }
                } else {
                    count.cost.skipped = Some(Skipped::Bounds);
                }
                scanned = Some((*run).clone());
            }
        }
        self.sources.push((count, scanned));
        self.current = Some(current);
    }

    fn on_cover(&mut self, cover: Seq) {
        if let Some(cost) = self.cost() {
            cost.covered_by = Some(cover).filter(|c| *c > 0);
            cost.range_deletions = u64::from(cover > 0);
        }
    }

    fn on_filter(&mut self, table: Option<&Table>, maybe: bool) {
        if let Some(current) = &mut self.current {
            current.maybe = Some(maybe);
        }
        let is_key = matches!(self.target, Target::Key(_));
        let Some(cost) = self.cost().filter(|c| c.skipped.is_none()) else { return };
        if table.is_none_or(Table::has_filter) {
            let table = table.map_or(0, |t| t.id());
            cost.filters.push(FilterAnswer { table, maybe, right: None });
        }
        if is_key && !maybe {
            cost.skipped = Some(Skipped::Filter);
        }
    }

    fn on_decided(&mut self) {
        if let Some(cost) = self.cost() {
            cost.skipped = Some(Skipped::Facts);
        }
    }

    fn on_search(&mut self, table: Option<&Table>, key: &[u8], _: &Guard) {
        let handle = self.current.as_ref().and_then(|c| c.table.clone());
        let Some((count, _)) = self.sources.last_mut() else { return };
        if count.cost.skipped.is_none() {
            count.cost.seeks += 1;
        }
        if let (Some(handle), Some(block)) = (handle, table.and_then(|t| t.locate(key))) {
            count.blocks.visit(&handle, block);
        }
    }

    fn on_version(&mut self, t: Trailer, cover: Seq) {
        let table = self.current.as_ref().and_then(|c| c.table.as_ref()).map(|t| t.meta.id);
        let read = self.read;
        if let Some((count, _)) = self.sources.last_mut() {
            count.entries(table, |e| e.count(t, read, cover));
        }
    }

    fn on_blob(&mut self, t: &TableHandle, key: &[u8], handle: &[u8]) -> Result<()> {
        let read = t.blob_cost(key, handle)?;
        if let Some(cost) = self.cost() {
            cost.values.push(read);
        }
        Ok(())
    }
}
