//! Read-triggered compactions merge the sources of a tree into one when reads pay for them. They
//! stay within the configured budget and change no result of a read.
#![allow(clippy::disallowed_methods)] // the test waits for the store's threads with the real clock

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firn_kv::policy::Tiered;
use firn_kv::{Db, DbOptions, Event, Listener, MemEnv, Policy, Tree, TreeOptions};

/// Reasons of the compactions, and number of flushes.
#[derive(Debug, Default)]
struct Heard(Mutex<(Vec<&'static str>, usize)>);

impl Listener for Heard {
    fn event(&self, event: &Event) {
        let mut heard = self.0.lock().unwrap();
        match event {
            Event::CompactionBegun { reason, .. } => heard.0.push(reason),
            Event::FlushBegun { .. } => heard.1 += 1,
            _ => {}
        }
    }
}

const KEYS: u32 = 3000;

/// Opens a tree with a memtable and three runs. Its policy picks no compaction.
fn open(options: DbOptions) -> (Db, Tree, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let options = DbOptions { listener: Some(heard.clone()), ..options };
    let db = Db::open_in(Arc::new(MemEnv::plain()), "/db", options).unwrap();
    let policy = Policy::Tiered(Tiered { min_runs: 8, ..Tiered::default() });
    let tree = db.tree("t", TreeOptions { policy, ..TreeOptions::default() }).unwrap();
    for round in 0..4u32 {
        for i in (0..KEYS).filter(|i| i % 3 != round % 3) {
            tree.put(i.to_be_bytes(), round.to_be_bytes()).unwrap();
        }
        tree.delete((round * 7).to_be_bytes()).unwrap();
        if round < 3 {
            tree.flush().unwrap();
        }
    }
    (db, tree, heard)
}

fn all(tree: &Tree) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entry = |e: firn_kv::Result<(firn_kv::Value, firn_kv::Value)>| {
        let (k, v) = e.unwrap();
        (k.to_vec(), v.to_vec())
    };
    tree.iter().map(entry).collect()
}

/// Reads until the seek cost far exceeds the cost of any compaction in this test.
fn read(tree: &Tree) {
    let mut c = tree.cursor(..).unwrap();
    for i in 0..40_000u32 {
        c.seek((i * 7919 % KEYS).to_be_bytes()).unwrap();
    }
}

fn runs(db: &Db) -> usize {
    db.stats().trees.iter().map(|t| t.runs.len()).sum()
}

#[test]
fn readers_pay_for_one_run_and_read_the_same() {
    // The budget is enough for two compactions, the second of which includes the memtable.
    let (db, tree, heard) =
        open(DbOptions { read_compaction_percent: 400, ..DbOptions::default() });
    let before = all(&tree);
    assert_eq!(runs(&db), 3);
    let old = tree.cursor(..).unwrap();
    let began = Instant::now();
    // The memtable must first be unused for a second.
    while heard.0.lock().unwrap().1 < 4 || runs(&db) > 1 {
        assert!(began.elapsed() < Duration::from_secs(60), "{} {heard:?}", runs(&db));
        read(&tree);
    }
    assert!(heard.0.lock().unwrap().0.iter().all(|r| *r == "read-triggered"), "{heard:?}");
    assert_eq!(all(&tree), before);
    // Reads from one source cost nothing extra, so they trigger no compaction.
    // A compaction that earlier reads requested may still be about to begin.
    db.wait_idle().unwrap();
    let merges = heard.0.lock().unwrap().0.len();
    (0..10).for_each(|_| read(&tree));
    db.wait_idle().unwrap();
    assert_eq!(heard.0.lock().unwrap().0.len(), merges);
    drop(old);
}

#[test]
fn a_budget_of_nothing_leaves_all_as_it_is() {
    for options in [
        DbOptions { read_compaction_percent: 0, ..DbOptions::default() },
        DbOptions { background_threads: 0, ..DbOptions::default() },
    ] {
        let (db, tree, heard) = open(options);
        (0..10).for_each(|_| read(&tree));
        std::thread::sleep(Duration::from_millis(1200));
        (0..10).for_each(|_| read(&tree));
        db.wait_idle().unwrap();
        assert_eq!((runs(&db), heard.0.lock().unwrap().0.len()), (3, 0));
    }
}

/// Read-triggered compactions run next to writers, range deletions and full compactions. They lose
/// no data and restore no deleted data.
#[test]
fn beside_writers_all_reads_stay_right() {
    let (db, tree, heard) =
        open(DbOptions { read_compaction_percent: 100_000, ..DbOptions::default() });
    let began = Instant::now();
    let mut rounds = 0u32;
    let is_enough = |rounds: u32| {
        let merges = heard.0.lock().unwrap().0.iter().filter(|r| **r == "read-triggered").count();
        rounds >= 6 && merges >= 2
    };
    while !is_enough(rounds) {
        assert!(began.elapsed() < Duration::from_secs(120), "{heard:?}");
        rounds += 1;
        let model: Vec<u32> = (0..KEYS).filter(|i| i % 5 != rounds % 5).collect();
        std::thread::scope(|s| {
            s.spawn(|| {
                for &i in &model {
                    tree.put(i.to_be_bytes(), rounds.to_be_bytes()).unwrap();
                }
                for i in (0..KEYS).filter(|i| i % 5 == rounds % 5) {
                    tree.delete(i.to_be_bytes()).unwrap();
                }
                tree.delete_range(100u32.to_be_bytes()..200u32.to_be_bytes()).unwrap();
                tree.flush().unwrap();
                if rounds.is_multiple_of(3) {
                    tree.compact().unwrap();
                }
            });
            (0..2).for_each(|_| _ = s.spawn(|| read(&tree)));
        });
        read(&tree);
        let expected: Vec<_> = model
            .iter()
            .filter(|i| !(100..200).contains(*i))
            .map(|i| (i.to_be_bytes().to_vec(), rounds.to_be_bytes().to_vec()))
            .collect();
        assert_eq!(all(&tree), expected, "round {rounds}");
    }
    assert!(db.verify(|_, _| {}).unwrap().errors.is_empty());
}
