//! Runs a manual compaction, which merges everything in a range into one run.
//!
//! Invariant: tables that are not rewritten would be written again with the same entries in the
//! same format.

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::format_version::FormatVersion;
use crate::base::options::{FilterAllocation, FilterKind, TreeOptions};
use crate::compaction::{Blocked, CompactionJob, LsmShape, TableShape, manual};
use crate::db::jobs::background;
use crate::db::jobs::compact;
use crate::db::jobs::pick;
use crate::iterator::table_handle::TableHandle;
use crate::iterator::visible::VisibleRange;
use crate::sstable::{Properties, Table};

use crate::db::inner::DbInner;
use crate::db::versions::tree::{Holder, TreeInner};
use crate::db::versions::view::TreeVersion;

/// Compacts everything that may hold keys of a range, or of its end, into one run; without a
/// range, the whole tree. Waits for conflicting jobs. Tables that a compaction would write
/// unchanged are moved.
pub fn compact_range(
    db: &DbInner,
    tree: &Arc<TreeInner>,
    range: Option<&VisibleRange>,
) -> Result<()> {
    loop {
        let generation = db.scheduler.queue().generation();
        let mut blocked = false;
        open_all(tree, range);
        let claimed = compact::claim_by(db, tree, Holder::Caller, |options, shape, _| {
            let job =
                whole(options, shape, range, &tree.view.load_full().version, db.versions.format());
            blocked = job.is_err();
            Ok(job.unwrap_or(None))
        })?;
        match claimed {
            Some(c) => {
                if compact::run_job(db, c, &mut || Ok(()))? {
                    return Ok(());
                }
            }
            None if blocked && is_blocked_by_pause(db, tree, range) => {
                let words = "a compaction that stands still while the background work is paused holds tables of the range";
                return Err(Error::new(ErrorKind::Conflict, words).of_tree(&tree.name));
            }
            None if blocked => background::wait_for_change(db, generation)?,
            None => return Ok(()),
        }
    }
}

/// Reports whether a paused job holds tables that such a compaction needs. Tables of other
/// callers become free without help.
fn is_blocked_by_pause(db: &DbInner, tree: &TreeInner, range: Option<&VisibleRange>) -> bool {
    // No job releases a table while this lock is held.
    let files = tree.files.lock();
    let view = tree.view.load_full();
    let mut shape = pick::tree_shape(db, &view, &files);
    let of_callers = |t: &TableShape| files.busy.get(&t.id) == Some(&Holder::Caller);
    shape.change(of_callers, |t| t.busy = false);
    db.scheduler.throttle().is_stopped()
        && whole(&view.options, &shape, range, &view.version, db.versions.format()).is_err()
}

/// Opens the tables whose contents the job choice may check, because it checks them under a lock.
fn open_all(tree: &TreeInner, range: Option<&VisibleRange>) {
    let view = tree.view.load_full();
    let is_meant = |t: &TableHandle| {
        range.is_none_or(|r| {
            t.meta.last_key >= r.from && r.until.as_ref().is_none_or(|u| t.meta.first_key <= *u)
        })
    };
    if view.options.compaction_filter.is_none() {
        view.version.tables().filter(|t| is_meant(t)).for_each(|t| _ = t.table());
    }
}

/// Chooses the job that merges everything that may hold keys of a range, or of its end, into one
/// run. Tables of an earlier format version than `format` are written again.
fn whole(
    options: &TreeOptions,
    shape: &LsmShape,
    range: Option<&VisibleRange>,
    version: &TreeVersion,
    format: FormatVersion,
) -> Result<Option<CompactionJob>, Blocked> {
    let greatest = shape.tables().map(|t| &*t.last).max().unwrap_or_default();
    let range = range.map(|r| (r.from.as_slice(), r.until.as_deref().unwrap_or(greatest)));
    let handles: HashMap<u64, &Arc<TableHandle>> =
        version.tables().map(|t| (t.meta.id, t)).collect();
    let up_to_date = |t: &TableShape, level: u8| {
        // The decision of a compaction filter about an entry may change at any moment.
        let handle = handles.get(&t.id).filter(|_| options.compaction_filter.is_none());
        // An unreadable table is merged, and the compaction reports the error.
        let table = handle.and_then(|handle| handle.table().ok());
        table.is_some_and(|table| is_up_to_date(table, options, format, level))
    };
    manual(options.active_policy(), shape, range, &up_to_date)
}

/// Reports whether a compaction into `level` would write this table unchanged. The table must
/// overlap no other, in a tree without a compaction filter. Sequence numbers that the compaction
/// would zero do not count.
fn is_up_to_date(table: &Table, options: &TreeOptions, format: FormatVersion, level: u8) -> bool {
    let (p, level) = (table.properties(), usize::from(level));
    let name = |hook: Option<&str>| hook.unwrap_or_default().to_owned();
    table.format() == format
        && p.compaction_filter.is_empty()
        && p.range_deletes == 0
        && p.block_size == options.block_size as u64
        && p.compression == options.compression_at(level)
        && has_filter(p, options, level)
        && p.merge_operator == name(options.merge_operator.as_ref().map(|h| h.name()))
        && p.summary == name(options.summary.as_ref().map(|h| h.name()))
        && p.filter_prefix == name(options.filter_prefix.as_ref().map(|h| h.name()))
        // Values are stored where the options require: in the table or in blob files.
        && p.values.is_empty()
        && p.largest_entry < options.blob_from() as u64
        && table.is_plain()
}

/// Reports whether a table of `level` has the filter that it would be written with. If runs share
/// filter memory, that depends on the other runs, and no table is rewritten for it.
fn has_filter(p: &Properties, options: &TreeOptions, level: usize) -> bool {
    let usual = options.filter_at(level);
    match options.filter_allocation {
        FilterAllocation::ByLevel => p.filter == usual && p.filter_dropped == 0,
        FilterAllocation::Monkey => (p.filter == FilterKind::None) == (usual == FilterKind::None),
    }
}
