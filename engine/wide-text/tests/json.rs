//! JSON of column families: exported and imported data is equal in every read and every export; the
//! article's listings as printed; errors of documents.

use std::sync::Arc;

use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_wide::internals::api::Counts;
use firn_wide::internals::key::Layout;
use firn_wide::internals::store::StoreMutation;
use firn_wide::*;
use firn_wide::{CfDef, KsDef, ManualClock, Registry, Type};
use firn_wide_text::json::{ImportOptions, JsonFailure, Notation, Times, dump, export, import};
use proptest::prelude::*;
use proptest::sample::select;

const NOW: i64 = 1_700_000_000;

fn open(families: &[CfDef]) -> Keyspace {
    let db = DbOptions {
        background_threads: 0,
        memory_budget: 8 << 20,
        wal_segment: 256 << 10,
        ..DbOptions::default()
    };
    let clock = Arc::new(ManualClock::new(NOW * 1_000_000));
    let options = Options {
        store: StoreOptions { db, clock: Some(clock), ..StoreOptions::default() },
        ..Options::default()
    };
    let wide = Wide::open_in(Arc::new(MemEnv::new(1)), "/wide", options).unwrap();
    wide.system_add_keyspace(&KsDef { cf_defs: families.to_vec(), ..KsDef::new("K") }).unwrap();
    wide.keyspace("K").unwrap()
}

fn family(name: &str, of: [&str; 3], sub: Option<&str>) -> CfDef {
    CfDef {
        key_validation_class: of[0].into(),
        comparator_type: of[1].into(),
        default_validation_class: of[2].into(),
        column_type: if sub.is_some() { "Super".into() } else { "Standard".into() },
        subcomparator_type: sub.map(str::to_owned),
        ..CfDef::new("K", name)
    }
}

fn texts(name: &str, is_super: bool) -> CfDef {
    family(name, ["UTF8Type"; 3], is_super.then_some("UTF8Type"))
}

