//! Tests `firn put`, deletions of ranges, `firn trees`, `firn stats` and `firn set-options` from
//! the command line.
#![allow(missing_docs)]

use super::common;

use common::{Ran, Temp};
use serde_json::{Value, json};

#[test]
fn put_takes_pairs_and_files_and_all_or_nothing() {
    let t = Temp::new("trees", "put");
    t.firn(&["put", "apple", "red", "pear", "green"]).said(0, &["2 keys", "\"default\""]);
    t.firn(&["put", "apple", "red", "pear"]).said(2, &["the key pear has no value", "--from"]);
    Ran::of(t.run("db", &["put", "file", "--from", "-"], b"\x00\ttab")).good();
    assert_eq!(t.firn(&["get", "--hex", "66696c65"]).good(), "0009746162\n");
    t.firn(&["put", "--hex", "00ff", "0102", "--tree", "bytes"]).good();
    assert_eq!(t.firn(&["scan", "--hex", "--tree", "bytes"]).good(), "00ff\t0102\n");
    t.firn(&["put", "--hex", "0g", "01"]).said(2, &["hexadecimal"]);
    // The refused calls have written nothing. A store with one tree uses it by default.
    assert_eq!(t.firn(&["scan", "--keys-only"]).good(), "apple\nfile\npear\n");
    Ran::of(t.run("one", &["put", "a", "1", "--tree", "fruit"], b"")).good();
    Ran::of(t.run("one", &["put", "b", "2"], b"")).good();
    assert_eq!(Ran::of(t.run("one", &["scan"], b"")).good(), "a\t1\nb\t2\n");
}

#[test]
fn a_range_is_deleted_only_where_that_is_meant() {
    let t = Temp::new("trees", "range");
    t.firn(&["put", "a1", "x", "a2", "x", "b", "x"]).good();
    t.firn(&["delete", "--prefix", "a"]).said(2, &["--yes", "--dry-run"]);
    t.firn(&["delete", "--prefix", "a", "--dry-run"])
        .said(0, &["would delete 2 keys with 6 B", "from a1 to a2"]);
    t.firn(&["delete", "--prefix", "z", "--dry-run"]).said(0, &["would delete nothing"]);
    for empty in [
        &["--from", "b", "--to", "a"][..],
        &["--from", "a", "--to", "a"],
        &["--from", "b", "--prefix", "a"],
    ] {
        t.firn(&[&["delete", "--yes"], empty].concat()).said(2, &["no key can be in this range"]);
    }
    let would = t.json(&["delete", "a1", "nowhere", "--dry-run", "--json"]);
    assert_eq!(would, json!({"tree": "default", "dry_run": true, "keys": 1, "bytes": 3}));
    assert_eq!(t.firn(&["scan", "--keys-only"]).good(), "a1\na2\nb\n");
    t.firn(&["delete", "--prefix", "a", "--yes"]).good();
    assert_eq!(t.firn(&["scan", "--keys-only"]).good(), "b\n");
}

#[test]
fn options_stay_set() {
    let t = Temp::new("trees", "options");
    t.firn(&["put", "a", "1"]).good();
    let set = [
        "set-options",
        "default",
        "policy=leveled:8:2:movement=coldest",
        "table_size=1m",
        "compression=none,lz4",
    ];
    t.firn(&set).said(0, &["policy: tiered:min_runs=3:max_runs=32:bucket=3 before, leveled:ratio=8:level0_runs=2:base=256m:movement=coldest now", "table_size: 64m before, 1m now"]);
    t.firn(&set).said(0, &["nothing is changed"]);
    t.firn(&["set-options", "default", "policy=lazy-leveled", "policy=tiered"])
        .said(2, &["policy is given twice"]);
    // A writer without options does not change them.
    t.firn(&["put", "b", "2"]).good();
    t.firn(&["compact"]).good();
    let trees = t.json(&["trees", "--json"]);
    let options = &trees[0]["options"];
    assert_eq!(
        (&options["policy"], &options["table_size"]),
        (&"leveled:ratio=8:level0_runs=2:base=256m:movement=coldest".into(), &(1 << 20).into())
    );
    assert_eq!((&options["compression"], &options["hooks"]), (&"none,lz4".into(), &json!({})));
    assert_eq!(t.json(&["stats", "--json"])["trees"][0]["options"], *options);
    let text = t.firn(&["trees"]).good();
    assert!(
        text.contains("leveled:ratio=8:level0_runs=2:base=256m:movement=coldest")
            && text.contains("compression=none,lz4 table_size=1m"),
        "{text}"
    );
    for (args, why) in [
        (&["default", "policy=lazy-leveled:1"][..], "ratio"),
        (&["default", "table_size=1"], "table_size is 1; it must be"),
        (&["default", "table_size"], "name=value"),
        (&["default", "colour=red"], "block_size"),
        (&["nowhere", "table_size=1m"], "no tree \"nowhere\""),
    ] {
        t.firn(&[&["set-options"][..], args].concat()).said(2, &[why, "next:"]);
    }
    assert_eq!(t.json(&["trees", "--json"])[0]["options"], *options);
}

