//! Answers of Cassandra servers about comparators and tokens, checked in a store through CQL. The
//! values are clustering columns in both directions and keys of collections. The tokens are read
//! with `SELECT token()`. The recordings are those of `firn-wide`'s tests, which check only the
//! types.

use super::common;

use std::sync::Arc;

use firn_cql::internals::values::split;
use firn_cql::{BoundValue, RunOptions, Session, Value};
use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_wide::internals::types::hex_to_bytes;
use firn_wide::{Options, Registry, StoreOptions, Type, Wide};
use serde_json::Value as Json;

fn lines(text: &str) -> impl Iterator<Item = Json> + '_ {
    text.lines().map(|l| serde_json::from_str(l).unwrap())
}

fn bytes(hex: &Json) -> Vec<u8> {
    hex_to_bytes(hex.as_str().unwrap()).unwrap()
}

fn open(env: &MemEnv, partitioner: &str) -> Session {
    let db = DbOptions {
        background_threads: 0,
        memory_budget: 8 << 20,
        wal_segment: 256 << 10,
        ..DbOptions::default()
    };
    let store = StoreOptions { db, clock: None, ..StoreOptions::default() };
    let options =
        Options { partitioner: Some(partitioner.to_owned()), store, ..Options::default() };
    common::session_in(Wide::open_in(Arc::new(env.clone()), "db", options).unwrap(), "ks")
}

fn write(session: &Session, statement: &str, bound: Vec<BoundValue>, timestamp: i64) {
    let how = RunOptions { timestamp: Some(timestamp), ..RunOptions::default() };
    session
        .run(&session.prepare(statement).unwrap(), bound, &how)
        .unwrap_or_else(|e| panic!("{statement}: {e}"));
}

/// Returns the bytes of all values of a result, row by row.
fn values(session: &Session, statement: &str) -> Vec<Vec<Vec<u8>>> {
    let rows = session.execute(statement, ()).unwrap_or_else(|e| panic!("{statement}: {e}"));
    let row = |row: firn_cql::Row<'_>| {
        (0..row.columns().len()).map(|i| row.bytes(i).unwrap_or_default().to_vec()).collect()
    };
    rows.iter().map(row).collect()
}

/// A line of comparators: the types with their directions, the written values, and the order in
/// which they were returned.
struct Recorded {
    types: Vec<(String, bool)>,
    written: Vec<Vec<Vec<u8>>>,
    order: Vec<Vec<Vec<u8>>>,
}

fn recorded(line: &Json) -> Recorded {
    let name = line["type"].as_str().unwrap();
    let types = match name.strip_prefix("clustering(").and_then(|n| n.strip_suffix(')')) {
        Some(many) => many
            .split(", ")
            .map(|t| (t.trim_end_matches(" DESC").to_owned(), t.ends_with(" DESC")))
            .collect(),
        None => vec![(name.to_owned(), line["desc"] == true)],
    };
    let row = |v: &Json| {
        v.as_array().map_or_else(|| vec![bytes(v)], |many| many.iter().map(bytes).collect())
    };
    let rows = |field: &str| line[field].as_array().unwrap().iter().map(row).collect();
    Recorded { types, written: rows("input"), order: rows("order") }
}

/// Returns the stored spelling of names that compare equal.
fn canonical(of: &Type, raw: &[u8]) -> Vec<u8> {
    let (mut key, mut back) = (vec![], vec![]);
    of.put_component(raw, &mut key).unwrap();
    of.take_component(&mut &key[..], &mut back).unwrap();
    back
}

/// Flushes and compacts everything.
fn merge(session: &Session) {
    let db = session.engine().store().db();
    db.tree_names().iter().for_each(|tree| db.existing_tree(tree).unwrap().compact().unwrap());
}

