//! Tables: each step of a read separately (index, filter, checksum, decoding, search), whole reads,
//! cursors, and writing.
//!
//! "search" reads a table of one mapped block, because the index of one block costs almost nothing.
//! "index", "get", "next" and "prev" use a table of 500,000 entries (58 MB). All data is in memory.

use std::cell::LazyCell;
use std::hint::black_box;
use std::path::Path;

use criterion::{
    BatchSize, BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use firn_kv::Env;
use firn_kv::internals::base::cursor::Cursor;
use firn_kv::internals::base::key::{Kind, MAX_SEQ, Trailer};
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::sstable::format::{BlockKind, StoredBlock};
use firn_kv::internals::sstable::{TableWriter, WriterOptions, block_entries};
use firn_kv::internals::util::checksum::checksum;
use firn_kv::internals::util::hash::key_hash;
use firn_kv::{Compression, FilterKind};
use firn_micro::pieces::{Sorted, one_block, table};
use firn_micro::{BenchKey, BenchValues, ENTRY, Round, keys, memory, sorted};

const N: usize = 500_000;

fn with(compression: Compression, filter: FilterKind) -> WriterOptions {
    WriterOptions { compression, filter, ..WriterOptions::default() }
}

fn large(compression: Compression, filter: FilterKind) -> Sorted {
    table(sorted(N, 1), with(compression, filter)).unwrap()
}

fn raw() -> Sorted {
    large(Compression::None, FilterKind::Fuse8)
}

fn lz4() -> Sorted {
    large(Compression::Lz4, FilterKind::Fuse8)
}

fn present() -> Vec<BenchKey> {
    keys(N, 1)
}

fn absent() -> Vec<BenchKey> {
    keys(N, 2)
}

fn search(c: &mut Criterion) {
    let mut group = c.benchmark_group("sstable/search");
    group.throughput(Throughput::Elements(1));
    for (name, size) in [("4 KiB", 4096), ("16 KiB", 16 << 10)] {
        let block = LazyCell::new(|| one_block(size).unwrap());
        group.bench_function(name, |b| {
            let (t, guard, n) = (&*block, firn_kv::internals::util::epoch::pin(), block.keys.len());
            let mut at = Round::new(n * 7);
            b.iter(|| {
                t.table
                    .get(&t.keys[at.step() * 7 % n], None, MAX_SEQ, &guard)
                    .unwrap()
                    .map(|h| h.trailer)
            });
        });
    }
}

fn lookups(c: &mut Criterion) {
    let present: LazyCell<Vec<BenchKey>> = LazyCell::new(present);
    let absent: LazyCell<Vec<BenchKey>> = LazyCell::new(absent);
    let raw: LazyCell<Sorted> = LazyCell::new(raw);
    let lz4: LazyCell<Sorted> = LazyCell::new(lz4);

    let mut group = c.benchmark_group("sstable/index");
    group.throughput(Throughput::Elements(1));
    group.bench_function("lookup", |b| {
        let (t, keys, mut at) = (&raw.table, &*present, Round::new(N));
        b.iter(|| t.offset_of(&keys[at.step()]));
    });
    group.finish();

    let mut group = c.benchmark_group("sstable/get");
    group.throughput(Throughput::Elements(1));
    let mut get =
        |name: &str, t: &LazyCell<Sorted>, keys: &LazyCell<Vec<BenchKey>>, filter: bool| {
            let warmed = LazyCell::new(|| {
                let guard = firn_kv::internals::util::epoch::pin();
                keys.iter()
                    .for_each(|k| drop(black_box(t.table.get(k, None, MAX_SEQ, &guard).unwrap())));
            });
            group.bench_function(name, |b| {
                LazyCell::force(&warmed);
                let (t, keys, mut at) = (&t.table, &**keys, Round::new(N));
                b.iter(|| {
                    let key = &keys[at.step()];
                    let guard = firn_kv::internals::util::epoch::pin();
                    let hit = t.get(key, filter.then(|| key_hash(key)), MAX_SEQ, &guard).unwrap();
                    hit.map(|h| h.value().len())
                });
            });
        };
    get("hit, mapped", &raw, &present, false);
    get("hit, mapped, with filter", &raw, &present, true);
    get("hit, LZ4 in cache", &lz4, &present, false);
    get("miss, with filter", &raw, &absent, true);
}

fn filters(c: &mut Criterion) {
    let mut group = c.benchmark_group("sstable/filter");
    group.throughput(Throughput::Elements(1));
    for (bits, kind) in [(8, FilterKind::Fuse8), (16, FilterKind::Fuse16)] {
        let table = LazyCell::new(|| large(Compression::Lz4, kind));
        for (name, keys) in [("present", present as fn() -> Vec<BenchKey>), ("absent", absent)] {
            let hashes = LazyCell::new(|| keys().iter().map(|k| key_hash(k)).collect::<Vec<u64>>());
            group.bench_function(BenchmarkId::new(name, format!("{bits} bits")), |b| {
                let (t, hashes, mut at) = (&table.table, &*hashes, Round::new(N));
                b.iter(|| t.may_contain(hashes[at.step()]));
            });
        }
    }
}

/// A stored block and its location.
struct Block {
    bytes: Vec<u8>,
    offset: u64,
    raw: Vec<u8>,
}

/// Returns the blocks of a table of 20,000 entries.
fn blocks(compression: Compression) -> Vec<Block> {
    let t = table(sorted(20_000, 1), with(compression, FilterKind::None)).unwrap();
    let file = t.env.read_all(&table_path(Path::new("/tables"), 1), 1 << 30).unwrap();
    let cut = |offset: u64, len: u32| {
        let bytes = file[offset as usize..][..len as usize].to_vec();
        let raw = StoredBlock::check(&bytes, BlockKind::Data, 1, offset).unwrap().to_vec().unwrap();
        Block { bytes, offset, raw }
    };
    t.table.blocks().map(|b| cut(b.offset, b.len)).collect()
}

fn decoding(c: &mut Criterion) {
    let raw: LazyCell<Vec<Block>> = LazyCell::new(|| blocks(Compression::None));
    let lz4: LazyCell<Vec<Block>> = LazyCell::new(|| blocks(Compression::Lz4));

    // Each iteration processes one block. The throughput counts bytes of the decoded block.
    let mut group = c.benchmark_group("sstable/block");
    group.throughput(Throughput::Bytes(raw[0].raw.len() as u64));
    let check =
        |b: &Block| StoredBlock::check(&b.bytes, BlockKind::Data, 1, b.offset).unwrap().raw_len;
    for (name, blocks) in [("raw", &raw), ("LZ4", &lz4)] {
        group.bench_function(BenchmarkId::new("checksum", name), |b| {
            let mut at = Round::new(blocks.len());
            b.iter(|| check(&blocks[at.step()]));
        });
        group.bench_function(BenchmarkId::new("checksum and unpack", name), |b| {
            let (mut at, mut out) = (Round::new(blocks.len()), vec![]);
            b.iter(|| {
                let block = &blocks[at.step()];
                let stored =
                    StoredBlock::check(&block.bytes, BlockKind::Data, 1, block.offset).unwrap();
                out.resize(stored.raw_len, 0);
                stored.unpack(&mut out).unwrap();
                out[0]
            });
        });
    }
    group.bench_function("validate", |b| {
        let mut at = Round::new(raw.len());
        b.iter(|| block_entries(&raw[at.step()].raw).unwrap().size_hint());
    });
    group.finish();

    let mut group = c.benchmark_group("sstable/checksum");
    for len in [128, 4096] {
        let bytes = vec![0x5a; len];
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(BenchmarkId::from_parameter(len), |b| {
            b.iter(|| checksum(1, 4096, &[black_box(&bytes)]))
        });
    }
}

fn cursors(c: &mut Criterion) {
    // Two tables are stored in the same way. Each cursor must not find blocks that the other
    // cached.
    let raw: LazyCell<Sorted> = LazyCell::new(raw);
    let (cold, warm): (LazyCell<Sorted>, LazyCell<Sorted>) =
        (LazyCell::new(lz4), LazyCell::new(lz4));
    for forward in [true, false] {
        let mut group = c.benchmark_group(if forward { "sstable/next" } else { "sstable/prev" });
        group.throughput(Throughput::Elements(1));
        for (name, t, fill) in [
            ("mapped", &raw, true),
            ("LZ4, decoded each time", &cold, false),
            ("LZ4 in cache", &warm, true),
        ] {
            group.bench_function(name, |b| {
                let mut cursor = t.table.cursor(fill);
                let start = |c: &mut firn_kv::internals::sstable::TableCursor| {
                    if forward { c.first() } else { c.last() }.unwrap()
                };
                start(&mut cursor);
                b.iter(|| {
                    black_box((cursor.key(), cursor.value()));
                    if forward { cursor.next() } else { cursor.prev() }.unwrap();
                    if !cursor.valid() {
                        start(&mut cursor);
                    }
                });
            });
        }
    }
}

/// Returns a writer to which all of `keys` were added.
fn filled(
    env: &dyn Env,
    options: WriterOptions,
    keys: &[BenchKey],
    values: &BenchValues,
) -> TableWriter {
    let path = Path::new("/written");
    let mut writer = TableWriter::new(env.create(path).unwrap(), path, 1, options);
    for (i, key) in keys.iter().enumerate() {
        writer.add(key, Trailer::new(0, Kind::Put), values.get(i)).unwrap();
    }
    writer
}

fn writing(c: &mut Criterion) {
    const N: usize = 100_000;
    let (env, values) = (memory(), BenchValues::new());
    let keys = LazyCell::new(|| sorted(N, 1));

    let mut group = c.benchmark_group("sstable/write");
    group
        .sampling_mode(SamplingMode::Flat)
        .sample_size(10)
        .throughput(Throughput::Bytes((N * ENTRY) as u64));
    for (name, compression) in [("raw", Compression::None), ("LZ4", Compression::Lz4)] {
        let options = with(compression, FilterKind::Fuse8);
        group.bench_function(name, |b| {
            let keys = &*keys;
            b.iter(|| filled(&*env, options.clone(), keys, &values).finish().unwrap().size)
        });
    }
    group.finish();

    // Measures the work after all entries have been added: index, properties, and the filter, which
    // causes the difference.
    let mut group = c.benchmark_group("sstable/finish");
    group
        .sampling_mode(SamplingMode::Flat)
        .sample_size(10)
        .throughput(Throughput::Elements(N as u64));
    for (name, filter) in [
        ("no filter", FilterKind::None),
        ("8 bits", FilterKind::Fuse8),
        ("16 bits", FilterKind::Fuse16),
    ] {
        let make = || filled(&*env, with(Compression::None, filter), &keys, &values);
        group.bench_function(name, |b| {
            b.iter_batched(make, |w| w.finish().unwrap().size, BatchSize::PerIteration)
        });
    }
}

criterion_group!(name = benches; config = firn_micro::criterion(); targets = search, lookups, filters, decoding, cursors, writing);
criterion_main!(benches);
