//! Tests `firn import` and `firn export` of rows: formats, messages, and kills in the middle.
#![allow(clippy::disallowed_methods, reason = "files, and processes that are killed")]

use super::common::{Ran, Temp};

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use firn_testkit::rng::Rng;

const KEYSPACE: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn cql(t: &Temp, statements: &str) -> String {
    t.firn(&["cql", "-e", statements]).good()
}

/// Runs a command, and kills it after this time. Returns its messages, and whether it succeeded.
fn killed(t: &Temp, args: &[&str], after: Duration) -> (String, bool) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args([&["--db", "db"], args].concat())
        .current_dir(&t.0)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    child.kill().ok();
    let done = child.wait_with_output().unwrap();
    (String::from_utf8(done.stderr).unwrap(), done.status.success())
}

/// Runs an import until it ends, killed at random times. Returns the number of kills.
fn import_with_kills(t: &Temp, args: &[&str], rng: &mut Rng, has_rows: &dyn Fn() -> bool) -> u32 {
    let resumed = [args, &["--resume"]].concat();
    let (mut kills, mut is_begun) = (0, false);
    loop {
        let current = if is_begun { &resumed[..] } else { args };
        let millis = 10 + rng.below(30) * u64::from(1 + kills / 4);
        let (said, has_ended) = killed(t, current, Duration::from_millis(millis));
        // A kill may precede the first position, or follow the removal of the last one.
        let is_unknown = said.contains("there is no interrupted import");
        if has_ended || (is_unknown && has_rows()) {
            return kills;
        }
        is_begun = !is_unknown;
        kills += 1;
        assert!(kills < 400, "no progress: {said}");
    }
}

#[test]
fn kills_neither_lose_nor_double_rows() {
    let t = Temp::new("transfer", "kills");
    cql(
        &t,
        &format!(
            "{KEYSPACE}; CREATE TABLE shop.counted (id int PRIMARY KEY, n counter); CREATE TABLE shop.items (id int PRIMARY KEY, n bigint)"
        ),
    );
    let rows = 12_000;
    let mut text = String::from("id,n\n");
    (0..rows).for_each(|i| text += &format!("{i},{}\n", i + 1));
    fs::write(t.path("rows.csv"), text).unwrap();
    let mut rng = Rng::new(7);
    let mut kills = 0;
    for target in [["--table", "shop.counted"], ["--table", "shop.items"], ["--tree", "pairs"]] {
        let args = [&["import", "rows.csv", "--chunk", "50"], &target[..]].concat();
        let export = [&["--json", "export", "x", "--dry-run"], &target[..]].concat();
        let has_rows = || {
            let done = t.firn(&export);
            let report = serde_json::from_str::<serde_json::Value>(&done.1);
            report.is_ok_and(|report| report["rows"].as_u64() > Some(0))
        };
        kills += import_with_kills(&t, &args, &mut rng, &has_rows);
    }
    assert!(kills > 2, "{kills} kills");
    for table in ["counted", "items"] {
        let name = format!("shop.{table}");
        let out = t.firn(&["export", "--table", &name, "-", "--format", "csv"]).good();
        let found: BTreeMap<u64, u64> = out
            .lines()
            .skip(1)
            .map(|l| l.split_once(',').unwrap())
            .map(|(id, n)| (id.parse().unwrap(), n.parse().unwrap()))
            .collect();
        assert!(found.into_iter().eq((0..rows).map(|i| (i, i + 1))), "{table}");
    }
    let pairs = t.firn(&["scan", "--tree", "pairs"]).good();
    assert_eq!(pairs.lines().count() as u64, rows);
    // Positions are gone.
    assert!(!cql(&t, "DESCRIBE KEYSPACES").contains("firn_import"));
    assert!(!t.firn(&["trees"]).good().contains("firn-import"));
}

#[test]
fn a_table_is_created_from_a_file_and_exported() {
    let t = Temp::new("transfer", "create");
    let lines = "{\"id\":1,\"name\":\"a\",\"tags\":[\"x\"],\"price\":1.5}\n{\"id\":2,\"name\":null,\"price\":2}\n";
    fs::write(t.path("items.jsonl"), lines).unwrap();
    let into = ["--table", "shop.items", "--create", "--key", "id"];
    let import = [&["import", "items.jsonl"], &into[..]].concat();
    let typed = [&import[..], &["--type", "tags=list<text>"]].concat();
    let out = t.firn(&[&typed[..], &["--dry-run"]].concat());
    assert!(out.2.contains("2 rows of items.jsonl can be imported into shop.items"), "{}", out.2);
    assert!(out.1.contains("price   double") && out.1.contains("tags    list<text>"), "{}", out.1);
    assert!(!t.path("db").exists());
    t.firn(&typed).said(0, &["imported 2 rows of items.jsonl into shop.items"]);
    assert_eq!(
        t.firn(&["export", "--table", "Shop.items", "-", "--format", "jsonl"]).good(),
        "{\"id\":2,\"name\":null,\"price\":2.0,\"tags\":null}\n{\"id\":1,\"name\":\"a\",\"price\":1.5,\"tags\":[\"x\"]}\n"
    );
    let query = "SELECT name, id FROM shop.items WHERE id = 1";
    t.firn(&["export", "--query", query, "one.csv"]).said(0, &["exported 1 row to one.csv"]);
    assert_eq!(fs::read_to_string(t.path("one.csv")).unwrap(), "name,id\na,1\n");
    let columns = ["--columns", "id", "--limit", "1"];
    let args = [&["export", "--table", "shop.items", "ids.tsv"], &columns[..]].concat();
    t.firn(&args).good();
    assert_eq!(fs::read_to_string(t.path("ids.tsv")).unwrap(), "id\n2\n");
    t.firn(&["export", "--table", "shop.items", "x.csv", "--dry-run"])
        .said(0, &["2 rows would be exported"]);
    assert!(!t.path("x.csv").exists());
    let json = t.json(&["--json", "import", "one.csv", "--table", "shop.items"]);
    assert_eq!((&json["rows"], &json["complete"]), (&1.into(), &true.into()));
}

