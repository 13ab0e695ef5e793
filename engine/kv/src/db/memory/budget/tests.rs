//! Checks the counts of the budget against the memtables in views, and its limits. The tests run
//! without threads, so one history of writes has one outcome.

use crate::base::options::{DbOptions, MemoryBudget, TreeOptions};
use crate::db::jobs::background;
use crate::db::jobs::workers;
use crate::db::write::seal;
use crate::env::Env;
use crate::env::mem::MemEnv;
use crate::sstable::WarmBlocks;
use crate::util::sync::epoch;
use crate::{Db, Tree};

use super::*;

const BUDGET: usize = 4 << 20;

fn options(background_threads: usize) -> DbOptions {
    DbOptions {
        memory_budget: BUDGET,
        wal_segment: 64 << 10,
        background_threads,
        ..DbOptions::default()
    }
}

fn open(env: Arc<dyn Env>, name: &str, options: DbOptions) -> Db {
    Db::open_in(env, name, options).unwrap()
}

/// Returns a budget and a function that opens Db number `i` on it. All Dbs use one environment.
fn sharing() -> (Arc<Budget>, impl Fn(usize) -> Db) {
    let (memory, env) = (MemoryBudget::new(BUDGET), MemEnv::new(1));
    let budget = memory.inside(Budget::new);
    let shared = DbOptions { shared: Some(memory), ..options(0) };
    (budget, move |i| open(Arc::new(env.clone()), &format!("/{i}"), shared.clone()))
}

