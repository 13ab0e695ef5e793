//! Collects the sources that a range read merges: memtables and runs that may have keys of the
//! range.

use crate::base::error::Result;
use crate::base::key::Seq;
use crate::counters::read_debt::SeekCost;
use crate::counters::reads::is_looked_at;
use crate::iterator::merging::MergeSource;
use crate::iterator::run::TableRun;
use crate::iterator::run_cursor::RunCursor;
use crate::iterator::shadow::{Cover, RangeShadow};
use crate::iterator::visible::{Visible, VisibleRange};

use crate::db::explain;
use crate::db::versions::view::TreeView;

/// Returns an iterator over the keys of `range` that are visible at `read`.
pub fn visible(view: &TreeView, range: VisibleRange, read: Seq) -> Result<Visible> {
    if view.meters.recorder.is_on() {
        return explain::visible(view, range, read);
    }
    // Most reads of a narrow range find one source, and room for all would take over a kilobyte.
    let mut sources: Vec<MergeSource> = Vec::with_capacity(1);
    let most = 1 + view.sealed.len() + view.version.runs.len();
    let mut add = |source: MergeSource| {
        if sources.len() == 1 {
            sources.reserve_exact(most - 1);
        }
        sources.push(source);
    };
    let mut shadows = vec![];
    // Without deletes there are no empty ranges to skip, so the shared cache's reference count is
    // not touched.
    let mut has_deletes = false;
    if !range.is_empty() {
        let hash = view.prefix_hash(&range);
        for m in view.memtables() {
            if m.mem.entries() > 0 && hash.is_none_or(|h| m.mem.may_contain_prefix(h)) {
                add(MergeSource::Mem(m.mem.cursor()));
            }
            has_deletes |= m.mem.deletes() > 0;
            shadows.extend(m.mem.deletions().into_iter().map(Cover::Mem));
        }
        let until = range.until.as_deref();
        for run in &view.version.runs {
            if !run.overlaps(&range.from, until) {
                continue;
            }
            if run.has_range_deletes(&range.from, until) {
                shadows.push(Cover::Run(run.clone()));
            }
            if hash.map_or(Ok(true), |h| check_filters(view, run, h, &range.from, until))? {
                has_deletes |= run.has_deletes();
                add(MergeSource::Run(RunCursor::new(run.clone(), true)));
            }
        }
    }
    has_deletes |= !shadows.is_empty();
    let seek_cost = SeekCost::new(sources.len(), &view.read_debt);
    let mut visible = Visible::new(
        sources,
        read,
        RangeShadow::new(shadows, read),
        view.options.merge.clone(),
        range,
    );
    visible.pay(seek_cost);
    if has_deletes {
        visible.use_empty_ranges(view.empty_ranges.clone());
    }
    Ok(visible)
}

/// Reports whether the filters of a run allow keys of a range whose prefix has this hash.
fn check_filters(
    view: &TreeView,
    run: &TableRun,
    hash: u64,
    from: &[u8],
    until: Option<&[u8]>,
) -> Result<bool> {
    let maybe = run.may_contain(hash, from, until)?;
    if is_looked_at() {
        view.reads.checked_filter(maybe);
    }
    Ok(maybe)
}

#[cfg(test)]
mod tests;
