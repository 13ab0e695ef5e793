//! Lost records of the tree `system.schema` that others need: those of the partitioner and of
//! keyspaces, and the head records. Surviving data shows their content, so tables with their own
//! definitions retain their rows.
#![allow(clippy::disallowed_methods)] // files under test are damaged directly

use super::support;

use std::fs;
use std::path::{Path, PathBuf};

use firn_cql::Session;
use firn_kv::OsEnv;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::Manifest;
use firn_kv::{Db, DbOptions};
use firn_wide::internals::store::copies::copy_key;
use firn_wide::{CfDef, ColumnParent, CounterColumn, KsDef, Options, Wide};
use support::{Room, arg, copy, dump, options, wide_options};

const PARTITIONERS: [&str; 4] = [
    "Murmur3Partitioner",
    "RandomPartitioner",
    "ByteOrderedPartitioner",
    "OrderPreservingPartitioner",
];
const TABLES: [&str; 5] =
    ["s.t00", "s.t01", "s.hits", "\"Music\".\"Songs\"", "\"Music\".\"Likes\""];
const PARTITIONER: &[u8] = b"wide/partitioner";
const KEYSPACES: [&[u8]; 2] = [b"schema/keyspace/s", b"schema/keyspace/Music"];

fn flush(db: &Db, tree: &str) {
    db.existing_tree(tree).unwrap().flush().unwrap();
}

/// Creates a store with tables and families. One table of its definitions has only the partitioner,
/// another the keyspaces, and the log has the others.
fn store(dir: &Path, partitioner: &str) {
    let options = Options { partitioner: Some(partitioner.into()), ..wide_options() };
    let s = Session::open_with(dir, options).unwrap();
    let run = |cql: &str| drop(s.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}")));
    let db = s.engine().store().db().clone();
    flush(&db, "system.schema");
    run(
        "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
    );
    let wide = s.engine().wide();
    wide.system_add_keyspace(&KsDef::new("Music")).unwrap();
    flush(&db, "system.schema");
    run("CREATE TABLE s.t00 (k text PRIMARY KEY, v int)");
    run("CREATE TABLE s.t01 (k text, c int, v text, PRIMARY KEY (k, c))");
    run("CREATE INDEX t01_v ON s.t01 (v)");
    run("CREATE TABLE s.hits (page text PRIMARY KEY, n counter)");
    let family = |name: &str, of: &str| CfDef {
        comparator_type: "UTF8Type".into(),
        key_validation_class: "UTF8Type".into(),
        default_validation_class: of.into(),
        ..CfDef::new("Music", name)
    };
    wide.system_add_column_family(&family("Songs", "UTF8Type")).unwrap();
    wide.system_add_column_family(&family("Likes", "CounterColumnType")).unwrap();
    let music = wide.keyspace("Music").unwrap();
    for i in 0..40 {
        run(&format!("INSERT INTO s.t00 (k, v) VALUES ('k{i}', {i})"));
        run(&format!("INSERT INTO s.t01 (k, c, v) VALUES ('k{}', {i}, 'v{}')", i % 7, i % 3));
        run(&format!("UPDATE s.hits SET n = n + {i} WHERE page = 'p{}'", i % 5));
        let row = format!("r{}", i % 6);
        music.family("Songs").unwrap().row(&row).insert(format!("part {i}"), "text").unwrap();
        music
            .add(row.as_bytes(), &ColumnParent::new("Likes"), &CounterColumn::new("likes", 2))
            .unwrap();
        if i == 30 {
            let data = db.tree_names().into_iter().filter(|name| name != "system.schema");
            data.for_each(|name| flush(&db, &name));
        }
    }
    db.sync().unwrap();
}

/// Returns all rows as a session reads them.
fn rows(s: &Session) -> Vec<String> {
    let mut all = vec![];
    for table in TABLES {
        let found = s.execute(&format!("SELECT JSON * FROM {table}"), ());
        let found = found.unwrap_or_else(|e| panic!("{table}: {e}"));
        all.extend(
            (0..)
                .map_while(|i| found.row(i))
                .map(|row| format!("{table} {}", row.at::<String>(0).unwrap())),
        );
    }
    let found = s.execute("SELECT count(*) FROM s.t01 WHERE v = 'v1'", ()).unwrap();
    all.push(format!("by index: {}", found.row(0).unwrap().at::<i64>(0).unwrap()));
    all
}

