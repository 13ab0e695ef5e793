//! Threads that write through Thrift's operations and the builder at the same time, with timestamps
//! in any order. The result depends only on the operations, not on their order: for each column the
//! write or deletion with the largest timestamp, for each counter the sum. All reading operations
//! must return exactly that at the end, after a compaction and after reopening. Concurrent readers
//! see each call completely or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_testkit::rng::Rng;
use firn_wide::{
    CfDef, Column, ColumnDef, ColumnOrSuperColumn, ColumnParent, ColumnPath, CounterColumn,
    Deletion, Error, IndexClause, IndexExpression, IndexOperator, KeyRange, Keyspace, KsDef,
    Mutation, Options, RowMutation, SlicePredicate, SliceRange, Wide,
};

const THREADS: u64 = 4;
const STEPS: u64 = 400;
const ROWS: u64 = 6;

/// An operation on a column, with its timestamp.
#[derive(Clone, Debug)]
enum Did {
    Put { row: String, name: String, value: String, at: i64 },
    Delete { row: String, name: String, at: i64 },
    DeleteRow { row: String, at: i64 },
    Add { row: String, name: String, delta: i64 },
}

/// Rows with their columns.
type Rows = BTreeMap<String, BTreeMap<String, String>>;

fn open(env: &MemEnv, threads: usize) -> Wide {
    let mut options = Options { memtable_size: Some(64 << 10), ..Options::default() };
    options.store.db = DbOptions {
        background_threads: threads,
        memory_budget: 8 << 20,
        wal_segment: 256 << 10,
        ..DbOptions::default()
    };
    Wide::open_in(Arc::new(env.clone()), "db", options).unwrap()
}

fn define(wide: &Wide) {
    wide.system_add_keyspace(&KsDef::new("ks")).unwrap();
    let families = [
        CfDef {
            column_metadata: vec![ColumnDef::new("c0", "BytesType").indexed()],
            ..CfDef::new("ks", "plain")
        },
        CfDef {
            column_type: "Super".into(),
            subcomparator_type: Some("BytesType".into()),
            ..CfDef::new("ks", "super")
        },
        CfDef {
            default_validation_class: "CounterColumnType".into(),
            ..CfDef::new("ks", "counts")
        },
    ];
    for family in &families {
        wide.system_add_column_family(family).unwrap();
    }
}

fn row(rng: &mut Rng) -> String {
    format!("row{}", rng.below(ROWS))
}

