//! Stores with more tables than file descriptors. Reads and writes work although files are closed
//! in between, and errors of reopening a file are reported.
// The tests remove the directories that they created.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::OsEnv;
use firn_kv::fs::{FileMap, ReadFile};
use firn_kv::policy::Fifo;
use firn_kv::{
    Compression, Db, DbOptions, Error, ErrorKind, OpenFiles, Policy, ReadMode, Result, Tree,
    TreeOptions,
};
use firn_testkit::as_inside;
use firn_testkit::process::check as check_process;

/// Current and maximum number of open table files.
#[derive(Default)]
struct Count {
    now: AtomicU64,
    most: AtomicU64,
}

impl Count {
    fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    fn most(&self) -> u64 {
        self.most.load(Ordering::SeqCst)
    }
}

/// Environment that counts open table files.
struct Counting {
    inner: Arc<dyn Env>,
    count: Arc<Count>,
    /// Whether opening a table fails with [`ErrorKind::Exhausted`].
    full: AtomicBool,
}

impl Counting {
    fn new(inner: Arc<dyn Env>) -> Arc<Counting> {
        Arc::new(Counting { inner, count: Arc::default(), full: AtomicBool::new(false) })
    }
}

struct Counted {
    inner: Arc<dyn ReadFile>,
    count: Arc<Count>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ReadFile for Counted {
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, buf)
    }
    fn map(&self) -> Option<Arc<dyn FileMap>> {
        self.inner.map()
    }
}

impl Env for Counting {
    as_inside! {
        inner: create_dir_all list sync_dir file_len read_all create append create_log reuse_log rename hard_link remove
        remove_dir lock free_space memory wall_micros monotonic_nanos sleep spawn random
    }

    fn open_read(&self, file: &Path, map: bool) -> Result<Arc<dyn ReadFile>> {
        if file.extension().is_none_or(|e| e != "sst") {
            return self.inner.open_read(file, map);
        }
        if self.full.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Exhausted, "no descriptors").in_file(file));
        }
        let inner = self.inner.open_read(file, map)?;
        let now = self.count.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.count.most.fetch_max(now, Ordering::SeqCst);
        Ok(Arc::new(Counted { inner, count: self.count.clone() }))
    }
}

fn options(most: u64, mode: ReadMode) -> DbOptions {
    DbOptions {
        background_threads: 0,
        memory_budget: 1 << 20,
        wal_segment: 64 << 10,
        event_log: false,
        read_mode: mode,
        open_files: Some(OpenFiles::new(most)),
        ..DbOptions::default()
    }
}

/// Returns options under which each flush stays a separate table.
fn piling(compression: Compression) -> TreeOptions {
    let policy = Policy::Fifo(Fifo { max_bytes: 0, max_age_secs: 0, ..Fifo::default() });
    TreeOptions {
        policy,
        compression: vec![compression],
        block_size: 512,
        ..TreeOptions::default()
    }
}

fn key(tree: u64, flush: u64, n: u64) -> [u8; 24] {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&(n * 1009 % 64).to_be_bytes());
    key[8..16].copy_from_slice(&flush.to_be_bytes());
    key[16..].copy_from_slice(&tree.to_be_bytes());
    key
}

const KEYS: u64 = 8;

/// Returns a value that compresses to half of its length. The cache cannot hold all values
/// together.
fn value(tree: u64, flush: u64, n: u64) -> Vec<u8> {
    let seed = tree * 1_000_003 + flush * 1009 + n;
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let half: Vec<u8> = (0..450)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        })
        .collect();
    [&half[..], &half].concat()
}

/// Creates `trees` trees of `flushes` tables each.
fn fill(db: &Db, trees: u64, flushes: u64, compression: Compression) -> Vec<Tree> {
    let all: Vec<Tree> =
        (0..trees).map(|t| db.tree(&format!("t{t}"), piling(compression)).unwrap()).collect();
    for (t, tree) in (0..).zip(&all) {
        for f in 0..flushes {
            (0..KEYS).for_each(|n| tree.put(key(t, f, n), value(t, f, n)).unwrap());
            tree.flush().unwrap();
        }
    }
    all
}

