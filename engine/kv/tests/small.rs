//! What a small store costs: space, writes and syncs of opening and closing, threads.

use std::path::Path;
use std::sync::Arc;

use firn_kv::env::Env;
use firn_kv::env::fault::{FaultEnv, OpClass};
use firn_kv::env::mem::{Cut, MemEnv};
use firn_kv::wal::segment_number;
use firn_kv::{Db, DbOptions, ErrorKind, Policy, Tree, TreeOptions};

const DIR: &str = "/db";

fn open(env: &MemEnv) -> (Db, Tree) {
    open_in(Arc::new(env.clone()))
}

fn open_in(env: Arc<dyn Env>) -> (Db, Tree) {
    let db = Db::open_in(env, DIR, DbOptions { event_log: false, ..DbOptions::default() }).unwrap();
    let tree = db.tree("t", TreeOptions { memtable_size: 256 << 10, ..TreeOptions::default() }).unwrap();
    (db, tree)
}

/// Bytes of all files, and how many segments the log has.
fn space(env: &MemEnv) -> (u64, usize) {
    let files = env.files();
    let is_segment = |f: &&std::path::PathBuf| f.file_name().and_then(|n| segment_number(n.to_str()?)).is_some();
    (files.iter().map(|f| env.file_len(f).unwrap()).sum(), files.iter().filter(is_segment).count())
}

/// What the environment was asked to do by `work`, in words.
fn told(env: &MemEnv, work: impl FnOnce()) -> Vec<String> {
    env.start_journal();
    work();
    let told = (0..env.journal_len()).map(|n| env.journal_op(n).unwrap()).collect();
    env.stop_journal();
    told
}

fn syncs(told: &[String]) -> usize {
    told.iter().filter(|op| op.contains("sync")).count()
}

#[test]
fn a_closed_store_takes_what_is_in_it() {
    let env = MemEnv::new(1);
    drop(open(&env));
    assert!(space(&env).0 < 2_000, "an empty store takes {} bytes", space(&env).0);
    let (db, tree) = open(&env);
    (0..100u32).for_each(|i| tree.put(&i.to_be_bytes(), &[7; 100]).unwrap());
    drop((db, tree));
    assert!(space(&env).0 < 2_000 + 100 * 150, "a hundred records take {} bytes", space(&env).0);
    let (_db, tree) = open(&env);
    assert_eq!(tree.iter().count(), 100);
}

