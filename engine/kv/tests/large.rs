//! Values with a block each: cursors and compactions know the keys before they decode the values.
//! Compactions copy these blocks and pass on their cached frames.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use firn_kv::policy::Tiered;
use firn_kv::{
    Compression, Cursor, Db, DbOptions, Env, MemEnv, Policy, ReadMode, Snapshot, Tree, TreeOptions,
};
use firn_testkit::rng::Rng;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(i: u64) -> Vec<u8> {
    format!("key{i:06}").into_bytes()
}

/// Returns a value of `len` bytes that LZ4 compresses to about half.
fn value(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut value = vec![0; len];
    value.chunks_mut(2 * 64).for_each(|piece| {
        let half = piece.len() / 2;
        rng.fill(&mut piece[..half]);
    });
    value
}

fn open(env: &MemEnv, budget: usize, read_mode: ReadMode, compression: Compression) -> (Db, Tree) {
    let options = DbOptions {
        memory_budget: budget,
        read_mode,
        wal_segment: 1 << 20,
        background_threads: 0,
        ..DbOptions::default()
    };
    // Nothing is compacted unless the test requests it.
    let policy =
        Policy::Tiered(Tiered { min_runs: 64, max_runs: 64, bucket: 2.0, ..Tiered::default() });
    let tree = TreeOptions {
        memtable_size: 4 << 20,
        table_size: 1 << 20,
        compression: vec![compression],
        policy,
        ..TreeOptions::default()
    };
    let db = Db::open_in(Arc::new(env.clone()) as Arc<dyn Env>, Path::new("/db"), options).unwrap();
    let tree = db.tree("t", tree).unwrap();
    (db, tree)
}

/// Moves a cursor by steps in both directions and by seeks, and compares it with the map.
fn wander(rng: &mut Rng, c: &mut Cursor, map: &Map, keys: u64) {
    for _ in 0..60 {
        let expected = match rng.below(4) {
            0 => {
                let k = key(rng.below(keys));
                c.seek(&k).unwrap();
                map.range(k..).next()
            }
            1 => {
                let k = key(rng.below(keys));
                c.seek_before(&k).unwrap();
                map.range(..k).next_back()
            }
            way => {
                let Some(at) = c.is_valid().then(|| c.key().to_vec()) else { continue };
                if way == 2 {
                    c.next().unwrap();
                    map.range(at..).nth(1)
                } else {
                    c.prev().unwrap();
                    map.range(..at).next_back()
                }
            }
        };
        let found = c.is_valid().then(|| (c.key().to_vec(), c.value().to_vec()));
        assert!(found == expected.map(|(k, v)| (k.clone(), v.clone())), "{expected:?}");
    }
}

fn check(rng: &mut Rng, tree: &Tree, map: &Map, snapshots: &[(Snapshot, Map)], keys: u64) {
    let own = |item: firn_kv::Result<(firn_kv::Value, firn_kv::Value)>| {
        item.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()
    };
    assert!(tree.keys().map(|k| k.unwrap().to_vec()).eq(map.keys().cloned()));
    assert!(tree.keys().rev().map(|k| k.unwrap().to_vec()).eq(map.keys().rev().cloned()));
    wander(rng, &mut tree.cursor(..).unwrap(), map, keys);
    assert!(tree.iter().map(own).eq(map.clone()));
    assert!(tree.iter().rev().map(own).eq(map.clone().into_iter().rev()));
    for (s, then) in snapshots {
        wander(rng, &mut s.cursor(tree, ..).unwrap(), then, keys);
        assert!(s.range(tree, ..).map(own).eq(then.clone()));
    }
}

