//! The walk of a cursor to the next visible key: it leaps over gaps that
//! others know, and notes those that it finds.

use super::held::{PATIENCE, Visible, VisibleInner};
use super::range::successor;
use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::key::{Trailer, head};
use crate::merge::gaps::{LONGEST, WORTH};

/// After how many steps it looks for a gap first, and behind one. As long as it finds none it looks
/// half as often each time, but after [`WORTH`] steps at least.
const FIRST: u64 = if WORTH < PATIENCE as u64 { WORTH } else { PATIENCE as u64 };

/// What a cursor has passed since it was moved.
pub(super) struct VisibleWalk {
    /// How many entries, roughly.
    pub steps: u64,
    /// It looks for a gap after so many, and how long it has waited for that.
    due: u64,
    pause: u64,
    /// Gaps that it leapt over.
    leaps: u32,
    /// Whether `start` says where it began, roughly.
    noted: bool,
}

impl Default for VisibleWalk {
    fn default() -> VisibleWalk {
        VisibleWalk { steps: 0, due: FIRST, pause: FIRST, leaps: 0, noted: false }
    }
}

impl VisibleWalk {
    /// One that begins where `start` says already, or not.
    pub(super) fn from_noted(noted: bool) -> VisibleWalk {
        VisibleWalk { noted, ..VisibleWalk::default() }
    }
}

impl Visible {
    /// The held key is not to be shown, and counts as a step. True when the cursor stands behind a
    /// gap now that it was in.
    #[inline]
    pub(super) fn pass(&mut self, walk: &mut VisibleWalk, forward: bool) -> Result<bool> {
        walk.steps += 1;
        if walk.steps >= walk.due { self.skip_empty_range(walk, forward) } else { Ok(false) }
    }

    #[inline(never)]
    pub(super) fn skip_empty_range(
        &mut self,
        walk: &mut VisibleWalk,
        forward: bool,
    ) -> Result<bool> {
        let Some(gaps) = &self.gaps else { return Ok(false) };
        if !walk.noted {
            walk.noted = true;
            self.start.clone_from(&self.key);
        }
        if walk.steps >= self.most {
            self.give_up(forward);
            return Ok(true);
        }
        let mut to = vec![];
        let has_leapt = gaps.skip_empty_range(&self.key, forward, self.read, &mut to);
        walk.pause = if has_leapt { FIRST } else { (2 * walk.pause).min(WORTH) };
        walk.due = walk.steps + walk.pause;
        if !has_leapt {
            return Ok(false);
        }
        walk.leaps += 1;
        let at = Trailer::at(self.read);
        if forward {
            each!(&mut self.inner, c => c.seek(&to, at))?;
        } else {
            each!(&mut self.inner, c => c.seek_before(&to))?;
        }
        Ok(true)
    }

    /// Where a walk that goes on from the held key comes to its first gap. It need not leap over
    /// others: what it passes becomes one with all of them.
    pub(super) fn next_gap(&self, walk: &VisibleWalk, forward: bool) -> Option<Vec<u8>> {
        let gaps = self.gaps.as_ref().filter(|_| walk.leaps == 0)?;
        let mut at = vec![];
        gaps.nearest(&self.key, forward, self.read, &mut at).then_some(at)
    }

    /// Ends the range at the held key. Forward it is not to be shown. Backward nobody knows yet: a
    /// range deletion may have hidden its oldest version only, so the walk ends behind it.
    fn give_up(&mut self, forward: bool) {
        if forward {
            self.until_head = head(&self.key);
            self.range.until = Some(self.key.clone());
        } else {
            self.key.push(0);
            self.range.from.clone_from(&self.key);
            self.from_head = head(&self.range.from);
        }
    }

    /// Notes what was passed where that is worth it. A walk forward has `found` the key that the
    /// inner cursor stands on, one backward the held key, or the end of the range.
    #[inline]
    pub(super) fn end_walk(&mut self, walk: &VisibleWalk, forward: bool, found: bool) {
        if walk.steps >= self.worth || walk.leaps > 1 {
            self.learn(walk, forward, found);
        }
    }

    #[cold]
    fn learn(&mut self, walk: &VisibleWalk, forward: bool, found: bool) {
        self.passed += walk.steps;
        let Some(gaps) = self.gaps.as_ref().filter(|_| walk.noted) else { return };
        // Two gaps that were leapt over are worth to be one.
        let steps = walk.steps.max(WORTH);
        match (forward, found) {
            (true, true) => {
                gaps.learn(&self.start, each!(&self.inner, c => c.key()), self.read, steps)
            }
            (true, false) => gaps.learn(&self.start, &self.end_of_passed(), self.read, steps),
            (false, true) => {
                gaps.learn(&successor(&self.key), &successor(&self.start), self.read, steps)
            }
            (false, false) => {
                gaps.learn(self.start_of_passed(), &successor(&self.start), self.read, steps)
            }
        }
    }

    /// Where what a walk forward has passed ends, when it met the end of the range: behind the key
    /// that it held last. Where a range deletion covers that key, the walk has passed all others
    /// that it covers, too. The rest of the range is as empty, but puts behind all that was deleted
    /// should have no gap to cut.
    fn end_of_passed(&self) -> Vec<u8> {
        let behind = successor(&self.key);
        let covered = self.shadow.covered().map(|(_, until)| match &self.range.until {
            Some(end) => until.min(end),
            None => until,
        });
        match covered.filter(|end| end.len() <= LONGEST) {
            Some(end) => behind.max(end.into()),
            None => behind,
        }
    }

    /// The same backward: where it begins.
    fn start_of_passed(&self) -> &[u8] {
        let covered = self.shadow.covered().map(|(from, _)| from.max(&self.range.from));
        covered.filter(|from| from.len() <= LONGEST).map_or(&self.key, |from| from.min(&self.key))
    }
}
