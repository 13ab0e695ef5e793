//! Keys that are put and deleted again, like those of a queue. The first seek over many deletions
//! is short, even if no reader was there before. The optimizations change no result of a read.

use std::sync::Arc;

use firn_kv::MemEnv;
use firn_kv::policy::Tiered;
use firn_kv::{
    Db, DbOptions, Error, ErrorKind, MergeOperator, MergeResult, Policy, Result, Tree, TreeOptions,
};
use firn_testkit::rng::Rng;

fn key(i: u64) -> Vec<u8> {
    format!("{i:08}").into_bytes()
}

fn open(env: &MemEnv) -> Db {
    let options = DbOptions { background_threads: 0, ..DbOptions::default() };
    Db::open_in(Arc::new(env.clone()), "/db", options).unwrap()
}

/// Returns options under which runs accumulate and no compaction runs.
fn piling() -> TreeOptions {
    let policy =
        Policy::Tiered(Tiered { min_runs: 32, max_runs: 64, bucket: 3.0, ..Tiered::default() });
    TreeOptions { policy, memtable_size: 16 << 20, ..TreeOptions::default() }
}

/// Returns the first or last key from `from` on, and the number of entries that the read visited.
/// No earlier read has filled caches for it.
fn end(tree: &Tree, from: &[u8], first: bool) -> (Option<Vec<u8>>, u64) {
    let recording = tree.db().record_reads();
    let mut range = tree.range(from..);
    let found = if first { range.next() } else { range.next_back() };
    let found = found.map(|item| item.unwrap().0.to_vec());
    drop(range);
    let passed = recording.finish().reads.iter().map(|r| r.total().entries.all()).sum();
    (found, passed)
}

/// Returns the keys `0..n` in the order of their deletion.
fn order(n: u64, how: &str, rng: &mut Rng) -> Vec<u64> {
    let mut all: Vec<u64> = (0..n).collect();
    match how {
        "from the head" => {}
        "from the tail" => all.reverse(),
        _ => (1..all.len()).rev().for_each(|i| all.swap(i, rng.below(i as u64 + 1) as usize)),
    }
    all
}

#[test]
fn the_first_read_after_deletes_in_tables_is_short() {
    const N: u64 = 2_000;
    // Upper bound of visited entries: a few remaining deletes of a range in each of some tables.
    const FEW: u64 = 60;
    let mut rng = Rng::new(3);
    for how in ["from the head", "from the tail", "anyhow"] {
        for (tables_of_puts, tables_of_deletes) in [(1, 1), (3, 1), (1, 5), (0, 1)] {
            for survivors in [u64::MAX, 500] {
                let env = MemEnv::new(7);
                let (db, case) = (
                    open(&env),
                    format!("{how}, {tables_of_puts} and {tables_of_deletes}, {survivors}"),
                );
                let tree = db.tree("t", piling()).unwrap();
                let stays = |i: u64| survivors != u64::MAX && i % survivors == survivors / 2;
                for i in 0..N {
                    tree.put(&key(i), b"value").unwrap();
                    if tables_of_puts > 0 && i % (N / tables_of_puts) == 0 {
                        tree.flush().unwrap();
                    }
                }
                if tables_of_puts > 0 {
                    tree.flush().unwrap();
                }
                let deleted = order(N, how, &mut rng);
                for part in deleted.chunks(deleted.len().div_ceil(tables_of_deletes)) {
                    part.iter()
                        .filter(|i| !stays(**i))
                        .for_each(|i| tree.delete(&key(*i)).unwrap());
                    tree.flush().unwrap();
                }
                drop(tree);
                drop(db);
                let db = open(&env);
                let tree = db.tree("t", piling()).unwrap();
                let mut from = 0;
                for i in (0..N).filter(|i| stays(*i)).map(Some).chain([None]) {
                    let (found, passed) = end(&tree, &key(from), true);
                    assert_eq!(found, i.map(key), "{case}");
                    assert!(passed < FEW, "{passed} entries visited from {from}: {case}");
                    from = i.map_or(0, |i| i + 1);
                }
                let (found, passed) = end(&tree, b"", false);
                assert_eq!(found, (0..N).rev().find(|i| stays(*i)).map(key), "{case}");
                assert!(passed < FEW, "{passed} entries visited from the tail: {case}");
                db.verify(|_, _| ()).unwrap();
            }
        }
    }
}

