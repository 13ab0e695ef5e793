//! The system temporarily refuses disk space, file descriptors or memory. No acknowledged write is
//! lost, no error becomes permanent, no thread waits forever, and no file is left over. The store
//! recovers by itself when the resource is available again. Calls that fail midway leave no traces.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_crash::{CrashEnv, Cut, Fault, FaultEnv, OpClass};
use firn_kv::Env;
use firn_kv::internals::manifest::Manifest;
use firn_kv::policy::Tiered;
use firn_kv::{
    Batch, Db, DbOptions, Durability, Error, ErrorKind, Policy, Result, Tree, TreeOptions,
};
use firn_testkit::rng::Rng;

use crate::encrypted;
mod env;
use env::Refusing;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EMFILE: i32 = 24;
const ENOMEM: i32 = 12;

fn error(number: i32) -> Option<io::Error> {
    Some(io::Error::from_raw_os_error(number))
}

fn kind(number: i32) -> ErrorKind {
    if number == ENOSPC { ErrorKind::NoSpace } else { ErrorKind::Exhausted }
}

fn ends_with(path: &Path, end: &str) -> bool {
    path.to_string_lossy().ends_with(end)
}

fn is_manifest(path: &Path) -> bool {
    path.to_string_lossy().contains("MANIFEST")
}

fn db_options(threads: usize) -> DbOptions {
    DbOptions {
        memory_budget: 1 << 20,
        background_threads: threads,
        wal_segment: 64 << 10,
        event_log: false,
        ..DbOptions::default()
    }
}

fn tree_options() -> TreeOptions {
    let policy =
        Policy::Tiered(Tiered { min_runs: 64, max_runs: 64, bucket: 2.0, ..Tiered::default() });
    TreeOptions { memtable_size: 64 << 10, table_size: 64 << 10, policy, ..TreeOptions::default() }
}

fn open(env: &Refusing, threads: usize) -> (Db, Tree) {
    let db = Db::open_in(Arc::new(env.clone()), "/db", db_options(threads)).unwrap();
    let tree = db.tree("t", tree_options()).unwrap();
    (db, tree)
}

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

/// Puts keys until a put fails. Returns the first key that was not acknowledged, and the error.
fn fill(tree: &Tree, from: u32) -> (u32, Error) {
    for i in from.. {
        if let Err(e) = tree.put(&key(i), &[7; 1000]) {
            return (i, e);
        }
        assert!(i < from + 100_000, "no put was refused");
    }
    unreachable!()
}

/// Checks that exactly the keys below `n` exist: now, after a process crash, and after a power cut
/// that follows a sync. Checks that only live table files exist.
fn check(env: &Refusing, db: &Db, tree: &Tree, n: u32) {
    let all = |t: &Tree| t.iter().map(|i| i.unwrap().0.to_vec()).collect::<Vec<_>>();
    let want: Vec<_> = (0..n).map(|i| key(i).to_vec()).collect();
    assert!(all(tree) == want, "{} keys instead of {n}", all(tree).len());
    db.sync().unwrap();
    db.wait_idle().unwrap();
    let live = tree.tables().unwrap().len();
    let names = env.list(Path::new("/db")).unwrap();
    assert_eq!(names.iter().filter(|n| n.ends_with(".sst")).count(), live, "{names:?}");
    assert!(
        names.iter().filter(|n| n.starts_with("MANIFEST") || n.starts_with("CURRENT")).count() == 2,
        "{names:?}"
    );
    for cut in [Cut::Process, Cut::PowerNone] {
        let image = env.inner.crash_image(0, &cut);
        let db = Db::open_in(Arc::new(image), "/db", db_options(0)).unwrap();
        assert!(all(&db.existing_tree("t").unwrap()) == want);
        assert!(db.verify(|_, _| {}).unwrap().errors.is_empty());
    }
}

/// Waits until postponed background work is done.
fn recover(db: &Db) {
    for _ in 0..100_000 {
        match db.wait_idle() {
            Ok(()) => return,
            Err(e) => assert!(e.is_transient(), "{e}"),
        }
    }
    panic!("the store does not recover");
}

