//! The exact model against the engine: for one history the bytes written, the jobs and the tables
//! of every level are identical.
//!
//! The engine's compactions copy whole blocks that no other entries overlap, which is not in the
//! model. So the trees have options without copies. The last test covers the effect of copying.

use compaction_sim::model::meter::levels;
use compaction_sim::model::size::ContentSize;
use compaction_sim::validate::engine::{run_in_memory, simulated_in_memory, without_copies};
use compaction_sim::workload::SimWorkload;
use firn_kv::policy::Movement;
use firn_kv::policy::{Fifo, Incremental, LazyLeveled, Leveled, TimeWindow, Unified};
use firn_kv::{Compression, FilterAllocation, Policy, TreeOptions};
use firn_workload::ValueSize;

/// Nanoseconds between two writes: a thousand a second, so that windows and ages matter.
const INTERVAL: u64 = 1_000_000;

fn workload(kind: &str, ops: u64, ttl_secs: u64, (least, most): (usize, usize)) -> SimWorkload {
    let value = ValueSize::Uniform(least, most);
    let content = ContentSize { value, ..ContentSize::default() };
    let workload = SimWorkload::of(&kind.parse().unwrap(), ops, ops / 3, content);
    SimWorkload { seed: 7, ..workload.expiring(ttl_secs * 1_000_000) }
}

fn options(policy: Policy, compression: Compression, tombstone_age_secs: u64) -> TreeOptions {
    without_copies(TreeOptions {
        policy,
        compression: vec![compression],
        memtable_size: 64 << 10,
        table_size: 64 << 10,
        tombstone_age_secs,
        ..TreeOptions::default()
    })
}

/// Compares a history with deletes. The engine writes a range deletion for a key range that the
/// deletes have emptied, and the simulator does not. So the jobs are the same except for one or
/// two, and the simulator's bytes are nearly the engine's, or more.
fn compare_nearly(options: TreeOptions, workload: SimWorkload) {
    let what = format!("{:?}, {:?}", options.policy, workload.phases);
    let (stats, _) = run_in_memory(&options, &workload, INTERVAL).unwrap();
    let (o, _) = simulated_in_memory(&options, &workload, INTERVAL, true).unwrap();
    assert!(stats.flushes > 8 && o.user_bytes == stats.user_bytes as f64, "{what}");
    assert_eq!(o.flushes, stats.flushes, "{what}");
    assert!(
        o.merges.abs_diff(stats.compactions) <= 2,
        "{what}: {} and {} merges",
        o.merges,
        stats.compactions
    );
    let more = o.flush_bytes as f64 / stats.flush_bytes as f64 - 1.0;
    assert!((-0.02..0.25).contains(&more), "{what}: {more}");
}

/// Compares both, and reports differences.
fn compare(options: TreeOptions, workload: SimWorkload) {
    let what = format!("{:?}, {:?}", options.policy, workload.phases);
    let (stats, _) = run_in_memory(&options, &workload, INTERVAL).unwrap();
    let is_compressed = options.compression != [Compression::None];
    let (o, shape) = simulated_in_memory(&options, &workload, INTERVAL, true).unwrap();
    assert!(stats.flushes > 8 && o.user_bytes == stats.user_bytes as f64, "{what}");
    assert_eq!(
        [o.flushes, o.merges, o.moves, o.drops],
        [stats.flushes, stats.compactions, stats.moves, stats.drops],
        "{what}"
    );
    // With compression a table may differ by a byte: its properties have times, and an identity.
    let slack = u64::from(is_compressed);
    for (ours, real, tables) in [
        (o.flush_bytes, stats.flush_bytes, 2 * o.flushes),
        (o.merge_read, stats.compaction_read, 8 * o.merges),
        (o.merge_written, stats.compaction_written, 8 * o.merges),
    ] {
        assert!(ours.abs_diff(real) <= slack * tables, "{what}: {ours} {real}");
    }
    let real: Vec<_> = stats.trees[0]
        .runs
        .iter()
        .map(|r| (r.level, r.number, r.tables, r.bytes, r.entries, r.deletes))
        .collect();
    let sum =
        |f: fn(&firn_kv::internals::compaction::TableShape) -> u64,
         r: &firn_kv::internals::compaction::RunShape| { r.tables.iter().map(f).sum() };
    let ours: Vec<_> = shape
        .runs
        .iter()
        .map(|r| {
            (
                r.level,
                r.number,
                r.tables.len(),
                r.size(),
                sum(|t| t.entries, r),
                sum(|t| t.deletes, r),
            )
        })
        .collect();
    // A run has a table or two.
    type Run = (u8, u64, usize, u64, u64, u64);
    let is_near = |(a, b): (&Run, &Run)| {
        (a.0, a.1, a.2, a.4, a.5) == (b.0, b.1, b.2, b.4, b.5)
            && a.3.abs_diff(b.3) <= slack * a.2 as u64
    };
    assert!(
        ours.len() == real.len() && ours.iter().zip(&real).all(is_near),
        "{what}: {ours:?} {real:?}"
    );
    assert_eq!(
        levels(&shape).iter().map(|l| l.tables).sum::<usize>(),
        real.iter().map(|r| r.2).sum::<usize>()
    );
}

