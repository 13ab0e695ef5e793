//! Tests concurrent structural operations, reads and writes at exact points: two threads with a
//! pause between them, or the steps of one call written out.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hooks::{MergeOperator, MergeResult};
use crate::base::key::Trailer;
use crate::base::options::{DbOptions, TreeOptions};
use crate::compaction::policy::{Fifo, Tiered};
use crate::compaction::{LsmShape, manual};
use crate::db::jobs::compact;
use crate::db::jobs::ingest;
use crate::db::jobs::subcompactions;
use crate::env::Env;
use crate::env::mem::MemEnv;
use crate::manifest::PersistedOptions;
use crate::memtable::Memtable;
use crate::util::sync::{AtomicU64, Ordering};

use super::*;
use crate::db::inner::DbInner;
use crate::db::jobs::subcompactions::DividedJob;
use crate::db::read::bounds::key_range;
use crate::db::versions::tree::Holder;

thread_local! {
    static BETWEEN: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// Called by a reader of this thread between loading its view and its read point.
pub fn between() {
    if let Some(f) = BETWEEN.with(|b| b.borrow_mut().take()) {
        f();
    }
}

fn pause(f: impl FnOnce() + 'static) {
    BETWEEN.with(|b| *b.borrow_mut() = Some(Box::new(f)));
}

struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        Ok(MergeResult::Value([base.unwrap_or_default(), &operands.concat()].concat()))
    }
}

fn options() -> TreeOptions {
    TreeOptions {
        memtable_size: 64 << 10,
        table_size: 64 << 10,
        merge_operator: Some(Arc::new(Append)),
        ..TreeOptions::default()
    }
}

fn open_with(env: &MemEnv, threads: usize) -> Db {
    let options = DbOptions {
        memory_budget: 4 << 20,
        wal_segment: 64 << 10,
        background_threads: threads,
        ..DbOptions::default()
    };
    Db::open_in(Arc::new(env.clone()), "/db", options).unwrap()
}

fn open() -> (Db, Tree) {
    let db = open_with(&MemEnv::new(1), 0);
    let tree = db.tree("t", options()).unwrap();
    (db, tree)
}

/// Fails when `work` does not end, which is the only sign of a deadlock.
#[allow(clippy::disallowed_methods)] // no code of a store runs on it
fn ends(work: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    let left = wait.recv_timeout(Duration::from_secs(120));
    assert!(
        !matches!(left, Err(mpsc::RecvTimeoutError::Timeout)),
        "the threads wait for each other"
    );
    thread.join().unwrap();
}

fn keys(range: Range) -> Vec<Vec<u8>> {
    range.map(|item| item.unwrap().0.to_vec()).collect()
}

/// An ingestion and a later put, both acknowledged, between a reader's view and its read point.
#[test]
fn a_reader_that_sees_a_put_sees_the_ingestion_before_it() {
    let both = [b"ingested".to_vec(), b"put".to_vec()];
    type Read = fn(&Tree) -> Vec<Vec<u8>>;
    let reads: [(&str, Read); 4] = [
        ("range", |t| keys(t.range(..))),
        ("prefix", |t| keys(t.prefix(b""))),
        ("cursor", |t| {
            let mut c = t.cursor(..).unwrap();
            c.first().unwrap();
            let mut all = vec![];
            while c.is_valid() {
                all.push(c.key().to_vec());
                c.next().unwrap();
            }
            all
        }),
        ("multi_get", |t| {
            let keys = [&b"ingested"[..], b"put"];
            let values = t.multi_get(&keys).unwrap();
            keys.iter().zip(values).filter(|(_, v)| v.is_some()).map(|(k, _)| k.to_vec()).collect()
        }),
    ];
    for (name, read) in reads {
        let (_db, tree) = open();
        let writer = tree.clone();
        pause(move || {
            writer.ingest([(b"ingested", b"1")]).unwrap();
            writer.put(b"put", b"2").unwrap();
        });
        let seen = read(&tree);
        assert!(seen == both || seen.is_empty(), "{name} saw {seen:?}");
        assert_eq!(read(&tree), both);
    }
}

