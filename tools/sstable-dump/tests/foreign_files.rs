//! Files of a clone and of another store under names of this one: `check` finds and describes them.
#![allow(clippy::disallowed_methods)] // files under test are put where they do not belong

use super::support;

use std::fs;
use std::path::{Path, PathBuf};

use firn_kv::{Db, TreeOptions};
use support::{Room, arg, content, copy, dump, options, tree_options};

/// Puts a pair into the store, and copies its files to `left` while it is open: as a killed process
/// leaves them.
fn killed(dir: &Path, left: &Path, value: &str) {
    let db = Db::open_with(dir, options()).unwrap();
    let t = db.tree("t", tree_options()).unwrap();
    t.put(b"a", value.as_bytes()).unwrap();
    copy(dir, left);
}

/// Returns the name of the newest log segment.
fn newest(dir: &Path) -> String {
    let names = fs::read_dir(dir).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
    names.filter(|n| n.ends_with(".wal")).max().unwrap()
}

#[test]
fn a_log_segment_of_a_clone() {
    let room = Room::new("clone");
    let path = |name: &str| room.path(name);
    killed(&path("first"), &path("store"), "balance=0");
    for (clone, value) in [("one", "balance=100"), ("two", "balance=999")] {
        copy(&path("store"), &path(clone));
        killed(&path(clone), &path(&format!("{clone}-killed")), value);
    }
    let (one, two) = (path("one-killed"), path("two-killed"));
    assert_eq!(dump(&["check", &arg(&one)]).1, 0);
    let name = newest(&one);
    assert_eq!(name, newest(&two));
    fs::copy(two.join(&name), one.join(&name)).unwrap();
    let (text, code) = dump(&["check", &arg(&one)]);
    assert!(code == 1 && text.contains(&name) && text.contains("a clone"), "{text}");
    // Its records are not among the saved ones.
    let (text, code) = dump(&["salvage", &arg(&one), "--out", &arg(&path("saved"))]);
    assert!(code < 2 && text.contains(&name) && text.contains("a clone"), "{text}");
    assert_eq!(content(&path("saved"))[0].1, [(b"a".to_vec(), b"balance=0".to_vec())], "{text}");
    let (text, code) = dump(&["wal", &arg(&one)]);
    assert!(code == 1 && text.contains("a clone"), "{text}");
}

#[test]
fn a_table_of_another_store() {
    let room = Room::new("foreign");
    let table = |name: &str, value: &str| {
        let db = Db::open_with(room.path(name), options()).unwrap();
        let t = db.tree("t", tree_options()).unwrap();
        t.put(b"a", value.as_bytes()).unwrap();
        t.flush().unwrap();
        room.path(name).join(format!("{:08}.sst", t.tables().unwrap()[0].id))
    };
    let (one, two) = (table("one", "balance=111"), table("two", "balance=222"));
    assert_eq!(fs::metadata(&one).unwrap().len(), fs::metadata(&two).unwrap().len());
    assert_eq!(dump(&["check", &arg(&room.path("one"))]).1, 0);
    fs::copy(&two, &one).unwrap();
    let (text, code) = dump(&["check", &arg(&room.path("one"))]);
    assert!(code == 1 && text.contains("another store"), "{text}");
    let (text, _) = dump(&["props", &arg(&one)]);
    assert!(text.contains(" of store "), "{text}");
}

/// Creates a store of one table and a log, without a manifest. Its event log is `alter` applied to
/// that of another store that ran longer. Returns the report of the repair and the saved pairs.
fn saved_with_events(
    room: &Room,
    alter: impl FnOnce(String) -> String,
) -> (String, support::Pairs) {
    let make = |name: &str, rounds: usize| {
        let db = Db::open_with(room.path(name), options()).unwrap();
        let t = db.tree("t", tree_options()).unwrap();
        for i in 0..rounds {
            t.put(format!("key{i}").as_bytes(), b"some value").unwrap();
            if i == 0 || i + 1 < rounds {
                t.flush().unwrap();
            }
        }
        drop((t, db));
        room.path(name)
    };
    let (one, other) = (make("short", 2), make("long", 3));
    fs::remove_file(one.join("CURRENT")).unwrap();
    fs::remove_file(one.join("MANIFEST-000001")).unwrap();
    fs::write(
        one.join("EVENTS.jsonl"),
        alter(fs::read_to_string(other.join("EVENTS.jsonl")).unwrap()),
    )
    .unwrap();
    let (text, code) = dump(&["repair", &arg(&one), "--out", &arg(&room.path("new"))]);
    assert!(code < 2, "{text}");
    (text, content(&room.path("new")).remove(0).1)
}

