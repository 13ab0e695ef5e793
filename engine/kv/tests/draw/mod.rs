//! Draws random options within their bounds, with a preference for small tables and memtables that
//! few operations fill.

use firn_kv::{Compression, DbOptions, Durability, FilterKind, Policy, ReadMode, TreeOptions};
use firn_testkit::rng::Rng;

fn one<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize].clone()
}

/// Draws a policy with parameters. Policies that drop live data are excluded, because their results
/// cannot be predicted.
pub fn policy(rng: &mut Rng) -> Policy {
    let kept =
        |rng: &mut Rng| Some(Policy::draw(&mut |n| rng.below(n))).filter(|p| !p.drops_live_data());
    (0..64).find_map(|_| kept(rng)).unwrap_or_default()
}

/// Draws options of a tree, without hooks.
pub fn tree(rng: &mut Rng) -> TreeOptions {
    use Compression::{Lz4, None};
    use FilterKind::{Fuse8, Fuse16};
    let deepest = if Compression::Zstd.is_available() { Compression::Zstd } else { None };
    TreeOptions {
        compression: one(rng, &[vec![Lz4], vec![None], vec![None, Lz4], vec![Lz4, deepest]]),
        filter: one(
            rng,
            &[
                vec![Fuse8],
                vec![Fuse16],
                vec![FilterKind::None],
                vec![Fuse16, FilterKind::None, Fuse8],
            ],
        ),
        block_size: one(rng, &[512, 512, 1000, 4032, 16_384, 65_536]),
        table_size: (64 << 10) << rng.below(3),
        memtable_size: (64 << 10) << if rng.one_in(3) { rng.below(4) } else { 0 },
        policy: policy(rng),
        tombstone_age_secs: one(rng, &[0, 0, 0, 1, 300]),
        ..TreeOptions::default()
    }
}

/// Draws options of a `Db`.
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
