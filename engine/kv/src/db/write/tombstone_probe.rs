//! After some deletes the writer scans for runs of tombstones, so that readers need not step over
//! them.
//!
//! A delete leaves a tombstone over an older put. The first reader after a million of them would
//! step over two million entries. So after some deletes their writer scans as a reader would. It
//! scans forward from the end of the last empty range before the deleted key. If that scan finds a
//! visible key before the deleted key, it scans backward from the deleted key. If it then finds a
//! visible key nearby, it scans forward as well. The empty ranges it finds are merged with adjacent
//! ones and put into the [empty-range cache](crate::iterator::empty_range_cache), so that iterators
//! seek past them.
//!
//! Deletes in random order first leave many short empty ranges, too many for the cache, and later a
//! few long ones. When the last remaining keys are deleted, these become one. So a probe that finds
//! a long run of tombstones makes the next deletes probe too, and less often as they find less.
//!
//! Invariant: a probe waits for no lock, and ignores errors and panics of hooks; readers report
//! them. The [schedule](crate::db::commit::probe_schedule) defines how often probes run and how far
//! they scan.
//!
//! Deletes that the log replays at an opening are scanned as a whole ([`probe_trees`]), because no
//! writer has probed them.

use crate::base::error::{Error, Result};
use crate::base::key::{Kind, Seq};
use crate::base::ops::{Op, OpReader, TreeId};
use crate::db::commit::CommitPipeline;
use crate::iterator::empty_range_cache::MAX_BOUND_LEN;
use crate::iterator::visible::VisibleRange;
use crate::rewrite::emptied::emptied;
use crate::util::sync::epoch;

use crate::db::commit::mem_handle::MemHandle;
use crate::db::commit::probe_schedule::TombstoneProbe;
use crate::db::inner::DbInner;
use crate::db::read::sources::visible;
use crate::db::versions::tree::TreeInner;

/// Puts the ranges that the deletes in a tree's memtables have emptied, visible up to `read`, into
/// the empty-range cache. It is used for deletes replayed from the log, before the first write.
pub fn probe_trees(tree: &TreeInner, read: Seq) {
    let view = tree.view.load_full();
    let memtables: Vec<_> = view.memtables().map(|m| m.mem.clone()).collect();
    for mem in &memtables {
        for s in
            emptied(mem, &memtables, &view.version.runs, view.options.merge_operator.clone(), read)
        {
            tree.empty_ranges.note(&s.deletion.start, &s.deletion.end, read, s.steps);
        }
    }
}

/// Called after `key` has been deleted in `mem` and the deletion is visible.
#[inline]
pub fn probe_after_delete(db: &DbInner, tree: &TreeInner, mem: &MemHandle, key: &[u8]) {
    let deletes = mem.mem.deletes();
    if mem.probes.is_due(deletes) {
        probe(db, tree, mem, deletes, key);
    }
}

/// Called after an encoded batch; handles all its deletes, in the memtables that `of` returns.
pub fn probe_after_batch<'m>(
    db: &DbInner,
    bytes: &[u8],
    of: impl Fn(TreeId) -> Option<(&'m TreeInner, &'m MemHandle)>,
) {
    let deletes = || {
        let deleted = OpReader::new(bytes).flatten().filter_map(|(tree, op)| match op {
            Op::Point { kind: Kind::Delete, key, .. } => Some((tree, key)),
            _ => None,
        });
        deleted.filter_map(|(tree, key)| of(tree).map(|(t, m)| (t, m, key)))
    };
    // Number of this batch's remaining deletes in each memtable; the memtable counts them
    // already.
    let mut left: Vec<(TreeId, u64)> = vec![];
    for (t, ..) in deletes() {
        match left.iter_mut().find(|(id, _)| *id == t.id) {
            Some((_, n)) => *n += 1,
            None => left.push((t.id, 1)),
        }
    }
    for (t, m, key) in deletes() {
        if let Some((_, n)) = left.iter_mut().find(|(id, _)| *id == t.id) {
            *n -= 1;
            let before = m.mem.deletes().saturating_sub(*n);
            if m.probes.is_due(before) {
                probe(db, t, m, before, key);
            }
        }
    }
}

#[inline(never)]
fn probe(db: &DbInner, tree: &TreeInner, mem: &MemHandle, deletes: u64, key: &[u8]) {
    if let Some(look) = mem.probes.claim(deletes) {
        let passed = Error::catch("a look behind", || probe_from(&db.commit, tree, key, &look));
        mem.probes.done(deletes, &look, passed.unwrap_or(0));
    }
}

/// Probes from a deleted key. Returns the number of entries stepped over.
fn probe_from(
    commit: &CommitPipeline,
    tree: &TreeInner,
    key: &[u8],
    look: &TombstoneProbe,
) -> Result<u64> {
    let guard = epoch::pin();
    let (view, read) = tree.consistent_view(commit.visible(), &guard);
    // The cache stores no longer bounds, and recorded reads do not use the cache.
    if look.most == 0 || key.len() >= MAX_BOUND_LEN || view.meters.is_recording() {
        return Ok(0);
    }
    let mut passed = 0;
    // The head of a queue has moved on from the end of the known empty range. Scan forward from
    // there: a step backward costs three times as much.
    let mut from = vec![];
    if !look.is_close && tree.empty_ranges.nearest(key, false, read, &mut from) {
        let mut seen = visible(view, VisibleRange::default(), read)?;
        seen.show_keys_only();
        seen.look_no_further(look.most);
        seen.seek_past(&from)?;
        passed = seen.passed().0;
        if !seen.valid() || seen.key() > key {
            return Ok(passed);
        }
    }
    for forward in [false, true] {
        if passed > 0 && !look.is_close {
            break;
        }
        let mut seen = visible(view, VisibleRange::default(), read)?;
        seen.show_keys_only();
        seen.look_no_further(look.most.saturating_sub(passed));
        if forward {
            seen.seek(key)?
        } else {
            seen.seek_before(&[key, &[0]].concat())?
        }
        passed += seen.passed().0;
    }
    Ok(passed)
}

#[cfg(test)]
mod tests;
