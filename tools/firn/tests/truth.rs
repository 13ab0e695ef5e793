//! Tests the reports of damage: complete, with locations, and with all readable data. Mistyped
//! names create nothing.
#![allow(clippy::disallowed_methods, missing_docs)] // these tests damage files as a disk would

use super::common;

use common::{Ran, Temp};
use std::fs;
use std::path::PathBuf;

use firn_kv::{Db, DbOptions, TreeOptions};
use serde_json::Value;

impl Temp {
    fn firn_in(&self, db: &str, args: &[&str], input: &str) -> Ran {
        Ran::of(self.run(db, args, input.as_bytes()))
    }

    /// Returns the files of a store with this extension.
    fn files(&self, db: &str, extension: &str) -> Vec<PathBuf> {
        let mut all: Vec<_> =
            fs::read_dir(self.path(db)).unwrap().map(|e| e.unwrap().path()).collect();
        all.retain(|p| p.extension().is_some_and(|e| e == extension));
        all.sort();
        all
    }

    fn names(&self, db: &str) -> Vec<String> {
        fs::read_dir(self.path(db))
            .into_iter()
            .flatten()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

fn flip(file: &PathBuf, at: usize, bit: u8) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 1 << bit;
    fs::write(file, bytes).unwrap();
}

fn lines(n: u32, tag: &str) -> String {
    (0..n).map(|i| format!("key{i:06}\t{tag}{}\n", i.wrapping_mul(2_654_435_761))).collect()
}

/// Creates a store of two trees, each compacted to one table: first `a`, then `b`.
fn two_trees(t: &Temp) -> (PathBuf, PathBuf) {
    for tree in ["a", "b"] {
        t.firn_in("db", &["load", "-", "--tree", tree], &lines(20_000, tree)).good();
        t.firn_in("db", &["compact", "--tree", tree], "").good();
    }
    let tables = t.files("db", "sst");
    (tables[0].clone(), tables[1].clone())
}

#[test]
fn verify_lists_every_damaged_block_with_its_tree() {
    let t = Temp::new("truth", "verify");
    let (a, b) = two_trees(&t);
    // In eight blocks of one table, in two of the other.
    (0..8).for_each(|i| flip(&a, 9_000 + 20_000 * i, 3));
    (0..2).for_each(|i| flip(&b, 50_000 + 30_000 * i, 0));
    let ran = t.firn_in("db", &["verify", "--json"], "");
    assert_eq!(ran.0, 1, "{}", ran.2);
    let report: Value = serde_json::from_str(&ran.1).unwrap();
    let errors = report["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 10, "{}", ran.1);
    assert_eq!(
        errors
            .iter()
            .filter(|e| e["tree"] == "a"
                && e["file"].as_str().unwrap().ends_with(a.file_name().unwrap().to_str().unwrap()))
            .count(),
        8
    );
    assert!(
        errors.iter().all(|e| e["keys"][0].as_str().is_some() && e["offset"].as_u64().is_some())
    );
    let text = t.firn_in("db", &["verify"], "").1;
    assert!(
        text.contains("10 errors")
            && text.matches("damaged:").count() == 10
            && text.contains("tree \"b\""),
        "{text}"
    );
}

#[test]
fn verify_names_the_table_of_a_damaged_tree() {
    let t = Temp::new("truth", "named");
    let make = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.items (id int PRIMARY KEY, name text); INSERT INTO shop.items (id, name) VALUES (1, 'one');";
    t.firn_in("db", &["cql", "-e", make], "").good();
    t.firn_in("db", &["compact"], "").good();
    let stats: Value =
        serde_json::from_str(&t.firn_in("db", &["trees", "--json"], "").good()).unwrap();
    for table in t.files("db", "sst") {
        flip(&table, 30, 1);
    }
    let report: Value =
        serde_json::from_str(&t.firn_in("db", &["verify", "--json"], "").1).unwrap();
    let errors = report["errors"].as_array().unwrap();
    // The schema's tree is damaged too, so the content of the other trees is unknown. They must be
    // listed nevertheless.
    assert!(
        errors.iter().any(|e| e["tree"] == "system.schema") && errors.len() >= 2,
        "{report} {stats}"
    );
    // With a sound schema, the table is named.
    let schema = errors.iter().find(|e| e["tree"] == "system.schema").unwrap()["file"]
        .as_str()
        .unwrap()
        .to_owned();
    flip(&t.0.join(schema), 30, 1);
    let report: Value =
        serde_json::from_str(&t.firn_in("db", &["verify", "--json"], "").1).unwrap();
    let of: Vec<&Value> = report["errors"].as_array().unwrap().iter().map(|e| &e["of"]).collect();
    assert_eq!(of, [&Value::from("table shop.items")], "{report}");
    assert!(t.firn_in("db", &["verify"], "").1.contains("damaged: table shop.items: corruption"));
}

#[test]
fn a_damaged_table_hurts_reads_of_its_own_keys_only() {
    let t = Temp::new("truth", "scan");
    let (a, b) = two_trees(&t);
    let whole = t.firn_in("db", &["scan", "--tree", "a"], "").good();
    // The footer of one tree's table is lost: the other tree is still readable.
    let footer = fs::metadata(&b).unwrap().len() as usize - 20;
    flip(&b, footer, 2);
    assert_eq!(t.firn_in("db", &["scan", "--tree", "a"], "").good(), whole);
    let none = t
        .firn_in("db", &["scan", "--tree", "b"], "")
        .said(1, &["damaged:", "key000000", "key019999", "firn --db db verify"]);
    assert_eq!(none, "");
    t.firn_in("db", &["stats"], "").good();
    t.firn_in("db", &["trees"], "").good();
    flip(&b, footer, 2);
    // Damaged blocks: all other keys are read, forward and backward, and the lost ones are
    // reported.
    for at in [30, 100_000, 100_001, 150_000] {
        flip(&a, at, 5);
    }
    let expected: Vec<&str> = whole.lines().collect();
    for reverse in [false, true] {
        let args = if reverse {
            &["scan", "--tree", "a", "--reverse"][..]
        } else {
            &["scan", "--tree", "a"]
        };
        let out = t.firn_in("db", args, "").said(1, &["keys key0000"]);
        let mut got: Vec<&str> = out.lines().collect();
        if reverse {
            got.reverse();
        }
        assert!(got.is_sorted() && got.len() > 19_000 && got.len() < 20_000, "{}", got.len());
        let mut rest = expected.iter();
        assert!(got.iter().all(|line| rest.any(|l| l == line)), "a line that was not there");
        // Three blocks of less than 16 KiB each, with the readable entries at both ends in between.
        assert!(got.last() == expected.last() && expected.len() - got.len() < 1000);
    }
    // With a newer run whose keys are in the damaged block too, keys of other blocks are shown.
    t.firn_in("db", &["load", "-", "--tree", "a"], "key000000x\tnew\nkey019999x\tnew\n").good();
    let out = t.firn_in("db", &["scan", "--tree", "a"], "").said(1, &["damaged"]);
    assert!(out.ends_with("key019999x\tnew\n"));
    assert!(t.firn_in("db", &["get", "key019999", "--tree", "a"], "").0 == 0);
    assert!(t.firn_in("db", &["get", "key000000", "--tree", "a"], "").0 == 2);
}

#[test]
fn a_damaged_blob_hides_its_own_key_only() {
    let t = Temp::new("truth", "apart");
    t.firn_in("db", &["put", "a", "1"], "").good();
    t.firn_in("db", &["set-options", "default", "blob_threshold=64"], "").good();
    let value = |i: u32| format!("[{i:03}]{}", lines(10, "v").replace(['\t', '\n'], "."));
    let input: String = (0..300).map(|i| format!("key{i:03}\t{}\n", value(i))).collect();
    t.firn_in("db", &["load", "-"], &input).good();
    t.firn_in("db", &["compact"], "").good();
    let whole = t.firn_in("db", &["scan"], "").good();
    let keys = t.firn_in("db", &["scan", "--keys-only"], "").good();
    assert!(whole.lines().count() == 301 && keys.lines().count() == 301);
    // The first one, two adjacent ones, and the last one.
    let lost = [0, 96, 97, 299];
    let files = t.files("db", "sst");
    for i in lost {
        let mark = format!("[{i:03}]");
        let found = files.iter().find_map(|file| {
            let bytes = fs::read(file).unwrap();
            Some((file, bytes.windows(5).position(|w| w == mark.as_bytes())?))
        });
        let (file, at) = found.unwrap();
        flip(file, at + 2, 0);
    }
    let is_lost = |line: &&str| lost.iter().any(|i| line.starts_with(&format!("key{i:03}")));
    let rest: Vec<&str> = whole.lines().filter(|line| !is_lost(line)).collect();
    let words = lost.map(|i| format!("keys key{i:03} to key{i:03}"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let out = t.firn_in("db", &["scan"], "").said(1, &words);
    assert_eq!(out.lines().collect::<Vec<_>>(), rest);
    let ran = t.firn_in("db", &["scan", "--reverse"], "");
    assert_eq!(ran.2.matches("blob block").count(), lost.len(), "{}", ran.2);
    let out = ran.said(1, &words);
    assert_eq!(out.lines().rev().collect::<Vec<_>>(), rest);
    // Reads without values, and reads that end earlier, meet no damage.
    assert_eq!(t.firn_in("db", &["scan", "--keys-only"], "").good(), keys);
    let backward = t.firn_in("db", &["scan", "--keys-only", "--reverse"], "").good();
    assert!(backward.lines().rev().eq(keys.lines()));
    assert_eq!(t.firn_in("db", &["scan", "--limit", "1"], "").good(), "a\t1\n");
    t.firn_in("db", &["get", "key001", "key096"], "").said(2, &["keys key096 to key096"]);
}

/// Creates a store of a killed program with a sound log: one operation per batch.
fn killed(t: &Temp, name: &str) {
    let live = t.path("live");
    let options = DbOptions { background_threads: 0, wal_segment: 1 << 20, ..DbOptions::default() };
    let db = Db::open_with(&live, options).unwrap();
    let tree = db.tree("default", TreeOptions::default()).unwrap();
    (0..100).for_each(|i| tree.put(format!("k{i:03}").as_bytes(), &[b'v'; 300]).unwrap());
    fs::create_dir_all(t.path(name)).unwrap();
    for file in t.names("live") {
        fs::copy(live.join(&file), t.path(name).join(&file)).unwrap();
    }
    drop((tree, db));
    fs::remove_dir_all(live).unwrap();
}

#[test]
fn damage_that_cuts_off_sound_records_needs_a_word_of_consent() {
    let t = Temp::new("truth", "consent");
    killed(&t, "db");
    assert!(t.firn_in("db", &["verify"], "").good().contains("sound"));
    let log = t.files("db", "wal").into_iter().next_back().unwrap();
    // Flips a bit in the value of one of the first records.
    flip(&log, 4000, 4);
    let before: Vec<Vec<u8>> = t.files("db", "wal").iter().map(|f| fs::read(f).unwrap()).collect();
    let text = t.firn_in("db", &["verify"], "");
    assert_eq!(text.0, 1, "{}", text.1);
    for words in
        ["not by a crash", "sound records with", "sstable-dump salvage", "--accept-log-loss"]
    {
        assert!(text.1.contains(words), "{words:?} is not in {}", text.1);
    }
    // Readers print a note, writers are refused, and no file changes.
    assert!(t.firn_in("db", &["scan"], "").said(0, &["the log is damaged"]).lines().count() < 15);
    for args in [&["load", "-"][..], &["compact"], &["delete", "k"], &["checkpoint", "copy"]] {
        t.firn_in("db", args, "k\tv\n")
            .said(2, &["would be lost for good", "sstable-dump salvage", "--accept-log-loss"]);
    }
    assert_eq!(
        before,
        t.files("db", "wal").iter().map(|f| fs::read(f).unwrap()).collect::<Vec<_>>()
    );
    t.firn_in("db", &["load", "-", "--accept-log-loss"], "new\tv\n").good();
    let now = t.firn_in("db", &["scan"], "").good();
    assert!(now.ends_with("new\tv\n") && now.lines().count() < 15, "{now}");
    assert!(t.firn_in("db", &["verify"], "").good().contains("sound"));
}

#[test]
fn the_end_of_a_crash_needs_no_flag() {
    let t = Temp::new("truth", "crash");
    killed(&t, "db");
    let log = t.files("db", "wal").into_iter().next_back().unwrap();
    // Sectors that were not written before the power failed, although later ones were.
    let mut bytes = fs::read(&log).unwrap();
    bytes[4096..8192].fill(0);
    fs::write(&log, bytes).unwrap();
    let text = t.firn_in("db", &["verify"], "").good();
    assert!(
        text.contains("sound")
            && text.contains("note: the log ends at")
            && text.contains("salvage"),
        "{text}"
    );
    t.firn_in("db", &["load", "-"], "new\tv\n").good();
}

#[test]
fn a_name_mistyped_makes_no_store() {
    let t = Temp::new("truth", "typo");
    let reading: [&[&str]; 9] = [
        &["get", "k"],
        &["scan"],
        &["stats"],
        &["trees"],
        &["verify"],
        &["delete", "k"],
        &["compact"],
        &["export", "--keyspace", "x"],
        &["purge-report", "-k", "x"],
    ];
    for args in reading {
        let ran = t.firn_in("typo", args, "");
        assert!(ran.0 == 2 && !t.path("typo").exists(), "{args:?}: {}", ran.2);
    }
    for args in [
        &["cql", "-e", "HELP"][..],
        &["cql", "-e", "DESCRIBE KEYSPACES"],
        &["cli", "-e", "help;"],
        &["cli", "-e", "show keyspaces;"],
    ] {
        t.firn_in("typo", args, "").good();
        assert!(!t.path("typo").exists(), "{args:?}");
    }
    let role = "CREATE ROLE ann WITH PASSWORD = 'x' AND LOGIN = true; LIST ROLES";
    t.firn_in("roles", &["cql", "-e", role], "").good();
    assert!(t.firn_in("roles", &["cql", "-e", "LIST ROLES"], "").good().contains(" ann "));
    t.firn_in("typo", &["cql", "-e", "SELECT * FROM shop.items"], "")
        .said(1, &["typo is no store yet", "CREATE KEYSPACE"]);
    let two =
        t.firn_in("typo", &["cql", "-e", "SELECT * FROM shop.items; SELECT * FROM shop.items"], "");
    assert_eq!(two.2.matches("the first CREATE KEYSPACE makes it").count(), 1, "{}", two.2);
    let two = t.firn_in("typo", &["cli", "--go-on", "-e", "use Music; use Music;"], "");
    assert_eq!(two.2.matches("is no store yet").count(), 1, "{}", two.2);
    t.firn_in("typo", &["get", "k"], "")
        .said(2, &["there is no store here; check the name (file", "--db DIR"]);
    t.firn_in("typo", &["cql", "-k", "shop"], "").said(2, &["is no store yet"]);
    t.firn_in("typo", &["cli", "-e", "use Music;"], "").said(1, &["is no store yet"]);
    assert!(!t.path("typo").exists());
    // A store of keys remains one.
    t.firn_in("keys", &["load", "-"], "k\tv\n").good();
    t.firn_in("keys", &["cql", "-e", "HELP; DESCRIBE KEYSPACES"], "").good();
    t.firn_in("keys", &["cli", "-e", "show keyspaces;"], "").good();
    assert!(!t.firn_in("keys", &["trees"], "").good().contains("system.schema"));
    // Until a statement creates a keyspace.
    let make = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.items (id int PRIMARY KEY); SELECT * FROM shop.items";
    t.firn_in("keys", &["cql", "-e", make], "").good();
    assert!(t.firn_in("keys", &["trees"], "").good().contains("system.schema"));
    assert_eq!(t.firn_in("keys", &["get", "k"], "").good(), "v\n");
    t.firn_in(
        "new",
        &["cli", "-e", "create keyspace Music; use Music; create column family users;"],
        "",
    )
    .good();
    assert!(t.firn_in("new", &["cli", "-e", "show keyspaces;"], "").good().contains("Music"));
}

#[test]
fn leftovers_of_a_killed_program_are_not_in_use() {
    let t = Temp::new("truth", "orphan");
    t.firn_in("db", &["load", "-"], &lines(1000, "v")).good();
    let table = t.files("db", "sst").remove(0);
    fs::copy(table, t.path("db/00000077.sst")).unwrap();
    let text = t.firn_in("db", &["stats"], "").good();
    assert!(text.contains("or left by one that was killed"), "{text}");
    t.firn_in("db", &["delete", "nothing"], "").good();
    assert!(!t.firn_in("db", &["stats"], "").good().contains("not listed"));
}

#[test]
fn a_table_without_its_definition_is_reported() {
    let t = Temp::new("truth", "undefined");
    let make = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.items (id int PRIMARY KEY, name text); INSERT INTO shop.items (id, name) VALUES (1, 'one');
        CREATE TABLE shop.empty (id int PRIMARY KEY)";
    t.firn_in("db", &["cql", "-e", make], "").good();
    let ran = t.firn_in("db", &["trees"], "");
    assert!(ran.0 == 0 && ran.2.is_empty(), "{}", ran.2);
    let db =
        Db::open_with(t.path("db"), DbOptions { create: false, ..DbOptions::default() }).unwrap();
    let schema = db.existing_tree("system.schema").unwrap();
    let tables: Vec<Vec<u8>> =
        schema.prefix(b"cql/table/").map(|r| r.unwrap().0.to_vec()).collect();
    assert_eq!(tables.len(), 2);
    tables.iter().for_each(|key| schema.delete(key).unwrap());
    let tree = db.tree_names().into_iter().find(|n| n.starts_with("cf-")).unwrap();
    drop((schema, db));
    let (words, next) =
        (format!("tree {tree} has no definition"), format!("`firn scan --tree {tree}`"));
    t.firn_in("db", &["trees"], "").said(0, &[&words, &next]);
    let listed: Value =
        serde_json::from_str(&t.firn_in("db", &["trees", "--json"], "").good()).unwrap();
    let undefined = listed.as_array().unwrap().iter().filter(|t| t["undefined"] == true);
    assert_eq!(undefined.map(|t| t["name"].as_str().unwrap()).collect::<Vec<_>>(), [tree.as_str()]);
    let ran = t.firn_in("db", &["verify"], "");
    assert!(
        ran.0 == 1 && ran.1.contains(&words) && ran.1.contains("1 error"),
        "{}{}",
        ran.1,
        ran.2
    );
    let report: Value =
        serde_json::from_str(&t.firn_in("db", &["verify", "--json"], "").1).unwrap();
    assert_eq!((&report["sound"], &report["undefined"][0]), (&false.into(), &tree.as_str().into()));
    // The advice works: the tree is readable, also after the store was opened for writing.
    t.firn_in("db", &["cql", "-e", "CREATE TABLE shop.more (id int PRIMARY KEY)"], "").good();
    let read = t.run("db", &["scan", "--tree", &tree], b"");
    assert!(read.status.success() && !read.stdout.is_empty());
}

#[test]
fn counters_are_no_plain_values() {
    let t = Temp::new("truth", "counters");
    let make = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.hits (id int PRIMARY KEY, n counter); UPDATE shop.hits SET n = n + 1 WHERE id = 1";
    t.firn_in("db", &["cql", "-e", make], "").good();
    let trees = t.firn_in("db", &["trees"], "").good();
    let tree = trees.split_whitespace().find(|w| w.starts_with("cf-")).unwrap().to_owned();
    t.firn_in("db", &["scan", "--tree", &tree], "")
        .said(2, &["the counters of table shop.hits", "`firn cql`"]);
}
