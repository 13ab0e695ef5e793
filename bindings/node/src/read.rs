//! Iterators, snapshots, transactions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_packed::entries;
use napi::bindgen_prelude::*;
use napi_derive::napi;

use crate::call::*;
use crate::store::{NativeEnd, NativeTree, bound, durability};

/// Entries of a range.
#[napi]
pub struct NativeRange {
    range: Arc<Mutex<Option<firn_kv::Range>>>,
    reverse: bool,
}

impl NativeRange {
    /// Iterates over `range`, from its end if `reverse` is set.
    pub fn new(range: firn_kv::Range, reverse: bool) -> NativeRange {
        NativeRange { range: Arc::new(Mutex::new(Some(range))), reverse }
    }
}

#[napi]
impl NativeRange {
    /// Returns the next entries, packed; `undefined` at the end and after `close`.
    #[napi]
    pub fn next(&self, max_entries: u32, max_bytes: u32, wait: bool) -> Result<Now<Bytes>> {
        let (range, reverse) = (self.range.clone(), self.reverse);
        run(wait, move || {
            let mut range = lock(&range);
            let Some(open) = range.as_mut() else { return Ok(Bytes::None) };
            let mut out = vec![];
            let (max_entries, max_bytes) = (max_entries as usize, max_bytes as usize);
            let count = entries::pack(open, reverse, max_entries, max_bytes, &mut out)?;
            if count == 0 {
                *range = None;
                return Ok(Bytes::None);
            }
            Ok(Bytes::Packed(out))
        })
    }

    #[napi]
    pub fn close(&self) {
        *lock(&self.range) = None;
    }
}

/// A snapshot of a store.
#[napi]
pub struct NativeSnapshot(Mutex<Option<Arc<firn_kv::Snapshot>>>);

impl NativeSnapshot {
    /// Wraps a snapshot.
    pub fn new(snapshot: firn_kv::Snapshot) -> NativeSnapshot {
        NativeSnapshot(Mutex::new(Some(Arc::new(snapshot))))
    }

    fn open(&self) -> Outcome<Arc<firn_kv::Snapshot>> {
        lock(&self.0).clone().ok_or_else(|| Failure::closed("snapshot"))
    }
}

#[napi]
impl NativeSnapshot {
    #[napi]
    pub fn get(&self, tree: &NativeTree, key: &[u8], wait: bool) -> Result<Now<Bytes>> {
        let (snapshot, tree, key) = (call(|| self.open())?, tree.0.clone(), key.to_vec());
        run(wait, move || Ok(snapshot.get(&tree, key)?.into()))
    }

    #[napi]
    pub fn has(&self, tree: &NativeTree, key: &[u8], wait: bool) -> Result<Now<bool>> {
        let (snapshot, tree, key) = (call(|| self.open())?, tree.0.clone(), key.to_vec());
        run(wait, move || Ok(snapshot.contains(&tree, key)?))
    }

    #[napi]
    pub fn get_many(&self, tree: &NativeTree, keys: &[u8], wait: bool) -> Result<Now<Bytes>> {
        let (snapshot, tree, keys) = (call(|| self.open())?, tree.0.clone(), keys.to_vec());
        run(wait, move || {
            let keys = entries::keys(&keys)?.into_iter();
            let values: Vec<_> =
                keys.map(|k| snapshot.get(&tree, k)).collect::<firn_kv::Result<_>>()?;
            Ok(Bytes::Packed(entries::pack_values(&values)))
        })
    }

    #[napi]
    pub fn range(
        &self,
        tree: &NativeTree,
        from: Option<NativeEnd>,
        to: Option<NativeEnd>,
        reverse: bool,
    ) -> Result<NativeRange> {
        call(|| {
            let range = self.open()?.range(&tree.0, (bound(&from), bound(&to)));
            Ok(NativeRange::new(range, reverse))
        })
    }

    #[napi]
    pub fn close(&self) {
        *lock(&self.0) = None;
    }
}

/// The pending writes of a transaction at one moment.
#[napi]
pub struct NativeSavepoint(firn_kv::Savepoint);

/// Atomic reads and writes.
#[napi]
pub struct NativeTransaction(Arc<Mutex<Option<firn_kv::Transaction>>>);

impl NativeTransaction {
    /// Wraps a transaction.
    pub fn new(transaction: firn_kv::Transaction) -> NativeTransaction {
        NativeTransaction(Arc::new(Mutex::new(Some(transaction))))
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&mut firn_kv::Transaction) -> firn_kv::Result<T>,
    ) -> Result<T> {
        call(|| {
            let mut open = lock(&self.0);
            Ok(work(open.as_mut().ok_or_else(|| Failure::closed("transaction"))?)?)
        })
    }
}

#[napi]
impl NativeTransaction {
    #[napi]
    pub fn get(&self, tree: &NativeTree, key: &[u8], wait: bool) -> Result<Now<Bytes>> {
        let (open, tree, key) = (self.0.clone(), tree.0.clone(), key.to_vec());
        run(wait, move || {
            let open = lock(&open);
            let transaction = open.as_ref().ok_or_else(|| Failure::closed("transaction"))?;
            Ok(transaction.get(&tree, key)?.into())
        })
    }

    #[napi]
    pub fn put(&self, tree: &NativeTree, key: &[u8], value: &[u8]) -> Result<()> {
        self.with(|tx| tx.put(&tree.0, key, value))
    }

    #[napi]
    pub fn delete(&self, tree: &NativeTree, key: &[u8]) -> Result<()> {
        self.with(|tx| tx.delete(&tree.0, key))
    }

    #[napi]
    pub fn delete_range(
        &self,
        tree: &NativeTree,
        from: Option<NativeEnd>,
        to: Option<NativeEnd>,
    ) -> Result<()> {
        self.with(|tx| tx.delete_range(&tree.0, (bound(&from), bound(&to))))
    }

    #[napi]
    pub fn range(
        &self,
        tree: &NativeTree,
        from: Option<NativeEnd>,
        to: Option<NativeEnd>,
        reverse: bool,
    ) -> Result<NativeRange> {
        self.with(|tx| Ok(NativeRange::new(tx.range(&tree.0, (bound(&from), bound(&to))), reverse)))
    }

    #[napi]
    pub fn lock(
        &self,
        tree: &NativeTree,
        key: &[u8],
        wait_millis: u32,
        wait: bool,
    ) -> Result<Now<()>> {
        let (open, tree, key) = (self.0.clone(), tree.0.clone(), key.to_vec());
        run(wait, move || {
            let mut open = lock(&open);
            let transaction = open.as_mut().ok_or_else(|| Failure::closed("transaction"))?;
            Ok(transaction.lock(&tree, key, Duration::from_millis(wait_millis.into()))?)
        })
    }

    #[napi]
    pub fn savepoint(&self) -> Result<NativeSavepoint> {
        self.with(|tx| Ok(NativeSavepoint(tx.savepoint())))
    }

    #[napi]
    pub fn rollback_to(&self, savepoint: &NativeSavepoint) -> Result<()> {
        self.with(|tx| tx.rollback_to(&savepoint.0))
    }

    #[napi]
    pub fn commit(&self, durable: u32, wait: bool) -> Result<Now<()>> {
        let open = lock(&self.0).take();
        run(wait, move || {
            let open = open.ok_or_else(|| Failure::closed("transaction"))?;
            match durability(durable) {
                None => open.commit()?,
                Some(durability) => open.with_durability(durability).commit()?,
            }
            Ok(())
        })
    }

    #[napi]
    pub fn rollback(&self) {
        drop(lock(&self.0).take());
    }
}
