//! The visible entries of a merge: the newest version of each key at a read point, operands folded,
//! deletions left out.
//!
//! Invariants:
//! - Only keys in `[from, until)` are shown.
//! - `At::Entry`: the inner cursor stands on the entry that is shown, and key and value are read
//!   from it in place.
//! - `At::Held`: key and value are held here. After a step forward the inner cursor stands behind
//!   the first entries of the key, maybe on older versions of it; after a step backward it stands
//!   before all of them.
//! - A block that is *plain* (puts of distinct keys) of a lone source whose entries are all at or
//!   before the read point needs no checks at all: that is the path of a scan over a compacted
//!   tree.
//! - A *walk* passes what is not to be shown, up to a key that is, or the end. All keys from where
//!   it was noted to begin up to there show nothing at the read point, whatever their entries are;
//!   only operands, which a hook may fold to nothing, end a walk.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::cursor::Cursor;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hooks::{Folded, Merge};
use crate::base::key::{Kind, MAX_VALUE_LEN, Seq, Trailer, head};

use super::gaps::{Gaps, WORTH};
use super::merging::{MergeSource, Merging};
use super::shadow::RangeShadow;
use super::value::Value;
use walk::VisibleWalk;

/// After how many versions or deletes that must be passed over a seek is tried instead of steps.
const PATIENCE: u32 = 8;

/// A range of user keys, `[from, until)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisibleRange {
    /// First key of the range.
    pub from: Vec<u8>,
    /// First key after the range; `None` for no end.
    pub until: Option<Vec<u8>>,
}

fn successor(key: &[u8]) -> Vec<u8> {
    let mut k = Vec::with_capacity(key.len() + 1);
    k.extend_from_slice(key);
    k.push(0);
    k
}

impl VisibleRange {
    /// The same range with half-open bounds.
    pub fn new(start: Bound<&[u8]>, end: Bound<&[u8]>) -> VisibleRange {
        let from = match start {
            Bound::Included(k) => k.to_vec(),
            Bound::Excluded(k) => successor(k),
            Bound::Unbounded => vec![],
        };
        let until = match end {
            Bound::Included(k) => Some(successor(k)),
            Bound::Excluded(k) => Some(k.to_vec()),
            Bound::Unbounded => None,
        };
        VisibleRange { from, until }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && self.until.as_deref().is_none_or(|u| key < u)
    }

    /// Whether no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        self.until.as_deref().is_some_and(|u| u <= self.from.as_slice())
    }
}

enum VisibleInner {
    One(Box<MergeSource>),
    Many(Merging<MergeSource>),
}

macro_rules! each {
    ($self:expr, $c:ident => $e:expr) => {
        match $self {
            VisibleInner::One($c) => $e,
            VisibleInner::Many($c) => $e,
        }
    };
}

// Behind the macro, which it takes.
mod walk;

impl VisibleInner {
    #[inline]
    fn current(&self) -> &MergeSource {
        match self {
            VisibleInner::One(s) => s,
            VisibleInner::Many(m) => m.current(),
        }
    }

    fn pass_deletes(&mut self, forward: bool, bound: Option<&[u8]>) -> Result<()> {
        match self {
            VisibleInner::One(s) => s.pass_deletes(forward, bound).map(|_| ()),
            VisibleInner::Many(m) => m.pass_deletes(forward, bound),
        }
    }

