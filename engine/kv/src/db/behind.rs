//! Whoever deletes looks behind itself now and then, so that no reader is the first to walk over many deletions.
//!
//! A delete leaves an entry over an older put, and the first reader behind a million of them would pass two million entries. So after some
//! deletes their writer looks, as a reader would, from the key that it deletes now: backward, and forward if something is to be seen close
//! behind. What is empty there, with what others have found next to it, is a gap (`merge/gaps.rs`) that readers leap over.
//!
//! Invariants:
//! - L1: a look costs a seek and, on average, four steps for each delete since the look before at most. It waits for nobody, and what it meets
//!   (an error too) is for the readers to meet.
//! - L2: after a look that found nothing worth it the next is twice as many deletes off, up to [`FAR`]: deletes among keys that are there
//!   pay next to nothing. After one that did, it is [`NEAR`] deletes off at most: that is what readers still have to pass.
//! - L3: looks of one memtable come at uneven distances, so that of queues which are served in turn each is looked at.
//!
//! What a log gives back at an opening is looked at as a whole ([`look_at_all`]): nobody saw those deletes come.

use crate::base::error::Result;
use crate::base::key::{Kind, Seq};
use crate::base::ops::{Op, Ops, TreeId};
use crate::base::sync::epoch;
use crate::base::sync::{AtomicU64, Ordering};
use crate::merge::emptied::emptied;
use crate::merge::gaps::LONGEST;
use crate::merge::visible::KeyRange;

use super::core::Core;
use super::iter::visible;
use super::tree::TreeCore;
use super::view::{MemHandle, View};

/// After how many deletes a writer looks, where looks find something.
const NEAR: u64 = 64;
/// The same at most, where they don't.
const FAR: u64 = 1024;

/// When the next look at a memtable's deletes is due.
pub struct Looks {
    /// At so many deletes; never while somebody looks.
    due: AtomicU64,
    /// The distance of looks.
    every: AtomicU64,
}

impl Default for Looks {
    fn default() -> Looks {
        Looks { due: AtomicU64::new(NEAR), every: AtomicU64::new(NEAR) }
    }
}

impl Looks {
    /// Goes on where those of another memtable were, which nobody writes to.
    pub fn go_on_from(&self, before: &Looks) {
        let due = before.due.load(Ordering::Relaxed);
        // Somebody who looks will say so to the other one.
        self.due.store(if due == u64::MAX { NEAR } else { due }, Ordering::Relaxed);
        self.every.store(before.every.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether one is due after so many deletes.
    #[inline]
    pub fn is_due(&self, deletes: u64) -> bool {
        deletes >= self.due.load(Ordering::Relaxed)
    }

    /// Whether the caller shall look; it must say what came of it. Gives the distance from the look before.
    fn claim(&self, deletes: u64) -> Option<u64> {
        let due = self.due.load(Ordering::Relaxed);
        let is_mine = deletes >= due && self.due.compare_exchange(due, u64::MAX, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        is_mine.then(|| self.every.load(Ordering::Relaxed))
    }

    /// A look at so many deletes is done.
    fn done(&self, deletes: u64, was_worth_it: bool) {
        let every = if was_worth_it { NEAR } else { FAR.min(2 * self.every.load(Ordering::Relaxed)) };
        self.every.store(every, Ordering::Relaxed);
        // Any number that is not the same each time.
        let less = deletes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.due.store(deletes + every - less % (every / 2), Ordering::Relaxed);
    }
}

/// Notes what the deletes in the memtables of a tree have emptied, as far as up to `read`: for those that were in the log. Nobody writes yet.
pub(super) fn look_at_all(tree: &TreeCore, read: Seq) {
    let view = tree.view.load_full();
    let memtables: Vec<_> = view.memtables().map(|m| m.mem.clone()).collect();
    for mem in &memtables {
        for s in emptied(mem, &memtables, &view.version.runs, view.options.merge.clone(), read) {
            tree.gaps.note(&s.deletion.start, &s.deletion.end, read, s.steps);
        }
    }
}

impl Core {
    /// `key` has been deleted in `mem`, and that can be seen.
    #[inline]
    pub(super) fn look_behind(&self, tree: &TreeCore, mem: &MemHandle, key: &[u8]) {
        let deletes = mem.mem.deletes();
        if mem.looks.is_due(deletes) {
            self.look(tree, mem, deletes, key);
        }
    }

    /// The same for all that an encoded batch deletes in memtables that `of` names.
    pub(super) fn look_behind_batch<'m>(&self, bytes: &[u8], of: impl Fn(TreeId) -> Option<(&'m TreeCore, &'m MemHandle)>) {
        let deletes = || {
            let deleted = Ops::new(bytes).flatten().filter_map(|(tree, op)| match op {
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
    fn look(&self, tree: &TreeCore, mem: &MemHandle, deletes: u64, key: &[u8]) {
        if let Some(every) = mem.looks.claim(deletes) {
            let found = self.look_from(tree, key, 4 * every);
            mem.looks.done(deletes, found.unwrap_or(false));
        }
    }

    /// Looks from a key that was deleted, at most so many steps, and says whether that was worth it.
    fn look_from(&self, tree: &TreeCore, key: &[u8], most: u64) -> Result<bool> {
        let guard = epoch::pin();
        let (view, read) = View::at_one_moment(tree, &self.visible, &guard);
        // Gaps have no longer bounds, and who records learns nothing from them.
        if key.len() >= LONGEST || view.meters.recorder.is_on() {
            return Ok(false);
        }
        for forward in [false, true] {
            let mut seen = visible(view, KeyRange::default(), read)?;
            seen.look_no_further(most);
            if forward {
                seen.seek(key)?
            } else {
                seen.seek_before(&[key, &[0]].concat())?
            }
            if seen.passed().0 > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
