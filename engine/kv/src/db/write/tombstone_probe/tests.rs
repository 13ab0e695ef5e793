//! Tests that after many deletes, and before any read, the empty-range cache covers almost all of
//! them.

use std::ops::Range;
use std::sync::Arc;

use crate::base::options::{DbOptions, TreeOptions};
use crate::compaction::policy::{Policy, Tiered};
use crate::db::Batch;
use crate::db::commit::probe_schedule::NEAR;
use crate::env::mem::MemEnv;
use firn_testkit::rng::Rng;

use crate::db::{Db, Tree};

const N: u64 = 1_000;
const QUEUES: u64 = 10;

fn open(env: &MemEnv) -> (Db, Tree) {
    let db = Db::open_in(
        Arc::new(env.clone()),
        "/db",
        DbOptions { background_threads: 0, ..DbOptions::default() },
    )
    .unwrap();
    let policy =
        Policy::Tiered(Tiered { min_runs: 32, max_runs: 64, bucket: 3.0, ..Tiered::default() });
    let tree = db.tree("t", TreeOptions { policy, ..TreeOptions::default() }).unwrap();
    (db, tree)
}

fn key(queue: u64, i: u64) -> Vec<u8> {
    format!("queue {queue:02} {i:06}").into_bytes()
}

/// Returns the number of a queue's keys outside empty ranges. Asserts that its remaining key is in
/// none.
fn outside_empty_ranges(tree: &Tree, queue: u64) -> usize {
    let read = tree.handle.inner.commit.read_point();
    let is_known =
        |i: u64| tree.inner.empty_ranges.skip_empty_range(&key(queue, i), true, read, &mut vec![]);
    assert!(!is_known(N), "an existing key must not be in an empty range");
    (0..N).filter(|&i| !is_known(i)).count()
}

/// Returns the number of these keys of the first queue outside empty ranges.
fn outside(tree: &Tree, keys: Range<u64>) -> u64 {
    let read = tree.handle.inner.commit.read_point();
    keys.filter(|&i| !tree.inner.empty_ranges.skip_empty_range(&key(0, i), true, read, &mut vec![]))
        .count() as u64
}

fn put_all(tree: &Tree) {
    for i in 0..=N {
        (0..QUEUES).for_each(|q| tree.put(&key(q, i), b"v").unwrap());
    }
}

#[test]
fn writers_probe_after_deletes() {
    for in_tables in [false, true] {
        for from_tail in [false, true] {
            for batch in [1, 30] {
                let (db, tree) = open(&MemEnv::new(1));
                put_all(&tree);
                if in_tables {
                    tree.flush().unwrap();
                }
                let mut all: Vec<u64> = (0..N).collect();
                if from_tail {
                    all.reverse();
                }
                for part in all.chunks(batch) {
                    let mut b = Batch::new();
                    for (i, q) in part.iter().flat_map(|i| (0..QUEUES).map(move |q| (*i, q))) {
                        if batch == 1 {
                            tree.delete(&key(q, i)).unwrap()
                        } else {
                            b.delete(&tree, &key(q, i)).unwrap()
                        }
                    }
                    db.write(b).unwrap();
                }
                for q in 0..QUEUES {
                    let left = outside_empty_ranges(&tree, q);
                    // Each queue is probed after some of its deletes, by chance later.
                    assert!(
                        left < 10 * NEAR as usize,
                        "{left} of queue {q}, in tables: {in_tables}, {from_tail}, by {batch}"
                    );
                    assert_eq!(
                        tree.prefix(&key(q, 0)[..8]).next().unwrap().unwrap().0.to_vec(),
                        key(q, N)
                    );
                }
            }
        }
    }
}

