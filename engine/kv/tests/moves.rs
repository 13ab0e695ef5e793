//! Compactions do not rewrite tables that overlap no other table. They adopt or move such tables
//! instead, under every policy and in manual compactions. Tables that a compaction would change are
//! rewritten.

use super::append;

use std::sync::Arc;

use firn_crash::{CrashEnv, Cut, Fault, FaultEnv};
use firn_kv::internals::compaction::policy::Policy;
use firn_kv::{
    CompactionFilter, CompactionFilterContext, CompactionFilterPass, Compression, Db, DbOptions,
    Env, FilterKind, Result, Tree, TreeOptions,
};
use firn_testkit::rng::Rng;

use append::Append;

const DIR: &str = "/db";
/// Number of keys that fill a few tables.
const KEYS: u64 = 3000;

fn db_options() -> DbOptions {
    DbOptions {
        memory_budget: 16 << 20,
        wal_segment: 256 << 10,
        background_threads: 0,
        ..DbOptions::default()
    }
}

/// Returns options under which only manual compactions run.
fn quiet() -> TreeOptions {
    TreeOptions {
        policy: "tiered:min_runs=64:max_runs=64".parse().unwrap(),
        memtable_size: 2 << 20,
        table_size: 64 << 10,
        ..TreeOptions::default()
    }
}

fn open(env: Arc<dyn Env>, options: TreeOptions) -> Result<(Db, Tree)> {
    let db = Db::open_in(env, DIR, db_options())?;
    let tree = db.tree("t", options)?;
    Ok((db, tree))
}

fn key(i: u64) -> Vec<u8> {
    format!("key{i:08}").into_bytes()
}

/// Returns a value that identifies its key and round, and that hardly compresses.
fn value(i: u64, round: u64) -> Vec<u8> {
    let mut bytes = [i.to_be_bytes(), round.to_be_bytes()].concat();
    bytes.resize(100, 0);
    Rng::new(i ^ round << 32).fill(&mut bytes[16..]);
    bytes
}

fn fill(tree: &Tree, keys: impl IntoIterator<Item = u64>, round: u64) -> Result<()> {
    keys.into_iter().try_for_each(|i| tree.put(&key(i), &value(i, round)).map(drop))
}

/// Writes one run with these keys.
fn run(tree: &Tree, keys: impl IntoIterator<Item = u64>, round: u64) -> Result<()> {
    fill(tree, keys, round)?;
    tree.flush().map(drop)
}

/// Returns the number of bytes that compactions have written.
fn rewritten(db: &Db) -> u64 {
    db.stats().compaction_written
}

