//! Reads: [`TypedReader`] and the iterators.

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::sync::Arc;

use firn_kv::{Readable, Tree};

use crate::bounds::{Prefix, TypedBounds};
use crate::buffer::Buffer;
use crate::error::{EntryPart, Error, Result};
use crate::key::{AsKey, Key, KeyPrefix};
use crate::reader::DecodeError;
use crate::value::Value;

/// Reads of a typed tree at a snapshot, in a transaction, or of the newest state; see
/// [`TypedTree::at`](crate::TypedTree::at).
///
/// # Errors
/// For all methods: [`Error::Engine`] as the methods of [`Readable`], and [`Error::Decode`] for an
/// entry that is not of the tree's types. Iterators return errors as items.
pub struct TypedReader<'a, R, K, V> {
    pub(crate) reader: &'a R,
    pub(crate) tree: &'a Tree,
    pub(crate) name: &'a Arc<str>,
    pub(crate) types: PhantomData<fn() -> (K, V)>,
}

impl<R, K, V> fmt::Debug for TypedReader<'_, R, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedReader").field("tree", self.name).finish_non_exhaustive()
    }
}

impl<R: Readable, K: Key, V: Value> TypedReader<'_, R, K, V> {
    /// Returns the value of `key`.
    #[inline]
    pub fn get<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<Option<V::Owned>> {
        self.get_with(key, |view| V::value_from_view(view))
    }

    /// Returns the result of `f` on the value of `key`. The view borrows strings and bytes from the
    /// store, so nothing is copied.
    #[inline]
    pub fn get_with<Q: AsKey<K> + ?Sized, T>(
        &self,
        key: &Q,
        f: impl FnOnce(V::View<'_>) -> T,
    ) -> Result<Option<T>> {
        let mut buffer = Buffer::new();
        let key = key.encode(&mut buffer);
        let Some(value) = self.reader.get(self.tree, key)? else { return Ok(None) };
        match V::view_value(&value) {
            Ok(view) => Ok(Some(f(view))),
            Err(e) => Err(undecodable(self.name, key, EntryPart::Value, e)),
        }
    }

    /// Reports whether `key` has a value. It does not decode the value.
    pub fn contains<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<bool> {
        Ok(self.reader.contains(self.tree, key.encode(&mut Buffer::new()))?)
    }

    /// Returns a double-ended iterator over the keys of a range with their values, in order.
    pub fn range(&self, range: impl TypedBounds<K>) -> TypedRange<K, V> {
        let (mut start, mut end) = (Buffer::new(), Buffer::new());
        let bounds = range.encode_bounds(&mut start, &mut end);
        TypedRange {
            range: self.reader.range(self.tree, bounds),
            name: self.name.clone(),
            types: PhantomData,
        }
    }

    /// Returns a double-ended iterator over the keys that begin with `prefix`, with their values.
    pub fn prefix<P: KeyPrefix<K> + ?Sized>(&self, prefix: &P) -> TypedRange<K, V> {
        self.range(Prefix(prefix))
    }

    /// Returns a double-ended iterator over all keys with their values, in order.
    pub fn iter(&self) -> TypedRange<K, V> {
        self.range(..)
    }

    /// Returns the smallest key with its value.
    pub fn first(&self) -> Result<Option<(K, V::Owned)>> {
        self.iter().next().transpose()
    }

    /// Returns the greatest key with its value.
    pub fn last(&self) -> Result<Option<(K, V::Owned)>> {
        self.iter().next_back().transpose()
    }

    /// Reports whether the tree has no keys. It seeks the first one.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.reader.is_empty(self.tree)?)
    }

    /// Returns the number of keys. It scans all of them and decodes none.
    pub fn len(&self) -> Result<u64> {
        Ok(self.reader.len(self.tree)?)
    }
}

/// Creates the error of an entry that is not of the tree's types.
#[cold]
pub(crate) fn undecodable(tree: &str, key: &[u8], part: EntryPart, source: DecodeError) -> Error {
    Error::Decode { tree: tree.to_owned(), key: key.to_vec(), part, source }
}

