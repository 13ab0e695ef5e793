//! The golden stores of `format-spec`: `check` finds them sound, and `salvage` and `repair` copy
//! all of their content.
#![allow(clippy::disallowed_methods, reason = "golden files are read as they are")]

use super::support;

use std::path::{Path, PathBuf};

use firn_kv::OsEnv;
use serde_json::Value;
use support::{Room, arg, copy, dump};

#[path = "../../../engine/kv/examples/golden/made.rs"]
#[allow(dead_code, reason = "shared with the generator of the golden files")]
mod made;
#[path = "../../../engine/kv/examples/golden/stores.rs"]
#[allow(dead_code)]
mod stores;
#[path = "../../../engine/kv/examples/golden/tables.rs"]
#[allow(dead_code)]
mod tables;

fn spec() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format-spec")
}

fn json(args: &[&str]) -> (Value, i32) {
    let (text, code) = dump(&[args, &["--json"]].concat());
    (serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}")), code)
}

/// Copies a store to `bad`, checks it, and saves it into new stores in the ways `save` names.
fn saved(room: &Room, store: &Path, ways: &[&str]) -> Vec<PathBuf> {
    let dir = room.path("store");
    copy(store, &dir);
    let (v, code) = json(&["check", &arg(&dir)]);
    assert_eq!((code, &v["sound"]), (0, &true.into()), "{}: {v:#}", store.display());
    let mut all = vec![];
    for way in ways {
        let new = room.path(way);
        let _ = std::fs::remove_dir_all(&new);
        let (v, code) = json(&[way, &arg(&dir), "--out", &arg(&new)]);
        // A table that an interrupted flush left may have been dropped by its compaction.
        let doubts = v["unknown"].as_array().map_or(0, Vec::len);
        let may_doubt = store.to_str().is_some_and(|s| s.contains("interrupted"));
        assert!(code == i32::from(doubts > 0) && (doubts == 0 || may_doubt), "{way}: {v:#}");
        assert_eq!(v["sound"], true, "{way} {}: {v:#}", store.display());
        assert_eq!(v["losses"], serde_json::json!([]), "{way} {}: {v:#}", store.display());
        all.push(new);
    }
    all
}

#[test]
fn golden_stores_of_keys_are_sound_and_saved_whole() {
    let room = Room::new("golden-keys");
    let folder = spec().join("golden/v1");
    let expected = std::fs::read_to_string(folder.join("expected.jsonl")).unwrap();
    let mut count = 0;
    for line in expected.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()) {
        if line["kind"] != "store" {
            continue;
        }
        let name = line["path"].as_str().unwrap();
        for new in saved(&room, &folder.join(name), &["salvage", "repair"]) {
            let content = stores::read(OsEnv::new(), &new).unwrap();
            assert_eq!(
                Value::from(made::hash(&content)),
                line["hash"],
                "{name}: {}",
                new.display()
            );
        }
        count += 1;
    }
    assert!(count > 8, "{count}");
}

#[test]
fn the_golden_store_of_the_data_model_is_sound_and_saved_whole() {
    let room = Room::new("golden-model");
    let store = spec().join("golden-cql/v1/store");
    let entries = |dir: &Path| {
        let (v, code) = json(&["check", &arg(dir)]);
        assert_eq!(code, 0, "{v:#}");
        (v["entries"].clone(), v["tables"].clone(), v["records"].clone())
    };
    let before = entries(&store);
    for new in saved(&room, &store, &["salvage", "repair"]) {
        assert_eq!(entries(&new), before, "{}", new.display());
    }
}
