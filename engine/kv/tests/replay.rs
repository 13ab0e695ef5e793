//! Parallel replay of the log fills memtables with the same content as one thread does. It flushes
//! data that exceeds the memory budget.

use super::append;

use std::sync::Arc;

use firn_crash::{CrashEnv, Cut};
use firn_kv::{Batch, Db, DbOptions, ErrorKind, Tree, TreeOptions};
use firn_testkit::rng::Rng;

use append::Append;

const TREES: u64 = 7;

fn open(env: &CrashEnv, background_threads: usize, read_only: bool) -> (Db, Vec<Tree>) {
    let options = DbOptions {
        background_threads,
        read_only,
        memory_budget: 64 << 20,
        wal_segment: 256 << 10,
        ..DbOptions::default()
    };
    let db = Db::open_in(Arc::new(env.clone()), "/db", options).unwrap();
    let small = TreeOptions { memtable_size: 64 << 10, ..TreeOptions::default() };
    let tree = |i| {
        let name = format!("tree {i}");
        if read_only { db.existing_tree(&name) } else { db.tree(&name, small.clone()) }.unwrap()
    };
    let trees = (0..TREES).map(tree).collect();
    (db, trees)
}

type Content = Vec<Vec<(Vec<u8>, Vec<u8>)>>;

