//! Methods of [`Tree`]: reads, writes, flushes and compactions. Atomic read-modify-write methods
//! are in `update`.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{Kind, Seq};
use crate::base::options::TreeOptions;
use crate::db::jobs::flush;
use crate::db::jobs::manual;
use crate::db::open::trees;
use crate::db::read;
use crate::db::write;
use crate::db::write::reserve;
use crate::iterator::value::Value;
use crate::iterator::visible::VisibleRange;

use crate::db::handle::handles::Tree;
use crate::db::read::bounds::{KeyBounds, key_range};
use crate::db::write::batch::Batch;

impl Tree {
    /// Returns the options last set by [`Db::tree`](crate::Db::tree) or
    /// [`set_options`](Tree::set_options).
    pub fn options(&self) -> TreeOptions {
        (*self.inner.view.load_full().options).clone()
    }

    /// Sets the options of the open tree permanently and for all of its handles. Flushes and
    /// compactions use them from now on, and the compaction policy re-examines the tree at once.
    /// Existing tables stay as they are until a compaction rewrites them;
    /// [`compact`](Tree::compact) rewrites all. A memtable above its new size limit is flushed with
    /// the next write. A call with the options in force does nothing.
    ///
    /// Hooks cannot be changed, because files were written with them: pass those of
    /// [`options`](Tree::options). A tree whose hooks were not supplied stays without them.
    ///
    /// ```
    /// use firn_kv::policy::LazyLeveled;
    /// use firn_kv::{Compression, Db, Policy, TreeOptions};
    /// let tree = Db::in_memory()?.tree("t", TreeOptions::default())?;
    /// let policy = Policy::from(LazyLeveled { ratio: 4, ..Default::default() });
    /// tree.set_options(TreeOptions { policy, compression: vec![Compression::None], ..tree.options() })?;
    /// assert_eq!(tree.options().policy, LazyLeveled { ratio: 4, ..Default::default() }.into());
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for an option out of bounds, `Incompatible` for a different hook,
    /// `ReadOnly` when the store accepts no writes, `Closed` when the tree was dropped, and errors
    /// of writing the manifest. On an error nothing has changed.
    pub fn set_options(&self, options: TreeOptions) -> Result<()> {
        self.handle.check_writer()?;
        options.check()?;
        trees::set_options(&self.handle.inner, &self.inner, options)
    }

    /// Returns the value of `key`. The value pins its block or memtable; no bytes are copied.
    ///
    /// # Errors
    /// Corruption and I/O errors of the tables read, errors of the merge operator, `Closed` when
    /// the tree was dropped.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        read::get(&self.handle.inner, &self.inner, key.as_ref())
    }

    /// Returns the values of several keys, all read from one state of the tree.
    ///
    /// # Errors
    /// As [`get`](Tree::get).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        let inner = &self.handle.inner;
        read::multi_get(&inner.commit, &inner.observer, &self.inner, keys)
    }

    /// Reports whether `key` has a value.
    ///
    /// # Errors
    /// As [`get`](Tree::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// `InvalidArgument` when the key or value exceeds the limits, else as
    /// [`Db::write`](crate::Db::write).
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.handle.check_writer()?;
        write::write_point(
            &self.handle.inner,
            &self.inner,
            Kind::Put,
            key.as_ref(),
            value.as_ref(),
            self.durability,
        )
    }

    /// Deletes `key`, without looking up whether it has a value.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    #[inline]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.handle.check_writer()?;
        let (inner, key) = (&self.handle.inner, key.as_ref());
        reserve::with_reserve(inner, || {
            write::write_point(inner, &self.inner, Kind::Delete, key, &[], self.durability)
        })
    }

    /// Adds an operand for the tree's merge operator.
    ///
    /// # Errors
    /// As [`put`](Tree::put), and `InvalidArgument` when the tree has no merge operator.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.handle.check_writer()?;
        self.check_merge()?;
        write::write_point(
            &self.handle.inner,
            &self.inner,
            Kind::Merge,
            key.as_ref(),
            operand.as_ref(),
            self.durability,
        )
    }

    /// Deletes every key of a range with one range tombstone, in O(1). Does nothing when the range
    /// is empty.
    ///
    /// ```
    /// # use firn_kv::{Db, TreeOptions};
    /// # let tree = Db::in_memory()?.tree("t", TreeOptions::default())?;
    /// tree.delete_range("2025-01".."2025-07")?; // to before the end
    /// tree.delete_range("2025-07"..="2025-12")?; // the last key too
    /// tree.delete_range(.."2025")?; // all before
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    pub fn delete_range(&self, range: impl KeyBounds) -> Result<()> {
        self.delete_range_numbered(&range).map(|_| ())
    }

    /// Deletes every key atomically in O(1), like [`delete_range`](Tree::delete_range) of `..`.
    /// Later compactions reclaim the space, but none is started for this. To free it at once, use
    /// [`drop_range`](Tree::drop_range).
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    pub fn clear(&self) -> Result<()> {
        self.delete_range(..)
    }

    /// Does the same as [`delete_range`](Tree::delete_range), and returns the deletion's sequence
    /// number.
    pub(in crate::db) fn delete_range_numbered(&self, range: &dyn KeyBounds) -> Result<Seq> {
        self.handle.check_writer()?;
        self.inner.check_live()?;
        self.handle.inner.gate.check_writable()?;
        let mut batch = Batch::new();
        batch.delete_between(&self.inner, range)?;
        write::write_batch(&self.handle.inner, &batch, self.durability)
    }

    /// Flushes the memtable to a table and waits for completion.
    ///
    /// # Errors
    /// I/O errors. The memtable stays in memory and log, and the call can be repeated, unless a
    /// sync of log or manifest failed: then the store is read-only.
    pub fn flush(&self) -> Result<()> {
        self.inner.check_live()?;
        flush::flush_tree(&self.handle.inner, &self.inner)
    }

    /// Flushes, then compacts all tables into one run, and drops entries that no reader can see. A
    /// table moves into that run unchanged if it overlaps no other table, has nothing to drop, and
    /// matches the current options. Small tables are joined instead.
    ///
    /// # Errors
    /// `Incompatible` when the tree has hooks that were not supplied
    /// ([`Db::tree`](crate::Db::tree)). `Conflict` while compactions are paused
    /// ([`Db::pause_background`](crate::Db::pause_background)) and a paused one holds the tree's
    /// tables. Corruption and I/O errors.
    pub fn compact(&self) -> Result<()> {
        self.compact_within(None)
    }

    /// Flushes, then compacts all tables that may hold keys of a range or its end key.
    ///
    /// # Errors
    /// As [`compact`](Tree::compact).
    pub fn compact_range(&self, range: impl KeyBounds) -> Result<()> {
        self.compact_within(Some(&key_range(range)))
    }

    fn compact_within(&self, range: Option<&VisibleRange>) -> Result<()> {
        self.check_hooked()?;
        reserve::with_reserve(&self.handle.inner, || {
            self.flush()?;
            manual::compact_range(&self.handle.inner, &self.inner, range)
        })
    }

    /// Returns an error if hooks are missing: without them a compaction cannot decide which entries
    /// to merge or drop.
    fn check_hooked(&self) -> Result<()> {
        self.inner.check_live()?;
        if self.inner.is_hooked() {
            return Ok(());
        }
        let words = format!(
            "the tree {:?} has hooks that were not handed in, so it is not merged; open it with them",
            self.name()
        );
        Err(Error::new(ErrorKind::Incompatible, words))
    }
}
