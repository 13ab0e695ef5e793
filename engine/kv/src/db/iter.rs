//! Walking the keys of a tree: [`Cursor`] (lends slices, fastest) and [`Range`] (a double-ended
//! iterator of owned handles).
//!
//! Invariant: both see one state: the view and the read point are of [one
//! moment](TreeView::at_one_moment) and held until the end. Files and memtables that they need stay
//! until they are dropped.

use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::hash::key_hash;
use crate::base::key::Seq;
use crate::base::reads::is_looked_at;
use crate::base::sync::epoch;
use crate::merge::merging::MergeSource;
use crate::merge::run::{RunCursor, TableRun};
use crate::merge::shadow::{Cover, RangeShadow};
use crate::merge::value::Value;
use crate::merge::visible::{Visible, VisibleRange};

use super::Tree;
use super::bounds::{KeyBounds, key_range};
use super::explain;
use super::meters::TimedCall;
use super::readable::{Entry, prefix_range};
use super::snapshot::Snapshot;
use super::txn::Overlay;
use super::view::TreeView;

/// What a reader at `read` sees of `range`.
pub fn visible(view: &TreeView, range: VisibleRange, read: Seq) -> Result<Visible> {
    if view.meters.recorder.is_on() {
        return explain::visible(view, range, read);
    }
    // Most reads of a narrow range find one source, and room for four would be more than a
    // kilobyte.
    let mut sources: Vec<MergeSource> = Vec::with_capacity(1);
    let mut shadows = vec![];
    // Where nothing was deleted there is nothing to leap over, and nobody counts up who knows of
    // it.
    let mut has_deletes = false;
    if !range.is_empty() {
        let hash = prefix_hash(view, &range);
        for m in view.memtables() {
            if m.mem.entries() > 0 && hash.is_none_or(|h| m.mem.may_contain_prefix(h)) {
                sources.push(MergeSource::Mem(m.mem.cursor()));
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
            if hash.map_or(Ok(true), |h| ask_filters(view, run, h, &range.from, until))? {
                has_deletes |= run.has_deletes();
                sources.push(MergeSource::Run(RunCursor::new(run.clone(), true)));
            }
        }
    }
    has_deletes |= !shadows.is_empty();
    let mut visible = Visible::new(
        sources,
        read,
        RangeShadow::new(shadows, read),
        view.options.merge.clone(),
        range,
    );
    if has_deletes {
        visible.use_gaps(view.gaps.clone());
    }
    Ok(visible)
}

/// Whether the filters of a run leave it possible that it has keys of a range with this hash of
/// their prefix.
fn ask_filters(
    view: &TreeView,
    run: &TableRun,
    hash: u64,
    from: &[u8],
    until: Option<&[u8]>,
) -> Result<bool> {
    let maybe = run.may_contain(hash, from, until)?;
    if is_looked_at() {
        view.reads.asked_filter(maybe);
    }
    Ok(maybe)
}

/// Hash of the prefix that all keys of a range share, where filters hold prefixes.
#[inline]
pub(super) fn prefix_hash(view: &TreeView, range: &VisibleRange) -> Option<u64> {
    let (f, until) = view.options.filter_prefix.as_deref().zip(range.until.as_deref())?;
    f.shared_len(&range.from, until).map(|n| key_hash(&range.from[..n]))
}

/// A cursor over the keys of a range: moves both ways and lends out slices of the key and value it
/// stands on.
///
/// A new cursor stands nowhere; position it with [`first`](Cursor::first), [`last`](Cursor::last),
/// [`seek`](Cursor::seek) or [`seek_before`](Cursor::seek_before). After an error it stands
/// nowhere.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("firn-doc-cursor-{}", std::process::id()));
/// use firn_kv::{Db, TreeOptions};
/// let tree = Db::open(&dir)?.tree("t", TreeOptions::default())?;
/// for k in ["a", "b", "c"] {
///     tree.put(k, "")?;
/// }
/// let mut c = tree.cursor(..)?;
/// c.seek("bb")?;
/// assert_eq!(c.key(), b"c");
/// c.prev()?;
/// assert_eq!(c.key(), b"b");
/// # drop((c, tree)); std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_kv::Error>(())
/// ```
pub struct Cursor {
    inner: Visible,
    view: Arc<TreeView>,
    _snapshot: Option<Snapshot>,
}

impl Cursor {
    /// The name of its tree.
    pub(super) fn tree(&self) -> &str {
        &self.view.name
    }

    #[inline]
    fn timed(&mut self, seek: impl FnOnce(&mut Visible) -> Result<()>) -> Result<()> {
        let turn = self.view.meters.begin();
        let done = seek(&mut self.inner);
        self.view.meters.end(TimedCall::Seek, turn);
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
    /// This and all other moves: corruption and I/O errors of the tables read, and errors of the
    /// merge hook.
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
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.timed(|v| v.seek(key))
    }

    /// To the last key before `key`.
    ///
    /// # Errors
    /// As [`first`](Cursor::first).
    pub fn seek_before(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
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

/// An iterator over the keys of a range with their values, from both ends. Items own handles on
/// what holds their bytes.
///
/// An item is an error where a table cannot be read or the merge hook refuses, and for a tree that
/// has been dropped before ([`Closed`](crate::ErrorKind::Closed)); nothing comes after it. An
/// iterator that was made before its tree was dropped goes on to its end.
pub struct Range {
    pub(super) view: Arc<TreeView>,
    pub(super) range: VisibleRange,
    pub(super) read: Seq,
    pub(super) front: Option<Visible>,
    pub(super) back: Option<Visible>,
    pub(super) done: bool,
    /// What is given instead of the first item: the tree was dropped, or is not this store's.
    refused: Option<Error>,
    /// What the transaction that is read in has written itself.
    pub(super) overlay: Option<Box<Overlay>>,
    _snapshot: Option<Snapshot>,
}

/// An entry that an iterator stands on.
pub(super) enum Here<'a> {
    Seen(&'a Visible),
    Own(&'a [u8], &'a [u8]),
}

impl Here<'_> {
    fn key(&self) -> Value {
        match self {
            Here::Seen(v) => v.key().into(),
            Here::Own(key, _) => (*key).into(),
        }
    }

    fn entry(&self) -> Entry {
        let value = match self {
            Here::Seen(v) => v.pin_value(),
            Here::Own(_, value) => (*value).into(),
        };
        (self.key(), value)
    }
}

impl Range {
    /// Only the keys of it: values are not touched, so those of blocks and memtables are not pinned
    /// and nothing is copied.
    pub fn keys(self) -> Keys {
        Keys(self)
    }

    /// The same, which gives an error instead of its first item, if there is one.
    pub(super) fn refuse(mut self, error: Option<Error>) -> Range {
        self.refused = error.or(self.refused);
        self
    }

    /// Opens the cursor of one end, on the first entry from there.
    pub(super) fn open(&mut self, forward: bool) -> Result<&mut Visible> {
        let slot = if forward { &mut self.front } else { &mut self.back };
        let turn = self.view.meters.begin();
        let v = slot.insert(visible(&self.view, self.range.clone(), self.read)?);
        let done = if forward { v.first() } else { v.last() };
        self.view.meters.end(TimedCall::Seek, turn);
        done.map(|()| v)
    }

    fn step<T>(&mut self, forward: bool, take: impl FnOnce(Here<'_>) -> T) -> Result<Option<T>> {
        match if forward { &mut self.front } else { &mut self.back } {
            Some(v) if forward => v.next()?,
            Some(v) => v.prev()?,
            None => drop(self.open(forward)?),
        }
        let (Some(here), other) =
            (if forward { (&self.front, &self.back) } else { (&self.back, &self.front) })
        else {
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
        Ok(Some(take(Here::Seen(here))))
    }

    fn item<T>(&mut self, forward: bool, take: impl FnOnce(Here<'_>) -> T) -> Option<Result<T>> {
        if self.done {
            return None;
        }
        if let Some(e) = self.refused.take() {
            self.done = true;
            return Some(Err(e));
        }
        let item = if self.overlay.is_none() {
            self.step(forward, take)
        } else {
            self.step_in_transaction(forward, take)
        };
        if item.is_err() {
            self.done = true;
        }
        item.transpose()
    }
}

impl Iterator for Range {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.item(true, |here| here.entry())
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.item(false, |here| here.entry())
    }
}

impl std::iter::FusedIterator for Range {}

/// An iterator over keys, from both ends: a [`Range`] without the values.
pub struct Keys(pub(super) Range);

impl Iterator for Keys {
    type Item = Result<Value>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.item(true, |here| here.key())
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.item(false, |here| here.key())
    }
}

impl std::iter::FusedIterator for Keys {}

impl IntoIterator for &Tree {
    type Item = Result<Entry>;
    type IntoIter = Range;

    fn into_iter(self) -> Range {
        self.iter()
    }
}

impl Tree {
    pub(super) fn range_at(&self, range: VisibleRange, snapshot: &Snapshot) -> Range {
        let range = self.range_of(
            range,
            self.core.view.load_full(),
            snapshot.seq(),
            Some(snapshot.clone()),
        );
        range.refuse(snapshot.check_own(self).err())
    }

    pub(super) fn range_now(&self, range: VisibleRange) -> Range {
        let (view, read) = self.at_one_moment();
        self.range_of(range, view, read, None)
    }

    fn at_one_moment(&self) -> (Arc<TreeView>, Seq) {
        let guard = epoch::pin();
        loop {
            let (view, read) =
                TreeView::at_one_moment(&self.core, &self.handle.core.visible, &guard);
            let held = self.core.view.get_arc(&guard);
            if std::ptr::eq(view, &*held) {
                return (held, read);
            }
        }
    }

    fn range_of(
        &self,
        range: VisibleRange,
        view: Arc<TreeView>,
        read: Seq,
        snapshot: Option<Snapshot>,
    ) -> Range {
        let refused = self.core.check_live().err();
        Range {
            view,
            range,
            read,
            front: None,
            back: None,
            done: false,
            refused,
            overlay: None,
            _snapshot: snapshot,
        }
    }

    pub(super) fn cursor_at(&self, range: VisibleRange, snapshot: &Snapshot) -> Result<Cursor> {
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
    ///     tree.put(k, "v")?;
    /// }
    /// let last = tree.range("a".."c").next_back().unwrap()?;
    /// assert_eq!(last.0, "b");
    /// assert_eq!(tree.range(..).count(), 3);
    /// assert_eq!(tree.range("b"..).keys().count(), 2);
    /// # drop(last); drop(tree); std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn range(&self, range: impl KeyBounds) -> Range {
        self.range_now(key_range(range))
    }

    /// The keys that start with `prefix`, with their values, in order, from both ends.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.range_now(prefix_range(prefix.as_ref()))
    }

    /// All keys with their values, in order, from both ends. `for item in &tree` does the same.
    pub fn iter(&self) -> Range {
        self.range_now(VisibleRange::default())
    }

    /// All keys, in order, from both ends. Of a part: [`range`](Tree::range) with [`Range::keys`].
    pub fn keys(&self) -> Keys {
        self.iter().keys()
    }

    /// A cursor over a range.
    ///
    /// # Errors
    /// `Closed` when the tree was dropped; corruption and I/O errors of tables that hold range
    /// deletions.
    pub fn cursor(&self, range: impl KeyBounds) -> Result<Cursor> {
        self.cursor_now(key_range(range))
    }

    fn cursor_now(&self, range: VisibleRange) -> Result<Cursor> {
        let (view, read) = self.at_one_moment();
        self.core.check_live()?;
        Ok(Cursor { inner: visible(&view, range, read)?, view, _snapshot: None })
    }
}