fn trees(db: &Db, n: usize) -> Vec<Tree> {
    db.trees((0..n).map(|i| (format!("t{i}"), TreeOptions::default()))).unwrap()
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// Returns the bytes of active and of immutable memtables in current views.
fn named(db: &Db) -> (u64, u64) {
    let trees = db.inner().versions.trees().to_vec();
    let taken = |m: &Arc<MemHandle>| m.mem.taken() as u64;
    trees.iter().map(|t| t.view.load_full()).fold((0, 0), |(active, sealed), v| {
        (active + taken(&v.active), sealed + v.sealed.iter().map(taken).sum::<u64>())
    })
}

/// Compares the counts with the views. Memtables without a write are not counted: half a KiB each.
fn check(db: &Db) {
    let (own, trees) = (&db.inner().memory.own, db.inner().versions.trees().len() as u64);
    let (active, sealed) = named(db);
    assert!(
        own.active() <= active && active <= own.active() + 1024 * trees,
        "{} {active}",
        own.active()
    );
    assert_eq!(own.sealed(), sealed);
}

fn release_spare(db: &Db) {
    let inner = db.inner();
    workers::release_spare_memory(&inner.commit, &inner.versions, &inner.memory);
}

#[test]
fn what_views_name_is_counted() {
    let (all, opened) = sharing();
    let dbs = [0, 1].map(&opened);
    let mut seed = 7;
    for round in 0..40 {
        for db in &dbs {
            let tree = db.tree(&format!("t{}", round % 7), TreeOptions::default()).unwrap();
            for _ in 0..random(&mut seed) % 400 {
                tree.put(&random(&mut seed).to_be_bytes(), &[1; 200]).unwrap();
            }
            match random(&mut seed) % 4 {
                0 => tree.flush().unwrap(),
                1 => db.drop_tree(tree.name()).unwrap(),
                2 => drop(db.snapshot()),
                _ => tree.delete_range("a".."b").unwrap(),
            }
            check(db);
        }
        let own = |of: fn(&BudgetTally) -> u64| {
            dbs.iter().map(|db| of(&db.inner().memory.own)).sum::<u64>()
        };
        assert_eq!(
            (all.all.active(), all.all.sealed()),
            (own(BudgetTally::active), own(BudgetTally::sealed))
        );
    }
    assert!(all.total() > 0);
    drop(dbs);
    assert_eq!(all.total(), 0, "a closed Db subtracts its counts");
    let again = opened(0);
    assert!(again.inner().memory.own.active() > 0, "what the log gave back is counted");
    check(&again);
}

/// Puts into random trees, every second time into the first. Returns the flushes and their bytes.
fn history(n: usize) -> (u64, u64) {
    let db = open(Arc::new(MemEnv::new(1)), "/db", options(0));
    let (trees, mut seed) = (trees(&db, n), 3);
    let budget = &db.inner().memory.budget;
    for i in 0..30_000u64 {
        let r = random(&mut seed);
        let tree = &trees[if r.is_multiple_of(2) { 0 } else { (r >> 8) as usize % n }];
        tree.put(&r.to_be_bytes(), &[i as u8; 300][..(r >> 32) as usize % 300]).unwrap();
        assert!(
            budget.total() <= budget.most(),
            "{} of {} after {i}",
            budget.total(),
            budget.most()
        );
        assert!(
            budget.all.active() <= budget.most_active(),
            "{} {}",
            budget.all.active(),
            budget.most_active()
        );
    }
    check(&db);
    // A thread of another test may still pin an epoch and so retain memtables of old views.
    while db.stats().memory.memtables > BUDGET as u64 {
        epoch::pin().flush();
        std::thread::yield_now();
    }
    let stats = db.stats();
    (stats.flushes, stats.flush_bytes)
}

#[test]
fn many_trees_stay_within_the_budget_and_the_same_history_is_flushed_the_same() {
    for n in [1, 3, 60, 500] {
        let once = history(n);
        assert!(once.0 >= 2, "{n} trees: {once:?}");
        assert_eq!(once, history(n), "{n} trees");
    }
}

/// The pages alone take twice this budget. Sealing a memtable for one page would write a table for
/// a put or two.
#[test]
fn a_page_is_left_to_each_tree() {
    const TREES: usize = 2000;
    let db = open(Arc::new(MemEnv::new(1)), "/db", options(0));
    let (trees, mut seed) = (trees(&db, TREES), 3);
    let budget = &db.inner().memory.budget;
    let mut put = |of: usize| {
        let r = random(&mut seed);
        trees[(r >> 8) as usize % of].put(&r.to_be_bytes(), &[1; 100]).unwrap();
        assert!(budget.all.active() <= budget.most_active() && budget.total() <= budget.most());
    };
    (0..10 * TREES).for_each(|_| put(TREES));
    assert_eq!(db.stats().flushes, 0);
    assert!(budget.all.pages() > BUDGET as u64 && budget.all.pages() <= (TREES * LEAST) as u64);
    (0..30 * TREES).for_each(|_| put(TREES));
    let flushes = db.stats().flushes;
    assert!(flushes > 0 && flushes <= TREES as u64 * 5 / 2, "{flushes} for 40 puts a tree");
    // Memtables of more than one page still have room to grow. (The other trees' pages are new: the
    // limit of the log flushes none.)
    trees.iter().for_each(|t| t.flush().unwrap());
    trees.iter().for_each(|t| t.put("first", "").unwrap());
    assert!(budget.all.pages() > BUDGET as u64);
    let before = db.stats().flushes;
    (0..20_000).for_each(|_| put(4));
    let flushes = db.stats().flushes - before;
    assert!(flushes > 0 && flushes <= 150, "{flushes} for 20,000 puts into four trees");
    check(&db);
}

/// The pages of one Db neither raise the limit of another Db nor are they taken away for it.
#[test]
fn pages_of_one_db_are_its_own() {
    let (budget, opened) = sharing();
    let [many, one] = [0, 1].map(opened);
    let (many_trees, one_tree) = (trees(&many, 2000), trees(&one, 1));
    many_trees.iter().for_each(|t| t.put("k", "v").unwrap());
    assert!(budget.all.pages() > BUDGET as u64);
    let mut seed = 5;
    for _ in 0..20_000 {
        one_tree[0].put(&random(&mut seed).to_be_bytes(), &[1; 100]).unwrap();
        // At most half of three eighths, plus the growth step of the memtable that exceeded it.
        let (has, half) = (one.inner().memory.own.active(), 3 * budget.eighth() / 2);
        assert!(has <= 3 * half / 2, "{has} of {half}");
    }
    assert!(one.stats().flushes > 0);
    assert_eq!(many.stats().flushes, 0);
    check(&many);
    check(&one);
}

/// If flushes always went first, memory of the many small tables that they write would grow without
/// bound.
#[test]
fn small_tables_that_take_the_memory_are_merged_before_flushes() {
    let db =
        open(Arc::new(MemEnv::new(1)), "/db", DbOptions { memory_budget: 1 << 20, ..options(0) });
    let trees = trees(&db, 30);
    let inner = db.inner();
    let seal = |t: &Tree| {
        t.put("k", "v").unwrap();
        seal::seal_memtable(inner, &inner.commit.lock(), &t.inner).unwrap();
    };
    let pause = db.pause_background().unwrap();
    let mut pile = |t: &Tree| (0..3).for_each(|i| (t.put([i], "v").unwrap(), t.flush().unwrap()).1);
    trees[..10].iter().for_each(&mut pile);
    let said = db.stats().memory.tables;
    assert!(said > 30 * 2048 && said < 30 * 4096, "{said} for 30 tables");
    seal(&trees[29]);
    drop(pause);
    assert!(background::work_once(inner, true).unwrap());
    assert_eq!((db.stats().flushes, db.stats().compactions), (31, 0), "they are few");
    let pause = db.pause_background().unwrap();
    trees[10..29].iter().for_each(&mut pile);
    seal(&trees[29]);
    drop(pause);
    assert!(background::work_once(inner, true).unwrap());
    assert_eq!((db.stats().flushes, db.stats().compactions), (88, 1), "they are many");
    assert!(background::work_once(inner, false).unwrap(), "somebody flushes all the same");
    assert_eq!((db.stats().flushes, db.stats().compactions), (89, 1));
}

#[test]
fn what_trees_take_by_themselves_is_left_to_them() {
    let env = MemEnv::new(1);
    let db = open(Arc::new(env.clone()), "/db", options(0));
    let named = |n: usize| (0..n).map(|i| (format!("t{i}"), TreeOptions::default()));
    let trees = db.trees(named(400)).unwrap();
    let (budget, all) = (db.inner().memory.budget.clone(), BUDGET as u64);
    assert_eq!(budget.of_trees(), 400 * TREE);
    assert!(
        budget.most() <= (all - 400 * TREE) / 4 * 3 && budget.most_active() <= budget.most() / 2
    );
    let capacity = || db.stats().memory.cache_capacity;
    let before = capacity();
    assert!(
        before + 400 * TREE + budget.arenas.bytes() as u64 <= all,
        "the cache shrank for the trees"
    );
    db.drop_tree("t7").unwrap();
    assert_eq!(budget.of_trees(), 399 * TREE);
    assert!(capacity() > before, "the cache grew again");
    db.trees(named(1000)).unwrap();
    assert_eq!(budget.of_trees(), all / 2, "never all of it");
    trees[0].put("k", "v").unwrap();
    drop((db, trees));
    assert_eq!(budget.of_trees(), 0);
    assert_eq!(open(Arc::new(env), "/db", options(0)).inner().memory.budget.of_trees(), all / 2);
}

#[test]
fn a_tree_that_is_seldom_written_makes_way() {
    let db = open(Arc::new(MemEnv::new(1)), "/db", options(0));
    let (trees, mut seed) = (trees(&db, 2), 5);
    for _ in 0..1000 {
        trees[1].put(&random(&mut seed).to_be_bytes(), &[1; 200]).unwrap();
    }
    let held = trees[1].inner.view.load_full().active.mem.used();
    for _ in 0..20_000 {
        trees[0].put(&random(&mut seed).to_be_bytes(), &[1; 200]).unwrap();
    }
    let view = trees[1].inner.view.load_full();
    assert!(
        held > 200 << 10 && !view.active.is_touched() && view.version.runs.len() == 1,
        "{held}"
    );
}

/// A writer whose flushes cannot begin stops below the limit. It continues when they begin.
#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn writers_without_memory_wait_for_flushes() {
    let db = open(Arc::new(MemEnv::new(1)), "/db", options(1));
    let trees = trees(&db, 20);
    let flushing: Vec<_> = trees.iter().map(|t| t.inner.flushing.lock()).collect();
    let budget = &db.inner().memory.budget;
    std::thread::scope(|s| {
        let writer = s.spawn(|| {
            let mut seed = 11;
            for _ in 0..60_000 {
                trees[random(&mut seed) as usize % 20]
                    .put(&random(&mut seed).to_be_bytes(), &[1; 100])
                    .unwrap();
            }
        });
        // One piece of the largest memtable may be more than the remaining memory.
        while budget.total() + (512 << 10) < budget.most() {
            std::thread::yield_now();
        }
        for _ in 0..10_000 {
            assert!(budget.total() <= budget.most() && !writer.is_finished());
            std::thread::yield_now();
        }
        drop(flushing);
        writer.join().unwrap();
    });
    db.wait_idle().unwrap();
    assert!(budget.total() <= budget.most() && db.stats().flushes > 0);
}

