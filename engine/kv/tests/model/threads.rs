//! Threads that work at the same time. Each writer owns a range of keys in all trees and records
//! its writes in a map. From time to time all threads stop, and the store must match all maps.
//! Meanwhile a reader checks that snapshots do not change and that batches are atomic. Another
//! thread changes options, creates and drops trees, verifies, opens readers, and takes checkpoints.
//! In checkpoints, batches must be atomic too.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_crash::Cut;
use firn_kv::{
    Batch, BatchOp, ChangeFeed, Db, DbOptions, Durability, ErrorKind, Snapshot, Tree, TreeOptions,
};
use firn_testkit::effort::times_effort;
use firn_testkit::history::TREES;
use firn_testkit::rng::Rng;

use crate::model::place::Place;
use crate::model::setup::{HOOKED, Setup};

const WRITERS: usize = 3;
const ROUNDS: u64 = 4;
const KEYS: u64 = 300;

/// Writes of one thread: the values of its keys in each tree.
type Own = Vec<BTreeMap<Vec<u8>, Vec<u8>>>;

/// Returns a key. Its first byte is the thread's number, so that each thread owns a range of keys.
fn key(thread: usize, n: u64) -> Vec<u8> {
    format!("{thread}-{n:06}").into_bytes()
}

fn name(tree: usize) -> String {
    format!("tree-{tree}")
}

fn open(place: &Place, setup: &Setup) -> (Db, Vec<Tree>) {
    let db = Db::open_in(place.env.clone(), &place.dir, setup.db.clone()).unwrap();
    let trees = (0..TREES).map(|t| db.tree(&name(t), setup.tree_options(t, 0)).unwrap()).collect();
    (db, trees)
}

/// A writing thread.
struct Writer<'a> {
    setup: &'a Setup,
    place: &'a Place,
    db: &'a Db,
    trees: &'a [Tree],
    own: &'a mut Own,
    thread: usize,
    rng: Rng,
}

