//! The cursor over the keys of a tree, which lends slices: the fastest way to walk.
//!
//! Invariant: a cursor sees one state: its view and its read point are of [one
//! moment](super::super::state::tree::TreeInner::at_one_moment), and held until the end. Files and
//! memtables that it needs stay until it is dropped.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::key::Seq;
use crate::merge::visible::{Visible, VisibleRange};

use super::super::sources::visible;
use super::super::state::meters::LatencyOp;
use super::super::state::view::TreeView;
use super::snapshot::Snapshot;

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
    /// Behind a pointer: whoever makes a cursor and hands it on moves a pointer.
    inner: Box<Visible>,
    view: Arc<TreeView>,
    _snapshot: Option<Snapshot>,
}

impl Cursor {
    /// Over a range of a view, as who reads at this number sees it. It holds the snapshot.
    pub(in crate::db) fn new(
        view: Arc<TreeView>,
        range: VisibleRange,
        read: Seq,
        snapshot: Option<Snapshot>,
    ) -> Result<Cursor> {
        let inner = Box::new(visible(&view, range, read)?);
        Ok(Cursor { inner, view, _snapshot: snapshot })
    }

    /// The name of its tree.
    pub(in crate::db) fn tree(&self) -> &str {
        &self.view.name
    }

    #[inline]
    fn timed(&mut self, seek: impl FnOnce(&mut Visible) -> Result<()>) -> Result<()> {
        let turn = self.view.meters.begin();
        let done = seek(&mut self.inner);
        self.view.meters.end(LatencyOp::Seek, turn);
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