const SHOP: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE shop.items (id int PRIMARY KEY, name text); CREATE INDEX by_name ON shop.items (name);
    INSERT INTO shop.items (id, name) VALUES (1, 'one')";

#[test]
fn trees_are_named_after_their_content() {
    let t = Temp::new("trees", "names");
    t.firn(&["cql", "-e", SHOP]).good();
    let family =
        "create keyspace Music; use Music; create column family users with comparator = UTF8Type;";
    t.firn(&["cli", "-e", family]).good();
    t.firn(&["put", "k", "v", "--tree", "own"]).good();
    for args in [&["trees"][..], &["stats"]] {
        let text = t.firn(args).good();
        for holds in [
            "table shop.items ",
            "index by_name on table shop.items ",
            "family Music.users ",
            "definitions ",
            "keys and values ",
        ] {
            assert!(text.contains(&format!("  {holds}")), "{holds} in\n{text}");
        }
        assert!(text.contains("tiered:min_runs=3:max_runs=32:bucket=3"), "{text}");
    }
    for trees in [t.json(&["trees", "--json"]), t.json(&["stats", "--json"])["trees"].clone()] {
        let holds: Vec<&Value> = trees.as_array().unwrap().iter().map(|t| &t["holds"]).collect();
        assert!(
            holds.contains(&&json!({"kind": "table", "keyspace": "shop", "table": "items"})),
            "{trees}"
        );
        assert!(
            holds.contains(
                &&json!({"kind": "index", "keyspace": "shop", "table": "items", "index": "by_name"})
            ),
            "{trees}"
        );
        assert!(
            holds.contains(&&json!({"kind": "family", "keyspace": "Music", "family": "users"})),
            "{trees}"
        );
        assert!(
            trees
                .as_array()
                .unwrap()
                .iter()
                .any(|t| t["options"]["hooks"]["compaction_filter"] == "firn.cells"),
            "{trees}"
        );
    }
    // Trees of keyspaces are neither written nor changed by hand, and refused calls create no tree.
    let before = t.json(&["trees", "--json"]);
    let tree = before.as_array().unwrap().iter().find(|t| t["holds"]["table"] == "items").unwrap()
        ["name"]
        .as_str()
        .unwrap();
    for tree in [tree, "cf-77", "system.schema"] {
        t.firn(&["put", "k", "v", "--tree", tree])
            .said(2, &["belongs to the keyspaces", "firn cql"]);
    }
    t.firn(&["set-options", tree, "policy=lazy-leveled"])
        .said(2, &["belongs to the keyspaces", "ALTER TABLE"]);
    assert_eq!(t.json(&["trees", "--json"]), before);
}

