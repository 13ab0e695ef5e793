//! Search for the next visible key, forward and backward.

use crate::base::cursor::Cursor;
use crate::base::error::{Error, Result};
use crate::base::hooks::MergeResult;
use crate::base::key::{Kind, Seq, Trailer};

use crate::iterator::merging::MergeSource;
use crate::iterator::operands::OperandRun;
use crate::iterator::run_cursor::BlobLocation;
use crate::iterator::visible::fold::{blob_under_operands, fold};
use crate::iterator::visible::held::{At, PATIENCE, Visible, VisibleInner};
use crate::iterator::visible::walk::VisibleWalk;

impl Visible {
    /// Moves from the inner cursor's position to the first visible key.
    #[inline]
    pub(super) fn find_visible_forward(&mut self) -> Result<()> {
        if self.trusting && each!(&self.inner, c => c.valid()) && self.plain() {
            if !self.beyond() {
                self.at = At::Alone;
            }
            return Ok(());
        }
        self.find_visible_forward_checking()
    }

    pub(super) fn find_visible_forward_checking(&mut self) -> Result<()> {
        let (mut hidden, mut walk) = (0, VisibleWalk::from_noted(std::mem::take(&mut self.begun)));
        while each!(&self.inner, c => c.valid()) && !self.beyond() {
            let t = each!(&self.inner, c => c.trailer());
            if t.seq() > self.read {
                hidden += 1;
                if hidden > PATIENCE {
                    hidden = 0;
                    self.hold_key();
                    let at = Trailer::at(self.read);
                    each!(&mut self.inner, c => c.seek(&self.key, at))?;
                } else {
                    each!(&mut self.inner, c => c.next())?;
                }
                continue;
            }
            hidden = 0;
            if let Some(s) = self.shadow.covering(each!(&self.inner, c => c.key()))?
                && s > t.seq()
            {
                self.hold_key();
                if !self.skip_empty_range(&mut walk, true)? {
                    let empty = self.next_empty_range(&walk, true);
                    let ends = [self.shadow.until(), self.range.until.as_deref(), empty.as_deref()];
                    walk.steps +=
                        self.inner.pass_older(s, true, ends.into_iter().flatten().min())?;
                }
                continue;
            }
            match t.kind() {
                Some(Kind::Put) => {
                    self.complete()?;
                    self.at = At::Entry;
                    self.note_shown();
                    self.end_walk(&walk, true, true);
                    return Ok(());
                }
                Some(Kind::Blob) => {
                    self.complete()?;
                    self.fetch_blob(self.blob_location(), false)?;
                    self.at = At::Blob;
                    self.note_shown();
                    self.end_walk(&walk, true, true);
                    return Ok(());
                }
                Some(Kind::Delete) => {
                    self.hold_key();
                    if self.pass(&mut walk, true)? {
                        continue;
                    }
                    self.skip_held()?;
                    if walk.steps.is_multiple_of(PATIENCE.into()) {
                        self.inner.pass_deletes(true, self.range.until.as_deref())?;
                    }
                }
                Some(Kind::Merge) => {
                    self.end_walk(&std::mem::take(&mut walk), true, true);
                    if self.fold_forward()? {
                        self.at = At::Held;
                        self.note_shown();
                        return Ok(());
                    }
                    self.skip_held()?;
                }
                None => {
                    return Err(Error::corruption(format!(
                        "an entry of unknown kind {}",
                        t.0 as u8
                    )));
                }
            }
        }
        self.end_walk(&walk, true, false);
        Ok(())
    }

    /// Folds the operands from the current entry on. Returns `true` if the key has a value.
    pub(super) fn fold_forward(&mut self) -> Result<bool> {
        self.hold_key();
        self.operands.clear();
        let (mut base, mut run) = (None, OperandRun::default());
        let cover = self.shadow.covering(&self.key)?.unwrap_or(0);
        while each!(&self.inner, c => c.valid() && c.key() == self.key.as_slice()) {
            let t = each!(&self.inner, c => c.trailer());
            if t.seq() < cover {
                break;
            }
            // Operands are needed even if only keys are requested.
            each!(&mut self.inner, c => c.complete())?;
            let value = each!(&self.inner, c => c.value());
            match t.kind() {
                Some(Kind::Merge) => {
                    let operands = &mut self.operands;
                    let combined = match self.inner.current() {
                        MergeSource::Mem(c) => {
                            run.meet(c, &self.key, t.seq(), operands, self.merge.as_deref())
                        }
                        MergeSource::Run(_) => {
                            run.finish(&self.key, operands, self.merge.as_deref());
                            None
                        }
                    };
                    if let Some(oldest) = combined {
                        let below = Trailer::at(oldest.saturating_sub(1));
                        each!(&mut self.inner, c => c.seek(&self.key, below))?;
                        continue;
                    }
                    self.operands.push(value.to_vec());
                }
                Some(Kind::Put) => {
                    base = Some(value.to_vec());
                    break;
                }
                Some(Kind::Blob) => return Err(blob_under_operands(&self.key)),
                Some(Kind::Delete) | None => break,
            }
            each!(&mut self.inner, c => c.next())?;
        }
        run.finish(&self.key, &mut self.operands, self.merge.as_deref());
        self.operands.reverse();
        self.fold(base)
    }

