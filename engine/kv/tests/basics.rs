//! Tests each guarantee of the public API once, in memory and on the real file system.

#![allow(clippy::disallowed_methods, reason = "temporary directories")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use firn_crash::CrashEnv;
use firn_kv::Env;
use firn_kv::OsEnv;
use firn_kv::policy::Movement;
use firn_kv::policy::{Fifo, LazyLeveled, Leveled, TimeWindow, Unified};
use firn_kv::{
    Batch, Db, DbOptions, Durability, ErrorKind, MAX_KEY_LEN, MAX_VALUE_LEN, MergeOperator,
    MergeResult, Policy, Result, Tree, TreeOptions,
};

/// A directory that is removed with the test.
struct Place {
    env: Arc<dyn Env>,
    dir: PathBuf,
    real: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.real {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

fn places() -> Vec<Place> {
    static N: AtomicU32 = AtomicU32::new(0);
    let n = N.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("firn-basics-{}-{n}", std::process::id()));
    vec![
        Place { env: Arc::new(CrashEnv::new(n as u64)), dir: "/db".into(), real: false },
        Place { env: OsEnv::new(), dir, real: true },
    ]
}

fn small() -> DbOptions {
    DbOptions { memory_budget: 8 << 20, wal_segment: 256 << 10, ..DbOptions::default() }
}

fn inline() -> DbOptions {
    DbOptions { background_threads: 0, ..small() }
}

fn tiny_tree() -> TreeOptions {
    TreeOptions { memtable_size: 64 << 10, table_size: 64 << 10, ..TreeOptions::default() }
}

fn open(p: &Place, options: DbOptions) -> (Db, Tree) {
    let db = Db::open_in(p.env.clone(), &p.dir, options).unwrap();
    let tree = db.tree("t", tiny_tree()).unwrap();
    (db, tree)
}

fn key(i: u32) -> Vec<u8> {
    format!("key{i:08}").into_bytes()
}

fn dump(tree: &Tree) -> Vec<(Vec<u8>, Vec<u8>)> {
    tree.iter().map(|i| i.map(|(k, v)| (k.to_vec(), v.to_vec()))).collect::<Result<_>>().unwrap()
}

#[test]
fn what_was_written_is_read_before_and_after_flush_compaction_and_reopening() {
    for p in places() {
        for threads in [0, 2] {
            let name = format!("t{threads}");
            let options = DbOptions { background_threads: threads, ..small() };
            let db = Db::open_in(p.env.clone(), &p.dir, options.clone()).unwrap();
            let tree = db.tree(&name, tiny_tree()).unwrap();
            let n = 20_000u32;
            for i in 0..n {
                let k = key(i.wrapping_mul(7919) % n);
                tree.put(&k, &[&k[..], b"-value"].concat()).unwrap();
            }
            for i in (0..n).step_by(3) {
                tree.delete(&key(i)).unwrap();
            }
            let check = |tree: &Tree, when: &str| {
                for i in 0..n {
                    let k = key(i);
                    let want = (i % 3 != 0).then(|| [&k[..], b"-value"].concat());
                    assert_eq!(tree.get(&k).unwrap().as_deref(), want.as_deref(), "{when}: {i}");
                }
                assert!(tree.get(b"key").unwrap().is_none() && tree.get(b"zzz").unwrap().is_none());
                let all = dump(tree);
                assert_eq!(all.len(), (0..n).filter(|i| i % 3 != 0).count(), "{when}");
                let mut back: Vec<_> = tree.iter().rev().map(|i| i.unwrap().0.to_vec()).collect();
                back.reverse();
                assert_eq!(back, all.iter().map(|(k, _)| k.clone()).collect::<Vec<_>>(), "{when}");
            };
            check(&tree, "as written");
            tree.flush().unwrap();
            check(&tree, "flushed");
            tree.compact().unwrap();
            check(&tree, "compacted");
            assert_eq!(db.stats().trees.iter().find(|t| t.name == name).unwrap().runs.len(), 1);
            tree.put(b"last", b"1").unwrap();
            drop((db, tree));
            let db = Db::open_in(p.env.clone(), &p.dir, options).unwrap();
            let tree = db.existing_tree(&name).unwrap();
            assert_eq!(tree.get(b"last").unwrap().as_deref(), Some(&b"1"[..]));
            tree.delete(b"last").unwrap();
            check(&tree, "reopened");
            assert!(db.verify(|_, _| {}).unwrap().errors.is_empty());
        }
    }
}

#[test]
fn a_log_that_fills_several_memtables_is_replayed_flushed_and_let_go() {
    for p in places() {
        for threads in [0, 1] {
            let options = DbOptions { background_threads: threads, ..small() };
            let db = Db::open_in(p.env.clone(), &p.dir, options.clone()).unwrap();
            let other = db.tree("other", tiny_tree()).unwrap();
            let tree = db.tree("t", tiny_tree()).unwrap();
            other.put(b"a", b"1").unwrap();
            tree.put(b"small", b"1").unwrap();
            for round in 0..3u8 {
                tree.put(&[round], &vec![round; 87_001]).unwrap();
            }
            drop((db, tree, other));
            for _ in 0..3 {
                let db = Db::open_in(p.env.clone(), &p.dir, options.clone()).unwrap();
                let (tree, other) =
                    (db.existing_tree("t").unwrap(), db.existing_tree("other").unwrap());
                assert_eq!(dump(&tree).len(), 4);
                other.put(b"a", b"2").unwrap();
                db.wait_idle().unwrap();
            }
        }
    }
}

#[test]
fn range_deletes_hide_what_is_older_and_nothing_newer() {
    for p in places() {
        let (_db, tree) = open(&p, inline());
        (0..1000).for_each(|i| tree.put(&key(i), b"a").unwrap());
        tree.flush().unwrap();
        tree.delete_range(&key(100)..&key(900)).unwrap();
        tree.put(&key(500), b"b").unwrap();
        let check = |when: &str| {
            assert_eq!(dump(&tree).len(), 201, "{when}");
            assert_eq!(tree.iter().rev().count(), 201, "{when}");
            assert!(tree.get(&key(100)).unwrap().is_none(), "{when}");
            assert_eq!(tree.get(&key(500)).unwrap().as_deref(), Some(&b"b"[..]), "{when}");
            assert!(
                tree.contains(&key(900)).unwrap() && tree.contains(&key(99)).unwrap(),
                "{when}"
            );
        };
        check("in the memtable");
        tree.flush().unwrap();
        check("flushed");
        tree.compact().unwrap();
        check("compacted");
    }
}

#[test]
fn a_range_delete_that_must_stay_does_not_hide_what_was_written_after_it() {
    for merges in [false, true] {
        let env = CrashEnv::new(1);
        let db = Db::open_in(Arc::new(env.clone()), "/db", inline()).unwrap();
        let policy = Policy::TimeWindow(TimeWindow {
            window_secs: 3600,
            min_runs: 2,
            ..TimeWindow::default()
        });
        let tree = db
            .tree("t", TreeOptions { policy, merge_operator: Some(Arc::new(Add)), ..tiny_tree() })
            .unwrap();
        // An older window with the key "b" only: the range deletion must continue to hide it.
        tree.put(b"b", b"1").unwrap();
        tree.flush().unwrap();
        env.advance(std::time::Duration::from_secs(3600));
        tree.delete_range("a".."x").unwrap();
        if merges {
            tree.merge(b"m", b"2").unwrap()
        } else {
            tree.put(b"m", b"2").unwrap()
        }
        tree.flush().unwrap();
        tree.put(b"y", b"3").unwrap();
        tree.flush().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(db.stats().trees[0].runs.len(), 2, "the newer window is one run");
        let all = [(b"m".to_vec(), b"2".to_vec()), (b"y".to_vec(), b"3".to_vec())];
        for _ in 0..2 {
            assert_eq!(dump(&tree), all);
            tree.compact().unwrap();
        }
    }
}

#[test]
fn snapshots_see_what_was_there() {
    for p in places() {
        let (db, tree) = open(&p, inline());
        (0..500).for_each(|i| tree.put(&key(i), b"old").unwrap());
        let s = db.snapshot();
        (0..500).for_each(|i| tree.put(&key(i), b"new").unwrap());
        tree.delete_range(&key(0)..&key(100)).unwrap();
        for round in 0..3 {
            assert_eq!(s.get(&tree, &key(5)).unwrap().as_deref(), Some(&b"old"[..]), "{round}");
            assert_eq!(
                s.range(&tree, ..).filter(|i| i.as_ref().unwrap().1 == b"old").count(),
                500,
                "{round}"
            );
            assert_eq!(
                s.range(&tree, ..).rev().filter(|i| i.as_ref().unwrap().1 == b"old").count(),
                500
            );
            assert_eq!(dump(&tree).len(), 400);
            if round == 0 { tree.flush().unwrap() } else { tree.compact().unwrap() }
        }
        assert_eq!(db.stats().snapshots.len(), 1);
        drop(s);
        tree.compact().unwrap();
        assert_eq!(db.stats().trees[0].runs.iter().map(|r| r.entries).sum::<u64>(), 400);
    }
}

struct Add;

impl MergeOperator for Add {
    fn name(&self) -> &str {
        "add"
    }
    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        let n = |b: &[u8]| std::str::from_utf8(b).unwrap().parse::<i64>().unwrap();
        let sum: i64 = base.map_or(0, n) + operands.iter().map(|o| n(o)).sum::<i64>();
        Ok(MergeResult::Value(sum.to_string().into_bytes()))
    }
    fn partial_merge(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        match self.full_merge(key, None, &[older, newer]) {
            Ok(MergeResult::Value(v)) => Some(v),
            _ => None,
        }
    }
}

