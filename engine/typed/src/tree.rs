//! [`TypedTree`].

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use firn_kv::{Db, Durability, Readable, Tree, TreeOptions};

use crate::bounds::TypedBounds;
use crate::buffer::Buffer;
use crate::error::{EntryPart, Error, Result};
use crate::key::{AsKey, Key, KeyPrefix};
use crate::read::{TypedRange, TypedReader, undecodable};
use crate::value::{AsValue, Value};
use crate::write::TypedWriter;

/// A tree of a store with keys of type `K` and values of type `V`. Cheap to clone.
///
/// A store does not record the types of a tree. Opening it with other types gives errors or other
/// values. Methods take borrowed forms: `&str` for `String`, `&("ann", 7)` for `(String, u64)`.
///
/// ```
/// use firn_kv::{Batch, Db};
/// use firn_typed::TypedTree;
/// let db = Db::in_memory()?;
/// let scores: TypedTree<(String, u32), i64> = TypedTree::open(&db, "scores")?;
/// scores.put(&("ann", 1), &30)?;
/// scores.put(&("ann", 2), &-5)?;
/// assert_eq!(scores.get(&("ann", 2))?, Some(-5));
/// assert_eq!(scores.prefix(&("ann",)).next_back().unwrap()?, (("ann".to_owned(), 2), -5));
///
/// let mut batch = Batch::new();
/// scores.put_in(&mut batch, &("bo", 1), &8)?;
/// scores.delete_in(&mut batch, &("ann", 1))?;
/// db.write(batch)?;
///
/// db.transact(|tx| {
///     let bo = scores.at(tx).get(&("bo", 1))?.unwrap_or(0);
///     Ok(scores.put_in(tx, &("bo", 1), &(bo + 1))?)
/// })?;
/// assert_eq!(scores.get(&("bo", 1))?, Some(9));
/// # Ok::<(), firn_typed::Error>(())
/// ```
///
/// # Errors
/// For all methods: [`Error::Engine`] as the engine's method of the same name, [`Error::Decode`] if
/// a stored entry is not of the tree's types, [`Error::Encode`] if a value has no encoding.
/// Iterators return errors as items.
pub struct TypedTree<K, V> {
    // Declared before `db`, so that it is dropped before the store closes.
    tree: Tree,
    db: Db,
    name: Arc<str>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for TypedTree<K, V> {
    fn clone(&self) -> TypedTree<K, V> {
        let TypedTree { tree, db, name, types } = self;
        TypedTree { tree: tree.clone(), db: db.clone(), name: name.clone(), types: *types }
    }
}

impl<K, V> fmt::Debug for TypedTree<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedTree").field("tree", &self.tree).finish_non_exhaustive()
    }
}

/// Result of [`TypedTree::update`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypedUpdated<T> {
    /// Value before the update.
    pub old: Option<T>,
    /// Value after the update.
    pub new: Option<T>,
}

impl<K, V> TypedTree<K, V> {
    /// Opens the tree `name`, and creates it with default options if it does not exist. For other
    /// options or hooks use [`Db::tree`] and [`new`](TypedTree::new).
    pub fn open(db: &Db, name: &str) -> Result<TypedTree<K, V>> {
        Ok(TypedTree::new(db.tree(name, TreeOptions::default())?))
    }

    /// Creates a typed handle of a tree.
    pub fn new(tree: Tree) -> TypedTree<K, V> {
        TypedTree { db: tree.db(), name: tree.name().into(), tree, types: PhantomData }
    }

    /// Returns a handle of the same tree that writes with `durability`.
    pub fn with_durability(&self, durability: Durability) -> TypedTree<K, V> {
        TypedTree::new(self.tree.with_durability(durability))
    }

    /// Returns the tree of bytes.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns the reads of this tree at a snapshot, in a transaction, or of the newest state (a
    /// `Db`).
    ///
    /// ```
    /// use firn_kv::Db;
    /// use firn_typed::TypedTree;
    /// let db = Db::in_memory()?;
    /// let scores: TypedTree<String, i64> = TypedTree::open(&db, "scores")?;
    /// let before = db.snapshot();
    /// scores.put("ann", &30)?;
    /// assert_eq!(scores.at(&before).get("ann")?, None);
    /// # Ok::<(), firn_typed::Error>(())
    /// ```
    pub fn at<'a, R: Readable>(&'a self, reader: &'a R) -> TypedReader<'a, R, K, V> {
        TypedReader { reader, tree: &self.tree, name: &self.name, types: PhantomData }
    }

    #[inline]
    fn now(&self) -> TypedReader<'_, Db, K, V> {
        self.at(&self.db)
    }
}

impl<K: Key, V: Value> TypedTree<K, V> {
    /// Returns the value of `key`.
    #[inline]
    pub fn get<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<Option<V::Owned>> {
        self.now().get(key)
    }

