//! Tests `firn import --cassandra` with files of real nodes. CQL returns the answers of the node,
//! and every cell and deletion has the times of the files.
#![allow(clippy::disallowed_methods, missing_docs)] // the tests copy and damage the files that a user would name

use super::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::Temp;
use firn_cassandra::{
    HeaderColumn, LeastTimes, MarshalClass, NodeCell, NodeCellState, NodeColumn, NodeEvent,
    NodeExpiry, NodeFolder, NodeHeader, NodeLiveness, NodePartition, NodeRow, NodeTable,
    NodeTableWriter, WriteOptions,
};
use firn_cql::Session;
use firn_wide::internals::cell::CellState;
use firn_wide::internals::store::{Body, ManualClock, Partitions, StoreSlice};
use firn_wide::{Options, StoreOptions};
use serde_json::Value;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cassandra-files/tests")
}

/// Returns the definitions of the node's tables, from `tables.cql`.
fn schema() -> String {
    let all = fs::read_to_string(data().join("make/tables.cql")).unwrap();
    let defines = |l: &&str| l.starts_with("CREATE TYPE") || l.starts_with("CREATE TABLE");
    all.lines().filter(defines).map(|l| format!("{l}\n")).collect()
}

/// Creates a node's folder in `dir` with a table of the test data.
fn node(temp: &Temp, version: &str, table: &str) -> String {
    let place = format!("data/look/{table}-0123456789abcdef0123456789abcdef");
    fs::create_dir_all(temp.path(&place)).unwrap();
    for entry in fs::read_dir(data().join("data").join(version).join(table)).unwrap() {
        let from = entry.unwrap().path();
        if !matches!(from.extension().and_then(|e| e.to_str()), Some("rows" | "jsonl")) {
            fs::copy(&from, temp.path(&place).join(from.file_name().unwrap())).unwrap();
        }
    }
    place
}

fn run(temp: &Temp, args: &[&str]) -> (i32, String, String) {
    let done = temp.run("db", args, b"");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code().unwrap(), text(&done.stdout), text(&done.stderr))
}

/// Opens the store at the time of the node's answers: some cells will expire.
fn open(temp: &Temp) -> Session {
    let clock = Arc::new(ManualClock::new(1_795_660_000_000_000));
    let store = StoreOptions { clock: Some(clock), ..StoreOptions::default() };
    let options = Options { store, ..Options::default() };
    Session::open_with(temp.path("db"), options).unwrap()
}

/// Returns the result of `SELECT JSON *`.
fn rows(session: &Session, table: &str) -> Vec<Value> {
    let all = session.execute(&format!("SELECT JSON * FROM look.{table}"), ()).unwrap();
    let texts: Vec<(String,)> = all.typed().unwrap();
    texts.iter().map(|t| serde_json::from_str(&t.0).unwrap()).collect()
}

#[test]
fn cql_answers_as_the_node_did() {
    for (version, tables) in [
        ("nb", &["types", "collections", "ranges", "counters", "many", "keys", "paths"][..]),
        ("me", &["collections"]),
        ("oa", &["ranges"]),
        ("da", &["ranges", "collections"]),
    ] {
        let temp = Temp::new("cassandra", &format!("answers-{version}"));
        fs::write(temp.path("schema.cql"), schema()).unwrap();
        let places: Vec<String> = tables.iter().map(|t| node(&temp, version, t)).collect();
        let mut args = vec!["import", "--schema", "schema.cql", "--cassandra"];
        args.extend(places.iter().map(String::as_str));
        let (code, _, output) = run(&temp, &args);
        assert_eq!(code, 0, "{output}");
        let session = open(&temp);
        for table in tables {
            let said = data().join("data").join(version).join(table).join(format!("{table}.rows"));
            let said = fs::read_to_string(said).unwrap();
            let said: Vec<Value> = said.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
            assert_eq!(rows(&session, table), said, "{version} {table}");
        }
    }
}

