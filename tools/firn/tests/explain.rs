//! Tests `firn explain` from the command line: its report of cold and warm reads, filters,
//! tombstones, range deletions and runs, compared with the written data and the files; and its
//! advice.
// These tests make the files that a user would name on the command line.
#![allow(clippy::disallowed_methods, missing_docs)]

use super::common;

use common::{Ran, Temp};
use serde_json::Value;

impl Temp {
    #[track_caller]
    fn firn_fed(&self, args: &[&str], input: &[u8]) -> String {
        let Ran(code, out, err) = Ran::of(self.run("db", args, input));
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        out
    }

    #[track_caller]
    fn explained(&self, args: &[&str]) -> Value {
        let all = [&["explain", "--json"], args].concat();
        serde_json::from_str(&self.firn_fed(&all, b"")).unwrap()
    }
}

fn lines(keys: impl Iterator<Item = u32>) -> Vec<u8> {
    keys.map(|n| format!("key{n:06}\tvalue{n}\n")).collect::<String>().into_bytes()
}

/// Creates two tables in two runs; the newer one has keys between those of the older.
fn taking_turns(t: &Temp) {
    t.firn_fed(&["load", "-"], &lines((0..6000).step_by(2)));
    t.firn_fed(&["compact"], b"");
    t.firn_fed(&["load", "-"], &lines((0..20).map(|n| n * 300 + 1)));
}

fn sources<'a>(read: &'a Value, kind: &str) -> Vec<&'a Value> {
    read["sources"].as_array().unwrap().iter().filter(|s| s["kind"] == kind).collect()
}

#[test]
fn a_cold_read_and_a_warm_one() {
    let t = Temp::new("explain", "cold");
    taking_turns(&t);
    let of = |args: &[&str]| t.explained(args)["reads"][0].clone();
    let cold = of(&["key003000"]);
    let runs = sources(&cold, "run");
    assert_eq!((runs.len(), runs[0]["skipped"].as_str()), (2, Some("filter")), "{cold:#}");
    assert_eq!(
        (runs[0]["filters"][0]["maybe"].as_bool(), runs[0]["blocks"].as_array().unwrap().len()),
        (Some(false), 0)
    );
    let run = runs[1];
    assert_eq!(
        (run["filters"][0]["maybe"].as_bool(), run["filters"][0]["right"].as_bool()),
        (Some(true), Some(true))
    );
    assert_eq!((run["puts"].as_u64(), run["blocks"].as_array().unwrap().len()), (Some(1), 1));
    assert_ne!(run["blocks"][0]["from"], "cache");
    // The block that it names exists in the file that it names.
    let file = t.path("db").join(format!("{:08}.sst", run["blocks"][0]["table"].as_u64().unwrap()));
    let end =
        run["blocks"][0]["offset"].as_u64().unwrap() + run["blocks"][0]["bytes"].as_u64().unwrap();
    assert!(end < file.metadata().unwrap().len());
    let warm = of(&["key003000", "--warm"]);
    let run = sources(&warm, "run")[1];
    assert_eq!(run["opened"].as_array().unwrap().len(), 0);
    assert_ne!(run["blocks"][0]["from"], "file", "{warm:#}");
    let newer = of(&["key000301"]);
    assert_eq!(sources(&newer, "run")[0]["puts"].as_u64(), Some(1));
    assert_eq!(sources(&newer, "run")[1]["skipped"], "decided");
    let absent =
        (1..400).step_by(2).filter(|n| n % 300 != 1).map(|n| of(&[&format!("key{n:06}")])).take(12);
    let absent: Vec<Value> = absent.collect();
    let said = |v: &Value| {
        sources(v, "run").iter().all(|r| r["skipped"] == "filter")
            && v["total"]["blocks"] == serde_json::json!([])
    };
    assert!(absent.iter().filter(|v| said(v)).count() >= 8, "{absent:#?}");
    let beyond = of(&["zzz"]);
    assert!(sources(&beyond, "run").iter().all(|r| r["skipped"] == "bounds"));
    let text = t.firn_fed(&["explain", "key003000"], b"");
    assert!(text.starts_with("key key003000 of tree default: found in "), "{text}");
    assert!(
        text.contains("1 filter asked: 1 no, 0 maybe")
            && text.contains("1 filter asked: 0 no, 1 maybe")
            && text.contains("Nothing stands out"),
        "{text}"
    );
}

