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
//! Invariants:
//! - L1: looks at a memtable pass at most [`STEPS`] entries for each delete of it, and a few for
//!   each look; one look at most one in [`SHARE`] of what its deletes were. It waits for nobody,
//!   and what it meets (an error too) is for the readers to meet.
//! - L2: after a look that found nothing worth it the next is twice as many deletes off, up to
//!   [`FAR`]: deletes among keys that are there pay next to nothing. After one that did, it is
//!   `near` deletes off at most: that is what readers still have to pass.
//! - L3: looks of one memtable come at uneven distances, so that of queues which are served in turn
//!   each is looked at.
//!
//! What a log gives back at an opening is looked at as a whole ([`look_at_all`]): nobody saw those
//! deletes come.

use crate::base::error::Result;
use crate::base::key::{Kind, Seq};
use crate::base::ops::{Op, OpReader, TreeId};
use crate::base::sync::epoch;
use crate::base::sync::{AtomicU64, Ordering};
use crate::merge::emptied::emptied;
use crate::merge::gaps::LONGEST;
use crate::merge::visible::VisibleRange;

use super::core::Core;
use super::iter::visible;
use super::tree::TreeCore;
use super::view::{MemHandle, TreeView};

/// After how many deletes a writer looks at most, where looks find something, and at least.
const NEAR: u64 = 64;
const NEAREST: u64 = 8;
/// The same at most, where they don't.
const FAR: u64 = 1024;
/// How many entries looks pass on average for each delete at most.
const STEPS: u64 = 4;
/// One look passes this share of the memtable's deletes at most, but [`SHORT`] entries in any case.
const SHARE: u64 = 32;
const SHORT: u64 = 2048;
/// A run of more than this share of the memtable's deletes is long: of such ones there are so few
/// that a tree remembers all.
const LONG: u64 = 192;

/// The distance of looks that find something: small where few deletes are, so that the last of them
/// are looked at too.
fn near(deletes: u64) -> u64 {
    (deletes / 512).clamp(NEAREST, NEAR)
}

/// When the next look at a memtable's deletes is due.
pub struct Looks {
    /// At so many deletes; never while somebody looks.
    due: AtomicU64,
    /// The distance of looks in eighths of deletes: what long runs give varies much from one look
    /// to the next, so it grows slowly there.
    eighths: AtomicU64,
    /// How many entries looks have passed.
    passed: AtomicU64,
    /// At how many deletes the last look was.
    last: AtomicU64,
}

/// A look that the caller is to make.
struct LookBehind {
    /// So many entries far.
    most: u64,
    /// In both directions: looks have met long runs.
    is_close: bool,
}

impl Default for Looks {
    fn default() -> Looks {
        let [due, eighths, passed, last] = [NEAREST, 8 * NEAREST, 0, 0].map(AtomicU64::new);
        Looks { due, eighths, passed, last }
    }
}

impl Looks {
    /// Goes on where those of another memtable were, which nobody writes to.
    pub fn go_on_from(&self, before: &Looks) {
        let due = before.due.load(Ordering::Relaxed);
        // Somebody who looks will say so to the other one.
        self.due.store(if due == u64::MAX { NEAREST } else { due }, Ordering::Relaxed);
        self.eighths.store(before.eighths.load(Ordering::Relaxed), Ordering::Relaxed);
        self.passed.store(before.passed.load(Ordering::Relaxed), Ordering::Relaxed);
        self.last.store(before.last.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether one is due after so many deletes.
    #[inline]
    pub fn is_due(&self, deletes: u64) -> bool {
        deletes >= self.due.load(Ordering::Relaxed)
    }

    /// Whether the caller shall look; it must say what came of it.
    fn claim(&self, deletes: u64) -> Option<LookBehind> {
        let due = self.due.load(Ordering::Relaxed);
        let is_mine = deletes >= due
            && self
                .due
                .compare_exchange(due, u64::MAX, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        let left = (STEPS * deletes).saturating_sub(self.passed.load(Ordering::Relaxed));
        is_mine.then(|| LookBehind {
            most: left.min(SHORT.max(deletes / SHARE)),
            // Where deletes are few their number raises what is near by itself.
            is_close: self.eighths.load(Ordering::Relaxed) < 6 * near(deletes),
        })
    }

    /// A look at so many deletes has passed so many entries, where that was worth it.
    fn done(&self, deletes: u64, look: &LookBehind, passed: u64) {
        let (before, near) = (self.eighths.load(Ordering::Relaxed), near(deletes));
        self.passed.fetch_add(passed, Ordering::Relaxed);
        // Deletes from one end leave runs as long as looks are apart, which no closer ones need.
        let since = deletes.saturating_sub(self.last.swap(deletes, Ordering::Relaxed));
        let eighths = if passed >= (4 * near.max(since)).max(deletes / LONG) {
            8
        } else if look.is_close {
            before + 1
        } else if passed > 0 {
            8 * near
        } else {
            (2 * before).min(8 * FAR).min(deletes / 2).max(8 * near)
        };
        self.eighths.store(eighths, Ordering::Relaxed);
        // Any number that is not the same each time.
        let less = deletes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.due.store(deletes + eighths / 8 - less % (eighths / 16).max(1), Ordering::Relaxed);
    }
}

/// Notes what the deletes in the memtables of a tree have emptied, as far as up to `read`: for
/// those that were in the log. Nobody writes yet.
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
    pub(super) fn look_behind_batch<'m>(
        &self,
        bytes: &[u8],
        of: impl Fn(TreeId) -> Option<(&'m TreeCore, &'m MemHandle)>,
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
    fn look(&self, tree: &TreeCore, mem: &MemHandle, deletes: u64, key: &[u8]) {
        if let Some(look) = mem.looks.claim(deletes) {
            let passed = self.look_from(tree, key, &look);
            mem.looks.done(deletes, &look, passed.unwrap_or(0));
        }
    }

    /// Looks from a key that was deleted, and says how many entries it has passed, where that was
    /// worth it.
    fn look_from(&self, tree: &TreeCore, key: &[u8], look: &LookBehind) -> Result<u64> {
        let guard = epoch::pin();
        let (view, read) = TreeView::at_one_moment(tree, &self.visible, &guard);
        // Gaps have no longer bounds, and who records learns nothing from them.
        if look.most == 0 || key.len() >= LONGEST || view.meters.recorder.is_on() {
            return Ok(0);
        }
        let mut passed = 0;
        // A queue's head has moved from where the gap ends that is known: forward from there, for a
        // step backward costs three times as much.
        let mut from = vec![];
        if !look.is_close && tree.gaps.end_before(key, read, &mut from) {
            let mut seen = visible(view, VisibleRange::default(), read)?;
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