#[test]
fn what_was_closed_cleanly_is_opened_and_read_without_a_write() {
    let env = MemEnv::new(1);
    let (db, tree) = open(&env);
    tree.put(b"k", b"v").unwrap();
    drop((db, tree));
    let ops = told(&env, || {
        let (_db, tree) = open(&env);
        assert_eq!(tree.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    });
    assert_eq!(ops, Vec::<String>::new());
    // The first write begins a segment and a manifest; a close syncs once.
    let (db, tree) = open(&env);
    let first = told(&env, || tree.put(b"l", b"w").unwrap());
    let second = told(&env, || tree.put(b"m", b"x").unwrap());
    let close = told(&env, || drop((db, tree)));
    assert_eq!((syncs(&first), syncs(&second), syncs(&close)), (6, 0, 1), "{first:#?} {close:#?}");
    let (db, tree) = open(&env);
    assert_eq!((tree.iter().count(), db.torn_log()), (3, None));
}

#[test]
fn a_store_that_was_not_closed_is_begun_anew_at_once() {
    let env = MemEnv::new(1);
    let (_db, tree) = open(&env);
    tree.put(b"k", b"v").unwrap();
    let image = env.crash_image(0, &Cut::Process);
    let ops = told(&image, || {
        let (_db, tree) = open(&image);
        assert_eq!(tree.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    });
    assert!(ops.iter().any(|op| op.contains("MANIFEST")), "{ops:#?}");
}

#[test]
fn garbage_is_removed_though_the_store_was_closed_cleanly() {
    let env = MemEnv::new(1);
    drop(open(&env));
    let left = Path::new(DIR).join("00000099.sst");
    env.write_file(&left, b"of a merge that was killed").unwrap();
    let (db, tree) = open(&env);
    assert!(!env.files().contains(&left));
    tree.put(b"k", b"v").unwrap();
    drop((db, tree));
    let (_db, tree) = open(&env);
    assert!(tree.contains(b"k").unwrap());
}

#[test]
fn openings_do_not_pile_up_segments() {
    let env = MemEnv::new(1);
    for i in 0..150u32 {
        let (db, tree) = open(&env);
        tree.put(&i.to_be_bytes(), b"v").unwrap();
        db.wait_idle().unwrap();
        drop((db, tree));
        assert!(space(&env).1 <= 18, "{} segments", space(&env).1);
    }
    let (_db, tree) = open(&env);
    assert_eq!(tree.iter().count(), 150);
}

#[test]
fn a_small_store_has_no_threads() {
    let env = FaultEnv::new(Arc::new(MemEnv::new(1)));
    env.only(&[OpClass::Spawn]);
    for _ in 0..2 {
        let (_db, tree) = open_in(Arc::new(env.clone()));
        // Few enough that the next opening reads them alone in a debug build, too.
        (0..50u32).for_each(|i| tree.put(&i.to_be_bytes(), &[7; 100]).unwrap());
        assert_eq!((tree.iter().count(), env.count()), (50, 0));
    }
    // A memtable that is full wants to be flushed.
    let (db, tree) = open_in(Arc::new(env.clone()));
    (0..4000u32).for_each(|i| tree.put(&i.to_be_bytes(), &[7; 100]).unwrap());
    assert_eq!(env.count(), DbOptions::default().background_threads as u64);
    db.wait_idle().unwrap();
    assert!(db.stats().flushes > 0);
}

#[test]
fn files_of_others_that_begin_with_a_dot_do_not_keep_a_store_away() {
    let env = MemEnv::new(1);
    env.create_dir_all(Path::new(DIR)).unwrap();
    env.write_file(&Path::new(DIR).join(".DS_Store"), b"theirs").unwrap();
    drop(open(&env));
    drop(open(&env));
    assert_eq!(env.read_file(&Path::new(DIR).join(".DS_Store")).unwrap(), b"theirs");
    let other = MemEnv::new(1);
    other.create_dir_all(Path::new(DIR)).unwrap();
    other.write_file(&Path::new(DIR).join("notes.txt"), b"theirs").unwrap();
    let e = Db::open_in(Arc::new(other), DIR, DbOptions::default()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn the_first_flush_of_an_opening_loses_nothing_wherever_it_is_cut_off() {
    let env = MemEnv::new(1);
    let (db, tree) = open(&env);
    (0..50u32).for_each(|i| tree.put(&i.to_be_bytes(), b"v").unwrap());
    drop((db, tree));
    let (_db, tree) = open(&env);
    env.start_journal();
    tree.flush().unwrap();
    let mut crasher = env.crasher();
    loop {
        for cut in [Cut::Process, Cut::PowerNone, Cut::PowerAll, Cut::PowerRandom(7)] {
            let (_db, tree) = open(&crasher.image(&cut));
            assert_eq!(tree.iter().count(), 50, "after {} operations, {:?}: {cut:?}", crasher.at(), crasher.last_op());
        }
        if !crasher.advance() {
            return;
        }
    }
}

#[test]
fn small_memtables_of_many_trees_are_flushed_together() {
    let env = MemEnv::new(1);
    let options = DbOptions { event_log: false, background_threads: 0, memory_budget: 1 << 20, ..DbOptions::default() };
    let db = Db::open_in(Arc::new(env.clone()), DIR, options.clone()).unwrap();
    // Nothing is merged.
    let kept = || TreeOptions { policy: Policy::Fifo { max_bytes: 0, max_age_secs: 0 }, ..TreeOptions::default() };
    let trees: Vec<Tree> = (0..200).map(|i| db.tree(&format!("t{i}"), kept()).unwrap()).collect();
    let told = told(&env, || {
        for i in 0..2_000u64 {
            trees[i as usize * 7 % trees.len()].put(i.to_be_bytes(), [7; 500]).unwrap();
        }
    });
    let flushes = db.stats().flushes as usize;
    let of = |what: &str| told.iter().filter(|op| op.starts_with("sync") && op.contains(what)).count();
    let (manifest, log, names) = (of("MANIFEST"), of(".wal"), of("directory"));
    assert!(
        flushes > 100 && 3 * manifest < flushes && 3 * log < flushes && 3 * names < flushes,
        "{flushes}: {manifest} {log} {names}"
    );
    drop((db, trees));
    let db = Db::open_in(Arc::new(env), DIR, options).unwrap();
    let found: usize = db.tree_names().iter().map(|n| db.existing_tree(n).unwrap().iter().count()).sum();
    assert_eq!(found, 2_000);
}
