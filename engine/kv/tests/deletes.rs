//! Long ranges of deletes, by key and by range, in layers of memtables and tables. Iterators skip
//! them; the tests compare the results with ordered maps. They cover the newest state, older
//! snapshots and both directions.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use firn_kv::MemEnv;
use firn_kv::policy::Tiered;
use firn_kv::{
    CompactionFilter, CompactionFilterContext, CompactionFilterPass, Cursor, Db, DbOptions,
    EntryKind, FilterDecision, Policy, Snapshot, Tree, TreeOptions,
};
use firn_testkit::rng::Rng;

const KEYS: u64 = 4000;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(i: u64) -> Vec<u8> {
    format!("queue/{i:08}").into_bytes()
}

fn open(seed: u64) -> (Db, Tree) {
    let options = DbOptions {
        memory_budget: 8 << 20,
        wal_segment: 256 << 10,
        background_threads: 0,
        ..DbOptions::default()
    };
    let db = Db::open_in(Arc::new(MemEnv::new(seed)), "/db", options).unwrap();
    // Nothing is compacted unless the test requests it, so the layers stay.
    let policy =
        Policy::Tiered(Tiered { min_runs: 64, max_runs: 64, bucket: 2.0, ..Tiered::default() });
    let tree = TreeOptions {
        memtable_size: 1 << 20,
        table_size: 64 << 10,
        block_size: 512,
        policy,
        ..TreeOptions::default()
    };
    let tree = db.tree("t", tree).unwrap();
    (db, tree)
}

/// Changes a range of keys.
fn change(rng: &mut Rng, tree: &Tree, map: &mut Map) {
    let from = rng.below(KEYS);
    let until = from + 1 + rng.below(KEYS - from);
    let step = [1, 1, 1, 7, 400][rng.below(5) as usize];
    match rng.below(8) {
        0..3 => {
            for i in (from..until).step_by(step) {
                let value = format!("{}", rng.below(1000)).into_bytes();
                tree.put(&key(i), &value).unwrap();
                map.insert(key(i), value);
            }
        }
        3..7 => {
            for i in (from..until).step_by(step) {
                tree.delete(&key(i)).unwrap();
                map.remove(&key(i));
            }
        }
        _ => {
            tree.delete_range(&key(from)..&key(until)).unwrap();
            map.retain(|k, _| *k < key(from) || *k >= key(until));
        }
    }
}

fn here(c: &Cursor) -> Option<(&[u8], &[u8])> {
    c.is_valid().then(|| (c.key(), c.value()))
}

fn pair<'a>((k, v): (&'a Vec<u8>, &'a Vec<u8>)) -> (&'a [u8], &'a [u8]) {
    (k, v)
}

/// Moves a cursor a few steps from random positions in a random range, with changes of direction.
fn wander(rng: &mut Rng, mut cursor: impl FnMut(Vec<u8>, Vec<u8>) -> Cursor, map: &Map) {
    for _ in 0..30 {
        let (from, until) = (rng.below(KEYS), rng.below(KEYS + 2));
        let (from, until) = (key(from.min(until)), key(until));
        let mut c = cursor(from.clone(), until.clone());
        let inside: Vec<_> = map.range(from..until).map(pair).collect();
        for _ in 0..4 {
            let target = key(rng.below(KEYS));
            let first = inside.partition_point(|(k, _)| *k < target.as_slice());
            let mut at = if rng.below(2) == 0 {
                c.seek(&target).unwrap();
                Some(first)
            } else {
                c.seek_before(&target).unwrap();
                first.checked_sub(1)
            };
            for _ in 0..6 {
                let want = at.and_then(|at| inside.get(at)).copied();
                assert_eq!(here(&c), want);
                let Some(i) = at.filter(|_| want.is_some()) else { break };
                at = if rng.below(2) == 0 {
                    c.next().unwrap();
                    Some(i + 1)
                } else {
                    c.prev().unwrap();
                    i.checked_sub(1)
                };
            }
        }
    }
}