impl Writer<'_> {
    /// Applies one write of a random type to the store and to the map.
    fn write(&mut self) -> firn_kv::Result<()> {
        let tree = self.rng.below(TREES as u64) as usize;
        let n = self.rng.below(KEYS);
        let (t, k) = (&self.trees[tree], key(self.thread, n));
        let own = &mut self.own[tree];
        let mut value = vec![0; self.rng.below(200) as usize];
        self.rng.fill(&mut value);
        match self.rng.below(20) {
            0..7 => {
                t.put(&k, &value)?;
                own.insert(k, value);
            }
            7..10 => {
                t.delete(&k)?;
                own.remove(&k);
            }
            10..12 if HOOKED[tree] => {
                t.merge(&k, &value)?;
                let fold = self.setup.fold_of(tree).unwrap();
                match fold(own.get(&k).map(Vec::as_slice), &value) {
                    Some(v) => own.insert(k, v),
                    None => own.remove(&k),
                };
            }
            12 => {
                let end = key(self.thread, (n + self.rng.below(20)).min(KEYS));
                if self.rng.one_in(8) {
                    t.drop_range(&k..&end)?;
                } else {
                    t.delete_range(&k..&end)?;
                }
                own.retain(|o, _| *o < k || *o >= end);
            }
            13 => {
                // Writes the same value to the trees without hooks. A reader must never see only
                // one of them.
                let k = key(self.thread, KEYS);
                let mut batch = Batch::with_capacity(value.len());
                // Operations that were cleared from a batch are not written.
                batch.delete_range(&self.trees[0], .."9")?;
                assert!(batch.size() > 0);
                batch.clear();
                for tree in 0..2 {
                    batch.put(&self.trees[tree], &k, &value)?;
                    self.own[tree].insert(k.clone(), value.clone());
                }
                self.db.write(batch)?;
            }
            14 if self.rng.one_in(8) => t.flush()?,
            15 if self.rng.one_in(60) => match t.compact() {
                // Another thread has paused a job that uses the tables.
                Err(e) if e.kind() == ErrorKind::Conflict => {}
                done => done?,
            },
            15 if self.rng.one_in(8) => {
                t.with_durability(Durability::Power).put(&k, &value)?;
                own.insert(k, value);
            }
            16 => self.transact(tree, k, value)?,
            17 if self.rng.one_in(6) => self.ingest(tree, n, &value)?,
            18 if self.rng.one_in(20) => self.move_out_and_in(tree, n)?,
            _ => {
                let got = t.get(&k)?;
                assert_eq!(
                    got.as_deref(),
                    own.get(&k).map(Vec::as_slice),
                    "tree {tree}, key {}",
                    k.escape_ascii()
                );
            }
        }
        Ok(())
    }

    /// Reads a key that no other thread writes, and writes it to this tree and the next one.
    fn transact(&mut self, tree: usize, k: Vec<u8>, value: Vec<u8>) -> firn_kv::Result<()> {
        let next = (tree + 1) % TREES;
        let (t, u) = (&self.trees[tree], &self.trees[next]);
        let was = self.db.transact(|tx| {
            tx.lock(t, &k, Duration::from_secs(60))?;
            let before = tx.savepoint();
            tx.delete_range(t, ..)?;
            tx.rollback_to(&before)?;
            let was = tx.get(t, &k)?.map(|v| v.to_vec());
            let end = [&k[..], &[0]].concat();
            let seen = tx.range(t, &k[..]..&end[..]).next().transpose()?;
            assert_eq!(seen.map(|(_, v)| v.to_vec()), was, "a range in a transaction");
            tx.put(u, &k, &value)?;
            tx.delete(t, &k)?;
            Ok(was)
        })?;
        assert_eq!(was.as_ref(), self.own[tree].get(&k), "in a transaction");
        self.own[next].insert(k.clone(), value);
        self.own[tree].remove(&k);
        Ok(())
    }

    fn ingest(&mut self, tree: usize, n: u64, value: &[u8]) -> firn_kv::Result<()> {
        let keys: Vec<_> = (n..(n + 12).min(KEYS)).map(|n| key(self.thread, n)).collect();
        match self.trees[tree].ingest(keys.iter().map(|k| (k, value))) {
            // Other threads wrote to the range during every attempt.
            Err(e) if e.kind() == ErrorKind::Conflict => {}
            done => {
                assert_eq!(done?, keys.len() as u64);
                self.own[tree].extend(keys.into_iter().map(|k| (k, value.to_vec())));
            }
        }
        Ok(())
    }

    /// Exports a part of the own keys, deletes them, and imports them again. The content must be
    /// unchanged.
    fn move_out_and_in(&mut self, tree: usize, n: u64) -> firn_kv::Result<()> {
        let (t, from, to) =
            (&self.trees[tree], key(self.thread, n), key(self.thread, (n + 40).min(KEYS)));
        let file = self.place.dir.with_extension(format!("moved{}", self.thread));
        let count = t.export(from.clone()..to.clone(), &file)?;
        assert_eq!(count, self.own[tree].range(from.clone()..to.clone()).count() as u64);
        t.delete_range(&from..&to)?;
        match t.import(&file) {
            Err(e) if e.kind() == ErrorKind::Conflict => {
                self.own[tree].retain(|k, _| *k < from || *k >= to)
            }
            done => assert_eq!(done?, count),
        }
        self.place.env.remove(&file)
    }
}

/// Checks that the batches of all threads are complete.
fn whole(what: &str, get: impl Fn(usize, &[u8]) -> Option<Vec<u8>>) {
    for thread in 0..WRITERS {
        let k = key(thread, KEYS);
        assert_eq!(get(0, &k), get(1, &k), "a partial batch of thread {thread} in {what}");
    }
}

/// Checks that a cursor seeks correctly in a snapshot in both directions.
fn seek(
    snapshot: &Snapshot,
    t: &Tree,
    all: &[(firn_kv::Value, firn_kv::Value)],
    at: &[u8],
) -> firn_kv::Result<()> {
    let i = all.partition_point(|(k, _)| &k[..] < at);
    let mut c = snapshot.cursor(t, ..)?;
    c.seek(at)?;
    assert_eq!(
        c.is_valid().then(|| c.key()),
        all.get(i).map(|(k, _)| &k[..]),
        "a seek in tree {}",
        t.name()
    );
    c.seek_before(at)?;
    assert_eq!(
        c.is_valid().then(|| c.key()),
        all[..i].last().map(|(k, _)| &k[..]),
        "a seek before in tree {}",
        t.name()
    );
    Ok(())
}