#[test]
fn fifty_dbs_share_one_budget() {
    let (budget, opened) = sharing();
    let dbs: Vec<_> = (0..50).map(opened).collect();
    let trees: Vec<_> =
        dbs.iter().map(|db| db.tree("t", TreeOptions::default()).unwrap()).collect();
    let mut seed = 13;
    let mut put = |i: usize| trees[i].put(&random(&mut seed).to_be_bytes(), &[1; 200]).unwrap();
    // One Db takes all the memory it can get, then the others write.
    (0..20_000).for_each(|_| put(0));
    assert!(dbs[0].inner().memory.own.active() > budget.fair(&dbs[0].inner().memory.own, 50) * 10);
    for i in 0..60_000 {
        put(i % 50);
        assert!(
            budget.total() <= budget.most(),
            "{} of {} after {i}",
            budget.total(),
            budget.most()
        );
    }
    assert!(
        dbs[0].inner().memory.own.active() <= budget.fair(&dbs[0].inner().memory.own, 50) * 2,
        "it has made way"
    );
    assert!(Arc::ptr_eq(dbs[0].inner().memory.cache(), dbs[49].inner().memory.cache()));
    assert_eq!(dbs[7].stats().memory.budget, BUDGET as u64);
    assert!((0..50).all(|i| dbs[i].stats().flushes > 0));
}

