//! Replays answers of Cassandra servers about types and tokens: `vectors/comparators.jsonl`,
//! `validation.jsonl`, `hashing.jsonl`; comparators also with families of a store. Recordings of
//! CQL are replayed by CQL's tests.
//!
//! Accepted differences with their reasons are in [`accepted_order`] and [`accepted_validation`]; any other
//! difference fails.

use std::sync::Arc;

use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_wide::{
    CfDef, KsDef, Options, Partitioner, Registry, Slice, StoreOptions, TimeSource, Type, Wide,
    Wording,
};
use serde_json::Value;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    firn_wide::internals::types::hex_to_bytes(hex).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Returns the type of a class or CQL name in the recordings.
fn type_of(name: &str, reversed: bool) -> Type {
    let class = match name {
        "list<int>" => "ListType(Int32Type)".to_owned(),
        "set<text>" => "SetType(UTF8Type)".to_owned(),
        "map<text,int>" => "MapType(UTF8Type,Int32Type)".to_owned(),
        "tuple<int,text>" => "TupleType(Int32Type,UTF8Type)".to_owned(),
        word => Type::from_cql_word(word).map_or(word.to_owned(), |t| t.name()),
    };
    let class = if reversed { format!("ReversedType({class})") } else { class };
    Type::parse(&class, &Registry::new()).unwrap()
}

fn canonical(t: &Type, raw: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut key = vec![];
    t.put_component(raw, &mut key).unwrap();
    let (mut rest, mut back) = (&key[..], vec![]);
    assert!(t.take_component(&mut rest, &mut back).unwrap());
    assert!(rest.is_empty());
    (key, back)
}

/// Returns why the order of this line differs here.
fn accepted_order(server: &str, name: &str) -> Option<&'static str> {
    match (server, name) {
        ("1.1.12", "BooleanType") => {
            Some("booleans order by being zero, as from 4.0 on (model 6.1)")
        }
        _ => None,
    }
}

#[test]
fn comparators() {
    let (mut passed, mut accepted) = (0, 0);
    for line in lines(include_str!("vectors/comparators.jsonl")) {
        let (server, name) = (line["server"].as_str().unwrap(), line["type"].as_str().unwrap());
        if accepted_order(server, name).is_some() {
            accepted += 1;
            continue;
        }
        let types: Vec<Type> =
            match name.strip_prefix("clustering(").and_then(|n| n.strip_suffix(')')) {
                Some(many) => many
                    .split(", ")
                    .map(|t| type_of(t.trim_end_matches(" DESC"), t.ends_with(" DESC")))
                    .collect(),
                None => vec![type_of(name, line["desc"] == true)],
            };
        let parts = |v: &Value| -> Vec<Vec<u8>> {
            match v {
                Value::Array(many) => many.iter().map(|p| bytes(p.as_str().unwrap())).collect(),
                one => vec![bytes(one.as_str().unwrap())],
            }
        };
        let canonical = |v: &Value| -> (Vec<u8>, Vec<Vec<u8>>) {
            let (keys, backs): (Vec<_>, Vec<_>) =
                types.iter().zip(parts(v)).map(|(t, p)| canonical(t, &p)).unzip();
            // The next byte in a key: only with it are the forms prefix-free.
            (keys.concat().into_iter().chain([0x38]).collect(), backs)
        };
        // Names that compare equal are one name. The spelling that a server returns differs by
        // version (model 6.3); here it is the canonical one.
        let mut stored: Vec<_> = line["input"].as_array().unwrap().iter().map(canonical).collect();
        stored.sort();
        stored.dedup();
        let order: Vec<_> = line["order"].as_array().unwrap().iter().map(canonical).collect();
        assert_eq!(stored, order, "{server} {name}");
        if let [t] = &types[..] {
            for (a, b) in order.iter().zip(order.iter().skip(1)) {
                assert!(
                    t.compare(&a.1[0], &b.1[0]).is_lt(),
                    "{server} {name}: {} {}",
                    hex(&a.1[0]),
                    hex(&b.1[0])
                );
            }
        }
        passed += 1;
    }
    assert_eq!((passed, accepted), (53, 1));
}

