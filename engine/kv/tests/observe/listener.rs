//! The listener receives all events of the event log and more. It may use the store, and it cannot
//! disturb the store.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, ThreadId};

use firn_crash::{CrashEnv, Fault, FaultEnv};
use firn_kv::policy::Tiered;
use firn_kv::{Db, DbOptions, ErrorKind, Event, Listener, MemEnv, Policy, Tree, TreeOptions};

use super::{key, options, piling};

fn listened(listener: impl Listener) -> (Arc<MemEnv>, Db) {
    super::open(DbOptions { listener: Some(Arc::new(listener)), ..options() })
}

/// Returns a channel for the events of a store. The receiver gets them in order and ends when the
/// store closes.
fn told() -> (Mutex<Sender<Event>>, Receiver<Event>) {
    let (tell, told) = channel();
    (Mutex::new(tell), told)
}

fn name(event: &Event) -> String {
    format!("{event:?}").split([' ', '{']).next().unwrap().to_owned()
}

#[test]
fn events_are_reported_in_order() {
    let (tell, told) = told();
    let (env, db) = listened(move |e: &Event| tell.lock().unwrap().send(e.clone()).unwrap());
    let tree = db.tree("t", piling()).unwrap();
    for round in 0..2 {
        (0..150).for_each(|n| tree.put(key(2 * (n % 100) + round), "value").unwrap());
        tree.flush().unwrap();
    }
    tree.compact().unwrap();
    db.checkpoint("copy").unwrap();
    drop(tree);
    db.drop_tree("t").unwrap();
    drop(db);
    let events: Vec<Event> = told.iter().collect();
    let names: Vec<String> = events.iter().map(name).collect();
    let expected = "Opened TreeCreated TreeOpened FlushBegun FlushEnded FlushBegun FlushEnded CompactionBegun CompactionEnded \
                    CheckpointMade TreeDropped";
    assert_eq!(names.join(" "), expected);
    let Event::FlushEnded { tree, entries, versions, tables: flushed, subcompactions: 1, .. } =
        &events[4]
    else {
        unreachable!()
    };
    assert_eq!((tree.as_str(), *entries, *versions, flushed.len()), ("t", 100, 150, 1));
    let Event::CompactionBegun { inputs, bytes_in: begun, job: first, .. } = &events[7] else {
        unreachable!()
    };
    let Event::CompactionEnded { removed, bytes_in, entries_in, tables, job, .. } = &events[8]
    else {
        unreachable!()
    };
    assert_eq!((inputs, begun, first, 200), (removed, bytes_in, job, *entries_in));
    assert!(
        inputs.len() == 2 && inputs.contains(&flushed[0]) && tables.len() == 1 && *begun > 0,
        "{events:?}"
    );
    // The event log has the same events in the same order, except for those that report a
    // beginning.
    let log = String::from_utf8(env.read_file("db/EVENTS.jsonl".as_ref()).unwrap()).unwrap();
    let lines: Vec<serde_json::Value> =
        log.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let logged: Vec<&str> = lines.iter().map(|l| l["event"].as_str().unwrap()).collect();
    assert_eq!(logged.join(" "), "open tree tree flush flush compaction checkpoint tree dropped");
    assert_eq!(lines[5]["removed"].as_array().unwrap().len(), 2);
    assert_eq!((&lines[3]["entries"], &lines[3]["versions"]), (&100.into(), &150.into()));
}

/// Listener that calls the store in every way.
#[derive(Default)]
struct Meddler {
    store: OnceLock<Mutex<Option<(Db, Tree)>>>,
    seen: Mutex<Vec<(String, ThreadId)>>,
}