#[test]
fn memory_that_nobody_fills_is_let_go() {
    let db =
        open(Arc::new(MemEnv::new(1)), "/db", DbOptions { memory_budget: 64 << 20, ..options(0) });
    let tree =
        db.tree("t", TreeOptions { memtable_size: 4 << 20, ..TreeOptions::default() }).unwrap();
    let idle = db.stats().memory.memtables;
    (0..4_000u32).for_each(|i| tree.put(&i.to_be_bytes(), &[1; 500]).unwrap());
    assert!(db.stats().memory.memtables > 2 << 20);
    tree.flush().unwrap();
    assert!(!tree.inner.view.load_full().active.is_touched());
    // A thread of another test may still use the view with the memtable.
    while db.inner().memory.arenas().bytes() > db.inner().memory.arenas().spare_bytes() + 8192 {
        db.stats();
        std::thread::yield_now();
    }
    release_spare(&db);
    assert!(
        db.inner().memory.arenas().spare_bytes() > 2 << 20,
        "the pool retains memory for the next one"
    );
    release_spare(&db);
    assert_eq!(db.stats().memory.memtables, idle);
}

#[test]
fn buffers_of_jobs_are_taken_from_the_cache() {
    let budget = 64 << 20;
    let db =
        open(Arc::new(MemEnv::new(1)), "/db", DbOptions { memory_budget: budget, ..options(0) });
    let share = &db.inner().memory;
    let capacity = || db.stats().memory.cache_capacity;
    share.rebalance();
    let before = capacity();
    assert!(before > budget as u64 * 7 / 8 && before <= budget as u64 * 15 / 16);
    let mut one = JobBuffers::new(share);
    let mut other = JobBuffers::new(share);
    one.grow_to(2 << 20);
    assert_eq!(capacity(), before, "a thirty-second is reserved for buffers");
    other.grow_to(10 << 20);
    assert_eq!(capacity(), before - (10 << 20));
    assert_eq!(db.stats().memory.jobs, 12 << 20);
    other.grow_to((10 << 20) + 1000);
    other.grow_to(1 << 20);
    assert_eq!(capacity(), before - (10 << 20), "the count stays for the next table");
    drop(one);
    assert_eq!(capacity(), before - (8 << 20));
    other.grow_to(1 << 40);
    assert_eq!(capacity(), budget as u64 / 8, "the cache has at least an eighth");
    drop(other);
    assert_eq!((capacity(), db.stats().memory.jobs), (before, 0));
}

