//! Separated values (blobs): reads return the same results as with inline values. No blob file is
//! lost and no obsolete file stays. Compactions do not rewrite long values. Garbage stays within
//! its limit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_crash::{CrashEnv, Cut};
use firn_kv::internals::manifest::{Manifest, TreeState};
use firn_kv::policy::{Leveled, Tiered};
use firn_kv::{
    Compression, Db, DbOptions, ErrorKind, MergeOperator, MergeResult, Policy, ReadMode, Snapshot,
    Tree, TreeOptions,
};
use firn_testkit::rng::Rng;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 300;

fn key(i: u64) -> Vec<u8> {
    format!("key{i:05}").into_bytes()
}

/// Returns a value that is half incompressible: short, about as long as the threshold, or long.
fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(4) {
        0 => rng.below(40),
        1 => rng.range(90..110),
        2 => rng.range(100..3000),
        _ => rng.range(3000..9000),
    };
    let mut v = vec![b'v'; len as usize];
    let half = v.len() / 2;
    rng.fill(&mut v[..half]);
    v
}

fn tree_options(rng: &mut Rng) -> TreeOptions {
    let policies = [
        Policy::default(),
        Policy::Tiered(Tiered { min_runs: 2, ..Tiered::default() }),
        Policy::Leveled(Leveled { level0_runs: 2, ratio: 3, base: 64 << 10, ..Leveled::default() }),
    ];
    TreeOptions {
        policy: rng.choose(&policies).unwrap().clone(),
        compression: vec![*rng.choose(&[Compression::None, Compression::Lz4]).unwrap()],
        memtable_size: 64 << 10,
        table_size: 64 << 10,
        blob_threshold: *rng.choose(&[0, 100, 100, 100, 2000]).unwrap(),
        blob_gc_percent: *rng.choose(&[5, 30, 60]).unwrap(),
        ..TreeOptions::default()
    }
}

fn db_options(rng: &mut Rng, background_threads: usize) -> DbOptions {
    DbOptions {
        background_threads,
        memory_budget: 2 << 20,
        wal_segment: 64 << 10,
        read_mode: *rng.choose(&[ReadMode::Mmap, ReadMode::Pread]).unwrap(),
        ..DbOptions::default()
    }
}

fn pairs(
    all: impl Iterator<Item = firn_kv::Result<(firn_kv::Value, firn_kv::Value)>>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    all.map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect()
}

/// Checks that the tree equals the map: by key, in both directions, and by seeks.
fn compare(tree: &Tree, map: &Map, rng: &mut Rng) {
    let wanted: Vec<_> = map.clone().into_iter().collect();
    assert_eq!(pairs(tree.iter()), wanted);
    let mut back = pairs(tree.iter().rev());
    back.reverse();
    assert_eq!(back, wanted);
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    for (k, v) in keys.iter().zip(tree.multi_get(&keys).unwrap()) {
        assert_eq!(v.as_deref(), map.get(k).map(Vec::as_slice));
        assert_eq!(tree.get(k).unwrap().as_deref(), map.get(k).map(Vec::as_slice));
    }
    let mut c = tree.cursor(..).unwrap();
    for _ in 0..50 {
        let k = key(rng.below(KEYS));
        let wanted = if rng.one_in(2) {
            c.seek(&k).unwrap();
            map.range(k..).next()
        } else {
            c.seek_before(&k).unwrap();
            map.range(..k).next_back()
        };
        let mut wanted = wanted.map(|(k, v)| (k.clone(), v.clone()));
        for _ in 0..rng.below(4) {
            let Some((k, v)) = &wanted else { break };
            assert_eq!((c.key(), c.value()), (&**k, &**v));
            let forward = rng.one_in(2);
            let next = if forward {
                c.next().unwrap();
                map.range(k.clone()..).nth(1)
            } else {
                c.prev().unwrap();
                map.range(..k.clone()).next_back()
            };
            wanted = next.map(|(k, v)| (k.clone(), v.clone()));
        }
        assert_eq!(c.is_valid(), wanted.is_some());
    }
}

