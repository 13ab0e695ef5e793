//! Stores without manifest and event log: their owner, the names of the data model's trees from
//! their content alone, and tables with lost definitions.
#![allow(clippy::disallowed_methods)] // files under test are damaged directly

use super::support;

use std::fs;
use std::path::{Path, PathBuf};

use firn_cql::Session;
use firn_kv::OsEnv;
use firn_kv::internals::manifest::{Manifest, ManifestState};
use firn_kv::internals::wal::{SegmentReader, segment_number};
use firn_kv::{Db, DbOptions, TreeOptions};
use firn_wide::internals::store::copies::copy_key;
use firn_wide::{CfDef, ColumnParent, CounterColumn, KsDef, Wide};
use support::{Room, arg, content, copy, dump, options, tree_options, wide_options};

fn names(dir: &Path) -> Vec<String> {
    let mut all: Vec<String> =
        fs::read_dir(dir).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

/// Removes all files with names.
fn forget(dir: &Path) {
    let telling =
        |n: &&String| n.starts_with("MANIFEST") || n.starts_with("EVENTS") || *n == "CURRENT";
    names(dir).iter().filter(telling).for_each(|n| fs::remove_file(dir.join(n)).unwrap());
}

fn state(dir: &Path) -> ManifestState {
    Manifest::load(&*OsEnv::new(), dir).unwrap().unwrap().0
}

fn run(s: &Session, cql: &str) {
    s.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}"));
}