#[test]
fn any_layers_read_and_merge_to_the_same() {
    const KEYS: u64 = 120;
    for seed in 0..24 {
        let mut rng = Rng::new(seed);
        let env = MemEnv::new(seed);
        // Some caches hold all blocks, some nearly none.
        let budget = [1 << 20, 4 << 20, 64 << 20][rng.below(3) as usize];
        let mode = [ReadMode::Pread, ReadMode::Mmap, ReadMode::Auto][rng.below(3) as usize];
        let codec = [Compression::Lz4, Compression::Lz4, Compression::None][rng.below(3) as usize];
        let (mut db, mut tree) = open(&env, budget, mode, codec);
        let (mut map, mut snapshots): (Map, Vec<(Snapshot, Map)>) = Default::default();
        for _ in 0..4 + rng.below(6) {
            let (from, span) = (rng.below(KEYS), 1 + rng.below(KEYS));
            match rng.below(8) {
                0 => {
                    tree.delete_range(key(from)..key(from + span)).unwrap();
                    map.retain(|k, _| *k < key(from) || *k >= key(from + span));
                }
                1 | 2 => (from..from + span).step_by(3).for_each(|i| {
                    tree.delete(key(i)).unwrap();
                    map.remove(&key(i));
                }),
                _ => (from..from + span).step_by(1 + rng.below(3) as usize).for_each(|i| {
                    let len = [20, 700, 9_000, 30_000][rng.below(4) as usize];
                    let value = value(&mut rng, len);
                    tree.put(key(i), &value).unwrap();
                    map.insert(key(i), value);
                }),
            }
            match rng.below(8) {
                0 | 1 => snapshots.push((db.snapshot(), map.clone())),
                2 => tree.compact_range(key(from)..=key(from + span)).unwrap(),
                3 => tree.compact().unwrap(),
                4 => snapshots.clear(),
                5 => {
                    snapshots.clear();
                    drop((tree, db));
                    (db, tree) = open(&env, budget, mode, codec);
                }
                _ => {}
            }
            tree.flush().unwrap();
        }
        check(&mut rng, &tree, &map, &snapshots, KEYS);
        tree.compact().unwrap();
        check(&mut rng, &tree, &map, &snapshots, KEYS);
        snapshots.clear();
        tree.compact().unwrap();
        check(&mut rng, &tree, &map, &[], KEYS);
        let errors = db.verify(|_, _| {}).unwrap().errors;
        assert!(errors.is_empty(), "{errors:?}");
    }
}

/// Writes three runs of values of 20,000 bytes, each over all keys.
fn overwritten(env: &MemEnv, keys: u64) -> (Db, Tree) {
    let (db, tree) = open(env, 64 << 20, ReadMode::Pread, Compression::Lz4);
    let mut rng = Rng::new(7);
    for _ in 0..3 {
        (0..keys).for_each(|i| tree.put(key(i), value(&mut rng, 20_000)).unwrap());
        tree.flush().unwrap();
    }
    (db, tree)
}

#[test]
fn what_nobody_wants_is_read_once_and_not_cached() {
    const KEYS: u64 = 50;
    let env = MemEnv::new(1);
    drop(overwritten(&env, KEYS));
    let (db, tree) = open(&env, 64 << 20, ReadMode::Pread, Compression::Lz4);
    assert_eq!(tree.iter().count(), KEYS as usize);
    let once = db.stats();
    assert_eq!(once.reads.blocks_read, 3 * KEYS);
    // A value that was read takes more than 20,000 bytes; a skipped one takes less than a kibibyte.
    assert!(once.cache.frame_bytes < KEYS as usize * 25_000, "{:?}", once.cache);
    assert_eq!(tree.iter().count(), KEYS as usize);
    assert_eq!(tree.keys().count(), KEYS as usize);
    assert_eq!(db.stats().reads.blocks_read, once.reads.blocks_read);
}

#[test]
fn a_merge_hands_on_what_is_cached() {
    const KEYS: u64 = 50;
    let env = MemEnv::new(1);
    let (db, tree) = overwritten(&env, KEYS);
    let expected: Vec<Vec<u8>> = tree.iter().map(|item| item.unwrap().1.to_vec()).collect();
    let before = db.stats();
    tree.compact().unwrap();
    assert_eq!(
        db.stats().cache.inserts,
        before.cache.inserts,
        "the compaction passes on the cached frames"
    );
    let found = tree.iter().map(|item| item.unwrap().1.to_vec());
    assert!(found.eq(expected));
    assert_eq!(db.stats().reads.blocks_read, before.reads.blocks_read);
    let runs = &db.stats().trees[0].runs;
    assert_eq!(runs.iter().map(|r| r.entries).sum::<u64>(), KEYS);
}