#[test]
fn tombstones_name_their_file_and_what_to_do() {
    let t = Temp::new("explain", "tombstones");
    t.firn_fed(&["load", "-"], &lines(0..5000));
    t.firn_fed(&["compact"], b"");
    let keys: Vec<String> = (100..4900).map(|n| format!("key{n:06}")).collect();
    for some in keys.chunks(1600) {
        let args: Vec<&str> =
            ["delete"].into_iter().chain(some.iter().map(String::as_str)).collect();
        t.firn_fed(&args, b"");
    }
    let range = ["--from", "key000100", "--to", "key004901", "--limit", "1"];
    let e = t.explained(&range);
    assert_eq!(
        (e["reads"][0]["found"].as_u64(), e["reads"][0]["total"]["tombstones"].as_u64()),
        (Some(1), Some(4800)),
        "{e:#}"
    );
    let said = e["stands_out"][0].as_str().unwrap();
    assert!(
        said.starts_with(
            "passed 4,800 tombstones of default (all in memtables) for 1 key: `firn --db db compact"
        ),
        "{said}"
    );
    // The advised command removes the cause.
    let command: Vec<&str> = said.split('`').nth(1).unwrap().split(' ').skip(1).collect();
    Ran::of(t.firn_with(&command, b"")).good();
    let e = t.explained(&range);
    assert_eq!(
        (e["reads"][0]["found"].as_u64(), e["reads"][0]["total"]["tombstones"].as_u64()),
        (Some(1), Some(0)),
        "{e:#}"
    );
    assert_eq!(e["stands_out"], serde_json::json!([]));
    // A range deletion, and the entries under it.
    t.firn_fed(&["delete", "--from", "key000000", "--to", "key000090", "--yes"], b"");
    let e = t.explained(&["--prefix", "key0000", "--limit", "1"]);
    let all = &e["reads"][0]["total"];
    assert_eq!(
        (all["range_deletions"].as_u64(), all["beneath_range_deletions"].as_u64()),
        (Some(1), Some(90)),
        "{e:#}"
    );
    let e = t.explained(&["key000050"]);
    assert_eq!(
        (e["reads"][0]["found"].as_u64(), e["reads"][0]["total"]["covered_by"].is_u64()),
        (Some(0), true)
    );
    assert!(e["stands_out"][0].as_str().unwrap().contains("range deletion of default"), "{e:#}");
}

