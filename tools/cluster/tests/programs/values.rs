//! Values of every type, and missing values.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use firn_cql::{BoundValue, Named, RunOptions, Value};
use uuid::Uuid;

use super::Session;
use super::done;

fn text(t: &str) -> Value {
    Value::Text(t.to_owned())
}

fn six() -> IpAddr {
    "2001:db8::7".parse().unwrap()
}

/// Types with sample values, each with its CQL literal.
type Samples = Vec<(&'static str, Vec<(Value, &'static str)>)>;

/// Returns samples of types that contain no other.
fn native_samples() -> Samples {
    let timeuuid = "5c6bd7ea-9d1f-11ee-8c90-0242ac120002";
    let uuid = "6f6b5f14-74a5-4f0d-9c1f-4f0d6f6b5f14";
    let wide = "-170141183460469231731687303715884105729".parse().unwrap();
    vec![
        ("ascii", vec![(text("snow"), "'snow'"), (text(""), "''")]),
        ("bigint", vec![(Value::BigInt(i64::MIN), "-9223372036854775808")]),
        ("blob", vec![(Value::Blob(vec![0, 255, 7]), "0x00ff07"), (Value::Blob(vec![]), "0x")]),
        ("boolean", vec![(Value::Boolean(true), "true"), (Value::Boolean(false), "false")]),
        ("date", vec![(Value::Date(-1), "'1969-12-31'"), (Value::Date(20_000), "'2024-10-04'")]),
        (
            "decimal",
            vec![
                (Value::Decimal("-12.50".into()), "-12.50"),
                (Value::Decimal("1E+10".into()), "1E10"),
                (Value::Decimal("0.000001".into()), "0.000001"),
            ],
        ),
        ("double", vec![(Value::Double(-0.1), "-0.1"), (Value::Double(f64::INFINITY), "Infinity")]),
        (
            "duration",
            vec![
                (Value::Duration("1y2mo3d4h5m6s7ms8us9ns".into()), "1y2mo3d4h5m6s7ms8us9ns"),
                (Value::Duration("-21d".into()), "-3w"),
            ],
        ),
        ("float", vec![(Value::Float(2.5), "2.5")]),
        (
            "inet",
            vec![
                (Value::Inet("10.1.2.3".parse().unwrap()), "'10.1.2.3'"),
                (Value::Inet(six()), "'2001:db8::7'"),
            ],
        ),
        ("int", vec![(Value::Int(i32::MAX), "2147483647")]),
        ("smallint", vec![(Value::SmallInt(-300), "-300")]),
        ("text", vec![(text("Schnee ❄"), "'Schnee ❄'"), (text(""), "''")]),
        ("time", vec![(Value::Time(3_723_000_000_004), "'01:02:03.000000004'")]),
        ("timestamp", vec![(Value::Timestamp(1_700_000_000_123), "1700000000123")]),
        ("timeuuid", vec![(Value::Uuid(Uuid::parse_str(timeuuid).unwrap()), timeuuid)]),
        ("tinyint", vec![(Value::TinyInt(-128), "-128")]),
        ("uuid", vec![(Value::Uuid(Uuid::parse_str(uuid).unwrap()), uuid)]),
        ("varint", vec![(Value::VarInt(wide), "-170141183460469231731687303715884105729")]),
    ]
}

/// Returns samples of collections, vectors, tuples and user types.
fn nested_samples() -> Samples {
    let pair = |a: Value, b: Value| Value::Tuple(vec![a, b]);
    let place = |street: Value, number: Value| {
        Value::User(vec![("street".to_owned(), street), ("number".to_owned(), number)])
    };
    vec![
        (
            "vector<float, 3>",
            vec![(Value::List([1.0, -2.5, 0.0].map(Value::Float).to_vec()), "[1.0, -2.5, 0.0]")],
        ),
        ("vector<text, 2>", vec![(Value::List(vec![text("a"), text("")]), "['a', '']")]),
        (
            "vector<smallint, 2>",
            vec![(Value::List([7, -7].map(Value::SmallInt).to_vec()), "[7, -7]")],
        ),
        (
            "vector<frozen<list<int>>, 2>",
            vec![(
                Value::List(vec![
                    Value::List(vec![Value::Int(1)]),
                    Value::List([2, 3].map(Value::Int).to_vec()),
                ]),
                "[[1], [2, 3]]",
            )],
        ),
        ("list<int>", vec![(Value::List([3, 1, 3].map(Value::Int).to_vec()), "[3, 1, 3]")]),
        ("set<text>", vec![(Value::Set(vec![text("a"), text("b")]), "{'b', 'a'}")]),
        (
            "map<int, duration>",
            vec![(Value::Map(vec![(Value::Int(1), Value::Duration("2d".into()))]), "{1: 2d}")],
        ),
        (
            "frozen<map<text, frozen<set<int>>>>",
            vec![(
                Value::Map(vec![(text("k"), Value::Set([1, 2].map(Value::Int).to_vec()))]),
                "{'k': {2, 1}}",
            )],
        ),
        ("frozen<list<int>>", vec![(Value::List(vec![]), "[]")]),
        (
            "tuple<int, text>",
            vec![
                (pair(Value::Int(1), text("x")), "(1, 'x')"),
                (pair(Value::Null, text("x")), "(null, 'x')"),
            ],
        ),
        (
            "place",
            vec![
                (place(text("Main"), Value::Int(7)), "{street: 'Main', number: 7}"),
                (place(Value::Null, Value::Int(7)), "{number: 7}"),
            ],
        ),
        (
            "list<frozen<place>>",
            vec![(
                Value::List(vec![place(text("M"), Value::Null)]),
                "[{street: 'M', number: null}]",
            )],
        ),
    ]
}

