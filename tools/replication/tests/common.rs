//! A primary and replicas of it over loopback, a random history, and the comparison of stores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firn_kv::{
    Batch, Db, DbOptions, Env, MemEnv, MergeOperator, MergeResult, OsEnv, Result, Tree, TreeOptions,
};
use firn_replication::{Primary, PrimaryOptions, Replica, ReplicaOptions};
use firn_testkit::rng::Rng;

/// Real time within which a replica catches up.
pub const PATIENCE: Duration = Duration::from_secs(60);
pub const DIR: &str = "/store";

/// Appends operands.
#[derive(Debug)]
struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn full_merge(
        &self,
        _: &[u8],
        value: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<MergeResult> {
        Ok(MergeResult::Value([value.unwrap_or_default(), &operands.concat()].concat()))
    }
}

pub fn mem() -> Arc<dyn Env> {
    Arc::new(MemEnv::plain())
}

pub fn db_options() -> DbOptions {
    DbOptions { background_threads: 1, wal_segment: 64 << 10, ..DbOptions::default() }
}

pub fn open(env: &Arc<dyn Env>) -> Db {
    Db::open_in(env.clone(), DIR, db_options()).unwrap()
}

/// Opens a store with the tree `t`, in which `k` is `v`.
pub fn open_with_key(env: &Arc<dyn Env>) -> Db {
    let db = open(env);
    db.tree("t", small()).unwrap().put("k", "v").unwrap();
    db
}

pub fn small() -> TreeOptions {
    TreeOptions { memtable_size: 64 << 10, ..TreeOptions::default() }
}

/// Options of the tree with a merge operator.
pub fn merged() -> TreeOptions {
    TreeOptions { merge_operator: Some(Arc::new(Append)), ..small() }
}

pub fn primary_options() -> PrimaryOptions {
    PrimaryOptions::at(([127, 0, 0, 1], 0).into())
}

pub fn primary(env: &Arc<dyn Env>, db: &Db) -> Primary {
    Primary::start_in(env.clone(), db, primary_options()).unwrap()
}

pub fn replica_options(primary: &Primary) -> ReplicaOptions {
    let mut options = ReplicaOptions::of(primary.address().to_string(), "copy");
    options.store = db_options();
    options
}

pub fn replica(env: &Arc<dyn Env>, primary: &Primary) -> Replica {
    Replica::start_in(env.clone(), DIR, replica_options(primary)).unwrap()
}

/// Waits in real time.
pub fn wait(what: &str, mut is_done: impl FnMut() -> bool) {
    let env = OsEnv::new();
    let end = env.monotonic_nanos() + PATIENCE.as_nanos() as u64;
    while !is_done() {
        assert!(env.monotonic_nanos() < end, "{what} took too long");
        env.sleep(Duration::from_millis(1));
    }
}

/// Waits until the replica has everything.
pub fn catch_up(db: &Db, replica: &Replica) {
    let seq = db.snapshot().seq();
    wait(&format!("catching up: {:?}", replica.status()), || {
        replica.status().position.is_some_and(|p| p.seq >= seq)
    });
}

type Content = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Returns the contents of all trees, read from one snapshot.
pub fn content(db: &Db) -> Content {
    let snapshot = db.snapshot();
    let mut all = Content::new();
    for name in db.tree_names().into_iter().filter(|name| name != "system.replica") {
        let tree = match &*name {
            "merged" => db.tree(&name, merged()).unwrap(),
            _ => db.existing_tree(&name).unwrap(),
        };
        let pairs = snapshot.iter(&tree).map(|pair| {
            let (key, value) = pair.unwrap();
            (key.to_vec(), value.to_vec())
        });
        all.insert(name, pairs.collect());
    }
    all
}

pub fn assert_equal(db: &Db, replica: &Replica) {
    catch_up(db, replica);
    let copy = replica.reader().unwrap();
    let (of_primary, of_copy) = (content(db), content(&copy));
    assert!(of_primary == of_copy, "{:?}\n{:?}", sizes(&of_primary), sizes(&of_copy));
    for name in db.tree_names() {
        let options = |db: &Db| db.existing_tree(&name).unwrap().options();
        assert_eq!(options(db).memtable_size, options(&copy).memtable_size, "{name}");
        assert_eq!(options(db).policy, options(&copy).policy, "{name}");
    }
}

fn sizes(content: &Content) -> Vec<(&String, usize)> {
    content.iter().map(|(name, pairs)| (name, pairs.len())).collect()
}

/// The trees that exist, and `merged`, in random order of creation.
fn tree(db: &Db, rng: &mut Rng) -> Tree {
    match rng.below(4) {
        0 => db.tree("merged", merged()).unwrap(),
        n => db.tree(&format!("t{n}"), small()).unwrap(),
    }
}

/// Changes the store at random.
pub fn change(db: &Db, rng: &mut Rng) {
    let key = |rng: &mut Rng| format!("k{:03}", rng.below(300));
    let value = |rng: &mut Rng| vec![b'a' + rng.below(26) as u8; rng.below(400) as usize];
    match rng.below(40) {
        0 => {
            let mut names = db.tree_names();
            names.retain(|name| name != "pairs");
            if !names.is_empty() {
                db.drop_tree(&names[rng.below(names.len() as u64) as usize]).unwrap();
            }
        }
        1 => {
            let tree = tree(db, rng);
            let memtable_size = (64 + rng.below(64) as usize) << 10;
            tree.set_options(TreeOptions { memtable_size, ..tree.options() }).unwrap();
        }
        2 => tree(db, rng).flush().unwrap(),
        3 => tree(db, rng).compact().unwrap(),
        4 | 5 => {
            let (mut a, mut b) = (key(rng), key(rng));
            if a > b {
                std::mem::swap(&mut a, &mut b);
            }
            tree(db, rng).delete_range(a..b).unwrap();
        }
        6..=9 => {
            let mut batch = Batch::new();
            for _ in 0..rng.below(20) {
                let (tree, key) = (tree(db, rng), key(rng));
                match rng.below(4) {
                    0 => batch.delete(&tree, key).unwrap(),
                    1 if tree.name() == "merged" => batch.merge(&tree, key, "+").unwrap(),
                    _ => batch.put(&tree, key, value(rng)).unwrap(),
                }
            }
            // A tree of the batch may not be dropped before, as nobody else works.
            db.write(batch).unwrap();
        }
        10..=14 => {
            let tree = db.tree("merged", merged()).unwrap();
            tree.merge(key(rng), value(rng)).unwrap();
        }
        15..=18 => tree(db, rng).delete(key(rng)).unwrap(),
        _ => tree(db, rng).put(key(rng), value(rng)).unwrap(),
    }
}