/// Fails each step of a flush in turn: the table's file, its content, the directory, the manifest.
#[test]
fn puts_are_refused_while_flushes_lack_something_and_the_store_goes_on_by_itself() {
    type Which = fn(&str, &Path) -> bool;
    let rules: [(&str, Which, i32); 7] = [
        (
            "tables cannot be written",
            |what, path| what == "write" && ends_with(path, ".sst"),
            ENOSPC,
        ),
        ("tables cannot be made", |what, path| what == "create" && ends_with(path, ".sst"), EMFILE),
        ("the directory cannot be opened", |what, _| what == "sync_dir", EMFILE),
        (
            "the manifest cannot be written",
            |what, path| what == "write" && is_manifest(path),
            ENOSPC,
        ),
        ("segments cannot be made", |what, _| what == "log", ENOSPC),
        ("segments cannot be mapped", |what, _| what == "log", ENOMEM),
        (
            "nothing can be opened or made",
            |what, _| matches!(what, "log" | "create" | "open" | "sync_dir"),
            EMFILE,
        ),
    ];
    for threads in [0, 1, 2] {
        for (name, which, number) in &rules {
            let env = Refusing::new();
            let (db, tree) = open(&env, threads);
            let (which, number) = (*which, *number);
            env.refuse(move |what, path| error(number).filter(|_| which(what, path)));
            let (n, e) = fill(&tree, 0);
            assert_eq!(e.kind(), kind(number), "{name}, {threads} threads: {e}");
            assert!(n > 10, "{name}: memtables must accept writes until they are full");
            // No caller waits for work that cannot succeed, and reads still work.
            if let Err(e) = db.wait_idle() {
                assert_eq!(e.kind(), kind(number), "{name}: {e}");
            }
            assert_eq!(tree.get(&key(n - 1)).unwrap().as_deref(), Some(&[7; 1000][..]), "{name}");
            let (m, e) = fill(&tree, n);
            assert_eq!((m, e.kind()), (n, kind(number)), "{name}: {e}");
            env.allow();
            for i in n..n + 300 {
                // Workers may not yet have noticed that the resource is available.
                while let Err(e) = tree.put(&key(i), &[7; 1000]) {
                    assert!(threads > 0 && e.is_transient(), "{name}, {threads} threads: {e}");
                }
            }
            recover(&db);
            check(&env, &db, &tree, n + 300);
        }
    }
}

/// The manifest write of a flush fails repeatedly, and succeeds in between.
#[test]
fn a_torn_manifest_is_begun_anew() {
    let env = Refusing::new();
    let (db, tree) = open(&env, 0);
    let mut n = 0;
    for round in 0..20 {
        let mut writes = round % 4;
        env.refuse(move |what, path| {
            writes -= (what == "write" && is_manifest(path)) as i32;
            error(ENOSPC).filter(|_| what == "write" && is_manifest(path) && writes < 0)
        });
        for _ in 0..10 {
            tree.put(&key(n), b"v").unwrap();
            n += 1;
        }
        if let Err(e) = tree.flush() {
            assert_eq!(e.kind(), ErrorKind::NoSpace);
        }
        let other = db.tree(&format!("tree{round}"), tree_options());
        assert!(other.err().is_none_or(|e| e.kind() == ErrorKind::NoSpace));
        env.allow();
        if round % 2 == 0 {
            tree.flush().unwrap();
        }
        db.tree(&format!("tree{round}"), tree_options()).unwrap();
        check(&env, &db, &tree, n);
    }
}

/// A flush that finds a torn manifest first begins a new one, and power fails at any step of both.
/// No manifest may contain the new log floor before the tables that replace the log below it.
#[test]
fn a_flush_that_begins_a_manifest_anew_loses_nothing_wherever_it_is_cut_off() {
    let env = Refusing::new();
    let (_db, tree) = open(&env, 0);
    (0..50).for_each(|n| tree.put(&key(n), b"v").unwrap());
    env.refuse(|what, path| error(ENOSPC).filter(|_| what == "write" && is_manifest(path)));
    assert_eq!(tree.flush().unwrap_err().kind(), ErrorKind::NoSpace);
    env.allow();
    env.inner.start_journal();
    tree.flush().unwrap();
    let mut crasher = env.inner.crasher();
    loop {
        for cut in [Cut::Process, Cut::PowerAll] {
            let image = Refusing::over(crasher.image(&cut));
            let (_db, tree) = open(&image, 0);
            let found = tree.iter().count();
            assert_eq!(
                found,
                50,
                "after {} operations, {:?}: {cut:?}",
                crasher.at(),
                crasher.last_op()
            );
        }
        if !crasher.advance() {
            return;
        }
    }
}