/// Checks that the directory has exactly the tables and blob files that the manifest names.
fn check_files(env: &CrashEnv, dir: &str) {
    let (state, _) = Manifest::load(env, Path::new(dir)).unwrap().unwrap();
    let named: BTreeSet<PathBuf> = state
        .trees
        .values()
        .flat_map(TreeState::files)
        .map(|id| Path::new(dir).join(format!("{id:08}.sst")))
        .collect();
    let there: BTreeSet<PathBuf> = env
        .files()
        .into_iter()
        .filter(|f| f.parent() == Some(Path::new(dir)) && f.extension().is_some_and(|e| e == "sst"))
        .collect();
    assert_eq!(there, named);
}

/// One life of a store.
struct Life {
    rng: Rng,
    env: CrashEnv,
    threads: usize,
    db: Option<(Db, Tree)>,
    map: Map,
    snapshots: Vec<(Snapshot, Map)>,
}

impl Life {
    fn new(seed: u64, threads: usize) -> Life {
        let mut life = Life {
            rng: Rng::new(seed),
            env: CrashEnv::new(seed),
            threads,
            db: None,
            map: Map::new(),
            snapshots: vec![],
        };
        life.open();
        life
    }

    fn open(&mut self) {
        let options = db_options(&mut self.rng, self.threads);
        let db = Db::open_in(Arc::new(self.env.clone()), "/db", options).unwrap();
        let tree = db.tree("t", tree_options(&mut self.rng)).unwrap();
        // The manifest has the options from the creation of the tree.
        tree.set_options(tree_options(&mut self.rng)).unwrap();
        self.db = Some((db, tree));
    }

    fn close(&mut self) {
        self.snapshots.clear();
        let (db, tree) = self.db.take().unwrap();
        drop(tree);
        db.close().unwrap();
        drop(db);
        // A reader of another test may have delayed the removal of compacted tables past the close.
        // Then the next opening removes their files.
        let options = DbOptions { background_threads: 0, ..DbOptions::default() };
        let db = Db::open_in(Arc::new(self.env.clone()), "/db", options).unwrap();
        db.tree("t", TreeOptions::default()).unwrap();
        db.close().unwrap();
        check_files(&self.env, "/db");
    }

    fn step(&mut self) {
        let (db, tree) = self.db.as_ref().unwrap();
        let rng = &mut self.rng;
        match rng.below(40) {
            0 => tree.flush().unwrap(),
            1 => tree.compact().unwrap(),
            2 => {
                let (a, b) = (key(rng.below(KEYS)), key(rng.below(KEYS)));
                let (a, b) = (a.clone().min(b.clone()), a.max(b));
                tree.compact_range(&*a..&*b).unwrap();
            }
            3 => {
                let from = rng.below(KEYS);
                let (a, b) = (key(from), key(from + rng.below(30)));
                tree.delete_range(&*a..&*b).unwrap();
                self.map.retain(|k, _| *k < a || *k >= b);
            }
            4 => tree.set_options(tree_options(rng)).unwrap(),
            5 => {
                self.snapshots.push((db.snapshot(), self.map.clone()));
                if self.snapshots.len() > 3 {
                    self.snapshots.remove(0);
                }
            }
            6 => compare(tree, &self.map, rng),
            7 => {
                for (snapshot, map) in &self.snapshots {
                    let i = rng.below(KEYS);
                    let shown = snapshot.get(tree, key(i)).unwrap();
                    assert_eq!(shown.as_deref(), map.get(&key(i)).map(Vec::as_slice));
                    let all = pairs(snapshot.iter(tree));
                    assert_eq!(all, map.clone().into_iter().collect::<Vec<_>>());
                }
            }
            8 if rng.one_in(3) => {
                self.close();
                self.open();
            }
            9 if rng.one_in(3) => {
                let dir = format!("/copy{}", rng.next_u64());
                db.checkpoint(&dir).unwrap();
                check_files(&self.env, &dir);
                let copy =
                    Db::open_in(Arc::new(self.env.clone()), &dir, DbOptions::default()).unwrap();
                compare(&copy.tree("t", tree_options(rng)).unwrap(), &self.map, rng);
                assert!(copy.verify(|_, _| ()).unwrap().errors.is_empty());
            }
            10 => {
                let verified = db.verify(|_, _| ()).unwrap();
                assert!(verified.errors.is_empty(), "{:?}", verified.errors);
            }
            _ => {
                for _ in 0..10 {
                    let k = key(rng.below(KEYS));
                    if rng.one_in(6) {
                        tree.delete(&k).unwrap();
                        self.map.remove(&k);
                    } else {
                        let v = value(rng);
                        tree.put(&k, &v).unwrap();
                        self.map.insert(k, v);
                    }
                }
            }
        }
    }
}

