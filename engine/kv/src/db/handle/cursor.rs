//! Cursor over the keys of a tree. It lends slices, so it is the fastest way to scan.
//!
//! Invariant: a cursor reads one state. Its view and its read point are taken at [one
//! moment](crate::db::versions::tree::TreeInner::consistent_view) and held until the cursor is
//! dropped. So are the files and memtables that it needs.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::key::Seq;
use crate::iterator::visible::{Visible, VisibleRange};

use crate::db::handle::snapshot::Snapshot;
use crate::db::observe::meters::LatencyOp;
use crate::db::read::sources::visible;
use crate::db::versions::view::TreeView;

/// A cursor over the keys of a range. It moves in both directions and lends slices of the current
/// key and value.
///
/// A new cursor has no position. Position it with [`first`](Cursor::first), [`last`](Cursor::last),
/// [`seek`](Cursor::seek) or [`seek_before`](Cursor::seek_before). An error clears the position.
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
    /// Boxed, so that moving a cursor moves one pointer.
    inner: Box<Visible>,
    view: Arc<TreeView>,
    _snapshot: Option<Snapshot>,
}

impl Cursor {
    /// Creates a cursor over a range of a view, at sequence number `read`. It holds the snapshot.
    pub(in crate::db) fn new(
        view: Arc<TreeView>,
        range: VisibleRange,
        read: Seq,
        snapshot: Option<Snapshot>,
    ) -> Result<Cursor> {
        let inner = Box::new(visible(&view, range, read)?);
        Ok(Cursor { inner, view, _snapshot: snapshot })
    }

    /// Returns the name of the tree.
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

    /// Reports whether the cursor is positioned at a key.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.inner.valid()
    }

    /// Returns the current key; empty without a position.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.inner.valid() { self.inner.key() } else { &[] }
    }

    /// Returns the current value; empty without a position.
    #[inline]
    pub fn value(&self) -> &[u8] {
        if self.inner.valid() { self.inner.value() } else { &[] }
    }

    /// Moves to the first key of the range.
    ///
    /// # Errors
    /// For all moves: corruption and I/O errors of the tables read, and errors of the merge
    /// operator.
    pub fn first(&mut self) -> Result<()> {
        self.timed(Visible::first)
    }

    /// Moves to the last key of the range.
    ///
    /// # Errors
    /// As [`first`](Cursor::first).
    pub fn last(&mut self) -> Result<()> {
        self.timed(Visible::last)
    }

    /// Moves to the first key at or after `key`.
    ///
    /// # Errors
    /// As [`first`](Cursor::first).
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.timed(|v| v.seek(key))
    }

    /// Moves to the last key before `key`.
    ///
    /// # Errors
    /// As [`first`](Cursor::first).
    pub fn seek_before(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.timed(|v| v.seek_before(key))
    }

    /// Moves to the next key.
    ///
    /// # Errors
    /// As [`first`](Cursor::first).
    #[inline]
    #[allow(clippy::should_implement_trait)] // a cursor lends its key and value, which an Iterator cannot
    pub fn next(&mut self) -> Result<()> {
        self.inner.next()
    }

    /// Moves to the previous key.
    ///
    /// # Errors
    /// As [`first`](Cursor::first).
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        self.inner.prev()
    }
}
