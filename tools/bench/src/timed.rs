//! Latency sampling around the measured store, for latencies over time.

use std::cell::Cell;
use std::sync::Mutex;

use firn_workload::firn::FirnStore;
use firn_workload::{Direction, Result, Store, StoreBatch, StoreStats};
use hdrhistogram::Histogram;

use firn_tools::io::Stopwatch;

/// One operation in this many is timed.
const TIMED: u32 = 16;

thread_local! {
    static COUNTDOWN: Cell<u32> = const { Cell::new(0) };
}

/// A store that collects latencies until they are taken.
pub struct TimedStore<'a> {
    store: &'a FirnStore,
    watch: Stopwatch,
    times: Mutex<Histogram<u64>>,
}

impl<'a> TimedStore<'a> {
    /// Wraps `store`.
    pub fn new(store: &'a FirnStore) -> Result<TimedStore<'a>> {
        let times = Histogram::new_with_bounds(1, 1_000_000_000_000, 2)?;
        Ok(TimedStore { store, watch: Stopwatch::start(), times: Mutex::new(times) })
    }

    /// Returns median, 99th percentile and maximum in nanoseconds since the last call; `None`
    /// without samples.
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

impl Store for TimedStore<'_> {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.time(|| self.store.put(key, value, sync))
    }

    fn write_batch(&self, batch: &StoreBatch) -> Result<()> {
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

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        f: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
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
