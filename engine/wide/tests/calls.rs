//! Calls that 1.1 refused or did not have: range deletions, several slices of a row. Each is
//! compared with a simple model of a row.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_testkit::rng::Rng;
use firn_wide::*;

fn keyspace(families: Vec<CfDef>) -> Keyspace {
    let db = DbOptions { background_threads: 0, ..DbOptions::default() };
    let options = Options {
        store: StoreOptions { db, clock: None, ..StoreOptions::default() },
        ..Options::default()
    };
    let wide = Wide::open_in(Arc::new(MemEnv::new(1)), "/wide", options).unwrap();
    wide.system_add_keyspace(&KsDef { cf_defs: families, ..KsDef::new("K") }).unwrap();
    wide.keyspace("K").unwrap()
}

fn family(name: &str, comparator: &str) -> CfDef {
    CfDef { comparator_type: comparator.into(), ..CfDef::new("K", name) }
}

fn why<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Err(Error::InvalidRequest(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn composite(parts: &[&[u8]], end: u8) -> Vec<u8> {
    let mut out = vec![];
    for (i, part) in parts.iter().enumerate() {
        out.extend((part.len() as u16).to_be_bytes());
        out.extend_from_slice(part);
        out.push(if i + 1 == parts.len() { end } else { 0 });
    }
    out
}

/// Returns a name of a type. There are few names, so that ranges contain them and overlap.
fn name(class: &str, rng: &mut Rng) -> Vec<u8> {
    let letter = |rng: &mut Rng| vec![b"abcdef"[rng.below(6) as usize]; 1 + rng.below(2) as usize];
    match class {
        "LongType" | "ReversedType(LongType)" => (rng.below(9) as i64 - 4).to_be_bytes().to_vec(),
        "CompositeType(UTF8Type,UTF8Type)" => {
            let (first, second) = (letter(rng), letter(rng));
            let parts = [&first[..], &second];
            composite(&parts[..1 + rng.below(2) as usize], [0, 1, 0xFF][rng.below(3) as usize])
        }
        _ => letter(rng),
    }
}

const CLASSES: [&str; 4] =
    ["UTF8Type", "LongType", "ReversedType(LongType)", "CompositeType(UTF8Type,UTF8Type)"];

fn range(class: &str, rng: &mut Rng) -> SliceRange {
    let of = Type::parse(class, &Registry::new()).unwrap();
    let end = |rng: &mut Rng| if rng.below(5) == 0 { vec![] } else { name(class, rng) };
    let (mut start, mut finish) = (end(rng), end(rng));
    let reversed = rng.below(2) == 0;
    let ordered = of.compare(&start, &finish);
    if !start.is_empty()
        && !finish.is_empty()
        && (if reversed { ordered.reverse() } else { ordered }).is_gt()
    {
        std::mem::swap(&mut start, &mut finish);
    }
    SliceRange { start, finish, reversed, count: 100 }
}

fn is_inside(of: &Type, range: &SliceRange, name: &[u8]) -> bool {
    let (low, high) = match range.reversed {
        false => (&range.start, &range.finish),
        true => (&range.finish, &range.start),
    };
    (low.is_empty() || of.compare(low, name).is_le())
        && (high.is_empty() || of.compare(name, high).is_le())
}

/// Writes and range deletions in any order, with flushes. The result equals that of a model, in the
/// order of the type, as a whole and by names.
#[test]
fn deleted_ranges_hide_older_cells() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let class = CLASSES[seed as usize % CLASSES.len()];
        let of = Type::parse(class, &Registry::new()).unwrap();
        let is_super = seed % 3 == 1;
        let mut def = family("F", class);
        if is_super {
            def.column_type = "Super".into();
            def.subcomparator_type = Some(class.into());
        }
        let ks = keyspace(vec![def]);
        // Super column (the empty one in Standard families), name: newest write, newest deletion.
        let mut model: BTreeMap<(Vec<u8>, Vec<u8>), (i64, i64)> = BTreeMap::new();
        let supers: Vec<Vec<u8>> = match is_super {
            true => (0..3).map(|_| name(class, &mut rng)).collect(),
            false => vec![vec![]],
        };
        // All possible names, so that deletions affect later writes with older timestamps.
        let names: BTreeSet<Vec<u8>> = (0..24).map(|_| name(class, &mut rng)).collect();
        for s in &supers {
            model.extend(names.iter().map(|n| ((s.clone(), n.clone()), (i64::MIN, i64::MIN))));
        }
        for _ in 0..30 {
            let timestamp = rng.below(20) as i64;
            let super_column = supers[rng.below(supers.len() as u64) as usize].clone();
            let inside = is_super && rng.below(2) == 0;
            if rng.below(3) > 0 {
                let name = names.iter().nth(rng.below(names.len() as u64) as usize).unwrap();
                let mut parent = ColumnParent::new("F");
                if is_super {
                    parent = parent.super_column(super_column.clone());
                }
                ks.insert(b"r", &parent, &Column::new(name.clone(), "v", timestamp)).unwrap();
                for ((s, n), (written, _)) in &mut model {
                    let is_it = of.compare(s, &super_column).is_eq() && of.compare(n, name).is_eq();
                    if is_it && *written < timestamp {
                        *written = timestamp;
                    }
                }
            } else {
                let range = range(class, &mut rng);
                let deletion = Deletion {
                    timestamp: Some(timestamp),
                    super_column: inside.then(|| super_column.clone()),
                    predicate: Some(range.clone().into()),
                };
                ks.batch_mutate(&[RowMutation::new("r", "F", [deletion])]).unwrap();
                for ((s, n), (_, deleted)) in &mut model {
                    let hit = match (is_super, inside) {
                        (true, true) => {
                            of.compare(s, &super_column).is_eq() && is_inside(&of, &range, n)
                        }
                        (true, false) => is_inside(&of, &range, s),
                        (false, _) => is_inside(&of, &range, n),
                    };
                    if hit && *deleted < timestamp {
                        *deleted = timestamp;
                    }
                }
            }
            if rng.below(6) == 0 {
                let id = ks.wide().schema().family("K", "F").unwrap().id();
                ks.wide().store().family(id).unwrap().tree().flush().unwrap();
            }
        }
        for s in &supers {
            let mut parent = ColumnParent::new("F");
            if is_super {
                parent = parent.super_column(s.clone());
            }
            let found = ks.get_slice(b"r", &parent, &SlicePredicate::all()).unwrap();
            let found: Vec<&[u8]> = found.iter().map(|c| c.name()).collect();
            let mut wanted: Vec<&Vec<u8>> = model
                .iter()
                .filter(|((of_super, _), (written, deleted))| of_super == s && written > deleted)
                .map(|((_, name), _)| name)
                .collect();
            wanted.sort_by(|a, b| of.compare(a, b));
            assert!(
                found.len() == wanted.len()
                    && found.iter().zip(&wanted).all(|(a, b)| of.compare(a, b).is_eq()),
                "seed {seed}, {class}: {found:?} and not {wanted:?}"
            );
            for name in &names {
                let path = ColumnPath {
                    column_family: "F".into(),
                    super_column: is_super.then(|| s.clone()),
                    column: Some(name.clone()),
                };
                assert_eq!(ks.get(b"r", &path).is_ok(), wanted.contains(&name), "seed {seed}");
            }
        }
    }
}

