//! Tests `firn follow`: the events of trees and tables, subscriptions, and a process that is killed
//! while it prints.
#![allow(missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a process that is killed, and its output")]

use super::common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::{Ran, Temp};
use serde_json::{Value, json};

/// Returns the events of a run, without their positions and times.
#[track_caller]
fn events(t: &Temp, args: &[&str]) -> Vec<Value> {
    let text = t.firn(&[&["follow"], args].concat()).good();
    text.lines()
        .map(|line| {
            let mut event: Value = serde_json::from_str(line).unwrap();
            let object = event.as_object_mut().unwrap();
            assert!(object.remove("position").is_some(), "{line}");
            object.remove("timestamp");
            event
        })
        .collect()
}

#[test]
fn a_tree_has_its_contents_and_then_each_change_once() {
    let t = Temp::new("follow", "tree");
    Ran::of(t.run("db", &["load", "-"], b"apple\tred\nkiwi\tgreen\n")).good();
    let read = |key, value| json!({"tree": "default", "op": "read", "key": key, "value": value});
    assert_eq!(events(&t, &[]), [read("apple", "red"), read("kiwi", "green")]);
    assert!(events(&t, &[]).is_empty());
    t.firn(&["put", "cherry", "black"]).good();
    t.firn(&["delete", "apple"]).good();
    t.firn(&["delete", "--from", "k", "--to", "l", "--yes"]).good();
    let changes = [
        json!({"tree": "default", "op": "put", "key": "cherry", "value": "black"}),
        json!({"tree": "default", "op": "delete", "key": "apple"}),
        json!({"tree": "default", "op": "delete_range", "from": "k", "to": "l"}),
    ];
    assert_eq!(events(&t, &["--peek"]), changes);
    assert_eq!(events(&t, &["--limit", "1"]), changes[..1]);
    assert_eq!(
        events(&t, &["--hex"])[0],
        json!({"tree": "default", "op": "delete", "key_hex": "6170706c65"})
    );
    // Another subscription begins where it is created.
    assert!(events(&t, &["--name", "later", "--from", "now"]).is_empty());
    t.firn(&["put", "fig", "blue"]).good();
    let fig = json!({"tree": "default", "op": "put", "key": "fig", "value": "blue"});
    assert_eq!(events(&t, &["--name", "later"]), [fig]);
    let listed = t.json(&["follow", "--list", "--json"]);
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|s| s["name"].as_str()).collect();
    assert_eq!(names, [Some("follow"), Some("later")]);
    assert_eq!((&listed[0]["behind"], &listed[1]["behind"]), (&json!(1), &json!(0)));
    let listed = t.firn(&["follow", "--list"]).good();
    assert!(listed.starts_with("subscription") && listed.contains("\nlater"), "{listed}");
    t.firn(&["follow", "--drop", "later"]).said(0, &["dropped the subscription \"later\""]);
    t.firn(&["follow", "--drop", "later"]).said(2, &["there is no subscription \"later\""]);
    let text = t.firn(&["follow", "--format", "debezium"]).good();
    let event: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(event["after"], json!({"key": "fig", "value": "blue"}));
    assert_eq!((&event["op"], &event["source"]["table"]), (&json!("c"), &json!("default")));
}