    /// Folds `self.operands` (oldest first) over `base` into `self.value`. Returns `true` if the
    /// key has a value.
    pub(super) fn fold(&mut self, base: Option<Vec<u8>>) -> Result<bool> {
        let folded = fold(self.merge.as_deref(), &self.key, base.as_deref(), &self.operands)?;
        Ok(match folded {
            MergeResult::Value(v) => {
                self.value = v;
                true
            }
            MergeResult::Absent => {
                self.folded_away = true;
                false
            }
        })
    }

    /// Moves from the inner cursor's position backward to the first visible key.
    #[inline]
    pub(super) fn find_visible_backward(&mut self) -> Result<()> {
        if self.trusting && each!(&self.inner, c => c.valid()) && self.plain() {
            if !self.before() {
                self.at = At::Alone;
            }
            return Ok(());
        }
        self.find_visible_backward_checking()
    }

    pub(super) fn find_visible_backward_checking(&mut self) -> Result<()> {
        let mut walk = VisibleWalk::default();
        while each!(&self.inner, c => c.valid()) && !self.before() {
            self.hold_key();
            let h = each!(&self.inner, c => c.head());
            let cover = self.shadow.covering(&self.key)?.unwrap_or(0);
            if each!(&self.inner, c => c.trailer()).seq() < cover {
                if !self.skip_empty_range(&mut walk, false)? {
                    let empty = self.next_empty_range(&walk, false);
                    let from = self.shadow.from().max(&self.range.from);
                    let edge = empty.as_deref().map_or(from, |empty| empty.max(from));
                    walk.steps += self.inner.pass_older(cover, false, Some(edge))?;
                }
                continue;
            }
            // Versions come oldest first: a newer one replaces the state gathered from older ones.
            let (mut present, mut versions, mut merged) = (false, 0, false);
            self.operands.clear();
            self.is_blob = false;
            let mut place = None;
            while each!(&self.inner, c => c.valid() && c.head() == h && c.key() == self.key.as_slice())
            {
                versions += 1;
                if versions > PATIENCE {
                    (present, place) = self.newest_of_held(cover)?;
                    merged = !self.operands.is_empty();
                    self.operands.clear();
                    break;
                }
                let t = each!(&self.inner, c => c.trailer());
                if t.seq() <= self.read && t.seq() >= cover {
                    each!(&mut self.inner, c => c.complete())?;
                    let value = each!(&self.inner, c => c.value());
                    match t.kind() {
                        Some(Kind::Put) => {
                            self.operands.clear();
                            self.value.clear();
                            self.value.extend_from_slice(value);
                            self.is_blob = false;
                            present = true;
                        }
                        Some(Kind::Blob) => {
                            self.operands.clear();
                            place = self.blob_location();
                            self.is_blob = true;
                            present = true;
                        }
                        Some(Kind::Delete) => {
                            self.operands.clear();
                            present = false;
                        }
                        Some(Kind::Merge) => self.operands.push(value.to_vec()),
                        None => {
                            return Err(Error::corruption(format!(
                                "an entry of unknown kind {}",
                                t.0 as u8
                            )));
                        }
                    }
                }
                each!(&mut self.inner, c => c.prev())?;
            }
            if !self.operands.is_empty() {
                merged = true;
                if present && self.is_blob {
                    return Err(blob_under_operands(&self.key));
                }
                let base = present.then(|| std::mem::take(&mut self.value));
                present = self.fold(base)?;
            }
            if present || merged {
                self.end_walk(&std::mem::take(&mut walk), false, true);
            }
            if present {
                if self.is_blob {
                    self.fetch_blob(place, true)?;
                }
                self.at = if self.is_blob { At::HeldBlob } else { At::Held };
                self.note_shown();
                return Ok(());
            }
            if !merged
                && !self.pass(&mut walk, false)?
                && walk.steps.is_multiple_of(PATIENCE.into())
            {
                self.inner.pass_deletes(false, Some(&self.range.from))?;
            }
        }
        self.end_walk(&walk, false, false);
        Ok(())
    }

    /// Stores the newest visible value of the held key in `self.value` and moves the inner cursor
    /// before all its versions. `cover` is the newest range deletion of the key. Returns whether
    /// the key has a value, and the location if it is a blob. Costs two seeks, independent of the
    /// number of versions.
    fn newest_of_held(&mut self, cover: Seq) -> Result<(bool, Option<BlobLocation>)> {
        let (at, mut place) = (Trailer::at(self.read), None);
        each!(&mut self.inner, c => c.seek(&self.key, at))?;
        let mut present = false;
        self.is_blob = false;
        if each!(&self.inner, c => c.valid() && c.key() == self.key.as_slice() && c.trailer().seq() >= cover)
        {
            each!(&mut self.inner, c => c.complete())?;
            let t = each!(&self.inner, c => c.trailer());
            match t.kind() {
                Some(Kind::Put) => {
                    self.value.clear();
                    let value = each!(&self.inner, c => c.value());
                    self.value.extend_from_slice(value);
                    present = true;
                }
                Some(Kind::Blob) => {
                    place = self.blob_location();
                    self.is_blob = true;
                    present = true;
                }
                Some(Kind::Delete) => {}
                Some(Kind::Merge) => present = self.fold_forward()?,
                None => {
                    return Err(Error::corruption(format!(
                        "an entry of unknown kind {}",
                        t.0 as u8
                    )));
                }
            }
        }
        each!(&mut self.inner, c => c.seek_before(&self.key))?;
        Ok((present, place))
    }
}
