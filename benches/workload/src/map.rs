//! A store in memory: measures the overhead of the loops, and is the oracle of their tests.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::store::{Direction, Result, Store, StoreBatch, StoreStats, fold};

type OrderedMapStore = BTreeMap<Vec<u8>, Vec<u8>>;

/// A `BTreeMap` in a lock.
#[derive(Debug)]
pub struct MapStore {
    map: RwLock<OrderedMapStore>,
    /// Number of writes until all calls fail.
    writes_left: AtomicU64,
}

impl Default for MapStore {
    fn default() -> Self {
        Self::failing_after(u64::MAX)
    }
}

impl MapStore {
    /// Creates a store whose calls all fail after this many writes, to test the handling of driver
    /// errors.
    pub fn failing_after(writes: u64) -> Self {
        MapStore { map: RwLock::new(OrderedMapStore::new()), writes_left: AtomicU64::new(writes) }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Reports whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// Returns a copy of all entries, in key order.
    pub fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.read().iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, OrderedMapStore> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> Result<RwLockWriteGuard<'_, OrderedMapStore>> {
        let map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let left = self.writes_left.load(Ordering::Relaxed);
        if left == 0 {
            return Err("this store is set to fail".into());
        }
        self.writes_left.store(left - 1, Ordering::Relaxed);
        Ok(map)
    }
}

impl Store for MapStore {
    fn put(&self, key: &[u8], value: &[u8], _sync: bool) -> Result<()> {
        self.write()?.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn write_batch(&self, batch: &StoreBatch) -> Result<()> {
        let mut map = self.write()?;
        batch.iter().for_each(|(key, value)| {
            map.insert(key.to_vec(), value.to_vec());
        });
        Ok(())
    }

    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Ok(self.read().get(key).map(|value| f(value)))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write()?.remove(key);
        Ok(())
    }

    fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        let mut map = self.write()?;
        let sum = fold(map.get(key).map(Vec::as_slice), [operand]);
        map.insert(key.to_vec(), sum.to_vec());
        Ok(())
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.write()?.retain(|key, _| !(from..to).contains(&key.as_slice()));
        Ok(())
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        mut f: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let map = self.read();
        let mut count = 0;
        let start = from.map_or(Bound::Unbounded, Bound::Included);
        let mut visit = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            f(key, value);
            count += 1;
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        match direction {
            Direction::Forward => {
                map.range::<[u8], _>((start, Bound::Unbounded)).take(limit).for_each(&mut visit)
            }
            Direction::Reverse => map
                .range::<[u8], _>((Bound::Unbounded, start))
                .rev()
                .take(limit)
                .for_each(&mut visit),
        }
        Ok(count)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<StoreStats> {
        Ok(StoreStats { disk_bytes: Some(0), written_bytes: Some(0) })
    }
}
