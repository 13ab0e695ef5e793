//! Operations whose lines are counted, each on a prepared store.

use std::hint::black_box;

use firn_kv::{Batch, Compression, DbOptions, Durability, Result};
use firn_micro::pieces::{BenchStore, store_for_writes, store_in_memory, store_on_disk};
use firn_micro::{BenchKey, BenchValues, keys};

/// Number of keys of a store that is read. They fill several levels of a memtable and dozens of
/// blocks, but are written under valgrind in seconds.
const KEYS: usize = 4_000;

/// Performs the `i`th operation of a thread.
pub type LineStep<'a> = Box<dyn FnMut(usize) -> Result<()> + 'a>;
/// Creates the steps of a thread from its number and the number of threads.
type MakeSteps = for<'a> fn(&'a BenchStore, usize, usize) -> LineStep<'a>;

/// A type of operation.
pub struct LineOperation {
    /// Name of the operation on the command line.
    pub name: &'static str,
    /// Creates the store.
    pub store: fn() -> Result<BenchStore>,
    /// Creates the steps of each thread.
    pub steps: MakeSteps,
    /// First thread whose operations count. The threads before it run other operations.
    pub first_counted: usize,
}

/// All operations.
pub const OPERATIONS: [LineOperation; 13] = [
    LineOperation { name: "get/memtable", store: in_memory, steps: gets, first_counted: 0 },
    LineOperation { name: "get/cache", store: in_cache, steps: gets, first_counted: 0 },
    LineOperation { name: "get/cache, one key", store: in_cache, steps: one_get, first_counted: 0 },
    LineOperation { name: "get/missing", store: in_cache, steps: missing_gets, first_counted: 0 },
    LineOperation {
        name: "range, 10 next/memtable",
        store: in_memory,
        steps: ranges,
        first_counted: 0,
    },
    LineOperation {
        name: "range, 10 next/cache",
        store: in_cache,
        steps: ranges,
        first_counted: 0,
    },
    LineOperation { name: "seek, 10 next/cache", store: in_cache, steps: seeks, first_counted: 0 },
    LineOperation { name: "snapshot", store: in_memory, steps: snapshots, first_counted: 0 },
    LineOperation { name: "put", store: store_for_writes, steps: puts, first_counted: 0 },
    LineOperation {
        name: "put, synced",
        store: store_for_writes,
        steps: synced_puts,
        first_counted: 0,
    },
    LineOperation {
        name: "batch of 100",
        store: store_for_writes,
        steps: batches,
        first_counted: 0,
    },
    LineOperation {
        name: "get/memtable beside puts",
        store: in_memory,
        steps: |store, thread, threads| match thread {
            0 => puts(store, thread, threads),
            _ => gets(store, thread, threads),
        },
        first_counted: 1,
    },
    LineOperation {
        name: "get/missing beside puts",
        store: in_cache,
        steps: |store, thread, threads| match thread {
            0 => puts(store, thread, threads),
            _ => missing_gets(store, thread, threads),
        },
        first_counted: 1,
    },
];

fn present() -> Vec<BenchKey> {
    keys(KEYS, 1)
}

fn in_memory() -> Result<BenchStore> {
    store_in_memory(&present())
}

/// Returns a store with all blocks in the cache.
fn in_cache() -> Result<BenchStore> {
    let store = store_on_disk(&present(), Compression::Lz4, DbOptions::default())?;
    for key in &present() {
        store.tree.get(key)?;
    }
    Ok(store)
}

/// Keys of one thread. The threads divide all keys among them.
struct ThreadKeys {
    keys: Vec<BenchKey>,
    thread: usize,
    threads: usize,
}

impl ThreadKeys {
    fn of(seed: u64, thread: usize, threads: usize) -> ThreadKeys {
        ThreadKeys { keys: keys(KEYS, seed), thread, threads }
    }

    fn at(&self, i: usize) -> &BenchKey {
        &self.keys[(i * self.threads + self.thread) % self.keys.len()]
    }
}

fn lookups(store: &BenchStore, keys: ThreadKeys) -> LineStep<'_> {
    Box::new(move |i| {
        black_box(store.tree.get(keys.at(i))?.map(|v| v.len()));
        Ok(())
    })
}

fn gets(store: &BenchStore, thread: usize, threads: usize) -> LineStep<'_> {
    lookups(store, ThreadKeys::of(1, thread, threads))
}

fn one_get(store: &BenchStore, _: usize, _: usize) -> LineStep<'_> {
    let keys = present();
    Box::new(move |_| {
        black_box(store.tree.get(&keys[0])?.map(|v| v.len()));
        Ok(())
    })
}

fn missing_gets(store: &BenchStore, thread: usize, threads: usize) -> LineStep<'_> {
    lookups(store, ThreadKeys::of(2, thread, threads))
}

fn ranges(store: &BenchStore, thread: usize, threads: usize) -> LineStep<'_> {
    let keys = ThreadKeys::of(1, thread, threads);
    Box::new(move |i| {
        for entry in store.tree.range(keys.at(i).as_slice()..).take(11) {
            black_box(entry?.1.len());
        }
        Ok(())
    })
}

fn seeks(store: &BenchStore, thread: usize, threads: usize) -> LineStep<'_> {
    let keys = ThreadKeys::of(1, thread, threads);
    let mut cursor = store.tree.cursor(..);
    Box::new(move |i| {
        let cursor = cursor.as_mut().map_err(|e| e.clone())?;
        cursor.seek(keys.at(i))?;
        for _ in 0..10 {
            if cursor.is_valid() {
                black_box(cursor.value());
                cursor.next()?;
            }
        }
        Ok(())
    })
}

fn snapshots(store: &BenchStore, _: usize, _: usize) -> LineStep<'_> {
    Box::new(|_| {
        black_box(store.db.snapshot().seq());
        Ok(())
    })
}

fn puts(store: &BenchStore, thread: usize, threads: usize) -> LineStep<'_> {
    let (keys, values) = (ThreadKeys::of(3, thread, threads), BenchValues::new());
    Box::new(move |i| store.tree.put(keys.at(i), values.get(i)))
}

fn synced_puts(store: &BenchStore, thread: usize, threads: usize) -> LineStep<'_> {
    let (keys, values) = (ThreadKeys::of(3, thread, threads), BenchValues::new());
    let tree = store.tree.with_durability(Durability::Power);
    Box::new(move |i| tree.put(keys.at(i), values.get(i)))
}

fn batches(store: &BenchStore, thread: usize, threads: usize) -> LineStep<'_> {
    let (keys, values) = (ThreadKeys::of(3, thread, threads), BenchValues::new());
    Box::new(move |i| {
        let mut batch = Batch::new();
        for j in 0..100 {
            batch.put(&store.tree, keys.at(100 * i + j), values.get(j))?;
        }
        store.db.write(batch).map(|_| ())
    })
}
