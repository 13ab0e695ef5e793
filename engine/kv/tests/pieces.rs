//! Several threads run a large flush or compaction as subcompactions. The result is the same as
//! that of one thread. This includes range deletions, operands and versions of snapshots that cross
//! the boundaries of subcompactions, and it includes failures.

use super::append;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_crash::{CrashEnv, Cut, Fault, FaultEnv, OpClass};
use firn_kv::fs::WriteFile;
use firn_kv::{Db, DbOptions, Env, ErrorKind, Readable, Result, Snapshot, Tree, TreeOptions};
use firn_testkit::as_inside;
use firn_testkit::rng::Rng;
use parking_lot::{Condvar, Mutex};

use append::Append;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Size of a full table in bytes.
const TABLE: u64 = 64 << 10;

/// Opens a store with the given blob threshold. With 0 there are no blobs, and operands are merged.
fn open(env: Arc<dyn Env>, threads: usize, memtable: usize, apart: usize) -> Result<(Db, Tree)> {
    let db = Db::open_in(
        env,
        "/db",
        DbOptions {
            memory_budget: 16 << 20,
            wal_segment: 256 << 10,
            background_threads: threads,
            ..DbOptions::default()
        },
    )?;
    let options = TreeOptions {
        policy: "tiered:min_runs=64:max_runs=64".parse().unwrap(),
        memtable_size: memtable,
        table_size: TABLE,
        merge_operator: if apart == 0 { Some(Arc::new(Append)) } else { None },
        blob_threshold: apart,
        ..TreeOptions::default()
    };
    let tree = db.tree("t", options)?;
    Ok((db, tree))
}

fn key(i: u64) -> Vec<u8> {
    format!("key{i:06}").into_bytes()
}

/// Returns bytes that hardly compress.
fn bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}

/// Applies one random write to the tree and to the map.
fn write(rng: &mut Rng, keys: u64, tree: &Tree, map: &mut Map) {
    let k = rng.below(keys);
    match rng.below(40) {
        0 => {
            let until = key(k + 1 + rng.below(keys / 4));
            tree.delete_range(key(k)..until.clone()).unwrap();
            let gone: Vec<_> = map.range(key(k)..until).map(|(k, _)| k.clone()).collect();
            gone.iter().for_each(|k| _ = map.remove(k));
        }
        1..=4 => {
            tree.delete(key(k)).unwrap();
            map.remove(&key(k));
        }
        5..=9 if tree.options().merge_operator.is_some() => {
            let operand = bytes(rng, 20);
            tree.merge(key(k), &operand).unwrap();
            map.entry(key(k)).or_default().extend(operand);
        }
        _ => {
            let len = 50 + rng.below(300) as usize;
            let value = bytes(rng, len);
            tree.put(key(k), &value).unwrap();
            map.insert(key(k), value);
        }
    }
}