fn check(db: &Db, tree: &Tree, keys: u64, round_of: impl Fn(u64) -> u64) {
    let mut expected = 0;
    for item in tree.iter() {
        let (k, v) = item.unwrap();
        assert_eq!(*k, *key(expected));
        assert_eq!(*v, *value(expected, round_of(expected)));
        expected += 1;
    }
    assert_eq!(expected, keys);
    let errors = db.verify(|_, _| {}).unwrap().errors;
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn a_load_in_order_is_written_once_under_every_policy() {
    for described in Policy::ALL {
        let policy = match described.name {
            // Level 1 fills soon, so tables move further down.
            "leveled" => "leveled:base=64k:ratio=2".parse().unwrap(),
            "fifo" => continue,
            name => name.parse().unwrap(),
        };
        let options = TreeOptions { policy, memtable_size: 256 << 10, ..quiet() };
        let env: Arc<dyn Env> = Arc::new(CrashEnv::new(1));
        let (db, tree) = open(env.clone(), options.clone()).unwrap();
        let keys = 8 * KEYS;
        fill(&tree, 0..keys, 1).unwrap();
        assert!(db.stats().flushes > 8, "{}", described.name);
        tree.compact().unwrap();
        let stats = db.stats();
        assert_eq!(stats.compaction_written, 0, "{}", described.name);
        assert_eq!(stats.trees[0].runs.len(), 1, "{}", described.name);
        check(&db, &tree, keys, |_| 1);
        drop((tree, db));
        let (db, tree) = open(env, options).unwrap();
        check(&db, &tree, keys, |_| 1);
        tree.compact().unwrap();
        assert_eq!(rewritten(&db), 0, "{}: no work must be left", described.name);
    }
}

#[test]
fn a_load_in_order_but_for_a_little_is_written_little_more_than_once() {
    let policy = "tiered:min_runs=3".parse().unwrap();
    let options = TreeOptions { policy, memtable_size: 1 << 20, ..quiet() };
    let (db, tree) = open(Arc::new(CrashEnv::new(1)), options).unwrap();
    let mut rng = Rng::new(7);
    let mut order: Vec<u64> = (0..30 * KEYS).collect();
    for i in 0..order.len() - 200 {
        order.swap(i, i + rng.below(200) as usize);
    }
    fill(&tree, order, 1).unwrap();
    tree.compact().unwrap();
    let stats = db.stats();
    assert!(stats.compactions > 3);
    let share = stats.compaction_written as f64 / stats.flush_bytes as f64;
    assert!(share < 1.0, "{share}");
    check(&db, &tree, 30 * KEYS, |_| 1);
}

#[test]
fn only_what_overlaps_is_written_again() {
    let (db, tree) = open(Arc::new(CrashEnv::new(1)), quiet()).unwrap();
    run(&tree, 0..4 * KEYS, 1).unwrap();
    run(&tree, 4 * KEYS - 10..8 * KEYS, 2).unwrap();
    run(&tree, KEYS..KEYS + 10, 3).unwrap();
    let size = db.stats().table_bytes();
    tree.compact().unwrap();
    let stats = db.stats();
    let share = stats.compaction_written as f64 / size as f64;
    assert!(share > 0.01 && share < 0.3, "{share}");
    assert_eq!(stats.trees[0].runs.len(), 1);
    assert_eq!(stats.trees[0].runs[0].entries, 8 * KEYS);
    let round_of = |i| match i {
        i if (KEYS..KEYS + 10).contains(&i) => 3,
        i => 1 + u64::from(i >= 4 * KEYS - 10),
    };
    check(&db, &tree, 8 * KEYS, round_of);
}

#[test]
fn small_tables_are_joined() {
    let (db, tree) = open(Arc::new(CrashEnv::new(1)), quiet()).unwrap();
    for i in 0..50 {
        run(&tree, i * 20..(i + 1) * 20, 1).unwrap();
    }
    tree.compact().unwrap();
    let stats = db.stats();
    assert_eq!(stats.trees[0].runs.len(), 1);
    assert!(stats.trees[0].runs[0].tables <= 3, "{}", stats.trees[0].runs[0].tables);
    check(&db, &tree, 1000, |_| 1);
}

/// Compaction filter that drops every entry.
struct Nothing;

impl CompactionFilter for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }
    fn start(&self, _: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        Box::new(Nothing)
    }
}

impl CompactionFilterPass for Nothing {
    fn filter(
        &mut self,
        _: &[u8],
        _: firn_kv::internals::base::key::Kind,
        _: &[u8],
        _: bool,
    ) -> firn_kv::FilterDecision {
        firn_kv::FilterDecision::Drop
    }
}

/// Creates two disjoint runs and applies `change`, which makes a compaction rewrite data. Returns
/// the statistics after the compaction.
fn changed(name: &str, options: TreeOptions, change: impl Fn(&Db, &Tree)) -> firn_kv::stats::Stats {
    let (db, tree) = open(Arc::new(CrashEnv::new(1)), options).unwrap();
    fill(&tree, 0..KEYS, 1).unwrap();
    change(&db, &tree);
    tree.flush().unwrap();
    run(&tree, KEYS..2 * KEYS, 1).unwrap();
    let before = rewritten(&db);
    tree.compact().unwrap();
    let stats = db.stats();
    assert!(stats.compaction_written > before, "{name}");
    assert_eq!(stats.trees[0].runs.len(), 1, "{name}");
    stats
}

