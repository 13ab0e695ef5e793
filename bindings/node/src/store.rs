//! Stores, trees, batches.

use std::sync::{Arc, Mutex};

use firn_kv::internals::base::key::prefix_end;
use firn_kv::{DbOptions, Durability, Retry};
use firn_packed::entries;
use napi::bindgen_prelude::*;
use napi_derive::napi;

use crate::call::*;
use crate::read::{NativeRange, NativeSnapshot, NativeTransaction};

/// Options of a store; JavaScript has checked their types.
#[napi(object)]
pub struct NativeOptions {
    pub memory_budget: Option<f64>,
    pub background_threads: Option<u32>,
    pub durability: Option<u32>,
    pub read_only: Option<bool>,
    pub create: Option<bool>,
}

impl NativeOptions {
    /// Converts the options.
    pub fn read(&self) -> DbOptions {
        let mut options = DbOptions::default();
        // The engine refuses sizes out of its bounds; the conversion saturates.
        options.memory_budget = self.memory_budget.map_or(options.memory_budget, |n| n as usize);
        options.background_threads =
            self.background_threads.map_or(options.background_threads, |n| n as usize);
        options.durability = durability(self.durability.unwrap_or(0)).unwrap_or(options.durability);
        options.read_only = self.read_only.unwrap_or(options.read_only);
        options.create = self.create.unwrap_or(options.create);
        options
    }
}

/// Converts a durability: 1 and 2, in the order of the C interface.
pub fn durability(number: u32) -> Option<Durability> {
    match number {
        1 => Some(Durability::Process),
        2 => Some(Durability::Power),
        _ => None,
    }
}

/// A store.
#[napi]
pub struct NativeDb(pub(crate) firn_kv::Db);

#[napi]
pub fn open(path: String, options: NativeOptions, wait: bool) -> Result<Now<NativeDb>> {
    run(wait, move || Ok(NativeDb(firn_kv::Db::open_with(path, options.read())?)))
}

#[napi]
pub fn open_memory() -> Result<NativeDb> {
    call(|| Ok(NativeDb(firn_kv::Db::in_memory()?)))
}

/// Returns the end of the range of keys with this prefix; none if there is no end.
#[napi]
pub fn end_of_prefix(prefix: &[u8]) -> Bytes {
    prefix_end(prefix).map_or(Bytes::None, Bytes::Packed)
}

#[napi]
impl NativeDb {
    #[napi]
    pub fn tree(
        &self,
        name: String,
        options: Vec<(String, String)>,
        wait: bool,
    ) -> Result<Now<NativeTree>> {
        let db = self.0.clone();
        run(wait, move || {
            let options: Vec<(&str, &str)> = options.iter().map(|(n, v)| (&**n, &**v)).collect();
            let tree = firn_tools::trees::with_options(&db, &name, &options, None)?;
            Ok(NativeTree(tree))
        })
    }

    #[napi]
    pub fn tree_names(&self) -> Vec<String> {
        self.0.tree_names()
    }

    #[napi]
    pub fn drop_tree(&self, name: String, wait: bool) -> Result<Now<()>> {
        let db = self.0.clone();
        run(wait, move || Ok(db.drop_tree(&name)?))
    }

    #[napi]
    pub fn write(&self, batch: &NativeBatch, durable: u32, wait: bool) -> Result<Now<()>> {
        let (db, batch) = (self.0.clone(), std::mem::take(&mut *lock(&batch.0)));
        run(wait, move || {
            match durability(durable) {
                None => db.write(batch)?,
                Some(durability) => db.with_durability(durability).write(batch)?,
            }
            Ok(())
        })
    }

    #[napi]
    pub fn snapshot(&self) -> Result<NativeSnapshot> {
        call(|| Ok(NativeSnapshot::new(self.0.snapshot())))
    }

    #[napi]
    pub fn transaction(&self) -> Result<NativeTransaction> {
        call(|| Ok(NativeTransaction::new(self.0.transaction())))
    }

