//! Compactions keep to a rate, stand still while they are paused, and never keep a writer from going on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_kv::env::Env;
use firn_kv::env::fault::{FaultEnv, OpClass};
use firn_kv::env::mem::MemEnv;
use firn_kv::{Compression, Db, DbOptions, ErrorKind, Policy, Tree, TreeOptions};

const RATE: u64 = 1 << 20;

fn options(threads: usize) -> DbOptions {
    DbOptions {
        background_threads: threads,
        memory_budget: 8 << 20,
        wal_segment: 256 << 10,
        event_log: false,
        ..DbOptions::default()
    }
}

fn open(env: Arc<dyn Env>, options: DbOptions) -> (Db, Tree) {
    let db = Db::open_in(env, "/db", options).unwrap();
    let tree = TreeOptions {
        memtable_size: 64 << 10,
        table_size: 256 << 10,
        compression: vec![Compression::None],
        policy: Policy::Tiered { min_runs: 2, max_runs: 4, bucket: 2.0 },
        ..TreeOptions::default()
    };
    let tree = db.tree("t", tree).unwrap();
    (db, tree)
}

/// Bytes that compactions have read and written.
fn moved(db: &Db) -> u64 {
    let s = db.stats();
    s.compaction_read + s.compaction_written
}

fn fill(tree: &Tree, from: u32, n: u32, len: usize) {
    (from..from + n).for_each(|i| tree.put(i.wrapping_mul(0x9e37_79b1).to_be_bytes(), vec![i as u8; len]).unwrap());
}

/// On the clock of an environment where only who waits lets time pass: what a merge moves takes the time that the rate says, no less and
/// no more, also beyond a change of the rate, with small entries and with large ones.
#[test]
fn a_merge_takes_the_time_that_its_bytes_are_worth() {
    for (n, len) in [(40_000, 40), (40, 50_000)] {
        let mem = MemEnv::new(1);
        let (db, tree) = open(Arc::new(mem.clone()), options(0));
        for round in 0..2 {
            let pause = db.pause_background().unwrap();
            fill(&tree, round * n, n, len);
            tree.flush().unwrap();
            drop(pause);
            let rate = RATE << round;
            db.set_background_rate(Some(rate)).unwrap();
            let (from, before) = (mem.monotonic_nanos(), moved(&db));
            tree.compact().unwrap();
            let seconds = (mem.monotonic_nanos() - from) as f64 / 1e9;
            let worth = (moved(&db) - before) as f64 / rate as f64;
            assert!(worth > 0.9, "{worth}: little was merged");
            // What a merge does last is waited for by the next one.
            let step = (512 << 10) as f64 / rate as f64;
            assert!(seconds <= worth * 1.02 + 0.1 && seconds >= worth * 0.98 - step, "{seconds} s for bytes worth {worth} s");
            db.set_background_rate(None).unwrap();
        }
    }
}

/// Never, at any moment of a long history, has more been moved than the time since its beginning allows.
#[test]
fn no_moment_sees_more_than_the_rate_allows() {
    let mem = MemEnv::new(2);
    let (db, tree) = open(Arc::new(mem.clone()), DbOptions { background_rate: Some(RATE), ..options(0) });
    let from = mem.monotonic_nanos();
    let mut waited = 0;
    for n in 0..60 {
        let before = mem.monotonic_nanos();
        fill(&tree, n * 500, 500, 100);
        waited += u64::from(mem.monotonic_nanos() > before);
        let allowed = (mem.monotonic_nanos() - from) as f64 / 1e9 * RATE as f64 + (512 << 10) as f64;
        // A job is counted in the statistics when it is done, and its last step is waited for by the next one.
        assert!(moved(&db) as f64 <= allowed, "{} bytes where {allowed} are allowed", moved(&db));
    }
    assert!(waited > 3 && moved(&db) > 4 << 20, "{waited} waits, {} bytes", moved(&db));
    assert_eq!(tree.len().unwrap(), 60 * 500);
}

#[test]
fn a_rate_has_bounds() {
    let env = Arc::new(MemEnv::new(1));
    let (db, _) = open(env.clone(), options(0));
    assert_eq!(db.set_background_rate(Some(100)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let e = Db::open_in(env, "/other", DbOptions { background_rate: Some(0), ..options(0) }).unwrap_err();
    assert!(e.kind() == ErrorKind::InvalidArgument && e.to_string().contains("background_rate"), "{e}");
}

/// With workers, while a merge is in the middle of its work: it stands still, writers fill memtable after memtable, everything that a
/// caller asks for is done, and when the pause ends the merge goes on to its end.
#[test]
fn a_merge_stands_still_and_writers_go_on() {
    for threads in [1, 2, 3] {
        let disk = FaultEnv::new(Arc::new(MemEnv::new(3)));
        disk.only(&[OpClass::Write]);
        let written = Arc::new(AtomicU64::new(0));
        let counts = written.clone();
        disk.call_each(move |_| {
            counts.fetch_add(1, Ordering::Relaxed);
        });
        let (db, tree) = open(Arc::new(disk), options(threads));
        let first = db.pause_background().unwrap();
        fill(&tree, 0, 20_000, 100);
        tree.flush().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(db.stats().compactions, 0, "a compaction ran while all were paused");
        let runs = db.stats().trees[0].runs.len();
        assert!(runs > 8, "{runs}");
        drop(first);
        // Somewhere in the middle of what there is to do now.
        let begun = written.load(Ordering::Relaxed);
        while written.load(Ordering::Relaxed) < begun + 3 {
            std::thread::yield_now();
        }
        let (pause, again) = (db.pause_background().unwrap(), db.pause_background().unwrap());
        let (still, done) = (written.load(Ordering::Relaxed), db.stats().compactions);
        (0..1000).for_each(|_| std::thread::yield_now());
        assert_eq!((written.load(Ordering::Relaxed), db.stats().compactions), (still, done), "something was written");
        fill(&tree, 20_000, 20_000, 100);
        tree.flush().unwrap();
        db.checkpoint("/copy").unwrap();
        match tree.compact() {
            Err(e) => assert_eq!(e.kind(), ErrorKind::Conflict, "{e}"),
            Ok(()) => assert_eq!(db.stats().trees[0].runs.len(), 1),
        }
        drop(pause);
        assert_eq!(tree.len().unwrap(), 40_000);
        drop(again);
        db.wait_idle().unwrap();
        assert!(db.stats().trees[0].runs.len() < 8);
        assert_eq!(tree.len().unwrap(), 40_000);
    }
}

/// A pause, and a rate at which a merge would take days, keep nobody from closing.
#[test]
fn closing_ends_what_waits() {
    for threads in [1, 2] {
        let (db, tree) = open(Arc::new(MemEnv::new(4)), options(threads));
        let pause = db.pause_background().unwrap();
        fill(&tree, 0, 10_000, 100);
        db.close().unwrap();
        assert_eq!(db.pause_background().map(drop).unwrap_err().kind(), ErrorKind::Closed);
        drop(pause);
    }
}
