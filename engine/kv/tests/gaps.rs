//! Empty-range cache tests. Readers learn ranges without visible keys and later skip them. Results
//! must equal those without the cache, under all concurrent changes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_kv::MemEnv;
use firn_kv::{Batch, Db, DbOptions, Snapshot, Tree, TreeOptions};
use firn_testkit::rng::Rng;

fn key(i: u64) -> Vec<u8> {
    format!("{i:05}").into_bytes()
}

fn open(threads: usize) -> (Db, Tree) {
    let options = DbOptions { background_threads: threads, ..DbOptions::default() };
    let db = Db::open_in(Arc::new(MemEnv::new(7)), Path::new("/gaps"), options).unwrap();
    let tree =
        db.tree("t", TreeOptions { memtable_size: 1 << 20, ..TreeOptions::default() }).unwrap();
    (db, tree)
}

type Model = BTreeMap<Vec<u8>, u64>;

/// Compares some reads of a range from both ends with the model.
fn compare(range: impl Fn() -> firn_kv::Range, model: &[(&Vec<u8>, &u64)]) {
    let value = |v: &[u8]| u64::from_le_bytes(v.try_into().unwrap());
    let pair = |i: firn_kv::Result<(firn_kv::Value, firn_kv::Value)>| {
        i.map(|(k, v)| (k.to_vec(), value(&v))).unwrap()
    };
    let want = |(k, v): &(&Vec<u8>, &u64)| ((*k).clone(), **v);
    let firsts: Vec<_> = range().take(3).map(pair).collect();
    assert_eq!(firsts, model.iter().take(3).map(want).collect::<Vec<_>>());
    let lasts: Vec<_> = range().rev().take(3).map(pair).collect();
    assert_eq!(lasts, model.iter().rev().take(3).map(want).collect::<Vec<_>>());
}

#[test]
fn what_is_seen_is_the_same_as_without() {
    const KEYS: u64 = 2_000;
    for seed in 0..4 {
        let (db, tree) = open(0);
        let (mut rng, mut model) = (Rng::new(seed), Model::new());
        let mut snapshots: Vec<(Snapshot, Model)> = vec![];
        for step in 0..400u64 {
            let (at, len) = (rng.below(KEYS), rng.below(600));
            match rng.below(12) {
                0..=3 => {
                    for i in at..(at + len).min(KEYS) {
                        tree.delete(&key(i)).unwrap();
                        model.remove(&key(i));
                    }
                }
                4..=5 => {
                    for i in at..(at + 3).min(KEYS) {
                        tree.put(&key(i), &step.to_le_bytes()).unwrap();
                        model.insert(key(i), step);
                    }
                }
                6 => {
                    let mut batch = Batch::new();
                    for i in (at..(at + len).min(KEYS)).step_by(97) {
                        batch.put(&tree, &key(i), &step.to_le_bytes()).unwrap();
                        model.insert(key(i), step);
                    }
                    db.write(batch).unwrap();
                }
                7 => {
                    tree.delete_range(&key(at)..&key(at + len)).unwrap();
                    model.retain(|k, _| *k < key(at) || *k >= key(at + len));
                }
                8 => tree.flush().unwrap(),
                9 if step % 5 == 0 => tree.compact().unwrap(),
                10 => {
                    let some: Vec<_> =
                        (at..(at + 4).min(KEYS)).map(|i| (key(i), step.to_le_bytes())).collect();
                    tree.ingest(some).unwrap();
                    model.extend((at..(at + 4).min(KEYS)).map(|i| (key(i), step)));
                }
                _ => {
                    snapshots.push((db.snapshot(), model.clone()));
                    if snapshots.len() > 3 {
                        snapshots.remove(rng.below(4) as usize);
                    }
                }
            }
            for _ in 0..3 {
                let (a, b) = (key(rng.below(KEYS)), key(rng.below(KEYS) + 300));
                if a < b {
                    compare(
                        || tree.range(a.clone()..b.clone()),
                        &model.range(a.clone()..b.clone()).collect::<Vec<_>>(),
                    );
                    for (s, model) in &snapshots {
                        compare(
                            || s.range(&tree, a.clone()..b.clone()),
                            &model.range(a.clone()..b.clone()).collect::<Vec<_>>(),
                        );
                    }
                }
            }
            compare(|| tree.iter(), &model.iter().collect::<Vec<_>>());
        }
        drop(snapshots);
    }
}

