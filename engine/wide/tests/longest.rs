//! Row keys, names of super columns and names of columns with 65,535 bytes each, of any bytes. They
//! are written, read individually, in slices, in ranges and by an index, and deleted. They are in
//! memtables and in table files, also after reopening.

use std::sync::Arc;

use firn_crash::{CrashEnv, Cut};
use firn_kv::DbOptions;
use firn_wide::*;
use firn_wide::{CfDef, ColumnDef, Comparator, KsDef, Malformed, Registry, TypeError};

fn options(partitioner: &str) -> Options {
    let db = DbOptions {
        background_threads: 0,
        memory_budget: 32 << 20,
        wal_segment: 1 << 20,
        ..DbOptions::default()
    };
    Options {
        store: StoreOptions { db, clock: None, ..StoreOptions::default() },
        partitioner: Some(partitioner.into()),
        ..Options::default()
    }
}

fn open(env: &CrashEnv, partitioner: &str) -> Wide {
    Wide::open_in(Arc::new(env.clone()), "/wide", options(partitioner)).unwrap()
}

/// Returns the longest key or name with this end, of bytes that take the most space in the engine's
/// keys: zeros separated by other bytes.
fn longest(end: u8) -> Vec<u8> {
    let mut name: Vec<u8> = (0..MAX_SHORT).map(|i| (i % 2) as u8).collect();
    name[MAX_SHORT - 1] = end;
    name
}

/// A row key and its columns, in super columns or not.
type Row = (Vec<u8>, Vec<(Option<Vec<u8>>, Vec<Column>)>);