/// Reads while the writers run, until they are done. Checks that keys ascend, that both directions
/// and a cursor agree, and that batches are atomic.
fn read(db: &Db, trees: &[Tree], done: &AtomicBool) {
    let cursor = |snapshot: &Snapshot, t: &Tree| -> firn_kv::Result<usize> {
        let mut c = snapshot.cursor(t, ..)?;
        let mut n = 0;
        c.first()?;
        while c.is_valid() {
            n += 1;
            c.next()?;
        }
        Ok(n)
    };
    let mut seen = 0;
    while !done.load(Ordering::Relaxed) {
        let snapshot = db.snapshot_named("of the reader");
        assert!(snapshot.seq() >= seen, "a snapshot at {} after one at {seen}", snapshot.seq());
        seen = snapshot.seq();
        whole("a snapshot", |t, k| snapshot.get(&trees[t], k).unwrap().map(|v| v.to_vec()));
        for t in trees {
            let forward: Vec<_> = snapshot.range(t, ..).map(Result::unwrap).collect();
            let mut backward: Vec<_> = snapshot.range(t, ..).rev().map(Result::unwrap).collect();
            backward.reverse();
            assert!(forward.is_sorted_by(|a, b| *a.0 < *b.0));
            assert!(forward == backward, "a snapshot of tree {} changed", t.name());
            assert_eq!(
                cursor(&snapshot, t).unwrap(),
                forward.len(),
                "a cursor over tree {}",
                t.name()
            );
            seek(&snapshot, t, &forward, &key(1, seen % KEYS)).unwrap();
            let of_first = forward.iter().filter(|(k, _)| k.starts_with(b"0-")).count();
            assert_eq!(
                snapshot.prefix(t, b"0-").count(),
                of_first,
                "a prefix of tree {}",
                t.name()
            );
            let keys: Vec<_> = forward.iter().map(|(k, _)| k.to_vec()).collect();
            assert!(keys.iter().all(|k| snapshot.contains(t, k).unwrap()));
            assert_eq!(t.multi_get(&keys).unwrap().len(), keys.len());
        }
    }
}

/// Makes calls that concern the whole store while the writers run, until they are done.
fn rearrange(
    setup: &Setup,
    place: &Place,
    db: &Db,
    trees: &[Tree],
    done: &AtomicBool,
    mut rng: Rng,
) {
    let mut n = 0;
    while !done.load(Ordering::Relaxed) {
        n += 1;
        let tree = rng.below(TREES as u64) as usize;
        let t = &trees[tree];
        match rng.below(10) {
            0 => {
                // No other thread changes options.
                let changed =
                    db.tree(&name(tree), setup.tree_options(tree, rng.below(20))).unwrap();
                assert_eq!(t.options().policy, changed.options().policy);
                let options = setup.tree_options(tree, rng.below(20));
                t.set_options(options.clone()).unwrap();
                assert_eq!(changed.options().policy, options.policy);
                assert_eq!(t.db().tree_names().len(), TREES);
            }
            1 => checkpoint(setup, place, db, n),
            2 => {
                let options = TreeOptions { memtable_size: 64 << 10, ..TreeOptions::default() };
                let both = db.trees(["extra", "more"].map(|name| (name, options.clone()))).unwrap();
                db.drop_tree("more").unwrap();
                let extra = &both[0];
                assert_eq!(extra.iter().count(), 0, "a dropped tree's data reappeared");
                extra.put(b"k", b"v").unwrap();
                assert!(extra.contains(b"k").unwrap() && db.tree_names().contains(&"extra".into()));
                db.drop_tree("extra").unwrap();
                assert_eq!(extra.get(b"k").unwrap_err().kind(), ErrorKind::Closed);
            }
            3 => {
                let found = db.verify(|_, _| {}).unwrap();
                assert!(found.errors.is_empty(), "{:?}", found.errors);
            }
            4 => {
                let tables = t.tables().unwrap();
                let apart = |a: &firn_kv::TableInfo, b: &firn_kv::TableInfo| {
                    (a.level, a.run) != (b.level, b.run) || a.last_key <= b.first_key
                };
                assert!(tables.windows(2).all(|p| apart(&p[0], &p[1])), "{tables:?}");
                assert_eq!(db.stats().trees.len(), TREES);
                t.approximate_size("0".."9").unwrap();
            }
            5 => t.compact_range(&key(0, rng.below(KEYS))..=&key(2, rng.below(KEYS))).unwrap(),
            6 => db.sync().unwrap(),
            7 if rng.one_in(2) => {
                let pause = db.pause_background().unwrap();
                db.set_background_rate(rng.one_in(2).then_some(1 << 30)).unwrap();
                db.wait_idle().unwrap();
                drop(pause);
                db.wait_idle().unwrap();
            }
            8 if rng.one_in(4) => read_only(setup, place),
            // Lets other threads run, also on real disks.
            _ => std::thread::yield_now(),
        }
    }
}