fn policies() -> Vec<Policy> {
    let leveled = |movement| {
        Policy::Leveled(Leveled {
            level0_runs: 2,
            ratio: 3,
            base: 128 << 10,
            movement,
            ..Leveled::default()
        })
    };
    let mut all = vec![
        Policy::default(),
        Policy::LazyLeveled(LazyLeveled { ratio: 3, ..LazyLeveled::default() }),
        Policy::Unified(Unified {
            scaling: vec![2],
            target_table: 64 << 10,
            base_shards: 1,
            ..Unified::default()
        }),
        Policy::Unified(Unified {
            scaling: vec![2, -2, 0],
            target_table: 64 << 10,
            base_shards: 4,
            ..Unified::default()
        }),
        Policy::Incremental(Incremental { min_runs: 2, goal: 1.5, ..Incremental::default() }),
        Policy::TimeWindow(TimeWindow { window_secs: 2, min_runs: 3, ..TimeWindow::default() }),
        Policy::Fifo(Fifo { max_bytes: 256 << 10, max_age_secs: 0, ..Fifo::default() }),
        Policy::Fifo(Fifo { max_bytes: 0, max_age_secs: 3, ..Fifo::default() }),
    ];
    all.extend(Movement::ALL.map(leveled));
    all
}

#[test]
fn overwrites_and_deletes_under_every_policy() {
    for policy in policies() {
        compare_nearly(
            options(policy, Compression::None, 0),
            workload("deletes:0.2", 8_000, 0, (100, 100)),
        );
    }
}

#[test]
fn tombstone_ages_and_expiry_under_every_policy() {
    for policy in policies() {
        compare_nearly(
            options(policy, Compression::None, 2),
            workload("deletes:0.1", 6_000, 2, (60, 60)),
        );
    }
}

#[test]
fn compressed_and_of_mixed_sizes() {
    for policy in policies() {
        compare(options(policy, Compression::Lz4, 0), workload("zipfian:0.9", 4_000, 0, (8, 400)));
    }
}

#[test]
fn with_filters_that_share_memory() {
    for policy in policies() {
        let options = TreeOptions {
            filter_allocation: FilterAllocation::Monkey,
            ..options(policy, Compression::None, 0)
        };
        compare(options, workload("zipfian:0.9", 6_000, 0, (8, 200)));
    }
}

#[test]
fn every_workload() {
    for name in ["insert", "sequential", "uniform", "timeseries:5", "queue:0.1", "massdelete:0.6"] {
        let compare = if name.contains("queue") || name.contains("delete") {
            compare_nearly
        } else {
            compare
        };
        compare(
            options(Policy::default(), Compression::None, 0),
            workload(name, 6_000, 0, (80, 80)),
        );
        compare(
            options(
                Policy::Leveled(Leveled {
                    level0_runs: 4,
                    ratio: 4,
                    base: 128 << 10,
                    movement: Movement::default(),
                    ..Leveled::default()
                }),
                Compression::None,
                3,
            ),
            workload(name, 6_000, 0, (80, 80)),
        );
    }
}

/// Trees without hooks, whose blocks are copied where no other entries overlap them: jobs and bytes
/// are nearly the same.
#[test]
fn copied_blocks_change_little() {
    for name in ["insert", "sequential", "uniform", "zipfian:0.9", "timeseries:5"] {
        for policy in [
            Policy::default(),
            Policy::Leveled(Leveled {
                level0_runs: 2,
                ratio: 4,
                base: 128 << 10,
                movement: Movement::default(),
                ..Leveled::default()
            }),
        ] {
            let options = TreeOptions { summary: None, ..options(policy, Compression::None, 0) };
            let workload = workload(name, 8_000, 0, (100, 100));
            let (stats, _) = run_in_memory(&options, &workload, INTERVAL).unwrap();
            let (o, _) = simulated_in_memory(&options, &workload, INTERVAL, true).unwrap();
            assert_eq!(o.flushes, stats.flushes, "{name}");
            assert!(
                o.merges.abs_diff(stats.compactions) <= 1,
                "{name}: {} and {}",
                o.merges,
                stats.compactions
            );
            let more = stats.compaction_written as f64 / (o.merge_written as f64).max(1.0) - 1.0;
            assert!((-0.02..0.04).contains(&more) || o.merge_written == 0, "{name}: {more}");
        }
    }
}
