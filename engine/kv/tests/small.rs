//! Costs of a small store: space, writes and syncs of opening and closing, and threads.

use std::path::Path;
use std::sync::Arc;

use firn_crash::{CrashEnv, Cut, FaultEnv, OpClass};
use firn_kv::Env;
use firn_kv::internals::base::identity::LogWriter;
use firn_kv::internals::manifest::{Manifest, manifest_name};
use firn_kv::internals::wal::{SegmentReader, segment_number};
use firn_kv::policy::Fifo;
use firn_kv::{Db, DbOptions, ErrorKind, MergeOperator, MergeResult, Policy, Tree, TreeOptions};

const DIR: &str = "/db";

fn open(env: &CrashEnv) -> (Db, Tree) {
    open_in(Arc::new(env.clone()))
}

fn open_in(env: Arc<dyn Env>) -> (Db, Tree) {
    let db = Db::open_in(env, DIR, DbOptions { event_log: false, ..DbOptions::default() }).unwrap();
    let tree =
        db.tree("t", TreeOptions { memtable_size: 256 << 10, ..TreeOptions::default() }).unwrap();
    (db, tree)
}

/// Returns the size of all files in bytes, and the number of log segments.
fn space(env: &CrashEnv) -> (u64, usize) {
    let files = env.files();
    let is_segment =
        |f: &&std::path::PathBuf| f.file_name().and_then(|n| segment_number(n.to_str()?)).is_some();
    (files.iter().map(|f| env.file_len(f).unwrap()).sum(), files.iter().filter(is_segment).count())
}