impl Listener for Meddler {
    fn event(&self, event: &Event) {
        let mut seen = self.seen.lock().unwrap();
        seen.push((name(event), thread::current().id()));
        let Some(store) = self.store.get() else { return };
        let store = store.lock().unwrap();
        let Some((db, tree)) = &*store else { return };
        assert!(!db.stats().trees.is_empty());
        tree.get(key(1)).unwrap();
        tree.put("told", name(event)).unwrap();
        // Events caused by the listener itself would never end.
        if seen.len() < 200
            && matches!(event, Event::FlushEnded { .. } | Event::CompactionEnded { .. })
        {
            tree.flush().unwrap();
            tree.compact_range("a".."b").unwrap();
            db.tree("another", TreeOptions::default()).unwrap();
        }
    }
}

#[test]
fn a_listener_may_use_the_store() {
    for background_threads in [0, 2] {
        let meddler = Arc::new(Meddler::default());
        let listener: Arc<dyn Listener> = meddler.clone();
        let options = DbOptions {
            background_threads,
            listener: Some(listener),
            memory_budget: 1 << 20,
            ..options()
        };
        let (_env, db) = super::open(options);
        let tree = db
            .tree("t", TreeOptions { memtable_size: 64 << 10, ..TreeOptions::default() })
            .unwrap();
        assert!(meddler.store.set(Mutex::new(Some((db.clone(), tree.clone())))).is_ok());
        (0..20_000).for_each(|n| tree.put(key(n % 3000), [7; 100]).unwrap());
        tree.compact().unwrap();
        tree.delete_range(..).unwrap();
        // This handle holds the store open. The test takes it while no event is being handled.
        let held = meddler.store.get().unwrap().lock().unwrap().take();
        drop((held, tree, db));
        let seen = meddler.seen.lock().unwrap();
        let count = |what| seen.iter().filter(|(name, _)| name == what).count();
        assert!(
            count("FlushEnded") > 3 && count("CompactionEnded") > 0,
            "{background_threads}: {seen:?}"
        );
        assert!(
            seen.iter().all(|(_, who)| *who == seen[0].1 && *who != thread::current().id()),
            "one thread that is not the test's"
        );
    }
}

#[test]
fn a_panic_of_a_listener_stays_with_it() {
    let (tell, told) = told();
    let (_env, db) = listened(move |e: &Event| {
        tell.lock().unwrap().send(e.clone()).unwrap();
        if let Event::FlushBegun { .. } = e {
            panic!("a listener that panics");
        }
    });
    let tree = db.tree("t", piling()).unwrap();
    for n in 0..3 {
        tree.put(key(n), "v").unwrap();
        tree.flush().unwrap();
    }
    assert_eq!(tree.iter().count(), 3);
    drop((tree, db));
    let names: Vec<String> = told.iter().map(|e| name(&e)).collect();
    assert_eq!(names.iter().filter(|n| *n == "FlushEnded").count(), 3, "{names:?}");
}

#[test]
fn failures_are_reported_and_every_begin_has_an_end() {
    let (tell, told) = told();
    let env = Arc::new(FaultEnv::new(Arc::new(CrashEnv::new(0))));
    let listener = move |e: &Event| tell.lock().unwrap().send(e.clone()).unwrap();
    let options = DbOptions { listener: Some(Arc::new(listener)), ..options() };
    let db = Db::open_in(env.clone(), "db", options).unwrap();
    let tree = db.tree("t", piling()).unwrap();
    tree.put(key(1), "value").unwrap();
    env.fail_from(env.count(), Fault::Enospc);
    tree.flush().unwrap_err();
    env.heal();
    tree.flush().unwrap();
    drop((tree, db));
    let names: Vec<String> =
        told.iter().map(|e| name(&e)).filter(|n| n.starts_with("Flush")).collect();
    assert_eq!(names, ["FlushBegun", "FlushFailed", "FlushBegun", "FlushEnded"]);
}

