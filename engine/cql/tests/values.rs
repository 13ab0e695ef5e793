//! Terms as values: `data/values/*.txt`. `of <type>` is followed by one term per line, and the
//! result is its bytes, its literal and its JSON if they differ, or the error. The literal and the
//! JSON must be parsed to the same value. Conversions of Rust types are tested too.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use firn_cql::ColumnType;
use firn_cql::internals::syntax::ast::{Inserted, Statement};
use firn_cql::internals::syntax::{ast, parse};
use firn_cql::internals::values::{
    BoundTerm, Context, EvalEnv, Markers, Receiver, from_json, json, literal,
};
use firn_cql::{BoundValue, FromValue, Named, Result, Session, ToValue, Value, Values};
use firn_kv::MemEnv;
use firn_testkit::datadriven::{Case, walk};
use firn_wide::{Options, Type, Wide};
use serde_json::value::RawValue;

fn session() -> Session {
    let wide = Wide::open_in(Arc::new(MemEnv::new(3)), "db", Options::default()).unwrap();
    let session = Session::new(wide).unwrap();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "USE ks",
        "CREATE TYPE addr (street text, zip int)",
    ] {
        session.execute(statement, ()).unwrap();
    }
    session
}

/// Returns a column's type as a statement writes it.
fn column_type(session: &Session, name: &str) -> ColumnType {
    let statement = format!("CREATE TABLE t (k int PRIMARY KEY, v {name})");
    let parsed = parse(&statement).unwrap();
    let Statement::CreateTable(table) = &parsed.statement else { panic!("{statement}") };
    session.engine().catalog().resolve_type("ks", &table.columns[1].of).unwrap()
}

/// Returns the value of a term for a column `v`.
fn value(
    session: &Session,
    text: &str,
    of: &ColumnType,
    bound: &[BoundValue],
) -> Result<BoundValue> {
    let statement = format!("INSERT INTO t (v) VALUES ({text})");
    let parsed = parse(&statement)?;
    let Statement::Change(ast::ChangeClause::Insert(insert)) = &parsed.statement else {
        panic!("{statement}")
    };
    let Inserted::Values { values, .. } = &insert.what else { panic!("{statement}") };
    let catalog = session.engine().catalog();
    let markers = Markers::new(parsed.markers);
    let mut context = Context {
        catalog: &catalog,
        keyspace: "ks",
        partition: vec![Type::Int32],
        partitioner: Default::default(),
        markers,
        calls: vec![],
    };
    let receiver =
        Receiver { name: "v".into(), of: of.clone(), keyspace: "ks".into(), table: "t".into() };
    let term = BoundTerm::prepare(&values[0], &receiver, &mut context)?;
    let now = 1_600_000_000_123_456;
    term.eval(&EvalEnv { bound, now, random: &|| 0x0123_4567_89AB_CDEF_0123_4567_89AB_CDEF })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn run(session: &Session, case: &Case) -> String {
    let name = case.input.lines().next().unwrap();
    let of = column_type(session, name);
    let mut out = vec![];
    for term in case.input.lines().skip(1) {
        out.push(match value(session, term, &of, &[]) {
            Err(e) => format!("{}: {e}", e.class().name()),
            Ok(BoundValue::Bytes(bytes)) => {
                let (text, json) =
                    (literal(&of.value_type, Some(&bytes)), json(&of.value_type, Some(&bytes)));
                // Compare the texts: a tuple that ends early is printed with nulls, which are other
                // bytes of the same value.
                let same = |again: BoundValue| {
                    let BoundValue::Bytes(again) = again else { panic!("{term} {again:?}") };
                    assert_eq!(literal(&of.value_type, Some(&again)), text, "{term}");
                };
                same(value(session, &text, &of, &[]).unwrap());
                let parsed: &RawValue =
                    serde_json::from_str(&json).unwrap_or_else(|e| panic!("{term} {json}: {e}"));
                // JSON has no NaN and no infinity.
                if json != "null" {
                    same(from_json(&of.value_type, parsed).unwrap());
                }
                same(
                    Value::decode(&of.value_type, Some(&bytes))
                        .unwrap()
                        .encode(&of.value_type)
                        .unwrap(),
                );
                format!("{} = {text} = {json}", hex(&bytes))
            }
            Ok(none) => format!("{none:?}").to_lowercase(),
        });
    }
    out.join("\n")
}

#[test]
fn terms() {
    let session = session();
    walk(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/values"), |case| {
        run(&session, case)
    });
}

