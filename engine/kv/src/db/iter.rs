//! Walking the keys of a tree: [`Cursor`] (lends slices, fastest) and [`Range`] (a double-ended iterator of owned handles).
//!
//! Invariant: both see one state: the view and the read point are of [one moment](View::at_one_moment) and held until the end. Files and
//! memtables that they need stay until they are dropped.

use std::ops::RangeBounds;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::hash::key_hash;
use crate::base::key::{Seq, prefix_end};
use crate::base::sync::epoch;
use crate::merge::merging::Source;
use crate::merge::run::RunCursor;
use crate::merge::shadow::{Cover, Shadow};
use crate::merge::value::Value;
use crate::merge::visible::{KeyRange, Visible};

use super::Tree;
use super::explain;
use super::meters::Timed;
use super::snapshot::Snapshot;
use super::view::View;

/// The half-open form of any range.
pub fn key_range<K: AsRef<[u8]>>(range: impl RangeBounds<K>) -> KeyRange {
    KeyRange::new(range.start_bound().map(K::as_ref), range.end_bound().map(K::as_ref))
}

/// What a reader at `read` sees of `range`.
pub fn visible(view: &View, range: KeyRange, read: Seq) -> Result<Visible> {
    if view.meters.recorder.is_on() {
        return explain::visible(view, range, read);
    }
    // Most reads of a narrow range find one source, and room for four would be more than a kilobyte.
    let mut sources: Vec<Source> = Vec::with_capacity(1);
    let mut shadows = vec![];
    // Where nothing was deleted there is nothing to leap over, and nobody counts up who knows of it.
    let mut has_deletes = false;
    if !range.is_empty() {
        let hash = prefix_hash(view, &range);
        for m in view.memtables() {
            if m.mem.entries() > 0 && hash.is_none_or(|h| m.mem.may_contain_prefix(h)) {
                sources.push(Source::Mem(m.mem.cursor()));
            }
            has_deletes |= m.mem.deletes() > 0;
            shadows.extend(m.mem.deletions().into_iter().map(Cover::Mem));
        }
        let until = range.until.as_deref();
        for run in &view.version.runs {
            if !run.overlaps(&range.from, until) {
                continue;
            }
            if run.has_range_deletes(&range.from, until) {
                shadows.push(Cover::Run(run.clone()));
            }
            if hash.map_or(Ok(true), |h| run.may_contain(h, &range.from, until))? {
                has_deletes |= run.has_deletes();
                sources.push(Source::Run(RunCursor::new(run.clone(), true)));
            }
        }
    }
    has_deletes |= !shadows.is_empty();
    let mut visible = Visible::new(sources, read, Shadow::new(shadows, read), view.options.merge.clone(), range);
    if has_deletes {
        visible.use_gaps(view.gaps.clone());
    }
    Ok(visible)
}

/// Hash of the prefix that all keys of a range share, where filters hold prefixes.
#[inline]
pub(super) fn prefix_hash(view: &View, range: &KeyRange) -> Option<u64> {
    let (f, until) = view.options.filter_prefix.as_deref().zip(range.until.as_deref())?;
    f.shared_len(&range.from, until).map(|n| key_hash(&range.from[..n]))
}

/// A cursor over the keys of a range: moves both ways and lends out slices of the key and value it stands on.
///
/// A new cursor stands nowhere; position it with [`first`](Cursor::first), [`last`](Cursor::last), [`seek`](Cursor::seek) or
/// [`seek_before`](Cursor::seek_before). After an error it stands nowhere.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("firn-doc-cursor-{}", std::process::id()));
/// use firn_kv::{Db, TreeOptions};
/// let tree = Db::open(&dir)?.tree("t", TreeOptions::default())?;
/// for k in ["a", "b", "c"] {
///     tree.put(k.as_bytes(), b"")?;
/// }
/// let mut c = tree.cursor::<&[u8]>(..)?;
/// c.seek(b"bb")?;
/// assert_eq!(c.key(), b"c");
/// c.prev()?;
/// assert_eq!(c.key(), b"b");
/// # drop((c, tree)); std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_kv::Error>(())
/// ```
pub struct Cursor {
    inner: Visible,
    view: Arc<View>,
    _snapshot: Option<Snapshot>,
}

impl Cursor {
    #[inline]
    fn timed(&mut self, seek: impl FnOnce(&mut Visible) -> Result<()>) -> Result<()> {
        let began = self.view.meters.begin();
        let done = seek(&mut self.inner);
        self.view.meters.end(Timed::Seek, began);
        done
    }

    /// Whether it stands on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.inner.valid()
    }

    /// The key; empty when it stands nowhere.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.inner.valid() { self.inner.key() } else { &[] }
    }

    /// The value; empty when it stands nowhere.
    #[inline]
    pub fn value(&self) -> &[u8] {
        if self.inner.valid() { self.inner.value() } else { &[] }
    }

    /// To the first key of the range.
    ///
    /// # Errors
    /// This and all other moves: corruption and I/O errors of the tables read, and errors of the merge hook.
    pub fn first(&mut self) -> Result<()> {
        self.timed(Visible::first)
    }

    /// To the last key of the range.
    ///
    /// # Errors
    /// As [`first`](Cursor::first).
    pub fn last(&mut self) -> Result<()> {
        self.timed(Visible::last)
    }

    /// To the first key at or after `key`.
    ///
    /// # Errors
    /// As [`first`](Cursor::first).
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.timed(|v| v.seek(key))
    }

    /// To the last key before `key`.
    ///
    /// # Errors
    /// As [`first`](Cursor::first).
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.timed(|v| v.seek_before(key))
    }

    /// To the next key.
    ///
    /// # Errors
    /// As [`first`](Cursor::first).
    #[inline]
    #[allow(clippy::should_implement_trait)] // a cursor lends its key and value, which an Iterator cannot
    pub fn next(&mut self) -> Result<()> {
        self.inner.next()
    }

    /// To the previous key.
    ///
    /// # Errors
    /// As [`first`](Cursor::first).
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        self.inner.prev()
    }
}