/// Tables prepared without a handle count too: a compaction makes all its tables before the first
/// has a handle.
#[test]
fn each_open_table_is_counted_once() {
    let db = open(Arc::new(MemEnv::new(1)), "/db", options(0));
    let options =
        TreeOptions { memtable_size: 64 << 10, table_size: 64 << 10, ..TreeOptions::default() };
    let tree = db.tree("t", options).unwrap();
    let opener = db.inner().versions.opener();
    let check = || {
        let view = tree.inner.view.load_full();
        let tables: Vec<_> = view.version.runs.iter().flat_map(|run| run.tables.clone()).collect();
        let opened: u64 = tables.iter().filter_map(|t| t.opened()).map(|t| t.memory() as u64).sum();
        assert!(opened > 0);
        // Threads of other tests may delay the release of tables.
        let is_counted = (0..2_000_000).any(|_| {
            epoch::pin().flush();
            std::thread::yield_now();
            opener.memory() == opener.of_handles() + opened
        });
        assert!(is_counted, "{} for {} and {opened}", opener.memory(), opener.of_handles());
        tables.len()
    };
    let mut seed = 7;
    for round in 0..3u32 {
        for i in 0..5_000u32 {
            let value: Vec<u8> = (0..12).flat_map(|_| random(&mut seed).to_le_bytes()).collect();
            tree.put(&(i * 7 + round).to_be_bytes(), &value).unwrap();
        }
        tree.flush().unwrap();
        check();
    }
    tree.compact().unwrap();
    assert!(check() > 3);
    // A table that is prepared but never used.
    let view = tree.inner.view.load_full();
    let id = view.version.runs[0].tables[0].meta.id;
    let before = opener.memory();
    opener.make_ready(id, WarmBlocks::default());
    assert!(opener.memory() > before);
    opener.forget(id);
    assert_eq!(opener.memory(), before);
}

#[test]
fn a_closed_db_has_no_part_in_the_budget() {
    let (budget, opened) = sharing();
    let dbs = [0, 1].map(opened);
    let tree = dbs[0].tree("t", TreeOptions::default()).unwrap();
    assert_eq!(budget.members().len(), 2);
    dbs[0].close().unwrap();
    assert_eq!(
        (budget.members().len(), budget.held().len()),
        (1, 2),
        "its handles are still there"
    );
    drop(tree);
}

#[test]
fn memtables_that_wait_fill_three_quarters_of_the_budget() {
    const MIB: u64 = 1 << 20;
    for (budget, memtable, expected) in
        [(1, 64, 1), (128, 64, 1), (256, 64, 2), (640, 64, 6), (64 << 10, 64, 6), (4, 0, 6)]
    {
        assert_eq!(max_sealed(budget * MIB, memtable * MIB), expected, "{budget} {memtable}");
    }
}