fn truth(dir: &Path) -> Vec<String> {
    let all = rows(&Session::open_with(dir, wide_options()).unwrap());
    assert_eq!(all.len(), 40 + 40 + 5 + 40 + 6 + 1);
    all
}

/// Flips a bit in the definitions table with this number, in their order.
fn flip(dir: &Path, number: usize) {
    let (state, _) = Manifest::load(&*OsEnv::new(), dir).unwrap().unwrap();
    let schema = state.trees.values().find(|t| t.name == "system.schema").unwrap();
    let mut tables: Vec<u64> = schema.tables().map(|t| t.id).collect();
    tables.sort_unstable();
    assert_eq!(tables.len(), 2);
    let path = table_path(dir, tables[number]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[70] ^= 4;
    fs::write(path, bytes).unwrap();
}

fn delete(dir: &Path, records: &[&[u8]]) {
    let db = Db::open_with(dir, DbOptions { create: false, ..options() }).unwrap();
    let schema = db.existing_tree("system.schema").unwrap();
    for key in records {
        assert!(schema.contains(key).unwrap(), "{}", key.escape_ascii());
        schema.delete(key).unwrap();
        schema.delete(copy_key(key)).unwrap();
    }
}

/// Removes all files with names of trees.
fn forget(dir: &Path) {
    let all = fs::read_dir(dir).unwrap().map(|f| f.unwrap().path());
    let telling = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("MANIFEST") || name.starts_with("EVENTS") || name == "CURRENT"
    };
    all.filter(telling).for_each(|path| fs::remove_file(path).unwrap());
}

const WAYS: [&[&str]; 3] = [&["salvage"], &["repair"], &["repair", "--without-manifest"]];

/// Saves the store in each of these ways and compares the rows that a session reads then. `lost`
/// are the lost records. A sound new store does not mention them.
fn compare(bad: &Path, new: &Path, ways: &[&[&str]], lost: &[&[u8]], of: (&str, &[String])) {
    let (partitioner, truth) = of;
    for how in ways {
        fs::remove_dir_all(new).ok();
        let (from, to) = (arg(bad), arg(new));
        let args = [how, &[&*from, "--out", &*to][..]].concat();
        let (text, code) = dump(&args);
        assert!(code < 2, "{how:?}: {text}");
        // The log may still have the data of a lost table, and definitions have copies.
        let has_copies = ["are read again", "store has each definition twice"];
        let lost = if has_copies.iter().any(|w| text.contains(w)) { &[][..] } else { lost };
        for key in lost {
            let words = format!("the record {} was lost", key.escape_ascii());
            assert!(text.contains(&words), "{how:?}: {words}: {text}");
        }
        assert!(!text.contains("its definition is lost"), "{how:?}: {text}");
        let (checked, code) = dump(&["check", &arg(new)]);
        assert_eq!(code, 0, "{how:?}: {checked}");
        let s = Session::open_with(new, wide_options())
            .unwrap_or_else(|e| panic!("{how:?}: {e}\n{text}"));
        assert_eq!(rows(&s), truth, "{how:?}: {partitioner}: {text}");
        // Nothing distinguishes these two if all keys are texts.
        let has = s.engine().partitioner().name();
        let taken = partitioner.replace("OrderPreserving", "ByteOrdered");
        assert!(
            has == partitioner || (lost.contains(&PARTITIONER) && has == taken),
            "{has}: {text}"
        );
        let is_open = text.contains("whether the partitioner was ByteOrderedPartitioner or Order");
        assert_eq!(is_open, taken == PARTITIONERS[2] && lost.contains(&PARTITIONER), "{text}");
        // It accepts definitions and writes, and has them when it is opened again.
        for cql in [
            "CREATE TABLE s.more (k text PRIMARY KEY, v int)",
            "INSERT INTO s.more (k, v) VALUES ('more', 1)",
            "INSERT INTO s.t00 (k, v) VALUES ('more', 1)",
        ] {
            s.execute(cql, ()).unwrap_or_else(|e| panic!("{how:?}: {cql}: {e}\n{text}"));
        }
        drop(s);
        assert_eq!(rows(&Session::open_with(new, wide_options()).unwrap()).len(), truth.len() + 1);
    }
}