fn write(ks: &Keyspace, clock: &AtomicI64, rng: &mut Rng) -> Vec<Did> {
    let (key, name) = (row(rng), format!("c{}", rng.below(5)));
    let at = clock.fetch_add(1, Ordering::Relaxed);
    let value = format!("v{}", rng.below(4));
    let plain = ColumnParent::new("plain");
    let family = ks.family("plain").unwrap();
    if rng.one_in(3) {
        // Let writes with larger timestamps come first.
        std::thread::yield_now();
    }
    let put = || Did::Put { row: key.clone(), name: name.clone(), value: value.clone(), at };
    match rng.below(12) {
        0..3 => {
            ks.insert(key.as_bytes(), &plain, &Column::new(name.clone(), value.clone(), at))
                .unwrap();
            vec![put()]
        }
        3 | 4 => {
            family.row(&key).at(at).insert(&name, &value).unwrap();
            vec![put()]
        }
        5 => {
            ks.remove(key.as_bytes(), &ColumnPath::new("plain").column(name.clone()), at).unwrap();
            vec![Did::Delete { row: key, name, at }]
        }
        6 if rng.one_in(3) => {
            family.row(&key).at(at).delete_all().unwrap();
            vec![Did::DeleteRow { row: key, at }]
        }
        7 => {
            ks.add(
                key.as_bytes(),
                &ColumnParent::new("counts"),
                &CounterColumn::new(name.clone(), 3),
            )
            .unwrap();
            vec![Did::Add { row: key, name, delta: 3 }]
        }
        8 => {
            ks.family("counts").unwrap().row(&key).add(&name, -1).unwrap();
            vec![Did::Add { row: key, name, delta: -1 }]
        }
        9 => {
            // The same number in two columns of a row and of a super column, with each kind of
            // call.
            let n = at.to_string();
            let mut all = vec![];
            for name in ["x", "y"] {
                all.push(Did::Put { row: key.clone(), name: name.into(), value: n.clone(), at });
            }
            let columns = ["x", "y"].map(|c| Column::new(c, n.clone(), at));
            if rng.one_in(2) {
                let writes =
                    columns.clone().map(|c| Mutation::Write(ColumnOrSuperColumn::Column(c)));
                ks.batch_mutate(&[RowMutation::new(key.clone(), "plain", writes)]).unwrap();
                let both = firn_wide::SuperColumn::new("s", columns.to_vec());
                let write = Mutation::Write(ColumnOrSuperColumn::SuperColumn(both));
                ks.batch_mutate(&[RowMutation::new(key, "super", [write])]).unwrap();
            } else {
                let mut batch = ks.batch();
                let (row, nested) = (
                    family.row(&key).at(at),
                    ks.family("super").unwrap().row(&key).super_column("s").at(at),
                );
                for c in ["x", "y"] {
                    batch.insert(&row, c, &n).insert(&nested, c, &n);
                }
                assert!(!batch.is_empty());
                batch.commit().unwrap();
            }
            all
        }
        10 => {
            let names = [name.clone(), "x".into(), "y".into()];
            let deletion = Mutation::from(Deletion::names(at, names.clone()));
            ks.batch_mutate(&[RowMutation::new(key.clone(), "plain", [deletion])]).unwrap();
            names.into_iter().map(|name| Did::Delete { row: key.clone(), name, at }).collect()
        }
        _ => {
            // Under the row's lock: the value that was read still exists when it is written again
            // with the same timestamp.
            let copied = ks.update(&[&key], |batch| {
                let seen = family.row(&key).get(&name)?;
                let Some(c) = seen else { return Ok(None) };
                batch.insert(&family.row(&key).at(c.timestamp), &name, &c.value[..]);
                let now = family.row(&key).value::<Vec<u8>>(&name)?;
                assert_eq!(now.as_deref(), Some(&c.value[..]), "another writer interfered");
                Ok(Some(()))
            });
            copied.unwrap();
            vec![]
        }
    }
}