#[test]
fn deleted_ranges_of_counters_and_of_indexed_columns() {
    let mut indexed = family("I", "UTF8Type");
    indexed.column_metadata = vec![ColumnDef::new("b", "UTF8Type").indexed()];
    let counters =
        CfDef { default_validation_class: "CounterColumnType".into(), ..family("C", "UTF8Type") };
    let ks = keyspace(vec![indexed, counters]);
    let from_b_to_c = SliceRange { start: "b".into(), finish: "c".into(), ..Default::default() };
    let deletion = |timestamp| Deletion {
        timestamp,
        super_column: None,
        predicate: Some(from_b_to_c.clone().into()),
    };
    let names = |family: &str| -> Vec<String> {
        let all = ks.get_slice(b"r", &ColumnParent::new(family), &SlicePredicate::all()).unwrap();
        all.iter().map(|c| String::from_utf8_lossy(c.name()).into_owned()).collect()
    };
    for name in ["a", "b", "c", "d"] {
        ks.insert(b"r", &ColumnParent::new("I"), &Column::new(name, "v", 5)).unwrap();
        ks.add(b"r", &ColumnParent::new("C"), &CounterColumn::new(name, 1)).unwrap();
    }
    assert_eq!(ks.family("I").unwrap().find().eq("b", "v").rows().unwrap().len(), 1);
    ks.batch_mutate(&[
        RowMutation::new("r", "I", [deletion(Some(5))]),
        RowMutation::new("r", "C", [deletion(None)]),
    ])
    .unwrap();
    assert_eq!([names("I"), names("C")], [["a", "d"]; 2]);
    assert_eq!(ks.family("I").unwrap().find().eq("b", "v").rows().unwrap().len(), 0);
    assert_eq!(
        why(ks.batch_mutate(&[RowMutation::new("r", "I", [deletion(None)])])),
        "Deletion timestamp is not optional for non commutative column family I"
    );
    let backwards = SliceRange { start: "c".into(), finish: "b".into(), ..Default::default() };
    let deletion = Deletion { predicate: Some(backwards.into()), ..Deletion::row(1) };
    assert_eq!(
        why(ks.batch_mutate(&[RowMutation::new("r", "I", [deletion])])),
        "range finish must come after start in the order of traversal"
    );
}