/// An operand is never folded over data that is older than an ingestion before the operand.
#[test]
fn operands_are_folded_over_the_ingestion_before_them() {
    let (_db, tree) = open();
    tree.put(b"k", b"old").unwrap();
    tree.flush().unwrap();
    tree.merge(b"k", b"+1").unwrap();
    let writer = tree.clone();
    pause(move || {
        writer.ingest([(b"k", b"new")]).unwrap();
        writer.merge(b"k", b"+2").unwrap();
    });
    assert_eq!(tree.get(b"k").unwrap().as_deref(), Some(&b"new+2"[..]));
}

/// A write of another thread into the range after the deletion stays, whether or not compactions
/// have zeroed its sequence number.
#[test]
fn a_put_after_the_deletion_of_a_dropped_range_stays() {
    for merged in [false, true] {
        let (_db, tree) = open();
        tree.put(b"b", b"old").unwrap();
        tree.flush().unwrap();
        // The steps of `drop_range`, with steps of other threads between them.
        let older = tree.tables_within(&key_range("a".."z"));
        assert_eq!(older.len(), 1);
        let deletion = tree.delete_range_numbered(&("a".."z")).unwrap();
        tree.flush().unwrap();
        tree.put(b"b", b"new").unwrap();
        tree.flush().unwrap();
        tree.delete_range("x".."y").unwrap();
        tree.flush().unwrap();
        if merged {
            tree.compact().unwrap();
        }
        ingest::drop_tables(&tree.handle.inner, &tree.inner, &older, deletion).unwrap();
        assert_eq!(tree.get(b"b").unwrap().as_deref(), Some(&b"new"[..]), "merged: {merged}");
        assert_eq!(
            tree.tables().unwrap().iter().filter(|t| older.contains(&t.id)).count(),
            0,
            "its table has been dropped"
        );
    }
}

#[test]
fn a_dropped_range_gives_its_tables_back_unless_a_snapshot_sees_them() {
    let db = open_with(&MemEnv::new(1), 0);
    // Only manual compactions run.
    let policy = crate::Policy::Tiered(Tiered {
        min_runs: 64,
        max_runs: 64,
        bucket: 2.0,
        ..Tiered::default()
    });
    let tree = db.tree("t", TreeOptions { policy, ..options() }).unwrap();
    let fill = |prefix: &str| {
        (0..100).for_each(|i| tree.put(format!("{prefix}{i:03}").as_bytes(), b"v").unwrap());
        tree.flush().unwrap();
    };
    fill("k");
    tree.ingest((0..100).map(|i| (format!("m{i:03}"), "v"))).unwrap();
    let before = db.snapshot();
    fill("p");
    let after = db.snapshot();
    tree.drop_range("k".."z").unwrap();
    let seen = |s: &Snapshot| s.range(&tree, ..).count();
    assert_eq!((tree.iter().count(), seen(&before), seen(&after)), (0, 200, 300));
    drop(after);
    // The first snapshot does not see the last table.
    tree.drop_range("k".."z").unwrap();
    assert_eq!((tree.iter().count(), seen(&before)), (0, 200));
    let entries = || tree.tables().unwrap().iter().map(|t| t.entries).sum::<u64>();
    assert_eq!(entries(), 200);
    drop(before);
    tree.drop_range("k".."z").unwrap();
    assert_eq!((tree.iter().count(), entries()), (0, 0));
    assert!(tree.drop_range("z".."a").is_ok());
}

#[test]
fn a_table_that_reaches_beyond_a_dropped_range_stays() {
    let (_db, tree) = open();
    let key = |i: u32| format!("k{i:03}").into_bytes();
    // Excluded by its last key, which is the range's end, and by its first key, which is before the
    // range.
    for (start, end, left) in [(key(0), key(99), key(99)), (key(1), b"l".to_vec(), key(0))] {
        (0..100).for_each(|i| tree.put(&key(i), b"v").unwrap());
        tree.compact().unwrap();
        tree.drop_range(&start..&end).unwrap();
        assert_eq!(keys(tree.iter()), [left]);
    }
}

