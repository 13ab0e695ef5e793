//! Whoever deletes looks behind itself now and then, so that no reader is the first to walk over
//! many deletions.
//!
//! A delete leaves an entry over an older put, and the first reader behind a million of them would
//! pass two million entries. So after some deletes their writer looks, as a reader would: forward
//! from where the last gap before the key that it deletes now ends; if something is to be seen
//! between, from that key backward, and forward if something is to be seen close behind. What is
//! empty there, with what others have found next to it, is a gap (`merge/gaps.rs`) that readers
//! leap over.
//!
//! Deletes in no order leave many short runs of nothing, too many for gaps, and then few long ones:
//! with the last keys that are there everything becomes one. So whoever meets a long run looks
//! after each of the next deletes, and more seldom as it finds less.
//!
//! Invariant: a look waits for nobody, and what it meets (an error, a panic of a hook) is for the readers
//! to meet. How often looks come, and how far they go, says [`looks`](super::state::looks).
//!
//! What a log gives back at an opening is looked at as a whole ([`look_at_all`]): nobody saw those
//! deletes come.

use crate::base::error::{Error, Result};
use crate::base::key::{Kind, Seq};
use crate::base::ops::{Op, OpReader, TreeId};
use crate::base::sync::epoch;
use crate::merge::emptied::emptied;
use crate::merge::gaps::LONGEST;
use crate::merge::visible::VisibleRange;

use super::sources::visible;
use super::state::core::DbInner;
use super::state::looks::TombstoneProbe;
use super::state::memtable::MemHandle;
use super::state::tree::TreeInner;

/// Notes what the deletes in the memtables of a tree have emptied, as far as up to `read`: for
/// those that were in the log. Nobody writes yet.
pub(super) fn look_at_all(tree: &TreeInner, read: Seq) {
    let view = tree.view.load_full();
    let memtables: Vec<_> = view.memtables().map(|m| m.mem.clone()).collect();
    for mem in &memtables {
        for s in emptied(mem, &memtables, &view.version.runs, view.options.merge.clone(), read) {
            tree.gaps.note(&s.deletion.start, &s.deletion.end, read, s.steps);
        }
    }
}

impl DbInner {
    /// `key` has been deleted in `mem`, and that can be seen.
    #[inline]
    pub(super) fn look_behind(&self, tree: &TreeInner, mem: &MemHandle, key: &[u8]) {
        let deletes = mem.mem.deletes();
        if mem.looks.is_due(deletes) {
            self.look(tree, mem, deletes, key);
        }
    }

    /// The same for all that an encoded batch deletes in memtables that `of` names.
    pub(super) fn look_behind_batch<'m>(
        &self,
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
        // Those of this batch in each memtable, which are counted already.
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
                if m.looks.is_due(before) {
                    self.look(t, m, before, key);
                }
            }
        }
    }

    #[inline(never)]
    fn look(&self, tree: &TreeInner, mem: &MemHandle, deletes: u64, key: &[u8]) {
        if let Some(look) = mem.looks.claim(deletes) {
            let passed = Error::catch("a look behind", || self.look_from(tree, key, &look));
            mem.looks.done(deletes, &look, passed.unwrap_or(0));
        }
    }

    /// Looks from a key that was deleted, and says how many entries it has passed, where that was
    /// worth it.
    fn look_from(&self, tree: &TreeInner, key: &[u8], look: &TombstoneProbe) -> Result<u64> {
        let guard = epoch::pin();
        let (view, read) = tree.at_one_moment(&self.visible, &guard);
        // Gaps have no longer bounds, and who records learns nothing from them.
        if look.most == 0 || key.len() >= LONGEST || view.meters.recorder.is_on() {
            return Ok(0);
        }
        let mut passed = 0;
        // A queue's head has moved from where the gap ends that is known: forward from there, for a
        // step backward costs three times as much.
        let mut from = vec![];
        if !look.is_close && tree.gaps.nearest(key, false, read, &mut from) {
            let mut seen = visible(view, VisibleRange::default(), read)?;
            seen.show_keys_only();
            seen.look_no_further(look.most);
            seen.seek_behind(&from)?;
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
}

#[cfg(test)]
mod tests;