#[test]
fn the_event_log_of_another_store_hides_nothing() {
    let (text, found) = saved_with_events(&Room::new("events"), |events| events);
    assert!(text.contains("is of another store, and left out"), "{text}");
    assert_eq!(found.len(), 2, "{text}");
}

/// Facts that may belong to another store do not enter the new store if the engine would refuse it
/// then.
#[test]
fn a_flushed_position_in_the_midst_of_a_record() {
    let alter = |events: String| {
        let of_no_store = |line: &str| {
            let mut v: serde_json::Value = serde_json::from_str(line).unwrap();
            v.as_object_mut().unwrap().remove("store");
            if let Some(flushed) = v.get_mut("flushed") {
                // The second of the short store's two records begins at 56.
                *flushed = 60.into();
            }
            format!("{v}\n")
        };
        events.lines().map(of_no_store).collect()
    };
    let (text, found) = saved_with_events(&Room::new("midst"), alter);

    assert_eq!(found.len(), 2, "{text}");
}

/// Creates a store of one table and one blob file with 40 long values.
fn apart(dir: &Path) -> PathBuf {
    let db = Db::open_with(dir, options()).unwrap();
    let t = db.tree("t", TreeOptions { blob_threshold: 64, ..tree_options() }).unwrap();
    for i in 0..40 {
        t.put(format!("key{i:02}"), [b'x'; 100]).unwrap();
    }
    t.flush().unwrap();
    let table = t.tables().unwrap()[0].id;
    dir.join(format!("{table:08}.sst"))
}

#[test]
fn a_manifest_whose_only_table_is_damaged_is_not_foreign() {
    let room = Room::new("only");
    for damage in ["footer", "removed"] {
        let dir = room.path(damage);
        let table = apart(&dir);
        let truth = content(&dir);
        match damage {
            "removed" => fs::remove_file(&table).unwrap(),
            _ => {
                let mut bytes = fs::read(&table).unwrap();
                let at = bytes.len() - 30;
                bytes[at] ^= 4;
                fs::write(&table, bytes).unwrap();
            }
        }
        let (text, code) = dump(&["check", &arg(&dir)]);
        assert!(code == 1 && !text.contains("another store"), "{damage}: {text}");
        for command in ["salvage", "repair"] {
            let out = room.path(&format!("{damage}-{command}"));
            let (text, code) = dump(&[command, &arg(&dir), "--out", &arg(&out)]);
            let is_known = !text.contains("an unknown number") && !text.contains("left out");
            assert!(code < 2 && is_known, "{damage}: {text}");
            assert_eq!(content(&out), truth, "the log has it all: {damage}: {text}");
            let (text, _) = dump(&["manifest", &arg(&out)]);
            assert!(
                text.contains("values of at least 64"),
                "{damage}: its options are not retained: {text}"
            );
        }
    }
}

#[test]
fn a_stray_file_of_another_store_makes_no_manifest_old() {
    let room = Room::new("stray");
    let other = room.path("other");
    let db = Db::open_with(&other, options()).unwrap();
    let t = db.tree("t", TreeOptions { blob_threshold: 64, ..tree_options() }).unwrap();
    for round in 0..9 {
        t.put(format!("foreign{round}"), [b'y'; 100]).unwrap();
        t.flush().unwrap();
    }
    drop((t, db));
    let dir = room.path("store");
    let table = apart(&dir);
    let truth = content(&dir);
    fs::remove_file(&table).unwrap();
    let (before, _) = dump(&["check", &arg(&dir)]);
    assert!(before.contains("40 entries"), "{before}");
    for file in fs::read_dir(&other).unwrap().map(|f| f.unwrap().path()) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        if name.ends_with(".sst") && !dir.join(&name).exists() && file != table {
            fs::copy(&file, dir.join(&name)).unwrap();
        }
    }
    let (text, code) = dump(&["check", &arg(&dir)]);
    assert!(code == 1 && text.contains("40 entries") && !text.contains("outdated"), "{text}");
    for command in ["salvage", "repair"] {
        let out = room.path(command);
        let (text, code) = dump(&[command, &arg(&dir), "--out", &arg(&out)]);
        assert!(code < 2 && !text.contains("taken"), "{text}");
        assert_eq!(content(&out), truth, "the log has it all: {text}");
    }
}