/// A FIFO tree retains whole tables that a snapshot sees, and continues to drop when it is
/// released.
#[test]
fn first_in_first_out_waits_for_snapshots() {
    for threads in [0, 2] {
        let db = open_with(&MemEnv::new(1), threads);
        let policy =
            crate::Policy::Fifo(Fifo { max_bytes: 128 << 10, max_age_secs: 0, ..Fifo::default() });
        let compression = vec![crate::Compression::None];
        let tree = db.tree("t", TreeOptions { policy, compression, ..options() }).unwrap();
        let mut n = 0u32;
        let mut fill = || {
            for _ in 0..1000 {
                tree.put(&n.to_be_bytes(), &[7; 500]).unwrap();
                n += 1;
            }
            db.wait_idle().unwrap();
        };
        fill();
        let snapshot = db.snapshot();
        let seen =
            |s: &Snapshot| s.range(&tree, ..).map(|i| i.unwrap().0.to_vec()).collect::<Vec<_>>();
        let before = seen(&snapshot);
        assert!(!before.is_empty());
        fill();
        assert_eq!(seen(&snapshot), before, "{threads} threads");
        fill();
        assert_eq!(seen(&snapshot), before, "{threads} threads");
        drop(snapshot);
        tree.put(b"x", b"y").unwrap();
        fill();
        assert!(!tree.contains(&before[0]).unwrap(), "{threads} threads");
    }
}

/// The tree is dropped after the tables of an ingestion, or of a compaction, have been written, and
/// before they are installed.
#[test]
fn a_tree_is_dropped_beside_an_ingestion_and_a_merge() {
    let env = MemEnv::new(1);
    let db = open_with(&env, 0);
    let tree = db.tree("t", options()).unwrap();
    let other = db.clone();
    let pairs = (0..1000u32).map(|i| {
        if i == 500 {
            other.drop_tree("t").unwrap();
        }
        (i.to_be_bytes(), [0; 100])
    });
    assert_eq!(tree.ingest(pairs).unwrap_err().kind(), ErrorKind::Closed);
    let tree = db.tree("t", options()).unwrap();
    for _ in 0..3 {
        (0..10u32).for_each(|i| tree.put(&i.to_be_bytes(), b"v").unwrap());
        tree.flush().unwrap();
    }
    let inner = &tree.handle.inner;
    let all = |o: &TreeOptions, shape: &LsmShape, _: &[u64]| {
        Ok(manual(&o.policy, shape, None, &|_, _| false).unwrap())
    };
    let claimed =
        compact::claim_by(inner, &tree.inner, crate::db::versions::tree::Holder::Caller, all)
            .unwrap()
            .unwrap();
    db.drop_tree("t").unwrap();
    let kind = compact::run_job(inner, claimed, &mut || Ok(())).unwrap_err().kind();
    assert_eq!(kind, ErrorKind::Closed);
    // The store accepts writes, and no file is left over.
    db.tree("u", options()).unwrap().put(b"k", b"v").unwrap();
    let inner = inner.clone();
    drop(tree);
    let tables = || {
        env.list(Path::new("/db"))
            .unwrap()
            .into_iter()
            .filter(|n| n.ends_with(".sst"))
            .collect::<Vec<_>>()
    };
    // Threads of other tests may hold an epoch for as long as the machine is busy.
    for _ in 0..30_000 {
        crate::util::sync::epoch::pin().flush();
        if tables().is_empty() {
            break;
        }
        inner.env.sleep(Duration::from_millis(1));
    }
    assert_eq!(tables(), Vec::<String>::new());
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn two_threads_may_drop_or_make_one_tree() {
    let db = open_with(&MemEnv::new(1), 0);
    for _ in 0..200 {
        let tree = db.tree("t", options()).unwrap();
        tree.put(b"k", b"v").unwrap();
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| match db.drop_tree("t") {
                    Ok(()) => {}
                    Err(e) => assert_eq!(e.kind(), ErrorKind::NotFound),
                });
            }
            // Two threads with different hooks: the second one is refused, or creates the tree
            // again.
            for merge in [options().merge_operator, None] {
                let (db, options) =
                    (&db, TreeOptions { merge_operator: merge.clone(), ..options() });
                s.spawn(move || match db.tree("t", options) {
                    Ok(t) => assert!(
                        t.options().merge_operator.is_some() == merge.is_some()
                            || t.inner.is_dropped()
                    ),
                    Err(e) => assert_eq!(e.kind(), ErrorKind::Incompatible),
                });
            }
        });
        let _ = db.drop_tree("t");
        db.tree("u", options()).unwrap().put(b"k", b"v").unwrap();
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn options_are_changed_beside_ingestions() {
    ends(|| {
        let (db, tree) = open();
        std::thread::scope(|s| {
            s.spawn(|| {
                (0..300u32)
                    .for_each(|i| assert_eq!(tree.ingest([(i.to_be_bytes(), b"v")]).unwrap(), 1))
            });
            for size in [64u64, 128] {
                let db = &db;
                let set = move || {
                    db.tree("t", TreeOptions { table_size: size << 10, ..options() }).unwrap()
                };
                s.spawn(move || (0..1000).for_each(|_| drop(set())));
            }
        });
        assert_eq!(tree.iter().count(), 300);
        // The options in force are those in the manifest.
        let inner = &tree.handle.inner;
        let persisted = inner.versions.lock_catalog().state().trees[&tree.inner.id].options.clone();
        assert!(persisted == PersistedOptions::of(&tree.options()));
    });
}

