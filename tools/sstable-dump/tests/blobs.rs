//! Stores with values in blob files: the output of the tools, and the data that they save.
#![allow(clippy::disallowed_methods)] // files under test are damaged directly

use super::support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::{Manifest, ManifestState, TreeState};
use firn_kv::{Db, OsEnv, TreeOptions};
use firn_testkit::effort::times_effort;
use firn_testkit::rng::Rng;
use serde_json::Value;
use support::{Room, arg, content, copy, dump, options, tree_options};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn blob_options() -> TreeOptions {
    TreeOptions { blob_threshold: 64, blob_gc_percent: 60, ..tree_options() }
}

/// Returns a value; every third one is too short for a blob file.
fn value(i: u32) -> Vec<u8> {
    format!("value {i} {}", "x".repeat(if i.is_multiple_of(3) { 10 } else { 100 })).into_bytes()
}

/// Creates two runs over the same keys, some deleted, and a few writes that are only in the log.
fn make(dir: &Path) {
    let db = Db::open_with(dir, options()).unwrap();
    let t = db.tree("t", blob_options()).unwrap();
    (0..60).for_each(|i| t.put(format!("key{i:03}").as_bytes(), &value(i)).unwrap());
    t.flush().unwrap();
    (0..60)
        .step_by(2)
        .for_each(|i| t.put(format!("key{i:03}").as_bytes(), &value(i + 100)).unwrap());
    (0..60).step_by(10).for_each(|i| t.delete(format!("key{i:03}").as_bytes()).unwrap());
    t.flush().unwrap();
    (60..64).for_each(|i| t.put(format!("key{i:03}").as_bytes(), &value(i)).unwrap());
    db.sync().unwrap();
}

fn state(dir: &Path) -> ManifestState {
    Manifest::load(&*OsEnv::new(), dir).unwrap().unwrap().0
}

fn blob_files(dir: &Path) -> Vec<PathBuf> {
    let of = |s: ManifestState| {
        s.trees.into_values().flat_map(|t| t.values.into_iter().map(|(id, _)| id))
    };
    of(state(dir)).map(|id| table_path(dir, id)).collect()
}

fn table_files(dir: &Path) -> Vec<PathBuf> {
    let s = state(dir);
    s.trees.values().flat_map(|t| t.tables()).map(|m| table_path(dir, m.id)).collect()
}

