//! Indexes find exactly the rows whose column has the value, after any writes, deletions and
//! expiration.

use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds};
use std::time::Duration;

use firn_kv::Durability;
use firn_kv::MemEnv;
use firn_testkit::rng::Rng;
use firn_wide::Type;
use firn_wide::internals::store::{
    CellStore, FamilySpec, IndexPart, IndexSpec, Partitions, StoreFamily, StoreMutation, StoreSlice,
};

use super::{cell, column, open, row, spec, standard, table};

const COLUMN: &[u8] = b"city";

fn index(id: u32, name: &[u8]) -> IndexSpec {
    IndexSpec {
        id,
        is_static: false,
        name: name.to_vec(),
        part: IndexPart::Value,
        value: Type::Bytes,
    }
}

fn indexed() -> FamilySpec {
    FamilySpec { indexes: vec![index(9, COLUMN)], ..spec(1, standard()) }
}

fn hits(store: &CellStore, f: &StoreFamily, value: &[u8]) -> Vec<Vec<u8>> {
    let mut scan = store.index(f, 9, value, None).unwrap();
    let mut keys = vec![];
    while let Some(hit) = scan.next().unwrap() {
        keys.push(hit.key.to_vec());
    }
    keys
}

/// Returns the keys in entries with values in a range; some entries may be stale.
fn walked(
    store: &CellStore,
    f: &StoreFamily,
    from: Bound<&[u8]>,
    until: Bound<&[u8]>,
) -> Vec<Vec<u8>> {
    let mut walk = store.walk_index(f, 9, (from, until)).unwrap();
    let (mut keys, mut last) = (vec![], vec![]);
    while let Some(entry) = walk.next().unwrap() {
        let mut key = vec![];
        f.layout().key_of(entry.partition, &mut key).unwrap();
        assert!((from, until).contains(entry.value) && *last <= *entry.value);
        last = entry.value.to_vec();
        keys.push(key);
    }
    keys
}

/// Returns the keys that have the value, by a full scan.
fn by_scan(store: &CellStore, f: &StoreFamily, value: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = store.scan(f, &Partitions::all(), &StoreSlice::all()).unwrap();
    let mut keys = vec![];
    while reader.next_partition().unwrap() {
        let key = reader.key().to_vec();
        while let Some(item) = reader.next().unwrap() {
            let mut name = vec![];
            f.layout().name_of(item.place.name, &mut name).unwrap();
            if name == COLUMN && item.cell().unwrap().value() == value {
                keys.push(key.clone());
            }
        }
    }
    keys
}

fn check(store: &CellStore, f: &StoreFamily) {
    for v in 0..4u8 {
        assert_eq!(hits(store, f, &[v]), by_scan(store, f, &[v]));
    }
    // Every row with a value in the range has an entry in it.
    for (from, until) in [
        (Bound::Unbounded, Bound::Unbounded),
        (Bound::Included(1), Bound::Excluded(3)),
        (Bound::Excluded(0), Bound::Included(2)),
    ] {
        let range: (Bound<u8>, Bound<u8>) = (from, until);
        let (from, until) = (from.map(|v| [v]), until.map(|v| [v]));
        let found = walked(store, f, from.as_ref().map(|v| &v[..]), until.as_ref().map(|v| &v[..]));
        for v in (0..4u8).filter(|v| range.contains(v)) {
            assert!(by_scan(store, f, &[v]).iter().all(|key| found.contains(key)));
        }
    }
}

fn random_write(store: &CellStore, f: &StoreFamily, rng: &mut Rng, timestamp: i64) {
    let mut m = StoreMutation::new(&[rng.below(20) as u8]);
    let place = column(f, if rng.one_in(4) { b"other" } else { COLUMN });
    let value = [rng.below(4) as u8];
    match rng.below(10) {
        0 => m.delete(f, &place, timestamp),
        1 => m.delete_partition(f, timestamp),
        2 => m.put_ttl(f, &place, timestamp, &value, 1 + rng.below(20) as u32),
        _ => m.put(f, &place, timestamp, &value),
    };
    store.apply(&[m], Durability::Process).unwrap();
}

