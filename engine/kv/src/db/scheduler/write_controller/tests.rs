//! A delay of writers ends and is reported once, whatever ends it.

use std::sync::mpsc::{Receiver, channel};

use crate::base::events::Listener;
use crate::base::options::{DbOptions, TreeOptions};
use crate::compaction::policy::{Policy, Tiered};
use crate::db::jobs::pick;
use crate::db::write::seal;
use crate::db::write::slowdown;
use crate::env::mem::MemEnv;
use crate::{Db, Tree};

use super::*;

/// A store with one tree, and its events, which end when it is closed.
fn open(policy: Policy) -> (Db, Tree, Receiver<Event>) {
    let (tell, report) = channel();
    let tell = std::sync::Mutex::new(tell);
    let listener: std::sync::Arc<dyn Listener> =
        std::sync::Arc::new(move |e: &Event| tell.lock().unwrap().send(e.clone()).unwrap());
    let options =
        DbOptions { memory_budget: 4 << 20, listener: Some(listener), ..DbOptions::default() };
    let db = Db::open_in(std::sync::Arc::new(MemEnv::new(1)), "/db", options).unwrap();
    let tree = db
        .tree("t", TreeOptions { policy, memtable_size: 64 << 10, ..TreeOptions::default() })
        .unwrap();
    (db, tree, report)
}

/// Checks that there is one begin and one end with this reason.
fn check(report: &Receiver<Event>, why: &'static str, what: &str) {
    let of_why = |e: &Event| matches!(e, Event::SlowdownBegun { reason, .. } | Event::SlowdownEnded { reason, .. } if *reason == why);
    let events: Vec<Event> = report.iter().filter(of_why).collect();
    let [Event::SlowdownBegun { tree, .. }, Event::SlowdownEnded { tree: ended, .. }] = &events[..]
    else {
        panic!("{what}: {events:?}")
    };
    assert_eq!((tree.as_str(), ended.as_str()), ("t", "t"), "{what}");
}

type Ends = [(&'static str, fn(&Db, &Tree)); 4];

#[test]
fn writers_that_are_slowed_for_a_flush_are_so_until_it_is_done_or_the_tree_is_gone() {
    let ends: Ends = [
        ("flushed, and sealed no more", |_, tree| tree.flush().unwrap()),
        ("dropped", |db, tree| db.drop_tree(tree.name()).unwrap()),
        ("closed", |db, _| db.close().unwrap()),
        ("dropped and closed", |db, tree| {
            db.drop_tree(tree.name()).unwrap();
            db.close().unwrap();
        }),
    ];
    for (what, end) in ends {
        let (db, tree, report) = open(Policy::default());
        let (inner, fill) = (db.inner(), &tree.inner.fill);
        // Simulates a slow last flush.
        fill.flush_per_kib.store(u64::MAX / 1024, Ordering::Relaxed);
        let full =
            |tree: &Tree| tree.inner.view.load_full().sealed.len() >= inner.memory.max_sealed();
        while !full(&tree) {
            tree.put("k", "v").unwrap();
            // Does not wake a worker.
            seal::seal_memtable(inner, &inner.commit.lock(), &tree.inner).unwrap();
        }
        seal::seal_memtable(inner, &inner.commit.lock(), &tree.inner).unwrap();
        assert!(fill.delay().rate() > 0, "{what}");
        end(&db, &tree);
        assert_eq!(fill.delay().rate(), 0, "{what}");
        // A thread that sealed just before arrives late.
        slowdown::begin_fill(inner, &tree.inner, inner.env.monotonic_nanos(), 64 << 10);
        assert_eq!(fill.delay().rate(), 0, "{what}");
        drop((tree, db));
        check(&report, FLUSH, what);
    }
}

#[test]
fn writers_that_are_slowed_by_runs_are_so_until_a_merge_is_done_or_the_tree_is_gone() {
    let ends: Ends = [
        ("merged", |_, tree| tree.compact().unwrap()),
        ("dropped", |db, tree| db.drop_tree(tree.name()).unwrap()),
        ("closed", |db, _| db.close().unwrap()),
        ("given a policy that minds them not", |_, tree| {
            let policy = Policy::Tiered(Tiered {
                min_runs: 30,
                max_runs: 64,
                bucket: 3.0,
                ..Tiered::default()
            });
            tree.set_options(TreeOptions { policy, ..tree.options() }).unwrap();
        }),
    ];
    for (what, end) in ends {
        let (db, tree, report) = open(Policy::Tiered(Tiered {
            min_runs: 2,
            max_runs: 32,
            bucket: 3.0,
            ..Tiered::default()
        }));
        let pause = db.pause_background().unwrap();
        while db.inner().scheduler.writes().runs().rate() == 0 {
            tree.put("k", "v").unwrap();
            tree.flush().unwrap();
        }
        end(&db, &tree);
        assert_eq!(db.inner().scheduler.writes().runs().rate(), 0, "{what}");
        // A thread that changed the tables just before arrives late.
        pick::tables_changed(db.inner(), &tree.inner);
        assert_eq!(db.inner().scheduler.writes().runs().rate(), 0, "{what}");
        drop((pause, tree, db));
        check(&report, RUNS, what);
    }
}