/// Returns the expected result of all operations.
fn left(all: &[Did]) -> (Rows, BTreeMap<String, BTreeMap<String, i64>>) {
    let mut cells: BTreeMap<(&str, &str), (i64, Option<&str>)> = BTreeMap::new();
    let mut gone: BTreeMap<&str, i64> = BTreeMap::new();
    let mut counts: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    for did in all {
        let (row, name, at, value) = match did {
            Did::Put { row, name, value, at } => (row, name, *at, Some(&**value)),
            Did::Delete { row, name, at } => (row, name, *at, None),
            Did::DeleteRow { row, at } => {
                let newest = gone.entry(row).or_insert(*at);
                *newest = (*newest).max(*at);
                continue;
            }
            Did::Add { row, name, delta } => {
                *counts.entry(row.clone()).or_default().entry(name.clone()).or_default() += delta;
                continue;
            }
        };
        let cell = cells.entry((row, name)).or_insert((at, value));
        if at > cell.0 {
            *cell = (at, value);
        }
    }
    let mut rows = Rows::new();
    for ((row, name), (at, value)) in cells {
        if let Some(value) = value.filter(|_| gone.get(row).is_none_or(|g| at > *g)) {
            rows.entry(row.into()).or_default().insert(name.into(), value.into());
        }
    }
    (rows, counts)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn columns(found: &[ColumnOrSuperColumn]) -> BTreeMap<String, String> {
    found.iter().filter_map(|c| c.column()).map(|c| (text(&c.name), text(&c.value))).collect()
}

/// Checks the result with every reading operation.
fn check(wide: &Wide, rows: &Rows, counts: &BTreeMap<String, BTreeMap<String, i64>>) {
    let ks = wide.keyspace("ks").unwrap();
    let (family, plain, all) =
        (ks.family("plain").unwrap(), ColumnParent::new("plain"), SlicePredicate::all());
    let keys: Vec<String> = (0..ROWS).map(|n| format!("row{n}")).collect();
    let none = BTreeMap::new();
    let multi = ks.multiget_slice(&keys, &plain, &all).unwrap();
    let sizes = ks.multiget_count(&keys, &plain, &all).unwrap();
    for key in &keys {
        let want = rows.get(key).unwrap_or(&none);
        let bytes = key.as_bytes();
        assert_eq!(
            columns(&ks.get_slice(bytes, &plain, &all).unwrap()),
            *want,
            "get_slice of {key}"
        );
        assert_eq!(
            multi.get(bytes).map_or(none.clone(), |c| columns(c)),
            *want,
            "multiget_slice of {key}"
        );
        let n = want.len() as i32;
        assert_eq!(
            (ks.get_count(bytes, &plain, &all).unwrap(), sizes.get(bytes).copied().unwrap_or(0)),
            (n, n),
            "counts of {key}"
        );
        let built: Vec<_> = family
            .row(key)
            .slice()
            .columns()
            .unwrap()
            .map(|c| c.map(|c| text(&c.name)).unwrap())
            .collect();
        assert!(built.iter().eq(want.keys()), "{built:?} of {key}");
        let back: Vec<_> = family
            .row(key)
            .slice()
            .reversed()
            .from("c9")
            .to("c1")
            .limit(2)
            .columns()
            .unwrap()
            .collect();
        let of_back =
            want.range("c1".to_owned()..="c9".to_owned()).rev().take(2).map(|(n, _)| n.clone());
        assert!(back.into_iter().map(|c| text(&c.unwrap().name)).eq(of_back), "backward in {key}");
        assert_eq!(family.row(key).slice().count().unwrap(), want.len());
        for name in ["c0", "c1", "x"] {
            let path = ColumnPath::new("plain").column(name);
            let got = match ks.get(bytes, &path) {
                Err(Error::NotFound) => None,
                got => got.unwrap().column().map(|c| text(&c.value)),
            };
            assert_eq!(got.as_ref(), want.get(name), "get of {name} in {key}");
        }
        // Columns written only by batches are the same in the Super family, where they are not
        // deleted.
        let nested = ks.family("super").unwrap().row(key).super_column("s");
        assert_eq!(
            nested.value::<Vec<u8>>("x").unwrap(),
            nested.value::<Vec<u8>>("y").unwrap(),
            "half a batch in {key}"
        );
        let nested = ks.family("super").unwrap().row(key).slice().super_columns().unwrap();
        assert!(
            nested.iter().all(|s| s.columns.len() == 2) && nested.len() < 2,
            "half a batch in {key}"
        );
        for (name, sum) in counts.get(key).into_iter().flatten() {
            assert_eq!(
                ks.family("counts").unwrap().row(key).counter(name).unwrap(),
                *sum,
                "counter {name} of {key}"
            );
        }
        let listed = ks.family("counts").unwrap().row(key).slice().counters().unwrap();
        assert_eq!(listed.len(), counts.get(key).map_or(0, BTreeMap::len), "counters of {key}");
    }
    let one = ks.multiget(&keys, &ColumnPath::new("plain").column("c1")).unwrap();
    assert!(
        one.keys()
            .map(|k| text(k))
            .eq(rows.iter().filter(|(_, r)| r.contains_key("c1")).map(|(k, _)| k.clone()))
    );
    let range = KeyRange::keys("", "").count(1000);
    let slices = ks.get_range_slices(&plain, &all, &range).unwrap();
    let seen: Rows = slices
        .iter()
        .map(|s| (text(&s.key), columns(&s.columns)))
        .filter(|(_, c)| !c.is_empty())
        .collect();
    assert_eq!(seen, *rows, "get_range_slices");
    let paged = ks.get_paged_slice("plain", &range, b"").unwrap();
    assert_eq!(
        paged.iter().map(|s| s.columns.len()).sum::<usize>(),
        rows.values().map(BTreeMap::len).sum::<usize>()
    );
    let some: SlicePredicate = SliceRange { count: 1, ..SliceRange::default() }.into();
    assert!(
        ks.get_range_slices(&plain, &some, &range).unwrap().iter().all(|s| s.columns.len() <= 1)
    );
    let live = ks.get_key_range("plain", b"", b"", 1000).unwrap();
    assert!(rows.keys().all(|k| live.iter().any(|l| text(l) == *k)), "get_key_range");
    let walked = family
        .rows()
        .columns(100)
        .iter()
        .unwrap()
        .map(Result::unwrap)
        .filter(|s| !s.columns.is_empty())
        .count();
    assert_eq!(walked, rows.len(), "the builder's rows");
    for value in ["v0", "v1", "v2", "v3"] {
        let want: Vec<_> = rows
            .iter()
            .filter(|(_, r)| r.get("c0").is_some_and(|v| v == value))
            .map(|(k, _)| k.clone())
            .collect();
        let clause = IndexClause {
            count: 100,
            ..IndexClause::new([IndexExpression::new("c0", IndexOperator::Eq, value)])
        };
        for found in [
            ks.get_indexed_slices(&plain, &clause, &all).unwrap(),
            family.find().eq("c0", value).limit(100).rows().unwrap(),
        ] {
            let mut found: Vec<_> = found.iter().map(|s| text(&s.key)).collect();
            found.sort();
            assert_eq!(found, want, "rows with c0 = {value}");
        }
        let of = |find: firn_wide::Find| -> Vec<String> {
            let mut keys: Vec<_> = find.rows().unwrap().iter().map(|s| text(&s.key)).collect();
            keys.sort();
            keys
        };
        let c1 =
            |key: &String, fits: fn(&str) -> bool| rows[key].get("c1").is_some_and(|v| fits(v));
        let eq = || family.find().eq("c0", value);
        let wanted = |fits: fn(&str) -> bool| {
            want.iter().filter(|k| c1(k, fits)).cloned().collect::<Vec<_>>()
        };
        assert_eq!(of(eq().gt("c1", "v1")), wanted(|v| v > "v1"));
        assert_eq!(of(eq().gte("c1", "v1")), wanted(|v| v >= "v1"));
        assert_eq!(of(eq().lt("c1", "v2")), wanted(|v| v < "v2"));
        assert_eq!(of(eq().lte("c1", "v2")), wanted(|v| v <= "v2"));
    }
}

/// Checks that descriptions match the definitions.
fn describe(wide: &Wide) {
    let ks = wide.keyspace("ks").unwrap();
    assert!(wide.describe_keyspaces().iter().map(|k| &*k.name).eq(["ks"]));
    let mut families: Vec<_> =
        wide.describe_keyspace("ks").unwrap().cf_defs.into_iter().map(|f| f.name).collect();
    families.sort();
    assert_eq!(families, ["counts", "plain", "super"]);
    assert_eq!((ks.name(), ks.wide().schema().version()), ("ks", wide.schema().version()));
    let ring = wide.describe_ring("ks").unwrap();
    assert!(
        ring.len() == 1 && ring[0].start_token == ring[0].end_token && ring[0].endpoints.len() == 1,
        "{ring:?}"
    );
    assert!(wide.describe_ring("nope").is_err());
    assert_eq!(
        wide.describe_token_map().values().collect::<Vec<_>>(),
        ring[0].endpoints.iter().collect::<Vec<_>>()
    );
    let versions = wide.describe_schema_versions();
    assert!(
        versions.keys().map(String::as_str).eq([wide.schema().version().to_string()]),
        "{versions:?}"
    );
    assert_eq!(
        (wide.describe_cluster_name(), wide.describe_partitioner()),
        ("Firn", wide.partitioner().full_name())
    );
    assert!(
        wide.describe_snitch().contains('.') && wide.describe_version().split('.').count() == 3
    );
}

/// Checks during writes that calls are seen completely.
fn read(ks: &Keyspace, done: &AtomicBool) {
    let mut rng = Rng::new(9);
    while !done.load(Ordering::Relaxed) {
        let key = row(&mut rng);
        let nested = ColumnParent::new("super").super_column("s");
        let both = columns(&ks.get_slice(key.as_bytes(), &nested, &SlicePredicate::all()).unwrap());
        assert_eq!(both.get("x"), both.get("y"), "half a call in {key}");
        let range = KeyRange::keys("", "").count(100);
        for slice in
            ks.get_range_slices(&nested, &SlicePredicate::names(["x", "y"]), &range).unwrap()
        {
            let both = columns(&slice.columns);
            assert_eq!(both.get("x"), both.get("y"), "half a call in a range");
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn history(seed: u64) -> usize {
    let env = MemEnv::new(seed);
    let wide = open(&env, (seed % 3) as usize);
    define(&wide);
    let (clock, done, ks) =
        (AtomicI64::new(1), AtomicBool::new(false), wide.keyspace("ks").unwrap());
    let mut all = vec![];
    std::thread::scope(|s| {
        let reader = s.spawn(|| read(&ks, &done));
        let writers: Vec<_> = (0..THREADS)
            .map(|n| {
                let (ks, clock, family, wide) = (&ks, &clock, ks.family("plain").unwrap(), &wide);
                s.spawn(move || {
                    let mut rng = Rng::new(seed * THREADS + n);
                    let mut mine = vec![];
                    for step in 0..STEPS {
                        mine.extend(write(ks, clock, &mut rng));
                        match (n, step % 50) {
                            (0, 20) => family.rebuild_index("c0").unwrap(),
                            (1, 30) => drop(family.purge_report().unwrap()),
                            (2, 40) => {
                                // Create and drop definitions during writes.
                                wide.system_add_column_family(&CfDef::new("ks", "short")).unwrap();
                                ks.insert(
                                    b"k",
                                    &ColumnParent::new("short"),
                                    &Column::new("c", "v", 1),
                                )
                                .unwrap();
                                ks.truncate("short").unwrap();
                                wide.system_drop_column_family("ks", "short").unwrap();
                            }
                            (3, 25) => {
                                let mut def = wide.describe_keyspace("ks").unwrap();
                                let mut plain = def.cf_defs.swap_remove(
                                    def.cf_defs.iter().position(|f| f.name == "plain").unwrap(),
                                );
                                plain.comment = format!("at step {step}");
                                wide.system_update_column_family(&plain).unwrap();
                            }
                            (3, 35) => {
                                wide.system_add_keyspace(&KsDef::new("other")).unwrap();
                                wide.system_update_keyspace(&KsDef {
                                    durable_writes: false,
                                    ..KsDef::new("other")
                                })
                                .unwrap();
                                wide.system_drop_keyspace("other").unwrap();
                            }
                            (3, 45) => wide.store().db().sync().unwrap(),
                            _ => {}
                        }
                    }
                    mine
                })
            })
            .collect();
        let logs: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        logs.into_iter().for_each(|l| all.extend(l.unwrap()));
    });
    let (rows, counts) = left(&all);
    check(&wide, &rows, &counts);
    let db = wide.store().db();
    db.tree_names()
        .iter()
        .filter(|n| n.starts_with("cf-"))
        .for_each(|n| db.existing_tree(n).unwrap().compact().unwrap());
    check(&wide, &rows, &counts);
    describe(&wide);
    drop((ks, wide));
    check(&open(&env, 0), &rows, &counts);
    rows.len()
}

#[test]
fn the_greatest_timestamp_wins_in_any_order() {
    let rows: usize = (1..5).map(history).sum();
    assert!(rows > 12, "{rows}");
}