/// Slices that overlap and are out of order return the same as one scan of the row.
#[test]
fn several_slices_are_one_walk() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let class = CLASSES[seed as usize % CLASSES.len()];
        let of = Type::parse(class, &Registry::new()).unwrap();
        let ks = keyspace(vec![family("F", class)]);
        let parent = ColumnParent::new("F");
        for _ in 0..15 {
            ks.insert(b"r", &parent, &Column::new(name(class, &mut rng), "v", 1)).unwrap();
        }
        let reversed = rng.below(2) == 0;
        let ranges: Vec<SliceRange> = (0..1 + rng.below(4))
            .map(|_| {
                let made = range(class, &mut rng);
                let (start, finish) = match made.reversed == reversed {
                    true => (made.start, made.finish),
                    false => (made.finish, made.start),
                };
                SliceRange { start, finish, reversed, count: 100 }
            })
            .collect();
        let count = rng.below(12) as i32;
        let all = SliceRange { reversed, count: i32::MAX, ..SliceRange::default() };
        let mut wanted = ks.get_slice(b"r", &parent, &all.into()).unwrap();
        wanted.retain(|c| ranges.iter().any(|r| is_inside(&of, r, c.name())));
        wanted.truncate(count as usize);
        let pairs: Vec<_> = ranges.into_iter().map(|r| (r.start, r.finish)).collect();
        let found = ks.get_multi_slice(b"r", &parent, &pairs, reversed, count).unwrap();
        assert_eq!(found, wanted, "seed {seed}, {class}: {pairs:?}, {reversed}");
    }
    let ks = keyspace(vec![family("F", "UTF8Type")]);
    let parent = ColumnParent::new("F");
    let ranges = [("a", "b"), ("d", "c")].map(|(a, b)| (a.into(), b.into()));
    for (reversed, text) in [
        (false, "Column slice at index 1 had start greater than finish"),
        (true, "Reversed column slice at index 0 had start less than finish"),
    ] {
        assert_eq!(why(ks.get_multi_slice(b"r", &parent, &ranges, reversed, 9)), text);
    }
    assert_eq!(
        why(ks.get_multi_slice(b"r", &parent, &[], false, -1).and(ks.get_multi_slice(
            b"r",
            &parent,
            &ranges[..1],
            false,
            -1
        ))),
        "get_slice requires non-negative count"
    );
}

/// The class name of a KEYS index is accepted, as clients of that time sent it.
#[test]
fn a_custom_index_of_the_class_of_keys_is_one_of_keys() {
    for class in [
        "org.apache.cassandra.db.index.keys.KeysIndex",
        "org.apache.cassandra.index.internal.keys.KeysIndex",
    ] {
        let mut def = family("F", "UTF8Type");
        let options = BTreeMap::from([("class_name".to_owned(), class.to_owned())]);
        let column = ColumnDef::new("b", "UTF8Type");
        let index_type = Some(IndexType::Custom);
        def.column_metadata = vec![ColumnDef { index_type, index_options: options, ..column }];
        let ks = keyspace(vec![def]);
        ks.family("F").unwrap().row("r").insert("b", "v").unwrap();
        assert_eq!(ks.family("F").unwrap().find().eq("b", "v").rows().unwrap().len(), 1);
        let described = ks.wide().describe_keyspace("K").unwrap().cf_defs.remove(0);
        assert_eq!(described.column_metadata[0].index_type, Some(IndexType::Keys));
        assert!(described.column_metadata[0].index_options.is_empty());
    }
}