#[test]
fn messages_say_what_to_do() {
    let t = Temp::new("transfer", "messages");
    fs::write(t.path("rows.csv"), "id,n\n1,x\n").unwrap();
    let missing = ["import", "rows.csv", "--table", "shop.items"];
    t.firn(&missing).said(2, &["db has no tables", "--create and --key COLUMN"]);
    cql(&t, &format!("{KEYSPACE}; CREATE TABLE shop.other (id int PRIMARY KEY, n int)"));
    t.firn(&missing).said(2, &["there is no table shop.items; the store has shop.other"]);
    t.firn(&["import", "rows.csv", "--table", "shop.other"])
        .said(1, &["rows.csv, line 2: column n: ", "--resume", "--bad skip"]);
    t.firn(&["import", "rows.csv", "--table", "shop.other", "--bad", "skip"])
        .said(0, &["imported 0 rows", "left out 1 bad row"]);
    fs::write(t.path("rows.unknown"), "text").unwrap();
    t.firn(&["import", "rows.unknown", "--tree", "t"]).said(2, &["--format: csv, tsv, jsonl"]);
    t.firn(&["import", "rows.csv"]).said(2, &["--keyspace"]);
    t.firn(&["export", "--table", "shop.other"]).said(2, &["where to?"]);
    t.firn(&["export", "--table", "shop.nothing", "x.csv"]).said(2, &["there is no table"]);
    t.firn(&["export", "--table", "shop.other", "x.sqlite"]).said(2, &["imports only"]);
    let absent = ["import", "rows.csv", "--tree", "t", "--resume"];
    t.firn(&absent).said(2, &["no interrupted import", "leave --resume out"]);
    if cfg!(not(feature = "transfer")) {
        t.firn(&["export", "--table", "shop.other", "x.parquet"])
            .said(2, &["no parquet", "--features transfer"]);
    }
    if cfg!(not(feature = "rocksdb")) {
        fs::create_dir_all(t.path("rocks")).unwrap();
        t.firn(&["import", "rocks", "--format", "rocksdb", "--tree", "t"])
            .said(2, &["no rocksdb", "--features rocksdb"]);
    }
}

#[test]
fn trees_come_back_in_forms() {
    let t = Temp::new("transfer", "forms");
    let pairs = "{\"key_hex\":\"00000007\",\"value\":\"seven\"}\n{\"key_hex\":\"000000ff\",\"value\":\"x,\\\"y\\\"\"}\n";
    Ran::of(t.run("db", &["load", "-", "--format", "json"], pairs.as_bytes())).good();
    let forms = ["--key-as", "u32", "--value-as", "utf8"];
    let mut formats = vec!["csv", "jsonl", "tsv"];
    if cfg!(feature = "transfer") {
        formats.extend(["parquet", "arrow"]);
    }
    for format in formats {
        let file = format!("pairs.{format}");
        let export = ["export", "--tree", "default", &file];
        t.firn(&[&export[..], &forms].concat()).good();
        let import = [&["import", &file, "--tree", format], &forms[..]].concat();
        t.firn(&import).said(0, &["imported 2 rows"]);
        assert_eq!(
            t.firn(&["scan", "--hex", "--tree", format]).good(),
            t.firn(&["scan", "--hex", "--tree", "default"]).good(),
            "{format}"
        );
    }
    let range = ["export", "--tree", "default", "-", "--format", "csv", "--from", "000000aa"];
    let out = t.firn(&[&range[..], &["--key-as", "hex"]].concat()).good();
    assert_eq!(out, "key,value\n000000ff,\"x,\"\"y\"\"\"\n");
    t.firn(&["export", "--tree", "default", "x.csv", "--key-as", "u64"])
        .said(2, &["row 1, column key: ", "is not 8 bytes; choose another form"]);
    assert!(!t.path("x.csv").exists());
}