fn exported(keyspace: &Keyspace, notation: Notation) -> String {
    let mut out = vec![];
    export(keyspace.wide(), "K", &[], notation, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn dumped(keyspace: &Keyspace, family: &str) -> String {
    let mut out = vec![];
    dump(keyspace.wide(), "K", family, Times::Dates, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn imported(
    keyspace: &Keyspace,
    text: &str,
    options: &ImportOptions,
) -> std::result::Result<Counts, JsonFailure> {
    import(keyspace, text.as_bytes(), options, &mut |_, _| {}).map(|report| report.counts)
}

fn rows(keyspace: &Keyspace) -> Vec<KeySlice> {
    keyspace
        .get_range_slices(
            &ColumnParent::new("F"),
            &SlicePredicate::all(),
            &KeyRange::keys("", "").count(1000),
        )
        .unwrap()
}

// ------------------------------------------------------------------ any family

const TYPES: [&str; 19] = [
    "UTF8Type",
    "BytesType",
    "AsciiType",
    "LongType",
    "IntegerType",
    "Int32Type",
    "BooleanType",
    "FloatType",
    "DoubleType",
    "DecimalType",
    "DateType",
    "TimestampType",
    "UUIDType",
    "TimeUUIDType",
    "LexicalUUIDType",
    "InetAddressType",
    "ReversedType(LongType)",
    "CompositeType(UTF8Type,LongType)",
    "ListType(UTF8Type)",
];

/// Draws bytes that are often valid for some type, or resemble another form.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    const TRICKY: [&str; 16] = [
        "0x41", "0x", "0X41", "0x4", "name", "value", "a\"b\\", "é", "\u{0}", "a\nb", " ", "true",
        "1e5", "//", "a: b", "",
    ];
    prop_oneof![
        select(&TRICKY[..]).prop_map(|s| s.as_bytes().to_vec()),
        "\\PC{1,5}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..6),
        any::<[u8; 8]>().prop_map(|b| b.to_vec()),
        (-300i64..300).prop_map(|n| n.to_be_bytes().to_vec()),
        (-300i32..300).prop_map(|n| n.to_be_bytes().to_vec()),
        (-2_000_000_000_000i64..2_000_000_000_000).prop_map(|n| n.to_be_bytes().to_vec()),
        any::<[u8; 4]>().prop_map(|b| b.to_vec()),
        any::<bool>().prop_map(|b| vec![u8::from(b)]),
        any::<[u8; 16]>().prop_map(|mut b| {
            b[6] = b[6] & 15 | 0x10;
            b.to_vec()
        }),
        (any::<i8>(), any::<[u8; 3]>())
            .prop_map(|(s, m)| [&i32::from(s).to_be_bytes()[..], &m].concat()),
        ("[a-c:]{0,2}", any::<i64>()).prop_map(|(t, n)| [
            &[0, t.len() as u8],
            t.as_bytes(),
            &[0, 0, 8],
            &n.to_be_bytes(),
            &[0]
        ]
        .concat()),
    ]
}

fn parse(class: &str) -> Type {
    Type::parse(class, &Registry::new()).unwrap()
}

/// Draws several values of a type.
fn values_of(class: &'static str, may_be_empty: bool) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let of = parse(class);
    let valid = prop::collection::vec(any_bytes(), 80).prop_map(move |all| {
        let good =
            all.into_iter().filter(|b| of.validate(b).is_ok() && (may_be_empty || !b.is_empty()));
        good.take(5).collect::<Vec<_>>()
    });
    valid.prop_filter("a value of the type", |v| !v.is_empty())
}

#[derive(Clone, Debug)]
struct Op {
    key: usize,
    row: usize,
    name: usize,
    value: usize,
    timestamp: i64,
    kind: u8,
}

fn op() -> impl Strategy<Value = Op> {
    let numbers = (
        0usize..4,
        0usize..3,
        0usize..5,
        0usize..5,
        prop_oneof![Just(i64::MIN + 9), -3i64..12, Just(i64::MAX)],
        0u8..12,
    );
    numbers.prop_map(|(key, row, name, value, timestamp, kind)| Op {
        key,
        row,
        name,
        value,
        timestamp,
        kind,
    })
}

#[derive(Clone, Debug)]
struct History {
    def: CfDef,
    keys: Vec<Vec<u8>>,
    supers: Vec<Vec<u8>>,
    names: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
    ops: Vec<Op>,
}

fn history() -> impl Strategy<Value = History> {
    let classes = (
        select(&TYPES[..]),
        select(&TYPES[..]),
        select(&TYPES[..]),
        prop::option::of(select(&TYPES[..])),
        0u8..5,
    );
    classes.prop_flat_map(|(key, name, value, sub, counter)| {
        let cells = sub.unwrap_or(name);
        let parts = (
            values_of(key, false),
            values_of(name, false),
            values_of(cells, false),
            values_of(value, true),
            prop::collection::vec(op(), 0..60),
        );
        parts.prop_map(move |(keys, supers, names, values, ops)| {
            let value = if counter == 0 { "CounterColumnType" } else { value };
            History { def: family("F", [key, name, value], sub), keys, supers, names, values, ops }
        })
    })
}

impl History {
    fn play(&self, keyspace: &Keyspace) {
        let pick = |all: &[Vec<u8>], i: usize| all[i % all.len()].clone();
        let is_super = self.def.column_type == "Super";
        for op in &self.ops {
            let (key, name) = (pick(&self.keys, op.key), pick(&self.names, op.name));
            let row = is_super.then(|| pick(&self.supers, op.row));
            let parent = ColumnParent { column_family: "F".into(), super_column: row.clone() };
            let path = |super_column, column| ColumnPath {
                column_family: "F".into(),
                super_column,
                column,
            };
            if self.def.default_validation_class == "CounterColumnType" {
                match op.kind {
                    0 => keyspace.remove_counter(&key, &path(row, Some(name))),
                    _ => keyspace.add(&key, &parent, &CounterColumn::new(name, op.timestamp)),
                }
                .unwrap();
                continue;
            }
            let column = Column::new(name.clone(), pick(&self.values, op.value), op.timestamp);
            let done = match op.kind {
                0 => keyspace.remove(&key, &path(None, None), op.timestamp),
                1 if is_super => keyspace.remove(&key, &path(row, None), op.timestamp),
                1..=3 => keyspace.remove(&key, &path(row, Some(name)), op.timestamp),
                4..=6 => keyspace.insert(&key, &parent, &column.ttl(1 + op.value as i32 * 1000)),
                _ => keyspace.insert(&key, &parent, &column),
            };
            done.unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn exports_can_be_imported(history in history(), chunk in 1usize..20) {
        let from = open(std::slice::from_ref(&history.def));
        history.play(&from);
        let full = exported(&from, Notation::Full);
        let strict: serde_json::Value = serde_json::from_str(&full).unwrap();
        prop_assert!(strict.is_object());
        let to = open(std::slice::from_ref(&history.def));
        imported(&to, &full, &ImportOptions { chunk, ..ImportOptions::default() }).unwrap_or_else(|e| panic!("{e}\n{full}"));
        prop_assert_eq!(exported(&to, Notation::Full), full.clone());
        // The export already omits entries that compactions drop.
        let tree = from.wide().store().family(from.wide().schema().family("K", "F").unwrap().id()).unwrap().tree().clone();
        tree.flush().unwrap();
        tree.compact().unwrap();
        prop_assert_eq!(exported(&from, Notation::Full), full);
        let dump = dumped(&from, "F");
        serde_json::from_str::<serde_json::Value>(&dump).unwrap();
        prop_assert_eq!(dumped(&to, "F"), dump);
        prop_assert_eq!(exported(&to, Notation::Short), exported(&from, Notation::Short));
        let with_columns = |k: &Keyspace| rows(k).into_iter().filter(|r| !r.columns.is_empty()).collect::<Vec<_>>();
        prop_assert_eq!(with_columns(&to), with_columns(&from));
    }

    #[test]
    fn the_short_notation_gives_the_same_names_and_values(history in history()) {
        let from = open(std::slice::from_ref(&history.def));
        history.play(&from);
        let short = exported(&from, Notation::Short);
        let to = open(std::slice::from_ref(&history.def));
        imported(&to, &short, &ImportOptions::default()).unwrap_or_else(|e| panic!("{e}\n{short}"));
        prop_assert_eq!(exported(&to, Notation::Short), short);
    }

    #[test]
    fn any_text_is_judged(text in "[ a0x:={}\\[\\],\"'/*.\\\\\n]{0,40}") {
        let _ = imported(&open(&[texts("a", false)]), &text, &ImportOptions::default());
    }
}

// ------------------------------------------------------------------ the article

#[test]
fn the_articles_listings_are_read_as_they_stand() {
    let k = open(&[
        texts("UserProfile", false),
        texts("AddressBook", true),
        family("Authors", ["BytesType"; 3], None),
    ]);
    let text = r#"
        UserProfile = { // this is a ColumnFamily
            phatduckk: { // this is the key to this row inside the CF
                // now we have an infinite # of columns in this row
                username: "phatduckk" ,
                email: "phatduckk@example.com" ,
                phone: "(900) 976-6666"
            }, // end row
            ieure: {
                username: "ieure" , email: "ieure@example.com", phone: "(888) 555-1212",
                age: "66",
                gender: "undecided"
            },
        }
        AddressBook = {
            phatduckk: {
                friend1: {street: "8th street", zip: "90210", city: "Beverley Hills", state: "CA" },
                John: {street: "Howard street", zip: "94404", city: "FC", state: "CA",},
                /* the full notation,
                   with columns in the short one */
                homeAddress: {
                    name: "homeAddress",
                    value: {
                        street: {name: "street", value: "1234 x street", timestamp: 123456789},
                        city: "san francisco",
                        zip: "94107",
                    }
                },
                ...
            }
        }
        Authors : { // CF
            Arin Sarkissian : { // row key
                numPosts: 11
                twitter: phatduckk,
                email: arin@example.com
                bio: 'bla bla bla'
            },
        }"#;
    let options = ImportOptions { timestamp: Some(5), ..ImportOptions::default() };
    let counts = imported(&k, text, &options).unwrap();
    assert_eq!(counts, Counts { rows: 4, columns: 23 });
    // Rows in token order.
    let short = exported(&k, Notation::Short);
    let expected: serde_json::Value = serde_json::json!({
        "UserProfile": {
            "phatduckk": {"username": "phatduckk", "email": "phatduckk@example.com", "phone": "(900) 976-6666"},
            "ieure": {"username": "ieure", "email": "ieure@example.com", "phone": "(888) 555-1212", "age": "66", "gender": "undecided"},
        },
        "AddressBook": {"phatduckk": {
            "John": {"street": "Howard street", "zip": "94404", "city": "FC", "state": "CA"},
            "friend1": {"street": "8th street", "zip": "90210", "city": "Beverley Hills", "state": "CA"},
            "homeAddress": {"street": "1234 x street", "city": "san francisco", "zip": "94107"},
        }},
        "Authors": {"Arin Sarkissian": {"numPosts": "11", "twitter": "phatduckk", "email": "arin@example.com", "bio": "bla bla bla"}},
    });
    assert_eq!(serde_json::from_str::<serde_json::Value>(&short).unwrap(), expected);
    // Names are in order, and timestamps are preserved or assigned.
    let full = exported(&k, Notation::Full);
    let at = |s: &str| full.find(s).unwrap_or_else(|| panic!("{s} in {full}"));
    assert!(at("\"John\":") < at("\"friend1\":") && at("\"friend1\":") < at("\"homeAddress\":"));
    at(r#""street": {"name": "street", "value": "1234 x street", "timestamp": 123456789}"#);
    at(r#""zip": {"name": "zip", "value": "94107", "timestamp": 5}"#);
}

#[test]
fn notations_look_like_this() {
    let k = open(&[
        texts("F", false),
        texts("S", true),
        family("N", ["BytesType", "LongType", "BooleanType"], None),
    ]);
    let counters = family("C", ["UTF8Type", "UTF8Type", "CounterColumnType"], None);
    k.wide().system_add_column_family(&counters).unwrap();
    let text = r#"{
        F: {r: {"": {timestamp: 4, deleted: 1250558004}, a: {value: "x", timestamp: 5}, b: {timestamp: 6, deleted: 1250558005},
                c: {value: y, timestamp: 7, ttl: 60, expires: 1700000060}, d: {value: gone, timestamp: 7, ttl: 5, expires: 1600000000},
                covered: {value: z, timestamp: 4}}},
        S: {r: {s: {name: s, value: {"": {timestamp: 1, deleted: 1250558004}, a: {value: "x", timestamp: 1250558004123456}}}}},
        N: {"0x00ff": {5: {value: true, timestamp: 1}, -1: {value: "0x02", timestamp: 1}, 9007199254740993: {value: false, timestamp: 1}}},
        C: {r: {likes: {counter: 3, timestamp: 9}}},
    }"#;
    imported(&k, text, &ImportOptions::default()).unwrap();
    assert_eq!(
        exported(&k, Notation::Full),
        r#"{
  "C": {
    "r": {
      "likes": {"name": "likes", "timestamp": 9, "counter": 3}
    }
  },
  "F": {
    "r": {
      "": {"timestamp": 4, "deleted": 1250558004},
      "a": {"name": "a", "value": "x", "timestamp": 5},
      "b": {"name": "b", "timestamp": 6, "deleted": 1250558005},
      "c": {"name": "c", "value": "y", "timestamp": 7, "ttl": 60, "expires": 1700000060},
      "d": {"name": "d", "value": "", "timestamp": 7, "ttl": 5, "expires": 1600000000}
    }
  },
  "N": {
    "0x00ff": {
      "-1": {"name": "-1", "value": "0x02", "timestamp": 1},
      "5": {"name": "5", "value": true, "timestamp": 1},
      "9007199254740993": {"name": "9007199254740993", "value": false, "timestamp": 1}
    }
  },
  "S": {
    "r": {
      "s": {"name": "s", "value": {
        "": {"timestamp": 1, "deleted": 1250558004},
        "a": {"name": "a", "value": "x", "timestamp": 1250558004123456}
      }}
    }
  }
}
"#
    );
    assert_eq!(
        dumped(&k, "S"),
        r#"[
  {
    "partition": {"key": ["r"]},
    "rows": [
      {"type": "row", "clustering": ["s"], "deletion_info": {"marked_deleted": "1970-01-01T00:00:00.000001Z", "local_delete_time": "2009-08-18T01:13:24Z"}, "cells": [
        {"name": "", "path": ["a"], "value": "x", "tstamp": "2009-08-18T01:13:24.123456Z"}
      ]}
    ]
  }
]
"#
    );
    let raw = |family: &str| {
        let mut out = vec![];
        dump(k.wide(), "K", family, Times::Raw, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        raw("F"),
        r#"[
  {
    "partition": {"key": ["r"], "deletion_info": {"marked_deleted": "4", "local_delete_time": "1250558004"}},
    "rows": [
      {"type": "row", "clustering": ["a"], "cells": [
        {"name": "value", "value": "x", "tstamp": "5"}
      ]},
      {"type": "row", "clustering": ["b"], "cells": [
        {"name": "value", "deletion_info": {"local_delete_time": "1250558005"}, "tstamp": "6"}
      ]},
      {"type": "row", "clustering": ["c"], "cells": [
        {"name": "value", "value": "y", "tstamp": "7", "ttl": 60, "expires_at": "1700000060", "expired": false}
      ]},
      {"type": "row", "clustering": ["d"], "cells": [
        {"name": "value", "value": "gone", "tstamp": "7", "ttl": 5, "expires_at": "1600000000", "expired": true}
      ]}
    ]
  }
]
"#
    );
    assert_eq!(raw("C").matches("\"value\": 3, \"tstamp\": \"9\"").count(), 1);
}

#[test]
fn a_super_column_may_have_columns_called_name_and_value() {
    let k = open(&[texts("S", true)]);
    let text = r#"S: {r: {
        a: {name: "Ann", value: "v"}, b: {value: "v", name: "Bob"}, c: {name: "Cyd", street: "x"}, d: {name: "Dan"},
        e: {value: {name: "Eve", value: "w"}, name: "e"}, f: {name: {name: "name", value: "Fay", timestamp: 3}}
    }}"#;
    imported(&k, text, &ImportOptions::default()).unwrap();
    let short: serde_json::Value = serde_json::from_str(&exported(&k, Notation::Short)).unwrap();
    let expected = serde_json::json!({"S": {"r": {
        "a": {"name": "Ann", "value": "v"}, "b": {"name": "Bob", "value": "v"}, "c": {"name": "Cyd", "street": "x"},
        "d": {"name": "Dan"}, "e": {"name": "Eve", "value": "w"}, "f": {"name": "Fay"},
    }}});
    assert_eq!(short, expected);
}

#[test]
fn rows_can_be_read_into_another_family() {
    let k = open(&[texts("F", false), texts("G", false)]);
    let options = ImportOptions { family: Some("G".into()), ..ImportOptions::default() };
    imported(&k, "F: {r: {a: b}}", &options).unwrap();
    let short: serde_json::Value = serde_json::from_str(&exported(&k, Notation::Short)).unwrap();
    assert_eq!(short, serde_json::json!({"F": {}, "G": {"r": {"a": "b"}}}));
}

// ------------------------------------------------------------------ what a document can get wrong

#[test]
fn errors_are_reported_with_their_position() {
    let counters = family("C", ["UTF8Type", "UTF8Type", "CounterColumnType"], None);
    let k = open(&[
        texts("F", false),
        texts("S", true),
        family("L", ["UTF8Type", "LongType", "LongType"], None),
        counters,
    ]);
    let cases = [
        ("{F: {r: {a: b}}", "line 1, column 16: the text ends before everything is closed with }"),
        ("F: {r: {a: \"b\" c: d}}", "line 1, column 16: a comma is missing before \"c\""),
        ("F: {r: {a: b}} }", "line 1, column 16: here should be a name, not '}'"),
        ("{F: {}} {", "line 1, column 9: something follows the document"),
        ("Nope: {}", "line 1, column 1: unconfigured columnfamily Nope"),
        (
            "F: {\n  r: x\n}",
            "line 2, column 6: a row is an object: { … }, or a list of columns: [ … ]",
        ),
        ("F: {r: {\"0x\": x}}", "line 1, column 15: column name must not be empty"),
        ("F: {'': {a: x}}", "line 1, column 5: Key may not be empty"),
        ("L: {r: {x: 1}}", "line 1, column 9: name: Unable to make long from 'x'"),
        ("L: {r: {1: x}}", "line 1, column 12: value: Unable to make long from 'x'"),
        (
            "L: {r: {1: '0x01'}}",
            "line 1, column 12: (Expected 8 or 0 byte long (1)) [K][L][1] failed validation",
        ),
        (
            "F: {r: {a: {value: {b: c}}}}",
            "line 1, column 20: a column's value is a text or a number",
        ),
        (
            "F: {r: {a: {valu: b}}}",
            "line 1, column 13: a column has no \"valu\": only timestamp, deleted, name, value, ttl, expires, counter",
        ),
        (
            "F: {r: {a: {value: b, deleted: 3}}}",
            "line 1, column 33: a column has a value (and may have ttl and expires), or deleted, or a counter",
        ),
        (
            "F: {r: {a: {name: b, value: c}}}",
            "line 1, column 19: the name is another than the one before the colon",
        ),
        (
            "S: {r: {a: {name: b, value: {c: d}}}}",
            "line 1, column 35: the name is another than the one before the colon",
        ),
        ("S: {r: {a: b}}", "line 1, column 12: a super column is an object: { … }"),
        (
            "F: {r: {a: {value: b, timestamp: now}}}",
            "line 1, column 34: here should be a whole number, not \"now\"",
        ),
        (
            "F: {r: {a: {counter: 3}}}",
            "line 1, column 23: invalid operation for non commutative columnfamily F",
        ),
        (
            "C: {r: {a: {timestamp: 3, deleted: 3}}}",
            "line 1, column 37: invalid operation for commutative columnfamily C",
        ),
        (
            "C: {r: {'': {timestamp: 3, deleted: 3}}}",
            "line 1, column 38: invalid operation for commutative columnfamily C",
        ),
        (
            "F: {r: {'': {timestamp: 3}}}",
            "line 1, column 26: a deletion has a timestamp, and deleted: the second when it was made",
        ),
        ("F: {r: {a: \"b", "line 1, column 12: a text does not end"),
        ("F: {r: {a: \"\\q\"}}", "line 1, column 12: the unknown escape \\q"),
        ("F: {r: {a: \"\\ud800\"}}", "line 1, column 12: half of a pair of \\u escapes"),
        ("F: {r: /* a", "line 1, column 8: a comment does not end"),
        ("[]", "line 1, column 1: here should be a name, not '['"),
    ];
    let said =
        |text: &str| imported(&k, text, &ImportOptions::default()).err().map(|e| e.to_string());
    let wrong: Vec<_> =
        cases.iter().filter(|(text, why)| said(text).as_deref() != Some(*why)).collect();
    let instead: Vec<_> = wrong.iter().map(|(text, _)| (text, said(text))).collect();
    assert!(wrong.is_empty(), "{wrong:#?} are {instead:#?}");
    let not_utf8 =
        import(&k, &b"F: {r: {a: '\xff'}}"[..], &ImportOptions::default(), &mut |_, _| {});
    let why = "line 1, column 12: a text that is not UTF-8; write other bytes as 0x and hexadecimal digits";
    assert_eq!(not_utf8.unwrap_err().to_string(), why);
    // Only column families that ended before the error were written.
    let short: serde_json::Value = serde_json::from_str(&exported(&k, Notation::Short)).unwrap();
    assert_eq!(short, serde_json::json!({"F": {"r": {"a": "b"}}, "S": {}, "L": {}, "C": {}}));
}

/// Reads that return one byte at a time.
struct Drops<'a>(&'a [u8]);

