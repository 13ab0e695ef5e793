//! Indexes on collections and key columns find exactly the rows that a full scan finds, each once
//! and in order. This holds after writes, deletions, expiration, compactions, reopening and
//! rebuilding.

use std::collections::BTreeSet;
use std::time::Duration;

use firn_kv::Durability;
use firn_kv::Env;
use firn_kv::MemEnv;
use firn_testkit::rng::Rng;
use firn_wide::Type;
use firn_wide::internals::store::{
    CellStore, FamilySpec, IndexPart, IndexSpec, StoreFamily, StoreMutation,
};

use super::oracle::{Oracle, Step, mutate, step};
use super::{cell, open, row, spec, table};

/// Returns a key with two parts.
fn key_of(key: u8) -> Vec<u8> {
    vec![0, 1, key / 2, 0, 0, 1, key % 2, 0]
}

/// Column 1 has one cell, column 2 has elements; both exist as static columns too.
fn indexes() -> Vec<IndexSpec> {
    let entry = || IndexPart::Entry { path: Type::Bytes };
    let columns = [
        (1, false, IndexPart::Value),
        (1, true, IndexPart::Value),
        (2, false, IndexPart::Path),
        (2, false, IndexPart::Element),
        (2, false, entry()),
        (2, true, IndexPart::Path),
        (2, true, IndexPart::Element),
        (2, true, entry()),
        (0, false, IndexPart::Clustering(0)),
        (0, false, IndexPart::Partition(0)),
        (0, false, IndexPart::Partition(1)),
    ];
    let number = |(id, (n, is_static, part))| IndexSpec {
        id,
        is_static,
        name: vec![0, n],
        part,
        value: Type::Bytes,
    };
    (20..).zip(columns).map(number).collect()
}

fn with_indexes() -> FamilySpec {
    FamilySpec { indexes: indexes(), gc_grace: 30, ..spec(1, table()) }
}

fn tuple(key: &[u8], value: &[u8]) -> Vec<u8> {
    [key, value].map(|p| [&(p.len() as u32).to_be_bytes()[..], p].concat()).concat()
}

/// Partition part, key, row.
type Found = (Vec<u8>, Vec<u8>, Vec<u8>);

/// Returns the expected content of an index: every existing value, with its rows in order.
fn wanted(
    f: &StoreFamily,
    oracle: &Oracle,
    index: &IndexSpec,
    now: i64,
) -> BTreeSet<(Vec<u8>, Found)> {
    let mut out = BTreeSet::new();
    for key in 0..3u8 {
        let mut partition = vec![];
        f.layout().put_partition(&key_of(key), &mut partition).unwrap();
        for (place, value, ..) in oracle.read(key, now) {
            let is_static = place[0] == 0x30;
            let row_len = if is_static { 1 } else { f.layout().row_len(&place).unwrap() };
            let (row, name) = place.split_at(row_len);
            let mut column = [&[0x40][..], &index.name, &[0x38]].concat();
            let path = name.strip_prefix(&*column).filter(|path| !path.is_empty()).map(|path| {
                let mut raw = vec![];
                f.layout().path_of(&Type::Bytes, &path[..path.len() - 1], &mut raw).unwrap();
                raw
            });
            let of_column = is_static == index.is_static && name.starts_with(&column);
            column.clear();
            let sought = match &index.part {
                IndexPart::Value => (of_column && path.is_none()).then(|| value.clone()),
                IndexPart::Path => path.filter(|_| of_column),
                IndexPart::Element => path.filter(|_| of_column).map(|_| value.clone()),
                IndexPart::Entry { .. } => {
                    path.filter(|_| of_column).map(|path| tuple(&path, &value))
                }
                IndexPart::Clustering(_) => (!is_static).then(|| {
                    let mut all = vec![];
                    f.layout().clustering_of(&row[1..], &mut all).unwrap();
                    all.remove(0)
                }),
                IndexPart::Partition(n) => Some(vec![[key / 2, key % 2][*n]]),
            };
            let row = if let IndexPart::Partition(_) = index.part { vec![] } else { row.to_vec() };
            out.extend(sought.map(|s| (s, (partition.clone(), key_of(key), row))));
        }
    }
    out
}

fn find(
    store: &CellStore,
    f: &StoreFamily,
    index: u32,
    value: &[u8],
    from: Option<&[u8]>,
    after: Option<&Found>,
) -> Vec<Found> {
    let mut scan = store.index(f, index, value, from).unwrap();
    let mut found = vec![];
    if let Some((_, key, row)) = after {
        // From any position of the scan.
        if row.len() % 2 == 0 {
            scan.next().unwrap();
        }
        scan.go_on_after(key, row).unwrap();
    }
    while let Some(hit) = scan.next().unwrap() {
        found.push((hit.partition.to_vec(), hit.key.to_vec(), hit.row.to_vec()));
    }
    found
}

