//! Compactions respect their rate limit, stop while they are paused, and never block a writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::yield_now;

use firn_crash::{CrashEnv, Fault, FaultEnv, OpClass};
use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::internals::base::key::Kind;
use firn_kv::policy::Tiered;
use firn_kv::{
    CompactionFilter, CompactionFilterContext, CompactionFilterPass, Compression, Db, DbOptions,
    ErrorKind, FilterDecision, Policy, Tree, TreeOptions,
};

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

fn tree_options() -> TreeOptions {
    TreeOptions {
        memtable_size: 64 << 10,
        table_size: 256 << 10,
        compression: vec![Compression::None],
        policy: Policy::Tiered(Tiered {
            min_runs: 2,
            max_runs: 4,
            bucket: 2.0,
            ..Tiered::default()
        }),
        ..TreeOptions::default()
    }
}

fn open(env: Arc<dyn Env>, options: DbOptions) -> (Db, Tree) {
    let db = Db::open_in(env, "/db", options).unwrap();
    let tree = db.tree("t", tree_options()).unwrap();
    (db, tree)
}

/// Compaction filter that drops every entry, and calls a function for each of them.
struct DropAll<F>(Arc<F>);

impl<F: Fn() + Send + Sync + 'static> CompactionFilter for DropAll<F> {
    fn name(&self) -> &str {
        "drop all"
    }

    fn start(&self, _: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        Box::new(DropAll(self.0.clone()))
    }
}

impl<F: Fn() + Send + Sync> CompactionFilterPass for DropAll<F> {
    fn filter(&mut self, _: &[u8], _: Kind, _: &[u8], _: bool) -> FilterDecision {
        (self.0)();
        FilterDecision::Drop
    }
}

fn dropping(each: impl Fn() + Send + Sync + 'static) -> TreeOptions {
    TreeOptions { compaction_filter: Some(Arc::new(DropAll(Arc::new(each)))), ..tree_options() }
}

fn is_set(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Acquire)
}

fn wait_for(flag: &AtomicBool) {
    while !is_set(flag) {
        yield_now();
    }
}

/// Returns the number of bytes that compactions have read and written.
fn moved(db: &Db) -> u64 {
    let s = db.stats();
    s.compaction_read + s.compaction_written
}

fn fill(tree: &Tree, from: u32, n: u32, len: usize) {
    (from..from + n).for_each(|i| {
        tree.put(i.wrapping_mul(0x9e37_79b1).to_be_bytes(), vec![i as u8; len]).unwrap()
    });
}

/// Uses a virtual clock, on which only waiting lets time pass. A compaction takes exactly the time
/// that the rate requires for its bytes. This holds after a change of the rate, and with small and
/// large entries.
#[test]
fn a_merge_takes_the_time_that_its_bytes_are_worth() {
    for (n, len) in [(40_000, 40), (40, 50_000)] {
        let mem = CrashEnv::new(1);
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
            assert!(worth > 0.9, "{worth}: too little was compacted");
            // The next compaction waits for the last step of this one.
            let step = (512 << 10) as f64 / rate as f64;
            assert!(
                seconds <= worth * 1.02 + 0.1 && seconds >= worth * 0.98 - step,
                "{seconds} s, expected {worth} s for these bytes"
            );
            db.set_background_rate(None).unwrap();
        }
    }
}

/// A compaction reads entries even if a range deletion covers them, newer versions hide them, or
/// the compaction filter drops them. It respects the rate also when it writes few or no entries.
#[test]
fn a_merge_takes_its_time_also_for_what_it_drops() {
    const N: u32 = 5000;
    for (way, rounds) in [("covered", 1), ("shadowed", 4), ("purged", 1)] {
        let mem = CrashEnv::new(5);
        let db = Db::open_in(Arc::new(mem.clone()), "/db", options(0)).unwrap();
        let tree = if way == "purged" { dropping(|| ()) } else { tree_options() };
        let tree = db.tree("t", tree).unwrap();
        let pause = db.pause_background().unwrap();
        for _ in 0..rounds {
            fill(&tree, 0, N, 240);
        }
        if way == "covered" {
            tree.flush().unwrap();
            tree.delete_range(vec![0]..vec![0xff; 5]).unwrap();
        }
        tree.flush().unwrap();
        drop(pause);
        db.set_background_rate(Some(RATE)).unwrap();
        let (from, before) = (mem.monotonic_nanos(), moved(&db));
        tree.compact().unwrap();
        let seconds = (mem.monotonic_nanos() - from) as f64 / 1e9;
        let worth = (moved(&db) - before) as f64 / RATE as f64;
        assert_eq!(tree.len().unwrap(), if way == "shadowed" { u64::from(N) } else { 0 }, "{way}");
        assert!(worth > 0.9, "{way}: {worth}: too little was compacted");
        assert!(
            seconds <= worth * 1.02 + 0.1 && seconds >= worth * 0.98 - 0.5,
            "{way}: {seconds} s, expected {worth} s for these bytes"
        );
    }
}