fn check(trees: &[Tree], flushes: u64) {
    for n in 0..KEYS {
        for f in 0..flushes {
            for (t, tree) in (0..).zip(trees) {
                assert_eq!(
                    *tree.get(key(t, f, n)).unwrap().unwrap(),
                    value(t, f, n)[..],
                    "{t} {f} {n}"
                );
            }
        }
    }
}

/// Compacts the tree into one table.
fn merge(tree: &Tree, compression: Compression) {
    tree.set_options(TreeOptions { policy: Policy::default(), ..piling(compression) }).unwrap();
    tree.compact().unwrap();
}

fn content(tree: &Tree) -> BTreeMap<Vec<u8>, Vec<u8>> {
    tree.iter().map(|item| item.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect()
}

fn dir(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("firn-files-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

const MODES: [(ReadMode, Compression); 5] = [
    (ReadMode::Pread, Compression::Lz4),
    (ReadMode::Pread, Compression::None),
    (ReadMode::Auto, Compression::Lz4),
    (ReadMode::Auto, Compression::None),
    (ReadMode::Mmap, Compression::Lz4),
];

#[test]
fn no_more_files_are_open_than_the_bound_says() {
    for (mode, compression) in [MODES[0], MODES[3], MODES[4]] {
        let mem = MemEnv::new(1);
        mem.set_memory(Some(1 << 30));
        let env = Counting::new(Arc::new(mem));
        let options = options(16, mode);
        let bound = options.open_files.clone().unwrap();
        let db = Db::open_in(env.clone(), "/db", options.clone()).unwrap();
        let trees = fill(&db, 10, 31, compression);
        check(&trees, 31);
        // An iterator is positioned in all tables of its tree at once.
        let whole: usize = trees.iter().map(|t| content(t).len()).sum();
        assert_eq!(whole as u64, 310 * KEYS, "{mode:?}");
        let stats = db.stats();
        assert_eq!(stats.trees.iter().flat_map(|t| &t.runs).map(|r| r.tables).sum::<usize>(), 310);
        assert!(env.count.most() <= 16, "{mode:?}: {} files were open", env.count.most());
        assert_eq!(
            (stats.files.open, stats.files.shared_open, stats.files.limit),
            (env.count.now(), bound.open_count(), 16)
        );
        // Tables in memory need no file.
        let read = mode == ReadMode::Pread;
        assert_eq!(stats.files.reopened > 100, read, "{mode:?}: {:?}", stats.files);
        db.checkpoint("/copy").unwrap();
        let copy = Db::open_in(env.clone(), "/copy", options.clone()).unwrap();
        assert_eq!(content(&copy.existing_tree("t3").unwrap()), content(&trees[3]));
        assert_eq!(db.stats().files.shared_open, env.count.now(), "the files of both Dbs");
        assert_eq!(db.verify(|_, _| {}).unwrap().tables, 310);
        trees[..5].iter().for_each(|t| merge(t, compression));
        trees[1..].iter().for_each(|t| db.drop_tree(t.name()).unwrap());
        // Opening a store reads the footer of one table after the other.
        assert!(env.count.most() <= 16 + 1, "{mode:?}: {} files were open", env.count.most());
        drop((copy, trees, db));
        // Obsolete views are released when the epoch advances, which all tests share. Reading the
        // statistics lets it advance.
        let other = Db::in_memory().unwrap();
        while env.count.now() > 0 {
            other.stats();
            std::thread::yield_now();
        }
        assert_eq!(bound.open_count(), 0);
    }
}

#[test]
fn what_has_left_the_manifest_is_read_to_its_end() {
    for (mode, compression) in MODES {
        let env = Counting::new(Arc::new(MemEnv::new(1)));
        let db = Db::open_in(env.clone(), "/db", options(2, mode)).unwrap();
        let trees = fill(&db, 3, 12, compression);
        let before: Vec<_> = trees.iter().map(content).collect();
        let snapshot = db.snapshot();
        let mut held: Vec<_> = trees.iter().map(Tree::iter).collect();
        let first: Vec<_> = held.iter_mut().map(|i| i.next().unwrap().unwrap()).collect();
        for (t, tree) in trees.iter().enumerate() {
            tree.delete_range(..).unwrap();
            merge(tree, compression);
            assert_eq!(snapshot.range(tree, ..).count(), before[t].len());
        }
        db.drop_tree("t2").unwrap();
        for ((before, held), first) in before.iter().zip(held).zip(&first) {
            let rest = held.map(|item| item.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap());
            let all: BTreeMap<_, _> =
                std::iter::once((first.0.to_vec(), first.1.to_vec())).chain(rest).collect();
            assert!(all == *before, "{mode:?}");
        }
        assert!(env.count.most() <= 2 + 1, "{mode:?}: {}", env.count.most());
    }
}

/// Runs gets, scans, writes, compactions, drops and checkpoints on many threads, with fewer files
/// than threads.
#[test]
fn threads_close_each_other_s_files() {
    for (mode, compression) in MODES {
        let env = Counting::new(Arc::new(MemEnv::new(1)));
        let (bound, workers) = (4, 2);
        let db = DbOptions { background_threads: workers, ..options(bound, mode) };
        let db = Db::open_in(env.clone(), "/db", db).unwrap();
        let trees = fill(&db, 4, 20, compression);
        let (done, threads) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|s| {
            let readers: Vec<_> = (0..4u64)
                .map(|r| {
                    let (trees, threads) = (&trees, &threads);
                    s.spawn(move || {
                        threads.fetch_add(1, Ordering::SeqCst);
                        for i in 0..3000 {
                            let (t, f, n) = (i % 4, (i * 7 + r) % 20, (i * 3) % KEYS);
                            assert_eq!(
                                *trees[t as usize].get(key(t, f, n)).unwrap().unwrap(),
                                value(t, f, n)[..]
                            );
                            if i % 500 == r {
                                assert!(content(&trees[t as usize]).len() as u64 >= 20 * KEYS);
                            }
                        }
                    })
                })
                .collect();
            s.spawn(|| {
                let mut round = 0;
                while !done.load(Ordering::SeqCst) {
                    round += 1;
                    let passing = db.tree(&format!("passing{round}"), piling(compression)).unwrap();
                    for f in 0..3 {
                        (0..KEYS).for_each(|n| passing.put(key(9, f, n), value(9, f, n)).unwrap());
                        passing.flush().unwrap();
                    }
                    check_one(&passing, 9, 3);
                    trees[round % 4].put([255; 30], value(1, 1, 1)).unwrap();
                    trees[round % 4].compact().unwrap();
                    let copy = format!("/copy{round}");
                    db.checkpoint(&copy).unwrap();
                    db.drop_tree(passing.name()).unwrap();
                    check_one(&passing_of(&env, &copy, mode, round), 9, 3);
                }
            });
            readers.into_iter().for_each(|r| r.join().unwrap());
            done.store(true, Ordering::SeqCst);
        });
        check(&trees, 20);
        // These add to the bound: the copy's own bound, and the file that each thread reads or
        // opens. The copy has workers, too.
        let beyond = bound + threads.load(Ordering::SeqCst) + 1 + 2 * workers as u64;
        assert!(
            env.count.most() <= bound + beyond,
            "{mode:?}: {} files were open",
            env.count.most()
        );
    }
}

fn check_one(tree: &Tree, t: u64, flushes: u64) {
    for (f, n) in (0..flushes).flat_map(|f| (0..KEYS).map(move |n| (f, n))) {
        assert_eq!(*tree.get(key(t, f, n)).unwrap().unwrap(), value(t, f, n)[..]);
    }
}

fn passing_of(env: &Arc<Counting>, copy: &str, mode: ReadMode, round: usize) -> Tree {
    let db = Db::open_in(env.clone(), copy, options(2, mode)).unwrap();
    db.existing_tree(&format!("passing{round}")).unwrap()
}

#[test]
fn want_of_descriptors_is_an_error_that_passes() {
    let env = Counting::new(Arc::new(MemEnv::new(1)));
    let db = Db::open_in(env.clone(), "/db", options(1, ReadMode::Pread)).unwrap();
    fill(&db, 2, 10, Compression::Lz4);
    // The reopened store has cached nothing.
    drop(db);
    let db = Db::open_in(env.clone(), "/db", options(1, ReadMode::Pread)).unwrap();
    let trees: Vec<Tree> = ["t0", "t1"].map(|t| db.existing_tree(t).unwrap()).into();
    (0..10).for_each(|f| {
        assert_eq!(*trees[0].get(key(0, f, 0)).unwrap().unwrap(), value(0, f, 0)[..])
    });
    env.full.store(true, Ordering::SeqCst);
    let tried: Vec<_> =
        (0..10).map(|f| trees[0].get(key(0, f, KEYS - 1)).map(|v| v.map(|v| v.len()))).collect();
    assert!(
        tried.iter().filter_map(|t| t.as_ref().err()).all(|e| e.kind() == ErrorKind::Exhausted),
        "{tried:?}"
    );
    assert!(tried.iter().filter(|t| t.is_err()).count() >= 9, "{tried:?}");
    let e = trees[1].iter().find_map(Result::err).unwrap();
    assert_eq!(e.kind(), ErrorKind::Exhausted, "{e}");
    trees[1]
        .set_options(TreeOptions { policy: Policy::default(), ..piling(Compression::Lz4) })
        .unwrap();
    assert_eq!(trees[1].compact().unwrap_err().kind(), ErrorKind::Exhausted);
    trees[1].put("still", "written").unwrap();
    env.full.store(false, Ordering::SeqCst);
    check(&trees, 10);
    trees[1].compact().unwrap();
    check(&trees, 10);
}

/// When a table file is opened again, its footer proves that it is the same file.
#[test]
fn another_file_under_a_table_s_name_is_never_read() {
    let mem = MemEnv::new(1);
    let db = Db::open_in(Arc::new(mem.clone()), "/db", options(1, ReadMode::Pread)).unwrap();
    let trees = fill(&db, 1, 2, Compression::Lz4);
    let tables = trees[0].tables().unwrap();
    let path = |i: usize| PathBuf::from(format!("/db/{:08}.sst", tables[i].id));
    let (table, other) = (path(0), path(1));
    let wrong = || db.verify(|_, _| {}).unwrap().errors.into_iter().next();
    // The newest run comes first. Reading the other table then closes this one.
    assert!(wrong().is_none());
    mem.rename(&table, Path::new("/aside")).unwrap();
    let lost = wrong().unwrap();
    assert_eq!(lost.kind(), ErrorKind::Corruption);
    assert!(lost.to_string().contains("removed while the store was open"), "{lost}");
    mem.hard_link(&other, &table).unwrap();
    let strange = wrong().unwrap();
    assert_eq!(strange.kind(), ErrorKind::Corruption);
    assert!(strange.to_string().contains("this is another file"), "{strange}");
    mem.remove(&table).unwrap();
    mem.rename(Path::new("/aside"), &table).unwrap();
    assert!(wrong().is_none());
    check(&trees, 2);
    // An iterator works after the store was closed, as long as the files exist.
    drop((trees, db));
    let db = Db::open_in(Arc::new(mem.clone()), "/db", options(1, ReadMode::Pread)).unwrap();
    let mut held = db.existing_tree("t0").unwrap().iter();
    held.next().unwrap().unwrap();
    db.close().unwrap();
    assert!(held.by_ref().take(5).all(|item| item.is_ok()));
    mem.remove(&table).unwrap();
    mem.remove(&other).unwrap();
    let closed = held.find_map(Result::err).unwrap();
    assert_eq!(closed.kind(), ErrorKind::Closed, "{closed}");
}

/// A reader can read files that a writer removed. It holds maps instead of descriptors, or
/// descriptors where it uses no maps.
#[test]
fn a_reader_beside_a_writer_holds_what_is_removed() {
    for (mode, compression) in MODES {
        let env = Counting::new(Arc::new(MemEnv::new(1)));
        let writer = Db::open_in(env.inner.clone(), "/db", options(100, mode)).unwrap();
        let trees = fill(&writer, 2, 20, compression);
        let reader =
            Db::open_in(env.clone(), "/db", DbOptions { read_only: true, ..options(3, mode) })
                .unwrap();
        let maps = mode != ReadMode::Pread;
        assert_eq!(env.count.most(), if maps { 3 } else { 40 }, "{mode:?}");
        for tree in &trees {
            tree.delete_range(..).unwrap();
            merge(tree, compression);
        }
        drop((trees, writer));
        // The next opening deletes files that other threads of the process were still reading.
        drop(Db::open_in(env.inner.clone(), "/db", options(100, mode)).unwrap());
        let names = env.inner.list(Path::new("/db")).unwrap();
        assert!(!names.iter().any(|n| n.ends_with(".sst")), "{names:?}");
        let seen: Vec<Tree> = ["t0", "t1"].map(|t| reader.existing_tree(t).unwrap()).into();
        check(&seen, 20);
        assert_eq!(seen.iter().map(|t| t.len().unwrap()).sum::<u64>(), 40 * KEYS);
        let fresh = reader.refresh().unwrap();
        assert_eq!(fresh.existing_tree("t0").unwrap().len().unwrap(), 0);
        check(&seen, 20);
        assert!(env.count.most() <= if maps { 3 } else { 40 }, "{mode:?}: {}", env.count.most());
    }
}

/// Runs the test `name` again in a process that may have `limit` descriptors.
#[cfg(unix)]
fn in_a_process_with(limit: u64, name: &str, dir: &Path) {
    let limits = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
    let mut child = Command::new("sh");
    child.arg("-c").arg(limits).arg(std::env::current_exe().unwrap());
    let name = format!("open_files::{name}");
    child.args(["--exact", &name, "--nocapture", "--test-threads=1"]).env("FIRN_FILES", dir);
    check_process(&mut child);
}

/// Uses the process-wide bound. A process with 64 descriptors reads, writes and compacts a store of
/// 258 tables.
#[test]
#[cfg(unix)]
fn a_store_of_more_tables_than_descriptors() {
    const FLUSHES: u64 = 86;
    let own = |mode| DbOptions { open_files: None, ..options(1, mode) };
    let Some(dir) = std::env::var_os("FIRN_FILES") else {
        for (name, compression) in [("lz4", Compression::Lz4), ("none", Compression::None)] {
            let dir = dir(&format!("many-{name}"));
            let db = Db::open_with(&dir, own(ReadMode::Auto)).unwrap();
            drop(fill(&db, 3, FLUSHES, compression));
            db.close().unwrap();
            in_a_process_with(64, "a_store_of_more_tables_than_descriptors", &dir);
            std::fs::remove_dir_all(&dir).unwrap();
        }
        return;
    };
    let trees = |db: &Db| -> Vec<Tree> {
        (0..3).map(|t| db.existing_tree(&format!("t{t}")).unwrap()).collect()
    };
    for mode in [ReadMode::Auto, ReadMode::Mmap] {
        let reader = Db::open_with(&dir, DbOptions { read_only: true, ..own(mode) }).unwrap();
        check(&trees(&reader), FLUSHES);
        assert_eq!(reader.stats().files.limit, 32);
    }
    // A reader must hold its files open, and without maps it needs a descriptor for each.
    let e = Db::open_with(&dir, DbOptions { read_only: true, ..own(ReadMode::Pread) });
    let e = e.and_then(|db| db.existing_tree("t0")?.len()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Exhausted, "{e}");
    for mode in [ReadMode::Pread, ReadMode::Auto] {
        let db = Db::open_with(&dir, own(mode)).unwrap();
        let trees = trees(&db);
        check(&trees, FLUSHES);
        assert!(db.stats().files.open <= 32);
        // The test takes all remaining descriptors. The table cache closes files when another file
        // must be opened.
        let mut taken = vec![];
        while let Ok(file) = OsEnv::new().open_read(&Path::new(&dir).join("CURRENT"), false) {
            taken.push(file);
        }
        let none = trees.iter().flat_map(Tree::iter).find_map(Result::err).unwrap();
        assert_eq!(none.kind(), ErrorKind::Exhausted, "{none}");
        taken.pop();
        check(&trees, FLUSHES);
        taken.truncate(taken.len() - 8);
        trees[0].put("more", "of it").unwrap();
        trees[0].flush().unwrap();
        check(&trees, FLUSHES);
        drop(taken);
        merge(&trees[2], Compression::Lz4);
        check(&trees, FLUSHES);
    }
}

/// Opens a thousand stores in one process. One bound limits the table files of all stores together,
/// and these files make room for the other files of the stores.
#[test]
#[cfg(unix)]
fn a_thousand_stores_in_one_process() {
    const STORES: u64 = 1000;
    let own = || DbOptions { open_files: None, ..options(1, ReadMode::Pread) };
    let Some(dir) = std::env::var_os("FIRN_FILES") else {
        let (dir, env) = (dir("stores"), OsEnv::new());
        let first = dir.join("first");
        let db = Db::open_with(&first, own()).unwrap();
        drop(fill(&db, 1, 4, Compression::Lz4));
        db.close().unwrap();
        for n in 0..STORES {
            let copy = dir.join(n.to_string());
            env.create_dir_all(&copy).unwrap();
            for name in env.list(&first).unwrap() {
                let (from, to) = (first.join(&name), copy.join(&name));
                if name.ends_with(".sst") {
                    env.hard_link(&from, &to).unwrap();
                } else {
                    env.create(&to)
                        .unwrap()
                        .append(&env.read_all(&from, 1 << 20).unwrap())
                        .unwrap();
                }
            }
        }
        // Each store holds its directory and its lock file open.
        in_a_process_with(2 * STORES + 200, "a_thousand_stores_in_one_process", &dir);
        std::fs::remove_dir_all(&dir).unwrap();
        return;
    };
    let memory = firn_kv::MemoryBudget::new(1 << 20);
    let stores: Vec<(Db, Vec<Tree>)> = (0..STORES)
        .map(|n| {
            let options = DbOptions { shared: Some(memory.clone()), ..own() };
            let db = Db::open_with(Path::new(&dir).join(n.to_string()), options).unwrap();
            let tree = db.existing_tree("t0").unwrap();
            check_one(&tree, 0, 4);
            (db, vec![tree])
        })
        .collect();
    stores.iter().for_each(|(_, trees)| check(trees, 4));
    for (_, trees) in stores.iter().step_by(50) {
        trees[0].put("more", "of it").unwrap();
        trees[0].flush().unwrap();
        check(trees, 4);
    }
    let files = stores[0].0.stats().files;
    assert_eq!(files.limit, STORES + 100);
    assert!(files.shared_open <= files.limit, "{files:?}");
    assert!(stores.iter().map(|s| s.0.stats().files.reopened).sum::<u64>() > STORES);
}
