//! Values that lie apart: whatever is done with them, readers see what they would see otherwise;
//! no file is lost and none stays; merges do not write long values again; and what nobody refers to
//! stays within its bound.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::internals::manifest::{Manifest, TreeState};
use firn_kv::policy::{Leveled, Tiered};
use firn_kv::{
    Compression, Db, DbOptions, MemEnv, Policy, ReadMode, Readable, Snapshot, Tree, TreeOptions,
};
use firn_testkit::rng::Rng;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 300;

fn key(i: u64) -> Vec<u8> {
    format!("key{i:05}").into_bytes()
}

/// A value, half of which does not compress: short, about as long as the threshold, or long.
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
        values_apart: *rng.choose(&[0, 100, 100, 100, 2000]).unwrap(),
        values_garbage: *rng.choose(&[5, 30, 60]).unwrap(),
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

/// That the tree shows the map: by keys, both ways, and by seeks.
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
        assert_eq!(c.valid(), wanted.is_some());
    }
}

/// That the directory has the tables and value files that the manifest names, and no others.
fn check_files(env: &MemEnv, dir: &str) {
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
    env: MemEnv,
    threads: usize,
    db: Option<(Db, Tree)>,
    map: Map,
    snapshots: Vec<(Snapshot, Map)>,
}

impl Life {
    fn new(seed: u64, threads: usize) -> Life {
        let mut life = Life {
            rng: Rng::new(seed),
            env: MemEnv::new(seed),
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
        // What was given when the tree was made stands in the manifest.
        tree.set_options(tree_options(&mut self.rng)).unwrap();
        self.db = Some((db, tree));
    }

    fn close(&mut self) {
        self.snapshots.clear();
        let (db, tree) = self.db.take().unwrap();
        drop(tree);
        db.close().unwrap();
        drop(db);
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
