//! A store in memory with its expected contents, and a repository of its backups.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use firn_backup::{BackupRepository, BackupSummary, FolderStorage, Pacing};
use firn_crash::CrashEnv;
use firn_kv::{Batch, Db, DbOptions, Env, Result, TreeOptions};
use firn_testkit::rng::Rng;

/// Contents of a store: keys and values of each tree.
pub type Model = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

pub const STORE: &str = "/data/store";
pub const BACKUPS: &str = "/vault/backups";

pub fn small() -> DbOptions {
    DbOptions {
        background_threads: 0,
        memory_budget: 1 << 20,
        wal_segment: 64 << 10,
        event_log: false,
        ..DbOptions::default()
    }
}

pub fn folder(env: &Arc<dyn Env>) -> BackupRepository {
    BackupRepository::new(env.clone(), Arc::new(FolderStorage::new(env.clone(), BACKUPS)))
}

pub fn create(backups: &BackupRepository, db: &Db) -> Result<BackupSummary> {
    backups.create(db, &mut Pacing::default())
}

/// Returns the contents of a store.
pub fn content(db: &Db) -> Model {
    let tree = |name: String| {
        let tree = db.existing_tree(&name).unwrap();
        let pairs = tree.iter().map(|pair| {
            let (key, value) = pair.unwrap();
            (key.to_vec(), value.to_vec())
        });
        (name, pairs.collect())
    };
    db.tree_names().into_iter().map(tree).collect()
}

/// Restores a store and returns its contents.
pub fn restored(env: &Arc<dyn Env>, backups: &BackupRepository, id: &str) -> Model {
    let into = PathBuf::from(format!("/restored/{:016x}", env.random()));
    backups.restore(id, &into, &mut Pacing::default()).unwrap();
    content(&Db::open_in(env.clone(), &into, small()).unwrap())
}

pub fn memory(seed: u64) -> (CrashEnv, Arc<dyn Env>) {
    let mem = CrashEnv::new(seed);
    (mem.clone(), Arc::new(mem))
}

/// A store with its expected contents.
pub struct Modelled {
    pub env: Arc<dyn Env>,
    pub db: Db,
    pub model: Model,
}

impl Modelled {
    pub fn new(env: &Arc<dyn Env>) -> Modelled {
        let db = Db::open_in(env.clone(), STORE, small()).unwrap();
        Modelled { env: env.clone(), model: content(&db), db }
    }

    pub fn reopen(&mut self) {
        self.db.close().unwrap();
        self.db = Db::open_in(self.env.clone(), STORE, small()).unwrap();
    }

    /// Applies a random change to the store.
    pub fn change(&mut self, rng: &mut Rng) {
        let name = format!("tree-{}", rng.below(4));
        let key = |rng: &mut Rng| format!("key-{:03}", rng.below(400)).into_bytes();
        if rng.one_in(60) && self.model.contains_key(&name) {
            self.db.drop_tree(&name).unwrap();
            self.model.remove(&name);
            return;
        }
        // In every other tree the longer values are in blob files.
        let apart = name.ends_with(['1', '3']);
        let blob_threshold = if apart { 40 } else { 0 };
        let options = TreeOptions { blob_threshold, ..TreeOptions::default() };
        let tree = self.db.tree(&name, options).unwrap();
        let held = self.model.entry(name).or_default();
        match rng.below(12) {
            0 => tree.flush().unwrap(),
            1 => tree.compact().unwrap(),
            2 => {
                let (a, b) = (key(rng), key(rng));
                let (from, to) = (a.clone().min(b.clone()), a.max(b));
                tree.delete_range(from.as_slice()..to.as_slice()).unwrap();
                held.retain(|k, _| k < &from || k >= &to);
            }
            3 => {
                let first = rng.below(300);
                let pairs: Vec<_> = (first..first + rng.below(100))
                    .map(|n| (format!("key-{n:03}").into_bytes(), b"ingested".to_vec()))
                    .collect();
                tree.ingest(pairs.iter().map(|(k, v)| (k, v))).unwrap();
                held.extend(pairs);
            }
            _ => {
                let mut batch = Batch::new();
                for _ in 0..rng.range(1..200) {
                    let key = key(rng);
                    if rng.one_in(4) {
                        batch.delete(&tree, &key).unwrap();
                        held.remove(&key);
                    } else {
                        let mut value = vec![0; rng.below(100) as usize];
                        rng.fill(&mut value);
                        batch.put(&tree, &key, &value).unwrap();
                        held.insert(key, value);
                    }
                }
                self.db.write(batch).unwrap();
            }
        }
    }
}