/// Follows the change feed while the writers run, until they are done. No change may be missing,
/// and each batch must be complete.
fn follow(db: &Db, mut feed: ChangeFeed, done: &AtomicBool) {
    let mut seq = feed.seq();
    loop {
        let is_over = done.load(Ordering::Acquire);
        while let Some(change) = feed.next(Duration::ZERO).unwrap() {
            assert_eq!(*change.seqs().start(), seq + 1);
            seq = *change.seqs().end();
            assert_eq!(feed.seq(), seq);
            for thread in 0..WRITERS {
                let whole = key(thread, KEYS);
                let puts = |of: usize| {
                    let is = |op: &BatchOp<'_>| match op {
                        BatchOp::Put { tree, key, .. } => *tree == name(of) && *key == whole,
                        _ => false,
                    };
                    change.ops().filter(is).count()
                };
                assert_eq!(puts(0), puts(1), "a partial batch in {change:?}");
            }
        }
        if is_over {
            break;
        }
        std::thread::yield_now();
    }
    assert!(feed.trees().len() >= TREES && seq <= db.stats().seq);
}

/// Follows a subscription while the writers run, until they are done, and acknowledges the changes.
/// No change may be missing, also across openings.
fn subscribe(db: &Db, done: &AtomicBool) {
    let mut changes = db.subscribe("beside", 1 << 30).unwrap();
    if changes.is_snapshot_due() {
        let snapshot = changes.snapshot().unwrap();
        changes.acknowledge(snapshot.seq()).unwrap();
    }
    let mut seq = changes.position().seq;
    loop {
        let is_over = done.load(Ordering::Acquire);
        while let Some(change) = changes.next(Duration::ZERO).unwrap() {
            assert_eq!(*change.seqs().start(), seq + 1);
            seq = *change.seqs().end();
            if seq.is_multiple_of(7) {
                changes.acknowledge(seq).unwrap();
            }
            if seq.is_multiple_of(61) {
                changes.persist().unwrap();
                changes.resume(changes.position()).unwrap();
            }
        }
        let info = db.subscriptions().pop().unwrap();
        assert!(info.seq <= seq && !info.is_snapshot_due, "{info:?}");
        if is_over {
            break;
        }
        std::thread::yield_now();
    }
    if seq.is_multiple_of(5) {
        db.drop_subscription("beside").unwrap();
    }
}

/// Opens a reader while the writers run, and checks that batches are atomic.
fn read_only(setup: &Setup, place: &Place) {
    let options = DbOptions { read_only: true, ..setup.db.clone() };
    let db = Db::open_in(place.env.clone(), &place.dir, options).unwrap();
    let (from, db) = (db.stats().seq, db.refresh().unwrap());
    assert!(db.is_read_only() && db.stats().seq >= from);
    whole("a reader", |t, k| {
        db.reader().existing_tree(&name(t)).unwrap().get(k).unwrap().map(|v| v.to_vec())
    });
}