#[test]
fn readers_see_what_they_would_see_otherwise() {
    for seed in 0..20 {
        let mut life = Life::new(seed, if seed % 4 == 3 { 2 } else { 0 });
        for _ in 0..300 {
            life.step();
        }
        let (_, tree) = life.db.as_ref().unwrap();
        compare(tree, &life.map, &mut life.rng);
        life.close();
    }
}

/// Runs puts, flushes and compactions on a store without threads. Returns, for each step, the end
/// of the journal and the contents so far.
fn history(env: &CrashEnv, seed: u64) -> Vec<(usize, Map)> {
    let mut rng = Rng::new(seed);
    let (mut map, mut steps) = (Map::new(), vec![(0, Map::new())]);
    env.start_journal();
    let db = Db::open_in(Arc::new(env.clone()), "/db", db_options(&mut rng, 0)).unwrap();
    let options =
        TreeOptions { blob_threshold: 100, blob_gc_percent: 10, ..tree_options(&mut rng) };
    let tree = db.tree("t", options).unwrap();
    steps.push((env.journal_len(), map.clone()));
    for i in 0..120 {
        match rng.below(12) {
            0 => tree.flush().unwrap(),
            1 if i % 3 == 0 => tree.compact().unwrap(),
            2 => {
                let k = key(rng.below(20));
                tree.delete(&k).unwrap();
                map.remove(&k);
            }
            _ => {
                let (k, v) = (key(rng.below(20)), value(&mut rng));
                tree.put(&k, &v).unwrap();
                map.insert(k, v);
            }
        }
        steps.push((env.journal_len(), map.clone()));
    }
    drop(tree);
    db.close().unwrap();
    steps
}

#[test]
fn a_crash_at_any_place_loses_no_value_and_leaves_no_file() {
    for seed in 0..3 {
        let env = CrashEnv::new(seed);
        let steps = history(&env, seed);
        for at in (0..=env.journal_len()).step_by(3) {
            let image = env.crash_image(at, &Cut::Process);
            let options = || DbOptions { background_threads: 0, ..DbOptions::default() };
            let Ok(db) = Db::open_in(Arc::new(image.clone()), "/db", options()) else {
                assert!(at <= steps[1].0, "{at}: the store exists by then");
                continue;
            };
            let Ok(tree) = db.existing_tree("t") else {
                assert!(at <= steps[1].0, "{at}: the tree exists by then");
                continue;
            };
            let shown: Map = pairs(tree.iter()).into_iter().collect();
            let done = steps.partition_point(|s| s.0 <= at).saturating_sub(1);
            let may = &steps[done..steps.len().min(done + 2)];
            assert!(may.iter().any(|s| s.1 == shown), "seed {seed}, after operation {at}");
            let verified = db.verify(|_, _| ()).unwrap();
            assert!(verified.errors.is_empty(), "{at}: {:?}", verified.errors);
            drop(tree);
            db.close().unwrap();
            drop(db);
            // An opening removes the files left by the crash, and those that readers still held at
            // the close.
            drop(Db::open_in(Arc::new(image.clone()), "/db", options()).unwrap());
            check_files(&image, "/db");
        }
    }
}