/// Compares all indexes with the oracle. Returns the number of rows found.
fn check(store: &CellStore, f: &StoreFamily, oracle: &Oracle, now: i64) -> usize {
    let mut count = 0;
    for index in indexes() {
        let wanted = wanted(f, oracle, &index, now);
        let mut values: BTreeSet<Vec<u8>> = wanted.iter().map(|(value, _)| value.clone()).collect();
        // Values that do not exist now, but may have existed.
        values.extend([vec![], vec![0], vec![3], b"a".to_vec(), b"bx".to_vec()].map(|v| {
            match index.part {
                IndexPart::Entry { .. } => tuple(&[1], &v),
                _ => v,
            }
        }));
        for value in values {
            let want: Vec<Found> = wanted
                .iter()
                .filter(|(v, _)| *v == value)
                .map(|(_, found)| found.clone())
                .collect();
            assert_eq!(find(store, f, index.id, &value, None, None), want, "{index:?} {value:?}");
            for (n, hit) in want.iter().enumerate() {
                assert_eq!(
                    find(store, f, index.id, &value, None, Some(hit)),
                    want[n + 1..],
                    "{index:?} {value:?} {hit:?}"
                );
                let first = want.iter().position(|(p, ..)| *p == hit.0).unwrap();
                assert_eq!(
                    find(store, f, index.id, &value, Some(&hit.1), None),
                    want[first..],
                    "{index:?} {value:?} {hit:?}"
                );
            }
            count += want.len();
        }
    }
    count
}

fn write(store: &CellStore, f: &StoreFamily, steps: &[Step]) {
    let mutation = |s: &Step| {
        let mut m = StoreMutation::new(&key_of(s.key));
        mutate(&mut m, f, s);
        m
    };
    store.apply(&steps.iter().map(mutation).collect::<Vec<_>>(), Durability::Process).unwrap();
}

fn now(env: &MemEnv) -> i64 {
    (env.wall_micros() / 1_000_000) as i64
}

fn history(seed: u64) -> usize {
    let mut rng = Rng::new(seed);
    let env = MemEnv::new(seed);
    let mut store = open(&env);
    let mut f = store.open_family(with_indexes()).unwrap();
    let mut oracle = Oracle::default();
    let mut found = 0;
    for _ in 0..160 {
        let second = now(&env);
        let steps: Vec<Step> = (0..1 + rng.below(4))
            .map(|_| {
                let late = if rng.one_in(3) { rng.below(28) as i64 } else { 0 };
                step(&f, &mut rng, second - late, second, 1)
            })
            .collect();
        write(&store, &f, &steps);
        oracle.steps.extend(steps);
        let index = 20 + rng.below(indexes().len() as u64) as u32;
        match rng.below(24) {
            0 => f.tree().flush().unwrap(),
            1 => f.tree().compact().unwrap(),
            2 => {
                drop((f, store));
                store = open(&env);
                f = store.open_family(with_indexes()).unwrap();
            }
            3..7 => env.advance(Duration::from_secs(rng.below(12))),
            7 => store.rebuild_index(&f, index).unwrap(),
            8 => store.db().existing_tree(&format!("ix-{index}")).unwrap().compact().unwrap(),
            9 => {
                // Drop it, and build it again from data written in the meantime.
                let mut spec = with_indexes();
                spec.indexes.retain(|i| i.id != index);
                store.open_family(spec).unwrap();
                let s = step(&f, &mut rng, second, second, 1);
                write(&store, &f, std::slice::from_ref(&s));
                oracle.steps.push(s);
                store.open_family(with_indexes()).unwrap();
            }
            10..13 => found += check(&store, &f, &oracle, now(&env)),
            _ => {}
        }
    }
    found += check(&store, &f, &oracle, now(&env));
    env.advance(Duration::from_secs(50));
    found + check(&store, &f, &oracle, now(&env))
}