    /// Sleeps as the engine does after a conflict.
    #[napi]
    pub fn pause(&self, attempt: u32, wait: bool) -> Result<Now<()>> {
        let db = self.0.clone();
        run(wait, move || {
            Retry::default().pause(&db, attempt);
            Ok(())
        })
    }

    #[napi]
    pub fn checkpoint(&self, path: String, wait: bool) -> Result<Now<()>> {
        let db = self.0.clone();
        run(wait, move || Ok(db.checkpoint(path).map(drop)?))
    }

    #[napi]
    pub fn wait_idle(&self, wait: bool) -> Result<Now<()>> {
        let db = self.0.clone();
        run(wait, move || Ok(db.wait_idle()?))
    }

    #[napi]
    pub fn sync(&self, wait: bool) -> Result<Now<()>> {
        let db = self.0.clone();
        run(wait, move || Ok(db.sync()?))
    }

    #[napi]
    pub fn stats(&self, wait: bool) -> Result<Now<String>> {
        let db = self.0.clone();
        run(wait, move || Ok(firn_tools::stats::stats_json(&db.stats()).to_string()))
    }

    #[napi]
    pub fn close(&self, wait: bool) -> Result<Now<()>> {
        let db = self.0.clone();
        run(wait, move || Ok(db.close()?))
    }
}

/// A tree of a store.
#[napi]
pub struct NativeTree(pub(crate) firn_kv::Tree);

impl NativeTree {
    fn with(&self, durable: u32) -> firn_kv::Tree {
        durability(durable).map_or_else(|| self.0.clone(), |d| self.0.with_durability(d))
    }
}

/// An end of a range: a key, and whether the range includes it.
#[napi(object)]
pub struct NativeEnd {
    pub key: Uint8Array,
    pub included: bool,
}

/// Converts the end of a range; none is unbounded.
pub fn bound(end: &Option<NativeEnd>) -> std::ops::Bound<Vec<u8>> {
    match end {
        None => std::ops::Bound::Unbounded,
        Some(end) if end.included => std::ops::Bound::Included(end.key.to_vec()),
        Some(end) => std::ops::Bound::Excluded(end.key.to_vec()),
    }
}

#[napi]
impl NativeTree {
    #[napi]
    pub fn get_now(&self, key: &[u8]) -> Result<Bytes> {
        call(|| Ok(self.0.get(key)?.into()))
    }

    /// Copies the value into `scratch` if it fits. Returns its length, or -1 for a missing key.
    #[napi]
    pub fn get_into(&self, key: &[u8], mut scratch: BufferSlice<'_>) -> Result<i64> {
        call(|| {
            let Some(value) = self.0.get(key)? else { return Ok(-1) };
            if let Some(place) = scratch.get_mut(..value.len()) {
                place.copy_from_slice(&value);
            }
            Ok(i64::try_from(value.len()).unwrap_or(i64::MAX))
        })
    }

    #[napi]
    pub fn put_now(&self, key: &[u8], value: &[u8], durable: u32) -> Result<()> {
        call(|| {
            match durability(durable) {
                None => self.0.put(key, value)?,
                Some(durability) => self.0.with_durability(durability).put(key, value)?,
            }
            Ok(())
        })
    }

    /// Reads the state at the call: the pool may run it after a later write.
    #[napi]
    pub fn get(&self, key: &[u8]) -> Result<Now<Bytes>> {
        let (tree, key, snapshot) = (self.0.clone(), key.to_vec(), self.0.db().snapshot());
        run(false, move || Ok(snapshot.get(&tree, key)?.into()))
    }

    #[napi]
    pub fn put(&self, key: &[u8], value: &[u8], durable: u32) -> Result<Now<()>> {
        let (tree, key, value) = (self.with(durable), key.to_vec(), value.to_vec());
        run(false, move || Ok(tree.put(key, value)?))
    }

    #[napi]
    pub fn has(&self, key: &[u8], wait: bool) -> Result<Now<bool>> {
        let (tree, key, snapshot) = (self.0.clone(), key.to_vec(), self.0.db().snapshot());
        run(wait, move || Ok(snapshot.contains(&tree, key)?))
    }