/// Kind, timestamp, time to live, second of expiry or deletion.
type Times = (&'static str, i64, u32, i64);

fn times_of_files(place: &Path) -> Vec<Times> {
    let mut all = vec![];
    let mut files: Vec<_> = fs::read_dir(place).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|f| NodeFolder::is_data(f)) {
        let folder = NodeFolder::of(file).unwrap();
        let mut reader = NodeTable::open(&folder).unwrap().read(&folder).unwrap();
        while let Some(event) = reader.advance().unwrap() {
            match event {
                NodeEvent::Partition(p) => {
                    all.extend(p.deletion.map(|d| ("partition", d.timestamp, 0, d.local)));
                }
                NodeEvent::Marker(m) => {
                    all.extend(m.close.map(|(_, d)| ("range", d.timestamp, 0, d.local)));
                }
                NodeEvent::Row(r) => {
                    all.extend(r.deletion.map(|d| ("row", d.timestamp, 0, d.local)));
                    let expiry = r.liveness.and_then(|l| l.expiry);
                    all.extend(r.liveness.map(|l| match expiry {
                        None => ("live", l.timestamp, 0, 0),
                        Some(e) => ("expiring", l.timestamp, e.ttl, e.expires),
                    }));
                    for c in &r.columns {
                        all.extend(c.deletion.map(|d| ("complex", d.timestamp, 0, d.local)));
                        all.extend(c.cells.iter().map(|cell| match &cell.state {
                            NodeCellState::Live(_) => ("live", cell.timestamp, 0, 0),
                            NodeCellState::Expiring(_, e) => {
                                ("expiring", cell.timestamp, e.ttl, e.expires)
                            }
                            NodeCellState::Deleted(at) => ("tombstone", cell.timestamp, 0, *at),
                        }));
                    }
                }
            }
        }
    }
    all.sort_unstable();
    all
}

fn times_of_store(session: &Session, table: &str) -> Vec<Times> {
    let engine = session.engine();
    let schema = engine.catalog().keyspace("look").unwrap().table(table).unwrap().clone();
    let family = engine.family(&schema).unwrap();
    let slice = StoreSlice::all().raw();
    let mut reader = engine.store().scan(&family, &Partitions::all(), &slice).unwrap();
    let mut all = vec![];
    while reader.next_partition().unwrap() {
        while let Some(item) = reader.next().unwrap() {
            all.push(match item.body {
                Body::Cell(cell) => match cell.state {
                    CellState::Live(_) => ("live", cell.timestamp, 0, 0),
                    CellState::Expiring { ttl, expires, .. } => {
                        ("expiring", cell.timestamp, ttl, expires)
                    }
                    CellState::Tombstone { deleted } => ("tombstone", cell.timestamp, 0, deleted),
                    CellState::Counter(_) => ("counter", cell.timestamp, 0, 0),
                },
                Body::PartitionDeletion(d) => ("partition", d.timestamp, 0, d.local),
                Body::RowDeletion(d) => ("row", d.timestamp, 0, d.local),
                Body::ComplexDeletion(d) => ("complex", d.timestamp, 0, d.local),
                Body::RangeDeletion { deletion: d, .. } => ("range", d.timestamp, 0, d.local),
            });
        }
    }
    all.sort_unstable();
    all
}

#[test]
fn every_time_is_carried_and_types_come_from_the_files() {
    let temp = Temp::new("cassandra", "times");
    for table in ["types", "collections", "many", "chunks"] {
        let place = node(&temp, "nb", table);
        // Chunks end in the middle of partitions and rows.
        let (code, _, output) = run(&temp, &["import", "--chunk", "2", "--cassandra", &place]);
        assert_eq!(code, 0, "{output}");
        let session = open(&temp);
        let (found, said) = (times_of_store(&session, table), times_of_files(&temp.path(&place)));
        assert_eq!(found, said, "{table}");
        session.close().unwrap();
        drop(session);
        // A repeated import changes nothing.
        assert_eq!(run(&temp, &["import", "--cassandra", &place]).0, 0);
        let session = open(&temp);
        assert_eq!(times_of_store(&session, table), said, "{table}");
    }
    let session = open(&temp);
    let select = "SELECT WRITETIME(fl) FROM look.collections WHERE key = 'whole' AND column1 = 1";
    let one: Vec<(i64,)> = session.execute(select, ()).unwrap().typed().unwrap();
    assert_eq!(one, [(1_700_000_000_000_001,)]);
}

