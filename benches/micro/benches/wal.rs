//! The write-ahead log: appends to recycled segments, commits that wait for the device, and replay.

#![allow(clippy::disallowed_methods)] // a benchmark needs a clock

use std::cell::LazyCell;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use firn_kv::Env;
use firn_kv::OsEnv;
use firn_kv::internals::base::format_version::FormatVersion;
use firn_kv::internals::wal::format::record_size;
use firn_kv::internals::wal::{Wal, recover};
use firn_micro::{BenchDir, BenchFill, memory};

const SEGMENT: u64 = 16 << 20;

fn open(env: Arc<dyn Env>, dir: &Path) -> Wal {
    env.create_dir_all(dir).unwrap();
    let empty = recover(&*env, dir, 0, &mut |_, _, _| Ok(())).unwrap();
    Wal::create(env, dir, 1, FormatVersion::OLDEST, &empty, SEGMENT).unwrap()
}

/// Releases full segments and prepares the next one, as the engine's workers do while writers run.
fn recycle(wal: &mut Wal) {
    wal.retire(wal.end()).remove().unwrap();
    if let Some(job) = wal.prepare_next() {
        job.run(&|| false).unwrap();
    }
}

/// Appends a record of `len` bytes to a recycled segment: one checksum and one copy into a map.
fn append(c: &mut Criterion) {
    let mut group = c.benchmark_group("wal/append");
    for len in [16, 116, 1 << 10, 64 << 10] {
        let payload = vec![0x5a; len];
        let n = ((SEGMENT - (64 << 10)) / record_size(len) - 1) as usize;
        let dir = BenchDir::new();
        let mut fill = BenchFill::<Wal>::new(n);
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(BenchmarkId::from_parameter(len), |b| {
            let fresh = |full: Option<Wal>| {
                let mut wal = full.unwrap_or_else(|| {
                    let mut wal = open(OsEnv::new(), dir.path());
                    // Creates as many segments as will be recycled.
                    for i in 0..4 * n {
                        if i % n == 0 {
                            recycle(&mut wal);
                        }
                        wal.append(1, &[&payload]).unwrap();
                    }
                    wal
                });
                recycle(&mut wal);
                wal
            };
            fill.run(b, fresh, |wal, i| {
                wal.append(i as u64, &[&payload]).unwrap();
            });
        });
    }
}

/// Appends records of 116 bytes that `writers` threads make durable with shared syncs.
fn commit(c: &mut Criterion) {
    let mut group = c.benchmark_group("wal/commit");
    group.throughput(Throughput::Elements(1));
    for (place, writers) in [("mem", 1), ("mem", 4), ("os", 1), ("os", 4), ("os", 16)] {
        let dir = BenchDir::new();
        let wal = LazyCell::new(|| {
            Mutex::new(open(if place == "os" { OsEnv::new() } else { memory() }, dir.path()))
        });
        group.bench_function(format!("{place}, {writers} writers"), |b| {
            let wal = &*wal;
            let syncer = wal.lock().unwrap().syncer();
            let one = |n: u64| {
                for _ in 0..n {
                    let end = wal_append(wal);
                    syncer.sync(end).unwrap();
                }
            };
            b.iter_custom(|iterations| {
                recycle(&mut wal.lock().unwrap());
                let each = iterations.div_ceil(writers);
                let start = Instant::now();
                std::thread::scope(|s| (0..writers).for_each(|_| drop(s.spawn(|| one(each)))));
                start.elapsed().mul_f64(iterations as f64 / (each * writers) as f64)
            });
        });
    }
}

fn wal_append(wal: &Mutex<Wal>) -> u64 {
    wal.lock().unwrap().append(1, &[&[0x5a; 116]]).unwrap()
}

/// Reads a cleanly closed log of records of 116 bytes.
fn recovery(c: &mut Criterion) {
    let dir = BenchDir::new();
    let env = OsEnv::new();
    let bytes = 12 << 20;
    let written = LazyCell::new(|| {
        let mut wal = open(env.clone(), dir.path());
        while wal.end() < bytes {
            wal.append(wal.end(), &[&[0x5a; 116]]).unwrap();
        }
    });
    let mut group = c.benchmark_group("wal/recover");
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function("12 MiB", |b| {
        LazyCell::force(&written);
        b.iter(|| recover(&*env, dir.path(), 0, &mut |_, _, _| Ok(())).unwrap().records);
    });
}

criterion_group!(name = benches; config = firn_micro::criterion(); targets = append, commit, recovery);
criterion_main!(benches);