#[test]
fn what_a_merge_would_change_is_written_again() {
    let all = |stats: &firn_kv::stats::Stats| stats.trees[0].runs[0].clone();
    let deleted = changed("deletes", quiet(), |_, tree| {
        tree.delete(&key(17)).unwrap();
        // Deletes a key that does not exist, in a separate table.
        tree.delete(b"a").unwrap();
    });
    assert_eq!((all(&deleted).deletes, all(&deleted).entries), (0, 2 * KEYS - 1));

    let ranges = changed("range deletions", quiet(), |_, tree| {
        tree.delete_range(&key(0)..&key(10)).unwrap();
    });
    assert_eq!(all(&ranges).entries, 2 * KEYS - 10);

    // The snapshot is released before the compaction.
    let versions = changed("versions", quiet(), |db, tree| {
        let snapshot = db.snapshot();
        tree.put(&key(5), &value(5, 1)).unwrap();
        tree.flush().unwrap();
        drop(snapshot);
    });
    assert_eq!(all(&versions).entries, 2 * KEYS);

    let folding = TreeOptions { merge_operator: Some(Arc::new(Append)), ..quiet() };
    let folded = changed("operands", folding, |_, tree| {
        // A flush does not know which older entries exist for these operands.
        (0..10).for_each(|i| tree.merge(&[b'a', i], b"more").map(drop).unwrap());
    });
    assert_eq!(all(&folded).entries, 2 * KEYS + 10);

    // The first run was written with other options.
    let way = |options: TreeOptions| {
        move |_: &Db, tree: &Tree| {
            tree.flush().unwrap();
            tree.set_options(options.clone()).unwrap();
        }
    };
    let other = [
        ("compression", TreeOptions { compression: vec![Compression::None], ..quiet() }),
        ("filter", TreeOptions { filter: vec![FilterKind::Fuse16], ..quiet() }),
        ("block size", TreeOptions { block_size: 1024, ..quiet() }),
        (
            "compression of levels",
            TreeOptions { compression: vec![Compression::Lz4, Compression::None], ..quiet() },
        ),
    ];
    for (name, options) in other {
        changed(name, quiet(), way(options));
    }

    let purging = TreeOptions { compaction_filter: Some(Arc::new(Nothing)), ..quiet() };
    let (db, tree) = open(Arc::new(CrashEnv::new(1)), purging).unwrap();
    run(&tree, 0..KEYS, 1).unwrap();
    run(&tree, KEYS..2 * KEYS, 1).unwrap();
    tree.compact().unwrap();
    assert_eq!(tree.iter().count(), 0);
    assert!(db.stats().trees[0].runs.is_empty());
}

/// Creates a store with three runs, of which some tables overlap, before any compaction.
fn prepared() -> CrashEnv {
    let env = CrashEnv::new(3);
    let (db, tree) = open(Arc::new(env.clone()), quiet()).unwrap();
    run(&tree, 0..KEYS, 1).unwrap();
    run(&tree, KEYS - 10..2 * KEYS, 2).unwrap();
    run(&tree, KEYS + KEYS / 2..KEYS + KEYS / 2 + 10, 3).unwrap();
    db.close().unwrap();
    env
}

fn check_prepared(env: CrashEnv) {
    let (db, tree) = open(Arc::new(env.clone()), quiet()).unwrap();
    let round_of = |i| match i {
        i if (KEYS + KEYS / 2..KEYS + KEYS / 2 + 10).contains(&i) => 3,
        i => 1 + u64::from(i >= KEYS - 10),
    };
    check(&db, &tree, 2 * KEYS, round_of);
    let live: usize = db.stats().trees[0].runs.iter().map(|r| r.tables).sum();
    let is_table = |f: &std::path::PathBuf| f.extension().is_some_and(|e| e == "sst");
    assert_eq!(env.files().iter().filter(|f| is_table(f)).count(), live);
}

#[test]
fn a_crash_while_some_tables_are_adopted_loses_nothing() {
    let env = prepared();
    env.start_journal();
    let (db, tree) = open(Arc::new(env.clone()), quiet()).unwrap();
    let before = env.journal_len();
    tree.compact().unwrap();
    assert!(rewritten(&db) > 0);
    let after = env.journal_len();
    drop((tree, db));
    for at in before..=after {
        for cut in [Cut::Process, Cut::PowerNone] {
            check_prepared(env.crash_image(at, &cut));
        }
    }
}

#[test]
fn a_fault_while_some_tables_are_adopted_loses_nothing() {
    let prepared = prepared();
    for n in 1.. {
        let env = prepared.fork();
        let faults = FaultEnv::new(Arc::new(env.clone()));
        let (db, tree) = open(Arc::new(faults.clone()), quiet()).unwrap();
        faults.fail_nth(faults.count() + n, Fault::Eio);
        let done = tree.compact();
        faults.heal();
        drop((tree, db));
        check_prepared(env);
        if faults.injected() == 0 {
            assert!(n > 20, "{n}");
            done.unwrap();
            return;
        }
    }
}