#[test]
fn comparators_order_the_columns_of_a_store() {
    let mut count = 0;
    for line in
        lines(include_str!("vectors/comparators.jsonl")).iter().filter(|l| l["server"] == "1.1.12")
    {
        let name = line["type"].as_str().unwrap();
        if accepted_order("1.1.12", name).is_some() {
            continue;
        }
        let env = Arc::new(MemEnv::new(3));
        let db = DbOptions {
            background_threads: 0,
            memory_budget: 8 << 20,
            wal_segment: 256 << 10,
            ..DbOptions::default()
        };
        let open = || {
            let store = StoreOptions { db: db.clone(), clock: None, ..StoreOptions::default() };
            Wide::open_in(env.clone(), "/wide", Options { store, ..Options::default() }).unwrap()
        };
        let mut wide = open();
        let family = CfDef { comparator_type: name.to_owned(), ..CfDef::new("K", "F") };
        wide.system_add_keyspace(&KsDef { cf_defs: vec![family], ..KsDef::new("K") }).unwrap();
        let row = |wide: &Wide| wide.keyspace("K").unwrap().family("F").unwrap().row("key");
        for (i, raw) in line["input"].as_array().unwrap().iter().enumerate() {
            row(&wide).at(i as i64 + 1).insert(&bytes(raw.as_str().unwrap())[..], "v").unwrap();
        }
        let of = type_of(name, false);
        let wanted: Vec<Vec<u8>> = line["order"]
            .as_array()
            .unwrap()
            .iter()
            .map(|raw| canonical(&of, &bytes(raw.as_str().unwrap())).1)
            .collect();
        let back: Vec<_> = wanted.iter().rev().cloned().collect();
        for state in ["in memory", "merged", "reopened"] {
            match state {
                "merged" => {
                    let db = wide.store().db();
                    db.tree_names()
                        .iter()
                        .for_each(|tree| db.existing_tree(tree).unwrap().compact().unwrap());
                }
                "reopened" => {
                    drop(wide);
                    wide = open();
                }
                _ => {}
            }
            let names = |slice: Slice| {
                slice.limit(1000).columns().unwrap().map(|c| c.unwrap().name).collect::<Vec<_>>()
            };
            assert_eq!(names(row(&wide).slice()), wanted, "{name} {state}");
            assert_eq!(names(row(&wide).slice().reversed()), back, "{name} {state}, backwards");
        }
        count += 1;
    }
    assert_eq!(count, 18);
}

/// Returns why our result for this value differs; `ours` and `theirs` are the errors, `None` if it
/// is accepted.
fn accepted_validation(
    line: &Value,
    ours: Option<&str>,
    theirs: Option<&str>,
) -> Option<&'static str> {
    let (server, name) = (line["server"].as_str()?, line["type"].as_str()?);
    let value = bytes(line["hex"].as_str()?);
    let utf8 = name.contains("text") || name.contains("UTF8");
    match (ours, theirs) {
        (Some("String didn't validate."), None) if utf8 && std::str::from_utf8(&value).is_err() => {
            Some("UTF-8 is strict (model 6.10)")
        }
        (Some(o), Some(t))
            if t.starts_with("TimeUUID should be") && o.starts_with("UUID should be") =>
        {
            Some("the text of 4.0 (model 6.12)")
        }
        (Some(o), Some("UUIDs must be exactly 16 bytes"))
            if server == "1.1.12" && o.starts_with("UUID should be") =>
        {
            Some("the text of 4.0")
        }
        (_, Some(t))
            if name == "DecimalType" && t.starts_with("the server closed the connection") =>
        {
            Some("1.1.12 fails on decimals that it can't read; the rule of 4.0 here")
        }
        (Some(_), None) if name == "DecimalType" && value.len() < 4 => {
            Some("1.1.12 checks no values of decimals; the rule of 4.0 here")
        }
        (Some(_), Some(t)) if t.starts_with("java.") => {
            Some("an internal error there, a reason here")
        }
        (None, Some(t)) if name == "decimal" && t.starts_with("Error from server: code=1500") => {
            Some(
                "the server can't compare extreme scales and integers of no bytes, the form here can",
            )
        }
        _ => None,
    }
}