#[test]
fn files_of_one_table_are_merged_and_deletions_go_on_deleting() {
    let temp = Temp::new("cassandra", "merge");
    fs::write(temp.path("schema.cql"), schema()).unwrap();
    let place = node(&temp, "nb", "ranges");
    let files = ["nb-2-big-Data.db", "nb-1-big-Data.db"].map(|f| format!("{place}/{f}"));
    // Functions of nodes are in Java, and the files do not need them.
    let java = "CREATE FUNCTION look.f(a int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return a;';\n";
    let with_java = format!("{}{java}", schema());
    fs::write(temp.path("java.cql"), with_java).unwrap();
    let (code, _, output) =
        run(&temp, &["import", "--schema", "java.cql", "--cassandra", &files[0]]);
    assert!(code == 0 && output.contains("a function is left out"), "{output}");
    // Imports one after the other, the later one first.
    for file in &files {
        let args = ["import", "--schema", "schema.cql", "--cassandra", file];
        let (code, _, output) = run(&temp, &args);
        assert_eq!(code, 0, "{output}");
    }
    let (code, out, _) = run(&temp, &["purge-report", "--keyspace", "look", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    let ranges = report.as_array().unwrap().iter().find(|r| r["family"] == "ranges").unwrap();
    let droppable: i64 =
        ranges["tables"].as_array().unwrap().iter().map(|t| t["droppable"].as_i64().unwrap()).sum();
    assert!(code == 0 && droppable >= 8, "{ranges}");
    let session = open(&temp);
    let said = fs::read_to_string(data().join("data/nb/ranges/ranges.rows")).unwrap();
    let said: Vec<Value> = said.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(rows(&session, "ranges"), said);
    // The range from 2 to 4 was deleted at 200, the range after 4 to 7 at 300.
    for (c, at, lives) in [(4, 200, false), (4, 201, true), (6, 300, false), (6, 301, true)] {
        let insert = format!(
            "INSERT INTO look.ranges (a, b, c, d, e) VALUES (1, 'one', {c}, 'late', 0) USING TIMESTAMP {at}"
        );
        session.execute(&insert, ()).unwrap();
        let there = rows(&session, "ranges").iter().any(|r| r["c"] == c && r["d"] == "late");
        assert_eq!(there, lives, "{c} at {at}");
    }
}

/// Writes a table `look.overflowed` of version `nb` with one row that expires at the second
/// `expires`.
fn write_expiring(temp: &Temp, ttl: u32, expires: i64) -> String {
    let place = "data/look/overflowed-0123456789abcdef0123456789abcdef".to_owned();
    let _ = fs::remove_dir_all(temp.path(&place));
    fs::create_dir_all(temp.path(&place)).unwrap();
    let files = NodeFolder::numbered(&temp.path(&place), 1);
    let class = |name: &str| MarshalClass::parse(name).unwrap();
    let header = NodeHeader::new(
        "org.apache.cassandra.dht.Murmur3Partitioner".to_owned(),
        class("Int32Type"),
        vec![],
        vec![],
        vec![HeaderColumn { name: b"v".to_vec(), class: class("Int32Type") }],
        LeastTimes { second: expires.min(0), ..LeastTimes::default() },
    );
    let hash = |_: &[u8]| [0, 0];
    let options = WriteOptions { compressed: true, filter_chance: 0.01, index_interval: 128, hash };
    let mut writer = NodeTableWriter::create(files, header, options).unwrap();
    let key = 1i32.to_be_bytes().to_vec();
    writer
        .event(&NodeEvent::Partition(NodePartition { key, deletion: None, position: 0 }))
        .unwrap();
    let expiry = NodeExpiry { ttl, expires };
    let state = NodeCellState::Expiring(7i32.to_be_bytes().to_vec(), expiry);
    let cell = NodeCell { path: None, timestamp: 1_517_000_000_000_001, state };
    let row = NodeRow {
        is_static: false,
        clustering: vec![],
        liveness: Some(NodeLiveness { timestamp: 1_517_000_000_000_000, expiry: Some(expiry) }),
        deletion: None,
        columns: vec![NodeColumn { column: 0, deletion: None, cells: vec![cell] }],
        position: 0,
    };
    writer.event(&NodeEvent::Row(row)).unwrap();
    writer.finish().unwrap();
    place
}

#[test]
fn an_end_that_overflowed_loses_nothing() {
    let twenty_years = 630_720_000u32;
    let cases = [
        // 2018-01-26 plus twenty years, in 32 bits: the node wrote a second of 1901.
        (twenty_years, i64::from((1_517_000_000 + twenty_years).cast_signed()), true),
        (100, -1, true),
        (100, 99, true),
        (i32::MAX as u32, 99, false), // the node's mark of a value that has expired
        (twenty_years, 2_147_483_646, false),
    ];
    for (n, (ttl, expires, overflowed)) in cases.into_iter().enumerate() {
        let temp = Temp::new("cassandra", &format!("overflowed-{n}"));
        let place = write_expiring(&temp, ttl, expires);
        let (code, _, said) = run(&temp, &["import", "--cassandra", &place]);
        let notes = said.contains("2 cells and rows with a time to live whose end overflowed");
        assert!(code == 0 && notes == overflowed, "{said}");
        assert_eq!(run(&temp, &["compact"]).0, 0);
        let session = open(&temp);
        let lives = overflowed || expires > 1_795_660_000;
        let found = rows(&session, "overflowed").len();
        assert_eq!(found, usize::from(lives), "{ttl} {expires}");
    }
}

#[test]
fn counters_go_into_empty_tables_only() {
    let temp = Temp::new("cassandra", "counters");
    let place = node(&temp, "nb", "counters");
    // The same file twice is like two nodes with one replica: shards are merged, not added.
    for entry in fs::read_dir(temp.path(&place)).unwrap().map(|e| e.unwrap().path()) {
        let name = entry.file_name().unwrap().to_str().unwrap().replace("nb-1-", "nb-2-");
        fs::copy(&entry, entry.with_file_name(name)).unwrap();
    }
    assert_eq!(run(&temp, &["import", "--cassandra", &place]).0, 0);
    let session = open(&temp);
    let found = rows(&session, "counters");
    let expected = [
        serde_json::json!({"key": 1, "column1": "a", "s": 9, "m": null, "n": 42}),
        serde_json::json!({"key": 1, "column1": "b", "s": 9, "m": null, "n": 1}),
    ];
    assert_eq!(found, expected);
    session.close().unwrap();
    drop(session);
    let (code, _, output) = run(&temp, &["import", "--cassandra", &place]);
    assert!(code == 2 && output.contains("look.counters has counters already"), "{output}");
}

#[test]
fn an_impossible_import_is_reported_before_the_first_write() {
    let temp = Temp::new("cassandra", "refused");
    let place = node(&temp, "nb", "ranges");
    let refused = |args: &[&str], words: &str| {
        let (code, _, output) = run(&temp, &[&["import", "--cassandra"], args].concat());
        assert!(code == 2 && output.contains(words) && output.contains(" next: "), "{output}");
    };
    fs::create_dir(temp.path("empty")).unwrap();
    refused(&["empty"], "empty has no tables of Cassandra");
    refused(&["nb-1-big-Data.db"], "the folder of nb-1-big-Data.db does not name a table");
    let statistics = temp.path(&format!("{place}/nb-2-big-Statistics.db"));
    let sound = fs::read(&statistics).unwrap();
    let mut bytes = sound.clone();
    bytes[9] ^= 1;
    fs::write(&statistics, &bytes).unwrap();
    refused(&[&place], "nb-2-big-Statistics.db, byte ");
    assert!(!temp.path("db").exists());
    fs::write(&statistics, sound).unwrap();
    fs::write(
        temp.path("other.cql"),
        "CREATE TABLE look.ranges (a int, b text, PRIMARY KEY ((a, b)))",
    )
    .unwrap();
    refused(
        &[&place, "--schema", "other.cql"],
        "the primary key is int, text, int, text descending",
    );
    assert_eq!(run(&temp, &["import"]).0, 2);
}