    fn pass_older(&mut self, seq: Seq, forward: bool, edge: Option<&[u8]>) -> Result<u64> {
        match self {
            VisibleInner::One(s) => s.pass_older(seq, forward, edge),
            VisibleInner::Many(m) => m.pass_older(seq, forward, edge),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Nowhere,
    Entry,
    Held,
}

/// A cursor over what a reader sees.
pub struct Visible {
    inner: VisibleInner,
    read: Seq,
    shadow: RangeShadow,
    merge: Option<Arc<dyn Merge>>,
    range: VisibleRange,
    from_head: u64,
    until_head: u64,
    trusting: bool,
    at: At,
    forward: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    operands: Vec<Vec<u8>>,
    /// Counts the keys that are shown, where somebody records.
    shown: Option<Arc<AtomicU64>>,
    /// What others have learnt; `None` where nothing is deleted.
    gaps: Option<Arc<Gaps>>,
    start: Vec<u8>,
    /// The next walk begins at `start`.
    begun: bool,
    /// A walk is worth noting from so many steps on, and ends after so many.
    worth: u64,
    most: u64,
    /// Steps of its long walks.
    passed: u64,
    /// Whether it has met operands that came to nothing.
    folded_away: bool,
}

debug_by!(Visible, "Visible", read);

impl Visible {
    /// What a reader at `read` sees in `range` of `sources` (newest first). The cursor starts
    /// nowhere.
    pub fn new(
        mut sources: Vec<MergeSource>,
        read: Seq,
        shadow: RangeShadow,
        merge: Option<Arc<dyn Merge>>,
        range: VisibleRange,
    ) -> Visible {
        let trusting = sources.len() == 1 && shadow.is_empty();
        let inner = match sources.len() {
            1 => VisibleInner::One(Box::new(sources.remove(0))),
            _ => VisibleInner::Many(Merging::new(sources)),
        };
        Visible {
            inner,
            read,
            shadow,
            merge,
            from_head: head(&range.from),
            until_head: range.until.as_deref().map_or(u64::MAX, head),
            range,
            trusting,
            at: At::Nowhere,
            forward: true,
            key: vec![],
            value: vec![],
            operands: vec![],
            shown: None,
            gaps: None,
            start: vec![],
            begun: false,
            worth: WORTH,
            most: u64::MAX,
            passed: 0,
            folded_away: false,
        }
    }

    /// The same, which counts the keys that it shows. Its sources are none that are walked
    /// unchecked.
    pub fn counting(self, shown: Arc<AtomicU64>) -> Visible {
        Visible { shown: Some(shown), ..self }
    }

    #[inline]
    fn note_shown(&self) {
        if let Some(shown) = &self.shown {
            shown.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// From now on it leaps over what others have found empty, and notes what it finds empty
    /// itself.
    pub fn use_gaps(&mut self, gaps: Arc<Gaps>) {
        self.gaps = Some(gaps);
    }

    /// From now on it notes what it finds empty however little that is, and gives up a walk after
    /// about `most` steps: there it stands nowhere. It is good for one walk then.
    pub fn look_no_further(&mut self, most: u64) {
        (self.worth, self.most) = (PATIENCE.into(), most);
    }

    /// How many entries it has passed in walks that were long, roughly, and whether operands that a
    /// hook folds to nothing were among them, since [`forget_passed`](Self::forget_passed).
    pub fn passed(&self) -> (u64, bool) {
        (self.passed, self.folded_away)
    }

    /// Counts what it passes from now on.
    pub fn forget_passed(&mut self) {
        (self.passed, self.folded_away) = (0, false);
    }

    /// Whether the cursor stands on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.at != At::Nowhere
    }

    /// The key it stands on. Only while valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.at == At::Entry { each!(&self.inner, c => c.key()) } else { &self.key }
    }

    /// The value it stands on. Only while valid.
    #[inline]
    pub fn value(&self) -> &[u8] {
        if self.at == At::Entry { each!(&self.inner, c => c.value()) } else { &self.value }
    }

    /// The value as an owned handle, without copying where it lies in a block or a memtable.
    pub fn pin_value(&self) -> Value {
        if self.at != At::Entry {
            return self.value().into();
        }
        self.inner.current().pin_value().unwrap_or_else(|| self.value().into())
    }

    /// To the first key of the range that is at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        let key = if key < self.range.from.as_slice() { &self.range.from } else { key };
        self.forward = true;
        self.at = At::Nowhere;
        let at = Trailer::at(self.read);
        each!(&mut self.inner, c => c.seek(key, at))?;
        self.find_visible_forward()
    }

    /// To the first key of the range at or behind `end`, where a gap ends: what it finds empty from
    /// there on is noted as one with that.
    pub fn seek_behind(&mut self, end: &[u8]) -> Result<()> {
        self.start.clear();
        self.start.extend_from_slice(end);
        self.begun = true;
        self.seek(end)?;
        self.begun = false;
        Ok(())
    }

    /// To the last key of the range that is before `key`.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let key = match &self.range.until {
            Some(u) if u.as_slice() < key => u,
            _ => key,
        };
        self.forward = false;
        self.at = At::Nowhere;
        each!(&mut self.inner, c => c.seek_before(key))?;
        self.find_visible_backward()
    }

    /// To the first key of the range.
    pub fn first(&mut self) -> Result<()> {
        let from = std::mem::take(&mut self.range.from);
        self.forward = true;
        self.at = At::Nowhere;
        let at = Trailer::at(self.read);
        let done = if from.is_empty() {
            each!(&mut self.inner, c => c.first())
        } else {
            each!(&mut self.inner, c => c.seek(&from, at))
        };
        self.range.from = from;
        done?;
        self.find_visible_forward()
    }

    /// To the last key of the range.
    pub fn last(&mut self) -> Result<()> {
        self.forward = false;
        self.at = At::Nowhere;
        match &self.range.until {
            Some(u) => each!(&mut self.inner, c => c.seek_before(u)),
            None => each!(&mut self.inner, c => c.last()),
        }?;
        self.find_visible_backward()
    }

    /// To the next key. Does nothing when it stands nowhere.
    #[inline]
    #[allow(clippy::should_implement_trait)] // a cursor lends its key and value, which an Iterator cannot
    pub fn next(&mut self) -> Result<()> {
        if self.trusting && self.at == At::Entry && self.plain() {
            self.at = At::Nowhere;
            self.forward = true;
            each!(&mut self.inner, c => c.next())?;
            return self.find_visible_forward();
        }
        self.next_slow()
    }

    fn next_slow(&mut self) -> Result<()> {
        let at = std::mem::replace(&mut self.at, At::Nowhere);
        match at {
            At::Nowhere => return Ok(()),
            At::Entry => self.hold_key(),
            At::Held => {}
        }
        if !self.forward {
            self.forward = true;
            let key = std::mem::take(&mut self.key);
            let done = each!(&mut self.inner, c => c.seek(&key, Trailer(0)));
            self.key = key;
            done?;
        } else {
            if at == At::Entry {
                each!(&mut self.inner, c => c.next())?;
            }
            self.skip_held()?;
        }
        self.find_visible_forward()
    }

    /// To the previous key. Does nothing when it stands nowhere.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if self.trusting && self.at == At::Entry && self.plain() {
            self.at = At::Nowhere;
            self.forward = false;
            each!(&mut self.inner, c => c.prev())?;
            return self.find_visible_backward();
        }
        self.prev_slow()
    }

    fn prev_slow(&mut self) -> Result<()> {
        let at = std::mem::replace(&mut self.at, At::Nowhere);
        match at {
            At::Nowhere => return Ok(()),
            At::Entry => self.hold_key(),
            At::Held if !self.forward => return self.find_visible_backward(),
            At::Held => {}
        }
        self.forward = false;
        let key = std::mem::take(&mut self.key);
        let done = each!(&mut self.inner, c => c.seek_before(&key));
        self.key = key;
        done?;
        self.find_visible_backward()
    }

    #[inline]
    fn plain(&self) -> bool {
        match &self.inner {
            VisibleInner::One(s) => {
                matches!(&**s, MergeSource::Run(r) if r.plain_up_to().is_some_and(|s| s <= self.read))
            }
            VisibleInner::Many(_) => false,
        }
    }

    #[inline]
    fn hold_key(&mut self) {
        self.key.clear();
        let k = each!(&self.inner, c => c.key());
        self.key.extend_from_slice(k);
    }

    /// Passes over what is left of the held key.
    fn skip_held(&mut self) -> Result<()> {
        let h = head(&self.key);
        let mut passed = 0;
        each!(&mut self.inner, c => {
            while c.valid() && c.head() == h && c.key() == self.key.as_slice() {
                passed += 1;
                if passed > PATIENCE {
                    return c.seek(&self.key, Trailer(0));
                }
                c.next()?;
            }
        });
        Ok(())
    }

    #[inline]
    fn beyond(&self) -> bool {
        let h = each!(&self.inner, c => c.head());
        if h < self.until_head {
            return false;
        }
        self.range.until.as_deref().is_some_and(|u| each!(&self.inner, c => c.key()) >= u)
    }

    #[inline]
    fn before(&self) -> bool {
        let h = each!(&self.inner, c => c.head());
        h <= self.from_head && each!(&self.inner, c => c.key()) < self.range.from.as_slice()
    }

    /// From where the inner cursor stands to the first key that is to be shown.
    #[inline]
    fn find_visible_forward(&mut self) -> Result<()> {
        if self.trusting && each!(&self.inner, c => c.valid()) && self.plain() {
            if !self.beyond() {
                self.at = At::Entry;
            }
            return Ok(());
        }
        self.find_visible_forward_checking()
    }

    fn find_visible_forward_checking(&mut self) -> Result<()> {
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
                if !self.leap(&mut walk, true)? {
                    let ends = [self.shadow.until(), self.range.until.as_deref()];
                    walk.steps +=
                        self.inner.pass_older(s, true, ends.into_iter().flatten().min())?;
                }
                continue;
            }
            match t.kind() {
                Some(Kind::Put) => {
                    self.at = At::Entry;
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

    /// Folds the operands from the current entry on. True when the key has a value.
    fn fold_forward(&mut self) -> Result<bool> {
        self.hold_key();
        self.operands.clear();
        let mut base = None;
        let cover = self.shadow.covering(&self.key)?.unwrap_or(0);
        while each!(&self.inner, c => c.valid() && c.key() == self.key.as_slice()) {
            let t = each!(&self.inner, c => c.trailer());
            if t.seq() < cover {
                break;
            }
            let value = each!(&self.inner, c => c.value());
            match t.kind() {
                Some(Kind::Merge) => self.operands.push(value.to_vec()),
                Some(Kind::Put) => {
                    base = Some(value.to_vec());
                    break;
                }
                _ => break,
            }
            each!(&mut self.inner, c => c.next())?;
        }
        self.operands.reverse();
        self.fold(base)
    }

    /// Folds `self.operands` (oldest first) over `base` into `self.value`. True when the key has a
    /// value.
    fn fold(&mut self, base: Option<Vec<u8>>) -> Result<bool> {
        let folded = fold(self.merge.as_deref(), &self.key, base.as_deref(), &self.operands)?;
        Ok(match folded {
            Folded::Value(v) => {
                self.value = v;
                true
            }
            Folded::Absent => {
                self.folded_away = true;
                false
            }
        })
    }

    /// From where the inner cursor stands backward to the first key that is to be shown.
    #[inline]
    fn find_visible_backward(&mut self) -> Result<()> {
        if self.trusting && each!(&self.inner, c => c.valid()) && self.plain() {
            if !self.before() {
                self.at = At::Entry;
            }
            return Ok(());
        }
        self.find_visible_backward_checking()
    }

    fn find_visible_backward_checking(&mut self) -> Result<()> {
        let mut walk = VisibleWalk::default();
        while each!(&self.inner, c => c.valid()) && !self.before() {
            self.hold_key();
            let h = each!(&self.inner, c => c.head());
            let cover = self.shadow.covering(&self.key)?.unwrap_or(0);
            if each!(&self.inner, c => c.trailer()).seq() < cover {
                if !self.leap(&mut walk, false)? {
                    walk.steps += self.inner.pass_older(
                        cover,
                        false,
                        Some(self.shadow.from().max(&self.range.from)),
                    )?;
                }
                continue;
            }
            // Versions come oldest first: a newer one replaces what was gathered from older ones.
            let (mut present, mut versions, mut merged) = (false, 0, false);
            self.operands.clear();
            while each!(&self.inner, c => c.valid() && c.head() == h && c.key() == self.key.as_slice())
            {
                versions += 1;
                if versions > PATIENCE {
                    present = self.newest_of_held(cover)?;
                    merged = !self.operands.is_empty();
                    self.operands.clear();
                    break;
                }
                let t = each!(&self.inner, c => c.trailer());
                if t.seq() <= self.read && t.seq() >= cover {
                    let value = each!(&self.inner, c => c.value());
                    match t.kind() {
                        Some(Kind::Put) => {
                            self.operands.clear();
                            self.value.clear();
                            self.value.extend_from_slice(value);
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
                let base = present.then(|| std::mem::take(&mut self.value));
                present = self.fold(base)?;
            }
            if present || merged {
                self.end_walk(&std::mem::take(&mut walk), false, true);
            }
            if present {
                self.at = At::Held;
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

    /// Puts the value of the held key into `self.value`, given the newest range deletion of it, and
    /// the inner cursor before all its versions. True when it has one. Costs two seeks, however
    /// many versions there are.
    fn newest_of_held(&mut self, cover: Seq) -> Result<bool> {
        let at = Trailer::at(self.read);
        each!(&mut self.inner, c => c.seek(&self.key, at))?;
        let mut present = false;
        if each!(&self.inner, c => c.valid() && c.key() == self.key.as_slice() && c.trailer().seq() >= cover)
        {
            let t = each!(&self.inner, c => c.trailer());
            match t.kind() {
                Some(Kind::Put) => {
                    self.value.clear();
                    let value = each!(&self.inner, c => c.value());
                    self.value.extend_from_slice(value);
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
        Ok(present)
    }
}

/// Folds operands (oldest first) over a base by the tree's hook.
pub fn fold(
    merge: Option<&dyn Merge>,
    key: &[u8],
    base: Option<&[u8]>,
    operands: &[Vec<u8>],
) -> Result<Folded> {
    let Some(merge) = merge else {
        let words = "the tree holds merge operands; open it with its merge hook";
        return Err(Error::new(ErrorKind::Incompatible, words).keys(key, key));
    };
    let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
    let folded = merge.fold(key, base, &operands)?;
    match &folded {
        // No table takes it: merges keep the operands, and readers are told.
        Folded::Value(v) if v.len() > MAX_VALUE_LEN => {
            let words = format!(
                "the merge hook {:?} made a value of {} bytes; one has {MAX_VALUE_LEN} at most: put or delete the key to go on",
                merge.name(),
                v.len()
            );
            Err(Error::invalid(words).keys(key, key))
        }
        _ => Ok(folded),
    }
}