#[test]
fn operands_fold_wherever_they_are() {
    for p in places() {
        let db = Db::open_in(p.env.clone(), &p.dir, inline()).unwrap();
        let options = TreeOptions { merge_operator: Some(Arc::new(Add)), ..tiny_tree() };
        let tree = db.tree("sums", options.clone()).unwrap();
        tree.put(b"a", b"10").unwrap();
        for round in 0..4 {
            tree.merge(b"a", b"1").unwrap();
            tree.merge(b"b", b"2").unwrap();
            tree.merge(b"a", b"1").unwrap();
            if round < 3 {
                tree.flush().unwrap();
            }
        }
        for round in 0..2 {
            assert_eq!(tree.get(b"a").unwrap().as_deref(), Some(&b"18"[..]), "{round}");
            assert_eq!(
                dump(&tree),
                [(b"a".to_vec(), b"18".to_vec()), (b"b".to_vec(), b"8".to_vec())]
            );
            assert_eq!(tree.iter().next_back().unwrap().unwrap().1, b"8");
            tree.compact().unwrap();
        }
        drop((db, tree));
        let db = Db::open_in(p.env.clone(), &p.dir, inline()).unwrap();
        assert_eq!(
            db.tree("sums", tiny_tree()).map(|_| ()).unwrap_err().kind(),
            ErrorKind::Incompatible
        );
        assert_eq!(
            db.tree("sums", options).unwrap().get(b"a").unwrap().as_deref(),
            Some(&b"18"[..])
        );
    }
}