#[test]
fn old_snapshots_still_see_what_was_there() {
    let db = open(&MemEnv::new(1));
    let tree = db.tree("t", piling()).unwrap();
    let all = |s: &firn_kv::Snapshot| {
        s.range(&tree, ..).map(|i| i.unwrap().0.to_vec()).collect::<Vec<_>>()
    };
    let want = |range: std::ops::Range<u64>| range.map(key).collect::<Vec<_>>();
    (0..200).for_each(|i| tree.put(&key(i), b"v").unwrap());
    let before = db.snapshot();
    (0..100).for_each(|i| tree.delete(&key(i)).unwrap());
    let between = db.snapshot();
    (100..200).for_each(|i| tree.delete(&key(i)).unwrap());
    for flushed in [false, true] {
        assert_eq!(all(&before), want(0..200), "flushed: {flushed}");
        assert_eq!(all(&between), want(100..200), "flushed: {flushed}");
        assert_eq!(tree.iter().count(), 0, "flushed: {flushed}");
        tree.flush().unwrap();
    }
    tree.put(&key(50), b"again").unwrap();
    tree.compact().unwrap();
    assert_eq!((all(&before), all(&between)), (want(0..200), want(100..200)));
    assert_eq!(tree.iter().map(|i| i.unwrap().0.to_vec()).collect::<Vec<_>>(), [key(50)]);
}

/// A range deletion removes a key that earlier deletes left in place. Older snapshots still see it.
#[test]
fn snapshots_between_deletes_and_a_range_deletion_see_what_that_took() {
    let db = open(&MemEnv::new(1));
    let tree = db.tree("t", piling()).unwrap();
    (0..100).for_each(|i| tree.put(&key(i), b"v").unwrap());
    (0..100).filter(|i| *i != 50).for_each(|i| tree.delete(&key(i)).unwrap());
    let before = db.snapshot();
    tree.delete_range(&key(40)..&key(60)).unwrap();
    assert_eq!(tree.iter().count(), 0);
    tree.flush().unwrap();
    assert_eq!(
        before.range(&tree, ..).map(|i| i.unwrap().0.to_vec()).collect::<Vec<_>>(),
        [key(50)]
    );
    assert_eq!(before.get(&tree, &key(50)).unwrap().as_deref(), Some(&b"v"[..]));
}

/// A transaction passes its own deletes once, not again in each seek to the next key.
#[test]
fn a_transaction_that_takes_all_passes_each_key_a_few_times() {
    const N: u64 = 400;
    let mut rng = Rng::new(5);
    for how in ["from the head", "from the tail", "anyhow"] {
        for flushed in [false, true] {
            let db = open(&MemEnv::new(1));
            let tree = db.tree("t", piling()).unwrap();
            (0..N).for_each(|i| tree.put(&key(i), b"v").unwrap());
            if flushed {
                tree.flush().unwrap();
            }
            let recording = db.record_reads();
            let mut tx = db.transaction();
            for (n, i) in order(N, how, &mut rng).into_iter().enumerate() {
                let first = if how == "from the tail" { tx.last(&tree) } else { tx.first(&tree) }
                    .unwrap()
                    .unwrap()
                    .0;
                assert!(how == "anyhow" || *first == *key(i), "{how}, {n}");
                tx.delete(&tree, &key(i)).unwrap();
            }
            assert!(tx.first(&tree).unwrap().is_none() && tx.last(&tree).unwrap().is_none());
            let passed: u64 =
                recording.finish().reads.iter().map(|r| r.total().entries.all()).sum();
            assert!(passed <= 8 * N, "{how}, flushed {flushed}: {passed} entries");
            tx.commit().unwrap();
            assert_eq!(tree.iter().count(), 0);
        }
    }
}