    #[napi]
    pub fn delete(&self, key: &[u8], durable: u32, wait: bool) -> Result<Now<()>> {
        let (tree, key) = (self.with(durable), key.to_vec());
        run(wait, move || Ok(tree.delete(key)?))
    }

    #[napi]
    pub fn delete_range(
        &self,
        from: Option<NativeEnd>,
        to: Option<NativeEnd>,
        durable: u32,
        wait: bool,
    ) -> Result<Now<()>> {
        let (tree, range) = (self.with(durable), (bound(&from), bound(&to)));
        run(wait, move || Ok(tree.delete_range(range)?))
    }

    #[napi]
    pub fn get_many(&self, keys: &[u8], wait: bool) -> Result<Now<Bytes>> {
        if !wait {
            return NativeSnapshot::new(self.0.db().snapshot()).get_many(self, keys, false);
        }
        let values = call(|| {
            let values = self.0.multi_get(&entries::keys(keys)?)?;
            Ok(Bytes::Packed(entries::pack_values(&values)))
        })?;
        Ok(Either::A(values))
    }

    /// Returns the value that the key had.
    #[napi]
    pub fn insert_if_absent(
        &self,
        key: &[u8],
        value: &[u8],
        durable: u32,
        wait: bool,
    ) -> Result<Now<Bytes>> {
        let (tree, key, value) = (self.with(durable), key.to_vec(), value.to_vec());
        run(wait, move || Ok(tree.insert_if_absent(key, value)?.into()))
    }

    #[napi]
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        old: Option<Uint8Array>,
        new: Option<Uint8Array>,
        durable: u32,
        wait: bool,
    ) -> Result<Now<bool>> {
        let copy = |bytes: Option<Uint8Array>| bytes.map(|b| b.to_vec());
        let (tree, key, old, new) = (self.with(durable), key.to_vec(), copy(old), copy(new));
        run(wait, move || Ok(tree.compare_and_swap(&key, old.as_deref(), new.as_deref())?.is_ok()))
    }

    #[napi]
    pub fn range(
        &self,
        from: Option<NativeEnd>,
        to: Option<NativeEnd>,
        reverse: bool,
    ) -> Result<NativeRange> {
        call(|| Ok(NativeRange::new(self.0.range((bound(&from), bound(&to))), reverse)))
    }

    #[napi]
    pub fn flush(&self, wait: bool) -> Result<Now<()>> {
        let tree = self.0.clone();
        run(wait, move || Ok(tree.flush()?))
    }

    #[napi]
    pub fn compact(
        &self,
        from: Option<NativeEnd>,
        to: Option<NativeEnd>,
        wait: bool,
    ) -> Result<Now<()>> {
        let (tree, range) = (self.0.clone(), (bound(&from), bound(&to)));
        run(wait, move || Ok(tree.compact_range(range)?))
    }
}

/// Writes that are executed atomically.
#[napi]
pub struct NativeBatch(Arc<Mutex<firn_kv::Batch>>);

#[napi]
impl NativeBatch {
    #[napi(constructor)]
    #[allow(clippy::new_without_default, reason = "JavaScript calls it")]
    pub fn new() -> NativeBatch {
        NativeBatch(Arc::default())
    }

    #[napi]
    pub fn len(&self) -> u32 {
        u32::try_from(lock(&self.0).len()).unwrap_or(u32::MAX)
    }

    #[napi]
    pub fn clear(&self) {
        *lock(&self.0) = firn_kv::Batch::new();
    }

    #[napi]
    pub fn put(&self, tree: &NativeTree, key: &[u8], value: &[u8]) -> Result<()> {
        call(|| Ok(lock(&self.0).put(&tree.0, key, value)?))
    }

    #[napi]
    pub fn delete(&self, tree: &NativeTree, key: &[u8]) -> Result<()> {
        call(|| Ok(lock(&self.0).delete(&tree.0, key)?))
    }

    #[napi]
    pub fn delete_range(
        &self,
        tree: &NativeTree,
        from: Option<NativeEnd>,
        to: Option<NativeEnd>,
    ) -> Result<()> {
        call(|| Ok(lock(&self.0).delete_range(&tree.0, (bound(&from), bound(&to)))?))
    }
}