#[test]
fn a_flipped_bit_in_definitions_costs_no_table_whose_own_is_there() {
    let room = Room::new("flipped");
    let (dir, bad, new) = (room.path("s"), room.path("bad"), room.path("new"));
    for partitioner in PARTITIONERS {
        fs::remove_dir_all(&dir).ok();
        store(&dir, partitioner);
        let truth = truth(&dir);
        let with_partitioner = [&[PARTITIONER][..], &KEYSPACES].concat();
        for (tables, lost) in
            [(&[0][..], &[PARTITIONER][..]), (&[1], &KEYSPACES), (&[0, 1], &with_partitioner)]
        {
            copy(&dir, &bad);
            tables.iter().for_each(|t| flip(&bad, *t));
            let (text, code) = dump(&["check", &arg(&bad)]);
            assert!(code == 1 && !text.contains("undefined"), "{text}");
            compare(&bad, &new, &WAYS, lost, (partitioner, &truth));
        }
    }
}

#[test]
fn lost_records_are_reported_and_restored() {
    let room = Room::new("gone");
    let (dir, bad, new) = (room.path("s"), room.path("bad"), room.path("new"));
    for partitioner in PARTITIONERS {
        fs::remove_dir_all(&dir).ok();
        store(&dir, partitioner);
        let truth = truth(&dir);
        let heads: [&[u8]; 2] = [b"schema/head", b"cql/head"];
        let all = [&[PARTITIONER][..], &KEYSPACES, &heads].concat();
        for lost in [&[PARTITIONER][..], &KEYSPACES, &heads[..1], &heads[1..], &all] {
            copy(&dir, &bad);
            delete(&bad, lost);
            // No session takes it for a store of another kind.
            let opened = Session::open_with(&bad, wide_options());
            assert!(opened.is_err(), "{lost:?}");
            let (text, code) = dump(&["check", &arg(&bad)]);
            assert!(code == 1 && !text.contains("undefined"), "{text}");
            for key in lost {
                let words = format!("the record {} is missing", key.escape_ascii());
                assert!(text.contains(&words), "{words}: {text}");
            }
            compare(&bad, &new, &WAYS, lost, (partitioner, &truth));
        }
        // Trees are also recognised by their content if nothing has their names.
        copy(&dir, &bad);
        delete(&bad, &[PARTITIONER, KEYSPACES[0]]);
        forget(&bad);
        compare(&bad, &new, &WAYS[1..2], &[PARTITIONER, KEYSPACES[0]], (partitioner, &truth));
    }
}

#[test]
fn a_binary_key_shows_the_order_preserving_partitioner() {
    let room = Room::new("bytes");
    let (dir, new) = (room.path("s"), room.path("new"));
    let partitioner = || Some(PARTITIONERS[2].into());
    let wide = Wide::open_with(&dir, Options { partitioner: partitioner(), ..wide_options() });
    let wide = wide.unwrap();
    wide.system_add_keyspace(&KsDef::new("k")).unwrap();
    wide.system_add_column_family(&CfDef::new("k", "f")).unwrap();
    wide.keyspace("k").unwrap().family("f").unwrap().row([0xff, 0xfe]).insert("c", "v").unwrap();
    drop(wide);
    delete(&dir, &[PARTITIONER]);
    let (text, code) = dump(&["salvage", &arg(&dir), "--out", &arg(&new)]);
    assert!(code == 0 && !text.contains("not known"), "{text}");
    let wide = Wide::open_with(&new, wide_options()).unwrap();
    assert_eq!(wide.partitioner().name(), PARTITIONERS[2], "{text}");
}