#[test]
fn a_damaged_value_is_an_error_of_its_key_alone() {
    let env = CrashEnv::new(1);
    let open = |mode| {
        let options = DbOptions { background_threads: 0, read_mode: mode, ..DbOptions::default() };
        Db::open_in(Arc::new(env.clone()), "/db", options).unwrap()
    };
    for (compression, mode) in [
        (Compression::None, ReadMode::Mmap),
        (Compression::None, ReadMode::Pread),
        (Compression::Lz4, ReadMode::Mmap),
        (Compression::Lz4, ReadMode::Pread),
    ] {
        let db = open(mode);
        let options = TreeOptions {
            compression: vec![compression],
            blob_threshold: 100,
            ..TreeOptions::default()
        };
        let name = format!("{compression:?} {mode:?}");
        let tree = db.tree(&name, options).unwrap();
        let values: Vec<Vec<u8>> =
            (0..20u8).map(|i| [vec![i; 400], vec![7; 400]].concat()).collect();
        for (i, v) in values.iter().enumerate() {
            tree.put([i as u8], v).unwrap();
        }
        tree.flush().unwrap();
        assert_eq!(db.verify(|_, _| ()).unwrap().values % 20, 0);
        drop(tree);
        db.close().unwrap();
        drop(db);
        let (state, _) = Manifest::load(&env, Path::new("/db")).unwrap().unwrap();
        let state = state.tree_named(&name).unwrap();
        let file = state.values.keys().next().copied().unwrap();
        let path = PathBuf::from(format!("/db/{file:08}.sst"));
        let sound = env.read_file(&path).unwrap();
        let block = state.values[&file].bytes as usize / 20;
        let mut bad = sound.clone();
        bad[block * 7 + block / 2] ^= 1;
        env.write_file(&path, &bad).unwrap();
        let db = open(mode);
        let tree = db.existing_tree(&name).unwrap();
        let mut wrong = vec![];
        for (i, v) in values.iter().enumerate() {
            match tree.get([i as u8]) {
                Ok(found) => assert_eq!(found.as_deref(), Some(&v[..])),
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Corruption);
                    assert!(e.to_string().contains(&format!("{file:08}.sst")), "{e}");
                    assert_eq!(e.key_range(), Some((&[i as u8][..], &[i as u8][..])));
                    wrong.push(i as u8);
                }
            }
        }
        assert_eq!(wrong.len(), 1);
        // A read that reaches this value returns an error with its key, and with no other key.
        let mut cursor = tree.cursor(..).unwrap();
        cursor.seek_before(&wrong).unwrap();
        let [get, recorded] = [tree.get(&wrong), db.with_read_context(|_| tree.get(&wrong))];
        let recorded_walk = db.with_read_context(|_| pairs_or_error(tree.iter()));
        let errors = [
            get.unwrap_err(),
            recorded.unwrap_err(),
            recorded_walk.unwrap_err(),
            pairs_or_error(tree.iter()).unwrap_err(),
            pairs_or_error(tree.iter().rev()).unwrap_err(),
            tree.multi_get(&[[wrong[0] + 1], [wrong[0]]]).unwrap_err(),
            cursor.next().unwrap_err(),
        ];
        for e in errors {
            assert_eq!(e.key_range(), Some((&wrong[..], &wrong[..])), "{e}");
        }
        assert_eq!(tree.keys().map(|k| k.unwrap()[0]).collect::<Vec<_>>(), Vec::from_iter(0..20));
        let errors = db.verify(|_, _| ()).unwrap().errors;
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].key_range().map(|(a, _)| a.to_vec()), Some(wrong));
        drop(tree);
        db.close().unwrap();
        drop(db);
        env.write_file(&path, &sound).unwrap();
        // A blob file under another name is refused, as a table is.
        let other = PathBuf::from("/db/00000001.sst");
        let first = env.read_file(&other).unwrap();
        if other != path {
            let mut long = first.clone();
            long.resize(sound.len(), 0);
            env.write_file(&path, &long).unwrap();
            let db = open(mode);
            let e = db.existing_tree(&name).unwrap().get([3]).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
            drop(db);
            env.write_file(&path, &sound).unwrap();
        }
    }
}

