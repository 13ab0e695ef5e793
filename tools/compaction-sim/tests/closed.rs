//! Closed forms: calculated writes of policies for unique uniform inserts, against the summary
//! model.
//!
//! All sizes are in flushed runs: `s` bytes each, `m` the memtable. A run that `j` arrivals of one
//! size fill up is rewritten with the 2nd, 3rd, … and jth: (2 + … + j) / j = (j + 1)/2 − 1/j writes
//! per byte. (Cassandra's (f − 1) for a level of the unified strategy is the bound of this; at f =
//! 2 both are 1.) Runs that wait until there are `f` and are merged at once are written once.

use std::sync::Arc;

use compaction_sim::model::machine::Machine;
use compaction_sim::model::sim::{Setup, run};
use compaction_sim::model::size::ContentSize;
use compaction_sim::model::summary::RunSummary;
use compaction_sim::workload::{SimWorkload, WorkloadName};
use firn_kv::policy::Movement;
use firn_kv::policy::{LazyLeveled, Leveled, Tiered, Unified};
use firn_kv::{Policy, TreeOptions};

const M: u64 = 1 << 20;

fn workload(ops: u64) -> SimWorkload {
    let (keys, phases) = "insert".parse::<WorkloadName>().unwrap().phases(ops, 0);
    let content = ContentSize { random: 1.0, ..ContentSize::default() };
    SimWorkload { keys, phases, content, ttl_micros: 0, seed: 1, per_memtable: None }
}

/// Returns the bytes that compactions have written per existing byte after this many flushes, and
/// the existing bytes per flush over a memtable. (Compacted tables are a little smaller than
/// flushed ones, because their entries have no sequence numbers.)
fn simulate(policy: Policy, table_size: u64, flushes: u64) -> (f64, f64) {
    let options = TreeOptions {
        policy,
        memtable_size: M as usize,
        table_size,
        compression: vec![firn_kv::Compression::None],
        ..TreeOptions::default()
    };
    let machine = Machine { threads: 0, instant: true, ..Machine::default() };
    // The number of entries that fill a memtable depends a little on the total; a few more flushes
    // change next to nothing.
    let per =
        |ops| RunSummary::new(Arc::new(options.clone()), &workload(ops)).unwrap().per_memtable();
    let ops = per(6000 * flushes) * flushes;
    let per = per(ops);
    let ops = per * flushes + per / 2 + per * flushes / 200;
    let setup = Setup::new(options.clone(), workload(ops), machine);
    let o = run(&setup, &mut |_| ()).unwrap();
    assert!(
        (flushes..=flushes + flushes / 64 + 1).contains(&o.flushes),
        "{} flushes for {flushes}",
        o.flushes
    );
    (o.merge_written as f64 / o.bytes as f64, o.bytes as f64 / o.flushes as f64 / M as f64)
}

fn near(got: f64, want: f64, what: &str) {
    println!(
        "{what}: {got:.3} simulated, {want:.3} by arithmetic, {:+.1} %",
        (got / want - 1.0) * 100.0
    );
    assert!((got / want - 1.0).abs() < 0.05, "{what}: {got:.3} simulated, {want:.3} by arithmetic");
}

/// Returns the writes per byte if `j` arrivals fill a level.
fn filled(j: f64) -> f64 {
    (j + 1.0) / 2.0 - 1.0 / j
}

/// Returns a flush over a memtable, known before any simulation.
fn flush_size() -> f64 {
    simulate(
        Policy::Tiered(Tiered { min_runs: 3, max_runs: 3, bucket: 1.1, ..Tiered::default() }),
        M,
        27,
    )
    .1
}

#[test]
fn tiered_is_one_write_a_level() {
    for (t, levels) in [(2u32, 7u32), (3, 5), (4, 4), (8, 2)] {
        let policy =
            Policy::Tiered(Tiered { min_runs: t, max_runs: t, bucket: 1.1, ..Tiered::default() });
        let (got, _) = simulate(policy, M, u64::from(t).pow(levels));
        near(got, f64::from(levels), &format!("tiered {t}"));
    }
}