#[test]
fn facts_without_evidence_are_not_guessed() {
    let room = Room::new("untold");
    let (dir, new) = (room.path("s"), room.path("new"));
    let of =
        |partitioner: &str| Options { partitioner: Some(partitioner.into()), ..wide_options() };
    let wide = Wide::open_with(&dir, of(PARTITIONERS[1])).unwrap();
    wide.system_add_keyspace(&KsDef::new("k")).unwrap();
    wide.system_add_column_family(&CfDef::new("k", "f")).unwrap();
    wide.system_drop_column_family("k", "f").unwrap();
    drop(wide);
    delete(&dir, &[PARTITIONER]);
    let (text, code) = dump(&["check", &arg(&dir)]);
    assert!(text.contains("not known: the partitioner of the store"), "{code} {text}");
    let (text, code) = dump(&["salvage", &arg(&dir), "--out", &arg(&new)]);
    assert!(code == 1 && text.contains("the partitioner of the store"), "{text}");
    let refused = Wide::open_with(&new, wide_options()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("wide/partitioner: it is missing"), "{refused}");
    let wide = Wide::open_with(&new, of(PARTITIONERS[1])).unwrap();
    assert_eq!(wide.partitioner().name(), PARTITIONERS[1]);
}

/// Each definition is stored twice, in two blocks. Damage to one block of one table costs no
/// definition, even if no log is left that had it.
#[test]
fn a_flipped_bit_in_definitions_loses_none() {
    let room = Room::new("copies");
    let (dir, bad, new) = (room.path("s"), room.path("bad"), room.path("new"));
    let s = Session::open_with(&dir, wide_options()).unwrap();
    let run = |cql: &str| drop(s.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}")));
    run(
        "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    for i in 0..12 {
        run(&format!("CREATE TABLE s.t{i} (k int PRIMARY KEY, v text)"));
        run(&format!("INSERT INTO s.t{i} (k, v) VALUES (1, 'of {i}')"));
    }
    run("CREATE INDEX by_v ON s.t0 (v)");
    let db = s.engine().store().db().clone();
    let flush_all = || db.tree_names().iter().for_each(|name| flush(&db, name));
    flush_all();
    // The segments with the definitions are removed.
    for i in 0..4000 {
        run(&format!("INSERT INTO s.t1 (k, v) VALUES ({i}, '{}')", "x".repeat(60)));
    }
    flush_all();
    db.existing_tree("system.schema").unwrap().compact().unwrap();
    drop((s, db));
    let (state, _) = Manifest::load(&*OsEnv::new(), &dir).unwrap().unwrap();
    let schema = state.trees.values().find(|t| t.name == "system.schema").unwrap();
    let tables: Vec<u64> = schema.tables().map(|t| t.id).collect();
    assert_eq!(tables.len(), 1, "{schema:?}");
    let whole = fs::read(table_path(&dir, tables[0])).unwrap();
    let mut restored = 0;
    for at in (11..whole.len()).step_by(whole.len() / 25) {
        copy(&dir, &bad);
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(table_path(&bad, tables[0]), bytes).unwrap();
        fs::remove_dir_all(&new).ok();
        let (text, code) = dump(&["salvage", &arg(&bad), "--out", &arg(&new)]);
        assert!(code < 2 && !text.contains("definition is lost"), "offset {at}: {text}");
        restored += usize::from(text.contains("restored from"));
        assert!(!text.contains("are read again"), "the log has them: {text}");
        let s = Session::open_with(&new, wide_options()).unwrap_or_else(|e| panic!("{e}: {text}"));
        for i in [0, 2, 5, 11] {
            let found = s.execute(&format!("SELECT v FROM s.t{i} WHERE k = 1"), ()).unwrap();
            assert_eq!(found.row(0).unwrap().at::<String>(0).unwrap(), format!("of {i}"), "{text}");
        }
        let found = s.execute("SELECT k FROM s.t0 WHERE v = 'of 0'", ()).unwrap();
        assert_eq!(found.row(0).map(|r| r.at::<i32>(0).unwrap()), Some(1), "{text}");
    }
    assert!(restored > 3, "{restored}");
}
