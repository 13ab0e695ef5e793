//! Compaction: the time each policy takes to pick a job in a tree of a thousand tables, and the
//! speed of a whole job.

use std::cell::LazyCell;
use std::path::Path;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use firn_kv::Env;
use firn_kv::internals::base::key::{Kind, Trailer};
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::compaction::{
    LsmShape, OutputSplits, RunShape, TableShape, debt, pick, run_limits,
};
use firn_kv::internals::iterator::merging::MergeSource;
use firn_kv::internals::iterator::opener::{TableOpener, table_path};
use firn_kv::internals::iterator::run::TableRun;
use firn_kv::internals::iterator::run_cursor::RunCursor;
use firn_kv::internals::iterator::table_handle::TableHandle;
use firn_kv::internals::iterator::visible::VisibleRange;
use firn_kv::internals::rewrite::job::{Outputs, run};
use firn_kv::internals::rewrite::retain::{OlderRuns, OtherRuns, Rules};
use firn_kv::internals::sstable::{TableWriter, WriterOptions};
use firn_kv::policy::Movement;
use firn_kv::policy::{Fifo, LazyLeveled, Leveled, TimeWindow, Unified};
use firn_kv::{Compression, DbOptions, Policy, ReadMode, Result};
use firn_micro::{ENTRY, keys, memory, meta, write_table};

const MIB: u64 = 1 << 20;

/// Returns a run of `n` tables of 64 MiB that divide the whole key space among them.
fn run_shape(level: u8, number: u64, n: u64, now: u64) -> RunShape {
    let bound = |i: u64| -> Arc<[u8]> { Arc::from((u64::MAX / n * i).to_be_bytes().as_slice()) };
    let table = |i: u64| TableShape {
        id: (u64::from(level) << 40) + (number << 20) + i,
        size: 64 * MIB,
        entries: 500_000,
        deletes: 5_000,
        first: bound(i),
        last: [&bound(i)[..], &[0xfe]].concat().into(),
        min_seq: number * 1_000_000,
        max_seq: number * 1_000_000 + 500_000,
        created_micros: now - 1_000_000 * u64::from(level),
        newest_micros: now - 1_000_000 * u64::from(level),
        oldest_tombstone_micros: Some(now - 2_000_000 * u64::from(level)),
        ..TableShape::default()
    };
    RunShape { level, number, tables: (0..n).map(table).collect() }
}

/// Returns the shape of a busy tree: eight flushed runs, then levels of 12, 105 and 875 tables.
/// These are slightly more tables than each policy targets.
fn shape() -> LsmShape {
    let now = 1_000_000_000_000;
    let mut runs: Vec<RunShape> = (0..8).rev().map(|i| run_shape(0, 100 + i, 1, now)).collect();
    runs.extend(
        [(1, 90, 12), (2, 80, 105), (3, 70, 875)]
            .map(|(level, number, n)| run_shape(level, number, n, now)),
    );
    LsmShape {
        now_micros: now,
        memtable_size: 64 * MIB,
        table_size: 64 * MIB,
        tombstone_age_secs: 86_400,
        has_compaction_filter: false,
        read_debt: 0,
        read_compaction_bytes: 0,
        runs: runs.into_iter().map(Arc::new).collect(),
        next_run: 200,
        _non_exhaustive: (),
    }
}