#[test]
fn batches_are_whole_and_cross_trees() {
    for p in places() {
        let (db, a) = open(&p, inline());
        let b = db.tree("b", tiny_tree()).unwrap();
        let mut batch = Batch::new();
        batch.put(&a, b"k", b"1").unwrap();
        batch.put(&b, b"k", b"2").unwrap();
        batch.delete(&a, b"k").unwrap();
        batch.delete_range(&b, "a".."b").unwrap();
        assert!(batch.put(&a, &vec![0; MAX_KEY_LEN + 1], b"").is_err());
        assert_eq!(batch.len(), 4);
        db.with_durability(Durability::Power).write(batch).unwrap();
        assert!(a.get(b"k").unwrap().is_none());
        assert_eq!(b.get(b"k").unwrap().as_deref(), Some(&b"2"[..]));
        db.drop_tree("b").unwrap();
        assert_eq!(b.put(b"x", b"").unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(db.tree_names(), ["t"]);
    }
}

#[test]
fn transactions_conflict_when_what_they_read_has_changed() {
    for p in places() {
        let (db, tree) = open(&p, inline());
        tree.put(b"x", b"1").unwrap();
        let mut tx = db.transaction();
        assert_eq!(tx.get(&tree, b"x").unwrap().as_deref(), Some(&b"1"[..]));
        tx.put(&tree, b"y", b"2").unwrap();
        tree.put(b"x", b"3").unwrap();
        assert_eq!(tx.commit().unwrap_err().kind(), ErrorKind::Conflict);
        assert!(tree.get(b"y").unwrap().is_none());
        let mut tx = db.transaction();
        tx.put(&tree, b"m", b"own").unwrap();
        tx.delete(&tree, b"x").unwrap();
        let seen: Vec<_> = tx.range(&tree, "a"..).map(|i| i.unwrap().0).collect();
        assert_eq!(seen, [b"m".to_vec()]);
        tree.put(b"q", b"phantom").unwrap();
        tree.flush().unwrap();
        assert_eq!(tx.commit().unwrap_err().kind(), ErrorKind::Conflict);
        db.transact(|tx| tx.put(&tree, b"z", b"1")).unwrap();
        assert!(tree.contains(b"z").unwrap());
    }
}

#[test]
fn a_checkpoint_opens_as_a_store_of_its_own() {
    for p in places() {
        let (db, tree) = open(&p, small());
        (0..3000).for_each(|i| tree.put(&key(i), b"v").unwrap());
        let copy = p.dir.with_extension("copy");
        db.checkpoint(&copy).unwrap();
        (0..3000).for_each(|i| tree.put(&key(i), b"w").unwrap());
        let other = Db::open_in(p.env.clone(), &copy, small()).unwrap();
        let t = other.existing_tree("t").unwrap();
        assert!(dump(&t).iter().all(|(_, v)| v == b"v") && dump(&t).len() == 3000);
        t.put(b"new", b"1").unwrap();
        t.compact().unwrap();
        assert!(tree.get(b"new").unwrap().is_none() && dump(&tree).len() == 3000);
        assert_eq!(db.checkpoint(&copy).unwrap_err().kind(), ErrorKind::InvalidArgument);
        drop((t, other));
        if p.real {
            std::fs::remove_dir_all(&copy).unwrap();
        }
    }
}

#[test]
fn one_writer_and_readers_beside_it() {
    for p in places() {
        let (db, tree) = open(&p, small());
        tree.put(b"k", b"1").unwrap();
        assert_eq!(
            Db::open_in(p.env.clone(), &p.dir, small()).map(|_| ()).unwrap_err().kind(),
            ErrorKind::Locked
        );
        let read_only = DbOptions { read_only: true, ..small() };
        let reader = Db::open_in(p.env.clone(), &p.dir, read_only).unwrap();
        let t = reader.existing_tree("t").unwrap();
        assert_eq!(t.get(b"k").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(t.put(b"k", b"2").unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(reader.stats().refusal.unwrap().kind(), ErrorKind::ReadOnly);
        assert!(db.stats().refusal.is_none());
        tree.put(b"k", b"3").unwrap();
        tree.compact().unwrap();
        assert_eq!(t.get(b"k").unwrap().as_deref(), Some(&b"1"[..]));
        drop((db, tree, t, reader));
        open(&p, small());
    }
}

#[test]
fn wrong_places_are_refused_with_words() {
    for p in places() {
        let open =
            |dir: &Path, o: DbOptions| Db::open_in(p.env.clone(), dir, o).map(|_| ()).unwrap_err();
        let missing = DbOptions { create: false, ..small() };
        assert_eq!(open(&p.dir, missing).kind(), ErrorKind::NotFound);
        p.env.create_dir_all(&p.dir).unwrap();
        p.env.create(&p.dir.join("letter.txt")).unwrap();
        let e = open(&p.dir, small());
        assert_eq!(e.kind(), ErrorKind::InvalidArgument);
        assert!(e.to_string().contains("letter.txt"), "{e}");
        let e = open(&p.dir, DbOptions { memory_budget: 10, ..small() });
        assert!(e.to_string().contains("memory_budget"), "{e}");
    }
}

#[test]
fn every_policy_keeps_everything() {
    let policies = [
        Policy::default(),
        Policy::Leveled(Leveled {
            level0_runs: 2,
            ratio: 4,
            base: 128 << 10,
            movement: Movement::default(),
            ..Leveled::default()
        }),
        Policy::LazyLeveled(LazyLeveled { ratio: 3, ..LazyLeveled::default() }),
        Policy::Unified(Unified {
            scaling: vec![2, -2, 0],
            target_table: 64 << 10,
            base_shards: 2,
            ..Unified::default()
        }),
        Policy::TimeWindow(TimeWindow { window_secs: 3600, min_runs: 3, ..TimeWindow::default() }),
        Policy::Fifo(Fifo { max_bytes: 0, max_age_secs: 0, ..Fifo::default() }),
    ];
    for (i, policy) in policies.iter().enumerate() {
        let env = Arc::new(CrashEnv::new(i as u64));
        let db = Db::open_in(env, "/db", inline()).unwrap();
        let tree = db.tree("t", TreeOptions { policy: policy.clone(), ..tiny_tree() }).unwrap();
        for round in 0..6u32 {
            for j in 0..4000u32 {
                let k = key(j.wrapping_mul(2654435761).wrapping_add(round) % 6000);
                tree.put(&k, format!("{round}-{j}").repeat(5).as_bytes()).unwrap();
            }
        }
        db.wait_idle().unwrap();
        let all = dump(&tree);
        assert!(all.windows(2).all(|w| w[0].0 < w[1].0));
        for (k, v) in &all {
            assert_eq!(tree.get(k).unwrap().as_deref(), Some(&v[..]), "{policy:?}");
        }
        assert!(db.verify(|_, _| {}).unwrap().errors.is_empty());
        let next = policies[(i + 1) % policies.len()].clone();
        let tree = db.tree("t", TreeOptions { policy: next, ..tiny_tree() }).unwrap();
        db.wait_idle().unwrap();
        assert_eq!(dump(&tree), all, "{policy:?}, then another");
    }
}

/// A limit on the age of tombstones must cause no work for tables without tombstones.
#[test]
fn a_table_without_deletes_never_is_overdue() {
    let env = CrashEnv::new(1);
    let db = Db::open_in(
        Arc::new(env.clone()),
        "/db",
        DbOptions { background_threads: 0, ..DbOptions::default() },
    )
    .unwrap();
    let options = TreeOptions { tombstone_age_secs: 10, ..TreeOptions::default() };
    let tree = db.tree("t", options).unwrap();
    tree.put(b"a", b"1").unwrap();
    tree.flush().unwrap();
    env.advance(Duration::from_secs(100));
    tree.put(b"b", b"2").unwrap();
    db.wait_idle().unwrap();
    let stats = db.stats();
    assert_eq!((stats.flushes, stats.compactions, stats.moves), (1, 0, 0));
}

/// Once, `wait_idle` overlooked a job that a worker had just taken: it was neither queued nor
/// counted as running.
#[test]
fn idle_means_that_no_job_runs() {
    let db = Db::open_in(Arc::new(CrashEnv::new(1)), "/db", small()).unwrap();
    let all_go = TreeOptions {
        policy: Policy::Fifo(Fifo { max_bytes: 1, max_age_secs: 0, ..Fifo::default() }),
        ..tiny_tree()
    };
    let tree = db.tree("t", all_go).unwrap();
    for round in 0..2000 {
        tree.put(b"key", b"value").unwrap();
        tree.flush().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(tree.get(b"key").unwrap(), None, "after {round} rounds");
    }
}

#[test]
fn many_trees_are_made_as_one() {
    let env = CrashEnv::new(1);
    let db = Db::open_in(Arc::new(env.clone()), "/db", DbOptions { event_log: false, ..inline() })
        .unwrap();
    let of = |names: Vec<String>| names.into_iter().map(|n| (n, tiny_tree()));
    let first = db.tree("first", tiny_tree()).unwrap();
    first.put("k", "v").unwrap();
    db.sync().unwrap();
    env.start_journal();
    let cost = |names: Vec<String>| {
        let before = env.journal_len();
        (db.trees(of(names)).unwrap(), env.journal_len() - before)
    };
    let (_, one) = cost(vec!["second".into()]);
    let names: Vec<String> = (0..300).map(|n| format!("t{n}")).collect();
    let (trees, many) = cost(names.clone());
    assert_eq!(one, many, "creating 300 trees takes as many file operations as one");
    assert!(trees.iter().map(Tree::name).eq(&names));
    // Existing and new names, in any order.
    let mixed = ["t9", "new", "first"];
    let (mixed_trees, _) = cost(mixed.map(String::from).into());
    assert!(mixed_trees.iter().map(Tree::name).eq(mixed));
    assert_eq!(mixed_trees[2].get("k").unwrap().unwrap(), "v");
    assert_eq!(cost(names.clone()).1, 0, "all trees exist");
    assert!(cost(vec![]).0.is_empty());
    let before = db.tree_names();
    assert_eq!(before.len(), 303);
    for wrong in [vec!["x", "y", "x"], vec!["x", ""], vec!["x", &"y".repeat(256)]] {
        let e = db.trees(of(wrong.into_iter().map(String::from).collect())).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    }
    let bad = TreeOptions { block_size: 0, ..tiny_tree() };
    assert!(db.trees([("x", tiny_tree()), ("y", bad)]).is_err());
    assert_eq!(db.tree_names(), before, "no tree was created");
    drop((db, first, trees, mixed_trees));
    let again = Db::open_in(Arc::new(env), "/db", inline()).unwrap();
    assert_eq!(again.tree_names(), before);
}

/// A merge operator may return a value over the length limit. Reads then return an error, and a
/// flush retains the operands.
#[test]
fn a_merge_that_makes_too_long_a_value_stops_nothing_else() {
    struct Long;
    impl MergeOperator for Long {
        fn name(&self) -> &str {
            "long"
        }
        fn full_merge(
            &self,
            _: &[u8],
            _: Option<&[u8]>,
            operands: &[&[u8]],
        ) -> Result<MergeResult> {
            Ok(MergeResult::Value(vec![0; if operands.len() > 1 { MAX_VALUE_LEN + 1 } else { 1 }]))
        }
    }
    let db = Db::open_in(Arc::new(CrashEnv::new(1)), "/db", inline()).unwrap();
    let tree =
        db.tree("t", TreeOptions { merge_operator: Some(Arc::new(Long)), ..tiny_tree() }).unwrap();
    (0..3).for_each(|_| tree.merge("key", "x").unwrap());
    tree.flush().unwrap();
    tree.compact().unwrap();
    let e = tree.get("key").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    tree.put("other", "y").unwrap();
    tree.put("key", "z").unwrap();
    tree.compact().unwrap();
    assert_eq!(tree.get("key").unwrap().unwrap(), "z");
}