/// Checkpoints concurrent with a thread that creates trees, writes batches to two of them, flushes,
/// ingests and drops.
#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn checkpoints_beside_new_trees_open_and_hold_whole_batches() {
    let env = MemEnv::new(1);
    let db = open_with(&env, 0);
    let a = db.tree("a", options()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            for i in 0u32.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("b{i}");
                let b = db.tree(&name, options()).unwrap();
                let mut batch = Batch::new();
                batch.put(&a, name.as_bytes(), b"1").unwrap();
                batch.put(&b, name.as_bytes(), b"1").unwrap();
                db.write(batch).unwrap();
                match i % 3 {
                    0 => b.flush().unwrap(),
                    1 => assert_eq!(b.ingest([(b"x", b"y")]).unwrap(), 1),
                    _ => {}
                }
                // Some are dropped soon, the others later. So their number does not grow with the
                // duration of a checkpoint.
                let age = if i % 2 == 0 { 4 } else { 20 };
                if i > age {
                    db.drop_tree(&format!("b{}", i - age)).unwrap();
                }
            }
        });
        for n in 0..60 {
            let dir = format!("/copy{n}");
            db.checkpoint(&dir).unwrap();
            let copy = Db::open_in(
                Arc::new(env.clone()),
                &dir,
                DbOptions { background_threads: 0, ..DbOptions::default() },
            );
            let copy = copy.unwrap_or_else(|e| panic!("checkpoint {n}: {e}"));
            let a = copy.existing_tree("a").unwrap();
            for name in copy.tree_names().iter().filter(|n| n.starts_with('b')) {
                let b = copy.existing_tree(name).unwrap();
                let halves = (
                    a.get(name.as_bytes()).unwrap().is_some(),
                    b.get(name.as_bytes()).unwrap().is_some(),
                );
                assert_eq!(halves.0, halves.1, "checkpoint {n}, tree {name}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// No scan steps over entries that another one has stepped over: forward and backward, in memtables
/// and tables, after deletions of keys and of ranges. New keys in such a range are found.
#[test]
fn nobody_walks_twice_over_what_is_deleted() {
    let key = |i: u32| i.to_be_bytes();
    let leap = |t: &Tree, forward| {
        let mut to = vec![];
        t.inner
            .empty_ranges
            .skip_empty_range(&key(250), forward, t.handle.inner.commit.read_point(), &mut to)
            .then_some(to)
    };
    for range in [false, true] {
        for flushed in [false, true] {
            for forward in [false, true] {
                let (_db, t) = open();
                (0..500).for_each(|i| t.put(&key(i), b"v").unwrap());
                if range {
                    t.delete_range(&key(10)..&key(490)).unwrap();
                } else {
                    (10..490).for_each(|i| t.delete(&key(i)).unwrap());
                }
                if flushed {
                    t.flush().unwrap();
                }
                // Point deletes have probed; range deletions do not.
                assert_eq!(leap(&t, forward).is_some(), !range);
                let mut c = t.cursor(..).unwrap();
                let (from, to) = if forward { (key(9), key(490)) } else { (key(490), key(9)) };
                let look = |c: &mut Cursor| {
                    c.seek(&from).unwrap();
                    if forward { c.next() } else { c.prev() }.unwrap();
                    c.key().to_vec()
                };
                assert_eq!(look(&mut c), to);
                // A flush leaves no tombstones to step over where a range was deleted.
                assert_eq!(
                    leap(&t, forward).is_some(),
                    !(range && flushed),
                    "{range} {flushed} {forward}"
                );
                assert_eq!(look(&mut t.cursor(..).unwrap()), to);
                t.put(&key(250), b"w").unwrap();
                assert_eq!(look(&mut c), to);
                assert_eq!(look(&mut t.cursor(..).unwrap()), key(250));
            }
        }
    }
}

#[test]
fn an_entry_of_unknown_kind_is_damage_to_every_read_recorded_or_not() {
    let (db, tree) = open();
    tree.put(b"k", b"older").unwrap();
    tree.put(b"other", b"v").unwrap();
    // Blocks and log records with such an entry are refused as a whole; only a bug could insert it.
    let view = tree.inner.view.load_full();
    assert!(view.active.mem.reserve(Memtable::cost(1, 1)));
    view.active.mem.add(b"k", Trailer(2 << 8 | 9), b"?");
    let snapshot = db.snapshot();
    let reads: [&dyn Fn() -> Result<bool>; 5] = [
        &|| tree.get(b"k").map(|v| v.is_some()),
        &|| snapshot.get(&tree, b"k").map(|v| v.is_some()),
        &|| tree.contains(b"k"),
        &|| tree.multi_get(&[b"k"]).map(|v| v[0].is_some()),
        &|| tree.iter().next().map_or(Ok(false), |item| item.map(|_| true)),
    ];
    for (i, read) in reads.iter().enumerate() {
        let plain = read().unwrap_err();
        let recording = db.record_reads();
        let noted = read().unwrap_err();
        drop(recording);
        assert_eq!(
            (plain.kind(), noted.to_string()),
            (ErrorKind::Corruption, plain.to_string()),
            "read {i}"
        );
        assert!(plain.to_string().contains("unknown kind 9"), "read {i}: {plain}");
    }
    assert_eq!(tree.get(b"other").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn workers_leave_when_there_is_nothing_to_do_and_come_again() {
    let db = Db::open_in(
        Arc::new(MemEnv::new(1)),
        "/db",
        DbOptions { background_threads: 2, ..DbOptions::default() },
    )
    .unwrap();
    let tree = db.tree("t", TreeOptions { merge_operator: None, ..options() }).unwrap();
    let inner = db.inner();
    let mut i = 0u32;
    for _round in 1..=2 {
        // Both workers are present.
        while inner.scheduler.queue().running_workers() != 0b11 {
            tree.put(&i.to_be_bytes(), &[7; 100]).unwrap();
            i += 1;
        }
        db.wait_idle().unwrap();
        let mut signals = inner.scheduler.queue().hold();
        while inner.scheduler.queue().running_workers() != 0 {
            signals.wait_done(Duration::from_secs(60));
        }
    }
    drop((tree, db));
}

/// Compaction by a caller.
const MERGE: DividedJob = DividedJob::Merge(Holder::Caller);

/// Each subcompaction waits for all others, so all run at the same time, on as many threads.
#[test]
fn pieces_are_done_side_by_side() {
    let db = open_with(&MemEnv::new(1), 3);
    let inner = db.inner();
    for job in [DividedJob::Flush, MERGE, DividedJob::Merge(Holder::Background)] {
        let all = std::sync::Barrier::new(3);
        let done =
            subcompactions::run_divided(inner, 3, job, &mut || Ok(()), move |_, i, during| {
                all.wait();
                during().map(|()| i)
            });
        assert_eq!(done.unwrap(), [0, 1, 2]);
    }
    // All slots are returned each time, and there are no others.
    let threads = Arc::new(parking_lot::Mutex::new(std::collections::HashSet::new()));
    let seen = threads.clone();
    let work = move |_: &DbInner, i: usize, _: &mut crate::db::jobs::subcompactions::During<'_>| {
        seen.lock().insert(std::thread::current().id());
        Ok(i)
    };
    let done = subcompactions::run_divided(inner, 50, MERGE, &mut || Ok(()), work).unwrap();
    assert_eq!(done, (0..50).collect::<Vec<_>>());
    assert!((1..=3).contains(&threads.lock().len()));
    drop(db);
    let db = open_with(&MemEnv::new(1), 1);
    let me = std::thread::current().id();
    let alone =
        subcompactions::run_divided(db.inner(), 3, MERGE, &mut || Ok(()), move |_, i, _| {
            assert_eq!(std::thread::current().id(), me);
            Ok(i)
        });
    assert_eq!(alone.unwrap(), [0, 1, 2]);
}

#[test]
fn a_piece_that_fails_stops_those_beside_it() {
    let db = open_with(&MemEnv::new(1), 3);
    let done =
        subcompactions::run_divided(db.inner(), 3, MERGE, &mut || Ok(()), |inner, i, during| {
            loop {
                if i == 1 {
                    return Err::<(), _>(Error::new(ErrorKind::NoSpace, "full"));
                }
                during()?;
                inner.env.sleep(Duration::from_millis(1));
            }
        });
    assert_eq!(done.unwrap_err().kind(), ErrorKind::NoSpace);
    let mut steps = 0;
    let mut closing = || {
        steps += 1;
        if steps < 10 { Ok(()) } else { Err(Error::new(ErrorKind::Closed, "closing")) }
    };
    let done =
        subcompactions::run_divided(db.inner(), 2, MERGE, &mut closing, |inner, _, during| {
            loop {
                during()?;
                inner.env.sleep(Duration::from_millis(1));
            }
        });
    assert_eq!(Result::<Vec<()>>::unwrap_err(done).kind(), ErrorKind::Closed);
}

/// A panic counts as a failure: no job succeeds without one of its subcompactions, and no slot is
/// lost.
#[test]
fn a_piece_that_panics_fails_the_job() {
    let db = open_with(&MemEnv::new(1), 3);
    let inner = db.inner();
    let me = std::thread::current().id();
    for of_caller in [false, true] {
        let all = std::sync::Barrier::new(3);
        let work =
            move |inner: &DbInner,
                  _: usize,
                  during: &mut crate::db::jobs::subcompactions::During<'_>| {
                all.wait();
                if (std::thread::current().id() == me) == of_caller {
                    panic!("a hook of this test");
                }
                for _ in 0..5 {
                    during()?;
                    inner.env.sleep(Duration::from_millis(1));
                }
                Ok(())
            };
        let done: Result<Vec<()>> =
            subcompactions::run_divided(inner, 3, MERGE, &mut || Ok(()), work);
        let e = done.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Panicked);
        assert_eq!(e.message(), "a flush or a merge panicked: a hook of this test");
        let all = std::sync::Barrier::new(3);
        let whole = subcompactions::run_divided(inner, 3, MERGE, &mut || Ok(()), move |_, i, _| {
            all.wait();
            Ok(i)
        });
        assert_eq!(whole.unwrap(), [0, 1, 2]);
    }
}

/// A pause takes effect only when the helpers of a job have stopped too, in any order of waiting.
#[test]
fn helpers_stop_in_a_pause() {
    let db = open_with(&MemEnv::new(1), 2);
    let inner = db.inner();
    for last in 0..2 {
        let (over, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, counted, beside) = (over.clone(), steps.clone(), db.clone());
        let (tell, report) = mpsc::channel();
        let job = move || {
            let inner = beside.inner();
            let _running = inner.scheduler.throttle().begin().unwrap();
            let both = std::sync::Barrier::new(2);
            let own = &mut || inner.scheduler.wait_during_pause(&mut || Ok(()));
            let done = subcompactions::run_divided(
                inner,
                2,
                DividedJob::Merge(Holder::Background),
                own,
                move |inner, i, during| {
                    both.wait();
                    while i == last && !ends.load(Ordering::Relaxed) {
                        during()?;
                        counted.fetch_add(1, Ordering::Relaxed);
                        inner.env.sleep(Duration::from_millis(1));
                    }
                    Ok(())
                },
            );
            tell.send(done).unwrap();
        };
        let job = inner.env.spawn("job", Box::new(job)).unwrap();
        let goes_on = |then| {
            while steps.load(Ordering::Relaxed) == then {
                std::thread::yield_now();
            }
        };
        goes_on(0);
        for _ in 0..3 {
            let pause = db.pause_background().unwrap();
            let then = steps.load(Ordering::Relaxed);
            inner.env.sleep(Duration::from_millis(20));
            assert_eq!(steps.load(Ordering::Relaxed), then);
            drop(pause);
            goes_on(then);
        }
        over.store(true, Ordering::Relaxed);
        job.join();
        assert_eq!(report.recv().unwrap().unwrap().len(), 2);
    }
}

/// Steps of a job until `ends` is set.
fn steps_until(
    ends: &AtomicBool,
    inner: &DbInner,
    during: &mut crate::db::jobs::subcompactions::During<'_>,
    steps: &AtomicU64,
) -> Result<()> {
    while !ends.load(Ordering::Relaxed) {
        during()?;
        steps.fetch_add(1, Ordering::Relaxed);
        inner.env.sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

/// A flush gets the slots of a compaction at its next step, and the compaction gets them back. The
/// compaction may be a caller's, or may be paused.
#[test]
fn a_later_flush_gets_the_helpers_of_a_compaction() {
    for (holder, pauses) in
        [(Holder::Caller, false), (Holder::Background, false), (Holder::Background, true)]
    {
        let db = open_with(&MemEnv::new(1), 2);
        let inner = db.inner();
        let over = Arc::new(AtomicBool::new(false));
        let steps = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let (ends, counted, beside) = (over.clone(), steps.clone(), db.clone());
        let (tell, report) = mpsc::channel();
        let merge = move || {
            let inner = beside.inner();
            let _running =
                (holder == Holder::Background).then(|| inner.scheduler.throttle().begin().unwrap());
            let me = std::thread::current().id();
            let own = &mut || match holder {
                Holder::Caller => Ok(()),
                Holder::Background => inner.scheduler.wait_during_pause(&mut || Ok(())),
            };
            let done = subcompactions::run_divided(
                inner,
                2,
                DividedJob::Merge(holder),
                own,
                move |inner, _, during| {
                    let is_helper = std::thread::current().id() != me;
                    steps_until(&ends, inner, during, &counted[usize::from(is_helper)])
                },
            );
            tell.send(done).unwrap();
        };
        let merge = inner.env.spawn("merge", Box::new(merge)).unwrap();
        let by_hand = || steps[1].load(Ordering::Relaxed);
        wait_until(|| by_hand() > 0);
        let paused = pauses.then(|| db.pause_background().unwrap());
        // The subcompactions wait for each other. While they run, the compaction has no helper.
        let both = std::sync::Barrier::new(2);
        let (other, at_flush) = (steps.clone(), AtomicU64::new(0));
        let flushed = subcompactions::run_divided(
            inner,
            2,
            DividedJob::Flush,
            &mut || Ok(()),
            move |inner, i, during| {
                let before = other[0].load(Ordering::Relaxed);
                while i == 0 && at_flush.load(Ordering::Relaxed) == 0 {
                    during()?;
                    inner.env.sleep(Duration::from_millis(1));
                }
                at_flush.store(1, Ordering::Relaxed);
                both.wait();
                let then = other[1].load(Ordering::Relaxed);
                // The compaction continues alone, unless it is paused.
                while !pauses && other[0].load(Ordering::Relaxed) < before + 5 {
                    during()?;
                }
                assert_eq!(other[1].load(Ordering::Relaxed), then);
                both.wait();
                Ok(i)
            },
        );
        assert_eq!(flushed.unwrap(), [0, 1]);
        drop(paused);
        let then = by_hand();
        wait_until(|| by_hand() > then);
        over.store(true, Ordering::Relaxed);
        merge.join();
        assert_eq!(report.recv().unwrap().unwrap().len(), 2);
        // The slot has been returned.
        let both = std::sync::Barrier::new(2);
        let done = subcompactions::run_divided(inner, 2, MERGE, &mut || Ok(()), move |_, i, _| {
            both.wait();
            Ok(i)
        });
        assert_eq!(done.unwrap(), [0, 1]);
    }
}

/// A helper that would start in a pause exits; the job gets one again afterwards.
#[test]
fn a_hand_comes_again_after_a_pause() {
    let db = open_with(&MemEnv::new(1), 2);
    let inner = db.inner();
    let running = inner.scheduler.throttle().begin().unwrap();
    inner.scheduler.throttle().pause();
    let (ends, at_work) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (tells, counts) = (ends.clone(), at_work.clone());
    let (steps, pause) = (AtomicU64::new(0), std::cell::Cell::new(true));
    let own = &mut || {
        if pause.take() {
            // The helper exits.
            wait_until(|| inner.scheduler.slots().take_for_compaction());
            inner.scheduler.slots().give_back();
            assert_eq!(at_work.load(Ordering::Relaxed), 1);
            inner.scheduler.throttle().resume();
        }
        Ok(())
    };
    let done = subcompactions::run_divided(
        inner,
        2,
        DividedJob::Merge(Holder::Background),
        own,
        move |inner, _, during| {
            if counts.fetch_add(1, Ordering::Relaxed) == 1 {
                tells.store(true, Ordering::Relaxed);
            }
            steps_until(&ends, inner, during, &steps)
        },
    );
    assert_eq!(done.unwrap().len(), 2);
    drop(running);
}
