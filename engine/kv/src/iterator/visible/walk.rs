//! Moves an iterator to the next visible key: skips empty ranges that other readers recorded, and
//! records new ones.

use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::key::{Trailer, head};
use crate::iterator::empty_range_cache::{MAX_BOUND_LEN, MIN_STEPS};
use crate::iterator::visible::held::{PATIENCE, Visible, VisibleInner};
use crate::iterator::visible::range::successor;

/// Number of steps before the first cache lookup, and before the one after an empty range. Without
/// a hit the interval doubles each time, up to [`MIN_STEPS`] steps.
const FIRST: u64 = if MIN_STEPS < PATIENCE as u64 { MIN_STEPS } else { PATIENCE as u64 };

/// Entries that an iterator has passed since it was moved.
pub(super) struct VisibleWalk {
    /// Approximate number of entries.
    pub steps: u64,
    /// Step count of the next cache lookup, and the current interval between lookups.
    due: u64,
    pause: u64,
    /// Number of skipped empty ranges.
    skips: u32,
    /// Whether `start` contains the approximate start of the walk.
    noted: bool,
}

impl Default for VisibleWalk {
    fn default() -> VisibleWalk {
        VisibleWalk { steps: 0, due: FIRST, pause: FIRST, skips: 0, noted: false }
    }
}

impl VisibleWalk {
    /// Creates a walk; `noted` is set if `start` already contains its start.
    pub(super) fn from_noted(noted: bool) -> VisibleWalk {
        VisibleWalk { noted, ..VisibleWalk::default() }
    }
}

impl Visible {
    /// Counts the held key, which is hidden, as a step. Returns `true` if that key was in an empty
    /// range and the cursor is now after it.
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
        let Some(empty_ranges) = &self.empty_ranges else { return Ok(false) };
        if !walk.noted {
            walk.noted = true;
            self.start.clone_from(&self.key);
        }
        if walk.steps >= self.most {
            self.give_up(forward);
            return Ok(true);
        }
        let mut to = vec![];
        let has_skipped = empty_ranges.skip_empty_range(&self.key, forward, self.read, &mut to);
        walk.pause = if has_skipped { FIRST } else { (2 * walk.pause).min(MIN_STEPS) };
        walk.due = walk.steps + walk.pause;
        if !has_skipped {
            return Ok(false);
        }
        walk.skips += 1;
        let at = Trailer::at(self.read);
        if forward {
            each!(&mut self.inner, c => c.seek(&to, at))?;
        } else {
            each!(&mut self.inner, c => c.seek_before(&to))?;
        }
        Ok(true)
    }

    /// Returns the start of the first empty range in the way of a walk from the held key. The walk
    /// need not skip other empty ranges: they merge with the range that it passes.
    pub(super) fn next_empty_range(&self, walk: &VisibleWalk, forward: bool) -> Option<Vec<u8>> {
        let empty_ranges = self.empty_ranges.as_ref().filter(|_| walk.skips == 0)?;
        let mut at = vec![];
        empty_ranges.nearest(&self.key, forward, self.read, &mut at).then_some(at)
    }

    /// Ends the range at the held key. Forward that key is hidden. Backward its state is unknown,
    /// because a range deletion may have hidden only its oldest version. So the walk ends after it.
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

    /// Records the passed range if it is worth it. If a key was `found`, it is the inner cursor's
    /// key for a forward walk, and the held key for a backward one. Otherwise the walk met the end
    /// of the range.
    #[inline]
    pub(super) fn end_walk(&mut self, walk: &VisibleWalk, forward: bool, found: bool) {
        if walk.steps >= self.worth || walk.skips > 1 {
            self.learn(walk, forward, found);
        }
    }

    #[cold]
    fn learn(&mut self, walk: &VisibleWalk, forward: bool, found: bool) {
        self.passed += walk.steps;
        let Some(empty_ranges) = self.empty_ranges.as_ref().filter(|_| walk.noted) else { return };
        // Two skipped empty ranges are worth merging.
        let steps = walk.steps.max(MIN_STEPS);
        match (forward, found) {
            (true, true) => {
                empty_ranges.learn(&self.start, each!(&self.inner, c => c.key()), self.read, steps)
            }
            (true, false) => {
                empty_ranges.learn(&self.start, &self.end_of_passed(), self.read, steps)
            }
            (false, true) => {
                empty_ranges.learn(&successor(&self.key), &successor(&self.start), self.read, steps)
            }
            (false, false) => empty_ranges.learn(
                self.start_of_passed(),
                &successor(&self.start),
                self.read,
                steps,
            ),
        }
    }

    /// Returns the end of the range that a forward walk passed before the end of the iterator's
    /// range. This is just after the key held last. If a range deletion covers that key, the walk
    /// has passed all other keys that it covers too. The rest of the range is also empty. It is
    /// left out so that puts after all deleted keys have no empty range to cut.
    fn end_of_passed(&self) -> Vec<u8> {
        let behind = successor(&self.key);
        let covered = self.shadow.covered().map(|(_, until)| match &self.range.until {
            Some(end) => until.min(end),
            None => until,
        });
        match covered.filter(|end| end.len() <= MAX_BOUND_LEN) {
            Some(end) => behind.max(end.into()),
            None => behind,
        }
    }

    /// Returns the start of the range that a backward walk passed before the start of the
    /// iterator's range.
    fn start_of_passed(&self) -> &[u8] {
        let covered = self.shadow.covered().map(|(from, _)| from.max(&self.range.from));
        covered
            .filter(|from| from.len() <= MAX_BOUND_LEN)
            .map_or(&self.key, |from| from.min(&self.key))
    }
}