fn json(args: &[&str]) -> (Value, i32) {
    let (text, code) = dump(&[args, &["--json"]].concat());
    (serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")), code)
}

/// Returns the positions of a blob file's values: offset, length, key.
fn places(file: &Path) -> Vec<(usize, usize, String)> {
    let (v, _) = json(&["layout", &arg(file)]);
    let parts = v["parts"].as_array().unwrap().iter().filter(|p| p["what"] == "blob");
    let number = |v: &Value| v.as_u64().unwrap() as usize;
    parts
        .map(|p| {
            (number(&p["offset"]), number(&p["len"]), p["keys"][0].as_str().unwrap().to_owned())
        })
        .collect()
}

#[test]
fn blob_files_are_shown_as_blob_files() {
    let room = Room::new("apart");
    let dir = room.path("s");
    make(&dir);
    let values = blob_files(&dir);
    assert_eq!(values.len(), 2);
    let (check, code) = json(&["check", &arg(&dir)]);
    assert_eq!((code, &check["sound"], &check["blob_files"]), (0, &true.into(), &2.into()));
    let tree = &state(&dir).trees[&1];
    let uses = tree.uses();
    for (file, facts) in values.iter().zip(tree.values.values()) {
        let all = places(file);
        assert_eq!(all.len() as u64, facts.values);
        assert_eq!(uses[&facts.id].values, facts.values);
        let (props, _) = json(&["props", &arg(file)]);
        assert_eq!(
            (&props[0]["what"], &props[0]["values"]),
            (&"blob file".into(), &facts.values.into())
        );
        let (raw, code) = json(&["raw", &arg(file)]);
        assert_eq!((code, raw["index"].is_null()), (0, true));
        let blocks = raw["data"]["blocks"].as_array().unwrap();
        assert_eq!((blocks.len(), &blocks[0]["kind"]), (all.len(), &"blob".into()));
        assert_eq!(dump(&["check", &arg(file)]).1, 0);
        let (text, code) = dump(&["scan", &arg(file)]);
        assert!(code == 2 && text.contains("blob file"), "{text}");
    }
    let (m, _) = json(&["manifest", &arg(&dir)]);
    assert_eq!(m["state"]["trees"][0]["blob_files"].as_array().unwrap().len(), 2);
    let (text, _) = dump(&["manifest", &arg(&dir)]);
    assert!(text.contains("+ blob file") && text.contains("values of at least 64"), "{text}");
    let (text, _) = dump(&["space", &arg(&dir)]);
    assert!(text.contains("2 blob files"), "{text}");
    let raw = dump(&["raw", &arg(&dir.join("MANIFEST-000001"))]);
    assert!(raw.1 == 0 && raw.0.contains("blob_threshold"), "{}", raw.0);
}

#[test]
fn find_and_scan_show_values_in_blob_files() {
    let room = Room::new("apart-find");
    let dir = room.path("s");
    make(&dir);
    let truth: BTreeMap<_, _> = content(&dir).remove(0).1.into_iter().collect();
    for i in 0..64 {
        let key = format!("key{i:03}");
        let (v, code) = json(&["find", &arg(&dir), &key]);
        let reported = v["versions"].as_array().unwrap().iter().find(|v| v["returned"] == true);
        let reported = reported.map(|v| v["value"].as_str().unwrap().as_bytes().to_vec());
        assert_eq!(reported.as_ref(), truth.get(key.as_bytes()), "{v}");
        assert_eq!(code, i32::from(reported.is_none()));
    }
    let (v, _) = json(&["find", &arg(&dir), "key001"]);
    let place = v["versions"][0]["where"].as_str().unwrap();
    assert!(place.contains("the value in ") && v["versions"][0]["blob"]["file"].is_u64(), "{v}");
    for table in table_files(&dir) {
        let lines = room.path("lines");
        let (text, code) = dump(&["scan", &arg(&table), "--all-versions", "--json"]);
        assert!(code == 0 && text.contains("\"kind\":\"blob\"") && text.contains("xxxx"), "{text}");
        fs::write(&lines, text).unwrap();
        let again = room.path("again").join(table.file_name().unwrap());
        let (text, code) = dump(&["from-json", &arg(&lines), "--out", &arg(&again)]);
        assert_eq!(code, 0, "{text}");
        let data = |file: &Path| json(&["raw", &arg(file)]).0["data"].clone();
        assert_eq!(data(&again), data(&table));
    }
    // Without its file a value is reported, and the rest is printed.
    let file = blob_files(&dir).remove(0);
    fs::remove_file(&file).unwrap();
    let (text, code) = dump(&["find", &arg(&dir), "key001"]);
    assert!(code == 0 && text.contains("cannot be read") && text.contains("missing"), "{text}");
    let (text, code) = dump(&["scan", &arg(&table_files(&dir)[1])]);
    assert!(code == 0 && text.contains("the blob file is missing"), "{text}");
}

/// Flips each value: the check reports it with its key, and no other. Then flips the rest of the
/// file.
#[test]
fn check_reports_each_damage_of_a_blob_file() {
    let room = Room::new("apart-check");
    let (dir, bad) = (room.path("s"), room.path("bad"));
    make(&dir);
    let mut rng = Rng::new(7);
    for file in blob_files(&dir) {
        let name = file.file_name().unwrap();
        let bytes = fs::read(&file).unwrap();
        let all = places(&file);
        for (at, len, key) in &all {
            copy(&dir, &bad);
            let mut damaged = bytes.clone();
            damaged[at + rng.below(*len as u64) as usize] ^= 1 << rng.below(8);
            fs::write(bad.join(name), damaged).unwrap();
            let (v, code) = json(&["check", &arg(&bad)]);
            let errors = v["errors"].as_array().unwrap();
            assert_eq!((code, errors.len()), (1, 1), "{v:#}");
            let e = &errors[0];
            assert_eq!((&e["offset"], &e["block"]), (&(*at).into(), &"blob".into()), "{v:#}");
            assert_eq!(e["keys"][0], key.as_str(), "{v:#}");
        }
        let end = all.last().map(|p| p.0 + p.1).unwrap();
        for at in (end..bytes.len()).step_by(5) {
            copy(&dir, &bad);
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x11;
            fs::write(bad.join(name), damaged).unwrap();
            let (v, code) = json(&["check", &arg(&bad)]);
            assert_eq!((code, &v["sound"]), (1, &false.into()), "{at}: {v:#}");
        }
        for cut in [0, 1, end / 2, end, bytes.len() - 1] {
            copy(&dir, &bad);
            fs::write(bad.join(name), &bytes[..cut]).unwrap();
            assert_eq!(dump(&["check", &arg(&bad)]).1, 1);
        }
    }
}

#[test]
fn check_reports_missing_and_misplaced_blob_files() {
    let room = Room::new("apart-names");
    let (dir, bad, other) = (room.path("s"), room.path("bad"), room.path("other"));
    make(&dir);
    make(&other);
    let files = blob_files(&dir);
    let [a, b] = [0, 1].map(|i| PathBuf::from(files[i].file_name().unwrap()));
    let found = |what: &dyn Fn()| {
        copy(&dir, &bad);
        what();
        let (v, code) = json(&["check", &arg(&bad)]);
        assert_eq!(code, 1, "{v:#}");
        let (text, _) = dump(&["check", &arg(&bad)]);
        (v["found"].clone(), text)
    };
    let (kinds, text) = found(&|| fs::remove_file(bad.join(&a)).unwrap());
    assert_eq!(kinds["missing"], 1, "{text}");
    assert!(
        text.contains("a live blob file is missing; tables refer to 40 values in it"),
        "{text}"
    );
    let (kinds, text) = found(&|| fs::rename(bad.join(&a), bad.join("00000077.sst")).unwrap());
    assert!(kinds["misnamed"] == 1 && text.contains("this file holds blob file"), "{text}");
    assert_eq!(dump(&["repair", &arg(&bad), "--rename"]).1, 0);
    assert_eq!(dump(&["check", &arg(&bad)]).1, 0);
    let (kinds, text) = found(&|| {
        fs::rename(bad.join(&a), bad.join("x")).unwrap();
        fs::rename(bad.join(&b), bad.join(&a)).unwrap();
        fs::rename(bad.join("x"), bad.join(&b)).unwrap();
    });
    assert_eq!(kinds["misnamed"], 2, "{text}");
    let (kinds, text) = found(&|| {
        fs::copy(other.join(&a), bad.join(&a)).unwrap();
    });
    assert!(kinds["foreign"] == 1 && kinds["missing"] == 1, "{text}");
    // A blob file without references is no damage.
    copy(&dir, &bad);
    let db = Db::open_with(&bad, options()).unwrap();
    let t = db.tree("t", blob_options()).unwrap();
    t.delete_range(..).unwrap();
    t.compact().unwrap();
    drop((t, db));
    // The next opening removes a file that other tests of the process protected during the close.
    drop(Db::open_with(&bad, options()).unwrap());
    assert_eq!(blob_files(&bad), Vec::<PathBuf>::new());
    fs::copy(dir.join(&a), bad.join(&a)).unwrap();
    let (text, code) = dump(&["check", &arg(&bad)]);
    assert!(code == 0 && text.contains("1 blob file that the store does not know"), "{text}");
}

/// Returns the report of salvage or repair, and the content of the new store.
fn save(how: &[&str], bad: &Path, new: &Path) -> (Value, i32, Pairs) {
    let _ = fs::remove_dir_all(new);
    let (v, code) = json(&[how, &[&arg(bad), "--out", &arg(new)]].concat());
    assert_eq!(v["sound"], true, "{v:#}");
    let found = content(new).into_iter().flat_map(|t| t.1).collect();
    (v, code, found)
}

fn losses(v: &Value) -> Vec<Value> {
    v["losses"].as_array().unwrap().clone()
}

fn told_keys(v: &Value) -> Vec<String> {
    losses(v).iter().map(|l| l["keys"][0].as_str().unwrap().to_owned()).collect()
}

fn truth(dir: &Path) -> Pairs {
    let copied = dir.with_extension("truth");
    copy(dir, &copied);
    content(&copied).into_iter().flat_map(|t| t.1).collect()
}

/// Removes a key whose older version may be visible now.
fn forget(a: &mut Pairs, b: &mut Pairs, key: &str) {
    a.remove(key.as_bytes());
    b.remove(key.as_bytes());
}

/// Ways to save a store that has a manifest.
const WAYS: [&[&str]; 3] = [&["salvage"], &["repair"], &["repair", "--without-manifest"]];

#[test]
fn sound_stores_are_saved_whole() {
    let room = Room::new("apart-whole");
    let (dir, bad, new) = (room.path("s"), room.path("bad"), room.path("new"));
    make(&dir);
    let all = truth(&dir);
    for how in WAYS {
        let (v, code, found) = save(how, &dir, &new);
        assert_eq!((code, &v["blob_files"]), (0, &2.into()), "{v:#}");
        assert_eq!(found, all, "{how:?}: {v:#}");
    }
    // Remove all files with names of trees.
    copy(&dir, &bad);
    for name in ["CURRENT", "MANIFEST-000001", "EVENTS.jsonl"] {
        fs::remove_file(bad.join(name)).unwrap();
    }
    let (v, code, found) = save(&["repair"], &bad, &new);
    // Nothing proves that there were no other tables.
    assert_eq!((code, found), (1, all), "{v:#}");
}

#[test]
fn a_damaged_blob_costs_only_its_key() {
    let room = Room::new("apart-flip");
    let (dir, bad, new) = (room.path("s"), room.path("bad"), room.path("new"));
    make(&dir);
    let all = truth(&dir);
    for file in blob_files(&dir) {
        let bytes = fs::read(&file).unwrap();
        for (i, (at, len, key)) in places(&file).into_iter().enumerate().step_by(7) {
            copy(&dir, &bad);
            let mut damaged = bytes.clone();
            damaged[at + len / 2] ^= 4;
            fs::write(bad.join(file.file_name().unwrap()), damaged).unwrap();
            let (v, code, mut found) = save(WAYS[i % 3], &bad, &new);
            assert_eq!((code, told_keys(&v)), (1, vec![key.clone()]), "{v:#}");
            let mut wanted = all.clone();
            // A read of the key now finds the entry of an older table, if there is one.
            forget(&mut found, &mut wanted, &key);
            assert_eq!(found, wanted, "{v:#}");
        }
        // Damage after the values costs nothing.
        for at in (places(&file).last().map(|p| p.0 + p.1).unwrap()..bytes.len()).step_by(37) {
            copy(&dir, &bad);
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            fs::write(bad.join(file.file_name().unwrap()), damaged).unwrap();
            let (v, code, found) = save(WAYS[at % 3], &bad, &new);
            assert_eq!((code, found), (0, all.clone()), "{at}: {v:#}");
            assert!(v["notes"].to_string().contains("are in the table itself now"), "{v:#}");
        }
    }
}

#[test]
fn a_lost_blob_file_costs_only_its_keys() {
    let room = Room::new("apart-lost");
    let (dir, bad, new) = (room.path("s"), room.path("bad"), room.path("new"));
    make(&dir);
    let all = truth(&dir);
    for file in blob_files(&dir) {
        let places = places(&file);
        let keys: Vec<&str> = places.iter().map(|p| p.2.as_str()).collect();
        let bytes = fs::read(&file).unwrap();
        // The remaining part of the file, and the number of complete values in it.
        for (cut, whole) in
            [(None, 0), (Some(0), 0), (Some(places[5].0), 5), (Some(places[9].0 + 3), 9)]
        {
            copy(&dir, &bad);
            let path = bad.join(file.file_name().unwrap());
            match cut {
                None => fs::remove_file(&path).unwrap(),
                Some(n) => fs::write(&path, &bytes[..n]).unwrap(),
            }
            let gone = &keys[whole..];
            for how in WAYS {
                let (v, code, mut found) = save(how, &bad, &new);
                let reported: u64 = losses(&v).iter().map(|l| l["entries"].as_u64().unwrap()).sum();
                assert_eq!((code, reported), (1, gone.len() as u64), "{how:?}: {v:#}");
                let mut wanted = all.clone();
                for key in gone {
                    forget(&mut found, &mut wanted, key);
                }
                assert_eq!(found, wanted, "{how:?}: {v:#}");
            }
        }
        // It is found under another name, and in another directory.
        for to in [bad.join("00000091.sst"), bad.join("lost+found/#12")] {
            copy(&dir, &bad);
            fs::create_dir_all(bad.join("lost+found")).unwrap();
            fs::rename(bad.join(file.file_name().unwrap()), &to).unwrap();
            let (v, code, found) = save(&["salvage"], &bad, &new);
            assert_eq!((code, found), (0, all.clone()), "{v:#}");
        }
    }
}

#[test]
fn blobs_of_a_lost_table_are_recovered() {
    let room = Room::new("apart-table");
    let (dir, bad, new) = (room.path("s"), room.path("bad"), room.path("new"));
    make(&dir);
    let all = truth(&dir);
    for m in state(&dir).trees[&1].tables() {
        let name = table_path(Path::new(""), m.id);
        let blobs: u64 = m.values.iter().map(|u| u.values).sum();
        let bytes = fs::read(dir.join(&name)).unwrap();
        // The last cut is inside the first data block.
        for cut in [None, Some(0), Some(bytes.len() / 4)] {
            copy(&dir, &bad);
            match cut {
                None => fs::remove_file(bad.join(&name)).unwrap(),
                Some(n) => fs::write(bad.join(&name), &bytes[..n]).unwrap(),
            }
            for how in &WAYS[..2] {
                let (v, code, found) = save(how, &bad, &new);
                let reported: u64 = losses(&v).iter().map(|l| l["entries"].as_u64().unwrap()).sum();
                assert_eq!(code, 1, "{v:#}");
                assert!(reported <= m.entries - blobs, "{reported} of {}: {v:#}", m.entries);
                assert_eq!(v["unknown"].as_array().unwrap().len(), 0, "{v:#}");
                // All values in blob files are there: the differences are short values and deletes.
                for (k, value) in all.iter().filter(|(_, v)| v.len() >= 64) {
                    assert_eq!(found.get(k), Some(value), "{how:?}: {v:#}");
                }
            }
            // Without the manifest too: the same result, but not all of it can be proved.
            for name in ["CURRENT", "MANIFEST-000001"] {
                fs::remove_file(bad.join(name)).unwrap();
            }
            let (v, _, found) = save(&["repair"], &bad, &new);
            for (k, value) in all.iter().filter(|(_, v)| v.len() >= 64) {
                assert_eq!(found.get(k), Some(value), "{v:#}");
            }
        }
    }
}

#[test]
fn only_blob_files_are_left() {
    let room = Room::new("apart-alone");
    let (dir, bad, new) = (room.path("s"), room.path("bad"), room.path("new"));
    make(&dir);
    let all = truth(&dir);
    fs::create_dir_all(&bad).unwrap();
    for file in blob_files(&dir) {
        fs::copy(&file, bad.join(file.file_name().unwrap())).unwrap();
    }
    let (v, _, found) = save(&["repair"], &bad, &new);
    let unknown = v["unknown"].to_string();
    assert!(unknown.contains("deleted ones may be back"), "{v:#}");
    let logged = |k: &[u8]| k >= &b"key060"[..];
    for (k, value) in all.iter().filter(|(k, v)| v.len() >= 64 && !logged(k)) {
        assert_eq!(found.get(k), Some(value), "{v:#}");
    }
    let back = found.keys().filter(|k| !all.contains_key(*k)).count();
    assert!(back <= 6, "no more than was deleted: {v:#}");
}

/// Creates a history with compactions, so that blob files have values without references. Returns
/// the content of the store, and all values that were ever written, by key.
fn history(dir: &Path, seed: u64) -> (Pairs, BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>) {
    let db = Db::open_with(dir, options()).unwrap();
    let t = db.tree("t", blob_options()).unwrap();
    let mut written: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>> = BTreeMap::new();
    let mut rng = Rng::new(seed);
    for i in 0..900u32 {
        let key = format!("key{:03}", rng.below(120)).into_bytes();
        match rng.below(60) {
            0..=9 => t.delete(&key).unwrap(),
            10 => t.delete_range(&*key..&*[&key[..], b"~"].concat()).unwrap(),
            11 | 12 => t.flush().unwrap(),
            13 => t.compact_range(&*key..).unwrap(),
            _ => {
                t.put(&key, &value(i)).unwrap();
                written.entry(key).or_default().insert(value(i));
            }
        }
    }
    t.flush().unwrap();
    drop((t, db));
    (truth(dir), written)
}

fn has_garbage(s: &ManifestState) -> bool {
    let of_tree = |t: &TreeState| {
        let uses = t.uses();
        t.values.values().any(|v| uses[&v.id].values < v.values)
    };
    s.trees.values().any(of_tree)
}

/// Deleted or replaced values are still in blob files, and never come back.
#[test]
fn deleted_keys_stay_deleted() {
    let room = Room::new("apart-garbage");
    let (bad, new) = (room.path("bad"), room.path("new"));
    let mut with_garbage = 0;
    for seed in 0..times_effort(3) {
        let dir = room.path(&format!("s{seed}"));
        let (all, _) = history(&dir, seed);
        with_garbage += u32::from(has_garbage(&state(&dir)));
        copy(&dir, &bad);
        for how in WAYS {
            let (v, code, found) = save(how, &bad, &new);
            assert_eq!((code, found), (0, all.clone()), "{how:?}, seed {seed}: {v:#}");
        }
        for f in fs::read_dir(&bad).unwrap().map(|f| f.unwrap()) {
            let name = f.file_name().into_string().unwrap();
            if name.starts_with("MANIFEST") || name == "CURRENT" || name.starts_with("EVENTS") {
                fs::remove_file(f.path()).unwrap();
            }
        }
        let (v, code, found) = save(&["repair"], &bad, &new);
        assert_eq!((code, found), (1, all.clone()), "without manifest, seed {seed}: {v:#}");
        // They do not come back when the values of a damaged blob file move into tables.
        for file in blob_files(&dir) {
            let path = bad.join(file.file_name().unwrap());
            let bytes = fs::read(&path).unwrap();
            let mut damaged = bytes.clone();
            damaged[40] ^= 1;
            fs::write(&path, damaged).unwrap();
            let (v, _, mut found) = save(&["repair"], &bad, &new);
            let mut wanted = all.clone();
            told_keys(&v).iter().for_each(|key| forget(&mut found, &mut wanted, key));
            assert_eq!(found, wanted, "without manifest, damaged, seed {seed}: {v:#}");
            fs::write(&path, bytes).unwrap();
        }
    }
    assert!(with_garbage > 0, "{with_garbage} stores have values without references");
}

/// Removes each table in turn. Keys outside of it are unchanged, and no key in it has a value that
/// was never written. Its values in blob files are unchanged, unless the report says that deleted
/// values may be back.
#[test]
fn a_lost_table_of_a_long_history() {
    let room = Room::new("apart-history");
    let (bad, new) = (room.path("bad"), room.path("new"));
    let (mut doubtful, mut found_again) = (0, 0);
    for seed in 0..6 {
        let dir = room.path(&format!("s{seed}"));
        let (all, written) = history(&dir, seed);
        for m in state(&dir).trees[&1].tables() {
            copy(&dir, &bad);
            fs::remove_file(table_path(&bad, m.id)).unwrap();
            for how in WAYS {
                let (v, _, found) = save(how, &bad, &new);
                let doubt = v["unknown"].as_array().unwrap().iter();
                let doubt = doubt.filter(|u| u.as_str().unwrap().contains("may be back")).count();
                let again = v["notes"].as_array().unwrap().iter();
                found_again +=
                    again.filter(|n| n.as_str().unwrap().contains("found again")).count();
                doubtful += doubt;
                for (key, value) in &found {
                    let is_right = all.get(key) == Some(value);
                    let was = written.get(key).is_some_and(|w| w.contains(value));
                    assert!(was, "seed {seed}, {how:?}: {key:?} was never that: {v:#}");
                    let inside = &m.first_key <= key && key <= &m.last_key;
                    assert!(
                        is_right || inside || (doubt > 0 && how.len() > 1),
                        "seed {seed}, {how:?}: {key:?} is not of the lost table: {v:#}"
                    );
                }
                for key in all.keys().filter(|k| **k < m.first_key || **k > m.last_key) {
                    assert!(found.contains_key(key), "seed {seed}, {how:?}: {v:#}");
                }
            }
        }
    }
    assert!(found_again > 10 && doubtful > 0, "{found_again} found again, {doubtful} in doubt");
}

/// A damaged value without references is reported as such, and costs nothing.
#[test]
fn a_damaged_blob_without_reference_costs_nothing() {
    let room = Room::new("apart-needless");
    let (dir, bad, new) = (room.path("s"), room.path("bad"), room.path("new"));
    let (all, _) = history(&dir, 1);
    copy(&dir, &bad);
    let (mut needed, mut needless) = (0, 0);
    for file in blob_files(&dir) {
        let bytes = fs::read(&file).unwrap();
        for (at, len, key) in places(&file).into_iter().step_by(9) {
            let mut damaged = bytes.clone();
            damaged[at + len - 1] ^= 8;
            fs::write(bad.join(file.file_name().unwrap()), damaged).unwrap();
            let (v, code) = json(&["check", &arg(&bad)]);
            assert_eq!((code, v["errors"].as_array().unwrap().len()), (1, 1), "{v:#}");
            let is_needless = v["errors"][0].to_string().contains("no table needs this value");
            let (v, code, found) = save(&["salvage"], &bad, &new);
            if is_needless {
                assert_eq!((code, &found), (0, &all), "{v:#}");
                needless += 1;
            } else {
                assert_eq!((code, told_keys(&v)), (1, vec![key]), "{v:#}");
                needed += 1;
            }
        }
        fs::write(bad.join(file.file_name().unwrap()), bytes).unwrap();
    }
    assert!(needed > 5 && needless > 2, "{needed} needed, {needless} not");
}