#[test]
fn stats_are_looked_at_again() {
    let t = Temp::new("trees", "watch");
    t.firn(&["put", "a", "1"]).good();
    let text = t.firn(&["stats", "--watch", "0.01", "--times", "2"]).good();
    assert_eq!(text.matches(" so far\n").count(), 2, "{text}");
    assert_eq!(text.matches("0 operations in the last").count(), 1, "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    let lines = t.firn(&["stats", "--watch", "0.01", "--times", "3", "--json"]).good();
    let looks: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(
        (looks.len(), &looks[0]["since_last"], &looks[2]["since_last"]["operations"]),
        (3, &Value::Null, &0.into())
    );
    t.firn(&["stats", "--times", "3"]).said(2, &["--watch"]);
    t.firn(&["stats", "--watch", "soon"]).said(2, &["no number of seconds"]);
    t.firn(&["stats", "--watch", "0"]).said(2, &["between a millisecond and a day"]);
    t.firn(&["stats", "--json", "--prometheus"])
        .said(2, &["--json and --prometheus exclude each other"]);
}

#[test]
fn advice_follows_from_the_recorded_load() {
    let t = Temp::new("trees", "advise");
    // Compacted to one run, the store is larger than the 16 memtables of a small store.
    let (num, memtable) = (["--keys", "40k"], ["--memtable-size", "64k"]);
    let fill = [&["bench", "fillrandom,overwrite", "--policy", "tiered:5"][..], &num, &memtable];
    t.firn(&fill.concat()).good();
    let output = t.json(&["advise", "--tree", "bench", "--reads", "100/s", "--json"]);
    let (seen, costs) = (&output["seen"], output["costs"].as_array().unwrap());
    assert_eq!((&seen["tree"], &seen["deletes"]), (&json!("bench"), &json!(0.0)));
    assert!(seen["ingest"].as_f64().unwrap() > 0.0 && seen["runs"].as_f64().unwrap() >= 1.0);
    // The current policy is among the simulated ones, and reported like the others.
    assert!(seen["policy"].as_str().unwrap().starts_with("tiered:min_runs=5"), "{seen}");
    assert!(costs.iter().any(|c| c["policy"] == seen["policy"]), "{output:#}");
    let chosen = &costs[output["chosen"].as_u64().unwrap() as usize];
    let policy = chosen["policy"].as_str().unwrap();
    assert!(chosen["options"].as_str().unwrap().contains(policy));
    let text = t.firn(&["advise", "--reads", "100/s"]).good();
    for word in ["seen", "now", "change", "choose", "in Rust", policy] {
        assert!(text.contains(word), "{word}: {text}");
    }
    t.firn(&["advise", "--tree", "other"]).said(2, &["no flush of", "other"]);
    t.firn(&["advise", "nowhere"]).said(2, &["nowhere"]);
    // The printed command runs; there is none if the store has the best policy.
    let by = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("by"));
        line.map(|line| line.trim().to_owned())
    };
    let Some(command) = by(&text) else {
        assert!(chosen["policy"] == seen["policy"] && text.contains("it has that policy"));
        return;
    };
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(&words[..3], ["firn", "--db", "db"], "{command}");
    let by_log =
        Ran::of(t.firn_with(&["advise", "db/EVENTS.jsonl", "--reads", "100/s"], b"")).good();
    assert_eq!(by(&by_log).as_ref(), Some(&command), "{by_log}");
    Ran::of(t.firn_with(&words[1..], b"")).good();
}

/// A store of few memtables has an answer, with the policy that it has.
#[test]
fn a_small_store_has_advice() {
    let t = Temp::new("trees", "small");
    let other = |args: &[&str]| Ran::of(t.firn_with(&[&["--db", "other"], args].concat(), b""));
    other(&["put", "a", "b"]).good();
    other(&["advise"]).said(2, &["has no flush", "write more than a memtable"]);
    let fill = ["bench", "fillrandom,overwrite,wait", "--keys", "3k", "--memtable-size", "64k"];
    t.firn(&fill).good();
    // The benchmark writes at full speed, so its device is not a resource to save here.
    let fast = ["--read-bandwidth", "9g", "--write-bandwidth", "9g", "--cores", "64"];
    let text = t.firn(&[&["advise", "--tree", "bench"], &fast[..]].concat()).good();
    assert!(text.contains("less than 16 memtables of 64.0 KiB"), "{text}");
    assert!(text.contains("The present policy is enough"), "{text}");
    assert!(text.contains("none: it has that policy"), "{text}");
}