pub fn every_type(session: &Session) {
    done(session, "CREATE TYPE place (street text, number int)");
    for (at, (of, values)) in native_samples().into_iter().chain(nested_samples()).enumerate() {
        let table = format!("t{at}");
        done(session, &format!("CREATE TABLE {table} (id int PRIMARY KEY, v {of})"));
        let insert = format!("INSERT INTO {table} (id, v) VALUES (?, ?)");
        let insert = session.prepare(&insert).unwrap();
        for (value, literal) in values {
            let how = RunOptions::default();
            session.run(&insert, (1, value.clone()), &how).unwrap_or_else(|e| panic!("{of}: {e}"));
            done(session, &format!("INSERT INTO {table} (id, v) VALUES (2, {literal})"));
            for id in [1, 2] {
                let read = format!("SELECT v FROM {table} WHERE id = {id}");
                let rows = done(session, &read);
                let found: Value = rows.row(0).unwrap().at(0).unwrap();
                assert_eq!(found, value, "{of}, {id}");
            }
            let both = done(session, &format!("SELECT id, v FROM {table} WHERE id IN (1, 2)"));
            let bytes = |row| both.row(row).unwrap().bytes(1);
            assert_eq!(bytes(0), bytes(1), "{of}: {literal}");
        }
    }
}

pub fn absence(session: &Session) {
    done(
        session,
        "CREATE TABLE t (id int PRIMARY KEY, a text, b int, c list<int>, d tuple<int, int>)",
    );
    let insert =
        session.prepare("INSERT INTO t (id, a, b, c, d) VALUES (:id, :a, :b, :c, :d)").unwrap();
    let how = RunOptions::default();
    let read = || -> (Option<String>, Value, Value, Value) {
        done(session, "SELECT a, b, c, d FROM t").typed().unwrap().remove(0)
    };
    let pair = || Value::Tuple(vec![Value::Int(1), Value::Null]);
    session.run(&insert, (1, "x", 5, vec![1, 2], pair()), &how).unwrap();
    let list = || Value::List([1, 2].map(Value::Int).to_vec());
    assert_eq!(read(), (Some("x".to_owned()), Value::Int(5), list(), pair()));
    // Unset values leave cells unchanged, even for positional markers.
    session
        .run(&insert, (1, Value::Unset, Value::Unset, Value::Unset, Value::Unset), &how)
        .unwrap();
    session.run(&insert, Named(&[("id", &1)]), &how).unwrap();
    assert_eq!(read(), (Some("x".to_owned()), Value::Int(5), list(), pair()));
    // Empty is a value, null is not.
    session.run(&insert, (1, "", Value::Empty, Value::Unset, Value::Unset), &how).unwrap();
    assert_eq!(read(), (Some(String::new()), Value::Empty, list(), pair()));
    session
        .run(&insert, (1, None::<&str>, None::<i32>, Vec::<i32>::new(), Value::Null), &how)
        .unwrap();
    assert_eq!(read(), (None, Value::Null, Value::Null, Value::Null));
    let bytes = vec![
        BoundValue::Bytes(vec![0, 0, 0, 2]),
        BoundValue::Bytes(b"y".to_vec()),
        BoundValue::Null,
        BoundValue::Unset,
        BoundValue::Unset,
    ];
    session.run(&insert, bytes, &how).unwrap();
    assert_eq!(
        session
            .execute("SELECT a FROM t WHERE id = ?", (2,))
            .unwrap()
            .typed::<(String,)>()
            .unwrap(),
        [("y".to_owned(),)]
    );
}

pub fn collections(session: &Session) {
    done(
        session,
        "CREATE TABLE t (id int PRIMARY KEY, l list<text>, s set<int>, m map<text, int>)",
    );
    let run = |cql: &str, value: Value| {
        session.execute(cql, (value,)).unwrap_or_else(|e| panic!("{cql}: {e}"))
    };
    let texts = |all: &[&str]| Value::List(all.iter().map(|t| text(t)).collect());
    run("UPDATE t SET l = ? WHERE id = 1", texts(&["b"]));
    run("UPDATE t SET l = l + ? WHERE id = 1", texts(&["c", "d"]));
    run("UPDATE t SET l = ? + l WHERE id = 1", texts(&["a"]));
    run("UPDATE t SET l[3] = ? WHERE id = 1", text("D"));
    run("UPDATE t SET l = l - ? WHERE id = 1", texts(&["b"]));
    session
        .execute(
            "UPDATE t SET s = s + ?, m = m + ? WHERE id = 1",
            (BTreeSet::from([3, 1, 2]), BTreeMap::from([("x", 1), ("y", 2)])),
        )
        .unwrap();
    run("UPDATE t SET s = s - ? WHERE id = 1", Value::Set(vec![Value::Int(2)]));
    session.execute("UPDATE t SET m[?] = ? WHERE id = 1", ("z", 3)).unwrap();
    run("DELETE m[?] FROM t WHERE id = 1", text("x"));
    type Collections = (Vec<String>, BTreeSet<i32>, BTreeMap<String, i32>);
    let rows: Vec<Collections> = done(session, "SELECT l, s, m FROM t").typed().unwrap();
    let (l, s, m) = &rows[0];
    assert_eq!(l, &["a", "c", "D"]);
    assert_eq!(s, &BTreeSet::from([1, 3]));
    assert_eq!(m, &BTreeMap::from([("y".to_owned(), 2), ("z".to_owned(), 3)]));
}
