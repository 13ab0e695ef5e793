//! Long sequences of merge operands in memtables. Reads combine them once and return the same
//! values as before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use firn_kv::{
    Db, DbOptions, MemEnv, MergeOperator, MergeResult, Result, Snapshot, Tree, TreeOptions, Value,
};
use firn_testkit::rng::Rng;

/// Merge operator that appends operands and counts the operands that it received.
#[derive(Default)]
struct Append(AtomicUsize);

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }
    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        self.0.fetch_add(operands.len(), Relaxed);
        Ok(MergeResult::Value([&[base.unwrap_or_default()], operands].concat().concat()))
    }
    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.0.fetch_add(1, Relaxed);
        Some([older, newer].concat())
    }
}

fn open(hook: Arc<Append>) -> (Db, Tree) {
    let options = DbOptions { background_threads: 0, ..DbOptions::default() };
    let db = Db::open_in(Arc::new(MemEnv::new(1)), "/db", options).unwrap();
    let tree =
        db.tree("t", TreeOptions { merge_operator: Some(hook), ..TreeOptions::default() }).unwrap();
    (db, tree)
}

#[test]
fn reads_walk_each_operand_once() {
    let hook = Arc::new(Append::default());
    let (db, tree) = open(hook.clone());
    for i in 0..5000_u32 {
        tree.merge(b"k", &i.to_be_bytes()).unwrap();
    }
    let all: Vec<u8> = (0..5000_u32).flat_map(u32::to_be_bytes).collect();
    let walked = |read: &dyn Fn() -> Vec<u8>| {
        let before = hook.0.load(Relaxed);
        assert!(read() == all);
        hook.0.load(Relaxed) - before
    };
    let get = || tree.get(b"k").unwrap().unwrap().to_vec();
    let first = || tree.iter().next().unwrap().unwrap().1.to_vec();
    let last = || tree.iter().next_back().unwrap().unwrap().1.to_vec();
    assert!(walked(&get) >= 5000, "operands must not be combined yet");
    for read in [&get as &dyn Fn() -> Vec<u8>, &first, &last] {
        assert!(walked(read) <= 65);
    }
    // A reader of an older state visits all operands and still sees the old value.
    let snapshot = db.snapshot();
    tree.merge(b"k", b"!").unwrap();
    for _ in 0..100 {
        tree.merge(b"k", b"!").unwrap();
        tree.get(b"k").unwrap();
    }
    assert!(snapshot.get(&tree, b"k").unwrap().unwrap().to_vec() == all);
}

/// Current value of each key, or its value at a snapshot.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[test]
fn what_is_seen_is_the_same_in_random_histories() {
    for seed in 0..100 {
        let (db, tree) = open(Arc::new(Append::default()));
        let mut rng = Rng::new(seed);
        let mut model = Model::new();
        let mut snapshots: Vec<(Snapshot, Model)> = vec![];
        for i in 0..1500_u32 {
            let key = vec![b'a' + rng.below(3) as u8];
            match rng.below(400) {
                0 => {
                    tree.put(&key, b"base").unwrap();
                    model.insert(key, b"base".to_vec());
                }
                1 => {
                    tree.delete(&key).unwrap();
                    model.remove(&key);
                }
                2 => {
                    tree.delete_range(&b"b"[..]..&b"d"[..]).unwrap();
                    model.retain(|k, _| k.as_slice() < b"b".as_slice());
                }
                3 => tree.flush().unwrap(),
                4..8 => snapshots.push((db.snapshot(), model.clone())),
                8..20 => {
                    assert_eq!(tree.get(&key).unwrap().as_deref(), model.get(&key).map(|v| &v[..]));
                }
                20..26 => {
                    let seen: Model = tree.iter().map(Result::unwrap).map(owned).collect();
                    assert!(seen == model, "{seed} {i}");
                    let seen: Model = tree.iter().rev().map(Result::unwrap).map(owned).collect();
                    assert!(seen == model, "{seed} {i}");
                }
                26..30 if !snapshots.is_empty() => {
                    let (snapshot, then) = &snapshots[rng.below(snapshots.len() as u64) as usize];
                    let seen: Model = snapshot.iter(&tree).map(Result::unwrap).map(owned).collect();
                    assert!(seen == *then, "{seed} {i}");
                    let got = snapshot.get(&tree, &key).unwrap();
                    assert_eq!(got.as_deref(), then.get(&key).map(|v| &v[..]));
                }
                _ => {
                    tree.merge(&key, &i.to_be_bytes()).unwrap();
                    model.entry(key).or_default().extend(i.to_be_bytes());
                }
            }
        }
    }
}

fn owned((key, value): (Value, Value)) -> (Vec<u8>, Vec<u8>) {
    (key.to_vec(), value.to_vec())
}