/// Tables, families and indexes may be named by their CQL names wherever a tree is named.
#[test]
fn trees_of_tables_are_named_by_keyspace_and_table() {
    let t = Temp::new("trees", "paths");
    let script = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.items (id int PRIMARY KEY, name text); CREATE INDEX items_name ON shop.items (name);
        CREATE TABLE shop.\"Odd\" (id int PRIMARY KEY);
        INSERT INTO shop.items (id, name) VALUES (1, 'pear'); INSERT INTO shop.\"Odd\" (id) VALUES (2);";
    t.firn(&["cql", "-e", script]).good();
    let trees = t.json(&["trees", "--json"]);
    let own = |table: &str, index: Option<&str>| {
        let mut all = trees.as_array().unwrap().iter();
        let is_it = |tree: &&Value| {
            tree["holds"]["table"] == table && tree["holds"]["index"].as_str() == index
        };
        all.find(is_it).unwrap()["name"].as_str().unwrap().to_owned()
    };
    for (path, tree) in [
        ("shop.items", own("items", None)),
        ("shop.items_name", own("items", Some("items_name"))),
        ("shop.Odd", own("Odd", None)),
        ("shop.\"Odd\"", own("Odd", None)),
    ] {
        let scan = |name: &str| t.firn(&["scan", "--hex", "--tree", name]).good();
        assert!(!scan(path).is_empty() && scan(path) == scan(&tree), "{path}");
        t.firn(&["compact", "--tree", path]).said(0, &["compacted 1 tree"]);
        let read = t.firn(&["explain", "--hex", "--prefix", "00", "--tree", path]).good();
        assert!(read.contains(&tree), "{read}");
        for change in [
            &["put", "--tree", path, "a", "b"][..],
            &["delete", "--tree", path, "a"],
            &["set-options", path, "block_size=512"],
        ] {
            t.firn(change).said(2, &["belongs to the keyspaces of this store", &tree]);
        }
    }
    let lists = [
        "the store has no tree \"shop.nothing\"",
        "system.schema",
        "(table shop.items)",
        "(index items_name on table shop.items)",
        "KEYSPACE.TABLE",
    ];
    t.firn(&["scan", "--tree", "shop.nothing"]).said(2, &lists);
    t.firn(&["set-options", "shop.nothing", "block_size=512"]).said(2, &lists);
    // A tree with such a name may still be created.
    t.firn(&["put", "--tree", "shop.nothing", "a", "b"]).good();
    assert_eq!(t.firn(&["scan", "--tree", "shop.nothing"]).good(), "a\tb\n");
}

#[test]
fn a_tree_is_dropped_after_a_confirmation() {
    let t = Temp::new("trees", "drop");
    t.firn(&["put", "a", "1", "--tree", "old"]).good();
    t.firn(&["put", "b", "2", "--tree", "new"]).good();
    t.firn(&["drop-tree", "old"]).said(2, &["needs a confirmation", "--yes"]);
    t.firn(&["drop-tree", "none", "--yes"]).said(2, &["no tree \"none\"", "old", "new"]);
    t.firn(&["drop-tree", "old", "--yes"]).said(0, &["dropped the tree \"old\""]);
    let trees = t.firn(&["trees"]).good();
    assert!(trees.contains("\nnew ") && !trees.contains("\nold "), "{trees}");
    let cql =
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE k.p (id int PRIMARY KEY)";
    Ran::of(t.run("tables", &["cql", "-e", cql], b"")).good();
    Ran::of(t.run("tables", &["drop-tree", "k.p", "--yes"], b""))
        .said(2, &["belongs to the keyspaces"]);
}

#[test]
fn the_store_may_be_the_first_argument() {
    let t = Temp::new("trees", "first");
    let firn = |args: &[&str]| Ran::of(t.firn_with(args, b""));
    firn(&["fruit", "put", "apple", "red"]).good();
    assert_eq!(firn(&["fruit", "get", "apple"]).good(), "red\n");
    assert_eq!(firn(&["--db", "fruit", "get", "apple"]).good(), "red\n");
    // A command of that name comes first.
    firn(&["get", "scan"]).said(2, &["firn-data"]);
    firn(&["fruit", "nonsense"]).said(2, &["unrecognized subcommand"]);
}

#[test]
fn ranges_that_hold_no_key_are_refused() {
    let t = Temp::new("trees", "ranges");
    t.firn(&["put", "apple", "red"]).good();
    for command in ["scan", "explain", "delete"] {
        t.firn(&[command, "--from", "z", "--to", "a"])
            .said(2, &["ends where it begins, or before"]);
    }
}