/// A closed store is opened, and the disk is full when the first write adds its writer to the
/// manifest. This tears the manifest, so the next attempt begins a new one. Power fails at any step
/// of both attempts, and of closing without a second attempt.
#[test]
fn an_opening_that_finds_no_space_in_the_manifest_begins_another_one() {
    for what in ["write", "append"] {
        for tries in [true, false] {
            let env = Refusing::new();
            let (db, tree) = open(&env, 0);
            (0..50).for_each(|n| tree.put(&key(n), b"v").unwrap());
            drop((db, tree));
            let (db, tree) = open(&env, 0);
            env.inner.start_journal();
            // If the manifest cannot be opened for appending, the store begins a new one. The disk
            // has no space for that either.
            env.refuse(move |asked, path| {
                error(ENOSPC).filter(|_| {
                    is_manifest(path) && (asked == what || what == "append" && asked == "create")
                })
            });
            for n in 0..2 {
                assert_eq!(
                    tree.put(&key(50), b"v").unwrap_err().kind(),
                    ErrorKind::NoSpace,
                    "{what} {n}"
                );
            }
            env.allow();
            if tries {
                tree.put(&key(50), b"v").unwrap();
            }
            drop((db, tree));
            let mut crasher = env.inner.crasher();
            loop {
                for cut in [Cut::Process, Cut::PowerAll, Cut::PowerNone] {
                    let image = Refusing::over(crasher.image(&cut));
                    let (_db, tree) = open(&image, 0);
                    let found = tree.iter().count();
                    assert!(
                        found == 50 || found == 51 && tries,
                        "after {} operations: {cut:?}: {found}",
                        crasher.at()
                    );
                }
                if !crasher.advance() {
                    break;
                }
            }
            let (db, tree) = open(&env, 0);
            assert_eq!(tree.iter().count(), 50 + tries as usize);
            tree.put(&key(60), b"v").unwrap();
            drop((db, tree));
            assert_eq!(open(&env, 0).1.iter().count(), 51 + tries as usize);
        }
    }
}

/// A manifest frame whose sync failed looks like any other. No later opening may append after it,
/// because its writer did not close the log.
#[test]
fn nothing_is_appended_after_a_frame_whose_sync_failed() {
    let env = Refusing::new();
    let number = || Manifest::load(&*env.inner, Path::new("/db")).unwrap().unwrap().1;
    let (db, tree) = open(&env, 0);
    tree.put(&key(1), b"v").unwrap();
    drop((db, tree));
    let before = number();
    let (db, tree) = open(&env, 0);
    tree.put(&key(2), b"v").unwrap();
    assert_eq!(number(), before, "the store must append to the existing manifest");
    env.refuse(|what, path| error(EIO).filter(|_| what == "sync" && is_manifest(path)));
    assert!(db.tree("another", tree_options()).is_err());
    env.allow();
    assert!(db.close().is_err());
    drop((db, tree));
    let (_db, tree) = open(&env, 0);
    assert_eq!((number(), tree.iter().count()), (before + 1, 2));
}

/// The flush of one tree has no space, while the other tree continues.
#[test]
fn a_tree_that_cannot_be_flushed_does_not_stop_another() {
    for threads in [0, 1, 2] {
        let env = Refusing::new();
        // The memory budget has room for the whole large memtable.
        let options = DbOptions { memory_budget: 4 << 20, ..db_options(threads) };
        let db = Db::open_in(Arc::new(env.clone()), "/db", options).unwrap();
        let large = TreeOptions { memtable_size: 1 << 20, table_size: 8 << 20, ..tree_options() };
        let large = db.tree("large", large).unwrap();
        let other = db.tree("other", tree_options()).unwrap();
        // A large table is written in several parts, a small one in one.
        let mut writes = HashMap::new();
        env.refuse(move |what, path| {
            let n = writes.entry(path.to_path_buf()).or_insert(0);
            *n += (what == "write" && ends_with(path, ".sst")) as u32;
            error(ENOSPC).filter(|_| *n > 1)
        });
        let mut rng = Rng::new(1);
        for i in 0..1200 {
            let mut value = [0; 1000];
            rng.fill(&mut value);
            large.put(&key(i), &value).unwrap();
        }
        assert!(threads > 0 || large.tables().unwrap().is_empty(), "its flush must have no space");
        for i in 0..500 {
            let mut tries = 0;
            while let Err(e) = other.put(&key(i), &[7; 1000]) {
                assert!(e.is_transient(), "{e}");
                tries += 1;
                assert!(tries < 1000, "writes to the other tree stalled");
            }
        }
        env.allow();
        recover(&db);
        assert_eq!((other.iter().count(), large.iter().count()), (500, 1200));
        assert_eq!(db.verify(|_, _| {}).unwrap().errors.len(), 0);
    }
}

