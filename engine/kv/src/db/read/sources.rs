//! Collects the sources that a range read merges: memtables and runs that may have keys of the
//! range.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::base::error::Result;
use crate::base::key::Seq;
use crate::counters::read_debt::SeekCost;
use crate::counters::reads::should_sample;
use crate::iterator::merging::MergeSource;
use crate::iterator::run::TableRun;
use crate::iterator::run_cursor::RunCursor;
use crate::iterator::shadow::{Cover, RangeShadow};
use crate::iterator::visible::{Visible, VisibleRange};
use crate::sstable::Table;

#[cfg(feature = "explain")]
use crate::db::explain::profile::ReadProfile;
use crate::db::observe::read_observer::{ReadObserver, SearchedSource};
use crate::db::versions::view::TreeView;

/// Returns an iterator over the keys of `range` that are visible at `read`.
pub fn visible(view: &TreeView, range: VisibleRange, read: Seq) -> Result<Visible> {
    #[cfg(feature = "explain")]
    if view.meters.is_recording() {
        return profile_scan(view, range, read);
    }
    let ScanSources { list, shadows, has_deletes } = sources(view, &range, &mut ())?;
    let seek_cost = SeekCost::new(list.len(), &view.read_debt);
    let shadow = RangeShadow::new(shadows, read);
    let mut visible = Visible::new(list, read, shadow, view.options.merge_operator.clone(), range);
    visible.pay(seek_cost);
    if has_deletes {
        visible.use_empty_ranges(view.empty_ranges.clone());
    }
    Ok(visible)
}

/// Returns the same iterator with a count for each source. It does not use the empty-range cache,
/// so it counts all entries of the range.
#[cfg(feature = "explain")]
#[cold]
fn profile_scan(view: &TreeView, range: VisibleRange, read: Seq) -> Result<Visible> {
    let of = range.clone();
    let mut profile = ReadProfile::of_range(view, &of, read);
    let ScanSources { list, shadows, .. } = sources(view, &range, &mut profile)?;
    let shown = Arc::new(AtomicU64::new(0));
    let list = profile.begin_scan(view, list, &shadows, &shown);
    let shadow = RangeShadow::new(shadows, read);
    Ok(Visible::new(list, read, shadow, view.options.merge_operator.clone(), range).counting(shown))
}

/// ScanSources of a range read.
struct ScanSources {
    list: Vec<MergeSource>,
    /// Their range deletions.
    shadows: Vec<Cover>,
    /// Whether they have deletes. Without deletes there are no empty ranges to skip, so the shared
    /// cache's reference count is not touched.
    has_deletes: bool,
}

#[inline]
fn sources(
    view: &TreeView,
    range: &VisibleRange,
    observer: &mut impl ReadObserver,
) -> Result<ScanSources> {
    // Most reads of a narrow range find one source, and room for all would take over a kilobyte.
    let mut list: Vec<MergeSource> = Vec::with_capacity(1);
    let most = 1 + view.sealed.len() + view.version.runs.len();
    let mut add = |source: MergeSource| {
        if list.len() == 1 {
            list.reserve_exact(most - 1);
        }
        list.push(source);
    };
    let (mut shadows, mut has_deletes) = (vec![], false);
    if !range.is_empty() {
        let hash = view.prefix_hash(range);
        for m in view.memtables() {
            observer.on_source(SearchedSource::Memtable(m));
            if m.mem.entries() > 0 {
                let maybe = hash.is_none_or(|h| m.mem.may_contain_prefix(h));
                if hash.is_some() {
                    observer.on_filter(None, maybe);
                }
                if maybe {
                    add(MergeSource::Mem(m.mem.cursor()));
                }
            }
            has_deletes |= m.mem.deletes() > 0;
            shadows.extend(m.mem.deletions().into_iter().map(Cover::Mem));
        }
        let until = range.until.as_deref();
        for run in &view.version.runs {
            observer.on_source(SearchedSource::Run(run));
            if !run.overlaps(&range.from, until) {
                continue;
            }
            if run.has_range_deletes(&range.from, until) {
                shadows.push(Cover::Run(run.clone()));
            }
            if hash.map_or(Ok(true), |h| check_filters(view, run, h, range, observer))? {
                has_deletes |= run.has_deletes();
                let cursor = if observer.caches_all() {
                    RunCursor::recorded(run.clone())
                } else {
                    RunCursor::new(run.clone(), true)
                };
                add(MergeSource::Run(cursor));
            }
        }
    }
    has_deletes |= !shadows.is_empty();
    Ok(ScanSources { list, shadows, has_deletes })
}

/// Reports whether the filters of a run allow keys of a range whose prefix has this hash.
fn check_filters(
    view: &TreeView,
    run: &TableRun,
    hash: u64,
    range: &VisibleRange,
    observer: &mut impl ReadObserver,
) -> Result<bool> {
    let asked = |table: &Table, maybe| observer.on_filter(Some(table), maybe);
    let maybe = run.may_contain(hash, &range.from, range.until.as_deref(), asked)?;
    if should_sample() {
        view.reads.checked_filter(maybe);
    }
    Ok(maybe)
}

#[cfg(test)]
mod tests;
