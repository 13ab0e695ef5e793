//! Options drawn at random, within their bounds but on the side of what is small: tables and memtables that few operations fill.

// Each test that takes this module in uses a part of it.
#![allow(dead_code)]

use firn_kv::{Compression, DbOptions, Durability, FilterKind, Movement, Policy, ReadMode, TreeOptions};
use firn_testkit::rng::Rng;

fn one<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize].clone()
}

/// A policy with parameters. None that drops what was written: what is left could not be foretold.
pub fn policy(rng: &mut Rng) -> Policy {
    match rng.below(8) {
        0..3 => {
            let min_runs = rng.range(2..5) as u32;
            Policy::Tiered { min_runs, max_runs: min_runs + rng.below(30) as u32, bucket: 1.1 + rng.unit() * 8.9 }
        }
        3 => Policy::Leveled {
            level0_runs: rng.range(1..5) as u32,
            ratio: rng.range(2..11) as u32,
            base: (64 << 10) << rng.below(4),
            movement: one(rng, &Movement::ALL),
        },
        4 => Policy::LazyLeveled { ratio: rng.range(2..7) as u32 },
        5 => Policy::Unified {
            scaling: (0..rng.range(1..4)).map(|_| rng.below(13) as i32 - 6).collect(),
            target_table: (64 << 10) << rng.below(3),
            base_shards: one(rng, &[1, 2, 3, 4, 7, 8]),
        },
        6 => Policy::TimeWindow { window_secs: one(rng, &[1, 60, 3600]), min_runs: rng.range(2..5) as u32 },
        _ => Policy::Fifo { max_bytes: 0, max_age_secs: 0 },
    }
}

/// Options of a tree, without hooks.
pub fn tree(rng: &mut Rng) -> TreeOptions {
    use Compression::{Lz4, None};
    use FilterKind::{Fuse8, Fuse16};
    TreeOptions {
        compression: one(rng, &[vec![Lz4], vec![None], vec![None, Lz4], vec![Lz4, None]]),
        filter: one(rng, &[vec![Fuse8], vec![Fuse16], vec![FilterKind::None], vec![Fuse16, FilterKind::None, Fuse8]]),
        block_size: one(rng, &[512, 512, 1000, 4032, 16_384, 65_536]),
        table_size: (64 << 10) << rng.below(3),
        memtable_size: (64 << 10) << if rng.one_in(3) { rng.below(4) } else { 0 },
        policy: policy(rng),
        tombstone_age_secs: one(rng, &[0, 0, 0, 1, 300]),
        ..TreeOptions::default()
    }
}

/// Options of a Db.
pub fn db(rng: &mut Rng) -> DbOptions {
    DbOptions {
        memory_budget: (1 << 20) << rng.below(4),
        background_threads: rng.below(4) as usize,
        durability: if rng.one_in(8) { Durability::Power } else { Durability::Process },
        read_mode: one(rng, &[ReadMode::Mmap, ReadMode::Pread]),
        wal_segment: (64 << 10) << rng.below(3),
        event_log: rng.one_in(4),
        ..DbOptions::default()
    }
}
