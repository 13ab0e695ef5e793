//! The memtable: inserts, lookups and scans, compared with `crossbeam-skiplist`. 500,000 random
//! keys of 16 bytes, values of 100 bytes, one thread. The memory is touched beforehand.

use std::cell::{LazyCell, RefCell};
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use crossbeam_skiplist::SkipMap;
use firn_kv::internals::base::cursor::Cursor;
use firn_kv::internals::base::key::MAX_SEQ;
use firn_kv::internals::memtable::Memtable;
use firn_kv::internals::util::hash::key_hash;
use firn_micro::{BenchFill, BenchKey, BenchValues, Round, keys, pieces, sorted};

const N: usize = 500_000;

type Skiplist = SkipMap<Vec<u8>, Vec<u8>>;

fn insert(c: &mut Criterion, name: &str, order: fn(usize, u64) -> Vec<BenchKey>) {
    let values = BenchValues::new();
    let keys = LazyCell::new(|| order(N, 1));
    let arenas = LazyCell::new(|| pieces::arenas(pieces::capacity(N)).unwrap());
    let mut group = c.benchmark_group(name);
    group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(1));
    let mut fill = BenchFill::<Arc<Memtable>>::new(N);
    group.bench_function("firn", |b| {
        let (keys, arenas) = (&*keys, &*arenas);
        let fresh = |full: Option<Arc<Memtable>>| {
            drop(full);
            Memtable::new(arenas, pieces::capacity(N)).unwrap()
        };
        fill.run(b, fresh, |table, i| pieces::insert(table, &keys[i], i as u64 + 1, values.get(i)));
    });
    let mut fill = BenchFill::<Skiplist>::new(N);
    group.bench_function("crossbeam-skiplist", |b| {
        let keys = &*keys;
        fill.run(
            b,
            |_| Skiplist::new(),
            |map, i| drop(map.insert(keys[i].to_vec(), values.get(i).to_vec())),
        );
    });
}

fn inserts(c: &mut Criterion) {
    insert(c, "memtable/insert-random", keys);
    insert(c, "memtable/insert-sequential", sorted);
}

fn skiplist(keys: &[BenchKey]) -> Skiplist {
    let values = BenchValues::new();
    keys.iter().enumerate().map(|(i, k)| (k.to_vec(), values.get(i).to_vec())).collect()
}

fn reads(c: &mut Criterion) {
    let present = LazyCell::new(|| keys(N, 1));
    let absent = LazyCell::new(|| keys(N, 2));
    let firn = LazyCell::new(|| pieces::memtable(&present).unwrap());
    let peer = LazyCell::new(|| skiplist(&present));
    let at = RefCell::new(Round::new(N));
    let next = || at.borrow_mut().step() * 7919 % N;

    let mut group = c.benchmark_group("memtable/get-hit");
    group.throughput(Throughput::Elements(1));
    group.bench_function("firn", |b| {
        let (table, keys) = (&*firn, &*present);
        b.iter(|| table.get(&keys[next()], MAX_SEQ).map(|f| f.value.len()));
    });
    group.bench_function("crossbeam-skiplist", |b| {
        let (map, keys) = (&*peer, &*present);
        b.iter(|| map.get(&keys[next()][..]).map(|e| e.value().len()));
    });
    group.finish();

    let mut group = c.benchmark_group("memtable/get-miss");
    group.throughput(Throughput::Elements(1));
    group.bench_function("firn, key filter", |b| {
        let (table, keys) = (&*firn, &*absent);
        b.iter(|| {
            let key = &keys[next()];
            table.may_contain(key_hash(key)) && table.get(key, MAX_SEQ).is_some()
        });
    });
    group.bench_function("firn, search only", |b| {
        let (table, keys) = (&*firn, &*absent);
        b.iter(|| table.get(&keys[next()], MAX_SEQ).is_some());
    });
    group.bench_function("crossbeam-skiplist", |b| {
        let (map, keys) = (&*peer, &*absent);
        b.iter(|| map.get(&keys[next()][..]).is_some());
    });
}

fn scans(c: &mut Criterion) {
    let present = LazyCell::new(|| keys(N, 1));
    let firn = LazyCell::new(|| pieces::memtable(&present).unwrap());
    let peer = LazyCell::new(|| skiplist(&present));

    let mut group = c.benchmark_group("memtable/scan-forward");
    group.throughput(Throughput::Elements(1));
    group.bench_function("firn", |b| {
        let mut cursor = firn.cursor();
        cursor.first().unwrap();
        b.iter(|| {
            black_box((cursor.key(), cursor.value()));
            cursor.next().unwrap();
            if !cursor.valid() {
                cursor.first().unwrap();
            }
        });
    });
    group.bench_function("crossbeam-skiplist", |b| {
        let mut entry = peer.front().unwrap();
        b.iter(|| {
            black_box((entry.key(), entry.value()));
            if !entry.move_next() {
                entry = peer.front().unwrap();
            }
        });
    });
    group.finish();

    let mut group = c.benchmark_group("memtable/scan-backward");
    group.throughput(Throughput::Elements(1));
    group.bench_function("firn", |b| {
        let mut cursor = firn.cursor();
        cursor.last().unwrap();
        b.iter(|| {
            black_box((cursor.key(), cursor.value()));
            cursor.prev().unwrap();
            if !cursor.valid() {
                cursor.last().unwrap();
            }
        });
    });
    group.bench_function("crossbeam-skiplist", |b| {
        let mut entry = peer.back().unwrap();
        b.iter(|| {
            black_box((entry.key(), entry.value()));
            if !entry.move_prev() {
                entry = peer.back().unwrap();
            }
        });
    });
}

criterion_group!(name = benches; config = firn_micro::criterion(); targets = inserts, reads, scans);
criterion_main!(benches);
