//! Conflict checks: find keys that have changed since a transaction read them.

use crate::base::cursor::Cursor as _;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{MAX_SEQ, Seq, Trailer};
use crate::db::read::lookup::filter_hash;
use crate::db::versions::tree::TreeInner;
use crate::iterator::merging::{MergeSource, Merging};
use crate::iterator::run_cursor::RunCursor;
use crate::iterator::visible::VisibleRange;
use crate::util::sync::epoch;

/// Interval, in older entries, between lookups in the empty-range cache.
const LOOK_FOR_GAPS: u32 = 8;

pub(super) fn conflict(what: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("{what}; run it again"))
}

/// Reports whether a key has a version newer than `since`, including deletions. Called under the
/// write lock. It skips tables without newer entries, and asks the filters of the others first.
pub(super) fn key_changed_since(tree: &TreeInner, key: &[u8], since: Seq) -> Result<bool> {
    let guard = epoch::pin();
    let view = tree.view.load(&guard);
    // A dropped tree is marked as dropped before it is emptied.
    tree.check_live()?;
    let newer = |seq: Option<Seq>| seq.is_some_and(|s| s > since);
    for m in view.memtables() {
        let found = m.mem.get(key, MAX_SEQ).map(|f| f.trailer.seq());
        if newer(found) || newer(m.mem.newest_covering(key, MAX_SEQ, &guard)) {
            return Ok(true);
        }
        // Older sources contain only older versions.
        if found.is_some() {
            return Ok(false);
        }
    }
    let mut hash = None;
    for t in view.version.runs.iter().filter_map(|r| r.find(key)).filter(|t| t.meta.max_seq > since)
    {
        let table = t.table()?;
        if t.meta.range_deletes > 0 && newer(table.tombstones().newest_covering(key, MAX_SEQ)) {
            return Ok(true);
        }
        if table.may_contain(*hash.get_or_insert_with(|| filter_hash(&view.options, key)))
            && let Some(hit) = table.get(key, None, MAX_SEQ, &guard)?
        {
            return Ok(hit.trailer.seq() > since);
        }
    }
    Ok(false)
}

/// Reports whether a range has an entry newer than `since`. It ignores newer deletes in an empty
/// range of the cache: a reader at `since` saw nothing there, and nothing has been put since, so
/// these deletes change nothing. It seeks past such ranges. Called under the write lock. It skips
/// runs without newer entries.
pub(super) fn changed_since(tree: &TreeInner, range: &VisibleRange, since: Seq) -> Result<bool> {
    if range.is_empty() {
        return Ok(false);
    }
    let view = tree.view.load_full();
    tree.check_live()?;
    let until = range.until.as_deref();
    let mut sources: Vec<MergeSource> = vec![];
    for m in view.memtables().filter(|m| !m.mem.is_empty()) {
        sources.push(MergeSource::Mem(m.mem.cursor()));
        if m.mem.deletions().iter().any(|d| d.changed_since(&range.from, until, since)) {
            return Ok(true);
        }
    }
    for run in view.version.runs.iter().filter(|r| r.max_seq() > since) {
        let there = run.tables[run.lower_bound(&range.from)..]
            .iter()
            .take_while(|t| t.overlaps(None, until));
        for t in there.filter(|t| t.meta.range_deletes > 0 && t.meta.max_seq > since) {
            if t.table()?.tombstones().changed_since(&range.from, until, since) {
                return Ok(true);
            }
        }
        sources.push(MergeSource::Run(RunCursor::new(run.clone(), true)));
    }
    let mut all = Merging::new(sources);
    all.seek(&range.from, Trailer::NEWEST)?;
    let (mut steps, mut to) = (0u32, vec![]);
    while all.valid() && until.is_none_or(|u| all.key() < u) {
        let is_newer = all.trailer().seq() > since;
        if (is_newer || steps.is_multiple_of(LOOK_FOR_GAPS))
            && tree.empty_ranges.skip_empty_range(all.key(), true, since, &mut to)
        {
            all.seek(&to, Trailer::NEWEST)?;
        } else if is_newer {
            return Ok(true);
        } else {
            all.next()?;
        }
        steps += 1;
    }
    Ok(false)
}