/// A failed compaction counts against the rate only for the bytes that it has moved.
#[test]
fn a_merge_that_fails_counts_what_it_has_moved() {
    // Runs `times` failing attempts, each of which fails at its `at`-th operation of `class`, and
    // then a successful one. Returns the total time and the time that the rate requires for the
    // last attempt's bytes, both in seconds. Also returns the number of operations of the last
    // attempt.
    let tried = |times: u32, class: OpClass, at: u64| {
        let mem = CrashEnv::new(6);
        let disk = FaultEnv::new(Arc::new(mem.clone()));
        disk.only(&[class]);
        let (db, tree) = open(Arc::new(disk.clone()), options(0));
        let pause = db.pause_background().unwrap();
        fill(&tree, 0, 8000, 200);
        tree.flush().unwrap();
        drop(pause);
        db.set_background_rate(Some(RATE)).unwrap();
        let from = mem.monotonic_nanos();
        for _ in 0..times {
            disk.fail_from(disk.count() + at, Fault::Enospc);
            assert_eq!(tree.compact().unwrap_err().kind(), ErrorKind::NoSpace);
            disk.heal();
        }
        let (before, begun) = (moved(&db), disk.count());
        tree.compact().unwrap();
        let seconds = (mem.monotonic_nanos() - from) as f64 / 1e9;
        (seconds, (moved(&db) - before) as f64 / RATE as f64, disk.count() - begun)
    };
    let (seconds, worth, _) = tried(20, OpClass::Dir, 0);
    assert!(
        worth > 2.0 && seconds <= worth * 1.02 + 0.2,
        "{seconds} s, expected {worth} s for these bytes"
    );
    let (_, _, writes) = tried(0, OpClass::Write, 0);
    let (seconds, worth, _) = tried(2, OpClass::Write, writes / 2);
    assert!(
        (1.5..2.5).contains(&(seconds / worth)),
        "{seconds} s, expected {} s for two half attempts and a whole one",
        worth * 2.0
    );
}

/// At every moment of a long history, compactions have moved no more than the rate allows since the
/// start.
#[test]
fn no_moment_sees_more_than_the_rate_allows() {
    let mem = CrashEnv::new(2);
    let (db, tree) =
        open(Arc::new(mem.clone()), DbOptions { background_rate: Some(RATE), ..options(0) });
    let from = mem.monotonic_nanos();
    let mut waited = 0;
    for n in 0..60 {
        let before = mem.monotonic_nanos();
        fill(&tree, n * 500, 500, 100);
        waited += u64::from(mem.monotonic_nanos() > before);
        let allowed =
            (mem.monotonic_nanos() - from) as f64 / 1e9 * RATE as f64 + (512 << 10) as f64;
        // The statistics count a job when it is done, and the next job waits for its last step.
        assert!(
            moved(&db) as f64 <= allowed,
            "{} bytes, but only {allowed} are allowed",
            moved(&db)
        );
    }
    assert!(waited > 3 && moved(&db) > 4 << 20, "{waited} waits, {} bytes", moved(&db));
    assert_eq!(tree.len().unwrap(), 60 * 500);
}

