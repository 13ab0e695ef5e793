//! Names, names of super columns, values and keys that a Cassandra 1.1.12 server accepts and
//! refuses, checked through the operations: `vectors/validation.jsonl`.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_wide::*;
use firn_wide::{CfDef, KsDef};
use serde_json::Value;

const VECTORS: &str = include_str!("vectors/validation.jsonl");

/// Returns why an accepted answer differs from the server's; `None` if it must not differ.
fn accepted(
    t: &str,
    bytes: &[u8],
    theirs: &Option<String>,
    ours: &Option<String>,
) -> Option<&'static str> {
    let ours = ours.as_deref().unwrap_or_default();
    match theirs.as_deref() {
        None if t == "UTF8Type"
            && ours.contains("String didn't validate.")
            && std::str::from_utf8(bytes).is_err() =>
        {
            Some("UTF-8 is strict")
        }
        None if t == "DecimalType"
            && ours.contains("Expected 0 or at least 4 bytes")
            && bytes.len() < 4 =>
        {
            Some("what is too short for a decimal is none, as in 4.0")
        }
        Some("the server closed the connection without an answer") => {
            Some("the server failed inside")
        }
        _ => None,
    }
}

#[test]
fn names_values_and_keys_are_accepted_and_refused_as_by_the_server() {
    let db = DbOptions {
        background_threads: 0,
        memory_budget: 8 << 20,
        wal_segment: 256 << 10,
        ..DbOptions::default()
    };
    let options = Options {
        store: StoreOptions { db, clock: None, ..StoreOptions::default() },
        ..Options::default()
    };
    let wide = Wide::open_in(Arc::new(MemEnv::new(1)), "/wide", options).unwrap();
    wide.system_add_keyspace(&KsDef::new("val")).unwrap();
    let ks = wide.keyspace("val").unwrap();
    let (mut families, mut wrong, mut lines) = (BTreeMap::new(), vec![], 0);
    for line in VECTORS
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap())
        .filter(|l| l["server"] == "1.1.12")
    {
        let (t, place) = (line["type"].as_str().unwrap(), line["where"].as_str().unwrap());
        let Some(hex) = line["hex"].as_str() else { continue };
        let bytes = firn_wide::internals::types::hex_to_bytes(hex).unwrap();
        let class = |at: &str| if place == at { t.to_owned() } else { "BytesType".to_owned() };
        let name = format!("{}_{}", &place[..1], t.replace(|c: char| !c.is_alphanumeric(), "_"));
        families.entry(name.clone()).or_insert_with(|| {
            let def = CfDef {
                column_type: if place == "super" { "Super".into() } else { "Standard".into() },
                comparator_type: if place == "super" { t.to_owned() } else { class("name") },
                default_validation_class: class("value"),
                key_validation_class: class("key"),
                ..CfDef::new("val", &*name)
            };
            wide.system_add_column_family(&def).unwrap();
        });
        let (parent, c) = (ColumnParent::new(&*name), b"c");
        let done = match place {
            "name" => ks.insert(b"k", &parent, &Column::new(bytes.clone(), "v", 1)),
            "super" => {
                ks.insert(b"k", &parent.super_column(bytes.clone()), &Column::new(*c, "v", 1))
            }
            "value" => ks.insert(b"k", &parent, &Column::new(*c, bytes.clone(), 1)),
            "key" => ks.insert(&bytes, &parent, &Column::new(*c, "v", 1)),
            _ => continue,
        };
        let ours = done.err().map(|e| e.to_string());
        let theirs = line.get("error").map(|e| e["message"].as_str().unwrap().to_owned());
        lines += 1;
        if ours != theirs && accepted(t, &bytes, &theirs, &ours).is_none() {
            wrong.push(format!("{t} {place} {hex}: {theirs:?}, not {ours:?}"));
        }
    }
    assert_eq!(lines, 2970);
    assert!(wrong.is_empty(), "{} of {lines} differ:\n{}", wrong.len(), wrong.join("\n"));
}
