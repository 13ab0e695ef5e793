//! Draws random options within their bounds, with a preference for small tables and memtables that
//! few operations fill.

use firn_kv::policy::{CompactionPolicy, CompactionRequest, CustomPolicy, LsmShape};
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

/// Custom policy that requests random possible compactions. It depends only on the shape, so that
/// equal histories have equal compactions.
struct RandomRequests(u64);

impl CompactionPolicy for RandomRequests {
    fn name(&self) -> &str {
        "random"
    }

    fn requests(&self, shape: &LsmShape) -> Vec<CompactionRequest> {
        let places = shape.runs.iter().map(|r| u64::from(r.level) ^ r.number << 8 ^ r.size() << 20);
        let mut rng = Rng::new(places.fold(self.0, |seed, place| seed.rotate_left(7) ^ place));
        let runs = shape.runs.len() as u64;
        if runs == 0 || runs < 12 && rng.one_in(3) {
            return vec![];
        }
        let one = |_| {
            let from = rng.below(runs) as usize;
            let to = rng.range(from as u64..runs) as usize;
            let tables = shape.runs[from].tables.len() as u64;
            let start = rng.below(tables) as usize;
            let part = start..rng.range(start as u64 + 1..tables + 1) as usize;
            CompactionRequest {
                runs: from..=to,
                tables: rng.one_in(2).then_some(part),
                level: rng.one_in(2).then(|| rng.below(6) as u8),
            }
        };
        let drawn: Vec<CompactionRequest> = (0..8).map(one).collect();
        drawn.into_iter().filter(|request| request.check(shape).is_ok()).collect()
    }

    fn max_runs(&self, _: &LsmShape) -> Option<usize> {
        self.0.is_multiple_of(2).then_some(16)
    }

    fn is_time_dependent(&self) -> bool {
        self.0.is_multiple_of(3)
    }
}

/// Draws options of a tree, without hooks.
pub fn tree(rng: &mut Rng) -> TreeOptions {
    use Compression::{Lz4, None};
    use FilterKind::{Fuse8, Fuse16};
    // Drawn from a separate generator, because scripts depend on all other draws.
    let mut custom = Rng::new(rng.clone().next_u64() ^ 0xc057);
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
        custom_policy: custom
            .one_in(4)
            .then(|| CustomPolicy::new(RandomRequests(custom.next_u64()))),
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