#[test]
fn statements_are_told_in_the_types_of_their_tables() {
    let t = Temp::new("explain", "cql");
    let made = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; USE shop; \
        CREATE TABLE items (id int, at int, name text, PRIMARY KEY (id, at)); CREATE INDEX by_name ON items (name);";
    t.firn_fed(&["cql", "-e", made], b"");
    let rows: String = (0..300)
        .map(|n| {
            format!(
                "INSERT INTO shop.items (id, at, name) VALUES ({}, {n}, 'n{}');\n",
                n % 3,
                n % 10
            )
        })
        .collect();
    t.firn_fed(&["cql"], rows.as_bytes());
    t.firn_fed(&["compact"], b"");
    let select = "SELECT * FROM items WHERE id = 1";
    let e = t.explained(&["--cql", select, "-k", "shop"]);
    assert_eq!(
        (e["rows"].as_u64(), e["reads"][0]["partition"].as_str()),
        (Some(100), Some("id = 1")),
        "{e:#}"
    );
    assert_eq!(e["reads"][0]["of"], "table shop.items");
    let cells = e["reads"][0]["cells"].as_u64().unwrap();
    assert!(e["reads"][0]["total"]["puts"].as_u64().unwrap() >= cells && cells >= 100, "{e:#}");
    assert!(e["reads"][0]["part"].is_null(), "{e:#}");
    // The read part of a partition is shown in the types of the clustering columns.
    let part = |clause: &str| {
        let e =
            t.explained(&["--cql", &format!("SELECT * FROM shop.items WHERE id = 1 AND {clause}")]);
        e["reads"][0]["part"].as_str().unwrap_or_else(|| panic!("{clause}: {e:#}")).to_owned()
    };
    // A row with one regular column is read by one get.
    assert_eq!(part("at = 4"), "row at = 4, column name");
    assert_eq!(part("at > 4 AND at <= 7"), "rows after at = 4 to at = 7");
    assert_eq!(part("at >= -4"), "rows from at = -4");
    assert_eq!(part("at < 7"), "rows before at = 7");
    let text =
        t.firn_fed(&["explain", "--cql", "SELECT * FROM shop.items WHERE id = 1 AND at = 4"], b"");
    assert!(text.contains("partition id = 1, row at = 4, column name: "), "{text}");
    // An index: its entries, and a lookup of each row.
    let e = t.explained(&["--cql", "SELECT * FROM shop.items WHERE name = 'n3'"]);
    let of: Vec<&str> =
        e["reads"].as_array().unwrap().iter().map(|r| r["of"].as_str().unwrap()).collect();
    assert_eq!(e["rows"].as_u64(), Some(30));
    assert!(
        of.contains(&"index by_name on table shop.items") && of.contains(&"table shop.items"),
        "{of:?}"
    );
    // Deleted rows are cells that remain for their grace period. The advice names the command for
    // details.
    t.firn_fed(
        &[
            "cql",
            "-e",
            &(0..300)
                .map(|n| format!("DELETE FROM shop.items WHERE id = 1 AND at = {n};"))
                .collect::<String>(),
        ],
        b"",
    );
    let text = t.firn_fed(&["explain", "--cql", select, "-k", "shop"], b"");
    assert!(
        text.starts_with("0 rows, ")
            && text.contains("partition id = 1")
            && text.contains("`firn --db db purge-report -k shop -f items`"),
        "{text}"
    );
    // If deletions exist, a get also looks for that of its row. The cell that it finds is deleted, so
    // the row is read as a whole, with all deletions from the begin of the partition on.
    let e = t.explained(&["--cql", "SELECT * FROM shop.items WHERE id = 1 AND at = 4"]);
    let parts: Vec<&str> =
        e["reads"].as_array().unwrap().iter().map(|r| r["part"].as_str().unwrap()).collect();
    let row = ["row at = 4", "row at = 4, column name", "deletions, and rows to at = 4"];
    assert_eq!(parts, row, "{e:#}");
    let Ran(code, _, err) =
        Ran::of(t.run("db", &["explain", "--cql", "SELECT * FROM shop.nothing"], b""));
    assert!(code == 2 && err.contains("table nothing does not exist"), "{err}");
    // A statement that writes is refused, and changes nothing.
    let Ran(code, _, err) =
        Ran::of(t.run("db", &["explain", "--cql", "DELETE FROM shop.items WHERE id = 2"], b""));
    assert!(code == 2 && err.contains("this statement does not read"), "{err}");
    assert_eq!(
        t.explained(&["--cql", "SELECT * FROM shop.items WHERE id = 2"])["rows"].as_u64(),
        Some(100)
    );
}

#[test]
fn blob_reads_are_recorded_with_their_file() {
    let t = Temp::new("explain", "apart");
    let long = "v".repeat(5000);
    t.firn_fed(&["put", "pear", "short"], b"");
    t.firn_fed(&["set-options", "default", "blob_threshold=1k"], b"");
    t.firn_fed(&["put", "apple", &long], b"");
    t.firn_fed(&["compact"], b"");
    let e = t.explained(&["apple"]);
    let values = e["reads"][0]["total"]["values"].as_array().unwrap();
    assert_eq!(values.len(), 1, "{e:#}");
    let file = values[0]["file"].as_str().unwrap();
    assert_eq!(file, format!("{:08}.sst", values[0]["table"].as_u64().unwrap()));
    assert!(
        t.path("db").join(file).metadata().unwrap().len() > values[0]["bytes"].as_u64().unwrap()
    );
    assert_ne!(values[0]["table"], e["reads"][0]["total"]["blocks"][0]["table"]);
    let text = t.firn_fed(&["explain", "apple"], b"");
    assert!(text.contains(&format!("1 value of {file} from the ")), "{text}");
    let e = t.explained(&["pear"]);
    assert_eq!(e["reads"][0]["total"]["values"], serde_json::json!([]));
}
