//! The whole path of an operation: writes to the log and the memtable, and reads from each place
//! where a key can be stored.
//!
//! 200,000 random keys (23 MB), one thread, the real file system. Reads are served from the page
//! cache.

use std::cell::LazyCell;

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use firn_kv::{Batch, Compression, DbOptions, ReadMode};
use firn_micro::pieces::{BenchStore, store_for_writes, store_in_memory, store_on_disk};
use firn_micro::{BenchFill, BenchKey, BenchValues, Round, keys};

const N: usize = 200_000;

fn present() -> Vec<BenchKey> {
    keys(N, 1)
}

/// Empties the memtable, so that a fill never causes a flush. Memory and log segments are recycled
/// as usual.
fn emptied(full: Option<BenchStore>) -> BenchStore {
    let store = full.unwrap_or_else(|| {
        let store = store_for_writes().unwrap();
        // This first fill touches the memory and the segments.
        let (keys, values) = (keys(2 * N, 9), BenchValues::new());
        keys.iter().enumerate().for_each(|(i, k)| store.tree.put(k, values.get(i)).unwrap());
        store
    });
    store.tree.flush().unwrap();
    store.db.wait_idle().unwrap();
    store
}

fn writes(c: &mut Criterion) {
    let (keys, values) = (LazyCell::new(present), BenchValues::new());
    let mut group = c.benchmark_group("db/write");
    group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(1));
    let mut fill = BenchFill::<BenchStore>::new(N);
    group.bench_function("put", |b| {
        let keys = &*keys;
        fill.run(b, emptied, |store, i| store.tree.put(&keys[i], values.get(i)).unwrap());
    });
    group.throughput(Throughput::Elements(100));
    let mut fill = BenchFill::<BenchStore>::new(N / 100);
    group.bench_function("batch of 100", |b| {
        let keys = &*keys;
        fill.run(b, emptied, |store, i| {
            let mut batch = Batch::new();
            for (j, key) in keys[100 * i..][..100].iter().enumerate() {
                batch.put(&store.tree, key, values.get(100 * i + j)).unwrap();
            }
            store.db.write(batch).unwrap();
        });
    });
    group.throughput(Throughput::Elements(1));
    let mut fill = BenchFill::<BenchStore>::new(N / 2);
    group.bench_function("transaction: get, put, commit", |b| {
        let keys = &*keys;
        fill.run(b, emptied, |store, i| {
            let mut t = store.db.transaction();
            let there = t.get(&store.tree, &keys[i]).unwrap();
            assert!(there.is_none());
            t.put(&store.tree, &keys[i], values.get(i)).unwrap();
            t.commit().unwrap();
        });
    });
}

fn on_disk(compression: Compression, read_mode: ReadMode, memory_budget: usize) -> BenchStore {
    let options = DbOptions { memory_budget, read_mode, ..DbOptions::default() };
    store_on_disk(&present(), compression, options).unwrap()
}

fn cached() -> BenchStore {
    on_disk(Compression::Lz4, ReadMode::Mmap, 256 << 20)
}

fn reads(c: &mut Criterion) {
    let (present, absent) = (LazyCell::new(present), LazyCell::new(|| keys(N, 2)));
    let mut group = c.benchmark_group("db/get");
    group.throughput(Throughput::Elements(1));
    type Case = (&'static str, fn() -> BenchStore);
    let cases: [Case; 6] = [
        ("memtable", || store_in_memory(&keys(N, 1)).unwrap()),
        ("cache", cached),
        ("map", || on_disk(Compression::None, ReadMode::Mmap, 256 << 20)),
        ("decoded from the map", || on_disk(Compression::Lz4, ReadMode::Mmap, 4 << 20)),
        ("decoded from pread", || on_disk(Compression::Lz4, ReadMode::Pread, 4 << 20)),
        ("missing", cached),
    ];
    for (name, make) in cases {
        let missing = name == "missing";
        let store = LazyCell::new(|| {
            let store = make();
            present.iter().for_each(|k| assert!(store.tree.get(k).unwrap().is_some()));
            store
        });
        group.bench_function(name, |b| {
            let (tree, keys, mut at) =
                (&store.tree, if missing { &*absent } else { &*present }, Round::new(N));
            b.iter(|| tree.get(&keys[at.step() * 7919 % N]).unwrap().map(|v| v.len()));
        });
    }
}

fn seeks(c: &mut Criterion) {
    let (present, store) = (LazyCell::new(present), LazyCell::new(cached));
    let mut group = c.benchmark_group("db/seek");
    group.throughput(Throughput::Elements(1));
    group.bench_function("a new cursor, 10 next", |b| {
        let (tree, keys, mut at) = (&store.tree, &*present, Round::new(N));
        b.iter(|| {
            let mut cursor = tree.cursor(..).unwrap();
            ten(&mut cursor, &keys[at.step()])
        });
    });
    group.bench_function("the same cursor, 10 next", |b| {
        let (keys, mut at) = (&*present, Round::new(N));
        let mut cursor = store.tree.cursor(..).unwrap();
        b.iter(|| ten(&mut cursor, &keys[at.step()]));
    });
}

/// Seeks and reads up to ten further entries. Returns their size in bytes.
fn ten(cursor: &mut firn_kv::Cursor, key: &[u8]) -> usize {
    cursor.seek(key).unwrap();
    let mut bytes = cursor.value().len();
    for _ in 0..10 {
        cursor.next().unwrap();
        bytes += cursor.value().len();
    }
    bytes
}

fn snapshots(c: &mut Criterion) {
    let store = LazyCell::new(|| store_in_memory(&keys(1000, 1)).unwrap());
    let mut group = c.benchmark_group("db/snapshot");
    group.throughput(Throughput::Elements(1));
    group.bench_function("take and drop", |b| b.iter(|| store.db.snapshot().seq()));
    group.bench_function("take and drop beside 1000", |b| {
        let _held: Vec<_> = (0..1000).map(|_| store.db.snapshot()).collect();
        b.iter(|| store.db.snapshot().seq());
    });
}

criterion_group!(name = benches; config = firn_micro::criterion(); targets = writes, reads, seeks, snapshots);
criterion_main!(benches);