/// A transaction gets no conflict for a key that no writer changed. The neighbours of the key were
/// deleted and flushed while the transaction ran.
#[test]
fn transactions_compare_what_was_deleted_and_no_more() {
    let db = open(&MemEnv::new(1));
    let tree = db.tree("t", piling()).unwrap();
    let other = db.tree("other", piling()).unwrap();
    (0..300).for_each(|i| tree.put(&key(i), b"v").unwrap());
    tree.flush().unwrap();
    (0..100).for_each(|i| tree.delete(&key(i)).unwrap());
    let mut untouched = db.transaction();
    let mut conflicting = db.transaction();
    assert_eq!(untouched.get(&tree, &key(50)).unwrap(), None);
    assert_eq!(untouched.get(&tree, b"00000150x").unwrap(), None);
    assert!(untouched.range(&tree, key(20)..key(80)).next().is_none());
    assert!(conflicting.get(&tree, &key(150)).unwrap().is_some());
    (100..200).for_each(|i| tree.delete(&key(i)).unwrap());
    tree.flush().unwrap();
    untouched.put(&other, b"k", b"v").unwrap();
    conflicting.put(&other, b"k", b"v").unwrap();
    untouched.commit().unwrap();
    assert_eq!(conflicting.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

/// An ingestion loads a key between keys that the memtable deleted. The ingested table is older
/// than the table that the flush of these deletes creates.
#[test]
fn what_was_loaded_among_deletes_stays() {
    for loaded_last in [false, true] {
        let db = open(&MemEnv::new(1));
        let tree = db.tree("t", piling()).unwrap();
        (0..100).filter(|i| *i != 50).for_each(|i| tree.delete(&key(i)).unwrap());
        tree.ingest([(key(50), b"loaded")]).unwrap();
        if !loaded_last {
            tree.delete(&key(99)).unwrap();
        }
        tree.flush().unwrap();
        assert_eq!(tree.get(&key(50)).unwrap().as_deref(), Some(&b"loaded"[..]));
        assert_eq!(tree.iter().count(), 1);
        tree.delete(&key(50)).unwrap();
        tree.flush().unwrap();
        assert_eq!(tree.get(&key(50)).unwrap(), None);
    }
}

/// Merge operator that adds numbers. A sum of 0 removes the value.
struct Sum;

impl MergeOperator for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        let number = |b: &[u8]| {
            b.try_into().map(i64::from_le_bytes).map_err(|_| Error::invalid("no number"))
        };
        // Adds a thousand if there were older entries, so that the test sees whether they still
        // exist.
        let past = i64::from(base.is_some() || operands.len() > 2) * 1_000;
        let sum: i64 =
            base.into_iter().chain(operands.iter().copied()).map(number).sum::<Result<i64>>()?;
        Ok(if sum == 0 {
            MergeResult::Absent
        } else {
            MergeResult::Value((sum + past).to_le_bytes().to_vec())
        })
    }
}

/// Operands that fold to no value must be preserved, because later operands are folded over them.
#[test]
fn operands_that_fold_to_nothing_are_retained() {
    for in_older_table in [false, true] {
        let db = open(&MemEnv::new(1));
        let tree =
            db.tree("t", TreeOptions { merge_operator: Some(Arc::new(Sum)), ..piling() }).unwrap();
        (0..100).filter(|i| *i != 50).for_each(|i| tree.put(&key(i), &1i64.to_le_bytes()).unwrap());
        let pair =
            || [1i64, -1].iter().for_each(|n| tree.merge(&key(50), &n.to_le_bytes()).unwrap());
        if in_older_table {
            pair();
        }
        tree.flush().unwrap();
        if !in_older_table {
            pair();
        }
        (0..100).filter(|i| *i != 50).for_each(|i| tree.delete(&key(i)).unwrap());
        assert_eq!(tree.iter().count(), 0);
        tree.flush().unwrap();
        assert_eq!(tree.iter().count(), 0);
        tree.merge(&key(50), &5i64.to_le_bytes()).unwrap();
        assert_eq!(
            tree.get(&key(50)).unwrap().as_deref(),
            Some(&1_005i64.to_le_bytes()[..]),
            "{in_older_table}"
        );
    }
}