fn shown(source: &impl Readable, tree: &Tree) -> Map {
    source.iter(tree).map(|item| item.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect()
}

fn check(db: &Db, tree: &Tree, map: &Map, snapshots: &[(Snapshot, Map)]) {
    assert!(shown(db, tree) == *map);
    for (snapshot, map) in snapshots {
        assert!(shown(snapshot, tree) == *map);
    }
    for i in (0..2000).step_by(17) {
        assert_eq!(tree.get(key(i)).unwrap().as_deref(), map.get(&key(i)).map(|v| &**v));
    }
    let errors = db.verify(|_, _| {}).unwrap().errors;
    assert!(errors.is_empty(), "{errors:?}");
}

/// Reports whether some table other than the last of its run is not full. Only subcompactions cause
/// this.
fn is_divided(tree: &Tree) -> bool {
    let tables = tree.tables().unwrap();
    let short = |w: &[firn_kv::TableInfo]| w[0].run == w[1].run && w[0].bytes < TABLE;
    tables.windows(2).any(short)
}

/// Returns the number of subcompactions that the event log shows for each job of one type.
fn told_pieces(env: &CrashEnv, kind: &str) -> Vec<u64> {
    let log = env.read_file(Path::new("/db/EVENTS.jsonl")).unwrap();
    let log = String::from_utf8(log).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.filter(|e| e["event"] == kind).map(|e| e["subcompactions"].as_u64().unwrap()).collect()
}

#[test]
fn merges_in_pieces_leave_what_one_thread_leaves() {
    for seed in 1..=6 {
        let (mut rng, apart) = (Rng::new(seed), [0, 300][seed as usize % 2]);
        let threads = 2 + (seed % 3) as usize;
        let env = CrashEnv::new(seed);
        let (db, tree) = open(Arc::new(env.clone()), threads, 256 << 10, apart).unwrap();
        let (mut map, mut snapshots) = (Map::new(), vec![]);
        for round in 0..3 {
            for _ in 0..4000 {
                write(&mut rng, 2000, &tree, &mut map);
                if rng.one_in(1500) {
                    snapshots.push((db.snapshot(), map.clone()));
                }
            }
            tree.compact().unwrap();
            assert!(is_divided(&tree), "{seed}");
            assert!(told_pieces(&env, "compaction").last() > Some(&1), "{seed}");
            check(&db, &tree, &map, &snapshots);
            if round == 1 {
                snapshots.clear();
            }
        }
        snapshots.clear();
        tree.compact().unwrap();
        check(&db, &tree, &map, &[]);
        drop((tree, db));
        // Compacts with one thread, which writes all tables again.
        let before = told_pieces(&env, "compaction").len();
        let (db, tree) = open(Arc::new(env.clone()), 1, 256 << 10, apart).unwrap();
        check(&db, &tree, &map, &[]);
        for i in 0..2000 {
            tree.put(key(i), b"once more").unwrap();
            map.insert(key(i), b"once more".to_vec());
        }
        tree.delete_range(key(0)..key(0)).unwrap();
        tree.compact().unwrap();
        let alone = told_pieces(&env, "compaction").split_off(before);
        assert!(!alone.is_empty() && alone.iter().all(|pieces| *pieces == 1), "{alone:?}");
        check(&db, &tree, &map, &[]);
    }
}

#[test]
fn flushes_in_pieces_leave_what_one_thread_leaves() {
    let mut divided = 0;
    for seed in 1..=4 {
        let (mut rng, apart) = (Rng::new(seed), [0, 300][seed as usize % 2]);
        let env = CrashEnv::new(seed);
        // Only one memtable of this size may be pending, so writers wait for each flush.
        let (db, tree) = open(Arc::new(env.clone()), 3, 2 << 20, apart).unwrap();
        let (mut map, mut snapshots) = (Map::new(), vec![]);
        for _ in 0..40_000 {
            write(&mut rng, 20_000, &tree, &mut map);
            if rng.one_in(15_000) {
                snapshots.push((db.snapshot(), map.clone()));
            }
        }
        db.wait_idle().unwrap();
        let is_told = told_pieces(&env, "flush").iter().any(|pieces| *pieces > 1);
        assert!(is_told || !is_divided(&tree), "{seed}");
        divided += u64::from(is_divided(&tree));
        check(&db, &tree, &map, &snapshots);
        drop((snapshots, tree, db));
        let (db, tree) = open(Arc::new(env), 0, 2 << 20, apart).unwrap();
        check(&db, &tree, &map, &[]);
    }
    assert!(divided > 0);
}

/// Pauses and resumes compactions again and again while a writer waits for flushes. Threads leave
/// and rejoin the subcompactions, and no data is lost.
#[test]
#[allow(clippy::disallowed_methods, reason = "the test acts as an application with a thread")]
fn pauses_beside_flushes_and_merges_lose_nothing() {
    for (threads, apart) in [(2, 0), (3, 300)] {
        let env = CrashEnv::new(threads as u64);
        let (db, tree) = open(Arc::new(env.clone()), threads, 1 << 20, apart).unwrap();
        let policy = "tiered:min_runs=2:max_runs=64".parse().unwrap();
        tree.set_options(TreeOptions { policy, ..tree.options() }).unwrap();
        let (mut rng, mut map) = (Rng::new(threads as u64), Map::new());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let pause = db.pause_background().unwrap();
                    (0..50).for_each(|_| std::thread::yield_now());
                    drop(pause);
                    (0..500).for_each(|_| std::thread::yield_now());
                }
            });
            (0..30_000).for_each(|_| write(&mut rng, 20_000, &tree, &mut map));
            is_over.store(true, Ordering::Relaxed);
        });
        db.wait_idle().unwrap();
        check(&db, &tree, &map, &[]);
        for kind in ["flush", "compaction"] {
            let pieces = told_pieces(&env, kind);
            assert!(pieces.iter().any(|pieces| *pieces > 1), "{kind} {pieces:?}");
        }
    }
}

