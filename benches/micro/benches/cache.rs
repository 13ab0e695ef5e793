//! Block cache. A hit is one load through the table's slot. A miss takes a frame from the slab and
//! evicts another block.

use std::cell::LazyCell;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use firn_kv::internals::block_cache::{Cache, CacheSlots};
use firn_micro::Round;

/// Frame size in bytes: 4 KiB with its header.
const FRAME: usize = 4096 - 64;

fn hit(c: &mut Criterion) {
    const N: usize = 8192;
    let full = LazyCell::new(|| {
        let (cache, slots) = (Cache::new(2 * N * 4096), Arc::new(CacheSlots::new(N)));
        (0..N).for_each(|i| drop(cache.insert(&slots, i, cache.allocate(FRAME).freeze())));
        (cache, slots)
    });
    let mut group = c.benchmark_group("cache/hit");
    group.throughput(Throughput::Elements(1));
    group.bench_function("pinned once", |b| {
        let (slots, guard, mut at) =
            (&full.1, firn_kv::internals::util::epoch::pin(), Round::new(N));
        b.iter(|| slots.get(at.step() * 1237 % N, &guard).unwrap()[0]);
    });
    group.bench_function("pinned each time", |b| {
        let (slots, mut at) = (&full.1, Round::new(N));
        b.iter(|| {
            let guard = firn_kv::internals::util::epoch::pin();
            slots.get(at.step() * 1237 % N, &guard).unwrap()[0]
        });
    });
    group.bench_function("held beyond the pin", |b| {
        let (slots, mut at) = (&full.1, Round::new(N));
        b.iter(|| {
            let guard = firn_kv::internals::util::epoch::pin();
            slots.get(at.step() * 1237 % N, &guard).unwrap().to_ref()[0]
        });
    });
}

/// Reads four times as many blocks as fit, in turn, so that each read misses and evicts a block.
/// The frame's bytes are not written.
fn miss(c: &mut Criterion) {
    const N: usize = 8192;
    let (cache, slots) = (Cache::new(N / 4 * 4096), Arc::new(CacheSlots::new(N)));
    let mut at = Round::new(N);
    let mut group = c.benchmark_group("cache/miss");
    group.throughput(Throughput::Elements(1));
    group.bench_function("allocate, insert, evict", |b| {
        b.iter(|| {
            let i = at.step();
            let guard = firn_kv::internals::util::epoch::pin();
            assert!(slots.get(i, &guard).is_none(), "block {i} should have been evicted");
            drop(guard);
            cache.insert(&slots, i, cache.allocate(FRAME).freeze());
        });
    });
}

criterion_group!(name = benches; config = firn_micro::criterion(); targets = hit, miss);
criterion_main!(benches);