#[test]
fn indexes_agree_with_scans() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let env = MemEnv::new(seed);
        let mut store = open(&env);
        let mut f = store.open_family(indexed()).unwrap();
        for i in 0..400 {
            let late = if rng.one_in(3) { rng.below(200) as i64 } else { 0 };
            random_write(&store, &f, &mut rng, 1000 + i - late);
            match rng.below(40) {
                0 => f.tree().compact().unwrap(),
                1 => {
                    drop((f, store));
                    store = open(&env);
                    f = store.open_family(indexed()).unwrap();
                }
                2 => env.advance(Duration::from_secs(rng.below(9))),
                3 => check(&store, &f),
                4 => store.rebuild_index(&f, 9).unwrap(),
                _ => {}
            }
        }
        check(&store, &f);
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn an_index_on_existing_data_is_built_during_writes() {
    let env = MemEnv::new(3);
    let store = open(&env);
    let f = store.open_family(spec(1, standard())).unwrap();
    let mut rng = Rng::new(3);
    (0..300).for_each(|i| random_write(&store, &f, &mut rng, i));
    assert!(store.index(&f, 9, b"x", None).is_err());
    std::thread::scope(|s| {
        for t in 0..3 {
            let (store, f) = (&store, &f);
            s.spawn(move || {
                let mut rng = Rng::new(100 + t);
                (0..300).for_each(|i| random_write(store, f, &mut rng, 300 + i));
            });
        }
        store.open_family(indexed()).unwrap();
    });
    check(&store, &f);
    assert!((0..4u8).any(|v| !hits(&store, &f, &[v]).is_empty()));
    store.open_family(spec(1, standard())).unwrap();
    assert!(store.index(&f, 9, b"x", None).is_err());
    assert!(!store.db().tree_names().contains(&"ix-9".to_string()));
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn concurrent_updates_of_one_row_leave_one_value() {
    let env = MemEnv::new(4);
    let store = open(&env);
    let f = store.open_family(indexed()).unwrap();
    std::thread::scope(|s| {
        for t in 0..4u8 {
            let (store, f) = (&store, &f);
            s.spawn(move || {
                for i in 0..200 {
                    let mut m = StoreMutation::new(&[i as u8 % 3]);
                    m.put(f, &column(f, COLUMN), store.timestamp(), &[t]);
                    store.apply(&[m], Durability::Process).unwrap();
                }
            });
        }
    });
    check(&store, &f);
    assert_eq!((0..4u8).map(|v| hits(&store, &f, &[v]).len()).sum::<usize>(), 3);
    let entries = store.db().existing_tree("ix-9").unwrap();
    assert_eq!(entries.iter().count(), 3, "no entry is left of values that were overwritten");
}

#[test]
fn rows_of_a_table_are_found_one_by_one_and_from_a_key_on() {
    let env = MemEnv::new(5);
    let store = open(&env);
    let name = [0, 1];
    let f = store
        .open_family(FamilySpec { indexes: vec![index(9, &name)], ..spec(1, table()) })
        .unwrap();
    for key in 0..4u8 {
        let mut m = StoreMutation::new(&[key]);
        for r in 0..100u8 {
            m.put(&f, &cell(&f, &[r], &name), 5, &[r % 2]);
        }
        store.apply(&[m], Durability::Process).unwrap();
    }
    let mut m = StoreMutation::new(&[2]);
    m.delete_row(&f, &row(&f, &[7]), 6);
    let mut n = StoreMutation::new(&[3]);
    n.delete_partition(&f, 6);
    store.apply(&[m, n], Durability::Process).unwrap();
    let find = |from: Option<&[u8]>| {
        let mut scan = store.index(&f, 9, &[1], from).unwrap();
        let mut rows = vec![];
        while let Some(hit) = scan.next().unwrap() {
            rows.push((hit.key.to_vec(), hit.row.to_vec()));
        }
        rows
    };
    let rows = find(None);
    assert_eq!(rows.len(), 149);
    assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), 149);
    assert!(rows.contains(&(vec![0], row(&f, &[3]))) && !rows.contains(&(vec![2], row(&f, &[7]))));
    let last = rows.last().unwrap().0.clone();
    let rest = find(Some(&last));
    assert_eq!(rest, rows.iter().filter(|(k, _)| *k == last).cloned().collect::<Vec<_>>());
}