#[test]
fn indexes_of_collections_and_keys_agree_with_scans() {
    let found: usize = (0..16).map(history).sum();
    assert!(found > 4000, "{found}");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn an_index_over_elements_is_built_while_others_write() {
    let env = MemEnv::new(3);
    let store = open(&env);
    let f = store.open_family(spec(1, table())).unwrap();
    let mut rng = Rng::new(3);
    let mut oracle = Oracle::default();
    let second = now(&env);
    let mut random = |rng: &mut Rng, n: usize| -> Vec<Step> {
        let all: Vec<Step> =
            (0..n).map(|i| step(&f, rng, second + i as i64 / 8, second, 1)).collect();
        oracle.steps.extend(all.iter().cloned());
        all
    };
    let before = random(&mut rng, 200);
    let meanwhile = random(&mut rng, 600);
    before.chunks(5).for_each(|s| write(&store, &f, s));
    std::thread::scope(|s| {
        for part in meanwhile.chunks(200) {
            let (store, f) = (&store, &f);
            s.spawn(move || part.chunks(3).for_each(|s| write(store, f, s)));
        }
        store.open_family(with_indexes()).unwrap();
    });
    assert!(check(&store, &f, &oracle, second) > 0);
}

fn entries(store: &CellStore, index: u32) -> usize {
    store.db().existing_tree(&format!("ix-{index}")).unwrap().iter().count()
}

/// Returns the position of an element of column 2.
fn element(f: &StoreFamily, r: u8, path: &[u8]) -> Vec<u8> {
    let mut place = cell(f, &[r], &[0, 2]);
    f.layout().put_path(&Type::Bytes, path, &mut place).unwrap();
    place
}

#[test]
fn a_value_twice_is_one_hit_until_both_are_gone() {
    let env = MemEnv::new(4);
    let store = open(&env);
    let f = store.open_family(with_indexes()).unwrap();
    let key = key_of(1);
    let hits = || find(&store, &f, 23, b"same", None, None).len();
    let apply = |change: &dyn Fn(&mut StoreMutation)| {
        let mut m = StoreMutation::new(&key);
        change(&mut m);
        store.apply(&[m], Durability::Process).unwrap();
    };
    // More in one row than are skipped before a seek.
    apply(&|m| {
        for p in 0..30 {
            m.put(&f, &element(&f, 1, &[p]), 5, b"same");
        }
        m.put(&f, &element(&f, 2, &[0]), 5, b"same");
    });
    assert_eq!((hits(), entries(&store, 23)), (2, 31));
    apply(&|m| {
        for p in 1..30 {
            m.delete(&f, &element(&f, 1, &[p]), 6);
        }
    });
    assert_eq!((hits(), entries(&store, 23)), (2, 2));
    apply(&|m| {
        m.put(&f, &element(&f, 1, &[0]), 7, b"other");
    });
    assert_eq!((hits(), entries(&store, 23)), (1, 2));
    // Replace the whole collection: its deletion and its elements in one call.
    apply(&|m| {
        m.delete_complex(&f, &cell(&f, &[2], &[0, 2]), 9).put(
            &f,
            &element(&f, 2, &[1]),
            10,
            b"same",
        );
    });
    assert_eq!((hits(), entries(&store, 23)), (1, 2));
    assert_eq!(find(&store, &f, 22, &[0], None, None).len(), 1);
    apply(&|m| {
        m.delete_row(&f, &row(&f, &[2]), 11);
    });
    assert_eq!((hits(), entries(&store, 23)), (0, 1));
    apply(&|m| {
        m.delete_partition(&f, 12);
    });
    assert_eq!(
        (20..31).map(|id| entries(&store, id)).sum::<usize>(),
        0,
        "nothing is left in any index"
    );
}

#[test]
fn invalid_index_requests_are_refused() {
    let env = MemEnv::new(5);
    let store = open(&env);
    let f = store.open_family(with_indexes()).unwrap();
    assert!(
        store
            .index(&f, 24, b"no tuple", None)
            .err()
            .unwrap()
            .to_string()
            .contains("a key and a value")
    );
    let mut m = StoreMutation::new(b"no composite");
    m.put(&f, &cell(&f, &[1], &[0, 1]), 5, b"v");
    assert!(store.apply(&[m], Durability::Process).is_err());
}

#[test]
fn entries_of_elements_expire_with_them() {
    let env = MemEnv::new(6);
    let store = open(&env);
    let f = store.open_family(with_indexes()).unwrap();
    let mut m = StoreMutation::new(&key_of(0));
    m.put_ttl(&f, &element(&f, 1, &[1]), 5, b"v", 10).put(&f, &element(&f, 1, &[2]), 5, b"v");
    m.put_ttl(&f, &element(&f, 2, &[1]), 5, b"v", 10);
    store.apply(&[m], Durability::Process).unwrap();
    let hits = |index, value: &[u8]| find(&store, &f, index, value, None, None).len();
    assert_eq!((hits(23, b"v"), hits(22, &[1]), hits(28, &[2]), entries(&store, 23)), (2, 2, 1, 3));
    env.advance(Duration::from_secs(11));
    assert_eq!((hits(23, b"v"), hits(22, &[1]), hits(28, &[2])), (1, 0, 0));
    (20..31)
        .for_each(|id| store.db().existing_tree(&format!("ix-{id}")).unwrap().compact().unwrap());
    assert_eq!((entries(&store, 22), entries(&store, 23), entries(&store, 28)), (1, 1, 1));
}
