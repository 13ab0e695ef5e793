//! The reports of `check`, `salvage` and `repair` are true: a store that is called sound opens, its
//! writer can use the saved data, and no advice destroys anything.
#![allow(clippy::disallowed_methods)] // files under test are damaged directly

use super::support;

use std::fs;
use std::path::{Path, PathBuf};

use firn_cql::Session;
use firn_kv::OsEnv;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::Manifest;
use firn_kv::{Db, DbOptions};
use serde_json::Value;
use support::{Room, arg, content, copy, dump, options, tree_options, wide_options};

fn files(dir: &Path, end: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect();
    all.retain(|p| {
        p.to_str().unwrap().ends_with(end)
            || p.file_name().unwrap().to_str().unwrap().starts_with(end)
    });
    all.sort();
    all
}

fn remove_manifests(dir: &Path) {
    files(dir, "MANIFEST")
        .iter()
        .chain(&files(dir, "CURRENT"))
        .for_each(|f| fs::remove_file(f).unwrap());
}

/// Returns the JSON output of a command, and its exit code.
fn json(args: &[&str]) -> (Value, i32) {
    let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let (text, code) = dump(&args);
    // An error that ends a command comes after the output.
    let end = text.find("\nerror: ").map_or(text.len(), |at| at + 1);
    (serde_json::from_str(&text[..end]).unwrap_or_else(|e| panic!("{e}: {text}")), code)
}

