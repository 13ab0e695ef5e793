//! The tree's handle: an ordered map of bytes. Calls that read and then write as one step are in
//! `update`.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{Kind, Seq};
use crate::base::options::TreeOptions;
use crate::merge::value::Value;
use crate::merge::visible::VisibleRange;

use super::super::batch::Batch;
use super::super::bounds::{KeyBounds, key_range};
use super::handles::Tree;

impl Tree {
    /// Its options, as [`Db::tree`](crate::Db::tree) or [`set_options`](Tree::set_options) has set
    /// them.
    pub fn options(&self) -> TreeOptions {
        (*self.core.view.load_full().options).clone()
    }

    /// Sets its options while it is open, for good and for all of its handles: from now on flushes
    /// and compactions go by them, and the policy looks at the tree at once. Tables that are there
    /// stay as they are until they are merged; [`compact`](Tree::compact) writes them anew. A
    /// memtable that is larger than it may be now is flushed with the next write.
    ///
    /// Hooks cannot be changed, because files were written with them: hand in those of
    /// [`options`](Tree::options). A tree whose hooks have not been handed in stays without them.
    ///
    /// ```
    /// use firn_kv::policy::LazyLeveled;
    /// use firn_kv::{Compression, Db, Policy, TreeOptions};
    /// let tree = Db::in_memory()?.tree("t", TreeOptions::default())?;
    /// let policy = Policy::from(LazyLeveled { ratio: 4 });
    /// tree.set_options(TreeOptions { policy, compression: vec![Compression::None], ..tree.options() })?;
    /// assert_eq!(tree.options().policy, LazyLeveled { ratio: 4 }.into());
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for an option out of bounds, `Incompatible` for another hook, `ReadOnly`
    /// when the store takes no writes, `Closed` when the tree was dropped, and errors of writing
    /// the manifest. Nothing has been changed then.
    pub fn set_options(&self, options: TreeOptions) -> Result<()> {
        options.check()?;
        self.handle.core.set_options(&self.core, options)
    }

    /// The value of `key`. The value pins its block or memtable; nothing is copied.
    ///
    /// # Errors
    /// Corruption and I/O errors of the tables read, errors of the merge hook, `Closed` when the
    /// tree was dropped.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.handle.core.get(&self.core, key.as_ref())
    }

    /// The values of several keys, all of one moment.
    ///
    /// # Errors
    /// As [`get`](Tree::get).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.handle.core.multi_get(&self.core, keys)
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`get`](Tree::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// `InvalidArgument` when key or value are over the limits, else as
    /// [`Db::write`](crate::Db::write).
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.handle.core.write_point(
            &self.core,
            Kind::Put,
            key.as_ref(),
            value.as_ref(),
            self.durability,
        )
    }

    /// Deletes `key`. Whether it had a value is not looked up.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    #[inline]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let (core, key) = (&self.handle.core, key.as_ref());
        core.with_reserve(|| core.write_point(&self.core, Kind::Delete, key, &[], self.durability))
    }

    /// Adds an operand for the tree's merge hook.
    ///
    /// # Errors
    /// As [`put`](Tree::put), and `InvalidArgument` when the tree has no merge hook.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.check_merge()?;
        self.handle.core.write_point(
            &self.core,
            Kind::Merge,
            key.as_ref(),
            operand.as_ref(),
            self.durability,
        )
    }

    /// Deletes every key of a range: O(1) however many there are. Nothing happens when it ends
    /// before it begins.
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

    /// Deletes every key, at one moment, in O(1): [`delete_range`](Tree::delete_range) of all. The
    /// space comes back as the tree is merged.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    pub fn clear(&self) -> Result<()> {
        self.delete_range(..)
    }

    /// As [`delete_range`](Tree::delete_range); gives the deletion's sequence number.
    pub(in crate::db) fn delete_range_numbered(&self, range: &dyn KeyBounds) -> Result<Seq> {
        self.core.check_live()?;
        self.handle.core.gate.check_writable()?;
        let mut batch = Batch::new();
        batch.delete_between(&self.core, range)?;
        self.handle.core.write_batch(&batch, self.durability)
    }

    /// Writes the memtable to a table and waits for it.
    ///
    /// # Errors
    /// I/O errors, after which the store is read-only.
    pub fn flush(&self) -> Result<()> {
        self.core.check_live()?;
        self.handle.core.flush_tree(&self.core)
    }

    /// Flushes, then brings everything into one run, dropping what no reader can see. Tables that
    /// overlap no other, hold nothing to be dropped and are written as the options say now move
    /// into that run as they are, but for small ones, which are joined.
    ///
    /// # Errors
    /// `Incompatible` when the tree has hooks that were not handed in
    /// ([`Db::tree`](crate::Db::tree)); `Conflict` while merges stand still
    /// ([`Db::pause_background`](crate::Db::pause_background)) and one of them holds its tables;
    /// corruption and I/O errors.
    pub fn compact(&self) -> Result<()> {
        self.compact_within(None)
    }

    /// Flushes, then merges whatever may hold keys of a range, and of its end.
    ///
    /// # Errors
    /// As [`compact`](Tree::compact).
    pub fn compact_range(&self, range: impl KeyBounds) -> Result<()> {
        self.compact_within(Some(&key_range(range)))
    }

    fn compact_within(&self, range: Option<&VisibleRange>) -> Result<()> {
        self.check_hooked()?;
        self.handle.core.with_reserve(|| {
            self.flush()?;
            self.handle.core.compact_range(&self.core, range)
        })
    }

    /// Without its hooks nobody knows what may be merged and forgotten.
    fn check_hooked(&self) -> Result<()> {
        self.core.check_live()?;
        if self.core.is_hooked() {
            return Ok(());
        }
        let words = format!(
            "the tree {:?} has hooks that were not handed in, so it is not merged; open it with them",
            self.name()
        );
        Err(Error::new(ErrorKind::Incompatible, words))
    }
}
