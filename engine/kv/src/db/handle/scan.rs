//! Ranges and cursors of a tree, over the newest state or a snapshot.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::key::Seq;
use crate::iterator::visible::VisibleRange;
use crate::util::sync::epoch;

use crate::db::handle::cursor::Cursor;
use crate::db::handle::handles::Tree;
use crate::db::handle::range::{Keys, Range};
use crate::db::handle::snapshot::Snapshot;
use crate::db::handle::walk::TreeWalk;
use crate::db::read::bounds::{Entry, KeyBounds, key_range, prefix_range};
use crate::db::versions::view::TreeView;

impl IntoIterator for &Tree {
    type Item = Result<Entry>;
    type IntoIter = Range;

    fn into_iter(self) -> Range {
        self.iter()
    }
}

impl Tree {
    pub(in crate::db) fn range_at(&self, range: VisibleRange, snapshot: &Snapshot) -> Range {
        let range = self.range_of(
            range,
            self.inner.view.load_full(),
            snapshot.seq(),
            Some(snapshot.clone()),
        );
        range.refuse(snapshot.check_own(self).err())
    }

    pub(in crate::db) fn range_now(&self, range: VisibleRange) -> Range {
        let (view, read) = self.consistent_view();
        self.range_of(range, view, read, None)
    }

    fn consistent_view(&self) -> (Arc<TreeView>, Seq) {
        let guard = epoch::pin();
        loop {
            let (view, read) =
                self.inner.consistent_view(self.handle.inner.commit.visible(), &guard);
            let held = self.inner.view.get_arc(&guard);
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
        let refused = self.inner.check_live().err();
        let walk = TreeWalk { view, range, read, keys_only: false, front: None, back: None };
        Range::new(walk, refused, snapshot)
    }

    pub(in crate::db) fn cursor_at(
        &self,
        range: VisibleRange,
        snapshot: &Snapshot,
    ) -> Result<Cursor> {
        snapshot.check_own(self)?;
        let view = self.inner.view.load_full();
        self.inner.check_live()?;
        Cursor::new(view, range, snapshot.seq(), Some(snapshot.clone()))
    }

    /// Returns the keys of a range with their values, in key order; double-ended.
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

    /// Returns the keys that start with `prefix`, with their values, in key order; double-ended.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.range_now(prefix_range(prefix.as_ref()))
    }

    /// Returns all keys with their values, in key order; double-ended. `for item in &tree` does the
    /// same.
    pub fn iter(&self) -> Range {
        self.range_now(VisibleRange::default())
    }

    /// Returns all keys in order; double-ended. For the keys of a range, use [`range`](Tree::range)
    /// with [`Range::keys`].
    pub fn keys(&self) -> Keys {
        self.iter().keys()
    }

    /// Returns a cursor over a range.
    ///
    /// # Errors
    /// `Closed` if the tree was dropped; corruption and I/O errors of tables that hold range
    /// deletions.
    pub fn cursor(&self, range: impl KeyBounds) -> Result<Cursor> {
        self.cursor_now(key_range(range))
    }

    fn cursor_now(&self, range: VisibleRange) -> Result<Cursor> {
        let (view, read) = self.consistent_view();
        self.inner.check_live()?;
        Cursor::new(view, range, read, None)
    }
}

impl Snapshot {
    /// Returns a cursor over a range.
    ///
    /// # Errors
    /// Those of the methods of [`Readable`](crate::Readable).
    pub fn cursor(&self, tree: &Tree, range: impl KeyBounds) -> Result<Cursor> {
        tree.cursor_at(key_range(range), self)
    }
}