#[test]
fn validation() {
    let (mut passed, mut accepted, mut wrong) = (0, std::collections::BTreeMap::new(), vec![]);
    for line in lines(include_str!("vectors/validation.jsonl")) {
        if line["where"] == "literal" {
            continue;
        }
        let theirs = line["error"]["message"].as_str();
        // Errors of the layer above about names and keys, and its texts around errors of values.
        if theirs
            .is_some_and(|t| t == "column name must not be empty" || t == "Key may not be empty")
        {
            continue;
        }
        let theirs = theirs
            .map(|t| t.split(") [val][").next().unwrap())
            .map(|t| if line["where"] == "value" && t.starts_with('(') { &t[1..] } else { t });
        let ours = type_of(line["type"].as_str().unwrap(), false)
            .validate(&bytes(line["hex"].as_str().unwrap()))
            .err()
            .map(|e| e.0);
        if ours.as_deref() == theirs {
            passed += 1;
        } else if let Some(reason) = accepted_validation(&line, ours.as_deref(), theirs) {
            *accepted.entry(reason).or_insert(0) += 1;
        } else {
            wrong.push(format!("{line}\n   ours: {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{passed} as recorded; accepted differences: {accepted:#?}");
    assert_eq!((passed, accepted.values().sum::<i32>()), (5292, 527), "{accepted:?}");
}

struct Fixed;

impl TimeSource for Fixed {
    fn millis(&mut self) -> i64 {
        1_234_567_890_123
    }
    fn time_uuid(&mut self) -> [u8; 16] {
        firn_wide::uuids::time_uuid(1_234_567_890_123_000, 0, 1, 2)
    }
    fn time_uuid_at(&mut self, millis: i64) -> [u8; 16] {
        firn_wide::uuids::time_uuid(millis * 1000, 0, 1, 2)
    }
}

/// Returns the text of a constant that the type itself parses; `None` for those that the grammar
/// refuses before.
fn constant(literal: &str) -> Option<String> {
    let quoted = literal.strip_prefix('\'').and_then(|l| l.strip_suffix('\''));
    match (quoted, literal.strip_prefix("$$")) {
        (Some(q), _) => Some(q.replace("''", "'")),
        (_, Some(q)) => Some(q.trim_end_matches("$$").to_owned()),
        _ if literal == "null" => None,
        _ => Some(literal.strip_prefix("0x").unwrap_or(literal).to_owned()),
    }
}

#[test]
fn literals() {
    let mut passed = 0;
    for line in lines(include_str!("vectors/validation.jsonl")) {
        let theirs = line["error"]["message"].as_str();
        let grammar = theirs.is_some_and(|t| {
            t.starts_with("Invalid ") && t.contains(" constant (")
                || line["error"]["class"] == "SyntaxException"
        });
        let Some(text) = constant(line["literal"].as_str().unwrap_or("null")).filter(|_| !grammar)
        else {
            continue;
        };
        let mut out = vec![];
        let read = type_of(line["type"].as_str().unwrap(), false).from_text(
            &text,
            Wording::Cql,
            &mut Fixed,
            &mut out,
        );
        match theirs {
            Some(reason) => assert_eq!(read.unwrap_err().0, reason, "{line}"),
            None => {
                read.unwrap_or_else(|e| panic!("{line}: {e}"));
                assert_eq!(hex(&out), line["hex"].as_str().unwrap(), "{line}");
            }
        }
        passed += 1;
    }
    assert_eq!(passed, 56);
}

#[test]
fn hashing() {
    let mut tokens = 0;
    for line in lines(include_str!("vectors/hashing.jsonl")) {
        let partitioner = Partitioner::parse(line["partitioner"].as_str().unwrap()).unwrap();
        if let Some(order) = line["scan_order"].as_array() {
            let keys: Vec<_> = order.iter().map(|k| bytes(k.as_str().unwrap())).collect();
            let place = |k: &Vec<u8>| {
                let mut out = vec![];
                partitioner.put_token(k, &mut out).unwrap();
                assert_eq!(out.len(), partitioner.token_len());
                out
            };
            assert!(keys.is_sorted_by_key(place));
            continue;
        }
        let key = match line["key"].as_str() {
            Some(key) => bytes(key),
            None => {
                let number = (line["composite"]["a int"].as_i64().unwrap() as i32).to_be_bytes();
                let text = line["composite"]["b text"].as_str().unwrap().as_bytes();
                let part = |p: &[u8]| [&(p.len() as u16).to_be_bytes()[..], p, &[0]].concat();
                [part(&number), part(text)].concat()
            }
        };
        let token = partitioner.token(&key).unwrap();
        assert_eq!(partitioner.token_text(&token), line["token"].as_str().unwrap(), "{line}");
        assert_eq!(partitioner.parse_token(line["token"].as_str().unwrap()).unwrap(), token);
        tokens += 1;
    }
    assert_eq!(tokens, 136);
}