/// Takes and opens a checkpoint, and checks that batches are atomic.
fn checkpoint(setup: &Setup, place: &Place, db: &Db, n: u64) {
    let dir = place.dir.with_extension(format!("copy{n}"));
    db.checkpoint(&dir).unwrap();
    {
        let options = DbOptions { background_threads: 0, ..setup.db.clone() };
        let copy = Db::open_in(place.env.clone(), &dir, options).unwrap();
        whole("a checkpoint", |t, k| {
            let tree = copy.tree(&name(t), setup.tree_options(t, 0)).unwrap();
            tree.get(k).unwrap().map(|v| v.to_vec())
        });
    }
    for file in place.env.list(&dir).unwrap() {
        match place.env.remove(&dir.join(file)) {
            // A table may be removed by then if its last reader has released it.
            Err(e) if e.kind() != ErrorKind::NotFound => panic!("{e}"),
            _ => {}
        }
    }
    place.env.remove_dir(&dir).unwrap();
}

fn compare(trees: &[Tree], owns: &[Own], when: &str) {
    for (tree, t) in trees.iter().enumerate() {
        let got: Vec<_> =
            t.iter().map(Result::unwrap).map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
        let want: Vec<_> = owns.iter().flat_map(|o| o[tree].clone()).collect();
        let at =
            got.iter().zip(&want).position(|(g, w)| g != w).unwrap_or(got.len().min(want.len()));
        assert!(
            got == want,
            "{when}, tree {tree}, item {at}: expected {:?}, got {:?}",
            want.get(at),
            got.get(at)
        );
    }
}

fn play(seed: u64, steps: u64) {
    let setup = Setup::of(seed);
    let mut place = Place::new(&setup);
    let mut owns: Vec<Own> = vec![vec![BTreeMap::new(); TREES]; WRITERS];
    let mut rng = Rng::new(seed);
    for round in 0..ROUNDS {
        let (db, trees) = open(&place, &setup);
        compare(&trees, &owns, &format!("seed {seed}, after opening in round {round}"));
        let done = AtomicBool::new(false);
        // Opens the feed before any thread writes. Otherwise the log between the two calls could
        // already be deleted after a flush.
        let feed = db.changes_since(db.stats().seq, 1 << 30).unwrap();
        std::thread::scope(|s| {
            let (db, trees, setup, place) = (&db, &trees[..], &setup, &place);
            let mut beside = vec![s.spawn(|| read(db, trees, &done))];
            beside.push(s.spawn(|| follow(db, feed, &done)));
            beside.push(s.spawn(|| subscribe(db, &done)));
            let other = rng.fork();
            beside.push(s.spawn(|| rearrange(setup, place, db, trees, &done, other)));
            let writers: Vec<_> = owns
                .iter_mut()
                .enumerate()
                .map(|(thread, own)| {
                    let mut w = Writer { setup, place, db, trees, own, thread, rng: rng.fork() };
                    s.spawn(move || (0..steps).for_each(|_| w.write().unwrap()))
                })
                .collect();
            let mut fine: Vec<bool> = writers.into_iter().map(|w| w.join().is_ok()).collect();
            done.store(true, Ordering::Release);
            fine.extend(beside.into_iter().map(|b| b.join().is_ok()));
            assert!(fine.iter().all(|f| *f), "seed {seed}, round {round}: {setup:?}");
        });
        compare(&trees, &owns, &format!("seed {seed}, at the end of round {round}"));
        if let (Some(mem), true) = (&place.mem, round % 2 == 0) {
            place = Place::of_image(&setup, mem.crash_image(0, &Cut::Process));
        }
    }
}

/// Runs the seeds of this share, with 1,000 writes of each thread in each round.
fn test(share: u64) {
    let first = crate::model::number("FIRN_MODEL_SEED", 1) as u64;
    (0..times_effort(1)).for_each(|n| play(first + n * 3 + share, 1000));
}

#[test]
fn threads_at_once_0() {
    test(0);
}

#[test]
fn threads_at_once_1() {
    test(1);
}

#[test]
fn threads_at_once_2() {
    test(2);
}
