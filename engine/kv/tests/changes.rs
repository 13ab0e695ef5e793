//! Change feed tests. A replica that applies the feed equals the store, across flushes,
//! compactions, ingestions, reopenings and crashes, and with concurrent writers. If the log no
//! longer has some changes, the feed reports an error.

#![allow(clippy::disallowed_methods, reason = "threads of tests")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_crash::{CrashEnv, Cut, Fault, FaultEnv, OpClass};
use firn_kv::MemEnv;
use firn_kv::{Batch, BatchOp, Change, ChangeFeed, Db, DbOptions, Env, ErrorKind, TreeOptions};
use firn_testkit::rng::Rng;

const DIR: &str = "/db";
const MANY: u64 = 1 << 40;
const TREES: u64 = 3;

type Held = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

pub fn options(threads: usize) -> DbOptions {
    DbOptions {
        background_threads: threads,
        memory_budget: 1 << 20,
        wal_segment: 64 << 10,
        event_log: false,
        ..DbOptions::default()
    }
}

fn content(db: &Db) -> firn_kv::Result<Held> {
    let tree = |name: String| {
        let tree = db.existing_tree(&name)?;
        let held = tree.iter().map(|p| p.map(|(k, v)| (k.to_vec(), v.to_vec())));
        Ok((name, held.collect::<firn_kv::Result<_>>()?))
    };
    db.tree_names().into_iter().map(tree).collect()
}

/// A follower of a store.
#[derive(Clone, Default)]
pub struct Replica {
    held: Held,
    /// Numbers of its trees.
    numbers: BTreeMap<String, u32>,
    pub seq: u64,
    loads: u64,
    /// Whether an ingestion bypassed the log and has not been copied yet.
    is_stale: bool,
}

impl Replica {
    /// Returns a replica with the contents that a reader sees now.
    fn copied(db: &Db) -> Replica {
        let trees = db.changes_since(db.stats().seq, MANY).unwrap().trees();
        Replica::with_trees(db, trees).unwrap()
    }

    /// Returns a replica with the contents that a reader sees now. These are the names and numbers
    /// of the trees.
    pub fn with_trees(db: &Db, trees: Vec<(String, u32)>) -> firn_kv::Result<Replica> {
        let (seq, numbers) = (db.stats().seq, trees.into_iter().collect());
        Ok(Replica { held: content(db)?, seq, numbers, ..Replica::default() })
    }

    /// Applies all available changes.
    fn drain(&mut self, db: &Db, feed: &mut ChangeFeed) -> firn_kv::Result<()> {
        while let Some(change) = feed.next(Duration::ZERO)? {
            self.apply(&change);
            assert_eq!(feed.seq(), self.seq);
        }
        self.finish(db, feed.trees())
    }

    /// Applies a change.
    pub fn apply(&mut self, change: &Change) {
        assert_eq!(*change.seqs().start(), self.seq + 1, "sequence numbers are contiguous");
        self.seq = *change.seqs().end();
        if change.is_loaded() {
            self.loads += 1;
            self.is_stale = true;
        }
        for (name, number) in change.trees() {
            if self.numbers.insert(name.to_owned(), number).is_some_and(|old| old != number) {
                self.held.remove(name);
            }
        }
        let mut count = 0;
        for op in change.ops() {
            count += 1;
            match op {
                BatchOp::Put { tree, key, value } => {
                    let held = self.held.entry(tree.to_owned()).or_default();
                    held.insert(key.to_vec(), value.to_vec());
                }
                BatchOp::Delete { tree, key } => {
                    self.held.entry(tree.to_owned()).or_default().remove(key);
                }
                BatchOp::DeleteRange { tree, start, end } => {
                    let held = self.held.entry(tree.to_owned()).or_default();
                    held.retain(|k, _| &**k < start || end.is_some_and(|e| &**k >= e));
                }
                other => panic!("{other:?}"),
            }
        }
        let numbers = change.seqs().end() - change.seqs().start() + 1;
        assert!(change.is_loaded() || count <= numbers, "{count} of {numbers}");
    }

    /// Removes dropped trees, and copies data that bypassed the log, after all available changes
    /// were applied.
    pub fn finish(&mut self, db: &Db, trees: Vec<(String, u32)>) -> firn_kv::Result<()> {
        let numbers = trees.into_iter().collect();
        self.held.retain(|name, _| self.numbers.get(name) == BTreeMap::get(&numbers, name));
        self.numbers = numbers;
        if self.is_stale {
            self.held = content(db)?;
            self.is_stale = false;
        }
        Ok(())
    }