/// Injects a failure into the nth write or sync of a file during subcompactions. The outputs of the
/// failed compaction are deleted, all other data stays, and the next compaction succeeds.
#[test]
fn a_piece_that_fails_stops_the_others() {
    let mut failed = 0;
    for n in 0..12 {
        let (env, apart) = (CrashEnv::new(n), [0, 300][n as usize % 2]);
        let faults = FaultEnv::new(Arc::new(env.clone()));
        let (db, tree) = open(Arc::new(faults.clone()), 3, 256 << 10, apart).unwrap();
        let (mut rng, mut map) = (Rng::new(n), Map::new());
        (0..2500).for_each(|_| write(&mut rng, 2000, &tree, &mut map));
        tree.flush().unwrap();
        db.wait_idle().unwrap();
        let before = tables(&env);
        faults.only(&[OpClass::Write, OpClass::Sync]);
        faults.fail_nth(faults.count() + n, Fault::Enospc);
        let compacted = tree.compact();
        faults.heal();
        if let Err(e) = compacted {
            if e.kind() == ErrorKind::ReadOnly {
                // The failed operation was the sync of the manifest.
                check(&db, &tree, &map, &[]);
                continue;
            }
            assert!(e.is_transient(), "{e}");
            assert_eq!(tables(&env), before, "{n}");
            failed += 1;
        }
        check(&db, &tree, &map, &[]);
        tree.compact().unwrap();
        check(&db, &tree, &map, &[]);
    }
    assert!(failed > 3, "{failed}");
}

#[test]
fn a_crash_between_the_steps_of_pieces_loses_nothing() {
    let (env, apart) = (CrashEnv::new(1), 300);
    let (db, tree) = open(Arc::new(env.clone()), 3, 256 << 10, apart).unwrap();
    let (mut rng, mut map) = (Rng::new(1), Map::new());
    (0..4000).for_each(|_| write(&mut rng, 2000, &tree, &mut map));
    tree.flush().unwrap();
    db.wait_idle().unwrap();
    env.start_journal();
    tree.compact().unwrap();
    assert!(is_divided(&tree));
    for at in 0..=env.journal_len() {
        for cut in [Cut::Process, Cut::PowerAll, Cut::PowerNone] {
            let (db, tree) =
                open(Arc::new(env.crash_image(at, &cut)), 0, 256 << 10, apart).unwrap();
            assert!(shown(&db, &tree) == map, "{at} {cut:?}");
        }
    }
}

fn tables(env: &CrashEnv) -> Vec<String> {
    let mut names = env.list(Path::new("/db")).unwrap();
    names.retain(|n| n.ends_with(".sst"));
    names
}

/// Environment that blocks the creation of tables until several threads are about to create one.
struct Meeting {
    inner: CrashEnv,
    met: Mutex<(usize, usize)>,
    came: Condvar,
}

impl Env for Meeting {
    as_inside! {
        inner: create_dir_all list sync_dir file_len open_read read_all append create_log reuse_log rename hard_link remove
        remove_dir lock free_space wall_micros monotonic_nanos sleep spawn random
    }

    fn create(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        if file.extension().is_some_and(|e| e == "sst") {
            let mut met = self.met.lock();
            met.0 += 1;
            self.came.notify_all();
            while met.0 < met.1 {
                let late = self.came.wait_for(&mut met, Duration::from_secs(300)).timed_out();
                assert!(!late, "no flush runs at the same time as this one");
            }
        }
        self.inner.create(file)
    }
}

/// Each worker flushes a separate tree, and no flush ends before all have begun. Only the manifest
/// updates of the flushes are serialized.
#[test]
fn trees_are_flushed_side_by_side() {
    for threads in [2, 3] {
        let env = Arc::new(Meeting {
            inner: CrashEnv::new(1),
            met: Mutex::new((0, threads)),
            came: Condvar::new(),
        });
        let options = DbOptions {
            background_threads: threads,
            memory_budget: 64 << 20,
            ..DbOptions::default()
        };
        let db = Db::open_in(env, "/db", options).unwrap();
        let tree_options = TreeOptions { memtable_size: 1 << 20, ..TreeOptions::default() };
        let trees: Vec<Tree> = (0..threads)
            .map(|t| db.tree(&format!("t{t}"), tree_options.clone()).unwrap())
            .collect();
        for tree in &trees {
            (0..3000u64).for_each(|i| tree.put(key(i), [7; 400]).unwrap());
        }
        db.wait_idle().unwrap();
        let flushed = trees.iter().filter(|t| !t.tables().unwrap().is_empty()).count();
        assert_eq!(flushed, threads);
        for tree in &trees {
            assert_eq!(tree.len().unwrap(), 3000);
        }
    }
}