#[test]
fn a_table_has_rows_with_their_changed_columns() {
    let t = Temp::new("follow", "table");
    let cql = |text: &str| {
        Ran::of(t.run("db", &["cql"], text.as_bytes())).good();
    };
    cql(
        "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
         CREATE TYPE s.address (street text, zip int);
         CREATE TABLE s.items (shop int, id int, name text, price decimal, tags set<text>, parts map<text, int>,
             log list<text>, home address, sizes frozen<list<int>>, city text static, PRIMARY KEY (shop, id));
         CREATE TABLE s.hits (page text PRIMARY KEY, n counter);
         CREATE INDEX ON s.items (name);
         INSERT INTO s.items (shop, id, name, price, tags, parts, log, home, sizes, city)
             VALUES (1, 1, 'pen', 1.25, {'a', 'b'}, {'x': 1}, ['l'], {street: 's', zip: 1}, [1, 2], 'berlin');
         UPDATE s.hits SET n = n + 5 WHERE page = 'home';",
    );
    let of = |table: &str, op: &str, key: Value| json!({"keyspace": "s", "table": table, "op": op, "key": key});
    let with = |table: &str, op: &str, key: Value, columns: Value| {
        let mut event = of(table, op, key);
        event["columns"] = columns;
        event
    };
    let row = json!({"shop": 1, "id": 1});
    assert_eq!(
        events(&t, &[]),
        [
            with("hits", "read", json!({"page": "home"}), json!({"n": 5})),
            with("items", "read", json!({"shop": 1}), json!({"city": "berlin"})),
            with(
                "items",
                "read",
                row.clone(),
                json!({
                    "name": "pen", "price": 1.25, "tags": ["a", "b"], "parts": {"x": 1}, "log": ["l"],
                    "home": {"street": "s", "zip": 1}, "sizes": [1, 2],
                })
            ),
        ]
    );
    cql(
        "UPDATE s.items SET tags = tags + {'c'}, parts['y'] = 2, log = log + ['m'], home.zip = 7 WHERE shop = 1 AND id = 1;
         UPDATE s.items USING TTL 1000 SET price = 123456789012345678901234567890.12 WHERE shop = 1 AND id = 2;
         DELETE tags['a'], parts['x'] FROM s.items WHERE shop = 1 AND id = 1;
         UPDATE s.items SET parts = {'z': 9}, name = null WHERE shop = 1 AND id = 1;
         UPDATE s.items SET city = 'rome' WHERE shop = 1;
         INSERT INTO s.items (shop, id) VALUES (1, 3);
         DELETE FROM s.items WHERE shop = 1 AND id = 2;
         DELETE FROM s.items WHERE shop = 1 AND id > 3 AND id <= 10;
         DELETE FROM s.items WHERE shop = 2;
         UPDATE s.hits SET n = n + 2 WHERE page = 'home';
         CREATE TABLE s.later (k int PRIMARY KEY);
         INSERT INTO s.later (k) VALUES (1);",
    );
    let update = |columns: Value| with("items", "update", row.clone(), columns);
    let mut ranged = of("items", "delete_range", json!({"shop": 1}));
    ranged["from"] = json!({"key": {"id": 3}, "inclusive": false});
    ranged["to"] = json!({"key": {"id": 10}, "inclusive": true});
    let text = t.firn(&["follow", "--peek"]).good();
    assert!(text.contains("\"price\":123456789012345678901234567890.12},\"ttl\":1000"), "{text}");
    let mut got = events(&t, &[]);
    got.remove(1);
    assert_eq!(
        got,
        [
            update(
                json!({"tags": {"set": ["c"]}, "parts": {"set": {"y": 2}}, "log": ["l", "m"], "home": {"set": {"zip": 7}}})
            ),
            update(json!({"tags": {"removed": ["a"]}, "parts": {"removed": ["x"]}})),
            update(json!({"name": null, "parts": {"replaced": true, "set": {"z": 9}}})),
            with("items", "update", json!({"shop": 1}), json!({"city": "rome"})),
            of("items", "insert", json!({"shop": 1, "id": 3})),
            of("items", "delete", json!({"shop": 1, "id": 2})),
            ranged,
            of("items", "delete", json!({"shop": 2})),
            with("hits", "update", json!({"page": "home"}), json!({"n": 7})),
            of("later", "insert", json!({"k": 1})),
        ]
    );
    cql("TRUNCATE s.hits;");
    assert_eq!(events(&t, &[]), [json!({"keyspace": "s", "table": "hits", "op": "truncate"})]);
}

/// Kills the process while it prints. All runs together print each change, and print again only
/// those that were not acknowledged.
#[test]
fn a_killed_run_loses_no_change() {
    let t = Temp::new("follow", "killed");
    t.firn(&["put", "first", "0"]).good();
    events(&t, &[]);
    let lines = |from: u32| (from..from + 4000).map(|n| format!("key{n:06}\t{n}\n"));
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for round in 0..3_u32 {
        let input: String = lines(round * 4000).collect();
        Ran::of(t.run("db", &["load", "-", "--chunk", "1"], input.as_bytes())).good();
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(["--db", "db", "follow"])
            .current_dir(&t.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in out.by_ref().take(500 + 900 * round as usize) {
            note(&line.unwrap(), &mut seen);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // A consumer gets the rest of the pipe, too.
        out.map_while(Result::ok).for_each(|line| note(&line, &mut seen));
    }
    for event in events(&t, &[]) {
        *seen.entry(event["key"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(seen.len(), 12_000);
    assert!(events(&t, &[]).is_empty());
}

/// Counts a whole line; a cut one is printed again by the next run.
fn note(line: &str, seen: &mut BTreeMap<String, u32>) {
    if let Ok(event) = serde_json::from_str::<Value>(line) {
        *seen.entry(event["key"].as_str().unwrap().to_owned()).or_default() += 1;
    }
}