    /// Returns the result of `f` on the value of `key`. The view borrows strings and bytes from the
    /// store, so nothing is copied.
    ///
    /// ```
    /// use firn_kv::Db;
    /// use firn_typed::TypedTree;
    /// let pages: TypedTree<u64, String> = TypedTree::open(&Db::in_memory()?, "pages")?;
    /// pages.put(&7, "a long text")?;
    /// assert_eq!(pages.get_with(&7, |page| page.contains("long"))?, Some(true));
    /// # Ok::<(), firn_typed::Error>(())
    /// ```
    #[inline]
    pub fn get_with<Q: AsKey<K> + ?Sized, T>(
        &self,
        key: &Q,
        f: impl FnOnce(V::View<'_>) -> T,
    ) -> Result<Option<T>> {
        self.now().get_with(key, f)
    }

    /// Returns the values of several keys, all read from one state of the tree.
    pub fn multi_get<Q: AsKey<K>>(&self, keys: &[Q]) -> Result<Vec<Option<V::Owned>>> {
        let mut buffers = vec![Buffer::new(); keys.len()];
        let keys: Vec<&[u8]> =
            keys.iter().zip(&mut buffers).map(|(key, buffer)| key.encode(buffer)).collect();
        let values = self.tree.multi_get(&keys)?;
        keys.iter().zip(values).map(|(key, value)| self.decode(key, value.as_deref())).collect()
    }

    /// Reports whether `key` has a value. It does not decode the value.
    pub fn contains<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<bool> {
        self.now().contains(key)
    }

    /// Returns a double-ended iterator over the keys of a range with their values, in order.
    pub fn range(&self, range: impl TypedBounds<K>) -> TypedRange<K, V> {
        self.now().range(range)
    }

    /// Returns a double-ended iterator over the keys that begin with `prefix`, with their values.
    pub fn prefix<P: KeyPrefix<K> + ?Sized>(&self, prefix: &P) -> TypedRange<K, V> {
        self.now().prefix(prefix)
    }

    /// Returns a double-ended iterator over all keys with their values, in order.
    pub fn iter(&self) -> TypedRange<K, V> {
        self.now().iter()
    }

    /// Returns the smallest key with its value.
    pub fn first(&self) -> Result<Option<(K, V::Owned)>> {
        self.now().first()
    }

    /// Returns the greatest key with its value.
    pub fn last(&self) -> Result<Option<(K, V::Owned)>> {
        self.now().last()
    }

    /// Reports whether the tree has no keys. It seeks the first one.
    pub fn is_empty(&self) -> Result<bool> {
        self.now().is_empty()
    }

    /// Returns the number of keys. It scans all of them and decodes none.
    pub fn len(&self) -> Result<u64> {
        self.now().len()
    }

    /// Sets `key` to `value`.
    #[inline]
    pub fn put<Q, U>(&self, key: &Q, value: &U) -> Result<()>
    where
        Q: AsKey<K> + ?Sized,
        U: AsValue<V> + ?Sized,
    {
        let (mut key_buffer, mut buffer) = (Buffer::new(), Buffer::new());
        let value = self.encode(value, &mut buffer)?;
        Ok(self.tree.put(key.encode(&mut key_buffer), value)?)
    }

    /// Deletes `key`, without looking up whether it has a value.
    pub fn delete<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<()> {
        Ok(self.tree.delete(key.encode(&mut Buffer::new()))?)
    }

    /// Deletes every key of a range with one range tombstone, in O(1).
    pub fn delete_range(&self, range: impl TypedBounds<K>) -> Result<()> {
        let (mut start, mut end) = (Buffer::new(), Buffer::new());
        Ok(self.tree.delete_range(range.encode_bounds(&mut start, &mut end))?)
    }

    /// Deletes every key.
    pub fn clear(&self) -> Result<()> {
        Ok(self.tree.clear()?)
    }

    /// Adds a put to a batch or a transaction.
    pub fn put_in<Q, U>(&self, writer: &mut impl TypedWriter, key: &Q, value: &U) -> Result<()>
    where
        Q: AsKey<K> + ?Sized,
        U: AsValue<V> + ?Sized,
    {
        let (mut key_buffer, mut buffer) = (Buffer::new(), Buffer::new());
        let value = self.encode(value, &mut buffer)?;
        Ok(writer.put_raw(&self.tree, key.encode(&mut key_buffer), value)?)
    }

    /// Adds a delete to a batch or a transaction.
    pub fn delete_in<Q>(&self, writer: &mut impl TypedWriter, key: &Q) -> Result<()>
    where
        Q: AsKey<K> + ?Sized,
    {
        Ok(writer.delete_raw(&self.tree, key.encode(&mut Buffer::new()))?)
    }

    /// Adds the deletion of a range to a batch or a transaction.
    pub fn delete_range_in(
        &self,
        writer: &mut impl TypedWriter,
        range: impl TypedBounds<K>,
    ) -> Result<()> {
        let (mut start, mut end) = (Buffer::new(), Buffer::new());
        Ok(writer.delete_range_raw(&self.tree, range.encode_bounds(&mut start, &mut end))?)
    }

    /// Sets `key` to `value` if it has no value. Otherwise returns the existing value, which
    /// remains.
    pub fn insert_if_absent<Q, U>(&self, key: &Q, value: &U) -> Result<Option<V::Owned>>
    where
        Q: AsKey<K> + ?Sized,
        U: AsValue<V> + ?Sized,
    {
        let (mut key_buffer, mut buffer) = (Buffer::new(), Buffer::new());
        let value = self.encode(value, &mut buffer)?;
        let key = key.encode(&mut key_buffer);
        self.decode(key, self.tree.insert_if_absent(key, value)?.as_deref())
    }

    /// Sets `key` to `new`, or deletes it for `None`, if the encoding of its value is that of `old`
    /// (`None`: no value). Otherwise writes nothing and returns the current value as the inner
    /// `Err`.
    pub fn compare_and_swap<Q, U>(
        &self,
        key: &Q,
        old: Option<&U>,
        new: Option<&U>,
    ) -> Result<std::result::Result<(), Option<V::Owned>>>
    where
        Q: AsKey<K> + ?Sized,
        U: AsValue<V> + ?Sized,
    {
        let [mut key_buffer, mut old_buffer, mut new_buffer] = [(); 3].map(|()| Buffer::new());
        let key = key.encode(&mut key_buffer);
        let old = old.map(|value| self.encode(value, &mut old_buffer)).transpose()?;
        let new = new.map(|value| self.encode(value, &mut new_buffer)).transpose()?;
        match self.tree.compare_and_swap(key, old, new)? {
            Ok(()) => Ok(Ok(())),
            Err(found) => self.decode(key, found.as_deref()).map(Err),
        }
    }

    /// Sets `key` to the result of `f` on its value, atomically. `None` as argument means no value,
    /// as result it deletes the key. If another thread changes the value meanwhile, `f` is called
    /// again with the new value, so it should have no side effects.
    ///
    /// ```
    /// use firn_kv::Db;
    /// use firn_typed::TypedTree;
    /// let counters: TypedTree<String, u64> = TypedTree::open(&Db::in_memory()?, "counters")?;
    /// counters.update("visits", |n| Some(n.unwrap_or(0) + 1))?;
    /// let visits = counters.update("visits", |n| Some(n.unwrap_or(0) + 1))?;
    /// assert_eq!((visits.old, visits.new), (Some(1), Some(2)));
    /// # Ok::<(), firn_typed::Error>(())
    /// ```
    pub fn update<Q>(
        &self,
        key: &Q,
        mut f: impl FnMut(Option<V::Owned>) -> Option<V::Owned>,
    ) -> Result<TypedUpdated<V::Owned>>
    where
        Q: AsKey<K> + ?Sized,
        V::Owned: AsValue<V>,
    {
        let mut key_buffer = Buffer::new();
        let key = key.encode(&mut key_buffer);
        let mut found = self.tree.get(key)?;
        loop {
            let mut buffer = Buffer::new();
            let new = f(self.decode(key, found.as_deref())?);
            let encoded = new.as_ref().map(|new| self.encode(new, &mut buffer)).transpose()?;
            match self.tree.compare_and_swap(key, found.as_deref(), encoded)? {
                Ok(()) => {
                    let old = self.decode(key, found.as_deref())?;
                    return Ok(TypedUpdated { old, new });
                }
                Err(other) => found = other,
            }
        }
    }

    #[inline]
    fn encode<'a, U>(&self, value: &'a U, buffer: &'a mut Buffer) -> Result<&'a [u8]>
    where
        U: AsValue<V> + ?Sized,
    {
        let wrong = |source| Error::Encode { tree: self.name.to_string(), source };
        value.encode_value(buffer).map_err(wrong)
    }

    fn decode(&self, key: &[u8], value: Option<&[u8]>) -> Result<Option<V::Owned>> {
        let wrong = |e| undecodable(&self.name, key, EntryPart::Value, e);
        value.map(V::view_value).transpose().map(|view| view.map(V::value_from_view)).map_err(wrong)
    }
}

impl<K: Key, V: Value> IntoIterator for &TypedTree<K, V> {
    type Item = Result<(K, V::Owned)>;
    type IntoIter = TypedRange<K, V>;

    fn into_iter(self) -> TypedRange<K, V> {
        self.iter()
    }
}