    /// Reports whether the replica equals the store. The feed does not mention trees without
    /// entries.
    pub fn is_as(&mut self, db: &Db) -> bool {
        for name in db.tree_names() {
            self.held.entry(name).or_default();
        }
        self.held == content(db).unwrap()
    }
}

pub fn change(db: &Db, rng: &mut Rng) {
    let tree = |rng: &mut Rng| {
        let name = format!("tree-{}", rng.below(TREES));
        db.tree(&name, TreeOptions::default()).unwrap()
    };
    let key = |rng: &mut Rng| format!("key-{:03}", rng.below(300));
    match rng.below(20) {
        0 if rng.one_in(4) => {
            let name = format!("tree-{}", rng.below(TREES));
            let dropped = db.drop_tree(&name);
            assert!(dropped.is_ok() || !db.tree_names().contains(&name));
        }
        0 => tree(rng).flush().unwrap(),
        1 => tree(rng).compact().unwrap(),
        2 => {
            let (a, b) = (key(rng), key(rng));
            tree(rng).delete_range(a.clone().min(b.clone())..a.max(b)).unwrap();
        }
        3 => tree(rng).drop_range(key(rng)..).unwrap(),
        4 => {
            let first = rng.below(200);
            let pairs = (first..first + rng.below(50)).map(|n| (format!("key-{n:03}"), "loaded"));
            tree(rng).ingest(pairs).unwrap();
        }
        5 => {
            let mut value = vec![0; rng.below(40_000) as usize];
            rng.fill(&mut value);
            tree(rng).put(key(rng), value).unwrap();
        }
        _ => {
            let trees: Vec<_> = (0..3).map(|_| tree(rng)).collect();
            let mut batch = Batch::new();
            for _ in 0..rng.range(1..30) {
                let tree = rng.choose(&trees).unwrap();
                if rng.one_in(3) {
                    batch.delete(tree, key(rng)).unwrap();
                } else {
                    batch.put(tree, key(rng), vec![1; rng.below(200) as usize]).unwrap();
                }
            }
            db.write(batch).unwrap();
        }
    }
}

#[test]
fn a_replica_holds_what_the_store_holds() {
    let mut loads = 0;
    for seed in 0..40 {
        let env: Arc<dyn Env> = Arc::new(CrashEnv::new(seed));
        let mut rng = Rng::new(seed);
        let threads = (seed % 3) as usize;
        let mut db = Db::open_in(env.clone(), DIR, options(threads)).unwrap();
        let mut replica = Replica::default();
        let mut feed = db.changes_since(0, MANY).unwrap();
        for _ in 0..rng.range(50..400) {
            change(&db, &mut rng);
            match rng.below(40) {
                0..8 => {
                    replica.drain(&db, &mut feed).unwrap();
                    assert_eq!(replica.seq, db.stats().seq, "seed {seed}");
                    assert!(replica.is_as(&db), "seed {seed}");
                }
                // A second feed from there returns the same changes, or reports that it lags.
                8 => match db.changes_since(replica.seq, MANY) {
                    Ok(again) => feed = again,
                    Err(e) => panic!("seed {seed}: the other feed retains the log: {e}"),
                },
                9 => {
                    drop(feed);
                    db.close().unwrap();
                    db = Db::open_in(env.clone(), DIR, options(threads)).unwrap();
                    feed = db.changes_since(replica.seq, MANY).unwrap_or_else(|e| {
                        assert_eq!(e.kind(), ErrorKind::Lagged, "seed {seed}: {e}");
                        replica = Replica::copied(&db);
                        db.changes_since(replica.seq, MANY).unwrap()
                    });
                }
                _ => {}
            }
        }
        loads += replica.loads;
    }
    assert!(loads > 10, "{loads}");
}

#[test]
fn a_log_after_a_crash_is_recognised_by_its_begin() {
    let (mut told, mut lagged) = (0, 0);
    for seed in 0..6 {
        let mem = CrashEnv::new(seed);
        let env: Arc<dyn Env> = Arc::new(mem.clone());
        let db = Db::open_in(env, DIR, options(0)).unwrap();
        mem.start_journal();
        let mut rng = Rng::new(seed);
        (0..200).for_each(|_| change(&db, &mut rng));
        for at in (0..mem.journal_len()).step_by(53) {
            let cut = if at % 2 == 0 { Cut::Process } else { Cut::PowerRandom(at as u64) };
            let image: Arc<dyn Env> = Arc::new(mem.crash_image(at, &cut));
            let Ok(db) = Db::open_in(image, DIR, options(0)) else { continue };
            let mut replica = Replica::default();
            let followed = db.changes_since(0, MANY).and_then(|mut feed| {
                replica.drain(&db, &mut feed)?;
                Ok(feed)
            });
            match followed {
                Ok(mut feed) => {
                    assert_eq!(replica.seq, db.stats().seq, "seed {seed}, {at}");
                    change(&db, &mut rng);
                    replica.drain(&db, &mut feed).unwrap();
                    assert!(replica.is_as(&db), "seed {seed}, {at}");
                    told += 1;
                }
                // The error occurs at once, or when a power cut has removed log segments that were
                // no longer needed.
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Lagged, "{e}");
                    lagged += 1;
                }
            }
        }
    }
    assert!(told > 20 && lagged > 0, "{told} {lagged}");
}