fn rows(ks: &Keyspace, family: &str) -> Vec<Row> {
    let found = ks
        .get_range_slices(
            &ColumnParent::new(family),
            &SlicePredicate::all(),
            &KeyRange::keys("", ""),
        )
        .unwrap();
    let mut rows: Vec<Row> = vec![];
    for row in found {
        let mut columns: Vec<(Option<Vec<u8>>, Vec<Column>)> = vec![];
        for c in row.columns {
            match c {
                ColumnOrSuperColumn::SuperColumn(s) => columns.push((Some(s.name), s.columns)),
                ColumnOrSuperColumn::Column(c) => match columns.last_mut() {
                    Some((None, all)) => all.push(c),
                    _ => columns.push((None, vec![c])),
                },
                other => panic!("{:?}", other.name()),
            }
        }
        rows.push((row.key, columns));
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}

fn column(end: u8) -> Column {
    Column::new(longest(end), [end], 7)
}

#[test]
fn a_row_key_and_each_name_have_their_own_65535_bytes() {
    for partitioner in ["Murmur3Partitioner", "RandomPartitioner", "ByteOrderedPartitioner"] {
        let env = CrashEnv::new(1);
        let wide = open(&env, partitioner);
        let standard = CfDef { comparator_type: "BytesType".into(), ..CfDef::new("K", "F") };
        let reversed =
            CfDef { comparator_type: "ReversedType(BytesType)".into(), ..CfDef::new("K", "R") };
        let names = ["BytesType"; 2].map(String::from);
        let [comparator_type, subcomparator] = names;
        let super_columns = CfDef {
            column_type: "Super".into(),
            comparator_type,
            subcomparator_type: Some(subcomparator),
            ..CfDef::new("K", "S")
        };
        wide.system_add_keyspace(&KsDef {
            cf_defs: vec![standard, reversed, super_columns],
            ..KsDef::new("K")
        })
        .unwrap();
        let ks = wide.keyspace("K").unwrap();
        for key in [1, 2] {
            for name in [1, 2, 3] {
                for family in ["F", "R"] {
                    ks.family(family)
                        .unwrap()
                        .row(longest(key))
                        .at(7)
                        .insert(longest(name), [name])
                        .unwrap();
                }
                for super_column in [1, 2] {
                    let row = ks
                        .family("S")
                        .unwrap()
                        .row(longest(key))
                        .super_column(longest(super_column));
                    row.at(7).insert(longest(name), [name]).unwrap();
                }
            }
            // Delete a column and a super column again.
            ks.family("F").unwrap().row(longest(key)).at(8).delete(longest(2)).unwrap();
            let super_column = ks.family("S").unwrap().row(longest(key)).super_column(longest(1));
            super_column.at(8).delete_all().unwrap();
        }
        let expected = |columns: Vec<(Option<Vec<u8>>, Vec<Column>)>| -> Vec<Row> {
            [1, 2].map(|key| (longest(key), columns.clone())).into()
        };
        let check = |ks: &Keyspace| {
            assert!(
                rows(ks, "F") == expected(vec![(None, vec![column(1), column(3)])]),
                "{partitioner}"
            );
            assert!(
                rows(ks, "R") == expected(vec![(None, vec![column(3), column(2), column(1)])]),
                "{partitioner}"
            );
            let all = vec![column(1), column(2), column(3)];
            assert!(
                rows(ks, "S") == expected(vec![(Some(longest(2)), all.clone())]),
                "{partitioner}"
            );
            let row = ks.family("F").unwrap().row(longest(2));
            assert_eq!(row.get(longest(3)).unwrap(), Some(column(3)));
            assert_eq!(row.get(longest(2)).unwrap(), None);
            assert_eq!(row.slice().from(longest(2)).count().unwrap(), 1);
            assert_eq!(row.slice().from(longest(2)).reversed().count().unwrap(), 1);
            let row = ks.family("S").unwrap().row(longest(2));
            assert_eq!(row.super_column(longest(2)).get(longest(3)).unwrap(), Some(column(3)));
            assert_eq!(row.super_column(longest(1)).get(longest(3)).unwrap(), None);
            assert_eq!(
                row.super_column(longest(2))
                    .slice()
                    .from(longest(2))
                    .to(longest(2))
                    .count()
                    .unwrap(),
                1
            );
        };
        check(&ks);
        let tree = |wide: &Wide, family: &str| {
            let id = wide.schema().family("K", family).unwrap().id();
            wide.store().family(id).unwrap().tree().clone()
        };
        for family in ["F", "R", "S"] {
            tree(&wide, family).flush().unwrap();
        }
        check(&ks);
        drop((ks, wide));
        let wide = open(&env.crash_image(0, &Cut::PowerNone), partitioner);
        let ks = wide.keyspace("K").unwrap();
        check(&ks);
        for family in ["F", "R", "S"] {
            tree(&wide, family).compact().unwrap();
        }
        check(&ks);
        assert!(wide.store().db().verify(|_, _| {}).unwrap().errors.is_empty());
        // Delete whole rows.
        ks.family("F").unwrap().row(longest(1)).at(9).delete_all().unwrap();
        ks.family("S").unwrap().row(longest(1)).at(9).delete_all().unwrap();
        for family in ["F", "S"] {
            tree(&wide, family).compact().unwrap();
            let with_columns =
                rows(&ks, family).into_iter().filter(|r| !r.1.is_empty()).map(|r| r.0);
            assert!(with_columns.eq([longest(2)]), "{partitioner}");
        }
    }
}

#[test]
fn an_index_finds_the_longest_values_of_rows_with_the_longest_keys() {
    let env = CrashEnv::new(1);
    let wide = open(&env, "Murmur3Partitioner");
    let name = longest(9);
    let column = ColumnDef::new(name.clone(), "BytesType").indexed();
    let family = CfDef {
        comparator_type: "BytesType".into(),
        column_metadata: vec![column],
        ..CfDef::new("K", "F")
    };
    wide.system_add_keyspace(&KsDef { cf_defs: vec![family], ..KsDef::new("K") }).unwrap();
    let ks = wide.keyspace("K").unwrap();
    let family = ks.family("F").unwrap();
    for (key, value) in [(1, 1), (2, 2), (3, 1), (4, 1)] {
        family.row(longest(key)).insert(&name, longest(value)).unwrap();
    }
    family.row(longest(3)).insert(&name, longest(2)).unwrap();
    let check = |ks: &Keyspace| {
        for (value, keys) in [(1, [1, 4]), (2, [2, 3])] {
            let found = ks.family("F").unwrap().find().eq(&name, longest(value)).rows().unwrap();
            let mut found: Vec<Vec<u8>> = found.into_iter().map(|r| r.key).collect();
            found.sort();
            assert!(found == keys.map(longest), "{value}");
        }
    };
    check(&ks);
    family.rebuild_index(&name).unwrap();
    check(&ks);
    drop((family, ks, wide));
    check(&open(&env, "Murmur3Partitioner").keyspace("K").unwrap());
}

/// Encodes values in a form that is ten times as long.
struct Tenfold;

impl Comparator for Tenfold {
    fn name(&self) -> &str {
        "Tenfold"
    }
    fn validate(&self, _: &[u8]) -> std::result::Result<(), TypeError> {
        Ok(())
    }
    fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), TypeError> {
        out.extend_from_slice(&value.repeat(10));
        Ok(())
    }
    fn decode(&self, form: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), Malformed> {
        out.extend_from_slice(&form[..form.len() / 10]);
        Ok(())
    }
    fn from_text(&self, text: &str, out: &mut Vec<u8>) -> std::result::Result<(), TypeError> {
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }
    fn to_text(&self, value: &[u8]) -> String {
        String::from_utf8_lossy(value).into_owned()
    }
}

#[test]
fn names_too_long_in_encoded_form_are_refused() {
    let mut registry = Registry::new();
    registry.register(Arc::new(Tenfold));
    let options = Options { registry: Arc::new(registry), ..options("Murmur3Partitioner") };
    let wide = Wide::open_in(Arc::new(CrashEnv::new(1)), "/wide", options).unwrap();
    let family = CfDef { comparator_type: "Tenfold".into(), ..CfDef::new("K", "F") };
    wide.system_add_keyspace(&KsDef { cf_defs: vec![family], ..KsDef::new("K") }).unwrap();
    let row = wide.keyspace("K").unwrap().family("F").unwrap().row("k");
    let name = |n: usize| vec![b'n'; n];
    let Err(Error::InvalidRequest(why)) = row.insert(name(MAX_SHORT), "v") else {
        panic!("it was taken")
    };
    assert!(why.starts_with("the row's key and the names are too long together"), "{why}");
    assert_eq!(row.get(name(MAX_SHORT)).unwrap(), None);
    row.insert(name(50_000), "v").unwrap();
    assert!(row.get(name(50_000)).unwrap().is_some());
}