fn shop(dir: &Path) -> Session {
    let s = Session::open_with(dir, wide_options()).unwrap();
    run(
        &s,
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    s
}

fn flush(s: &Session) {
    let db = s.engine().store().db().clone();
    db.tree_names().iter().for_each(|name| db.existing_tree(name).unwrap().flush().unwrap());
}

fn count(s: &Session, cql: &str) -> i64 {
    s.execute(cql, ())
        .unwrap_or_else(|e| panic!("{cql}: {e}"))
        .row(0)
        .unwrap()
        .at::<i64>(0)
        .unwrap()
}

fn repair(dir: &Path, new: &Path, more: &[&str]) -> (String, i32) {
    let _ = fs::remove_dir_all(new);
    let (dir, new) = (arg(dir), arg(new));
    let args = [&["repair", &dir, "--out", &new], more].concat();
    dump(&args)
}

/// Closes the store, removes all names and repairs it. Returns the state of its former manifest,
/// and the output of the repair.
fn lose_names(s: Session, flushed: bool, dir: &Path, new: &Path) -> (ManifestState, String) {
    if flushed {
        flush(&s);
    }
    drop(s);
    let before = state(dir);
    forget(dir);
    let (text, code) = repair(dir, new, &[]);
    assert_eq!(code, 1, "{text}");
    (before, text)
}

#[test]
fn tables_get_their_names_back_by_their_content() {
    let room = Room::new("nameless");
    for flushed in [false, true] {
        let (dir, new) = (room.path(&format!("s{flushed}")), room.path(&format!("new{flushed}")));
        let s = shop(&dir);
        // The order of creation distinguishes tables with the same columns.
        for table in ["shop.first", "shop.second"] {
            run(&s, &format!("CREATE TABLE {table} (id int PRIMARY KEY, name text)"));
        }
        run(&s, "CREATE TABLE shop.items (id int, at text, name text, PRIMARY KEY (id, at))");
        run(&s, "CREATE INDEX items_name ON shop.items (name)");
        run(&s, "CREATE TABLE shop.hits (page text PRIMARY KEY, n counter)");
        for i in 0..60 {
            run(&s, &format!("INSERT INTO shop.first (id, name) VALUES ({i}, 'first')"));
            run(&s, &format!("INSERT INTO shop.second (id, name) VALUES ({i}, 'second')"));
            run(
                &s,
                &format!("INSERT INTO shop.items (id, at, name) VALUES ({i}, 'a', 'n{}')", i % 10),
            );
            run(&s, "UPDATE shop.hits SET n = n + 2 WHERE page = 'home'");
        }
        run(&s, "DELETE FROM shop.items WHERE id = 7");
        let (before, text) = lose_names(s, flushed, &dir, &new);
        let after = state(&new);
        for t in after.trees.values().filter(|t| !t.name.starts_with("tree-")) {
            assert_eq!(before.trees[&t.id].name, t.name, "{text}");
        }
        assert!(after.trees.values().filter(|t| t.name.starts_with("cf-")).count() == 4, "{text}");
        // Tables contain the name of their tree.
        assert_eq!(text.contains("all indexes are built anew"), !flushed, "{text}");
        let s = Session::open_with(&new, wide_options()).unwrap_or_else(|e| panic!("{e}"));
        for table in ["first", "second"] {
            let rows =
                s.execute(&format!("SELECT name FROM shop.{table} WHERE id = 3"), ()).unwrap();
            assert_eq!(rows.row(0).unwrap().at::<String>(0).unwrap(), table, "{text}");
        }
        assert_eq!(count(&s, "SELECT count(*) FROM shop.items"), 59);
        assert_eq!(count(&s, "SELECT count(*) FROM shop.items WHERE name = 'n7'"), 5);
        run(&s, "UPDATE shop.hits SET n = n + 1 WHERE page = 'home'");
        let db = s.engine().store().db().clone();
        db.tree_names().iter().for_each(|name| db.existing_tree(name).unwrap().compact().unwrap());
        assert_eq!(count(&s, "SELECT n FROM shop.hits WHERE page = 'home'"), 121);
    }
}

#[test]
fn compact_tables_get_their_names_back_by_their_content() {
    let room = Room::new("compact");
    for flushed in [false, true] {
        let (dir, new) = (room.path(&format!("s{flushed}")), room.path(&format!("new{flushed}")));
        let s = shop(&dir);
        for table in [
            "plays (song text, day bigint, times int, PRIMARY KEY (song, day))",
            "pairs (id int, a int, b text, PRIMARY KEY (id, a, b))",
            "users (id int PRIMARY KEY, name text, age int)",
        ] {
            run(&s, &format!("CREATE TABLE shop.{table} WITH COMPACT STORAGE"));
        }
        run(&s, "CREATE INDEX users_name ON shop.users (name)");
        for i in 0..40 {
            run(&s, &format!("INSERT INTO shop.plays (song, day, times) VALUES ('hello', {i}, 1)"));
            run(&s, &format!("INSERT INTO shop.pairs (id, a, b) VALUES (1, {i}, 'b')"));
            run(&s, &format!("INSERT INTO shop.users (id, name) VALUES ({i}, 'n{}')", i % 4));
        }
        run(&s, "DELETE FROM shop.plays WHERE song = 'hello' AND day < 10");
        let (before, text) = lose_names(s, flushed, &dir, &new);
        for t in state(&new).trees.values() {
            assert_eq!(before.trees[&t.id].name, t.name, "{text}");
        }
        let s = Session::open_with(&new, wide_options()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(count(&s, "SELECT count(*) FROM shop.plays"), 30);
        assert_eq!(count(&s, "SELECT count(*) FROM shop.pairs"), 40);
        assert_eq!(count(&s, "SELECT count(*) FROM shop.users WHERE name = 'n3'"), 10);
        let family = s.engine().wide().keyspace("shop").unwrap().family("plays").unwrap();
        assert_eq!(family.row("hello").slice().count().unwrap(), 30, "{text}");
    }
}

#[test]
fn an_ambiguous_tree_gets_no_name() {
    let room = Room::new("ambiguous");
    let (dir, new) = (room.path("s"), room.path("new"));
    let s = shop(&dir);
    for table in ["shop.a", "shop.b"] {
        run(&s, &format!("CREATE TABLE {table} (id int PRIMARY KEY, name text)"));
    }
    run(&s, "CREATE TABLE shop.c (id text PRIMARY KEY, name text)");
    run(&s, "INSERT INTO shop.b (id, name) VALUES (1, 'of b')");
    run(&s, "INSERT INTO shop.c (id, name) VALUES ('long key', 'of c')");
    drop(s);
    forget(&dir);
    let (text, code) = repair(&dir, &new, &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("table shop.a or table shop.b"), "{text}");
    let s = Session::open_with(&new, wide_options()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        count(&s, "SELECT count(*) FROM shop.a") + count(&s, "SELECT count(*) FROM shop.b"),
        0
    );
    assert_eq!(count(&s, "SELECT count(*) FROM shop.c"), 1);
    // Its data is there nevertheless.
    drop(s);
    let nameless = content(&new).into_iter().find(|t| t.0.starts_with("tree-"));
    assert!(nameless.is_some_and(|t| t.1.len() > 1), "{text}");
}

#[test]
fn families_get_their_names_back_by_their_content() {
    let room = Room::new("families");
    let (dir, new) = (room.path("s"), room.path("new"));
    let wide = Wide::open_with(&dir, wide_options()).unwrap();
    let family =
        |name: &str, of: &str| CfDef { comparator_type: of.into(), ..CfDef::new("Music", name) };
    let counters = CfDef {
        default_validation_class: "CounterColumnType".into(),
        ..family("Likes", "UTF8Type")
    };
    let cf_defs = vec![family("Songs", "UTF8Type"), family("Plays", "LongType"), counters];
    wide.system_add_keyspace(&KsDef { cf_defs, ..KsDef::new("Music") }).unwrap();
    let k = wide.keyspace("Music").unwrap();
    for i in 0..30i64 {
        k.family("Songs").unwrap().row("hello").insert(format!("part {i}"), "text").unwrap();
        k.family("Plays").unwrap().row("hello").insert(i, "ann").unwrap();
        k.add(b"hello", &ColumnParent::new("Likes"), &CounterColumn::new("likes", 2)).unwrap();
    }
    drop((k, wide));
    forget(&dir);
    let (text, code) = repair(&dir, &new, &[]);
    assert_eq!(code, 1, "{text}");
    let wide = Wide::open_with(&new, wide_options()).unwrap_or_else(|e| panic!("{e}"));
    let k = wide.keyspace("Music").unwrap();
    for (name, columns) in [("Songs", 30), ("Plays", 30)] {
        assert_eq!(
            k.family(name).unwrap().row("hello").slice().columns().unwrap().count(),
            columns,
            "{name}: {text}"
        );
    }
    k.add(b"hello", &ColumnParent::new("Likes"), &CounterColumn::new("likes", 2)).unwrap();
    assert!(!state(&new).trees.values().any(|t| t.name.starts_with("tree-")), "{text}");
}

/// Returns the stores in the headers of a directory's log segments.
fn of_segments(dir: &Path) -> Vec<u64> {
    let numbers = names(dir).into_iter().filter_map(|n| segment_number(&n));
    numbers
        .filter_map(|n| {
            SegmentReader::open(&*OsEnv::new(), dir, n).unwrap().header().map(|h| h.store)
        })
        .collect()
}

/// Creates a store whose last writes are only in the log.
fn plain(dir: &Path, of: &str) {
    let db = Db::open_with(dir, options()).unwrap();
    let t = db.tree("t", tree_options()).unwrap();
    (0..40).for_each(|i| t.put(format!("{of}{i:02}").as_bytes(), b"table").unwrap());
    t.flush().unwrap();
    (0..5).for_each(|i| t.put(format!("{of} log {i}").as_bytes(), b"log").unwrap());
}

#[test]
fn a_store_without_manifest_stays_itself() {
    let room = Room::new("identity");
    let (dir, new) = (room.path("s"), room.path("new"));
    plain(&dir, "k");
    let (id, truth) = (state(&dir).id, content(&dir));
    forget(&dir);
    let (text, code) = repair(&dir, &new, &[]);
    assert_eq!(code, 1, "{text}");
    let after = state(&new);
    assert_eq!(after.id, id, "{text}");
    assert!(after.trees.values().flat_map(|t| t.tables()).all(|t| t.identity.store == id));
    let segments = of_segments(&new);
    assert!(!segments.is_empty() && segments.iter().all(|s| *s == id), "{segments:x?}");
    assert_eq!(content(&new)[0].1, truth[0].1);
    // The tables alone show it too.
    names(&dir)
        .iter()
        .filter(|n| n.ends_with(".wal"))
        .for_each(|n| fs::remove_file(dir.join(n)).unwrap());
    repair(&dir, &new, &[]);
    assert_eq!(state(&new).id, id);
}

#[test]
fn two_stores_without_manifests_are_kept_apart() {
    let room = Room::new("two");
    let (one, two, both, new) =
        (room.path("one"), room.path("two"), room.path("both"), room.path("new"));
    plain(&one, "one");
    // Its files have higher numbers.
    plain(&two, "other");
    for _ in 0..9 {
        drop(Db::open_with(&two, options()).unwrap());
    }
    let db = Db::open_with(&two, options()).unwrap();
    let t = db.tree("t", tree_options()).unwrap();
    t.put(b"other more", b"table").unwrap();
    t.compact().unwrap();
    t.put(b"other last", b"log").unwrap();
    drop((t, db));
    let ids = [state(&one).id, state(&two).id];
    let truth = [content(&one), content(&two)].map(|c| c[0].1.clone());
    copy(&one, &both);
    forget(&both);
    for n in names(&two).iter().filter(|n| n.ends_with(".sst") || n.ends_with(".wal")) {
        assert!(!both.join(n).exists(), "{n} is there already");
        fs::copy(two.join(n), both.join(n)).unwrap();
    }
    for (i, id) in ids.into_iter().enumerate() {
        let (text, code) = repair(&both, &new, &["--store", &format!("{id:016x}")]);
        assert_eq!(code, 1, "{text}");
        assert!(
            text.contains(&format!("it is of another store (id {:016x})", ids[1 - i])),
            "{text}"
        );
        assert_eq!((state(&new).id, &content(&new)[0].1), (id, &truth[i]), "{text}");
    }
    // Nothing is mixed without the option either.
    let (text, code) = repair(&both, &new, &[]);
    let chosen = ids.iter().position(|id| *id == state(&new).id).unwrap();
    assert_eq!((code, &content(&new)[0].1), (1, &truth[chosen]), "{text}");
    let (text, code) = repair(&both, &new, &["--store", "none"]);
    assert!(code == 2 && text.contains("16 hexadecimal digits"), "{text}");
}

#[test]
fn a_table_without_its_definition_is_reported() {
    let room = Room::new("undefined");
    let (dir, new) = (room.path("s"), room.path("new"));
    let s = shop(&dir);
    run(&s, "CREATE TABLE shop.items (id int PRIMARY KEY, name text)");
    run(&s, "CREATE TABLE shop.empty (id int PRIMARY KEY, name text)");
    run(&s, "CREATE TABLE shop.gone (id int PRIMARY KEY, name text)");
    for table in ["items", "gone"] {
        run(&s, &format!("INSERT INTO shop.{table} (id, name) VALUES (1, 'one')"));
    }
    drop(s);
    assert_eq!(dump(&["check", &arg(&dir)]).1, 0);
    let db = Db::open_with(&dir, DbOptions { create: false, ..options() }).unwrap();
    let schema = db.existing_tree("system.schema").unwrap();
    let tables: Vec<Vec<u8>> =
        schema.prefix(b"cql/table/").map(|r| r.unwrap().0.to_vec()).collect();
    assert_eq!(tables.len(), 3);
    for key in tables.iter().flat_map(|key| [key.clone(), copy_key(key)]) {
        schema.delete(key).unwrap();
    }
    // The last of them was being dropped.
    let gone = db.tree_names().into_iter().rfind(|n| n.starts_with("cf-")).unwrap();
    let number: u32 = gone.strip_prefix("cf-").unwrap().parse().unwrap();
    schema.put(&[&b"\0drop"[..], &number.to_be_bytes()].concat(), b"").unwrap();
    let tree = db.tree_names().into_iter().find(|n| n.starts_with("cf-")).unwrap();
    drop((schema, db));
    let (text, code) = dump(&["check", &arg(&dir)]);
    assert!(code == 1 && text.contains("1 finding: 1 undefined"), "{text}");
    assert!(
        text.contains(&format!("tree {tree} has no definition"))
            && text.contains(&format!("firn scan --tree {tree}")),
        "{text}"
    );
    // Its data stays under another name, which no opening takes for a table's.
    let (text, code) = dump(&["salvage", &arg(&dir), "--out", &arg(&new)]);
    assert_eq!(code, 1, "{text}");
    assert!(state(&new).trees.values().any(|t| t.name == format!("lost.{tree}")), "{text}");
    assert_eq!(dump(&["check", &arg(&new)]).1, 0);
}

#[test]
fn space_prints_keys_in_the_types_of_the_store() {
    let room = Room::new("space");
    let dir = room.path("s");
    let s = shop(&dir);
    run(&s, "CREATE TABLE shop.items (id int, at int, name text, PRIMARY KEY (id, at))");
    run(&s, "CREATE INDEX items_name ON shop.items (name)");
    for i in 0..40 {
        let name = "x".repeat(i % 4 * 100);
        run(
            &s,
            &format!(
                "INSERT INTO shop.items (id, at, name) VALUES ({}, {i}, 'n{}{name}')",
                i % 4,
                i % 2
            ),
        );
    }
    flush(&s);
    drop(s);
    let (text, code) = dump(&["space", &arg(&dir)]);
    assert_eq!(code, 0, "{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
    let part = |from: &str| {
        text.split_once(from).unwrap_or_else(|| panic!("{from} is not in {text}")).1.to_owned()
    };
    let table = part("(table shop.items): ");
    let rows: Vec<&str> = table.lines().skip(2).take(4).collect();
    // The largest comes first; columns align with their headings.
    assert!(!rows[0].ends_with("id = 0") && rows[3].ends_with("id = 0"), "{text}");
    let at = |line: &str| line.rfind("id = ").unwrap();
    assert!(rows.iter().all(|r| at(r) == at(rows[0])), "{text}");
    assert!(part("(index items_name of table shop.items): ").contains("  'n0'"), "{text}");
    // The store around a single table shows its definition.
    let table = names(&dir).into_iter().filter(|n| n.ends_with(".sst")).map(|n| dir.join(n));
    let told: Vec<String> = table.map(|t: PathBuf| dump(&["space", &arg(&t)]).0).collect();
    assert!(told.iter().any(|t| t.contains("id = 3")), "{told:?}");
    // Omitted groups are counted, with their size.
    let (text, _) = dump(&["space", &arg(&dir), "--top", "1"]);
    assert!(text.contains("and 3 groups more: "), "{text}");
    // The filters of each tree together, and all of them.
    let (text, _) = dump(&["filters", &arg(&dir)]);
    let sums = text.lines().filter(|l| l.starts_with("tree ") || l.starts_with("all ")).count();
    assert!(sums == 3 + 3 + 1 && text.contains("asks 1 run, and looks into"), "{text}");
}

/// Compactions remove sequence numbers, so these do not show which log records a table has. The
/// table itself contains its end position in the log.
#[test]
fn counters_and_names_need_neither_manifest_nor_event_log() {
    let room = Room::new("counters");
    let (dir, new) = (room.path("s"), room.path("new"));
    let s = Session::open_with(&dir, wide_options()).unwrap();
    run(
        &s,
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run(&s, "CREATE TABLE shop.hits (page text PRIMARY KEY, n counter)");
    let db = s.engine().store().db().clone();
    let plain = db.tree("my own", TreeOptions::default()).unwrap();
    plain.put("a", "1").unwrap();
    for round in 1..=4 {
        for page in 0..20 {
            run(&s, &format!("UPDATE shop.hits SET n = n + {round} WHERE page = 'p{page}'"));
        }
        if round < 4 {
            db.tree_names().iter().for_each(|t| db.existing_tree(t).unwrap().compact().unwrap());
        }
    }
    db.sync().unwrap();
    drop((s, db, plain));
    let before = state(&dir);
    forget(&dir);
    let (text, code) = repair(&dir, &new, &[]);
    assert!(code == 1 && !text.contains("may count twice") && !text.contains("tree-"), "{text}");
    let after = state(&new);
    let names = |s: &ManifestState| -> Vec<_> {
        s.trees.values().map(|t| (t.id, t.name.clone())).collect()
    };
    assert_eq!(names(&before), names(&after), "{text}");
    let s = Session::open_with(&new, wide_options()).unwrap();
    for page in 0..20 {
        let n = count(&s, &format!("SELECT n FROM shop.hits WHERE page = 'p{page}'"));
        assert_eq!(n, 10, "page {page}: {text}");
    }
}
