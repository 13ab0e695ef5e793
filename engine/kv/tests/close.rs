//! Closing reports errors that a drop hides, waits for running writers, and leaves handles that
//! write nothing more.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use firn_crash::{CrashEnv, Cut, Fault, FaultEnv, OpClass};
use firn_kv::Env;
use firn_kv::{Batch, Db, DbOptions, ErrorKind, Tree, TreeOptions};

const DIR: &str = "/db";

fn options(threads: usize) -> DbOptions {
    DbOptions {
        background_threads: threads,
        memory_budget: 1 << 20,
        wal_segment: 64 << 10,
        ..DbOptions::default()
    }
}

fn open(env: &Arc<dyn Env>, threads: usize) -> (Db, Tree) {
    let db = Db::open_in(env.clone(), DIR, options(threads)).unwrap();
    let tree =
        db.tree("t", TreeOptions { memtable_size: 64 << 10, ..TreeOptions::default() }).unwrap();
    (db, tree)
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Returns a `CrashEnv` and a wrapper around it that counts operations of these classes.
fn counted(classes: &[OpClass]) -> (CrashEnv, FaultEnv, Arc<dyn Env>) {
    let mem = CrashEnv::new(1);
    let env = FaultEnv::new(Arc::new(mem.clone()));
    env.only(classes);
    (mem, env.clone(), Arc::new(env))
}

#[test]
fn a_failed_sync_is_reported_and_a_process_crash_loses_nothing() {
    let (mem, faults, env) = counted(&[OpClass::Sync]);
    let (db, tree) = open(&env, 0);
    tree.put("k", "v").unwrap();
    faults.fail_from(faults.count(), Fault::Eio);
    let reported = db.close().unwrap_err();
    assert_eq!(
        (reported.kind(), db.close().unwrap_err().to_string()),
        (ErrorKind::Io, reported.to_string())
    );
    assert_eq!(tree.get("k").unwrap_err().kind(), ErrorKind::Closed);
    let again = open(&(Arc::new(mem.crash_image(0, &Cut::Process)) as Arc<dyn Env>), 0);
    assert_eq!(again.1.get("k").unwrap().unwrap(), "v");
    // The lock is released all the same.
    faults.heal();
    drop(again);
    assert_eq!(open(&env, 0).1.get("k").unwrap().unwrap(), "v");
}

#[test]
fn a_latched_store_says_why_when_it_is_closed() {
    let (_, faults, env) = counted(&[OpClass::Sync]);
    let (db, tree) = open(&env, 0);
    tree.put("k", "v").unwrap();
    faults.fail_nth(faults.count(), Fault::SyncFails);
    assert!(
        db.stats().refusal.is_none() && db.stats().prometheus().contains("\nfirn_writable 1\n")
    );
    db.sync().unwrap_err();
    let refusal = db.stats().refusal.unwrap();
    assert!(refusal.to_string().contains("since a failure"), "{refusal}");
    assert!(db.stats().prometheus().contains("\nfirn_writable 0\n"));
    let reported = db.close().unwrap_err();
    assert_eq!(reported.kind(), ErrorKind::ReadOnly);
    assert!(reported.to_string().contains("since a failure"), "{reported}");
    let reader = Db::open_in(env, DIR, DbOptions { read_only: true, ..options(0) }).unwrap();
    reader.close().unwrap();
}

/// Tries every call of a handle after the store was closed. None writes anything, even if an
/// operation was in progress.
#[test]
fn handles_of_a_closed_store_write_nothing() {
    for threads in [0, 2] {
        let (_, faults, env) =
            counted(&[OpClass::Write, OpClass::Sync, OpClass::Dir, OpClass::Spawn]);
        let (db, tree) = open(&env, threads);
        (0..3000).for_each(|n| tree.put(key(n), [n as u8; 60]).unwrap());
        tree.flush().unwrap();
        (0..500).for_each(|n| tree.put(key(n), "newer").unwrap());
        let (snapshot, mut iter, mut tx) = (db.snapshot(), tree.iter(), db.transaction());
        tx.put(&tree, "tx", "v").unwrap();
        let first = iter.next().unwrap().unwrap();
        db.close().unwrap();
        let done = faults.count();
        let mut batch = Batch::new();
        batch.put(&tree, "k", "v").unwrap();
        let refused = [
            tree.put("k", "v").unwrap_err(),
            tree.get("k").unwrap_err(),
            tree.flush().unwrap_err(),
            tree.compact().unwrap_err(),
            tree.ingest([("k", "v")]).unwrap_err(),
            tree.drop_range(..).unwrap_err(),
            tree.export(.., "/export").unwrap_err(),
            tree.iter().next().unwrap().unwrap_err(),
            tree.cursor(..).unwrap_err(),
            tree.tables().unwrap_err(),
            tree.update("k", |_| Some("v")).unwrap_err(),
            snapshot.get(&tree, "k").unwrap_err(),
            tx.commit().unwrap_err(),
            db.write(batch).unwrap_err(),
            db.sync().unwrap_err(),
            db.wait_idle().unwrap_err(),
            db.checkpoint("/copy").unwrap_err(),
            db.verify(|_, _| {}).unwrap_err(),
            db.drop_tree("t").unwrap_err(),
            db.tree("t", TreeOptions::default()).unwrap_err(),
            db.tree("u", TreeOptions::default()).unwrap_err(),
            db.existing_tree("t").unwrap_err(),
        ];
        for e in refused {
            assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
            assert!(e.to_string().contains("the store has been closed"), "{e}");
        }
        assert_eq!((&*first.0, db.tree_names().len(), db.stats().trees.len()), (&key(0)[..], 1, 1));
        assert_eq!(iter.map(Result::unwrap).count(), 2999, "an open iterator stays readable");
        drop((first, snapshot, tree, db));
        assert_eq!(
            faults.count(),
            done,
            "{:?}",
            (done..faults.count()).map(|n| faults.describe(n)).collect::<Vec<_>>()
        );
        let (_, tree) = open(&env, threads);
        assert_eq!(
            (tree.len().unwrap(), tree.get(key(7)).unwrap().unwrap()),
            (3000, "newer".as_bytes().into())
        );
    }
}

/// An iterator reports that the store is closed when it reaches a missing table. That table was not
/// open yet, and the next opening has compacted it away.
#[test]
fn an_iterator_reports_missing_files() {
    let env: Arc<dyn Env> = Arc::new(CrashEnv::new(1));
    let (db, tree) = open(&env, 0);
    (0..2000).for_each(|n| tree.put(key(n), [1; 60]).unwrap());
    tree.flush().unwrap();
    drop((db, tree));
    // After the reopening, no table file is open.
    let (db, tree) = open(&env, 0);
    let mut held = tree.iter();
    db.close().unwrap();
    let (again, same) = open(&env, 0);
    (0..2000).for_each(|n| same.put(key(n), "new").unwrap());
    same.compact().unwrap();
    // The compacted table's file is removed when the last reader of its view ends. Other threads of
    // this process may delay that briefly. A closed store removes no files.
    while again.stats().space.pinned > 0 {
        std::thread::yield_now();
    }
    again.close().unwrap();
    let e = held.next().unwrap().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
}

/// While an ingestion runs, closing waits, and the store stays locked.
#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn closing_waits_for_running_writes() {
    let env: Arc<dyn Env> = Arc::new(CrashEnv::new(1));
    let (db, tree) = open(&env, 0);
    let (closes, closed) = channel();
    let mut n = 0;
    let done = std::thread::scope(|s| {
        let (closer, env, open) = (db.clone(), &env, &tree);
        let mut closes = Some(closes);
        tree.ingest((0..100u32).map(|i| {
            if let Some(closes) = closes.take() {
                let closer = closer.clone();
                s.spawn(move || closes.send(closer.close()));
                // No operation begins once the store is closing.
                while db.checkpoint(format!("/copy-{n}")).is_ok() {
                    n += 1;
                }
                assert_eq!(open.get("k").unwrap(), None, "it is not closed yet");
            }
            if i == 50 {
                let locked = Db::open_in(env.clone(), DIR, options(0)).unwrap_err();
                assert_eq!(locked.kind(), ErrorKind::Locked);
            }
            (key(i), "v")
        }))
    });
    closed.recv().unwrap().unwrap();
    // The ingestion either failed when it tried to start further work, or it is complete.
    let wanted = match done {
        Ok(n) => n,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
            0
        }
    };
    let (db, tree) = self::open(&env, 0);
    assert_eq!(tree.len().unwrap(), wanted);
    let tables = db.stats().trees[0].runs.iter().map(|r| r.tables).sum::<usize>();
    let files = env.list(Path::new(DIR)).unwrap().iter().filter(|n| n.ends_with(".sst")).count();
    assert_eq!(files, tables);
}