/// An iterator over the keys of a range, from both ends. Items own handles on what holds their bytes.
///
/// An item is an error where a table cannot be read or the merge hook refuses, and for a tree that has been dropped before
/// ([`Closed`](crate::ErrorKind::Closed)); nothing comes after it. An iterator that was made before its tree was dropped goes on to its end.
pub struct Range {
    view: Arc<View>,
    range: KeyRange,
    read: Seq,
    front: Option<Visible>,
    back: Option<Visible>,
    done: bool,
    /// What is given instead of the first item: the tree was dropped, or is not this store's.
    refused: Option<Error>,
    _snapshot: Option<Snapshot>,
}

impl Range {
    fn step(&mut self, forward: bool) -> Result<Option<(Value, Value)>> {
        let slot = if forward { &mut self.front } else { &mut self.back };
        match slot {
            Some(v) if forward => v.next()?,
            Some(v) => v.prev()?,
            None => {
                let began = self.view.meters.begin();
                let v = slot.insert(visible(&self.view, self.range.clone(), self.read)?);
                let done = if forward { v.first() } else { v.last() };
                self.view.meters.end(Timed::Seek, began);
                done?
            }
        }
        let (Some(here), other) = (if forward { (&self.front, &self.back) } else { (&self.back, &self.front) }) else {
            return Ok(None);
        };
        let met = match other {
            Some(o) if o.valid() && here.valid() => {
                if forward {
                    here.key() >= o.key()
                } else {
                    here.key() <= o.key()
                }
            }
            _ => false,
        };
        if met || !here.valid() {
            self.done = true;
            return Ok(None);
        }
        Ok(Some((here.key().into(), here.pin_value())))
    }

    fn item(&mut self, forward: bool) -> Option<Result<(Value, Value)>> {
        if self.done {
            return None;
        }
        if let Some(e) = self.refused.take() {
            self.done = true;
            return Some(Err(e));
        }
        let item = self.step(forward).transpose();
        if matches!(item, Some(Err(_))) {
            self.done = true;
        }
        item
    }
}

impl Iterator for Range {
    type Item = Result<(Value, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.item(true)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.item(false)
    }
}

impl std::iter::FusedIterator for Range {}

impl Tree {
    pub(super) fn range_at(&self, range: KeyRange, snapshot: &Snapshot) -> Range {
        let mut range = self.range_of(range, self.core.view.load_full(), snapshot.seq(), Some(snapshot.clone()));
        range.refused = snapshot.check_own(self).err().or(range.refused);
        range
    }

    fn at_one_moment(&self) -> (Arc<View>, Seq) {
        let guard = epoch::pin();
        loop {
            let (view, read) = View::at_one_moment(&self.core, &self.handle.core.visible, &guard);
            let held = self.core.view.get_arc(&guard);
            if std::ptr::eq(view, &*held) {
                return (held, read);
            }
        }
    }

    fn range_of(&self, range: KeyRange, view: Arc<View>, read: Seq, snapshot: Option<Snapshot>) -> Range {
        let refused = self.core.check_live().err();
        Range { view, range, read, front: None, back: None, done: false, refused, _snapshot: snapshot }
    }

    pub(super) fn cursor_at(&self, range: KeyRange, snapshot: &Snapshot) -> Result<Cursor> {
        snapshot.check_own(self)?;
        let view = self.core.view.load_full();
        self.core.check_live()?;
        let inner = visible(&view, range, snapshot.seq())?;
        Ok(Cursor { inner, view, _snapshot: Some(snapshot.clone()) })
    }

    /// The keys of a range with their values, in order, from both ends.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-range-{}", std::process::id()));
    /// use firn_kv::{Db, TreeOptions};
    /// let tree = Db::open(&dir)?.tree("t", TreeOptions::default())?;
    /// for k in ["a", "b", "c"] {
    ///     tree.put(k.as_bytes(), b"v")?;
    /// }
    /// let last = tree.range("a".."c").next_back().unwrap()?;
    /// assert_eq!(&*last.0, b"b");
    /// assert_eq!(tree.range::<&[u8]>(..).count(), 3);
    /// # drop(last); drop(tree); std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range {
        let (view, read) = self.at_one_moment();
        self.range_of(key_range(range), view, read, None)
    }

    /// The keys that start with `prefix`, in order, from both ends.
    pub fn prefix(&self, prefix: &[u8]) -> Range {
        let (view, read) = self.at_one_moment();
        self.range_of(KeyRange { from: prefix.to_vec(), until: prefix_end(prefix) }, view, read, None)
    }

    /// All keys in order, from both ends.
    pub fn iter(&self) -> Range {
        self.range::<&[u8]>(..)
    }

    /// A cursor over a range.
    ///
    /// # Errors
    /// `Closed` when the tree was dropped; corruption and I/O errors of tables that hold range deletions.
    pub fn cursor<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Cursor> {
        let (view, read) = self.at_one_moment();
        self.core.check_live()?;
        Ok(Cursor { inner: visible(&view, key_range(range), read)?, view, _snapshot: None })
    }
}
