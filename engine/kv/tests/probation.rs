//! Hit rates of a cache that holds a part of the data that readers use. Frequently read blocks stay
//! cached next to blocks that are read once. A block that is read twice in a row is decoded once.
//! Readers that switch to other keys soon find those cached.
//!
//! Each test runs in a separate process. The cache reuses a frame only when no thread of the
//! process is reading.

use std::path::Path;
use std::sync::Arc;

use firn_kv::internals::base::key::{Kind, MAX_SEQ, Trailer};
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::sstable::{Table, TableWriter, WriterOptions};
use firn_kv::internals::util::epoch;
use firn_kv::{Compression, Db, DbOptions, Env, MemEnv, TreeOptions};
use firn_testkit::own_process;
use firn_testkit::rng::Rng;

const KEYS: u64 = 100_000;

fn value(i: u64, len: usize) -> Vec<u8> {
    let mut value = vec![0; len];
    Rng::new(i).fill(&mut value[..len / 2]);
    value
}

/// Returns a table, and a cache that holds `share` percent of its blocks.
fn table(share: usize) -> (Arc<Table>, Arc<Cache>) {
    let blocks = KEYS as usize * 108 / 4000;
    let cache = Cache::new(blocks * 4096 * share / 100);
    (table_in(&cache, 3), cache)
}

fn table_in(cache: &Arc<Cache>, id: u64) -> Arc<Table> {
    let (env, path): (Arc<dyn Env>, _) = (Arc::new(MemEnv::new(1)), Path::new("/t"));
    let options = WriterOptions { compression: Compression::Lz4, ..WriterOptions::default() };
    let mut w = TableWriter::new(env.create(path).unwrap(), path, id, options);
    for i in 0..KEYS {
        w.add(&i.to_be_bytes(), Trailer::new(1, Kind::Put), &value(i, 100)).unwrap();
    }
    w.finish().unwrap();
    let file = env.open_read(path, false).unwrap();
    Table::open(file, path, id, cache.clone()).unwrap()
}

/// Returns the hit rate of `reads` reads in percent.
fn hits(table: &Table, cache: &Cache, reads: u64, mut draw: impl FnMut(u64) -> u64) -> u64 {
    let before = cache.usage();
    for n in 0..reads {
        let i = draw(n);
        let guard = epoch::pin();
        let hit = table.get(&i.to_be_bytes(), None, MAX_SEQ, &guard).unwrap().unwrap();
        assert_eq!(hit.value(), value(i, 100));
    }
    let after = cache.usage();
    assert_eq!(after.refusals, before.refusals, "no reader may hold back the epoch");
    let capacity = after.capacity;
    assert!(after.resident <= capacity + capacity / 32 + 8192, "{after:?}");
    100 - 100 * (after.inserts - before.inserts) / reads
}

/// The CLOCK algorithm alone has a hit rate of less than two thirds here.
#[test]
fn what_is_read_often_stays_beside_what_is_read_once() {
    own_process!();
    let (table, cache) = table(20);
    let mut rng = Rng::new(7);
    for hot in [0, KEYS / 2] {
        let mut draw = |_| match rng.below(100) < 80 {
            true => hot + rng.below(KEYS / 5),
            false => rng.below(KEYS),
        };
        // The readers switch to these keys.
        hits(&table, &cache, 40_000, &mut draw);
        let share = hits(&table, &cache, 40_000, &mut draw);
        assert!((70..=84).contains(&share), "{share} % of reads from key {hot} on");
    }
}

#[test]
fn what_is_read_twice_in_a_row_is_decoded_once() {
    own_process!();
    for share in [5, 20] {
        let (table, cache) = table(share);
        let mut rng = Rng::new(7);
        let mut draw = || rng.below(KEYS);
        // Reads until the cache is full.
        hits(&table, &cache, 10_000, |_| draw());
        let mut last = 0;
        let twice = hits(&table, &cache, 20_000, |n| {
            last = if n % 2 == 0 { draw() } else { last };
            last
        });
        assert!((48 + share as u64 / 2..=52 + share as u64).contains(&twice), "{twice} %");
        // Reads the keys of a block one after the other, like a join.
        let in_order = hits(&table, &cache, 20_000, |n| n % KEYS);
        assert!(in_order >= 95, "{in_order} %");
    }
}