#[test]
fn a_feed_that_lags_too_far_reports_it() {
    let db = Db::open_in(Arc::new(CrashEnv::new(1)), DIR, options(0)).unwrap();
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    tree.put("k", "v").unwrap();
    let mut near = db.changes_since(0, 256 << 10).unwrap();
    let mut far = db.changes_since(0, MANY).unwrap();
    for n in 0..2000u32 {
        tree.put(n.to_be_bytes(), vec![7; 1000]).unwrap();
    }
    tree.flush().unwrap();
    let e = Replica::default().drain(&db, &mut near).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Lagged, "{e}");
    assert!(e.message().contains("the oldest that it has is "), "{e}");
    assert!(near.seq() < 2, "the position before the error");
    let mut replica = Replica::default();
    replica.drain(&db, &mut far).unwrap();
    assert!(replica.is_as(&db));
    drop((near, far));
    tree.put("more", "v").unwrap();
    tree.flush().unwrap();
    assert_eq!(db.changes_since(0, MANY).unwrap_err().kind(), ErrorKind::Lagged);
    let newest = db.stats().seq;
    assert!(db.changes_since(newest, 0).unwrap().next(Duration::from_millis(5)).unwrap().is_none());
    assert_eq!(db.changes_since(newest + 1, 0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let mut feed = db.changes_since(newest, MANY).unwrap();
    db.close().unwrap();
    assert_eq!(feed.next(Duration::ZERO).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_failed_read_is_retried_without_an_empty_range() {
    let faulty = FaultEnv::new(Arc::new(CrashEnv::new(1)));
    let db = Db::open_in(Arc::new(faulty.clone()), DIR, options(0)).unwrap();
    let mut feed = db.changes_since(0, MANY).unwrap();
    let (mut rng, mut replica, mut failed) = (Rng::new(3), Replica::default(), 0);
    faulty.only(&[OpClass::Read]);
    for n in 0..300 {
        change(&db, &mut rng);
        faulty.fail_nth(faulty.count() + n % 3, Fault::Eio);
        let drained = replica.drain(&db, &mut feed);
        faulty.heal();
        failed += u32::from(drained.is_err());
        replica.drain(&db, &mut feed).unwrap();
    }
    assert!(replica.is_as(&db) && failed > 20, "{failed}");
}

#[test]
fn a_feed_beside_writers_returns_all_batches_whole() {
    let db = Db::open_in(Arc::new(MemEnv::plain()), DIR, options(2)).unwrap();
    let trees = db.trees((0..2).map(|n| (format!("t{n}"), TreeOptions::default()))).unwrap();
    let mut feed = db.changes_since(0, MANY).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let writers: Vec<_> = (0..3u8)
            .map(|w| {
                let (db, trees) = (&db, &trees);
                s.spawn(move || {
                    for n in 0..3000u32 {
                        let mut batch = Batch::new();
                        batch
                            .put(&trees[0], [&[w][..], &n.to_be_bytes()].concat(), [w; 50])
                            .unwrap();
                        batch
                            .put(&trees[1], [&[w][..], &n.to_be_bytes()].concat(), [w; 50])
                            .unwrap();
                        db.write(batch).unwrap();
                    }
                })
            })
            .collect();
        let follower = s.spawn(|| {
            let mut replica = Replica::default();
            while !done.load(Ordering::Acquire) {
                replica.drain(&db, &mut feed).unwrap();
                if let (Some(a), Some(b)) = (replica.held.get("t0"), replica.held.get("t1")) {
                    assert_eq!(a.len(), b.len(), "a batch is atomic");
                }
            }
            replica.drain(&db, &mut feed).unwrap();
            replica
        });
        writers.into_iter().for_each(|w| w.join().unwrap());
        done.store(true, Ordering::Release);
        let mut replica = follower.join().unwrap();
        assert!(replica.is_as(&db));
        assert_eq!((replica.seq, replica.loads), (18_000, 0));
    });
}