/// Double-ended iterator over the keys of a range with their values.
///
/// After an entry that cannot be decoded it continues with the next one. After an error of the
/// engine it ends.
pub struct TypedRange<K, V> {
    range: firn_kv::Range,
    name: Arc<str>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> TypedRange<K, V> {
    /// Returns an iterator over the keys only. It does not read values.
    pub fn keys(self) -> TypedKeys<K> {
        TypedKeys { keys: self.range.keys(), name: self.name, types: PhantomData }
    }

    /// Returns an iterator over the results of `f` on keys and values. The views borrow strings and
    /// bytes from the store.
    ///
    /// ```
    /// use firn_kv::Db;
    /// use firn_typed::TypedTree;
    /// let names: TypedTree<u64, String> = TypedTree::open(&Db::in_memory()?, "names")?;
    /// names.put(&1, "ann")?;
    /// names.put(&2, "bo")?;
    /// let lengths: Vec<usize> = names.iter().map_views(|_, name| name.len()).collect::<Result<_, _>>()?;
    /// assert_eq!(lengths, [3, 2]);
    /// # Ok::<(), firn_typed::Error>(())
    /// ```
    pub fn map_views<T, F>(self, f: F) -> TypedViews<K, V, F>
    where
        F: FnMut(K::View<'_>, V::View<'_>) -> T,
    {
        TypedViews { range: self, f }
    }

    fn decode<T>(
        &self,
        item: Option<firn_kv::Result<(firn_kv::Value, firn_kv::Value)>>,
        f: impl FnOnce(K::View<'_>, V::View<'_>) -> T,
    ) -> Option<Result<T>> {
        let (key, value) = match item? {
            Ok(entry) => entry,
            Err(e) => return Some(Err(e.into())),
        };
        let wrong = |part, e| undecodable(&self.name, &key, part, e);
        Some(K::view(&key).map_err(|e| wrong(EntryPart::Key, e)).and_then(|key_view| {
            let view = V::view_value(&value).map_err(|e| wrong(EntryPart::Value, e))?;
            Ok(f(key_view, view))
        }))
    }
}

impl<K: Key, V: Value> Iterator for TypedRange<K, V> {
    type Item = Result<(K, V::Owned)>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.range.next();
        self.decode(item, |key, value| (K::from_view(key), V::value_from_view(value)))
    }
}

impl<K: Key, V: Value> DoubleEndedIterator for TypedRange<K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let item = self.range.next_back();
        self.decode(item, |key, value| (K::from_view(key), V::value_from_view(value)))
    }
}

impl<K: Key, V: Value> FusedIterator for TypedRange<K, V> {}

impl<K, V> fmt::Debug for TypedRange<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedRange").field("tree", &self.name).finish_non_exhaustive()
    }
}

/// Double-ended iterator over the results of a function on keys and values; see
/// [`TypedRange::map_views`].
pub struct TypedViews<K, V, F> {
    range: TypedRange<K, V>,
    f: F,
}

impl<T, K: Key, V: Value, F: FnMut(K::View<'_>, V::View<'_>) -> T> Iterator
    for TypedViews<K, V, F>
{
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let item = self.range.range.next();
        self.range.decode(item, &mut self.f)
    }
}

impl<T, K: Key, V: Value, F: FnMut(K::View<'_>, V::View<'_>) -> T> DoubleEndedIterator
    for TypedViews<K, V, F>
{
    fn next_back(&mut self) -> Option<Result<T>> {
        let item = self.range.range.next_back();
        self.range.decode(item, &mut self.f)
    }
}

impl<K, V, F> fmt::Debug for TypedViews<K, V, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedViews").field("range", &self.range).finish_non_exhaustive()
    }
}

/// Double-ended iterator over the keys of a range; see [`TypedRange::keys`].
pub struct TypedKeys<K> {
    keys: firn_kv::Keys,
    name: Arc<str>,
    types: PhantomData<fn() -> K>,
}

impl<K: Key> TypedKeys<K> {
    fn decode(&self, key: firn_kv::Result<firn_kv::Value>) -> Result<K> {
        let key = key?;
        K::decode(&key).map_err(|e| undecodable(&self.name, &key, EntryPart::Key, e))
    }
}

impl<K: Key> Iterator for TypedKeys<K> {
    type Item = Result<K>;

    fn next(&mut self) -> Option<Result<K>> {
        let key = self.keys.next()?;
        Some(self.decode(key))
    }
}

impl<K: Key> DoubleEndedIterator for TypedKeys<K> {
    fn next_back(&mut self) -> Option<Result<K>> {
        let key = self.keys.next_back()?;
        Some(self.decode(key))
    }
}

impl<K: Key> FusedIterator for TypedKeys<K> {}

impl<K> fmt::Debug for TypedKeys<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedKeys").field("tree", &self.name).finish_non_exhaustive()
    }
}