impl std::io::Read for Drops<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.len().min(1);
        buf[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

#[test]
fn input_may_come_in_drops() {
    let k = open(&[texts("F", false)]);
    let text = "\u{feff}F: { // rows\n r: {a: x/y /* z */, b: \"\\ud83d\\ude00\"} .. more\n}";
    import(&k, Drops(text.as_bytes()), &ImportOptions::default(), &mut |_, _| {}).unwrap();
    assert!(exported(&k, Notation::Short).contains("\"a\": \"x/y\",\n      \"b\": \"😀\""));
}

/// The values at the start of a range bound, and whether it is after them.
type RangeSide<'a> = (&'a [&'a [u8]], bool);
/// A column family, its cells as rows, the bounds of its range deletions, and their dump.
type DumpedRange<'a> = (&'a str, Layout, RangeSide<'a>, RangeSide<'a>, &'a str);

/// CQL statements delete ranges of a column family's cells.
#[test]
fn deleted_ranges_of_cells_are_dumped() {
    let keyspace = open(&[
        texts("F", false),
        texts("S", true),
        family("C", ["UTF8Type", "CompositeType(UTF8Type,LongType)", "UTF8Type"], None),
    ]);
    let wide = keyspace.wide();
    let text = || Type::Utf8;
    let five: &[u8] = &5i64.to_be_bytes();
    let rows = |types, before, composite| {
        Layout::rows_of_cells(wide.partitioner(), types, before, composite)
    };
    let cases: [DumpedRange<'_>; 3] = [
        (
            "F",
            rows(vec![text()], 0, false),
            (&[b"a"], false),
            (&[b"c"], true),
            r#"["a"]|inclusive ["c"]|inclusive"#,
        ),
        (
            "S",
            rows(vec![text(), text()], 1, false),
            (&[b"s"], false),
            (&[b"s", b"c"], false),
            r#"["s"]|inclusive ["s", "c"]|exclusive"#,
        ),
        (
            "C",
            rows(vec![text(), Type::Long], 0, true),
            (&[b"a", five], true),
            (&[b"b"], true),
            r#"["a", "5"]|exclusive ["b"]|inclusive"#,
        ),
    ];
    for (name, rows, from, until, shown) in cases {
        let def = wide.schema().family("K", name).unwrap().clone();
        let cells = wide.store().family(def.id()).unwrap();
        let place = |(values, after): RangeSide<'_>| {
            let mut place = vec![];
            rows.put_bound(values, after, &mut place).unwrap();
            place
        };
        let mut mutation = StoreMutation::new(b"k");
        mutation.delete_range(&cells, &place(from), &place(until), 1);
        wide.store().apply(&[mutation], Default::default()).unwrap();
        let dumped: serde_json::Value = serde_json::from_str(&dumped(&keyspace, name)).unwrap();
        let rows = dumped[0]["rows"].as_array().unwrap();
        let bound = |row: &serde_json::Value, side: &str| {
            let parts: Vec<_> =
                row[side]["clustering"].as_array().unwrap().iter().map(|p| p.to_string()).collect();
            format!("[{}]|{}", parts.join(", "), row[side]["type"].as_str().unwrap())
        };
        assert_eq!(format!("{} {}", bound(&rows[0], "start"), bound(&rows[1], "end")), shown);
    }
}