#[test]
fn a_slow_listener_learns_how_much_it_missed_and_blocks_nobody() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let (tell, told) = told();
    let (_env, db) = listened(move |e: &Event| {
        // The listener blocks while the other end of the channel exists.
        let _ = wait.lock().unwrap().recv();
        tell.lock().unwrap().send(e.clone()).unwrap();
    });
    // Each opening of a tree is an event.
    let all = 2 + 5000;
    (0..5000).for_each(|_| drop(db.tree("t", piling()).unwrap()));
    drop(go);
    drop(db);
    let events: Vec<Event> = told.iter().collect();
    let missed: u64 =
        events.iter().map(|e| if let Event::Missed { events, .. } = e { *events } else { 0 }).sum();
    let heard = events.iter().filter(|e| !matches!(e, Event::Missed { .. })).count();
    assert!(missed > 0 && heard > 4000, "{missed} {heard}");
    assert_eq!(heard as u64 + missed, all);
}

/// Listener that closes the store at each event, possibly at the same time as another thread.
#[derive(Default)]
struct Closer(OnceLock<Db>);

impl Listener for Closer {
    fn event(&self, _: &Event) {
        if let Some(Err(e)) = self.0.get().map(Db::close) {
            assert_eq!(e.kind(), ErrorKind::Closed);
        }
    }
}

#[test]
fn a_listener_and_another_thread_close_the_store_at_once() {
    for _ in 0..100 {
        let closer = Arc::new(Closer::default());
        let (_env, db) = super::open(DbOptions { listener: Some(closer.clone()), ..options() });
        let tree = db.tree("t", TreeOptions::default()).unwrap();
        tree.put("k", "v").unwrap();
        assert!(closer.0.set(db.clone()).is_ok());
        // Either thread closes the store, and neither waits forever for the other.
        let flushed = tree.flush();
        assert!(flushed.is_ok() || flushed.unwrap_err().kind() == ErrorKind::Closed);
        let closed = db.close();
        assert!(closed.is_ok(), "{closed:?}");
    }
}

#[test]
fn the_listener_of_a_reader_hears_of_each_opening() {
    let env = Arc::new(MemEnv::new(1));
    let writer = Db::open_in(env.clone(), "db", options()).unwrap();
    let (tell, told) = told();
    let listener = Arc::new(move |e: &Event| tell.lock().unwrap().send(e.clone()).unwrap());
    let reader = Db::open_in(
        env,
        "db",
        DbOptions { read_only: true, listener: Some(listener), ..options() },
    )
    .unwrap();
    let fresh = reader.refresh().unwrap();
    drop((reader, fresh, writer));
    assert_eq!(told.iter().map(|e| name(&e)).collect::<Vec<_>>(), ["Opened", "Opened"]);
}

#[test]
fn slowdowns_are_reported_at_begin_and_end() {
    let (tell, told) = told();
    let (_env, db) = listened(move |e: &Event| tell.lock().unwrap().send(e.clone()).unwrap());
    let policy =
        Policy::Tiered(Tiered { min_runs: 2, max_runs: 32, bucket: 3.0, ..Tiered::default() });
    let tree = db.tree("t", TreeOptions { policy, ..TreeOptions::default() }).unwrap();
    let pause = db.pause_background().unwrap();
    for n in 0..12 {
        tree.put(key(n), "value").unwrap();
        tree.flush().unwrap();
    }
    // Each of these writes is slowed down, but reports no event of its own.
    (0..1_000).for_each(|n| tree.put(key(n), [0; 1000]).unwrap());
    let slept = db.stats().slowdown_nanos / 1000;
    drop(pause);
    tree.compact().unwrap();
    drop((tree, db));
    let events: Vec<Event> = told.iter().filter(|e| name(e).starts_with("Slowdown")).collect();
    let [
        Event::SlowdownBegun { tree: first, reason, .. },
        Event::SlowdownEnded { tree, reason: ended, micros, slept_micros, .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((first.as_str(), tree.as_str(), *reason), ("t", "t", *ended));
    assert!(slept > 0 && *slept_micros >= slept && micros >= slept_micros, "{events:?} {slept}");
}
