//! Counters: no increment is lost or counted twice; after a deletion they start at zero.

use std::sync::Arc;

use firn_kv::Durability;
use firn_kv::MemEnv;
use firn_testkit::rng::Rng;
use firn_wide::internals::store::{CellStore, FamilySpec, StoreFamily, StoreMutation, StoreSlice};

use super::{cell, open, options, row, spec, super_columns};

fn counters() -> FamilySpec {
    FamilySpec { counter: true, ..spec(1, super_columns()) }
}

fn add(store: &CellStore, f: &StoreFamily, key: &[u8], places: &[Vec<u8>], delta: i64) {
    let mut m = StoreMutation::new(key);
    for place in places {
        m.add(f, place, delta);
    }
    store.apply(&[m], Durability::Process).unwrap();
}

fn value(store: &CellStore, f: &StoreFamily, key: &[u8], place: &[u8]) -> Option<i64> {
    store.get(f, key, place).unwrap().map(|c| c.cell().counter().unwrap())
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn eight_threads_lose_no_increment() {
    let env = MemEnv::new(1);
    let mut options = options();
    options.db.background_threads = 2;
    let store = CellStore::open_in(Arc::new(env.clone()), "/store", options).unwrap();
    let f = store.open_family(counters()).unwrap();
    let places: Vec<Vec<u8>> = (0..3u8).map(|i| cell(&f, b"likes", &[i])).collect();
    std::thread::scope(|s| {
        for t in 0..8u64 {
            let (store, f, places) = (&store, &f, &places);
            s.spawn(move || {
                let mut rng = Rng::new(t);
                for i in 0..500 {
                    add(store, f, &[rng.below(2) as u8], places, 1);
                    add(store, f, b"all", &places[..1], t as i64 - 3);
                    if t == 0 && i % 100 == 7 {
                        f.tree().flush().unwrap();
                    }
                }
            });
        }
    });
    let check = |store: &CellStore, f: &StoreFamily| {
        for p in &places {
            let sum = [0u8, 1].iter().filter_map(|k| value(store, f, &[*k], p)).sum::<i64>();
            assert_eq!(sum, 4000);
        }
        assert_eq!(value(store, f, b"all", &places[0]), Some(500 * (28 - 24)));
    };
    check(&store, &f);
    f.tree().compact().unwrap();
    check(&store, &f);
    drop((store, f));
    let store = open(&env);
    let f = store.open_family(counters()).unwrap();
    check(&store, &f);
}

#[test]
fn deleting_starts_from_nothing_and_sums_wrap() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(counters()).unwrap();
    let (a, b, c) = (cell(&f, b"x", b"a"), cell(&f, b"x", b"b"), cell(&f, b"y", b"c"));
    let all = [a.clone(), b.clone(), c.clone()];
    add(&store, &f, b"k", &all, 5);
    f.tree().flush().unwrap();
    add(&store, &f, b"k", &all, i64::MAX);
    let wrapped = 5i64.wrapping_add(i64::MAX);
    assert_eq!(value(&store, &f, b"k", &a), Some(wrapped));
    let mut m = StoreMutation::new(b"k");
    m.delete(&f, &a, 0);
    store.apply(&[m], Durability::Process).unwrap();
    assert_eq!(value(&store, &f, b"k", &a), None);
    add(&store, &f, b"k", &all, 1);
    assert_eq!(value(&store, &f, b"k", &a), Some(1));
    let mut m = StoreMutation::new(b"k");
    m.delete_row(&f, &row(&f, b"x"), 0);
    store.apply(&[m], Durability::Process).unwrap();
    assert_eq!(store.read(&f, b"k", &StoreSlice::all()).unwrap().count_cells(9).unwrap(), 1);
    assert_eq!(value(&store, &f, b"k", &c), Some(wrapped.wrapping_add(1)));
    let many: Vec<Vec<u8>> = (0..200u8).map(|i| cell(&f, b"m", &[i])).collect();
    add(&store, &f, b"k", &many, 2);
    let mut m = StoreMutation::new(b"k");
    m.delete_partition(&f, 0);
    store.apply(&[m], Durability::Process).unwrap();
    assert_eq!(f.tree().iter().count(), 0);
    add(&store, &f, b"k", &many[..1], 2);
    assert_eq!(value(&store, &f, b"k", &many[0]), Some(2));
}

#[test]
fn counters_and_values_do_not_mix() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(counters()).unwrap();
    let g = store.open_family(spec(2, super_columns())).unwrap();
    let place = cell(&f, b"x", b"a");
    let refused = |with: &dyn Fn(&mut StoreMutation)| {
        let mut m = StoreMutation::new(b"k");
        m.add(&f, &place, 1);
        with(&mut m);
        assert!(store.apply(&[m], Durability::Process).is_err());
        assert_eq!(
            value(&store, &f, b"k", &place),
            None,
            "nothing is written when a part is refused"
        );
    };
    refused(&|m| _ = m.put(&f, &place, 1, b"v"));
    refused(&|m| _ = m.add(&g, &place, 1));
}