#[test]
fn clustering_columns_and_collections_are_ordered_as_recorded() {
    let mut count = 0;
    for line in lines(include_str!("../../wide/tests/vectors/comparators.jsonl"))
        .filter(|l| l["server"] == "4.0-dev")
    {
        let Recorded { types, written, order } = recorded(&line);
        let env = MemEnv::new(5);
        let mut session = open(&env, "Murmur3Partitioner");
        let of: Vec<Type> =
            types.iter().map(|(name, _)| Type::from_cql_word(name).unwrap()).collect();
        let names: Vec<String> = (0..of.len()).map(|i| format!("c{i}")).collect();
        let columns: Vec<String> =
            names.iter().zip(&types).map(|(n, t)| format!("{n} {}", t.0)).collect();
        let key = names.join(", ");
        for (table, turned) in [("same", false), ("turned", true)] {
            let way = |(name, (_, down)): (&String, &(String, bool))| {
                format!("{name} {}", if *down != turned { "DESC" } else { "ASC" })
            };
            let ways = names.iter().zip(&types).map(way).collect::<Vec<_>>().join(", ");
            let text = format!(
                "CREATE TABLE {table} (p int, {}, PRIMARY KEY (p, {key})) WITH CLUSTERING ORDER BY ({ways})",
                columns.join(", ")
            );
            session.execute(&text, ()).unwrap();
            let text = format!(
                "INSERT INTO {table} (p, {key}) VALUES (0, {})",
                vec!["?"; of.len()].join(", ")
            );
            for (i, row) in written.iter().enumerate() {
                write(
                    &session,
                    &text,
                    row.iter().cloned().map(BoundValue::Bytes).collect(),
                    i as i64 + 1,
                );
            }
        }
        // If there is a single type, it is also used for collections, ascending.
        let single = if let [(name, down)] = &types[..] { Some((name, *down)) } else { None };
        if let Some((name, _)) = single {
            let text = format!(
                "CREATE TABLE many (p int PRIMARY KEY, s set<{name}>, m map<{name}, int>, f frozen<set<{name}>>, g frozen<map<{name}, int>>)"
            );
            session.execute(&text, ()).unwrap();
            for (i, row) in written.iter().enumerate() {
                let one = BoundValue::Bytes(row[0].clone());
                write(
                    &session,
                    "UPDATE many SET m[?] = 1 WHERE p = 0",
                    vec![one.clone()],
                    i as i64 + 1,
                );
            }
            // All at once, in the given order.
            let part = |b: &[u8]| [&(b.len() as i32).to_be_bytes()[..], b].concat();
            let count = (written.len() as i32).to_be_bytes().to_vec();
            let set: Vec<u8> =
                written.iter().fold(count.clone(), |out, row| [out, part(&row[0])].concat());
            let map: Vec<u8> = written
                .iter()
                .fold(count, |out, row| [out, part(&row[0]), part(&[0, 0, 0, 1])].concat());
            let text = "INSERT INTO many (p, s, f, g) VALUES (0, ?, ?, ?)";
            write(
                &session,
                text,
                vec![
                    BoundValue::Bytes(set.clone()),
                    BoundValue::Bytes(set),
                    BoundValue::Bytes(map),
                ],
                1,
            );
        }
        let spelt = |row: &Vec<Vec<u8>>| {
            of.iter().zip(row).map(|(of, raw)| canonical(of, raw)).collect::<Vec<_>>()
        };
        let wanted: Vec<Vec<Vec<u8>>> = order.iter().map(spelt).collect();
        let back: Vec<_> = wanted.iter().rev().cloned().collect();
        for state in ["in memory", "merged", "reopened"] {
            match state {
                "merged" => merge(&session),
                "reopened" => {
                    drop(session);
                    session = open(&env, "Murmur3Partitioner");
                }
                _ => {}
            }
            let shown = format!("{} {state}", line["type"]);
            assert_eq!(
                values(&session, &format!("SELECT {key} FROM same WHERE p = 0")),
                wanted,
                "{shown}"
            );
            assert_eq!(
                values(&session, &format!("SELECT {key} FROM turned WHERE p = 0")),
                back,
                "{shown}, turned"
            );
            let reverse = |turned: bool| {
                let way = |(n, (_, down)): (&String, &(String, bool))| {
                    format!("{n} {}", if *down != turned { "ASC" } else { "DESC" })
                };
                names.iter().zip(&types).map(way).collect::<Vec<_>>().join(", ")
            };
            let asked = |table: &str, turned| {
                format!("SELECT {key} FROM {table} WHERE p = 0 ORDER BY {}", reverse(turned))
            };
            assert_eq!(values(&session, &asked("same", false)), back, "{shown}, backwards");
            assert_eq!(
                values(&session, &asked("turned", true)),
                wanted,
                "{shown}, turned and backwards"
            );
            let Some((name, down)) = single else { continue };
            let upwards = if down { &back } else { &wanted };
            let upwards: Vec<Vec<u8>> = upwards.iter().map(|row| row[0].clone()).collect();
            let found = values(&session, "SELECT s, m, f, g FROM many WHERE p = 0").remove(0);
            let set = Type::parse(&format!("SetType({})", of[0].name()), &Registry::new()).unwrap();
            for (i, each) in [1, 2, 1, 2].into_iter().enumerate() {
                let parts = split(&set, &found[i]).map(|_| ()).err();
                assert!(each == 2 || parts.is_none(), "{shown}");
                let as_map = Type::Map(Arc::new((of[0].clone(), Type::Int32)));
                let parts = split(if each == 2 { &as_map } else { &set }, &found[i]).unwrap();
                let keys: Vec<Vec<u8>> =
                    parts.iter().step_by(each).map(|k| canonical(&of[0], k.unwrap())).collect();
                assert_eq!(keys, upwards, "{shown}, collection {i} of {name}");
            }
        }
        count += 1;
    }
    assert_eq!(count, 35);
}

