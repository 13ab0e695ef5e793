//! Merging of runs: the plain merge, the view of a reader, and the retention of a compaction.
//!
//! 200,000 random keys are distributed over 2, 4 or 8 runs of mapped tables. Each result is the
//! cost of one entry.

use std::cell::LazyCell;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{
    BatchSize, BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use firn_kv::internals::base::cursor::Cursor;
use firn_kv::internals::base::key::{Kind, MAX_SEQ, Seq, Trailer};
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::iterator::merging::{MergeSource, Merging};
use firn_kv::internals::iterator::opener::TableOpener;
use firn_kv::internals::iterator::run::TableRun;
use firn_kv::internals::iterator::run_cursor::RunCursor;
use firn_kv::internals::iterator::shadow::{Cover, RangeShadow};
use firn_kv::internals::iterator::table_handle::TableHandle;
use firn_kv::internals::iterator::visible::{Visible, VisibleRange};
use firn_kv::internals::range_del::deletions::Deletions;
use firn_kv::internals::range_del::tombstone::{Fragments, RangeTombstone};
use firn_kv::internals::rewrite::retain::{Advanced, OlderRuns, OtherRuns, Retain, Rules};
use firn_kv::internals::sstable::WriterOptions;
use firn_kv::{Compression, DbOptions, ReadMode};
use firn_micro::{BenchKey, keys, memory, meta, write_table};

const N: usize = 200_000;

/// Entry to write: its key, and whether it is a delete.
type Entry = (BenchKey, bool);

/// Returns runs of one table each, newest first. The first has the largest sequence numbers.
fn runs(contents: Vec<Vec<Entry>>) -> Vec<Arc<TableRun>> {
    let (env, dir) = (memory(), Path::new("/runs"));
    let opener = Arc::new(TableOpener::new(
        env.clone(),
        dir,
        Cache::new(64 << 20),
        &DbOptions { read_mode: ReadMode::Mmap, ..DbOptions::default() },
    ));
    let count = contents.len();
    let run = |(r, mut entries): (usize, Vec<Entry>)| {
        entries.sort_unstable();
        let (sorted, deletes): (Vec<BenchKey>, Vec<bool>) = entries.into_iter().unzip();
        let options = WriterOptions { compression: Compression::None, ..WriterOptions::default() };
        let seq = |i: usize| ((count - r) * N + i) as u64;
        let trailer =
            |i: usize| Trailer::new(seq(i), if deletes[i] { Kind::Delete } else { Kind::Put });
        let facts = write_table(&*env, dir, r as u64 + 1, options, &sorted, trailer).unwrap();
        Arc::new(TableRun::new(
            0,
            (count - r) as u64,
            vec![TableHandle::new(
                Arc::new(meta(&facts)),
                opener.clone(),
                Arc::default(),
                &Default::default(),
            )],
        ))
    };
    contents.into_iter().enumerate().map(run).collect()
}

/// Returns `k` runs that have no key in common.
fn distinct(k: usize) -> Vec<Arc<TableRun>> {
    let all = keys(N, 1);
    runs(all.chunks(N / k).map(|part| part.iter().map(|&key| (key, false)).collect()).collect())
}

/// Returns four runs, each of which shares half of its keys with the next older one. The newer
/// entries are new versions, or deletes for a fifth of them.
fn overwritten(deletes: bool) -> Vec<Arc<TableRun>> {
    let all = keys(N, 1);
    let part = N / 4;
    let entry = |from: usize, i: usize| {
        (all[(from + i) % N], deletes && i >= part / 2 && i.is_multiple_of(5))
    };
    runs((0..4).map(|r| (0..part).map(|i| entry(r * part / 2, i)).collect()).collect())
}

fn sources(runs: &[Arc<TableRun>]) -> Vec<MergeSource> {
    runs.iter().map(|r| MergeSource::Run(RunCursor::new(r.clone(), true))).collect()
}

/// Returns 100 range deletions that hide a tenth of all keys of all runs.
fn tombstones() -> Deletions {
    let bound = |at: u16| at.to_be_bytes().to_vec();
    let one = |i: u16| RangeTombstone {
        start: bound(655 * i),
        end: bound(655 * i + 65),
        seq: 6 * N as u64,
    };
    (0..100).map(one).collect::<Vec<_>>().iter().collect()
}

fn next(c: &mut Criterion) {
    let mut group = c.benchmark_group("merge/next");
    group.throughput(Throughput::Elements(1));
    for k in [2, 4, 8] {
        let runs = LazyCell::new(|| distinct(k));
        group.bench_function(BenchmarkId::from_parameter(format!("{k} runs")), |b| {
            let mut merging = Merging::new(sources(&runs));
            merging.first().unwrap();
            b.iter(|| {
                black_box((merging.key(), merging.value()));
                merging.next().unwrap();
                if !merging.valid() {
                    merging.first().unwrap();
                }
            });
        });
    }
}

fn visible(c: &mut Criterion) {
    type Case = (&'static str, fn() -> Vec<Arc<TableRun>>, fn() -> Vec<Cover>);
    let cases: [Case; 5] = [
        ("1 run", || distinct(1), Vec::new),
        ("4 runs", || distinct(4), Vec::new),
        ("4 runs, half overwritten", || overwritten(false), Vec::new),
        ("4 runs, half overwritten, a fifth deleted", || overwritten(true), Vec::new),
        (
            "4 runs, 100 range deletions",
            || distinct(4),
            || vec![Cover::Mem(Arc::new(tombstones()))],
        ),
    ];
    let mut group = c.benchmark_group("merge/visible");
    group.throughput(Throughput::Elements(1));
    for (name, runs, deletions) in cases {
        let runs = LazyCell::new(runs);
        for forward in [true, false] {
            group.bench_function(
                BenchmarkId::new(if forward { "next" } else { "prev" }, name),
                |b| {
                    let shadow = RangeShadow::new(deletions(), MAX_SEQ);
                    let mut v = Visible::new(
                        sources(&runs),
                        MAX_SEQ,
                        shadow,
                        None,
                        VisibleRange::default(),
                    );
                    let start =
                        |v: &mut Visible| if forward { v.first() } else { v.last() }.unwrap();
                    start(&mut v);
                    b.iter(|| {
                        black_box((v.key(), v.value()));
                        if forward { v.next() } else { v.prev() }.unwrap();
                        if !v.valid() {
                            start(&mut v);
                        }
                    });
                },
            );
        }
    }
}

/// Runs a whole pass over the input of a compaction. The result is the cost of one input entry.
fn retain(c: &mut Criterion) {
    type Case = (&'static str, fn() -> Vec<Arc<TableRun>>, Vec<Seq>, fn() -> Arc<Fragments>);
    let cases: [Case; 4] = [
        ("distinct keys", || distinct(4), vec![], Arc::default),
        ("half overwritten", || overwritten(false), vec![], Arc::default),
        ("half overwritten, a snapshot", || overwritten(false), vec![3 * N as u64], Arc::default),
        ("100 range deletions", || distinct(4), vec![], || Arc::new(tombstones().fragments(&[]))),
    ];
    let mut group = c.benchmark_group("merge/retain");
    group
        .sampling_mode(SamplingMode::Flat)
        .sample_size(10)
        .throughput(Throughput::Elements(N as u64));
    for (name, runs, snapshots, deletions) in cases {
        let runs = LazyCell::new(runs);
        let rules = || Rules {
            range: VisibleRange::default(),
            gc_files: Arc::default(),
            inlines_blobs: false,
            snapshots: snapshots.clone(),
            tombstones: deletions(),
            older_runs: OlderRuns::new(vec![]),
            outside: OtherRuns::new(vec![], None),
            merge_operator: None,
            compaction_filter: None,
            is_compaction: true,
        };
        group.bench_function(name, |b| {
            let make = || Retain::new(Merging::new(sources(&runs)), rules());
            let pass = |mut r: Retain<Merging<MergeSource>>| {
                loop {
                    match r.advance().unwrap() {
                        Advanced::Entry => {
                            black_box((r.key(), r.value()));
                        }
                        Advanced::NotYet => {}
                        Advanced::End => return r.dropped(),
                    }
                }
            };
            b.iter_batched(make, pass, BatchSize::PerIteration);
        });
    }
}

criterion_group!(name = benches; config = firn_micro::criterion(); targets = next, visible, retain);
criterion_main!(benches);