#[test]
fn a_rate_has_bounds() {
    let env = Arc::new(CrashEnv::new(1));
    let (db, _) = open(env.clone(), options(0));
    assert_eq!(db.set_background_rate(Some(100)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let e = Db::open_in(env, "/other", DbOptions { background_rate: Some(0), ..options(0) })
        .unwrap_err();
    assert!(
        e.kind() == ErrorKind::InvalidArgument && e.to_string().contains("background_rate"),
        "{e}"
    );
}

/// Pauses the workers in the middle of a compaction. Writers fill several memtables, and all calls
/// of the application complete. When the pause ends, the compaction continues and completes.
#[test]
fn a_merge_stands_still_and_writers_go_on() {
    for threads in [1, 2, 3] {
        let disk = FaultEnv::new(Arc::new(CrashEnv::new(3)));
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
        // Waits for a point in the middle of the remaining work.
        let begun = written.load(Ordering::Relaxed);
        while written.load(Ordering::Relaxed) < begun + 3 {
            yield_now();
        }
        let (pause, again) = (db.pause_background().unwrap(), db.pause_background().unwrap());
        let (still, done) = (written.load(Ordering::Relaxed), db.stats().compactions);
        (0..1000).for_each(|_| yield_now());
        assert_eq!(
            (written.load(Ordering::Relaxed), db.stats().compactions),
            (still, done),
            "a compaction wrote data while paused"
        );
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

/// A pause, or a rate at which a compaction takes days, does not block closing.
#[test]
fn closing_ends_what_waits() {
    for threads in [1, 2] {
        let (db, tree) = open(Arc::new(CrashEnv::new(4)), options(threads));
        let pause = db.pause_background().unwrap();
        fill(&tree, 0, 10_000, 100);
        db.close().unwrap();
        assert_eq!(db.pause_background().map(drop).unwrap_err().kind(), ErrorKind::Closed);
        drop(pause);
    }
}

/// A compaction that writes no entries also stops when the store closes.
#[test]
#[allow(clippy::disallowed_methods, reason = "the test acts as an application with threads")]
fn closing_ends_a_merge_that_drops_everything() {
    for threads in [0, 1] {
        let (judged, inside, go) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let each = {
            let (judged, inside, go) = (judged.clone(), inside.clone(), go.clone());
            move || {
                if judged.fetch_add(1, Ordering::Relaxed) == 1000 {
                    inside.store(true, Ordering::Release);
                    wait_for(&go);
                }
            }
        };
        let db = Db::open_in(Arc::new(CrashEnv::new(7)), "/db", options(threads)).unwrap();
        let tree = db.tree("t", dropping(each)).unwrap();
        let pause = db.pause_background().unwrap();
        fill(&tree, 0, 20_000, 40);
        tree.flush().unwrap();
        std::thread::scope(|s| {
            let merge = s.spawn(|| tree.compact().unwrap_err().kind());
            wait_for(&inside);
            let close = s.spawn(|| db.close());
            // No checkpoint begins after the store starts closing.
            let copied =
                (0..).find_map(|n| db.checkpoint(format!("/copy{n}")).err()).map(|e| e.kind());
            go.store(true, Ordering::Release);
            assert_eq!(
                (merge.join().unwrap(), copied),
                (ErrorKind::Closed, Some(ErrorKind::Closed))
            );
            close.join().unwrap().unwrap();
        });
        let judged = judged.load(Ordering::Relaxed);
        assert!(judged <= 1000 + 1024, "the filter saw {judged} entries");
        drop(pause);
    }
}

/// While a job of one tree is paused, a manual compaction of another tree waits for an earlier one
/// of that tree. Both succeed. Only a manual compaction that needs tables of the paused job is
/// refused.
#[test]
#[allow(clippy::disallowed_methods, reason = "the test acts as an application with threads")]
fn only_calls_that_need_the_tables_of_a_paused_job_fail() {
    let [inside, begun, go] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    // At this rate a compaction takes a minute, so the pause interrupts it.
    let db = Db::open_in(
        Arc::new(MemEnv::plain()),
        "/db",
        DbOptions { background_rate: Some(64 << 10), ..options(2) },
    )
    .unwrap();
    let begins = begun.clone();
    let slow = TreeOptions {
        memtable_size: 2 << 20,
        ..dropping(move || begins.store(true, Ordering::Release))
    };
    let slow = db.tree("slow", slow).unwrap();
    let (enters, goes) = (inside.clone(), go.clone());
    let held = dropping(move || {
        enters.store(true, Ordering::Release);
        wait_for(&goes);
    });
    let held = db.tree("held", held).unwrap();
    held.put("k", "v").unwrap();
    let first = db.pause_background().unwrap();
    for round in 0..3 {
        fill(&slow, round * 5000, 5000, 300);
        slow.flush().unwrap();
    }
    drop(first);
    wait_for(&begun);
    let pause = db.pause_background().unwrap();
    db.set_background_rate(None).unwrap();
    assert_eq!(slow.compact().unwrap_err().kind(), ErrorKind::Conflict);
    std::thread::scope(|s| {
        let one = s.spawn(|| held.compact());
        wait_for(&inside);
        let other = s.spawn(|| held.compact());
        // Waits long enough for a refusal.
        (0..20_000).take_while(|_| !other.is_finished()).for_each(|_| yield_now());
        go.store(true, Ordering::Release);
        one.join().unwrap().unwrap();
        other.join().unwrap().unwrap();
    });
    drop(pause);
    db.wait_idle().unwrap();
    slow.compact().unwrap();
    assert_eq!((slow.len().unwrap(), held.len().unwrap()), (0, 0));
}