#[test]
fn tokens_are_the_recorded_ones() {
    let mut tokens = 0;
    for partitioner in ["Murmur3Partitioner", "RandomPartitioner"] {
        let session = open(&MemEnv::new(6), partitioner);
        session.execute("CREATE TABLE one (k blob PRIMARY KEY)", ()).unwrap();
        session.execute("CREATE TABLE two (a int, b text, PRIMARY KEY ((a, b)))", ()).unwrap();
        let mine = |l: &Json| l["partitioner"] == partitioner;
        let all: Vec<Json> =
            lines(include_str!("../../wide/tests/vectors/hashing.jsonl")).filter(mine).collect();
        for line in &all {
            let select = match line["key"].as_str() {
                Some(key) => {
                    session.execute(&format!("INSERT INTO one (k) VALUES (0x{key})"), ()).unwrap();
                    format!("SELECT token(k) FROM one WHERE k = 0x{key}")
                }
                None if line["scan_order"].is_array() => continue,
                None => {
                    let (a, b) = (
                        line["composite"]["a int"].as_i64().unwrap(),
                        line["composite"]["b text"].as_str().unwrap(),
                    );
                    session.execute("INSERT INTO two (a, b) VALUES (?, ?)", (a as i32, b)).unwrap();
                    format!(
                        "SELECT token(a, b) FROM two WHERE a = {a} AND b = '{}'",
                        b.replace('\'', "''")
                    )
                }
            };
            let rows = session.execute(&select, ()).unwrap();
            let shown = match rows.iter().next().unwrap().at::<Value>(0).unwrap() {
                Value::BigInt(n) => n.to_string(),
                Value::VarInt(n) => n.to_string(),
                other => panic!("{other:?}"),
            };
            let token = line["token"].as_str().unwrap();
            assert_eq!(shown, token, "{line}");
            // The same as a constant, and as the end of a range with this key only.
            if let Some(key) = line["key"].as_str() {
                for range in [
                    format!("token(k) = token(0x{key})"),
                    format!("token(k) = {token}"),
                    format!("token(k) >= {token} AND token(k) <= token(0x{key})"),
                ] {
                    let found = values(&session, &format!("SELECT k FROM one WHERE {range}"));
                    assert_eq!(found, [[hex_to_bytes(key).unwrap()]], "{range}");
                }
                let json = session
                    .execute(&format!("SELECT JSON token(k) FROM one WHERE k = 0x{key}"), ())
                    .unwrap();
                let json: Json =
                    serde_json::from_str(&json.iter().next().unwrap().at::<String>(0).unwrap())
                        .unwrap();
                assert!(json["system.token(k)"].is_number(), "{json}");
            }
            tokens += 1;
        }
        for order in all.iter().filter_map(|l| l["scan_order"].as_array()) {
            let wanted: Vec<Vec<u8>> = order.iter().map(bytes).collect();
            let found: Vec<Vec<u8>> = values(&session, "SELECT k FROM one")
                .into_iter()
                .map(|mut row| row.remove(0))
                .collect();
            assert_eq!(found, wanted, "{partitioner}");
            // From each key on, as a client queries when it iterates over the ring.
            for (i, key) in order.iter().enumerate() {
                let rest = values(
                    &session,
                    &format!(
                        "SELECT k FROM one WHERE token(k) > token(0x{})",
                        key.as_str().unwrap()
                    ),
                );
                assert_eq!(rest.len(), wanted.len() - i - 1);
            }
        }
    }
    assert_eq!(tokens, 136);
}