fn check(rng: &mut Rng, tree: &Tree, snapshot: Option<&Snapshot>, map: &Map) {
    let range = || match snapshot {
        Some(s) => s.range(tree, ..),
        None => tree.iter(),
    };
    let own = |item: firn_kv::Result<(firn_kv::Value, firn_kv::Value)>| {
        item.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()
    };
    assert!(range().map(own).eq(map.clone()));
    assert!(range().rev().map(own).eq(map.clone().into_iter().rev()));
    let cursor = |from, until| {
        let bounds = (Bound::Included(from), Bound::Excluded(until));
        match snapshot {
            Some(s) => s.cursor(tree, bounds).unwrap(),
            None => tree.cursor(bounds).unwrap(),
        }
    };
    wander(rng, cursor, map);
}

#[test]
fn stretches_of_deletes_in_any_layers_hide_what_is_older_and_nothing_else() {
    for seed in 0..25 {
        let mut rng = Rng::new(seed);
        let (db, tree) = open(seed);
        let mut map = Map::new();
        let mut snapshots: Vec<(Snapshot, Map)> = vec![];
        for _ in 0..4 + rng.below(12) {
            change(&mut rng, &tree, &mut map);
            match rng.below(9) {
                0 => snapshots.push((db.snapshot(), map.clone())),
                1..4 => tree.flush().unwrap(),
                4 => tree.compact_range(&key(rng.below(KEYS))..=&key(rng.below(KEYS))).unwrap(),
                5 => snapshots.truncate(1),
                _ => {}
            }
        }
        for _ in 0..2 {
            // Check twice: knowledge about blocks from the first pass changes no result.
            check(&mut rng, &tree, None, &map);
            snapshots.iter().for_each(|(s, then)| check(&mut rng, &tree, Some(s), then));
        }
        tree.flush().unwrap();
        tree.compact().unwrap();
        check(&mut rng, &tree, None, &map);
        snapshots.iter().for_each(|(s, then)| check(&mut rng, &tree, Some(s), then));
        assert!(db.verify(|_, _| {}).unwrap().errors.is_empty());
    }
}

/// Compaction filter that retains everything.
struct KeepsAll;

impl CompactionFilter for KeepsAll {
    fn name(&self) -> &str {
        "keeps all"
    }
    fn start(&self, _: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        Box::new(KeepsAll)
    }
}

impl CompactionFilterPass for KeepsAll {
    fn filter(&mut self, _: &[u8], _: EntryKind, _: &[u8], _: bool) -> FilterDecision {
        FilterDecision::Keep
    }
}

/// The tombstone age limit is ten seconds, but a snapshot or a compaction filter retains the
/// tombstones for 20 minutes. A former version rewrote each table every three seconds meanwhile. If
/// a rewrite took longer, it repeated without pause: a put in a store without threads never
/// returned.
#[test]
fn deletes_that_are_held_back_are_rewritten_a_few_times_only() {
    for purge in [None, Some(Arc::new(KeepsAll) as Arc<dyn CompactionFilter>)] {
        let env = MemEnv::new(1);
        let db = DbOptions { background_threads: 0, ..DbOptions::default() };
        let db = Db::open_in(Arc::new(env.clone()), "/db", db).unwrap();
        let is_purged = purge.is_some();
        let options = TreeOptions {
            tombstone_age_secs: 10,
            compaction_filter: purge,
            ..TreeOptions::default()
        };
        let tree = db.tree("t", options).unwrap();
        (0..1000).for_each(|i| tree.put(key(i), [7; 100]).unwrap());
        let snapshot = db.snapshot();
        (0..1000).step_by(100).for_each(|i| tree.delete(key(i)).unwrap());
        tree.compact().unwrap();
        let before = db.stats().compactions;
        let pass = |seconds: u32| {
            for i in 0..seconds / 3 {
                env.advance(Duration::from_secs(3));
                tree.put("now", i.to_be_bytes()).unwrap();
                db.wait_idle().unwrap();
            }
            db.stats().compactions - before
        };
        let held = pass(1200);
        assert!(held <= if is_purged { 10 } else { 2 }, "{held} rewrites, {is_purged}");
        assert_eq!(snapshot.get(&tree, key(100)).unwrap().unwrap(), [7; 100]);
        drop(snapshot);
        if !is_purged {
            // Nothing retains the tombstones any more, so they are dropped within the limit.
            pass(9);
            let trees = db.stats().trees;
            let deletes: u64 = trees.iter().flat_map(|t| &t.runs).map(|r| r.deletes).sum();
            assert_eq!(deletes, 0);
        }
    }
}
