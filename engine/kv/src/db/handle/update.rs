//! Read-modify-write calls, atomic with respect to other writers.
//!
//! Invariant: the decision reads the tree under the write lock, with every earlier write visible. A
//! first read without the lock rejects most calls that would fail, and loads the blocks, so the
//! second read rarely does I/O under the lock.

use crate::base::error::Result;
use crate::db::write;
use crate::db::write::slowdown;
use crate::iterator::value::Value;
use crate::memtable::Memtable;

use crate::db::handle::handles::Tree;
use crate::db::read::bounds::Entry;
use crate::db::write::batch::Batch;
use crate::db::write::limits::{check_key, check_value};

/// Result of [`Tree::update`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updated {
    /// Value before the update.
    pub old: Option<Value>,
    /// Value after the update.
    pub new: Option<Value>,
}

impl Tree {
    /// Returns the smallest key with its value.
    ///
    /// # Errors
    /// Those of [`get`](Tree::get).
    pub fn first(&self) -> Result<Option<Entry>> {
        self.end(true)
    }

    /// Returns the largest key with its value.
    ///
    /// # Errors
    /// Those of [`get`](Tree::get).
    pub fn last(&self) -> Result<Option<Entry>> {
        self.end(false)
    }

    fn end(&self, front: bool) -> Result<Option<Entry>> {
        let mut all = self.iter();
        if front { all.next() } else { all.next_back() }.transpose()
    }

    /// Reports whether the tree has no keys. It seeks the first one.
    ///
    /// # Errors
    /// Those of [`get`](Tree::get).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.keys().next().transpose()?.is_none())
    }

    /// Counts the keys. It scans the whole tree, some million keys a second; Firn maintains no
    /// counter.
    ///
    /// # Errors
    /// Those of [`get`](Tree::get).
    pub fn len(&self) -> Result<u64> {
        self.keys().try_fold(0, |n, key| key.map(|_| n + 1))
    }

    /// Removes the smallest key atomically and returns it. Concurrent callers get different keys.
    ///
    /// ```
    /// use firn_kv::{Db, TreeOptions};
    /// let queue = Db::in_memory()?.tree("queue", TreeOptions::default())?;
    /// queue.put(1u64.to_be_bytes(), "first")?;
    /// queue.put(2u64.to_be_bytes(), "second")?;
    /// assert_eq!(queue.pop_first()?.unwrap().1, "first");
    /// assert_eq!(queue.pop_last()?.unwrap().1, "second");
    /// assert!(queue.pop_first()?.is_none());
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Tree::get) and [`delete`](Tree::delete). After an error the key remains,
    /// unless the store is read-only since: after a failed sync the outcome is unknown.
    pub fn pop_first(&self) -> Result<Option<Entry>> {
        self.pop(true)
    }

    /// Removes the largest key, like [`pop_first`](Tree::pop_first) the smallest.
    ///
    /// # Errors
    /// Those of [`pop_first`](Tree::pop_first).
    pub fn pop_last(&self) -> Result<Option<Entry>> {
        self.pop(false)
    }

    fn pop(&self, front: bool) -> Result<Option<Entry>> {
        self.handle.check_writer()?;
        let Some((key, _)) = self.end(front)? else { return Ok(None) };
        slowdown::slow_writer(&self.handle.inner, &self.inner, Memtable::cost(key.len(), 0));
        let mut popped = None;
        write::write_computed(&self.handle.inner, Batch::new(), self.durability, &mut |batch| {
            batch.clear();
            popped = self.end(front)?;
            popped.as_ref().map_or(Ok(()), |(key, _)| batch.delete(self, key))
        })?;
        Ok(popped)
    }

    /// Sets `key` to `value` if it has no value. Otherwise returns the existing value, which
    /// remains.
    ///
    /// ```
    /// use firn_kv::{Db, TreeOptions};
    /// let names = Db::in_memory()?.tree("names", TreeOptions::default())?;
    /// assert_eq!(names.insert_if_absent("ann", "1")?, None);
    /// assert_eq!(names.insert_if_absent("ann", "2")?.unwrap(), "1");
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Tree::get) and [`put`](Tree::put).
    pub fn insert_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Value>> {
        Ok(self.compare_and_swap(key, None, Some(value.as_ref()))?.err().flatten())
    }

    /// Sets `key` to `new`, or deletes it for `None`, if its value is `old` (`None`: no value).
    /// Otherwise writes nothing and returns the current value as the inner `Err`.
    ///
    /// ```
    /// use firn_kv::{Db, TreeOptions};
    /// let doors = Db::in_memory()?.tree("doors", TreeOptions::default())?;
    /// assert!(doors.compare_and_swap("front", None, Some(b"open"))?.is_ok());
    /// let found = doors.compare_and_swap("front", Some(b"locked"), Some(b"open"))?;
    /// assert_eq!(found.unwrap_err().unwrap(), "open");
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Tree::get) and [`put`](Tree::put).
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<std::result::Result<(), Option<Value>>> {
        let key = key.as_ref();
        let found = self.get(key)?;
        if found.as_deref() != old {
            return Ok(Err(found));
        }
        self.swap(key, old, new)
    }

    /// Sets `key` to the result of `f` on its value, atomically. `None` as argument means no value,
    /// as result it deletes the key. If another thread changes the value meanwhile, `f` is called
    /// again with the new value, so it should have no side effects. It may use the store.
    ///
    /// ```
    /// use firn_kv::{Db, TreeOptions};
    /// let counters = Db::in_memory()?.tree("counters", TreeOptions::default())?;
    /// let add = |old: Option<&[u8]>| Some([old.map_or(0, |v| v[0]) + 1]);
    /// counters.update("visits", add)?;
    /// let visits = counters.update("visits", add)?;
    /// assert_eq!((visits.old.unwrap(), visits.new.unwrap()), ([1].as_slice().into(), [2].as_slice().into()));
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Tree::get) and [`put`](Tree::put).
    pub fn update<V: Into<Vec<u8>>>(
        &self,
        key: impl AsRef<[u8]>,
        mut f: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Updated> {
        let key = key.as_ref();
        let mut old = self.get(key)?;
        loop {
            let new: Option<Vec<u8>> = f(old.as_deref()).map(V::into);
            match self.swap(key, old.as_deref(), new.as_deref())? {
                Ok(()) => return Ok(Updated { old, new: new.map(Value::from) }),
                Err(found) => old = found,
            }
        }
    }

    fn swap(
        &self,
        key: &[u8],
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<std::result::Result<(), Option<Value>>> {
        self.handle.check_writer()?;
        check_key(key)?;
        check_value(new.unwrap_or_default())?;
        let write = |batch: &mut Batch| match new {
            Some(value) => batch.put(self, key, value),
            None => batch.delete(self, key),
        };
        let mut batch = Batch::new();
        write(&mut batch)?;
        let mut done = Ok(());
        write::write_computed(&self.handle.inner, batch, self.durability, &mut |batch| {
            batch.clear();
            let found = self.get(key)?;
            done = if found.as_deref() == old { Ok(()) } else { Err(found) };
            if done.is_ok() { write(batch) } else { Ok(()) }
        })?;
        Ok(done)
    }
}