fn pairs_or_error(
    all: impl Iterator<Item = firn_kv::Result<(firn_kv::Value, firn_kv::Value)>>,
) -> firn_kv::Result<Vec<(firn_kv::Value, firn_kv::Value)>> {
    all.collect()
}

/// Garbage in blob files stays within its limit. Compactions rewrite only the values of blob files
/// that they discard.
#[test]
fn garbage_stays_within_its_bound_and_merges_write_few_values() {
    let db = Db::open_in(
        Arc::new(CrashEnv::new(3)),
        "/db",
        DbOptions { background_threads: 0, memory_budget: 4 << 20, ..DbOptions::default() },
    )
    .unwrap();
    for garbage in [5u8, 30, 80] {
        let options = TreeOptions {
            policy: Policy::Tiered(Tiered { min_runs: 2, ..Tiered::default() }),
            memtable_size: 256 << 10,
            blob_threshold: 1000,
            blob_gc_percent: garbage,
            ..TreeOptions::default()
        };
        let tree = db.tree(&format!("t{garbage}"), options).unwrap();
        let mut rng = Rng::new(garbage.into());
        let mut put = |i: u64| {
            let mut v = vec![0; 4000];
            rng.fill(&mut v);
            tree.put(key(i), v).unwrap();
        };
        let before = db.stats();
        (0..1000).for_each(&mut put);
        tree.flush().unwrap();
        let filled = db.stats();
        let written = filled.flush_bytes + filled.compaction_written
            - before.flush_bytes
            - before.compaction_written;
        assert!(written < 4_000_000 * 11 / 10, "{written} bytes were written for 4,000,000");
        let mut order = Rng::new(9);
        for _ in 0..4000 {
            put(order.below(1000));
        }
        tree.flush().unwrap();
        tree.compact().unwrap();
        // Without threads, writers run the picked jobs.
        for i in 0..20 {
            tree.put(key(i), b"short").unwrap();
            tree.flush().unwrap();
        }
        let stats = db.stats();
        let v = stats.trees.iter().find(|t| t.name == tree.name()).unwrap().blobs;
        let blocks = v.bytes - v.files * 1000;
        assert!(v.live_bytes >= 3_900_000, "{v:?}");
        let most = v.live_bytes * 100 / u64::from(100 - garbage);
        assert!(blocks <= most && v.gc_files == 0, "{garbage} %: {v:?}");
        assert!(db.verify(|_, _| ()).unwrap().errors.is_empty());
    }
}

/// Returns the numbers of tables and blob files of the tree `name` in the manifest.
fn files_of(env: &CrashEnv, name: &str) -> (usize, usize) {
    let (state, _) = Manifest::load(env, Path::new("/db")).unwrap().unwrap();
    let t = state.tree_named(name).unwrap();
    (t.tables().count(), t.values.len())
}

#[test]
fn a_full_compaction_puts_values_where_the_options_say() {
    let env = CrashEnv::new(5);
    let options = DbOptions { background_threads: 0, ..DbOptions::default() };
    let db = Db::open_in(Arc::new(env.clone()), "/db", options).unwrap();
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    (0..100).for_each(|i| tree.put(key(i), [7; 500]).unwrap());
    tree.flush().unwrap();
    tree.compact().unwrap();
    assert_eq!(files_of(&env, "t"), (1, 0));
    for (blob_threshold, files) in [(400, 1), (600, 0), (400, 1), (0, 0)] {
        tree.set_options(TreeOptions { blob_threshold, ..TreeOptions::default() }).unwrap();
        tree.compact().unwrap();
        let expected = if blob_threshold == 600 { 1 } else { files };
        assert_eq!(files_of(&env, "t").1, expected, "with a threshold of {blob_threshold} bytes");
        assert!(tree.iter().all(|e| *e.unwrap().1 == [7; 500]));
    }
}