#[test]
fn unified_tiered_is_one_write_a_level() {
    let s = flush_size();
    for (f, levels) in [(2u64, 6u32), (4, 4), (6, 3)] {
        // A flush is smaller than a memtable, so on level 0 a merged run waits for more until it is
        // f memtables large.
        let fl = f as f64;
        let (mut runs, mut first) = (fl, fl);
        while runs * s < fl {
            runs += fl - 1.0;
            first += runs;
        }
        let flushes = runs as u64 * f.pow(levels - 1);
        let (got, _) = simulate(
            Policy::Unified(Unified {
                scaling: vec![f as i32 - 2],
                target_table: M,
                base_shards: 1,
                ..Unified::default()
            }),
            M,
            flushes,
        );
        near(got, first / runs + f64::from(levels - 1), &format!("unified, tiered {f}"));
    }
}

#[test]
fn unified_leveled_fills_each_level() {
    let s = flush_size();
    for (f, levels) in [(2u64, 6u32), (4, 4), (10, 3)] {
        let (mut size, mut flushes, mut want) = (s, 1u64, 0.0);
        for level in 1..=levels {
            let j = ((f as f64).powi(level as i32) / size).ceil().max(2.0);
            want += filled(j);
            size *= j;
            flushes *= j as u64;
        }
        let (got, _) = simulate(
            Policy::Unified(Unified {
                scaling: vec![2 - f as i32],
                target_table: M,
                base_shards: 1,
                ..Unified::default()
            }),
            M,
            flushes,
        );
        near(got, want, &format!("unified, leveled {f}"));
        // At f = 2 the first level takes three flushes, since one is smaller than a memtable.
        assert!(f == 2 || want <= (f - 1) as f64 * f64::from(levels), "(f - 1) L is a bound");
    }
}

#[test]
fn leveled_with_whole_levels_fills_each_level() {
    let s = flush_size();
    for (ratio, levels) in [(4u64, 3u32), (6, 2), (10, 1)] {
        let base = ratio * M;
        // One table per level, so that a level moves down whole when it exceeds its target.
        let (mut size, mut flushes, mut want) = (s, 1u64, 0.0);
        for level in 0..levels {
            let j = ((ratio as f64) * (ratio as f64).powi(level as i32) / size).floor() + 1.0;
            want += filled(j);
            size *= j;
            flushes *= j as u64;
        }
        let policy = Policy::Leveled(Leveled {
            level0_runs: 1,
            ratio: ratio as u32,
            base,
            movement: Movement::default(),
            ..Leveled::default()
        });
        let (got, _) = simulate(policy, 1 << 40, flushes);
        near(got, want, &format!("leveled {ratio}"));
    }
}

#[test]
fn lazy_leveling_is_tiered_above_and_fills_the_last_level() {
    let s = flush_size();
    for (t, last) in [(3u64, 3u32), (4, 3), (6, 2)] {
        let tf = t as f64;
        let (mut size, mut flushes, mut written) = (0.0, 0u64, 0.0);
        for level in 1..=last {
            // Batches of t^level flushes, written once per level on their way, rewrite the last run
            // until it has outgrown its level. So do smaller batches, as soon as they exceed 2/t of
            // a last run that does not fill its level yet.
            while size <= tf.powi(level as i32 + 1) {
                let allowed = (2.0 / tf * size).max(tf);
                let full = t.pow(level);
                let early = (1..=full).find(|n| *n as f64 * s > allowed);
                let batch = early.unwrap_or(full);
                let on_the_way = |i| (batch - u64::from(early.is_some())) / t.pow(i) * t.pow(i);
                size += batch as f64 * s;
                written += (1..level).map(on_the_way).sum::<u64>() as f64 * s + size;
                flushes += batch;
            }
        }
        let (got, _) = simulate(
            Policy::LazyLeveled(LazyLeveled { ratio: t as u32, ..LazyLeveled::default() }),
            M,
            flushes,
        );
        near(got, written / (flushes as f64 * s), &format!("lazy {t}"));
    }
}
