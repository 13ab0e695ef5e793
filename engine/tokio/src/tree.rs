//! [`AsyncTree`].

use firn_kv::{KeyBounds, Range, Result, Tree, Updated, Value};

use crate::options::AsyncOptions;
use crate::queue::CallQueue;
use crate::stream::RangeStream;

/// An async handle of a tree. Cheap to clone.
///
/// Keys and values are byte strings: `&[u8]`, `&str`, `String`, `Vec<u8>`, arrays. They are copied
/// unless they are a `Vec<u8>` or a `String`. Calls fail as those of [`Tree`] do, and with `Closed`
/// after [`AsyncDb::close`](crate::AsyncDb::close).
#[derive(Clone, Debug)]
pub struct AsyncTree {
    tree: Tree,
    queue: CallQueue,
    options: AsyncOptions,
}

impl AsyncTree {
    pub(crate) fn new(queue: CallQueue, options: AsyncOptions, tree: Tree) -> AsyncTree {
        AsyncTree { tree, queue, options }
    }

    /// Returns the synchronous handle: for batches and transactions, and for closures of
    /// [`call`](AsyncTree::call).
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Runs `work` on a blocking thread; see [`AsyncDb::call`](crate::AsyncDb::call).
    ///
    /// # Errors
    /// The error of `work`.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tree) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let tree = self.tree.clone();
        self.queue.run(move || work(&tree)).await
    }

    /// Returns the value of `key`. The value pins its block or memtable; no bytes are copied.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub async fn get(&self, key: impl Into<Vec<u8>>) -> Result<Option<Value>> {
        let key = key.into();
        self.call(move |tree| tree.get(key)).await
    }

    /// Returns the values of several keys, all read from one state of the tree.
    ///
    /// # Errors
    /// As [`Tree::multi_get`].
    pub async fn multi_get<K: Into<Vec<u8>>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(K::into).collect();
        self.call(move |tree| tree.multi_get(&keys)).await
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub async fn put(&self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Result<()> {
        let (key, value) = (key.into(), value.into());
        self.call(move |tree| tree.put(key, value)).await
    }

    /// Deletes `key`, without looking up whether it has a value.
    ///
    /// # Errors
    /// As [`Tree::delete`].
    pub async fn delete(&self, key: impl Into<Vec<u8>>) -> Result<()> {
        let key = key.into();
        self.call(move |tree| tree.delete(key)).await
    }

    /// Sets `key` to the result of `f` on its value, atomically; see [`Tree::update`].
    ///
    /// # Errors
    /// As [`Tree::update`].
    pub async fn update<V: Into<Vec<u8>>>(
        &self,
        key: impl Into<Vec<u8>>,
        f: impl FnMut(Option<&[u8]>) -> Option<V> + Send + 'static,
    ) -> Result<Updated> {
        let key = key.into();
        self.call(move |tree| tree.update(key, f)).await
    }

    /// Returns a stream of the keys of a range with their values, in order. It reads the state of the
    /// tree at this call.
    ///
    /// ```
    /// use firn_kv::{Db, TreeOptions};
    /// use firn_tokio::AsyncDb;
    /// use futures_util::TryStreamExt;
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let db = AsyncDb::new(Db::in_memory()?);
    /// let tree = db.tree("t", TreeOptions::default()).await?;
    /// for key in ["a", "b", "c"] {
    ///     tree.put(key, "v").await?;
    /// }
    /// let mut stream = tree.range("a".."c").rev();
    /// assert_eq!(stream.try_next().await?.unwrap().0, "b");
    /// assert_eq!(tree.range(..).try_collect::<Vec<_>>().await?.len(), 3);
    /// # Ok::<(), firn_kv::Error>(())
    /// # })?;
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    pub fn range(&self, range: impl KeyBounds) -> RangeStream {
        self.stream(self.tree.range(range))
    }

    /// Returns a stream of the keys that start with `prefix`, with their values.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> RangeStream {
        self.stream(self.tree.prefix(prefix))
    }

    fn stream(&self, range: Range) -> RangeStream {
        RangeStream::new(self.queue.clone(), self.options, range)
    }
}