/// An empty range found by one probe is merged with those found before. (In release builds scans
/// record their position only after some steps.)
#[test]
fn a_queue_has_one_empty_range() {
    for from_tail in [false, true] {
        let (_db, tree) = open(&MemEnv::new(1));
        (0..20_000).for_each(|i| tree.put(&key(0, i), b"v").unwrap());
        let mut all: Vec<u64> = (1..19_999).collect();
        if from_tail {
            all.reverse();
        }
        all.iter().for_each(|&i| tree.delete(&key(0, i)).unwrap());
        assert!(
            (1..=2).contains(&tree.inner.empty_ranges.count()),
            "{} empty ranges, from the tail: {from_tail}",
            tree.inner.empty_ranges.count()
        );
        assert!(outside(&tree, 1..19_999) < 3 * NEAR, "{}", outside(&tree, 1..19_999));
    }
}

/// Each queue has its own empty range, with any number of queues.
#[test]
fn hundreds_of_queues_in_one_tree_are_looked_at() {
    const EACH: u64 = 300;
    let (_db, tree) = open(&MemEnv::new(1));
    let key = |q: u64, i: u64| format!("queue {q:03} {i:06}").into_bytes();
    (0..=EACH).for_each(|i| (0..600).for_each(|q| tree.put(&key(q, i), b"v").unwrap()));
    (0..EACH).for_each(|i| (0..600).for_each(|q| tree.delete(&key(q, i)).unwrap()));
    let read = tree.handle.inner.commit.read_point();
    let left = |q| {
        (0..EACH)
            .filter(|&i| {
                !tree.inner.empty_ranges.skip_empty_range(&key(q, i), true, read, &mut vec![])
            })
            .count() as u64
    };
    let passed = (0..600).filter(|&q| left(q) < EACH * 2 / 3).count();
    // By chance some are not probed for long.
    assert!(passed > 480, "{passed} of 600 queues");
}

/// Deletes in random order: the last of them join many ranges into one. Rare probes would miss most
/// of it.
#[test]
fn deletes_in_any_order_are_probed() {
    for (n, in_tables) in [(300, false), (3_000, false), (30_000, false), (3_000, true)] {
        let (_db, tree) = open(&MemEnv::new(1));
        let key = |i: u64| format!("key {i:06}").into_bytes();
        (0..=n).for_each(|i| tree.put(&key(i), b"v").unwrap());
        if in_tables {
            tree.flush().unwrap();
        }
        let mut all: Vec<u64> = (0..n).collect();
        Rng::new(n).shuffle(&mut all);
        all.iter().for_each(|&i| tree.delete(&key(i)).unwrap());
        let read = tree.handle.inner.commit.read_point();
        let left = (0..n)
            .filter(|&i| {
                !tree.inner.empty_ranges.skip_empty_range(&key(i), true, read, &mut vec![])
            })
            .count();
        // A reader steps over this many entries in less time than ten seeks take.
        assert!(left < 400, "{left} of {n}, in tables: {in_tables}");
    }
}

#[test]
fn deletes_from_the_log_are_probed() {
    for in_tables in [false, true] {
        let env = MemEnv::new(1);
        let (db, tree) = open(&env);
        put_all(&tree);
        if in_tables {
            tree.flush().unwrap();
        }
        // In an order in which a probe finds little.
        for i in 0..N {
            (0..QUEUES).for_each(|q| tree.delete(&key(q, i * 7 % N)).unwrap());
        }
        drop((db, tree));
        let (_db, tree) = open(&env);
        for q in 0..QUEUES {
            assert!(
                outside_empty_ranges(&tree, q) <= 2,
                "{} of queue {q}, in tables: {in_tables}",
                outside_empty_ranges(&tree, q)
            );
        }
    }
}

/// A store that is open read-only scans the replayed deletes as well.
#[test]
fn readers_look_at_the_log_too() {
    let env = MemEnv::new(1);
    let (db, tree) = open(&env);
    put_all(&tree);
    (0..N).for_each(|i| tree.delete(&key(3, i)).unwrap());
    drop((db, tree));
    let options = DbOptions { read_only: true, ..DbOptions::default() };
    let db = Db::open_in(Arc::new(env.clone()), "/db", options).unwrap();
    assert!(outside_empty_ranges(&db.existing_tree("t").unwrap(), 3) <= 2);
}