/// Scans that end within a range deletion cache the covered range up to their last position. Keys
/// after it, keys that are written there later, and older snapshots must read as without the cache.
#[test]
fn walks_that_end_in_what_is_covered_hide_nothing() {
    const EACH: u64 = 40;
    const KEYS: u64 = 8 * EACH;
    for seed in 0..6 {
        let (db, tree) = open(0);
        let (mut rng, mut model) = (Rng::new(seed), Model::new());
        let mut snapshots: Vec<(Snapshot, Model)> = vec![];
        for step in 0..300u64 {
            let at = rng.below(KEYS);
            match rng.below(16) {
                0..=3 => {
                    let mut batch = Batch::new();
                    for i in at / EACH * EACH..at / EACH * EACH + EACH {
                        batch.put(&tree, &key(i), &step.to_le_bytes()).unwrap();
                        model.insert(key(i), step);
                    }
                    db.write(batch).unwrap();
                }
                4..=7 => {
                    let until = at + rng.below(4 * EACH);
                    tree.delete_range(key(at)..key(until)).unwrap();
                    model.retain(|k, _| *k < key(at) || *k >= key(until));
                }
                8 => {
                    tree.delete_range(key(at)..).unwrap();
                    model.retain(|k, _| *k < key(at));
                }
                9..=11 => {
                    tree.put(key(at), step.to_le_bytes()).unwrap();
                    model.insert(key(at), step);
                }
                12 => {
                    tree.delete(key(at)).unwrap();
                    model.remove(&key(at));
                }
                13 => tree.flush().unwrap(),
                14 if step % 4 == 0 => tree.compact().unwrap(),
                _ => {
                    snapshots.push((db.snapshot(), model.clone()));
                    if snapshots.len() > 3 {
                        snapshots.remove(rng.below(4) as usize);
                    }
                }
            }
            for _ in 0..4 {
                let from = rng.below(KEYS);
                // From that key to the end of its block of keys, from the start of the block, or to
                // the end of the tree.
                let (from, until) = match rng.below(3) {
                    0 => (from, Some(from / EACH * EACH + EACH)),
                    1 => (from / EACH * EACH, Some(from + 1)),
                    _ => (from, None),
                };
                let from = Bound::Included(key(from));
                let until = until.map_or(Bound::Unbounded, |until| Bound::Excluded(key(until)));
                let range = || (from.clone(), until.clone());
                compare(|| tree.range(range()), &model.range(range()).collect::<Vec<_>>());
                for (s, model) in &snapshots {
                    compare(|| s.range(&tree, range()), &model.range(range()).collect::<Vec<_>>());
                }
            }
            assert_eq!(tree.len().unwrap(), model.len() as u64);
        }
    }
}

/// One key exists at every moment, but it moves. Every reader must meet exactly one key among all
/// the deletes.
#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn a_key_that_wanders_among_deletes_is_always_met() {
    const KEYS: u64 = 500;
    let (db, tree) = open(2);
    for i in 0..KEYS {
        tree.put(&key(i), b"").unwrap();
        tree.delete(&key(i)).unwrap();
    }
    tree.put(&key(0), b"").unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        for forward in [true, false] {
            let (tree, done) = (&tree, &done);
            s.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let met = if forward { tree.iter().count() } else { tree.iter().rev().count() };
                    assert_eq!(met, 1, "forward: {forward}");
                }
            });
        }
        let (mut rng, mut at) = (Rng::new(1), 0);
        for step in 0..6_000u64 {
            let next = if rng.below(3) == 0 { rng.below(KEYS) } else { (at + 1) % KEYS };
            if next == at {
                continue;
            }
            let mut batch = Batch::new();
            batch.delete(&tree, &key(at)).unwrap();
            batch.put(&tree, &key(next), b"").unwrap();
            db.write(batch).unwrap();
            at = next;
            if step % 1_500 == 0 {
                tree.flush().unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