/// Returns the kinds of findings of `check`.
fn found(dir: &Path) -> Vec<String> {
    let (v, code) = json(&["check", &arg(dir)]);
    let all: Vec<String> = v["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["finding"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(code, i32::from(!all.is_empty()), "{v:#}");
    assert_eq!(v["sound"], all.is_empty());
    all
}

/// The manifest has each opening. A manifest without the last of them makes no sound store, but
/// nothing is lost.
#[test]
fn a_manifest_without_the_last_opening_is_reported_and_repaired() {
    let room = Room::new("openings");
    let (dir, new) = (room.path("s"), room.path("new"));
    for i in 0..4 {
        let db = Db::open_with(&dir, options()).unwrap();
        db.tree("a", tree_options()).unwrap().put(format!("key{i}"), "value").unwrap();
        db.close().unwrap();
    }
    let (text, code) = dump(&["manifest", &arg(&dir)]);
    assert!(code == 0 && text.matches("opened: log from segment ").count() == 3, "{text}");
    let before: Vec<_> =
        files(&dir, "MANIFEST").iter().map(|f| (f.clone(), fs::read(f).unwrap())).collect();
    assert_eq!(found(&dir), Vec::<String>::new());
    let after: Vec<_> =
        files(&dir, "MANIFEST").iter().map(|f| (f.clone(), fs::read(f).unwrap())).collect();
    assert_eq!((before.len(), &after), (1, &before));
    let truth = content(&dir);
    let (v, _) = json(&["manifest", &arg(&dir)]);
    let last = v["frames"].as_array().unwrap().last().unwrap();
    assert_eq!(last["edits"][0]["edit"], "log writers", "{last}");
    let end = last["offset"].as_u64().unwrap() as usize;
    fs::write(&before[0].0, &before[0].1[..end]).unwrap();
    assert!(!found(&dir).is_empty());
    let (text, code) = dump(&["repair", &arg(&dir), "--out", &arg(&new)]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(content(&new), truth, "{text}");
}

/// Creates trees whose log fills some segments: the second is flushed last.
fn two_trees(dir: &Path) {
    let db = Db::open_with(dir, options()).unwrap();
    let (a, b) = (db.tree("a", tree_options()).unwrap(), db.tree("b", tree_options()).unwrap());
    for i in 0..2000 {
        a.put(format!("key{i:05}").as_bytes(), &[b'x'; 100]).unwrap();
    }
    for i in 0..200 {
        b.put(format!("user{i:05}").as_bytes(), b"name").unwrap();
    }
    b.compact().unwrap();
    db.sync().unwrap();
}

#[test]
fn a_log_that_ends_below_what_was_flushed() {
    let room = Room::new("short-log");
    let (dir, bad) = (room.path("s"), room.path("bad"));
    two_trees(&dir);
    let segments = files(&dir, ".wal").len();
    assert!(segments > 3);
    for left in [0, 1, 2] {
        copy(&dir, &bad);
        files(&bad, ".wal").iter().skip(left).for_each(|w| fs::remove_file(w).unwrap());
        assert!(Db::open_with(&bad, DbOptions { create: false, ..options() }).is_err());
        assert!(!found(&bad).is_empty(), "{left} segments");
        for (i, how) in [&["salvage"][..], &["repair"], &["repair", "--without-manifest"]]
            .into_iter()
            .enumerate()
        {
            let (new, again) =
                (room.path(&format!("new{left}{i}")), room.path(&format!("again{left}{i}")));
            let args: Vec<String> = how
                .iter()
                .map(|s| (*s).to_owned())
                .chain([arg(&bad), "--out".into(), arg(&new)])
                .collect();
            let (v, code) = json(&args.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(
                code,
                i32::from(
                    i < 2
                        || !v["losses"].as_array().unwrap().is_empty()
                        || v["unknown"].to_string().contains("the log went on")
                ),
                "{v:#}"
            );
            assert_eq!(v["sound"], true);
            if i < 2 {
                let log: Vec<_> =
                    v["losses"].as_array().unwrap().iter().filter(|l| l["what"] == "log").collect();
                assert!(!log.is_empty(), "{v:#}");
                // An upper bound of the lost operations, unless the whole log is gone.
                let reported: Option<u64> = log.iter().map(|l| l["entries"].as_u64()).sum();
                let lost = 2000 - v["log_records"].as_u64().unwrap();
                assert!(
                    left == 0 || reported.is_some_and(|n| n >= lost && n <= lost + 200),
                    "{lost} {v:#}"
                );
            }
            let (v, code) = json(&["salvage", &arg(&new), "--out", &arg(&again)]);
            assert_eq!(code, 0, "{left} {how:?} {v:#}");
            let trees = content(&new);
            let b = trees.iter().find(|t| t.0 == "b").unwrap();
            assert_eq!(b.1.len(), 200, "{v:#}");
            // It accepts writes.
            let db = Db::open_with(&new, options()).unwrap();
            let tree = db.existing_tree("b").unwrap();
            tree.put(b"more", b"of it").unwrap();
            drop((tree, db));
            assert_eq!(content(&new).iter().find(|t| t.0 == "b").unwrap().1.len(), 201);
        }
    }
}

#[test]
fn an_older_manifest_over_newer_tables() {
    let room = Room::new("older");
    let (dir, old, bad) = (room.path("s"), room.path("old"), room.path("bad"));
    let fill = |tree: &str, from: u32| {
        let db = Db::open_with(&dir, options()).unwrap();
        let t = db.tree(tree, tree_options()).unwrap();
        (from..from + 1500)
            .for_each(|i| t.put(format!("key{i:05}").as_bytes(), &[b'v'; 100]).unwrap());
        t.flush().unwrap();
    };
    fill("one", 0);
    copy(&dir, &old);
    fill("one", 1000);
    fill("two", 0);
    let truth = content(&dir);
    for events in [true, false] {
        copy(&dir, &bad);
        remove_manifests(&bad);
        files(&old, "MANIFEST").iter().chain(&files(&old, "CURRENT")).for_each(|f| {
            fs::copy(f, bad.join(f.file_name().unwrap())).unwrap();
        });
        if !events {
            fs::remove_file(bad.join("EVENTS.jsonl")).unwrap();
        }
        assert!(found(&bad).contains(&"outdated".into()), "{events}");
        let (text, code) = dump(&["salvage", &arg(&bad), "--out", &arg(&room.path("no"))]);
        assert!(code == 2 && text.contains("repair"), "{text}");
        let new = room.path(&format!("new{events}"));
        let (text, code) = dump(&["repair", &arg(&bad), "--out", &arg(&new)]);
        assert_eq!(code, 0, "{text}");
        assert_eq!(content(&new), truth, "{text}");
    }
}

/// The output of a flush that a crash interrupted before the manifest update is no proof of an
/// older manifest.
#[test]
fn a_table_of_an_unfinished_flush() {
    let room = Room::new("unfinished-flush");
    let (dir, before) = (room.path("s"), room.path("before"));
    let db = Db::open_with(&dir, options()).unwrap();
    let t = db.tree("t", tree_options()).unwrap();
    (0..100).for_each(|i| t.put(format!("key{i:03}").as_bytes(), b"value").unwrap());
    copy(&dir, &before);
    t.flush().unwrap();
    let table = files(&dir, ".sst").remove(0);
    fs::copy(&table, before.join(table.file_name().unwrap())).unwrap();
    assert_eq!(found(&before), [""; 0]);
}

#[test]
fn any_permutation_of_names_is_put_right() {
    let room = Room::new("a store's [tables] (1)");
    let (dir, bad) = (room.path("s"), room.path("bad one"));
    let db = Db::open_with(&dir, options()).unwrap();
    for tree in ["a", "b", "c"] {
        let t = db.tree(tree, tree_options()).unwrap();
        (0..50).for_each(|i| t.put(format!("{tree}{i:03}").as_bytes(), b"value").unwrap());
        t.flush().unwrap();
    }
    drop(db);
    let truth = content(&dir);
    let tables = files(&dir, ".sst");
    let name = |i: usize| tables[i].file_name().unwrap();
    for order in [[1, 2, 0], [2, 0, 1], [1, 0, 2], [0, 2, 1]] {
        copy(&dir, &bad);
        (0..3).for_each(|i| assert!(fs::copy(&tables[i], bad.join(name(order[i]))).is_ok()));
        let (text, code) = dump(&["check", &arg(&bad)]);
        assert_eq!(code, 1);
        assert!(!text.contains("mv ") && !text.contains("cp "), "{text}");
        let quoted = firn_tools::shell::path(&bad);
        assert!(
            quoted.starts_with('\'')
                && text.contains(&format!("sstable-dump repair {quoted} --rename")),
            "{text}"
        );
        let (text, code) = dump(&["repair", &arg(&bad), "--rename"]);
        assert_eq!(code, 0, "{text}");
        assert_eq!(
            files(&bad, ".sst").iter().map(|f| fs::read(f).unwrap()).collect::<Vec<_>>(),
            tables.iter().map(|f| fs::read(f).unwrap()).collect::<Vec<_>>()
        );
        assert_eq!(found(&bad), [""; 0]);
        assert_eq!(content(&bad), truth);
    }
    // Without a manifest nothing shows the owner of a name: the advice is another one, and works.
    fs::remove_file(bad.join("CURRENT")).unwrap();
    fs::rename(bad.join(name(1)), bad.join("00000077.sst")).unwrap();
    assert_eq!(dump(&["repair", &arg(&bad), "--rename"]).1, 2);
    let (text, _) = dump(&["check", &arg(&bad)]);
    let advice = format!("`sstable-dump repair {} --out NEW`", firn_tools::shell::path(&bad));
    assert!(text.contains("misnamed: ") && text.contains(&advice), "{text}");
    assert!(!text.contains("--rename`"), "{text}");
    let new = room.path("new");
    assert!(dump(&["repair", &arg(&bad), "--out", &arg(&new)]).1 < 2);
    assert_eq!(content(&new), truth);
    // An interrupted run: one file is under a temporary name, and another is damaged, with a copy
    // of it elsewhere.
    copy(&dir, &bad);
    fs::rename(bad.join(name(0)), bad.join(format!("{}.found", name(0).to_str().unwrap())))
        .unwrap();
    fs::write(bad.join(name(1)), b"what somebody wrote here").unwrap();
    fs::create_dir(bad.join("lost+found")).unwrap();
    fs::copy(&tables[1], bad.join("lost+found/#1234")).unwrap();
    let (text, code) = dump(&["repair", &arg(&bad), "--rename"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(content(&bad), truth);
    assert_eq!(
        fs::read(bad.join(format!("{}.aside", name(1).to_str().unwrap()))).unwrap(),
        b"what somebody wrote here"
    );
    assert!(bad.join("lost+found/#1234").exists());
    let db = Db::open_with(&bad, options()).unwrap();
    let (text, code) = dump(&["repair", &arg(&bad), "--rename"]);
    assert!(code == 2 && text.contains("end the program"), "{text}");
    drop(db);
}

const ROWS: usize = 300;

/// Returns a table of the first tree whose name begins so.
fn table_of(dir: &Path, tree: &str) -> PathBuf {
    let (state, _) = Manifest::load(&*OsEnv::new(), dir).unwrap().unwrap();
    let tree = state.trees.values().find(|t| t.name.starts_with(tree)).unwrap();
    table_path(dir, tree.tables().next().unwrap().id)
}

/// Creates a CQL store with an index and counters.
fn cql_store(dir: &Path, flush: bool) {
    let s = Session::open_with(dir, wide_options()).unwrap();
    let run = |cql: &str| drop(s.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}")));
    run(
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run("CREATE TABLE shop.items (id int PRIMARY KEY, name text, price int)");
    run("CREATE INDEX items_name ON shop.items (name)");
    run("CREATE TABLE shop.hits (page text PRIMARY KEY, n counter)");
    for i in 0..ROWS {
        run(&format!("INSERT INTO shop.items (id, name, price) VALUES ({i}, 'n{}', {i})", i % 10));
    }
    for _ in 0..5 {
        run("UPDATE shop.hits SET n = n + 2 WHERE page = 'home'");
    }
    run("DELETE FROM shop.items WHERE id = 0");
    let db = s.engine().store().db().clone();
    if flush {
        for name in db.tree_names() {
            db.existing_tree(&name).unwrap().flush().unwrap();
        }
    }
}

fn count(s: &Session, cql: &str) -> i64 {
    s.execute(cql, ())
        .unwrap_or_else(|e| panic!("{cql}: {e}"))
        .row(0)
        .unwrap()
        .at::<i64>(0)
        .unwrap()
}

fn check_cql_store(dir: &Path) {
    let s = Session::open_with(dir, wide_options()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(count(&s, "SELECT count(*) FROM shop.items"), ROWS as i64 - 1);
    assert_eq!(count(&s, "SELECT count(*) FROM shop.items WHERE name = 'n7'"), ROWS as i64 / 10);
    s.execute("UPDATE shop.hits SET n = n + 1 WHERE page = 'home'", ()).unwrap();
    assert_eq!(count(&s, "SELECT n FROM shop.hits WHERE page = 'home'"), 11);
    s.execute("INSERT INTO shop.items (id, name) VALUES (100000, 'new')", ()).unwrap();
    let db = s.engine().store().db().clone();
    for name in db.tree_names() {
        db.existing_tree(&name).unwrap().compact().unwrap();
    }
    assert_eq!(count(&s, "SELECT n FROM shop.hits WHERE page = 'home'"), 11);
    assert_eq!(count(&s, "SELECT count(*) FROM shop.items WHERE name = 'new'"), 1);
}

#[test]
fn a_store_of_tables_without_its_manifest_is_usable() {
    let room = Room::new("cql-repair");
    for flush in [false, true] {
        let (dir, new) = (room.path(&format!("s{flush}")), room.path(&format!("new{flush}")));
        cql_store(&dir, flush);
        remove_manifests(&dir);
        let (v, code) = json(&["repair", &arg(&dir), "--out", &arg(&new)]);
        assert_eq!((code, &v["sound"]), (0, &true.into()), "{v:#}");
        check_cql_store(&new);
    }
}

/// The tables of an index, of the definitions or of a table are lost, or a part of the log.
#[test]
fn lost_index_entries_are_rebuilt() {
    let room = Room::new("cql-index");
    let (dir, bad) = (room.path("s"), room.path("bad"));
    cql_store(&dir, true);
    assert_eq!(found(&dir), [""; 0]);
    let table = table_of(&dir, "ix-");
    copy(&dir, &bad);
    fs::remove_file(bad.join(table.file_name().unwrap())).unwrap();
    let (v, code) = json(&["check", &arg(&bad)]);
    assert_eq!(code, 1);
    assert_eq!(
        (
            &v["errors"][0]["finding"],
            &v["errors"][0]["keyspace"],
            &v["errors"][0]["table"],
            &v["errors"][0]["index"]
        ),
        (&"missing".into(), &"shop".into(), &"items".into(), &"items_name".into()),
        "{v:#}"
    );
    let new = room.path("new");
    let (v, code) = json(&["salvage", &arg(&bad), "--out", &arg(&new)]);
    assert_eq!((code, &v["sound"]), (1, &true.into()), "{v:#}");
    assert_eq!(v["indexes_to_rebuild"][0], "index items_name of table shop.items", "{v:#}");
    check_cql_store(&new);
}

#[test]
fn missing_and_cut_segments_are_named() {
    let room = Room::new("segments");
    let (dir, bad) = (room.path("s"), room.path("bad"));
    let db = Db::open_with(&dir, options()).unwrap();
    let t = db.tree("t", tree_options()).unwrap();
    (0..2000).for_each(|i| t.put(format!("key{i:05}").as_bytes(), &[b'x'; 100]).unwrap());
    db.sync().unwrap();
    drop((t, db));
    let segments = files(&dir, ".wal");
    assert!(segments.len() > 4, "{segments:?}");
    for gone in [0, 1, 2] {
        copy(&dir, &bad);
        let name = segments[gone].file_name().unwrap();
        fs::remove_file(bad.join(name)).unwrap();
        let (v, _) = json(&["check", &arg(&bad)]);
        assert_eq!(v["errors"].as_array().unwrap().len(), 1, "{v:#}");
        assert_eq!(v["errors"][0]["finding"], "missing", "{gone}: {v:#}");
        assert_eq!(v["errors"][0]["file"], arg(&bad.join(name)), "{v:#}");
    }
    copy(&dir, &bad);
    let name = segments[1].file_name().unwrap();
    fs::copy(&segments[0], bad.join(name)).unwrap();
    let (text, _) = dump(&["check", &arg(&bad)]);
    assert!(
        text.contains("the segment is missing (the file of this name holds log segment 1)"),
        "{text}"
    );
    // Only the length of the last segment with records shows its truncation.
    copy(&dir, &bad);
    let last = segments[..segments.len() - 1].last().unwrap();
    fs::write(bad.join(last.file_name().unwrap()), &fs::read(last).unwrap()[..3000]).unwrap();
    let (text, code) = dump(&["check", &arg(&bad)]);
    assert!(code == 1 && text.contains("the file has been cut off"), "{text}");
    let (text, code) = dump(&["salvage", &arg(&bad), "--out", &arg(&room.path("new"))]);
    assert!(code == 1 && text.contains("lost:"), "{text}");
}

#[test]
fn records_behind_a_flipped_bit_are_counted() {
    let room = Room::new("given-up");
    let (dir, new) = (room.path("s"), room.path("new"));
    let db = Db::open_with(&dir, options()).unwrap();
    let t = db.tree("t", tree_options()).unwrap();
    (0..30).for_each(|i| t.put(format!("key{i:02}").as_bytes(), b"value").unwrap());
    // As a killed process leaves it: nothing shows that it was synced.
    copy(&dir, &room.path("killed"));
    drop((t, db));
    let dir = room.path("killed");
    let log = files(&dir, ".wal").remove(0);
    let (text, _) = dump(&["wal", &arg(&log), "--json"]);
    let records: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .filter(|v: &Value| v["mark"] == false)
        .collect();
    let mut bytes = fs::read(&log).unwrap();
    bytes[records[6]["offset"].as_u64().unwrap() as usize + 34] ^= 4;
    fs::write(&log, bytes).unwrap();
    let (v, code) = json(&["check", &arg(&dir)]);
    assert_eq!((code, &v["errors"][0]["finding"]), (1, &"discarded".into()), "{v:#}");
    let words = v["errors"][0]["message"].as_str().unwrap();
    assert!(
        words.contains("23 sound records after it")
            && words.contains("saves 23 of them with 23 operations"),
        "{words}"
    );
    let (text, code) = dump(&["salvage", &arg(&dir), "--out", &arg(&new)]);
    assert!(code == 1 && text.contains("lost: 1 operation of the log"), "{text}");
    assert_eq!(content(&new)[0].1.len(), 29);
}

#[test]
fn sound_states_are_not_called_damaged() {
    let room = Room::new("kinds");
    let (dir, bad) = (room.path("s"), room.path("bad"));
    cql_store(&dir, true);
    let table = table_of(&dir, "cf-");
    let name = table.file_name().unwrap();
    // A stray copy.
    copy(&dir, &bad);
    fs::copy(&table, bad.join("99999999.sst")).unwrap();
    let (text, code) = dump(&["check", &arg(&bad)]);
    assert!(code == 0 && text.contains("a stray copy of table"), "{text}");
    // A directory with a table's name, a newer version, a file without read permission.
    copy(&dir, &bad);
    fs::remove_file(bad.join(name)).unwrap();
    fs::create_dir(bad.join(name)).unwrap();
    let (text, _) = dump(&["check", &arg(&bad)]);
    assert!(
        text.contains("missing:")
            && text.contains("a directory of its name")
            && text.contains("table shop.items"),
        "{text}"
    );
    assert!(!text.contains("damaged"), "{text}");
    for current in ["CURRENT", "EVENTS.jsonl"] {
        copy(&dir, &bad);
        fs::remove_file(bad.join(current)).unwrap();
        fs::create_dir(bad.join(current)).unwrap();
        let new = room.path(&format!("new-{current}"));
        let (text, code) = dump(&["repair", &arg(&bad), "--out", &arg(&new)]);
        assert_eq!(code, 0, "{text}");
        check_cql_store(&new);
    }
    // Keys in the table's own types.
    copy(&dir, &bad);
    let mut bytes = fs::read(&table).unwrap();
    bytes[100] ^= 1;
    fs::write(bad.join(name), bytes).unwrap();
    let (v, _) = json(&["check", &arg(&bad)]);
    let e = &v["errors"][0];
    assert_eq!((&e["keyspace"], &e["table"]), (&"shop".into(), &"items".into()), "{v:#}");
    let (v, _) = json(&["salvage", &arg(&bad), "--out", &arg(&room.path("typed"))]);
    assert_eq!(v["losses"][0]["table"], "items", "{v:#}");
    assert!(v.to_string().contains("id = "), "{v:#}");
}

#[test]
fn a_manifest_of_another_store_is_no_source() {
    let room = Room::new("foreign-manifest");
    let (dir, other, new) = (room.path("s"), room.path("other"), room.path("new"));
    for (dir, prefix) in [(&dir, "mine"), (&other, "theirs")] {
        let db = Db::open_with(dir, options()).unwrap();
        for tree in ["one", "two"] {
            let t = db.tree(&format!("{prefix}-{tree}"), tree_options()).unwrap();
            (0..if prefix == "mine" { 60 } else { 90 })
                .for_each(|i| t.put(format!("{prefix}{i:03}").as_bytes(), b"value").unwrap());
            t.flush().unwrap();
        }
    }
    let truth = content(&dir);
    content(&other);
    // Two stores in one directory, distinguished by their manifests.
    let bad = room.path("both");
    copy(&dir, &bad);
    let named = files(&other, "MANIFEST").remove(0);
    let own = files(&bad, "MANIFEST").remove(0);
    fs::remove_file(own).unwrap();
    fs::copy(&named, bad.join(named.file_name().unwrap())).unwrap();
    fs::copy(other.join("CURRENT"), bad.join("CURRENT")).unwrap();
    assert!(found(&bad).contains(&"foreign".into()), "{}", dump(&["check", &arg(&bad)]).0);
    let (text, code) = dump(&["repair", &arg(&bad), "--out", &arg(&new)]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("of another store"), "{text}");
    assert_eq!(content(&new), truth, "{text}");
    let (text, code) = dump(&[
        "repair",
        &arg(&bad),
        "--out",
        &arg(&room.path("no")),
        "--manifest",
        "MANIFEST-000099",
    ]);
    assert!(code == 2 && text.contains("there are: MANIFEST-"), "{text}");
}

#[test]
fn salvage_takes_more_than_one_place() {
    let room = Room::new("places");
    let (dir, elsewhere, new) = (room.path("s"), room.path("elsewhere"), room.path("new"));
    let db = Db::open_with(&dir, options()).unwrap();
    for tree in ["a", "b"] {
        let t = db.tree(tree, tree_options()).unwrap();
        (0..60).for_each(|i| t.put(format!("{tree}{i:03}").as_bytes(), b"value").unwrap());
        t.flush().unwrap();
    }
    drop(db);
    let truth = content(&dir);
    let tables = files(&dir, ".sst");
    fs::create_dir_all(dir.join("tables")).unwrap();
    fs::create_dir_all(&elsewhere).unwrap();
    fs::rename(&tables[0], dir.join("tables").join(tables[0].file_name().unwrap())).unwrap();
    fs::rename(&tables[1], elsewhere.join("#4711")).unwrap();
    let (text, code) = dump(&["salvage", &arg(&dir), &arg(&elsewhere), "--out", &arg(&new)]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(content(&new), truth);
    let (text, code) =
        dump(&["salvage", &arg(&tables[0]), &arg(&elsewhere), "--out", &arg(&room.path("x"))]);
    assert_eq!(code, 2, "{text}");
}

#[test]
fn find_takes_a_tree_by_the_table_that_is_in_it() {
    let room = Room::new("find-table");
    let dir = room.path("s");
    cql_store(&dir, true);
    let find = |tree: &str| dump(&["find", &arg(&dir), "--hex", "00", "--tree", tree]);
    let (text, code) = find("shop.nothing");
    assert_eq!(code, 2, "{text}");
    for path in ["items", "hits", "items_name"] {
        let (_, rest) = text.split_once(" it has ").unwrap();
        let words = if path == "items_name" {
            "(index items_name of ".into()
        } else {
            format!("(table shop.{path})")
        };
        let tree =
            rest.split(", ").find(|t| t.contains(&words)).unwrap().split(' ').next().unwrap();
        let (named, code) = find(&format!("shop.{path}"));
        assert_eq!((named, code), find(tree));
        assert_eq!(code, 1);
    }
}