fn policies(c: &mut Criterion) {
    let shape = shape();
    let policies = [
        ("tiered", Policy::default()),
        (
            "leveled",
            Policy::Leveled(Leveled {
                level0_runs: 4,
                ratio: 8,
                base: 512 * MIB,
                movement: Movement::default(),
                ..Leveled::default()
            }),
        ),
        ("lazy-leveled", Policy::LazyLeveled(LazyLeveled { ratio: 4, ..LazyLeveled::default() })),
        (
            "unified",
            Policy::Unified(Unified {
                scaling: vec![2],
                target_table: 64 * MIB,
                base_shards: 4,
                ..Unified::default()
            }),
        ),
        (
            "time-window",
            Policy::TimeWindow(TimeWindow {
                window_secs: 3_600,
                min_runs: 4,
                ..TimeWindow::default()
            }),
        ),
        ("fifo", Policy::Fifo(Fifo { max_bytes: 32 << 30, max_age_secs: 0, ..Fifo::default() })),
    ];
    for (question, ask) in [
        ("pick", (|p, s| pick(p, s).is_some() as u64) as fn(&Policy, &LsmShape) -> u64),
        ("debt", |p, s| debt(p, s)),
        ("limits", |p, s| run_limits(p, s).0 as u64),
    ] {
        let mut group = c.benchmark_group(format!("compaction/{question}"));
        for (name, policy) in &policies {
            if question == "pick" {
                assert!(pick(policy, &shape).is_some(), "{name} has nothing to do");
            }
            group.bench_function(*name, |b| b.iter(|| ask(policy, &shape)));
        }
    }
}

/// Outputs in memory.
struct InMemory {
    env: Arc<dyn Env>,
    options: WriterOptions,
    next: u64,
}

impl Outputs for InMemory {
    fn create(&mut self) -> Result<TableWriter> {
        self.next += 1;
        let path = table_path(Path::new("/out"), self.next);
        Ok(TableWriter::new(self.env.create(&path)?, &path, self.next, self.options.clone()))
    }

    fn progress(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// Merges three runs of 50,000 entries each into one. The throughput counts input keys and values.
fn jobs(c: &mut Criterion) {
    const N: usize = 50_000;
    let (env, dir) = (memory(), Path::new("/in"));
    env.create_dir_all(Path::new("/out")).unwrap();
    let mut group = c.benchmark_group("compaction/job");
    group
        .sampling_mode(SamplingMode::Flat)
        .sample_size(10)
        .throughput(Throughput::Bytes((3 * N * ENTRY) as u64));
    for (name, compression, first) in
        [("raw", Compression::None, 10), ("LZ4", Compression::Lz4, 20)]
    {
        let options = WriterOptions { compression, ..WriterOptions::default() };
        let inputs = LazyCell::new(|| {
            let opener = Arc::new(TableOpener::new(
                env.clone(),
                dir,
                Cache::new(64 << 20),
                &DbOptions { read_mode: ReadMode::Mmap, ..DbOptions::default() },
            ));
            let one = |r: u64| {
                let mut keys = keys(N, r);
                keys.sort_unstable();
                let trailer = |i| Trailer::new(r * N as u64 + i as u64 + 1, Kind::Put);
                let facts =
                    write_table(&*env, dir, first + r, options.clone(), &keys, trailer).unwrap();
                Arc::new(TableRun::new(
                    0,
                    r,
                    vec![TableHandle::new(
                        Arc::new(meta(&facts)),
                        opener.clone(),
                        Arc::default(),
                        &Default::default(),
                    )],
                ))
            };
            (0..3).rev().map(one).collect::<Vec<_>>()
        });
        let make = || {
            let sources = inputs
                .iter()
                .map(|r| MergeSource::Run(RunCursor::new(r.clone(), false)))
                .collect::<Vec<_>>();
            let rules = Rules {
                range: VisibleRange::default(),
                gc_files: Arc::default(),
                inlines_blobs: false,
                snapshots: vec![],
                tombstones: Arc::default(),
                older_runs: OlderRuns::new(vec![]),
                outside: OtherRuns::new(vec![], None),
                merge_operator: None,
                compaction_filter: None,
                is_compaction: true,
            };
            (sources, rules, InMemory { env: env.clone(), options: options.clone(), next: 0 })
        };
        let cuts = OutputSplits { size: 64 * MIB, at: vec![] };
        group.bench_function(name, |b| {
            let merge = |(sources, rules, mut outputs)| {
                run(sources, rules, &cuts, None, &mut outputs).unwrap().entries
            };
            b.iter_batched(make, merge, BatchSize::PerIteration);
        });
    }
}

criterion_group!(name = benches; config = firn_micro::criterion(); targets = policies, jobs);
criterion_main!(benches);