fn content(trees: &[Tree]) -> Content {
    let pairs =
        |t: &Tree| t.iter().map(|i| i.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect();
    trees.iter().map(pairs).collect()
}

#[test]
fn threads_replay_what_one_thread_does() {
    for seed in 0..3 {
        let env = CrashEnv::new(seed);
        let mut rng = Rng::new(seed);
        let (db, trees) = open(&env, 0, false);
        for step in 0..2_000u64 {
            // Some trees receive many writes, some few, and some batches that cover several trees.
            let mut batch = Batch::new();
            for _ in 0..1 + rng.below(4) {
                let tree = &trees[(rng.below(TREES) * rng.below(TREES) / TREES) as usize];
                let key = format!("{:04}", rng.below(500)).into_bytes();
                match rng.below(10) {
                    0..2 => batch.delete(tree, &key).unwrap(),
                    2 if step % 7 == 0 => {
                        batch.delete_range(tree, &key[..]..&[&key[..2], b"99"].concat()).unwrap()
                    }
                    _ => batch
                        .put(tree, &key, &step.to_le_bytes().repeat(rng.below(12) as usize))
                        .unwrap(),
                }
            }
            db.write(batch).unwrap();
            if step == 300 {
                trees[1].flush().unwrap();
            }
        }
        let want = content(&trees);
        let seq = db.stats().seq;
        drop((db, trees));
        // A reader changes no files. The number of replay threads must not be visible in any
        // result.
        let mut told = vec![];
        for threads in [0, 1, 3, 16] {
            let (db, trees) = open(&env, threads, true);
            assert_eq!(content(&trees), want, "seed {seed}, {threads} threads");
            let memory: Vec<_> =
                db.stats().trees.iter().map(|t| (t.sealed, t.memtable_bytes)).collect();
            told.push((memory, db.stats().seq));
            assert_eq!(db.stats().seq, seq);
        }
        assert!(told.windows(2).all(|w| w[0] == w[1]), "{told:?}");
        let (db, trees) = open(&env, 3, false);
        assert_eq!(content(&trees), want);
        db.verify(|_, _| ()).unwrap();
    }
}

fn options(memory_budget: usize, background_threads: usize) -> DbOptions {
    DbOptions {
        memory_budget,
        background_threads,
        wal_segment: 1 << 20,
        event_log: false,
        ..DbOptions::default()
    }
}

fn merging() -> TreeOptions {
    TreeOptions {
        memtable_size: 8 << 20,
        merge_operator: Some(Arc::new(Append)),
        ..TreeOptions::default()
    }
}

fn tables(env: &CrashEnv) -> usize {
    env.files().iter().filter(|f| f.extension().is_some_and(|e| e == "sst")).count()
}

/// Returns a store whose log holds all types of operations, about 5 MiB in 6,000 steps, and its
/// content. With `together`, nearly all operations are in one batch.
fn long_log(seed: u64, steps: u64, together: bool) -> (CrashEnv, Content) {
    let (env, mut rng) = (CrashEnv::new(seed), Rng::new(seed));
    let db = Db::open_in(Arc::new(env.clone()), "/db", options(64 << 20, 0)).unwrap();
    let trees: Vec<Tree> =
        (0..TREES).map(|i| db.tree(&format!("tree {i}"), merging()).unwrap()).collect();
    // The start of the log remains needed when all other data is in tables.
    db.tree("quiet", merging()).unwrap().put(b"k", b"v").unwrap();
    let mut batch = Batch::new();
    for step in 0..steps {
        for _ in 0..1 + rng.below(3) {
            let tree = &trees[rng.below(TREES) as usize];
            let key = format!("{:05}", rng.below(3_000)).into_bytes();
            match rng.below(20) {
                0..3 => batch.delete(tree, &key).unwrap(),
                3 if step % 31 == 0 => {
                    batch.delete_range(tree, &key[..]..&[&key[..3], b"99"].concat()).unwrap()
                }
                4..9 => batch.merge(tree, &key, step.to_string()).unwrap(),
                _ => batch
                    .put(tree, &key, step.to_le_bytes().repeat(80 + rng.below(40) as usize))
                    .unwrap(),
            }
        }
        if !together || step < 20 || step + 20 >= steps {
            db.write(std::mem::take(&mut batch)).unwrap();
        }
    }
    assert_eq!(db.stats().flushes, 0);
    (env, content(&trees))
}

#[test]
fn an_opening_flushes_what_is_too_much_for_its_memory() {
    for (seed, threads) in [(0, 0), (1, 1), (2, 3), (3, 0), (4, 2)] {
        let (env, want) = long_log(seed, 6_000, seed > 2);
        let open = |options| {
            let db = Db::open_in(Arc::new(env.clone()), "/db", options).unwrap();
            let stats = db.stats();
            let trees: Vec<Tree> =
                (0..TREES).map(|i| db.tree(&format!("tree {i}"), merging()).unwrap()).collect();
            assert_eq!(content(&trees), want, "seed {seed}, {threads} threads");
            db.verify(|_, _| ()).unwrap();
            (stats, db)
        };
        // A reader cannot flush, so it keeps all data in memory.
        let reader = Db::open_in(
            Arc::new(env.clone()),
            "/db",
            DbOptions { read_only: true, ..options(4 << 20, threads) },
        )
        .unwrap();
        assert!(reader.stats().memory.memtables > 4 << 20 && tables(&env) == 0);
        drop(reader);
        let before = env.files().len();
        let (stats, db) = open(options(4 << 20, threads));
        assert!(stats.flushes > 3 && stats.memory.memtables < 4 << 20, "{stats:?}");
        assert!(env.files().len() > before);
        drop(db);
        // Flushed data is not replayed again.
        let (again, _db) = open(options(64 << 20, threads));
        assert!(again.flushes == 0 && again.memory.memtables < 4 << 20, "{again:?}");
    }
}

#[test]
fn an_opening_that_fails_leaves_no_tables() {
    let (env, _) = long_log(5, 6_000, false);
    // A record in the middle is damaged. The records after it prove that this is no torn tail.
    let log: Vec<_> =
        env.files().into_iter().filter(|f| f.extension().is_some_and(|e| e == "wal")).collect();
    let name = &log[log.len() - 2];
    let mut bytes = env.read_file(name).unwrap();
    let at = bytes.len() / 2;
    bytes[at..at + 64].fill(0xff);
    env.write_file(name, &bytes).unwrap();
    let before = env.files();
    let e = Db::open_in(Arc::new(env.clone()), "/db", options(4 << 20, 0)).map(drop).unwrap_err();
    assert_eq!((e.kind(), env.files()), (ErrorKind::Corruption, before), "{e}");
}

#[test]
fn a_crash_of_an_opening_that_flushes_loses_nothing() {
    for (seed, together) in [(7, false), (8, true)] {
        crash_an_opening(seed, together);
    }
}

fn crash_an_opening(seed: u64, together: bool) {
    let (env, want) = long_log(seed, 500, together);
    let mut rng = Rng::new(seed);
    let open = |env: &CrashEnv| {
        let db = Db::open_in(Arc::new(env.clone()), "/db", options(1 << 20, 0)).unwrap();
        let flushes = db.stats().flushes;
        let trees: Vec<Tree> =
            (0..TREES).map(|i| db.tree(&format!("tree {i}"), merging()).unwrap()).collect();
        assert_eq!(content(&trees), want);
        (flushes, db, trees)
    };
    let disk = env.fork();
    disk.start_journal();
    let (flushes, db, trees) = open(&disk);
    assert!(flushes > 3);
    // The flush of one tree begins the manifest, which names the tables of all trees.
    for (tree, pairs) in trees.iter().zip(&want) {
        tree.put(&pairs[0].0, &pairs[0].1).unwrap();
        tree.flush().unwrap();
    }
    let operations = disk.journal_len();
    drop((db, trees));
    for at in (rng.below(4) as usize..operations).step_by(4).chain(operations - 20..=operations) {
        let cut = [Cut::Process, Cut::PowerNone, Cut::PowerRandom(at as u64)][at % 3];
        let image = disk.crash_image(at, &cut);
        open(&image);
        // Opens the files once more after another power cut.
        open(&image.crash_image(0, &Cut::PowerNone));
    }
}

#[test]
fn empty_memtables_do_not_make_an_opening_flush_each_record() {
    let env = CrashEnv::new(5);
    let open = || Db::open_in(Arc::new(env.clone()), "/db", options(3 << 20, 0)).unwrap();
    let db = open();
    let trees: Vec<Tree> =
        (0..400).map(|i| db.tree(&format!("t{i}"), TreeOptions::default()).unwrap()).collect();
    for n in 0..1500u64 {
        trees[n as usize % 5].put(n.to_be_bytes(), [1; 20]).unwrap();
    }
    drop((trees, db));
    let db = open();
    assert!(db.stats().flushes < 30, "{}", db.stats().flushes);
    assert_eq!(
        (0..5).map(|i| db.existing_tree(&format!("t{i}")).unwrap().len().unwrap()).sum::<u64>(),
        1500
    );
}
