//! [`Readable`], the reads that stores, snapshots and transactions share.

use crate::base::error::Result;
use crate::db::read;
use crate::iterator::value::Value;
use crate::iterator::visible::VisibleRange;

use crate::db::handle::handles::{Db, Tree};
use crate::db::handle::range::{Keys, Range};
use crate::db::handle::snapshot::Snapshot;
use crate::db::read::bounds::{Entry, KeyBounds, key_range, prefix_range};

/// Primitive reads from which [`Readable`] is built.
pub trait ReadSource {
    /// Returns the value of a key.
    fn read(&self, tree: &Tree, key: &[u8]) -> Result<Option<Value>>;
    /// Returns an iterator over the entries of a range.
    fn walk(&self, tree: &Tree, range: VisibleRange) -> Range;
}

/// Reads of any tree of a store: of the newest state ([`Db`]), of a frozen one
/// ([`Snapshot`](crate::Snapshot)), or in a [`Transaction`](crate::Transaction). A [`Tree`] has the
/// same methods without the first argument; they read like those of its `Db`.
///
/// A generic function over `Readable` works with all of them. It takes the reader and the tree. To
/// read the newest state, pass the `Db`:
///
/// ```
/// use firn_kv::{Db, Readable, Result, Tree, TreeOptions};
/// fn richest(at: &impl Readable, accounts: &Tree) -> Result<u64> {
///     at.iter(accounts).try_fold(0, |most, item| Ok(most.max(item?.1.len() as u64)))
/// }
/// let db = Db::in_memory()?;
/// let accounts = db.tree("accounts", TreeOptions::default())?;
/// let before = db.snapshot();
/// accounts.put("ann", "€€€")?;
/// assert_eq!(richest(&before, &accounts)?, 0);
/// assert_eq!(richest(&db, &accounts)?, 9);
/// assert_eq!(db.transact(|tx| richest(tx, &accounts))?, 9);
/// # Ok::<(), firn_kv::Error>(())
/// ```
///
/// Methods are generic over keys and ranges, so there is no `dyn Readable`. The trait is sealed.
///
/// # Errors
/// For all methods: corruption and I/O errors of the tables read, errors of the merge operator,
/// `Closed` when the tree was dropped, `InvalidArgument` for a tree of another store. Iterators
/// return errors as items.
pub trait Readable: ReadSource {
    /// Returns the value of `key`. The value pins its block or memtable; no bytes are copied.
    fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.read(tree, key.as_ref())
    }

    /// Reports whether `key` has a value.
    fn contains(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.read(tree, key.as_ref())?.is_some())
    }

    /// Returns a double-ended iterator over the keys of a range with their values, in order.
    fn range(&self, tree: &Tree, range: impl KeyBounds) -> Range {
        self.walk(tree, key_range(range))
    }

    /// Returns a double-ended iterator over the keys that start with `prefix`, with their values.
    fn prefix(&self, tree: &Tree, prefix: impl AsRef<[u8]>) -> Range {
        self.walk(tree, prefix_range(prefix.as_ref()))
    }

    /// Returns a double-ended iterator over all keys with their values, in order.
    fn iter(&self, tree: &Tree) -> Range {
        self.walk(tree, VisibleRange::default())
    }

    /// Returns a double-ended iterator over all keys, in order. For a part, use
    /// [`range`](Readable::range) with [`Range::keys`].
    fn keys(&self, tree: &Tree) -> Keys {
        self.iter(tree).keys()
    }

    /// Returns the smallest key with its value.
    fn first(&self, tree: &Tree) -> Result<Option<Entry>> {
        self.iter(tree).next().transpose()
    }

    /// Returns the greatest key with its value.
    fn last(&self, tree: &Tree) -> Result<Option<Entry>> {
        self.iter(tree).next_back().transpose()
    }

    /// Reports whether the tree has no keys. It seeks the first one.
    fn is_empty(&self, tree: &Tree) -> Result<bool> {
        Ok(self.keys(tree).next().transpose()?.is_none())
    }

    /// Returns the number of keys. It scans all of them, some million a second, because no counter
    /// is maintained.
    fn len(&self, tree: &Tree) -> Result<u64> {
        self.keys(tree).try_fold(0, |n, key| key.map(|_| n + 1))
    }
}

impl<T: ReadSource> Readable for T {}

/// Gives a type the methods of [`Readable`] as its own, so that callers need not import the trait.
macro_rules! own_reads {
    ($of:ty) => {
        /// The reads of [`Readable`], which describes them and their errors.
        impl $of {
            /// Returns the value of `key`: [`Readable::get`].
            ///
            /// # Errors
            /// For all reads: those of [`Readable`].
            pub fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
                Readable::get(self, tree, key)
            }

            /// Reports whether `key` has a value: [`Readable::contains`].
            pub fn contains(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<bool> {
                Readable::contains(self, tree, key)
            }

            /// Returns an iterator over the entries of a range: [`Readable::range`].
            pub fn range(&self, tree: &Tree, range: impl KeyBounds) -> Range {
                Readable::range(self, tree, range)
            }

            /// Returns an iterator over the entries whose keys start with `prefix`:
            /// [`Readable::prefix`].
            pub fn prefix(&self, tree: &Tree, prefix: impl AsRef<[u8]>) -> Range {
                Readable::prefix(self, tree, prefix)
            }

            /// Returns an iterator over all entries: [`Readable::iter`].
            pub fn iter(&self, tree: &Tree) -> Range {
                Readable::iter(self, tree)
            }

            /// Returns an iterator over all keys: [`Readable::keys`].
            pub fn keys(&self, tree: &Tree) -> Keys {
                Readable::keys(self, tree)
            }

            /// Returns the smallest key with its value: [`Readable::first`].
            pub fn first(&self, tree: &Tree) -> Result<Option<Entry>> {
                Readable::first(self, tree)
            }

            /// Returns the greatest key with its value: [`Readable::last`].
            pub fn last(&self, tree: &Tree) -> Result<Option<Entry>> {
                Readable::last(self, tree)
            }

            /// Reports whether the tree has no keys: [`Readable::is_empty`].
            pub fn is_empty(&self, tree: &Tree) -> Result<bool> {
                Readable::is_empty(self, tree)
            }

            /// Counts the keys by scanning them: [`Readable::len`].
            pub fn len(&self, tree: &Tree) -> Result<u64> {
                Readable::len(self, tree)
            }
        }
    };
}

pub(in crate::db::handle) use own_reads;

own_reads!(Snapshot);

impl ReadSource for Db {
    fn read(&self, tree: &Tree, key: &[u8]) -> Result<Option<Value>> {
        tree.check_of(&self.handle)?;
        tree.get(key)
    }

    fn walk(&self, tree: &Tree, range: VisibleRange) -> Range {
        tree.range_now(range).refuse(tree.check_of(&self.handle).err())
    }
}

impl ReadSource for Snapshot {
    fn read(&self, tree: &Tree, key: &[u8]) -> Result<Option<Value>> {
        tree.inner.check_live()?;
        self.check_own(tree)?;
        read::get_at(&tree.handle.inner, &tree.inner, key, self.seq())
    }

    fn walk(&self, tree: &Tree, range: VisibleRange) -> Range {
        tree.range_at(range, self)
    }
}