/// Threads write, flush and compact while another thread closes. Acknowledged writes are present,
/// and a second opening works while the old handles exist.
#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn closing_beside_threads_loses_nothing() {
    for round in 0..9u32 {
        let env: Arc<dyn Env> = Arc::new(CrashEnv::new(round.into()));
        let (db, tree) = open(&env, (round % 3) as usize);
        let (reported, again) = std::thread::scope(|s| {
            let writers: Vec<_> = (0..3u32)
                .map(|thread| {
                    let tree = tree.clone();
                    s.spawn(move || {
                        let mut n = 0;
                        let last = loop {
                            let done = match n % 40 {
                                17 => tree.flush(),
                                29 => tree.compact(),
                                _ => Ok(()),
                            };
                            match done.and_then(|()| tree.put(key((thread << 20) + n), [3; 100])) {
                                Ok(()) => n += 1,
                                Err(e) => break e,
                            }
                        };
                        assert_eq!(last.kind(), ErrorKind::Closed, "{last}");
                        n
                    })
                })
                .collect();
            while tree.get(key((1 << 20) + 11 * (round + 1))).unwrap().is_none() {
                std::thread::yield_now();
            }
            db.close().unwrap();
            let again = open(&env, 0);
            (writers.into_iter().map(|w| w.join().unwrap()).collect::<Vec<_>>(), again)
        });
        assert_eq!(
            again.1.len().unwrap(),
            reported.iter().map(|n| u64::from(*n)).sum::<u64>(),
            "round {round}: {reported:?}"
        );
        again.0.close().unwrap();
    }
}
