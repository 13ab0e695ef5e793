//! After a crash at any point of a history, each call is applied completely or not at all, with all
//! its rows and families. Existing data wins and loses as before the crash.

use std::sync::Arc;

use firn_crash::{CrashEnv, Cut};
use firn_kv::Durability;
use firn_testkit::rng::Rng;
use firn_wide::internals::store::{
    CellStore, FamilySpec, IndexPart, IndexSpec, StoreMutation, StoreSlice,
};

use super::{column, options, spec, standard};

const CALLS: i64 = 60;

fn families(store: &CellStore) -> Option<[firn_wide::internals::store::StoreFamily; 2]> {
    let index = IndexSpec {
        id: 9,
        is_static: false,
        name: b"n".to_vec(),
        part: IndexPart::Value,
        value: firn_wide::Type::Bytes,
    };
    let first = FamilySpec { indexes: vec![index], ..spec(1, standard()) };
    Some([store.open_family(first).ok()?, store.open_family(spec(2, standard())).ok()?])
}

fn history(env: &CrashEnv, seed: u64) {
    let store = CellStore::open_in(Arc::new(env.clone()), "/store", options()).unwrap();
    let [f, g] = families(&store).unwrap();
    let mut rng = Rng::new(seed);
    for call in 1..=CALLS {
        let mutations: Vec<StoreMutation> = [b"a", b"b"]
            .iter()
            .map(|key| {
                let mut m = StoreMutation::new(*key);
                if call % 7 == 0 {
                    m.delete_partition(&f, call - 1);
                }
                m.put(&f, &column(&f, b"n"), call, &call.to_be_bytes()).put(
                    &g,
                    &column(&g, b"n"),
                    call,
                    &call.to_be_bytes(),
                );
                m
            })
            .collect();
        store
            .apply(&mutations, if rng.one_in(3) { Durability::Power } else { Durability::Process })
            .unwrap();
        if rng.one_in(20) {
            f.tree().flush().unwrap();
        }
    }
}

fn value(store: &CellStore, f: &firn_wide::internals::store::StoreFamily, key: &[u8]) -> i64 {
    let found = store.get(f, key, &column(f, b"n")).unwrap();
    found.map_or(0, |c| i64::from_be_bytes(c.value().try_into().unwrap()))
}

#[test]
fn a_call_is_whole_or_absent_after_a_crash_anywhere() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..3 {
        let env = CrashEnv::new(seed);
        env.start_journal();
        history(&env, seed);
        let ops = env.journal_len();
        let mut rng = Rng::new(seed + 50);
        for _ in 0..60 {
            let at = rng.below(ops as u64 + 1) as usize;
            let cut = match rng.below(3) {
                0 => Cut::Process,
                1 => Cut::PowerNone,
                _ => Cut::PowerRandom(rng.next_u64()),
            };
            let image = env.crash_image(at, &cut);
            let store = CellStore::open_in(Arc::new(image.clone()), "/store", options()).unwrap();
            let [f, g] = families(&store).unwrap();
            let n = value(&store, &f, b"a");
            assert!(
                [value(&store, &f, b"b"), value(&store, &g, b"a"), value(&store, &g, b"b")]
                    .iter()
                    .all(|v| *v == n)
            );
            seen.insert(n);
            let mut hits = 0;
            let mut scan = store.index(&f, 9, &n.to_be_bytes(), None).unwrap();
            while scan.next().unwrap().is_some() {
                hits += 1;
            }
            assert_eq!(hits, if n == 0 { 0 } else { 2 });
            // Late writes lose, although the newer ones have not been read since the store was
            // opened.
            let mut m = StoreMutation::new(b"a");
            m.put(&f, &column(&f, b"n"), n, &[0; 8]).put(&f, &column(&f, b"new"), 1000, b"x");
            store.apply(&[m], Durability::Process).unwrap();
            assert_eq!(value(&store, &f, b"a"), n);
            assert_eq!(
                store.read(&f, b"a", &StoreSlice::all()).unwrap().count_cells(9).unwrap(),
                2
            );
        }
    }
    assert!(seen.len() > 20, "{}", seen.len());
}