#[test]
fn markers_take_values_of_their_type() {
    let (session, of) = (session(), ColumnType::frozen(Type::Int32));
    let one = BoundValue::Bytes(vec![0, 0, 0, 1]);
    assert_eq!(value(&session, "?", &of, std::slice::from_ref(&one)).unwrap(), one);
    assert_eq!(value(&session, "?", &of, &[BoundValue::Unset]).unwrap(), BoundValue::Unset);
    let byte = ColumnType::frozen(Type::Byte);
    let sum = value(&session, "? + 1", &byte, &[BoundValue::Bytes(vec![1])]).unwrap();
    assert_eq!(sum, BoundValue::Bytes(vec![2]));
    let ambiguous = value(&session, "? + 1", &of, &[one]).unwrap_err();
    assert!(ambiguous.to_string().starts_with("Ambiguous '+' operation with args ? and 1: "));
    let wrong = value(&session, "?", &of, &[BoundValue::Bytes(vec![1])]).unwrap_err();
    assert_eq!(wrong.to_string(), "Expected 4 or 0 byte int (1)");
    let list = column_type(&session, "list<int>");
    let wrong = value(&session, "[?]", &list, &[BoundValue::Null]).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "Invalid list literal for v: bind variables are not supported inside collection literals"
    );
}

fn there_and_back<T: ToValue + FromValue + PartialEq + std::fmt::Debug>(
    session: &Session,
    of: &str,
    value: T,
) {
    let of = column_type(session, of).value_type;
    let BoundValue::Bytes(bytes) = value.to_value().encode(&of).unwrap() else {
        panic!("{value:?}")
    };
    assert_eq!(T::from_value(Value::decode(&of, Some(&bytes)).unwrap()).unwrap(), value);
}

#[test]
fn types_of_rust_come_back() {
    let s = session();
    there_and_back(&s, "int", 7i32);
    there_and_back(&s, "bigint", -7i64);
    there_and_back(&s, "bigint", 7i32 as i64);
    there_and_back(&s, "text", "käse".to_owned());
    there_and_back(&s, "boolean", true);
    there_and_back(&s, "double", 0.1f64);
    there_and_back(&s, "uuid", uuid::Uuid::from_u128(1 << 100));
    there_and_back(&s, "blob", vec![1u8, 2]);
    there_and_back(&s, "list<int>", vec![3i32, 1, 3]);
    there_and_back(&s, "set<text>", HashSet::from(["a".to_owned(), "b".to_owned()]));
    there_and_back(&s, "map<text, int>", BTreeMap::from([("a".to_owned(), 1i32)]));
    there_and_back(&s, "map<int, bigint>", HashMap::from([(1i32, 2i64)]));
    there_and_back(&s, "tuple<int, text>", (1i32, Some("x".to_owned())));
    there_and_back(&s, "tuple<int, text>", (1i32, None::<String>));
    there_and_back(&s, "decimal", "1.50".to_owned());
    there_and_back(&s, "varint", firn_cql::VarInt::from(1_i128 << 100));
    assert_eq!(Option::<i32>::from_value(Value::Null).unwrap(), None);
    assert!(i32::from_value(Value::Null).is_err());
    assert!(i32::from_value(Value::BigInt(1)).is_err());
    assert!(300i32.to_value().encode(&Type::Byte).is_err());
}

#[test]
fn values_are_bound_in_order_or_by_name() {
    let spec = |name: &str, of| {
        let of = ColumnType::frozen(of);
        firn_cql::ColumnSpec::from_parts("ks".into(), "t".into(), name.into(), of)
    };
    let markers = [spec("a", Type::Int32), spec("b", Type::Utf8)];
    let both = vec![BoundValue::Bytes(vec![0, 0, 0, 5]), BoundValue::Bytes(b"x".to_vec())];
    assert_eq!((5, "x").bind(&markers).unwrap(), both);
    assert_eq!(vec![Value::Int(5), Value::Text("x".into())].bind(&markers).unwrap(), both);
    assert_eq!(Named(&[("b", &"x"), ("a", &5)]).bind(&markers).unwrap(), both);
    assert_eq!(
        Named(&[("b", &None::<&str>)]).bind(&markers).unwrap(),
        [BoundValue::Unset, BoundValue::Null]
    );
    let says = |values: &dyn Values, wanted: &str| {
        assert_eq!(values.bind(&markers).unwrap_err().to_string(), wanted)
    };
    says(&(5,), "Invalid amount of bind variables; 2 are wanted, a int, b text, and 1 came");
    says(
        &vec![BoundValue::Null; 3],
        "Invalid amount of bind variables; 2 are wanted, a int, b text, and 3 came",
    );
    assert_eq!((5,).bind(&markers).unwrap_err().text(), "Invalid amount of bind variables");
    assert_eq!((5,).bind(&[]).unwrap_err().help(), Some("there are no bind markers, and 1 came"));
    assert_eq!(().bind(&markers[..1]).unwrap_err().help(), Some("1 is wanted, a int, and 0 came"));
    let many = vec![spec("n", Type::Int32); 100];
    assert_eq!(().bind(&many).unwrap_err().help().unwrap().matches("n int").count(), 12);
    says(&("x", "y"), r#"bind marker 1, a int: Text("x") is no int"#);
    says(&(5, 6), "bind marker 2, b text: Int(6) is no text");
    says(&Named(&[("b", &6), ("a", &5)]), "bind marker 2, b text: Int(6) is no text");
    says(&Named(&[("c", &5)]), "there is no bind marker :c; there are a int, b text");
    let long = (5, vec![7_u8; 100_000]).bind(&markers).unwrap_err().to_string();
    assert!(long.len() < 150 && long.ends_with("… is no text"), "{long}");
}