/// Reads blocks of several tables repeatedly, one key of each block in turn. Only the ghost queue
/// shows that these blocks should stay cached.
#[test]
fn readers_that_turn_to_other_blocks_find_those() {
    own_process!();
    for percent in [50, 90] {
        let frames = 2000;
        let cache = Cache::new(frames * 4096);
        let tables: Vec<_> = (1..=4).map(|id| table_in(&cache, id)).collect();
        let mut rng = Rng::new(7);
        for _ in 0..10 * frames {
            hits(&tables[0], &cache, 1, |_| rng.below(KEYS));
        }
        let coming = frames * percent / 100;
        let mut passes = vec![];
        for _ in 0..12 {
            let before = cache.usage().inserts;
            for n in 0..coming {
                // Each key is in another block, because a block has about 35 keys.
                let (table, i) = (&tables[1 + n % 3], n as u64 / 3 * 40);
                hits(table, &cache, 1, |_| i);
            }
            passes.push(cache.usage().inserts - before);
        }
        assert!(passes[0] > coming as u64 * 9 / 10, "{passes:?} of {coming}");
        assert!(passes[4] < coming as u64 / 10, "{passes:?} of {coming}");
        assert!(passes[11] < coming as u64 / 20, "{passes:?} of {coming}");
    }
}

/// After a load, no reader uses the cached blocks. The cache admits new blocks at once.
#[test]
fn readers_that_come_to_what_nobody_reads_find_theirs_at_once() {
    own_process!();
    let frames = 2000;
    let cache = Cache::new(frames * 4096);
    let tables: Vec<_> = (1..=4).map(|id| table_in(&cache, id)).collect();
    // Reads each block once.
    hits(&tables[0], &cache, KEYS / 40, |n| n * 40);
    let mut rng = Rng::new(7);
    let coming = 1600;
    let mut passes = vec![];
    for _ in 0..6 {
        let before = cache.usage().inserts;
        for _ in 0..coming {
            let n = rng.below(coming);
            hits(&tables[1 + n as usize % 3], &cache, 1, |_| n / 3 * 40);
        }
        passes.push(cache.usage().inserts - before);
    }
    let all: u64 = passes.iter().sum();
    assert!(all < coming * 11 / 10, "{passes:?} of {coming}, and each block must miss once");
    assert!(passes[5] < coming / 50, "{passes:?} of {coming}");
}

/// Tests blobs, and blocks of one large value. The CLOCK algorithm alone has a hit rate of 68 % for
/// the smallest.
#[test]
fn large_values_that_are_read_often_stay_too() {
    own_process!();
    for len in [3_000, 10_000, 60_000] {
        let number = 60_000_000 / len as u64;
        let options = DbOptions {
            memory_budget: 20 << 20,
            wal_segment: 1 << 20,
            background_threads: 0,
            ..DbOptions::default()
        };
        let db = Db::open_in(Arc::new(MemEnv::new(1)), Path::new("/db"), options).unwrap();
        let options = TreeOptions { memtable_size: 1 << 20, ..TreeOptions::default() };
        let tree = db.tree("t", options).unwrap();
        for i in 0..number {
            tree.put(i.to_be_bytes(), value(i, len)).unwrap();
        }
        tree.compact().unwrap();
        let capacity = db.stats().cache.capacity as u64;
        let hot = capacity / len as u64 * 9 / 10;
        assert!(hot > 50 && hot < number / 2, "{hot} of {number}");
        let mut rng = Rng::new(7);
        let mut read = |reads: u64| {
            let before = db.stats().reads.blocks_read;
            for _ in 0..reads {
                let i = if rng.below(100) < 80 { rng.below(hot) } else { rng.below(number) };
                assert!(tree.get(i.to_be_bytes()).unwrap().unwrap()[..] == value(i, len)[..]);
            }
            100 - 100 * (db.stats().reads.blocks_read - before) / reads
        };
        read(15 * hot);
        let share = read(15 * hot);
        assert!(share >= 73, "{share} % of {len} bytes");
    }
}