/// Returns descriptions of the environment operations that `work` performs.
fn told(env: &CrashEnv, work: impl FnOnce()) -> Vec<String> {
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
    let env = CrashEnv::new(1);
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
    let env = CrashEnv::new(1);
    let (db, tree) = open(&env);
    tree.put(b"k", b"v").unwrap();
    drop((db, tree));
    let ops = told(&env, || {
        let (_db, tree) = open(&env);
        assert_eq!(tree.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    });
    assert_eq!(ops, Vec::<String>::new());
    // The first write begins a segment, syncs its name and content, and adds a frame to the
    // manifest. A close syncs once.
    let (db, tree) = open(&env);
    let first = told(&env, || tree.put(b"l", b"w").unwrap());
    let second = told(&env, || tree.put(b"m", b"x").unwrap());
    let close = told(&env, || drop((db, tree)));
    assert_eq!((syncs(&first), syncs(&second), syncs(&close)), (3, 0, 1), "{first:#?} {close:#?}");
    let named = |what| first.iter().chain(&close).filter(|op| op.starts_with(what)).count();
    assert_eq!(
        (named("create"), named("rename"), named("remove")),
        (1, 0, 0),
        "{first:#?} {close:#?}"
    );
    let (db, tree) = open(&env);
    assert_eq!((tree.iter().count(), db.torn_log()), (3, None));
}

/// Returns the number and length in bytes of the current manifest, and the writers that it names.
fn manifest(env: &CrashEnv) -> (u64, u64, Vec<LogWriter>) {
    let (state, number) = Manifest::load(env, Path::new(DIR)).unwrap().unwrap();
    (number, env.file_len(&Path::new(DIR).join(manifest_name(number))).unwrap(), state.writers)
}

/// Returns the writer of the newest log segment, from the segment's header.
fn newest_writer(env: &CrashEnv) -> LogWriter {
    let number =
        env.list(Path::new(DIR)).unwrap().iter().filter_map(|n| segment_number(n)).max().unwrap();
    let reader = SegmentReader::open(env, Path::new(DIR), number).unwrap();
    let header = reader.header().unwrap();
    LogWriter { from: number, id: header.writer, base: header.base }
}

#[test]
fn each_opening_names_its_writer_in_the_manifest_that_is_there() {
    let env = CrashEnv::new(1);
    drop(open(&env));
    for i in 0..9u32 {
        let before = manifest(&env);
        let (db, tree) = open(&env);
        tree.put(&i.to_be_bytes(), b"v").unwrap();
        let (number, len, writers) = manifest(&env);
        assert!(
            number == before.0 && len > before.1 && writers.len() > before.2.len(),
            "{before:?} {len} {writers:?}"
        );
        assert_eq!(writers.last(), Some(&newest_writer(&env)));
        drop((db, tree));
    }
    // A killed process has not closed its log. The next writer must not append after unsynced data.
    let (number, ..) = manifest(&env);
    let (_db, tree) = open(&env);
    tree.put(b"k", b"v").unwrap();
    let image = env.crash_image(0, &Cut::Process);
    let (_db, tree) = open(&image);
    assert_eq!(
        (manifest(&image).0, manifest(&image).2.last(), tree.iter().count()),
        (number + 1, Some(&newest_writer(&image)), 10)
    );
}

#[test]
fn a_manifest_that_grew_with_openings_is_begun_anew_now_and_then() {
    let env = CrashEnv::new(1);
    let (mut most, mut last) = (0, 0);
    for i in 0..400u32 {
        let (db, tree) = open(&env);
        tree.put(&i.to_be_bytes(), b"v").unwrap();
        // Without this, a busy machine leaves flushes, segments and their writers to later
        // openings.
        db.wait_idle().unwrap();
        drop((db, tree));
        let (number, len, _) = manifest(&env);
        (most, last) = (most.max(len), number);
    }
    assert!(most < 18 << 10 && (2..20).contains(&last), "{most} bytes, number {last}");
    assert_eq!(open(&env).1.iter().count(), 400);
}

#[test]
fn a_manifest_without_a_mark_at_its_end_is_begun_anew() {
    type Change = fn(&mut Vec<u8>);
    // The mark is not synced. A power cut may remove or replace it.
    let changes: [Change; 3] = [
        |b| b.truncate(b.len() - 8),
        |b| b.truncate(b.len() - 3),
        |b| b.iter_mut().rev().take(8).for_each(|b| *b = 0),
    ];
    for change in changes {
        let env = CrashEnv::new(1);
        let (db, tree) = open(&env);
        tree.put(b"k", b"v").unwrap();
        drop((db, tree));
        let (number, ..) = manifest(&env);
        let file = Path::new(DIR).join(manifest_name(number));
        let mut bytes = env.read_file(&file).unwrap();
        change(&mut bytes);
        env.write_file(&file, &bytes).unwrap();
        let (db, tree) = open(&env);
        tree.put(b"l", b"v").unwrap();
        drop((db, tree));
        assert_eq!((manifest(&env).0, open(&env).1.iter().count()), (number + 1, 2));
    }
}

/// Opens a store for one put and closes it, repeatedly. Power fails or the process ends at any
/// step.
#[test]
fn openings_and_closings_lose_nothing_wherever_they_are_cut_off() {
    let env = CrashEnv::new(1);
    drop(open(&env));
    env.start_journal();
    // Records the number of operations after which each put is acknowledged and durable.
    let mut marks = vec![];
    for i in 0..5u32 {
        let (db, tree) = open(&env);
        tree.put(&i.to_be_bytes(), b"v").unwrap();
        let put = env.journal_len();
        db.close().unwrap();
        marks.push((put, env.journal_len()));
    }
    let mut crasher = env.crasher();
    loop {
        let at = crasher.at();
        let acknowledged = marks.partition_point(|m| m.0 <= at);
        let durable = marks.partition_point(|m| m.1 <= at);
        for cut in
            [Cut::Process, Cut::PowerNone, Cut::PowerAll, Cut::PowerRandom(7), Cut::PowerRandom(8)]
        {
            let image = crasher.image(&cut);
            let least =
                if matches!(cut, Cut::Process | Cut::PowerAll) { acknowledged } else { durable };
            let words = format!("after {at} operations, {:?}: {cut:?}", crasher.last_op());
            let (db, tree) = open(&image);
            let found = tree.iter().count();
            assert!(found >= least && found <= marks.len(), "{words}: {found} of {least}");
            // The data found survives another opening and another power cut.
            tree.put(b"more", b"v").unwrap();
            drop((db, tree));
            let (db, tree) = open(&image.crash_image(0, &Cut::PowerNone));
            tree.put(b"and more", b"v").unwrap();
            assert_eq!(tree.iter().count(), found + 2, "{words}, opened again");
            drop((db, tree));
        }
        if !crasher.advance() {
            return;
        }
    }
}

/// A power cut may lose a flush's record of the log floor. The segment of an opening that read this
/// record may still exist. A crash enumeration found this case by luck.
#[test]
fn an_opening_after_a_crash_may_lose_power_at_any_step() {
    let env = CrashEnv::new(2);
    let (db, tree) = open(&env);
    env.start_journal();
    for i in 0..2u32 {
        tree.put(&i.to_be_bytes(), b"v").unwrap();
        tree.flush().unwrap();
        tree.put(&[1, i as u8], b"v").unwrap();
    }
    drop((db, tree));
    let mut crasher = env.crasher();
    let mut images = 0;
    loop {
        let image = crasher.image(&Cut::Process);
        image.start_journal();
        drop(open(&image));
        let mut during = image.crasher();
        loop {
            for cut in [Cut::PowerNone, Cut::PowerAll, Cut::PowerRandom(images)] {
                let words = format!(
                    "after {} operations, {:?}, then {} of the opening, {:?}: {cut:?}",
                    crasher.at(),
                    crasher.last_op(),
                    during.at(),
                    during.last_op()
                );
                let left = during.image(&cut);
                let options = DbOptions { event_log: false, ..DbOptions::default() };
                let db = Db::open_in(Arc::new(left), DIR, options)
                    .unwrap_or_else(|e| panic!("{words}: {e}"));
                let tree = db.tree("t", TreeOptions::default()).unwrap();
                tree.put(b"more", b"v").unwrap();
                db.close().unwrap();
                images += 1;
            }
            if !during.advance() {
                break;
            }
        }
        if !crasher.advance() {
            break;
        }
    }
    assert!(images > 500, "{images}");
}

#[test]
fn a_store_that_was_not_closed_is_begun_anew_at_once() {
    let env = CrashEnv::new(1);
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
    let env = CrashEnv::new(1);
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
    let env = CrashEnv::new(1);
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

/// Tests openings that open only some trees. The log retains the data of unopened trees, but not
/// forever.
#[test]
fn openings_that_do_not_open_every_tree_do_not_pile_up_segments() {
    let add = || TreeOptions { merge_operator: Some(Arc::new(Latest)), ..TreeOptions::default() };
    for (threads, closes, opens) in
        [(2, true, true), (2, false, false), (0, true, false), (0, false, true)]
    {
        let mut env = CrashEnv::new(1);
        let options =
            DbOptions { event_log: false, background_threads: threads, ..DbOptions::default() };
        {
            let db = Db::open_in(Arc::new(env.clone()), DIR, options.clone()).unwrap();
            db.tree("t", TreeOptions::default()).unwrap();
            let others = db.tree("others", add()).unwrap();
            others.put(b"a", b"1").unwrap();
            others.merge(b"a", b"2").unwrap();
        }
        for i in 0..150u32 {
            let db = Db::open_in(Arc::new(env.clone()), DIR, options.clone()).unwrap();
            let tree =
                if opens { db.tree("t", TreeOptions::default()) } else { db.existing_tree("t") }
                    .unwrap();
            tree.put(i.to_be_bytes(), b"v").unwrap();
            // Without this, a busy machine leaves the flush that an opening begins to later
            // openings.
            db.wait_idle().unwrap();
            if !closes {
                env = env.crash_image(0, &Cut::Process);
            }
            drop((tree, db));
            // The limit covers the tolerated segments, the segment of this opening, and prepared
            // segments that a crash leaves.
            assert!(
                space(&env).1 <= 48,
                "{threads} {closes} {opens} {i}: {} segments",
                space(&env).1
            );
        }
        let db = Db::open_in(Arc::new(env.clone()), DIR, options).unwrap();
        assert_eq!(db.existing_tree("t").unwrap().iter().count(), 150);
        assert_eq!(
            db.tree("others", add()).unwrap().get(b"a").unwrap().as_deref(),
            Some(&b"2"[..])
        );
    }
}

/// Merge operator that returns the newest operand.
#[derive(Debug)]
struct Latest;

impl MergeOperator for Latest {
    fn name(&self) -> &str {
        "latest"
    }
    fn full_merge(
        &self,
        _: &[u8],
        _: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> firn_kv::Result<MergeResult> {
        Ok(MergeResult::Value(operands.last().unwrap().to_vec()))
    }
}

#[test]
fn a_small_store_has_no_threads() {
    let env = FaultEnv::new(Arc::new(CrashEnv::new(1)));
    env.only(&[OpClass::Spawn]);
    for _ in 0..2 {
        let (_db, tree) = open_in(Arc::new(env.clone()));
        // This is so little that the next opening replays it on one thread, also in a debug build.
        (0..50u32).for_each(|i| tree.put(&i.to_be_bytes(), &[7; 100]).unwrap());
        assert_eq!((tree.iter().count(), env.count()), (50, 0));
    }
    // A full memtable must be flushed.
    let (db, tree) = open_in(Arc::new(env.clone()));
    (0..4000u32).for_each(|i| tree.put(&i.to_be_bytes(), &[7; 100]).unwrap());
    assert_eq!(env.count(), DbOptions::default().background_threads as u64);
    db.wait_idle().unwrap();
    assert!(db.stats().flushes > 0);
}

#[test]
fn files_of_others_that_begin_with_a_dot_do_not_keep_a_store_away() {
    let env = CrashEnv::new(1);
    env.create_dir_all(Path::new(DIR)).unwrap();
    env.write_file(&Path::new(DIR).join(".DS_Store"), b"theirs").unwrap();
    drop(open(&env));
    drop(open(&env));
    assert_eq!(env.read_file(&Path::new(DIR).join(".DS_Store")).unwrap(), b"theirs");
    let other = CrashEnv::new(1);
    other.create_dir_all(Path::new(DIR)).unwrap();
    other.write_file(&Path::new(DIR).join("notes.txt"), b"theirs").unwrap();
    let e = Db::open_in(Arc::new(other), DIR, DbOptions::default()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn the_first_flush_of_an_opening_loses_nothing_wherever_it_is_cut_off() {
    let env = CrashEnv::new(1);
    let (db, tree) = open(&env);
    (0..50u32).for_each(|i| tree.put(&i.to_be_bytes(), b"v").unwrap());
    drop((db, tree));
    let (_db, tree) = open(&env);
    env.start_journal();
    tree.flush().unwrap();
    holds_wherever_it_is_cut_off(&env, 50);
}

/// Opens the store after a crash at each operation of the journal, and checks the number of
/// entries.
fn holds_wherever_it_is_cut_off(env: &CrashEnv, least: usize) {
    let mut crasher = env.crasher();
    loop {
        for cut in [Cut::Process, Cut::PowerNone, Cut::PowerAll, Cut::PowerRandom(7)] {
            let (_db, tree) = open(&crasher.image(&cut));
            let n = tree.iter().count();
            assert!(
                n == least || n == least + 1,
                "{n} after {} operations, {:?}: {cut:?}",
                crasher.at(),
                crasher.last_op()
            );
        }
        if !crasher.advance() {
            return;
        }
    }
}

#[test]
fn an_opening_that_flushes_what_others_left_in_the_log_loses_nothing_wherever_it_is_cut_off() {
    let env = CrashEnv::new(1);
    drop(open(&env));
    let options = DbOptions { event_log: false, background_threads: 0, ..DbOptions::default() };
    for i in 0..100u32 {
        env.start_journal();
        let db = Db::open_in(Arc::new(env.clone()), DIR, options.clone()).unwrap();
        db.existing_tree("t").unwrap().put(i.to_be_bytes(), b"v").unwrap();
        if db.stats().flushes > 0 {
            return holds_wherever_it_is_cut_off(&env, i as usize);
        }
        env.stop_journal();
    }
    panic!("no opening has flushed");
}

#[test]
fn small_memtables_of_many_trees_are_flushed_together() {
    let env = CrashEnv::new(1);
    let options = DbOptions {
        event_log: false,
        background_threads: 0,
        memory_budget: 1 << 20,
        ..DbOptions::default()
    };
    let db = Db::open_in(Arc::new(env.clone()), DIR, options.clone()).unwrap();
    // No compaction runs.
    let kept = || TreeOptions {
        policy: Policy::Fifo(Fifo { max_bytes: 0, max_age_secs: 0, ..Fifo::default() }),
        ..TreeOptions::default()
    };
    let trees: Vec<Tree> = (0..200).map(|i| db.tree(&format!("t{i}"), kept()).unwrap()).collect();
    let told = told(&env, || {
        for i in 0..2_000u64 {
            trees[i as usize * 7 % trees.len()].put(i.to_be_bytes(), [7; 500]).unwrap();
        }
    });
    let flushes = db.stats().flushes as usize;
    let of =
        |what: &str| told.iter().filter(|op| op.starts_with("sync") && op.contains(what)).count();
    let (manifest, log, names) = (of("MANIFEST"), of(".wal"), of("directory"));
    assert!(
        flushes > 100 && 3 * manifest < flushes && 3 * log < flushes && 3 * names < flushes,
        "{flushes}: {manifest} {log} {names}"
    );
    drop((db, trees));
    let db = Db::open_in(Arc::new(env), DIR, options).unwrap();
    let found: usize =
        db.tree_names().iter().map(|n| db.existing_tree(n).unwrap().iter().count()).sum();
    assert_eq!(found, 2_000);
}
