//! The store as the workload runner sees it, and a stopwatch around it for latencies over time.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Mutex;

use firn_kv::{Db, Durability, Folded, Merge, Tree};
use firn_workload::process::disk_bytes;
use firn_workload::{Batch, Direction, Result, Store, StoreStats, fold};
use hdrhistogram::Histogram;

use firn_tools::io::Watch;

/// A tree of a Firn store.
pub struct FirnStore {
    pub db: Db,
    pub tree: Tree,
    pub dir: PathBuf,
    /// Durability of writes that the workload does not want synced.
    pub durability: Durability,
}

impl Store for FirnStore {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let durability = if sync { Durability::Power } else { self.durability };
        Ok(self.tree.put_with(key, value, durability)?)
    }

    fn write_batch(&self, batch: &Batch) -> Result<()> {
        let mut b = firn_kv::Batch::new();
        for (key, value) in batch.iter() {
            b.put(&self.tree, key, value)?;
        }
        Ok(self.db.write_with(b, self.durability)?)
    }

    #[inline]
    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Ok(self.tree.get(key)?.map(|value| f(&value)))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.tree.delete(key)?)
    }

    fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        Ok(self.tree.merge(key, operand)?)
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        Ok(self.tree.delete_range(from, to)?)
    }

    #[inline]
    fn scan(&self, from: Option<&[u8]>, direction: Direction, limit: u64, mut f: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut cursor = self.tree.cursor::<&[u8]>(..)?;
        let forward = direction == Direction::Forward;
        match from {
            None if forward => cursor.first()?,
            None => cursor.last()?,
            Some(key) => {
                cursor.seek(key)?;
                // A reverse walk begins at the key itself, if it is there, or else before it.
                let stands_on_it = cursor.valid() && cursor.key() == key;
                if !forward && !stands_on_it {
                    cursor.seek_before(key)?;
                }
            }
        }
        let mut seen = 0;
        while seen < limit && cursor.valid() {
            f(cursor.key(), cursor.value());
            seen += 1;
            if seen == limit {
                break;
            }
            if forward { cursor.next()? } else { cursor.prev()? }
        }
        Ok(seen)
    }

    fn flush(&self) -> Result<()> {
        Ok(self.tree.flush()?)
    }

    fn compact(&self) -> Result<()> {
        self.tree.compact()?;
        Ok(self.db.wait_idle()?)
    }

    fn stats(&self) -> Result<StoreStats> {
        let s = self.db.stats();
        let written = s.wal_bytes + s.flush_bytes + s.compaction_written;
        Ok(StoreStats { disk_bytes: disk_bytes(&self.dir).ok(), written_bytes: Some(written) })
    }
}

/// Adds what mergerandom merges.
pub struct Sums;

impl Merge for Sums {
    fn name(&self) -> &str {
        "firn.bench.sums"
    }

    fn fold(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> firn_kv::Result<Folded> {
        Ok(Folded::Value(fold(base, operands.iter().copied()).to_vec()))
    }

    fn combine(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(fold(None, [older, newer]).to_vec())
    }
}

/// One operation in this many is timed for the latencies over time.
const TIMED: u32 = 16;

thread_local! {
    static COUNTDOWN: Cell<u32> = const { Cell::new(0) };
}

/// A store with a stopwatch: gathers latencies until somebody takes them.
pub struct Timed<'a> {
    store: &'a FirnStore,
    watch: Watch,
    times: Mutex<Histogram<u64>>,
}

impl<'a> Timed<'a> {
    /// Around `store`.
    pub fn new(store: &'a FirnStore) -> Result<Timed<'a>> {
        let times = Histogram::new_with_bounds(1, 1_000_000_000_000, 2)?;
        Ok(Timed { store, watch: Watch::start(), times: Mutex::new(times) })
    }

    /// Median, 99th percentile and maximum in nanoseconds since the last call; `None` where nothing was timed.
    pub fn take(&self) -> Option<[u64; 3]> {
        let mut times = self.times.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if times.is_empty() {
            return None;
        }
        let out = [times.value_at_quantile(0.5), times.value_at_quantile(0.99), times.max()];
        times.reset();
        Some(out)
    }

    #[inline]
    fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let due = COUNTDOWN.with(|c| {
            let left = c.get();
            c.set(if left == 0 { TIMED - 1 } else { left - 1 });
            left == 0
        });
        if !due {
            return work();
        }
        let from = self.watch.nanos();
        let out = work();
        let nanos = self.watch.nanos().saturating_sub(from);
        self.times.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).saturating_record(nanos);
        out
    }
}

impl Store for Timed<'_> {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.time(|| self.store.put(key, value, sync))
    }

    fn write_batch(&self, batch: &Batch) -> Result<()> {
        self.time(|| self.store.write_batch(batch))
    }

    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        self.time(|| self.store.get(key, f))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.time(|| self.store.delete(key))
    }

    fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.time(|| self.store.merge(key, operand))
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.time(|| self.store.delete_range(from, to))
    }

    fn scan(&self, from: Option<&[u8]>, direction: Direction, limit: u64, f: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        self.time(|| self.store.scan(from, direction, limit, f))
    }

    fn flush(&self) -> Result<()> {
        self.store.flush()
    }

    fn compact(&self) -> Result<()> {
        self.store.compact()
    }

    fn stats(&self) -> Result<StoreStats> {
        self.store.stats()
    }
}
