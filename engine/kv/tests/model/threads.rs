//! Writers at the same time: each thread writes its own keys in all trees and keeps a map of its own; now and then all stop, and the
//! store must hold what the maps say together. Meanwhile a reader sees each key's writes in order, and batches whole.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_kv::env::mem::Cut;
use firn_kv::{Batch, Db, Durability, Tree};
use firn_testkit::history::TREES;
use firn_testkit::rng::Rng;

use crate::place::Place;
use crate::sets::{self, HOOKED, Set};

const WRITERS: usize = 3;
const ROUNDS: u64 = 4;
const KEYS: u64 = 300;

/// What one thread has written: for each tree the values of its keys.
type Own = Vec<BTreeMap<Vec<u8>, Vec<u8>>>;

/// The first byte names the thread, so that each owns a range of keys.
fn key(thread: usize, n: u64) -> Vec<u8> {
    format!("{thread}-{n:06}").into_bytes()
}

fn open(place: &Place, set: &Set) -> (Db, Vec<Tree>) {
    let db = Db::open_in(place.env.clone(), &place.dir, set.db.clone()).unwrap();
    let trees = (0..TREES).map(|t| db.tree(&format!("tree-{t}"), set.tree_options(t, 0)).unwrap()).collect();
    (db, trees)
}

/// One write of some kind, to the store and to the map.
fn write(set: &Set, db: &Db, trees: &[Tree], own: &mut Own, thread: usize, rng: &mut Rng) -> firn_kv::Result<()> {
    let tree = rng.below(TREES as u64) as usize;
    let (t, n) = (&trees[tree], rng.below(KEYS));
    let k = key(thread, n);
    let mut value = vec![0; rng.below(200) as usize];
    rng.fill(&mut value);
    match rng.below(16) {
        0..7 => {
            t.put(&k, &value)?;
            own[tree].insert(k, value);
        }
        7..10 => {
            t.delete(&k)?;
            own[tree].remove(&k);
        }
        10..12 if HOOKED[tree] => {
            t.merge(&k, &value)?;
            let fold = set.fold_of(tree).unwrap();
            match fold(own[tree].get(&k).map(Vec::as_slice), &value) {
                Some(v) => own[tree].insert(k, v),
                None => own[tree].remove(&k),
            };
        }
        12 => {
            let end = key(thread, (n + rng.below(20)).min(KEYS));
            t.delete_range(&k, &end)?;
            own[tree].retain(|o, _| *o < k || *o >= end);
        }
        13 => {
            // The same in the trees without hooks: a reader must never see one without the other.
            let k = key(thread, KEYS);
            let mut batch = Batch::new();
            for tree in 0..2 {
                batch.put(&trees[tree], &k, &value)?;
                own[tree].insert(k.clone(), value.clone());
            }
            db.write(batch)?;
        }
        14 if rng.one_in(8) => t.flush()?,
        15 if rng.one_in(60) => t.compact()?,
        15 if rng.one_in(8) => {
            t.put_with(&k, &value, Durability::Power)?;
            own[tree].insert(k, value);
        }
        _ => {
            let got = t.get(&k)?;
            assert_eq!(got.as_deref(), own[tree].get(&k).map(Vec::as_slice), "tree {tree}, key {}", k.escape_ascii());
        }
    }
    Ok(())
}

/// Reads beside the writers until they are done: keys ascend, both directions agree, batches are whole.
fn read(db: &Db, trees: &[Tree], done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let snapshot = db.snapshot();
        for thread in 0..WRITERS {
            let k = key(thread, KEYS);
            let [a, b] = [0, 1].map(|t| snapshot.get(&trees[t], &k).unwrap());
            assert_eq!(a.as_deref(), b.as_deref(), "half a batch of thread {thread}");
        }
        for t in trees {
            let forward: Vec<_> = snapshot.range::<&[u8]>(t, ..).map(Result::unwrap).collect();
            let mut backward: Vec<_> = snapshot.range::<&[u8]>(t, ..).rev().map(Result::unwrap).collect();
            backward.reverse();
            assert!(forward.is_sorted_by(|a, b| *a.0 < *b.0));
            assert!(forward == backward, "a snapshot of tree {} changed", t.name());
        }
    }
}

fn compare(trees: &[Tree], owns: &[Own], when: &str) {
    for (tree, t) in trees.iter().enumerate() {
        let got: Vec<_> = t.iter().map(Result::unwrap).map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
        let want: Vec<_> = owns.iter().flat_map(|o| o[tree].clone()).collect();
        let at = got.iter().zip(&want).position(|(g, w)| g != w).unwrap_or(got.len().min(want.len()));
        assert!(got == want, "{when}, tree {tree}, item {at}: expected {:?}, got {:?}", want.get(at), got.get(at));
    }
}

fn play(set: &Set, seed: u64, steps: u64) {
    let mut place = Place::new(set, seed);
    let mut owns: Vec<Own> = vec![vec![BTreeMap::new(); TREES]; WRITERS];
    let mut rng = Rng::new(seed);
    for round in 0..ROUNDS {
        let (db, trees) = open(&place, set);
        compare(&trees, &owns, &format!("seed {seed}, after opening in round {round}"));
        let done = AtomicBool::new(false);
        std::thread::scope(|s| {
            let reader = s.spawn(|| read(&db, &trees, &done));
            let writers: Vec<_> = owns
                .iter_mut()
                .enumerate()
                .map(|(thread, own)| {
                    let (db, trees, mut rng) = (&db, &trees, rng.fork());
                    s.spawn(move || (0..steps).for_each(|_| write(set, db, trees, own, thread, &mut rng).unwrap()))
                })
                .collect();
            let fine: Vec<bool> = writers.into_iter().map(|w| w.join().is_ok()).collect();
            done.store(true, Ordering::Relaxed);
            assert!(reader.join().is_ok() && fine.iter().all(|f| *f), "set {}, seed {seed}, round {round}", set.name);
        });
        compare(&trees, &owns, &format!("seed {seed}, at the end of round {round}"));
        if let (Some(mem), true) = (&place.mem, round % 2 == 0) {
            place = Place::of_image(mem.crash_image(0, &Cut::Process));
        }
    }
}

/// So many writes of each thread in each round.
fn test(name: &str, steps: u64) {
    let all = sets::all();
    let set = all.iter().find(|s| s.name == name).unwrap();
    let first = crate::number("FIRN_MODEL_SEED", 1) as u64;
    let more = crate::number("FIRN_MODEL_OPS", crate::DEFAULT_OPS).div_ceil(crate::DEFAULT_OPS) as u64;
    (first..first + more).for_each(|seed| play(set, seed, steps));
}

#[test]
fn writers_at_once_inline() {
    test("inline", 1500);
}

#[test]
fn writers_at_once_two_threads() {
    test("two_threads", 1500);
}

#[test]
fn writers_at_once_small_budget() {
    test("small_budget", 1500);
}

#[test]
fn writers_at_once_unified() {
    test("unified_threads", 1500);
}

#[test]
fn writers_at_once_on_disk() {
    test("os_map", 1000);
}