/// Fails every operation of every call that creates files, one at a time. Nothing is half done, no
/// file is left over, and the next attempt succeeds.
#[test]
fn calls_that_fail_half_way_leave_no_files() {
    type Call = fn(&Db, &Tree) -> Result<()>;
    let calls: [(&str, Call); 5] = [
        ("ingest", |_, t| {
            t.ingest((1000..1300u32).map(|i| (i.to_be_bytes(), [1; 500]))).map(|_| ())
        }),
        ("import", |_, t| t.import("/export.sst").map(|_| ())),
        ("export", |_, t| t.export(.., "/out.sst").map(|_| ())),
        ("checkpoint", |db, _| db.checkpoint("/copy").map(|_| ())),
        ("drop_range", |_, t| t.drop_range(&key(0)..&key(5))),
    ];
    for (name, call) in calls {
        for number in [ENOSPC, EMFILE] {
            for nth in 0.. {
                let env = Refusing::new();
                let (db, tree) = open(&env, 0);
                (0..50).for_each(|i| tree.put(&key(i), b"v").unwrap());
                tree.flush().unwrap();
                (0..50).for_each(|i| tree.put(&key(i), b"v").unwrap());
                tree.export(.., "/export.sst").unwrap();
                let dump = |t: &Tree| {
                    t.iter()
                        .map(|i| i.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
                        .collect::<Vec<_>>()
                };
                let before = dump(&tree);
                let mut left = nth;
                // A failed sync of the log or the manifest makes the store read-only. Syncs are
                // therefore excluded.
                let is_one = |what: &str, _: &Path| !matches!(what, "sync" | "rename");
                env.refuse(move |what, path| {
                    left -= is_one(what, path) as i32;
                    error(number).filter(|_| left < 0 && is_one(what, path))
                });
                let done = call(&db, &tree);
                env.allow();
                let what = format!("{name}, operation {nth}, error {number}");
                match &done {
                    Ok(()) => {}
                    Err(e) => {
                        assert_eq!(e.kind(), kind(number), "{what}: {e}");
                        let now = dump(&tree);
                        // `drop_range` first deletes the range.
                        assert!(
                            now == before || name == "drop_range" && now.len() + 5 == before.len(),
                            "{what}"
                        );
                        assert!(
                            env.file_len(Path::new("/out.sst")).is_err(),
                            "{what}: a partial file is left"
                        );
                        let copy = env.list(Path::new("/copy")).unwrap_or_default();
                        assert!(copy.is_empty(), "{what}: {copy:?}");
                        let names = env.list(Path::new("/db")).unwrap();
                        let live = tree.tables().unwrap().len();
                        assert_eq!(
                            names.iter().filter(|n| n.ends_with(".sst")).count(),
                            live,
                            "{what}: {names:?}"
                        );
                        call(&db, &tree)
                            .unwrap_or_else(|e| panic!("{what}, on the second attempt: {e}"));
                    }
                }
                tree.put(b"after", b"v").unwrap();
                let after = dump(&tree);
                drop((tree, db));
                assert_eq!(dump(&open(&env, 0).1), after, "{what}");
                if done.is_ok() {
                    assert!(nth > 0, "{name} does nothing that can fail");
                    break;
                }
            }
        }
    }
}

/// A child process created by `fork()` cannot write in any way. Closing the store in the child
/// changes nothing.
#[test]
fn a_forked_child_changes_nothing() {
    let env = Refusing::new();
    let (db, tree) = open(&env, 0);
    (0..10).for_each(|i| tree.put(&key(i), b"v").unwrap());
    tree.flush().unwrap();
    tree.put(&key(10), b"v").unwrap();
    let files = |env: &Refusing| {
        let names = env.list(Path::new("/db")).unwrap();
        names
            .into_iter()
            .map(|n| (env.read_all(&Path::new("/db").join(&n), 1 << 30).unwrap(), n))
            .collect::<Vec<_>>()
    };
    let before = files(&env);
    env.forked.store(true, Ordering::Relaxed);
    let mut batch = Batch::new();
    batch.put(&tree, b"k", b"v").unwrap();
    let mut tx = db.transaction();
    tx.put(&tree, b"k", b"v").unwrap();
    let refused = [
        tree.put(b"k", b"v"),
        tree.delete(b"k"),
        tree.delete_range("a".."z"),
        tree.drop_range("a".."z"),
        db.write(batch),
        tx.commit(),
        tree.flush(),
        tree.compact(),
        tree.ingest([(b"k", b"v")]).map(|_| ()),
        db.tree("new", tree_options()).map(|_| ()),
        db.drop_tree("t"),
        db.checkpoint("/copy").map(|_| ()),
        db.sync(),
        db.wait_idle(),
    ];
    for (i, done) in refused.into_iter().enumerate() {
        let e = done.expect_err(&format!("call {i}"));
        assert!(e.kind() == ErrorKind::ReadOnly && e.message().contains("fork"), "call {i}: {e}");
    }
    assert_eq!(tree.iter().count(), 11, "the child may read");
    drop((tree, db));
    assert!(files(&env) == before, "the child has changed files");
    env.forked.store(false, Ordering::Relaxed);
    let (_db, tree) = open(&env, 0);
    assert_eq!(tree.iter().count(), 11);
}

/// A handle that only reads refuses every change, sees the writes of the others, and does not close
/// the store.
#[test]
fn a_reading_handle_changes_nothing() {
    let env = Refusing::new();
    let (db, tree) = open(&env, 0);
    (0..10).for_each(|i| tree.put(&key(i), b"v").unwrap());
    let reader = db.reader();
    assert!(reader.is_read_only() && reader.reader().is_read_only() && !db.is_read_only());
    let seen = reader.tree("t", tree_options()).unwrap();
    db.ttl_tree("sessions", TreeOptions::default()).unwrap();
    let ttl = reader.ttl_tree("sessions", TreeOptions::default()).unwrap();
    let mut batch = Batch::new();
    batch.put(&seen, b"k", b"v").unwrap();
    let mut tx = reader.transaction();
    tx.put(&seen, b"k", b"v").unwrap();
    tree.export(.., "/export.sst").unwrap();
    let refused = [
        seen.put(b"k", b"v"),
        seen.delete(b"k"),
        seen.delete_range("a".."z"),
        seen.clear(),
        seen.drop_range("a".."z"),
        seen.pop_first().map(|_| ()),
        seen.pop_last().map(|_| ()),
        seen.insert_if_absent(b"k", b"v").map(|_| ()),
        seen.compare_and_swap(b"k", None, Some(b"v")).map(|_| ()),
        seen.update(b"k", |_| Some("v")).map(|_| ()),
        seen.with_durability(Durability::Power).put(b"k", b"v"),
        seen.db().write(batch),
        tx.commit(),
        reader.transact(|tx| tx.put(&seen, b"k", b"v")),
        ttl.put(b"k", b"v"),
        seen.ingest([(b"k", b"v")]).map(|_| ()),
        seen.import("/export.sst").map(|_| ()),
        seen.set_options(TreeOptions { block_size: 8192, ..seen.options() }),
        reader.tree("new", tree_options()).map(|_| ()),
        reader.drop_tree("t"),
        reader.subscribe("s", 1 << 20).map(|_| ()),
        reader.drop_subscription("s"),
        reader.upgrade_format().map(|_| ()),
    ];
    for (i, done) in refused.into_iter().enumerate() {
        let e = done.expect_err(&format!("call {i}"));
        assert!(
            e.kind() == ErrorKind::ReadOnly && e.message().contains("only reads"),
            "call {i}: {e}"
        );
    }
    assert!(seen.compare_and_swap(&key(1), Some(b"v"), Some(b"w")).is_err());
    assert_eq!((tree.iter().count(), db.tree_names().len()), (10, 2));
    tree.put(b"k", b"v").unwrap();
    assert_eq!(seen.get(b"k").unwrap().unwrap(), "v");
    assert_eq!(reader.snapshot().seq(), 11);
    reader.close().unwrap();
    drop(reader);
    tree.put(b"l", b"v").unwrap();
    drop((db, tree, ttl));
    assert_eq!(seen.iter().count(), 12, "it keeps the store open");
}

/// Only the parent may write the partial last slot that an encrypted file buffers.
#[test]
fn a_forked_child_seals_nothing() {
    let (env, path) = (Refusing::new(), Path::new("/f"));
    let mut file = encrypted::Encrypted::new(Arc::new(env.clone()), [1; 32]).create(path).unwrap();
    file.append(b"the parent's").unwrap();
    let before = env.read_all(path, 1 << 20).unwrap();
    env.forked.store(true, Ordering::Relaxed);
    drop(file);
    assert!(env.read_all(path, 1 << 20).unwrap() == before);
}

/// A failed sync for lack of space makes the store read-only and reports that. A transient error
/// would imply that nothing was written.
#[test]
fn a_write_that_lacks_space_for_its_sync_is_not_said_to_have_done_nothing() {
    let inner = Arc::new(CrashEnv::new(1));
    let env = FaultEnv::new(inner.clone());
    env.only(&[OpClass::Sync]);
    let db = Db::open_in(Arc::new(env.clone()), "db", db_options(0)).unwrap();
    let tree = db.tree("t", tree_options()).unwrap();
    tree.put(b"before", b"1").unwrap();
    env.fail_nth(env.count(), Fault::Enospc);
    let said = tree.with_durability(firn_kv::Durability::Power).put(b"unknown", b"1").unwrap_err();
    assert_eq!((said.kind(), env.injected()), (ErrorKind::ReadOnly, 1), "{said}");
    assert!(said.to_string().contains("read-only since a failure"), "{said}");
    assert_eq!(tree.put(b"after", b"1").unwrap_err().kind(), ErrorKind::ReadOnly);
    drop((tree, db));
    let tree = Db::open_in(inner, "db", db_options(0)).unwrap().tree("t", tree_options()).unwrap();
    assert!(tree.contains(b"before").unwrap() && !tree.contains(b"after").unwrap());
}

/// The disk is full except for the store's reserve. Puts may not use the reserve, but operations
/// that free space may. This holds for an opening that wrote before and for a new one.
#[test]
fn what_frees_space_may_use_the_reserve_of_a_store_on_a_full_disk() {
    type Frees = fn(&Db, &Tree) -> Result<()>;
    let ways: [(&str, Frees); 5] = [
        ("a deletion", |_, tree| tree.delete(key(1))),
        ("a range deletion", |_, tree| tree.delete_range(..).and_then(|()| tree.compact())),
        ("a batch of deletions", |db, tree| {
            let mut batch = Batch::new();
            batch.delete(tree, key(1))?;
            batch.delete_range(tree, key(2)..)?;
            db.write(batch)
        }),
        ("a compaction", |_, tree| tree.compact()),
        ("the removal of a tree", |db, _| db.drop_tree("t")),
    ];
    let reserve = Path::new("/db/RESERVE");
    let options = || DbOptions { memory_budget: 64 << 20, ..db_options(0) };
    for (name, frees) in ways {
        for is_new in [false, true] {
            let env = Refusing::new();
            let db = Db::open_in(Arc::new(env.clone()), "/db", options()).unwrap();
            let large = TreeOptions { memtable_size: 32 << 20, ..tree_options() };
            let mut tree = db.tree("t", large).unwrap();
            let mut value = vec![0; 1 << 20];
            for run in 0..2 {
                assert!(
                    env.file_len(reserve).is_err(),
                    "{name}: a small store must have no reserve"
                );
                for i in 0..17 {
                    Rng::new(run * 17 + i).fill(&mut value);
                    tree.put(key(i as u32), &value).unwrap();
                }
                tree.flush().unwrap();
            }
            assert_eq!(env.file_len(reserve).unwrap(), 512 << 10, "{name}");
            let inner = env.inner.clone();
            // The released reserve is too small to create a reserve of the same size again.
            env.refuse(move |what, path| {
                let grows = matches!(what, "write" | "log" | "create");
                let is_full = inner.file_len(reserve).is_ok() || path == reserve;
                error(ENOSPC).filter(|_| grows && is_full)
            });
            let mut db = db;
            if is_new {
                // The log was not closed, so opening for writing needs space too.
                drop((tree, db));
                db = Db::open_in(Arc::new(env.clone()), "/db", options()).unwrap();
                assert!(env.file_len(reserve).is_err());
                tree = db.existing_tree("t").unwrap();
            } else {
                let (_, e) = fill(&tree, 100);
                assert_eq!(e.kind(), ErrorKind::NoSpace, "{name}: {e}");
                assert!(env.file_len(reserve).is_ok(), "{name}: a put used the reserve");
            }
            frees(&db, &tree).unwrap_or_else(|e| panic!("{name}, new {is_new}: {e}"));
            assert!(env.file_len(reserve).is_err(), "{name}");
            if name == "a range deletion" {
                assert_eq!(db.stats().table_bytes(), 0);
            }
            // The store accepts writes again.
            let other = db.tree("other", tree_options()).unwrap();
            other.put(key(1), b"v").unwrap();
            db.close().unwrap();
        }
    }
}
