//! Read counters: exact counters are exact, and sampled ones are close to the true number.

use std::path::Path;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::sstable::Table;
use firn_kv::stats::ReadStats;
use firn_kv::{Db, Tree};

use super::{key, open, options, piling};

/// Sampling interval: one in `EACH` operations is sampled.
const EACH: u64 = 257;

fn of(tree: &Tree) -> ReadStats {
    tree.db().stats().trees.iter().find(|t| t.name == tree.name()).unwrap().reads
}

/// Reports whether an estimate for `n` operations is as close as sampling one in [`EACH`] allows.
fn about(n: u64, estimate: u64) -> bool {
    estimate.is_multiple_of(EACH) && estimate.abs_diff(n) <= EACH
}

fn filled(db: &Db, name: &str, keys: std::ops::Range<u64>) -> Tree {
    let tree = db.tree(name, piling()).unwrap();
    keys.for_each(|n| tree.put(key(n), "value").unwrap());
    tree.flush().unwrap();
    tree
}

/// Returns the number of data blocks in the tree's tables.
fn blocks_of(env: &MemEnv, tree: &Tree) -> u64 {
    let blocks = |id: u64| {
        let path = table_path(Path::new("db"), id);
        let table =
            Table::open(env.open_read(&path, false).unwrap(), &path, id, Cache::new(1 << 20))
                .unwrap();
        table.blocks().len() as u64
    };
    tree.tables().unwrap().iter().map(|t| blocks(t.id)).sum()
}

#[test]
fn gets_filters_and_blocks_are_counted_by_tree_and_as_a_whole() {
    let (_env, db) = open(options());
    let (a, b) = (filled(&db, "a", 0..1000), filled(&db, "b", 0..1000));
    assert_eq!(of(&a), ReadStats::default());
    for n in 0..10_000 {
        assert!(a.get(key(n % 1000)).unwrap().is_some());
    }
    let reads = of(&a);
    assert!(
        about(10_000, reads.gets) && reads.found == reads.gets && reads.in_memtables == 0,
        "{reads:?}"
    );
    assert_eq!(
        (reads.filter_probes, reads.filter_negatives, reads.filter_false_positives),
        (reads.gets, 0, 0)
    );
    // The flush has already put its blocks into the cache.
    assert_eq!(
        (reads.blocks_cached, reads.blocks_read, reads.hit_rate()),
        (reads.gets, 0, Some(1.0))
    );
    assert_eq!(of(&b), ReadStats::default());

    // These keys are between the existing ones, and the filters exclude nearly all of them.
    for n in 0..10_000 {
        assert!(b.get([key(n % 1000), n.to_be_bytes().to_vec()].concat()).unwrap().is_none());
    }
    let other = of(&b);
    assert!(about(10_000, other.gets) && other.found == 0, "{other:?}");
    assert!(
        other.filter_negatives + other.filter_false_positives == other.filter_probes,
        "{other:?}"
    );
    assert!(
        other.filter_negatives > 9_000 && other.false_positive_rate().unwrap() < 0.1,
        "{other:?}"
    );
    assert_eq!(of(&a), reads);

    let mut both = reads;
    both.add(&other);
    assert_eq!(db.stats().reads, both);
    drop(b);
    db.drop_tree("b").unwrap();
    assert_eq!(db.stats().reads, both, "the totals must include dropped trees");
}

#[test]
fn a_block_that_is_not_in_memory_is_counted_once_for_each_read_of_its_file() {
    let (env, db) = open(options());
    drop(filled(&db, "t", 0..1000));
    drop(db);
    let db = Db::open_in(env.clone(), "db", options()).unwrap();
    let tree = db.tree("t", piling()).unwrap();
    // The first read of each block comes from the file, for any type of read.
    assert_eq!(tree.iter().count(), 1000);
    let (scanned, blocks) = (of(&tree), blocks_of(&env, &tree));
    assert_eq!(scanned.blocks_read, blocks);
    assert!(scanned.bytes_read > 0 && scanned.gets == 0, "{scanned:?}");
    (0..1000).for_each(|n| assert!(tree.get(key(n)).unwrap().is_some()));
    assert_eq!(
        (of(&tree).blocks_read, of(&tree).bytes_read),
        (scanned.blocks_read, scanned.bytes_read)
    );
    // Compactions do not count as reads.
    tree.compact().unwrap();
    assert_eq!(of(&tree).blocks_read, blocks);
}

#[test]
fn walks_snapshots_and_gets_of_several_keys_are_counted() {
    let (env, db) = open(options());
    let tree = filled(&db, "t", 0..1000);
    let blocks = blocks_of(&env, &tree);
    let walks = 40 * EACH / blocks;
    (0..walks).for_each(|_| assert_eq!(tree.iter().count(), 1000));
    let walked = of(&tree);
    assert!(
        about(walks * blocks, walked.blocks_cached) && walked.gets == 0,
        "{walked:?} {}",
        walks * blocks
    );

    let snapshot = db.snapshot();
    (0..10 * EACH).for_each(|n| assert!(snapshot.get(&tree, key(n % 1000)).unwrap().is_some()));
    assert_eq!(of(&tree).gets, 10 * EACH);
    let keys: Vec<Vec<u8>> = (0..10).map(key).collect();
    (0..10 * EACH).for_each(|_| assert_eq!(tree.multi_get(&keys).unwrap().len(), 10));
    assert_eq!(of(&tree).gets, 110 * EACH);

    tree.put("new", "in memory").unwrap();
    (0..10 * EACH).for_each(|_| assert!(tree.get("new").unwrap().is_some()));
    assert_eq!(of(&tree).in_memtables, 10 * EACH);
}