/// Merge operator that returns the longest operand.
struct Longest;

impl MergeOperator for Longest {
    fn name(&self) -> &str {
        "longest"
    }

    fn full_merge(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> firn_kv::Result<MergeResult> {
        let all = operands.iter().copied().chain(base);
        Ok(MergeResult::Value(all.max_by_key(|v| v.len()).unwrap_or_default().to_vec()))
    }
}

#[test]
fn a_tree_with_a_hook_that_looks_at_values_has_them_in_place() {
    let env = CrashEnv::new(6);
    let options = TreeOptions {
        blob_threshold: 100,
        merge_operator: Some(Arc::new(Longest)),
        ..TreeOptions::default()
    };
    let open = || {
        let options = DbOptions { background_threads: 2, ..DbOptions::default() };
        Db::open_in(Arc::new(env.clone()), "/db", options).unwrap()
    };
    let db = open();
    db.tree("t", options.clone()).unwrap();
    for round in 0..20u64 {
        let db = open_again(&db, &open, round);
        let tree = db.tree("t", options.clone()).unwrap();
        for i in 0..50 {
            tree.put(key(i), vec![1; 200]).unwrap();
            tree.merge(key(i), vec![2; 150]).unwrap();
        }
        tree.flush().unwrap();
        assert!((0..50).all(|i| tree.get(key(i)).unwrap().unwrap() == vec![1; 200]));
        assert_eq!(files_of(&env, "t").1, 0);
        drop(tree);
        db.close().unwrap();
    }
}

fn open_again(db: &Db, open: &dyn Fn() -> Db, round: u64) -> Db {
    if round == 0 {
        db.close().unwrap();
    }
    open()
}

#[test]
fn a_value_that_cannot_be_read_keeps_no_store_from_going_on() {
    let env = CrashEnv::new(8);
    let options = || DbOptions { background_threads: 0, ..DbOptions::default() };
    let apart = TreeOptions { blob_threshold: 100, blob_gc_percent: 5, ..TreeOptions::default() };
    let db = Db::open_in(Arc::new(env.clone()), "/db", options()).unwrap();
    let tree = db.tree("t", apart.clone()).unwrap();
    (0..20).for_each(|i| tree.put(key(i), vec![i as u8; 800]).unwrap());
    tree.flush().unwrap();
    drop(tree);
    db.close().unwrap();
    let (state, _) = Manifest::load(&env, Path::new("/db")).unwrap().unwrap();
    let v = state.tree_named("t").unwrap().values.values().next().unwrap().clone();
    let path = PathBuf::from(format!("/db/{:08}.sst", v.id));
    let mut bytes = env.read_file(&path).unwrap();
    bytes[v.bytes as usize / 20 * 3 + 30] ^= 1;
    env.write_file(&path, &bytes).unwrap();
    let db = Db::open_in(Arc::new(env.clone()), "/db", options()).unwrap();
    let tree = db.tree("t", apart).unwrap();
    // Most of the file is garbage now, so a compaction discards the file.
    for round in 0..5u8 {
        for i in 5..20 {
            tree.put(key(i), vec![round; 800]).unwrap();
        }
        tree.flush().unwrap();
        tree.compact().unwrap();
    }
    let bad: Vec<u64> = (0..20).filter(|&i| tree.get(key(i)).is_err()).collect();
    assert_eq!(bad, [3]);
    assert_eq!(*tree.get(key(4)).unwrap().unwrap(), [4; 800]);
    tree.put(key(3), b"written again").unwrap();
    tree.flush().unwrap();
    tree.compact().unwrap();
    assert!(db.verify(|_, _| ()).unwrap().errors.is_empty());
    assert_eq!(tree.iter().count(), 20);
}
